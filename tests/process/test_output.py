"""What processes print: every byte of it, in order, from any place, whatever happens to berthd."""

import hashlib
import http.client
import os
import threading
import time

from process_api import (Log, Output, await_output, check, ended, equal, logs_of, raw, read, show, start, until,
                         wait)
from ground import IS_SANITIZED, Peak, at_once, main

MB = 1 << 20
SCALE = float(os.environ.get("BERTH_PROCESS_SCALE", "0.1" if IS_SANITIZED else "1"))
# Numbered lines, so that what is missing or twice is seen; then their hash can be known.
COUNT = "i=0; while [ $i -lt {0} ]; do echo line $i; i=$((i+1)); done"


def lines(first, last):
    return b"".join(b"line %d\n" % i for i in range(first, last))


def test_cursors(g):
    """[25] From any cursor the rest, and nothing else; both streams in the order in which they came."""
    start(g, "a", "for i in 1 2 3; do echo out $i; sleep 0.05; echo err $i >&2; sleep 0.05; done", id="x")
    ended(g, "a", "x")
    whole = read(g, "a", "x")
    equal(whole.both, b"".join(b"out %d\nerr %d\n" % (i, i) for i in (1, 2, 3)), "order")
    for at in range(len(whole.both) + 1):
        rest = read(g, "a", "x", f"?since={at}", at)
        equal(rest.both, whole.both[at:], f"since {at}")
        equal(raw(g, "a", "x", f"?since={at}"), whole.both[at:], f"raw since {at}")
    for name, data in whole.events:
        again = read(g, "a", "x", Last_Event_ID=data["cursor"])
        equal(again.both, whole.both[int(data["cursor"]):], f"after {name}")
    equal(read(g, "a", "x", "?replay=false").both, b"", "no replay")
    equal(read(g, "a", "x", "?stream=stderr").both, b"err 1\nerr 2\nerr 3\n", "one stream")
    stamps = [data["timestamp"] for _, data in whole.events]
    check(stamps == sorted(stamps) and len(set(stamps)) > 3, "times", stamps)
    reply = g.request("HEAD", "/v1/sandbox/a/processes/x/logs?follow=1")
    equal((reply.status, reply.body), (200, b""), "HEAD")


def test_not_followed(g):
    """Without follow the answer ends with what is there now, and says no end."""
    start(g, "a", "echo now; read x; echo later", id="x")
    await_output(g, "a", "x", 4)
    out = read(g, "a", "x")
    equal((out.both, out.exit), (b"now\n", None), "as of now")
    with Log(g, "a", "x", "?follow=true&replay=false") as log:
        g.request("POST", "/v1/sandbox/a/processes/x/stdin?end=1", b"\n")
        out = Output(log, 4)
    equal((out.both, out.exit["exit_code"]), (b"later\n", 0), "only what came")


