"""Contexts: what lasts between pieces of code, what is told of them, and how they end."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from code_api import (LANGUAGES, begin, contexts, delete, each_language, make, out, run, value)  # noqa: E402
from ground import IS_SANITIZED, Peak, at_once, check, equal, main, memory_of, until  # noqa: E402

SET = {"python": "import os\nx = 41\ndef f(): return x + 1", "javascript": "let x = 41; const f = () => x + 1;",
       "typescript": "let x: number = 41; function f(): number { return x + 1 }", "bash": "x=41; f() { echo $((x + 1)); }"}
GET = {"python": "f()", "javascript": "f()", "typescript": "f() as number", "bash": "f"}
SLEEP = {"python": "import time; print('on', flush=True); time.sleep(600)",
         "javascript": "console.log('on'); await new Promise((r) => setTimeout(r, 600000))",
         "typescript": "console.log('on'); await new Promise<void>((r) => setTimeout(r, 600000))",
         "bash": "echo on; sleep 600"}
LOOP = {"python": "print('on', flush=True)\nwhile True: pass", "javascript": "console.log('on'); for (;;);",
        "typescript": "console.log('on'); for (;;);", "bash": "echo on; while :; do :; done"}
EXIT = {"python": "import os; os._exit(7)", "javascript": "process.kill(process.pid, 'SIGKILL')", "bash": "kill -9 $$"}
PRINT = {"python": "print('out'); import sys; print('err', file=sys.stderr)",
         "javascript": "console.log('out'); console.error('err')",
         "typescript": "console.log('out'); console.error('err')", "bash": "echo out; echo err >&2"}


def got(g, language, context):
    """What GET says, however the language says it."""
    answer = run(g, GET[language], context=context)
    return (answer["results"][-1]["text"] if answer["results"] else answer["stdout"]).strip()


@each_language
def test_state_lasts(g, c):
    """Variables and functions last, output and the last value are told, of each language."""
    equal(run(g, SET[c], context=c)["error"], None, "set")
    equal(got(g, c, c), "42", "got")
    answer = run(g, PRINT[c], context=c)
    equal((answer["stdout"], answer["stderr"], answer["truncated"]), ("out\n", "err\n", False), answer)
    equal((answer["context"], answer["language"], answer["reason"]), (c, c, "completed"), answer)


def test_values(g):
    """Imports and top-level await work; values come in all their forms."""
    equal(value(g, "import math, asyncio\nmath.floor(2.5)"), "2", "a value")
    equal(value(g, "await asyncio.sleep(0, 'done')"), "'done'", "await")
    equal(value(g, "x = 1"), None, "no value")
    answer = run(g, "{'a': [1, None, 'ü'], 1: 2, '1': 3}")
    check(answer["results"][0]["text"], answer)
    equal(run(g, "[1, {'a': None}]")["results"][0]["json"], [1, {"a": None}], "json")
    rich = ("class Rich:\n    def _repr_html_(self): return '<b>'\n    def _repr_latex_(self): return '$x$'\n"
            "    def _repr_svg_(self): return '<svg/>'\n    def _repr_markdown_(self): return '*m*'\n"
            "    def _repr_png_(self): return b'png'\n    def _repr_jpeg_(self): return b'jpeg'\nRich()")
    one = run(g, rich)["results"][-1]
    equal((one["html"], one["latex"], one["svg"], one["markdown"], one["png"], one["jpeg"]),
          ("<b>", "$x$", "<svg/>", "*m*", "cG5n", "anBlZw=="), one)
    equal(value(g, "await Promise.resolve(7)", language="js"), "7", "await in JavaScript")
    equal(value(g, "'\U0001f600'[0]", language="js") is not None, True, "half of a pair")
    equal(value(g, "const o = {}; let p = o; for (let i = 0; i < 40; i++) p = p.a = {}; o", language="js") is not None,
          True, "a deep value")
    equal(value(g, "'a\\x00b'"), "'a\\x00b'", "NUL")
    equal(run(g, "raise ValueError('a\\x00b')")["error"]["message"], "a\x00b", "NUL in an error")


def test_order(g):
    """What was printed before a result comes before it; all of the output comes before the end."""
    for _ in range(20):
        events = begin(g, "print('a', flush=True); display(1); print('b', end='x' * 300000)")
        names = []
        for name, _ in events:
            names.append(name)
        equal((names[0], names[-1]), ("stdout", "done"), names)
        equal(names.count("result"), 1, names)


def test_streams(g):
    """Output comes while the code runs."""
    events = begin(g, "import time\nprint('a', flush=True)\nopen('/workspace/go', 'w')\n"
                      "while not __import__('os').path.exists('/workspace/on'): time.sleep(0.01)\nprint('b')")
    equal(next(events)[0], "stdout", "the first")
    g.put_file("a", "/workspace/on", b"")
    rest = list(events)
    equal([name for name, _ in rest], ["stdout", "done"], rest)
    equal(rest[-1][1]["reason"], "completed", rest)


def test_errors(g):
    """Errors have a name, a message, a traceback and a place in the user's own lines; the context stays."""
    answer = run(g, "def f():\n    return 1 / 0\n\nf()", file="mine.py")
    error = answer["error"]
    equal((error["name"], error["message"], error["file"], error["line"]), ("ZeroDivisionError", "division by zero", "mine.py", 2), error)
    check(not any("kernels" in line for line in error["traceback"]) and error["traceback"], error)
    equal(answer["reason"], "completed", answer)
    error = run(g, "x = (")["error"]
    equal((error["name"], error["is_syntax"]), ("SyntaxError", True), error)
    error = run(g, "const a = 1;\nnull.x", language="javascript", file="mine.js")["error"]
    equal((error["name"], error["file"], error["line"]), ("TypeError", "mine.js", 2), error)
    error = run(g, "let a: number = 1;\ninterface B { c: string }\nthrow new RangeError('x')", language="ts", file="m.ts")["error"]
    equal((error["name"], error["file"], error["line"]), ("RangeError", "m.ts", 3), error)
    equal(value(g, "1"), "1", "after it")


