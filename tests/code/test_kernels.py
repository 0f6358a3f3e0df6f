"""What the interpreters of contexts and runs promise to whoever writes code for them."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
import code_api  # noqa: E402
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


def test_formless(g):
    """What JSON has not is no result, and an error says what it was and where."""
    javascript = [
        ("NaN", "NaN", ""), ("[1, {a: -Infinity}]", "-Infinity", "[1].a"), ("new Map([[1, 2]])", "Map", ""),
        ("({s: new Set()})", "Set", ".s"), ("({'a b': [/x/]})", "RegExp", '["a b"][0]'), ("[new Error('x')]", "Error", "[0]"),
        ("[Promise.resolve(1)]", "Promise", "[0]"), ("({f() {}})", "function", ".f"), ("[Symbol('x')]", "symbol", "[0]"),
        ("[{}, {b: 1n}]", "BigInt", "[1].b"), ("'a\\ud800'", "half of a character", ""),
        ("[1, {a: '\\udc00x', b: '\ufffd'}]", "half of a character", "[1].a"),
        ("({'\\ud83d': 1})", "half of a character", "ufffd"), ("new WeakMap()", "WeakMap", ""),
        ("(function* () {})()", "Generator", ""), ("[new ArrayBuffer(8)]", "ArrayBuffer", "[0]"),
        ("[1, new Uint8Array(1)]", "TypedArray", "[1]"),
    ]
    python = [
        ("float('nan')", "nan", ""), ("[1, {'a': float('-inf')}]", "-inf", "[1]['a']"), ("{1, 2}", "set", ""),
        ("'a\\ud800'", "half of a character", ""), ("{'k': ['\\udc00']}", "half of a character", "['k'][0]"),
        ("{'\\ud83d': 1}", "half of a character", ""), ("[{(1, 2): 3}]", "key of type tuple", "[0]"), ("[print]", "builtin", "[0]"),
    ]
    for language, cases in (("javascript", javascript), ("python", python)):
        for code, what, where in cases:
            whole = f"def main():\n    return {code}\n" if language == "python" else f"module.exports = () => ({code});"
            record = run_api.run(g, whole, language, tests=[{"expected": None}, {"expected": {}}])
            for test in record["tests"]:
                check(not test["passed"] and test["error"]["name"] == "TypeError", code, test)
                check(what in test["error"]["message"] and where in test["error"]["message"], code, test["error"])
    for code, language, expected in (
            ("module.exports = () => undefined", "javascript", None), ("def main():\n    pass\n", "python", None),
            ("module.exports = () => [new Date(0), {a: undefined, b: [undefined]}, '\\ud83d\\ude00\ufffd']",
             "javascript", ["1970-01-01T00:00:00.000Z", {"b": [None]}, "\U0001f600\ufffd"]),
            ("module.exports = () => ({x: {toJSON: () => 7}, y: '\\\\ud800'})", "javascript", {"x": 7, "y": "\\ud800"}),
            ("def main():\n    return ('\\U0001f600\ufffd', 1e300, 2 ** 70)\n", "python", ["\U0001f600\ufffd", 1e300, 2 ** 70])):
        equal(run_api.value(g, code, language), expected, code)


def test_log_order(g):
    """Messages, standard output and standard error come in the order in which they were said."""
    cases = [
        ("javascript", "console.log('l1'); process.stdout.write('o1\\n'); console.error('e1'); console.log('l2');"
                       "process.stderr.write('x\\n'); process.stdout.write('o'); process.stdout.write(Buffer.from('2\\n'));",
         ["info l1", "stdout o1", "error e1", "info l2", "stderr x", "stdout o2"]),
        ("javascript", "for (let i = 0; i < 300; i++) { process.stdout.write(`o${i}\\n`); process.stderr.write(`e${i}\\n`); }",
         [f"{name} {name[3]}{i}" for i in range(300) for name in ("stdout", "stderr")]),
        ("javascript", "const b = Buffer.from('é\\n'); console.log(1); process.stdout.write(b.subarray(0, 1));"
                       "process.stdout.write(b.subarray(1)); process.stdout.write('\\u{1f600}'.repeat(600000) + '\\n', () => {});",
         ["info 1", "stdout é"]),
        ("python", "import logging, sys, warnings\nprint('o1')\nlogging.info('l1')\nprint('o2', end='')\nsys.stderr.write('e1\\n')\n"
                   "print('')\nwarnings.warn('w1')\nsys.stdout.buffer.write(b'o3\\n')\nsys.stdout.flush()\nlogging.error('l2')\n",
         ["stdout o1", "info l1", "stderr e1", "stdout o2", "warn main.py:7: UserWarning: w1", "stdout o3", "error l2"]),
        ("python", "import sys\nfor i in range(300):\n    print(f'o{i}')\n    print(f'e{i}', file=sys.stderr)\n",
         [f"{name} {name[3]}{i}" for i in range(300) for name in ("stdout", "stderr")]),
        # Children print where they always did, and what comes behind them is behind them.
        ("python", "import os, subprocess, sys\nprint('o1')\nos.system('echo c1')\nprint('o2')\nsubprocess.run(['echo', 'c2'])\n"
                   "if os.fork() == 0:\n    print('c3')\n    os._exit(0)\nos.wait()\nprint('o3')\n",
         ["stdout o1", "stdout c1", "stdout o2", "stdout c2", "stdout c3", "stdout o3"]),
    ]
    for language, code, expected in cases:
        record = run_api.run(g, code, language)
        equal((record["status"], record["error"]), ("completed", None), code)
        said = [f"{entry['level']} {entry['message']}" for entry in record["logs"]]
        said = [line for line in said if "\U0001f600" not in line]
        equal(said, expected, code)
        whole = "".join(entry["message"] for entry in record["logs"] if "\U0001f600" in entry["message"])
        check(set(whole) <= {"\U0001f600"}, "half of a character", whole[:100])
    # What a child prints, and what the code says before it elsewhere, come by two ways: both are before what comes behind both.
    record = run_api.run(g, "import os, sys\nsys.stderr.write('e1\\n')\nos.system('echo c1')\nprint('o1')\n", "python")
    said = [f"{entry['level']} {entry['message']}" for entry in record["logs"]]
    equal((sorted(said[:2]), said[2:]), (["stderr e1", "stdout c1"], ["stdout o1"]))


def berth(g, *words, code=""):
    """The exit code of the command, and what it printed."""
    got = subprocess.run([os.path.abspath(os.path.join(g.build, "berth")), *words], env={**os.environ, "BERTH_SOCKET": g.socket},
                         input=code, text=True, capture_output=True, timeout=60, check=False)
    return got.returncode, got.stdout + got.stderr


def test_exit(g):
    """Code that asks for its end has it, and its interpreter stays."""
    cases = [("python", "import sys\nkept = 1\nsys.exit({})", "SystemExit", "kept"),
             ("javascript", "kept = 1; process.exit({}); kept = 2", "ProcessExit", "kept"),
             ("javascript", "kept = 1; await null; setTimeout(() => process.exit({})); await new Promise(() => {{}})", "ProcessExit", "kept")]
    for language, code, name, kept in cases:
        for status, expected in (("", 0), ("0", 0), ("4", 4), ("-1", 255)):
            answer = code_api.run(g, code.format(status), language=language)
            equal((answer["reason"], answer["results"]), ("completed", []), f"{code} with {status}: {answer}")
            error = answer["error"]
            equal((error or {}).get("name"), name if expected else None, f"{code} with {status}")
            equal((error or {}).get("exit_code"), expected or None, f"{code} with {status}")
            equal(code_api.value(g, kept, language=language), "1", "what was defined before")
    answer = code_api.run(g, "raise SystemExit('no such thing')")
    equal((answer["error"]["message"], answer["error"]["exit_code"]), ("no such thing", 1), str(answer))
    for language, word in (("python", "import sys; sys.exit"), ("javascript", "process.exit")):
        for status in (0, 4):
            for flags in ((), ("--json",)):
                code, said = berth(g, *flags, "code", "--lang", language, "a", code=f"{word}({status})")
                equal(code, status, f"{word}({status}): {said}")


def test_exit_of_runs(g):
    """At any moment: 0 is no error."""
    for code, language in (
            ("import sys\nsys.exit()\n", "python"), ("def main():\n    return 1\nexit(0)\n", "python"),
            ("def main():\n    raise SystemExit(0)\n", "python"), ("process.exit(0)", "javascript"),
            ("module.exports = () => 1; process.exit()", "javascript"), ("export default () => 1; process.exit(0)", "javascript"),
            ("module.exports = () => { process.exit(0); }", "javascript")):
        equal(run_api.value(g, code, language), None, code)
        tests = run_api.run(g, code, language, tests=[{"expected": None}, {"expected": 1}])["tests"]
        equal([test["passed"] for test in tests], [True, False], code)
    for code, language in (("import sys\nsys.exit(4)\n", "python"), ("def main():\n    exit(4)\n", "python"),
                           ("process.exit(4)", "javascript"), ("module.exports = () => process.exit(4)", "javascript")):
        error = run_api.fails(g, code, "CODE_ERROR", language)
        check("exit status 4" in error["message"] and error["name"] in ("SystemExit", "ProcessExit"), error)


def test_forks(g):
    """Children of children are no kernels either, and none of their business is seen."""
    daemon = """
