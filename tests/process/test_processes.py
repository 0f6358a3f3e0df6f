"""Each promise about background processes: their life, their status, their end."""

import threading
import time

from process_api import Log, await_output, check, ended, equal, logs_of, raw, read, refuse, show, start, until, wait
from ground import IS_SANITIZED, at_once, lives, main

BASE = "/v1/sandbox/a/processes"


def test_life(g):
    """Started, shown, listed; its output is kept, and its status when it has ended."""
    status = start(g, "a", "echo out; echo err >&2; read line; echo got $line; exit 3", id="Web", cwd="/tmp",
                   env={"A": "b"})
    equal((status["id"], status["command"][:2], status["cwd"], status["generation"], status["autostart"]),
          ("web", ["sh", "-c"], "/tmp", 1, False), status)
    equal(status["startedAt"], status["started_at"], "both names")
    await_output(g, "a", "web", 8)
    equal([p["id"] for p in g.get(BASE).json()], ["web"], "list")
    check("exit" not in show(g, "a", "web"), "it runs")
    equal(g.request("POST", f"{BASE}/web/stdin", b"line\n").status, 204, "stdin")
    end = ended(g, "a", "web")
    equal((end["state"], end["exit"], end["exit_code"], end["reason"]),
          ("exited", {"code": 3, "timedOut": False}, 3, "exited"), end)
    check(end["endedAt"] >= end["startedAt"] and end["duration_ms"] >= 0, end)
    equal(show(g, "a", "WEB"), end, "by its name, folded")
    out = read(g, "a", "web")
    equal((out.stdout, out.stderr), (b"out\ngot line\n", b"err\n"), "output")
    equal((out.exit["type"], out.exit["state"], out.exit["exit"]["code"]), ("terminal", "exited", 3), out.exit)
    equal(raw(g, "a", "web"), out.both, "raw")
    equal(raw(g, "a", "web", "?stream=stderr"), b"err\n", "raw stderr")
    equal(g.get(BASE).headers["berth-generation"], "1", "generation")


def test_refused(g):
    """What makes no sense, or is not there, is said so."""
    g.out("a", ["true"])
    refuse(g, "GET", f"{BASE}/none", 404, "not_found")
    refuse(g, "GET", "/v1/sandbox/never/processes", 404, "not_found")
    for body in ({}, {"argv": []}, {"argv": ["a"], "command": "b"}, {"command": "x", "id": "-"},
                 {"command": "x", "nonsense": 1}, {"command": "x", "timeout": -1}, {"command": "x", "cwd": "tmp"},
                 {"command": "x", "env": {"A=B": "c"}}, {"command": "x", "user": "1:x"}):
        refuse(g, "POST", BASE, 400, "invalid_request", body)
    error = refuse(g, "POST", BASE, 502, "exec_error", {"argv": ["/no/such"]})
    check("No such file" in error["error"], error)
    refuse(g, "POST", BASE, 502, "exec_error", {"argv": ["true"], "cwd": "/no/such"})
    equal(g.get(BASE).json(), [], "nothing of those is kept")
    start(g, "a", "sleep 1000", id="x")
    refuse(g, "POST", BASE, 409, "conflict", {"command": "true", "id": "x"})
    for body in ({"signal": 0}, {"signal": 65}, {"signal": "TERM"}, {"sig": 1}):
        refuse(g, "POST", f"{BASE}/x/kill", 400, "invalid_request", body)
    for query in ("since=1", "since=-1", "since=x", "since=99999999999999999999999", "follow=maybe", "stream=stdin"):
        refuse(g, "GET", f"{BASE}/x/logs?{query}", 400, "invalid_request")
    for body in ({}, {"for": "rain"}, {"for": "log"}, {"for": "log", "pattern": "("}, {"for": "log", "pattern": "a\\1"},
                 {"for": "port"}, {"for": "port", "port": 70000}, {"for": "port", "port": 80, "http_path": "x"},
                 {"for": "port", "port": 80, "http_path": "/ HTTP/1.1\r\nX: y"}, {"for": "log", "pattern": "a", "since": "9"}):
        refuse(g, "POST", f"{BASE}/x/wait", 400, "invalid_request", body)
    refuse(g, "DELETE", f"{BASE}/x?grace_ms=x", 400, "invalid_request")
    refuse(g, "GET", f"{BASE}/x", 409, "sandbox_restarted", If_Generation=7)


