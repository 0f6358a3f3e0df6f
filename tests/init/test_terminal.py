"""Execs on a terminal: what the program sees of it, and what comes out."""

import errno
import os
import select
import signal
import struct

import sandbox as s

FLAGS = s.KEPT | s.TERMINAL | s.STDIN
ENV = ["PATH=/usr/bin:/bin", "TERM=xterm", "PS1=$ ", "LC_ALL=C.UTF-8"]
SHELL = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
SUPERVISORS = "for p in /proc/[0-9]*; do read c < $p/comm; [ $c = init ] && [ $p != /proc/1 ] && echo ${p#/proc/}; done"


class Terminal:
    def __init__(self, box, peer, argv, **options):
        self.number, self.peer, self.seen = box.number(), peer, b""
        options.setdefault("env", ENV)
        f = peer.exec(self.number, argv, flags=FLAGS | options.pop("flags", 0), **options)
        assert f.kind == s.STARTED and len(f.fds) == 2, f
        self.pid, (self.into, self.out) = f.pid, f.fds
        os.set_blocking(self.into, False)

    def type(self, text):
        data = memoryview(text.encode() if isinstance(text, str) else text)
        while data:
            assert select.select([], [self.into], [], s.WAIT)[1], "it takes no input"
            data = data[os.write(self.into, data):]

    def read(self):
        assert select.select([self.out], [], [], s.WAIT)[0], f"nothing comes after {self.seen[-200:]!r}"
        part = os.read(self.out, 1 << 16)
        self.seen += part
        return part

    def until(self, text):
        """What came up to and with `text`; the rest stays."""
        text = text.encode() if isinstance(text, str) else text
        while text not in self.seen:
            assert self.read(), f"ended before {text!r}: {self.seen[-300:]!r}"
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def ask(self, command):
        """What a command of the shell prints; the marker is not what its echo shows."""
        self.type(f"{command}; echo 'E'ND$?\n")
        text = self.until("END")
        self.until("$ ")
        return text.decode().partition("\r\n")[2].removesuffix("END").removesuffix("\r\n")

    def rest(self):
        while self.read():
            pass
        return self.seen

    def resize(self, cols, rows):
        self.peer.send(s.RESIZE, struct.pack("<QII", self.number, cols, rows))

    def close(self):
        os.close(self.into)
        os.close(self.out)
        self.peer.forget(self.number)

    def finish(self):
        """Its status, when all of it is gone."""
        status = self.peer.exited(self.number).status
        self.peer.expect(s.SETTLED, exec_id=self.number)
        self.rest()
        self.close()
        return status


def shell(box, peer, **options):
    term = Terminal(box, peer, SHELL, **options)
    term.until("$ ")
    return term


def is_a_terminal(t, box, peer):
    term = Terminal(box, peer, ["sh", "-c", "tty; stty size; ps -o tty=,sid=,pgid=,tpgid= -p $$; echo $$ $TERM; "
                                "echo x > /dev/tty; echo y >&2; exit 7"], cells=(132, 43))
    lines = term.rest().decode().replace("\r\n", "\n").splitlines()
    t.equal(lines[:2], ["/dev/pts/0", "43 132"], "its name and size")
    pid = lines[3].split()[0]
    t.equal(lines[2].split(), ["pts/0", pid, pid, pid], "its session, and in the foreground")
    t.equal(lines[3:], [f"{pid} xterm", "x", "y"], "all go to it")
    t.equal(int(pid), term.pid, "pid")
    t.equal(term.finish(), 7 << 8, "status")
    term = Terminal(box, peer, ["/sandbox/probe", "fds"])
    t.equal(term.rest(), b"0\r\n1\r\n2\r\n", "descriptors")
    t.equal(term.finish(), 0, "status")
    term = Terminal(box, peer, ["stty", "size"])
    t.equal(term.rest(), b"24 80\r\n", "the usual size")
    t.equal(term.finish(), 0, "status")


def resizes(t, box, peer):
    term = shell(box, peer, cells=(80, 24))
    t.equal(term.ask("stty size; trap RESIZED=yes WINCH"), "24 80", "before")
    term.resize(200, 50)
    # bash runs the trap when it has a command again.
    s.wait_until(lambda: term.ask("echo $RESIZED") == "yes")
    t.equal(term.ask("stty size"), "50 200", "after")
    # However slowly its supervisor hears of them, the last counts.
    supervisor = int(box.run(peer, ["bash", "-c", SUPERVISORS]).out)
    box.run(peer, ["kill", "-STOP", str(supervisor)])
    for i in range(1, 500):
        term.resize(i, i)
    peer.ping()
    s.wait_until(lambda: term.ask("trap - WINCH; stty size") == "499 499")
    peer.send(s.RESIZE, struct.pack("<QII", 999999, 1, 1))
    term.type("exit 3\n")
    t.equal(term.finish(), 3 << 8, "status")


