"""Going to sleep and waking: what holds a sandbox awake, what a sleep keeps, and that nothing is lost."""

import base64
import datetime
import functools
import hashlib
import os
import random
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process", "terminal")]

# pylint: disable=wrong-import-position
from ground import (DIES_FROZEN, IS_SANITIZED, at_once, check, equal, fds_of, main, memory_of, needs_cgroups,  # noqa: E402
                    only, until)
from process_api import ended, raw, show, start, wait  # noqa: E402
from terminal_api import view  # noqa: E402

CYCLES = int(os.environ.get("BERTH_CYCLES", "50"))
COUNTER = "n = 0\nwhile True:\n    n += 1\n    print(n, input(), flush=True)\n"


def put(g, name="a", **settings):
    reply = g.request("PUT", f"/v1/sandbox/{name}", settings)
    check(reply.status in (200, 201), reply)
    return reply.json()


def sleep(g, mode=None, name="a"):
    reply = g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": mode} if mode else None)
    equal(reply.status, 200, reply)
    return reply.json()


def asleep(g):
    """What `auto` makes of a sandbox here."""
    return "frozen" if g.has_cgroups else "cold"


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def await_sleep(g, name="a"):
    until(lambda: g.sandbox(name)["state"] == asleep(g), "the sandbox to sleep")
    return g.sandbox(name)["last_sleep"]