def test_reads_wake_nothing(g):
    """List, show and logs of a sandbox that sleeps leave it asleep."""
    start(g, "a", "echo hello", id="x")
    ended(g, "a", "x")
    g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    equal([p["id"] for p in g.get(BASE).json()], ["x"], "list")
    equal(read(g, "a", "x", "?follow=1").stdout, b"hello\n", "logs")
    equal(wait(g, "a", "x")["process"]["exit_code"], 0, "wait")
    equal(g.request("POST", f"{BASE}/x/kill").status, 204, "kill")
    refuse(g, "POST", f"{BASE}/x/stdin", 409, "conflict", b"x")
    equal(g.request("DELETE", f"{BASE}/x").status, 200, "delete")
    equal(g.sandbox("a")["state"], "cold", "state")


def test_detach(g):
    """exec with detach starts one, and its client may go."""
    reply = g.request("POST", "/v1/sandbox/a/exec", {"command": "echo hi; exit 4", "detach": True})
    equal((reply.status, reply.json()["state"], len(reply.json()["id"])), (200, "running", 26), reply)
    equal(ended(g, "a", reply.json()["id"])["exit_code"], 4, "exit code")
    g.refuse("a", "cat", stdin="x", detach=True)


def test_tree(g):
    """It runs until nothing of it is left; DELETE ends all of it, whatever it does about signals."""
    start(g, "a", "(setsid sh -c 'trap \"\" TERM; echo deep; sleep 1000 & wait; sleep 1000' &); exit 5", id="t")
    await_output(g, "a", "t", 5)
    until(lambda: lives(g, "sleep"), "the survivor")
    equal(show(g, "a", "t")["state"], "running", "its tree lives")
    reply = g.request("DELETE", f"{BASE}/t?grace_ms=300")
    equal((reply.status, reply.json()["state"]), (200, "exited"), reply)
    equal(lives(g, "sleep"), [], "survivors of DELETE")
    equal(g.request("DELETE", f"{BASE}/t").json(), reply.json(), "once more")
    start(g, "a", "trap 'echo bye; exit 9' TERM; echo on; while :; do sleep 0.05; done", id="polite")
    await_output(g, "a", "polite", 3)
    end = g.request("DELETE", f"{BASE}/polite?grace_ms=60000").json()
    equal((end["exit_code"], read(g, "a", "polite").stdout), (9, b"on\nbye\n"), end)


def lose(g, script):
    """Starts one that kills what minds it, where anything but init does, and then prints `on`. Its pid."""
    pid = start(g, "a", f"read x; {script}", id="x")["pid"]
    equal(g.request("POST", f"{BASE}/x/stdin", b"go\n").status, 204, "go")
    await_output(g, "a", "x", 3)
    return pid


def check_gone(g, reply, reason, what):
    """Nothing of it is left: its group was ended, or its sandbox, and that is said."""
    equal((reply.status, lives(g, "sleep")), (200, []), what)
    said = reply.json()[0] if isinstance(reply.json(), list) else reply.json()
    equal((said["state"], said["reason"]), ("exited", reason), (what, said))
    equal(show(g, "a", "x"), said, "what is kept of it")
    sandbox = g.sandbox("a")
    if g.has_cgroups:
        equal(("message" in said, sandbox["state"]), (False, "running"), what)
        return
    check("the whole sandbox was stopped" in said["message"], what, said)
    equal(sandbox["state"], "failed", what)
    check("the whole sandbox was stopped" in sandbox["last_failure"]["message"], sandbox)


