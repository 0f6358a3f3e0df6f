"""`berth debug ID SCRIPT`: node's inspector through a port of this machine, as a debugger sees it, and profiles."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from debug_api import SCRIPT, Debug, Debugger, put  # noqa: E402
from ground import TIMEOUT, check, equal, main  # noqa: E402

TOKEN = "debug-token-0123456789abcdef0123"
WORK = """
let sum = 0;
function burn() { for (let i = 0; i < 3e6; i++) sum += Math.sqrt(i); }
burn();
globalThis.kept = { nameThatIsKept: "in the heap" };
console.log("done");
process.exitCode = 4;
"""


def berth(g, *args, **more):
    return subprocess.run([os.path.abspath(os.path.join(g.build, "berth")), *args], env={**os.environ, "BERTH_SOCKET": g.socket},
                          capture_output=True, timeout=TIMEOUT, check=False, **{"stdin": subprocess.DEVNULL, **more})


def fetch(ws, path):
    with urllib.request.urlopen(f"http{re.match('ws(://[^/]+)', ws)[1]}{path}", timeout=TIMEOUT) as answer:
        return answer.read().decode()


def go(d):
    """To the script's first line, and where that is."""
    d.ask("Runtime.enable")
    d.ask("Debugger.enable")
    d.ask("Runtime.runIfWaitingForDebugger")
    return d.await_event("Debugger.paused")["callFrames"][0]


def test_steps(g):
    """A debugger stops a script, looks into it and lets it go on; its code is ours; nothing listens afterwards."""
    put(g, "a", "/workspace/x.js", SCRIPT)
    with Debug(g, "a", "x.js", "one", "--two") as debug:
        devtools, ws = debug.told()
        check(re.fullmatch(r"ws://127\.0\.0\.1:\d+/[0-9a-f-]{36}", ws), ws)
        equal(devtools, f"devtools://devtools/bundled/js_app.html?v8only=true&ws={ws[5:]}", "the URL")
        with Debugger(ws) as d:
            top = go(d)
            equal(top["location"]["lineNumber"], 1, "the first line of the script")
            place = {"scriptId": top["location"]["scriptId"], "lineNumber": 4}
            d.ask("Debugger.setBreakpoint", location=place)
            d.ask("Debugger.resume")
            top = d.await_event("Debugger.paused")["callFrames"][0]
            value = d.ask("Debugger.evaluateOnCallFrame", callFrameId=top["callFrameId"], expression="secret")
            equal(value["result"]["value"], 42, "a local variable")
            equal(d.ask("Runtime.evaluate", expression="1 + 1")["result"]["value"], 2)
            d.ask("Debugger.resume")
        code, out, err = debug.end()
    equal((code, out), (3, "begin one --two\n"), err)
    check("Debugger attached.\n" in err and "bytes \x1b and more\n" in err and "listening" not in err, err)
    with socket.socket() as sock:
        check(sock.connect_ex(("127.0.0.1", int(re.search(r":(\d+)/", ws)[1]))), "somebody listens")


def test_key(g):
    """Only who knows the UUID may connect, and only by an address or as localhost: no page of another name may."""
    put(g, "a", "/workspace/x.js", SCRIPT)
    with Debug(g, "a", "x.js") as debug:
        _, ws = debug.told()
        uuid = ws.rsplit("/", 1)[1]
        other = ws.replace(uuid, uuid[::-1])
        for path in ("/", "/json", "/json/list", "/json/version"):
            try:
                check(uuid not in fetch(ws, path), "told by", path)
            except (OSError, http.client.HTTPException):
                pass  # not a word is more than enough
        for url, host in ((other, None), (ws, "page.example")):
            with Debugger(url, host) as d:
                check(b" 101 " not in d.answer, url, host, d.answer)
        with Debugger(ws, "localhost") as d:
            go(d)
            d.ask("Debugger.resume")
        equal(debug.end()[0], 3, "its code")


def test_elsewhere(g):
    """A daemon that is asked by its URL."""
    url = f"http://127.0.0.1:{g.start_listening(TOKEN)}"
    put(g, "a", "/workspace/x.js", SCRIPT)
    with Debug(g, "a", "x.js", BERTH_URL=url, BERTH_TOKEN=TOKEN) as debug:
        with Debugger(debug.told()[1]) as d:
            go(d)
            d.ask("Debugger.resume")
        equal(debug.end()[:2], (3, "begin\n"))


def test_interrupt(g):
    """Ctrl-C ends the script; two may be debugged at once; --json tells where."""
    put(g, "a", "/workspace/x.js", SCRIPT)
    with Debug(g, "a", "x.js") as one, Debug(g, "--json", "a", "x.js") as two:
        _, ws = one.told()
        told = json.loads(two.process.stdout.readline())
        check(told["ws"] != ws and told["devtools"].endswith("ws=" + told["ws"][5:]), told)
        with Debugger(ws) as d:
            go(d)
            one.process.send_signal(signal.SIGINT)
            equal(one.end(), (130, "", "Debugger attached.\n"), "with a debugger")
        two.process.send_signal(signal.SIGINT)
        equal(two.end(), (130, "", ""), "without")
    equal(running(g), [], "what runs inside")


