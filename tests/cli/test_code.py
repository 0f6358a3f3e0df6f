"""code, repl and runs against a daemon that says what it likes."""

import base64
import json
import os
import signal
import subprocess
import threading

from fake_api import Api
from harness import check, equal, main
from terminal import Terminal

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
PNG64 = base64.b64encode(PNG).decode()
EVIL = "a\x1b]0;owned\x07b\x9bc\nd\tü"
SHOWN = "a\\x1b]0;owned\\x07b\\xc2\\x9bc\nd\tü"


class CodeApi(Api):
    """`calls` are the bodies of .../code, each answered by `says`: events, then how it ends."""

    def __init__(self, listener):
        self.calls, self.contexts, self.says, self.end = [], [], [], {"reason": "completed"}
        self.wait, self.gone, self.runs, self.breaks, self.listed = False, threading.Event(), {}, False, []
        self.refusal = None  # (status, body): what code and new contexts are answered
        super().__init__(listener)

    def route(self, client, request):
        parts = request.path.strip("/").split("/")
        if parts[:2] == ["v1", "runs"]:
            return self.run(client, request, parts[2:])
        if self.refusal and request.method == "POST" and parts[3:] in (["code"], ["context"]):
            request.body()
            return client.answer(*self.refusal)
        if parts[3:] == ["code"]:
            return self.code(client, request)
        if parts[3:] == ["context"] and request.method == "GET":
            return client.answer(200, {"contexts": self.listed})
        if parts[3:4] == ["context"]:
            self.contexts.append((request.method, parts[4:], request.json()))
            return client.answer(201, {"id": "made"}) if request.method == "POST" else client.answer(204)
        return super().route(client, request)

    def code(self, client, request):
        self.calls.append(request.json())
        end = {"context": "default-python", "duration_ms": 1, "fresh": False, "replaced": False, **self.end}
        if request.headers["accept"] == "application/json":
            return client.answer(200, {"results": [], "stdout": "", "stderr": "", "error": None, **end})
        client.stream()
        for name, data in self.says:
            client.event(name, data)
        if self.wait:
            client.event("stdout", b"on\n")
            if client.is_gone():
                self.gone.set()
            return None
        client.event("done", end)
        return client.raw(b"")

    def run(self, client, request, parts):
        if request.method == "POST" and not parts:
            self.calls.append(request.json())
            self.runs[self.runs["new"]["id"]] = self.runs["new"]
            return client.answer(202 if self.calls[-1].get("async") else 200, self.runs["new"])
        if not parts:
            return client.answer(200, {"runs": [{k: v for k, v in r.items() if k not in ("result", "logs")}
                                                for r in self.runs.values()]})
        if parts[0] not in self.runs:
            return client.answer(404, {"error": "there is no such run", "code": "not_found"})
        if request.method == "DELETE" and self.runs[parts[0]]["status"] == "running":
            self.runs[parts[0]] = {**self.runs[parts[0]], "status": "cancelled"}
        if parts[1:] == ["wait"] and self.breaks:
            return client.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        if parts[1:] == ["wait"] and self.runs[parts[0]]["status"] == "running":
            return client.answer(504, {"error": "it goes on", "code": "timeout"})
        if parts[1:] == ["logs"] and ("follow", "1") in request.query:
            return self.follow(client, self.runs[parts[0]])
        return client.answer(200, self.runs[parts[0]])

    def follow(self, client, run):
        client.stream()
        for number, entry in enumerate(run["logs"], 1):
            client.event("log", {**entry, "cursor": str(number)})
        client.event("unheard-of", {"a": 1})
        if self.wait:
            if client.is_gone():
                self.gone.set()
            return None
        client.event("done", {"id": run["id"], "status": run["status"], "logs_dropped": run["logs_dropped"], "cursor": "9"})
        return client.raw(b"")


def serve(place):
    api = CodeApi(place.listen())
    place.servers.append(api)
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    return api


def put(place, name, text):
    with open(place.path(name), "w", encoding="utf-8") as file:
        file.write(text)
    return name


