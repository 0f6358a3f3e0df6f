"""Limits that change while a sandbox runs: they hold at once, or nothing has changed."""

import contextlib
import os
import random
import signal
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "keeper")]

# pylint: disable=wrong-import-position
import keeper_link as k  # noqa: E402
from ground import check, equal, main, only, until  # noqa: E402
from limit_api import MIB, hold, of_kernel, put, refused, take  # noqa: E402

FORKS = ["python3", "-c", """
import os, signal
made = []
try:
    for _ in range(200):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        made.append(pid)
except BlockingIOError:
    pass
print(len(made))
for pid in made:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
"""]


@only("root")
def test_memory(g):
    """Memory is raised and lowered, and holds for what runs already."""
    equal(put(g, memory="64M")["restart_needed"], False, "cold")
    equal(g.exec("a", take(100)).reason, "oom", "with 64M")
    shown = put(g, memory="256M")
    equal((shown["restart_needed"], shown["generation"], shown["limits"]["memory"]), (False, 1, 256 * MIB), shown)
    equal(of_kernel(g, "memory"), str(256 * MIB), "the cgroup")
    equal(g.exec("a", take(100)).reason, "exited", "with 256M")
    with g.events("a", hold(100)) as events:
        equal(next(iter(events)), ("stdout", b"held\n"), "it holds")
        sentence = refused(g, 409, "conflict", memory="64M")
        check(str(64 * MIB) in sentence and "cannot be given back" in sentence, sentence)
        check(100 * MIB < int(sentence.split(" bytes")[0].split()[-1]) < 150 * MIB, sentence)
        equal(of_kernel(g, "memory"), str(256 * MIB), "the cgroup after that")
        put(g, memory="160M")
        equal(of_kernel(g, "memory"), str(160 * MIB), "the cgroup")
        g.exec("a", take(100))
        equal(g.sandbox("a")["last_oom"]["kills"], 2, "one of both, with 160M")
        equal(g.sandbox("a")["generation"], 1, "it runs on")
    equal(put(g, memory=0)["limits"]["memory"], None, "the default")
    check(int(of_kernel(g, "memory")) > 160 * MIB, of_kernel(g, "memory"))


@only("root")
def test_cache(g):
    """What is only kept of files is given back, and does not count."""
    put(g, memory="256M", disk="1G")  # its disk is a real one then, also where ours is in memory
    g.out("a", "dd if=/dev/zero of=big bs=1M count=150 2>/dev/null && sync big")
    check(g.get("/v1/sandbox/a/stats").json()["usage"]["memory_bytes"] > 100 * MIB, "it is kept")
    put(g, memory="48M")
    equal(of_kernel(g, "memory"), str(48 * MIB), "the cgroup")
    equal(g.out("a", "wc -c <big").strip(), str(150 * MIB), "the file")
    # But what is in a tmpfs counts.
    put(g, memory="256M")
    g.out("a", "head -c 60M /dev/zero >/dev/shm/big")
    check("cannot be given back" in refused(g, 409, "conflict", memory="48M"), "refused")


@only("root")
def test_swap(g):
    """Memory and swap together are never below memory, in whichever order they change."""
    if not g.get("/v1/info").json()["abilities"]["swap_limit"]:
        refused(g, 501, "unsupported", swap="64M")
        return
    g.out("a", "true")
    for memory, swap in ((64, 0), (512, 0), (512, 256), (128, 16), (256, 0), (64, 512), (64, 0)):
        put(g, memory=memory * MIB, swap=swap * MIB)
        equal(of_kernel(g, "memory"), str(memory * MIB), (memory, swap))
        if of_kernel(g, "both"):
            equal(of_kernel(g, "both"), str((memory + swap) * MIB), (memory, swap))


@only("root")
def test_pids(g):
    """As many processes as there may be now, and no more."""
    put(g, pids=20)
    few = int(g.out("a", FORKS))
    check(few < 20, few)
    equal(put(g, pids=60)["restart_needed"], False, "raised")
    more = int(g.out("a", FORKS))
    equal(more - few, 40, "forks")
    put(g, pids=20)
    equal((int(g.out("a", FORKS)), of_kernel(g, "pids")), (few, "20"), "lowered")
    put(g, pids=0)
    equal(of_kernel(g, "pids"), "1024", "the default")


