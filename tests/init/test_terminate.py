"""TERMINATE: everything is asked to end, how each did is told, and QUIET once nothing is left."""

import os
import signal
import time

import sandbox as s
from test_session import Session
from test_terminal import SUPERVISORS, Terminal, shell

DEAF = "trap '' TERM; echo; exec sleep 1000"
POLITE = "trap 'exit 7' TERM; echo; while :; do sleep 0.01; done"
SEEMINGLY = 0.3  # seconds in which something that must not come would have come
STREAMS = {}  # by number: what prints to closed ones dies of that


def start(box, peer, script, **options):
    """Its number, once it has printed something: so its traps are set."""
    number = box.number()
    f = peer.exec(number, ["sh", "-c", script], **options)
    assert f.kind == s.STARTED, f
    os.read(f.fds[-2], 1)
    STREAMS[number] = f.fds
    return number


def drop(peer, *numbers):
    for number in numbers:
        for fd in STREAMS.pop(number, []):
            os.close(fd)
        peer.forget(number)


def until_quiet(peer):
    """[(kind, exec, status)] of what comes before QUIET, in this order."""
    got = []
    while True:
        f = peer.receive()
        if f.kind == s.QUIET:
            assert f.tag == 0 and not f.fds, f
            return got
        got.append((f.kind, f.exec, getattr(f, "status", None)))


def is_silent(t, peer, what):
    time.sleep(SEEMINGLY)
    peer.ping()
    t.equal(peer.kept, [], what)


def nothing_runs(t, box, peer):
    for _ in range(3):
        peer.send(s.TERMINATE)
        t.equal(until_quiet(peer), [], "at once")
    peer.send(s.TERMINATE)
    peer.send(s.TERMINATE)
    t.equal(until_quiet(peer) + until_quiet(peer), [], "one for each")
    # Nor after one that was refused before and after it had a process.
    box.run(peer, ["/no/such"])
    peer.exec(box.number(), ["true"], flags=s.TERMINAL)
    peer.send(s.TERMINATE)
    t.equal(until_quiet(peer), [], "after refusals")
    is_silent(t, peer, "and no more of them")
    t.equal(box.run(peer, ["echo", "x"]).out, b"x\n", "it goes on")


def statuses(t, box, peer):
    plain = start(box, peer, POLITE)
    under = start(box, peer, POLITE, flags=s.SUPERVISED)
    kept = start(box, peer, POLITE, flags=s.SUPERVISED | s.KEPT)
    meek = start(box, peer, "echo; exec sleep 1000", flags=s.SUPERVISED)
    peer.send(s.TERMINATE)
    got = until_quiet(peer)
    t.equal(sorted(got, key=str), sorted([(s.EXITED, plain, 7 << 8), (s.EXITED, under, 7 << 8),
                                          (s.EXITED, kept, 7 << 8), (s.EXITED, meek, int(signal.SIGTERM)),
                                          (s.SETTLED, kept, None)], key=str), "all of it before QUIET")
    t.equal(box.inside(), {}, "nothing is left")
    is_silent(t, peer, "all is said")
    drop(peer, plain, under, kept, meek)


def deaf_ones(t, box, peer):
    for flags in (0, s.SUPERVISED):
        number = start(box, peer, DEAF, flags=flags)
        peer.send(s.TERMINATE)
        is_silent(t, peer, "it is not quiet")
        # Asked again, and each is answered.
        peer.send(s.TERMINATE)
        is_silent(t, peer, "nor then")
        peer.signal(number, signal.SIGKILL)
        t.equal(until_quiet(peer), [(s.EXITED, number, int(signal.SIGKILL))], "until it is killed")
        t.equal(until_quiet(peer), [], "the second")
        is_silent(t, peer, "all is said")
        drop(peer, number)


def orphans(t, box, peer):
    """Of nobody's exec any more."""
    number = start(box, peer, "setsid sleep 1000 & echo; exit 3")
    t.equal(peer.exited(number).status, 3 << 8, "its parent has gone")
    t.equal(len(box.inside()), 1, "it has not")
    peer.send(s.TERMINATE)
    t.equal(until_quiet(peer), [], "told of nobody")
    t.equal(box.inside(), {}, "nothing is left")
    drop(peer, number)
    number = start(box, peer, "/sandbox/probe misbehave 0 | { read x; echo; }")
    peer.signal(number, signal.SIGKILL)
    peer.exited(number)
    peer.send(s.TERMINATE)
    is_silent(t, peer, "one that ignores all signals")
    box.run(peer, ["pkill", "-KILL", "-x", "probe"])
    t.equal(until_quiet(peer), [], "until it is killed")
    drop(peer, number)


def stopped(t, box, peer):
    plain = start(box, peer, "echo; exec sleep 1000")
    polite = start(box, peer, POLITE)
    under = start(box, peer, POLITE, flags=s.SUPERVISED)
    pids = box.run(peer, ["bash", "-c", f"{SUPERVISORS}; pgrep -x sh; pgrep -x sleep"]).out.split()
    t.check(len(pids) >= 4, f"all are found: {pids}")
    box.run(peer, ["bash", "-c", f"kill -STOP {b' '.join(pids).decode()} 2>/dev/null; true"])
    s.wait_until(lambda: sum(") T " in line for line in box.inside().values()) >= 4)
    peer.send(s.TERMINATE)
    t.equal(sorted(until_quiet(peer)), [(s.EXITED, plain, int(signal.SIGTERM)), (s.EXITED, polite, 7 << 8),
                                        (s.EXITED, under, 7 << 8)], "statuses")
    drop(peer, plain, polite, under)


