"""Contexts whose code is hostile: it can lie about itself, and about nothing and nobody else."""

import json
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from code_api import begin, contexts, make, out, run, value  # noqa: E402
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


TESTS = [test_streams_replaced, test_forged_reports, test_garbage, test_endless_line, test_many_lines, test_idle_line,
         test_results_dropped, test_pretended_end, test_broken_pipes, test_dies_unseen, test_slow_reader]

if __name__ == "__main__":
    main(TESTS)
