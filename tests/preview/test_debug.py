"""`berth debug ID SCRIPT`: node's inspector through a preview, as a debugger sees it, and profiles."""

import base64
import json
import os
import re
import signal
import struct
import subprocess
import sys
import urllib.request

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from preview_api import connect, start_preview  # noqa: E402
from ground import TIMEOUT, check, equal, main  # noqa: E402
from websocket import CLOSE, PING, PONG, TEXT, frame  # noqa: E402

SCRIPT = """
const secret = 6 * 7;
console.log("begin", ...process.argv.slice(2));
console.error("bytes \\x1b and more");
setTimeout(() => process.exit(secret - 39), 1);
"""
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
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False, **more)


class Debug:
    """A `berth debug` that runs, and what it said of itself."""

    def __init__(self, g, *args):
        self.process = subprocess.Popen([os.path.abspath(os.path.join(g.build, "berth")), "debug", *args],
                                        env={**os.environ, "BERTH_SOCKET": g.socket}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def told(self):
        """The two URLs on stderr."""
        lines = [self.process.stderr.readline().decode() for _ in range(4)]
        equal(lines[0], "It waits for a debugger. In Chrome or Chromium, open\n", lines)
        return lines[1].strip(), lines[3].strip()

    def end(self):
        out, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out.decode(), err.decode()


class Debugger:
    """A client of the inspector's protocol, on a WebSocket through the preview."""

    def __init__(self, g, url):
        host, path = re.fullmatch(r"ws://([^/]+)(/.+)", url).groups()
        self.sock, self.last, self.seen = connect(g), 0, []
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
                          "Origin: devtools://devtools\r\n\r\n".encode())
        self.file = self.sock.makefile("rb")
        equal(self.file.readline().split()[1], b"101", "the answer")
        while self.file.readline().strip():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()

    def message(self):
        while True:
            first, size = self.file.read(2)
            if size == 126:
                size, = struct.unpack("!H", self.file.read(2))
            elif size == 127:
                size, = struct.unpack("!Q", self.file.read(8))
            data = self.file.read(size)
            equal(first & 0x80, 0x80, "whole messages")
            if first & 15 == PING:
                self.sock.sendall(frame(PONG, data))
            elif first & 15 == TEXT:
                return json.loads(data)
            check(first & 15 != CLOSE, "closed:", data)

    def ask(self, method, **params):
        self.last += 1
        self.sock.sendall(frame(TEXT, json.dumps({"id": self.last, "method": method, "params": params}).encode()))
        while True:
            message = self.message()
            if message.get("id") == self.last:
                check("error" not in message, message)
                return message["result"]
            self.seen.append(message)

    def await_event(self, method):
        found = next((m for m in self.seen if m.get("method") == method), None)
        while not found:
            message = self.message()
            found = message if message.get("method") == method else None
        self.seen.clear()
        return found["params"]


def put(g, name, path, text):
    reply = g.request("PUT", f"/v1/sandbox/{name}/file{path}", text.encode())
    check(reply.status in (200, 201, 204), reply)


def ports(g, name):
    return [p["port"] for p in g.get(f"/v1/sandbox/{name}/port").json()["ports"]]


def fetch(g, url, path):
    host = re.fullmatch(r"ws://([^/]+)/.+", url)[1]
    request = urllib.request.Request(f"http://127.0.0.1:{g.preview}{path}", headers={"Host": host})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return answer.read().decode()


def test_steps(g):
    """A debugger stops a script, looks into it and lets it go on; its code is ours; nothing stays exposed."""
    start_preview(g)
    put(g, "a", "/workspace/x.js", SCRIPT)
    with Debug(g, "a", "x.js", "one", "--two") as debug:
        devtools, ws = debug.told()
        equal(devtools, f"devtools://devtools/bundled/js_app.html?v8only=true&ws={ws[5:]}", "the URL")
        listed = json.loads(fetch(g, ws, "/json/list"))
        equal((len(listed), listed[0]["webSocketDebuggerUrl"], listed[0]["title"]), (1, ws, "x.js"), listed)
        with Debugger(g, ws) as d:
            d.ask("Runtime.enable")
            d.ask("Debugger.enable")
            d.ask("Runtime.runIfWaitingForDebugger")
            top = d.await_event("Debugger.paused")["callFrames"][0]
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
    check("bytes \x1b and more\n" in err and "berth-debug" not in err and "listening" not in err, err)
    equal(ports(g, "a"), [], "exposed ports afterwards")