def running(g):
    return [p["id"] for p in g.get("/v1/sandbox/a/processes").json() if p["state"] not in ("exited", "killed", "failed")]


def test_interrupt_twice(g):
    """A script that heeds no signal, and Ctrl-C again and again: nothing runs inside when we are gone."""
    put(g, "a", "/workspace/deaf.js", "for (const s of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(s, () => {});\n"
                                      "setInterval(() => {}, 1000); console.log('deaf');")
    with Debug(g, "a", "deaf.js") as debug:
        _, ws = debug.told()
        with Debugger(ws) as d:
            d.ask("Debugger.enable")
            d.ask("Runtime.runIfWaitingForDebugger")
            d.await_event("Debugger.paused")
            d.ask("Debugger.resume")
            equal(debug.process.stdout.readline(), b"deaf\n")
        while debug.process.poll() is None:
            debug.process.send_signal(signal.SIGINT)
            try:
                debug.process.wait(0.01)
            except subprocess.TimeoutExpired:
                pass
        check(debug.process.returncode in (130, -signal.SIGINT), debug.process.returncode)
    equal((g.out("a", ["sh", "-c", "ps -e -o args= 2>/dev/null | grep -c '[d]eaf.js' || true"]).strip(), running(g)), ("0", []))


def test_interrupt_anywhere(g):
    """Ctrl-C twice at any moment of the start."""
    put(g, "a", "/workspace/x.js", SCRIPT)
    for delay in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8):
        with Debug(g, "a", "x.js") as debug:
            try:
                debug.process.wait(delay)
            except subprocess.TimeoutExpired:
                pass
            for _ in range(2):
                debug.process.send_signal(signal.SIGINT)
            code, _, err = debug.end()
            check(code in (130, -signal.SIGINT) and "tidied" not in err, code, err)
        equal(running(g), [], f"after {delay} s")


def test_failures(g):
    """No script, no node, a wrong line: nobody waits for a debugger of what is not there."""
    put(g, "a", "/workspace/x.js", SCRIPT)
    put(g, "a", "/workspace/dir/index.js", SCRIPT)
    put(g, "a", "/workspace/secret.js", SCRIPT)
    g.out("a", ["chmod", "600", "/workspace/secret.js"])
    equal(berth(g, "exec", "a", "nofile").returncode, 127, "of a program that is not there")
    for line in (["a", "nofile.js"], ["--cwd", "/tmp", "a", "x.js"], ["--json", "a", "nofile.js", "x.js"], ["--profile", g.path("no"), "a", "nofile.js"]):
        r = berth(g, "debug", *line)
        equal((r.returncode, r.stdout, b"there is no script" in r.stderr), (127, b"", True), (line, r.stderr))
    r = berth(g, "debug", "--user", "1000", "a", "secret.js")
    equal((r.returncode, b"may not be read" in r.stderr), (126, True), r.stderr)
    check(not os.path.exists(g.path("no")), "a folder for nothing")
    equal(running(g), [], "what runs inside")
    for script in ("dir", "./x", "/workspace/x.js"):  # as node finds them
        with Debug(g, "a", script) as debug:
            debug.told()
            debug.process.send_signal(signal.SIGTERM)
            equal(debug.end()[0], 128 + signal.SIGTERM, script)
    r = berth(g, "debug", "--env", "PATH=/nowhere", "a", "x.js")
    equal(r.returncode, 127, r.stderr)
    for line in (["a"], [], ["--for", "1s", "a", "x.js"], ["--profile", "out", "--for", "long", "a", "x.js"], ["--profile", "out", "--for", "30d", "a", "x.js"], ["--stdin", "a", "x.js"]):
        r = berth(g, "debug", *line)
        equal((r.returncode, r.stdout), (125, b""), line)


def names(folder):
    found = sorted(os.listdir(folder))
    return [n for n in found if n.endswith(".cpuprofile")], [n for n in found if n.endswith(".heapsnapshot")], found


def test_profile(g):
    """A CPU profile that names what burnt, a snapshot that holds what was kept; nothing is left inside."""
    put(g, "a", "/workspace/w.js", WORK)
    out = g.path("out")
    r = berth(g, "debug", "--profile", out, "a", "w.js")
    profiles, heaps, found = names(out)
    equal((len(profiles), len(heaps), len(found)), (1, 1, 2), found)
    said = f"CPU profile: {out}/{profiles[0]}\nheap snapshot: {out}/{heaps[0]}\n"
    equal((r.returncode, r.stdout, r.stderr.decode()), (4, b"done\n", said))
    with open(os.path.join(out, profiles[0]), encoding="utf-8") as file:
        profile = json.load(file)
    check(any(n["callFrame"]["functionName"] == "burn" for n in profile["nodes"]), "burn() is in it")
    with open(os.path.join(out, heaps[0]), encoding="utf-8") as file:
        heap = json.load(file)
    check("nameThatIsKept" in heap["strings"], "what was kept")
    equal(g.out("a", ["sh", "-c", "ls -A /tmp"]), "", "what is left inside")


