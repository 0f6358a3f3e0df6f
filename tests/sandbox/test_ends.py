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


def test_flood(g):
    """Survivors that never stop printing do not hold up the end of their command."""
    for run in (g.exec, g.run_events):
        started = time.monotonic()
        ended(run("a", "for i in 1 2 3 4; do yes & done; echo first >&2; exit 3"), "exited", 3)
        check(time.monotonic() - started < 20, "it took", time.monotonic() - started)
        g.out("a", ["sh", "-c", "kill -9 $(pidof yes)"])


main([test_flood])
