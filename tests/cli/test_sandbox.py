"""The verbs of sandboxes against a fake daemon: what is asked, what is shown, and every fault."""

import json
import os
import signal
import subprocess
import threading

from fake_api import Api
from harness import check, equal, main


def api(place, exec_handler=None):
    server = Api(place.listen(), exec_handler)
    place.servers.append(server)
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    return server


def popen(place, *args, **more):
    return subprocess.Popen([place.berth, *args], env=place.env, cwd=place.dir,
                            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                               "stderr": subprocess.PIPE, **more})


def echo(client, request):
    """Tells what was asked for, on stdout, and ends with the code in the last argument."""
    asked = request.json()
    client.stream()
    client.event("stdout", json.dumps(asked).encode())
    last = asked["argv"][-1]
    client.exit(int(last) if last.isdigit() else 0)


def exec_passes_on(place):
    def handler(client, request):
        equal(request.headers["accept"], "text/event-stream")
        equal(request.json(), {"argv": ["prog", "-x", "--json", "--", "a b"]})
        client.stream()
        client.raw(b": \n\n")
        client.event("stdout", b"out\xff\x00")
        client.event("stderr", b"err\n")
        client.event("news", "{}")
        client.event("stdout", b"")
        client.event("stdout", "äö".encode())
        client.exit(7)

    server = api(place, handler)
    process = popen(place, "exec", "Web", "prog", "-x", "--json", "--", "a b")
    out, err = process.communicate(timeout=60)
    equal((process.returncode, out, err), (7, b"out\xff\x00" + "äö".encode(), b"err\n"))
    equal((server.requests, server.failures), ([("POST", "/v1/sandbox/web/exec")], []))


def exec_flags(place):
    api(place, echo)
    place.env["OURS"] = "1=2"
    r = place.run("exec", "-e", "A=1", "--env", "B=", "-e", "OURS", "-e", "A=2", "-w", "/tmp", "-u",
                  "1000:100", "--timeout", "1500ms", "web", "--", "prog", "5")
    equal((r.returncode, json.loads(r.stdout)), (5, {
        "argv": ["prog", "5"], "env": {"A": "2", "B": "", "OURS": "1=2"}, "cwd": "/tmp",
        "user": "1000:100", "timeout_ms": 1500}), r.stderr)
    for args, words in [(["web"], "what should be run"), ([], "in which sandbox"),
                        (["web", "--"], "what should be run"), (["--timeout", "5", "web", "x"], "--timeout"),
                        (["--timeout", "0", "web", "x"], "--timeout"),
                        (["-e", "NOT_THERE", "web", "x"], "no such variable"),
                        (["-e", "=x", "web", "x"], "NAME=VALUE"), (["--bad", "web", "x"], "no flag"),
                        (["we/b", "x"], "no sandbox's ID"), (["..", "x"], "no sandbox's ID")]:
        r = place.run("exec", *args)
        equal((r.returncode, r.stdout, r.stderr.count("\n")), (125, "", 1), args)
        check(words in r.stderr, args, r.stderr)


def exec_json(place):
    answer = {"stdout": "x", "stderr": "", "exit_code": 3, "reason": "exited", "truncated": False}

    def handler(client, request):
        equal(request.headers["accept"], "application/json")
        equal(request.json(), {"argv": ["x"]})
        client.answer(200, answer)

    server = api(place, handler)
    answer["stdout"] = "x" * (3 << 20)
    r = place.run("exec", "--json", "web", "x")
    equal((r.returncode, json.loads(r.stdout), r.stderr, server.failures), (3, answer, "", []))


def reasons(place):
    endings = [
        ((137, "signaled"), {"signal": 9}, 137, ""),
        ((124, "timeout"), {}, 124, "berth: the command ran out of time and was ended\n"),
        ((137, "oom"), {}, 137, "berth: the command ran out of memory and was killed\n"),
        ((127, "not_started"), {"message": "x: not found\033"}, 127,
         "berth: the command could not be started: x: not found?\n"),
        ((None, "lost"), {"message": "init died"}, 125,
         "berth: how the command ended is not known: init died\n"),
    ]

    def handler(client, request):
        (code, reason), more, _, _ = endings[int(request.json()["argv"][0])]
        client.stream()
        client.exit(code, reason, **more)

    api(place, handler)
    for number, (_, _, code, sentence) in enumerate(endings):
        r = place.run("exec", "web", str(number))
        equal((r.returncode, r.stdout, r.stderr), (code, "", sentence))


