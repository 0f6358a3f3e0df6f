"""`berth events` against a real daemon: what is printed, what is followed, and across a restart."""

import glob
import json
import os
import re
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, *(os.path.join(HERE, "..", folder) for folder in ("sandbox", "process"))]

# pylint: disable=wrong-import-position
from ground import check, equal, main  # noqa: E402
from test_cli import Cli  # noqa: E402


def numbers(text):
    return [json.loads(line).get("id") for line in text.splitlines()]


def test_print(g):
    """A line for each thing that happened, of one sandbox or all, and the end of it."""
    c = Cli(g)
    equal(c.run("events"), "", "nothing has happened")
    c.run("create", "web")
    c.run("exec", "web", "true")
    c.run("sleep", "--mode", "stop", "web")
    c.run("create", "db")
    c.run("rm", "web")
    lines = [line.split(None, 4) for line in c.run("events").splitlines()]
    equal([line[2:] for line in lines], [
        ["web", "created", "generation 0"], ["web", "started", "generation 1"],
        ["web", "slept", "stop, asked, generation 1"], ["db", "created", "generation 0"],
        ["web", "destroyed", "request, generation 1"]], lines)
    check(all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", " ".join(line[:2])) for line in lines), lines)
    equal(len(c.run("events", "web").splitlines()), 4, "of one that is gone")
    equal(numbers(c.run("events", "--json", "--since", "3")), [4, 5], "behind a number")
    equal(numbers(c.run("events", "--json", "--type", "created,destroyed")), [1, 4, 5], "of some types")
    equal(json.loads(c.run("events", "--json", "--type", "slept"))["reason"], "asked", "as it came")
    for more in ([], ["-f"], ["--json"], ["web"]):
        out, err = c.both("events", "--since", "99", *more, code=1)
        equal((out, err), (b"", b"berth: there is no event 99 yet: the newest is 5\n"), more)
    equal(c.run("events", "--since", "5"), "", "nothing since the newest")
    check('no kind of event "wake"; there are created, changed' in c.run("events", "--type", "slept,wake", code=1), "unknown")
    check("there is no sandbox" in c.run("events", "nobody", code=1), "one that never was")
    for args in (["--since", "x"], ["--since", ""], ["--type", "A"], ["--since", "9" * 30], ["a", "b"]):
        c.run("events", *args, code=2)
    c.run("--socket", "/nowhere", "events", "-f", code=3)


def test_follow(g):
    """-f goes on when berthd is restarted, killed or not, and misses nothing."""
    c = Cli(g)
    c.run("create", "a")
    with c.popen("events", "-f", "--json") as follower:
        told = [json.loads(follower.stdout.readline())]
        for number in range(3):
            c.run("create", f"b{number}")
            told.append(json.loads(follower.stdout.readline()))
            if number == 0:
                g.kill_berthd()
            else:
                g.berthd.terminate()
                g.berthd.wait(60)
            g.start()
            c.run("create", f"c{number}")
            told.append(json.loads(follower.stdout.readline()))
        follower.send_signal(signal.SIGINT)
        rest, err = follower.communicate(timeout=60)
        equal((follower.returncode, rest, err), (130, b"", b""), "Ctrl-C")
    equal([e["id"] for e in told], list(range(1, 8)), told)
    equal([e["sandbox"] for e in told], ["a", "b0", "c0", "b1", "c1", "b2", "c2"], told)


def test_alarm(g):
    """The line of an alarm says how its command ended."""
    c = Cli(g)
    c.run("create", "db")
    c.run("alarm", "set", "db", "tidy", "--every", "1s", "--", "sh", "-c", "exit 3")
    with c.popen("events", "-f", "--type", "alarm") as follower:
        line = follower.stdout.readline().split(None, 4)[3:]
        equal(line, [b"alarm", b"tidy, exited, exit code 3, generation 1\n"], line)
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=60)


def test_reset(g):
    """-f goes on when the state is removed and numbers begin anew, and says so."""
    c = Cli(g)
    for name in ("a", "b", "c"):
        c.run("create", name)
        c.run("rm", name)
    with c.popen("events", "-f") as follower:
        for _ in range(6):
            follower.stdout.readline()
        g.berthd.terminate()
        equal(g.berthd.wait(60), 0, "berthd's exit code")
        for file in glob.glob(os.path.join(g.state, "berthd", "state.db*")):
            os.remove(file)
        g.start()
        equal(follower.stderr.readline(), b"berth: berthd does not know of event 6 any more: the newest is 0, "
              b"and what comes now is told\n", "what is said")
        c.run("create", "d")
        equal(follower.stdout.readline().split()[2:4], [b"d", b"created"], "what comes")
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=60)


if __name__ == "__main__":
    main([test_print, test_follow, test_alarm, test_reset])
