"""The verbs of processes and sessions against a fake daemon: what is asked, hostile answers, faults."""

import base64
import json

from fake_api import Api
from harness import check, equal, main

EVIL = "a\033]0;x\007\nb\x9bc"
SEEN = "a?]0;x??b?c"
PROCESS = {"id": "web", "pid": 7, "command": ["sleep", "9"], "state": "running", "started_at": "2026-01-31T12:00:00.000Z"}


def api(place, handler):
    server = Api(place.listen())
    server.processes = server.exec = handler
    place.servers.append(server)
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    return server


def fails(place, code, words, *args):
    r = place.run(*args)
    equal((r.returncode, r.stdout), (code, ""), f"{args} {r.stderr}")
    check(words in r.stderr and "\033" not in r.stderr and "\x9b" not in r.stderr, args, r.stderr)


def output(kind, data, cursor="1"):
    return {"type": kind, "cursor": cursor, "timestamp": "x", "data": base64.b64encode(data).decode()}


def asked(place):
    """Each verb asks what it should, and nothing more."""
    bodies = []

    def handler(client, request):
        bodies.append((request.headers.get("session-id"),
                       request.json() if request.method in ("POST", "PUT") else None))
        if request.path.endswith("/kill") or request.path.startswith("/v1/sandbox/box/session/") or \
                (request.method, "/alarm/" in request.path) == ("DELETE", True):
            client.answer(204)
        elif request.path.endswith("/exec"):
            client.stream()
            client.exit(0)
        elif request.path.endswith("/session"):
            client.answer(200, {"sessions": []})
        elif request.path.endswith("/alarms"):
            client.answer(200, {"alarms": []})
        else:
            client.answer(200, {**PROCESS, "process": {**PROCESS, "exit_code": 0}})

    server = api(place, handler)
    top = "/v1/sandbox/box/"
    for args, target, header, body in [
            (["exec", "-d", "box", "a", "b"], "processes", None, {"argv": ["a", "b"]}),
            (["exec", "-d", "--name", "N", "--autostart", "-w", "/x", "-u", "u", "box", "a"], "processes", None,
             {"argv": ["a"], "cwd": "/x", "user": "u", "id": "N", "autostart": True}),
            (["exec", "-s", "My.s:1", "box", "cd", "/"], "exec", "My.s:1", {"argv": ["cd", "/"]}),
            (["kill", "-s", "INT", "box", "Web"], "processes/web/kill", None, {"signal": 2}),
            (["kill", "--end", "box", "web"], "processes/web", None, None),
            (["kill", "--end", "--grace", "2s", "box", "web"], "processes/web?grace_ms=2000", None, None),
            (["wait", "box", "web"], "processes/web/wait", None, {"for": "exit"}),
            (["wait", "--log", "a\"b", "--timeout", "1s", "box", "web"], "processes/web/wait", None,
             {"for": "log", "pattern": "a\"b", "timeout_ms": 1000}),
            (["wait", "--port", "80", "--http", "/h", "box", "web"], "processes/web/wait", None,
             {"for": "port", "port": 80, "http_path": "/h"}),
            (["session", "ls", "Box"], "session", None, None),
            (["session", "rm", "box", "a:b"], "session/a:b", None, None),
            (["alarm", "set", "Box", "Tick", "--every", "10m", "--", "a", "-b"], "alarm/tick", None,
             {"every": "10m", "argv": ["a", "-b"], "timeout_ms": 0}),
            (["alarm", "set", "--at", "T", "--every", "1d", "--timeout", "2s", "box", "tick", "a"], "alarm/tick", None,
             {"at": "T", "every": "1d", "argv": ["a"], "timeout_ms": 2000}),
            (["alarm", "ls", "box"], "alarms", None, None),
            (["alarm", "rm", "box", "tick", "tock"], "alarm/tock", None, None)]:
        r = place.run(*args)
        equal((r.returncode, r.stderr), (0, ""), args)
        equal((server.targets[-1], bodies[-1]), (top + target, (header, body)), args)


