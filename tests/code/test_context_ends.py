"""How calls of a context end when something else than the code ends them: limits, deaths, too many at once."""

import json
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from code_api import begin, check_kept, contexts, delete, make, run, value  # noqa: E402
from greed import greedy  # noqa: E402
from ground import check, equal, is_alive, main, needs_cgroups, needs_root, only, until  # noqa: E402
from run_api import fails  # noqa: E402

QUEUE_MAX = 64  # calls that may wait in a context
SPIN = {"python": "while True: pass", "javascript": "for (;;);", "typescript": "for (;;);", "bash": "while :; do :; done"}
SLEEP = "import time; print('on', flush=True); time.sleep(600)"


def settings(g, **body):
    reply = g.request("PUT", "/v1/sandbox/a", body)
    equal(reply.status // 100, 2, f"settings: {reply}")


def is_fresh(g, context, code="'x' in globals()"):
    """The next call works, has nothing of earlier ones, and is told so; the one after it goes on there."""
    answer = run(g, code, context=context)
    equal((answer["reason"], answer["error"], answer["fresh"], answer["results"][-1]["text"].lower()),
          ("completed", None, True, "false"), answer)
    check(not run(g, code, context=context)["fresh"], "the one after it is fresh, too")


@only("root")
def test_cpu_limit(g):
    """Processor time that is used up is told as that, in each language; the sandbox begins anew."""
    for language, code in SPIN.items():
        settings(g, limits={"cpu_time_ms": 0})
        context = make(g, language=language)["id"]
        run(g, "x=1", context=context)
        settings(g, limits={"cpu_time_ms": g.get("/v1/sandbox/a/stats").json()["usage"]["cpu_ms"] + 500})
        answer = run(g, code, context=context, timeout_ms=120000)
        equal((answer["reason"], answer["replaced"], answer["fresh"], answer["results"], answer["error"]),
              ("cpu_limit", True, False, [], None), f"{language}: {answer}")
        check("limits.cpu_time_ms" in answer["message"], answer)
        settings(g, limits={"cpu_time_ms": 0})
        after = run(g, "x=2", context=context)
        equal((after["reason"], after["fresh"]), ("completed", True), f"{language}: {after}")
        delete(g, context)


@needs_cgroups
def test_memory_limit(g):
    """Ten GiB, at once or piece by piece, end the interpreter that wants them: that is told, and others stay."""
    settings(g, limits={"memory": "256M"})
    make(g, id="other", language="python")
    run(g, "x = 1", context="other")
    for language, code in greedy():
        context = make(g, language=language)["id"]
        run(g, "x=1", context=context)
        answer = run(g, code, context=context, timeout_ms=120000)
        equal((answer["reason"], answer["signal"], answer["replaced"], answer["fresh"], answer["results"], answer["error"]),
              ("oom", 9, True, False, [], None), f"{code}: {answer}")
        check("limits.memory" in answer["message"], answer)
        after = run(g, "x=2", context=context)
        equal((after["reason"], after["fresh"], after["error"]), ("completed", True, None), f"{code}: {after}")
        check_kept(g, "other", "x", "1")
        delete(g, context)
    equal(g.sandbox("a")["generation"], 1, "the same sandbox")


GREEDY = "all = []\nwhile True: all.append(b'x' * (1 << 20))"

HOLDER = """import os, time
if os.fork() == 0:
    os.setsid()
    held = b"x" * (100 << 20)
    with open("/workspace/holder", "w") as file:
        file.write(str(os.getpid()))
    time.sleep(1000)
while not os.path.exists("/workspace/holder"):
    time.sleep(0.01)
all = []
while True:
    all.append(b"x" * (1 << 20))
"""


@needs_cgroups
def test_memory_held(g):
    """What an interpreter that had no memory left has started goes with it, or the next one would have none, either."""
    settings(g, limits={"memory": "256M"})
    answer = run(g, HOLDER, timeout_ms=120000)
    equal((answer["reason"], answer["replaced"]), ("oom", True), answer)
    after = run(g, "with open('/workspace/holder') as file: pid = file.read()\nimport os\nos.path.exists(f'/proc/{pid}')")
    equal((after["reason"], after["fresh"], after["results"][0]["text"]), ("completed", True, "False"), after)


@needs_cgroups
def test_memory_of_others(g):
    """An interpreter that ends later than others died for want of memory did not die of that, and what it has started stays."""
    settings(g, limits={"memory": "256M"})
    code = ("import subprocess, sys, os\nleft = subprocess.Popen(['sleep', '1000']).pid\n"
            f"subprocess.run([sys.executable, '-c', {GREEDY!r}]).returncode")
    equal(value(g, code, timeout_ms=120000), "-9", "what the child died of")
    left = value(g, "left")
    answer = run(g, "os.kill(os.getpid(), 9)")
    equal((answer["reason"], answer["signal"], answer["replaced"]), ("exited", 9, True), answer)
    equal(value(g, f"import os\nos.path.exists('/proc/{left}')"), "True", "what it has started")


@needs_cgroups
def test_memory_of_all(g):
    """When memory is held by nobody who could be killed for it, all of the sandbox ends for want of it: that is told."""
    settings(g, limits={"memory": "32M"})
    answer = run(g, "f = open('/dev/shm/f', 'wb')\nwhile True: f.write(b'x' * (1 << 20))", timeout_ms=120000)
    equal((answer["reason"], answer["signal"], answer["replaced"]), ("oom", 9, True), answer)
    check("limits.memory" in answer["message"], answer)


def test_memory_refused(g):
    """What the language itself refuses is its own error, and ends nothing."""
    for language, code, name in (("python", "bytearray(1 << 60)", "MemoryError"),
                                 ("javascript", "Buffer.alloc(2 ** 50)", "RangeError"),
                                 ("javascript", "'x'.repeat(2 ** 30)", "RangeError")):
        run(g, "x=1", language=language)
        answer = run(g, code, language=language)
        equal((answer["reason"], answer["error"]["name"], answer["replaced"]), ("completed", name, False), f"{code}: {answer}")
        equal(value(g, "x", language=language), "1", f"after {code}")


def test_heap_of_node(g):
    """V8 ends node when its heap is full: its last words are there, and that is why it ended; words alone are no reason."""
    make(g, id="c", language="javascript", env={"NODE_OPTIONS": "--max-old-space-size=48"})
    answer = run(g, "const all = []; for (let i = 0; ; i++) all.push({i, a: [i]});", context="c", timeout_ms=120000)
    equal((answer["reason"], answer["signal"], answer["replaced"]), ("oom", 6, True), answer)
    check("heap of JavaScript" in answer["message"] and "heap out of memory" in answer["stderr"], answer)
    is_fresh(g, "c", "'all' in globalThis")
    equal(run(g, "console.error('heap out of memory')", context="c")["reason"], "completed", "words alone")
    for options, code in (({"context": "c"}, "process.abort()"),
                          ({}, "import os, sys\nprint('heap out of memory', file=sys.stderr, flush=True)\nos.abort()")):
        answer = run(g, code, **options)
        equal((answer["reason"], answer["signal"]), ("exited", 6), answer)


# An interpreter that is as the file says, when there is one.
OWN = """#!/bin/sh
[ ! -e /workspace/how ] || . /workspace/how
exec /usr/bin/python3 "$@"
"""


def own_interpreter(g):
    """A context whose interpreter does at its start what the file says that this writes."""
    def write(path, text, mode):
        equal(g.request("PUT", f"/v1/sandbox/a/file/workspace/{path}?mode={mode}", text.encode()).status // 100, 2, path)
    write("bin/python3", OWN, "0755")
    make(g, id="c", language="python", env={"PATH": "/workspace/bin:/usr/bin:/bin"})

    run(g, "import os\nos._exit(0)", context="c")
    return lambda how: write("how", how, "0644")


def test_start_fails(g):
    """An interpreter that ends before it is ready is told as that, whatever its status is."""
    become = own_interpreter(g)
    for how, status, code in (("exit 0", 502, "exec_error"), ("exit 3", 502, "exec_error"), ("", 200, None)):
        become(how)
        equal(run(g, "1", status=status, context="c").get("code"), code, how)


def test_never_asked_for(g):
    """One that cannot even be asked for, as its environment would be too large, is told so, and holds nothing awake."""
    make(g, id="c", language="python", env={f"A{i}": "x" * 124000 for i in range(15)})
    run(g, "import os\nos._exit(0)", context="c")
    settings(g, env={f"B{i}": "x" * 130000 for i in range(2)})
    refused = run(g, "1", status=400, context="c")
    equal(refused["code"], "invalid_request", refused)
    check(refused["error"].startswith("env: "), refused)
    until(lambda: not g.sandbox("a")["holds"], "no holds after it")
    settings(g, env={})
    equal(value(g, "1", context="c"), "1", "after it")


@needs_cgroups
def test_limits_at_start(g):
    """A limit that is met before an interpreter is ready is told as what it is."""
    settings(g, limits={"memory": "64M"})
    own_interpreter(g)("exec /usr/bin/python3 -c 'x = b\"x\" * (1 << 30)'")
    path = {"PATH": "/workspace/bin:/usr/bin:/bin"}
    for refused in (make(g, status=507, language="python", env=path), run(g, "1", status=507, context="c")):
        equal(refused["code"], "memory_limit", refused)
        check("limits.memory" in refused["error"], refused)
    until(lambda: not g.sandbox("a")["holds"], "no holds after it")
    for _ in range(3):
        error = fails(g, "1", "SANDBOX_CPU_LIMIT", "javascript", limits={"cpu_time_ms": 15})
        check("limits.cpu_time_ms" in error["message"], error)


def test_violation_at_start(g):
    """So is a forbidden system call."""
    settings(g, trust="low")
    own_interpreter(g)("exec /usr/bin/python3 -c 'import ctypes; ctypes.CDLL(None).syscall(165, 0, 0, 0, 0, 0)'")
    refused = run(g, "1", status=502, context="c")
    check("forbidden" in refused["error"], refused)


@needs_root
def test_sandbox_killed(g):
    """A sandbox that is killed from outside amid a call loses it, and says so; the next call is fresh."""
    for name in ("busy", "idle"):
        make(g, id=name, language="python")
        run(g, "x = 1", context=name)
    events = begin(g, SLEEP, context="busy")
    equal(next(events), ("stdout", b"on\n"), "it runs")
    waiting = begin_waiting(g, "busy", 1)[0]
    init = g.inits()
    equal(len(init), 1, "inits")
    os.kill(init[0], signal.SIGKILL)
    rest = list(events)
    equal([name for name, _ in rest], ["done"], rest)
    equal((rest[0][1]["reason"], rest[0][1]["replaced"]), ("lost", True), rest)
    check(rest[0][1]["message"], rest)
    refused = answer_of(waiting, 503)
    equal(refused["code"], "unavailable", refused)
    check("send it again" in refused["error"], "one that had not begun", refused)
    until(lambda: {c["state"] for c in contexts(g).values()} == {"absent"}, "both to be told as gone")
    for name in ("busy", "idle"):
        is_fresh(g, name)
    equal(g.sandbox("a")["generation"], 2, "generation")


@needs_root
def test_interpreter_killed(g):
    """An interpreter that is killed from outside amid a call is told with its signal; others stay."""
    for name in ("killed", "other"):
        make(g, id=name, language="python")
        run(g, "x = 1", context=name)
    events = begin(g, SLEEP, context="killed")
    equal(next(events), ("stdout", b"on\n"), "it runs")
    inside = contexts(g)["killed"]["pid"]
    pid = next(p for p in g.processes() if g.is_sandboxed(p) and is_alive(p) and pid_inside(p) == inside)
    os.kill(pid, signal.SIGKILL)
    rest = list(events)
    end = rest[-1][1]
    equal(([name for name, _ in rest], end["reason"], end["signal"], end["exit_code"], end["replaced"]),
          (["done"], "exited", 9, 137, True), rest)
    is_fresh(g, "killed")
    check_kept(g, "other", "x", "1")


def pid_inside(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[-1]) for line in file if line.startswith("NSpid:"))


def begin_waiting(g, context, count, code="1"):
    """Calls that wait behind the one that runs, when this returns."""
    before, connections = contexts(g)[context]["waiting"], []
    for i in range(count):
        connections.append(g.connect())
        connections[-1].request("POST", "/v1/sandbox/a/code", json.dumps({"code": code, "context": context}),
                                {"Accept": "application/json"})
        until(lambda: contexts(g)[context]["waiting"] == before + i + 1,  # pylint: disable=cell-var-from-loop
              "the next one to wait")
    return connections


def answer_of(connection, status=200):
    response = connection.getresponse()
    body = response.read()
    connection.close()
    equal(response.status, status, body[:500])
    return json.loads(body)


def test_queue(g):
    """Only so many calls wait in a context: one more is refused at once, and those that wait have their turns."""
    make(g, id="c", language="python")
    make(g, id="other", language="python")
    run(g, "seen = 0", context="c")
    events = begin(g, "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('/workspace/on'): time.sleep(0.01)",
                   context="c")
    equal(next(events), ("stdout", b"on\n"), "it runs")
    waiting = begin_waiting(g, "c", QUEUE_MAX, "seen += 1; seen")
    for _ in range(3):
        refused = run(g, "seen += 100", status=503, context="c")
        equal(refused["code"], "capacity_exceeded", refused)
        check(str(QUEUE_MAX) in refused["error"] and "context" in refused["error"], refused)
    waiting.pop().close()
    until(lambda: contexts(g)["c"]["waiting"] == QUEUE_MAX - 1, "a client that has gone to leave its place")
    waiting += begin_waiting(g, "c", 1, "seen += 1; seen")
    equal(value(g, "6 * 7", context="other"), "42", "another context")
    run(g, "open('/workspace/on', 'w')", context="other")
    equal(list(events)[-1][1]["reason"], "completed", "the first")
    answers = [answer_of(connection) for connection in waiting]
    equal([a["results"][0]["text"] for a in answers], [str(i + 1) for i in range(QUEUE_MAX)], "in their order")
    equal((contexts(g)["c"]["waiting"], value(g, "seen", context="c")), (0, str(QUEUE_MAX)), "after it")


def test_memory_of_each(g):
    """stats tells the memory of each context by itself, and of none that does not run."""
    def memory():
        return {c["id"]: c["memory_bytes"] for c in g.get("/v1/sandbox/a/stats").json()["contexts"]}
    for name in ("large", "small"):
        make(g, id=name, language="python")
    before = memory()
    equal(set(before), {"large", "small"}, before)
    run(g, "x = b'x' * (96 << 20)", context="large")
    after = memory()
    if g.has_cgroups:
        check(after["large"] - before["large"] >= 96 << 20, before, after)
        check(after["small"] < 64 << 20, after)
        run(g, "del x", context="large")
        until(lambda: memory()["large"] < 64 << 20, "it to be given back")
    else:
        equal(after, {"large": None, "small": None}, "without cgroups it cannot be known")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    equal({c["state"] for c in contexts(g).values()}, {"absent"}, "stopped")
    check(not any(memory().values()), "of what does not run:", memory())


def test_timeouts_in_children(g):
    """What waits for a program of its own is interrupted with that, and keeps its variables."""
    for language, start, wait, get, expected in (
            ("python", "x = 41", "import subprocess\nprint('on', flush=True)\nsubprocess.run(['sleep', '600'])", "x + 1", "42"),
            ("javascript", "var x = 41", "console.log('on'); await new Promise((r) => require('child_process')"
                                         ".spawn('sleep', ['600'], {stdio: 'inherit'}).on('never', r))", "x + 1", "42"),
            ("typescript", "var x: number = 41", "console.log('on'); await new Promise<void>((r) => setInterval(() => 0, 1000))",
             "x + 1", "42"),
            ("bash", "x=41", "echo on; f() { sleep 600 | cat; }; f; echo never", "echo $((x + 1))", None)):
        make(g, id=language, language=language)
        run(g, start, context=language)
        for _ in range(3):
            answer = run(g, wait, context=language, timeout_ms=400)
            equal((answer["reason"], answer["replaced"], answer["stdout"]), ("timeout", False, "on\n"), f"{language}: {answer}")
            after = run(g, get, context=language)
            equal((after["reason"], after["fresh"]), ("completed", False), f"{language}: {after}")
            equal(after["results"][-1]["text"] if expected else after["stdout"], expected or "42\n", f"{language}: {after}")
        delete(g, language)


@needs_cgroups
def test_fork_bomb(g):
    """A fork bomb that does not heed an interrupt ends with its interpreter; many processes that do are no bomb."""
    settings(g, limits={"pids": 64})
    make(g, id="other", language="python")
    run(g, "x = 1", context="other")
    bomb = ("import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        try: os.fork()\n"
            "        except OSError: time.sleep(0.01)\ntime.sleep(600)")
    answer = run(g, bomb, timeout_ms=500)
    equal((answer["reason"], answer["replaced"]), ("timeout", True), answer)
    check("processes" in answer["message"], answer)
    until(lambda: g.get("/v1/sandbox/a/stats").json()["usage"]["pids"] < 8, "its end")
    is_fresh(g, "default-python")
    check_kept(g, "other", "x", "1")
    many = "import subprocess, time\nx = 2\nfor i in range(%d): subprocess.Popen(['sleep', '600'], start_new_session=%s)\ntime.sleep(600)"
    for count, session in ((58, False), (40, True)):
        answer = run(g, many % (count, session), context="other", timeout_ms=1500)
        equal((answer["reason"], answer["replaced"]), ("timeout", False), answer)
    check_kept(g, "other", "x", "2")


TESTS = [test_cpu_limit, test_memory_limit, test_memory_held, test_memory_of_others, test_memory_of_all, test_memory_refused, test_heap_of_node, test_start_fails, test_never_asked_for,
         test_limits_at_start, test_violation_at_start, test_sandbox_killed, test_interpreter_killed, test_queue,
         test_memory_of_each, test_timeouts_in_children, test_fork_bomb]

if __name__ == "__main__":
    main(TESTS)