def usage(place):
    for line in ([], ["a", "b", "c"], ["--run", "a", "b"], ["--run", "--context", "x"], ["--input", "1", "a"], ["--memory", "1G", "a"],
                 ["--lang", "perl", "a"], ["--timeout", "soon", "a"], ["--context", "../x", "a"], ["--env", "=x", "a"],
                 ["--env", "A=1", "--context", "c", "a"], ["a", "no-such-file"], ["--run", "--input", "{", "x.py"],
                 ["--run", "--input", '1}, "timeout_ms": 1, "x": {"y": 1', "x.py"], ["--run", "--memory", "much", "x.py"]):
        put(place, "x.py", "1")
        r = place.run("code", *line)
        equal((r.returncode, r.stdout, r.stderr.startswith("berth: ")), (125, "", True), f"{line} {r.stderr}")
    for line in ([], ["--lang", "perl", "a"], ["--json", "a"], ["--context", "a/b", "a"]):
        r = place.run("repl", *line)
        equal((r.returncode, r.stdout), (125, ""), f"{line} {r.stderr}")
    for line in (["show"], ["ls", "x"], ["fly", "x"], ["--status", "odd"], ["--limit", "x"], ["show", "../x"], ["--bogus", "show", "r"]):
        r = place.run("runs", *line)
        equal((r.returncode, r.stdout), (2, ""), f"{line} {r.stderr}")
    for line in (["wait"], ["wait", "../x"], ["wait", "--timeout", "x", "r"], ["wait", "r", "--bogus"], ["wait", "r", "s"]):
        r = place.run("runs", *line)
        equal((r.returncode, r.stdout), (125, ""), f"{line} {r.stderr}")


def languages(place):
    api = serve(place)
    for name, text, wanted in (("a.py", "1", "python"), ("a.mjs", "1", "javascript"), ("a.ts", "1", "typescript"), ("a.sh", "1", "bash"),
                               ("a", "#!/usr/bin/env node\n1", "javascript"), ("b", "#!/bin/sh\n", "bash"), ("c", "1", "python"),
                               ("d", "#!/usr/bin/python3 -u\n", "python"), ("e.py", "#!/bin/sh\n", "python")):
        r = place.run("code", "box", put(place, name, text))
        equal((r.returncode, r.stderr), (0, ""), name)
        equal(api.calls[-1], {"code": text, "language": wanted, "file": name})
    r = place.run("code", "--lang", "js", "--timeout", "2s", "--context", "work", "box", "-", input="2")
    equal((r.returncode, api.calls[-1]), (0, {"code": "2", "language": "javascript", "timeout_ms": 2000, "context": "work"}), r.stderr)
    equal(api.contexts, [], "contexts that were made")
    r = place.run("code", "--env", "A=1", "--env", "A=2", "--env", "HOME", "box", input="2")
    equal((r.returncode, api.calls[-1]["context"]), (0, "made"), r.stderr)
    equal(api.contexts, [("POST", [], {"language": "python", "env": {"A": "2", "HOME": place.dir}}), ("DELETE", ["made"], {})])


def shows(place):
    api = serve(place)
    put(place, "x.py", "1")
    api.says = [("stdout", b"\x1b[1mout\n"), ("stderr", b"err\n"), ("result", {"text": EVIL, "is_value": True}),
                ("news", {"of": "later"}), ("result", {"markdown": "# m", "html": "<p>"}), ("result", {"json": {"a": [1]}})]
    r = place.run("code", "box", "x.py")
    equal((r.returncode, r.stdout, r.stderr), (0, "\x1b[1mout\n" + EVIL + '\n# m\n{"a": [1]}\n', "err\n"), "into a pipe: as it came")
    api.says += [("error", {"name": "E", "message": EVIL, "traceback": ["first", EVIL]})]
    with Terminal([place.berth, "code", "box", "x.py"], place.dir, {**place.env, "TERM": "xterm"}) as terminal:
        code, shown = terminal.end()
    shown = shown.replace(b"\r\n", b"\n").decode()
    equal((code, shown), (1, "\x1b[1mout\nerr\n" + SHOWN + '\n# m\n{"a": [1]}\nfirst\n' + SHOWN + "\n"), "on a terminal")
    api.says = [("error", {"name": "TypeError", "message": "no", "traceback": []})]
    r = place.run("code", "box", "x.py")
    equal((r.returncode, r.stdout, r.stderr), (1, "", "TypeError: no\n"))
    api.says = [("error", {"error": "there is a flood", "code": "internal"})]
    r = place.run("code", "box", "x.py")
    equal((r.returncode, r.stderr), (125, "berth: there is a flood (internal)\n"))
    for odd in (("result", "no json"), ("stdout", "#"), ("done", {"no": "reason"}), ("result", {"png": 1})):
        api.says = [odd]
        r = place.run("code", "box", "x.py")
        equal((r.returncode, "cannot be understood" in r.stderr), (125, True), odd)