import os, sys
def daemonize():
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        for fd in range(3, 1024):
            if fd != write:
                try:
                    os.close(fd)
                except OSError:
                    pass
        kept = [os.open('/dev/null', os.O_RDWR) for _ in range(1000)]
        if os.fork() == 0:
            good = 0
            for fd in kept:
                try:
                    os.fstat(fd)
                    good += 1
                except OSError:
                    pass
            os.write(write, b'%d' % good)
            os._exit(0)
        os._exit(0)
    os.wait()
    os.close(write)
    return os.read(read, 100).decode()
daemonize()
"""
    nested = """
import multiprocessing
def leaf(n):
    return n + 1
def branch(n, queue):
    with multiprocessing.get_context('fork').Pool(1) as pool:
        queue.put(pool.map(leaf, [n])[0])
queue = multiprocessing.get_context('fork').Queue()
child = multiprocessing.get_context('fork').Process(target=branch, args=(1, queue))
child.start()
got = queue.get()
child.join()
got
"""
    for code, expected in ((daemon, "'1000'"), (nested, "2")):
        answer = code_api.run(g, code)
        equal((answer["error"], answer["stderr"], [r["text"] for r in answer["results"]]), (None, "", [expected]), str(answer))


def test_then(g):
    """Objects that all have a then do not take results away without a word."""
    for poison in ("Object.prototype.then = function (r) { r(1); };",
                   "Object.defineProperty(Object.prototype, 'then', {get() { return (r) => r(1); }, configurable: true});"):
        context = code_api.make(g, language="javascript")["id"]
        answer = code_api.run(g, poison + " 5", context=context)
        check(answer["error"] and "`then`" in answer["error"]["message"], answer)
        for code, expected in (("6", "6"), ("({a: 1})", "{ a: 1 }"), ("await Promise.resolve(7); 8", "8"), ("typeof ({}).then", "'function'"),
                               ("x = {}; x.y = 1; x", "{ y: 1 }"), ("await ({})", "1"), ("delete Object.prototype.then; 9", "9"),
                               ("await ({}); typeof ({}).then", "'undefined'")):
            equal(code_api.value(g, code, context=context), expected, f"{code} after {poison}")
        code_api.delete(g, context)
        equal(run_api.value(g, poison + "module.exports = (x) => ({x});", "javascript", input=3), {"x": 3}, "of a run")
    lasting = "Object.defineProperty(Object.prototype, 'then', {value: (r) => r(1)}); 5"
    for code in (lasting, "6"):
        answer = code_api.run(g, code, language="javascript")
        check(answer["error"] and "`then`" in answer["error"]["message"], answer)
    code = "module.exports = (x) => ({then(f) { f(x * 2); }});"
    equal(run_api.value(g, code, "javascript", input=3), 6, "what is like a promise is waited for")


def test_late_errors(g):
    """What an earlier call left behind fails none that comes later."""
    wait = "await new Promise((r) => setTimeout(r, 500)); 2"
    late = {"timer": "setTimeout(() => { throw new Error('old'); }, 100); 1",
            "promise": "void new Promise((_, no) => setTimeout(() => no(new Error('old')), 100)); 1"}
    for name, code in late.items():
        context = code_api.make(g, language="javascript")["id"]
        first = code_api.run(g, f"at = Date.now(); {code}", context=context)
        equal(first["error"], None, name)
        answer = code_api.run(g, f"late = Date.now() - at; {wait}", context=context)
        equal((answer["error"], [r["text"] for r in answer["results"]]), (None, ["2"]), f"{name}: {answer}")
        began = int(code_api.value(g, "late", context=context))
        check("Uncaught Error: old" in answer["stderr"] or began > 50, name, began, answer)
        own = code_api.run(g, f"{code}; {wait}", context=context)
        equal((own["error"] or {}).get("message"), "old", f"{name} of the call itself: {own}")
        code_api.delete(g, context)
    record = run_api.run(g, "module.exports = (x) => { if (x) setTimeout(() => { throw new Error('old'); }, 300);"
                            "return new Promise((r) => setTimeout(r, 200, x)); }", "javascript",
                         tests=[{"input": x, "expected": x} for x in (1, 0, 0)])
    equal([t["passed"] for t in record["tests"]], [True, True, True], str(record))


def test_default_exports(g):
    """A cell may export what has no name, as a run may."""
    for code, expected in (
            ("export default function () { return 1; }", "[Function (anonymous)]"), ("export default class {}", "[class (anonymous)]"),
            ("let a = 5\nexport default async function (x) {\n  return x;\n}\na", "5"), ("export default function named() {}\nnamed.name", "'named'"),
            ("let b = 6\nexport default class { c() { return import('fs'); } }\nb", "6"), ("export default 7", "7")):
        for language in ("javascript", "typescript"):
            got = code_api.value(g, code, language=language)
            equal(got and got.replace("stdin_default", "(anonymous)"), expected, f"{language}: {code}")
    error = code_api.run(g, "let c = 1\nexport default function () {\n  nothing()\n}\nc.d.e", language="javascript")["error"]
    equal((error["name"], error["line"], error["column"]), ("TypeError", 5, 5), "where it is")
    equal(run_api.value(g, "export default function () { return 1; }", "javascript"), 1, "of a run")


def test_odd_errors(g):
    """An error that says nonsense of itself is told all the same, and its interpreter stays."""
    raised = "raise SyntaxError('odd', ({}, {}, {}, 'text'))"
    odd = ("object()", "type('S', (str,), {'encode': None, '__len__': None})('x')", "2 ** 70", "True", "-1", "float('nan')", "'\\ud800'",
           "b'x'", "None", "[1]")
    code_api.out(g, "kept = 1\nimport warnings")
    for value in odd:
        for places in ((value, 1, 1), ("'f'", value, 1), ("'f'", 1, value)):
            code = ("def show(*words, **more):\n    " + raised.format(*places) + "\nwarnings.showwarning = show\nwarnings.simplefilter('always')")
            code_api.out(g, code)
            # The compiler itself warns of this one.
            answer = code_api.run(g, "1 is 1")
            equal((answer["reason"], answer["replaced"]), ("completed", False), f"{places}: {answer}")
            answer = code_api.run(g, raised.format(*places))
            equal((answer["reason"], answer["error"]["name"]), ("completed", "SyntaxError"), f"{places}: {answer}")
    for code in ("class E(Exception):\n    def __str__(self):\n        return type('S', (str,), {'encode': None, '__len__': None})('x')\nraise E",
                 "E = type('\\ud800', (Exception,), {})\nraise E('\\udfff')"):
        answer = code_api.run(g, code)
        check(answer["reason"] == "completed" and answer["error"], answer)
    equal(code_api.value(g, "kept"), "1", "the same interpreter")


def test_jsx(g):
    """It is not there, and that is said."""
    for code in ("const x = <div>hi</div>;\nx", "function f() { return <div className='a'>{1}</div>; }"):
        error = code_api.run(g, code, language="typescript")["error"]
        check(error["name"] == "SyntaxError" and error["message"].startswith("JSX is not supported") and error["line"] == 1, error)
        check("JSX" in run_api.fails(g, code, "CODE_ERROR", "typescript")["message"], "of a run")
    for code in ("let y = <number>5; y +", "let x = (a < b"):
        error = code_api.run(g, code, language="typescript")["error"]
        check(error["name"] == "SyntaxError" and "JSX" not in error["message"], error)
    equal(code_api.value(g, "const id = <T,>(x: T) => x; <number><any>id(5)", language="typescript"), "5", "generics and casts")


def cpu_ms(g, language):
    code = "import time; int(time.process_time() * 1000)" if language == "python" else "Math.floor(process.cpuUsage().user / 1000)"
    return int(code_api.value(g, code, language=language))


def test_large_values(g):
    """What is cut in the end is not carried around before."""
    for language, code in (("python", "'y' * 50_000_000"), ("javascript", "'y'.repeat(50_000_000)"),
                           ("javascript", "new Array(5_000_000).fill('y')")):
        before = cpu_ms(g, language)
        answer = code_api.run(g, code, language=language)
        # Not the time, as machines are busy: it was more than 5 seconds for a string of JavaScript.
        check(cpu_ms(g, language) - before < 4000, "processor time", code)
        equal((answer["reason"], answer["error"]), ("completed", None), code)
        text = answer["results"][0]["text"]
        check(len(text) < 1.1 * (1 << 20) and ("cut" in text or "more items" in text), code, text[-100:])
        check("json" not in answer["results"][0], code)
    equal(code_api.run(g, "'a\\u{1f600}\\0\\n'", language="javascript")["results"][0]["json"], "a\U0001f600\0\n", "a small one")


if __name__ == "__main__":
    main([test_env, test_formless, test_log_order, test_exit, test_exit_of_runs,
          test_forks, test_then, test_late_errors, test_default_exports, test_odd_errors, test_jsx, test_large_values])
