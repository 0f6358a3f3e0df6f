"""What the interpreters of contexts and runs promise to whoever writes code for them."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
import run_api  # noqa: E402
from ground import check, equal, main  # noqa: E402


def test_env(g):
    """It is an argument where it is given or needed, and nowhere else."""
    python = [
        ("def main(n, base=10):\n    return n * base\n", {"input": 5}, 50),
        ("def main(n, base=10):\n    return base\n", {"input": 5, "env": {"A": "x"}}, {"A": "x"}),
        ("def main(n, base=10):\n    return base\n", {"input": 5, "env": {}}, {}),
        ("def main(*n):\n    return sum(n)\n", {"input": [1, 2]}, 3),
        ("def main(n, env):\n    return [n, env]\n", {"input": 5}, [5, {}]),
        ("def main(env):\n    return env\n", {}, {}),
        ("def main(env=7):\n    return env\n", {}, 7),
        ("def main(n, *, env=7):\n    return env\n", {"input": 1}, 7),
        ("def main(n, *, env):\n    return env\n", {"input": 1}, {}),
        ("def main(n, *, env=7):\n    return env\n", {"input": 1, "env": {"A": "x"}}, {"A": "x"}),
        ("def main(n):\n    return n\n", {"input": 1, "env": {"A": "x"}}, 1),
        ("import functools\n@functools.cache\ndef main(n, base=10):\n    return n * base\n", {"input": 5}, 50),
        ("import functools\ndef most(f):\n    @functools.wraps(f)\n    def g(*a):\n        return f(*a)\n    return g\n"
         "@most\ndef main(n, env):\n    return [n, env]\n", {"input": 5}, [5, {}]),
        ("class Main:\n    def __call__(self, n, env):\n        return [n, env]\nmain = Main()\n", {"input": 5}, [5, {}]),
        ("def fetch(request, env=None):\n    return env\n", {"request": {"url": "/"}}, {}),
    ]
    javascript = [
        ("module.exports = (n, base = 10) => n * base", {"input": 5}, 50),
        ("module.exports = (n, base = 10) => base", {"input": 5, "env": {}}, {}),
        ("module.exports = (...n) => n.reduce((a, b) => a + b)", {"input": [1, 2]}, 3),
        ("module.exports = (n, env) => [n, env]", {"input": 5}, [5, {}]),
        ("module.exports = (env) => env", {}, {}),
        ("module.exports = (...all) => all", {}, []),
        ("module.exports = (...all) => all", {"env": {"A": "x"}}, [{"A": "x"}]),
        ("export default {fetch(request, env = 7, ctx = 8) { return Response.json([env, typeof ctx]); }}",
         {"request": {"url": "/"}}, '[{},"object"]'),
    ]
    for language, cases in (("python", python), ("javascript", javascript)):
        for code, options, expected in cases:
            got = run_api.value(g, code, language, **options)
            equal(got["body"] if "Response" in code else got, expected, f"{code} with {options}")
    record = run_api.run(g, python[0][0], tests=[{"input": 5, "expected": 50}, {"input": [2, 3], "expected": 6}])
    check(all(t["passed"] for t in record["tests"]), record["tests"])


if __name__ == "__main__":
    main([test_env])