def faults(place):
    def cut(client, _):
        client.stream()
        client.event("stdout", b"half")

    def ended(client, _):
        client.stream()
        client.sock.sendall(b"0\r\n\r\n")

    def bad_base64(client, _):
        client.stream()
        client.event("stdout", "a b")
        client.is_gone()

    def bad_exit(client, _):
        client.stream()
        client.event("exit", "{")
        client.is_gone()

    def error(client, _):
        client.stream()
        client.event("error", {"error": "the sandbox went away", "code": "exec_transport_error"})

    def refused(client, request):
        request.body()
        client.answer(409, {"error": "no", "code": "conflict"})

    def endless(client, _):
        client.stream()
        while True:
            client.raw(b"data: " + b"x" * 65536)

    def no_stream(client, _):
        client.answer(200, {"exit_code": 0})

    def no_http(client, _):
        client.sock.sendall(b"hello\r\n")

    def silent(client, _):
        client.sock.shutdown(2)

    for number, (handler, out, words) in enumerate([
            (cut, "half", "broke off: how the command ended, or whether, is not known"),
            (ended, "", "broke off"), (bad_base64, "", "cannot be understood"),
            (bad_exit, "", "cannot be understood"),
            (error, "", "berth: the sandbox went away (exec_transport_error)\n"),
            (refused, "", "berth: no (conflict)\n"), (endless, "", "too large"),
            (no_stream, "", "no stream of events"), (no_http, "", ""), (silent, "", "")]):
        server = Api(place.listen(f"{number}.sock"), handler)
        place.servers.append(server)
        r = place.run("--socket", place.path(f"{number}.sock"), "exec", "web", "x")
        equal((r.returncode, r.stdout, r.stderr.count("\n")), (125, out, 1), handler.__name__, )
        check(words in r.stderr, handler.__name__, r.stderr)
    r = place.run("--socket", place.path("none.sock"), "exec", "web", "x")
    equal(r.returncode, 125)
    check("no berthd answers" in r.stderr, r.stderr)


def slow_stream(place):
    """Each piece is seen before the next one is sent."""
    seen = threading.Event()

    def handler(client, _):
        client.stream()
        client.event("stdout", b"first\n")
        check(seen.wait(30), "the first line was not passed on")
        client.raw(b"event: std")
        client.raw(b"out\ndata: c2Vjb25kCg==\n")
        client.raw(b"\n")
        client.exit(0)

    server = api(place, handler)
    process = popen(place, "exec", "web", "x")
    equal(process.stdout.readline(), b"first\n")
    seen.set()
    equal(process.stdout.read(), b"second\n")
    equal((process.wait(60), server.failures), (0, []))


def stdin_streams(place):
    """Input goes out while output comes in, and the end of the one is not the end of the other."""
    def handler(client, request):
        equal(request.headers["content-type"], "application/octet-stream")
        equal(request.query, [("argv", "cat"), ("argv", "a b&=+%"), ("env", "A=\xe4 ="), ("cwd", "/x"),
                              ("user", "me"), ("timeout_ms", "60000")])
        client.stream()
        for chunk in request.chunks():
            client.event("stdout", chunk.upper())
        client.event("stdout", b"end")
        client.exit(4)

    server = api(place, handler)
    process = popen(place, "exec", "-i", "-e", "A=\xe4 =", "-w", "/x", "-u", "me", "--timeout", "1m",
                    "web", "cat", "a b&=+%", stdin=subprocess.PIPE)
    for word in (b"one\n", b"two\n"):
        process.stdin.write(word)
        process.stdin.flush()
        equal(process.stdout.readline(), word.upper())
    process.stdin.close()
    equal(process.stdout.read(), b"end")
    equal((process.wait(60), server.failures), (4, []))


def stdin_whole(place):
    data = os.urandom(3 << 20)

    def handler(client, request):
        got = request.body()
        client.stream()
        client.event("stdout", str(got == data).encode())
        client.exit(0)

    api(place, handler)
    with open(place.path("in"), "wb") as file:
        file.write(data)
    with open(place.path("in"), "rb") as file:
        r = place.run("exec", "-i", "web", "x", stdin=file)
    equal((r.returncode, r.stdout, r.stderr), (0, "True", ""))
    r = place.run("exec", "-i", "web", "x", stdin=subprocess.DEVNULL)
    equal((r.returncode, r.stdout, r.stderr), (0, "False", ""))


