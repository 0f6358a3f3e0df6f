"""Kept execs: what init holds for a berthd that comes later."""

import errno
import os
import resource
import select
import signal
import struct

import sandbox as s

PROBE = "/sandbox/probe"
FEW_FILES = 100
KILL_SUPERVISORS = ("for p in /proc/[0-9]*; do read c < $p/comm; "
                    "[ $c = init ] && [ $p != /proc/1 ] && kill -9 ${p#/proc/}; done")
# A child in a session of its own, and that child's; each says when it listens, and when it hears.
# They wait for the signal itself: a handler that is called just before a sleep does not end it.
FAMILY = ("import os, signal\n"
          "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
          "for _ in range(2):\n"
          "    if os.fork(): break\n"
          "    os.setsid()\n"
          "os.write(1, b'.')\n"
          "signal.sigwait([signal.SIGTERM])\n"
          "os.write(1, b'!')\n"
          "os._exit(3)\n")


def close(*frames):
    for f in frames:
        for fd in f.fds:
            os.close(fd)


def read_all(fd):
    """To its end, which must come."""
    data = b""
    while True:
        assert select.select([fd], [], [], s.WAIT)[0], "no end of file"
        part = os.read(fd, 1 << 16)
        if not part:
            return data
        data += part


def read_some(fd, size):
    data = b""
    while len(data) < size:
        assert select.select([fd], [], [], s.WAIT)[0], f"only {data!r}"
        data += os.read(fd, size - len(data))
    return data


def told(peer):
    """What a peer is told at once, in order; its WELCOME must have said how much that is."""
    frames = [peer.receive() for _ in range(peer.welcome.known)]
    peer.ping()
    assert not peer.kept, peer.kept
    return frames


def kinds(frames):
    return [f.kind for f in frames]


def stdin_end(peer, number):
    peer.send(s.STDIN_END, struct.pack("<Q", number))


def stays_open(t, box, peer):
    """Peers come and go; each has the same pipes."""
    for flags in (s.KEPT, s.KEPT | s.SUPERVISED):
        number = box.number()
        first = box.peer()
        f = first.exec(number, ["sh", "-c", "while read x; do echo got $x; echo err $x >&2; done; exit 4"],
                       flags=flags | s.STDIN)
        t.equal((f.kind, len(f.fds)), (s.STARTED, 3), "its pipes")
        os.write(f.fds[0], b"1\n")
        t.equal(read_some(f.fds[1], 6), b"got 1\n", "output")
        os.write(f.fds[0], b"2\n")
        close(f)  # with "got 2" in the pipe, or not yet
        first.close()
        for i in (3, 4):
            later = box.peer()
            live, = told(later)
            t.equal((live.kind, live.exec, live.pid, len(live.fds)), (s.LIVE, number, f.pid, 3), "LIVE")
            os.write(live.fds[0], f"{i}\n".encode())
            t.equal(read_some(live.fds[1], 6), f"got {i - 1}\n".encode(), "what nobody had read")
            if i == 3:
                close(live)
                later.close()
        t.equal(read_some(live.fds[1], 6), b"got 4\n", "the last")
        os.close(live.fds.pop(0))
        stdin_end(later, number)
        t.equal(later.exited(number).status, 4 << 8, "status")
        t.equal(read_all(live.fds[0]), b"", "all was read")
        t.equal(read_all(live.fds[1]), b"err 1\nerr 2\nerr 3\nerr 4\n", "stderr, never read before")
        close(live)
        if flags & s.SUPERVISED:
            t.equal(later.expect(s.SETTLED).exec, number, "SETTLED")
        later.forget(number)


def ends_alone(t, box, peer):
    """It ends while nobody is connected: nothing of what it said is lost, until FORGET."""
    for flags in (s.KEPT, s.KEPT | s.SUPERVISED):
        before = box.init_fds() if box.is_root else None
        number = box.number()
        first = box.peer()
        f = first.exec(number, ["sh", "-c", "read x; echo out; echo err >&2; exit 7"], flags=flags | s.STDIN)
        os.write(f.fds[0], b"\n")
        close(f)
        first.close()
        s.wait_until(lambda: not box.inside())
        ends = [s.LIVE, s.EXITED] + [s.SETTLED] * bool(flags & s.SUPERVISED)
        for is_read in (False, True):
            later = box.peer()
            frames = told(later)
            t.equal(kinds(frames), ends, "what is told, and how often")
            t.equal((frames[0].exec, len(frames[0].fds), frames[1].status), (number, 3, 7 << 8), "its pipes, its end")
            if is_read:
                t.equal([read_all(fd) for fd in frames[0].fds[1:]], [b"out\n", b"err\n"], "output")
            close(frames[0])
        later.forget(number)
        later.ping()
        t.equal(told(box.peer()), [], "forgotten")
        if before:
            t.equal(len(box.init_fds()), len(before), "descriptors of init")


