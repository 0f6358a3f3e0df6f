"""Contexts whose code is hostile: it can lie about itself, and about nothing and nobody else."""

import json
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from code_api import begin, check_kept, contexts, delete, make, out, run, value  # noqa: E402
from ground import IS_SANITIZED, Peak, check, equal, main, memory_of, pid_namespace, until  # noqa: E402

REASONS = ("completed", "bad_report", "exited", "timeout", "killed")

# Writes to every descriptor it can find, its own and those of others.
SPRAY = """
import os, glob
line = b'%s'
for path in glob.glob('/proc/[0-9]*/fd/*'):
    if path.startswith('/proc/1/'): continue
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(fd, line)
        os.close(fd)
    except OSError: pass
for fd in range(3, 200):
    try: os.write(fd, line)
    except OSError: pass
"""


# The descriptor that a kernel hides: a pipe that it writes to, and that is neither of its streams.
FIND = """
import os, fcntl
def is_hidden(fd):
    try:
        return (os.readlink(f'/proc/self/fd/{fd}').startswith('pipe:') and fcntl.fcntl(fd, fcntl.F_GETFL) & 3 == 1
                and os.fstat(fd).st_ino not in (os.fstat(1).st_ino, os.fstat(2).st_ino))
    except OSError: return False
pipe = next(filter(is_hidden, range(3, 4096)))
"""


def test_streams_replaced(g):
    """Code that replaces its streams, and what prints and encodes, harms nobody: what it says is its own."""
    for language, code in (
            ("python", "import sys, io, json, builtins\nsys.stdout = io.StringIO(); sys.stderr = None; sys.stdin = 3\n"
                       "json.dumps = lambda *a, **k: 'x'; builtins.print = None; builtins.len = None; sys.modules.clear()"),
            ("javascript", "console.log = 1; JSON.stringify = () => 'x'; JSON.parse = null; process.stdout.write = null;"
                           "Object.prototype.call = 7; Array.prototype.push = null; String.prototype.slice = null;"
                           "Object.defineProperty(Object.prototype, 'text', { get() { return 'y' } }); globalThis.process = null"),
            ("bash", "printf() { :; }; echo() { :; }; read() { :; }; exec 1>/dev/null 2>&1; IFS=x; set -f")):
        first = run(g, code, language=language, timeout_ms=5000)
        check(first["reason"] in REASONS, first)
        second = run(g, "1 + 1", language=language, timeout_ms=5000)
        check(second["reason"] in REASONS, second)
        equal(value(g, "6 * 7", context=make(g, language="python")["id"]), "42", f"another, after {language}")


def check_after(g, language, code, probes):
    """What follows is right in the same interpreter, or that one is replaced, which is said, and a fresh one is right."""
    context = make(g, language=language)["id"]
    answer = run(g, code, context=context, timeout_ms=4000)
    check(answer["reason"] in REASONS, code, answer)
    for probe, expected in probes:
        after = run(g, probe, context=context, timeout_ms=20000)
        if after["replaced"]:
            check(after["message"] and after["reason"] in ("bad_report", "exited", "timeout"), code, after)
            answer, after = after, run(g, probe, context=context, timeout_ms=20000)
        check(after["fresh"] or not answer["replaced"], code, after)
        told = (after["results"][-1]["text"] if after["results"] else after["stdout"]) or (after["error"] or {}).get("message")
        if "Promise.prototype.then" in code and "cannot be seen" in (told or ""):  # node 18: it is not made up
            expected = told
        equal((after["reason"], told), ("completed", expected), f"{code}: {probe}: {after}")
        answer = after
    delete(g, context)


def test_bash_broken(g):
    """bash that was robbed of its builtins, options and descriptors answers rightly, or is replaced."""
    for code in ("printf() { :; }; read() { :; }; eval() { :; }; trap() { :; }; exec() { :; }; source() { :; }", "local() { :; }",
                 "builtin() { :; }", "return() { :; }; :() { return 1; }; shopt() { :; }", "exit() { :; }", "set -e; false", "set -u; $x",
                 "set -k", "set -n", "set -o posix", "set -r", "IFS=0123456789", "readonly IFS", "readonly call code line i",
                 "readonly berth_call", "exec 0<&- 1>&- 2>&-", "for ((i = 3; i < 1000; i++)); do eval \"exec $i>&-\"; done 2>/dev/null",
                 "enable -n printf read local", "enable -n builtin", "unset BASH_SUBSHELL FUNCNAME", "FUNCNEST=2", "ulimit -n 3",
                 "shopt -s expand_aliases; alias builtin=: local=: source=:", "trap 'exit 3' EXIT; exit 4", "exec /nonexistent",
                 "kill -STOP $$"):
        check_after(g, "bash", code, (("echo on", "on\n"), ("(exit 6)", "exit status 6"), ("exit 3; echo no", "exit 3"), ("echo on", "on\n")))


