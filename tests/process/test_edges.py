"""Background processes where two things happen at once: adoption, stopping, ends, IDs used again."""

import glob
import os
import signal
import subprocess
import threading
import time

from process_api import Log, Output, await_output, check, ended, equal, raw, refuse, show, start, until, wait
from ground import at_once, lives, main

BASE = "/v1/sandbox/a/processes"
KEPT = 256


class Calls:
    """Requests under way, each on a thread of its own."""

    def __init__(self, g):
        self.g, self.threads, self.replies = g, [], {}

    def begin(self, name, *request):
        def run():
            try:
                self.replies[name] = self.g.request(*request)
            except OSError as error:
                self.replies[name] = error

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def end(self):
        for thread in self.threads:
            thread.join()
        return self.replies


class Stopped:
    """A process of ours that does nothing meanwhile."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


def test_adopting(g):
    """What needs the process waits until an earlier berthd's is adopted, and then is done."""
    start(g, "a", "trap 'echo usr1' USR1; echo on; while :; do sleep 0.05; done", id="x")
    start(g, "a", "read line; echo got $line; exec python3 -m http.server 8000", id="web")
    await_output(g, "a", "x", 3)
    g.kill_berthd()
    calls = Calls(g)
    (init,) = g.inits()
    with Stopped(init):
        g.start()
        equal(g.sandbox("a")["state"], "starting", "it is being adopted")
        calls.begin("port", "POST", f"{BASE}/web/wait", {"for": "port", "port": 8000})
        calls.begin("kill", "POST", f"{BASE}/x/kill", {"signal": 10})
        calls.begin("stdin", "POST", f"{BASE}/web/stdin", b"word\n")
        equal(show(g, "a", "x")["state"], "running", "who only looks does not wait")
        equal(wait(g, "a", "x", status=504, timeout_ms=1)["code"], "timeout", "nor for its end")
    replies = calls.end()
    equal({name: reply.status for name, reply in replies.items()}, {"port": 200, "kill": 204, "stdin": 204}, replies)
    wait(g, "a", "x", "log", pattern="^usr1$")


def test_stopping(g):
    """Waiting for a port while the sandbox is being stopped ends with the process."""
    start(g, "a", "trap '' TERM; echo on; while :; do sleep 1; done", id="x")
    wait(g, "a", "x", "log", pattern="on")
    calls = Calls(g)
    with Stopped(g.keeper()):
        calls.begin("stop", "POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
        until(lambda: g.sandbox("a")["state"] == "stopping", "the stop to begin")
        calls.begin("port", "POST", f"{BASE}/x/wait", {"for": "port", "port": 8000})
        equal(show(g, "a", "x")["state"], "running", "berthd is well")
    replies = calls.end()
    equal((replies["stop"].status, replies["port"].status, replies["port"].json()["code"]),
          (200, 409, "process_exited"), replies)


def test_daemon_stops(g):
    """berthd ends at once while a process has its time to end; that one is adopted later."""
    start(g, "a", "trap 'echo not yet' TERM; echo on; while :; do sleep 0.1; done", id="x")
    await_output(g, "a", "x", 3)
    calls = Calls(g)
    calls.begin("line", "POST", f"{BASE}/x/wait", {"for": "log", "pattern": "never"})
    calls.begin("end", "DELETE", f"{BASE}/x?grace_ms=600000")
    wait(g, "a", "x", "log", pattern="not yet")
    for _ in range(2):
        g.berthd.send_signal(signal.SIGTERM)
    equal(g.berthd.wait(60), 0, "berthd's exit code")
    check(all(not hasattr(r, "status") or r.status != 200 for r in calls.end().values()), calls.replies)
    g.start()
    equal(show(g, "a", "x")["state"], "running", "it lives")
    equal(g.request("DELETE", f"{BASE}/x").json()["reason"], "killed", "until it is ended")


def test_newest_ends_are_kept(g):
    """Of the ended ones those go that ended first, not those that were started first."""
    start(g, "a", "read x", id="old")
    for first in range(0, KEPT + 10, 10):
        at_once(10, lambda i: ended(g, "a", start(g, "a", ["true"], id=f"n{first + i}")["id"]))  # pylint: disable=cell-var-from-loop
    until(lambda: len(g.get(BASE).json()) == KEPT + 1, "the first to go")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "the stop is answered")
    equal(show(g, "a", "old")["reason"], "killed", "the last that ended is kept")
    equal(len(g.get(BASE).json()), KEPT, "and no more than so many")


