"""What sandboxes use: GET .../stats, `usage` elsewhere, and figures of each in GET /metrics."""

import os
import select
import signal
import threading
import time

from ground import at_once, check, equal, main, stat_of, until
from metrics_api import metrics

MB = 1 << 20
WALKS = 2  # of disks, that the keeper has at once
CONTAINER = ("cpu_ms", "memory_bytes", "memory_peak_bytes", "pids", "oom_kills", "at")


def stats(g, name, query=""):
    reply = g.get(f"/v1/sandbox/{name}/stats{query}")
    equal(reply.status, 200, reply)
    told = reply.json()
    equal((told["id"], reply.generation), (name, told["generation"]), told)
    equal(sorted(told), ["contexts", "generation", "id", "limits", "state", "usage"], told)
    return told


def usage(g, name, query=""):
    return stats(g, name, query)["usage"]


def start(g, name, command):
    reply = g.request("POST", f"/v1/sandbox/{name}/processes", {"command": command, "id": "p"})
    equal(reply.status, 200, reply)


def end(g, name):
    g.request("DELETE", f"/v1/sandbox/{name}/processes/p?grace_ms=0")


def test_form(g):
    """Before the first start, and of one that is not there."""
    equal(g.get("/v1/sandbox/a/stats").status, 404, "none")
    g.request("PUT", "/v1/sandbox/a", {"limits": {"memory": "256M"}})
    told = stats(g, "a")
    equal((told["state"], told["generation"], told["limits"]["memory"]), ("cold", 0, 256 * MB), told)
    equal([told["usage"][key] for key in CONTAINER], [None] * len(CONTAINER), told)
    equal([told["usage"][key] for key in ("disk_bytes", "files", "disk_at")], [None] * 3, "nobody has counted")
    equal((told["usage"]["rx_bytes"], told["usage"]["tx_bytes"]), (0, 0), told)
    equal(usage(g, "a", "?disk=1")["disk_bytes"], 0, "there is no disk yet")
    for query in ("disk=2", "disk=x"):
        equal(g.get(f"/v1/sandbox/a/stats?{query}").status, 400, query)
    equal(g.get("/v1/sandbox?usage=maybe").status, 400, "usage=maybe")
    equal(g.get("/v1/sandbox/a/stats", If_Generation="7").status, 409, "another generation")
    equal(g.sandbox("a")["generation"], 0, "it was not started")


def test_cpu(g):
    """Somebody who is busy, and that it stops."""
    g.out("a", "true")
    start(g, "a", "while :; do :; done")
    first = usage(g, "a")["cpu_ms"]
    until(lambda: usage(g, "a")["cpu_ms"] > first + 200, "processor time that grows")
    equal(g.sandbox("a")["usage"]["rx_bytes"], 0, "nobody has come")
    check(g.sandbox("a")["usage"]["cpu_ms"] > first, "the sandbox says it, too")
    end(g, "a")
    before = usage(g, "a")["cpu_ms"]
    time.sleep(1)
    check(usage(g, "a")["cpu_ms"] - before < 300, "it goes on")


def test_memory(g):
    """Fifty megabytes; where nobody counts, null is said."""
    g.out("a", "true")
    if not g.has_cgroups:
        told = usage(g, "a")
        equal([told[key] for key in ("memory_bytes", "memory_peak_bytes", "pids", "oom_kills")], [None] * 4, told)
        check(told["cpu_ms"] is not None and told["at"], told)
        return
    before = usage(g, "a")
    check(0 < before["memory_bytes"] < 40 * MB and before["pids"] >= 1, before)
    start(g, "a", "head -c 52428800 /dev/zero >/dev/shm/big; sleep 1000 & sleep 1000 & wait")
    until(lambda: usage(g, "a")["memory_bytes"] >= before["memory_bytes"] + 49 * MB, "fifty megabytes")
    until(lambda: usage(g, "a")["pids"] >= before["pids"] + 3, "a shell and two sleeps")
    after = usage(g, "a")
    check(after["memory_bytes"] < before["memory_bytes"] + 90 * MB, before, after)
    check(after["memory_peak_bytes"] is None or after["memory_peak_bytes"] >= 50 * MB, after)
    equal(after["oom_kills"], 0, after)
    g.out("a", "rm /dev/shm/big")
    until(lambda: usage(g, "a")["memory_bytes"] < 40 * MB, "its end")
    peak = usage(g, "a")["memory_peak_bytes"]
    check(peak is None or peak >= 50 * MB, "the most it ever was")
    end(g, "a")
    until(lambda: usage(g, "a")["pids"] < before["pids"] + 3, "their end")