def exit_before_stdin(place):
    """A command that ends does not wait for more input."""
    def handler(client, request):
        client.stream()
        client.exit(9)
        client.is_gone()

    api(place, handler)
    process = popen(place, "exec", "-i", "web", "true", stdin=subprocess.PIPE)
    equal(process.wait(60), 9)
    process.communicate()


def ended_by(place, number):
    gone = []

    def handler(client, request):
        request.body()
        client.stream()
        client.event("stdout", b"ready\n")
        gone.append(client.is_gone())

    server = api(place, handler)
    process = popen(place, "run", "--rm", "--name", "web", "x")
    equal(process.stdout.readline(), b"ready\n")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    equal((process.returncode, out, err), (128 + number, b"", b""))
    equal(server.requests[-1], ("DELETE", "/v1/sandbox/web"))
    place.servers.remove(server)
    server.close()
    equal(gone, [True], "the connection was closed")


def interrupted_while_stuck(place):
    """Nobody reads our output: Ctrl-C is heard all the same."""
    started = threading.Event()

    def handler(client, request):
        request.body()
        client.stream()
        try:
            while True:
                client.event("stdout", b"x" * 65536)
                started.set()
        except OSError:
            pass

    api(place, handler)
    process = popen(place, "exec", "web", "yes")
    check(started.wait(30))
    process.stdout.read1(10)
    process.send_signal(signal.SIGINT)
    equal(process.wait(60), 130)
    process.communicate()


def second_interrupt(place):
    """While the sandbox is being removed, a second Ctrl-C ends us at once."""
    removing, done = threading.Event(), threading.Event()

    def handler(client, request):
        request.body()
        client.stream()
        client.event("stdout", b"ready\n")
        client.is_gone()

    server = api(place, handler)
    one = server.one

    def stuck(client, request, name, rest):
        if request.method == "DELETE":
            removing.set()
            done.wait(60)
        return one(client, request, name, rest)

    server.one = stuck
    process = popen(place, "run", "--rm", "--name", "web", "x")
    equal(process.stdout.readline(), b"ready\n")
    process.send_signal(signal.SIGINT)
    check(removing.wait(30))
    process.send_signal(signal.SIGINT)
    equal(process.wait(60), -signal.SIGINT)
    done.set()
    process.communicate()


def closed_pipe(place):
    """Who reads no more ends the command, and --rm is still done."""
    gone = []

    def handler(client, request):
        request.body()
        client.stream()
        try:
            while True:
                client.event("stdout", b"y\n" * 1000)
        except OSError:
            gone.append(True)

    server = api(place, handler)
    process = popen(place, "run", "--rm", "--name", "web", "yes")
    equal(process.stdout.readline(), b"y\n")
    process.stdout.close()
    equal(process.wait(60), 141)
    equal(process.stderr.read(), b"")
    equal(server.requests[-1], ("DELETE", "/v1/sandbox/web"))
    place.servers.remove(server)
    server.close()
    equal(gone, [True])


def run_makes(place):
    server = api(place, echo)
    r = place.run("run", "--memory", "512M", "--cpus", "1.5", "--image", "py", "--pids", "9",
                  "--read-only", "prog", "6")
    equal((r.returncode, r.stderr), (6, ""))
    equal(server.requests, [("POST", "/v1/sandbox"), ("POST", "/v1/sandbox/new-0/exec")])
    made = server.sandboxes["new-0"]
    equal((made["limits"], made["image"], made["read_only"]),
          ({"memory": "512M", "cpus": 1.5, "pids": 9}, "py", True))
    server.requests.clear()
    equal(place.run("run", "--name", "Web", "--rm", "--", "prog").returncode, 0)
    equal(server.requests, [("PUT", "/v1/sandbox/web"), ("POST", "/v1/sandbox/web/exec"),
                            ("DELETE", "/v1/sandbox/web")])
    for args in (["--cpus", "many", "x"], ["--cpus", "-1", "x"], ["--cpus", "0x1", "x"], ["--cpus", "1e0", "x"],
                 ["--cpu-time", "30", "x"], ["--pids", "-1", "x"], [], ["--rm"],
                 ["--name", "a/b", "x"]):
        server.requests.clear()
        r = place.run("run", *args)
        equal((r.returncode, r.stdout, r.stderr.count("\n"), server.requests), (125, "", 1, []), args)
    for time, told in (("0", 0), ("0s", 0), ("30s", 30000)):
        equal(place.run("create", "timed", "--cpu-time", time).returncode, 0, time)
        equal(server.sandboxes.pop("timed")["limits"], {"cpu_time_ms": told}, time)


