"""Sessions as init runs them: a shell that outlives its commands, each with streams of its own."""

import errno
import os
import select
import signal

import sandbox as s

SHELLS = [["bash"], ["dash"], ["busybox-sh"]]
ENV = ["PATH=/tmp/bin:/usr/bin:/bin", "HOME=/root"]


class Session:
    def __init__(self, box, peer, shells, flags=s.SUPERVISED, **options):
        self.box, self.peer, self.number = box, peer, box.number()
        options = {"env": ENV, "cwd": "/tmp", **options}
        self.started = peer.exec(self.number, ["berth-session", *shells], flags=flags | s.SESSION, **options)

    def begin(self, text, stdin=None, env=(), cwd="", **options):
        number = self.box.number()
        flags = s.COMMAND | (s.STDIN if stdin is not None else 0) | options.pop("flags", 0)
        return number, self.peer.exec(number, [text], env=env, cwd=cwd, flags=flags, session=self.number, **options)

    def run(self, text, stdin=None, **options):
        """A whole command. One that was refused comes back as its frame, one that is lost as LOST."""
        number, started = self.begin(text, stdin, **options)
        if started.kind != s.STARTED:
            return started
        out, err, end = follow(self.peer, number, started, stdin)
        self.peer.forget(number)
        return s.Done(out, err, end) if end.kind == s.EXITED else end

    def is_over(self):
        end = self.peer.exited(self.number)
        self.peer.forget(self.number)
        return end

    def end(self):
        if not self.peer.end(self.number):
            raise AssertionError("not ended")
        self.is_over()


def follow(peer, number, started, stdin):
    """Until it has ended: survivors may hold the pipes for longer."""
    fds = list(started.fds)
    if stdin is not None:
        with open(fds.pop(0), "wb", buffering=0) as into:
            into.write(stdin)
    texts = {fd: b"" for fd in fds}
    end = None
    while True:
        found = [f for f in peer.kept if f.kind in (s.EXITED, s.LOST) and f.exec == number]
        if found:
            end = found[0]
            peer.kept.remove(end)
        ready = select.select(fds if end else [peer.socket, *fds], [], [], 0 if end else s.WAIT)[0]
        assert ready or end, "nothing moves"
        if end and not ready:
            break
        for source in ready:
            if source is peer.socket:
                peer.kept.append(peer.receive())
                continue
            part = os.read(source, 1 << 16)
            texts[source] += part
            if not part:
                fds.remove(source)
    for fd in texts:
        os.close(fd)
    return *texts.values(), end


def make_shells(box, peer):
    box.run(peer, ["sh", "-c", "mkdir -p /tmp/bin; ln -sf /usr/bin/busybox /tmp/bin/busybox-sh;"
                   "ln -sf /usr/bin/busybox /tmp/bin/ash"])


def each_shell(function):
    """Under each shell; busybox goes by its name."""
    def run(t, box, peer):
        make_shells(box, peer)
        for shell in ("bash", "dash", "ash"):
            session = Session(box, peer, [shell])
            t.equal(session.started.kind, s.STARTED, shell)
            if function(t, session, shell) is not False:
                session.end()
    run.__name__ = function.__name__
    return run


@each_shell
def state_lasts(t, session, shell):
    t.equal(session.run("cd /usr; export X='a b'; y=2; f() { echo \"f:$1\"; }; umask 027; set -u").status, 0, shell)
    done = session.run("pwd; echo $X $y; f z; umask; printenv X; case $- in *u*) echo u;; esac")
    t.equal(done.out, b"/usr\na b 2\nf:z\n0027\na b\nu\n", shell)
    t.equal(session.run("false").code, 1, shell)
    t.equal(session.run("(exit 42)").code, 42, shell)


@each_shell
def own_environment_does_not_leak(t, session, shell):
    value = "n'ew\nline \\ \"$x\" \u00fc" + "x" * 40000
    session.run("A=old; export C=cold")
    done = session.run("printenv A; printenv C; A=changed; D=new; export E=5", env=[f"A={value}", "C=", "F=1"])
    t.equal(done.out.decode(), value + "\n\n", shell)
    done = session.run("echo \"$A\" $C $D $E ${F-none}; printenv A; printenv C")
    t.equal(done.out, b"old cold new 5 none\ncold\n", shell)
    for name in ("1A", "A-B", "a b", "\u00fc"):
        got = session.run("true", env=[f"{name}=1"])
        t.equal((got.kind, got.stage, got.error), (s.REFUSED, s.STAGE_REQUEST, errno.EINVAL), name)
    t.equal(session.run("echo on").out, b"on\n", shell)


