"""Runs whose code says too much, or lies: what is told of them has its bounds, and can always be told."""

import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from ground import at_once, check, equal, main, until  # noqa: E402
from run_api import begin, fails, get, messages, run  # noqa: E402

# What the kernel itself reports with, and so a liar.
FORGE = """
import sys
def forge(**what):
    frame = sys._getframe()
    while 'report' not in frame.f_globals:
        frame = frame.f_back
    frame.f_globals['report'](**what)
"""


def test_all_counts(g):
    """Whatever is reported counts as output: what is shown, levels of logs, names and tracebacks of errors."""
    fails(g, "for i in range(40):\n    display('x' * 1000000)\n", "SANDBOX_OUTPUT_LIMIT")
    for what in ("result={'html': 'x' * 100000}", "log={'level': 'x' * 100000, 'message': ''}",
                 "error={'name': 'x' * 100000, 'message': ''}", "error={'name': '', 'message': '', 'traceback': ['x'] * 60000}",
                 "value='x' * 100000"):
        fails(g, FORGE + f"for i in range(40):\n    forge({what})\n", "SANDBOX_OUTPUT_LIMIT", limits={"output_bytes": 1 << 20})
    equal(run(g, "display('x' * 1000000)\n1")["result"], 1, "what is within")


def test_forged_errors(g):
    """However many errors a call reports: one is told, and the end is the true one."""
    lies = FORGE + ("for count, size in ((600, 16000), (100, 2000), (200, 200), (3000, 0)):\n    for i in range(count):\n"
                    "        forge(error={'name': 'Lie', 'message': 'x' * size})\n")
    error = fails(g, lies + "while True:\n    pass\n", "SANDBOX_TIMEOUT", status="timed_out", timeout_ms=20000)
    check("timeout_ms" in error["message"], error)
    error = fails(g, lies + "raise KeyError('true')\n", "CODE_ERROR")
    equal(error["name"], "KeyError", "the last word")
    record = run(g, FORGE + "def main(n):\n    for i in range(100):\n        forge(error={'name': 'Lie', 'message': 'x' * 16000})\n"
                 "    if n == 2:\n        raise KeyError('true')\n    return n\n", tests=[{"input": n, "expected": n} for n in (1, 2, 3)])
    equal([t.get("error", {}).get("name") for t in record["tests"]], ["Lie", "KeyError", "Lie"], str(record)[:3000])


def test_record_fits(g):
    """Every record can be told, however much was asked, returned and logged."""
    for size, expected in ((7500000, "SANDBOX_OUTPUT_LIMIT"), (4000000, None)):
        code = f"for i in range(9000):\n    print('x' * 100)\ndef main(x):\n    return 'a' * {size}\n"
        record = run(g, code, tests=[{"input": "i" * 2500000, "expected": "e" * 3400000}], metadata={"m": "m" * 65000})
        equal(record["error"] and record["error"]["code"], expected, str(record["error"]))
        equal(record["tests"][0].get("error", {}).get("code"), expected, "the test's")
        equal(record["tests"][0]["input"], "i" * 2500000, "its input")
        equal(get(g, record["id"]), record, "as it is stored")
    equal(len(run(g, "'a' * 8000000")["result"]), 8000000, "without tests")
    record = run(g, "def main(x):\n    return 'a' * 100000\n", tests=[{"input": n, "expected": ""} for n in range(100)])
    equal(record["error"]["code"], "SANDBOX_OUTPUT_LIMIT", "all of them together")
    check(sum(t["actual"] is not None for t in record["tests"]) > 50, "those before it")
    # Each of the tests that were not called has the error of the run.
    many = [{"input": n, "expected": n} for n in range(1000)]
    record = run(g, "raise ValueError('\\x01' * 20000)", tests=many)
    equal((record["error"]["code"], len(record["error"]["message"])), ("CODE_ERROR", 16384), "a long error")
    equal({t["error"]["code"] for t in record["tests"]}, {"CODE_ERROR"}, "of all tests")
    record = run(g, "def main(n):\n    raise ValueError('\\x01' * 20000)\n", tests=many, timeout_ms=300000)
    equal((record["status"], record["error"]["code"]), ("failed", "SANDBOX_OUTPUT_LIMIT"), str(record)[:1000])
    equal(record["tests"][0]["error"]["name"], "ValueError", "the first of them")


