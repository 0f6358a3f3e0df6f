"""What is said of a sandbox that dies, or that something dies in."""

import contextlib
import json
import os
import shutil
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import IS_SANITIZED, check, equal, main, needs_root, only, until  # noqa: E402
from event_api import stored  # noqa: E402
from metrics_api import metrics  # noqa: E402
from process_api import ended, show, start  # noqa: E402

HOG = ["python3", "-c", "x = [bytearray(1 << 20) for _ in range(400)]"]


def put(g, name="a", **settings):
    reply = g.request("PUT", f"/v1/sandbox/{name}", settings)
    check(reply.status in (200, 201), reply)
    return reply.json()


def only_one(things):
    equal(len(things), 1, things)
    return things[0]


def listed(g, name="a"):
    """As the list has it: that looks at nothing, but tells what was noticed."""
    return next(s for s in g.list_all() if s["id"] == name)


def oom_events(g):
    return [data["kills"] for _, name, data in stored(g, "a") if name == "oom"]


def check_oom_kept(g):
    """Another berthd knows when that was, and tells only of what is new."""
    until(lambda: oom_events(g) == [1, 2, 3], "the events")
    last = listed(g)["last_oom"]
    for kills in (3, 4):
        g.kill_berthd()
        g.start()
        until(lambda: listed(g)["state"] == "running", "the sandbox to be adopted")
        g.out("a", "true")  # whose end is looked at
        equal((listed(g)["last_oom"], metrics(g)("oom_kills_total")), (last, 0), "of old kills")
        equal(g.exec("a", HOG).reason, "oom", "a new one")
        last = listed(g)["last_oom"]
        equal(last["kills"], kills + 1, "kills of this life")
        equal(metrics(g)("oom_kills_total"), 1, "what this berthd has seen")
        until(lambda: kills + 1 in oom_events(g), "the event")  # pylint: disable=cell-var-from-loop
    equal(oom_events(g), [1, 2, 3, 4, 5], "events")


@only("root")
def test_oom(g):
    """A kill for want of memory is told, whoever died: a command, a process, or one that is nobody's."""
    equal(put(g, limits={"memory": "64M"})["last_oom"], None, "before anything")
    equal(g.exec("a", HOG).reason, "oom", "the command")
    oom = listed(g)["last_oom"]
    equal((oom["kills"], oom["generation"]), (1, 1), oom)
    start(g, "a", HOG, id="p")
    equal(ended(g, "a", "p")["reason"], "oom", "the process")
    equal(listed(g)["last_oom"]["kills"], 2, "with the process")
    # Something holds it awake, and nothing ends but what nobody waits for.
    with g.events("a", ["sh", "-c", '("$@" >/dev/null 2>&1 </dev/null &); sleep 1000', "sh", *HOG]):
        until(lambda: listed(g)["last_oom"]["kills"] == 3, "somebody to notice")
        equal(g.sandbox("a")["holds"][0]["kind"], "exec", "what holds it")
    check_oom_kept(g)
    g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    g.out("a", "true")
    equal((g.sandbox("a")["last_oom"]["generation"], g.sandbox("a")["last_failure"]), (1, None), "the next life")


@only("root")
def test_init_oom(g):
    """When memory is short for init itself, its end says so, and what to do; the next life works."""
    put(g, limits={"memory": "32M"})
    g.out("a", "echo kept >f")
    # What a tmpfs holds is nobody's: the kernel kills until there is nobody left.
    def fill():
        g.request("POST", "/v1/sandbox/a/exec", {"command": "cat /dev/zero >>/dev/shm/full"},
                  Accept="application/json")
        return g.sandbox("a")["state"] == "failed"
    until(fill, "init to die")
    failure = g.sandbox("a")["last_failure"]
    equal(failure["code"], "memory_limit", failure)
    check("limits.memory" in failure["message"], failure)
    check(g.sandbox("a")["last_oom"]["kills"] >= 1, g.sandbox("a"))
    equal(g.out("a", "cat f"), "kept\n", "the disk")
    shown = g.sandbox("a")
    equal((shown["state"], shown["generation"], shown["last_failure"]), ("running", 2, None), shown)


@only("user")
def test_oom_unknown(g):
    """Without cgroups nobody can know, and nothing is claimed."""
    result = g.exec("a", ["sh", "-c", "kill -9 $$"])
    equal((result.reason, result.facts.get("oom_suspected")), ("signaled", True), result)
    equal(g.sandbox("a")["last_oom"], None, "what is known")