def job_control(t, box, peer):
    term = shell(box, peer)
    term.type("sleep 1000\n")
    term.until("sleep 1000\r\n")
    s.wait_until(lambda: any("(sleep)" in line for line in box.inside().values()))
    term.type("\x1a")
    term.until("Stopped")
    term.until("$ ")
    t.check("Stopped" in term.ask("jobs"), "jobs")
    term.type("fg\n")
    term.until("sleep 1000\r\n")
    s.wait_until(lambda: any("(sleep) S" in line for line in box.inside().values()))
    term.type("\x03")
    term.until("$ ")
    t.equal(term.ask("true"), "", "the shell goes on")
    term.type("cat\n")
    term.until("cat\r\n")
    term.type("line\n")
    term.until("line\r\nline\r\n")
    term.type("\x04")
    term.until("$ ")
    term.type("\x04")
    t.equal(term.finish(), 0, "Ctrl-D ends it")


def interrupts(t, box, peer):
    term = Terminal(box, peer, ["sh", "-c", "trap 'echo caught; exit 9' INT; echo go; while :; do sleep 0.1; done"])
    term.until("go\r\n")
    term.type("\x03")
    term.until("caught\r\n")
    t.equal(term.finish(), 9 << 8, "a trap")
    term = Terminal(box, peer, ["sh", "-c", "echo go; exec sleep 1000"])
    term.until("go\r\n")
    term.type("\x1c")
    t.equal(term.finish() & 0x7f, int(signal.SIGQUIT), "Ctrl-\\")


def floods(t, box, peer):
    """A reader that stalls stops the program; no byte is lost, and none comes twice."""
    count = 300000
    term = Terminal(box, peer, ["sh", "-c", f"stty -opost; seq {count}; exit 5"])
    term.until("1\n")
    # Nothing is read until it cannot go on: all of it sleeps.
    def is_still():
        return all(line.rpartition(")")[2].split()[0] == "S" for line in box.inside().values())

    s.wait_until(is_still)
    t.check(any("(seq)" in line for line in box.inside().values()), "it waits for its reader")
    peer.ping()
    t.equal(peer.kept, [], "nothing was told")
    text = term.rest()
    t.check(text == b"".join(b"%d\n" % i for i in range(2, count + 1)), f"{len(text)} bytes")
    t.equal(term.finish(), 5 << 8, "status")


def last_words(t, box, peer):
    """What it printed just before its end is all there before its end is told."""
    for i in range(20):
        term = Terminal(box, peer, ["sh", "-c", f"stty -opost; head -c 3000 /dev/zero | tr '\\0' x; exit {i}"])
        status = peer.exited(term.number).status
        got = b""
        while len(got) < 3000:
            assert select.select([term.out], [], [], 0)[0], f"EXITED came before the output: {len(got)}"
            got += os.read(term.out, 1 << 16)
        t.equal((status, got), (i << 8, b"x" * 3000), "all of it")
        peer.expect(s.SETTLED, exec_id=term.number)
        t.equal(term.rest(), b"", "the end of file")
        term.close()


def characters(t, box, peer):
    term = Terminal(box, peer, ["sh", "-c", "stty raw -echo; echo go; dd bs=1 count=70000 2>/dev/null"])
    term.until("go\n")
    data = ("\u00e4\u20ac\U0001f600 \x00\x03\x1a\r\n".encode() * 5000)[:70000]
    view, got = memoryview(data), b""
    while len(got) < len(data):
        readable, writable, _ = select.select([term.out], [term.into] if view else [], [], s.WAIT)
        assert readable or writable, f"nothing moves after {len(got)}"
        if writable:
            view = view[os.write(term.into, view[:4096]):]
        if readable:
            got += os.read(term.out, 1 << 16)
    t.check(got == data, "raw bytes both ways")
    t.equal(term.finish(), 0, "status")
    term = shell(box, peer)
    t.equal(term.ask("stty iutf8; printf '%s' '\u00e4\u20ac\U0001f600' | wc -c"), "9", "UTF-8")
    term.type("exit\n")
    t.equal(term.finish(), 0, "status")


def survivors(t, box, peer):
    term = shell(box, peer)
    term.type("sleep 1000 </dev/null >/dev/null 2>&1 & disown; exit 4\n")
    t.equal(peer.exited(term.number).status, 4 << 8, "the shell's end is told")
    term.rest()
    peer.ping()
    t.equal(peer.kept, [], "and not that all is over")
    s.wait_until(lambda: any("(sleep)" in line for line in box.inside().values()))
    t.equal(peer.end(term.number), 1, "ended for sure")
    peer.expect(s.SETTLED, exec_id=term.number)
    t.equal(box.inside(), {}, "nothing is left")
    term.close()