def test_long_list(g):
    """A page of a list ends where it would be too long, and says how it goes on."""
    made = at_once(90, lambda i: run_of(g, i))
    found, cursor = [], ""
    while cursor is not None:
        page = g.get("/v1/runs?limit=200" + (f"&cursor={cursor}" if cursor else ""))
        equal(page.status, 200, str(page)[:300])
        check(len(page.body) < 16 << 20, len(page.body))
        found += [r["metadata"]["n"] for r in page.json()["runs"]]
        cursor = page.json().get("cursor")
    equal(sorted(found), sorted(made), "all of them, each once")


def run_of(g, n):
    body = {"code": "raise ValueError('\\x01' * 20000)", "language": "python", "metadata": {"n": n, "m": "m" * 65000}}
    reply = g.request("POST", "/v1/runs", body)
    equal((reply.status, reply.json()["error"]["code"]), (200, "CODE_ERROR"), str(reply))
    return n


def test_deep_values(g):
    """What a run can return the command line can read."""
    for depth, status in ((28, "completed"), (31, "failed")):
        code = (f"def main(x):\n    v = 1\n    for i in range({depth}):\n        v = [v]\n    forge(value=v)\n"
                "    forge(is_last=True, done='ok')\n")
        record = run(g, FORGE + code, tests=[{"input": 1, "expected": 1}])
        equal(record["status"], status, str(record))
        r = subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, "runs", "show", record["id"]],
                           capture_output=True, text=True, check=False, timeout=60)
        equal(r.returncode, 0, f"{depth}: {r}")


def test_split_words(g):
    """The last words of V8 count also where they come in two pieces."""
    code = ("const fs = require('fs'); fs.writeSync(2, 'heap out of '); const end = Date.now() + 300;"
            "while (Date.now() < end); fs.writeSync(2, 'memory'); process.abort();")
    error = fails(g, code, "SANDBOX_MEMORY_LIMIT", "javascript")
    check("heap" in error["message"], error)


def test_code_by_field(g):
    """A code is not chosen by words that stand somewhere in a message."""
    fails(g, "raise ValueError('oops: 5 bytes are more than can be told')", "CODE_ERROR")
    fails(g, FORGE + "def main():\n    forge(error={'name': 'E', 'message': 'm', 'too_long': True})\n    forge(is_last=True, done='error')\n",
          "SANDBOX_OUTPUT_LIMIT")


def cpu_ticks(pid):
    """Of each thread."""
    ticks = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8") as file:
            ticks[int(thread)] = int(file.read().rsplit(")", 1)[1].split()[11])
    return ticks


def test_long_verdicts(g):
    """Objects of hundreds of thousands of names are compared beside the loop; who cancels the run does not wait for it."""
    names = [f"{i * 7919 % 1000003:06}" for i in range(200000)]
    code = "print('begun')\ndef main(last):\n    return {f'{i * 7919 % 1000003:06}': 0 for i in range(200000)}\n"
    expected = dict.fromkeys(reversed(names), 0)
    before = cpu_ticks(g.berthd.pid)
    record = run(g, code, tests=[{"input": 0, "expected": expected}], timeout_ms=120000)
    equal((record["status"], [t["passed"] for t in record["tests"]]), ("completed", [True]), str(record["error"]))
    spent = {thread: ticks - before.get(thread, 0) for thread, ticks in cpu_ticks(g.berthd.pid).items()}
    check(max(ticks for thread, ticks in spent.items() if thread != g.berthd.pid) >= 10, "all in one thread", spent)
    record = run(g, code, tests=[{"input": 0, "expected": {**expected, names[0]: 1}}], timeout_ms=120000)
    equal([(t["passed"], t.get("error")) for t in record["tests"]], [(False, None)], str(record["error"]))
    for delay in (0.2, 0.5, 0.8):
        record = begin(g, code, tests=[{"input": 0, "expected": expected}] * 2, timeout_ms=120000)
        until(lambda record=record: messages(get(g, record["id"])), "its first words")
        time.sleep(delay)
        end = g.request("DELETE", f"/v1/runs/{record['id']}").json()
        check(end["status"] in ("cancelled", "completed") and all(t["passed"] or t["error"]["code"] == "cancelled" for t in end["tests"]),
              end["status"], [(t["passed"], t.get("error")) for t in end["tests"]])


if __name__ == "__main__":
    main([test_all_counts, test_forged_errors, test_record_fits, test_long_list,
          test_long_verdicts, test_deep_values, test_split_words, test_code_by_field])
