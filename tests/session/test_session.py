"""Sessions: what lasts between commands and what does not, how shells end, and that none is ever stuck."""

import contextlib
import json
import os
import signal
import sqlite3
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))

# pylint: disable=wrong-import-position
from ground import (IS_SANITIZED, Events, at_once, body_of, check, comm_of, equal, fds_of, is_alive,  # noqa: E402
                    main, memory_of, only, result_of, until)

SHELLS = {"bash": "bash", "busybox": "/workspace/ash", "dash": "dash"}
SESSIONS_MAX = 64
MANY = int(os.environ.get("BERTH_SESSION_EXECS", "300"))


def run(g, session, what, status=200, **options):
    reply = g.request("POST", "/v1/sandbox/a/exec", body_of(what, options), Accept="application/json",
                      Session_Id=session)
    equal(reply.status, status, f"{what!r}: {reply}")
    return result_of(reply) if status == 200 else reply.json()


def out(g, session, what, **options):
    result = run(g, session, what, **options)
    equal((result.reason, result.code), ("exited", 0), f"{what!r}: {result}")
    return result.stdout.decode()


def marks(result):
    return result.facts["fresh"], result.facts["session_restarted"]


def make(g, **body):
    reply = g.request("POST", "/v1/sandbox/a/session", body)
    equal(reply.status, 200, f"session: {reply}")
    return reply.json()


def sessions(g):
    return {s["id"]: s for s in g.get("/v1/sandbox/a/session").json()["sessions"]}


def begin(g, session, what, **options):
    """As events, which have begun when this returns."""
    connection = g.connect()
    connection.request("POST", "/v1/sandbox/a/exec", json.dumps(body_of(what, options)),
                       {"Accept": "text/event-stream", "Session-Id": session})
    response = connection.getresponse()
    equal(response.status, 200, "events")
    return Events(connection, response)


def each_shell(function):
    """In a session of each shell; busybox goes by its link's name."""
    def test(g):
        g.out("a", "ln -sf /usr/bin/busybox /workspace/ash")
        for name, shell in SHELLS.items():
            make(g, id=name, shell=shell)
            try:
                function(g, name)
            except BaseException:
                print(f"# with {name}")
                raise
            equal(g.request("DELETE", f"/v1/sandbox/a/session/{name}").status, 204, "delete")
    test.__name__, test.__doc__ = function.__name__, function.__doc__
    return test


@each_shell
def test_state_lasts(g, s):
    """Directory, variables, functions, options and umask last; each command has its own status."""
    out(g, s, "mkdir -p d; cd d; export X='a b'; y=2; f() { echo \"f:$1\"; }; umask 027; set -u")
    equal(out(g, s, "pwd; echo $X $y; f z; umask; printenv X; case $- in *u*) echo u;; esac"),
          "/workspace/d\na b 2\nf:z\n0027\na b\nu\n", "state")
    equal(out(g, s, ["printenv", "X"]), "a b\n", "argv")
    equal(out(g, s, ["echo", "it's", "a 'b' $X", ""]), "it's a 'b' $X \n", "argv is not parsed again")
    equal(run(g, s, "(exit 42)").code, 42, "status")
    equal(run(g, s, ["nosuchcommand"]).code, 127, "no such command")
    equal(g.out("a", "pwd; echo ${X-none}"), "/workspace\nnone\n", "a stateless one")


@each_shell
def test_own_env_and_cwd(g, s):
    """env and cwd of a command are its own; values arrive exactly."""
    value = "n'ew\nline \\ \"$x\" \u00fc " + "x" * 100000
    out(g, s, "A=old; export C=cold; cd /usr; cd /etc")
    result = run(g, s, "printenv A; printenv C; A=changed; D=new", env={"A": value, "C": "", "F": "1"})
    equal(result.stdout.decode(), value + "\n\n", "values")
    result = run(g, s, "echo \"$A\" $C $D ${F-none}; printenv A; printenv C")
    equal(result.stdout, b"old cold new none\ncold\n", "variables after it")
    equal(out(g, s, "pwd; cd /; pwd", cwd="/usr/bin"), "/usr/bin\n/\n", "directory")
    equal(out(g, s, "echo $PWD $OLDPWD; readlink /proc/$$/cwd"), "/etc /usr\n/etc\n", "directory after it")
    result = run(g, s, "pwd", cwd="/nope")
    equal((result.reason, result.code), ("not_started", 126), result)
    check("/nope" in result.facts["message"], result)
    check("env" in run(g, s, "true", status=400, env={"a-b": "1"})["error"], "bad name")
    check("user" in run(g, s, "true", status=400, user="1000")["error"], "user")