def test_interrupt(g):
    """Ctrl-C ends the script and its preview; two may be debugged at once; --json tells where."""
    start_preview(g)
    put(g, "a", "/workspace/x.js", SCRIPT)
    with Debug(g, "a", "x.js") as one, Debug(g, "--json", "a", "x.js") as two:
        _, ws = one.told()
        told = json.loads(two.process.stdout.readline())
        check(told["ws"] != ws and told["devtools"].endswith("ws=" + told["ws"][5:]), told)
        equal(len(ports(g, "a")), 2, "both are exposed")
        for debug in (one, two):
            debug.process.send_signal(signal.SIGINT)
            code, out, err = debug.end()
            equal((code, out, err), (130, "", ""))
    equal(ports(g, "a"), [], "exposed ports afterwards")
    states = {p["state"] for p in g.get("/v1/sandbox/a/processes").json()}
    check("running" not in states, states)


def running(g):
    return [p["id"] for p in g.get("/v1/sandbox/a/processes").json() if p["state"] not in ("exited", "killed", "failed")]


def test_interrupt_twice(g):
    """A script that heeds no signal, and Ctrl-C again and again: nothing runs inside when we are gone."""
    start_preview(g)
    put(g, "a", "/workspace/deaf.js", "for (const s of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(s, () => {});\n"
                                      "setInterval(() => {}, 1000); console.log('deaf');")
    with Debug(g, "a", "deaf.js") as debug:
        _, ws = debug.told()
        with Debugger(g, ws) as d:
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
    equal((g.out("a", ["sh", "-c", "ps -e -o args= 2>/dev/null | grep -c '[d]eaf.js' || true"]).strip(), running(g), ports(g, "a")), ("0", [], []))


def test_interrupt_anywhere(g):
    """Ctrl-C twice at any moment of the start."""
    start_preview(g)
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
        equal((running(g), ports(g, "a")), ([], []), f"after {delay} s")


def test_failures(g):
    """No previews, no node, a wrong line."""
    put(g, "a", "/workspace/x.js", SCRIPT)
    r = berth(g, "debug", "a", "x.js")
    equal((r.returncode, b"serves no previews" in r.stderr), (125, True), r.stderr)
    states = {p["state"] for p in g.get("/v1/sandbox/a/processes").json()}
    check("running" not in states, states)
    r = berth(g, "debug", "--env", "PATH=/nowhere", "a", "x.js")
    equal(r.returncode, 125, r.stderr)
    for line in (["a"], [], ["--for", "1s", "a", "x.js"], ["--profile", "out", "--for", "long", "a", "x.js"], ["--stdin", "a", "x.js"]):
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
    equal((r.returncode, r.stdout, r.stderr), (4, b"done\n", b""))
    profiles, heaps, found = names(out)
    equal((len(profiles), len(heaps), len(found)), (1, 1, 2), found)
    with open(os.path.join(out, profiles[0]), encoding="utf-8") as file:
        profile = json.load(file)
    check(any(n["callFrame"]["functionName"] == "burn" for n in profile["nodes"]), "burn() is in it")
    with open(os.path.join(out, heaps[0]), encoding="utf-8") as file:
        heap = json.load(file)
    check("nameThatIsKept" in heap["strings"], "what was kept")
    equal(g.out("a", ["sh", "-c", "ls -A /tmp"]), "", "what is left inside")


def test_profile_ends(g):
    """Of a server, by --for; of a script that throws; of none that is not there."""
    put(g, "a", "/workspace/s.js", "setInterval(() => {}, 100); console.log('on');")
    put(g, "a", "/workspace/t.js", "throw new Error('no');")
    out = g.path("out")
    r = berth(g, "debug", "--profile", out, "--for", "500ms", "--user", "1000", "a", "s.js")
    equal((r.returncode, r.stdout), (0, b"on\n"), r.stderr)
    equal(len(names(out)[2]), 2, "files")
    r = berth(g, "debug", "--profile", out, "a", "t.js")
    equal((r.returncode, b"Error: no" in r.stderr, len(names(out)[1])), (1, True, 2), r.stderr)
    equal(g.out("a", ["sh", "-c", "ls -A /tmp"]), "", "what is left inside")


if __name__ == "__main__":
    main([test_steps, test_interrupt, test_interrupt_twice, test_interrupt_anywhere, test_failures, test_profile, test_profile_ends],
         lambda test: test in (test_failures, test_profile, test_profile_ends))
