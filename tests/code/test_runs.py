"""Runs: what code is called with and gives back, verdicts, errors with their causes."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from greed import greedy  # noqa: E402
from ground import check, equal, main  # noqa: E402
from run_api import fails, get, messages, post, run, value  # noqa: E402

FIBONACCI = {
    "python": "def main(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n",
    "javascript": "module.exports = (n) => { let [a, b] = [0, 1]; while (n-- > 0) [a, b] = [b, a + b]; return a; };\n",
    "typescript": "export default function fib(n: number): number { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n",
}


def test_values(g):
    """The last value, and what functions return."""
    equal(value(g, "6 * 7"), 42, "python's last value")
    equal(value(g, "x = {'a': [1, None, 'é']}\nx"), {"a": [1, None, "é"]}, "a dict")
    equal(value(g, "6 * 7", "javascript"), 42, "javascript's last value")
    equal(value(g, "let x: number = 6; x * 7", "typescript"), 42, "typescript's last value")
    equal(value(g, "x = 1"), None, "nothing")
    equal(value(g, "module.exports = () => ({a: [1, null]})", "javascript"), {"a": [1, None]}, "module.exports")
    equal(value(g, "export default async () => 'later'", "javascript"), "later", "export default")
    equal(value(g, "def main():\n    return 'called'\n"), "called", "main")
    record = run(g, "echo $((6 * 7))", "bash")
    equal((record["status"], messages(record, "stdout")), ("completed", ["42"]), "bash")


def test_arguments(g):
    """Input comes first, an array spread; env is last, and a global."""
    equal(value(g, "module.exports = (...all) => all", "javascript", input=[1, "b"], env={"A": "x"}),
          [1, "b", {"A": "x"}], "an array, javascript")
    equal(value(g, "module.exports = (...all) => all", "javascript", input={"k": 1}, env={"A": "x"}),
          [{"k": 1}, {"A": "x"}], "an object, javascript")
    equal(value(g, "module.exports = (...all) => all", "javascript", env={"A": "x"}), [{"A": "x"}], "env alone")
    equal(value(g, "def main(*all):\n    return all\n", input=[1, [2]], env={"A": "x"}), [1, [2], {"A": "x"}],
          "an array, python")
    equal(value(g, "def main(a, b):\n    return a - b\n", input=[5, 3]), 2, "without a parameter for env")
    equal(value(g, "env['A']", env={"A": "x"}), "x", "env as a global of python")
    equal(value(g, "env.A", "javascript", env={"A": "x"}), "x", "env as a global of javascript")
    equal(value(g, "def main(x):\n    return x\n", input=None), None, "null as the input")
    equal(messages(run(g, "def main():\n    print('hello')\n\nmain()\n")), ["hello"], "a script calls its main by itself")
    for language, code, name in (("python", "main = 5", "LookupError"), ("javascript", "exports.add = (a) => a", "Error")):
        error = fails(g, code, "CODE_ERROR", language, input=1)
        equal((error["name"], "the input was given to nothing" in error["message"].lower()), (name, True), str(error))
        record = run(g, code, language, tests=[{"input": 1, "expected": 5}])
        equal((record["tests"][0]["passed"], record["tests"][0]["error"]["name"]), (False, name), str(record))
    big = list(range(20000))
    equal(value(g, "def main(x):\n    return len(x)\n", input=[big]), 20000, "a large input")


def test_handler(g):
    """An edge handler gets a Request and gives a Response."""
    code = """export default {
  async fetch(request, env, ctx) {
    const body = await request.text();
    return new Response(JSON.stringify({method: request.method, url: request.url, body, a: env.A,
                                        h: request.headers.get('x-h')}),
                        {status: 201, headers: {'content-type': 'application/json', 'x-y': 'z'}});
  },
};"""
    answer = value(g, code, "javascript", env={"A": "x"}, request={
        "method": "POST", "url": "https://example.com/p?q=1", "headers": {"X-H": "1"}, "body": "hello"})
    equal(answer["status"], 201, f"status of {answer}")
    headers = {name.lower(): text for name, text in dict(answer["headers"]).items()}
    equal((headers["content-type"], headers["x-y"]), ("application/json", "z"), f"headers of {answer}")
    equal(json.loads(answer["body"]), {"method": "POST", "url": "https://example.com/p?q=1", "body": "hello",
                                       "a": "x", "h": "1"}, "the body")


def test_verdicts(g):
    """Inputs go in one by one; verdicts are made outside."""
    tests = [{"input": 10, "expected": 55}, {"input": 1, "expected": 1.0}, {"input": 7, "expected": 14}]
    for language, code in FIBONACCI.items():
        record = run(g, code, language, tests=tests)
        equal(record["status"], "completed", str(record))
        equal([(t["actual"], t["passed"], "error" in t) for t in record["tests"]],
              [(55, True, False), (1, True, False), (13, False, False)], f"verdicts of {language}")
        equal([(t["input"], t["expected"]) for t in record["tests"]], [(10, 55), (1, 1), (7, 14)], "as given")
        equal(record["result"], 13, "the last value")
    code = "def main(x):\n    if x == 2:\n        raise ValueError('two')\n    return {'b': x, 'a': [x]}\n"
    record = run(g, code, tests=[{"input": n, "expected": {"a": [n], "b": n}} for n in (1, 2, 3)])
    equal([t["passed"] for t in record["tests"]], [True, False, True], str(record))
    equal(record["tests"][1]["error"]["code"], "CODE_ERROR", "an error is that test's")
    equal(record["tests"][1]["error"]["name"], "ValueError", "its name")
    record = run(g, "import os\ndef main(x):\n    if x == 2:\n        os._exit(3)\n    return x\n",
                 tests=[{"input": n, "expected": n} for n in (1, 2, 3)])
    equal((record["status"], [t["passed"] for t in record["tests"]]), ("failed", [True, False, False]), str(record))
    equal([t.get("error", {}).get("code") for t in record["tests"]], [None, "CODE_ERROR", "CODE_ERROR"], str(record))


def test_expected_stays_outside(g):
    """Nothing in the sandbox holds what is expected."""
    secret = "expected-7f3a91c4"
    code = """