def refused(place):
    """What cannot be a name never becomes a path or a header."""
    server = api(place, lambda client, _: client.answer(200, {}))
    for args, code in [(["exec", "-s", "a\r\nX: y", "box", "true"], 125), (["exec", "-s", "", "box", "true"], 125),
                       (["exec", "-s", "x" * 129, "box", "true"], 125), (["session", "rm", "box", "../.."], 2),
                       (["session", "rm", "box", "a/b"], 2), (["session", "rm", "a/b", "c"], 2), (["session"], 2),
                       (["alarm"], 2), (["alarm", "make", "box"], 2), (["alarm", "ls"], 2), (["alarm", "ls", "a", "b"], 2),
                       (["alarm", "rm", "box"], 2), (["alarm", "rm", "box", "a/b"], 2), (["alarm", "rm", "a/b", "c"], 2),
                       (["alarm", "set", "box", "x", "--every", "1s"], 2), (["alarm", "set", "box", "x", "prog"], 2),
                       (["alarm", "set", "box", "x", "--at", "T", "--timeout", "1", "prog"], 2),
                       (["alarm", "ls", "box", "--at", "T"], 2),
                       (["session", "make", "box"], 2), (["session", "ls"], 2), (["session", "ls", "box", "x"], 2),
                       (["session", "rm", "box"], 2), (["ps", "a/b"], 2), (["logs", "box", "a?b"], 2),
                       (["kill", "box", ".."], 2), (["wait", "box", "a b"], 125)]:
        fails(place, code, "berth: ", *args)
    equal(server.requests, [], "nothing was asked")


def hostile(place):
    """Text of a daemon, or of a sandbox behind it, does not steer the terminal."""
    answers = {}
    api(place, lambda client, request: client.answer(*answers[request.path.rsplit("/", 1)[1]]))
    answers["processes"] = 200, [{**PROCESS, "id": EVIL, "state": EVIL, "started_at": EVIL, "command": [EVIL]}]
    r = place.run("ps", "box")
    equal((r.returncode, r.stdout.count("\n"), r.stdout.count(SEEN)), (0, 2, 4), r.stdout)
    equal(place.run("ps", "-q", "box").stdout, SEEN + "\n", "IDs")
    answers["alarms"] = 200, {"alarms": [
        {"name": EVIL, "next_at": EVIL, "every": EVIL, "argv": [EVIL, "x" * 100], "last_run": {
            "attempts": 3, "error": EVIL}},
        {"name": "b", "argv": ["b"], "last_run": None},
        {"name": "c", "argv": ["c"], "last_run": {"attempts": 1, "started_at": "x"}},
        {"name": "d", "argv": ["d"], "last_run": {"attempts": 1, "started_at": "x", "ended_at": "x",
                                                  "reason": "exited", "exit_code": 7}}]}
    r = place.run("alarm", "ls", "box")
    equal((r.returncode, r.stderr, len(r.stdout.splitlines())), (0, "", 6), r.stdout)
    check("\033" not in r.stdout and "\x9b" not in r.stdout and "failed 3x" in r.stdout, r.stdout)
    check("running" in r.stdout and "exited 7" in r.stdout, r.stdout)
    answers["session"] = 200, {"sessions": [{"id": EVIL, "state": EVIL, "cwd": EVIL, "created_at": EVIL, "waiting": 2}]}
    r = place.run("session", "ls", "box")
    equal((r.returncode, r.stdout.count("\n"), r.stdout.count(SEEN)), (0, 2, 4), r.stdout)
    answers["wait"] = 409, {"error": EVIL, "code": "process_exited", "process": PROCESS, "last_lines": [EVIL]}
    fails(place, 1, f"berth: {SEEN} (process_exited)\n  {SEEN}\n", "wait", "--log", "x", "box", "web")
    answers["wait"] = 200, {"for": "log", "process": PROCESS, "log": {"text": EVIL}}
    equal(place.run("wait", "--log", "x", "box", "web").stdout, SEEN + "\n", "a line")
    answers["wait"] = 200, {"for": "exit", "process": {**PROCESS, "exit_code": None, "reason": "lost", "message": EVIL}}
    fails(place, 125, SEEN, "wait", "box", "web")
    for body in ([1], {}, [{"id": 1}], "x"):
        answers["processes"] = answers["wait"] = answers["session"] = 200, body
        fails(place, 1, "cannot be understood", "ps", "box")
        fails(place, 1, "cannot be understood", "session", "ls", "box")
        if body != {}:
            fails(place, 125, "cannot be understood", "wait", "box", "web")
        fails(place, 125, "cannot be understood", "exec", "-d", "box", "true")