def stdin_ends(t, box, peer):
    """Whoever has the last duplicate ends it: init must not be that by itself."""
    number, other = box.number(), box.number()
    f = peer.exec(number, ["cat"], flags=s.KEPT | s.STDIN)
    plain = peer.exec(other, ["sleep", "1000"], flags=s.STDIN)
    os.write(f.fds[0], b"hello")
    os.close(f.fds.pop(0))
    t.equal(read_some(f.fds[0], 5), b"hello", "cat")
    t.equal(select.select([f.fds[0]], [], [], 0.1)[0], [], "init keeps stdin open")
    for unknown in (other, 999999):
        stdin_end(peer, unknown)
    stdin_end(peer, number)
    t.equal(peer.exited(number).status, 0, "cat has seen the end")
    stdin_end(peer, number)  # again
    close(f)
    later = box.peer()
    frames = {f.kind: f for f in told(later) if f.exec == number}
    t.equal(set(frames), {s.LIVE, s.EXITED}, "kinds")
    t.equal(len(frames[s.LIVE].fds), 2, "stdin is over")
    close(frames[s.LIVE], plain)
    later.signal(other, signal.SIGKILL)
    later.exited(other)
    later.forget(number)
    later.forget(other)


def settles(t, box, peer):
    """SETTLED when the last of the tree is gone, and not before."""
    number = box.number()
    f = peer.exec(number, ["sh", "-c", "exec 3<&0; setsid sh -c 'echo up; read x <&3' & exit 2"],
                  flags=s.KEPT | s.SUPERVISED | s.STDIN)
    peer.expect(s.EXITED, exec_id=number)
    read_some(f.fds[1], 3)
    t.equal(peer.kept, [], "somebody lives")
    close(f)
    later = box.peer()
    frames = told(later)
    t.equal(kinds(frames), [s.LIVE, s.EXITED], "a survivor")
    os.write(frames[0].fds[0], b"\n")
    t.equal(later.expect(s.SETTLED).exec, number, "SETTLED")
    t.equal(later.end(number), 1, "and END proves it")
    close(frames[0])
    later.forget(number)
    # Ended: proven, with the status, and settled.
    number = box.number()
    f = later.exec(number, [PROBE, "misbehave", "20"], flags=s.KEPT | s.SUPERVISED)
    read_some(f.fds[0], 6)
    t.equal(later.end(number), 1, "proven empty")
    t.equal(later.exited(number).status, 9, "status")
    t.equal(later.expect(s.SETTLED).exec, number, "SETTLED")
    close(f)
    later.forget(number)


def supervisor_killed(t, box, peer):
    """Nobody can know the tree any more: that is said, and not that it is settled."""
    number = box.number()
    f = peer.exec(number, ["sh", "-c", "echo; read x; exit 6"], flags=s.KEPT | s.SUPERVISED | s.STDIN)
    read_some(f.fds[1], 1)
    box.run(peer, ["sh", "-c", KILL_SUPERVISORS])
    os.write(f.fds[0], b"\n")
    t.equal(peer.exited(number).status, 6 << 8, "its true end")
    t.equal(peer.expect(s.LOST).exec, number, "and LOST")
    later = box.peer()
    frames = told(later)
    t.equal(kinds(frames), [s.LIVE, s.EXITED, s.LOST], "told again")
    close(f, frames[0])
    later.forget(number)
    # After the main process has ended, only its survivors are in doubt.
    number = box.number()
    f = later.exec(number, ["sh", "-c", "sleep 1000 & exit 5"], flags=s.KEPT | s.SUPERVISED)
    t.equal(later.exited(number).status, 5 << 8, "status")
    box.run(later, ["sh", "-c", KILL_SUPERVISORS])
    t.equal(later.expect(s.LOST).exec, number, "LOST")
    box.run(later, ["sh", "-c", "kill -KILL -1"])
    s.wait_until(lambda: not box.inside())
    close(f)
    later.forget(number)