def test_python_broken(g):
    """Python whose builtins, modules and streams were replaced answers rightly, or is replaced."""
    for code in ("import sys; sys.stdout = sys.stderr = sys.stdin = None", "import builtins; builtins.print = None; builtins.repr = None",
                 "import builtins\nfor n in list(vars(builtins)):\n    if n != '__build_class__': delattr(builtins, n)",
                 "import sys; sys.modules.clear(); sys.path.clear(); sys.meta_path.clear()", "import sys; sys.setrecursionlimit(60)",
                 "import sys; sys.settrace(lambda *a: 1 / 0)", "import os; os.write = os.read = os.getpid = None; os.environ = None",
                 "import json; json.dumps = json.JSONEncoder = None", "import signal; signal.signal(2, signal.SIG_IGN)",
                 "import os; os.close(1); os.close(2); os.close(0)", "globals().clear()", "import gc; gc.disable(); gc.freeze()",
                 "import sys; sys.displayhook = sys.excepthook = None; sys.exit = None", "import os; os.closerange(3, 4096)",
                 "import asyncio; asyncio.get_event_loop_policy = None; asyncio.run = None", "raise SystemExit(3)", "exit()",
                 "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
                 "class E(Exception):\n    def __str__(self): raise self\n    __repr__ = __str__\nraise E",
                 "class R:\n    def __repr__(self): raise SystemExit\nR()", "import threading\nthreading.Thread(target=lambda: 1 / 0).start()"):
        check_after(g, "python", code, (("6 * 7", "42"), ("1 / 0", "division by zero"), ("[n for n in (1, 2)]", "[1, 2]")))


def test_javascript_broken(g):
    """JavaScript whose globals and prototypes were replaced answers rightly, or is replaced."""
    for language, code in (
            *(("javascript", code) for code in (
                "console = null", "globalThis.JSON = null; JSON", "process.stdout.write = process.stderr.write = () => { throw 1 }",
                "Object.defineProperty(process, 'stdout', { get() { throw 1 } })", "globalThis.Promise = null; delete globalThis.process",
                "Promise.prototype.then = Promise.prototype.catch = Promise.resolve = null",
                "for (const n of ['result', 'error', 'call', 'done', 'value', 'text', 'toJSON', 'then'])"
                " Object.defineProperty(Object.prototype, n, { set() { throw 1 }, get() { return 'forged' }, configurable: true })",
                "for (const n of Object.getOwnPropertyNames(globalThis)) if (n !== 'globalThis') try { delete globalThis[n] } catch {}",
                "Array.prototype[Symbol.iterator] = null; Array.prototype.push = Array.prototype.map = null",
                "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = null; Reflect.apply = null",
                "String.prototype.split = String.prototype.slice = RegExp.prototype.exec = null", "Error.prepareStackTrace = () => { throw 1 }",
                "Error.stackTraceLimit = 0; globalThis.Error = null", "process.exit = process.kill = process.emit = null",
                "process.removeAllListeners(); process.on('SIGINT', () => {})", "Map.prototype.get = Map.prototype.set = null; Symbol.iterator",
                "Object.freeze(Object.prototype); Object.freeze(globalThis)", "setTimeout(() => { throw new Error('late') })",
                "Promise.reject(new Error('late')); 1", "process.exitCode = 9; process.stdin.destroy()",
                "for (let fd = 0; fd < 3; fd++) require('fs').closeSync(fd)", "throw null", "throw { get message() { throw 1 } }")),
            ("typescript", "globalThis.JSON = null as any; (Object.prototype as any).then = 1;")):
        check_after(g, language, code, (("6 * 7", "42"), ("null.x", "Cannot read properties of null (reading 'x')"), ("[1, 2].length", "2")))


