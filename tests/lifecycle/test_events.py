"""Events of a sandbox's life: in order, on disk before they are told, replayed without gap or repeat."""

import concurrent.futures
import os
import re
import shutil
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, *(os.path.join(HERE, "..", folder) for folder in ("sandbox", "process"))]

# pylint: disable=wrong-import-position
from event_api import Follower, names, path_of, stored  # noqa: E402
from ground import IS_SANITIZED, at_once, check, equal, fds_of, main, memory_of, only, until  # noqa: E402

KEPT_OF_ONE, PRUNED_EVERY = 500, 250  # daemon/store_event.h


def put(g, name="a", **settings):
    reply = g.request("PUT", f"/v1/sandbox/{name}", settings)
    check(reply.status in (200, 201), reply)


def ask(g, what, name="a", **body):
    reply = g.request("POST", f"/v1/sandbox/{name}/{what}", body or None)
    equal(reply.status, 200, reply)
    return reply.json()


def delete(g, name="a"):
    equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")


def test_life(g):
    """A life is told in order, each event with its facts; what was deleted is still told."""
    mode = "freeze" if g.is_root else "stop"
    with Follower(g) as everything, concurrent.futures.ThreadPoolExecutor(1) as pool:
        equal(everything.until("live"), {"type": "live", "id": 0}, "an empty beginning")
        put(g, labels={"a": "b"})
        put(g, sleep_after="1h")
        for _ in range(5):
            g.out("a", "true")
        ask(g, "sleep", mode=mode)
        ask(g, "sleep", mode=mode)
        g.out("a", "true")
        ask(g, "sleep", mode="stop")
        ask(g, "wake")
        os.kill(g.inits()[0], signal.SIGKILL)
        until(lambda: g.sandbox("a")["state"] == "failed", "the failure")
        pool.submit(g.out, "a", "true").result()
        delete(g)
        everything.until("destroyed")
    told = [event for event in everything.seen if event[1] != "live"]
    equal(names(told), ["created", "changed", "started", "slept", "woke", "slept", "woke", "exited", "started", "destroyed"],
          told)
    equal([number for number, _, _ in told], list(range(1, len(told) + 1)), "numbers")
    equal({data["sandbox"] for _, _, data in told}, {"a"}, "sandbox")
    lives = [0, 0, 1, 1, 1, 1, 2, 2, 3, 3] if g.is_root else [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    equal([data["generation"] for _, _, data in told], lives, "generations")
    times = [data["at"] for _, _, data in told]
    equal(times, sorted(times), "times")
    slept, woke, exited = told[3][2], told[4][2], told[7][2]
    kept = ["disk", "memory", "processes"] if g.is_root else ["disk"]
    equal((slept["mode"], slept["reason"], slept["kept"]), (mode, "asked", kept), slept)
    equal((woke["from"], woke["kept"]), ("frozen" if g.is_root else "stopped", kept), woke)
    equal((told[5][2]["mode"], told[6][2]["from"]), ("stop", "stopped"), "the second sleep")
    equal((exited["reason"], exited["code"]), ("died", "exec_transport_error"), exited)
    check(len(exited["message"]) > 10, exited)
    equal(stored(g, "a"), told, "what is kept of one that is gone")
    equal(stored(g), told, "and of all")


def test_failed(g):
    """A start that fails is told with its reason; deleting one that runs is no sleep."""
    image = os.path.join(g.state, "images", "there-is-none")
    os.makedirs(os.path.join(image, "rootfs"))
    put(g, image="there-is-none")
    shutil.rmtree(image)
    equal(g.request("POST", "/v1/sandbox/a/start").status, 404, "start")
    failed = stored(g, "a")[-1]
    equal((failed[1], failed[2]["generation"]), ("failed", 1), failed)
    check("there-is-none" in failed[2]["message"], failed)
    shown = g.sandbox("a")
    equal((shown["state"], shown["last_failure"]["message"]), ("failed", failed[2]["message"]), "as it is shown")
    g.kill_berthd()
    g.start()
    equal((g.sandbox("a")["state"], g.sandbox("a")["last_failure"]), ("failed", shown["last_failure"]), "by the next berthd")
    put(g, image="host")
    g.out("a", "true")
    delete(g)
    equal(names(stored(g, "a")), ["created", "failed", "changed", "started", "destroyed"], stored(g, "a"))


def test_failed_once(g):
    """How one died is known after a restart of berthd, and not any more when it has run again."""
    g.out("a", "true")
    os.kill(g.inits()[0], 9)
    failure = until(lambda: g.sandbox("a")["last_failure"], "the failure")
    until(lambda: stored(g, "a")[-1][1] == "exited", "the event")
    g.kill_berthd()
    g.start()
    equal((g.sandbox("a")["state"], g.sandbox("a")["last_failure"]), ("failed", failure), "by the next berthd")
    g.out("a", "true")
    equal(stored(g, "a")[-1][1], "started", "it did not sleep")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    g.kill_berthd()
    g.start()
    equal((g.sandbox("a")["state"], g.sandbox("a")["last_failure"]), ("cold", None), "after another life")
    g.out("a", "true")
    equal(stored(g, "a")[-1][1], "woke", "it slept")


@only("root")
def test_oom(g):
    """The kernel kills for want of memory: that is told, and what becomes of it."""
    put(g, limits={"memory": "64M"})
    with Follower(g, "a") as follower:
        equal(g.exec("a", ["python3", "-c", "x = bytearray(400 << 20)"]).reason, "oom", "the command")
        oom = follower.until("oom")
        equal((oom["kills"], oom["generation"]), (1, 1), oom)

        def fill():
            g.request("POST", "/v1/sandbox/a/exec", {"command": "cat /dev/zero >>/dev/shm/full"}, Accept="application/json")
            return g.sandbox("a")["state"] == "failed"
        until(fill, "init to die")
        exited = follower.until("exited")
        equal((exited["reason"], exited["code"]), ("oom", "memory_limit"), exited)


def test_alarm(g):
    """What an alarm's command came to is told."""
    put(g)
    equal(g.request("PUT", "/v1/sandbox/a/alarm/tidy", {"every": "1s", "argv": ["sh", "-c", "exit 3"]}).status // 100, 2, "alarm")
    with Follower(g, "a", last=0, type="alarm,started") as follower:
        follower.until("started")
        alarm = follower.until("alarm")
        equal([alarm[key] for key in ("alarm", "reason", "exit_code", "generation")], ["tidy", "exited", 3, 1], alarm)


def test_unchanged(g):
    """Settings that are set as they are make no event, each that is another one does."""
    full = {"labels": {"a": "b"}, "env": {"A": "1"}, "limits": {"files": 100, "output_bytes": 65536}, "sleep_after": "1h"}
    put(g, **full)
    put(g, **full)
    put(g)
    equal(g.request("PUT", "/v1/sandbox/a/env", {"A": "1"}).status, 204, "env")
    equal(names(stored(g)), ["created"], "nothing has changed")
    equal(g.request("PUT", "/v1/sandbox/a/env", {"A": "2"}).status, 204, "env")
    put(g, limits={"output_bytes": 0})
    equal(names(stored(g)), ["created", "changed", "changed"], "two things have")


def test_created(g):
    """Whatever has made it, its first life begins afterwards."""
    put(g)
    g.out("a", "true")
    g.out("b", "true")
    until(lambda: len(stored(g)) == 4, "the events")
    for name in ("a", "b"):
        equal([(n, d["generation"]) for _, n, d in stored(g, name)], [("created", 0), ("started", 1)], name)


def test_destroyed(g):
    """The end of a sandbox says whose wish it was."""
    put(g, "asked")
    delete(g, "asked")
    put(g, "pruned")
    equal(g.request("DELETE", "/v1/sandbox/pruned?reason=idle").status, 400, "no reason")
    equal(g.request("DELETE", "/v1/sandbox/pruned?reason=prune&if_state=cold").status, 204, "delete")
    with Follower(g, type="destroyed") as follower:
        follower.until("live")
        put(g, "expired", delete_after="1s")
        equal(follower.until("destroyed")["reason"], "delete_after", "by itself")
    equal([(d["sandbox"], d["reason"]) for _, _, d in stored(g, type="destroyed")],
          [("asked", "request"), ("pruned", "prune"), ("expired", "delete_after")], "reasons")


def test_asked(g):
    """Filters, and what cannot be asked for."""
    put(g, "a")
    put(g, "b")
    put(g, "a", sleep_after="1h")
    equal([(n, d["sandbox"]) for _, n, d in stored(g)], [("created", "a"), ("created", "b"), ("changed", "a")], stored(g))
    equal(names(stored(g, "a")), ["created", "changed"], "of one")
    equal(names(stored(g, type="changed")), ["changed"], "of one type")
    equal(names(stored(g, "a", type="changed,created,slept")), ["created", "changed"], "of several")
    equal([n for n, _, _ in stored(g, last=1)], [2, 3], "behind a number")
    equal([n for n, _, _ in stored(g, last_event_id=2)], [3], "in the query")
    equal([n for n, _, _ in stored(g, last=2, last_event_id=0)], [3], "the header is newer than the address")
    equal(stored(g, "b", last=3), [], "nothing")
    for last in ("x", "-1", "1.5", "9" * 30, "0x1", "1;2"):
        reply = g.get(path_of(), Last_Event_ID=last)
        check(reply.status == 400 and "Last-Event-ID" in reply.json()["error"], (last, reply))
    for query in ("last_event_id=x", "last_event_id=", "follow=2", "type=", "type=A", "type=" + "a" * 300, "type=slept,", "type=,slept", "type=live", "type=%ff", "tpye=slept",
                  "last_event_id=1&last_event_id=2"):
        equal(g.get("/v1/events?" + query).status, 400, query)
    reply = g.get(path_of("a", type="slept,mispelt"))
    equal((reply.status, reply.json()["code"]), (400, "invalid_request"), reply)
    check('"mispelt"' in reply.json()["error"] and "memory_threshold, oom" in reply.json()["error"], reply)
    equal(g.get(path_of("nobody")).status, 404, "one that never was")
    equal(g.get(path_of("no..body")).status, 400, "no name")
    equal(g.request("POST", "/v1/events").status, 405, "method")
    reply = g.request("HEAD", path_of("a"))
    equal((reply.status, reply.generation), (200, 0), reply)
    with Follower(g, last=1000) as ahead:
        equal(ahead.next(), (None, "gap", {"type": "gap", "after": 1000, "first": None, "newest": 3}), "from another database")
        equal(ahead.next()[:2], (3, "live"), "and on with what is new")


def test_seam(g):
    """While events come quickly, whoever comes back again and again misses none and sees none twice."""
    for name in "abcd":
        put(g, name)
    count, seen, last = 60, [], 0
    total = 4 + 4 * count

    def change(i):
        for n in range(count):
            put(g, "abcd"[i], labels={"n": str(n)})

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        changing = [pool.submit(change, i) for i in range(4)]
        while len(seen) < total:
            with Follower(g, last=last) as follower:
                most = min(total, len(seen) + 7)
                while len(seen) < most:
                    event = follower.next()
                    seen += [event] if event[1] != "live" else []
                last = follower.last
        for c in changing:
            c.result()
    equal([number for number, _, _ in seen], list(range(1, total + 1)), "each once, in order")
    equal(stored(g), seen, "and as they are kept")
    with Follower(g, "b", last=seen[9][0]) as one:
        one.until("live")
        equal(one.seen[:-1], [e for e in seen[10:] if e[2]["sandbox"] == "b"], "of one")


def test_killed(g):
    """berthd is killed again and again: what was told is there, and its number is not given again."""
    put(g)
    told, last = [], 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for n in range(4):
            with Follower(g, last=last) as follower:
                follower.until("live")
                change = pool.submit(lambda i=n: [put(g, labels={"n": f"{i} {n}"}) for n in range(1000)])
                for _ in range(20):
                    follower.next()
                g.kill_berthd()
                follower.rest()
                change.exception()
            told += [event for event in follower.seen if event[1] != "live"]
            last = follower.last
            g.start()
    numbers = [number for number, _, _ in told]
    equal(numbers, sorted(set(numbers)), "no number twice")
    kept = stored(g)
    equal([e for e in kept if e[0] <= last], told, "all that was told, and nothing in between")
    put(g, "b")
    equal(stored(g)[-1][0], kept[-1][0] + 1, "numbers go on")


def test_pruned(g):
    """One that is noisy loses its own oldest and nobody else's, and who misses something is told."""
    put(g, "quiet")
    put(g, "noisy")
    with Follower(g, "quiet", last=0) as follower:
        follower.until("live")
        at_once(4, lambda i: [put(g, "noisy", labels={"n": f"{i} {n}"}) for n in range((KEPT_OF_ONE + PRUNED_EVERY) // 4)])
    quiet, noisy = stored(g, "quiet"), stored(g, "noisy")
    equal(names(quiet), ["created"], "the other one's")
    check(KEPT_OF_ONE <= len(noisy) <= KEPT_OF_ONE + PRUNED_EVERY, len(noisy))
    check(noisy[0][0] > 3 and noisy[-1][0] == KEPT_OF_ONE + PRUNED_EVERY // 4 * 4 + 2, (noisy[0], noisy[-1]))
    first = noisy[0][0]
    equal(stored(g, "noisy", last=first - 1), noisy, "nothing is missed")
    gap = stored(g, "noisy", last=2)
    equal(gap[0], (None, "gap", {"type": "gap", "after": 2, "first": first, "newest": noisy[-1][0]}), "the gap")
    equal(gap[1:], noisy, "and what is there")
    equal(stored(g, "quiet", last=0), quiet, "nothing of this one is missing")
    everything = stored(g, last=0)
    equal(everything[0][2], {"type": "gap", "after": 0, "first": 1, "newest": noisy[-1][0]}, "of all, something is")
    equal(everything[1:], quiet + noisy, "told once")
    equal(stored(g), everything[1:], "who names no place misses nothing")


def still(g):
    """What is told of it, but for when it was measured, and its memory, some of which the kernel may take back."""
    shown = g.sandbox("a")
    return {**shown, "usage": {**shown["usage"], "at": None, "memory_bytes": None}}


def test_follower_wakes_nobody(g):
    """Somebody who follows does not keep it awake, and does not wake it."""
    put(g, sleep_after="300ms")
    with Follower(g, "a") as follower, Follower(g) as all_of_them:
        g.out("a", "true")
        slept = follower.until("slept")
        equal(slept["reason"], "idle", slept)
        all_of_them.until("slept")
        before = still(g)
        time.sleep(0.6)
        stored(g, "a")
        equal(still(g), before, "it sleeps on")
        equal(before["holds"], [], "nothing holds it")


def test_not_reading(g):
    """Followers that do not read cost nothing; when they do, they get what is kept and are told what is not."""
    clients, rounds, count = [], 5, 240
    for _ in range(20):
        client = socket.socket(socket.AF_UNIX)
        client.connect(g.socket)
        client.sendall(b"GET /v1/events?last_event_id=0 HTTP/1.0\r\n\r\n")
        clients.append(client)
    with Follower(g, last=0) as reader:
        reader.until("live")
        for number in range(rounds):
            at_once(4, lambda i: [put(g, "abcd"[i], labels={"n": str(n)}) for n in range(count)])
            while reader.last < 4 * count * (number + 1):
                equal(reader.next()[1] in ("created", "changed"), True, "the one that reads misses nothing")
            if number == 2:
                before = memory_of(g.berthd.pid)
        descriptors = fds_of(g.berthd.pid)
        grown = memory_of(g.berthd.pid) - before
        print(f"# {2 * 4 * count} events for 20 who do not read: {grown} bytes")
        check(IS_SANITIZED or grown < 1 << 20, f"memory grows by {grown}")
        kept = [number for number, _, _ in stored(g)]
        for client in clients:
            check_late(client, kept)
        until(lambda: fds_of(g.berthd.pid) <= descriptors - len(clients), "their descriptors to go")


def check_late(client, kept):
    """Reads from the beginning to the newest, and leaves."""
    data = b""
    client.settimeout(60)
    while not data.endswith(b"\n\n") or b"id: %d\n" % kept[-1] not in data[-1000:]:
        more = client.recv(65536)
        check(more, "cut off behind", data[-300:])
        data += more
    client.close()
    before, gap, after = data.partition(b"event: gap\n")
    check(gap, "nothing is said of what is not kept any more")
    first, rest = numbers(before), numbers(after)
    equal(first, list(range(1, len(first) + 1)), "up to there")
    equal(rest, [n for n in kept if n > first[-1]], "and from there")


def numbers(text):
    return [int(n) for n in re.findall(rb"^id: (\d+)\nevent: (?!live)", text, re.M)]


def test_stop(g):
    """berthd stops at once though somebody follows; the stream ends as a whole."""
    put(g)
    with Follower(g) as follower:
        follower.until("live")
        g.berthd.terminate()
        begun = time.monotonic()
        equal(g.berthd.wait(60), 0, "exit code")
        check(time.monotonic() - begun < 5, "it waited for the follower")
        equal(follower.next(), None, "the end")
    g.start()


if __name__ == "__main__":
    main([test_life, test_failed, test_failed_once, test_oom, test_alarm, test_unchanged, test_created, test_destroyed, test_asked, test_seam,
          test_killed, test_pruned, test_follower_wakes_nobody, test_not_reading, test_stop])
