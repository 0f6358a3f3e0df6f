"""What happens when there are enough sandboxes: who gives way, who is refused, and what that says."""

import concurrent.futures
import json
import os
import random
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import at_once, check, equal, main, only, until  # noqa: E402
from process_api import show, start, wait  # noqa: E402

HUGE = 1 << 60


def configure(g, **settings):
    """Into the file that the daemon of this test was started with, and read again by it."""
    with open(g.config, "w", encoding="utf-8") as file:
        json.dump(settings, file)
    os.chmod(g.config, 0o644)
    if g.berthd:
        before = g.log_text().count("read again")
        g.berthd.send_signal(signal.SIGHUP)
        until(lambda: g.log_text().count("read again") > before, "the settings")


def begin(g, **settings):
    g.config = g.path("config.json")
    configure(g, **settings)
    g.start("--config", g.config)


def capacity(g):
    return g.get("/v1/info").json()["capacity"]


def freeze(g, *names):
    for name in names:
        reply = g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "freeze"})
        equal(reply.status, 200, reply)


def refused(reply, *words):
    equal((reply.status, reply.json()["code"]), (503, "capacity_exceeded"), reply)
    for word in words:
        check(word in reply.json()["error"], word, "in", reply.json()["error"])
    check(int(reply.headers["retry-after"]) > 0, reply)


def begin_start(g, name):
    return g.request("POST", f"/v1/sandbox/{name}/start")


@only("root")
def test_gives_way(g):
    """With two frozen of two, a third starts: the one that was not used for longest is stopped, and comes back."""
    begin(g, max_running=2)
    start(g, "a", "trap 'echo bye >/workspace/bye; exit 3' TERM; echo on; while :; do sleep 0.1; done", id="p")
    g.out("a", "echo kept >f")
    time.sleep(0.01)
    g.out("b", "echo kept >f")
    freeze(g, "b", "a")  # when they were frozen does not count
    equal(g.out("c", "echo x"), "x\n", "the third")
    shown = g.sandbox("a")
    equal((shown["state"], shown["last_sleep"]["reason"], shown["last_sleep"]["kept"]), ("cold", "capacity", ["disk"]),
          shown)
    equal(show(g, "a", "p")["exit"]["code"], 3, "its process was asked to end")
    equal(g.sandbox("b")["state"], "frozen", "the other one stays")
    equal((capacity(g)["running"], capacity(g)["frozen"]), (2, 1), "counts")
    equal(g.out("a", "cat f bye"), "kept\nbye\n", "it wakes again, as its disk was")
    equal((g.sandbox("b")["state"], g.sandbox("b")["last_sleep"]["reason"]), ("cold", "capacity"), "and another goes")
    equal(g.sandbox("c")["state"], "running", "one that runs does not, though it is idle")
    freeze(g, "a", "c")
    g.kill_berthd()
    g.start("--config", g.config)
    equal(g.out("b", "cat f"), "kept\n", "also one that was frozen by an earlier daemon gives way")
    equal(sorted(g.sandbox(name)["state"] for name in "ac"), ["cold", "frozen"], "one of them")


def test_refused(g):
    """When nobody can give way the answer comes at once, and says who is in the way; later it goes on."""
    begin(g, max_running=2)
    with g.events("a", "echo on; exec sleep 100") as a:
        next(iter(a))
        g.out("b", "true")
        began = time.monotonic()
        for reply in (begin_start(g, "c"), g.request("POST", "/v1/sandbox/c/exec", {"command": "true"}),
                      g.request("PUT", "/v1/sandbox/c", {"start": True}), g.get("/v1/sandbox/c/file/etc/passwd")):
            refused(reply, "max_running is 2", "a (exec), b (idle)", "berth stop")
        check(time.monotonic() - began < 5, "at once")
        equal(g.get("/v1/sandbox/c").status, 404, "nothing was made")
        if g.is_root:
            freeze(g, "a")
            refused(begin_start(g, "c"), "a (exec)")
            equal(g.sandbox("a")["state"], "frozen", "one whose command is waited for does not give way")
            g.request("POST", "/v1/sandbox/a/wake")
        equal(g.request("PUT", "/v1/sandbox/c", {}).status, 200, "one that is not started is none too many")
        refused(begin_start(g, "c"), "a (exec)")
        equal((g.sandbox("c")["state"], g.sandbox("c")["last_failure"], g.sandbox("c")["generation"]),
              ("cold", None, 0), "it has not failed")
        configure(g, max_running=3)
        equal(g.out("c", "echo x"), "x\n", "with a higher limit")
        equal(capacity(g)["max_running"], 3, "the limit")
    configure(g)
    g.out("d", "true")
    equal((capacity(g)["max_running"], capacity(g)["running"]), (None, 4), "without one")