def throttled(g):
    words = of_kernel(g, "cpu.stat").split()
    return int(words[words.index("nr_throttled") + 1])


@only("root")
def test_cpus(g):
    """A busy command is held back from the moment that it is asked for, and until it is not."""
    with g.events("a", "echo begun; while :; do :; done") as events:
        equal(next(iter(events)), ("stdout", b"begun\n"), "it runs")
        equal(throttled(g), 0, "before")
        equal(put(g, cpus=0.1)["restart_needed"], False, "lowered")
        check(of_kernel(g, "cpus") in ("10000", "10000 100000"), of_kernel(g, "cpus"))
        check(of_kernel(g, "weight") in ("10", "102"), of_kernel(g, "weight"))
        until(lambda: throttled(g) > 3, "the kernel to hold it back")
        put(g, cpus=0)
        check(of_kernel(g, "cpus") in ("-1", "max 100000"), of_kernel(g, "cpus"))
        check(of_kernel(g, "weight") in ("100", "1024"), of_kernel(g, "weight"))
    # And so from its start on.
    for cpus, weights in ((0.5, ("50", "512")), (1.5, ("100", "1024"))):
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
        put(g, cpus=cpus)
        g.out("a", "true")
        check(of_kernel(g, "weight") in weights, of_kernel(g, "weight"))


@only("root")
def test_all_or_none(g):
    """One of several is refused: none of them has changed. What needs a restart says so."""
    put(g, memory="256M", pids=100, cpus=1)
    with g.events("a", hold(100)) as events:
        equal(next(iter(events)), ("stdout", b"held\n"), "it holds")
        refused(g, 409, "conflict", memory="64M", pids=50, cpus=0.5)
        equal((of_kernel(g, "pids"), of_kernel(g, "cpus")[:6]), ("100", "100000"), "the others")
        check("first start" in refused(g, 409, "conflict", disk="1G", memory="300M"), "disk")
        equal(of_kernel(g, "memory"), str(256 * MIB), "memory")
        equal(put(g, memory="512M", files=100)["restart_needed"], True, "with files")
        equal(of_kernel(g, "memory"), str(512 * MIB), "memory")


@only("root")
def test_frozen(g):
    """One that is frozen gets other limits, and stays frozen."""
    put(g, memory="64M")
    g.out("a", "true")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}).status, 200, "freeze")
    shown = put(g, memory="256M", pids=50)
    equal((shown["state"], shown["restart_needed"]), ("frozen", False), shown)
    equal((of_kernel(g, "memory"), of_kernel(g, "pids")), (str(256 * MIB), "50"), "the cgroup")
    equal(g.exec("a", take(100)).reason, "exited", "with 256M")
    equal(g.sandbox("a")["generation"], 1, "the same life")


@only("root")
def test_deaths(g):
    """Whoever is killed: what is stored holds, also when somebody died between doing and storing."""
    put(g, memory="64M")
    g.out("a", "true")
    put(g, memory="256M")
    g.kill_keeper()
    equal(put(g, memory="192M")["restart_needed"], False, "after the keeper's death")
    equal(of_kernel(g, "memory"), str(192 * MIB), "the cgroup")
    g.kill_berthd()
    # As one would that dies before it has stored it.
    link = k.Link(os.path.join(g.run, "keeper.sock"), 60)
    link.hello()
    equal(link.ask(k.LIMIT, id="a", generation=1, memory_bytes=300 * MIB, pids=30).type, k.DONE, "LIMIT")
    link.close()
    equal((of_kernel(g, "memory"), of_kernel(g, "pids")), (str(300 * MIB), "30"), "the cgroup")
    g.start()
    until(lambda: (of_kernel(g, "memory"), of_kernel(g, "pids")) == (str(192 * MIB), "1024"),
          "the next berthd to set what is stored")
    shown = g.sandbox("a")
    equal((shown["generation"], shown["limits"]["memory"]), (1, 192 * MIB), shown)
    # The keeper knows them from its record.
    g.kill_keeper()
    equal(g.exec("a", take(250)).reason, "oom", "with 192M")
    equal(put(g, memory="512M")["generation"], 1, "once more")
    equal(g.exec("a", take(250)).reason, "exited", "with 512M")