def terminals(t, box, peer):
    """A shell that somebody talks to ignores SIGTERM, but not a lost line."""
    idle, busy, stopping = (shell(box, peer) for _ in range(3))
    busy.type("sleep 1000\n")
    stopping.type("sleep 1001\n")
    s.wait_until(lambda: sum("(sleep)" in line for line in box.inside().values()) == 2)
    stopping.type("\x1a")
    stopping.until("Stopped")
    stopping.type("trap '' TERM; sleep 1002 & sleep 1003\n")
    s.wait_until(lambda: sum("(sleep)" in line for line in box.inside().values()) == 4)
    says = Terminal(box, peer, ["sh", "-c", "trap '' TERM; trap 'echo bye; exit 5' HUP; echo go; "
                                "while :; do sleep 0.05; done"])
    says.until("go\r\n")
    peer.send(s.TERMINATE)
    got = until_quiet(peer)
    for term in (idle, busy, stopping):
        t.check((s.EXITED, term.number, int(signal.SIGHUP)) in got, f"hung up: {got}")
    t.check((s.EXITED, says.number, 5 << 8) in got, f"its status: {got}")
    t.equal(sum(kind == s.SETTLED for kind, _, _ in got), 4, "all of each is gone")
    says.until("bye\r\n")
    t.equal(box.inside(), {}, "nothing is left")
    for term in (idle, busy, stopping, says):
        term.close()


def terminal_of_a_stopped_supervisor(t, box, peer):
    term = shell(box, peer)
    supervisor = int(box.run(peer, ["bash", "-c", SUPERVISORS]).out)
    box.run(peer, ["kill", "-STOP", str(supervisor), str(term.pid)])
    peer.send(s.TERMINATE)
    t.equal(until_quiet(peer), [(s.EXITED, term.number, int(signal.SIGHUP)), (s.SETTLED, term.number, None)], "told")
    term.close()
    # Many requests that a supervisor cannot hear are not what fills its line.
    term = Terminal(box, peer, ["sh", "-c", "trap '' TERM HUP; echo go; while :; do sleep 1000; done"])
    term.until("go\r\n")
    for _ in range(300):
        peer.send(s.TERMINATE)
    peer.ping()
    t.equal(peer.kept, [], "it is deaf to all")
    t.equal(peer.end(term.number), 1, "but not for ever")
    for _ in range(299):
        peer.expect(s.QUIET)
    t.equal(term.finish() & 0x7f, int(signal.SIGKILL), "status")
    peer.expect(s.QUIET)


@s.needs_ids
def of_another_user(t, box, peer):
    term = shell(box, peer, user="1000:1000")
    number = start(box, peer, POLITE, user="1000:1000", flags=s.SUPERVISED)
    peer.send(s.TERMINATE)
    got = until_quiet(peer)
    t.check((s.EXITED, term.number, int(signal.SIGHUP)) in got and (s.EXITED, number, 7 << 8) in got, got)
    term.close()
    drop(peer, number)


def sessions(t, box, peer):
    for flags in (0, s.SUPERVISED):
        idle = Session(box, peer, ["bash"], flags=flags)
        busy = Session(box, peer, ["bash"], flags=flags)
        number, f = busy.begin("trap 'exit 7' TERM; echo; while :; do sleep 0.01; done")
        os.read(f.fds[0], 1)
        peer.send(s.TERMINATE)
        got = until_quiet(peer)
        t.equal(sorted(got), sorted([(s.EXITED, idle.number, int(signal.SIGTERM)), (s.EXITED, busy.number, 7 << 8),
                                     (s.EXITED, number, 7 << 8)]), "the shells' own ends, and the command's")
        for fd in f.fds:
            os.close(fd)
        for gone in (idle.number, busy.number, number):
            peer.forget(gone)


def another_peer(t, box, peer):
    """Who has not asked is not told."""
    first = box.peer()
    number = start(box, first, DEAF)
    first.send(s.TERMINATE)
    first.ping()
    second = box.peer()
    second.expect(s.LIVE, exec_id=number)
    second.signal(number, signal.SIGKILL)
    second.exited(number)
    drop(second, number)
    is_silent(t, second, "another's question")
    second.send(s.TERMINATE)
    t.equal(until_quiet(second), [], "its own")


@s.needs_ids
def from_outside(t, box, peer):
    """A SIGTERM by which init itself ends is heard by all in the same way."""
    term = shell(box, peer)
    still = start(box, peer, "echo; exec sleep 1000")
    peer.signal(still, signal.SIGSTOP)
    s.wait_until(lambda: any(") T " in line for line in box.inside().values()))
    os.kill(box.pid, signal.SIGTERM)
    t.equal(peer.exited(term.number).status, int(signal.SIGHUP), "a terminal")
    t.equal(peer.exited(still).status, int(signal.SIGTERM), "a stopped one")
    t.equal(box.wait(), 0, "init's exit code")


if __name__ == "__main__":
    s.main([nothing_runs, statuses, deaf_ones, orphans, stopped, terminals, terminal_of_a_stopped_supervisor,
            of_another_user, sessions, another_peer, from_outside])