@each_shell
def own_directory_does_not_leak(t, session, shell):
    session.run("mkdir -p '/tmp/d /it'\\''s'; cd /usr; cd /etc")
    t.equal(session.run("pwd; cd /; pwd", cwd="/tmp/d /it's").out, b"/tmp/d /it's\n/\n", shell)
    t.equal(session.run("echo $PWD $OLDPWD; readlink /proc/$$/cwd; cd -").out, b"/etc /usr\n/etc\n/usr\n", shell)
    for cwd, error in (("/nope", errno.ENOENT), ("/etc/passwd", errno.ENOTDIR), ("/proc/self/cwd", errno.ELOOP),
                       ("tmp", errno.EINVAL)):
        got = session.run("pwd", cwd=cwd)
        t.equal((got.kind, got.stage, got.error), (s.REFUSED, s.STAGE_CWD, error), cwd)
    session.run("mkdir /tmp/gone; cd /tmp/gone; mv /tmp/gone /tmp/moved")
    t.equal(session.run("pwd", cwd="/usr").out, b"/usr\n", shell)
    t.equal(session.run("readlink /proc/$$/cwd; cd /; rmdir /tmp/moved").out, b"/tmp/moved\n", shell)


@each_shell
def texts_are_exact(t, session, shell):
    data = bytes(range(256)) * 40
    t.equal(session.run("cat", stdin=data).out, data, shell)
    t.equal(session.run("cat; echo $?").out, b"0\n", shell)
    t.equal(session.run("read a; echo got $a; cat", stdin=b"1\n2\n3").out, b"got 1\n2\n3", shell)
    t.equal(session.run("cat <<'E'\n$x 'q' \\\nE\ncat <<E\n$((1+2))\nE").out, b"$x 'q' \\\n3\n", shell)
    done = session.run("echo out; echo err >&2; printf '\\000\\377'")
    t.equal((done.out, done.err), (b"out\n\0\xff", b"err\n"), shell)
    t.equal(session.run("").code, 0, shell)
    t.equal(session.run("# nothing").code, 0, shell)
    t.equal(session.run("echo a\n\n").out, b"a\n", shell)
    for size in (1000, 5000, 40000):
        t.equal(session.run(f"x='{'a' * size}'; echo ${{#x}} ${{B_-none}}").out, b"%d none\n" % size, shell)


@each_shell
def errors_leave_the_shell(t, session, shell):
    for text in ("echo a; if then", "echo 'a", 'echo "$(', "cat <<", "x=(", "${"):
        done = session.run(text)
        t.check(done.code != 0 and done.err, f"{shell}: {text}: {done.code} {done.err}")
        t.equal(session.run("echo on").out, b"on\n", shell)
    t.equal(session.run("nosuchcommand").code, 127, shell)
    t.equal(session.run("alias eval=no command=no echo=no cd=no; echo() { :; }; cd() { :; }").status, 0, shell)
    t.equal(session.run("pwd", cwd="/usr").out, b"/usr\n", shell)
    t.equal(session.run("unalias -a; unset -f echo cd; unset PATH; IFS=0123456789; set -C").status, 0, shell)
    t.equal(session.run("(exit 10)").code, 10, shell)
    t.equal(session.run("exec >/dev/null </dev/null; echo x; exec <&- >&- 2>&-").out, b"", shell)
    t.equal(session.run("echo back").out, b"back\n", shell)


def endings(t, box, peer):
    """The shell ends, and its command with it: its status is told behind the session's."""
    make_shells(box, peer)
    for shell in ("bash", "dash", "ash"):
        for before, text, status in (
                ("", "exit 7", 7 << 8), ("set -e", "echo a; false; echo b", 1 << 8), ("", "kill -9 $$", 9),
                ("", "kill $$; sleep 9", 15), ("", "exec sh -c 'exit 4'", 4 << 8), ("trap 'echo x' EXIT", "exit 3", 3 << 8)):
            session = Session(box, peer, [shell])
            session.run(before)
            number, started = session.begin(text)
            end = peer.expect(s.EXITED)
            t.equal(end.exec, session.number, f"{shell}: {text}: the session is told first")
            peer.forget(session.number)
            t.equal(follow(peer, number, started, None)[2].status, status, f"{shell}: {text}")
            peer.forget(number)


def no_status(t, box, peer):
    """A shell that does not tell it is of no use, and never waited for."""
    make_shells(box, peer)
    for shell in ("bash", "dash", "ash"):
        for text in ("set -n", "command() { :; }", "exec sleep 1000", "kill -9 $PPID; sleep 1000"):
            session = Session(box, peer, [shell])
            number, started = session.begin(text)
            if "sleep 1000" in text and "exec" in text:
                peer.signal(number, signal.SIGINT)
                t.equal(peer.exited(number).status, signal.SIGINT, f"{shell}: {text}")
            else:
                t.equal(peer.expect(s.LOST, exec_id=number).exec, number, f"{shell}: {text}")
            t.check(peer.end(session.number), "what is left is ended")
            session.is_over()
            peer.forget(number)
            for fd in started.fds:
                os.close(fd)
    s.wait_until(lambda: not box.inside())