def test_requests(g):
    """What is asked for badly is refused, and names the field."""
    for body, word in (({}, "code"), ({"code": 1}, "code"), ({"code": "1", "language": "perl"}, "language"),
                       ({"code": "1", "context": "-"}, "context"), ({"code": "1", "x": 1}, "x"),
                       ({"code": "1", "timeout_ms": -1}, "timeout_ms"), ({"code": "1", "file": "x" * 300}, "file")):
        reply = g.request("POST", "/v1/sandbox/a/code", body)
        equal((reply.status, reply.json()["code"]), (400, "invalid_request"), f"{body}: {reply}")
        check(word in reply.json()["error"], reply)
    check("language" in make(g, status=400)["error"], "no language")
    check("id" in make(g, status=400, language="python", id="..")["error"], "a bad ID")
    check("cwd" in make(g, status=400, language="python", cwd="x")["error"], "a bad directory")
    equal(g.get("/v1/sandbox/a").status, 404, "nothing was made")
    make(g, id="one", language="python")
    equal(make(g, status=409, id="one", language="bash")["code"], "conflict", "there already")
    equal(run(g, "1", status=404, context="other")["code"], "not_found", "another context")
    check("python" in run(g, "1", status=400, context="one", language="bash")["error"], "another language")
    make(g, status=502, id="lost", language="python", cwd="/nope")
    equal(list(contexts(g)), ["one"], "contexts")
    equal(run(g, "1", context="nope", sandbox="b", status=404)["code"], "not_found", "no sandbox")