def check_signal(t, box, peer, is_supervised, **options):
    number = box.number()
    bystander = box.number()
    other = peer.exec(bystander, ["sleep", "1000"])
    f = peer.exec(number, ["/usr/bin/python3", "-Ic", FAMILY], **options)
    t.equal(f.kind, s.STARTED, f)
    t.equal(read_some(f.fds[0], 3), b"...", "three listen")
    peer.signal(number, signal.SIGTERM)
    t.equal(peer.exited(number).status, 3 << 8, "the main one heard it")
    t.equal(read_all(f.fds[0]), b"!!!", "and the others, in their own sessions")
    if is_supervised:
        t.equal(peer.expect(s.SETTLED).exec, number, "SETTLED")
    peer.signal(number, signal.SIGTERM)  # nobody is left
    peer.signal(bystander, signal.SIGKILL)
    t.equal(peer.exited(bystander).status, 9, "the bystander lived until now")
    close(f, other)
    peer.forget(number)
    peer.forget(bystander)


def signal_to_tree(t, box, peer):
    check_signal(t, box, peer, True, flags=s.KEPT | s.SUPERVISED)
    # Survivors are signalled when their main process is gone, too.
    number = box.number()
    f = peer.exec(number, ["sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & exit 0"],
                  flags=s.KEPT | s.SUPERVISED)
    peer.exited(number)
    s.wait_until(lambda: sum("(sleep)" in x for x in box.inside().values()) == 2)
    peer.signal(number, signal.SIGTERM)
    t.equal(peer.expect(s.SETTLED).exec, number, "SETTLED")
    close(f)
    peer.forget(number)
    # Of others it is still only the main process.
    number = box.number()
    f = peer.exec(number, ["sh", "-c", "sleep 1000 & echo; wait"], flags=s.SUPERVISED)
    read_some(f.fds[0], 1)
    peer.signal(number, signal.SIGTERM)
    t.equal(peer.exited(number).status, 15, "status")
    t.equal(len(box.inside()), 2, "the child, and the supervisor")
    t.equal(peer.end(number), 1, "ended")
    close(f)
    peer.forget(number)


@s.needs_ids
def signal_to_group(t, box, peer):
    with open("/proc/mounts", encoding="utf-8") as file:
        top = next(line.split()[1] for line in file if line.split()[2] == "cgroup2")
    base = os.path.join(top, f"berth-kept-{os.getpid()}")
    groups = [base, f"{base}/init", f"{base}/exec"]
    try:
        for group in groups:
            os.mkdir(group)
            os.chown(f"{group}/cgroup.procs", s.FIRST_ID, s.FIRST_ID)
        with open(f"{base}/init/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(box.pid))
        fd = os.open(f"{base}/exec", os.O_RDONLY | os.O_DIRECTORY)
        check_signal(t, box, peer, False, flags=s.KEPT | s.IN_CGROUP, fds=[fd])
        os.close(fd)
        peer.ping()
    finally:
        with open(os.path.join(top, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(box.pid))
        for group in reversed(groups):
            s.wait_until(lambda: not os.path.exists(group) or remove(group))


def remove(group):
    try:
        os.rmdir(group)
        return True
    except OSError:
        return False


class Small(s.Sandbox):
    """Few files may be open in it."""

    def become_init(self, arguments):
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
        super().become_init(arguments)


def too_many(t, box, peer):
    """Kept ones are refused before init has no descriptor left for anything else."""
    with Small(*box.programs) as small:
        peer = small.peer()
        started = []
        while True:
            number = small.number()
            f = peer.exec(number, ["sleep", "1000"], flags=s.KEPT | s.SUPERVISED | s.STDIN)
            if f.kind != s.STARTED:
                break
            started.append(number)
            close(f)
        t.equal((f.kind, f.stage, f.error), (s.REFUSED, s.STAGE_RESOURCES, errno.EMFILE), "refused")
        t.equal(len(started), FEW_FILES // 12, "how many there may be")
        t.equal(small.run(peer, ["echo", "x"]).out, b"x\n", "others still run")
        later = small.peer()
        frames = told(later)
        t.equal(kinds(frames), [s.LIVE] * len(started), "all are told with their pipes")
        t.equal({len(f.fds) for f in frames}, {3}, "three each")
        close(*frames)
        t.equal(later.end(started[0]), 1, "ended")
        later.exited(started[0])
        later.forget(started[0])
        f = later.exec(number, ["true"], flags=s.KEPT | s.SUPERVISED)
        t.equal(f.kind, s.STARTED, "there is room again")
        close(f)


def forgotten_early(t, box, peer):
    """FORGET while it runs: nothing of it is kept, it runs on."""
    number = box.number()
    f = peer.exec(number, ["sh", "-c", "read x; exit 1"], flags=s.KEPT | s.STDIN)
    peer.forget(number)
    close(f)  # the last duplicate of its stdin
    s.wait_until(lambda: not box.inside())
    t.equal(told(box.peer()), [], "nothing is told")


s.main([stays_open, ends_alone, stdin_ends, settles, supervisor_killed, signal_to_tree, signal_to_group,
        too_many, forgotten_early])