def interrupts(t, box, peer):
    session = Session(box, peer, ["bash"])
    session.run("trap 'x=interrupted' INT")
    number, started = session.begin("while [ -z $x ]; do sleep 0.01; done; echo $x; echo on")
    peer.signal(number, signal.SIGINT)
    out, _, end = follow(peer, number, started, None)
    t.equal((out, end.status), (b"interrupted\non\n", 0), "trapped")
    peer.forget(number)
    session.end()


def survivors(t, box, peer):
    """What a command leaves behind keeps that command's own pipes."""
    session = Session(box, peer, ["dash"])
    session.run("mkfifo /tmp/fifo2")
    number, started = session.begin("(read x </tmp/fifo2; echo late) & echo now")
    peer.exited(number)
    peer.forget(number)
    t.equal(session.run("echo >/tmp/fifo2; wait; echo other").out, b"other\n", "the one after")
    t.equal(s.pump(started)[0], b"now\nlate\n", "its own")
    session.end()


def descriptors(t, box, peer):
    """A command has its streams and no other, init and the feeder lose theirs."""
    make_shells(box, peer)
    for shell in ("bash", "dash", "ash"):
        session = Session(box, peer, [shell])
        t.equal(session.run("exec ls /proc/self/fd").out.split(), [b"0", b"1", b"2", b"3"], shell)
        session.is_over()
        session = Session(box, peer, [shell])
        before = box.init_fds() if box.is_root else []
        counts = {len(session.run("ls /proc/$PPID/fd", cwd="/usr" if i % 2 else "",
                                  env=["A=" + "x" * 2000]).out.split()) for i in range(20)}
        t.check(len(counts) <= 2, f"{shell}: {counts}")
        t.equal(box.init_fds() if box.is_root else [], before, shell)
        session.end()


def not_a_shell(t, box, peer):
    make_shells(box, peer)
    for shells, error in ((["/no/such"], errno.ENOENT), (["nosuch", "nor-such"], errno.ENOENT), (["/etc"], errno.EACCES),
                          (["cat"], errno.ENOEXEC), (["true"], errno.ENOEXEC)):
        got = Session(box, peer, shells).started
        t.equal((got.kind, got.stage, got.error), (s.REFUSED, s.STAGE_PROGRAM, error), shells)
    session = Session(box, peer, ["nosuch", "dash"])
    t.equal(session.run("echo $0").out, b"dash\n", "the next one")
    session.end()
    got = Session(box, peer, ["dash"], cwd="/nope").started
    t.equal((got.kind, got.stage), (s.REFUSED, s.STAGE_CWD), "cwd")
    got = peer.exec(box.number(), ["true"], flags=s.COMMAND, session=4711)
    t.equal((got.kind, got.error), (s.REFUSED, errno.ESRCH), "no session")
    got = peer.exec(box.number(), ["sh"], flags=s.SESSION | s.SUPERVISED)
    t.equal((got.kind, got.error), (s.REFUSED, errno.EINVAL), "not ours")


@s.needs_ids
def another_user(t, box, peer):
    make_shells(box, peer)
    for flags in (0, s.SUPERVISED):
        for shell in ("bash", "dash", "ash"):
            session = Session(box, peer, [shell], flags=flags, user="1000:1001")
            t.equal(session.run("id -u; id -g; cat; echo x >/dev/stderr", stdin=b"in").out, b"1000\n1001\nin", shell)
            t.equal(session.run("echo a", env=["A=" + "b" * 5000], cwd="/usr").out, b"a\n", shell)
            t.equal(session.run("exit 5").code, 5, shell)
            session.is_over()


def a_new_peer(t, box, peer):
    """Whoever comes next is told of the session, and of how its command ended meanwhile."""
    session = Session(box, peer, ["dash"])
    session.run("X=kept; mkfifo /tmp/fifo3")
    number, started = session.begin("read y </tmp/fifo3; echo $y")
    other = box.peer()
    live = {other.expect(s.LIVE).exec for _ in range(2)}
    t.equal(live, {session.number, number}, "live")
    session.peer = other
    box.run(other, ["sh", "-c", "echo y >/tmp/fifo3"])
    t.equal(other.exited(number).status, 0, "status")
    other.forget(number)
    for fd in started.fds:
        os.close(fd)
    t.equal(session.run("echo $X").out, b"kept\n", "state")
    session.end()


if __name__ == "__main__":
    s.main([
        state_lasts, own_environment_does_not_leak, own_directory_does_not_leak, texts_are_exact,
        errors_leave_the_shell, endings, no_status, interrupts, survivors, descriptors, not_a_shell, another_user,
        a_new_peer
    ])
