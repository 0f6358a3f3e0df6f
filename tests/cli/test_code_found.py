"""What newcomers found in code, repl and runs, against a daemon that says what it likes."""

import os

from harness import check, equal, main
from test_code import FAILED, RUN, put, serve


# Each is whole with its last line, and not before it, as bash has it.
BASH = [
    "a=1\n", "for i in 1 2\ndo\necho $i\ndone\n", "for i in 1 2; do\necho $i; done\n", "while read x\ndo\n:\ndone </dev/null\n",
    "until true\ndo :; done\n", "if true\nthen\necho fi\nelif x; then y\nelse\nz\nfi\n", "cat <<EOF\nfor i in 1\nif\nEOF\n",
    "cat <<-'A B'\n\tx $(\n\tA B\n", "cat <<A; cat <<B\na\nA\nb\nB\n", "cat <<\\EOF | wc\n'\nEOF\n", "echo $((1<<2))\n",
    "((a = 1 << 2))\n", "cat <<< 'a'\n", "echo \"a\n$(echo \"b\n)\")\n\"\n", "echo 'a\n\nb'\n", "echo $'a\\'\nb'\n",
    "echo ${#a} a#b # 'c\n", "echo `date\n`\n", "echo a |\nwc\n", "true &&\nfalse\n", "true ||\n# comment\ntrue\n", "sleep 0 &\n",
    "f()\n{\necho\n}\n", "f () ( echo\n)\n", "function g\n{\n:\n}\n", "function h { :\n}\n",
    "case a in\na) echo;;\n(b) echo\n;;\nif|for) if x; then y; fi;;\n*) case b in c) ;; esac\nesac\n", "case a in a) echo;; esac\n",
    "case x\nin\nesac\n", "a=(1\nif\n2)\n", "a=()\n", "a+=(x)\n", "[[ a == b &&\nc < d ]]\n", "if [[ a =~ ^(b|c)$ ]]; then\n:\nfi\n",
    "(cd /\nls)\n", "{ echo\n}\n", "echo if then for done { }\n", "echo $(x) if\n", "for ((i=0;i<3;i++))\ndo :; done\n",
    "for ((i=0;i<3;i++)) {\n:\n}\n", "for ((i=0;i<3;i++)); do echo $i; done\n", "select x in a b\ndo break; done\n", "echo a\\\nb\n",
    "echo \"it's\"\n", "echo ${a:-\"x\n\"}\n", "diff <(echo a\n) <(echo b)\n", "echo a >&2 2>&1 &>/dev/null\n", "! true\n",
    "time for i in 1\ndo :\ndone\n", "x=$(cat <<E\n)\nE\n)\n", "while :; do break; done | cat\n", "if true; then { echo; } fi\n",
    "echo $\n", "echo \"$\"\n", "echo {a,b} }\n", "fi\n", ")\n", "done\n", "if ((1)) then\nif true; then :; fi\nfi\n", "echo @(a|b)\n",
    "foo;\n", "$if\n", "\"if\"\n", "a=\"x\ny\" b=2\n", "let x=1\n", "echo $((1 + (2\n)))\n", "PATH=$PATH:/x\n", "\\if\n",
    "if\ttrue\nthen\t:\nfi\n",
    "case $x in\n  foo|bar)\n    for i in 1 2\n    do\n      cat <<E\ndone\nE\n    done\n    ;&\n  *)\n    f() { echo; }\n    ;;&\nesac\n",
    "while true; do\n  case $1 in a) break ;; esac\ndone\n",
]