@each_shell
def test_bytes(g, s):
    """Output is exact, here-documents and stdin work, long commands do."""
    data = bytes(range(256)) * 400
    g.put_file("a", "/workspace/data", data)
    equal(run(g, s, "cat data; echo err >&2").stdout, data, "binary")
    result = run(g, s, "cat; echo \"$?\" >&2", stdin="in\nput")
    equal((result.stdout, result.stderr), (b"in\nput", b"0\n"), "stdin")
    equal(out(g, s, "cat; read x || echo end"), "end\n", "no stdin")
    equal(out(g, s, "cat <<'E'\n$x 'q' \\\nE\ncat <<E\n$((1+2))\nE"), "$x 'q' \\\n3\n", "here-document")
    reply = g.request("POST", "/v1/sandbox/a/exec?command=wc+-c", b"x" * 3000000, Accept="application/json",
                      Session_Id=s, Content_Type="application/octet-stream")
    equal(reply.json()["stdout"], "3000000\n", "stdin as the body")
    for size in (2000, 300000):
        equal(out(g, s, f"x='{'a' * size}'; echo ${{#x}}"), f"{size}\n", "a long command")
    equal(g.out("a", "ls -A /workspace /tmp /run/berth 2>/dev/null | grep -v '^kernels$\\|^init$\\|^heartbeat$\\|^ash$\\|^data$\\|^d$\\|:$\\|^$'; true"), "",
          "no trace files")


@each_shell
def test_errors(g, s):
    """Errors in a command are its own: the shell stays."""
    out(g, s, "keep=1")
    for what in ("echo a; if then", "echo 'a", 'echo "$(', "cat <<", "${"):
        result = run(g, s, what)
        check(result.code and result.stderr and not result.facts["session_restarted"], f"{what}: {result}")
        equal(out(g, s, "echo $keep"), "1\n", what)
    out(g, s, "alias eval=no command=no echo=no cd=no; echo() { :; }; cd() { :; }; unset PATH; IFS=0123456789; set -C")
    equal(run(g, s, "(exit 10)").code, 10, "status")
    run(g, s, "exec >/dev/null; exec <&- >&- 2>&-")
    equal(out(g, s, "\\command printf on"), "on", "streams are back")


@each_shell
def test_shell_ends(g, s):
    """exit, set -e, signals, exec: each as it was, and the next command has a fresh shell that says so."""
    equal(marks(run(g, s, "true")), (True, False), "the first one")
    for before, what, expected in (
            ("", "exit 7", ("exited", 7)), ("set -e", "echo a; false; echo b", ("exited", 1)),
            ("", "kill -9 $$", ("signaled", 137)), ("", "kill $$; sleep 9", ("signaled", 143)),
            ("", "exec sh -c 'exit 4'", ("exited", 4)), ("", "exit 0", ("exited", 0))):
        run(g, s, "state=here; " + before)
        result = run(g, s, what)
        equal((result.reason, result.code), expected, f"{what}: {result}")
        equal(marks(result), (False, True), f"{what}: {result}")
        check("fresh" in result.facts["message"], result)
        result = run(g, s, "echo ${state-none}; pwd")
        equal((result.stdout, *marks(result)), (b"none\n/workspace\n", True, False), f"after {what}: {result}")
        equal(marks(run(g, s, "true")), (False, False), "the one after that")
    for what in ("set -n", "command() { :; }"):
        result = run(g, s, what)
        equal((result.reason, result.code, *marks(result)), ("lost", None, False, True), f"{what}: {result}")
        equal(out(g, s, "echo on"), "on\n", what)
        run(g, s, "true")


