"""Contexts and runs: what is refused, and whether sentences are true."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
import code_api  # noqa: E402
from ground import check, equal, main  # noqa: E402
from run_api import begin, fails, get, post, value, wait  # noqa: E402

SLEEP = "print('on', flush=True)\nimport time\ntime.sleep(600)"


def test_bash_tests(g):
    """Bash has no result: tests of one are refused, and an input is not."""
    reply = post(g, "echo 1", "bash", tests=[{"input": 1, "expected": "1"}])
    equal((reply.status, reply.json()["code"]), (400, "invalid_request"), str(reply))
    check("bash has no result" in reply.json()["error"], reply)
    equal(value(g, "echo $INPUT", "bash", input=7), None)


def test_output_sentences(g):
    """Which limit it was that is exceeded."""
    error = fails(g, "'x' * 10000000", "SANDBOX_OUTPUT_LIMIT")
    equal(error["message"], "the code has returned more than 8388608 bytes")
    for limits, size in (({}, 16 << 20), ({"output_bytes": "1M"}, 1 << 20)):
        error = fails(g, "while True: print('x' * 10000)", "SANDBOX_OUTPUT_LIMIT", limits=limits)
        equal(error["message"], f"the code has said more than {size} bytes, its limits.output_bytes, with all it prints, logs, shows and returns")


def test_memory_sentences(g):
    """How much memory was allowed."""
    if not g.has_cgroups:
        return
    for language, code in (("python", "x = bytearray(512 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1"),
                           ("javascript", "const all = []; for (;;) all.push(new Array(1000).fill(all.length + 0.5));")):
        error = fails(g, code, "SANDBOX_MEMORY_LIMIT", language, limits={"memory": "128M"}, timeout_ms=120000)
        check("limits.memory" in error["message"] and ", 134217728 bytes" in error["message"], error)


def end_of(events):
    return [data for name, data in events if name == "done"][-1]


def test_ended_from_outside(g):
    """A call whose context or sandbox is taken away is told by whom."""
    for what, sentence in (("context", "the context was deleted meanwhile"), ("stop", "the sandbox was stopped meanwhile: the next call starts it, "
                                                                              "with a fresh interpreter"),
                           ("sandbox", "the sandbox was deleted meanwhile")):
        code_api.make(g, id="c", language="python")
        events = code_api.begin(g, SLEEP, context="c")
        equal(next(events)[0], "stdout")
        if what == "context":
            code_api.delete(g, "c")
        elif what == "stop":
            equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200)
        else:
            equal(g.request("DELETE", "/v1/sandbox/a").status, 204)
        end = end_of(events)
        equal((end["reason"], end.get("message")), ("killed", sentence), end)
        if what == "stop":
            code_api.delete(g, "c")


def test_timeouts(g):
    """0 is none, in runs as in contexts and commands; the same range for all."""
    for path, body in (("/v1/runs", {"code": "1", "language": "python"}), ("/v1/sandbox/a/code", {"code": "1"}),
                       ("/v1/sandbox/a/exec", {"argv": ["true"]})):
        for timeout, status in ((0, 200), (10 ** 12, 200), (3162240000000, 200), (3162240000001, 400)):
            reply = g.request("POST", path, {**body, "timeout_ms": timeout}, Accept="application/json")
            equal(reply.status, status, (path, timeout, reply))
        equal(reply.json()["error"], "timeout_ms must be from 1 to 3162240000000, or 0 for none", path)
    record = begin(g, SLEEP, timeout_ms=0)
    equal(wait(g, record["id"], status=504, timeout_ms=1500)["code"], "timeout", "it goes on")
    equal((get(g, record["id"])["timeout_ms"], g.request("DELETE", f"/v1/runs/{record['id']}").json()["status"]), (0, "cancelled"))
    equal(wait(g, record["id"], timeout_ms=0)["status"], "cancelled")


if __name__ == "__main__":
    main([test_bash_tests, test_output_sentences, test_memory_sentences, test_ended_from_outside, test_timeouts])