def pictures(place):
    api = serve(place)
    put(place, "x.py", "1")
    api.says = [("result", {"text": "<Figure>", "png": PNG64})]

    def show(*flags, **env):
        with Terminal([place.berth, "code", *flags, "box", "x.py"], place.dir, {**place.env, "NO_COLOR": "1", **env}) as terminal:
            code, shown = terminal.end()
        equal(code, 0, shown)
        return shown.replace(b"\r\n", b"\n").decode()

    def saved():
        return sorted(n for n in os.listdir(place.dir) if n.startswith("result-"))
    kitty = show(TERM="xterm-kitty")
    pieces = [PNG64[i:i + 4096] for i in range(0, len(PNG64), 4096)]
    check(len(pieces) > 1, "more than one piece")
    wanted = "".join(f"\x1b_G{'a=T,f=100,' if i == 0 else ''}m={int(i + 1 < len(pieces))};{p}\x1b\\" for i, p in enumerate(pieces))
    equal(kitty, wanted + "\n", "kitty's way")
    equal(show(TERM="xterm-256color", KITTY_WINDOW_ID="1"), kitty)
    equal(show(TERM="xterm", TERM_PROGRAM="iTerm.app"), f"\x1b]1337;File=inline=1;size={len(PNG)}:{PNG64}\x07\n", "iTerm2's way")
    equal(saved(), [], "shown, and not saved")
    for number, env in enumerate(({"TERM": "xterm"}, {"TERM": "screen", "KITTY_WINDOW_ID": "1"}, {"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app"},
                                  {"TERM": "dumb", "KITTY_WINDOW_ID": "1"}, {"KITTY_WINDOW_ID": "1"}), 1):
        equal(show(**env), f"saved ./result-{number}.png\n", env)
    r = place.run("code", "box", "x.py", env={"TERM": "xterm-kitty"})
    equal((r.returncode, r.stdout, r.stderr), (0, "", "saved ./result-6.png\n"), "no terminal")
    for name in saved():
        with open(place.path(name), "rb") as file:
            equal(file.read() == PNG, True, name)
    api.says = [("result", {"text": "t", "png": PNG64, "svg": "<svg/>", "html": "<b>", "chart": {"type": "bar"}})]
    equal(show("--save", "new", TERM="xterm-kitty"), "".join(f"saved new/result-1.{e}\n" for e in ("png", "svg", "html", "chart.json")))
    api.says = [("result", {"text": "text", "png": "\x1b[2Jno base64"})]
    equal(show(TERM="xterm-kitty"), "berth: a picture was told as what is no base64\ntext\n", "no picture")
    api.says = [("result", {"jpeg": base64.b64encode(b"j").decode()})]
    equal(show(TERM="xterm-kitty"), "saved ./result-1.jpeg\n", "which kitty does not take")
    os.chmod(place.dir, 0o555)
    if os.getuid() != 0:
        r = place.run("code", "box", "x.py")
        equal((r.returncode, "cannot save" in r.stderr), (125, True), r.stderr)
    os.chmod(place.dir, 0o755)


def ends(place):
    api = serve(place)
    put(place, "x.py", "1")
    for end, code in (({"reason": "completed"}, 0), ({"reason": "timeout"}, 124), ({"reason": "oom"}, 137), ({"reason": "interrupted"}, 130),
                      ({"reason": "exited", "exit_code": 7}, 7), ({"reason": "exited", "exit_code": 0, "signal": 9}, 137),
                      ({"reason": "killed"}, 125), ({"reason": "lost"}, 125), ({"reason": "of later"}, 125)):
        api.end = end
        r = place.run("code", "box", "x.py")
        equal((r.returncode, r.stdout), (code, ""), end)
        equal(bool(r.stderr), end["reason"] not in ("completed", "of later"), r.stderr)
        r = place.run("code", "--json", "box", "x.py")
        equal((r.returncode, json.loads(r.stdout)["reason"]), (code, end["reason"]), end)
    api.end = {"reason": "timeout", "replaced": True}
    check("is gone" in place.run("code", "box", "x.py").stderr, "what was defined")
    api.end = {"reason": "timeout", "replaced": True, "message": "so \x1b it is"}
    equal(place.run("code", "box", "x.py").stderr, "berth: so ? it is\n")


