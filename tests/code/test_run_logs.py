"""Following what a run says: nothing missed and nothing twice, until it is over, however that comes."""

import json
import os
import signal
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from ground import IS_SANITIZED, Peak, at_once, check, equal, main, memory_of, until  # noqa: E402
from run_api import begin, get, messages, wait  # noqa: E402

ENDLESS = "print('begun', flush=True)\nwhile True:\n    pass\n"
SLOW = "import time\nfor i in range({count}):\n    print(i, flush=True)\n    time.sleep({pause})\n"


class Follower:
    """The events of one answer: pairs of a name and its data, with IDs that are the cursors."""

    def __init__(self, g, run_id, query="", **headers):
        self.connection = g.connect()
        self.connection.request("GET", f"/v1/runs/{run_id}/logs?follow=1{query}", headers=headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        if self.status == 200:
            equal(self.response.getheader("Content-Type"), "text/event-stream")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def __iter__(self):
        fields = {}
        for line in self.response:
            line = line.decode().rstrip("\n")
            if line and not line.startswith(":"):
                name, text = line.split(": ", 1)
                fields[name] = text
            elif fields:
                data = json.loads(fields["data"])
                equal(fields["id"], data["cursor"], "the event's ID")
                yield fields["event"], data
                fields = {}

    def rest(self):
        """All that comes: the messages, and the end."""
        found = list(self)
        check(found and found[-1][0] == "done", f"no end: {found[-3:]}")
        equal({name for name, _ in found[:-1]} - {"log"}, set(), "other events")
        return [data for _, data in found[:-1]], found[-1][1]


def same(logs, entries):
    return [{k: v for k, v in e.items() if k != "cursor"} for e in entries] == logs


def test_live(g):
    """Messages come while it runs; who comes at any time gets all of them, once; then JSON says the same."""
    record = begin(g, "import sys, logging\nprint('out', flush=True)\nlogging.warning('hm')\n"
                      "print('err', file=sys.stderr, flush=True)\n" + SLOW.format(count=40, pause=0.05) + "print('},{', flush=True)\nprint('last', end='')\n7")
    with Follower(g, record["id"]) as follower:
        first = next(iter(follower))
        equal((first[0], first[1]["level"], first[1]["message"], first[1]["cursor"]), ("log", "stdout", "out", "1"), first)
        equal(get(g, record["id"])["status"], "running", "it runs when its first message comes")
        others = at_once(8, lambda i: follow_from(g, record["id"], i))
        entries, end = follower.rest()
    logs = g.get(f"/v1/runs/{record['id']}/logs").json()["logs"]
    equal((end["id"], end["status"], end["logs_dropped"], end["cursor"]), (record["id"], "completed", 0, str(len(logs))), end)
    check(same(logs, [first[1], *entries]), logs, entries)
    equal([e["cursor"] for e in entries], [str(i) for i in range(2, len(logs) + 1)], "cursors")
    equal({(e["level"], e["message"]) for e in [first[1], *entries]} >= {("stderr", "err"), ("warn", "hm"), ("stdout", "last")}, True, logs)
    equal((entries[-1]["message"], messages(get(g, record["id"]))[-1]), ("last", "last"), "a line without an end")
    for found, done in others:
        check(same(logs, found) and done == end, f"{len(found)} of {len(logs)}, {done}")


def follow_from(g, run_id, number):
    """Half of them in two parts, as a browser that comes back."""
    found = []
    with Follower(g, run_id) as follower:
        if number % 2 == 0:
            return follower.rest()
        for _, data in follower:
            found.append(data)
            if len(found) == 5 + number:
                break
    # The header counts, not what the address began with.
    with Follower(g, run_id, "&since=0", **{"Last-Event-ID": found[-1]["cursor"]}) as follower:
        entries, end = follower.rest()
    return found + entries, end


def test_ends(g):
    """Queued, cancelled, timed out, failed; one that is over; after a restart of berthd; one that was lost."""
    g.kill_berthd()
    g.start("--max-runs", "1")
    first, queued = begin(g, ENDLESS), begin(g, ENDLESS)
    with Follower(g, first["id"]) as one, Follower(g, queued["id"]) as two:
        equal(next(iter(one))[1]["message"], "begun")
        g.request("DELETE", f"/v1/runs/{queued['id']}")
        entries, end = two.rest()
        equal((entries, end["status"]), ([], "cancelled"), "one that never ran")
        g.request("DELETE", f"/v1/runs/{first['id']}")
        entries, end = one.rest()
        equal((entries, end["status"]), ([], "cancelled"), end)
    for code, status, options in ((ENDLESS, "timed_out", {"timeout_ms": 500}), ("print('begun')\n1/0", "failed", {}),
                                  ("print('begun', flush=True)\nimport os\nos._exit(3)", "failed", {})):
        record = begin(g, code, **options)
        for _ in range(2):
            with Follower(g, record["id"]) as follower:
                entries, end = follower.rest()
            equal(([e["message"] for e in entries], end["status"]), (["begun"], status), end)
    with Follower(g, record["id"], "&since=1") as follower:
        equal(follower.rest()[0], [], "behind the last")
    with Follower(g, record["id"], "&since=99") as follower:
        equal(follower.rest(), ([], end), "ahead of it")
    lost = begin(g, ENDLESS)
    with Follower(g, lost["id"]) as follower:
        equal(next(iter(follower))[1]["message"], "begun")
        g.kill_berthd()
        check(not [name for name, _ in rest_of(follower) if name == "done"], "nobody said that it is over")
    g.start()
    with Follower(g, record["id"]) as follower:
        entries, again = follower.rest()
        equal((len(entries), again), (1, end), "as it is stored")
    with Follower(g, lost["id"], **{"Last-Event-ID": "1"}) as follower:
        entries, end = follower.rest()
        equal((entries, end["status"]), ([], "lost"), end)


def rest_of(follower):
    found = []
    try:
        for event in follower:
            found.append(event)
    except (OSError, ValueError, EOFError) as error:
        print(f"# cut: {error!r}")
    except Exception as error:  # pylint: disable=broad-except
        check("IncompleteRead" in repr(error), repr(error))
    return found


def test_refused(g):
    """What is no run, no cursor, no flag; JSON without the flag."""
    record = begin(g, "print('a')")
    wait(g, record["id"])
    path = f"/v1/runs/{record['id']}/logs"
    for query in ("?follow=maybe", "?since=1", "?follow=1&since=x", "?follow=1&since=-1", "?follow=1&since=1&since=2"):
        reply = g.get(path + query)
        equal((reply.status, reply.json()["code"]), (400, "invalid_request"), f"{query}: {reply}")
    for name in ("run-nonsense", "x" * 300):
        equal(g.get(f"/v1/runs/{name}/logs?follow=1").status, 404, name)
    equal(messages(g.get(path + "?follow=0").json()), ["a"], "as JSON")


def test_init_dies(g):
    """Its sandbox is gone from one moment to the other: who follows is told."""
    record = begin(g, ENDLESS)
    with Follower(g, record["id"]) as follower:
        next(iter(follower))
        os.kill(g.inits()[0], signal.SIGKILL)
        entries, end = follower.rest()
    equal((entries, end["status"]), ([], get(g, record["id"])["status"]), end)
    check(end["status"] in ("lost", "failed", "cancelled"), end)


def stuck(g, run_id):
    """Asks, and reads nothing."""
    sock = socket.socket(socket.AF_UNIX)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(g.socket)
    sock.sendall(f"GET /v1/runs/{run_id}/logs?follow=1 HTTP/1.1\r\nHost: b\r\n\r\n".encode())
    return sock


def test_slow(g):
    """Fifty that do not read: the run and its other follower go on, memory stays; each may read all of it later."""
    flood = "print('begun', flush=True)\nimport time\ntime.sleep(1)\nfor i in range(4000):\n    print(str(i) * 50)\n"
    record = begin(g, flood, timeout_ms=60000)
    with Follower(g, record["id"]) as follower:
        next(iter(follower))
        before = memory_of(g.berthd.pid)
        socks = [stuck(g, record["id"]) for _ in range(50)]
        with Peak(g.berthd.pid) as peak:
            entries, end = follower.rest()
    equal(end["status"], "completed", end)
    check(len(entries) > 3000 and end["logs_dropped"] + len(entries) == 4000, len(entries), end)
    check(IS_SANITIZED or peak.most - before < 40 << 20, f"berthd grew from {before} to {peak.most} bytes")
    for sock in socks[:25]:
        sock.close()
    text = b""
    while not text.endswith(b"0\r\n\r\n"):
        part = socks[-1].recv(1 << 16)
        check(part, "cut", text[-200:])
        text += part
    equal((text.count(b"event: log"), text.count(b"event: done")), (len(entries) + 1, 1), "what the slow one got")
    for sock in socks[25:]:
        sock.close()
    until(lambda: not g.list_all(), "the sandboxes to go")


def test_stop(g):
    """SIGTERM with a follower: berthd ends."""
    record = begin(g, ENDLESS)
    with Follower(g, record["id"]) as follower:
        next(iter(follower))
        g.berthd.terminate()
        until(lambda: "stopping signal" in g.log_text(), "the stop to begin")
        g.berthd.terminate()
        equal(g.berthd.wait(60), 0, "berthd's exit code")
        rest_of(follower)
    g.start()
    equal(get(g, record["id"])["status"], "lost", "its record")
    until(lambda: not g.list_all(), "the sandboxes to go")


if __name__ == "__main__":
    main([test_live, test_ends, test_refused, test_init_dies, test_slow, test_stop])
