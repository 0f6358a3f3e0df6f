"""What is in use outlives its idle time, what is idle sleeps on time and then costs nothing, many at once.

BERTH_OUTLIVE_S=30: how long what is in use is watched. BERTH_TIMERS=200, BERTH_ASLEEP=50: how many sandboxes.
"""

import concurrent.futures
import datetime
import hashlib
import os
import random
import re
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("bench", "sandbox", "process", "terminal")]

# pylint: disable=wrong-import-position
from cost import spent  # noqa: E402
from ground import IS_SANITIZED, at_once, check, equal, main, until  # noqa: E402
from process_api import start, wait  # noqa: E402
from terminal_api import view  # noqa: E402

OUTLIVE_S = float(os.environ.get("BERTH_OUTLIVE_S", "30"))
TIMERS = int(os.environ.get("BERTH_TIMERS", "40" if IS_SANITIZED else "200"))
ASLEEP = int(os.environ.get("BERTH_ASLEEP", "20" if IS_SANITIZED else "50"))
LATE_S = 5 if IS_SANITIZED else 0.5
CLIENTS = 16
WATCH_S = 5


def put(g, name, **settings):
    reply = g.request("PUT", f"/v1/sandbox/{name}", settings)
    equal(reply.status, 200, reply)


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def sleeps(g, name):
    return g.sandbox(name)["state"] == ("frozen" if g.is_root else "cold")


# --- what is in use ---

def silent(g, name, _):
    result = g.run_events(name, f"sleep {OUTLIVE_S}; echo done; exit 3")
    equal((result.reason, result.code, result.stdout), ("exited", 3, b"done\n"), "the silent command")


def busy(g, name, over):
    start(g, name, "while :; do :; done", id="busy")
    over.wait()
    end = g.request("DELETE", f"/v1/sandbox/{name}/processes/busy").json()
    equal((end["reason"], end["exit"]["signal"]), ("killed", 9), "the loop")


def typed(g, name, over):
    reply = g.request("POST", f"/v1/sandbox/{name}/terminals", {"argv": ["sh"], "id": "t"})
    equal(reply.status, 200, reply)
    with view(g, name, "t") as viewer:
        keys = 0
        while not over.wait(3):
            viewer.type("x")
            keys += 1
        viewer.type("\nhistory=kept; echo [$history]\n")
        viewer.until(b"x" * keys)
        viewer.until(b"[kept]")


def downloaded(g, name, over):
    """A client that takes as long as the test does for a few megabytes."""
    size, content = 8 << 20, hashlib.sha256()
    g.out(name, f"head -c {size} /dev/urandom >/workspace/big")
    expected = g.out(name, "sha256sum </workspace/big").split()[0]
    connection = g.connect()
    try:
        connection.request("GET", f"/v1/sandbox/{name}/file/workspace/big")
        response, left = connection.getresponse(), size
        while left:
            part = response.read(min(left, size if over.is_set() else int(size / OUTLIVE_S / 5)))
            check(part, "the download ended early")
            content.update(part)
            left -= len(part)
            over.wait(0.2)
    finally:
        connection.close()
    equal(content.hexdigest(), expected, "the file")


def test_outlive(g):
    """[44] A silent command, a busy loop, a terminal with a key now and then, a slow download: none is cut."""
    uses = {"silent": silent, "busy": busy, "typed": typed, "downloaded": downloaded}
    for name in uses:
        put(g, name, sleep_after="2s")
    over = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(len(uses)) as pool:
        asked = [pool.submit(use, g, name, over) for name, use in uses.items()]
        try:
            for name in uses:
                until(lambda: g.sandbox(name)["state"] == "running", "its start")  # pylint: disable=cell-var-from-loop
            end = time.monotonic() + OUTLIVE_S - 1
            while time.monotonic() < end:
                for name in uses:
                    shown = g.sandbox(name)
                    equal((shown["state"], shown["generation"], shown["last_sleep"]), ("running", 1, None), shown)
                time.sleep(0.1)
        finally:
            over.set()
        for one in asked:
            one.result()
    for name in uses:
        until(lambda: sleeps(g, name), f"{name} to sleep")  # pylint: disable=cell-var-from-loop
        equal(g.sandbox(name)["last_sleep"]["reason"], "idle", "why")


