"""`berth debug` as it runs, and a debugger: a client of the protocol that node's inspector and Chromium speak."""

import base64
import json
import os
import re
import socket
import struct
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from preview_api import HERE  # noqa: E402
sys.path.append(os.path.join(HERE, "..", "http"))
from ground import TIMEOUT, check, equal  # noqa: E402
from websocket import CLOSE, PING, PONG, TEXT, frame  # noqa: E402

# Its first line is 1, as a debugger counts them.
SCRIPT = """
const secret = 6 * 7;
console.log("begin", ...process.argv.slice(2));
console.error("bytes \\x1b and more");
setTimeout(() => process.exit(secret - 39), 1);
"""
HELLO = "It waits for a debugger. In Chrome or Chromium, open\n"


def put(g, name, path, text):
    reply = g.request("PUT", f"/v1/sandbox/{name}/file{path}", text.encode())
    check(reply.status in (200, 201, 204), reply)


class Debug:
    """A `berth debug` that runs, and what it said of itself."""

    def __init__(self, g, *args, **env):
        self.process = subprocess.Popen([os.path.abspath(os.path.join(g.build, "berth")), "debug", *args],
                                        env={**os.environ, **(env or {"BERTH_SOCKET": g.socket})}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def told(self):
        """The two URLs on stderr."""
        lines = [self.process.stderr.readline().decode() for _ in range(4)]
        equal(lines[0], HELLO, lines)
        return lines[1].strip(), lines[3].strip()

    def end(self):
        out, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out.decode(), err.decode()


class Debugger:
    """On a WebSocket."""

    def __init__(self, url, host=None):
        address, port, path = re.fullmatch(r"ws://(127\.0\.0\.1):(\d+)(/.+)", url).groups()
        self.sock, self.last, self.seen = socket.create_connection((address, int(port)), TIMEOUT), 0, []
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host or address}:{port}\r\nUpgrade: websocket\r\n"
                          "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                          f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode())
        self.file = self.sock.makefile("rb")
        self.answer = self.file.readline().strip()
        while self.file.readline().strip():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()

    def message(self):
        while True:
            first, size = self.file.read(2)
            if size == 126:
                size, = struct.unpack("!H", self.file.read(2))
            elif size == 127:
                size, = struct.unpack("!Q", self.file.read(8))
            data = self.file.read(size)
            equal(first & 0x80, 0x80, "whole messages")
            if first & 15 == PING:
                self.sock.sendall(frame(PONG, data))
            elif first & 15 == TEXT:
                return json.loads(data)
            check(first & 15 != CLOSE, "closed:", data)

    def ask(self, method, **params):
        check(self.answer.split()[1] == b"101", self.answer)
        self.last += 1
        self.sock.sendall(frame(TEXT, json.dumps({"id": self.last, "method": method, "params": params}).encode()))
        while True:
            message = self.message()
            if message.get("id") == self.last:
                check("error" not in message, message)
                return message["result"]
            self.seen.append(message)

    def await_event(self, method):
        found = next((m for m in self.seen if m.get("method") == method), None)
        while not found:
            message = self.message()
            found = message if message.get("method") == method else None
        self.seen.clear()
        return found["params"]