def test_unminded(g):
    """One that has killed its supervisor is gone, too, when DELETE answers, with grace or without; else its sandbox is."""
    rude = "trap '' TERM; kill -9 $PPID; setsid sleep 1000 & echo on; while :; do sleep 0.05; done"
    polite = "kill -9 $PPID; (trap '' TERM; setsid sleep 1000) & echo on; while :; do sleep 0.05; done"
    # Without a group its grace is over with its main process: what is left of it cannot be found.
    long = "?grace_ms=300" if g.has_cgroups else "?grace_ms=300000"
    for script, query, reason in ((rude, "/x", "killed"), (rude, "/x?grace_ms=300", "killed"), (rude, "?grace_ms=300", "killed"),
                                  (polite, "/x", "killed"), (polite, "/x" + long, "signaled"), (polite, long, "signaled")):
        lose(g, script)
        check_gone(g, g.request("DELETE", BASE + query), reason, (script, query))


def test_unminded_late(g):
    """The same when the supervisor is killed while what one has left is being ended."""
    script = "setsid sh -c \"trap 'kill -9 $PPID; sleep 1000' TERM; echo on; while :; do sleep 0.05; done\" & exit 5"
    pid = lose(g, script)
    until(lambda: g.exec("a", f"kill -0 {pid}").code, "the end of its main process")
    reply = g.request("DELETE", f"{BASE}/x?grace_ms={300 if g.has_cgroups else 300000}")
    check_gone(g, reply, "exited", "what was left")
    equal(reply.json()["exit_code"], 5, reply)


def test_unminded_before(g):
    """The same when it has ended, as far as can be known, also under an earlier berthd; but once, and in its own life."""
    for is_restarted in (False, True):
        lose(g, "kill -9 $PPID; setsid sleep 1000 & echo on; exit 5")
        if g.has_cgroups:
            equal(show(g, "a", "x")["state"], "running", "what it left is of it")
        else:
            check("cannot be known" in ended(g, "a", "x")["message"], "what it left cannot be found")
        if is_restarted:
            g.kill_berthd()
            g.start()
        until(lambda: len(lives(g, "sleep")) == 1, "what it left")
        check_gone(g, g.request("DELETE", f"{BASE}/x?grace_ms=300"), "exited", "when it had ended")
        end = show(g, "a", "x")
        g.out("a", ["true"])
        equal((g.request("DELETE", f"{BASE}/x").json(), g.sandbox("a")["state"]), (end, "running"), "in the next life")


def test_signals(g):
    """A signal goes to everything of the tree."""
    start(g, "a", "trap 'echo usr1' USR1; echo on; while :; do sleep 0.05; done", id="s")
    await_output(g, "a", "s", 3)
    equal(g.request("POST", f"{BASE}/s/kill", {"signal": 10}).status, 204, "USR1")
    wait(g, "a", "s", "log", pattern="^usr1$")
    equal(g.request("POST", f"{BASE}/s/kill", {"signal": 9}).status, 204, "KILL")
    end = ended(g, "a", "s")
    equal((end["exit"], end["reason"]), ({"code": 137, "signal": 9, "timedOut": False}, "signaled"), end)
    start(g, "a", "sleep 1000 & sleep 1001 & wait", id="many")
    until(lambda: len(lives(g, "sleep")) == 2, "both")
    equal(g.request("POST", f"{BASE}/many/kill").status, 204, "TERM")
    equal(ended(g, "a", "many")["reason"], "signaled", "the shell's end")
    equal(lives(g, "sleep"), [], "its children")


def test_timeout(g):
    """Its time is over: the tree is ended, and that is said."""
    start(g, "a", "echo on; setsid sleep 1000 & sleep 1000", id="t", timeout=300.5)
    end = ended(g, "a", "t")
    equal((end["exit"], end["reason"]), ({"code": 124, "timedOut": True, **({"signal": 9} if "signal" in end else {})},
                                         "timeout"), end)
    equal(lives(g, "sleep"), [], "survivors")


