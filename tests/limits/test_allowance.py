"""What a sandbox may use while it runs: processor time, and memory up to where that is told."""

import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "lifecycle", "process")]

# pylint: disable=wrong-import-position
from event_api import Follower, names, stored  # noqa: E402
from ground import check, equal, main, only, until  # noqa: E402
from limit_api import MIB, hold, of_kernel, put  # noqa: E402
from process_api import ended, start  # noqa: E402

SPIN = "while :; do :; done"


def crossings(g, name="a"):
    return [data for _, kind, data in stored(g, name) if kind == "memory_threshold"]


def held(g, follower, size):
    """The event that comes of it, and no other while that lasts."""
    with g.events("a", hold(size)) as events:
        equal(next(iter(events)), ("stdout", b"held\n"), "it holds")
        event = follower.until("memory_threshold")
        before = len(crossings(g))
        time.sleep(2.5)  # nothing may happen
        equal(len(crossings(g)), before, "events")
        return event


@only("root")
def test_threshold(g):
    """It is told once when it is crossed, and again only after it has fallen; caches of files do not count."""
    put(g, memory="128M", memory_threshold=0.5, disk="1G")  # a real one, also where ours is in memory
    with Follower(g, "a") as follower:
        g.out("a", "dd if=/dev/zero of=big bs=1M count=120 2>/dev/null; sync big; cat big >/dev/null")
        check(g.get("/v1/sandbox/a/stats").json()["usage"]["memory_bytes"] > 64 * MIB, "it is kept")
        time.sleep(2.5)  # nothing may happen
        equal(crossings(g), [], "for a cache")
        event = held(g, follower, 80)
        equal((event["limit_bytes"], event["threshold"]), (128 * MIB, 0.5), event)
        check(64 * MIB <= event["held_bytes"] <= 128 * MIB, event)
        time.sleep(2.5)  # it is seen to have fallen
        equal(held(g, follower, 80)["limit_bytes"], 128 * MIB, "the second time")
        equal(len(crossings(g)), 2, "crossings")


@only("root")
def test_threshold_changes(g):
    """It holds from when it is set, of the limit that there is: also of the default, and of another one."""
    put(g)
    with Follower(g, "a") as follower, g.events("a", hold(100)) as events:
        equal(next(iter(events)), ("stdout", b"held\n"), "it holds")
        limit = int(of_kernel(g, "memory"))
        put(g, memory_threshold=0.04)
        event = follower.until("memory_threshold")
        equal((event["limit_bytes"], event["threshold"]), (limit, 0.04), event)
        put(g, memory_threshold=0)
        put(g, memory="160M", memory_threshold=0.5)
        equal(follower.until("memory_threshold")["limit_bytes"], 160 * MIB, "the new limit")
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}).status, 200, "freeze")
        equal(g.sandbox("a")["state"], "frozen", "it sleeps all the same")
    equal(names(stored(g, "a")).count("memory_threshold"), 2, "events")


def berth(g, *words, code=0):
    done = subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, *words], capture_output=True,
                          check=False, text=True)
    equal(done.returncode, code, done)
    return done.stdout if code == 0 else done.stderr


def test_names(g):
    """What is refused, and what is shown."""
    for limits in ({"memory_threshold": 1.5}, {"memory_threshold": -1}, {"cpu_time_ms": -1}, {"cpu_time_ms": "1s"}):
        equal(g.request("PUT", "/v1/sandbox/x", {"limits": limits}).status, 400, limits)
    shown = put(g, "x", memory_threshold=0.8, cpu_time_ms=1500)["limits"]
    equal((shown["memory_threshold"], shown["cpu_time_ms"]), (0.8, 1500), shown)
    berth(g, "create", "c", "--memory-threshold", "0.25", "--cpu-time", "90s")
    shown = berth(g, "inspect", "c")
    check(re.search(r"memory threshold +0.25 of it", shown) and re.search(r"cpu time limit +1m30s|cpu time limit +90s", shown), shown)
    for flag, value in (("--memory-threshold", "2"), ("--cpu-time", "soon")):
        check(flag in berth(g, "create", "d", flag, value, code=2), flag)


