"""What happens between awake and asleep: two things at once, and a keeper that is away."""

import concurrent.futures
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process", "terminal")]

# pylint: disable=wrong-import-position
from ground import DIES_FROZEN, check, equal, main, needs_cgroups, needs_root, only, until  # noqa: E402
from process_api import start, wait  # noqa: E402
from terminal_api import view  # noqa: E402


def ask(g, pool, method, target, body=None, **headers):
    return pool.submit(g.request, method, f"/v1/sandbox/a{target}", body, **headers)


def sleep(g, mode):
    reply = g.request("POST", "/v1/sandbox/a/sleep", {"mode": mode})
    equal(reply.status, 200, reply)
    return reply.json()


def groups(g):
    return sorted(os.path.basename(c) for c in g.cgroups() if "exec-" in os.path.basename(c))


@needs_cgroups
def test_starting(g):
    """One that is put to sleep while it starts does so, and its keeper rests, too."""
    g.request("PUT", "/v1/sandbox/a", {})
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first = ask(g, pool, "POST", "/exec", {"argv": ["sleep", "1"]}, Accept="application/json")
        until(lambda: g.sandbox("a")["state"] != "cold", "the start")
        equal(ask(g, pool, "POST", "/sleep", {"mode": "freeze"}).result().status, 200, "sleep")
        made = groups(g)
        time.sleep(0.5)
        equal((g.sandbox("a")["state"], groups(g)), ("frozen", made), "nothing is made for one that sleeps")
        equal(g.request("POST", "/v1/sandbox/a/wake").status, 200, "wake")
        equal(first.result().json()["exit_code"], 0, "what was begun before")


@needs_cgroups
@needs_root
def test_keeper_away(g):
    """Without a keeper nothing can be woken: that is said to all who wait, and it is what it was."""
    start(g, "a", "sleep 1000", id="p")
    sleep(g, "freeze")
    g.kill_keeper_and_monitor()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [ask(g, pool, "POST", "/wake")]
        time.sleep(0.5)
        asked += [ask(g, pool, "POST", "/sleep", {"mode": "stop"}), ask(g, pool, "DELETE", "")]
        equal([a.result().status for a in asked], [503] * 3, [a.result() for a in asked])
    check(g.sandbox("a")["state"] in ("frozen", "stopping"), g.sandbox("a"))
    g.berthd.terminate()
    equal(g.berthd.wait(60), 0, "berthd's exit code")
    g.start()
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")


@needs_cgroups
def test_session(g):
    """A command that waits for its turn gets it, though the sandbox was put to sleep meanwhile."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        def command(text, **options):
            return ask(g, pool, "POST", "/exec", {"command": text, **options}, Accept="application/json", Session_Id="s")
        first = command("sleep 100", timeout_ms=2000)

        def shown():
            return (g.get("/v1/sandbox/a/session").json().get("sessions") or [{}])[0]
        until(lambda: shown().get("state") == "busy", "the first")
        second = command("echo second")
        until(lambda: shown()["waiting"] == 1, "the second")
        sleep(g, "freeze")
        equal((first.result().json()["reason"], second.result().json()["stdout"]), ("timeout", "second\n"), "both")


@needs_cgroups
def test_typing(g):
    """Keys that come together wake it once, and the next sleep lasts."""
    equal(g.request("POST", "/v1/sandbox/a/terminals", {"argv": ["sh"], "id": "t"}).status, 200, "terminal")
    with view(g, "a", "t") as viewer:
        sleep(g, "freeze")
        for key in "echo $((6 * 7))\n":
            viewer.type(key)
        viewer.until(b"42")
        sleep(g, "freeze")
        time.sleep(0.5)
        equal(g.sandbox("a")["state"], "frozen", "it sleeps on")


def test_grace(g):
    """Whoever ends a process holds its sandbox until it has ended."""
    g.request("PUT", "/v1/sandbox/a", {"sleep_after": "300ms"})
    start(g, "a", "trap 'sleep 2; exit 7' TERM; echo on; while :; do sleep 0.05; done", id="slow")
    wait(g, "a", "slow", "log", pattern="on")
    end = g.request("DELETE", "/v1/sandbox/a/processes/slow?grace_ms=60000").json()
    equal((end["reason"], end["exit"]["code"]), ("exited", 7), end)


@needs_cgroups
def test_timeout(g):
    """A command whose time is over while it is frozen ends then, and its figures are its own."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = ask(g, pool, "POST", "/exec", {"command": "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 100",
                                               "timeout_ms": 2500}, Accept="application/json")
        time.sleep(1.5)
        sleep(g, "freeze")
        end = asked.result().json()
    equal((end["reason"], end["exit_code"]), ("timeout", 124), end)
    check(end["cpu_ms"] > 0 and end["max_rss_bytes"] > 0, end)


def test_slow_reader(g):
    """A command whose client does not read is killed by a stop as any other."""
    with g.events("a", "yes") as events:
        stream = iter(events)
        next(stream)
        time.sleep(0.5)
        sleep(g, "stop")
        end = [data for name, data in stream if name == "exit"]
    equal([(e["reason"], e["signal"]) for e in end], [("killed", 15)], end)


@only("root")
def test_dying(g):
    """Its init dies while it is frozen, and the keeper is about to take it down: who asks then gets the next life."""
    wrapper, slow, deleting = g.path("runtime"), g.path("slow"), g.path("deleting")
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\ncase \" $* \" in *' delete '*) [ -e {slow} ] && echo >{deleting} && sleep 1; esac\n"
                   f"exec {g.runtime} \"$@\"\n")
    os.chmod(wrapper, 0o755)
    g.start(runtime=wrapper)
    g.out("a", "true")
    sleep(g, "freeze")
    g.kill_berthd()
    g.start(runtime=wrapper)  # this one has no line to that init
    with open(slow, "wb"):
        pass
    os.kill(g.inits()[0], signal.SIGKILL)
    if DIES_FROZEN:
        until(lambda: os.path.exists(deleting), "the keeper to know")
    os.unlink(slow)
    equal(g.out("a", "echo x"), "x\n", "the next life")
    equal(g.sandbox("a")["generation"], 2, "generation")


@only("root")
def test_gone(g):
    """Frozen, and killed while there was no berthd: no receipt says that its memory was kept."""
    g.out("a", "true")
    equal(sleep(g, "freeze")["kept"], ["disk", "memory", "processes"], "frozen")
    g.kill_berthd()
    os.kill(g.inits()[0], signal.SIGKILL)
    if DIES_FROZEN:
        until(lambda: not g.inits(), "its end")
    g.start()
    receipt = sleep(g, "stop")
    equal((receipt["mode"], receipt["kept"]), ("stop", ["disk"]), receipt)


main([test_starting, test_keeper_away, test_session, test_typing, test_grace, test_timeout, test_slow_reader, test_gone,
      test_dying],
     start=lambda test: test is not test_dying)
