"""Does a live daemon answer as the contract says?

usage: test_live.py BERTHD SOURCE_ROOT
"""

import calendar
import ctypes
import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from document import METHODS, Document
from tap import Tap

TOKEN = "contract-suite-" + "x" * 32
DEADLINE_S = 30


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Daemon:
    """A berthd with directories, a socket and a port of its own."""

    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.socket = os.path.join(directory, "s")
        with open(os.open(self.path("tokens"), os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(TOKEN + "\n")
        self.start()

    def start(self):
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--socket", self.socket, "--state-dir", self.path("state"),
                 "--run-dir", self.path("run"), "--listen", "127.0.0.1:0",
                 "--token-file", self.path("tokens")],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)

    def path(self, name):
        return os.path.join(self.directory, name)

    def await_ready(self):
        line, end = b"", time.monotonic() + DEADLINE_S
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            byte = os.read(self.process.stdout.fileno(), 1) if readable else b""
            if not byte:
                raise RuntimeError(f"berthd is not ready: {line!r} {self.log()}")
            line += byte
        if not line.startswith(b"ready"):
            raise RuntimeError(f"berthd said {line!r}")
        host, port = self.ask("GET", "/v1/info").json()["listen"].rsplit(":", 1)
        self.tcp = (host, int(port))

    def log(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def ask(self, method, path, headers=None, over_tcp=False, body=None):
        if over_tcp:
            connection = http.client.HTTPConnection(*self.tcp, timeout=DEADLINE_S)
        else:
            connection = UnixConnection(self.socket)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def ask_raw(self, request):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(DEADLINE_S)
            sock.connect(self.socket)
            sock.sendall(request)
            response = http.client.HTTPResponse(sock)
            response.begin()
            return Answer(response)

    def is_well(self):
        try:
            return self.ask("GET", "/health").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def end(self):
        """Its exit status. Sandboxes would outlive it: if it is gone too early, another one removes them."""
        status = None
        try:
            if not self.is_well():
                self.process.kill()
                status = self.process.wait()
                self.start()
                self.await_ready()
            for sandbox in self.ask("GET", "/v1/sandbox?limit=1000").json()["sandboxes"]:
                self.ask("DELETE", "/v1/sandbox/" + sandbox["id"])
        finally:
            stopped = self.stop()
        return stopped if status is None else status

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


def await_keeper(tap, directory):
    """With daemon and sandboxes gone there is nothing left to keep."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            pidfd = os.pidfd_open(int(pid))
        except OSError:
            continue
        if words[0].endswith(b"berth-keeper") and f"{directory}/run".encode() in words:
            tap.check(select.select([pidfd], [], [], DEADLINE_S)[0], f"pid {pid} goes on")
        os.close(pidfd)


def remove_tree(path):
    """Without root, files of a sandbox's ids can be removed only inside a user namespace."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        subprocess.run(["unshare", "--map-root-user", "--map-auto", "rm", "-rf", path], check=True)


def check_answer(tap, document, answer, response, where):
    """Headers, content type and body are those that the contract promises for this status."""
    response = document.resolve(response)
    for name, header in response.get("headers", {}).items():
        header, value = document.resolve(header), answer.headers.get(name)
        if value is None:
            tap.check(not header.get("required"), f"{where}: {name} is missing")
            continue
        for problem in document.errors_of(value, header["schema"]):
            tap.check(False, f"{where}: {name}: {problem}")
    if "content" not in response:
        tap.equal(answer.body, b"", f"{where}: the body")
        return
    media_type = answer.headers.get("Content-Type")
    if tap.check(media_type in response["content"], f"{where}: Content-Type is {media_type}"):
        body = answer.json() if media_type == "application/json" else answer.body.decode()
        for problem in document.errors_of(body, response["content"][media_type]["schema"]):
            tap.check(False, f"{where}: {problem}")


def check_error(tap, document, answer, name, where):
    response = document.root["components"]["responses"][name]
    check_answer(tap, document, answer, response, where)
    example = next(iter(response["content"]["application/json"]["examples"].values()))["value"]
    tap.equal(answer.json()["code"], example["code"], f"{where}: the code")


# Without a pool there is nothing to fill: one would keep the keeper alive after berthd.
OTHERWISE = {"/v1/pool/prime": (409,)}


def fill(path):
    """A path of the contract with names of a sandbox, a file and a process; no answer that never ends."""
    path += "?follow=0" if path.endswith("/events") else ""
    name = "workspace/nothing" if "/watch/" in path else "workspace/hello.txt"
    path = path.replace("{id}", "contract").replace("{path}", name).replace("{process}", "web")
    return path.replace("{port}", "8080")


def request_of(document, operation):
    """Headers and body: the first example in JSON."""
    content = document.resolve(operation.get("requestBody", {})).get("content", {})
    if "application/json" not in content:
        return {}, None
    example = next(iter(content["application/json"]["examples"].values()))["value"]
    return {"Content-Type": "application/json"}, json.dumps(example)


def documented_routes(tap, document, daemon):
    """Whether a container can be had here or not: what is answered is what is written."""
    for method, path, operation in document.operations():
        where = f"{method} {path}"
        headers, body = request_of(document, operation)
        answer = daemon.ask(method, fill(path), headers, body=body)
        if tap.check(str(answer.status) in operation["responses"], f"{where}: {answer.status}"):
            check_answer(tap, document, answer, operation["responses"][str(answer.status)], where)
        if "{id}" not in path and "{run}" not in path:
            tap.check(answer.status in OTHERWISE.get(path, (200, 201)), f"{where}: {answer.status} {answer.body[:200]}")


def settings_come_back(tap, document, daemon):
    """What needs no container: made, changed, shown, listed, removed."""
    def ask(method, path, status, value=None):
        body = None if value is None else json.dumps(value)
        answer = daemon.ask(method, path, {"Content-Type": "application/json"}, body=body)
        tap.equal(answer.status, status, f"{method} {path} {value}: {answer.body[:200]}")
        operation = document.root["paths"][path.replace("/one", "/{id}").split("?")[0]][method.lower()]
        check_answer(tap, document, answer, operation["responses"][str(status)], f"{method} {path}")
        return answer.json() if answer.body else None

    ask("GET", "/v1/sandbox/one", 404)
    ask("DELETE", "/v1/sandbox/one", 204)
    tap.equal(ask("POST", "/v1/sandbox", 201, {"id": "One", "limits": {"memory": "64M"},
                                               "env": {"SECRET": "s3cret"}}), {"id": "one"}, "made")
    ask("POST", "/v1/sandbox", 409, {"id": "one"})
    ask("POST", "/v1/sandbox", 400, {"id": "o/ne"})
    ask("POST", "/v1/sandbox", 400, {"nonsense": 1})
    ask("POST", "/v1/sandbox", 501, {"network": {"mode": "full"}})
    ask("POST", "/v1/sandbox", 400, {"delete_after": "999ms"})
    ask("POST", "/v1/sandbox", 400, {"sleep_after": "99ms"})
    ask("POST", "/v1/sandbox", 400, {"sleep_mode": "nap"})
    ask("PUT", "/v1/sandbox/one", 400, {"exposedPorts": []})
    shown = ask("PUT", "/v1/sandbox/one", 200, {"limits": {"cpus": 1.5}, "labels": {"a": "b"}})
    tap.equal((shown["limits"]["memory"], shown["limits"]["cpus"], shown["labels"], shown["state"],
               shown["generation"]), (64 << 20, 1.5, {"a": "b"}, "cold", 0), "changed")
    shown = ask("PUT", "/v1/sandbox/one", 200, {"sleep_after": "120s", "sleep_mode": "stop", "stop_after": "1d",
                                              "hold_open_sockets": True})
    tap.equal([shown[name] for name in ("sleep_after", "sleep_mode", "stop_after", "max_awake", "delete_after",
                                        "stop_grace", "keep_alive", "hold_open_sockets", "ports")],
              ["2m", "stop", "1d", "never", "never", "10s", False, True, []], "sleep")
    tap.equal(shown["deletes_at"], None, "not deleted by itself")
    tap.equal(ask("GET", "/v1/sandbox/one", 200), shown, "shown")
    tap.check("s3cret" not in json.dumps(shown), "the environment is shown")
    tap.check(shown in ask("GET", "/v1/sandbox?limit=1000", 200)["sandboxes"], "it is not listed")
    tap.equal(ask("GET", "/v1/sandbox/one/running?wake=0", 200), {"running": False}, "running")
    ask("DELETE", "/v1/sandbox/one?if_state=asleep", 400)
    ask("DELETE", "/v1/sandbox/one?if_state=running", 409)
    ask("DELETE", "/v1/sandbox/one?if_state=cold", 204)
    ask("GET", "/v1/sandbox/one", 404)


def containers_are_real(tap, document, daemon):
    """One sandbox's life: made, a command in it, slept, woken by the next command, removed."""
    def ask(method, tail, status, value=None, accept="application/json"):
        answer = daemon.ask(method, "/v1/sandbox/real" + tail,
                            {"Content-Type": "application/json", "Accept": accept},
                            body=None if value is None else json.dumps(value))
        where = f"{method} {tail} {value}"
        tap.equal(answer.status, status, f"{where}: {answer.body[:300]}")
        operation = document.root["paths"]["/v1/sandbox/{id}" + tail][method.lower()]
        check_answer(tap, document, answer, operation["responses"][str(answer.status)], where)
        return answer

    ask("PUT", "", 200, {})
    ended = ask("POST", "/exec", 200, {"command": "echo out; echo err >&2; echo kept >f; exit 3"})
    ended = ended.json()
    tap.equal((ended["stdout"], ended["stderr"], ended["exit_code"], ended["reason"]),
              ("out\n", "err\n", 3, "exited"), "the command's end")
    tap.equal(ask("GET", "/running", 200).json(), {"running": True}, "running")
    tap.equal(ask("POST", "/sleep", 200, {"mode": "stop"}).json()["kept"], ["disk"], "kept")
    tap.equal(ask("GET", "", 200).json()["state"], "cold", "its state after sleep")
    events = ask("POST", "/exec", 200, {"argv": ["cat", "f"]}, "text/event-stream").body.decode()
    tap.check("event: stdout\ndata: a2VwdAo=\n" in events, f"the disk was not kept: {events}")
    ended = json.loads(events.rpartition("event: exit\ndata: ")[2])
    tap.equal((ended["exit_code"], ended["reason"]), (0, "exited"), events)
    shown = ask("POST", "/start", 200).json()
    tap.equal((shown["state"], shown["generation"]), ("running", 2), "woken once")
    ask("DELETE", "", 204)
    ask("GET", "", 404)


def heads(tap, document, daemon):
    for method, path, _ in document.operations():
        if method != "GET":
            continue
        path = fill(path) + ("?wake=0" if path.endswith("/running") else "")
        get, head = daemon.ask("GET", path), daemon.ask("HEAD", path)
        tap.equal((head.status, head.body), (get.status, b""), f"HEAD {path}")
        for name in ("Content-Type", "ETag", "Cache-Control"):
            tap.equal(head.headers.get(name), get.headers.get(name), f"HEAD {path}: {name}")
        if path not in ("/v1/info", "/metrics"):  # their length changes with their numbers
            length = get.headers.get("Content-Length")  # a stream of events has none
            tap.check(length in (None, str(len(get.body))), f"GET {path}: length")
            tap.equal(head.headers.get("Content-Length"), length, f"HEAD {path}: length")


def other_methods(tap, document, daemon):
    for path, item in document.root["paths"].items():
        allowed = {m.upper() for m in item if m in METHODS}
        allowed |= {"HEAD"} if "GET" in allowed else set()
        for method in {m.upper() for m in METHODS} - allowed:
            answer = daemon.ask(method, fill(path))
            tap.equal(answer.status, 405, f"{method} {path}")
            if method != "HEAD":  # which never has a body
                check_error(tap, document, answer, "MethodNotAllowed", f"{method} {path}")
            listed = {m.strip() for m in answer.headers.get("Allow", "").split(",")}
            tap.equal(listed, allowed, f"{method} {path}: Allow")


def other_paths(tap, document, daemon):
    for path in ("/", "/v1", "/v1/", "/v2/info", "/v1/info/", "/health/x", "/v1//info",
                 "/%68ealth", "/v1/sandboxes", "/v1/sandbox/a/b", "/HEALTH", "/v1/openapi.jso", "/v1/../health"):
        for method in ("GET", "DELETE"):
            answer = daemon.ask(method, path)
            tap.equal(answer.status, 404, f"{method} {path}")
            check_error(tap, document, answer, "NotFound", f"{method} {path}")


def bad_requests(tap, document, daemon):
    """One request for each error that every route shares."""
    host = b"Host: localhost\r\n"
    cases = [
        (400, "InvalidRequest", b"GET /health HTTP/1.1\r\n" + host + host + b"\r\n"),
        (413, "PayloadTooLarge",
         b"GET /health HTTP/1.1\r\n" + host + b"Content-Length: 5\r\n\r\nhello"),
        (417, "ExpectationFailed", b"GET /health HTTP/1.1\r\n" + host + b"Expect: tea\r\n\r\n"),
        (431, "HeadTooLarge",
         b"GET /health HTTP/1.1\r\n" + host + b"Cookie: " + b"a" * 40000 + b"\r\n\r\n"),
        (431, "HeadTooLarge", b"GET /health HTTP/1.1\r\n" + host + b"A: b\r\n" * 100 + b"\r\n"),
        (501, "Unsupported",
         b"POST /health HTTP/1.1\r\n" + host + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        (505, "HttpVersionNotSupported", b"GET /health HTTP/2.0\r\n" + host + b"\r\n"),
    ]
    for status, name, request in cases:
        where = f"{name} ({request[:60]!r})"
        answer = daemon.ask_raw(request)
        if tap.equal(answer.status, status, where):
            check_error(tap, document, answer, name, where)


def tokens(tap, document, daemon):
    for method, path, operation in document.operations():
        where = f"{method} {path} over TCP"
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "},
                        {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"}):
            answer = daemon.ask(method, fill(path), headers, over_tcp=True)
            if document.is_open(operation):
                tap.equal(answer.status, 200, f"{where} {headers}")
            elif tap.equal(answer.status, 401, f"{where} {headers}"):
                check_error(tap, document, answer, "Unauthorized", where)
        good = {"Authorization": f"Bearer {TOKEN}"}
        # Not of one sandbox or run: that would need a container, and a body.
        if "/v1/sandbox" not in path and "/v1/runs" not in path:
            tap.check(daemon.ask(method, fill(path), good, over_tcp=True).status in OTHERWISE.get(path, (200,)),
                      f"{where}, with token")
    tap.equal(daemon.ask("GET", "/v1/sandbox", good, over_tcp=True).status, 200, "sandboxes, with token")


def etags(tap, document, daemon):
    tags = set()
    for path in ("/v1/openapi.json", "/v1/openapi.html"):
        tag = daemon.ask("GET", path).headers["ETag"]
        tags.add(tag)
        other = '"' + "0" * 32 + '"'
        for value, status in ((tag, 304), (f"W/{tag}", 304), ("*", 304), (f"{other}, {tag}", 304),
                              (other, 200), (tag.strip('"'), 200), ("", 200)):
            answer = daemon.ask("GET", path, {"If-None-Match": value})
            tap.equal(answer.status, status, f"{path} If-None-Match: {value}")
            if answer.status == 304:
                response = document.root["components"]["responses"]["NotModified"]
                check_answer(tap, document, answer, response, f"{path} 304")
    tap.equal(len(tags), 2, "JSON and page have different tags")


def contract_is_served(tap, document, daemon):
    answer = daemon.ask("GET", "/v1/openapi.json")
    tap.check(answer.body == document.bytes, "the served contract is not proto/openapi.json")
    page = daemon.ask("GET", "/v1/openapi.html")
    tap.check(page.body.startswith(b"<!DOCTYPE html>"), f"the page begins {page.body[:40]!r}")
    tap.equal(page.headers["Content-Security-Policy"],
              "default-src 'none'; style-src 'unsafe-inline'", "the page's policy")
    for answer in (answer, page):
        tap.equal(answer.headers["X-Content-Type-Options"], "nosniff", "X-Content-Type-Options")


def info_is_true(tap, document, daemon):
    before = time.time()
    info = daemon.ask("GET", "/v1/info").json()
    again = daemon.ask("GET", "/v1/info").json()
    uname = os.uname()
    expected = {
        "version": document.root["info"]["version"],
        "pid": daemon.process.pid,
        "kernel": uname.release,
        "machine": uname.machine,
        "mode": "root" if os.geteuid() == 0 else "rootless",
        "socket": daemon.socket,
        "state_dir": daemon.path("state"),
        "run_dir": daemon.path("run"),
        "listen": "%s:%d" % daemon.tcp,
        "preview": None,
        "keeper": {"answers": True, "awaited": False},
        "confined": {"landlock": landlock_abi(), "seccomp": True},
    }
    tap.equal({key: info[key] for key in expected}, expected, "info")
    tap.check(info["connections"] >= 1, "its own connection is not counted")
    tap.check(info["memory_bytes"] > 1 << 20 and info["cpus"] >= 1, "memory and processors")
    tap.check(again["uptime_ms"] >= info["uptime_ms"], "uptime goes backwards")
    tap.equal(again["instance"], info["instance"], "instance")
    tap.equal(again["started_at"], info["started_at"], "started_at")
    started = before - info["uptime_ms"] / 1000
    tap.check(abs(started - seconds(info["started_at"])) < 5, f"started_at is {info['started_at']}")


def landlock_abi():
    """landlock_create_ruleset() tells it; the first one is too old to be used."""
    abi = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return abi if abi >= 2 else 0


def seconds(text):
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


def main():
    program, source_root = sys.argv[1:]
    document = Document(os.path.join(source_root, "proto/openapi.json"))
    tap = Tap()
    directory = tempfile.mkdtemp(prefix="berth-contract.")
    try:
        os.chmod(directory, 0o755)  # as root, berthd becomes another user
        daemon = Daemon(program, directory)
        try:
            daemon.await_ready()
            tap.case("every route answers as documented", documented_routes, document, daemon)
            tap.case("settings come back as they were given", settings_come_back, document, daemon)
            tap.case("a sandbox runs, sleeps, wakes and goes", containers_are_real, document, daemon)
            tap.case("HEAD answers as GET, without the body", heads, document, daemon)
            tap.case("other methods get 405 and Allow", other_methods, document, daemon)
            tap.case("other paths get 404", other_paths, document, daemon)
            tap.case("bad requests get the shared errors", bad_requests, document, daemon)
            tap.case("TCP asks for a token", tokens, document, daemon)
            tap.case("If-None-Match saves the body", etags, document, daemon)
            tap.case("the contract is served as it is", contract_is_served, document, daemon)
            tap.case("info tells the truth", info_is_true, document, daemon)
        finally:
            status = daemon.end()
        tap.case("it ends well", lambda t: t.equal(status, 0, daemon.log()))
        tap.case("its keeper ends by itself", await_keeper, directory)
    finally:
        remove_tree(directory)
    tap.done()


main()
