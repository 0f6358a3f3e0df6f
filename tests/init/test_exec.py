"""What an exec is started with, and what comes back."""

import errno
import fcntl
import os
import random
import resource
import signal

import sandbox as s

PROBE = "/sandbox/probe"
MANY = 2000


def exit_codes(t, box, peer):
    for code in (0, 1, 7, 255):
        t.equal(box.run(peer, ["sh", "-c", f"exit {code}"]).status, code << 8, "status")
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1, 40):
        done = box.run(peer, ["sh", "-c", f"ulimit -c 0; kill -{int(number)} $$"])
        t.equal(done.status & 0x7f, int(number), "signal")
    done = box.run(peer, ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
    t.check(done.exited.user_us > 10000, f"user time: {done.exited.user_us}")
    t.check(1 << 18 < done.exited.max_rss_bytes < 1 << 30, f"rss: {done.exited.max_rss_bytes}")


def signals(t, box, peer):
    number = box.number()
    started = peer.exec(number, ["sleep", "1000"])
    peer.signal(number, signal.SIGUSR1)
    t.equal(peer.exited(number).status, int(signal.SIGUSR1), "status")
    peer.signal(number, signal.SIGKILL)
    peer.signal(987654, signal.SIGKILL)
    s.pump(started)
    peer.forget(number)
    peer.ping()


def missing_programs(t, box, peer):
    box.run(peer, ["sh", "-c", "cd /tmp; mkdir -p a b; printf x > a/plain; printf 'no format' > b/odd;"
                   "chmod 755 b/odd; printf '#!/no/such\\n' > b/no-interpreter; chmod 755 b/no-interpreter"])
    path = ["PATH=/tmp/a:/tmp/b:/usr/bin"]
    for argv, env, error in (
            (["/no/such/program"], path, errno.ENOENT), (["no-such-program"], path, errno.ENOENT),
            ([""], path, errno.ENOENT), (["/tmp"], path, errno.EACCES),
            (["plain"], path, errno.EACCES), (["/tmp/a/plain"], path, errno.EACCES),
            (["odd"], path, errno.ENOEXEC), (["no-interpreter"], path, errno.ENOENT),
            (["/usr/bin/true/x"], path, errno.ENOTDIR), (["x" * 300], path, errno.ENAMETOOLONG),
            (["true"], ["PATH=/no/such:/usr/bin/true"], errno.ENOENT),
            (["true"], ["PATH=" + "/x" * 3000], errno.ENOENT)):
        got = box.run(peer, argv, env=env)
        t.equal((got.kind, got.stage, got.error) if isinstance(got, s.Frame) else got.status,
                (s.REFUSED, s.STAGE_PROGRAM, error), argv)
    for argv, env, cwd in ((["true"], ["PATH=:/x"], "/usr/bin"), (["true"], ["PATH=/x:"], "/usr/bin"),
                           (["true"], ["PATH=/tmp/a:/usr/bin"], "/"), (["true"], [], "/"),
                           (["true"], ["PATH="], "/usr/bin"), (["./true"], [], "/usr/bin")):
        t.equal(getattr(box.run(peer, argv, env=env, cwd=cwd), "status", None), 0, (argv, env, cwd))


def environment(t, box, peer):
    env = ["A=1", "B=", "C=x=y", "D= spaces\nand lines ", "E=\u00e4\u20ac", "A=2", "f.g-h=1"]
    t.equal(box.run(peer, [PROBE, "env"], env=env).out, s.strings([*env, "HOME=/root"]), "env")
    t.equal(box.run(peer, [PROBE, "env"], env=[]).out, b"HOME=/root\0", "nothing of ours leaks")
    for bad in (["NONE"], ["=x"], [""], ["A=1", ""]):
        got = box.run(peer, ["true"], env=bad)
        t.equal((got.kind, got.stage, got.error), (s.REFUSED, s.STAGE_REQUEST, errno.EINVAL), bad)
    done = box.run(peer, ["sh", "-c", "umask; ulimit -S -n; trap; echo $PPID; cat /proc/self/stat"])
    lines = done.out.decode().splitlines()
    t.equal(lines[0], "0022", "umask")
    t.equal(int(lines[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[0], "soft limit of files")
    t.equal(lines[2], "1", "parent")
    t.equal(lines[3].rpartition(")")[2].split()[4], "0", "no terminal")


def statuses_inside(t, box, peer):
    text = box.run(peer, ["grep", "-E", "Sig|NoNewPrivs|Seccomp:", "/proc/self/status"]).out.decode()
    facts = dict(line.split(":\t") for line in text.splitlines())
    t.equal({facts[n] for n in ("SigIgn", "SigBlk", "SigPnd")}, {"0" * 16}, "signals")
    t.equal((facts["NoNewPrivs"], facts["Seccomp"]), ("1", "2"), "no new privileges, a filter")
    t.equal(box.run(peer, [PROBE, "clone3"]).out, f"-1 {errno.ENOSYS}\n".encode(), "clone3")
    t.equal(box.run(peer, [PROBE, "fds"]).out, b"0\n1\n2\n", "descriptors")
    t.equal(box.run(peer, [PROBE, "fds"], stdin=b"").out, b"0\n1\n2\n", "descriptors")
    t.equal(box.run(peer, [PROBE, "fds"], flags=s.SUPERVISED).out, b"0\n1\n2\n", "descriptors")
    t.equal(box.run(peer, ["readlink", "/proc/self/fd/0"]).out, b"/dev/null\n", "stdin")
    score = int(box.run(peer, ["cat", "/proc/self/oom_score_adj"]).out)
    with open(f"/proc/{box.pid}/oom_score_adj", encoding="ascii") as file:
        own = int(file.read())
    t.equal(score, min(own + 100, 1000), "oom_score_adj")
    done = box.run(peer, ["sh", "-c", f"echo {own} > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj"])
    t.equal(done.out, f"{own}\n".encode(), "can sink to init's own")
    done = box.run(peer, ["sh", "-c", f"echo {own - 1} > /proc/self/oom_score_adj"])
    t.check(done.status != 0, "but never below")
    done = box.run(peer, ["sh", "-c", "cat /proc/1/environ /proc/1/maps; readlink /proc/1/fd/3 /proc/1/exe; kill -9 1; "
                          "kill -TERM 1; kill -STOP 1"])
    t.equal(done.out, b"", "of init nothing can be seen")
    peer.ping()


def directories(t, box, peer):
    for cwd in ("/", "/tmp", "/usr/bin/../lib", "/bin"):
        t.equal(box.run(peer, ["pwd"], cwd=cwd).out.decode().strip(),
                os.path.normpath("/usr/bin" if cwd == "/bin" else cwd), cwd)
    for cwd, error in (("/no/such", errno.ENOENT), ("/etc/passwd", errno.ENOTDIR), ("tmp", errno.EINVAL),
                       ("", errno.EINVAL), ("/proc/self/fd/3", errno.ELOOP),
                       ("/proc/self/fd/8", errno.ELOOP), ("/proc/self/cwd", errno.ELOOP),
                       ("/proc/1/root", errno.EACCES), ("/proc/self/fd/8/../..", errno.ELOOP),
                       ("/tmp\0/x", errno.EINVAL)):
        got = box.run(peer, ["true"], cwd=cwd)
        actual = (got.kind, got.stage, got.error) if isinstance(got, s.Frame) else got.status
        # Not every descriptor is there; none leads anywhere.
        expected = [(s.REFUSED, s.STAGE_CWD, e) for e in (error, errno.ENOENT)[:1 + ("/fd/" in cwd)]]
        t.check(actual in expected, f"{cwd!r}: {actual}")


def bytes_are_exact(t, box, peer):
    data = random.randbytes(1 << 20) * 64
    done = box.run(peer, ["cat"], stdin=data)
    t.check(done.out == data and done.err == b"" and done.status == 0, "64 MB through stdin and stdout")
    done = box.run(peer, ["sh", "-c", "cat >&2; echo end"], stdin=data[:1 << 22])
    t.check(done.err == data[:1 << 22] and done.out == b"end\n", "stderr")
    done = box.run(peer, ["cat"], stdin=data[:1 << 22], flags=s.SUPERVISED)
    t.check(done.out == data[:1 << 22], "supervised")
    t.equal(box.run(peer, ["cat"]).out, b"", "no stdin")


def memfd(argv, env, seals=fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK):
    fd = os.memfd_create("args", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(argv + env)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def huge_arguments(t, box, peer):
    def run(argv, env, argv_size=None, seals=fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK,
            given=()):
        fd = memfd(argv, env, seals)
        try:
            return box.run(peer, given, env=[], flags=s.IN_FD, fds=[fd],
                           argv_size=len(argv) if argv_size is None else argv_size)
        finally:
            os.close(fd)

    env = [f"V{i}={'x' * 1000}" for i in range(500)]
    done = run(s.strings([PROBE, "env"]), s.strings(env))
    t.check(done.out == s.strings([*env, "HOME=/root"]), "500 kB of environment")
    done = run(s.strings([PROBE, "argc", *["a" * 100] * 9000]), b"")
    t.equal(done.out, b"9002\n", "900 kB of arguments")
    got = run(s.strings([PROBE, "argc", "a" * 200000]), b"")
    t.equal((got.stage, got.error), (s.STAGE_PROGRAM, errno.E2BIG), "one string that is too long")
    good = s.strings([PROBE, "argc"])
    for args, what in (((good, b"", 3), "cut in the middle of a string"), ((good, b"", 1 << 30), "size"),
                       ((good, b"", 0), "no argv"), ((good, b"A=1"), "no NUL at the end"),
                       ((b"", b""), "empty"), ((good, b"A\0"), "no variable"),
                       ((good, b"", None, 0), "not sealed"),
                       ((good, b"", None, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW), "can shrink"),
                       ((good, b"", None, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW), "can be written")):
        got = run(*args)
        t.equal((got.stage, got.error), (s.STAGE_REQUEST, errno.EINVAL), what)
    got = run(good, b"A=" + b"x" * (3 << 20) + b"\0")
    t.equal((got.stage, got.error), (s.STAGE_REQUEST, errno.E2BIG), "past the limit")
    got = run(good, b"", given=["true"])
    t.equal((got.stage, got.error), (s.STAGE_REQUEST, errno.EINVAL), "both ways at once")
    zero = os.open("/dev/zero", os.O_RDONLY)
    got = box.run(peer, [], env=[], flags=s.IN_FD, fds=[zero], argv_size=4)
    t.equal((got.stage, got.error), (s.STAGE_REQUEST, errno.EINVAL), "no memfd")
    for flags, fds in ((s.IN_FD, []), (0, [zero]), (s.IN_CGROUP, []), (1 << 20, []),
                       (s.IN_CGROUP | s.SUPERVISED, [zero])):
        got = box.run(peer, ["true"], flags=flags, fds=fds)
        t.equal((got.stage, got.error), (s.STAGE_REQUEST, errno.EINVAL), (flags, fds))
    got = box.run(peer, ["true"], flags=s.IN_CGROUP, fds=[zero])
    t.equal((got.stage, got.error), (s.STAGE_RESOURCES, errno.EBADF), "no cgroup")
    got = box.run(peer, [])
    t.equal((got.stage, got.error), (s.STAGE_REQUEST, errno.EINVAL), "no argv at all")
    os.close(zero)


def orphans(t, box, peer):
    peer = box.peer()
    number = box.number()
    # Its end is told although the sleep goes on.
    f = peer.exec(number, ["sh", "-c", "sleep 1000 & echo hi"])
    t.equal(peer.exited(number).status, 0, "status")
    t.equal(os.read(f.fds[0], 10), b"hi\n", "output")
    s.wait_until(lambda: ["(sleep)" in text for text in box.inside().values()] == [True])
    t.equal(peer.end(number), 0, "nothing is proven without a tree")
    peer.forget(number)
    for fd in f.fds:
        os.close(fd)
    box.run(peer, ["sh", "-c", "kill -KILL -1"])
    s.wait_until(lambda: not box.inside())


def many_execs(t, box, peer, count=MANY):
    peer = box.peer()
    for i in range(count):
        done = box.run(peer, [PROBE, "nothing"], flags=s.SUPERVISED if i % 10 == 0 else 0)
        if done.status != 2 << 8:
            t.check(False, f"exec {i}: {done.status}")
    s.wait_until(lambda: not box.inside())
    peer.ping()
    live = [box.number() for _ in range(100)]
    frames = [peer.exec(number, ["sleep", "1000"]) for number in live]
    t.equal({f.kind for f in frames}, {s.STARTED}, "100 at once")
    for number, f in zip(live, frames):
        peer.signal(number, signal.SIGKILL)
        for fd in f.fds:
            os.close(fd)
    t.equal({peer.exited(number).status for number in live}, {9}, "statuses")
    for number in live:
        peer.forget(number)
    peer.ping()


@s.needs_ids
def many_execs_leave_no_descriptor(t, box, peer):
    """Only root can see: init is not dumpable."""
    peer = box.peer()
    before = box.init_fds()
    many_execs(t, box, peer, 300)
    peer = box.peer()
    peer.ping()
    t.equal(box.init_fds(), before, "descriptors of init")


def stopped_starts(t, box, peer):
    """Someone inside stops every process that appears: init must not hang in its vfork."""
    peer = box.peer()
    attacker = box.number()
    f = peer.exec(attacker, [PROBE, "stop-others"])
    os.read(f.fds[0], 10)
    numbers = []
    for _ in range(150):
        number = box.number()
        got = peer.exec(number, ["true"])
        t.check(got.kind in (s.STARTED, s.REFUSED), got)
        numbers.append((number, got))
        peer.ping()
    peer.signal(attacker, signal.SIGKILL)
    t.equal(peer.exited(attacker).status, 9, "attacker")
    for number, got in numbers:
        if got.kind == s.STARTED:
            peer.signal(number, signal.SIGCONT)
            t.check(peer.exited(number).status in (0, 9), "status")
            s.pump(got)
            peer.forget(number)
    s.pump(f)
    peer.forget(attacker)


def quotas(t, box, peer):
    """What is charged to whoever made the user namespace, too, is little."""
    limits = box.run(peer, ["cat", "/proc/self/limits"]).out.decode()
    for name, limit in (("pending signals", 256), ("msgqueue size", 256 << 10), ("locked memory", 64 << 10)):
        line = next(line for line in limits.splitlines() if name in line)
        t.equal(line.split()[3:5], [str(limit)] * 2, line)


s.main([
    exit_codes, signals, missing_programs, environment, statuses_inside, directories,
    bytes_are_exact, huge_arguments, orphans, many_execs, many_execs_leave_no_descriptor,
    stopped_starts, quotas
])