@only("root")
def test_nonsense(g):
    """A berthd that has gone bad: whatever it asks for, nothing changes but by what makes sense."""
    put(g, memory="128M", pids=100)
    g.out("a", "true")
    g.kill_berthd()
    link = k.Link(os.path.join(g.run, "keeper.sock"), 60)
    link.hello()
    for code, wrong in (("invalid_request", {"memory_bytes": 1}), ("invalid_request", {"memory_bytes": 2**64 - 1}),
                        ("invalid_request", {"swap_bytes": 2**63}), ("invalid_request", {"cpu_milli": 2**32 - 1}),
                        ("invalid_request", {"pids": 1}), ("invalid_request", {"id": "../a"}),
                        ("invalid_request", {"id": "berthd"}), ("not_found", {"id": "b"}),
                        ("sandbox_restarted", {"generation": 2}),
                        ("conflict", {"disk_bytes": 2**40})):
        answer = link.ask(k.LIMIT, **{"id": "a", "generation": 1, "memory_bytes": 200 * MIB, **wrong})
        equal((answer.type, k.ERRORS.get(answer.get("code"))), (k.FAILED, code), f"{wrong} {answer}")
        equal((of_kernel(g, "memory"), of_kernel(g, "pids")), (str(128 * MIB), "100"), wrong)
    link.close()
    g.start()
    equal(put(g, memory="64M")["generation"], 1, "it serves the next one")


@only("root")
def test_moving(g):
    """While it starts, stops, freezes or thaws: whoever is answered finds it so."""
    draw = random.Random(1)
    steps = [lambda: g.out("a", "true"),
             lambda: g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}),
             lambda: g.out("a", "true"),
             lambda: g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"})]
    g.out("a", "true")
    for turn in range(40):
        step = threading.Thread(target=steps[turn % len(steps)])
        size = draw.choice([64, 96, 128, 200, 256]) * MIB
        late = threading.Event()
        step.start()
        late.wait(draw.choice([0, 0.002, 0.01, 0.03, 0.06]))  # somewhere in between
        shown = put(g, memory=size)
        equal(shown["restart_needed"], False, shown)
        step.join()
        if g.sandbox("a")["state"] in ("running", "frozen"):
            equal(of_kernel(g, "memory"), str(size), f"turn {turn}")
    g.out("a", "true")
    equal(of_kernel(g, "memory"), str(size), "at the end")


def send_at_once(g, link, frames):
    """So that the keeper finds them all when it comes to the first; their tags."""
    keeper = until(g.keeper, "a keeper")
    os.kill(keeper, signal.SIGSTOP)
    try:
        return [link.send(kind, **values) for kind, values in frames]
    finally:
        os.kill(keeper, signal.SIGCONT)