def test_all(g):
    """DELETE of all ends all that run."""
    for i in range(5):
        start(g, "a", "trap '' TERM; sleep 1000 & wait; sleep 1000", id=f"p{i}")
    start(g, "a", "true", id="over")
    ended(g, "a", "over")
    reply = g.request("DELETE", BASE)
    equal((reply.status, sorted(p["id"] for p in reply.json())), (200, [f"p{i}" for i in range(5)]), reply)
    check(all(p["state"] == "exited" and p["reason"] == "killed" for p in reply.json()), reply)
    equal(lives(g, "sleep"), [], "survivors")
    equal(len(g.get(BASE).json()), 6, "they are kept")
    equal(g.request("DELETE", BASE).json(), [], "nothing left to end")


def test_stdin(g):
    """Bytes arrive as they are; ?end=1 closes it; large ones wait for the reader."""
    start(g, "a", "wc -c; md5sum </dev/null >/dev/null; cat >/dev/null", id="count")
    block = bytes(range(256)) * 4096
    equal(g.request("POST", f"{BASE}/count/stdin", block).status, 204, "first")
    equal(g.request("POST", f"{BASE}/count/stdin?end=1", block + b"x").status, 204, "last")
    ended(g, "a", "count")
    equal(raw(g, "a", "count").split()[0], b"%d" % (2 * len(block) + 1), "count")
    refuse(g, "POST", f"{BASE}/count/stdin", 409, "conflict", b"x")
    start(g, "a", "exec <&-; echo closed; sleep 1000", id="deaf")
    await_output(g, "a", "deaf", 7)
    until(lambda: g.request("POST", f"{BASE}/deaf/stdin", b"x" * 70000).status == 409, "a closed stdin to be said")
    # One who reads nothing holds up the writer, and nobody else; its end ends that. Of two writers one is refused.
    start(g, "a", "sleep 1000", id="slow")
    replies = []
    writers = [threading.Thread(target=lambda: replies.append(
        g.request("POST", f"{BASE}/slow/stdin", b"x" * (8 << 20)))) for _ in range(2)]
    for writer in writers:
        writer.start()
    until(lambda: replies, "the second writer to be refused")
    equal((len(replies), replies[0].status), (1, 409), replies)
    equal(g.out("a", "echo fine"), "fine\n", "others")
    equal(len(replies), 1, replies)
    g.request("DELETE", f"{BASE}/slow")
    for writer in writers:
        writer.join()
    equal(replies[1].status, 409, replies)
    start(g, "a", ["cat"], id="empty")
    equal(g.request("POST", f"{BASE}/empty/stdin?end=1").status, 204, "only the end")
    equal(ended(g, "a", "empty")["exit_code"], 0, "cat's end")


def test_ids(g):
    """The ID of an ended one may be used again, and its log is new; 256 ended ones are kept."""
    start(g, "a", "echo one", id="again")
    ended(g, "a", "again")
    start(g, "a", "echo two", id="again")
    ended(g, "a", "again")
    equal(read(g, "a", "again").both, b"two\n", "the log")
    equal(len(g.get(BASE).json()), 1, "list")
    count = 20 if IS_SANITIZED else 270
    for first in range(0, count, 10):
        at_once(10, lambda i: ended(g, "a", start(g, "a", ["echo", "x"], id=f"n{first + i}")["id"]))  # pylint: disable=cell-var-from-loop
    until(lambda: len(g.get(BASE).json()) == min(count + 1, 256), "the oldest to go")
    equal(g.get(f"{BASE}/again").status, 200 if count < 256 else 404, "the oldest")


def test_sleep(g):
    """Status and output stay when the sandbox sleeps and starts, with the generation they are of."""
    start(g, "a", "echo kept; sleep 1000", id="x")
    await_output(g, "a", "x", 5)
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "sleep")
    end = show(g, "a", "x")
    equal((end["state"], end["reason"], end["generation"]), ("exited", "killed", 1), end)
    g.out("a", ["true"])
    equal(show(g, "a", "x"), end, "after the start")
    equal(raw(g, "a", "x"), b"kept\n", "output")
    equal(start(g, "a", "true", id="y")["generation"], 2, "the next life")