@each_shell
def test_shell_harmed(g, s):
    """A command that closes what its shell reads from: it ends or is ended, and a fresh shell follows."""
    for what in ("exec 10<&-", "exec 0<&- 10<&- 11<&- 255<&-", "for i in 3 4 5 6 7 8 9; do eval \"exec $i<&- $i>&-\"; done"):
        pid = out(g, s, "echo $$").strip()
        result = run(g, s, f"state=here; {what}", timeout_ms=500)
        check(result.reason in ("exited", "timeout"), f"{what}: {result}")
        if result.facts["session_restarted"] or "10" in what:
            until(lambda p=pid: g.exec("a", f"test -d /proc/{p}").code, "the shell's end")  # pylint: disable=cell-var-from-loop
            until(lambda: sessions(g)[s]["state"] == "absent", "berthd to know")
            equal(marks(run(g, s, "echo on")), (True, False), what)
        else:
            equal(out(g, s, "echo $state"), "here\n", what)


@each_shell
def test_environment(g, s):
    """Of the sandbox, then of the session, then of the command; what is changed is for shells that start later."""
    value = "n'ew\nline \\ \"$x\" `y` \u00fc " + "x" * 100000
    session = sessions(g)[s]
    equal(g.request("DELETE", f"/v1/sandbox/a/session/{s}").status, 204, "delete")
    equal(g.request("PUT", "/v1/sandbox/a/env", {"A": "box", "B": "box", "C": "box", "BIG": value}).status, 204, "env")
    make(g, id=s, shell=session["shell"], env={"B": "session", "C": "session", "OWN": value})
    equal(out(g, s, "echo $A $B $C", env={"C": "exec"}), "box session exec\n", "order")
    equal(out(g, s, "echo $A $B $C"), "box session session\n", "after it")
    equal(out(g, s, "printenv BIG; printenv OWN"), f"{value}\n{value}\n", "values")
    equal(g.request("PUT", "/v1/sandbox/a/env", {"A": "changed"}).status, 204, "env")
    equal(out(g, s, "echo $A"), "box\n", "a shell that runs")
    run(g, s, "exit")
    equal(out(g, s, "echo $A $B"), "changed session\n", "the next shell")


@each_shell
def test_shell_killed_meanwhile(g, s):
    """By somebody else, between two commands."""
    pid = out(g, s, "echo $$").strip()
    g.out("a", f"kill -9 {pid}")
    until(lambda: sessions(g)[s]["state"] == "absent", "the shell's end")
    equal(marks(run(g, s, "true")), (True, False), "fresh")


@only("root")
def test_shell_missed(g):
    """The shell dies while a command is on its way to it: that was not started, says so, and the next one works."""
    out(g, "s", "true")
    shell, = [p for p in g.processes() if g.is_sandboxed(p) and comm_of(p) == "bash"]
    with open(f"/proc/{shell}/stat", encoding="utf-8") as file:
        feeder = int(file.read().rpartition(")")[2].split()[1])
    init, = g.inits()
    os.kill(init, signal.SIGSTOP)
    try:
        os.kill(shell, signal.SIGKILL)
        until(lambda: not is_alive(feeder), "what stood before it to end")
        results = []
        missed = threading.Thread(target=lambda: results.append(run(g, "s", "echo on")))
        missed.start()
        until(lambda: sessions(g)["s"]["state"] == "busy", "the command to be sent")
    finally:
        os.kill(init, signal.SIGCONT)
    missed.join()
    equal((results[0].reason, results[0].code), ("not_started", 126), results[0])
    check("again" in results[0].facts["message"] and "shell" in results[0].facts["message"], results[0])
    equal(marks(run(g, "s", "true")), (True, False), "the next one")


