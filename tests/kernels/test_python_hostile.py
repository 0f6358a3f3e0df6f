"""The Python kernel when it is interrupted, forked, deceived; and its runs. With the host's Python."""

import os
import signal
import subprocess
import time

from kernel import LINE_MAX, Failed, check, equal, run_all
from test_python import IS_ROOT, start


# --- output ---

def test_output(kernel):
    """What was printed has left when a call is done, in its order, by Python, children and C."""
    call = kernel.ok("import sys, os, subprocess\nprint('a', end='')\nos.system('printf b')\n"
                     "subprocess.run(['printf', 'c'])\nprint('d', end='')\nsys.stderr.write('e')\nNone")
    equal((call.stdout, call.stderr), (b"abcd", b"e"))
    equal(kernel.ok("sys.stdout.write('no end'); None").stdout, b"no end")
    equal(kernel.ok("sys.stdout.buffer.write(b'\\xff\\x00'); None").stdout, b"\xff\x00")
    equal(kernel.ok("print('ü\\udcff', end='')").stdout, "ü".encode() + b"\xff")
    equal(kernel.ok("import ctypes\nctypes.CDLL(None).printf(b'from C'); None").stdout, b"from C")
    call = kernel.ok("print('x' * 5_000_000)")
    equal(len(call.stdout), 5_000_001)
    equal(kernel.ok("import os; os.fork() or os._exit(0); os.wait(); print('once', end='')").stdout, b"once")


def test_output_at_once(kernel):
    """A line is there when it is printed, not at the end."""
    call = kernel.begin(code="print('first')\nimport time\ntime.sleep(60)")
    kernel.wait_output(call, b"first\n")
    kernel.interrupt()
    kernel.finish(call).failed("KeyboardInterrupt", "interrupted")


def test_threads(kernel):
    """Threads print and show during a call and after it; what they show after it belongs to no call."""
    call = kernel.ok("import threading\ngo, shown = threading.Event(), threading.Event()\n"
                     "def work():\n    display('during')\n    shown.set()\n    go.wait()\n    display('after')\n"
                     "    print('after', flush=True)\n"
                     "t = threading.Thread(target=work)\nt.start()\nshown.wait()\nNone")
    equal([result["text"] for result in call.results], ["'during'"])
    kernel.ok("threading.Timer(0.05, go.set).start()")
    kernel.until(lambda: b"after" in kernel.stdout, "what the thread prints between calls")
    call = kernel.ok("def many():\n    for i in range(200): display('x' * 5000)\n"
                     "ts = [threading.Thread(target=many) for _ in range(4)]\n[t.start() for t in ts]\n"
                     "[t.join() for t in ts]\nNone")
    equal(len(call.results), 800, "whole lines of four threads")


# --- SIGINT ---

INTERRUPTED = {
    "sleep": "import time\nprint('x')\ntime.sleep(60)",
    "loop": "print('x')\nwhile True: pass",
    "await": "import asyncio\nprint('x')\nawait asyncio.sleep(60)\nNone",
    "loop in a coroutine": "import asyncio\nasync def f():\n    print('x')\n    while True: pass\nawait f()",
    "loop of a task": "import asyncio\nasync def f():\n    print('x')\n    while True: pass\n"
    "t = asyncio.ensure_future(f())\nawait t",
    "asyncio.run": "import asyncio\nprint('x')\nasyncio.run(asyncio.sleep(60))",
    "lock": "import threading\nl = threading.Lock(); l.acquire()\nprint('x')\nl.acquire()",
    "child": "import subprocess\nprint('x')\nsubprocess.run(['sleep', '60'])",
    "repr": "class A:\n    def __repr__(self):\n        print('x')\n        while True: pass\nA()",
    "display": "print('x')\nwhile True: display('y' * 1000)",
    "read": "import os\nr, w = os.pipe()\nprint('x')\nos.read(r, 1)",
}