def survivors_that_print(t, box, peer):
    """One that never stops printing holds up nobody's end."""
    term = Terminal(box, peer, ["bash", "-c", "trap '' HUP; yes & sleep 0.05; exit 6"])
    while select.select([term.out], [], [], s.WAIT)[0] and os.read(term.out, 1 << 16):
        pass
    t.equal(peer.exited(term.number).status, 6 << 8, "status")
    # Its terminal is closed, which it notices.
    peer.expect(s.SETTLED, exec_id=term.number)
    term.close()


def closes_its_terminal(t, box, peer):
    """A program without any of it costs nothing, and is not over."""
    term = Terminal(box, peer, ["sh", "-c", "echo go; exec sleep 1000 </dev/null >/dev/null 2>&1"])
    term.until("go\r\n")
    def ticks():
        return sum(int(x) for line in box.inside().values() for x in line.rpartition(")")[2].split()[11:13])

    s.wait_until(lambda: any("(sleep)" in line for line in box.inside().values()))
    before = ticks()
    t.equal(select.select([term.out], [], [], 0.5)[0], [], "no end of file")
    t.check(ticks() - before < 10, f"nobody turns in circles: {ticks() - before}")
    os.close(term.into)
    peer.send(s.STDIN_END, struct.pack("<Q", term.number))
    t.equal(select.select([term.out], [], [], 0.3)[0], [], "no end by the end of its input")
    t.check(ticks() - before < 10, f"nor then: {ticks() - before}")
    peer.signal(term.number, signal.SIGTERM)
    t.equal(peer.exited(term.number).status, int(signal.SIGTERM), "status")
    peer.expect(s.SETTLED, exec_id=term.number)
    os.close(term.out)
    peer.forget(term.number)


def nobody_reads(t, box, peer):
    """Forgotten, and its pipes closed: the program is not stopped by that."""
    term = Terminal(box, peer, ["sh", "-c", "echo go; head -c 3000000 /dev/zero; echo > /tmp/terminal-done; sleep 1000"])
    term.until("go\r\n")
    term.close()
    done = f"/proc/{box.pid}/root/tmp/terminal-done" if box.is_root else None
    if done:
        s.wait_until(lambda: os.path.exists(done))
    other = Terminal(box, peer, ["bash", "-c", "until [ -e /tmp/terminal-done ]; do sleep 0.05; done; "
                                 "rm /tmp/terminal-done; pkill -x sleep; exit 0"])
    t.equal(other.finish(), 0, "it went on")
    s.wait_until(lambda: not box.inside())


def is_killed(t, box, peer):
    term = shell(box, peer)
    os.close(term.into)
    peer.signal(term.number, signal.SIGKILL)
    t.equal(peer.exited(term.number).status, int(signal.SIGKILL), "the main process")
    peer.expect(s.SETTLED, exec_id=term.number)
    t.check(b"" in (os.read(term.out, 1 << 16), os.read(term.out, 1 << 16)), "end of file")
    os.close(term.out)
    peer.forget(term.number)
    term = shell(box, peer)
    term.type("sleep 1000 & sleep 1001\n")
    s.wait_until(lambda: sum("(sleep)" in line for line in box.inside().values()) == 2)
    t.equal(peer.end(term.number), 1, "ended for sure")
    t.equal(term.finish() & 0x7f, int(signal.SIGKILL), "status")
    t.equal(box.inside(), {}, "nothing is left")


def loses_its_supervisor(t, box, peer):
    """Then its terminal is hung up; the main process's end is seen by init, the tree's by nobody."""
    term = shell(box, peer)
    box.run(peer, ["bash", "-c", f"kill -9 $({SUPERVISORS})"])
    t.equal(peer.exited(term.number).status & 0x7f, int(signal.SIGHUP), "hung up")
    t.equal(peer.expect(s.LOST, exec_id=term.number).exec, term.number, "LOST")
    term.resize(1, 1)
    term.rest()
    term.close()
    peer.ping()


def another_peer(t, box, peer):
    """It outlives whoever looks at it."""
    first = box.peer()
    term = shell(box, first)
    term.type("X=kept\n")
    os.close(term.into)
    os.close(term.out)
    first.close()
    later = box.peer()
    live = later.receive()
    t.equal((live.kind, live.exec, len(live.fds)), (s.LIVE, term.number, 2), "LIVE")
    term.peer, (term.into, term.out) = later, live.fds
    t.check("kept" in term.ask("echo $X"), "the same shell")
    term.resize(99, 9)
    s.wait_until(lambda: "9 99" in term.ask("stty size"))
    term.type("exit\n")
    t.equal(term.finish(), 0, "status")