@only("root")
def test_beside(g):
    """While the kernel takes memory back from one sandbox the others are served; one change comes after the other."""
    put(g, memory="512M", disk="1G")  # a real one, whose caches can be given back
    put(g, "b", memory="64M")
    g.out("b", "true")
    fill = "dd if=/dev/zero of=big bs=1M count=200 2>/dev/null && sync big"
    for turn in range(3):
        g.out("a", fill)
        equal(g.sandbox("a")["generation"], 1, "it runs")
        g.kill_berthd()
        link = k.Link(os.path.join(g.run, "keeper.sock"), 60)
        link.hello()
        low = {"id": "a", "generation": 1, "memory_bytes": 48 * MIB}
        first, beside, second, third = send_at_once(g, link, [
            (k.LIMIT, low), (k.STATS, {"id": "b", "generation": 1}), (k.LIMIT, {**low, "pids": 40}),
            (k.LIMIT, {**low, "memory_bytes": 96 * MIB, "pids": 50})])
        frames = [link.receive() for _ in range(4)]
        equal([(f.tag, f.type) for f in frames],
              [(beside, k.STATS_ARE), (first, k.DONE), (second, k.DONE), (third, k.DONE)], frames)
        equal((of_kernel(g, "memory"), of_kernel(g, "pids")), (str(96 * MIB), "50"), f"turn {turn}")
        link.close()
        g.start()
        until(lambda: of_kernel(g, "memory") == str(512 * MIB), "what is stored")
    # One that ends meanwhile.
    g.out("a", fill)
    g.kill_berthd()
    link = k.Link(os.path.join(g.run, "keeper.sock"), 60)
    link.hello()
    *tags, killed = send_at_once(g, link, [(k.LIMIT, low)] * 8 + [(k.KILL, {"id": "a", "generation": 1})])
    answers = [link.answer(tag) for tag in tags]
    codes = [k.ERRORS.get(answer.get("code")) for answer in answers]
    equal(codes[4:], ["unavailable"] * 4, codes)
    check(set(codes[:4]) <= {None, "not_found"}, codes)
    equal(link.answer(killed).type, k.DONE, "KILL")
    link.close()
    g.start()
    equal(put(g, memory="64M")["limits"]["memory"], 64 * MIB, "afterwards")
    g.out("a", "rm big")


def worker_of(keeper):
    """What waits for the kernel in its place; None: it has none."""
    with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as file:
        return next(map(int, file.read().split()), None)


@only("root")
def test_worker_killed(g):
    """A change whose worker is killed has not been: all limits are as they were."""
    put(g, memory="512M", pids=100, disk="1G")
    keeper = until(g.keeper, "a keeper")
    for _ in range(20):
        g.out("a", "dd if=/dev/zero of=big bs=1M count=200 2>/dev/null && sync big")
        until(lambda: worker_of(keeper) is None, "the keeper to have no child")
        replies = []
        change = threading.Thread(target=lambda to=replies: to.append(
            g.request("PUT", "/v1/sandbox/a", {"limits": {"memory": "48M", "pids": 50}})))
        change.start()
        while not replies:
            worker = worker_of(keeper)
            if worker:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                break
        change.join()
        if replies[0].status != 200:
            break
        put(g, memory="512M", pids=100)
    equal((replies[0].status, replies[0].json()["code"]), (500, "internal"), replies)
    equal((of_kernel(g, "memory"), of_kernel(g, "pids")), (str(512 * MIB), "100"), "the cgroup")
    equal((g.sandbox("a")["limits"]["memory"], g.sandbox("a")["generation"]), (512 * MIB, 1), "what is told")
    put(g, memory="64M")
    equal(of_kernel(g, "memory"), str(64 * MIB), "afterwards")


@only("user")
def test_unsupported(g):
    """Without cgroups nothing of it can be had, and that is said."""
    g.out("a", "true")
    for limits in ({"memory": "64M"}, {"swap": "64M"}, {"cpus": 1}):
        check("this host cannot limit" in refused(g, 501, "unsupported", **limits), limits)
    check("first process holds it" in refused(g, 501, "unsupported", pids=50), "pids")
    check("limits.memory_threshold" in refused(g, 501, "unsupported", memory_threshold=0.5), "threshold")
    check("limits.cpu_time_ms" in refused(g, 501, "unsupported", cpu_time_ms=1000), "processor time")
    equal(put(g, file_size="1M")["restart_needed"], True, "what needs a restart")
    # One that does not run is told when it starts, as of all limits.
    for limits in ({"memory_threshold": 0.5}, {"cpu_time_ms": 1000}):
        name = next(iter(limits)).replace("_", "-")
        put(g, name, **limits)
        error = g.refuse(name, "true", 501)
        equal(error["code"], "unsupported", error)
        equal(g.sandbox(name)["last_failure"]["code"], "unsupported", name)


main([test_memory, test_cache, test_swap, test_pids, test_cpus, test_all_or_none, test_frozen, test_deaths, test_nonsense,
      test_moving, test_beside, test_worker_killed, test_unsupported])
