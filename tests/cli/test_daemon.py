"""up and down, with a fake berthd that can be made to fail, and with the real one."""

import json
import os
import pty
import select
import signal
import socket
import stat
import subprocess

from harness import INFO, apart, check, equal, http, main, peer_pid


def alive(pid):
    """Zombies are gone for us: in a container nobody may reap the daemon once `up` has left."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def starts(place, name="d"):
    with open(place.path(name, "starts"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def up_and_down(kind):
    def test(place):
        place.use_daemon(kind)
        flags, path = place.daemon_flags(), place.daemon_socket()
        r = place.run("up", *flags)
        equal((r.returncode, r.stderr), (0, ""), r.stdout)
        pid = peer_pid(path)
        check(r.stdout.startswith(f"berthd (pid {pid}) is ready"), r.stdout)
        check(path in r.stdout, "says where it listens", r.stdout)
        again = place.run("up", *flags)
        equal((again.returncode, again.stdout),
              (0, f"berthd (pid {pid}) already runs on {path}\n"), again.stderr)
        equal(json.loads(place.run("up", "--json", *flags).stdout),
              {"started": False, "pid": pid, "outdated": False})
        info = place.run("--socket", path, "info", "--json")
        equal(json.loads(info.stdout)["pid"], pid)
        equal(place.run("--socket", path, "info").returncode, 0)
        check("berthd not reached" not in place.run("--socket", path, "version").stdout)
        down = place.run("--socket", path, "down")
        equal((down.returncode, down.stdout), (0, f"berthd (pid {pid}) has stopped\n"), down.stderr)
        check(not alive(pid), "it is gone when down returns")
        down = place.run("--socket", path, "down")
        equal((down.returncode, down.stdout), (0, f"no berthd runs on {path}\n"), down.stderr)
        equal(json.loads(place.run("--socket", path, "--json", "down").stdout),
              {"stopped": False, "pid": None})
        mode = os.stat(place.path("d", "berthd", "berthd.log")).st_mode
        equal(stat.S_IMODE(mode), 0o600, "mode of the log")
        # Root's daemon passes as another user, a sandbox's users on their way to its root.
        shared = 0o711 if kind == "real" or os.geteuid() == 0 else 0o700
        for made, wanted in ((["d"], shared), (["d", "berthd"], 0o700)):
            equal(stat.S_IMODE(os.stat(place.path(*made)).st_mode), wanted, made)
    return test


def other_flags(kind):
    """Of a daemon that runs, every flag is compared, and one that differs is named."""
    def test(place):
        place.use_daemon(kind)
        flags, path = place.daemon_flags(), place.daemon_socket()
        for name in ("one.json", "two.json"):
            with open(place.path(name), "w", encoding="utf-8") as file:
                file.write("{}")
            os.chmod(place.path(name), 0o644)
        own = ["--log-level", "warn", "--config", "one.json"]
        r = place.run("up", *flags, *own)
        equal((r.returncode, r.stderr), (0, ""), "start")
        for args, told in ((own, None), (["--log-level", "debug"], "--log-level warn, not debug"),
                           (["--config", "two.json"], f"--config {place.path('one.json')}, not {place.path('two.json')}"),
                           (["--socket-group", "users"], "--socket-group (none), not users"),
                           (["--token-file", "one.json"], "--token-file (none)"),
                           *([(["--user", "no-such-user"], ", not no-such-user")] if kind == "fake" or os.geteuid() == 0 else [])):
            r = place.run("up", *flags, *args)
            equal(r.returncode, 1 if told else 0, (args, r.stderr))
            check(not told or "already runs with" in r.stderr and told in r.stderr, args, r.stderr)
        equal(place.run("--socket", path, "down").returncode, 0)
        bad = place.run("up", "--state-dir", place.path("a\nb"))
        equal((bad.returncode, bad.stdout, bad.stderr.count("\n")), (1, "", 1), bad.stderr)
        check("control character" in bad.stderr, bad.stderr)
    return test


def other_binds(place):
    """A daemon that allows other folders, or more of them, is not what was asked for."""
    place.use_daemon("real")
    flags = place.daemon_flags()
    one, two = os.path.realpath(place.path("one")), os.path.realpath(place.path("two:rw"))
    for folder in (one, two):
        os.mkdir(folder)
    both = ["--allow-bind", one, "--allow-bind", two + ":ro"]
    r = place.run("up", *flags, *both)
    equal((r.returncode, r.stderr), (0, ""), "start")
    for args, told in ((both, None), ([], None), (both[2:] + both[:2], None), (both[:2], f"with --allow-bind {two}:ro, too"),
                       (both + ["--allow-bind", "/srv"], "without --allow-bind /srv"),
                       (["--allow-bind", one + ":ro"], f"without --allow-bind {one}:ro")):
        r = place.run("up", *flags, *args)
        equal(r.returncode, 1 if told else 0, (args, r.stderr))
        check(not told or told in r.stderr and "`berth down` first" in r.stderr, args, r.stderr)
    equal(place.run("--socket", place.daemon_socket(), "down").returncode, 0)


def after_a_crash(kind):
    def test(place):
        place.use_daemon(kind)
        flags, path = place.daemon_flags(), place.daemon_socket()
        equal(place.run("up", *flags).returncode, 0)
        pid = peer_pid(path)
        pidfd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        check(select.select([pidfd], [], [], 30)[0], "it dies")
        os.close(pidfd)
        r = place.run("--socket", path, "info")
        equal(r.returncode, 3)
        check("left behind" in r.stderr, r.stderr)
        equal(place.run("up", *flags).returncode, 0)
        check(peer_pid(path) not in (None, pid))
        equal(place.run("--socket", path, "down").returncode, 0)
    return test


def race(kind):
    def test(place):
        place.use_daemon(kind)
        flags, path = place.daemon_flags(), place.daemon_socket()
        all_of_them = [subprocess.Popen([place.berth, *apart(["up", "--json", *flags])], env=place.env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True) for _ in range(6)]
        answers = []
        for up in all_of_them:
            out, err = up.communicate(timeout=120)
            equal((up.returncode, err), (0, ""))
            answers.append(json.loads(out))
        equal(sum(a["started"] for a in answers), 1, answers)
        equal({a["pid"] for a in answers}, {peer_pid(path)})
        if kind == "fake":
            equal(len(starts(place)), 1)
        equal(place.run("--socket", path, "down").returncode, 0)
    return test


def nothing_attached(kind):
    def test(place):
        place.use_daemon(kind)
        flags, path = place.daemon_flags(), place.daemon_socket()
        leak = os.open(place.path("leak"), os.O_RDWR | os.O_CREAT)
        os.set_inheritable(leak, True)
        pid, terminal = pty.fork()
        if pid == 0:
            os.umask(0o077)
            os.execve(place.berth, [place.berth, *apart(["up", *flags])], place.env)
        said = b""
        try:
            while True:
                said += os.read(terminal, 4096)
        except OSError:
            pass  # the terminal's last user is gone: the daemon is none
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, said)
        os.close(terminal)
        os.close(leak)
        daemon = peer_pid(path)
        check(daemon and alive(daemon), "it outlives its terminal")
        links = {}
        for fd in os.listdir(f"/proc/{daemon}/fd"):
            try:
                links[fd] = os.readlink(f"/proc/{daemon}/fd/{fd}")
            except FileNotFoundError:
                pass  # it closed a connection meanwhile
        equal(links["0"], "/dev/null")
        equal(links["2"], place.path("d", "berthd", "berthd.log"))
        check(not [l for l in links.values() if "pts" in l or "tty" in l or "leak" in l], links)
        equal(os.readlink(f"/proc/{daemon}/cwd"), "/")
        with open(f"/proc/{daemon}/stat", encoding="latin-1") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        equal((int(fields[3]), int(fields[4])), (daemon, 0), "own session, no terminal")
        equal(place.run("--socket", path, "info").returncode, 0)
        equal(place.run("--socket", path, "down").returncode, 0)
    return test


def relative_paths(place):
    place.use_daemon("fake")
    os.mkdir(place.path("sub"))
    r = place.run("up", "--state-dir", "st", "--run-dir", "./rn", "--socket", "s.sock",
                  "--listen", "127.0.0.1:0", "--token-file", "tok", "--preview", "x:1",
                  "--runtime", "crun", "--config", "c.json", "--log-level", "debug",
                  "--socket-group", "g", cwd=place.path("sub"))
    equal((r.returncode, r.stderr), (0, ""))
    started = starts(place, "sub/st")[0]
    equal(started["cwd"], "/")
    sub = place.path("sub") + "/"
    equal(dict(zip(started["argv"][::2], started["argv"][1::2])), {
        "--state-dir": sub + "st", "--run-dir": sub + "./rn", "--socket": sub + "s.sock",
        "--listen": "127.0.0.1:0", "--token-file": sub + "tok", "--preview": "x:1",
        "--runtime": "crun", "--config": sub + "c.json", "--log-level": "debug",
        "--socket-group": "g"})
    equal(place.run("--socket", "s.sock", "down", cwd=place.path("sub")).returncode, 0)


def failed_starts(place):
    place.use_daemon("fake")
    flags = place.daemon_flags()
    for mode, wanted in [("sentence", "berth: berthd did not start: the moon is in the way\n"),
                         ("signal", "berth: berthd was ended by signal 9 before it was ready\n"),
                         ("silent", "berth: berthd ended with code 7 before it was ready, and "
                                    "said nothing\n"),
                         ("mute", "berth: berthd was ended by signal 9 before it was ready\n")]:
        r = place.run("up", *flags, env={"FAKE_MODE": mode})
        equal((r.returncode, r.stdout, r.stderr), (1, "", wanted), mode)
    os.unlink(place.path("berthd"))
    r = place.run("up", *flags, env={"PATH": "/usr/bin:/bin"})
    equal((r.returncode, r.stderr), (
        1, "berth: berthd is neither beside berth nor on PATH: is it installed?\n"))
    with open(place.path("file"), "w", encoding="utf-8"):
        pass
    r = place.run("up", "--state-dir", place.path("file", "s"), "--run-dir", place.path("r"))
    equal((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)


def failed_start_real(place):
    place.use_daemon("real")
    for more in (["--listen", "127.0.0.1:0"], ["--listen", "nonsense", "--token-file", "none"],
                 ["--config", "/nonexistent.json"]):
        r = place.run("up", *place.daemon_flags(), *more)
        equal((r.returncode, r.stdout, r.stderr.count("\n")), (2, "", 1), more)
        check(r.stderr.startswith("berth: berthd did not start: "), r.stderr)
        check(not os.path.exists(place.path("d")), "what it has made", more)
    r = place.run("up", *place.daemon_flags(), "--allow-bind", ":ro")  # as "$UNSET:ro"
    equal((r.returncode, "--allow-bind wants" in r.stderr), (2, True), r.stderr)
    os.makedirs(place.path("odd:rw"))
    for text in ("share:rw", "/srv:rw", "/srv/:x", "odd:rw:rw:ro"):
        r = place.run("up", *place.daemon_flags(), "--allow-bind", text)
        equal((r.returncode, r.stderr.count("\n")), (2, 1), r.stderr)
        check("is no folder" in r.stderr and text in r.stderr and ":ro" in r.stderr, r.stderr)
    os.makedirs(place.path("mine", "state"))
    where = ["--state-dir", place.path("mine", "state"), "--run-dir", place.path("mine", "run")]
    for _ in range(2):
        equal(place.run("up", *where, "--listen", "nonsense").returncode, 2, "a start in a directory that is there")
        equal(os.listdir(place.path("mine", "state")), [], "what was there stays, and no more")
    starts = [subprocess.Popen([place.berth, "up", *where, *more], env=place.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
              for more in [["--listen", "nonsense"]] * 8]
    for process in starts:
        said = process.communicate(timeout=120)[1]
        equal((process.returncode, b"HOST:PORT" in said), (2, True), said)
    equal(os.listdir(place.path("mine", "state")), [], "after many at once")


def patience(place):
    place.use_daemon("fake")
    path = place.daemon_socket()
    equal(place.run("up", *place.daemon_flags(), env={"FAKE_MODE": "deaf"}).returncode, 0)
    r = place.run("--socket", path, "down", "--timeout", "1")
    equal((r.returncode, r.stderr), (1, f"berth: berthd (pid {peer_pid(path)}) was told to stop "
                                        "and is still finishing after 1 s\n"))


def foreign(place):
    place.serve(http(200, {**INFO, "pid": 1}))
    path = place.path("api.sock")
    r = place.run("--socket", path, "down")
    equal((r.returncode, r.stdout), (1, ""))
    check("systemctl stop" in r.stderr and f"pid {os.getpid()}" in r.stderr, r.stderr)
    place.serve(http(500, "x"), "b.sock")
    r = place.run("--socket", place.path("b.sock"), "down")
    equal(r.returncode, 1)
    check(f"`kill {os.getpid()}`" in r.stderr, r.stderr)


def occupied(place):
    """Somebody else's server on our socket is no berthd, but nothing is started beside it."""
    os.makedirs(place.path("d", "run", "berthd"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place.daemon_socket())
    listener.listen(4)
    place.use_daemon("fake")
    r = place.run("up", *place.daemon_flags())
    equal((r.returncode, r.stderr),
          (1, f"berth: berthd on {place.daemon_socket()} does not answer\n"))
    check(not os.path.exists(place.path("d", "starts")))
    listener.close()


def both(kind):
    return [
        (f"up, info, down, each twice ({kind})", up_and_down(kind)),
        (f"up with other flags beside it ({kind})", other_flags(kind)),
        (f"up after a crash ({kind})", after_a_crash(kind)),
        (f"six at once start exactly one ({kind})", race(kind)),
        (f"nothing of ours stays attached ({kind})", nothing_attached(kind)),
    ]


tests = both("fake") + [
    ("relative paths are made absolute, flags passed through", relative_paths),
    ("a failed start shows the daemon's last sentence", failed_starts),
    ("down waits so long and no longer", patience),
    ("down leaves alone what is not its own", foreign),
    ("up starts nothing on a socket that is served", occupied),
]
tests += both("real") + [("up with other folders beside it", other_binds), ("a failed start (real)", failed_start_real)]
main(tests)