def test_failed_again(g):
    """A start that fails under the ID of an ended one: that one is gone, also for the next berthd."""
    start(g, "a", "echo one", id="x")
    ended(g, "a", "x")
    refuse(g, "POST", BASE, 502, "exec_error", {"argv": ["/no/such"], "id": "x"})
    equal(g.get(f"{BASE}/x").status, 404, "it gave way")
    g.kill_berthd()
    g.start()
    equal(g.get(f"{BASE}/x").status, 404, "and does not come back without its output")


def test_slow_reader(g):
    """Who reads what has ended does not get the output of the next one with its ID."""
    size = 12 << 20
    start(g, "a", f"head -c {size} /dev/zero | tr '\\0' a", id="x")
    ended(g, "a", "x")
    with Log(g, "a", "x") as log:
        start(g, "a", f"head -c {size} /dev/zero | tr '\\0' b", id="x")
        ended(g, "a", "x")
        out = Output(log)
    equal(set(out.both), {ord("a")}, "whose bytes")
    equal(len(out.both) + out.gap, size, "what is not there any more is said")
    equal(set(raw(g, "a", "x")), {ord("b")}, "the new one's")


def test_what_is_there_now(g):
    """Without `follow` the answer ends with what was there when it began, however much comes."""
    size = 8 << 20
    start(g, "a", f"while read line; do head -c {size} /dev/zero; done", id="x")
    g.request("POST", f"{BASE}/x/stdin", b"\n")
    await_output(g, "a", "x", size)
    with Log(g, "a", "x") as log:
        g.request("POST", f"{BASE}/x/stdin", b"\n")
        await_output(g, "a", "x", 2 * size)
        out = Output(log)
    equal((len(out.both), out.gap, out.cursor), (size, 0, size), "so much was there")
    equal(len(raw(g, "a", "x", f"?since={size}")), size, "the rest")


def test_idempotency(g):
    """The same key returns the process that it started; with another body it is refused."""
    body = {"command": "sleep 1000"}
    replies = at_once(6, lambda i: g.request("POST", BASE, body, Idempotency_Key="k"))
    equal({r.status for r in replies}, {200}, replies)
    (name,) = {r.json()["id"] for r in replies}
    until(lambda: lives(g, "sleep"), "the process")
    equal(len(lives(g, "sleep")), 1, "processes")
    refuse(g, "POST", BASE, 409, "conflict", {"command": "sleep 1"}, Idempotency_Key="k")
    for bad in ("k" * 129, ""):
        refuse(g, "POST", BASE, 400, "invalid_request", body, Idempotency_Key=bad)
    g.request("DELETE", f"{BASE}/{name}")
    reply = g.request("POST", BASE, body, Idempotency_Key="k")
    equal((reply.status, reply.json()["id"], reply.json()["reason"]), (200, name, "killed"), "as it is now")
    other = g.request("POST", "/v1/sandbox/b/processes", body, Idempotency_Key="k")
    check(other.status == 200 and other.json()["id"] != name, "another sandbox's keys are its own")
    equal(g.request("POST", "/v1/sandbox", {"id": "c"}, Idempotency_Key="k").status, 201, "and those of sandboxes")
    for _ in range(2):
        refuse(g, "POST", BASE, 502, "exec_error", {"argv": ["/no/such"]}, Idempotency_Key="bad")
    g.request("DELETE", "/v1/sandbox/b")
    reply = g.request("POST", "/v1/sandbox/b/processes", body, Idempotency_Key="k")
    equal((reply.status, reply.json()["state"]), (200, "running"), "a new sandbox of that name")


