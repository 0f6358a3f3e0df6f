"""The end of an exec: it comes in time, once, and says what was true, whoever hinders it."""

import collections
import concurrent.futures
import os
import random
import signal
import time

import ground
from ground import Failed, check, equal, main, until

MB = 1 << 20


def ended(result, reason, code):
    equal((result.reason, result.code), (reason, code), result)


def names(g):
    """What runs in sandboxes."""
    return [ground.comm_of(p) for p in g.processes() if g.is_sandboxed(p) and ground.is_alive(p)]


def test_flood(g):
    """Survivors that never stop printing do not hold up the end of their command."""
    for run in (g.exec, g.run_events):
        started = time.monotonic()
        ended(run("a", "for i in 1 2 3 4; do yes & done; echo first >&2; exit 3"), "exited", 3)
        check(time.monotonic() - started < 20, "it took", time.monotonic() - started)
        until(lambda: g.exec("a", ["sh", "-c", "kill -9 $(pidof yes)"]).code == 0, "those that print")


# Prints until nobody has taken anything for a while.
FILL = """
import os, select, sys
os.set_blocking(1, False)
while select.select([], [1], [], 0.4)[1]:
    os.write(1, bytes(4096))
"""


def test_slow_client(g):
    """How long a client reads is not the command's time, and no reason to end what it left."""
    g.put_file("a", "/workspace/fill.py", FILL)
    what = "sleep 97 </dev/null >/dev/null 2>&1 & python3 fill.py; exit 5"
    with g.events("a", what, timeout_ms=5000) as events:
        started = time.monotonic()
        until(lambda: "sleep" in names(g) and "sh" not in names(g), "the command's end")
        check(time.monotonic() - started < 4.5, "this machine is too slow")
        time.sleep(5.5 - (time.monotonic() - started))
        ended(events.result(), "exited", 5)
    check("sleep" in names(g), "the survivor was ended")
    # Nor is it when the client goes away meanwhile.
    with g.events("a", "sleep 98 </dev/null >/dev/null 2>&1 & python3 fill.py; exit 5"):
        until(lambda: names(g).count("sleep") == 2 and "sh" not in names(g), "the command's end")
        g.out("a", ["true"])  # init tells of one end after the other: now berthd knows of that one
    # Without groups nobody watches survivors that have no pipe.
    until(lambda: g.sandbox("a")["execs"] == (2 if g.has_cgroups else 0), "the execs that have survivors")
    equal(names(g).count("sleep"), 2, "survivors")


class Stopped:
    """The sandbox's init hangs."""

    def __init__(self, g):
        self.pids = g.inits()
        equal(len(self.pids), 1, "inits")

    def __enter__(self):
        os.kill(self.pids[0], signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.pids[0], signal.SIGCONT)
        except ProcessLookupError:
            pass


def test_init_hangs(g):
    """A time-out is kept though init hangs: before the command runs, while it does, and unheard."""
    g.out("a", ["true"])
    with g.events("a", ["sleep", "100"], timeout_ms=1500) as events:
        until(lambda: "sleep" in names(g), "the command")
        started = time.monotonic()
        with Stopped(g):
            ended(events.result(), "timeout", 124)
    check(time.monotonic() - started < 30, "it took", time.monotonic() - started)
    g.out("a", ["true"])
    with Stopped(g):
        ended(g.exec("a", ["sleep", "101"], timeout_ms=300), "timeout", 124)
    g.out("a", ["true"])
    equal(names(g).count("sleep"), 0, "commands that are left")
    # Whoever goes away leaves nothing behind either.
    with Stopped(g):
        with g.events("a", ["sleep", "102"]):
            pass
        until(lambda: g.sandbox("a")["execs"] == 0, "the exec to be forgotten", 30)
    until(lambda: "sleep" not in names(g), "no command")
    equal(g.sandbox("a")["generation"] == 1, g.has_cgroups, "only the whole sandbox's end proves it")


def test_timeout_at_once(g):
    """A time-out that comes while init still starts the command is a time-out."""
    g.out("a", ["true"])
    for round_ in range(30):
        result = g.exec("a", ["sleep", "100"], timeout_ms=1 + round_ % 4)
        ended(result, "timeout", 124)
    for argv in (["/nowhere"], ["sleep", "100"]):
        with Stopped(g) as stopped, g.events("a", argv, timeout_ms=1) as events:
            g.sandbox("a")
            time.sleep(0.05)  # the time-out is over, and init has not heard of the command
            stopped.__exit__()
            ended(events.result(), "timeout", 124)
    until(lambda: "sleep" not in names(g), "no command")
    equal(g.sandbox("a")["generation"], 1, "generation")