def test_disk(g):
    """Counted when asked for, and by nobody else; many who ask share one walk."""
    g.out("a", "head -c 20971520 /dev/urandom >/workspace/big; sync /workspace/big")
    told = usage(g, "a")
    equal((told["disk_bytes"], told["disk_at"]), (None, None), "not by itself")
    told = usage(g, "a", "?disk=1")
    check(20 * MB <= told["disk_bytes"] < 100 * MB and 1 <= told["files"] < 1000 and told["disk_at"], told)
    counted = [told[key] for key in ("disk_bytes", "files", "disk_at")]
    known = g.sandbox("a")["usage"]
    equal([known[key] for key in ("disk_bytes", "files", "disk_at")], counted, "it is known from then on")
    time.sleep(1.1)
    many = at_once(8, lambda _: usage(g, "a", "?disk=1"))
    check(len({told["disk_at"] for told in many}) <= 2, many)
    g.out("a", "rm /workspace/big")
    until(lambda: usage(g, "a", "?disk=1")["disk_bytes"] < 20 * MB, "it is less")


def test_asleep(g):
    """Frozen or stopped, it answers and sleeps on; and looking does not keep one awake."""
    for mode in ("freeze", "stop"):
        g.request("PUT", f"/v1/sandbox/{mode}", {"sleep_after": "1s"})
        g.out(mode, "true")
        reply = g.request("POST", f"/v1/sandbox/{mode}/sleep", {"mode": mode})
        if reply.status == 501:
            continue
        equal(reply.status, 200, reply)
        told = stats(g, mode, "?disk=1")
        is_frozen = told["state"] == "frozen"
        equal((told["state"], told["generation"]), ("frozen" if mode == "freeze" else "cold", 1), told)
        equal(told["usage"]["cpu_ms"] is not None, is_frozen, told)
        equal(told["usage"]["memory_bytes"] is not None, is_frozen and g.has_cgroups, told)
        check(told["usage"]["files"] is not None, told)
        equal(stats(g, mode)["state"], told["state"], "it sleeps on")
    g.request("PUT", "/v1/sandbox/idle", {"sleep_after": "2s"})
    g.out("idle", "true")
    active = g.sandbox("idle")["last_active_at"]
    until(lambda: usage(g, "idle", "?disk=1") and metrics(g) and g.get("/v1/sandbox?usage=1").status == 200 and
          stats(g, "idle")["state"] != "running", "its sleep though somebody looks")
    equal(g.sandbox("idle")["last_active_at"], active, "looking is no activity")


def test_adopted(g):
    """The next berthd knows it, too, also of one that is frozen."""
    g.out("a", "true")
    g.request("POST", "/v1/sandbox/a/sleep")
    state = g.sandbox("a")["state"]
    g.kill_berthd()
    g.start()
    until(lambda: g.sandbox("a")["state"] == state, "adopted")
    equal(usage(g, "a")["cpu_ms"] is not None, state == "frozen", usage(g, "a"))
    g.out("a", "true")
    check(usage(g, "a")["cpu_ms"] is not None, "awake")


def test_no_keeper(g):
    """One that does not answer costs a second, and no answer."""
    g.out("a", "true")
    check(usage(g, "a")["at"], "measured")
    keeper = g.keeper()
    os.kill(keeper, signal.SIGSTOP)
    try:
        began = time.monotonic()
        for target in ("/v1/sandbox/a/stats", "/v1/sandbox/a", "/metrics", "/v1/sandbox?usage=1"):
            equal(g.get(target).status, 200, target)
        check(time.monotonic() - began < 12, "it takes too long")
    finally:
        os.kill(keeper, signal.SIGCONT)
    at = usage(g, "a")["at"]
    until(lambda: usage(g, "a")["at"] > at, "another measure")


