"""run, exec and their kin against the real daemon, keeper, init and runtime."""

import json
import os
import signal
import subprocess
import time

from harness import check, equal, main


def up(place, *more):
    if not os.path.exists(place.path("berthd")):
        place.use_daemon("real")
    r = place.run("up", *place.daemon_flags(), *more)
    equal((r.returncode, r.stderr), (0, ""), r.stdout)
    place.env["BERTH_SOCKET"] = place.daemon_socket()


def with_daemon(test):
    def wrapped(place):
        up(place)
        try:
            test(place)
        finally:
            names = place.run("ls", "-q").stdout.split()
            if names:
                place.run("rm", *names)
            r = place.run("down", "--stop-all")
        equal(r.returncode, 0, r.stderr)
    return wrapped


def hello(place):
    r = place.run("run", "--rm", "--", "python3", "-c", "print(6 * 7)")
    equal((r.returncode, r.stdout, r.stderr), (0, "42\n", ""))
    equal(place.run("ls", "-q").stdout, "", "nothing is left")


def killed(place):
    """Of --rm; the daemon removes what is left, and nothing that is in use."""
    def begin(*flags):
        return subprocess.Popen([place.berth, "run", "--rm", *flags, "--", "sh", "-c", "echo on; sleep 3; echo still; sleep 1000"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=place.env)

    def show(name):
        return json.loads(place.run("inspect", "--json", name).stdout)
    with begin() as process:
        equal(process.stdout.readline(), b"on\n")
        shown = show(place.run("ls", "-q").stdout.strip())
        equal((shown["sleep_after"], shown["delete_after"]), ("1m", "1m"), "times of one without a name")
        process.send_signal(signal.SIGINT)
    with begin("--name", "web") as process:
        equal(process.stdout.readline(), b"on\n")
        equal(show("web")["delete_after"], "never", "what has a name stays")
        process.send_signal(signal.SIGINT)
    equal(place.run("ls", "-q").stdout, "", "both are gone")
    with begin("--sleep-after", "1s", "--delete-after", "1s") as process:
        equal(process.stdout.readline(), b"on\n")
        equal(process.stdout.readline(), b"still\n", "in use for longer than that")
        name = place.run("ls", "-q").stdout.strip()
        process.kill()
    with subprocess.Popen([place.berth, "events", "-f", "--type", "destroyed", name], stdout=subprocess.PIPE, env=place.env) as events:
        check(b"delete_after" in events.stdout.readline(), "the daemon removes it")
        events.terminate()
    equal(place.run("ls", "-q").stdout, "", "what is left")


def codes(place):
    for script, code in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137),
                         ("kill -15 $$", 143)]:
        r = place.run("exec", "web", "sh", "-c", script)
        equal((r.returncode, r.stdout, r.stderr), (code, "", ""), script)
    r = place.run("exec", "web", "no-such-program")
    equal(r.returncode, 127)
    check("could not be started" in r.stderr, r.stderr)
    r = place.run("exec", "web", "/etc/passwd")
    equal(r.returncode, 126, r.stderr)
    r = place.run("exec", "--timeout", "300ms", "web", "sleep", "100")
    equal((r.returncode, r.stderr), (124, "berth: the command ran out of time and was ended\n"))


def facts(place):
    r = place.run("exec", "-e", "A=b c=\n", "-w", "/tmp", "web", "sh", "-c", 'pwd; printf %s "$A"; echo x >&2')
    equal((r.returncode, r.stdout, r.stderr), (0, "/tmp\nb c=\n", "x\n"))
    equal(place.run("exec", "-u", "1000:100", "web", "id", "-u").stdout, "1000\n")
    r = place.run("exec", "--json", "web", "sh", "-c", "echo hi; exit 3")
    answer = json.loads(r.stdout)
    equal((r.returncode, answer["stdout"], answer["exit_code"], answer["reason"]),
          (3, "hi\n", 3, "exited"))


def raw_words(place):
    r = subprocess.run([place.berth, "exec", "-e", b"A=\xfe", "web", "sh", "-c", 'printf %s "$1$A"; cat', "sh", b"\xff"],
                       stdin=subprocess.DEVNULL, capture_output=True, env=place.env, timeout=60, check=False)
    equal((r.returncode, r.stdout, r.stderr), (0, b"\xff\xfe", b""), "bytes that are no text")