# Each is whole with its last line, and not before it.
JAVASCRIPT = [
    "s.replace(/'/g, \"\")\n", "x.split(/[(]/)\n", "/[/'\"]/.test(s)\n", "a = /\\/(/\n", "if (a) { b = /{/ }\n", "s => /`/.exec(s)\n", "!/(/.test(s)\n",
    "() => { return /'/.test(s) }\n", "typeof /'/\n", "f(/\\(/, /[)]/, /]/)\n", "[/(/u, /[/]/]\n", "{ x: /[/*]/ }\n", "a ? /(/ : /[[]/\n",
    "4 / 2 + ' / '\n", "(a) / b + '/'\n", "a[0] / b['/']\n", "f(i++ / 2, '/')\n", "f(i-- / 2, '/')\n", "x.y / z.w / '('.length\n", "f(ü / '/')\n", "$ / '('\n",
    "f(a\n/ 2, '/')\n", "f(1. / '/')\n", "`a` / '/('\n", "/a/ / '/('\n", "f(/* ( */ /(/)\n", "1 // '\n", "f(a = / 2)\n", "/(/\n", "g(/(/\n)\n", "returned / '('\n",
]


def javascript(place):
    """A regular expression opens nothing, and a division is none."""
    api = serve(place)
    for language in ("javascript", "typescript"):
        api.calls.clear()
        r = place.run("repl", "-l", language, "box", input="".join(JAVASCRIPT))
        equal((r.returncode, r.stderr), (0, ""))
        equal([c["code"] for c in api.calls], JAVASCRIPT)
    for text in ("f(/a\n", "f(/[/\n", "f(/\\\n", "f(/"):
        place.run("repl", "-l", "js", "box", input=text)
        equal(api.calls[-1]["code"].rstrip("\n"), text.rstrip("\n"), "the end ends it")


def bash(place):
    """Commands of bash are not cut apart, and do not wait for what need not come."""
    api = serve(place)
    r = place.run("repl", "-l", "bash", "box", input="".join(BASH))
    equal((r.returncode, r.stderr), (0, ""))
    equal([c["code"] for c in api.calls], BASH)
    for text in ("for i in 1\n", "cat <<E\n", "echo 'a\n", "echo a |\n", "f()\n", "case a in\n", "echo \\\n", "(" * 1000 + "\n", "cat " + "<<E " * 100 + "\n"):
        api.calls.clear()
        place.run("repl", "-l", "bash", "box", input=text)
        equal([c["code"] for c in api.calls], [text], "the end ends it")