def test_forged_reports(g):
    """Reports that are forged for other calls reach no other call, whichever descriptor they were written to."""
    victim = make(g, id="victim", language="python", user="1000")["id"]
    run(g, "secret = 1", context=victim)
    waiting = begin(g, "import time\nprint('on', flush=True)\nwhile not __import__('os').path.exists('/workspace/on'): time.sleep(0.01)\n'mine'",
                    context=victim)
    equal(next(waiting)[0], "stdout", "it runs")
    for user in ("0", "1000"):
        forger = make(g, id=f"forger{user}", language="python", user=user)["id"]
        for number in (1, 2, "' + str(i).encode() + b'"):
            line = json.dumps({"call": 1, "done": "ok"}).replace("1", str(number), 1) + "\\n"
            answer = run(g, SPRAY % line, context=forger, timeout_ms=20000)
            check(answer["reason"] in REASONS, answer)
    run(g, "open('/workspace/on', 'w')", context=make(g, language="python")["id"])
    rest = list(waiting)
    equal(rest[-1][0], "done", rest)
    # The same user may end it, or break it; what it cannot do is answer for it.
    if rest[-1][1]["reason"] == "completed":
        equal([data["text"] for name, data in rest if name == "result"], ["'mine'"], rest)
    else:
        check(rest[-1][1]["reason"] in ("bad_report", "exited"), rest)
    check(not any(name == "result" and data["text"] != "'mine'" for name, data in rest), rest)


# Looks into every other process of its user, from before it has begun until the file is there.
PROBE = """
import os, ctypes, time
opened, seen, me = [], set(), os.getpid()
print('on', flush=True)
while not os.path.exists('/workspace/%s'):
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if int(pid) in (1, me): continue
        seen.add(int(pid))
        for name in ('mem', 'environ', 'fd/0', 'fd/1', 'fd/3', 'fd/4'):
            try: os.close(os.open(f'/proc/{pid}/{name}', os.O_RDONLY if name == 'environ' else os.O_RDWR if name == 'mem' else os.O_WRONLY | os.O_NONBLOCK))
            except OSError: continue
            opened.append((pid, name))
for pid in seen:
    if ctypes.CDLL(None).ptrace(16, pid, 0, 0) == 0: opened.append((pid, 'ptrace'))
len(seen), opened
"""


def test_out_of_reach(g):
    """Whoever runs in one context cannot look into the interpreter of another, from its first moment on, whatever its user and trust."""
    for trust in (None, "untrusted"):
        sandbox = f"s-{trust}".lower()
        if trust:
            equal(g.request("PUT", f"/v1/sandbox/{sandbox}", {"trust": trust}).status, 200, "trust")
        prober = make(g, id="prober", language="python", sandbox=sandbox)["id"]
        with begin(g, PROBE % "end", context=prober, sandbox=sandbox) as probe:
            equal(next(probe)[0], "stdout", "it looks")
            for language in ("python", "javascript", "bash"):
                victim = make(g, id=f"victim-{language}", language=language, sandbox=sandbox)["id"]
                answer = run(g, "1" if language != "bash" else "mkdir -p /tmp/y && touch /tmp/x && mv /tmp/x /tmp/y && ln /tmp/y/x /workspace/x", context=victim,
                             sandbox=sandbox)
                equal((answer["reason"], answer["error"]), ("completed", None), str(answer))
            equal(run(g, "touch /workspace/end", context="victim-bash", sandbox=sandbox)["error"], None, "end")
            result = [data["text"] for name, data in probe if name == "result"]
        count, opened = json.loads(result[0].replace("(", "[").replace(")", "]").replace("'", '"'))
        check(count >= 3, f"it has seen {count} others")
        equal(opened, [], f"what it could open, trust {trust}")


def test_garbage(g):
    """A kernel that says what makes no sense is replaced, and the answer says so."""
    for garbage in ("b'\\n'", "b'{}\\n'", "b'[]\\n'", "b'\\xff\\n'", "b'{\"ready\":true,\"pid\":1}\\n'",
                    "b'{\"call\":1,\"done\":\"ok\"}\\n'", "b'{\"call\":1,\"result\":{\"text\":\"forged\"}}\\n'"):
        answer = run(g, FIND + f"os.write(pipe, {garbage})\nimport time; time.sleep(60)", timeout_ms=30000)
        equal((answer["reason"], answer["replaced"], answer["results"]), ("bad_report", True, []), f"{garbage}: {answer}")
        after = run(g, "1")
        equal((after["fresh"], after["results"][0]["text"]), (True, "1"), after)


