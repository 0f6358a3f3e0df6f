"""What the tests of runs ask for."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))

# pylint: disable=wrong-import-position
from ground import check, equal, until  # noqa: E402

KEYS = {"id", "task_id", "status", "language", "result", "logs", "logs_dropped", "truncated", "error", "tests", "metrics",
        "timeout_ms", "metadata", "sandbox", "pooled", "trust", "created_at", "started_at", "ended_at"}


def post(g, code, language="python", **options):
    headers = {k: options.pop(k) for k in ("Idempotency_Key",) if k in options}
    return g.request("POST", "/v1/runs", {"code": code, "language": language, **options}, **headers)


def run(g, code, language="python", **options):
    """The record of a whole run, of which nothing is left."""
    reply = post(g, code, language, **options)
    equal(reply.status, 200, f"{code[:200]!r}: {reply}")
    record = reply.json()
    equal(set(record), KEYS, "fields of a record")
    until(lambda: record["sandbox"] not in [s["id"] for s in g.list_all()], "its sandbox to go")
    return record


def value(g, code, language="python", **options):
    """Its result; it must not fail."""
    record = run(g, code, language, **options)
    equal((record["status"], record["error"]), ("completed", None), f"{code[:200]!r}: {record}")
    return record["result"]


def fails(g, code, error, language="python", status="failed", **options):
    """The error, which must have this code."""
    record = run(g, code, language, **options)
    check(record["error"], f"{code[:200]!r} did not fail: {record}")
    equal((record["status"], record["error"]["code"]), (status, error), f"{code[:200]!r}: {str(record)[:3000]}")
    return record["error"]


def begin(g, code, language="python", **options):
    reply = post(g, code, language, **{"async": True}, **options)
    equal(reply.status, 202, f"async: {reply}")
    return reply.json()


def get(g, run_id, status=200):
    reply = g.get(f"/v1/runs/{run_id}")
    equal(reply.status, status, f"GET {run_id}: {reply}")
    return reply.json()


def wait(g, run_id, status=200, **body):
    reply = g.request("POST", f"/v1/runs/{run_id}/wait", body)
    equal(reply.status, status, f"wait {run_id}: {reply}")
    return reply.json()


def messages(record, level=None):
    return [entry["message"] for entry in record["logs"] if level in (None, entry["level"])]