def test_seam(g):
    """Followers that come at any time get every byte once."""
    count = int(60000 * max(SCALE, 0.2))
    start(g, "a", COUNT.format(count), id="x")
    outputs, errors = {}, []

    def follow(i):
        try:
            time.sleep(i * 0.03)
            outputs[i] = read(g, "a", "x", "?follow=1")
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)
    threads = [threading.Thread(target=follow, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(errors, [], "followers")
    expected = lines(0, count)
    for i, out in outputs.items():
        check(out.stdout == expected, f"follower {i} got {len(out.stdout)} of {len(expected)} bytes")
        equal((out.gap, out.exit["exit_code"]), (0, 0), f"follower {i}")


def test_reconnecting(g):
    """One who is cut off again and again goes on with the last cursor, and misses nothing."""
    count = 20000
    start(g, "a", COUNT.format(count), id="x")
    got, cursor, end = b"", "0", None
    while end is None:
        with Log(g, "a", "x", "?follow=1", Last_Event_ID=cursor) as log:
            for i, (name, data) in enumerate(log):
                cursor = data["cursor"]
                if name == "exit":
                    end = data
                else:
                    got += data["data"]
                if i == 3:
                    break
    check(got == lines(0, count), f"{len(got)} bytes")


def test_utf8(g):
    """No character is cut between two events of one stream."""
    start(g, "a", ["python3", "-c", "import os, time\n"
                   "text = ('aä€😀' * 30000).encode()\n"
                   "for at in range(0, len(text), 1001):\n"
                   "    os.write(1, text[at:at + 1001])\n"
                   "    if at % 7007 == 0: time.sleep(0.005)"], id="x")
    out = read(g, "a", "x", "?follow=1")
    equal(out.stdout.decode(), "aä€😀" * 30000, "text")
    for name, data in out.events:
        if name == "stdout":
            data["data"].decode()
    check(len(out.events) > 5, "all came at once")


def test_rotation(g):
    """Beyond the bound the oldest goes, half of the bound stays, and how much is gone is said."""
    g.request("PUT", "/v1/sandbox/a", {"limits": {"output_bytes": "256K"}})
    count = 200000
    start(g, "a", ["seq", "-f", "line %.0f", "0", str(count - 1)], id="x")
    end = ended(g, "a", "x")
    whole = lines(0, count)
    equal(int(end["log"]["end"]), len(whole), "the end")
    check(len(whole) - int(end["log"]["start"]) >= 128 * 1024, end["log"])
    on_disk = sum(os.path.getsize(f) for f in logs_of(g, "a"))
    check(on_disk <= 256 * 1024, f"{on_disk} bytes on disk")
    out = read(g, "a", "x", "?since=0")
    equal(out.gap, int(end["log"]["start"]), "the gap")
    check(out.stdout == whole[out.gap:], "the rest")
    equal(read(g, "a", "x").gap, 0, "who names no place misses nothing")
    check(raw(g, "a", "x", "?since=1000") == whole[out.gap:], "raw")
    # A slow follower is told, and holds up nobody.
    start(g, "a", "echo begin; read x; yes 0123456789 | head -c 3000000; echo done", id="y")
    with Log(g, "a", "y", "?follow=1") as log:
        events = iter(log)
        next(events)
        g.request("POST", "/v1/sandbox/a/processes/y/stdin?end=1", b"\n")
        ended(g, "a", "y")
        out = Output(events, 6)
    total = 6 + 3000000 + 5
    check(out.gap > 0 and 6 + len(out.both) + out.gap == total, f"{len(out.both)} and {out.gap} of {total}")
    check(out.both.endswith(b"done\n"), "the last of it")


def test_flood(g):
    """[25] Much output that nobody reads holds up no exec, and grows nothing."""
    size = int(1024 * MB * SCALE)
    g.out("a", ["true"])
    with Peak(g.berthd.pid) as peak:
        start(g, "a", f"head -c {size} /dev/zero; echo done", id="x")
        slowest = 0
        while show(g, "a", "x")["state"] == "running":
            begin = time.monotonic()
            g.out("a", ["true"])
            slowest = max(slowest, time.monotonic() - begin)
    end = show(g, "a", "x")
    equal((end["exit_code"], int(end["log"]["end"])), (0, size + 5), end)
    check(slowest < 60, f"an exec took {slowest:.1f} s")
    equal(wait(g, "a", "x", "log", pattern="done$", since=str(size - 3))["log"]["match"], "done", "the last line")
    equal(raw(g, "a", "x", f"?since={size - 3}"), b"\0\0\0done\n", "from an offset")
    if not IS_SANITIZED:
        check(peak.most < 64 * MB, f"berthd held {peak.most} bytes")
    check(sum(os.path.getsize(f) for f in logs_of(g, "a")) <= 32 * MB, "on disk")


def test_paced(g):
    """[42] One that floods its log is read no faster than is fair to others; what is read is whole."""
    start(g, "a", "yes 'a line of a log that nobody reads'", id="x")
    start(g, "a", COUNT.format(20000), id="y")
    await_output(g, "a", "x", MB)
    sizes, begun = [int(show(g, "a", "x")["log"]["end"])], time.monotonic()
    time.sleep(2)
    sizes.append(int(show(g, "a", "x")["log"]["end"]))
    rate = (sizes[1] - sizes[0]) / (time.monotonic() - begun) / MB
    print(f"# {rate:.1f} MB/s of one that floods")
    check(0 < rate < 64, "MB/s", rate)
    ended(g, "a", "y")
    equal(read(g, "a", "y").both, lines(0, 20000), "its neighbour in the same sandbox")
    g.request("DELETE", "/v1/sandbox/a/processes/x")


def test_hundred(g):
    """100 processes, each printing 10 MB: every byte accounted for, berthd under 64 MB."""
    count, size = max(10, int(100 * SCALE)), int(10 * MB * max(SCALE, 0.2))
    program = ("import os, sys\n"
               "block = bytes((i * 7 + int(sys.argv[1])) % 251 for i in range(65521))\n"
               "left = int(sys.argv[2])\n"
               "while left:\n"
               "    left -= os.write(1 + left % 2, block[:left])\n")
    g.put_file("a", "/workspace/print.py", program.encode())
    with Peak(g.berthd.pid) as peak:
        at_once(min(count, 25), lambda i: [start(g, "a", ["python3", "print.py", str(n), str(size)], id=f"n{n}")
                                           for n in range(i, count, min(count, 25))])
        ends = [ended(g, "a", f"n{n}") for n in range(count)]
    equal([(e["exit_code"], int(e["log"]["start"]), int(e["log"]["end"])) for e in ends], [(0, 0, size)] * count, "ends")
    for n in range(count):
        block = bytes((i * 7 + n) % 251 for i in range(65521))
        body = raw(g, "a", f"n{n}")
        check(len(body) == size, f"process {n}: {len(body)} bytes")
        at = 0
        while at < size:  # a write may have been cut short by a full pipe
            step = next((k for k in (65521, size - at) if body[at:at + k] == block[:k]), None)
            if step is None:
                step = max((k for k in range(1, 65521) if body[at:at + k] == block[:k] and
                            (at + k == size or body[at + k] == block[0])), default=0)
            check(step, f"process {n} differs at {at}")
            at += step
    print(f"# {count} processes x {size} bytes: berthd's peak {peak.most / MB:.1f} MB", flush=True)
    if not IS_SANITIZED:
        check(peak.most < 64 * MB, f"berthd held {peak.most} bytes")


def test_killed(g):
    """kill -9 of berthd in the middle of output, again and again: not one byte is missing or twice."""
    count = int(400000 * max(SCALE, 0.3))
    names = ["x", "y", "z"]
    program = ("import sys, os, time\n"
               "for first in range(0, int(sys.argv[1]), 500):\n"
               "    text = ''.join('line %d\\n' % i for i in range(first, first + 500)).encode()\n"
               "    while text: text = text[os.write(1, text):]\n"
               "    if first % 20000 == 0: time.sleep(0.05)\n"
               "os.write(2, b'end')\nsys.exit(7)\n")
    g.put_file("a", "/workspace/print.py", program.encode())
    for name in names:
        start(g, "a", ["python3", "print.py", str(count)], id=name)
    kills, generation = 0, g.sandbox("a")["generation"]
    while kills < 3 or (kills < 12 and show(g, "a", "x")["state"] == "running"):
        time.sleep(0.05 * kills)
        g.kill_berthd()
        g.start()
        kills += 1
    for name in names:
        end = ended(g, "a", name)
        equal((end["exit_code"], end["reason"]), (7, "exited"), end)
        out = read(g, "a", name)
        check(out.stdout == lines(0, count), f"{name}: {len(out.stdout)} bytes after {kills} kills")
        equal((out.stderr, out.gap), (b"end", 0), name)
    equal(g.sandbox("a")["generation"], generation, "generation")


def test_killed_while_away(g):
    """What runs, prints, ends while berthd is away: status and every byte are there when it is back."""
    start(g, "a", "read x; echo $x; sleep 0.3; head -c 50000 /dev/zero; exit 9", id="ends")
    start(g, "a", "echo on; (sleep 0.2; echo late) & exec sleep 1000", id="runs")
    start(g, "a", "cat; echo over", id="cat", timeout_ms=600000)
    await_output(g, "a", "runs", 3)
    g.request("POST", "/v1/sandbox/a/processes/ends/stdin", b"go\n")
    await_output(g, "a", "ends", 3)
    g.kill_berthd()
    time.sleep(0.6)  # they do that while nobody is there: no event can tell us
    g.start()
    end = ended(g, "a", "ends")
    equal((end["exit_code"], end["reason"], raw(g, "a", "ends")), (9, "exited", b"go\n" + bytes(50000)), end)
    await_output(g, "a", "runs", 8)
    equal((raw(g, "a", "runs"), show(g, "a", "runs")["state"]), (b"on\nlate\n", "running"), "what runs")
    equal(g.request("POST", "/v1/sandbox/a/processes/cat/stdin?end=1", b"hello\n").status, 204, "its stdin")
    equal((ended(g, "a", "cat")["exit_code"], raw(g, "a", "cat")), (0, b"hello\nover\n"), "cat")
    g.request("POST", "/v1/sandbox/a/processes/runs/kill", {"signal": 9})
    equal(ended(g, "a", "runs")["signal"], 9, "a signal after adoption")
    start(g, "a", "setsid sleep 1000 & sleep 1000", id="tree")
    g.kill_berthd()
    g.start()
    equal(g.request("DELETE", "/v1/sandbox/a/processes/tree").json()["reason"], "killed", "its tree, after adoption")


def test_lost_while_away(g):
    """The sandbox dies while berthd is away: what ran in it is lost, and said so."""
    start(g, "a", "echo on; sleep 1000", id="x")
    await_output(g, "a", "x", 3)
    init = g.inits()[0]
    g.kill_berthd()
    os.kill(init, 9)
    until(lambda: not any(g.is_sandboxed(p) for p in g.processes()), "the sandbox to end")
    g.start()
    until(lambda: show(g, "a", "x")["state"] == "error", "its end to be told")
    status = show(g, "a", "x")
    equal((status["reason"], status["exit_code"], status["error"]["code"]), ("lost", None, "lost"), status)
    equal(raw(g, "a", "x"), b"on\n", "its output")
    with Log(g, "a", "x", "?follow=1") as log:
        equal([name for name, _ in log], ["stdout", "exit"], "log")


def test_stopped(g):
    """A berthd that is asked to stop leaves processes as they are, too."""
    start(g, "a", "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.01; done", id="x")
    await_output(g, "a", "x", 100)
    with Log(g, "a", "x", "?follow=1") as log:
        got = b""
        try:
            g.berthd.terminate()
            for _, data in log:
                got += data.get("data", b"")
        except (ConnectionError, http.client.IncompleteRead):
            pass
    g.berthd.wait(60)
    g.start()
    await_output(g, "a", "x", 1000)
    g.request("DELETE", "/v1/sandbox/a/processes/x")
    text = raw(g, "a", "x")
    check(text.startswith(got), "what the follower got")
    check(text == lines(0, text.count(b"\n")) or text.startswith(lines(0, text.count(b"\n"))), "no gap")


def test_digest(g):
    """Binary output is byte-exact."""
    program = "import os,hashlib,sys\nb=os.urandom(3000001)\nsys.stderr.write(hashlib.sha256(b).hexdigest())\nos.write(1,b[:7])\nsys.stdout.buffer.write(b[7:])"
    start(g, "a", ["python3", "-c", program], id="x")
    ended(g, "a", "x")
    out = read(g, "a", "x")
    equal(hashlib.sha256(out.stdout).hexdigest(), out.stderr.decode(), "digest")


main([test_cursors, test_not_followed, test_seam, test_reconnecting, test_utf8, test_rotation, test_flood, test_paced,
      test_hundred, test_killed, test_killed_while_away, test_lost_while_away, test_stopped, test_digest])
