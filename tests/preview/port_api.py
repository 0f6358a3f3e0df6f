"""Servers inside sandboxes, and connections to their ports."""

import hashlib
import os
import random
import select
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import Failed, Reply, check, equal, until  # noqa: E402
from process_api import ended, start, wait  # noqa: E402,F401

WAIT = 120

# Each prints its port when it listens, and takes all who come, each in a thread.
SERVER = """
import hashlib, socket, sys, threading
kind, address, port = sys.argv[1:4]
listener = socket.create_server((address, int(port)), family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                                backlog=500)

def echo(c):
    while data := c.recv(1 << 16):
        c.sendall(data)

def digest(c):
    # Reads to the end, and only then says what it was.
    sha = hashlib.sha256()
    while data := c.recv(1 << 16):
        sha.update(data)
    c.sendall(sha.hexdigest().encode())

def gate(c):
    # Reads nothing until somebody opens the gate.
    import os, time
    while not os.path.exists("/tmp/gate"):
        time.sleep(0.01)
    digest(c)

def source(c):
    # Sends so many bytes as the first line says, and then it ends.
    left = int(c.makefile("rb").readline())
    block = bytes(range(256)) * 256
    while left > 0:
        c.sendall(block[:min(left, len(block))])
        left -= len(block)

def tell(c):
    c.sendall(c.getpeername()[0].encode())

def serve(c):
    with c:
        try:
            globals()[kind](c)
            c.shutdown(socket.SHUT_WR)
        except OSError:
            print("lost", flush=True)
    print("done", flush=True)

print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


def serve(g, name, kind, address="127.0.0.1", port=0, **options):
    """Its port once it listens."""
    process = start(g, name, ["python3", "-c", SERVER, kind, address, str(port)], **options)
    said = wait(g, name, process["id"], "log", pattern="^[0-9]+$")
    return int(said["log"]["match"])


def block(size, seed=1):
    return random.Random(seed).randbytes(size)


def sha(data):
    return hashlib.sha256(data).hexdigest().encode()


class Refused(Failed):
    def __init__(self, reply):
        super().__init__(f"connect answered {reply}")
        self.reply = reply


class Wire:
    """A connection to a port, by the API."""

    def __init__(self, g, name, port, *headers, early=b"", connection=None):
        connection = connection or g.connect()
        connection.connect()
        self.sock = connection.sock
        self.sock.sendall("\r\n".join((
            f"GET /v1/sandbox/{name}/connect/{port} HTTP/1.1", "Host: berth", "Upgrade: tcp", "Connection: Upgrade",
            *headers, "", "")).encode() + early)
        self.raw = b""
        try:
            while b"\r\n\r\n" not in self.raw:
                self.fill()
            head, _, self.raw = self.raw.partition(b"\r\n\r\n")
            line, *rest = head.decode().split("\r\n")
            self.headers = [tuple(row.split(": ", 1)) for row in rest]
            self.status = int(line.split()[1])
            if self.status != 101:
                size = int(dict(self.headers)["Content-Length"])
                while len(self.raw) < size:
                    self.fill()
                raise Refused(Reply(self.status, self.headers, self.raw))
        except BaseException:
            self.sock.close()
            raise

    def fill(self):
        part = self.sock.recv(1 << 20)
        check(part, "the connection ended early, after", self.raw)
        self.raw += part

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def end(self):
        self.sock.shutdown(socket.SHUT_WR)

    def read(self, size):
        while len(self.raw) < size:
            self.fill()
        data, self.raw = self.raw[:size], self.raw[size:]
        return data

    def rest(self):
        """To the end."""
        parts = [self.raw]
        self.raw = b""
        while part := self.sock.recv(1 << 20):
            parts.append(part)
        return b"".join(parts)


def exchange(sock, data, raw=b""):
    """Sends all and its end, and reads to the end at the same time. What came."""
    view, parts = memoryview(data), [raw]
    sock.setblocking(False)
    while True:
        readable, writable, _ = select.select([sock], [sock] if view is not None else [], [], WAIT)
        check(readable or writable, "nothing moves")
        if readable:
            part = sock.recv(1 << 20)
            if not part:
                check(view is None, "it ended before all was sent")
                return b"".join(parts)
            parts.append(part)
        if writable:
            if len(view):
                view = view[sock.send(view[:1 << 18]):]
            else:
                sock.shutdown(socket.SHUT_WR)
                view = None


def refuse(g, name, port, status, code, *headers):
    try:
        Wire(g, name, port, *headers).sock.close()
    except Refused as refused:
        reply = refused.reply
        equal((reply.status, reply.json()["code"]), (status, code), reply)
        return reply.json()["error"]
    raise Failed("it was not refused")


def holds(g, name="a"):
    return [hold["kind"] for hold in g.sandbox(name)["holds"]]


def put(g, name="a", **settings):
    reply = g.request("PUT", f"/v1/sandbox/{name}", settings)
    check(reply.status in (200, 201), reply)
    return reply.json()


def sleep(g, mode, name="a"):
    reply = g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": mode})
    equal(reply.status, 200, reply)


def state(g, name="a"):
    return g.sandbox(name)["state"]


def await_state(g, wanted, name="a"):
    until(lambda: state(g, name) == wanted, f"the sandbox to be {wanted}")