def run_fails(place):
    server = api(place, echo)
    server.create = lambda client, request: client.answer(503, {"error": "full", "code": "unavailable"})
    r = place.run("run", "--rm", "x")
    equal((r.returncode, r.stderr), (125, "berth: full (unavailable)\n"))
    server.create = lambda client, request: client.answer(200, {"id": "../../x"})
    r = place.run("run", "--rm", "x")
    equal((r.returncode, len(server.requests)), (125, 2), r.stderr)
    r = place.run("run", b"\xff")
    equal(r.returncode, 125)
    server.create = lambda client, request: client.answer(409, {"error": "only runs have such an ID", "code": "conflict"})
    r = place.run("create", "run-" + "a" * 26)
    equal((r.returncode, r.stderr), (1, "berth: only runs have such an ID (conflict)\n"))


def lists(place):
    server = api(place)
    r = place.run("ls")
    equal((r.returncode, r.stdout), (0, "ID  STATE       ACTIVITY  GENERATION  IMAGE  CREATED\n"), r.stderr)
    for name, settings in [("a", {}), ("a-long-name", {"state": "running", "generation": 12}),
                           ("c", {"image": "python\033[2J", "state": "failed"})]:
        server.put(name, settings)
    r = place.run("ls")
    equal(r.stdout, "ID           STATE       ACTIVITY  GENERATION  IMAGE       CREATED\n"
          "a            cold        stopped            0  host        2026-01-02T03:04:05.678Z\n"
          "a-long-name  running     -                 12  host        2026-01-02T03:04:05.678Z\n"
          "c            failed      stopped            0  python?[2J  2026-01-02T03:04:05.678Z\n", r.stderr)
    equal(place.run("ls", "-q").stdout, "a\na-long-name\nc\n")
    # Anybody may give such a label; what berthd made for runs has such a name, too.
    of_run, warm = "run-" + "a" * 26, "run-" + "b" * 26
    server.put("b-run", {"labels": {"berth.run": "run-1"}})
    server.put(of_run, {"labels": {"berth.run": "run-1"}})
    server.put(warm, {"labels": {"x": "y", "berth.pool": "python"}})
    equal(place.run("ls", "-q").stdout, "a\na-long-name\nb-run\nc\n")
    check("run-a" not in place.run("ls").stdout, "berthd's own")
    equal(place.run("ls", "-q", "-a").stdout, f"a\na-long-name\nb-run\nc\n{of_run}\n{warm}\n")
    check(of_run in place.run("ls", "--all").stdout and of_run in place.run("ls", "--json").stdout, "if they are asked for")
    for name in ("b-run", of_run, warm):
        del server.sandboxes[name]
    pages = [json.loads(line) for line in place.run("ls", "--json").stdout.splitlines()]
    equal([s["id"] for page in pages for s in page["sandboxes"]], ["a", "a-long-name", "c"])
    server.list = lambda client, request: client.answer(200, {"sandboxes": [], "cursor": "a&b"})
    r = place.run("ls")
    equal((r.returncode, r.stderr), (1, "berth: the answer has an odd cursor\n"))
    server.list = lambda client, request: client.answer(200, {"sandboxes": [{}]})
    r = place.run("ls")
    equal((r.returncode, r.stdout), (1, ""))
    check("sandboxes[0].id" in r.stderr, r.stderr)


def inspects(place):
    server = api(place)
    server.put("web", {"limits": {"memory": 536870912, "cpus": 1.5, "pids": None, "output_bytes": 1048576},
                       "labels": {"team": "a", "x": ""}, "state": "failed",
                       "usage": {"cpu_ms": 5, "memory_bytes": 1024, "new": 1},
                       "last_failure": {"code": "start_failed", "message": "crun: no\007",
                                        "at": "2026-01-02T03:04:05.678Z"}})
    r = place.run("inspect", "web")
    equal(r.returncode, 0, r.stderr)
    for words in ("512 MiB", "1.5", "output limit", "1 MiB", "team=a", "failed", "crun: no? (start_failed) at 2026-"):
        check(words in r.stdout, words, r.stdout)
    check("process limit" not in r.stdout)
    equal(json.loads(place.run("inspect", "--json", "web").stdout), server.sandboxes["web"])
    r = place.run("inspect", "none")
    equal((r.returncode, r.stderr), (1, "berth: there is no sandbox none (not_found)\n"))
    equal(place.run("inspect").returncode, 2)
    equal(place.run("inspect", "a/b").returncode, 2)