def test_defaults(g):
    """Each language has a default context; without a word it is Python's."""
    reply = g.request("POST", "/v1/sandbox/a/code", {"code": "x = 5"}, Accept="application/json")
    equal(reply.json()["language"], "python", reply)
    equal(value(g, "x"), "5", "the same")
    run(g, "let x = 6", language="node")
    equal(value(g, "x", language="javascript"), "6", "JavaScript")
    run(g, "x=7", language="sh")
    equal(out(g, "echo $x", language="bash"), "7\n", "bash")
    listed = contexts(g)
    equal(sorted(listed), ["default-bash", "default-javascript", "default-python"], listed)
    check(all(c["default"] and c["state"] == "ready" for c in listed.values()), listed)
    delete(g, "default-python")
    answer = run(g, "'x' in globals()")
    equal((answer["results"][0]["text"], answer["fresh"]), ("False", True), answer)


def test_place(g):
    """The directory, the variables and the user of a context are its own."""
    g.out("a", "mkdir -p /workspace/d")
    for language in LANGUAGES:
        make(g, id=language, language=language, cwd="/workspace/d", env={"MINE": "a 'b'\n"})
    code = {"python": "import os; print(os.getcwd(), os.environ['MINE'], end='')", "bash": "printf '%s %s' \"$PWD\" \"$MINE\"",
            "javascript": "process.stdout.write(process.cwd() + ' ' + process.env.MINE)"}
    for language in LANGUAGES:
        equal(out(g, code.get(language, code["javascript"]), context=language), "/workspace/d a 'b'\n", language)
    equal(value(g, "import os; 'MINE' in os.environ"), "False", "another")
    make(g, id="user", language="python", user="65534")
    equal(value(g, "import os; os.getuid()", context="user"), "65534", "user")


def test_side_by_side(g):
    """Contexts run side by side; calls of one run in the order in which they came."""
    make(g, id="one", language="python")
    make(g, id="two", language="python")
    slow = begin(g, "import time\nwhile not __import__('os').path.exists('/workspace/on'): time.sleep(0.01)", context="one")
    equal(value(g, "1", context="two"), "1", "beside it")
    run(g, "open('/workspace/on', 'w')", context="two")
    equal(list(slow)[-1][1]["reason"], "completed", "slow")
    run(g, "seen = []", context="one")
    at_once(8, lambda i: run(g, f"seen.append({i}); import time; time.sleep(0.02)", context="one"))
    equal(value(g, "len(seen), sorted(seen) == list(range(8))", context="one"), "(8, True)", "turns")


def interrupted(g, language, code, kept):
    """A timeout ends the code; whether its variables are there after it."""
    run(g, SET[language], context=language)
    answer = run(g, code, context=language, timeout_ms=500)
    equal((answer["reason"], answer["replaced"]), ("timeout", not kept), f"{language}: {answer}")
    check("on" in answer["stdout"], answer)
    if kept:
        equal(got(g, language, language), "42", language)
    else:
        check(answer["message"], answer)
        after = run(g, PRINT[language], context=language)
        equal((after["fresh"], after["stdout"]), (True, "out\n"), f"{language}: {after}")


def test_timeouts_keep(g):
    """Loops and waits are interrupted, and the context stays as it is."""
    for language in LANGUAGES:
        make(g, id=language, language=language)
        interrupted(g, language, SLEEP[language], True)
        interrupted(g, language, LOOP[language], True)


def test_timeouts_caught(g):
    """Code that catches the interrupt, and ends in peace or fails, had no more time all the same; what it told is in the answer."""
    wait = "import time\ntry:\n    print('on', flush=True)\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('caught')\n"
    make(g, id="python", language="python")
    run(g, SET["python"], context="python")
    for end, results, name in (("5", ["5"], None), ("1 / 0", [], "ZeroDivisionError")):
        answer = run(g, wait + end, context="python", timeout_ms=500)
        equal((answer["reason"], answer["replaced"], answer["stdout"]), ("timeout", False, "on\ncaught\n"), answer)
        equal(([one["text"] for one in answer["results"]], (answer["error"] or {}).get("name")), (results, name), answer)
        equal(got(g, "python", "python"), "42", "after it")
    make(g, id="bash", language="bash")
    run(g, SET["bash"], context="bash")
    answer = run(g, "trap 'echo caught' INT; echo on; sleep 600; trap - INT", context="bash", timeout_ms=500)
    equal((answer["reason"], answer["replaced"], answer["stdout"]), ("timeout", False, "on\ncaught\n"), answer)
    equal(got(g, "bash", "bash"), "42", "after it")


