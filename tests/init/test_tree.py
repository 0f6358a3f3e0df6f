"""All that an exec has started ends when it shall."""

import errno
import os
import signal
import time

import sandbox as s

PROBE = "/sandbox/probe"


def supervised(t, box, peer):
    peer = box.peer()
    for code in (0, 3):
        t.equal(box.run(peer, ["sh", "-c", f"exit {code}"], flags=s.SUPERVISED).status, code << 8, "status")
    t.equal(box.run(peer, ["sh", "-c", "kill -9 $$"], flags=s.SUPERVISED).status, 9, "status")
    got = box.run(peer, ["/no/such"], flags=s.SUPERVISED)
    t.equal((got.kind, got.stage, got.error), (s.REFUSED, s.STAGE_PROGRAM, errno.ENOENT), "refused")
    t.equal(box.run(peer, [PROBE, "env"], env=["A=1"], flags=s.SUPERVISED).out, b"A=1\0HOME=/root\0", "env")
    number = box.number()
    f = peer.exec(number, ["sleep", "1000"], flags=s.SUPERVISED)
    peer.signal(number, signal.SIGHUP)
    t.equal(peer.exited(number).status, int(signal.SIGHUP), "signal")
    s.pump(f)
    s.wait_until(lambda: not box.inside())
    t.equal(peer.end(number), 1, "a tree that has ended by itself")
    peer.forget(number)
    t.equal(peer.end(number), 0, "of an unknown one nothing is proven")
    # Survivors stay, also when their exec is forgotten.
    number = box.number()
    f = peer.exec(number, ["sh", "-c", "sleep 1000 & sleep 1001 &"], flags=s.SUPERVISED)
    t.equal(peer.exited(number).status, 0, "status")
    t.equal(len(box.inside()), 3, "two survivors and their supervisor")
    peer.forget(number)
    s.wait_until(lambda: len(box.inside()) == 2)
    for fd in f.fds:
        os.close(fd)
    box.run(peer, ["sh", "-c", "kill -KILL -1"])
    s.wait_until(lambda: not box.inside())


def trees_end(t, box, peer):
    peer = box.peer()
    for argv, rounds in (([PROBE, "misbehave", "0"], 5), ([PROBE, "misbehave", "20"], 3), ([PROBE, "bomb"], 2)):
        for _ in range(rounds):
            number, other = box.number(), box.number()
            bystander = peer.exec(other, ["sleep", "1000"])
            f = peer.exec(number, argv, flags=s.SUPERVISED)
            t.equal(os.read(f.fds[0], 10), b"ready\n", "ready")
            began = time.monotonic()
            t.equal(peer.end(number), 1, f"{argv}: proven empty")
            print(f"# {' '.join(argv[1:])}: ended in {(time.monotonic() - began) * 1000:.1f} ms")
            t.equal(peer.exited(number).status, 9, "status")
            s.wait_until(lambda: len(box.inside()) == 1)
            t.check("(sleep)" in next(iter(box.inside().values())), "the bystander lives")
            s.pump(f)
            peer.signal(other, signal.SIGTERM)
            t.equal(peer.exited(other).status, 15, "the bystander's own end")
            s.pump(bystander)
            peer.forget(number)
            peer.forget(other)


def killed_supervisors(t, box, peer):
    """Only the sandbox's root can: what is known then is told, and nothing is made up."""
    peer = box.peer()
    kill = ("for p in /proc/[0-9]*; do read c < $p/comm; "
            "[ $c = init ] && [ $p != /proc/1 ] && kill -9 ${p#/proc/}; done")
    number = box.number()
    f = peer.exec(number, ["sh", "-c", "echo; sleep 0.3; exit 6"], flags=s.SUPERVISED)
    os.read(f.fds[0], 1)  # until its execve the command is called init too
    box.run(peer, ["sh", "-c", kill])
    t.equal(peer.exited(number).status, 6 << 8, "init has adopted it and saw its true end")
    t.equal(peer.end(number), 0, "its tree cannot be told from others")
    s.pump(f)
    peer.forget(number)
    s.wait_until(lambda: not box.inside())
    # A supervisor that reaped its command and was stopped before it could tell cannot be staged; one
    # that is stopped while asked to end can.
    number = box.number()
    f = peer.exec(number, [PROBE, "misbehave", "0"], flags=s.SUPERVISED)
    os.read(f.fds[0], 10)
    box.run(peer, ["sh", "-c", kill.replace("-9", "-STOP")])
    t.equal(peer.end(number), 1, "a stopped supervisor is woken")
    s.pump(f)
    peer.forget(number)
    s.wait_until(lambda: not box.inside())


def remove(group):
    try:
        os.rmdir(group)
        return True
    except OSError:
        return False


def killed_at_random(t, box, peer):
    """Whatever of ours dies at whatever moment: a true status, or that it is lost."""
    attacker = box.number()
    f = peer.exec(attacker, [PROBE, "kill-others"])
    os.read(f.fds[0], 10)
    seen, hits = set(), {(s.LOST, None), (s.EXITED, 9)}
    for i in range(20000):  # on a busy machine the attacker may get no turn for long
        if i >= 200 and seen & hits:
            break
        number = box.number()
        got = peer.exec(number, [PROBE, "nothing"], flags=s.SUPERVISED if i % 4 else 0)
        t.check(got.kind in (s.STARTED, s.LOST), got)
        end = got if got.kind == s.LOST else peer.expect(s.EXITED, s.LOST, exec_id=number)
        seen.add((end.kind, getattr(end, "status", None)))
        for fd in got.fds:
            os.close(fd)
        t.check(peer.end(number) in (0, 1), "an answer to END")
        peer.forget(number)
    t.check(seen <= {(s.EXITED, 2 << 8), *hits}, seen)
    t.check(seen & hits, f"nothing was hit: {seen}")
    print(f"# {sorted(seen, key=str)}")
    peer.signal(attacker, signal.SIGKILL)
    t.equal(peer.exited(attacker).status, 9, "the attacker's own end")
    s.pump(f)
    peer.forget(attacker)
    s.wait_until(lambda: not box.inside())


@s.needs_ids
def in_cgroup(t, box, peer):
    with open("/proc/mounts", encoding="utf-8") as file:
        top = next(line.split()[1] for line in file if line.split()[2] == "cgroup2")
    base = os.path.join(top, f"berth-init-{os.getpid()}")
    groups = [base, f"{base}/init", f"{base}/exec"]
    peer = box.peer()
    try:
        for group in groups:
            os.mkdir(group)
            os.chown(f"{group}/cgroup.procs", s.FIRST_ID, s.FIRST_ID)
        with open(f"{base}/init/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(box.pid))
        fd = os.open(f"{base}/exec", os.O_RDONLY | os.O_DIRECTORY)
        number = box.number()
        f = peer.exec(number, [PROBE, "misbehave", "20"], flags=s.IN_CGROUP, fds=[fd])
        os.close(fd)
        t.equal(f.kind, s.STARTED, f)
        os.read(f.fds[0], 10)
        with open(f"{base}/exec/cgroup.kill", "w", encoding="ascii") as file:
            file.write("1")
        t.equal(peer.exited(number).status, 9, "status")
        s.pump(f)
        s.wait_until(lambda: not box.inside())
        peer.forget(number)
    finally:
        with open(os.path.join(top, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(box.pid))
        for group in reversed(groups):
            s.wait_until(lambda: not os.path.exists(group) or remove(group))


s.main([supervised, trees_end, killed_supervisors, killed_at_random, in_cgroup])