@each_shell
def test_timeouts(g, s):
    """A timeout interrupts the command, then everything that the shell has started is gone."""
    out(g, s, "sleep 2345 >/dev/null 2>&1 & state=here")
    start = time.monotonic()
    result = run(g, s, "trap '' INT; (trap '' INT TERM; setsid sleep 3456) & sleep 3456", timeout_ms=300)
    equal((result.reason, result.code, *marks(result)), ("timeout", 124, False, True), result)
    check(time.monotonic() - start > 0.7, "time to clean up")
    equal([p for p in g.processes() if g.is_sandboxed(p) and comm_of(p) == "sleep" and is_alive(p)], [], "what is left")
    result = run(g, s, "echo ${state-none}")
    equal((result.stdout, *marks(result)), (b"none\n", True, False), result)
    result = run(g, s, "sh -c 'trap \"echo cleaned; exit\" INT; while :; do sleep 0.01; done'", timeout_ms=400)
    equal((result.reason, result.stdout), ("timeout", b"cleaned\n"), result)
    with begin(g, s, "echo on; sleep 4567") as events:
        equal(next(iter(events)), ("stdout", b"on\n"), "output")
    equal(marks(run(g, s, "true")), (True, False), "after a disconnect")
    until(lambda: not [p for p in g.processes() if g.is_sandboxed(p) and comm_of(p) == "sleep" and is_alive(p)], "its end")


@only("root")
@each_shell
def test_memory(g, s):
    """The kernel kills what a command has started for want of memory: that is the reason; the shell stays."""
    hog = ["python3", "-c", "x = []\nfor _ in range(400): x.append(bytearray(1 << 20))"]
    equal(g.request("PUT", "/v1/sandbox/a", {"limits": {"memory": "64M"}}).status, 200, "limits")
    if s == next(iter(SHELLS)):
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "they hold for the next start")
    out(g, s, "state=here")
    result = run(g, s, hog)
    equal((result.reason, result.code, *marks(result)), ("oom", 137, False, False), result)
    equal(out(g, s, "echo $state"), "here\n", "state")
    equal((run(g, s, "(exit 137)").reason, run(g, s, "sh -c 'kill -9 $$'").reason), ("exited", "exited"), "not for memory")