def test_timeouts_replace(g):
    """What does not heed the interrupt is ended with its interpreter, and the answer says so."""
    make(g, id="python", language="python")
    interrupted(g, "python", "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2])\nprint('on', flush=True)\nwhile True: pass", False)
    interrupted(g, "python", "print('on', flush=True)\nsum(iter(int, 1))", False)
    make(g, id="bash", language="bash")
    interrupted(g, "bash", "trap '' INT; echo on; while :; do :; done", False)
    equal(contexts(g)["python"]["state"], "ready", "state")


def test_interrupt(g):
    """A call can be interrupted by another request; between calls that does nothing."""
    make(g, id="c", language="python")
    run(g, "x = 1", context="c")
    target = "/v1/sandbox/a/context/c/interrupt"
    equal(g.request("POST", target).json(), {"interrupted": False}, "nothing runs")
    events = begin(g, SLEEP["python"], context="c")
    equal(next(events)[0], "stdout", "it runs")
    equal(g.request("POST", target).json(), {"interrupted": True}, "it runs")
    rest = list(events)
    equal((rest[-1][0], rest[-1][1]["reason"]), ("done", "interrupted"), rest)
    equal(rest[0][1]["name"], "KeyboardInterrupt", rest)
    equal(value(g, "x", context="c"), "1", "after it")
    events = begin(g, "try:\n    print('on', flush=True)\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('caught')", context="c")
    equal(next(events)[0], "stdout", "it runs")
    g.request("POST", target)
    rest = list(events)
    equal(([name for name, _ in rest], rest[-1][1]["reason"], rest[-1][1]["replaced"]), (["stdout", "done"], "interrupted", False), "caught")
    for _ in range(20):
        g.request("POST", target)
        equal(value(g, "x", context="c"), "1", "after it")
    equal(g.request("POST", "/v1/sandbox/a/context/d/interrupt").status, 404, "no such context")


def test_background_stays(g):
    """An interrupt ends what the call waits for, and not what earlier calls have sent away."""
    make(g, id="c", language="python")
    pid = value(g, "import subprocess\np = subprocess.Popen(['sleep', '600'], start_new_session=True)\np.pid", context="c")
    answer = run(g, "print('on', flush=True); subprocess.run(['sleep', '600'])", context="c", timeout_ms=500)
    equal((answer["reason"], answer["replaced"]), ("timeout", False), answer)
    equal(value(g, "p.poll() is None", context="c"), "True", "it runs on")
    delete(g, "c")
    equal(g.out("a", f"kill -0 {pid} 2>/dev/null || echo gone"), "gone\n", "it ends with its context")


def test_client_gone(g):
    """A client that goes away interrupts what it runs, and no call after it."""
    make(g, id="c", language="python")
    run(g, "x = 3", context="c")
    events = begin(g, SLEEP["python"], context="c")
    equal(next(events)[0], "stdout", "it runs")
    events.close()
    equal(value(g, "x", context="c"), "3", "after it")
    for _ in range(10):
        begin(g, "x", context="c").close()
    equal(value(g, "x", context="c"), "3", "after many")