def test_interrupt(kernel):
    """SIGINT ends what runs, whatever that is; variables stay."""
    kernel.ok("kept = 5")
    for whole_group in (True, False):
        for name, code in INTERRUPTED.items():
            call = kernel.begin(code=code)
            kernel.wait_output(call, b"x")
            kernel.interrupt(whole_group)
            error = kernel.finish(call).failed("KeyboardInterrupt", "interrupted")
            check(error.get("line"), f"{name}: no place:", error)
            check("python" not in "".join(line for line in error["traceback"] if "images/kernels" in line), error)
            equal(kernel.ok("kept").text, "5", name)
    equal(kernel.ok("import asyncio\nawait asyncio.sleep(0.001, 'alive')").text, "'alive'")


def test_interrupt_between(kernel):
    """Between calls SIGINT does nothing, also when a task goes on; the next call is not hit."""
    for _ in range(20):
        kernel.interrupt()
        equal(kernel.run("1").done in ("ok", "interrupted"), True)
    kernel.ok("import asyncio\nasync def tick():\n    while True:\n        await asyncio.sleep(0.001)\n"
              "async def begin(): asyncio.create_task(tick())\nawait begin()")
    kernel.interrupt()
    time.sleep(0.05)  # nothing tells that nothing happened
    equal(kernel.ok("len(asyncio.all_tasks(asyncio.get_event_loop()))").text, "1")


def test_interrupt_often(kernel):
    """Wherever SIGINT comes, every call has one end and every line is whole."""
    for i in range(100):
        call = kernel.begin(code="for i in range(30): display(i)\nprint('z')\n[1] * 1000")
        for _ in range(1000):
            kernel.interrupt(False)
            try:
                kernel.until(lambda: call.done, "", 0.0005 * (1 + i % 5))  # pylint: disable=cell-var-from-loop
                break
            except Failed:
                check(kernel.fds, "the kernel has ended")
        check(call.done in ("ok", "interrupted"), call.reports[-3:])
    equal(kernel.ok("1").text, "1")


