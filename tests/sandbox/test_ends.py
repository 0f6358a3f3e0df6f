"""The end of an exec: it comes in time, once, and says what was true, whoever hinders it."""

import base64
import os
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
        g.out("a", ["sh", "-c", "kill -9 $(pidof yes)"])


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
    until(lambda: g.sandbox("a")["execs"] == 2, "the execs that have survivors")
    equal(names(g).count("sleep"), 2, "survivors")


main([test_flood, test_slow_client])