def test_max_sandboxes(g):
    """No more sandboxes exist than may, however they are made."""
    begin(g, max_sandboxes=2)
    equal(g.request("PUT", "/v1/sandbox/a", {}).status, 200, "the first")
    g.out("b", "true")
    for reply in (g.request("POST", "/v1/sandbox", {}), g.request("PUT", "/v1/sandbox/c", {}), begin_start(g, "c"),
                  g.request("POST", "/v1/sandbox/c/exec", {"command": "true"})):
        refused(reply, "max_sandboxes is 2", "berth prune")
    equal(g.request("PUT", "/v1/sandbox/a", {"labels": {"x": "y"}}).status, 200, "those that exist can change")
    g.out("a", "true")
    g.request("DELETE", "/v1/sandbox/b")
    replies = at_once(20, lambda i: g.request("PUT", f"/v1/sandbox/c{i}", {}))
    equal(sorted({r.status for r in replies}), [200, 503], "at once")
    equal(len(g.list_all()), 2, "never more")
    equal((capacity(g)["max_sandboxes"], capacity(g)["sandboxes"]), (2, 2), "shown")


def test_floor(g):
    """With too little memory nothing is started, and what is frozen is stopped; what runs goes on."""
    begin(g)
    check(0 < capacity(g)["memory_floor_bytes"] <= 512 << 20, capacity(g))
    for name in "abc":
        g.out(name, "echo kept >f")
    if g.is_root:
        freeze(g, "a", "b")
    configure(g, memory_floor=HUGE)
    refused(begin_start(g, "d"), "memory_floor")
    equal(g.get("/v1/sandbox/d").status, 404, "nothing was made")
    equal(g.out("c", "echo x"), "x\n", "one that runs is served")
    if g.is_root:
        until(lambda: {g.sandbox(n)["state"] for n in "ab"} == {"cold"}, "those that were frozen to be stopped")
        receipts = [g.sandbox(n)["last_sleep"] for n in "ab"]
        equal([r["reason"] for r in receipts], ["memory", "memory"], "why")
        check(receipts[0]["at"] < receipts[1]["at"], "one at a time, the least recently used first", receipts)
        freeze(g, "c")
        until(lambda: g.sandbox("c")["state"] == "cold", "one that is frozen later")
        refused(begin_start(g, "c"), "memory_floor")
    configure(g, memory_floor="1M")
    equal(g.out("a", "cat f"), "kept\n", "with enough memory")
    configure(g, memory_floor=0)
    equal((capacity(g)["memory_floor_bytes"], g.out("b", "cat f")), (None, "kept\n"), "without a floor")


@only("root")
def test_single_flight(g):
    """A hundred requests for one that is cold: one other gives way; each is served."""
    begin(g, max_running=3)
    for name in "abc":
        g.out(name, "true")
    freeze(g, "a", "b", "c")
    equal(at_once(100, lambda i: g.out("d", f"echo {i}")), [f"{i}\n" for i in range(100)], "answers")
    equal([g.sandbox(n)["state"] for n in "abcd"], ["cold", "frozen", "frozen", "running"], "states")
    replies = at_once(2, lambda i: begin_start(g, "ef"[i]))
    equal([r.status for r in replies], [200, 200], "two more")
    equal([g.sandbox(n)["state"] for n in "bcdef"], ["cold", "cold", "running", "running", "running"], "just two")


def states(g, names="abc"):
    return {name: g.sandbox(name)["state"] for name in names}


@only("root")
def test_needed_after_all(g):
    """One that is about to give way is asked for at that moment: it is served, and another goes."""
    begin(g, max_running=2)
    random.seed(os.getpid())
    for name in "abc":
        g.request("PUT", f"/v1/sandbox/{name}", {})
    order = list("abc")  # the last one is cold

    def ask(pair):
        time.sleep(pair[1])
        return g.request("POST", f"/v1/sandbox/{pair[0]}/exec", {"command": "echo x"}, Accept="application/json")

    for turn in range(18):
        for name in order[:2]:
            ask((name, 0))
            freeze(g, name)
        first, second, cold = order
        delays = [(first, random.uniform(0, 0.06)), (cold, 0)]
        for reply in at_once(2, lambda i: ask(delays[i])):  # pylint: disable=cell-var-from-loop
            equal((reply.status, reply.json().get("stdout")), (200, "x\n"), reply)
        equal(states(g), {first: "running", cold: "running", second: "cold"}, "who went")
        freeze(g, first, cold)
        if turn % 2:  # those that are thawed are adopted first
            g.kill_berthd()
            g.start("--config", g.config)
        replies = at_once(3, lambda i: ask(("abc"[i], random.uniform(0, 0.02))))
        for reply in replies:
            if reply.status == 200:
                equal((reply.json()["reason"], reply.json()["stdout"]), ("exited", "x\n"), reply)
            else:
                refused(reply, "max_running is 2")
        check(sum(reply.status == 200 for reply in replies) >= 2, replies)
        equal((capacity(g)["running"], capacity(g)["waiting"]), (2, 0), capacity(g))
        order = sorted("abc", key=lambda name: states(g)[name] == "cold")