def lifecycle(place):
    server = api(place)
    r = place.run("create", "web", "--memory", "1G")
    equal((r.returncode, r.stdout, r.stderr), (0, "web\n", ""))
    equal(server.sandboxes["web"]["limits"], {"memory": "1G"})
    r = place.run("create", "web")
    equal((r.returncode, r.stderr), (1, "berth: there is a sandbox `web` already: `berth inspect` "
                                         "shows it, `berth rm` removes it\n"))
    equal(json.loads(place.run("create", "--json", "--start").stdout), {"id": "new-1"})
    equal(server.sandboxes["new-1"]["start"], True)
    r = place.run("start", "web", "new-1")
    equal((r.returncode, r.stdout), (0, "web\nnew-1\n"))
    equal(server.sandboxes["web"]["state"], "running")
    r = place.run("stop", "nobody", "web")
    equal((r.returncode, r.stdout, r.stderr),
          (1, "web\n", "berth: there is no sandbox nobody (not_found)\n"))
    equal(server.sandboxes["web"]["state"], "cold")
    equal(json.loads(place.run("start", "--json", "web").stdout)["state"], "running")
    r = place.run("rm", "web", "new-1", "nobody")
    equal((r.returncode, r.stdout, server.sandboxes), (0, "web\nnew-1\nnobody\n", {}))
    for verb in ("start", "stop", "rm"):
        equal(place.run(verb).returncode, 2, verb)
        equal(place.run("--socket", place.path("none"), verb, "a", "b").stderr.count("\n"), 1)
    many = [f"s{i}" for i in range(100)]
    equal(place.run("rm", *many).stdout.split(), many)


def stop_all(place):
    """The fake daemon is no berthd: down refuses it, after the sandboxes are stopped."""
    server = api(place)
    for i in range(5):
        server.put(f"s{i}", {"state": "running" if i % 2 else "cold"})
    equal(place.run("down", "--stop-all").returncode, 1)
    equal({s["state"] for s in server.sandboxes.values()}, {"cold"})
    equal([p for m, p in server.requests if m == "POST" and "/sandbox/" in p],
          ["/v1/sandbox/s1/sleep", "/v1/sandbox/s3/sleep"])
    # What a run has, by its label and its name, is thrown away; either alone is somebody's own.
    warm, own = (f"run-{letter * 26}" for letter in "ab")
    server.put(warm, {"state": "running", "labels": {"berth.pool": "python"}})
    server.put(own, {"state": "running"})
    server.put("labelled", {"state": "running", "labels": {"berth.run": warm}})
    server.requests.clear()
    equal(place.run("down", "--stop-all").returncode, 1)
    equal((warm in server.sandboxes, server.sandboxes[own]["state"], server.sandboxes["labelled"]["state"]), (False, "cold", "cold"))
    equal([p for m, p in server.requests if m == "DELETE"], [f"/v1/sandbox/{warm}"])
    r = place.run("--socket", place.path("none.sock"), "down", "--stop-all")
    equal(r.returncode, 0, r.stderr)


main([
    ("exec passes output on, byte by byte, and the exit code", exec_passes_on),
    ("exec's flags reach the daemon; wrong ones are 125", exec_flags),
    ("exec --json is the answer as it is", exec_json),
    ("how a command ended is said, unless it just ended", reasons),
    ("every fault is one sentence and 125", faults),
    ("a slow stream is passed on as it comes", slow_stream),
    ("standard input and output flow side by side", stdin_streams),
    ("standard input from a file, and none", stdin_whole),
    ("the command's end does not wait for input", exit_before_stdin),
    ("Ctrl-C closes the connection, removes, exits with 130", lambda place: ended_by(place, signal.SIGINT)),
    ("SIGTERM does, and exits with 143", lambda place: ended_by(place, signal.SIGTERM)),
    ("SIGHUP does, and exits with 129", lambda place: ended_by(place, signal.SIGHUP)),
    ("Ctrl-C while nobody reads our output", interrupted_while_stuck),
    ("a second Ctrl-C ends at once", second_interrupt),
    ("a closed pipe ends the command, removes, exits with 141", closed_pipe),
    ("run makes, runs, removes", run_makes),
    ("run when the sandbox cannot be made", run_fails),
    ("ls: a table, ids, JSON, all pages", lists),
    ("inspect", inspects),
    ("create, start, stop, rm", lifecycle),
    ("down --stop-all", stop_all),
])