def test_endless_line(g):
    """A report without an end takes 16 MiB of us at most, in all contexts of a sandbox together no more than 48."""
    before = memory_of(g.berthd.pid)
    with Peak(g.berthd.pid) as peak:
        answer = run(g, FIND + "b = b'x' * (1 << 20)\nfor i in range(1 << 20): os.write(pipe, b)", timeout_ms=60000)
    equal((answer["reason"], answer["replaced"]), ("bad_report", True), answer)
    check(IS_SANITIZED or peak.most - before < 64 << 20, f"berthd grew from {before} to {peak.most} bytes")
    half = FIND + "b = b'x' * (1 << 20)\nfor i in range(14): os.write(pipe, b)\nprint('on', flush=True)\nimport time; time.sleep(600)"
    made = [make(g, id=f"c{i}", language="python")["id"] for i in range(6)]
    calls = [begin(g, half, context=c) for c in made]
    ends = [next(c) for c in calls]
    check(sum(1 for name, data in ends if name == "done" and data["reason"] == "bad_report") >= 1, ends)
    for call in calls:
        call.close()


def test_many_lines(g):
    """The bound on reports without an end is one on their sum, however short each of them is."""
    short = FIND + "b = b'x' * 1000000\nfor i in range(4): os.write(pipe, b)\nprint('on', flush=True)\nimport time; time.sleep(600)"
    made = [make(g, id=f"c{i}", language="python")["id"] for i in range(16)]
    calls = []
    before = memory_of(g.berthd.pid)
    with Peak(g.berthd.pid) as peak:
        for context in made:
            calls.append(begin(g, short, context=context))
            next(calls[-1])
    check(IS_SANITIZED or peak.most - before < 60 << 20, f"berthd grew from {before} to {peak.most} bytes")
    ended = [c["id"] for c in contexts(g).values() if c["state"] == "absent"]
    check(1 <= len(ended) <= 8, ended)
    for call in calls:
        call.close()
    equal(value(g, "1", context=ended[0]), "1", "one that was refused")


# A report of the call that runs, with room for so many bytes; `write` writes all of what it is given.
REPORT = FIND + """
import gc, time
number = next(o.call for o in gc.get_objects() if isinstance(o, type) and isinstance(getattr(o, 'call', None), int))
def write(line):
    while line: line = line[os.write(pipe, line):]
line = b'{"call":%%d,"result":{"text":"' %% number + b'x' * %d + b'"}}\\n'
"""


def test_others_lines(g):
    """Lines that have no end are at the cost of those who hold them, and of nobody who has more to say."""
    hold = REPORT % (9 << 20) + "write(line[:-1])\nprint('on', flush=True)\ntime.sleep(600)"
    names = [(f"b{n}", f"c{i}") for n in range(6) for i in range(2)]  # all that may be held
    for name, context in names:
        make(g, id=context, language="python", sandbox=name)
    calls = [begin(g, hold, context=context, sandbox=name) for name, context in names]
    equal([next(c)[0] for c in calls], ["stdout"] * len(calls), "they hold")
    answer = run(g, REPORT % (3 << 20) + "write(line)")
    equal((answer["reason"], len(answer["results"])), ("completed", 1), "a little more")
    time.sleep(6)  # no line takes that long
    slow = REPORT % (9 << 20) + ("write(line[:-1])\nprint('on', flush=True)\n"
                                 "while not os.path.exists('/workspace/on'): time.sleep(0.01)\nwrite(line[-1:])")
    own = [begin(g, slow, context=make(g, id=f"c{i}", language="python")["id"]) for i in range(3)]
    equal([next(c)[0] for c in own], ["stdout"] * 3, "more than any of them")
    run(g, "open('/workspace/on', 'w')")
    ends = [list(c)[-1] for c in own]
    equal([(name, data["reason"]) for name, data in ends], [("done", "completed")] * 3, ends)
    ended = [name for name in names if contexts(g, name[0])[name[1]]["state"] == "absent"]
    equal(len(ended), 3, ended)
    for call in calls:
        call.close()


def test_idle_line(g):
    """A kernel without a call has nothing to say that is long."""
    late = FIND + ("import threading, time\ndef late():\n    time.sleep(0.3)\n    os.write(pipe, b'x' * 40000)\n    time.sleep(600)\n"
                   "threading.Thread(target=late, daemon=True).start()")
    context = make(g, language="python")["id"]
    equal(run(g, late, context=context)["reason"], "completed", "the call before it")
    until(lambda: contexts(g)[context]["state"] == "absent", "its end")
    check(run(g, "1", context=context)["fresh"], "the next call")


