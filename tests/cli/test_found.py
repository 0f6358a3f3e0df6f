"""up, info and down beside a daemon that runs already, hangs, or cannot be found by its socket."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time

from harness import apart, check, equal, main, peer_pid


def other_flags(place):
    place.use_daemon("real")
    flags, path = place.daemon_flags(), place.daemon_socket()
    tokens = place.path("tokens")
    with open(tokens, "w", encoding="utf-8") as out:
        out.write("0123456789abcdef\n")
    os.chmod(tokens, 0o600)
    equal(place.run("up", *flags).returncode, 0)
    pid = peer_pid(path)
    for more, words in [
            (["--listen", "127.0.0.1:0", "--token-file", tokens], "--listen (none), not 127.0.0.1:0"),
            (["--preview", "127.0.0.1:0"], "--preview (none), not 127.0.0.1:0"),
            (["--runtime", "/bin/true"], "not /bin/true"),
            (["--config", place.path("none.json")], "none.json: No such file")]:
        r = place.run("up", *flags, *more)
        equal((r.returncode, r.stdout, r.stderr.count("\n")), (1, "", 1), more)
        check(words in r.stderr, words, r.stderr)
    r = place.run("up", "--run-dir", place.path("d", "run"), "--state-dir", place.path("e"))
    equal((r.returncode, os.path.exists(place.path("e"))), (1, False))
    check(f"(pid {pid})" in r.stderr and "`berth down` first" in r.stderr, r.stderr)
    r = place.run("up", "--state-dir", "./d", "--run-dir", "d/../d/run")
    equal((r.returncode, r.stderr), (0, ""), "other words for the same")
    r = place.run("down", "--run-dir", place.path("d", "run"), "--state-dir", place.path("e"))
    equal((r.returncode, peer_pid(path)), (1, pid), "down leaves another one alone")
    equal(place.run("down", *flags).returncode, 0)
    flags += ["--listen", "127.0.0.1:0", "--token-file", tokens]
    for _ in range(2):
        r = place.run("up", *flags)
        equal((r.returncode, r.stderr), (0, ""))
    check("already runs" in r.stdout, r.stdout)
    equal(place.run("down", *place.daemon_flags()).returncode, 0)


def outdated(place):
    place.use_daemon("real")
    flags = place.daemon_flags()
    equal(place.run("up", *flags).returncode, 0)
    shutil.copy(place.path("berthd"), place.path("new"))
    os.rename(place.path("new"), place.path("berthd"))
    r = place.run("up", *flags)
    equal((r.returncode, r.stderr), (0, ""))
    check("still runs the old program" in r.stdout, r.stdout)
    equal(json.loads(place.run("up", "--json", *flags).stdout)["outdated"], True)
    equal(place.run("down", *flags).returncode, 0)


def by_directory(place):
    """A daemon is found by its state directory, wherever its socket is."""
    place.use_daemon("real")
    flags, path = place.daemon_flags(), place.daemon_socket()
    state = ["--state-dir", place.path("d")]
    equal(place.run("up", *flags).returncode, 0)
    pid = peer_pid(path)
    for where in (flags, state, ["--run-dir", place.path("d", "run")]):
        r = place.run("info", "--json", *where)
        equal((r.returncode, json.loads(r.stdout or "{}").get("pid")), (0, pid), r.stderr)
    log = place.path("d", "berthd", "berthd.log")
    size = os.stat(log).st_size
    other = [*state, "--run-dir", place.path("other")]
    r = place.run("up", *other)
    equal((r.returncode, r.stderr),
          (1, f"berth: another berthd (pid {pid}) uses {place.path('d')} and serves on {path}: "
              f"stop it with `berth --socket {path} down`\n"))
    equal(os.stat(log).st_size, size, "nothing is written into the log of the other")
    r = place.run("info", *other)
    equal((r.returncode, r.stderr.count("\n")), (3, 1))
    check(f"`--socket {path}`" in r.stderr and f"(pid {pid})" in r.stderr, r.stderr)
    r = place.run("down", "--run-dir", place.path("other"))
    equal((r.returncode, peer_pid(path)), (0, pid), "another run directory is another daemon")
    r = place.run("down", *other)
    equal((r.returncode, r.stdout), (0, f"berthd (pid {pid}) has stopped\n"), r.stderr)


def without_socket(place):
    place.use_daemon("real")
    flags, path = place.daemon_flags(), place.daemon_socket()
    equal(place.run("up", *flags).returncode, 0)
    pid = peer_pid(path)
    os.unlink(path)
    r = place.run("down", "--timeout", "1", *flags)
    equal((r.returncode, r.stdout), (1, ""))
    check(f"`kill {pid}`" in r.stderr, r.stderr)
    r = place.run("up", *flags)
    equal((r.returncode, r.stdout), (1, ""))
    check(f"`kill {pid}`" in r.stderr, r.stderr)
    equal(place.run("info", *flags).returncode, 3)
    os.kill(pid, signal.SIGTERM)
    equal(place.run("down", *flags).returncode, 0, "waits for one that is stopping")
    equal(place.run("up", *flags).returncode, 0)
    equal(place.run("down", *flags).returncode, 0)


def hung(place):
    place.use_daemon("real")
    flags, path = place.daemon_flags(), place.daemon_socket()
    equal(place.run("up", *flags).returncode, 0)
    pid = peer_pid(path)
    os.kill(pid, signal.SIGSTOP)
    before = time.monotonic()
    r = place.run("down", "--timeout", "1", *flags)
    equal((r.returncode, r.stdout), (1, ""))
    check(f"`kill {pid}`" in r.stderr and "does not answer" in r.stderr, r.stderr)
    check(time.monotonic() - before < 4, "down takes no longer than it may")
    for verb, code in (("info", 3), ("up", 1)):
        r = place.run(verb, *flags)
        equal((r.returncode, r.stderr), (code, f"berth: berthd on {path} does not answer\n"))
    os.kill(pid, signal.SIGCONT)
    equal(place.run("down", *flags).returncode, 0)


def full_disk(place):
    place.use_daemon("real")
    r = place.run("up", *place.daemon_flags(), preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (0, 0)))
    equal((r.returncode, r.stderr.count("\n")), (1, 1), r.stderr)
    check("berthd did not start: " in r.stderr and "File too large" in r.stderr, r.stderr)


def interrupted(place):
    place.use_daemon("fake")
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen([place.berth, *apart(["up", *place.daemon_flags()])], stderr=subprocess.PIPE,
                              env={**place.env, "FAKE_MODE": "slow"}, text=True) as up:
            while not (os.path.exists(place.path("d", "waits"))
                       and os.path.getsize(place.path("d", "waits"))):
                check(up.poll() is None, "it waits")
                time.sleep(0.01)
            up.send_signal(number)
            _, err = up.communicate(timeout=60)
        equal((up.returncode, err),
              (130, "berth: interrupted: berthd was ended before it was ready\n"))
        check(os.path.exists(place.path("d", "ended")), "by SIGTERM")
        os.unlink(place.path("d", "ended"))
        os.unlink(place.path("d", "waits"))


main([
    ("up with flags that a running daemon does not have", other_flags),
    ("up beside a program that was replaced", outdated),
    ("a daemon is found by its state directory", by_directory),
    ("a daemon that lost its socket, or is stopping", without_socket),
    ("a daemon that hangs", hung),
    ("a full disk does not swallow the reason", full_disk),
    ("a signal while up waits ends what it started", interrupted),
])