def test_interrupt_caught(kernel):
    """Code that catches the interruption has not ended by it; its own KeyboardInterrupt is an error."""
    call = kernel.begin(code="import time\ntry:\n    print('x')\n    time.sleep(60)\nexcept KeyboardInterrupt:\n"
                        "    y = 'caught'\ny")
    kernel.wait_output(call, b"x")
    kernel.interrupt()
    equal(kernel.finish(call).ok().text, "'caught'")
    kernel.run("raise KeyboardInterrupt").failed("KeyboardInterrupt", "error")
    kernel.ok("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    call = kernel.begin(code="print('x')\ntime.sleep(60)")
    kernel.wait_output(call, b"x")
    kernel.interrupt()
    kernel.finish(call).failed("KeyboardInterrupt", "interrupted")


# --- other signals ---

def test_handler_between(kernel):
    """A handler that raises between calls is told on standard error; one that exits ends the interpreter."""
    kernel.ok("import signal\ndef late(*_):\n    raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)\n"
              "signal.setitimer(signal.ITIMER_REAL, 0.05)")
    kernel.until(lambda: b"TimeoutError: late\n" in kernel.stderr, "the error")
    check(b"    raise TimeoutError('late')" in kernel.stderr and b"images/kernels" not in kernel.stderr, kernel.stderr)
    equal(kernel.ok("signal.getsignal(signal.SIGALRM) is late, signal.signal(signal.SIGALRM, signal.SIG_DFL) is late").text, "(True, True)")
    kernel.ok("import asyncio, os\nasync def tick():\n    while True: await asyncio.sleep(0.001)\n"
              "async def begin(): asyncio.create_task(tick())\nawait begin()\n"
              "signal.signal(signal.SIGUSR1, lambda *_: print('heard') or 1/0)")
    for i in range(1, 4):
        os.kill(kernel.pid, signal.SIGUSR1)
        kernel.until(lambda: kernel.stderr.count(b"ZeroDivisionError") == i, "the handler")  # pylint: disable=cell-var-from-loop
    kernel.ok("class S(SystemExit): code = property(lambda self: open(9999))\ndef leave(*_): raise S\nsignal.signal(signal.SIGUSR1, leave)")
    os.kill(kernel.pid, signal.SIGUSR1)
    kernel.until(lambda: b"OSError" in kernel.stderr, "an exit that has no status")
    equal(kernel.ok("6 * 7").text, "42")
    kernel.ok("import atexit, sys\natexit.register(print, 'bye')\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(3))")
    os.kill(kernel.pid, signal.SIGTERM)
    equal((kernel.wait_end(), kernel.stdout[-4:]), (3, b"bye\n"))


def test_handler_often(kernel):
    """Wherever handlers raise, every call has one end and every line is whole."""
    for error in ("TimeoutError", "ValueError"):
        kernel.ok(f"import signal\ndef late(*_): raise {error}('late')\nsignal.signal(signal.SIGALRM, late)\n"
                  "def shout():\n    for i in range(20):\n        try: display('x' * 300_000)\n"
                  f"        except {error}: heard.append(i)\nheard = []")
        for _ in range(20):
            call = kernel.run("signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\nshout()")
            check(call.done == "ok" or call.failed(error), call.done)
        for _ in range(1000):
            if kernel.run("signal.setitimer(signal.ITIMER_REAL, 0)").done == "ok":
                break
        check(int(kernel.ok("len(heard)").text) > 0, "no handler has raised within display()")
    call = kernel.run("import time\nsignal.alarm(1)\ntime.sleep(60)")
    equal(call.failed("ValueError")["line"], 2)


# --- processes ---

def test_fork(kernel):
    """A forked child is no kernel: it reports nothing, takes no orders, and ends where the code ends."""
    call = kernel.ok("import os\npid = os.fork()\nif pid == 0:\n    display('child')\n    print('child', flush=True)\n"
                     "else:\n    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
                     "'value of ' + ('child' if not pid else 'parent')")
    equal((call.stdout, [r["text"] for r in call.results]), (b"child\n0\n", ["'value of parent'"]))
    for code, status in (("1/0", 1), ("raise SystemExit(7)", 7), ("raise SystemExit('why')", 1)):
        call = kernel.ok(f"pid = os.fork()\nif pid == 0:\n    {code}\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        equal(call.text, str(status), code)
    check(b"ZeroDivisionError" in kernel.stderr and b"images/kernels" not in kernel.stderr, kernel.stderr)
    kernel.ok("import asyncio\nasync def f():\n    global pid\n    pid = os.fork()\nawait f()\nif pid: os.waitpid(pid, 0)")
    kernel.ok("pid = os.fork()\nif pid == 0:\n    os.setsid()\n    import time\n    time.sleep(60)")
    kernel.close_orders()
    equal(kernel.wait_end(), 0, "a child that stays does not keep the kernel")
    # The child may have been born a moment ago, and not have come to close it.
    kernel.until(lambda: "reports" not in kernel.fds.values(), "the end of the report channel, which no child holds open")


def test_multiprocessing(kernel):
    """multiprocessing works, by fork and by spawn."""
    call = kernel.ok("import multiprocessing, operator\ndef square(x): return x * x\n"
                     "with multiprocessing.get_context('fork').Pool(2) as pool: a = pool.map(square, range(4))\n"
                     "with multiprocessing.get_context('spawn').Pool(1) as pool: b = pool.map(operator.neg, range(3))\na, b")
    equal(call.text, "([0, 1, 4, 9], [0, -1, -2])")


def test_descriptors(kernel):
    """Children inherit neither orders nor reports; the numbers are none that are guessed; it cannot be looked into."""
    given = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, close_fds=False, check=True).stdout.split()
    equal(kernel.ok("import os, subprocess\nsubprocess.run(['ls', '/proc/self/fd'], capture_output=True, close_fds=False)"
                    ".stdout.split()").text, repr(given), "what a child has")
    equal(kernel.ok("os.readlink('/proc/self/fd/0')").result["json"], "/dev/null")
    numbers = set(kernel.ok("[n for n in os.listdir('/proc/self/fd')]").result["json"]) - {n.decode() for n in given}
    check(len(numbers) == 5 and all(int(n) >= 110 for n in numbers), numbers)
    dumpable = kernel.ok("import ctypes\nctypes.CDLL(None).prctl(3, 0, 0, 0, 0)").result["json"]
    equal((dumpable != 1, kernel.ok("os.getegid()").result["json"]), (IS_ROOT, os.getegid()))


def test_end(kernel):
    """At the end of its orders it runs what atexit has, and does not wait for threads."""
    kernel.ok("import atexit, threading, time\natexit.register(print, 'bye')\n"
              "threading.Thread(target=time.sleep, args=(60,)).start()")
    kernel.close_orders()
    equal((kernel.wait_end(), kernel.stdout), (0, b"bye\n"))


# --- hostile code ---

HOSTILE = {
    "sys.stdout": "import sys, io\nsys.stdout = io.StringIO()\nsys.stderr = None",
    "a stream that fails": "import sys\nclass S:\n    def flush(self): 1/0\n    def write(self, x): 1/0\n"
    "sys.stdout = sys.stderr = S()",
    "closed streams": "import sys\nsys.stdin.close(); sys.stdout.close(); sys.stderr.close()",
    "closed descriptors": "import os\nos.close(0); os.close(1); os.close(2)",
    "builtins": "import builtins\n"
                "for n in ('print repr len isinstance issubclass type str getattr eval exec compile __import__ dict any next '\n"
                "          'enumerate hasattr callable open list id map min').split():\n"
                "    setattr(builtins, n, lambda *a, **k: 'lie')",
    "modules": "import json, os, sys, traceback, linecache, signal, time, posix, _thread, _signal\n"
               "for m in (json, os, traceback, linecache, signal, time, posix, _thread, _signal):\n"
               "    for n in dir(m):\n"
               "        if callable(getattr(m, n)) and n[0] != '_': setattr(m, n, lambda *a, **k: 1/0)",
    "sys": "import sys\nsys.excepthook = sys.displayhook = sys.getrecursionlimit = None\nsys.path = None\n"
    "sys.meta_path = []",
    "sys.modules": "import sys\nsys.modules.clear()",
    "a trace": "import sys\ndef t(*a): raise ValueError('traced')\nsys.settrace(t)\nsys.setprofile(t)",
    "a deep limit": "import sys\nsys.setrecursionlimit(60)",
    "__main__": "import sys\nsys.modules['__main__'].__dict__.pop('__builtins__', None)\nglobals().clear()",
    "gc": "import gc\nclass D:\n    def __del__(self): display('deleted')\ngc.set_threshold(1)\nd = D(); d.d = d; del d",
    "limits": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
}


def test_hostile(kernel):
    """Code that replaces what the kernel stands on does not change what is told of later calls."""
    del kernel  # each has one of its own
    for name, code in HOSTILE.items():
        victim = start()
        try:
            victim.run(code)
            equal(victim.run("6 * 7").text, "42", name)
            error = victim.run("\n1/0").failed("ZeroDivisionError")
            equal((error.get("line"), error["message"]), (2, "division by zero"), name)
            equal(victim.run("x = = 1").failed("SyntaxError")["line"], 1, name)
            check(all("images/kernels" not in line for line in error["traceback"]), name, error["traceback"])
            check(victim.close(), name, "has ended badly:", victim.status, victim.stderr)
        finally:
            if victim.status is None:
                victim.close()


def test_streams_again(kernel):
    """Streams that the code closed are there again in the next call."""
    kernel.run(HOSTILE["closed streams"])
    equal(kernel.ok("print('back')").stdout, b"back\n")
    kernel.run(HOSTILE["closed descriptors"])
    equal(kernel.ok("print('again'); sys.stderr.write('err'); os.read(0, 1)").text, "b''")
    equal((kernel.stdout[-6:], kernel.stderr), (b"again\n", b"err"))
    kernel.ok("with open(1, 'w') as f: f.write('direct')")
    equal(kernel.ok("print('third')").stdout, b"third\n")


def test_large_orders(kernel):
    """An order of nearly 16 MiB, and one that comes in pieces."""
    code = "x = '" + "y" * (LINE_MAX - 100) + "'\nlen(x)"
    equal(kernel.ok(code).text, str(LINE_MAX - 100))
    kernel.begin(code="1")
    for part in (b'{"call": 99, "co', b'de": "5"}\n{"call": 100, "code": "6"}', b"\n"):
        kernel.write(part)
        time.sleep(0.01)
    kernel.until(lambda: {"call": 100, "done": "ok"} in kernel.strays, "the pieces")
    kernel.load("def main(*numbers): return [str(n) for n in numbers[:-1]]", env={}).ok()
    kernel.write(b'{"call": 101, "invoke": {"input": [1%s, 7, 0.5]}}\n' % (b"0" * 5000))
    kernel.until(lambda: {"call": 101, "done": "ok"} in kernel.strays, "an input with more digits than int() takes")
    value = next(stray["value"] for stray in kernel.strays if "value" in stray)
    check(value[0] in ("inf", "1" + "0" * 5000) and value[1:] == ["7", "0.5"], value)
    kernel.strays.clear()


# --- runs ---

def test_run(kernel):
    """main gets input, and env last where it has a place; without a main the last value counts."""
    for code, given, value in (
            ("def main(a, b, env): return [a, b, env, globals()['env']]", {"input": [1, 2]}, [1, 2, {"K": "v"}, {"K": "v"}]),
            ("def main(x): return x", {"input": {"a": 1}}, {"a": 1}), ("def main(env): return env", {}, {"K": "v"}),
            ("def main(): return 1", {}, 1), ("def main(a, b): return a + b", {"input": [1, 2]}, 3),
            ("def main(*a, env): return [a, env]", {"input": [1]}, [[1], {"K": "v"}]),
            ("def main(*a): return a", {"input": "s"}, ["s", {"K": "v"}]), ("main = lambda x: x * 2", {"input": 4}, 8),
            ("import asyncio\nasync def main(x): return await asyncio.sleep(0, x + 1)", {"input": 1}, 2),
            ("import os\nos.environ['K'] + env['K']", {}, "vv"), ("x = await __import__('asyncio').sleep(0, 3)\nx", {}, 3),
            ("def fetch(request, env): return {'status': 200, 'body': request['url']}", {"request": {"url": "/u"}},
             {"status": 200, "body": "/u"}),
            ("def main(x): return (1, {2: x})", {"input": None}, [1, {"2": None}])):
        call = kernel.load(code, env={"K": "v"}).ok()
        check(call.is_checked, code)
        for _ in range(2):
            equal(kernel.invoke(**given).ok().value, value, code)
    equal(kernel.load("x = 1").ok().results, [])
    equal(kernel.invoke().ok().reports[0], {"call": kernel.count, "value": None, "nothing": True})


def test_run_module(kernel):
    """It has a module of its own; a file with a main is imported, one without is run as a script."""
    kernel.ok("private = 1")
    kernel.load("private").failed("NameError")
    kernel.invoke().failed("LookupError")
    equal(kernel.load("def main(): pass\nif __name__ == '__main__': print('script')").ok().stdout, b"")
    equal(kernel.load("if __name__ == '__main__': print('script')").ok().stdout, b"script\n")


def test_run_script(kernel):
    """Code that calls its main by itself is a script, unless there is something to give to main."""
    for code, value in (("def main(): print('ran')\nmain()", None), ("def main(): print('ran'); return 5\nmain()", 5),
                        ("import asyncio\nasync def main(): print('ran'); return 5\nasyncio.run(main())", 5),
                        ("async def main(): print('ran'); return 5\nawait main()", 5), ("async def main(): print('ran'); return 5\nmain()", 5),
                        ("def main(): print('ran'); return 5\nfor i in range(1):\n    x = [main()]\nx", [5]),
                        ("def main(): print('ran')\ntry:\n    main()\nfinally: pass\n6", 6),
                        ("main = lambda: print('ran')\nmain()", None),
                        ("main = lambda: print('ran')\nif __name__ == '__main__': main()", None),
                        ("def main(): print('ran'); return 5\nif __name__ == '__main__': pass\nelse: main()\n7", 7)):
        printed = kernel.load(code).ok().stdout
        calls = [kernel.invoke().ok() for _ in range(2)]
        equal((printed + calls[0].stdout + calls[1].stdout, [call.value for call in calls]), (b"ran\n", [value, value]), code)
    for code in ("if __name__ == '__main__': main()", "if '__main__' == __name__ and True:\n    print(main())", "def f(): main()",
                 "f = lambda: main()", "class C:\n    def f(self): return main()", "f = main", "obj = str('main()')", "'main()'"):
        equal(kernel.load(f"def main(): print('ran'); return 5\n{code}").ok().stdout, b"", code)
        call = kernel.invoke().ok()
        equal((call.stdout, call.value), (b"ran\n", 5), code)
    kernel.load("def main(n=1): return n * 2\nmain()").ok()
    equal([kernel.invoke(input=n).ok().value for n in (3, [4], [])] + [kernel.invoke().ok().value], [6, 8, 2, 2])
    kernel.load("def main(request): return request['url']\nmain({'url': 'own'})").ok()
    equal([kernel.invoke(request={"url": "/u"}).ok().value, kernel.invoke().ok().value], ["/u", "own"])


def test_run_given_to_nothing(kernel):
    """An input or a request that nobody takes is an error that says what to define."""
    for code in ("5", "main = 5", "def other(x): return x", "if __name__ == '__main__': main = None"):
        kernel.load(code).ok()
        for given in (1, None, []):
            equal(kernel.invoke(input=given).failed("LookupError")["message"],
                  "the input was given to nothing: define a function `main` that takes it", code)
        equal(kernel.invoke(request={"url": "/"}).failed("LookupError")["message"],
              "the request was given to nothing: define a function `fetch` that takes it", code)
        kernel.invoke(request=None).ok()
    kernel.load("def main(x): return x\nraise SystemExit").ok()
    equal(kernel.invoke(input=1).ok().value, None, "it has ended by itself")


def test_run_exit(kernel):
    """Code that exits while it is loaded has nothing to invoke, unless it says that all is well."""
    own = "class S(SystemExit):\n    code = property(lambda self: {})\nraise S()"
    for code in ("raise SystemExit", "raise SystemExit(0)", own.format("0")):
        kernel.load(code).ok()
        equal([kernel.invoke().ok().value, kernel.invoke(input=1).ok().value], [None, None], code)
    for code, name in (("raise SystemExit(3)", "SystemExit"), (own.format("1/0"), "ZeroDivisionError"), (own.format("3"), "S")):
        kernel.load(code).failed(name)
        kernel.invoke().failed("LookupError")
    kernel.load("def main(): raise SystemExit").ok()
    equal(kernel.invoke().ok().value, None)
    kernel.load(f"def main():\n    {own.format('1/0')[:-9]}    raise S()".replace("\n    code", "\n        code")).ok()
    kernel.invoke().failed("ZeroDivisionError")


def test_run_errors(kernel):
    """Syntax is checked first; errors of main have their place; what is no JSON is refused."""
    call = kernel.load("print(1)\ndef main(:", file="task.py")
    error = call.failed("SyntaxError")
    equal((call.is_checked, error["line"], error["file"], call.stdout), (False, 2, "task.py", b""))
    call = kernel.load("raise ValueError('x')")
    check(call.is_checked and call.failed("ValueError"), call.reports)
    kernel.load("def main(x):\n    return x.a", file="task.py").ok()
    equal(kernel.invoke(input=[1]).failed("AttributeError")["line"], 2)
    kernel.invoke(input=[1, 2, 3]).failed("TypeError")
    for code in ("{1}", "object()", "float('nan')", "[float('inf')]", "b'x'", "(l := [], l.append(l))[0]", "10**5000",
                 "{(1,): 1}", "{1: 'a', '1': 'b'}", "{None: 'a', 'null': 'b'}"):
        kernel.load(f"def main(): return {code}").ok()
        error = kernel.invoke().failed("TypeError")
        check("JSON" in error["message"] or "contains itself" in error["message"], error)
    kernel.load("def main(): return {'a': [0, {True: 'a', 'true': 'b'}]}").ok()
    equal(kernel.invoke().failed("TypeError")["message"], "two keys that are both 'true' have no form in JSON, at ['a'][1] of the result")
    kernel.load("def main(innermost, levels):\n    for i in range(levels - 1): innermost = [innermost] if i % 2 else {'k': innermost}\n"
                "    return innermost").ok()
    for innermost in ([], {}, [1]):
        check(kernel.invoke(input=[innermost, 28]).ok().value, innermost)
        check("nested deeper than 28" in kernel.invoke(input=[innermost, 29]).failed("TypeError")["message"], innermost)
    kernel.load("def main(): return 'x' * (17 << 20)").ok()
    error = kernel.invoke().failed("ValueError")
    equal((error["too_long"], error["traceback"][-1]), (True, "ValueError: " + error["message"]))
    error = kernel.run("raise ValueError('own')").failed("ValueError")
    check("too_long" not in error, "one of the code's own")


def test_run_logs(kernel):
    """logging and warnings are reports in a run, with level and time, and print nothing; not in a context."""
    code = ("import logging, warnings\nlog = logging.getLogger('mine')\ndef main():\n    logging.debug('d'); "
            "log.info('i %d', 5)\n"
            "    log.warning('w'); log.error('e'); log.critical('c')\n    warnings.warn('careful')\n    print('out')")
    before = time.time()
    check(not kernel.load(code).ok().logs, "too early")
    call = kernel.invoke().ok()
    equal([(log["level"], log["message"]) for log in call.logs[:5]],
          [("debug", "d"), ("info", "i 5"), ("warn", "w"), ("error", "e"), ("error", "c")])
    equal((call.logs[5]["level"], "careful" in call.logs[5]["message"], len(call.logs)), ("warn", True, 7))
    equal((call.logs[6]["level"], call.logs[6]["message"]), ("stdout", "out\n"))
    check(all(before - 1 < log["time"] < time.time() + 1 for log in call.logs[:6]), call.logs)
    equal((call.stdout, call.stderr), (b"", b""))
    other = start()
    call = other.ok("import logging, warnings\nlogging.warning('w')\nwarnings.warn('careful')")
    check(not call.logs and b"w" in call.stderr and b"careful" in call.stderr, call.reports, call.stderr)
    check(other.close())


def test_run_halves(kernel):
    """Half of a character at the end of a call is told with that call."""
    kernel.load("import sys\ndef main(data, rest=''):\n    sys.stderr.write('e\\n')\n    for part in (data, rest):\n"
                "        sys.stdout.buffer.write(part.encode('latin-1'))\n        sys.stdout.buffer.flush()").ok()
    for given, said in ((["x", ""], "x"), (["x\xe2\x82"], "x\ufffd"), (["\xacy"], "\ufffdy"), (["x\xe2\x82", "\xac"], "x€"), (["z"], "z")):
        call = kernel.invoke(input=given).ok()
        equal("".join(log["message"] for log in call.logs if log["level"] == "stdout"), said, given)
    kernel.load("import sys\nsys.stdout.write('o\\n')\nsys.stderr.buffer.write(b'\\xe2')\nsys.stdout.close()").ok()
    equal([log["message"] for log in kernel.calls[kernel.count].logs][-1], "\ufffd")


if __name__ == "__main__":
    run_all(globals(), start)
