"""Terminals by the API: a small WebSocket client that types and reads."""

import base64
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "sandbox"))  # which knows where tests/http is, too

# pylint: disable=wrong-import-position,import-error
from ground import Failed, check, equal, until  # noqa: E402
from websocket import BINARY, CLOSE, TEXT, frame  # noqa: E402

WAIT = 120
SHELL = ["bash", "--norc", "--noprofile", "--noediting", "-i"]


def until_in_front(g, name, comm):
    """Until that program sleeps and its terminal is its own: before, keys are the shell's, which prints first."""
    def is_in_front():
        stats = g.out(name, "cat /proc/[0-9]*/stat 2>/dev/null; true").splitlines()
        return any((words := line.rpartition(") ")[2].split())[0] == "S" and words[2] == words[5]
                   for line in stats if f" ({comm}) " in line)
    until(is_in_front, f"{comm} to have the terminal")


def start(g, name, argv=None, **options):
    """Its status once it runs."""
    body = {"argv": argv or SHELL, **options}
    body.setdefault("env", {"PS1": "$ "})
    reply = g.request("POST", f"/v1/sandbox/{name}/terminals", body)
    equal(reply.status, 200, reply)
    return reply.json()


def show(g, name, terminal):
    reply = g.get(f"/v1/sandbox/{name}/terminals/{terminal}")
    equal(reply.status, 200, reply)
    return reply.json()


class View:
    """A viewer; what it was told stands in .ready, .exit and .texts."""

    def __init__(self, g, target, *headers, connection=None):
        self.connection = connection or g.connect()
        self.connection.connect()
        self.sock = self.connection.sock
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall("\r\n".join((
            f"GET {target} HTTP/1.1", "Host: berth", "Upgrade: websocket", "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *headers, "", "")).encode())
        self.raw, self.out, self.exit, self.closed, self.texts, self.received = b"", b"", None, None, [], 0
        while b"\r\n\r\n" not in self.raw:
            self.fill()
        head, _, self.raw = self.raw.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101 "):
            self.close()
            raise Failed(f"{target} answered {head.decode()} {self.raw.decode()}")
        self.ready = self.text()
        equal(self.ready["type"], "ready", self.ready)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()
        self.connection.close()

    def fill(self):
        check(select.select([self.sock], [], [], WAIT)[0], "nothing comes after", self.out[-300:] if hasattr(self, "out") else "")
        part = self.sock.recv(1 << 18)
        if not part:
            raise EOFError(f"the connection ended after {self.raw[:500]!r}")
        self.raw += part

    def exactly(self, size):
        while len(self.raw) < size:
            self.fill()
        part, self.raw = self.raw[:size], self.raw[size:]
        return part

    def message(self):
        first, size = self.exactly(2)
        check(first & 0x80, "a fragment")
        if size == 126:
            size, = struct.unpack("!H", self.exactly(2))
        elif size == 127:
            size, = struct.unpack("!Q", self.exactly(8))
        return first & 15, self.exactly(size)

    def next(self):
        """Takes one message; False after the last."""
        if self.closed is not None:
            return False
        opcode, data = self.message()
        if opcode == BINARY:
            self.out += data
            self.received += len(data)
        elif opcode == TEXT:
            self.texts.append(json.loads(data))
            if self.texts[-1]["type"] == "exit":
                self.exit = self.texts[-1]
        elif opcode == CLOSE:
            self.closed = struct.unpack("!H", data[:2])[0], data[2:].decode()
        return self.closed is None

    def text(self):
        while not self.texts:
            check(self.next(), "closed", self.closed)
        return self.texts.pop(0)

    def until(self, text):
        text = text.encode() if isinstance(text, str) else text
        while text not in self.out:
            check(self.next(), f"it ended before {text!r}:", self.out[-300:], self.closed)
        before, _, self.out = self.out.partition(text)
        return before + text

    def rest(self):
        """What comes until it is closed."""
        while self.next():
            pass
        return self.out

    def type(self, text):
        self.sock.sendall(frame(BINARY, text.encode() if isinstance(text, str) else text))

    def resize(self, cols, rows):
        self.sock.sendall(frame(TEXT, json.dumps({"type": "resize", "cols": cols, "rows": rows}).encode()))

    def ask(self, command):
        """What a command of the shell prints; the marker is not what its echo shows."""
        self.type(f"{command}; echo 'E'ND$?\n")
        text = self.until("END")
        self.until("$ ")
        return text.decode().partition("\r\n")[2].removesuffix("END").removesuffix("\r\n")

    @property
    def cursor(self):
        return int(self.ready["cursor"]) + self.received


def view(g, name, terminal, query=""):
    return View(g, f"/v1/sandbox/{name}/terminals/{terminal}/connect{query}")


class Tty:
    """A program on a terminal of its own; what it prints is read here."""

    def __init__(self, argv, env=None, cols=80, rows=24):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave, self.out = slave, b""
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, **(env or {})},
                                        start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def read(self):
        check(select.select([self.master], [], [], WAIT)[0], "nothing comes after", self.out[-300:])
        part = os.read(self.master, 1 << 16)
        self.out += part
        return part

    def until(self, text):
        while text.encode() not in self.out:
            self.read()
        self.out = self.out.partition(text.encode())[2]

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        """Its code; what it prints meanwhile stands in .out."""
        while self.process.poll() is None:
            if select.select([self.master], [], [], 0.05)[0]:
                self.out += os.read(self.master, 1 << 16)
        while select.select([self.master], [], [], 0)[0]:
            self.out += os.read(self.master, 1 << 16)
        return self.process.returncode

    def check_given_back(self):
        equal(termios.tcgetattr(self.slave), self.before, "the terminal's settings")