def configure(g, **settings):
    """A berthd with these."""
    path = g.path("config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(settings, file)
    os.chmod(path, 0o644)
    g.start("--config", path)


@needs_root
def test_silent_init(g):
    """An init that is stopped by somebody outside: who waits is told in time, and the next gets a new life."""
    configure(g, init_timeout="2s")
    g.out("a", "echo kept >f")
    for generation, is_running in ((1, False), (2, True)):
        with g.events("a", "echo begun; sleep 1000") if is_running else contextlib.nullcontext() as events:
            if is_running:
                equal(next(iter(events)), ("stdout", b"begun\n"), "it runs")
            os.kill(only_one(g.inits()), signal.SIGSTOP)
            begun = time.monotonic()
            if is_running:
                end = [event for event in events][-1]
                equal((end[0], end[1]["reason"]), ("exit", "lost"), end)
                sentence = end[1]["message"]
            else:
                reply = g.request("PUT", "/v1/sandbox/a/file/workspace/new", b"x")
                equal((reply.status, reply.json()["code"]), (502, "exec_transport_error"), reply)
                sentence = reply.json()["error"]
        took = time.monotonic() - begun
        check("did not answer for 2s" in sentence, sentence)
        check(2 <= took < (9 if IS_SANITIZED else 6), f"after {took} s")
        failure = until(lambda: g.sandbox("a")["last_failure"], "the failure")
        equal(failure["code"], "exec_transport_error", failure)
        check("did not answer for 2s" in failure["message"], failure)
        equal(g.out("a", "cat f"), "kept\n", "the disk")
        equal(g.sandbox("a")["generation"], generation + 1, "the next life")


def test_not_silent(g):
    """A command that says nothing for many times that long is waited for; so is a sandbox that we froze."""
    configure(g, init_timeout="1s")
    equal(g.out("a", "sleep 5; echo slept"), "slept\n", "a silent command")
    with g.events("a", "sleep 1000 & wait") as events:
        if g.is_root:
            equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}).status, 200, "freeze")
            time.sleep(4)  # nothing may happen
            equal(g.sandbox("a")["state"], "frozen", "it is only frozen")
            g.request("POST", "/v1/sandbox/a/wake")
        # berthd itself is held up: that is not init's silence.
        g.berthd.send_signal(signal.SIGSTOP)
        time.sleep(3)
        g.berthd.send_signal(signal.SIGCONT)
        time.sleep(3)
        check(events, "it is there")
        equal((g.sandbox("a")["state"], g.sandbox("a")["generation"]), ("running", 1), g.sandbox("a"))


def reboot(g, **settings):
    """Everything that runs is gone at once, and what is in the run directory; then berthd starts."""
    g.kill_berthd()
    g.kill_keeper_and_monitor()
    g.kill(g.processes())
    until(lambda: not g.processes(), "the end of everything")
    for folder in sorted(g.cgroups(), reverse=True):
        os.rmdir(folder)
    for name in os.listdir(g.run):
        path = os.path.join(g.run, name)
        if os.path.isdir(path):
            (os.unlink if os.path.islink(path) else shutil.rmtree)(path)
        else:
            os.remove(path)
    configure(g, **settings)


@needs_root
def test_reboot(g):
    """After a reboot all are cold with their disks, and what has autostart comes with them: asked, or by itself."""
    configure(g)
    serve = "echo up >>/workspace/ups; exec sleep 1000"
    for name, autostart in (("serves", True), ("stopped", True), ("plain", False)):
        g.out(name, f"echo {name} >f")
        start(g, name, serve, id="p", autostart=autostart)
    equal(g.request("POST", "/v1/sandbox/stopped/sleep", {"mode": "stop"}).status, 200, "stop")
    until(lambda: g.out("serves", "cat ups; true") == "up\n", "the first")
    reboot(g)
    for name in ("serves", "stopped", "plain"):
        equal((g.sandbox(name)["state"], g.sandbox(name)["generation"]), ("cold", 1), name)
    equal([show(g, name, "p")["reason"] for name in ("serves", "stopped", "plain")], ["lost", "killed", "lost"],
          "what is known of the processes")
    equal(g.out("serves", "cat f"), "serves\n", "the disk")
    until(lambda: g.out("serves", "cat ups") == 2 * "up\n", "the process that came with it")
    reboot(g, autostart=True)
    until(lambda: g.sandbox("serves")["state"] == "running" and show(g, "serves", "p")["state"] == "running",
          "the sandbox that ran to run again, asked by nobody")
    until(lambda: g.out("serves", "cat f ups") == "serves\n" + 3 * "up\n", "the disk, and what was started on it")
    equal([(g.sandbox(name)["state"], g.sandbox(name)["generation"]) for name in ("serves", "stopped", "plain")],
          [("running", 3), ("cold", 1), ("cold", 1)], "the others sleep on")
    equal([g.out(name, "cat f") for name in ("stopped", "plain")], ["stopped\n", "plain\n"], "their disks")


STARTED = [test_oom, test_init_oom, test_oom_unknown]
main([*STARTED, test_silent_init, test_not_silent, test_reboot], start=lambda test: test in STARTED)