def test_stopped_while_ending(g):
    """The sandbox is stopped while a command that has timed out is being ended: all of it ends, once."""
    for stop in (("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}), ("DELETE", "/v1/sandbox/a")):
        with begin(g, "s", "sh -c 'trap \"echo cleaned; exit\" INT; echo on; while :; do sleep 0.01; done'",
                   timeout_ms=200) as events:
            stream = iter(events)
            equal([next(stream), next(stream)], [("stdout", b"on\n"), ("stdout", b"cleaned\n")], "output")
            check(g.request(*stop).status in (200, 204), stop)
            name, facts = next(stream)
            equal((name, facts["reason"], facts["exit_code"]), ("exit", "timeout", 124), facts)
        equal(marks(run(g, "s", "true")), (True, False), f"after {stop}")


def stuck(g, session):
    """A client that does not read, of a command that has exited all the same: the rest is in its pipe."""
    for size in range(64 << 10, 4 << 20, 32 << 10):
        g.out("a", "rm -f done")
        slow = begin(g, session, f"head -c {size} /dev/zero; touch done")
        for _ in range(50):
            if g.exec("a", "test -e done").code == 0:
                break
            time.sleep(0.02)
        else:
            slow.close()
            return
        yield slow, size


def test_slow_reader(g):
    """Who does not read holds up no command behind it, nor the end of the session."""
    count = 0
    for slow, size in stuck(g, "s"):
        with slow:
            equal(out(g, "s", "echo next"), "next\n", f"behind {size} bytes")
            if count % 2:
                equal(g.request("DELETE", "/v1/sandbox/a/session/s").status, 204, f"delete behind {size} bytes")
            got, facts = 0, None
            for name, value in slow:
                got, facts = (got + len(value), None) if name == "stdout" else (got, value)
            equal((got, facts["exit_code"], facts["reason"]), (size, 0, "exited"), facts)
        count += 1
    check(count > 1, "sizes")


def test_queue(g):
    """Commands of a session run one by one in their order; those of sessions side by side."""
    for s in ("one", "two"):
        out(g, s, "n=0; mkfifo fifo-$$; echo fifo-$$ >name-" + s)
    with begin(g, "one", "echo on; read x <fifo-$$; echo $x") as events:
        stream = iter(events)
        equal(next(stream), ("stdout", b"on\n"), "output")
        done = []
        waiting = []
        for i in range(3):
            waiting.append(threading.Thread(target=lambda i=i: done.append(out(g, "one", f"n=$((n+1)); echo {i} $n"))))
            waiting[-1].start()
            until(lambda: sessions(g)["one"]["waiting"] == i + 1, "it to wait")
        equal(sessions(g)["one"]["state"], "busy", "state")
        equal(out(g, "two", "echo other"), "other\n", "another session")
        equal(done, [], "those that wait")
        g.out("a", "echo go >$(cat name-one)")
        equal(next(stream), ("stdout", b"go\n"), "output")
    for thread in waiting:
        thread.join()
    equal(sorted(done), ["0 1\n", "1 2\n", "2 3\n"], "in order")
    results = at_once(8, lambda i: out(g, f"s{i % 4}", f"i={i}; echo {i}"))
    equal(results, [f"{i}\n" for i in range(8)], "side by side")
    with begin(g, "one", "echo on; sleep 1000") as events:
        next(iter(events))

        def ask():
            return g.request("POST", "/v1/sandbox/a/exec", {"command": "true"}, Session_Id="one").status

        def when_full():
            until(lambda: sessions(g)["one"]["waiting"] == 64, "the queue to be full")
            return ask(), g.request("DELETE", "/v1/sandbox/a/session/one").status

        replies = at_once(65, lambda i: ask() if i else when_full())
    equal(replies[0], (503, 204), "one too many, and then all of it is deleted")
    equal(set(replies[1:]), {404}, "those that waited")


def test_survivors(g):
    """Background jobs of a session outlive its commands, and write into their own command's pipes."""
    out(g, "s", "mkfifo /tmp/f; (read x </tmp/f; echo late; echo done >/tmp/out) & echo now")
    equal(out(g, "s", "echo other"), "other\n", "another command")
    equal(out(g, "s", "echo >/tmp/f; wait; cat /tmp/out"), "done\n", "the job")
    for _ in range(2):
        result = run(g, "s", "sleep 1234 >/dev/null 2>&1 & exit 3")
        equal(result.code, 3, result)
    # A job that was just forked has its shell's name for a moment.
    until(lambda: len(g.exec("a", "pgrep -x sleep").stdout.split()) == 2, "those of shells that are gone")
    equal(g.request("DELETE", "/v1/sandbox/a/session/s").status, 204, "delete")
    equal(g.exec("a", "pgrep -x sleep").code, 1, "nothing is left of the session")


def test_not_stored(g):
    """A session that cannot be stored is refused, and leaves nothing: its ID is free again."""
    out(g, "other", "true")
    with contextlib.closing(sqlite3.connect(os.path.join(g.state, "berthd", "state.db"), isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        reply = g.request("POST", "/v1/sandbox/a/session", {"id": "s"})
        check(reply.status >= 500, reply)
        equal(sorted(sessions(g)), ["other"], "sessions")
        db.execute("ROLLBACK")
    until(lambda: g.request("POST", "/v1/sandbox/a/session", {"id": "s"}).status == 200, "the next one of that ID")
    equal(marks(run(g, "s", "true")), (True, False), "and it works")


def test_routes(g):
    """POST, GET and DELETE of sessions, and what they refuse."""
    equal(g.get("/v1/sandbox/none/session").status, 404, "no sandbox")
    made = make(g, id="S_1.x:y", cwd="/usr", env={"A": "1", "PATH": "/usr/bin"}, user="1000:1000", shell="sh")
    equal([made[k] for k in ("id", "cwd", "user", "shell", "state")], ["S_1.x:y", "/usr", "1000:1000", "sh", "ready"], "made")
    equal(out(g, "S_1.x:y", "pwd; echo $A $PATH; id -u; echo $0"), "/usr\n1 /usr/bin\n1000\nsh\n", "as asked")
    equal(out(g, "S_1.x:y", "cat; echo x >/dev/stderr", stdin="in"), "in", "streams of another user")
    other = make(g)
    equal(len(other["id"]), 26, "an ID of ours")
    equal(out(g, other["id"], "pwd; echo $HOME; echo ${BASH_VERSION:+bash}"), "/workspace\n/root\nbash\n", "the usual")
    equal(sorted(sessions(g)), sorted(["S_1.x:y", other["id"]]), "list")
    equal(g.request("POST", "/v1/sandbox/a/session", {"id": "S_1.x:y"}).status, 409, "twice")
    for body, status in (({"id": "a b"}, 400), ({"id": ""}, 400), ({"cwd": "x"}, 400), ({"nope": 1}, 400),
                         ({"shell": ""}, 400), ({"user": "a b"}, 400), ({"shell": "/no/such"}, 502),
                         ({"shell": "cat"}, 502), ({"cwd": "/nope"}, 502), ({"user": "nobody-there"}, 502)):
        reply = g.request("POST", "/v1/sandbox/a/session", body)
        equal(reply.status, status, f"{body}: {reply}")
        check("shell" not in body or status != 502 or body["shell"] in reply.json()["error"], reply)
    for bad in ("a/b", "-a", "x" * 129, "\u00e9"):
        equal(g.request("POST", "/v1/sandbox/a/exec", {"command": "true"}, Session_Id=bad.encode("latin-1").decode("latin-1"))
              .status, 400, bad)
    equal(len(sessions(g)), 2, "none of these is there")
    for _ in range(2):
        equal(g.request("DELETE", "/v1/sandbox/a/session/S_1.x:y").status, 204, "delete")
    with begin(g, other["id"], "echo on; sleep 1000") as events:
        stream = iter(events)
        next(stream)
        equal(g.request("DELETE", f"/v1/sandbox/a/session/{other['id']}").status, 204, "delete a busy one")
        name, facts = next(stream)
        equal((name, facts["reason"], facts["session_restarted"]), ("exit", "killed", True), facts)
    equal(sessions(g), {}, "list")
    equal([p for p in g.processes() if g.is_sandboxed(p) and comm_of(p) in ("bash", "sleep") and is_alive(p)], [], "left")
    reply = g.request("POST", "/v1/sandbox/a/exec", {"command": "true", "detach": True}, Session_Id="one")
    equal((reply.status, reply.json()["code"]), (400, "invalid_request"), "detached in a session")


def test_too_many(g):
    """One session too many is refused, whether it is made or its first command is sent; waiting would not help."""
    for i in range(SESSIONS_MAX):
        make(g, id=f"s{i}", shell="sh")
    reply = g.request("POST", "/v1/sandbox/a/session", {"id": "more"})
    for answer in (reply.json(), run(g, "more", "true", status=409)):
        equal(answer["code"], "conflict", answer)
        check(f"{SESSIONS_MAX} sessions" in answer["error"], answer)
    equal((reply.status, reply.headers.get("Retry-After")), (409, None), reply)
    equal(out(g, "s0", "echo on"), "on\n", "one that is there")


def test_feeder(g):
    """[1] [2] Commands see their streams only; what stands between shell and init cannot be written, nor wedged."""
    equal(out(g, "s", "exec ls /proc/self/fd").split(), ["0", "1", "2", "3"], "descriptors")
    for what in (": >>/proc/$PPID/exe", "exec 7</proc/$PPID/exe; : >>/proc/self/fd/7", "cp /bin/true /proc/$PPID/exe"):
        result = run(g, "s", what)
        check(result.code and result.stderr, f"{what}: {result}")
    result = run(g, "s", "for i in /proc/$PPID/fd/*; do head -c 200000 /dev/zero 2>/dev/null >$i & done; sleep 0.1; true")
    check(result.reason == "lost" and result.facts["session_restarted"], result)
    forge = "for i in $(seq 99); do echo \"$i \"; done | tee $(grep -l '02000001$' /proc/$PPID/fdinfo/* | sed s/fdinfo/fd/)"
    equal(run(g, "forged", f"{forge} >/dev/null; sleep 0.1; (exit 7)").code, 7, "a report that says no status")
    equal(marks(run(g, "s", "kill -TERM $PPID; kill -INT $PPID; true")), (True, False), "signals to it")
    equal(run(g, "s", "kill -STOP $PPID; (sleep 0.2; kill -CONT $PPID) & wait; echo on").stdout, b"on\n", "stopped for a while")
    result = run(g, "s", "kill -9 $PPID; sleep 1000")
    equal((result.reason, result.code, *marks(result)), ("lost", None, False, True), result)
    equal(out(g, "s", "echo on"), "on\n", "the next one")


def test_berthd_killed(g):
    """kill -9 of berthd: the shell and its state are there afterwards; a command that ran then is not."""
    out(g, "idle", "cd /usr; X=kept; f() { echo f; }")
    out(g, "busy", "X=kept")
    pid = out(g, "idle", "echo $$")
    for _ in range(2):
        g.kill_berthd()
        g.start()
        result = run(g, "idle", "pwd; echo $X $$; f")
        equal((result.stdout.decode(), *marks(result)), (f"/usr\nkept {pid}f\n", False, False), result)
    events = begin(g, "busy", "echo on; sleep 1000")
    next(iter(events))
    g.kill_berthd()
    events.close()
    g.start()
    result = run(g, "busy", "echo ${X-none}")
    equal((result.stdout, *marks(result)), (b"none\n", True, False), result)
    until(lambda: not [p for p in g.processes() if g.is_sandboxed(p) and comm_of(p) == "sleep" and is_alive(p)], "its end")
    g.berthd.terminate()
    equal(g.berthd.wait(60), 0, "berthd's exit code")
    g.start()
    equal(out(g, "idle", "echo $X"), "kept\n", "after a stop")


def test_sleep(g):
    """A sandbox that slept has its sessions, with fresh shells; one that was deleted has none."""
    make(g, id="s", cwd="/usr", env={"A": "1"})
    out(g, "s", "X=1")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "sleep")
    equal(sessions(g)["s"]["state"], "absent", "state")
    result = run(g, "s", "pwd; echo $A ${X-none}")
    equal((result.stdout, *marks(result)), (b"/usr\n1 none\n", True, False), result)
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    g.out("a", "true")
    equal(sessions(g), {}, "sessions")


def test_many(g):
    """Thousands of commands in one session: nothing grows."""
    def look():
        pids = [p for p in g.processes() if g.is_sandboxed(p) and is_alive(p) and comm_of(p) != "sleep"]
        try:
            fds = [fds_of(p) for p in (g.berthd.pid, *pids)] if os.geteuid() == 0 else []
            return sorted(fds), memory_of(g.berthd.pid), sum(memory_of(p) for p in pids)
        except (FileNotFoundError, ProcessLookupError):
            return look()  # one of the last command's had not ended yet

    def do(count):
        for i in range(count):
            equal(out(g, "s", f"n=$((n+1)); echo $n {i}", env={"V": "x" * 100}, **({"cwd": "/usr"} if i % 2 else {})).split()[1],
                  str(i), "output")

    out(g, "s", "n=0")
    do(100)
    before = look()
    do(MANY)
    # Before, the last connection may have been open still: there may be fewer now, but not more.
    until(lambda: len(now := look()[0]) <= len(before[0]) and all(a <= b for a, b in zip(now[::-1], before[0][::-1])),
          f"no more descriptors than {before[0]}")
    after = look()
    print(f"# {MANY} commands: descriptors {before[0]} -> {after[0]}, berthd {before[1] >> 10} -> {after[1] >> 10} kB, "
          f"inside {before[2] >> 10} -> {after[2] >> 10} kB")
    check(IS_SANITIZED or after[1] < before[1] + (1 << 20), f"berthd grew: {before} {after}")
    check(after[2] < before[2] + (1 << 20), f"the sandbox grew: {before} {after}")


if __name__ == "__main__":
    os.umask(0o022)
    main([test_state_lasts, test_own_env_and_cwd, test_bytes, test_errors, test_shell_ends, test_shell_harmed,
          test_environment, test_shell_killed_meanwhile, test_shell_missed, test_timeouts, test_memory,
          test_stopped_while_ending, test_slow_reader, test_queue, test_survivors, test_not_stored, test_routes,
          test_too_many, test_feeder, test_berthd_killed, test_sleep, test_many])