@only("root")
def test_adopted_after_all(g):
    """The same while a new daemon adopts it, to stop it: whoever asked for it is served."""
    begin(g, max_running=2)
    for name in "ab":
        g.out(name, "true")
    freeze(g, "a", "b")
    g.kill_berthd()
    inits = g.inits()
    for pid in inits:
        os.kill(pid, signal.SIGSTOP)  # it cannot answer the new daemon, frozen or not
    g.start("--config", g.config)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        new = pool.submit(begin_start, g, "c")
        leaving = until(lambda: next((n for n in "ab" if g.sandbox(n)["state"] == "starting"), None), "one to go")
        asked = pool.submit(g.exec, leaving, "sleep 0.5; echo x")
        until(lambda: states(g, "ab") == {"a": "starting", "b": "starting"}, "the other to go instead")
        for pid in inits:
            os.kill(pid, signal.SIGCONT)
        result = asked.result()
        equal((result.reason, result.stdout, new.result().status), ("exited", b"x\n", 200), result)
    equal(states(g), {"a": "cold", "b": "cold", "c": "running", leaving: "running"}, "who went")


@only("root")
def test_waiting(g):
    """Who waits for another to end may go away, or be deleted: then nothing is started for it, and others are."""
    begin(g, max_running=1)
    start(g, "a", "trap '' TERM; echo on; while :; do sleep 0.1; done", id="stubborn")
    wait(g, "a", "stubborn", "log", pattern="on")
    freeze(g, "a")
    gone = g.connect()
    gone.request("POST", "/v1/sandbox/c/exec", json.dumps({"command": "true"}))
    until(lambda: capacity(g)["waiting"] == 1, "it to wait")
    until(lambda: g.sandbox("a")["state"] == "stopping", "the other to be asked to end")
    gone.close()
    until(lambda: capacity(g)["waiting"] == 0, "it to be gone")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        equal(g.request("PUT", "/v1/sandbox/d", {}).status, 200, "one that exists")
        deleted = pool.submit(g.request, "POST", "/v1/sandbox/d/exec", {"command": "true"})
        until(lambda: capacity(g)["waiting"] == 1, "it to wait")
        equal(g.request("DELETE", "/v1/sandbox/d?if_state=cold").json()["code"], "conflict", "it is about to start")
        equal(g.request("DELETE", "/v1/sandbox/d").status, 204, "deleted")
        equal(deleted.result().json()["code"], "not_found", "its request")
    equal(g.sandbox("a")["state"], "stopping", "all that while it had its grace")
    equal(g.out("a", "echo x"), "x\n", "it is asked for, and has its next life")
    equal(([s["id"] for s in g.list_all()], g.sandbox("a")["generation"]), (["a"], 2), "nothing else was started")
    equal(g.log_text().count("-> starting"), 2, "starts")


class Containers(threading.Thread):
    """The most that were there while this watched."""

    def __init__(self, g):
        super().__init__(daemon=True)
        self.g, self.most, self.over = g, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, len(self.g.inits()))


def test_storm(g):
    """Fifty at once where three may run: each is served or refused, and there are never more than three."""
    begin(g, max_running=3)
    watch = Containers(g)
    watch.start()

    def make(i):
        reply = begin_start(g, f"s{i}")
        if reply.status == 200 and g.is_root:
            g.request("POST", f"/v1/sandbox/s{i}/sleep", {"mode": "freeze"})
        return reply

    for _ in range(2):
        replies = at_once(50, make)
        for reply in replies:
            if reply.status != 200:
                refused(reply, "max_running is 3")
        check(sum(r.status == 200 for r in replies) >= 3, replies)
        until(lambda: capacity(g)["waiting"] == 0, "nobody to wait")
        check(capacity(g)["running"] <= 3, capacity(g))
    watch.over.set()
    watch.join()
    check(0 < watch.most <= 3, f"{watch.most} containers at once")


def test_delete_if(g):
    """A deletion on condition touches nothing that is in use, or was since."""
    begin(g)
    g.out("a", "true")
    reply = g.request("DELETE", "/v1/sandbox/a?if_state=cold")
    equal((reply.status, reply.json()["code"]), (409, "conflict"), reply)
    g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    equal(g.request("DELETE", "/v1/sandbox/a?if_state=cold", If_Generation=0).json()["code"], "sandbox_restarted",
          "of another generation")
    equal(g.request("DELETE", "/v1/sandbox/a?if_state=failed").status, 409, "another state")
    equal(g.request("DELETE", "/v1/sandbox/a?if_state=asleep").status, 400, "no state")
    equal(g.request("DELETE", "/v1/sandbox/a?if_state=cold", If_Generation=1).status, 204, "as it was")
    equal(g.get("/v1/sandbox/a").status, 404, "gone")


if __name__ == "__main__":
    main([test_gives_way, test_refused, test_max_sandboxes, test_floor, test_single_flight, test_needed_after_all,
          test_adopted_after_all, test_waiting, test_storm, test_delete_if], start=lambda test: False)