def interrupt(place):
    api = serve(place)
    api.wait = True
    put(place, "x.py", "1")
    with subprocess.Popen([place.berth, "code", "box", "x.py"], env=place.env, cwd=place.dir, stdout=subprocess.PIPE) as process:
        equal(process.stdout.readline(), b"on\n")
        process.send_signal(signal.SIGINT)
        equal(process.wait(60), 130)
    check(api.gone.wait(60), "the connection was closed")


def pieces(place):
    api = serve(place)

    def repl(language, text):
        api.calls.clear()
        r = place.run("repl", "-l", language, "box", input=text)
        equal((r.returncode, r.stderr, r.stdout), (0, "", ""), text)
        return [c["code"] for c in api.calls]
    for language, wanted in (
            ("python", ["a = 1\n", "def f():\n  return 1\n\n", "x = [\n\n1]\n", '"""a\n\nb"""\n', "@d\ndef g(): pass\n\n", "'(' # (\n", "y = 1 + \\\n2\n", "{'a': 1}\n"]),
            ("javascript", ["let a = 1\n", "function f() {\n\n  return '}'\n}\n", "`a\n${b}`\n", "/* {\n*/ 1 // {\n", "g(\n)\n"]),
            ("typescript", ["type A = {\n  a: 1 }\n"]),
            ("bash", ["a=1\n", "if true; then\n echo fi\nfi\n", "for i in 1 2; do\necho $i; done\n", "case a in\na) echo;;\nesac\n", "f() {\necho\n}\n",
                      "echo 'a\n\nb'\n", "echo \"${#a}\" if do\n", "echo a\\\nb\n", "while read x; do :; done </dev/null\n"])):
        equal(repl(language, "".join(wanted)), wanted, language)
    equal(repl("python", "\n  \n"), [], "nothing")
    equal(repl("python", "if 1:\n  a"), ["if 1:\n  a\n"], "the end ends it")
    api.end = {"reason": "oom"}
    equal(place.run("repl", "box", input="1\n").returncode, 137)


def commands(place):
    api = serve(place)
    put(place, "in.py", "loaded = 1")
    r = place.run("repl", "box", input="a\n.load in.py\n.save out.py\n.save out.py\n.load none\n.odd\n.load\n.reset\n.exit\nb\n")
    equal([c["code"] for c in api.calls], ["a\n", "loaded = 1"], r.stderr)
    with open(place.path("out.py"), encoding="utf-8") as file:
        equal(file.read(), "a\nloaded = 1\n")
    equal(r.stderr.count("berth: "), 4, r.stderr)
    equal(api.contexts, [("DELETE", ["default-python"], {})])
    api.contexts.clear()
    api.listed = [{"id": "work", "language": "javascript", "cwd": "/srv"}]
    r = place.run("repl", "-c", "work", "box", input="f(\n1)\n.reset\n.help\n")
    equal((api.calls[-1]["code"], api.calls[-1]["language"]), ("f(\n1)\n", "javascript"), r.stderr)
    equal([c[:2] for c in api.contexts], [("DELETE", ["work"]), ("POST", [])], r.stderr)
    equal(api.contexts[1][2], {"id": "work", "language": "javascript", "cwd": "/srv"})
    for line in (["-c", "work", "-l", "python"], ["-c", "none"]):
        api.contexts.clear()
        bad = place.run("repl", *line, "box", input=".reset\n")
        equal((bad.returncode, bad.stdout, api.contexts), (125, "", []), bad.stderr)
    check(".save  FILE" in r.stdout, r.stdout)