import glob
one, two = b'expected-7f', b'3a91c4'  # together they would be found here
def is_in(data):
    at = data.find(one)
    while at >= 0:
        if data[at + len(one):at + len(one) + len(two)] == two:
            return True
        at = data.find(one, at + 1)
    return False
def main(x):
    found = []
    for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/workspace/**', recursive=True):
        try:
            with open(path, 'rb') as f:
                if is_in(f.read()):
                    found.append(path)
        except OSError:
            pass
    for line in open('/proc/self/maps'):
        a, b = (int(n, 16) for n in line.split()[0].split('-'))
        if 'r' not in line.split()[1] or '[v' in line:
            continue
        try:
            with open('/proc/self/mem', 'rb', 0) as f:
                f.seek(a)
                if is_in(f.read(b - a)):
                    found.append(line)
        except (OSError, ValueError, OverflowError):
            pass
    return found
"""
    equal(value(g, code, input=1), [], "what is not there is not found")
    check(value(g, code, input=secret) != [], "what is there is found")
    record = run(g, code, tests=[{"input": 1, "expected": secret}])
    equal((record["status"], record["tests"][0]["passed"]), ("completed", False), str(record))
    check(len(record["tests"][0]["actual"]) == 0, record["tests"][0])


def test_hostile_verdicts(g):
    """Code that replaces what the kernel uses gets no other verdict."""
    tests = [{"input": 2, "expected": 4}, {"input": 3, "expected": 6}]
    liars = [
        "const real = JSON.stringify; JSON.stringify = () => '\"yes\"'; JSON.parse = () => 6;"
        "console.log = console.error = () => { throw 1; }; module.exports = (x) => x * 2;",
        "process.stdout.write = () => { throw 1; }; process.stderr.write = () => true; globalThis.JSON = null;"
        "module.exports = (x) => x * 2;",
        "Object.defineProperty(Object.prototype, 'toJSON', {value() { return 1; }}); module.exports = (x) => x * 2;",
        "Array.prototype.push = Array.prototype.join = () => { throw 1; }; Promise.prototype.then = null;"
        "module.exports = (x) => x * 2;",
    ]
    for code in liars:
        record = run(g, code, "javascript", tests=tests)
        check(record["status"] == "completed" and all(t["passed"] for t in record["tests"]), code, record)
        wrong = run(g, code.replace("x * 2", "x * 3"), "javascript", tests=tests)
        check(not any(t["passed"] for t in wrong["tests"]), "a wrong answer passes", code, wrong)
    liars = [
        "import sys, json\nsys.stdout = sys.stderr = None\njson.dumps = lambda *a, **k: '4'\n"
        "def main(x):\n    return x * 2\n",
        "import builtins, os\nos.write = lambda *a: 0\nbuiltins.print = builtins.len = None\n"
        "def main(x):\n    return x * 2\n",
    ]
    for code in liars:
        record = run(g, code, "python", tests=tests)
        check(record["status"] == "completed" and all(t["passed"] for t in record["tests"]), code, record)
        wrong = run(g, code.replace("x * 2", "x * 3"), "python", tests=tests)
        check(not any(t["passed"] for t in wrong["tests"]), "a wrong answer passes", code, wrong)


def test_errors(g):
    """Syntax errors and exceptions, with their position."""
    error = fails(g, "x = 1\ny = (2\n", "CODE_ERROR")
    equal((error["name"], error["position"]["line"]), ("SyntaxError", 2), str(error))
    error = fails(g, "const a = 1;\nconst b = = 2;\n", "CODE_ERROR", "javascript")
    equal((error["name"], error["position"]["line"]), ("SyntaxError", 2), str(error))
    error = fails(g, "if true; then\necho a\n", "CODE_ERROR", "bash")
    equal(error["name"], "SyntaxError", str(error))
    error = fails(g, "def main():\n    return [][1]\n", "CODE_ERROR")
    equal((error["name"], error["position"]["line"]), ("IndexError", 2), str(error))
    check("main" in error["stack"], error)
    error = fails(g, "module.exports = () => {\n  throw new TypeError('no');\n};", "CODE_ERROR", "javascript")
    equal((error["name"], error["message"], error["position"]["line"]), ("TypeError", "no", 2), str(error))
    record = run(g, "print('never')\nx = (\n")
    equal(messages(record), [], "nothing runs before the check")
    error = fails(g, "import os\nos._exit(3)\n", "CODE_ERROR")
    check("ended its process" in error["message"], error)


def test_interrupts_itself(g):
    """Code that interrupts itself has failed: nobody has cancelled it, and its other tests are called."""
    for language, code, name in (("python", "import os\nos.kill(os.getpid(), 2)\n1", "KeyboardInterrupt"),
                                 ("javascript", "process.kill(process.pid, 'SIGINT'); await new Promise(r => setTimeout(r, 60000))",
                                  "Interrupted"), ("bash", "kill -INT $$; sleep 1", "ExitStatus")):
        equal(fails(g, code, "CODE_ERROR", language)["name"], name, language)
    record = run(g, "import os\ndef main(n):\n    if n == 1:\n        os.kill(os.getpid(), 2)\n    return n\n",
                 tests=[{"input": n, "expected": n} for n in (0, 1, 2)])
    equal((record["status"], record["error"], [t["passed"] for t in record["tests"]]), ("completed", None, [True, False, True]),
          str(record))
    equal(record["tests"][1]["error"]["name"], "KeyboardInterrupt", str(record))


def test_logs(g):
    """The console by level, and what is printed by line."""
    code = "console.log('a', 1); console.warn('w'); console.error('e'); console.debug('d'); console.info('i');" \
           "process.stdout.write('out\\npart'); process.stderr.write('err\\n'); module.exports = () => 1;"
    record = run(g, code, "javascript")
    equal(messages(record, "warn"), ["w"], str(record["logs"]))
    equal(messages(record, "error"), ["e"], str(record["logs"]))
    check("a 1" in messages(record), record["logs"])
    equal((messages(record, "stdout"), messages(record, "stderr")), (["out", "part"], ["err"]), str(record["logs"]))
    check(all(entry["timestamp"].endswith("Z") for entry in record["logs"]), record["logs"])
    record = run(g, "import logging, sys\nlogging.warning('careful')\nprint('é')\nsys.stderr.write('x')\n")
    check("careful" in " ".join(messages(record)), record["logs"])
    equal(messages(record, "stdout"), ["é"], str(record["logs"]))
    logs = g.get(f"/v1/runs/{record['id']}/logs").json()
    equal((logs["logs"], logs["status"]), (record["logs"], "completed"), "its logs alone")
    record = run(g, "for i in range(30000):\n    print('0123456789' * 10)\n")
    equal(record["status"], "completed", str(record["error"]))
    check(record["logs_dropped"] > 10000 and len(json.dumps(record["logs"])) < 1.3 * (1 << 20), record["logs_dropped"])


def test_limits(g):
    """Each limit by its own name."""
    error = fails(g, "while True:\n    pass\n", "SANDBOX_TIMEOUT", status="timed_out", timeout_ms=700)
    check("700 ms" in error["message"], error)
    fails(g, "import time\ntry:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    pass\n1", "SANDBOX_TIMEOUT", status="timed_out", timeout_ms=700)
    fails(g, "for (;;);", "SANDBOX_TIMEOUT", "javascript", status="timed_out", timeout_ms=700)
    fails(g, "module.exports = () => new Promise(() => setInterval(() => {}, 50))", "SANDBOX_TIMEOUT", "javascript",
          status="timed_out", timeout_ms=700)
    record = run(g, "import time\ndef main(x):\n    time.sleep(x)\n    return x\n", timeout_ms=1200,
                 tests=[{"input": x, "expected": x} for x in (0.01, 30, 0.01)])
    equal((record["status"], [t["passed"] for t in record["tests"]]), ("timed_out", [True, False, False]), str(record))
    equal(record["tests"][2]["error"]["code"], "SANDBOX_TIMEOUT", str(record))
    fails(g, "while True:\n    print('x' * 10000)\n", "SANDBOX_OUTPUT_LIMIT", limits={"output_bytes": 1 << 20})
    fails(g, "for (;;) console.log('');", "SANDBOX_OUTPUT_LIMIT", "javascript", limits={"output_bytes": 1 << 20})
    fails(g, "'x' * (30 << 20)", "SANDBOX_OUTPUT_LIMIT")
    fails(g, "'x' * (10 << 20)", "SANDBOX_OUTPUT_LIMIT")
    fails(g, "'x'.repeat(30 << 20)", "SANDBOX_OUTPUT_LIMIT", "javascript", trust="medium")
    fails(g, "f = open('/workspace/f', 'wb')\nwhile True:\n    f.write(b'x' * 65536)\n", "SANDBOX_DISK_LIMIT",
          limits={"disk": "8M"})
    fails(g, "const fs = require('fs'); const f = fs.openSync('/workspace/f', 'w');"
             "for (;;) fs.writeSync(f, Buffer.alloc(65536));", "SANDBOX_DISK_LIMIT", "javascript", limits={"disk": "8M"})
    error = fails(g, "raise OSError(28, 'No space left on device')", "CODE_ERROR")
    equal(error["name"], "OSError", "an error that only says so")


def test_memory(g):
    """What the kernel of the machine has killed for want of memory."""
    if not g.has_cgroups:
        reply = post(g, "1", limits={"memory": "64M"}).json()
        equal((reply["status"], reply["error"]["code"]), ("failed", "unsupported"), str(reply))
        return
    for language, code in greedy():
        error = fails(g, code, "SANDBOX_MEMORY_LIMIT", language, limits={"memory": "192M"}, timeout_ms=120000)
        check("memory" in error["message"], error)
    greed = "if ((INPUT == 2)); then all=x; while :; do all=$all$all; done; fi"
    equal(run(g, greed, "bash", limits={"memory": "64M"}, input=1)["status"], "completed")
    error = fails(g, greed, "SANDBOX_MEMORY_LIMIT", "bash", limits={"memory": "64M"}, input=2, timeout_ms=120000)
    check("67108864 bytes" in error["message"], error)
    equal(fails(g, "exit 137", "CODE_ERROR", "bash")["message"], "exit status 137", "whoever says so itself")
    equal(fails(g, "bytearray(1 << 60)", "CODE_ERROR")["name"], "MemoryError", "what Python itself refuses")
    fails(g, "while True:\n    pass\n", "SANDBOX_CPU_LIMIT", limits={"cpu_time_ms": 600})
    used = g.get("/v1/runs?limit=1").json()["runs"][0]["metrics"]["cpu_ms"]
    check(600 <= used < 5000, "what ended it is known", used)


def test_network(g):
    """There is none, and that is told."""
    fails(g, "module.exports = () => fetch('http://192.0.2.1/')", "SANDBOX_NETWORK_BLOCKED", "javascript")
    fails(g, "module.exports = () => fetch('https://example.com/')", "SANDBOX_NETWORK_BLOCKED", "javascript")
    fails(g, "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/')", "SANDBOX_NETWORK_BLOCKED")
    record = run(g, "1")
    equal((record["metrics"]["network_requests"], record["metrics"]["network_bytes"]), (0, 0), "metrics")


def test_sandbox(g):
    """Its own and fresh: nothing of one run is there in the next."""
    value(g, "open('/workspace/mark', 'w').write('x')")
    equal(value(g, "import os\nos.listdir('/workspace')"), [], "a fresh disk")
    names = value(g, "require('fs').readdirSync('/')", "javascript")
    check("workspace" in names and "proc" in names, names)
    check(not os.path.exists("/workspace/mark"), "it is on the host")
    one, two = run(g, "1"), run(g, "1")
    check(one["sandbox"].startswith("run-") and len(one["sandbox"]) == 30 and one["sandbox"] != two["sandbox"], one)
    metrics = one["metrics"]
    check(metrics["cold_start_ms"] > 0 and metrics["duration_ms"] >= 0 and metrics["cpu_ms"] >= 0, metrics)
    check(metrics["cold_start_ms"] < 30000 and metrics["duration_ms"] < 30000, metrics)


def test_record(g):
    """What is given with it comes back, also later."""
    metadata = {"a": [1, 2.50, None, {"ü": "\u0001"}], "b": 12345678901234567890}
    record = run(g, "1", metadata=metadata, task_id="task 1")
    equal((record["metadata"], record["task_id"]), (metadata, "task 1"), "as given")
    equal(get(g, record["id"]), record, "as it is stored")
    equal(post(g, "1", nonsense=1).status, 400, "an unknown field")
    equal(post(g, "1", "cobol").status, 400, "an unknown language")
    reply = post(g, "1", packages=["left-pad"])
    equal((reply.status, reply.json()["code"]), (501, "unsupported"), "what comes later")
    equal(post(g, "1", network={"mode": "full"}).status, 501, "a network")
    equal(run(g, "1", network={"mode": "none"})["status"], "completed", "none")
    get(g, "run-nonsense", status=404)


if __name__ == "__main__":
    main([test_values, test_arguments, test_handler, test_verdicts, test_expected_stays_outside, test_hostile_verdicts,
          test_errors, test_interrupts_itself, test_logs, test_limits, test_memory, test_network, test_sandbox, test_record])
