"""Runs whose code says too much, or lies: what is told of them has its bounds, and can always be told."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from ground import check, equal, main  # noqa: E402
from run_api import fails, get, run  # noqa: E402

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


if __name__ == "__main__":
    main([test_all_counts, test_forged_errors])