def typed(place):
    api = serve(place)
    env = {**place.env, "TERM": "xterm", "XDG_STATE_HOME": place.path("state"), "LC_ALL": "C.UTF-8"}

    def begin():
        return Terminal([place.berth, "repl", "box"], place.dir, env)
    with begin() as t:
        at = t.wait_for(b">>> ")
        t.type("x = 'ü'\n".encode())
        at = t.wait_for(b">>> ", at)
        t.type(b"def f():\n")
        at = t.wait_for(b"... ", at)
        t.type(b"  return 1\n")
        at = t.wait_for(b"... ", at)
        t.type(b"\n")
        at = t.wait_for(b">>> ", at)
        t.type(b"half a li\x03")
        at = t.wait_for(b">>> ", at)
        t.type(b"\x10\x10\x10\x05 #\n")  # up, up, up, end; the mark is painted with each
        at = t.wait_for(b"#\r\n", at)
        at = t.wait_for(b">>> ", at)
        api.wait = True
        t.type(b"loop()\n")
        at = t.wait_for(b"on\r\n", at)
        t.type(b"\x03")
        at = t.wait_for(b"interrupted", at)
        at = t.wait_for(b">>> ", at)
        t.type(b"\x04")
        equal(t.end()[0], 0, t.shown[-3000:])
    equal([c["code"] for c in api.calls], ["x = 'ü'\n", "def f():\n  return 1\n\n", "x = 'ü' #\n", "loop()\n"])
    check(api.gone.wait(60), "the call was left")
    kept = place.path("state", "berth", "history-python")
    equal(os.stat(kept).st_mode & 0o777, 0o600, "of nobody else's interest")
    api.wait = False
    with begin() as t:
        at = t.wait_for(b">>> ")
        t.type(b"\x10\n")
        at = t.wait_for(b"loop()", at)
        at = t.wait_for(b"\n", at)
        at = t.wait_for(b">>> ", at)
        t.type(b".exit\n")
        equal(t.end()[0], 0, t.shown[-3000:])
    equal(api.calls[-1]["code"], "loop()\n", "what was typed before")


RUN = {"id": "r1", "task_id": None, "status": "completed", "language": "python", "result": {"a": 1}, "error": None, "tests": [], "logs_dropped": 0,
       "logs": [{"level": "stdout", "message": "out", "timestamp": "t"}, {"level": "error", "message": "err\x1b", "timestamp": "t"}],
       "metrics": {"duration_ms": 1234, "cpu_ms": 3, "memory_peak_bytes": 4096}, "trust": None, "created_at": "2026-01-02T03:04:05.678Z",
       "started_at": None, "ended_at": None, "sandbox": "r1", "pooled": False}
FAILED = {**RUN, "id": "r2", "status": "failed", "result": None, "trust": "low",
          "error": {"code": "CODE_ERROR", "name": "E", "message": "no\x1b", "stack": "at x.js:1"}}


