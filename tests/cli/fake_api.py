"""A daemon's sandbox routes, as far as the tests of `berth` need them, and as faulty as they like."""

import base64
import json
import socket
import threading
from urllib.parse import parse_qsl, unquote, urlsplit

FILE_ROUTES = ("file", "dir", "stat", "persist", "hydrate")


class Request:
    def __init__(self, method, target, headers, reader):
        parts = urlsplit(target)
        self.method, self.path, self.query = method, parts.path, parse_qsl(parts.query)
        self.headers, self.reader = headers, reader

    def body(self):
        if self.headers.get("transfer-encoding") == "chunked":
            return b"".join(self.chunks())
        return self.reader.read(int(self.headers.get("content-length", 0)))

    def chunks(self):
        while True:
            size = int(self.reader.readline(), 16)
            data = self.reader.read(size)
            self.reader.readline()
            if not size:
                return
            yield data

    def json(self):
        return json.loads(self.body() or b"{}")


class Client:
    """What a handler answers with. Writing to one who left is an OSError."""

    def __init__(self, sock):
        self.sock = sock

    def answer(self, status, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        self.sock.sendall(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: "
                          f"{len(body)}\r\nConnection: close\r\n\r\n".encode() + body)

    def content(self, data, length=None, kind="application/octet-stream"):
        """Bytes; with a length that is more than they are, the answer is broken off."""
        self.sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: "
                          f"{len(data) if length is None else length}\r\nConnection: close\r\n\r\n".encode() + data)

    def stream(self):
        self.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                          b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")

    def raw(self, data):
        self.sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, name, data):
        if isinstance(data, bytes):
            data = base64.b64encode(data).decode()
        elif not isinstance(data, str):
            data = json.dumps(data)
        self.raw(f"event: {name}\ndata: {data}\n\n".encode())

    def exit(self, code, reason="exited", **more):
        self.event("exit", {"exit_code": code, "reason": reason, "duration_ms": 1, "cpu_ms": 1,
                            "max_rss_bytes": 4096, **more})
        self.sock.sendall(b"0\r\n\r\n")

    def is_gone(self):
        """Waits until the other side has closed, and says whether it did."""
        self.sock.settimeout(20)
        try:
            while self.sock.recv(4096):
                pass
            return True
        except ConnectionError:
            return True
        except TimeoutError:
            return False


class Api:
    """Handles each connection in a thread. `exec` is the handler of commands: (client, request)."""

    patience = 30  # seconds for a request to come

    def __init__(self, listener, exec_handler=None):
        self.listener, self.exec, self.requests, self.sandboxes = listener, exec_handler, [], {}
        self.targets = []  # of the requests, as they came
        self.page, self.threads, self.failures = 2, [], []
        self.is_old = False  # it knows only how to stop
        self.processes = None  # the handler of processes, sessions and alarms: (client, request)
        self.files = None  # the handler of file routes: (client, request, kind, path)
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.serve, args=(sock,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def serve(self, sock):
        with sock, sock.makefile("rb") as reader:
            sock.settimeout(self.patience)
            line = reader.readline().decode().split()
            if not line:
                return
            headers = {}
            while (header := reader.readline().decode().strip()):
                name, value = header.split(":", 1)
                headers[name.lower()] = value.strip()
            request = Request(line[0], line[1], headers, reader)
            self.requests.append((request.method, request.path))
            self.targets.append(line[1])
            try:
                self.route(Client(sock), request)
            except OSError:
                pass
            except Exception as error:  # pylint: disable=broad-except
                self.failures.append(repr(error))

    def route(self, client, request):
        parts = request.path.strip("/").split("/")
        if parts[:2] != ["v1", "sandbox"]:
            return client.answer(404, {"error": "nothing here", "code": "not_found"})
        if len(parts) == 2:
            return self.create(client, request) if request.method == "POST" else \
                self.list(client, request)
        if len(parts) == 4 and parts[3] == "exec":
            return self.exec(client, request)
        if self.processes and parts[3:4] and parts[3] in ("processes", "session", "alarm", "alarms"):
            return self.processes(client, request)
        if self.files and parts[3:4] and parts[3] in FILE_ROUTES:
            return self.files(client, request, parts[3], unquote("/" + "/".join(parts[4:])))
        return self.one(client, request, parts[2], parts[3:])

    def put(self, name, settings):
        old = self.sandboxes.get(name, {})
        self.sandboxes[name] = {
            "id": name, "state": "cold", "generation": 0, "image": "host",
            "created_at": "2026-01-02T03:04:05.678Z", "started_at": None, "last_active_at": None,
            "limits": {}, "network": {"mode": "none"}, "labels": {}, "last_failure": None,
            **old, **settings}
        return self.sandboxes[name]

    def create(self, client, request):
        settings = request.json()
        name = settings.pop("id", f"new-{len(self.sandboxes)}")
        if name in self.sandboxes:
            return client.answer(409, {"error": f"{name} is there already", "code": "conflict"})
        self.put(name, settings)
        return client.answer(201, {"id": name})

    def list(self, client, request):
        names = sorted(self.sandboxes)
        start = int(dict(request.query).get("cursor", 0))
        answer = {"sandboxes": [self.sandboxes[n] for n in names[start:start + self.page]]}
        if start + self.page < len(names):
            answer["cursor"] = str(start + self.page)
        return client.answer(200, answer)

    def one(self, client, request, name, rest):
        if request.method == "PUT":
            return client.answer(200, self.put(name, request.json()))
        if request.method == "DELETE":
            self.sandboxes.pop(name, None)
            return client.answer(204)
        if name not in self.sandboxes:
            return client.answer(404, {"error": f"there is no sandbox {name}", "code": "not_found"})
        if rest == ["sleep"]:
            return self.sleep(client, request, name)
        if rest:
            self.put(name, {"state": {"start": "running", "wake": "running"}[rest[0]]})
        return client.answer(200, self.sandboxes[name])

    def sleep(self, client, request, name):
        body = request.json()
        mode = body.pop("mode", "stop" if self.is_old else "freeze")
        if body or mode not in ("freeze", "stop"):
            return client.answer(400, {"error": "mode?", "code": "invalid_request"})
        if self.is_old and mode == "freeze":
            return client.answer(501, {"error": "only \"stop\" is there yet", "code": "unsupported"})
        self.put(name, {"state": "frozen" if mode == "freeze" else "cold"})
        receipt = {"mode": mode, "generation": 0, "kept": ["disk"]}
        if not self.is_old:
            receipt |= {"reason": "asked", "at": "2026-01-02T03:04:05.678Z"}
        if mode == "freeze":
            receipt["kept"] += ["memory", "processes"]
        return client.answer(200, receipt)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        for thread in self.threads:
            thread.join(30)