@s.needs_ids
def of_another_user(t, box, peer):
    term = Terminal(box, peer, ["sh", "-c", "id -u; stat -c %u $(tty); echo x > $(tty); exit 0"], user="1000:1001")
    t.equal(term.rest(), b"1000\r\n1000\r\nx\r\n", "its terminal is its own")
    t.equal(term.finish(), 0, "status")


@s.needs_ids
def in_cgroup(t, box, peer):
    """The supervisor is in it, too; and who is left there says the group, not init."""
    with open("/proc/mounts", encoding="utf-8") as file:
        top = next(line.split()[1] for line in file if line.split()[2] == "cgroup2")
    base = os.path.join(top, f"berth-terminal-test-{os.getpid()}")
    groups = [base, f"{base}/init", f"{base}/exec"]
    try:
        for group in groups:
            os.mkdir(group)
            os.chown(f"{group}/cgroup.procs", s.FIRST_ID, s.FIRST_ID)
        with open(f"{base}/init/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(box.pid))
        fd = os.open(f"{base}/exec", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        term = shell(box, peer, flags=s.IN_CGROUP, fds=[fd])
        t.equal(len(pids(f"{base}/exec")), 2, "the shell and its supervisor")
        term.type("sleep 1000 </dev/null >/dev/null 2>&1 & disown; exit 4\n")
        t.equal(peer.exited(term.number).status, 4 << 8, "status")
        term.rest()
        t.equal(len(pids(f"{base}/exec")), 2, "its survivor and its supervisor")
        kill_group(f"{base}/exec")
        s.wait_until(lambda: not box.inside())
        peer.ping()
        t.equal(peer.kept, [], "nothing is said of what the group knows")
        term.close()
        os.close(fd)
        os.rmdir(f"{base}/exec")
        os.mkdir(f"{base}/exec")
        os.chown(f"{base}/exec/cgroup.procs", s.FIRST_ID, s.FIRST_ID)
        fd = os.open(f"{base}/exec", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        term = shell(box, peer, flags=s.IN_CGROUP, fds=[fd])
        kill_group(f"{base}/exec")
        t.equal(peer.exited(term.number).status, int(signal.SIGKILL), "killed with its supervisor")
        t.equal(peer.kept, [], "and all is said")
        term.rest()
        term.close()
        os.close(fd)
    finally:
        with open(os.path.join(top, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(box.pid))
        for group in reversed(groups):
            s.wait_until(lambda: not pids(group))
            os.rmdir(group)


def pids(group):
    with open(f"{group}/cgroup.procs", encoding="ascii") as file:
        return file.read().split()


def kill_group(group):
    with open(f"{group}/cgroup.kill", "w", encoding="ascii") as file:
        file.write("1")


def refusals(t, box, peer):
    for flags in (s.TERMINAL, FLAGS | s.WORKER, s.TERMINAL | s.KEPT):
        got = peer.exec(box.number(), ["true"], flags=flags)
        t.equal((got.kind, got.stage, got.error), (s.REFUSED, s.STAGE_REQUEST, errno.EINVAL), flags)
    got = peer.exec(box.number(), ["/no/such"], flags=FLAGS)
    t.equal((got.kind, got.stage, got.error), (s.REFUSED, s.STAGE_PROGRAM, errno.ENOENT), "no program")
    got = peer.exec(box.number(), ["true"], flags=FLAGS, cwd="/no/such")
    t.equal((got.kind, got.stage), (s.REFUSED, s.STAGE_CWD), "no directory")
    # What a sandbox puts over its own /dev/pts concerns nobody.
    before = box.init_fds() if box.is_root else None
    box.run(peer, ["mount", "-t", "tmpfs", "none", "/dev/pts"])
    term = Terminal(box, peer, ["stty", "size"])
    t.equal(term.rest(), b"24 80\r\n", "another file system on /dev/pts")
    t.equal(term.finish(), 0, "status")
    box.run(peer, ["umount", "/dev/pts"])
    if before:
        t.equal(len(box.init_fds()), len(before), "descriptors of init")


if __name__ == "__main__":
    s.main([is_a_terminal, resizes, job_control, interrupts, floods, last_words, characters, survivors,
            survivors_that_print, closes_its_terminal, nobody_reads, is_killed, loses_its_supervisor,
            another_peer, of_another_user, in_cgroup, refusals])
