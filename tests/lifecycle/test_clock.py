"""Check 43, clock jump: a wall's clock that is set forward and back. usage: test_clock.py BUILD root|user RUNTIME [TEST...]

The clock of the machine stays as it is. berthd has one of its own, by a library: nothing else would set it for one alone.
"""

import os
import sqlite3
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "sandbox")]

# pylint: disable=wrong-import-position
from ground import check, equal, main, needs_root, until  # noqa: E402
from jump import DAY, YEAR, Clock  # noqa: E402

LIBRARY = os.path.join(os.path.abspath(sys.argv[1]), "tests", "lifecycle", "libclock.so")
RUN = 'echo "$BERTH_ALARM" >>/workspace/ran'
LINES = 30


def put(g, name, **settings):
    reply = g.request("PUT", f"/v1/sandbox/{name}", settings)
    equal(reply.status, 200, reply)


def put_alarm(g, name, **when):
    reply = g.request("PUT", f"/v1/sandbox/a/alarm/{name}", {"argv": ["sh", "-c", RUN], **when})
    equal(reply.status, 200, reply)


def runs(g, name):
    return g.out("a", "cat /workspace/ran 2>/dev/null || true").split().count(name)


def next_at(g, name):
    return g.get(f"/v1/sandbox/a/alarm/{name}").json()["next_at"]


def check_files(g):
    """Nothing is half-written: what is stored can be read whole."""
    db = sqlite3.connect(os.path.join(g.state, "berthd", "state.db"))
    try:
        equal(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "the database")
    finally:
        db.close()
    left = [name for _, _, names in os.walk(os.path.join(g.state, "berthd")) for name in names if name.endswith((".tmp", ".new"))]
    equal(left, [], "temporary files")


def begin(g):
    """A berthd with such a clock; an exec, a process and what waits for its time."""
    clock = Clock(LIBRARY, g.path("clock"))
    g.start(env=clock.env)
    put(g, "a", sleep_after="never")
    put(g, "kept", delete_after="1h")
    put(g, "idle", sleep_after="2s")
    reply = g.request("POST", "/v1/sandbox/a/processes",
                      {"id": "ticker", "argv": ["sh", "-c", "while :; do date >>/workspace/ticks; echo tick; sleep 0.2; done"]})
    check(reply.status in (200, 201), reply)
    put_alarm(g, "soon", at=clock.at(3600))
    put_alarm(g, "grid", at=clock.at(7200), every="1h")
    return clock


def run_long(g, results):
    results.append(g.exec("a", f"i=0; while [ $i -lt {LINES} ]; do echo $i; i=$((i + 1)); sleep 0.1; done", timeout_ms=60000))


def jump_under_way(g, clock, seconds):
    """An exec with a time limit is under way, and a sandbox about to fall asleep."""
    results = []
    runner = threading.Thread(target=run_long, args=(g, results))
    runner.start()
    until(lambda: g.sandbox("a")["execs"] > 1, "the exec")
    g.out("idle", "true")
    clock.jump(seconds, g.berthd.pid)
    until(lambda: g.sandbox("idle")["state"] in ("frozen", "cold"), "its sleep", 20)
    runner.join()
    equal((results[0].code, len(results[0].stdout.split())), (0, LINES), results[0])
    slept = g.sandbox("idle")["last_sleep"]
    equal((g.sandbox("kept")["id"], slept["reason"]), ("kept", "idle"), slept)


def check_restart(g, clock, done):
    """Killed and started in that time: all is as it was, and nothing runs again."""
    before = [next_at(g, name) for name in ("soon", "grid")]
    g.kill_berthd()
    g.start(env=clock.env)
    equal(g.get("/v1/sandbox/a/processes/ticker").json()["state"], "running", "the process")
    equal([next_at(g, name) for name in ("soon", "grid")], before, "what is due next")
    g.out("idle", "true")
    until(lambda: g.sandbox("idle")["state"] in ("frozen", "cold"), "its sleep after a restart", 20)
    equal([runs(g, name) for name in ("soon", "grid")], done, "what has run")
    equal(g.get("/v1/sandbox/kept").status, 200, "one that sleeps")
    check_files(g)


def jump_forward(g, seconds):
    clock = begin(g)
    jump_under_way(g, clock, seconds)
    until(lambda: [runs(g, "soon"), runs(g, "grid")] == [1, 1], "what was due", 20)
    until(lambda: next_at(g, "soon") is None and next_at(g, "grid") > clock.at(0), "the next time")
    check_restart(g, clock, [1, 1])
    due = next_at(g, "grid")
    clock.jump(-seconds, g.berthd.pid)
    jump_under_way(g, clock, 0)
    equal((next_at(g, "soon"), next_at(g, "grid")), (None, due), "back again")
    check_restart(g, clock, [1, 1])


def jump_back(g, seconds):
    clock = begin(g)
    due = [next_at(g, name) for name in ("soon", "grid")]
    jump_under_way(g, clock, -seconds)
    equal([next_at(g, name) for name in ("soon", "grid")], due, "what is due")
    check_restart(g, clock, [0, 0])
    put_alarm(g, "now", at=clock.at(1))
    until(lambda: runs(g, "now") == 1, "one by the new time", 20)
    clock.jump(seconds, g.berthd.pid)
    clock.jump(3 * 3600, g.berthd.pid)
    until(lambda: [runs(g, "soon"), runs(g, "grid")] == [1, 1], "what was due", 20)
    until(lambda: next_at(g, "soon") is None, "its end")
    check_restart(g, clock, [1, 1])
    equal(runs(g, "now"), 1, "the other")


@needs_root
def test_43_day_forward(g):
    """43: A day forward: no exec is cut, no sleep is lost, what was due runs once; also after a restart, and back again."""
    jump_forward(g, DAY)


@needs_root
def test_43_day_back(g):
    """43: A day back: nothing runs early or twice, and nothing is lost."""
    jump_back(g, DAY)


@needs_root
def test_43_years_forward(g):
    """43: Ten years forward."""
    jump_forward(g, 10 * YEAR)


@needs_root
def test_43_years_back(g):
    """43: Ten years back."""
    jump_back(g, 10 * YEAR)


@needs_root
def test_43_while_away(g):
    """43: Set while no berthd is there, by each of these: what runs is adopted, and sandboxes start as ever."""
    clock = begin(g)
    for seconds in (-DAY, 10 * YEAR, -10 * YEAR, DAY):
        put(g, "kept", delete_after="never")
        g.kill_berthd()
        clock.set(clock.ahead + seconds)
        g.start(env=clock.env)
        equal(g.get("/v1/sandbox/a/processes/ticker").json()["state"], "running", "the process")
        began = time.monotonic()
        equal(g.out("kept", "echo runs"), "runs\n", "a start")
        check(time.monotonic() - began < 30, "it took too long")
        check_files(g)
    until(lambda: runs(g, "soon") == 1 and runs(g, "grid") == 1, "what was due, once", 20)


main([test_43_day_forward, test_43_day_back, test_43_years_forward, test_43_years_back, test_43_while_away],
     start=lambda test: False)