def test_results_dropped(g):
    """An error that leaves no room for results: each of those that are not there is counted."""
    answer = run(g, "import sys\nfor i in range(3):\n    display('x' * 1000000)\nframe = sys._getframe()\n"
                    "while 'report' not in frame.f_globals:\n    frame = frame.f_back\n"
                    "frame.f_globals['report'](error={'name': 'E', 'message': 'x' * 6000000})")
    equal((answer["results"], answer["results_dropped"]), ([], 3), answer)
    check("too long" in answer["error"]["message"], answer)


def test_pretended_end(g):
    """A call that pretends its own end has it; what it says later ends its kernel, and is nobody's."""
    code = (FIND + "import gc, time\nnumber = next((o.call for o in gc.get_objects() if isinstance(o, type) and isinstance(getattr(o, 'call', None), int)), 0)\n"
            "os.write(pipe, b'{\"call\":%d,\"result\":{\"text\":\"lie\"}}\\n{\"call\":%d,\"done\":\"ok\"}\\n' % (number, number))\n"
            "time.sleep(1)")
    answer = run(g, code, timeout_ms=20000)
    check(answer["reason"] in ("completed", "bad_report"), answer)
    for _ in range(3):
        after = run(g, "'true'", context=make(g, language="python")["id"])
        equal([r["text"] for r in after["results"]], ["'true'"], after)
    check(run(g, "1")["reason"] in REASONS, "the same context")


def test_broken_pipes(g):
    """Code that closes all its descriptors, or stops itself, ends with its own call alone."""
    answer = run(g, "import os\nos.closerange(0, 4096)")
    check(answer["reason"] in ("exited", "bad_report", "lost"), answer)
    equal(value(g, "1"), "1", "after it")
    answer = run(g, "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", timeout_ms=300)
    equal((answer["reason"], answer["replaced"]), ("timeout", True), answer)
    answer = run(g, "import os\nwhile os.fork() == 0: pass\nwhile True: pass", timeout_ms=300)
    equal(answer["reason"], "timeout", answer)
    equal(value(g, "1"), "1", "after it")
    equal(contexts(g)["default-python"]["state"], "ready", "state")


def test_dies_unread(g):
    """Nobody reads, its interpreter dies, and what it had started goes on printing: its time ends the call."""
    flood = "import os, subprocess, time\nsubprocess.Popen(['yes', 'x' * 4000])\ntime.sleep(1)\nos.kill(os.getpid(), 9)"
    with begin(g, flood, timeout_ms=3000) as stream:
        until(lambda: g.get("/v1/sandbox/a/context").json()["contexts"][0]["state"] != "busy", "its end")
        check(any(event == "done" for event, _ in stream), "an end")
    equal(value(g, "3"), "3", "the next call")


def host_pid(g, init, inside):
    """Of a process of that init's sandbox."""
    def is_it(pid):
        try:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
                numbers = next((line.split()[1:] for line in status if line.startswith("NSpid:")), [])
            return numbers[-1:] == [str(inside)] and pid_namespace(pid) == pid_namespace(init)
        except OSError:
            return False
    return next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_it(pid))


def test_dies_unseen(g):
    """An interpreter that died before its call, unseen as yet: the call says that, and not that the code closed its stdin."""
    context = make(g, language="python")["id"]
    equal(value(g, "1", context=context), "1", "it lives")
    init = g.inits()[0]
    kernel = host_pid(g, init, contexts(g)[context]["pid"])
    os.kill(init, signal.SIGSTOP)
    try:
        os.kill(kernel, signal.SIGKILL)
        call = begin(g, "2 #" + "x" * (1 << 20), context=context)  # more than its pipe holds
    finally:
        os.kill(init, signal.SIGCONT)
    rest = list(call)
    equal((rest[-1][0], rest[-1][1]["reason"], rest[-1][1].get("signal")), ("done", "exited", 9), rest)
    equal(value(g, "3", context=context), "3", "after it")


def test_slow_reader(g):
    """A client that does not read holds up its own call alone, and a timeout ends that."""
    flood = begin(g, "import os\nwhile True: os.write(1, b'x' * 65536)", timeout_ms=2000)
    equal(value(g, "1", context=make(g, language="python")["id"]), "1", "beside it")
    before = memory_of(g.berthd.pid)
    with Peak(g.berthd.pid) as peak:
        equal(out(g, "print('on')"), "on\n", "after it, in the same")
    check(IS_SANITIZED or peak.most - before < 64 << 20, f"berthd grew from {before} to {peak.most} bytes")
    rest = list(flood)
    equal((rest[-1][0], rest[-1][1]["reason"]), ("done", "timeout"), rest[-1])