def runs(place):
    api = serve(place)
    put(place, "x.js", "1")
    api.runs = {"new": RUN, "r1": RUN, "r2": FAILED, "r3": {**RUN, "id": "r3", "status": "timed_out"}, "r4": {**RUN, "id": "r4", "status": "running"},
                "r5": {**FAILED, "id": "r5", "error": {"code": "SANDBOX_MEMORY_LIMIT", "message": "m"}}, "r6": {**RUN, "id": "r6", "status": "lost"},
                "r7": {**RUN, "id": "r7", "tests": [{"passed": True}, {"passed": False}]}}
    r = place.run("code", "--run", "--input", '[1, {"a": null}]', "--env", "A=b", "--timeout", "2s", "--memory", "64M", "--trust", "low", "x.js")
    equal((r.returncode, r.stdout, r.stderr), (0, 'out\n{"a": 1}\n', "err\x1b\n"))
    equal(api.calls[-1], {"code": "1", "language": "javascript", "input": [1, {"a": None}], "env": {"A": "b"}, "timeout_ms": 2000,
                          "limits": {"memory": "64M"}, "trust": "low", "async": True})
    api.runs["new"] = {**RUN, "result": EVIL}
    r = place.run("code", "--run", "x.js")
    equal((r.returncode, r.stdout, "input" in api.calls[-1]), (0, f"out\n{EVIL}\n", False), "a text without its quotes")
    r = place.run("code", "--run", "--input", "null", "x.js")
    equal(api.calls[-1]["input"], None, "null is a value")
    with Terminal([place.berth, "code", "--run", "x.js"], place.dir, {**place.env, "TERM": "xterm"}) as t:
        equal(t.end()[1].replace(b"\r\n", b"\n").decode(), f"out\nerr\\x1b\n{SHOWN}\n", "on a terminal")
    equal(json.loads(place.run("code", "--run", "--json", "x.js").stdout)["id"], "r1")
    check("async" not in api.calls[-1], "one answer for all of it")
    lines = place.run("runs").stdout.splitlines()
    equal((lines[0].split(), len(lines)), (["RUN", "STATUS", "LANGUAGE", "AGE", "TOOK", "TRUST"], 9), lines)
    equal((lines[3].split()[:3], lines[3].split()[-3:]), (["r2", "failed", "python"], ["1.234", "s", "low"]), lines[3])
    place.run("runs", "--status", "failed", "--limit", "3", "-q")
    equal(api.targets[-1], "/v1/runs?limit=3&status=failed")
    for name, code in (("r1", 0), ("r2", 1), ("r3", 124), ("r4", 124), ("r5", 137), ("r6", 125), ("r7", 1)):
        equal(place.run("runs", "wait", name).returncode, code, name)
    r = place.run("runs", "wait", "--timeout", "1s", "r2")
    equal((r.stdout, r.stderr), ("", "at x.js:1\nberth: CODE_ERROR: E: no?\n"))
    r = place.run("runs", "logs", "r1")
    equal((r.returncode, r.stdout, r.stderr), (0, "out\n", "err\x1b\n"))
    api.runs["r8"] = {**RUN, "id": "r8", "logs_dropped": 3}
    r = place.run("runs", "logs", "-f", "r8")
    equal((r.returncode, r.stdout, r.stderr), (0, "out\n", "err\x1b\nberth: 3 messages were too many and are not kept\n"))
    told = [json.loads(line) for line in place.run("runs", "logs", "--follow", "--json", "r8").stdout.splitlines()]
    equal((told[0], told[-1]["status"]), ({**RUN["logs"][0], "cursor": "1"}, "completed"), told)
    r = place.run("runs", "show", "r2")
    equal((r.returncode, "status             failed" in r.stdout, "CODE_ERROR" in r.stderr), (0, True, True), r.stdout)
    r = place.run("runs", "cancel", "r4")
    equal((r.returncode, r.stdout, api.requests[-1]), (0, "r4\n", ("DELETE", "/v1/runs/r4")))
    r = place.run("runs", "show", "none")
    equal((r.returncode, r.stdout), (1, ""))


def left(place):
    """Ctrl-C and a reader that goes away cancel what was begun, and not what is only looked at."""
    api = serve(place)
    put(place, "x.js", "1")
    api.runs, api.wait = {"new": {**RUN, "status": "running"}, "r1": RUN}, True
    for line, code in ((["code", "--run", "x.js"], 130), (["runs", "logs", "-f", "r1"], 130)):
        with subprocess.Popen([place.berth, *line], cwd=place.dir, env=place.env, stdout=subprocess.PIPE) as process:
            equal(process.stdout.readline(), b"out\n", line)
            process.send_signal(signal.SIGINT)
            equal(process.wait(60), code, line)
        equal(api.requests[-1][0], "DELETE" if line[0] == "code" else "GET", line)
    api.runs["new"]["logs"] = [{"level": "stdout", "message": "x" * 100000, "timestamp": "t"}] * 20
    with subprocess.Popen([place.berth, "code", "--run", "x.js"], cwd=place.dir, env=place.env, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.stdout.close()
        equal(process.wait(60), 141, "nobody reads")
    equal(api.requests[-1], ("DELETE", "/v1/runs/r1"), "cancelled")


if __name__ == "__main__":
    main([("what is wrong with a line", usage), ("languages, contexts and variables", languages), ("what is shown, and how", shows),
          ("pictures", pictures), ("exit codes", ends), ("Ctrl-C", interrupt), ("pieces of a conversation", pieces),
          ("its commands", commands), ("typed on a terminal", typed), ("runs", runs),
          ("runs that are left", left)])