def test_autostart(g):
    """Autostart processes come up with each start, under their ID, until they are ended for good."""
    start(g, "a", "echo up $N; sleep 1000", id="web", autostart=True, env={"N": "1"})
    await_output(g, "a", "web", 5)
    for generation in (2, 3):
        g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
        g.kill_berthd()
        g.start()
        equal(show(g, "a", "web")["state"], "exited", "asleep")
        g.request("POST", "/v1/sandbox/a/start")
        await_output(g, "a", "web", 5 * generation)
        status = show(g, "a", "web")
        equal((status["state"], status["generation"], status["autostart"]), ("running", generation, True), status)
    equal(raw(g, "a", "web"), b"up 1\n" * 3, "one log for all lives")
    equal(g.request("DELETE", f"{BASE}/web").json()["autostart"], False, "ended for good")
    g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    g.request("POST", "/v1/sandbox/a/start")
    equal(show(g, "a", "web")["generation"], 3, "not started again")
    g.out("a", "printf '#!/bin/sh\\necho x\\n' >late; chmod +x late")
    start(g, "a", ["./late"], id="late", autostart=True)
    ended(g, "a", "late")
    g.out("a", "rm late")
    g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    equal(g.request("POST", "/v1/sandbox/a/start").status, 200, "start with one that cannot")
    until(lambda: show(g, "a", "late")["state"] == "error", "the failure to be said")
    check("No such file" in show(g, "a", "late")["error"]["message"], show(g, "a", "late"))


def test_environment(g):
    """PUT env: for what starts later; merged, removed by null, kept when berthd is killed."""
    start(g, "a", "read x; echo $A", id="before")
    value = "new\nline 'q' \"d\" ä" + "x" * 100000
    equal(g.request("PUT", "/v1/sandbox/a/env", {"A": "1", "B": value}).status, 204, "set")
    equal(g.out("a", "echo $A"), "1\n", "exec")
    equal(g.out("a", 'printf %s "$B"'), value, "every byte of it")
    equal(g.request("PUT", "/v1/sandbox/a/env", {"A": "2", "C": "3"}).status, 204, "merge")
    g.kill_berthd()
    g.start()
    equal(g.request("PUT", "/v1/sandbox/a/env", {"B": None}).status, 204, "remove")
    equal(g.out("a", "echo $A-$B-$C"), "2--3\n", "exec")
    start(g, "a", "echo $A $C", id="after", env={"C": "own"})
    ended(g, "a", "after")
    equal(raw(g, "a", "after"), b"2 own\n", "process")
    g.request("POST", f"{BASE}/before/stdin?end=1", b"x\n")
    ended(g, "a", "before")
    equal(raw(g, "a", "before"), b"\n", "what ran keeps its own")
    for body in ({"A=B": "x"}, {"": "x"}, {"A": 1}, {"A": "x" * 300000}, []):
        refuse(g, "PUT", "/v1/sandbox/a/env", 400, "invalid_request", body)
    check("100000" not in str(g.sandbox("a")) and value not in str(g.sandbox("a")), "it is shown")
    equal(g.request("PUT", "/v1/sandbox/fresh/env", {"X": "y"}).status, 204, "one that is not there")
    equal(g.out("fresh", "echo $X"), "y\n", "it was made")


def test_deleted(g):
    """DELETE of the sandbox removes everything, and who follows or waits hears it."""
    start(g, "a", "echo on; sleep 1000", id="x")
    waited = []
    waiter = threading.Thread(target=lambda: waited.append(wait(g, "a", "x")))
    waiter.start()
    with Log(g, "a", "x", "?follow=1") as log:
        events = iter(log)
        next(events)
        equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
        equal([(name, data["reason"]) for name, data in events], [("exit", "killed")], "the rest of the log")
    waiter.join()
    equal(waited[0]["process"]["reason"], "killed", waited)
    equal(g.get(BASE).status, 404, "list")
    g.out("a", ["true"])
    equal(g.get(BASE).json(), [], "of a new one with that name")
    until(lambda: not logs_of(g, "a"), "the logs to go")