def test_gone(g):
    """Who goes away while it is counted, and a sandbox that does."""
    g.out("a", "for i in $(seq 3000); do echo >/workspace/$i; done")
    for _ in range(20):
        with g.raw() as client:
            client.send(b"GET /v1/sandbox/a/stats?disk=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(g.get("/v1/sandbox/a/stats?disk=1").status))
    thread.start()
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    thread.join()
    check(seen[0] in (200, 404), seen)
    equal(g.get("/v1/sandbox/a/stats").status, 404, "gone")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return set(map(int, file.read().split()))


def state_of(pid):
    return (stat_of(pid) or ["gone"])[0]


class Held:
    """New children of the keeper, that stand still as if they had more to do than they ever can."""

    def __init__(self, g):
        self.keeper = g.keeper()
        self.others, self.pids = children(self.keeper), set()

    def catch(self):
        for pid in children(self.keeper) - self.others - self.pids:
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                continue
            if until(lambda p=pid: state_of(p) in ("T", "Z", "X", "gone") and state_of(p), "it to stop") == "T":
                self.pids.add(pid)

    def release(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


def hold_walk(g, name, held):
    """A client that waits for a count of that disk: its walk stands still, or does not begin behind those that do."""
    while True:
        client, count, end = g.raw(), len(held.pids), time.monotonic() + 0.5
        client.send(f"GET /v1/sandbox/{name}/stats?disk=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while not select.select([client.sock], [], [], 0)[0]:
            held.catch()
            if len(held.pids) > count or (count >= WALKS and time.monotonic() > end):
                return client
        client.close()  # it was too fast for us, and is told again for a second


def test_walks(g):
    """A sandbox is deleted while walks over the disks of others take for ever."""
    names = ("a", "b", "c", "d")
    at_once(len(names), lambda i: g.out(names[i], "seq -f /workspace/%.0f 5000 | xargs touch"))
    g.out("other", "true")
    held, clients = Held(g), []
    try:
        for name in names:
            clients.append(hold_walk(g, name, held))
        connection = g.connect(20)
        connection.request("DELETE", "/v1/sandbox/other")
        equal(connection.getresponse().status, 204, "delete")
        connection.close()
        equal([state_of(pid) for pid in held.pids], ["T"] * WALKS, "walks that stand still")
    finally:
        held.release()
    for client in clients:
        equal(client.read().status, 200, "a count")
        client.close()


def test_list(g):
    """With usage=1 all are measured, and disks are counted for the next time."""
    for name in ("a", "b", "c"):
        g.out(name, "true")
    listed = {s["id"]: s["usage"] for s in g.get("/v1/sandbox?usage=1").json()["sandboxes"]}
    equal(sorted(listed), ["a", "b", "c"], listed)
    check(all(told["cpu_ms"] is not None for told in listed.values()), listed)

    def disks():
        return [s["usage"]["disk_bytes"] for s in g.get("/v1/sandbox?usage=1").json()["sandboxes"]]
    until(lambda: None not in disks(), "disks that are counted meanwhile")


def test_metrics(g):
    """Each that has a container has figures, as far as they are counted; those that have none do not."""
    g.out("a", "true")
    g.request("PUT", "/v1/sandbox/cold", {})
    m = metrics(g)
    cpu = m("sandbox_cpu_seconds_total", sandbox="a")
    check(0 <= cpu < 100, cpu)
    equal(list(m.all("sandbox_cpu_seconds_total", "sandbox")), ["a"], "the other has no container")
    equal(m("sandboxes_untold"), 0, "all are told")
    if g.has_cgroups:
        check(m("sandbox_memory_bytes", sandbox="a") > 0 and m("sandbox_pids", sandbox="a") >= 1, m.families)
    else:
        check("berth_sandbox_memory_bytes" not in m.families and "berth_sandbox_pids" not in m.families, m.families)
    start(g, "a", "while :; do :; done")
    until(lambda: metrics(g)("sandbox_cpu_seconds_total", sandbox="a") > cpu + 0.2, "it grows")
    end(g, "a")
    for told in at_once(8, lambda _: metrics(g)):
        equal(list(told.all("sandbox_cpu_seconds_total", "sandbox")), ["a"], "of many at once")
    g.request("DELETE", "/v1/sandbox/a")
    check("berth_sandbox_cpu_seconds_total" not in metrics(g).families, "it is gone")


def test_many(g):
    """Forty that run, asked for by eight at once: all are told, and others are served meanwhile."""
    names = [f"box-{i:02}" for i in range(40)]
    at_once(8, lambda worker: [g.out(name, "true") for name in names[worker::8]])

    def scrape(worker):
        began = time.monotonic()
        if worker % 2:
            equal(g.get("/health").status, 200, "health")
        else:
            equal(sorted(metrics(g).all("sandbox_cpu_seconds_total", "sandbox")), names, "all of them")
        return time.monotonic() - began
    took = at_once(16, scrape)
    check(max(took) < 10, took)
    equal(sorted(s["id"] for s in g.get("/v1/sandbox?usage=1").json()["sandboxes"]
                 if s["usage"]["cpu_ms"] is not None), names, "the list")


def test_traffic(g):
    """Bytes through its ports are counted, both ways."""
    g.out("a", "true")
    start(g, "a", "python3 -m http.server 8000 --bind 127.0.0.1")
    reply = g.request("POST", "/v1/sandbox/a/processes/p/wait", {"for": "port", "port": 8000, "timeout_ms": 30000})
    equal(reply.status, 200, reply)
    connection = g.connect()
    connection.connect()
    with connection.sock as sock:
        sock.sendall(b"GET /v1/sandbox/a/connect/8000 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        check(b" 101 " in sock.recv(4096), "upgraded")
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        until(lambda: usage(g, "a")["tx_bytes"] > 100, "its answer")
        equal(usage(g, "a")["rx_bytes"], len(b"GET / HTTP/1.0\r\n\r\n"), "the request")
    end(g, "a")


if __name__ == "__main__":
    main([test_form, test_cpu, test_memory, test_disk, test_asleep, test_adopted, test_no_keeper, test_gone, test_walks,
          test_list, test_metrics, test_many, test_traffic])
