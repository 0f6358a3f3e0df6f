"""USAGE: what all processes have used, those that ended too, and nothing twice."""

import os
import signal

import sandbox as s

BURN_US = 400000
BURN = (f"import time, os, sys\ndef burn():\n while time.process_time() < {BURN_US / 1e6}: pass\n")
MOST_US = 700000  # with python's own start; twice would be more


def usage(peer):
    return peer.expect(s.USAGE_IS, tag=peer.send(s.USAGE)).cpu_us


def is_once(t, used, what):
    t.check(BURN_US - 20000 <= used <= MOST_US, f"{what}: {used} us")


def ended(t, box, peer):
    for flags in (0, s.SUPERVISED):
        before = usage(peer)
        done = box.run(peer, ["/usr/bin/python3", "-Ic", BURN + "burn()"], flags=flags)
        t.equal((done.code, done.err), (0, b""), "the burner")
        s.wait_until(lambda: not box.inside())
        is_once(t, usage(peer) - before, "of one that has ended")
    first = usage(peer)
    for _ in range(500):
        last = usage(peer)
    t.equal(last, first, "asking uses nothing")


def live(t, box, peer, script, what):
    """While it waits, and when it is gone."""
    before = usage(peer)
    number = box.number()
    f = peer.exec(number, ["/usr/bin/python3", "-Ic", BURN + script], flags=s.STDIN)
    t.equal(os.read(f.fds[1], 10), b"done\n", what)
    is_once(t, usage(peer) - before, what)
    is_once(t, usage(peer) - before, f"{what}, again")
    peer.signal(number, signal.SIGKILL)
    peer.exited(number)
    s.wait_until(lambda: not box.inside())
    is_once(t, usage(peer) - before, f"{what}, and then not any more")
    for fd in f.fds:
        os.close(fd)
    peer.forget(number)


def running(t, box, peer):
    say = "print('done', flush=True); sys.stdin.read()"
    live(t, box, peer, f"burn(); {say}", "one that runs")
    fork = "pid = os.fork()\nif pid == 0: burn(); os._exit(0)\n"
    live(t, box, peer, f"{fork}os.waitpid(pid, 0); {say}", "a child that was waited for")
    live(t, box, peer, f"{fork}os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT); {say}", "one that was not")
    threads = "import threading\nt = threading.Thread(target=burn); t.start(); t.join()\n"
    live(t, box, peer, f"{threads}{say}", "a thread that has ended")


def rises(t, box, peer):
    number = box.number()
    f = peer.exec(number, ["sh", "-c", "while :; do :; done"])
    for _ in range(3):
        before = usage(peer)
        s.wait_until(lambda: usage(peer) >= before + 50000)
    peer.signal(number, signal.SIGKILL)
    peer.exited(number)
    for fd in f.fds:
        os.close(fd)
    peer.forget(number)


def names(t, box, peer):
    """A name that looks like what stands behind it."""
    number = box.number()
    before = usage(peer)
    set_name = "import ctypes; ctypes.CDLL(None).prctl(15, b') R 1 9 9 9 9 9')"
    f = peer.exec(number, ["/usr/bin/python3", "-Ic", f"{set_name}\nprint(1, flush=True)\nimport sys; sys.stdin.read()"],
                  flags=s.STDIN)
    t.equal(os.read(f.fds[1], 10), b"1\n", "named")
    t.check(usage(peer) - before < 300000, f"used: {usage(peer) - before}")
    for fd in f.fds:
        os.close(fd)
    peer.exited(number)
    peer.forget(number)


if __name__ == "__main__":
    s.main([ended, running, rises, names])