def test_stop(g):
    """Whoever stops or deletes a sandbox kills its commands; what they have said arrives."""
    for method, target in (("POST", "/v1/sandbox/a/sleep"), ("DELETE", "/v1/sandbox/a")):
        g.put_file("a", "/workspace/fill.py", FILL)
        with g.events("a", "echo said; exec sleep 100") as plain, g.events("a", "python3 fill.py; exit 5") as full:
            equal(next(iter(plain)), ("stdout", b"said\n"), "its output")
            until(lambda: "python3" in names(g), "the other command")
            until(lambda: "python3" not in names(g) and "sh" not in names(g), "the other command's end")
            time.sleep(0.3)  # its status is on the way, and nobody is told of it before the output
            check(g.request(method, target, {"mode": "stop"} if method == "POST" else None).status < 300, method)
            ended(plain.result(), "killed", 143 if method == "POST" else 137)
            result = full.result()
            ended(result, "exited", 5)
            check(len(result.stdout) % 4096 == 0, "the last of the output is missing")
    # Killed is not what a sandbox is that ends by itself.
    g.out("a", ["true"])
    with g.events("a", ["sleep", "100"]) as events:
        until(lambda: "sleep" in names(g), "the command")
        os.kill(g.inits()[0], signal.SIGKILL)
        ended(events.result(), "lost", None)


def test_init_dies(g):
    """Of many who ask an init that is being killed none is refused: the next one serves them."""
    rng, seen = random.Random(6), collections.Counter()

    def ask(_):
        reply = g.request("POST", "/v1/sandbox/a/exec", {"argv": ["true"]}, Accept="application/json")
        answer = reply.json()
        check((answer.get("reason"), answer.get("exit_code")) in (("exited", 0), ("lost", None))
              or answer.get("code") == "start_failed", reply)
        seen[answer.get("reason", "start_failed")] += 1

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        for _ in range(4):
            delay = rng.uniform(0, 0.05)
            asked = pool.map(ask, range(40))
            until(g.inits, "init")
            time.sleep(delay)  # somewhere amid the commands that waited for it
            for pid in g.inits():
                os.kill(pid, signal.SIGKILL)
            list(asked)
            equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    check(seen["exited"] > 4, seen)


def test_flood_ended(g):
    """A time-out's end arrives though its client reads slowly and the command floods it."""
    g.out("a", ["true"])
    # It takes a while to be ended: many processes, all of them printing.
    what = "for i in $(seq 40); do yes $(seq 2000) & done; wait"
    with g.events("a", what, timeout_ms=1500) as events:
        until(lambda: g.sandbox("a")["execs"] == 0, "the command's end", 30)
        result = events.result()
    ended(result, "timeout", 124)
    check(result.facts.get("output_dropped") and len(result.stdout) < 2 * MB, len(result.stdout), result.facts)
    check("output_dropped" not in g.run_events("a", "echo x; sleep 9", timeout_ms=500).facts, "it kept up")


def leave_running(g, name):
    """Commands that leave something running, until they are refused: how many, and the refusal."""
    for count in range(100):
        reply = g.request("POST", f"/v1/sandbox/{name}/exec", {"command": "sleep 99 &"}, Accept="application/json")
        if reply.status != 200:
            return count, reply
    raise Failed("nobody says stop")


def test_descriptors(g):
    """A berthd that runs out of descriptors refuses commands, and loses nothing that runs."""
    g.start(files=256)
    g.out("b", ["true"])
    with g.events("a", ["sleep", "100"]) as events:
        count, reply = leave_running(g, "a")
        equal((count, reply.status, reply.json()["code"]), (15, 503, "capacity_exceeded"), reply)
        g.out("b", ["true"])  # each sandbox has its own
        for name in "bcdefghij":
            count, reply = leave_running(g, name)
            equal((reply.status, reply.json()["code"]), (503, "capacity_exceeded"), reply)
            if "RLIMIT_NOFILE" in reply.json()["error"]:
                break
        check("RLIMIT_NOFILE" in reply.json()["error"] and ground.fds_of(g.berthd.pid) < 230, reply)
        for sandbox in g.list_all():
            equal((sandbox["state"], sandbox["generation"]), ("running", 1), sandbox)
        equal(g.request("DELETE", "/v1/sandbox/b").status, 204, "delete")
        equal(g.out("i", "echo here"), "here\n", "another command")
        equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
        ended(events.result(), "killed", 137)


main([test_descriptors, test_flood, test_slow_client, test_init_hangs, test_timeout_at_once, test_stop,
      test_init_dies, test_flood_ended], start=lambda test: test != test_descriptors)