def spend(g, what, reason="cpu_limit"):
    """How a command ends that does not end by itself, and what is known of the sandbox then."""
    result = g.run_events("a", what)
    equal((result.reason, result.code), (reason, 137), result)
    check("processor time" in result.facts["message"], result)
    equal((result.facts["cpu_ms"], result.facts["max_rss_bytes"]), (None, None), "nobody has measured it")
    shown = until(lambda: (s := g.sandbox("a"))["state"] == "failed" and s, "its end")
    equal(shown["last_failure"]["code"], "cpu_limit", shown)
    check("limits.cpu_time_ms" in shown["last_failure"]["message"], shown)
    return result


@only("root")
def test_cpu(g):
    """A busy loop is ended with the sandbox, which says why; the next life has all of it again."""
    put(g, cpu_time_ms=1000)
    g.out("a", "echo kept >f")
    with Follower(g, "a") as follower:
        spend(g, SPIN)
        exited = follower.until("exited")
        equal((exited["reason"], exited["code"]), ("cpu_limit", "cpu_limit"), exited)
        equal(g.out("a", "cat f"), "kept\n", "the disk")
        shown = g.sandbox("a")
        equal((shown["generation"], shown["last_failure"]), (2, None), shown)
        check(g.get("/v1/sandbox/a/stats").json()["usage"]["cpu_ms"] < 1000, "of the new life")
        # Nor do forks escape it, short ones whom nobody waits for, and those that have left.
        spend(g, ["python3", "-c", "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n"
                                   "    if os.fork() == 0:\n        sum(range(10000))\n        os._exit(0)"])
        follower.until("exited")
        g.out("a", f"setsid sh -c '{SPIN}' >/dev/null 2>&1 </dev/null &")
        equal(follower.until("exited")["code"], "cpu_limit", "of one that nobody waits for")
    # A process in the background tells the same.
    start(g, "a", SPIN, id="p")
    shown = ended(g, "a", "p")
    equal((shown["reason"], shown["exit"]["code"]), ("cpu_limit", 137), shown)


@only("root")
def test_cpu_left(g):
    """One that does little is left alone, frozen or not; what was used counts on with another berthd."""
    put(g, cpu_time_ms=1500)
    with g.events("a", "sleep 1000"):
        time.sleep(2)  # more than it may use
        equal((g.sandbox("a")["state"], g.sandbox("a")["generation"]), ("running", 1), "it is idle")
        used = g.get("/v1/sandbox/a/stats").json()["usage"]["cpu_ms"]
        g.kill_berthd()
    g.start()
    until(lambda: g.sandbox("a")["state"] == "running", "it to be adopted")
    check(g.get("/v1/sandbox/a/stats").json()["usage"]["cpu_ms"] >= used, "the count goes on")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}).status, 200, "freeze")
    equal(put(g, cpu_time_ms=700)["state"], "frozen", "it is changed")
    spend(g, SPIN)
    equal(g.sandbox("a")["generation"], 1, "the same life")
    # Less than was used already: its end. More: it goes on.
    put(g, cpu_time_ms=0)
    g.out("a", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
    used = g.get("/v1/sandbox/a/stats").json()["usage"]["cpu_ms"]
    check(used > 100, used)
    put(g, cpu_time_ms=used * 100)
    equal(g.out("a", "echo on"), "on\n", "it goes on")
    put(g, cpu_time_ms=50)
    until(lambda: g.sandbox("a")["state"] == "failed", "its end")


@only("root")
def test_cpu_stop(g):
    """One that is asked to stop, and is busy instead, has no more than that either."""
    put(g, cpu_time_ms=800)
    equal(g.request("PUT", "/v1/sandbox/a", {"stop_grace": "1h"}).status, 200, "grace")
    with g.events("a", ["sh", "-c", f"trap '{SPIN}' TERM; echo begun; sleep 1000 & wait"]) as events:
        equal(next(iter(events)), ("stdout", b"begun\n"), "it runs")
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    equal((g.sandbox("a")["state"], g.sandbox("a")["last_failure"]), ("cold", None), "as it was asked to be")


main([test_threshold, test_threshold_changes, test_names, test_cpu, test_cpu_left, test_cpu_stop])