def test_exits(g):
    """Code that ends its interpreter is told so, and the next call that it is fresh."""
    for language, code in EXIT.items():
        make(g, id=language, language=language)
        run(g, SET[language], context=language)
        answer = run(g, code, context=language)
        equal((answer["reason"], answer["replaced"]), ("exited", True), answer)
        equal((answer["exit_code"], answer.get("signal")), (7, None) if language == "python" else (137, 9), answer)
        after = run(g, PRINT[language], context=language)
        equal((after["fresh"], after["stdout"]), (True, "out\n"), after)
        check(not run(g, PRINT[language], context=language)["fresh"], language)


def test_no_interpreter(g):
    """An image without the interpreter is told at once, and nothing is left of the context."""
    equal(g.request("PUT", "/v1/sandbox/a", {"env": {"PATH": "/nope"}}).status // 100, 2, "settings")
    reply = make(g, status=501, language="python")
    equal(reply["code"], "unsupported", reply)
    check("python3" in reply["error"] and "install" in reply["error"], reply)
    reply = run(g, "1", status=501, language="javascript")
    check("node" in reply["error"], reply)
    equal(contexts(g), {}, "contexts")


def test_output_is_bounded(g):
    """1 GiB of output takes no memory of ours: the answer is cut, and says so."""
    before = memory_of(g.berthd.pid)
    with Peak(g.berthd.pid) as peak:
        answer = run(g, "import os\nb = b'x' * (1 << 20)\nfor _ in range(1024): os.write(1, b)\nlen(b)")
    equal((answer["truncated"], len(answer["stdout"]), answer["results"][-1]["text"]), (True, 2 << 20, "1048576"), "cut")
    check(IS_SANITIZED or peak.most - before < 64 << 20, f"berthd grew from {before} to {peak.most} bytes")
    answer = run(g, "for i in range(12): display('y' * (1 << 20))")
    check(answer["results_dropped"] > 0 and answer["results"], answer["results_dropped"])
    equal(value(g, "1"), "1", "after it")


def test_large(g):
    """Large code and large results go through; what is too large is said."""
    text = "x" * 3000000
    equal(value(g, f"s = '{text}'; len(s)"), "3000000", "code")
    events = begin(g, "s * 3")
    names = {}
    for name, data in events:
        names[name] = data
    check("result" in names and names["done"]["reason"] == "completed", list(names))
    equal(names["result"].get("truncated"), True, "of the event")
    for language, code in (("python", "s"), ("javascript", "'x'.repeat(3000000)")):
        result = run(g, code, language=language)["results"][0]
        equal((result.get("truncated"), "json" in result), (True, False), language)
    check("truncated" not in run(g, "5")["results"][0], "what is whole")
    equal(value(g, "len(s)"), "3000000", "after it")


def test_stop_and_sleep(g):
    """A frozen sandbox keeps its contexts; a stopped one has them listed, and the next call is fresh."""
    make(g, id="c", language="python")
    run(g, "x = 1", context="c")
    mode = g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"})
    if mode.status == 200 and mode.json()["mode"] == "freeze":
        equal(contexts(g)["c"]["state"], "ready", "frozen")
        equal(value(g, "x", context="c"), "1", "after a freeze")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    equal((contexts(g)["c"]["state"], contexts(g)["c"]["pid"]), ("absent", None), "stopped")
    answer = run(g, "'x' in globals()", context="c")
    equal((answer["results"][0]["text"], answer["fresh"]), ("False", True), answer)


def test_holds(g):
    """A call keeps its sandbox awake, an idle context does not."""
    make(g, id="c", language="python")
    until(lambda: not g.sandbox("a")["holds"], "no holds when idle")
    events = begin(g, SLEEP["python"], context="c")
    next(events)
    equal([h["kind"] for h in g.sandbox("a")["holds"]], ["exec"], "holds")
    events.close()
    until(lambda: not g.sandbox("a")["holds"], "no holds after it")


def test_deleted_meanwhile(g):
    """A context, or its sandbox, that is deleted during a call ends it with that reason."""
    make(g, id="c", language="python")
    events = begin(g, SLEEP["python"], context="c")
    next(events)
    delete(g, "c")
    equal(list(events)[-1][1]["reason"], "killed", "the context")
    equal(contexts(g), {}, "contexts")
    events = begin(g, SLEEP["python"])
    next(events)
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    equal(list(events)[-1][1]["reason"], "killed", "the sandbox")
    equal(run(g, "1")["fresh"], True, "a new one")
    equal(list(contexts(g)), ["default-python"], "contexts of the new one")


def test_many(g):
    """There are only so many contexts, and so many who wait in one."""
    for i in range(32):
        make(g, id=f"c{i}", language="bash")
    equal(make(g, status=409, language="bash")["code"], "conflict", "too many")
    stats = g.get("/v1/sandbox/a/stats").json()["contexts"]
    equal(len(stats), 32, "stats")
    for i in range(32):
        delete(g, f"c{i}")


def test_stats(g):
    """stats tells the memory of each context, where groups are."""
    make(g, id="c", language="python")
    run(g, "x = b'x' * (64 << 20)", context="c")
    one = g.get("/v1/sandbox/a/stats").json()["contexts"][0]
    equal((one["id"], one["language"]), ("c", "python"), one)
    if one["memory_bytes"] is not None:
        check(64 << 20 < one["memory_bytes"] < 256 << 20, one)
    else:
        check(not g.is_root, one)


def test_adoption(g):
    """Contexts outlive berthd; the call that ran has nobody any more, and the next one nothing of it."""
    for language in LANGUAGES:
        make(g, id=language, language=language)
        run(g, SET[language], context=language)
    make(g, id="idle", language="python")
    run(g, "x = 9", context="idle")
    busy = [begin(g, SLEEP[language], context=language) for language in LANGUAGES]
    for events in busy:
        next(events)
    g.kill_berthd()
    for events in busy:
        events.close()
    g.start()
    for language in LANGUAGES:
        equal(got(g, language, language), "42", language)
    equal(value(g, "x", context="idle"), "9", "idle")
    check(not run(g, "1", context="idle")["fresh"], "idle")
    g.berthd.terminate()
    equal(g.berthd.wait(60), 0, "berthd's exit code")
    g.start()
    equal(value(g, "x", context="idle"), "9", "after a stop")


def test_adoption_of_what_hangs(g):
    """One that does not heed an interrupt after its berthd has died is replaced."""
    make(g, id="c", language="python")
    events = begin(g, "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2])\nprint('on', flush=True)\nwhile True: pass", context="c")
    next(events)
    g.kill_berthd()
    events.close()
    g.start()
    answer = run(g, "1", context="c")
    equal((answer["fresh"], answer["results"][0]["text"]), (True, "1"), answer)


def test_long_order_cut(g):
    """A berthd that dies amid a long order leaves a context that still works, or a fresh one."""
    make(g, id="c", language="python")
    run(g, "x = 1", context="c")
    events = begin(g, "import time; print('on', flush=True); time.sleep(600)", context="c")
    next(events)
    connection = g.connect()
    connection.request("POST", "/v1/sandbox/a/code", json.dumps({"code": "#" + "y" * 3000000, "context": "c"}))
    g.kill_berthd()
    events.close()
    connection.close()
    g.start()
    equal(value(g, "1", context="c"), "1", "after it")


TESTS = [
    test_state_lasts, test_values, test_order, test_streams, test_errors, test_requests, test_defaults, test_place,
    test_side_by_side, test_timeouts_keep, test_timeouts_caught, test_timeouts_replace, test_interrupt, test_background_stays,
    test_client_gone, test_exits, test_no_interpreter, test_output_is_bounded, test_large, test_stop_and_sleep, test_holds,
    test_deleted_meanwhile, test_many, test_stats, test_adoption, test_adoption_of_what_hangs, test_long_order_cut,
]

if __name__ == "__main__":
    main(TESTS)