# Says that it is done, and only then prints a lot: its end is known, and what it has printed is not read yet.
DONE_FIRST = """
import fcntl, os, sys, time
frame = sys._getframe()
while 'report' not in frame.f_globals: frame = frame.f_back
fcntl.fcntl(1, 1031, 1 << 20)
print('on', flush=True)
time.sleep(0.5)
frame.f_globals['report'](is_last=True, done='ok')
os.write(1, b'x' * (1 << 20))
"""


def begin_unread(g, **options):
    """Of all that its client has read no more than the first line; its code is done."""
    stream = begin(g, DONE_FIRST, **options)
    equal(next(stream)[0], "stdout", "it runs")
    os.kill(g.berthd.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(g.berthd.pid, signal.SIGCONT)
    return stream


def test_unread_end(g):
    """A client that does not read the end has the time of its call, or some if others wait."""
    for options in ({"timeout_ms": 4000}, {}):
        with begin_unread(g, **options) as unread:
            started = time.monotonic()
            equal(out(g, "print('on')"), "on\n", "after it, in the same")
            check(time.monotonic() - started < 20, options)
            name, data = list(unread)[-1]
        equal((name, data["reason"]), ("done", "completed"), data)
        check("missing" in data["message"], data)
    with begin_unread(g) as slow:
        time.sleep(11)
        check("message" not in list(slow)[-1][1], "nobody else waited")


# Prints until nobody takes any more, and ends.
FULL = """
import os, time
os.set_blocking(1, False)
since = time.monotonic()
while time.monotonic() - since < 0.5:
    try:
        os.write(1, b'x' * 4096)
        since = time.monotonic()
    except BlockingIOError:
        time.sleep(0.01)
os.set_blocking(1, True)
open('/workspace/ended-%s', 'w')
"""


def test_unread_and_ended(g):
    """So it is when all of the code has ended, and its end waits behind what its client does not read."""
    context = make(g, language="python")["id"]
    with begin(g, FULL % "unread", context=context) as unread:
        until(lambda: "ended-unread" in g.out("a", "ls"), "its end")
        equal(value(g, "6 * 7", context=context), "42", "after it, in the same")
        name, data = list(unread)[-1]
    equal((name, data["reason"], data["replaced"]), ("done", "completed", False), data)
    check("missing" in data["message"], data)


def test_ended_in_time(g):
    """Code that has ended is not interrupted, however long its client takes to read what it printed."""
    context = make(g, language="python")["id"]
    for options in ({"timeout_ms": 20000}, {}):
        with begin(g, FULL % len(options), context=context, **options) as unread:
            until(lambda options=options: f"ended-{len(options)}" in g.out("a", "ls"), "its end")
            if options:
                time.sleep(21)
            else:
                time.sleep(0.5)  # it says so
                equal(g.request("POST", f"/v1/sandbox/a/context/{context}/interrupt", None).status, 200, "interrupt")
            name, data = list(unread)[-1]
        equal((name, data["reason"], data["replaced"]), ("done", "completed", False), data)
        check("missing" in data["message"], data)
        check_kept(g, context, "7", "7")


def test_small_reports(g):
    """Many small reports are work for us that no limit of their sandbox holds: they come no faster than is fair."""
    code = REPORT % 1 + ("line = b'{\"call\":%d,\"log\":{\"level\":\"\",\"message\":\"\",\"time\":1}}\\n' % number\n"
                         "start, count = time.monotonic(), 0\nwhile time.monotonic() - start < 3:\n    write(line * 100); count += 100\ncount")
    count = int(value(g, code))
    check(count < 3 * 40000, count)


TESTS = [test_streams_replaced, test_bash_broken, test_python_broken, test_javascript_broken, test_forged_reports, test_out_of_reach,
         test_garbage, test_endless_line, test_many_lines, test_others_lines, test_idle_line, test_results_dropped, test_pretended_end,
         test_broken_pipes, test_dies_unread, test_dies_unseen, test_slow_reader, test_unread_end, test_unread_and_ended, test_ended_in_time,
         test_small_reports]

if __name__ == "__main__":
    main(TESTS)
