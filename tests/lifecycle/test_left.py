"""What a berthd had begun when it was killed: the next one goes on with it, and tells of it once."""

import http.client
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from event_api import names, stored  # noqa: E402
from ground import check, equal, lives, main, needs_cgroups, until  # noqa: E402
from process_api import ended, show, start, wait  # noqa: E402

STOP_AFTER_S = 8
STUBBORN = "trap 'echo asked >>/workspace/asked; echo asked' TERM; echo on; while :; do sleep 0.1; done"


def begin_stop(g):
    """It stays on the way: its process does not end when it is asked to, and has a minute for that."""
    def ask():
        try:
            g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
        except (OSError, http.client.HTTPException):
            pass  # its berthd is killed meanwhile

    equal(g.request("PUT", "/v1/sandbox/a", {"stop_grace": "1m"}).status, 200, "create")
    start(g, "a", STUBBORN, id="p")
    wait(g, "a", "p", "log", pattern="on")
    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: g.sandbox("a")["state"] == "stopping", "the stop to begin")
    wait(g, "a", "p", "log", pattern="asked")
    # What was asked for a moment ago is on its way to the disk: this is stored behind it.
    equal(g.request("PUT", "/v1/sandbox/behind", {}).status, 200, "another")
    g.kill_berthd()
    asking.join()


def check_stopped(g):
    """By whichever berthd: it was asked for, and has not failed."""
    until(lambda: g.sandbox("a")["state"] == "cold", "the stop to end")
    last = g.sandbox("a")["last_sleep"]
    equal((last["mode"], last["reason"], last["generation"]), ("stop", "asked", 1), last)
    equal(g.sandbox("a")["last_failure"], None, "no failure")
    equal([n for n in names(stored(g, "a")) if n in ("slept", "exited", "woke")], ["slept"], stored(g, "a"))
    g.kill_berthd()
    g.start()
    equal(g.sandbox("a")["last_sleep"], last, "and that is stored")
    equal(names(stored(g, "a")).count("slept"), 1, stored(g, "a"))
    equal(g.out("a", "cat asked"), "asked\n", "its process was asked once")


def test_goes_on(g):
    """It is not taken for one that runs, and its processes are not asked again. Who needs it has the next life."""
    begin_stop(g)
    g.start()
    until(lambda: g.sandbox("a")["state"] == "stopping", "the stop to go on")
    g.kill(lives(g, "sh", "bash"))
    check_stopped(g)
    equal(g.sandbox("a")["generation"], 2, "the next life")
    check(show(g, "a", "p")["state"] not in ("running", "starting"), show(g, "a", "p"))


def test_ended_meanwhile(g):
    """Its init is gone before the next berthd comes: that was asked for, too."""
    begin_stop(g)
    g.kill(g.inits())
    until(lambda: not g.inits(), "its end")
    g.start()
    check_stopped(g)


def test_no_keeper(g):
    """Nothing of it is left, not even a keeper that saw it end, as after a reboot."""
    begin_stop(g)
    g.kill_keeper_and_monitor()
    g.kill(g.inits())
    until(lambda: not g.inits(), "its end")
    g.start()
    check_stopped(g)


def test_died_meanwhile(g):
    """Nobody had asked for its end: that it died is told, and told once."""
    start(g, "a", "sleep 1000", id="p")
    g.kill_berthd()
    g.kill(g.inits())
    until(lambda: not g.inits(), "its end")
    for _ in range(2):
        g.start()
        until(lambda: "exited" in names(stored(g, "a")), "the event")
        equal([e[2]["reason"] for e in stored(g, "a") if e[1] == "exited"], ["died"], stored(g, "a"))
        equal((g.sandbox("a")["last_sleep"] or {}).get("reason"), "failed", g.sandbox("a"))
        equal(ended(g, "a", "p")["reason"], "lost", "its process")
        g.kill_berthd()
    g.start()
    equal(g.out("a", "echo x"), "x\n", "the next life")


@needs_cgroups
def test_stop_after(g):
    """It counts from when it was frozen, also while no berthd was there."""
    equal(g.request("PUT", "/v1/sandbox/a", {"stop_after": f"{STOP_AFTER_S}s"}).status, 200, "create")
    g.out("a", "true")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}).json()["mode"], "freeze", "sleep")
    g.kill_berthd()
    time.sleep(STOP_AFTER_S)
    g.start()
    begun = time.monotonic()
    until(lambda: g.sandbox("a")["state"] == "cold", "stop_after")
    check(time.monotonic() - begun < STOP_AFTER_S, "it did not begin anew")
    equal(g.sandbox("a")["last_sleep"]["reason"], "stop_after", g.sandbox("a"))


main([test_goes_on, test_ended_meanwhile, test_no_keeper, test_died_meanwhile, test_stop_after])