def test_dev_server(g):
    """A server started, waited for by port (TCP and HTTP), followed, ended with all its workers."""
    start(g, "a", "for i in 1 2 3; do sleep 1000 & done; mkdir -p site; echo hi >site/f; "
                  "exec python3 -u -m http.server --directory site 8000", id="web")
    equal(wait(g, "a", "web", "port", port=8000)["port"], {"port": 8000}, "TCP")
    equal(wait(g, "a", "web", "port", port=8000, http_path="/f")["port"], {"port": 8000, "http_status": 200}, "HTTP")
    line = wait(g, "a", "web", "log", pattern='"GET /f HTTP/1.1" 200', stream="stderr")["log"]
    check(line["stream"] == "stderr" and line["match"] == '"GET /f HTTP/1.1" 200', line)
    with Log(g, "a", "web", f"?follow=1&since={line['cursor']}") as log:
        g.out("a", ["python3", "-c", "import urllib.request as u; u.urlopen('http://localhost:8000/f?x').read()"])
        name, data = next(iter(log))
        check(name == "stderr" and b"GET /f?x" in data["data"], data)
    begin = time.monotonic()
    error = wait(g, "a", "web", "port", status=504, port=8000, http_path="/missing", timeout_ms=700)
    check(error["code"] == "timeout" and any("/missing" in text for text in error["last_lines"]), error)
    check(time.monotonic() - begin < 30, "the timeout took long")
    equal(g.request("DELETE", f"{BASE}/web").json()["reason"], "killed", "end")
    equal(lives(g, "sleep", "python3"), [], "workers")
    wait(g, "a", "web", "port", status=409, port=8000)


def test_wait(g):
    """For its end, for a line that was or will be printed; a death ends the wait, with the last lines."""
    start(g, "a", "echo first; read x; echo $x; printf 'prompt> '; read y; echo 'bad thing' >&2; exit 6", id="x")
    line = wait(g, "a", "x", "log", pattern="^fi")["log"]
    equal(line, {"stream": "stdout", "text": "first", "match": "fi", "cursor": "6"}, "a line before")
    replies = []
    waiter = threading.Thread(target=lambda: replies.append(wait(g, "a", "x", "log", pattern="ready on [0-9]+$")))
    waiter.start()
    equal(wait(g, "a", "x", "log", status=504, pattern="never", timeout_ms=100)["last_lines"], ["first"], "timeout")
    g.request("POST", f"{BASE}/x/stdin", b"ready on 80\n")
    waiter.join()
    equal(replies[0]["log"]["match"], "ready on 80", replies)
    equal(wait(g, "a", "x", "log", pattern="prompt> ")["log"]["text"], "prompt> ", "a line that is not complete")
    for what, options in (("log", {"pattern": "never"}), ("port", {"port": 9})):
        waiter = threading.Thread(target=lambda w=what, o=options: replies.append(wait(g, "a", "x", w, 409, **o)))
        waiter.start()
        replies.append(waiter)
    equal(wait(g, "a", "x", status=504, timeout_ms=100)["code"], "timeout", "its end")
    g.request("POST", f"{BASE}/x/stdin", b"\n")
    for waiter in [r for r in replies if isinstance(r, threading.Thread)]:
        waiter.join()
    for error in [r for r in replies if isinstance(r, dict)][1:]:
        equal((error["code"], error["process"]["exit_code"], error["last_lines"][-1]),
              ("process_exited", 6, "prompt> bad thing"), error)
    equal(len(replies), 5, "all were told")
    equal(wait(g, "a", "x", "log", pattern="bad", stream="stderr")["log"]["cursor"], "36", "after its end")
    equal(wait(g, "a", "x", "log", 409, pattern="bad", stream="stdout")["code"], "process_exited", "stream")
    equal(wait(g, "a", "x", "log", 409, pattern="first", since="6")["code"], "process_exited", "since")
    check("code 6" in refuse(g, "POST", f"{BASE}/x/wait", 409, "process_exited", {"for": "port", "port": 1})["error"],
          "how it ended")


main([test_life, test_refused, test_reads_wake_nothing, test_detach, test_tree, test_unminded, test_unminded_late,
      test_unminded_before, test_signals, test_timeout, test_all, test_stdin, test_ids, test_sleep, test_autostart,
      test_environment, test_deleted, test_dev_server, test_wait])