def completed(place):
    """Tab offers the processes of the sandbox that was named, and only what can be one."""
    server = api(place, lambda client, _: client.answer(200, [{**PROCESS, "id": i} for i in ("web", EVIL, "db", "we\nb")]))
    for args in (["logs", "box"], ["wait", "box"], ["kill", "box", "db"], ["logs", "-f", "box"]):
        equal(place.run("complete", "--", *args, "").stdout, "=web\n=db\n", args)
    equal(place.run("complete", "--", "logs", "Box", "w").stdout, "=web\n", "begun")
    equal(set(server.targets), {"/v1/sandbox/box/processes"}, "asked")
    equal(place.run("complete", "--", "logs", "a/b", "").stdout, "", "no ID")
    equal(place.run("complete", "--", "exec", "--name", "").stdout, "", "a new name")


def streams(place):
    """Logs: an end without an exit is one only if nobody asked to follow, and nobody cut it off."""
    events, is_cut = [], [False]

    def handler(client, _):
        client.stream()
        for name, data in events:
            client.event(name, data if isinstance(data, str) else json.dumps(data))
        if not is_cut[0]:
            client.sock.sendall(b"0\r\n\r\n")

    server = api(place, handler)
    events[:] = [("stdout", output("stdout", b"o")), ("news", {}), ("stderr", output("stderr", b"e"))]
    r = place.run("logs", "box", "web")
    equal((r.returncode, r.stdout, r.stderr), (0, "o", "e"), "as it is now")
    equal(server.targets[-1], "/v1/sandbox/box/processes/web/logs?follow=0&since=0", "asked")
    equal(place.run("logs", "-f", "--stream", "out", "--since", "5", "box", "web").returncode, 1, "no exit")
    equal(server.targets[-1], "/v1/sandbox/box/processes/web/logs?follow=1&since=5&stream=stdout", "asked")
    is_cut[0] = True
    r = place.run("logs", "box", "web")
    equal((r.returncode, r.stdout), (1, "o"), "cut off")
    check("broke off: not everything has come" in r.stderr, r.stderr)
    for bad in ("x", "[]", '{"data":"%%%"}', '{"data":7}'):
        events[:] = [("stdout", bad)]
        fails(place, 1, "cannot be understood", "logs", "box", "web")
    events[:] = [("error", {"error": EVIL, "code": "internal"})]
    fails(place, 1, f"{SEEN} (internal)", "logs", "-f", "box", "web")


def restarted(place):
    """A session's shell that ended with the command is told of; so is what a lost one says."""
    ends = [(3, {}), (137, {"reason": "signaled", "signal": 9})]

    def handler(client, _):
        code, more = ends[-1]
        client.stream()
        client.exit(code, session_restarted=True, message="the shell has ended " + EVIL, **more)
    api(place, handler)
    while ends:
        fails(place, ends[-1][0], f"the shell has ended {SEEN}\n", "exec", "-s", "dev", "box", "exit", "3")
        ends.pop()


def absent(place):
    """No daemon: 3, or 125 where the code is a process's own."""
    gone = ["--socket", place.path("none.sock")]
    for args in (["ps", "box"], ["logs", "box", "web"], ["kill", "box", "a", "b"], ["session", "ls", "box"],
                 ["session", "rm", "box", "s"]):
        fails(place, 3, "berth: ", *gone, *args)
    for args in (["wait", "box", "web"], ["exec", "-d", "box", "true"]):
        fails(place, 125, "berth: ", *gone, *args)


if __name__ == "__main__":
    main([
        ("each verb asks what it should", asked),
        ("what cannot be a name is refused here", refused),
        ("hostile text does not steer the terminal", hostile),
        ("Tab offers processes", completed),
        ("logs end as they should", streams),
        ("a session's shell that ended is told of", restarted),
        ("nobody answers", absent),
    ])