def sizes(place):
    """One limit, told with what is too long and what to do."""
    api = serve(place)
    api.runs = {"new": RUN}
    context = "is too long: code may have 4 MiB, as JSON; copy what it works on with `berth cp`, and read that"
    run = "is too long: the code of a run may have 1 MiB; give it what it works on by --input"
    for text, line, name, told in (("#" * (5 << 20), ["box", "x.py"], "x.py", context), ("#" * (4 << 20), ["box", "x.py"], "x.py", context),
                                   ('"' * (3 << 20), ["box", "x.py"], "x.py", context), ("#" * (5 << 20), ["box"], "standard input", context),
                                   ("#" * ((1 << 20) + 1), ["--run", "x.py"], "x.py", run), ("#" * (9 << 20), ["--run"], "standard input", run),
                                   ("'\udcff'", ["box", "x.py"], "x.py", "is no text: code must be UTF-8"),
                                   ("'\udcff'", ["--run", "x.py"], "x.py", "is no text: code must be UTF-8")):
        with open(place.path("x.py"), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        r = place.run("code", *line, input=text if name != "x.py" else "")
        equal((r.returncode, r.stdout, r.stderr), (125, "", f"berth: {name} {told}\n"), line)
    equal(api.calls, [], "nothing was sent")
    put(place, "x.py", "#" * (1 << 20))
    equal((place.run("code", "--run", "x.py").returncode, len(api.calls[-1]["code"])), (0, 1 << 20))
    put(place, "x.py", "#" * ((4 << 20) - 100))
    equal((place.run("code", "box", "x.py").returncode, len(api.calls[-1]["code"])), (0, (4 << 20) - 100))


def said_once(place):
    """Nothing is said twice, and nothing that is not so."""
    api = serve(place)
    put(place, "x.py", "1")
    error = {"code": "CODE_ERROR", "name": "ValueError", "message": "no", "stack": "Traceback:\n  line 1\nValueError: no"}
    for code, more in (("CODE_ERROR", ""), ("SANDBOX_DISK_LIMIT", "berth: SANDBOX_DISK_LIMIT\n")):
        api.runs = {"new": {**FAILED, "logs": [], "error": {**error, "code": code}}}
        r = place.run("code", "--run", "x.py")
        equal((r.returncode, r.stderr), (1, error["stack"] + "\n" + more), code)
    r = place.run("code", "--save", "x.py", "box", "x.py")
    equal((r.returncode, r.stderr, api.calls[1:]), (125, "berth: --save wants a folder, and x.py is none\n", api.calls[1:]))
    api.says = [("result", {"json": 1})]
    r = place.run("code", "--save", "x.py/y", "box", "x.py")
    equal((r.returncode, r.stderr), (125, "berth: cannot make x.py/y: Not a directory\n"))
    api.end, api.says = {"reason": "killed", "replaced": True}, []
    r = place.run("code", "box", "x.py")
    equal((r.returncode, r.stderr), (125, "berth: the context or its sandbox was stopped or removed meanwhile\n"))


def contexts(place):
    """They are listed, and removed by their IDs."""
    api = serve(place)
    api.listed = [{"id": "default-python", "language": "python", "state": "busy", "cwd": "/workspace", "default": True, "waiting": 1, "calls": 3, "pid": 5},
                  {"id": "web", "language": "javascript", "state": "ready", "cwd": "/\x1b", "default": False, "waiting": 0, "calls": 0, "pid": None}]
    lines = place.run("context", "ls", "box").stdout.splitlines()
    equal([line.split() for line in lines],
          [["CONTEXT", "LANGUAGE", "STATE", "WAITING", "CALLS", "DEFAULT", "BEGINS", "IN"],
           ["default-python", "python", "busy", "1", "3", "yes", "/workspace"], ["web", "javascript", "ready", "0", "0", "-", "/?"]])
    check('"contexts"' in place.run("context", "ls", "--json", "box").stdout, "as it came")
    api.contexts.clear()
    r = place.run("context", "rm", "box", "web", "default-python")
    equal((r.returncode, [c[:2] for c in api.contexts]), (0, [("DELETE", ["web"]), ("DELETE", ["default-python"])]), r.stderr)
    api.contexts.clear()
    r = place.run("context", "create", "--lang", "js", "--cwd", "/tmp", "-e", "A=1", "-e", "A=2", "box", "web")
    equal((r.returncode, r.stdout, r.stderr), (0, "made\n", ""))
    r = place.run("context", "create", "box", "--json")
    equal((r.returncode, r.stdout.strip().replace(" ", "")), (0, '{"id":"made"}'), r.stderr)
    equal(api.contexts, [("POST", [], {"id": "web", "language": "javascript", "cwd": "/tmp", "env": {"A": "2"}}), ("POST", [], {"language": "python"})])
    for line in ([], ["box"], ["ls"], ["rm", "box"], ["rm", "box", "../x"], ["ls", "box", "x"], ["create"], ["create", "box", "a", "b"],
                 ["create", "-l", "perl", "box"], ["create", "-e", "=x", "box"], ["create", "box", "../x"], ["ls", "-l", "js", "box"]):
        r = place.run("context", *line)
        equal((r.returncode, r.stdout), (2, ""), line)


def cancelled(place):
    """What is over cannot be cancelled."""
    api = serve(place)
    api.runs = {"r1": RUN, "r2": {**RUN, "id": "r2", "status": "running"}}
    r = place.run("runs", "cancel", "r1")
    equal((r.returncode, r.stdout, r.stderr), (0, "", "berth: there was nothing to cancel: the run r1 is over (completed)\n"))
    r = place.run("runs", "cancel", "r2")
    equal((r.returncode, r.stdout, r.stderr), (0, "r2\n", ""))
    r = place.run("runs", "cancel", "--json", "r1")
    equal((r.returncode, '"status": "completed"' in r.stdout, r.stderr), (0, True, ""), r.stdout)


def run_codes(place):
    """How a run ended, and what it was that failed: the code, or Berth."""
    api = serve(place)
    put(place, "x.py", "1")
    for error, code in (("CODE_ERROR", 1), ("SANDBOX_OUTPUT_LIMIT", 1), ("SANDBOX_DISK_LIMIT", 1), ("SANDBOX_NETWORK_BLOCKED", 1),
                        ("SANDBOX_MEMORY_LIMIT", 137), ("SANDBOX_CPU_LIMIT", 152), ("SANDBOX_SECURITY_VIOLATION", 159),
                        ("unsupported", 125), ("start_failed", 125), ("internal", 125)):
        api.runs = {"new": {**FAILED, "error": {"code": error, "message": "m"}}}
        equal(place.run("code", "--run", "x.py").returncode, code, error)
        equal(place.run("runs", "wait", "r2").returncode, code, error)
        r = place.run("runs", "wait", "--json", "r2")
        equal((r.returncode, error in r.stdout), (code, True), error)
    for run, code in (({**RUN, "tests": [], "result": None}, 125), (FAILED, 1)):
        api.runs = {"new": {**run, "truncated": True}}
        r = place.run("code", "--run", "x.py")
        equal((r.returncode, "could not be stored" in r.stderr), (code, True), r.stderr)
        equal(place.run("runs", "wait", run["id"]).returncode, code)
    for end, code in (("cpu_limit", 152), ("security_violation", 159), ("bad_report", 1)):
        api.end = {"reason": end}
        equal(place.run("code", "box", "x.py").returncode, code, end)
    for line, code in ((["wait", "none"], 125), (["show", "none"], 1), (["logs", "none"], 1), (["cancel", "none"], 1)):
        r = place.run("runs", *line)
        equal((r.returncode, r.stdout, r.stderr), (code, "", "berth: there is no such run (not_found)\n"), line)


def no_daemon(place):
    """Nobody answers, or not to the end."""
    api = serve(place)
    api.runs = {"r1": RUN}
    api.breaks = True
    equal(place.run("runs", "wait", "r1").returncode, 125, "it has gone away")
    place.env["BERTH_SOCKET"] = place.path("none.sock")
    for line, code in ((["runs", "wait", "r1"], 125), (["runs", "show", "r1"], 3), (["runs"], 3), (["code", "--run", "x.py"], 125)):
        put(place, "x.py", "1")
        r = place.run(*line)
        equal((r.returncode, "no berthd answers" in r.stderr), (code, True), (line, r.stderr))


def told_codes(place):
    """The table of exit codes is the same wherever it stands."""
    tables = []
    for verb in ("code", "repl", "runs"):
        tables.append(place.run("help", verb).stdout.split("Exit codes:\n")[1].split("\n\n")[0])
    equal(tables[1:], tables[:1] * 2)
    for code in ("0", "1", "124", "125", "130", "137", "152", "159"):
        check(f"\n  {code} " in "\n" + tables[0], code)


def nul(place):
    """A NUL in what the code says loses nothing of it."""
    api = serve(place)
    put(place, "x.py", "1")
    api.says = [("result", {"text": "a\0b"}), ("result", {"text": "no picture", "png": "AA\0A", "jpeg": "\0"}),
                ("error", {"name": "E\0", "message": "m\0", "traceback": ["first", "E: a\0b"]})]
    r = place.run("code", "box", "x.py")
    equal((r.returncode, r.stdout), (1, "a\0b\nno picture\n"), r.stderr)
    equal(r.stderr, "berth: a picture was told as what is no base64\n" * 2 + "first\nE: a\0b\n")
    equal(place.run("repl", "box", input="1\n").stderr, r.stderr)
    api.runs = {"new": {**FAILED, "logs": [{"level": "\0", "message": "out\0", "timestamp": "t"}],
                        "error": {"code": "CODE_ERROR", "name": "E\0", "message": "no\0", "stack": "at\0"}}}
    api.runs["r2"] = api.runs["new"]
    for line, code in ((["code", "--run", "x.py"], 1), (["runs", "show", "r2"], 0), (["runs", "logs", "r2"], 0), (["runs", "logs", "-f", "r2"], 0),
                       (["runs", "wait", "r2"], 1), (["runs"], 0)):
        r = place.run(*line)
        equal((r.returncode, "cannot be understood" in r.stderr, r.stdout.count("out\0\n")), (code, False, int("logs" in line or "code" in line)), line)


def many_pictures(place):
    """Code that shows pictures for ever does not fill the disk, unless --save says where they may be."""
    api = serve(place)
    put(place, "x.py", "1")
    full = "berth: no more pictures of this call are saved: 50 files, or 256 MiB, are the most without --save\n"

    def saved(folder=""):
        return len([n for n in os.listdir(place.path(folder)) if n.startswith("result-")])
    api.says = [("result", {"text": f"figure {i}", "png": "AAAA", "svg": "<svg/>"}) for i in range(60)]
    r = place.run("code", "box", "x.py")
    equal((r.returncode, r.stdout, saved()), (0, "".join(f"figure {i}\n" for i in range(50, 60)), 50), "text in place of them")
    equal(r.stderr.replace("saved ./", ""), "".join(f"result-{i}.png\n" for i in range(1, 51)) + full)
    equal((place.run("code", "box", "x.py").returncode, saved()), (0, 100), "a call of its own")
    equal((place.run("code", "--save", "all", "box", "x.py").stderr.count("saved"), saved("all")), (120, 120))
    api.says = [("result", {"text": "large", "svg": "<" * (22 << 20)})] * 12 + [("result", {"text": "small", "png": "AAAA"})]
    r = place.run("code", "box", "x.py")
    equal((r.returncode, r.stdout, r.stderr.count("saved ./"), r.stderr.count(full), saved()), (0, "large\nsmall\n", 11, 1, 111))


def languages(place):
    """What names a language that is not known is refused; what names none is Python."""
    api = serve(place)
    os.mkdir(place.path("v1.rb"))
    for name, text, wanted in (("A.PY", "1", "python"), ("x.rb", "#!/usr/bin/env -S A=1 python3.11 -u\n1", "python"), ("f.sh", "#!/usr/bin/perl\n", "bash"),
                               ("g", "#!/opt/perl/bin/node\n", "javascript"), ("h", "#! /bin/dash\n", "bash"), (".rc", "1", "python"),
                               ("i", "# perl\n", "python"), ("v1.rb/j", "1", "python"), ("./k", "1", "python"), ("l.", "1", "python")):
        r = place.run("code", "box", put(place, name, text))
        equal((r.returncode, r.stderr, api.calls[-1]["language"]), (0, "", wanted), name)
    count = len(api.calls)
    for name, text, told in (("foo.rb", "1", ".rb"), ("m", "#!/usr/bin/perl -w\n1", "perl"), ("n.v2", "#!/opt/node/bin/ruby\n", "ruby"),
                             ("o", "#!/usr/bin/env nodemon\n", "nodemon"), ("p.py.bak", "1", ".bak"), ("q.\x1b", "1", ".?")):
        for line in (["box", put(place, name, text)], ["--run", name]):
            r = place.run("code", *line)
            equal((r.returncode, r.stdout), (125, ""), name)
            equal(r.stderr, f"berth: no language is known by `{told}`: say --lang python, javascript, typescript or bash\n", name)
        r = place.run("code", "--lang", "bash", "box", name)
        equal((r.returncode, api.calls.pop()["language"]), (0, "bash"), name)
    r = place.run("code", "box", input="#!/usr/bin/perl\n")
    equal((r.returncode, "`perl`" in r.stderr, len(api.calls)), (125, True, count), r.stderr)
    equal(place.run("code", "-c", "work", "box", "foo.rb").returncode, 0, "a context has its language")


LISTED = [{"id": "web", "language": "javascript", "cwd": "/workspace"}, {"id": "typed", "language": "typescript", "cwd": "/workspace"}]


def told_language(place):
    """Code that says what it is does not run as another language because a context has that; --lang is to say so."""
    api = serve(place)
    api.listed = LISTED
    for name, text in (("a.py", "1"), ("b", "#!/usr/bin/env python3\n1"), ("c.sh", "1"), ("d.ts", "1")):
        r = place.run("code", "-c", "web", "box", put(place, name, text))
        equal((r.returncode, r.stdout, api.calls, r.stderr.count("\n")), (125, "", [], 1), r.stderr)
        check(name in r.stderr and "`web` is of javascript" in r.stderr and "--lang" in r.stderr, r.stderr)
    for context, name, text, more, sent in (("web", "e.js", "1", [], None), ("typed", "e.js", "1", [], None), ("typed", "d.ts", "1", [], None),
                                            ("web", "f", "1", [], None), ("web", "g.rb", "1", [], None), ("web", "a.py", "1", ["-l", "js"], "javascript")):
        r = place.run("code", *more, "-c", context, "box", put(place, name, text))
        equal((r.returncode, r.stderr, api.calls.pop().get("language")), (0, "", sent), (context, name))
    r = place.run("code", "-c", "web", "box", input="1")
    equal((r.returncode, api.calls.pop()), (0, {"code": "1", "context": "web"}), r.stderr)
    r = place.run("code", "-c", "web", "box", input="#!/usr/bin/python3\n1")
    equal((r.returncode, "standard input is python" in r.stderr, api.calls), (125, True, []), r.stderr)


def absent_context(place):
    """One that is not there, or is already, is told by the words of `berth`; the API's are for --json."""
    api = serve(place)
    api.listed = LISTED
    put(place, "a.py", "1")
    missing = "berth: there is no context `nope`: `berth context ls` lists them, and `berth context create` makes one\n"
    api.refusal = 404, {"error": "the sandbox has no such context: GET .../context lists them", "code": "not_found"}
    for line in (["-c", "nope", "box", "a.py"], ["-c", "nope", "box"], ["--json", "-c", "nope", "box", "a.py"], ["-l", "js", "-c", "nope", "box"]):
        r = place.run("code", *line, input="1")
        equal((r.returncode, r.stderr, "not_found" in r.stdout), (125, missing, "--json" in line), line)
    equal(place.run("repl", "-c", "nope", "box").stderr, missing)
    r = place.run("code", "-l", "js", "-c", "web", "box", input="1")
    equal((r.returncode, "no such context" in r.stderr), (125, True), "gone, and back by now")
    api.refusal = 409, {"error": "a context of that ID is there already; DELETE removes it", "code": "conflict"}
    for line in (["box", "web"], ["--json", "box", "web"]):
        r = place.run("context", "create", "-l", "js", *line)
        equal((r.returncode, "conflict" in r.stdout, r.stderr), (1, "--json" in line,
              "berth: there is a context `web` already: `berth context rm box web` removes it\n"))
    api.refusal = 409, {"error": "the sandbox has 32 contexts: delete one first", "code": "conflict"}
    for line in (["box"], ["box", "more"]):
        equal(place.run("context", "create", *line).stderr, "berth: the sandbox has 32 contexts: delete one first (conflict)\n", line)


if __name__ == "__main__":
    main([("code that tells its language", told_language), ("contexts that are not there", absent_context), ("languages that are not known", languages), ("commands of bash", bash), ("regular expressions", javascript), ("how long code may be", sizes),
          ("said once", said_once), ("cancelled or over", cancelled), ("contexts", contexts), ("NUL", nul), ("many pictures", many_pictures), ("exit codes of runs", run_codes), ("no daemon", no_daemon), ("exit codes in the help", told_codes)])
