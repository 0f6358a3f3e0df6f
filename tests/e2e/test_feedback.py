"""What a program that writes code does: it runs it, reads why it failed, mends it, and goes on in the same context."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "code"))

# pylint: disable=wrong-import-position
from code_api import make, run  # noqa: E402
from ground import check, equal, main  # noqa: E402


def author(lines, error):
    """Stands for the model: all that it gets back is the error's text."""
    missing = re.search(r"name '(\w+)' is not defined", error["message"])
    if missing:
        return [f"import {missing[1]}"] + lines
    missing = re.search(r"(\w+) is not defined", error["message"])
    if missing:
        return [f"const {missing[1]} = await import('node:{missing[1]}');"] + lines
    if error.get("is_syntax"):
        number = error["line"] - 1
        return lines[:number] + [lines[number] + ":"] + lines[number + 1:]
    raise AssertionError(f"nobody knows what to do about {error}")


def solve(g, context, lines, most=5):
    """How many tries it took, and the value."""
    for tries in range(1, most + 1):
        answer = run(g, "\n".join(lines), context=context, timeout_ms=30000)
        equal(answer["reason"], "completed", answer)
        if not answer["error"]:
            return tries, answer["results"][-1]["text"]
        lines = author(lines, answer["error"])
    raise AssertionError("it was never right")


def test_feedback(g):
    """Code that fails is mended by its error's text, and what ran before it in the context is still there."""
    make(g, id="py", language="python")
    run(g, "numbers = list(range(10))", context="py")
    tries, text = solve(g, "py", ["def area(n)", "    return math.floor(n * n * math.pi)", "sum(area(n) for n in numbers)"])
    equal((tries, text), (3, "892"), "Python")
    make(g, id="js", language="javascript")
    run(g, "const words = ['a', 'b']", context="js")
    tries, text = solve(g, "js", ["path.join(...words)"])
    equal((tries, text), (2, "'a/b'"), "JavaScript")


def test_work_goes_on(g):
    """Steps of one task: each uses what the one before it left, failures between them too."""
    check(run(g, "rows = [{'a': i, 'b': i * i} for i in range(5)]")["fresh"], "the first")
    failed = run(g, "total = sum(row['c'] for row in rows)")
    equal((failed["error"]["name"], failed["error"]["line"]), ("KeyError", 1), failed)
    run(g, "total = sum(row['b'] for row in rows)")
    last = run(g, "with open('/workspace/total', 'w') as f: f.write(str(total))\ntotal")
    equal((last["results"][0]["json"], last["fresh"]), (30, False), last)
    equal(g.out("a", "cat /workspace/total"), "30", "its file")


TESTS = [test_feedback, test_work_goes_on]

if __name__ == "__main__":
    main(TESTS)
