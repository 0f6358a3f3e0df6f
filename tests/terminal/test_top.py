"""`berth top` on a real terminal, in front of which tmux sits, and for pipes.

usage: test_top.py BUILD_DIR root|user RUNTIME [TEST...]
"""

import json
import os
import re
import signal
import subprocess

from terminal_api import check, equal, until
from ground import main
from test_shell import Screen

HEADING = r"^ID +STATE +ACTIVITY +CPU% +MEM/LIMIT +DISK +PIDS$"


def busy(g, name):
    reply = g.request("POST", f"/v1/sandbox/{name}/processes", {"command": "while :; do :; done"})
    equal(reply.status, 200, reply)


def top(g, *args):
    return subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, "top", *args], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, timeout=120)


def tables(g, *args):
    done = top(g, "--json", *args)
    equal((done.returncode, done.stderr), (0, ""), done)
    return [json.loads(line)["sandboxes"] for line in done.stdout.splitlines()]


def test_live(g):
    """It paints by itself, who is busy stands first, and q leaves the terminal as it was."""
    g.request("PUT", "/v1/sandbox/a", {})
    g.out("idle", "true")
    g.out("work", "true")
    with Screen(g, 110, 20) as s:
        before = s.settings()
        s.type(f"{s.berth} top -d 0.3")
        s.wait(HEADING)
        s.wait(r"^3 sandboxes: .*running")
        busy(g, "work")
        s.wait(r"PIDS\nwork +running +awake: .* +[1-9][0-9]*\.[0-9] ")
        s.wait(r"^a +cold +stopped +- +- ")
        s.wait(r"^work .* [0-9.]+[BKMG] +([0-9]+|-)$")
        check("-isig" in s.settings(), "raw")
        g.request("DELETE", "/v1/sandbox/work/processes")
        s.wait(r"^work +running .* 0\.[0-9] ")
        s.keys("q")
        s.wait("^host>$")
        check("PIDS" not in s.text(), "its screen is gone", s.text())
        s.type("echo code $?")
        s.wait("^code 0$")
        s.check_given_back(before)


def test_resize(g):
    """It fits, whatever the size."""
    for name in ("a", "b", "c", "d", "e", "f"):
        g.request("PUT", f"/v1/sandbox/{name}", {})
    with Screen(g, 100, 20) as s:
        s.type(f"{s.berth} top -d 3600 -s id")
        s.wait(r"^f +cold .*-$")
        s.tmux("resize-window", "-t", "s", "-x", "31", "-y", "6")
        s.wait(r"\A6 sandboxes: 6 cold \(q leaves\)\n\nID +STATE +A.*\na .*\nb .*\nc .*\Z")
        s.tmux("resize-window", "-t", "s", "-x", "100", "-y", "20")
        s.wait(r"^f +cold .*-$")
        s.keys("C-c")
        s.wait("^host>$")


def test_ends(g):
    """However it ends, the terminal is given back; a berthd that was killed is told in a sentence."""
    g.out("a", "true")
    with Screen(g) as s:
        before = s.settings()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            s.type(f"{s.berth} top")
            s.wait("ACTIVITY")
            os.kill(s.client(), number)
            s.wait("^host>$")
            s.type("echo code $?")
            s.wait(f"^code {128 + number}$")
            s.check_given_back(before)
            s.clear()
        s.type(f"{s.berth} top -n 2 -d 0.2")
        s.wait("^host>$")
        s.check_given_back(before)
        s.clear()
        s.type(f"{s.berth} top")
        s.wait("ACTIVITY")
        s.keys("C-z")
        s.wait(r"Stopped")
        s.check_given_back(before)
        s.type("fg")
        s.wait(r"^a +running")
        s.keys("q")
        s.wait("^host>$")
        s.clear()
        # One that does not answer does not keep the keys from being heard.
        s.type(f"{s.berth} top -d 0.1")
        s.wait("ACTIVITY")
        os.kill(g.berthd.pid, signal.SIGSTOP)
        s.keys("q")
        s.wait("^host>$")
        os.kill(g.berthd.pid, signal.SIGCONT)
        s.check_given_back(before)
        s.clear()
        s.type(f"{s.berth} top -d 0.2")
        s.wait("ACTIVITY")
        g.kill_berthd()
        s.wait("^berth: ")
        s.type("echo code $?")
        s.wait("^code [13]$")
        said = [line for line in s.text().splitlines() if line.startswith("berth: ")]
        equal(len(said), 1, s.text())
        s.check_given_back(before)
    g.start()
    until(lambda: g.sandbox("a")["state"] in ("running", "frozen"), "it is adopted")


def test_batch(g):
    """Without a terminal one table is printed, and as many as are wanted."""
    g.request("PUT", "/v1/sandbox/limited", {"limits": {"memory": "64M"}} if g.is_root else {})
    g.out("limited", "true")
    g.out("work", "true")
    busy(g, "work")
    done = top(g, "-d", "0.5")
    equal((done.returncode, done.stderr), (0, ""), done)
    lines = done.stdout.splitlines()
    check(re.match(HEADING, lines[0]) and "\x1b" not in done.stdout, done.stdout)
    equal(sorted(line.split()[0] for line in lines[1:]), ["limited", "work"], done.stdout)
    # On a machine that is busy itself, a look may find nobody busy.
    until(lambda: [row["id"] for row in tables(g)[0]] == ["work", "limited"], "who is busy stands first")
    equal(top(g, "-n", "2", "-d", "0.1").stdout.count("PIDS"), 2, "two tables")
    if g.is_root:
        check(re.search(r"^limited .* [0-9.]+[KM]/64M ", done.stdout, re.M), done.stdout)
    rounds = tables(g, "-d", "1", "-n", "2", "-s", "id")
    equal([[row["id"] for row in table] for table in rounds], [["limited", "work"]] * 2, rounds)
    # At least a second was between them.
    check(rounds[1][1]["cpu_percent"] <= (rounds[1][1]["cpu_ms"] - rounds[0][1]["cpu_ms"]) / 10 + 1, rounds)
    default = g.get("/v1/info").json()["default_limits"]["memory"]
    equal([row["memory_limit_bytes"] for row in rounds[0]], [64 << 20 if g.is_root else default, default], "limits")
    for idle, work in rounds:
        check(0 <= work["cpu_percent"] < 250 and idle["cpu_percent"] < 20, rounds)
        equal((idle["pids"] is not None, idle["memory_bytes"] is not None), (g.has_cgroups,) * 2, rounds)
    for flag, value in (("-d", "0"), ("-d", "x"), ("-d", "nan"), ("-n", "0"), ("-n", "-1"), ("-s", "size"), ("-d", "")):
        equal(top(g, flag, value).returncode, 2, f"{flag} {value}")


def test_asleep(g):
    """Who is looked at goes to sleep all the same, and is not woken."""
    g.request("PUT", "/v1/sandbox/a", {"sleep_after": "1s"})
    g.out("a", "true")
    with Screen(g) as s:
        s.type(f"{s.berth} top -d 0.1")
        s.wait(r"^a +running ")
        s.wait(r"^a +(frozen|cold) ")
        s.keys("q")
        s.wait("^host>$")
    equal(g.sandbox("a")["generation"], 1, "generation")


if __name__ == "__main__":
    main([test_live, test_resize, test_ends, test_batch, test_asleep])