def test_autostart_killed(g):
    """berthd is killed while a sandbox starts: what starts with it runs all the same, once it does."""
    start(g, "a", "sleep 1000", id="auto", autostart=True)
    for i in range(12):
        g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
        calls = Calls(g)
        calls.begin("start", "POST", "/v1/sandbox/a/start")
        time.sleep(0.01 * i)  # a moment of the start after the other
        g.kill_berthd()
        calls.end()
        g.start()
        generation = g.request("POST", "/v1/sandbox/a/start").json()["generation"]
        until(lambda: (shown := show(g, "a", "auto"))["state"] == "running" and shown["generation"] == generation,  # pylint: disable=cell-var-from-loop
              "it to run in this life")
        until(lambda: len(lives(g, "sleep")) == 1, "it, and once")


def test_autostart_bound(g):
    """So many may start with the sandbox, whether they run or have ended; one that is ended makes room."""
    for first in range(0, 64, 8):
        at_once(8, lambda i: ended(g, "a", start(g, "a", ["true"], id=f"n{first + i}", autostart=True)["id"]))  # pylint: disable=cell-var-from-loop
    error = refuse(g, "POST", BASE, 409, "conflict", {"argv": ["true"], "autostart": True})
    check("64" in error["error"], error)
    ended(g, "a", start(g, "a", ["true"], id="n5", autostart=True)["id"])
    start(g, "a", ["true"], id="plain")
    g.request("DELETE", f"{BASE}/n7")
    start(g, "a", ["true"], id="next", autostart=True)


def test_secrets(g):
    """The environment of a process that is not started again is on no disk."""
    start(g, "a", "echo $SECRET; sleep 1000", id="x", env={"SECRET": "needle-in-the-hay"})
    start(g, "a", "sleep 1000", id="y", env={"SECRET": "stored-for-later"}, autostart=True)
    await_output(g, "a", "x", 18)
    equal(raw(g, "a", "x"), b"needle-in-the-hay\n", "it has it")
    before = show(g, "a", "x")

    def stored(word):
        files = glob.glob(os.path.join(g.state, "berthd", "state.db*"))
        return any(word in open(f, "rb").read() for f in files)  # pylint: disable=consider-using-with

    check(stored(b"stored-for-later") and not stored(b"needle-in-the-hay"), "what is stored")
    g.kill_berthd()
    g.start()
    equal(show(g, "a", "x"), before, "it looks the same to the next berthd")


def test_hard_pattern(g):
    """A pattern that takes its time for each byte of a long log holds up nobody."""
    start(g, "a", "yes $(head -c 4000 /dev/zero | tr '\\0' a) | head -c 4000000", id="x")
    ended(g, "a", "x")
    calls, others = Calls(g), 0
    calls.begin("line", "POST", f"{BASE}/x/wait",
                {"for": "log", "pattern": "(a?){240}(a?){240}(a?){240}(a?){240}b", "timeout_ms": 5000})
    while not calls.replies:
        equal(g.get("/health").status, 200, "health")
        others += 1
    equal(calls.end()["line"].json()["code"], "timeout", calls.replies)
    check(others > 5, f"only {others} other requests were answered meanwhile")


def test_own_connection(g):
    """A port on which nobody listens is not taken for open by a connection to itself."""
    start(g, "a", "sleep 1000", id="x")
    (init,) = g.inits()
    subprocess.run(["nsenter", "-t", str(init), "-n", "sh", "-c",
                    "echo 40000 40000 >/proc/sys/net/ipv4/ip_local_port_range"], check=True)
    error = wait(g, "a", "x", "port", status=504, port=40000, timeout_ms=1500)
    equal(error["code"], "timeout", "nobody listens")


test_own_connection.modes = ("root",)

main([test_adopting, test_stopping, test_daemon_stops, test_newest_ends_are_kept, test_failed_again, test_slow_reader,
      test_what_is_there_now, test_idempotency, test_autostart_bound, test_autostart_killed, test_secrets, test_hard_pattern,
      test_own_connection])
