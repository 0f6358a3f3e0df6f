"""A real berth-keeper that cannot see which loop device the pool of limited disks has: it attaches no second one.

usage: test_pool.py BUILD root RUNTIME LIBRARY [CASE...]
"""

import errno
import fcntl
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.abspath(sys.argv.pop(4))
sys.path[:0] = [os.path.join(HERE, "..", "limits"), os.path.join(HERE, "..", "sandbox")]

# pylint: disable=wrong-import-position
import faults as f  # noqa: E402
from ground import check, equal, main, only, until  # noqa: E402
from pool import attached, end, folder, limited, pool_of, refused, rest, start  # noqa: E402

# Where it looks, and what may happen there.
BLIND = [("/sys/block", errno.ENOENT), ("/sys/block", errno.EMFILE), ("/dev/loop", errno.ENOENT), ("/dev/loop", errno.EACCES)]


def begin(g):
    """With the library; nothing fails yet."""
    faults = f.Faults(LIBRARY, g.path("faults"), "berth-keeper")
    g.start(env=faults.env)
    return faults


@only("root")
def test_blind(g):
    """A keeper that cannot look takes no device for none: those that run write on, and it is opened when it can"""
    faults = begin(g)
    limited(g, "a", "16M")
    g.out("a", "echo kept >f")
    device = attached(g)
    for path, error in BLIND:
        faults.arm(f.OPEN, 1, path, error, is_lasting=True)
        before = g.log_text().count("is open again")
        g.kill_keeper()
        until(lambda: g.sandbox("a")["state"] == "running" and g.keeper(), "the sandbox to be adopted")
        refused(start(g, "b", "16M"), 502, "start_failed", "no loop device")
        calls, hits = faults.disarm()
        check(hits, "nothing failed", path, calls)
        equal(attached(g), device, f"loop devices after {path} {error}")
        until(lambda: g.log_text().count("is open again") > before, "the pool to be opened")
        equal(attached(g), device, "loop devices")
        equal(g.out("a", "cat f"), "kept\n", "its disk")
    # The names in /sys cannot be read: the devices themselves are asked.
    faults.arm(f.OPEN, 1, "backing_file", errno.EMFILE, is_lasting=True)
    g.kill_keeper()
    until(lambda: g.sandbox("a")["state"] == "running" and g.keeper(), "the sandbox to be adopted")
    equal(start(g, "b", "16M").status, 200, "start")
    check(faults.disarm()[1], "nothing failed")
    equal(attached(g), device, "loop devices")
    end(g)


@only("root")
def test_lock(g):
    """An image that somebody holds a lock on is attached to nothing, and that is said once for all in some seconds"""
    begin(g)
    limited(g, "a", "16M")
    image = os.path.join(g.state, "pool.img")
    with open(image, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            check(False, "the device has no lock")
        except BlockingIOError:
            pass
    rest(g, "a")
    with open(image, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        g.start()
        refused(start(g, "a"), 502, "start_failed", "lock", "losetup")
        equal(attached(g), [], "loop devices")
    until(lambda: start(g, "a").status == 200, "the start")
    end(g)


@only("root")
def test_removal(g):
    """A disk that cannot be opened while it is removed is not taken for none: what it has in the pool goes, too"""
    faults = begin(g)
    for name in ("a", "b"):
        limited(g, name, "16M")
    faults.arm(f.OPEN, 1, "a-0", errno.EMFILE)
    reply = g.request("DELETE", "/v1/sandbox/a")
    equal(faults.disarm()[1], 1, reply)
    equal((len(os.listdir(pool_of(g))), os.listdir(folder(g, ".trash"))), (2, ["a-0"]), "what is left")
    g.out("c", "true")  # a start sweeps
    until(lambda: not os.listdir(folder(g, ".trash")), "the trash to be emptied")
    equal(len(os.listdir(pool_of(g))), 1, "disks")
    end(g)


main([test_blind, test_lock, test_removal], start=lambda test: False)