def test_profile_ends(g):
    """Of a server, by --for; of a script that throws; of one from standard input."""
    put(g, "a", "/workspace/s.js", "setInterval(() => {}, 100); console.log('on');")
    put(g, "a", "/workspace/t.js", "throw new Error('no');")
    out = g.path("out")
    r = berth(g, "debug", "--profile", out, "--for", "500ms", "--user", "1000", "a", "s.js")
    equal((r.returncode, r.stdout), (0, b"on\n"), r.stderr)
    equal(len(names(out)[2]), 2, "files")
    r = berth(g, "debug", "--profile", out, "a", "t.js")
    equal((r.returncode, b"Error: no" in r.stderr, len(names(out)[1])), (1, True, 2), r.stderr)
    r = berth(g, "debug", "--profile", out, "--stdin", "a", "-", stdin=open(os.devnull, "rb"))
    equal((r.returncode, len(names(out)[2])), (0, 6), r.stderr)
    equal(g.out("a", ["sh", "-c", "ls -A /tmp"]), "", "what is left inside")


def test_profile_busy(g):
    """By --for also of what never yields; of what hears nothing there is none, and that is said."""
    busy = {"loop.js": "while (1);", "later.js": "function burn() { for (;;) try { JSON.parse('[') } catch {} }\nsetTimeout(burn, 10);",
            "wait.js": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);", "tick.mjs": "for (;;) await 1;",
            "vm.js": "require('vm').runInNewContext('for(;;);')"}
    for script, text in busy.items():
        put(g, "a", f"/workspace/{script}", text)
        out = g.path(f"out-{script}")
        r = berth(g, "debug", "--profile", out, "--for", "500ms", "a", script)
        profiles, heaps, found = names(out)
        equal((r.returncode, r.stdout, len(profiles), len(heaps), len(found)), (0, b"", 1, 1, 2), (script, r.stderr))
        equal(r.stderr.decode(), f"CPU profile: {out}/{profiles[0]}\nheap snapshot: {out}/{heaps[0]}\n", script)
    with open(os.path.join(g.path("out-later.js"), names(g.path("out-later.js"))[0][0]), encoding="utf-8") as file:
        check('"burn"' in file.read(), "burn() is in it")
    put(g, "a", "/workspace/deaf.js", "require('child_process').spawnSync('sleep', ['1000']);")
    out = g.path("out-deaf.js")
    r = berth(g, "debug", "--profile", out, "--for", "500ms", "a", "deaf.js")
    equal((r.returncode, os.path.exists(out)), (137, False), r.stderr)
    check(b"did not exit after --for" in r.stderr and b"there is no CPU profile: " in r.stderr, r.stderr)
    equal(g.out("a", ["sh", "-c", "ls -A /tmp"]), "", "what is left inside")


def test_profile_killed(g):
    """What a signal ends leaves what the help says, and it is said what is missing."""
    wait = "setInterval(() => {}, 100);"
    put(g, "a", "/workspace/k.js", f"process.kill(process.pid, 'SIGTERM'); {wait}")
    put(g, "a", "/workspace/c.js", f"require('child_process').spawnSync('kill', ['-TERM', `${{process.pid}}`]); {wait}")
    put(g, "a", "/workspace/s.js", wait)
    for script, flags, code, left in (("k.js", [], 143, 1), ("c.js", [], 143, 0), ("s.js", ["--timeout", "500ms"], None, 0)):
        out = g.path(f"out-{script}")
        r = berth(g, "debug", "--profile", out, *flags, "a", script)
        check(r.returncode == code or (code is None and r.returncode), script, r)
        check(b"there is no heap snapshot: " in r.stderr, script, r.stderr)
        equal(b"there is no CPU profile: " in r.stderr, not left, (script, r.stderr))
        equal(len(os.listdir(out)) if os.path.exists(out) else 0, left, script)
    equal(g.out("a", ["sh", "-c", "ls -A /tmp"]), "", "what is left inside")


def test_profile_nowhere(g):
    """A folder that cannot be one is refused before the script runs."""
    put(g, "a", "/workspace/m.js", "require('fs').writeFileSync('/workspace/ran', '');")
    with open(g.path("file"), "wb"):
        pass
    os.mkdir(g.path("closed"), 0o555)
    # Root may write where the permissions say that nobody may, but nobody may make a file in /proc.
    closed = ["/proc"] if os.getuid() == 0 else ["/proc", g.path("closed")]
    for folder in (g.path("file"), g.path("file/out"), g.path("no/out"), *closed):
        r = berth(g, "debug", "--profile", folder, "a", "m.js")
        equal((r.returncode, r.stdout, b"nothing can be left in " in r.stderr), (125, b"", True), (folder, r.stderr))
    equal(g.out("a", ["sh", "-c", "ls -A /workspace /tmp"]), "/tmp:\n\n/workspace:\nm.js\n", "it did not run")


if __name__ == "__main__":
    main([test_steps, test_key, test_elsewhere, test_interrupt, test_interrupt_twice, test_interrupt_anywhere, test_failures, test_profile,
          test_profile_ends, test_profile_busy, test_profile_killed, test_profile_nowhere],
         lambda test: test is not test_elsewhere)
