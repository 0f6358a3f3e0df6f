"""`berth exec -d, exec -s, ps, logs, wait, kill, session` against a real daemon: started, followed, waited for, ended."""

import json
import os
import signal
import subprocess

from process_api import check, ended, equal, raw, show, start, until
from ground import lives, main

SERVER = ("import http.server, sys; print('listening soon', flush=True); "
          "http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()")


class Cli:
    """The built `berth`."""

    def __init__(self, ground):
        self.berth = os.path.abspath(os.path.join(ground.build, "berth"))
        self.env = {**os.environ, "BERTH_SOCKET": ground.socket}

    def popen(self, *args):
        return subprocess.Popen([self.berth, *args], env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def both(self, *args, code=0):
        with self.popen(*args) as process:
            out, err = process.communicate(timeout=120)
        equal(process.returncode, code, f"{args}: {err}")
        return out, err

    def run(self, *args, code=0):
        """What it says on stdout, or on stderr if it is to fail."""
        out, err = self.both(*args, code=code)
        check(code or not err, args, err)
        return err.decode() if code else out.decode()


def hears(pid, number):
    """Is the signal held back, for whoever reads it as a file?"""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        held = next(line.split()[1] for line in status if line.startswith("SigBlk:"))
    return int(held, 16) >> (number - 1) & 1


def test_start(g):
    """exec --detach prints an ID under which the process is found, with all that it was given."""
    c = Cli(g)
    equal(c.run("exec", "-d", "--name", "Web", "-e", "A=b c", "-w", "/tmp", "a", "--", "sh", "-c", "echo $A; pwd; sleep 1000"),
          "web\n", "its name, folded")
    equal(c.run("wait", "--log", "^/", "a", "web"), "/tmp\n", "cwd")
    equal(raw(g, "a", "web"), b"b c\n/tmp\n", "variables")
    made_up = c.run("exec", "-d", "a", "true").strip()
    equal(show(g, "a", made_up)["command"], ["true"], "a name that was made up")
    status = json.loads(c.run("exec", "-d", "--json", "--autostart", "--timeout", "100s", "a", "sleep", "1000"))
    equal((status["state"], status["autostart"]), ("running", True), status)
    check("(conflict)" in c.run("exec", "-d", "--name", "web", "a", "true", code=125), "a name in use")
    check("(exec_error)" in c.run("exec", "-d", "a", "/no/such", code=125), "no such program")
    for args in (["-d", "-i"], ["-d", "-s", "x"], ["--name", "x"], ["--autostart"]):
        check("background process" in c.run("exec", *args, "a", "true", code=125), args)
    check("UTF-8" in c.run("exec", "-d", "a", "echo", os.fsdecode(b"\xff"), code=125), "no text")


def test_ps(g):
    """ps shows what runs and how the others ended, and nothing in it can steer a terminal."""
    c = Cli(g)
    check("not_found" in c.run("ps", "a", code=1), "no sandbox")
    start(g, "a", ["sleep", "1000"], id="one")
    start(g, "a", "exit 3", id="two")
    start(g, "a", "kill -9 $$", id="three")
    start(g, "a", ["sh", "-c", "true", "\033[2J\nfake  running", "ä" * 100], id="four")
    for name in ("two", "three", "four"):
        ended(g, "a", name)
    lines = c.run("ps", "A").splitlines()
    equal([line.split()[0] for line in lines], ["PROCESS", "one", "two", "three", "four"], lines)
    check("running" in lines[1] and lines[1].endswith("sleep 1000"), lines)
    check(" exited 3 " in lines[2] and " signal 9 " in lines[3] and " exited 0 " in lines[4], lines)
    check("sh -c true ?[2J?fake  running ää" in lines[4] and lines[4].endswith("ä..."), lines)
    equal(c.run("ps", "-q", "a"), "one\ntwo\nthree\nfour\n", "IDs")
    equal(c.run("ps", "-r", "-q", "a"), "one\n", "that run")
    equal([p["id"] for p in json.loads(c.run("ps", "--json", "a"))], ["one", "two", "three", "four"], "json")
    check("of which sandbox" in c.run("ps", code=2), "no ID")


def test_logs(g):
    """logs gives each stream its bytes, now or as they come, from a cursor on, and says what is gone."""
    c = Cli(g)
    start(g, "a", "printf 'out\\000\\377\\033[m\\n'; printf err >&2; read x; echo $x; exit 7", id="p")
    until(lambda: show(g, "a", "p")["log"]["end"] == "12", "both streams")
    equal(c.both("logs", "a", "p"), (b"out\0\xff\033[m\n", b"err"), "what is there while it runs")
    equal(c.both("logs", "--stream", "err", "a", "p"), (b"", b"err"), "one stream")
    with c.popen("logs", "-f", "--since", "12", "a", "p") as follower:
        equal(g.request("POST", "/v1/sandbox/a/processes/p/stdin", b"more\n").status, 204, "stdin")
        equal((follower.stdout.read(), follower.stderr.read(), follower.wait(60)), (b"more\n", b"", 0), "followed")
    events = [json.loads(line) for line in c.both("logs", "--json", "a", "p")[0].splitlines()]
    equal((events[-1]["type"], events[-1]["exit_code"], events[-1]["cursor"]), ("terminal", 7, "17"), events)
    equal({e["type"] for e in events[:-1]}, {"stdout", "stderr"}, events)
    check("(not_found)" in c.run("logs", "a", "none", code=1), "no such process")
    check("(invalid_request)" in c.run("logs", "--since", "99", "a", "p", code=1), "a cursor ahead")
    for args in (["--since", "1&follow=1", "a", "p"], ["--since", "", "a", "p"], ["--stream", "in", "a", "p"], ["a"],
                 ["a", "../p"], ["a/b", "p"]):
        c.run("logs", *args, code=2)


def test_logs_end(g):
    """Ctrl-C ends the reading and not the process; a reader who leaves ends it too; gaps are said."""
    c = Cli(g)
    equal(g.request("PUT", "/v1/sandbox/a", {"limits": {"output_bytes": 1 << 20}}).status // 100, 2, "made")
    start(g, "a", "echo begun; sleep 1000", id="p")
    with c.popen("logs", "-f", "a", "p") as follower:
        equal(follower.stdout.readline(), b"begun\n", "it follows")
        follower.send_signal(signal.SIGINT)
        equal((follower.wait(60), follower.stdout.read(), follower.stderr.read()), (130, b"", b""), "Ctrl-C")
    equal(show(g, "a", "p")["state"], "running", "the process")
    start(g, "a", "yes", id="y")
    with c.popen("logs", "-f", "a", "y") as follower:
        follower.stdout.read(100)
        follower.stdout.close()
        equal(follower.wait(60), 141, "a reader who left")
    start(g, "a", "head -c 5000000 /dev/zero", id="big")
    equal(ended(g, "a", "big")["exit_code"], 0, "big")
    out, err = c.both("logs", "a", "big")
    gone = 5000000 - len(out)
    equal((gone > 0, err.decode()), (True, f"berth: {gone} bytes of output are not kept any more\n"), "a gap")


def test_wait(g):
    """wait exits with the process's code, 124 when time is over, 1 if it ended first, with its last lines."""
    c = Cli(g)
    start(g, "a", "read x; exit 42", id="p")
    with c.popen("wait", "a", "p") as waiter:
        equal(g.request("POST", "/v1/sandbox/a/processes/p/stdin", b"x\n").status, 204, "stdin")
        equal(waiter.wait(60), 42, "its own code")
    start(g, "a", "kill -9 $$", id="k")
    equal(c.run("wait", "a", "k", code=137), "", "a signal")
    equal(json.loads(c.both("wait", "--json", "a", "p", code=42)[0])["process"]["exit_code"], 42, "json")
    start(g, "a", "printf 'dying \\033[31m\\n'; exit 2", id="d")
    says = c.run("wait", "--log", "alive", "a", "d", code=1)
    check("(process_exited)\n  dying ?[31m\n" in says, says)
    start(g, "a", "echo 'ready \033[m on 80'; sleep 1000", id="s")
    equal(c.run("wait", "--log", "on [0-9]+$", "a", "s"), "ready ?[m on 80\n", "a line")
    says = c.run("wait", "--timeout", "100ms", "a", "s", code=124)
    check("(timeout)\n  ready ?[m on 80\n" in says, says)
    start(g, "a", "sleep 1000", id="t", timeout_ms=100)
    check("ran out of time" in c.run("wait", "a", "t", code=124), "its own time was over")
    with c.popen("wait", "a", "s") as waiter:
        until(lambda: hears(waiter.pid, signal.SIGINT), "the wait")
        waiter.send_signal(signal.SIGINT)
        equal((waiter.wait(60), waiter.stderr.read()), (130, b""), "Ctrl-C")
    for args in (["a"], ["a", "none"], ["--port", "0", "a", "s"], ["--port", "1", "--log", "x", "a", "s"],
                 ["--http", "/", "a", "s"], ["--timeout", "soon", "a", "s"], ["--log", "(", "a", "s"]):
        c.run("wait", *args, code=125)


def test_server(g):
    """A server: started, waited for by port and by request, ended with its workers."""
    c = Cli(g)
    equal(c.run("exec", "-d", "--name", "web", "a", "sh", "-c", 'sleep 999 & python3 -c "$0"', SERVER), "web\n", "started")
    equal(c.run("wait", "--port", "8000", "--http", "/", "--timeout", "60s", "a", "web"), "", "it answers")
    check("(timeout)" in c.run("wait", "--port", "8001", "--timeout", "200ms", "a", "web", code=124), "another port")
    equal(c.run("wait", "--log", "soon", "a", "web"), "listening soon\n", "a line that was there")
    equal(c.run("kill", "--end", "--grace", "1s", "a", "WEB"), "web\n", "ended")
    equal((show(g, "a", "web")["state"], g.out("a", "pgrep -c sleep || true")), ("exited", "0\n"), "and its workers")


def test_kill(g):
    """kill sends what it is told to all that are named; with --end they are gone when it returns."""
    c = Cli(g)
    trap = "for s in TERM HUP USR1; do trap \"echo $s\" $s; done; echo set; while :; do sleep 0.05; done"
    for name in ("x", "y"):
        start(g, "a", trap, id=name)
        c.run("wait", "--log", "set", "a", name)
    for args, word in ((["-s", "hup"], "HUP"), (["-s", "SIGUSR1"], "USR1"), (["-s", "10"], "USR1"), ([], "TERM")):
        equal(c.run("kill", *args, "a", "x", "Y"), "x\ny\n", args)
        for name in ("x", "y"):
            equal(c.run("wait", "--timeout", "60s", "--log", f"^{word}$", "a", name), word + "\n", args)
    equal(show(g, "a", "x")["state"], "running", "it does not care")
    out, err = c.both("kill", "a", "none", "x", code=1)
    check(out == b"x\n" and b"(not_found)" in err, out, err)
    equal(json.loads(c.run("kill", "--end", "--json", "a", "x"))["state"], "exited", "ended for sure")
    start(g, "a", "sleep 1000", id="z")
    equal(c.run("kill", "--end", "--all", "a"), "y\nz\n", "all")
    equal(c.run("ps", "-r", "-q", "a"), "", "none is left")
    equal(c.run("kill", "a", "z"), "z\n", "one that has ended")
    for args in (["a"], ["-s", "NONE", "a", "x"], ["-s", "65", "a", "x"], ["-s", "0", "a", "x"], ["--all", "a"],
                 ["--grace", "1s", "a", "x"], ["--end", "--grace", "11m", "a", "x"], ["--end", "-s", "9", "a", "x"],
                 ["--end", "--all", "a", "x"], ["a", "x/../y"]):
        equal(c.both("kill", *args, code=2)[0], b"", args)


def test_kill_unproven(g):
    """When only the end of the whole sandbox proves that one is gone, kill says so."""
    c = Cli(g)
    for args in (["a", "x"], ["--grace", "60s", "a", "x"], ["--grace", "60s", "--all", "a"]):
        start(g, "a", "read x; kill -9 $PPID; setsid sleep 1000 & echo on; sleep 1000", id="x")
        equal(g.request("POST", "/v1/sandbox/a/processes/x/stdin", b"go\n").status, 204, "go")
        c.run("wait", "--log", "on", "a", "x")
        out, err = c.both("kill", "--end", *args)
        equal((out, b"the whole sandbox was stopped" in err), (b"x\n", not g.has_cgroups), (args, err))
        equal((lives(g, "sleep"), bool(err)), ([], not g.has_cgroups), (args, err))


def test_session(g):
    """exec --session keeps what a shell keeps, says when that is gone; session lists and removes them."""
    c = Cli(g)
    equal(c.run("exec", "-s", "dev", "a", "cd", "/tmp"), "", "a builtin")
    equal(c.run("exec", "--session", "dev", "a", "--", "export", "A=b c"), "", "a variable")
    equal(c.run("exec", "-s", "dev", "a", "sh", "-c", "echo $A; pwd"), "b c\n/tmp\n", "they last")
    equal(c.run("exec", "-s", "other", "a", "pwd"), "/workspace\n", "another session")
    equal(c.run("exec", "a", "pwd"), "/workspace\n", "no session")
    lines = c.run("session", "ls", "a").splitlines()
    equal([line.split()[:3] for line in lines], [["SESSION", "STATE", "WAITING"], ["dev", "ready", "0"], ["other", "ready", "0"]],
          lines)
    check(lines[0].endswith("  BEGINS IN") and lines[1].endswith("  /workspace"), "not where `cd` has led it", lines)
    equal([s["id"] for s in json.loads(c.run("session", "ls", "--json", "a"))["sessions"]], ["dev", "other"], "json")
    check("shell" in c.run("exec", "-s", "dev", "a", "exit", "3", code=3), "its end is told of")
    equal(c.run("exec", "-s", "dev", "a", "pwd"), "/workspace\n", "a fresh shell")
    check("(invalid_request)" in c.run("exec", "-s", "dev", "-u", "1000", "a", "true", code=125), "a user")
    equal(c.run("session", "rm", "a", "dev", "other"), "dev\nother\n", "removed")
    equal(c.run("session", "ls", "a").count("\n"), 1, "none is left")
    check("(not_found)" in c.run("session", "ls", "none", code=1), "no sandbox")


if __name__ == "__main__":
    main([test_start, test_ps, test_logs, test_logs_end, test_wait, test_server, test_kill, test_kill_unproven,
          test_session])