def names(place):
    equal(place.run("create", "Foo").stdout, "foo\n", "made")
    r = place.run("create", "foo")
    equal((r.returncode, "berth rm" in r.stderr, "PUT" in r.stderr), (1, True, False), r.stderr)
    equal(place.run("rm", "FOO").stdout, "foo\n", "removed")


def stdin(place):
    data = os.urandom(5 << 20)
    with open(place.path("in"), "wb") as file:
        file.write(data)
    with open(place.path("in"), "rb") as file, open(place.path("out"), "wb") as out:
        process = subprocess.run([place.berth, "exec", "-i", "web", "cat"], stdin=file, stdout=out,
                                 env=place.env, timeout=120, check=False)
    equal(process.returncode, 0)
    with open(place.path("out"), "rb") as out:
        check(out.read() == data, "what went in did not come out")
    process = subprocess.Popen([place.berth, "exec", "-i", "web", "cat"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env=place.env)
    for word in (b"one\n", b"two\n"):
        process.stdin.write(word)
        process.stdin.flush()
        equal(process.stdout.readline(), word)
    process.stdin.close()
    equal((process.wait(60), process.stdout.read()), (0, b""))


def interrupted(place):
    process = subprocess.Popen([place.berth, "exec", "web", "sh", "-c",
                                "echo ready; trap '' TERM INT; sleep 98765 & wait; sleep 98765"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.env)
    equal(process.stdout.readline(), b"ready\n")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    equal((process.returncode, out, err), (130, b"", b""))
    # The answer to a later command comes after the first was taken down, or not: wait for it.
    script = "while cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep 9876[5]'; do sleep 0.05; done"
    equal(place.run("exec", "--timeout", "20s", "web", "sh", "-c", script).returncode, 0,
          "the command lives on")


def disk(place):
    equal(place.run("run", "--name", "web", "--", "sh", "-c", "echo kept > file").returncode, 0)
    first = json.loads(place.run("inspect", "--json", "web").stdout)
    equal(first["state"], "running")
    equal(place.run("stop", "web").stdout, "web\n")
    equal(json.loads(place.run("inspect", "--json", "web").stdout)["state"], "cold")
    equal(place.run("exec", "web", "cat", "file").stdout, "kept\n")
    again = json.loads(place.run("inspect", "--json", "web").stdout)
    equal(again["generation"], first["generation"] + 1)
    equal(place.run("rm", "web").returncode, 0)
    equal(place.run("inspect", "web").returncode, 1)
    equal(place.run("exec", "web", "cat", "file").returncode, 1, "a new sandbox has a new disk")


def lists(place):
    # A limit that the host cannot keep is refused at the start: only the one that stays cold has it.
    for name, more in (("b", ["--memory", "64M"]), ("a", [])):
        equal(place.run("create", name, *more).stdout, name + "\n")
    r = place.run("start", "a")
    equal((r.returncode, r.stderr), (0, ""), "start")
    rows = [line.split() for line in place.run("ls").stdout.splitlines()]
    equal([row[:2] for row in rows], [["ID", "STATE"], ["a", "running"], ["b", "cold"]])
    check("64 MiB" in place.run("inspect", "b").stdout)
    equal(place.run("create", "a").returncode, 1)


def prunes(place):
    for name in ("old", "running", "never"):
        equal(place.run("create", name).returncode, 0, name)
    equal(place.run("exec", "old", "true").returncode, 0)
    equal(place.run("stop", "old").returncode, 0)
    equal(place.run("exec", "running", "true").returncode, 0)
    r = place.run("prune", "--yes")
    equal((r.returncode, r.stdout), (0, "nothing to remove: no sandbox was unused for so long\n"), r.stderr)
    r = place.run("prune", "--older-than", "1ms", "--json", "--yes")
    found = {s["id"]: s["removed"] for s in json.loads(r.stdout)["sandboxes"]}
    equal((r.returncode, found), (0, {"never": True, "old": True}), r.stderr)
    equal(place.run("ls", "-q").stdout, "running\n", "what is left")


def with_pool(test):
    """A daemon that does one run at a time, and keeps a sandbox warm for the next."""
    def wrapped(place):
        with open(place.path("config.json"), "w", encoding="utf-8") as file:
            json.dump({"pool": {"size": 1, "languages": ["python"]}, "max_runs": 1, "preview": "none"}, file)
        up(place, "--config", place.path("config.json"))
        try:
            test(place)
        finally:  # of one that failed
            place.run("rm", *place.run("ls", "-q", "--all").stdout.split())
            place.run("down", "--stop-all")
    return wrapped


def hidden(place):
    """The states of those that berthd has made for itself."""
    listed = json.loads(place.run("ls", "--all", "--json").stdout)["sandboxes"]
    return [s["state"] for s in listed if {"berth.run", "berth.pool"} & set(s["labels"])]


def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        check(time.monotonic() < deadline, what, "did not come to be in a minute")
        time.sleep(0.1)


def await_hidden(place):
    until(lambda: "running" in hidden(place), "a sandbox of berthd's own")


def stop_all(place):
    """Runs at work, runs that wait, and the warm pool end; what is somebody's own is stopped, and keeps its disk."""
    equal(place.run("exec", "own", "sh", "-c", "echo kept >/workspace/file").returncode, 0)
    await_hidden(place)
    runs = [subprocess.Popen([place.berth, "code", "--run"], env=place.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(3)]
    for process in runs:
        process.stdin.write(b"import time\nprint('on', flush=True)\ntime.sleep(1000)")
        process.stdin.close()
    until(lambda: sorted(line.split()[1] for line in place.run("runs").stdout.splitlines()[1:]) == ["queued", "queued", "running"], "three runs")
    await_hidden(place)
    r = place.run("down", "--stop-all")
    equal((r.returncode, r.stderr), (0, ""), r.stdout)
    for process in runs:
        equal(process.wait(60), 125, process.stderr.read())
        process.stdout.close()
        process.stderr.close()
    up(place)
    equal(place.run("ls", "-q", "--all").stdout, "own\n")
    equal(json.loads(place.run("inspect", "--json", "own").stdout)["state"], "cold")
    equal([line.split()[1] for line in place.run("runs").stdout.splitlines()[1:]], ["cancelled"] * 3)
    equal(place.run("exec", "own", "cat", "/workspace/file").stdout, "kept\n")
    equal(place.run("rm", "own").returncode, 0)
    equal(place.run("down").returncode, 0)


def removal(place):
    """As README has it, with a pool that fills itself again meanwhile."""
    equal(place.run("exec", "own", "true").returncode, 0)
    await_hidden(place)
    r = subprocess.run(["sh", "-c", "berth ls -q --all | xargs -r berth rm"], env={**place.env, "PATH": f"{place.dir}:{place.env['PATH']}"},
                       capture_output=True, text=True, timeout=120, check=False)
    equal((r.returncode, r.stderr, "own\n" in r.stdout), (0, "", True))
    await_hidden(place)
    r = place.run("down", "--stop-all")
    equal((r.returncode, r.stderr), (0, ""), r.stdout)
    up(place)
    equal(place.run("ls", "-q", "--all").stdout, "", "what is left")
    equal(place.run("down").returncode, 0)


main([
    ("python in a sandbox that is gone afterwards", with_daemon(hello)),
    ("run --rm that is killed", with_daemon(killed)),
    ("exit codes and reasons", with_daemon(codes)),
    ("variables, directory, user, JSON", with_daemon(facts)),
    ("words that are no text", with_daemon(raw_words)),
    ("IDs in capital letters, and twice", with_daemon(names)),
    ("standard input", with_daemon(stdin)),
    ("Ctrl-C ends the whole command", with_daemon(interrupted)),
    ("the disk stays over a stop and goes with rm", with_daemon(disk)),
    ("create, start, ls, inspect", with_daemon(lists)),
    ("prune", with_daemon(prunes)),
    ("down --stop-all while there are runs and a pool", with_pool(stop_all)),
    ("all is removed, also with a pool", with_pool(removal)),
])
