"""Runs whose end the store does not take: whoever asks is told what came of them, and it is stored when that can be.

usage: test_runs.py BUILD MODE RUNTIME LIBRARY [CASE...]
"""

import errno
import json
import os
import sqlite3
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.abspath(sys.argv.pop(4))
sys.path[:0] = [os.path.join(HERE, "..", "code"), os.path.join(HERE, "..", "sandbox")]

# pylint: disable=wrong-import-position
import faults as f  # noqa: E402
from ground import check, equal, main, until  # noqa: E402
from run_api import begin, get, messages, post, run, wait  # noqa: E402

LOG = "state.db-wal"
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(2)\n7"
TESTS = [{"input": n, "expected": n} for n in (1, 2)]


def start(g):
    """With the library; nothing fails yet."""
    faults = f.Faults(LIBRARY, g.path("faults"), "berthd")
    g.start(env=faults.env)
    return faults


def begun(g, code=SLOW, **options):
    record = begin(g, code, **options)
    until(lambda: messages(get(g, record["id"])), "its first words")
    until(lambda: [s["id"] for s in g.list_all()] == [record["id"]], "those before it to go")
    time.sleep(0.5)  # what is to be told of them is stored
    return record["id"]


def followed(g, run_id):
    """The status that the events of its logs end with."""
    text = g.get(f"/v1/runs/{run_id}/logs?follow=1").body.decode()
    return json.loads(text.split("event: done\ndata: ")[1].split("\n")[0])["status"]


def listed(g, query=""):
    return {r["id"]: r["status"] for r in g.get(f"/v1/runs?{query}").json()["runs"]}


def in_store(g, run_id):
    with sqlite3.connect(f"file:{g.state}/berthd/state.db?mode=ro", uri=True) as db:
        status = db.execute("SELECT status FROM run WHERE id = ?", (run_id,)).fetchone()[0]
    db.close()
    return status


def short(record):
    return {k: record[k] for k in ("status", "result", "logs", "tests", "truncated")}


def test_short(g):
    """There is no room for all of it: its status and its metrics are stored, and that there was more."""
    faults = start(g)
    run_id = begun(g, "import time\nprint('begun', flush=True)\ntime.sleep(2)\ndef main(n):\n    return n\n", tests=TESTS,
                   metadata={"a": 1}, task_id="t")
    faults.arm(f.WRITE, 1, LOG, errno.ENOSPC)
    end = wait(g, run_id, timeout_ms=60000)
    equal(faults.disarm()[1], 1, "writes that failed")
    equal((end["status"], end["result"], [t["passed"] for t in end["tests"]]), ("completed", 2, [True, True]), str(end))
    equal(end["truncated"], False, "as it was told")
    now = get(g, run_id)
    equal(short(now), {"status": "completed", "result": None, "logs": [], "tests": [], "truncated": True}, "what is stored")
    equal({k: now[k] for k in ("metrics", "ended_at", "metadata", "task_id", "error")},
          {k: end[k] for k in ("metrics", "ended_at", "metadata", "task_id", "error")}, "the rest of it")
    logs = g.get(f"/v1/runs/{run_id}/logs").json()
    equal((logs["logs"], logs["truncated"]), ([], True), "its logs")
    equal(run(g, "8")["result"], 8, "the next run")


def test_short_error(g):
    """Its error is kept, and of one that is long its code."""
    faults = start(g)
    for length, message in ((10, "x" * 10), (16384, "more of it could not be stored")):
        run_id = begun(g, f"import time\nprint('begun', flush=True)\ntime.sleep(2)\nraise ValueError('x' * {length})")
        faults.arm(f.WRITE, 1, LOG, errno.ENOSPC)
        equal(wait(g, run_id, timeout_ms=60000)["error"]["message"][:10], "x" * 10, "as it was told")
        equal(faults.disarm()[1], 1, "writes that failed")
        now = get(g, run_id)
        equal((now["status"], now["error"]["code"], now["error"]["message"], now["truncated"]),
              ("failed", "CODE_ERROR", message, True), str(now)[:500])


def test_unsaved(g):
    """Nothing can be stored: it is over all the same, and is stored when that can be."""
    faults = start(g)
    for error in (errno.ENOSPC, errno.EIO):
        run_id = begun(g)
        faults.arm(f.WRITE, 1, LOG, error, is_lasting=True)
        end = wait(g, run_id, timeout_ms=60000)
        equal((end["status"], end["result"], messages(end)), ("completed", 7, ["begun"]), str(end))
        equal(in_store(g, run_id), "running", "what is stored")
        now = get(g, run_id)
        equal(short(now), {"status": "completed", "result": None, "logs": [], "tests": [], "truncated": True}, "looked at")
        equal((now["metrics"], now["ended_at"]), (end["metrics"], end["ended_at"]), "the rest of it")
        equal(short(wait(g, run_id)), short(now), "waited for")
        equal(followed(g, run_id), "completed", "followed")
        equal((listed(g)[run_id], run_id in listed(g, "status=running")), ("completed", False), "listed")
        equal(post(g, "1").status >= 500, True, "another cannot begin")
        check(faults.disarm()[1] > 1, "writes that failed")
        until(lambda run_id=run_id: in_store(g, run_id) == "completed", "it to be stored")
        equal(get(g, run_id), now, "as it is stored")
    g.kill_berthd()
    g.start()
    equal(get(g, run_id), now, "after a restart")
    until(lambda: not g.list_all(), "the sandboxes to go")


def test_key(g):
    """A run that could not be begun can be tried again with its key."""
    faults = start(g)
    for is_async in (False, True):
        options = {"async": is_async, "Idempotency_Key": f"k{is_async}"}
        faults.arm(f.WRITE, 1, LOG, errno.ENOSPC, is_lasting=True)
        equal(post(g, "7", **options).status, 507, "on a full disk")
        check(faults.disarm()[1], "nothing failed")
        reply = post(g, "7", **options)
        equal(reply.status, 202 if is_async else 200, f"once more: {reply}")
        equal(wait(g, reply.json()["id"], timeout_ms=60000)["result"], 7, "its end")


def test_unknown(g):
    """A record that is not over, of which nobody knows: the run is lost."""
    start(g)
    record = run(g, "1")
    with sqlite3.connect(os.path.join(g.state, "berthd", "state.db")) as db:
        db.execute("UPDATE run SET status = 'running', ended_at_ms = 0 WHERE id = ?", (record["id"],))
    db.close()
    for now in (get(g, record["id"]), wait(g, record["id"])):
        equal((now["status"], now["error"]["code"]), ("lost", "lost"), str(now))
    equal(followed(g, record["id"]), "lost", "followed")
    equal((listed(g)[record["id"]], listed(g, "status=running")), ("lost", {}), "listed")


if __name__ == "__main__":
    main([test_short, test_short_error, test_unsaved, test_key, test_unknown], start=lambda test: False)