def stays_awake(g, seconds):
    """Looks all the time; it must not even be on its way to sleep."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        equal(g.sandbox("a")["state"], "running", g.sandbox("a"))
        time.sleep(0.02)


def kinds(g):
    return sorted(h["kind"] for h in g.sandbox("a")["holds"])


def test_idle(g):
    """An idle sandbox sleeps when it said it would, and says so; the next request wakes it."""
    equal(put(g, sleep_after="1s")["sleep_after"], "1s", "setting")
    g.out("a", "echo kept >f")
    shown = g.sandbox("a")
    equal((shown["state"], shown["holds"]), ("running", []), shown)
    due = moment(shown["sleeps_at"])
    receipt = await_sleep(g)
    late = moment(receipt["at"]) - due
    check(abs(late.total_seconds()) < (0.5 if not IS_SANITIZED else 5), f"{late} late")
    equal((receipt["reason"], receipt["generation"]), ("idle", 1), receipt)
    equal(receipt["kept"], ["disk", "memory", "processes"] if g.has_cgroups else ["disk"], receipt)
    shown = g.sandbox("a")
    equal((shown["sleeps_at"], shown["holds"]), (None, []), "asleep")
    equal(g.sandbox("a")["state"], asleep(g), "looking does not wake")
    equal(g.out("a", "cat f"), "kept\n", "the disk")
    shown = g.sandbox("a")
    equal((shown["last_wake"]["from"], shown["generation"]), ("frozen", 1) if g.has_cgroups else ("stopped", 2), shown)


def test_holds(g):
    """A silent command, a busy process and a detached one each outlive the idle time."""
    put(g, sleep_after="1s")
    with g.events("a", "sleep 3; echo done") as events:
        until(lambda: kinds(g) == ["exec"], "the hold")
        equal(g.sandbox("a")["sleeps_at"], None, "it does not sleep")
        stays_awake(g, 2)
        equal(events.result().stdout, b"done\n", "its output")
    start(g, "a", "while :; do :; done", id="busy")
    stays_awake(g, 3)
    until(lambda: kinds(g) == ["cpu"], "what holds it")
    g.request("DELETE", "/v1/sandbox/a/processes/busy")
    await_sleep(g)
    detached = g.request("POST", "/v1/sandbox/a/exec", {"command": "sleep 3", "detach": True}).json()
    equal(kinds(g), ["exec"], "a detached command holds")
    stays_awake(g, 2)
    equal(ended(g, "a", detached["id"])["exit"]["code"], 0, "it has ended by itself")
    start(g, "a", "sleep 1000", id="silent")
    await_sleep(g)


def test_output_holds(g):
    """What a background process prints is activity; and so is a wait for it."""
    put(g, sleep_after="1s")
    start(g, "a", "for i in $(seq 15); do echo $i; sleep 0.2; done; exec sleep 1000", id="talks")
    stays_awake(g, 2)
    await_sleep(g)
    if not g.has_cgroups:
        return
    equal(len(raw(g, "a", "talks").split()), 15, "its output is there, and who reads it wakes nobody")
    equal(g.sandbox("a")["state"], "frozen", "state")
    start(g, "a", "sleep 2; echo late; exec sleep 1000", id="late")
    wait(g, "a", "late", "log", pattern="late")


def test_settings(g):
    """never, keep_alive, max_awake; each changes while it runs."""
    put(g, sleep_after="never")
    g.out("a", "true")
    equal(g.sandbox("a")["sleeps_at"], None, "never")
    equal(put(g, sleep_after="300ms", keep_alive=True)["holds"][0]["kind"], "keep_alive", "keep_alive")
    stays_awake(g, 1)
    put(g, keep_alive=False)
    await_sleep(g)
    put(g, keep_alive=True, max_awake="1s")
    g.out("a", "true")
    equal(await_sleep(g)["reason"], "max_awake", "max_awake outranks keep_alive")
    put(g, keep_alive=False, sleep_after="1h")
    g.out("a", "true")
    due = moment(g.sandbox("a")["sleeps_at"])
    late = moment(await_sleep(g)["at"]) - due
    check(late < datetime.timedelta(seconds=2.5), "max_awake waits for no look at its processor time:", late)
    put(g, sleep_after="10m")
    with g.events("a", "sleep 100") as events:
        result = events.result()
    equal((result.reason, result.facts["signal"]), ("killed", 15), "a command that max_awake ends")


def test_heartbeat(g):
    """Somebody outside, or inside, says that it is in use; from inside that counts once a second."""
    put(g, sleep_after="2500ms")
    equal(g.request("POST", "/v1/sandbox/a/heartbeat").status, 409, "it does not run")
    g.out("a", "true")
    for _ in range(12):
        reply = g.request("POST", "/v1/sandbox/a/heartbeat")
        equal(reply.status, 200, reply)
        check(reply.json()["sleeps_at"], reply)
        stays_awake(g, 0.3)
    start(g, "a", "for i in $(seq 20); do sleep 0.3; echo >/run/berth/heartbeat; done; exec sleep 1000", id="beats")
    stays_awake(g, 6)
    await_sleep(g)


@needs_cgroups
def test_memory(g):
    """A process with its state in memory goes on after it was frozen; the sandbox uses no processor meanwhile."""
    start(g, "a", ["python3", "-c", COUNTER], id="p")

    def feed(word):
        reply = g.request("POST", "/v1/sandbox/a/processes/p/stdin", word + b"\n")
        equal(reply.status, 204, reply)

    feed(b"one")
    wait(g, "a", "p", "log", pattern="^1 one$")
    start(g, "a", "while :; do :; done", id="busy")
    receipt = sleep(g, "freeze")
    equal((receipt["mode"], receipt["reason"], receipt["kept"]), ("freeze", "asked", ["disk", "memory", "processes"]),
          receipt)
    equal(sleep(g, "freeze")["at"], receipt["at"], "twice")
    used = usage_of(g)
    equal((show(g, "a", "p")["state"], g.get("/v1/sandbox/a/running?wake=0").json()),
          ("running", {"running": False}), "frozen")
    time.sleep(0.5)
    equal(usage_of(g), used, "asleep it uses no processor")
    equal(g.sandbox("a")["state"], "frozen", "looking does not wake")
    feed(b"two")
    wait(g, "a", "p", "log", pattern="^2 two$")
    equal((g.sandbox("a")["state"], g.sandbox("a")["generation"]), ("running", 1), "it woke")


def usage_of(g):
    """By v2, else by v1, whose own cpu.stat is about something else."""
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        if os.path.basename(os.path.dirname(folder)) != g.cgroup_name():
            continue
        for name, word in (("cpu.stat", "usage_usec"), ("cpuacct.usage", "")):
            if name in files:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    if (first := file.readline()).startswith(word):
                        return first
    raise AssertionError("no cgroup that counts")


def test_stop(g):
    """A stop asks everything to end, has each true status, and keeps the disk."""
    start(g, "a", "trap 'echo saved >/workspace/saved; exit 9' TERM; echo on; while :; do sleep 0.1; done", id="saves")
    start(g, "a", "echo on; exec sleep 1000", id="dies")
    for name in ("saves", "dies"):
        wait(g, "a", name, "log", pattern="on")
    receipt = sleep(g, "stop")
    equal((receipt["mode"], receipt["kept"], receipt["reason"]), ("stop", ["disk"], "asked"), receipt)
    saves, dies = show(g, "a", "saves"), show(g, "a", "dies")
    equal((saves["reason"], saves["exit"]["code"]), ("exited", 9), saves)
    equal((dies["reason"], dies["exit"]["signal"]), ("killed", 15), dies)
    equal(g.out("a", "cat saved"), "saved\n", "what it saved")
    if g.has_cgroups:
        start(g, "a", "trap 'exit 4' TERM; echo on; while :; do sleep 0.1; done", id="frozen")
        wait(g, "a", "frozen", "log", pattern="on")
        sleep(g, "freeze")
        sleep(g, "stop")
        equal(show(g, "a", "frozen")["exit"]["code"], 4, "one that was frozen hears of it, too")
        equal(g.sandbox("a")["state"], "cold", "state")


def test_grace(g):
    """What does not end by itself is killed when stop_grace is over; with none of it at once, unasked."""
    stubborn = "trap 'echo asked >>/workspace/asked' TERM; echo on; while :; do sleep 0.1; done"
    for grace, asked in (("1500ms", "asked\n"), ("0s", "")):
        put(g, stop_grace=grace)
        g.out("a", "rm -f asked; touch asked")
        start(g, "a", stubborn, id="p")
        wait(g, "a", "p", "log", pattern="on")
        begun = time.monotonic()
        sleep(g, "stop")
        took = time.monotonic() - begun
        equal((show(g, "a", "p")["reason"], show(g, "a", "p")["exit"]["code"]), ("killed", 137), grace)
        equal(g.out("a", "cat asked"), asked, "whether it was asked")
        check(took < 9 and (took >= 1.5 or grace == "0s"), f"{grace} took {took} s")


@needs_cgroups
def test_stop_after(g):
    """Frozen for long enough, it is stopped."""
    put(g, sleep_after="200ms", stop_after="1s")
    start(g, "a", "trap 'exit 5' TERM; echo on; while :; do sleep 100 & wait; done", id="p")
    await_sleep(g)
    until(lambda: g.sandbox("a")["state"] == "cold", "the stop")
    equal(g.sandbox("a")["last_sleep"]["reason"], "stop_after", g.sandbox("a"))
    equal(show(g, "a", "p")["exit"]["code"], 5, "its process")


@only("user")
def test_unsupported(g):
    """Without cgroups nothing can be frozen: that is said, and `auto` stops."""
    g.out("a", "true")
    reply = g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"})
    equal((reply.status, reply.json()["code"]), (501, "unsupported"), reply)
    equal(sleep(g)["mode"], "stop", "auto")


def test_storm(g):
    """A hundred requests for one that sleeps: one start or one thaw, and all are served."""
    g.out("a", "true")
    for mode in ("freeze", "stop") if g.has_cgroups else ("stop",):
        sleep(g, mode)
        before = g.sandbox("a")["generation"]
        woken = g.log_text().count("-> running")
        equal(at_once(100, lambda i: g.out("a", f"echo {i}")), [f"{i}\n" for i in range(100)], "answers")
        equal(g.sandbox("a")["generation"], before + (mode == "stop"), mode)
        equal(g.log_text().count("-> running"), woken + 1, f"wakes from {mode}")


def test_falling_asleep(g):
    """Requests that arrive just when it goes to sleep are served, each of them."""
    put(g, sleep_after="200ms")
    over = time.monotonic() + (10 if IS_SANITIZED else 6)
    random.seed(os.getpid())

    count = 0
    while time.monotonic() < over:
        equal(g.out("a", f"echo {count}"), f"{count}\n", "answer")
        time.sleep(random.uniform(0.18, 0.24))
        count += 1
    check(count > 10, "few were asked")
    check(g.log_text().count("frozen -> running" if g.has_cgroups else "cold -> starting") > 3, "it hardly slept")


@needs_cgroups
def test_adopted(g):
    """berthd and the keeper die while it is frozen: it stays so, and wakes as it was."""
    start(g, "a", ["python3", "-c", COUNTER], id="p")
    g.request("POST", "/v1/sandbox/a/processes/p/stdin", b"one\n")
    wait(g, "a", "p", "log", pattern="^1 one$")
    sleep(g, "freeze")
    g.kill_berthd()
    g.start()
    equal((g.sandbox("a")["state"], show(g, "a", "p")["state"]), ("frozen", "running"), "adopted")
    g.kill_keeper()
    until(g.keeper, "the next keeper")
    equal(g.request("POST", "/v1/sandbox/a/processes/p/stdin", b"two\n").status, 204, "stdin")
    wait(g, "a", "p", "log", pattern="^2 two$")
    equal((g.sandbox("a")["generation"], g.sandbox("a")["last_wake"]["from"]), (1, "frozen"), g.sandbox("a"))
    sleep(g, "freeze")
    g.kill_berthd()
    g.start()
    sleep(g, "stop")
    equal(show(g, "a", "p")["exit"]["signal"], 15, "stopped by one that never saw it awake")


@needs_cgroups
def test_dies_frozen(g):
    """Its init is killed while it is frozen: that is told, and the next life begins."""
    start(g, "a", "sleep 1000", id="p")
    sleep(g, "freeze")
    for pid in g.inits():
        os.kill(pid, 9)
    if DIES_FROZEN:
        until(lambda: g.sandbox("a")["state"] == "failed", "the failure")
        check(g.sandbox("a")["last_failure"], g.sandbox("a"))
        equal(ended(g, "a", "p")["reason"], "lost", "its process")
    equal(g.out("a", "echo x"), "x\n", "the next life")
    equal(show(g, "a", "p")["reason"], "lost", "its process")
    shown = g.sandbox("a")
    equal((shown["generation"], shown["last_sleep"]["reason"]), (2, "failed"), shown)
    start(g, "a", "sleep 1000", id="q")
    sleep(g, "freeze")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    equal(g.inits(), [], "nothing is left")


@needs_cgroups
def test_frozen_processes(g):
    """Whoever wants something of a process wakes it; a command that was frozen goes on, or is ended."""
    start(g, "a", "trap 'echo usr1' USR1; echo on; while :; do sleep 0.05; done", id="p")
    wait(g, "a", "p", "log", pattern="on")
    sleep(g, "freeze")
    equal(g.request("POST", "/v1/sandbox/a/processes/p/kill", {"signal": 10}).status, 204, "kill")
    wait(g, "a", "p", "log", pattern="usr1")
    sleep(g, "freeze")
    equal(g.request("DELETE", "/v1/sandbox/a/processes").status, 200, "end all")
    with g.events("a", "echo on; sleep 1; echo done") as events:
        stream = iter(events)
        equal(next(stream), ("stdout", b"on\n"), "it runs")
        sleep(g, "freeze")
        time.sleep(1.5)
        equal(g.sandbox("a")["state"], "frozen", "state")
        equal(g.request("POST", "/v1/sandbox/a/wake").json()["state"], "running", "wake")
        equal([next(stream)[0], next(stream)[1]["exit_code"]], ["stdout", 0], "it went on")
    threading.Timer(0.5, sleep, (g, "freeze")).start()
    result = g.exec("a", "sleep 100", timeout_ms=1500)
    equal((result.reason, result.code), ("timeout", 124), "its time counts on")


@needs_cgroups
def test_terminal(g):
    """A terminal that somebody looks at holds; typing wakes one that was put to sleep."""
    put(g, sleep_after="300ms")
    reply = g.request("POST", "/v1/sandbox/a/terminals", {"argv": ["sh"], "id": "t"})
    equal(reply.status, 200, reply)
    with view(g, "a", "t") as viewer:
        until(lambda: "terminal" in kinds(g), "the hold")
        stays_awake(g, 1)
        sleep(g, "freeze")
        viewer.type("echo $((6 * 7))\n")
        viewer.until(b"42")
    await_sleep(g)


def tree_hash(g):
    return g.out("a", "cd / && find workspace etc -xdev -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum")


def settled(figures):
    """When they do not change for a while: groups come and go behind an exec."""
    def look():
        first = figures()
        time.sleep(0.3)
        return first if figures()["fds"] == first["fds"] else None
    return until(look, "descriptors to stay as they are")


def test_cycles(g):
    """[44] Sleeping and waking again and again leaves nothing behind, and the files as they were."""
    g.put_file("a", "/workspace/blob", base64.b64encode(hashlib.sha512(b"x").digest() * 1000))
    start(g, "a", "exec sleep infinity", id="stays")
    tree = tree_hash(g)

    def cycle(mode):
        sleep(g, mode)
        g.out("a", "true")

    def figures(mode):
        """What stays the same process all the time: its memory and descriptors. A stop ends init."""
        programs = {"berthd": g.berthd.pid, "keeper": g.keeper(), **({"init": g.inits()[0]} if mode == "freeze" else {})}
        return {"memory": {name: memory_of(pid) for name, pid in programs.items()},
                "fds": {name: fds_of(pid) for name, pid in programs.items()}}

    for mode in ("freeze", "stop") if g.has_cgroups else ("stop",):
        # The newest 512 events are in memory, two of each cycle: a long run begins when that is full.
        for _ in range(300 if CYCLES > 300 else 10):
            cycle(mode)
        look = functools.partial(figures, mode)
        before, things, generation = settled(look), g.state_of_things(), g.sandbox("a")["generation"]
        for _ in range(CYCLES):
            cycle(mode)
        until(lambda: look()["fds"] == before["fds"], "descriptors as before")  # pylint: disable=cell-var-from-loop
        g.check_same(things)
        after = look()
        equal(g.sandbox("a")["generation"], generation + (CYCLES if mode == "stop" else 0), "starts")
        equal(show(g, "a", "stays")["state"], "running" if mode == "freeze" else "exited", "what ran meanwhile")
        for name, memory in after["memory"].items():
            check(IS_SANITIZED or memory - before["memory"][name] < 128 * 1024, f"{mode}: {before} {after}")
        print(f"# {CYCLES} x {mode}: {before} -> {after}")
    equal(tree_hash(g), tree, "the files")


if __name__ == "__main__":
    main([test_idle, test_holds, test_output_holds, test_settings, test_heartbeat, test_memory, test_stop, test_grace,
          test_stop_after, test_unsupported, test_storm, test_falling_asleep, test_adopted, test_dies_frozen, test_frozen_processes,
          test_terminal, test_cycles])