# --- what is not ---

def test_timers(g):
    """[44] Many sandboxes with different times each sleep on time, while others are used."""
    rng = random.Random(os.getpid())
    names = [f"t{i}" for i in range(TIMERS)]
    at_once(8, lambda i: [g.out(name, "true") for name in names[i::8]])
    over, used = threading.Event(), [0] * CLIENTS

    def client(i):
        while not over.is_set():
            equal(g.exec(f"used{i % 4}", f"exit {i + 1}").code, i + 1, "a command meanwhile")
            used[i] += 1

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        asked = [pool.submit(client, i) for i in range(CLIENTS)]
        try:
            until(lambda: all(used), "all clients at work")
            due = {}
            for name in names:
                put(g, name, sleep_after=f"{rng.randrange(1000, 10000)}ms")
                due[name] = moment(g.request("POST", f"/v1/sandbox/{name}/heartbeat").json()["sleeps_at"])
            until(lambda: all(s["state"] in ("frozen", "cold") for s in g.list_all() if s["id"] in due), "all to sleep")
        finally:
            over.set()
        for one in asked:
            one.result()
    receipts = {s["id"]: s["last_sleep"] for s in g.list_all() if s["id"] in due}
    equal({(r["reason"], r["mode"]) for r in receipts.values()}, {("idle", "freeze" if g.is_root else "stop")}, "receipts")
    at = {name: moment(receipt["at"]) for name, receipt in receipts.items()}
    if not g.is_root:  # its end is told then, but it was on its way before
        at = {name: moment(text) for text, name in re.findall(r"(\S+) info sandbox=(t\d+) .*running -> stopping", g.log_text())}
    late = sorted(at[name] - due[name] for name in names)
    print(f"# {TIMERS} sandboxes, {sum(used)} commands meanwhile: slept {late[0] * 1000:.0f} ms to {late[-1] * 1000:.0f} ms "
          f"after they were due, half of them within {late[TIMERS // 2] * 1000:.0f} ms")
    check(late[0] > -0.01 and late[-1] < LATE_S, "late by", late[0], late[-1])



def groups_usage(g):
    """Of every cgroup of ours that counts it."""
    found = {}
    for group in g.cgroups():
        for name in ("cpu.stat", "cpuacct.usage"):
            path = os.path.join(group, name)
            if os.path.exists(path):
                with open(path, encoding="ascii") as file:
                    text = file.readline()
                if name == "cpuacct.usage" or text.startswith("usage_usec"):
                    found[path] = text
    return found


def test_asleep_costs(g):
    """Sandboxes that sleep use no processor, and berthd and keeper none for them."""
    def begin(i):
        start(g, f"z{i}", "echo on; while :; do :; done", id="busy")
        wait(g, f"z{i}", "busy", "log", pattern="on")
        equal(g.request("POST", f"/v1/sandbox/z{i}/sleep").status, 200, "sleep")
    for i in range(0, ASLEEP, 4):
        at_once(min(4, ASLEEP - i), lambda j: begin(i + j))  # pylint: disable=cell-var-from-loop
    programs = {"berthd": g.berthd.pid, "keeper": g.keeper()}
    time.sleep(0.5)  # what was begun is done
    before, groups = {name: spent(pid) for name, pid in programs.items()}, groups_usage(g)
    time.sleep(WATCH_S)
    after = {name: spent(pid) for name, pid in programs.items()}
    equal(groups_usage(g), groups, "processor time of what sleeps")
    check(bool(groups) == g.is_root, "cgroups that count it", len(groups))
    for name in programs:
        used, turns = after[name][0] - before[name][0], after[name][1] - before[name][1]
        print(f"# {ASLEEP} asleep: {name} used {used / 1e6:.2f} ms of a processor in {WATCH_S} s, {turns} turns")
        check(used < WATCH_S * 1e9 / 500, name, "used", used, "ns")


main([test_outlive, test_timers, test_asleep_costs])
