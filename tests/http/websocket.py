#!/usr/bin/env python3
"""WebSockets: frames as the RFC has them, and frames as it forbids them.

    websocket.py TESTD
"""

import base64
import hashlib
import os
import select
import struct
import sys
import time

from tap import IS_SANITIZED, Suite, Testd, expect, head, note, require, until

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MB = 1024 * 1024


def mask(data, key):
    if not any(key):
        return data
    whole = (key * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(data), "big")


def frame(opcode, data=b"", fin=True, rsv=0, masked=True, length=None):
    """One client frame; `length` lies about it."""
    size = len(data) if length is None else length
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    bit = 0x80 if masked else 0
    if size < 126:
        header = struct.pack("!BB", first, bit | size)
    elif size < 65536:
        header = struct.pack("!BBH", first, bit | 126, size)
    else:
        header = struct.pack("!BBQ", first, bit | 127, size)
    if not masked:
        return header + data
    key = os.urandom(4)
    return header + key + mask(data, key)


class Socket:
    def __init__(self, client, query=""):
        self.client = client
        key = base64.b64encode(os.urandom(16))
        client.send(head(
            f"GET /ws{query} HTTP/1.1", "Upgrade: WebSocket", "Connection: keep-alive, Upgrade",
            b"Sec-WebSocket-Key: " + key, "Sec-WebSocket-Version: 13"))
        answer = client.read()
        expect(answer.status, 101)
        expect(answer.header("Upgrade").lower(), "websocket")
        expect(answer.header("Connection").lower(), "upgrade")
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        expect(answer.header("Sec-WebSocket-Accept"), accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def send(self, *args, **options):
        self.client.send(frame(*args, **options))

    def read_frame(self):
        first, second = self.client.read_exactly(2)
        require(not first & 0x70, "a reserved bit is set")
        require(not second & 0x80, "the server masks")
        size = second & 0x7F
        if size == 126:
            size = struct.unpack("!H", self.client.read_exactly(2))[0]
            require(size > 125, "length not in its shortest form")
        elif size == 127:
            size = struct.unpack("!Q", self.client.read_exactly(8))[0]
            require(size > 65535, "length not in its shortest form")
        opcode = first & 0xF
        require(opcode < 8 or (first & 0x80 and size < 126), "a bad control frame")
        return opcode, bool(first & 0x80), self.client.read_exactly(size)

    def read(self):
        """A whole message, or a control frame."""
        opcode, fin, data = self.read_frame()
        while not fin:
            more, fin, rest = self.read_frame()
            expect(more, 0, "opcode of a continuation")
            data += rest
        return opcode, data

    def expect_close(self, code):
        while True:
            opcode, data = self.read()
            if opcode == CLOSE:
                break
        expect(struct.unpack("!H", data[:2])[0] if data else None, code, "close code")
        self.client.send_if_taken(frame(CLOSE, data[:2]))
        self.client.expect_end(is_reset_fine=True)


def echoes(s):
    with Socket(s.connect()) as ws:
        for size in (0, 1, 125, 126, 127, 65535, 65536, 200000):
            data = os.urandom(size)
            ws.send(BINARY, data)
            require(ws.read() == (BINARY, data), f"{size} bytes differ")
        for text in ("", "hello", "grüße 🌍", "\0", "x" * 65536):
            ws.send(TEXT, text.encode())
            expect(ws.read(), (TEXT, text.encode()))


def one_megabyte(s):
    with Socket(s.connect(), "?length=1") as ws:
        ws.send(BINARY, os.urandom(MB))
        expect(ws.read(), (TEXT, str(MB).encode()))
        ws.send(TEXT, "ä".encode() * (MB // 2))
        expect(ws.read(), (TEXT, str(MB).encode()))


def fragments(s):
    with Socket(s.connect()) as ws:
        ws.send(TEXT, b"he", fin=False)
        ws.send(0, b"", fin=False)
        ws.send(PING, b"between")
        ws.send(0, b"llo")
        expect(ws.read(), (PONG, b"between"))
        expect(ws.read(), (TEXT, b"hello"))
        text = "🌍".encode()  # a character may be cut anywhere
        for cut in (1, 2, 3):
            ws.send(TEXT, text[:cut], fin=False)
            ws.send(0, text[cut:])
            expect(ws.read(), (TEXT, text))
        for i in range(1000):
            ws.send(0 if i else BINARY, b"x", fin=False)
        ws.send(0)
        expect(ws.read(), (BINARY, b"x" * 1000))


def byte_by_byte(s):
    with Socket(s.connect()) as ws:
        ws.client.send_slowly(frame(TEXT, b"slow") + frame(PING, b"p") + frame(BINARY, b"b" * 200))
        expect(ws.read(), (TEXT, b"slow"))
        expect(ws.read(), (PONG, b"p"))
        expect(ws.read(), (BINARY, b"b" * 200))


def pings(s):
    with Socket(s.connect()) as ws:
        for data in (b"", b"x" * 125):
            ws.send(PING, data)
            expect(ws.read(), (PONG, data))
        ws.send(PONG, b"unasked")
        ws.send(TEXT, b"on")
        expect(ws.read(), (TEXT, b"on"))


def behind_the_head(s):
    """Frames that come in one piece with the handshake are not lost."""
    with s.connect() as c:
        c.send(head("GET /ws HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade",
                    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13")
               + frame(TEXT, b"early"))
        expect(c.read().status, 101)
        expect(c.read_exactly(7), b"\x81\x05early")


def closes(s):
    for payload, code in ((struct.pack("!H", 1000) + b"bye", 1000), (struct.pack("!H", 4000), 4000)):
        with Socket(s.connect()) as ws:
            ws.send(CLOSE, payload)
            opcode, data = ws.read()
            expect((opcode, data[:2]), (CLOSE, struct.pack("!H", code)))
            ws.client.expect_end()
        until(lambda: s.stats()["websockets"] == 0, "the socket to be closed")
        expect(s.stats()["close_code"], code)
    with Socket(s.connect()) as ws:
        ws.send(CLOSE)
        opcode, _ = ws.read()
        expect(opcode, CLOSE)
        ws.client.expect_end()


def closed_by_server(s):
    with Socket(s.connect()) as ws:
        ws.send(TEXT, b"close 4001")
        opcode, data = ws.read()
        expect((opcode, data), (CLOSE, struct.pack("!H", 4001) + b"as asked"))
        ws.send(CLOSE, data[:2])
        ws.client.expect_end()
    with Socket(s.connect()) as ws:  # whoever never answers the close is cut
        ws.send(TEXT, b"close 4001")
        ws.read()
        ws.client.expect_end(is_reset_fine=True)


def vanishes(s):
    ws = Socket(s.connect())
    until(lambda: s.stats()["websockets"] == 1, "the socket to be open")
    ws.client.close()
    until(lambda: s.stats()["websockets"] == 0, "the socket to be closed", 5)
    expect(s.stats()["close_code"], 1006)
    ws = Socket(s.connect())
    ws.client.send(frame(BINARY, b"x" * 1000)[:500])
    ws.client.close()
    until(lambda: s.stats()["websockets"] == 0, "the socket to be closed", 5)


BAD = [
    ("unmasked", frame(TEXT, b"x", masked=False), 1002),
    ("reserved bit 1", frame(TEXT, b"x", rsv=4), 1002),
    ("reserved bit 2", frame(TEXT, b"x", rsv=2), 1002),
    ("reserved bit 3", frame(TEXT, b"x", rsv=1), 1002),
    ("opcode 3", frame(3, b"x"), 1002),
    ("opcode 11", frame(11, b"x"), 1002),
    ("a ping of 126 bytes", frame(PING, b"x" * 126), 1002),
    ("a fragmented ping", frame(PING, b"x", fin=False), 1002),
    ("a continuation of nothing", frame(0, b"x"), 1002),
    ("a message within a message", frame(TEXT, b"x", fin=False) + frame(TEXT, b"y"), 1002),
    ("a length that could be shorter", b"\x81\xfe\x00\x05\0\0\0\0hello", 1002),
    ("a length of 64 bits that could be shorter", b"\x82\xff" + bytes(7) + b"\x05\0\0\0\0hello", 1002),
    ("a length with its highest bit", b"\x82\xff\xff" + bytes(7) + b"\0\0\0\0", 1002),
    ("a close of one byte", frame(CLOSE, b"\x03"), None),
    ("a close with a reserved code", frame(CLOSE, struct.pack("!H", 1005)), 1002),
    ("a close with code 999", frame(CLOSE, struct.pack("!H", 999)), 1002),
    ("text that is no UTF-8", frame(TEXT, b"a\xff"), 1007),
    ("text with a surrogate", frame(TEXT, b"\xed\xa0\x80"), 1007),
    ("text with an overlong form", frame(TEXT, b"\xc0\xaf"), 1007),
    ("text that ends within a character", frame(TEXT, b"\xe2\x82"), 1007),
    ("bad text in fragments", frame(TEXT, b"a", fin=False) + frame(0, b"\xff"), 1007),
    ("too large by its length", frame(BINARY, b"x", length=MB + 1), 1009),
    ("huge by its length", frame(BINARY, b"x", length=1 << 62), 1009),
    ("too large in fragments", frame(BINARY, bytes(MB), fin=False) + frame(0, b"x"), 1009),
]


def refuses(s, data, code, is_whole):
    with Socket(s.connect()) as ws:
        if is_whole:
            ws.client.send_if_taken(data)
        else:
            ws.client.send_slowly(data[:200])
            ws.client.send_slowly(data[200:], 49999)
        ws.expect_close(code)
    until(lambda: s.stats()["websockets"] == 0, "the socket to be closed")


def never_reads(s):
    """The echo waits for its reader; the reader's bytes wait in the kernel."""
    before, sent = s.program.rss(), 0
    with Socket(s.connect()) as ws:
        data = frame(BINARY, bytes(60000))
        ws.client.sock.setblocking(False)
        last = time.monotonic()
        while time.monotonic() - last < 0.5:
            if select.select([], [ws.client.sock], [], 0.1)[1]:
                try:
                    sent += ws.client.sock.send(data[sent % len(data):])
                    last = time.monotonic()
                except BlockingIOError:
                    pass
            require(sent < 64 * MB, "the server takes whatever it is given")
        growth = s.program.rss() - before
        note(f"{sent} bytes were taken, memory grew by {growth}")
        require(sent < 3 * MB, f"{sent} bytes were taken")
        require(growth < 2 * MB or IS_SANITIZED, f"memory grew by {growth}")
        ws.client.sock.setblocking(True)
        ws.client.sock.settimeout(30)
        for _ in range(sent // len(data)):
            require(ws.read() == (BINARY, bytes(60000)), "the bytes differ")


def floods_pings(s):
    """Pongs that nobody reads do not pile up."""
    before, sent = s.program.rss(), 0
    with Socket(s.connect()) as ws:
        data = frame(PING, bytes(125)) * 500
        ws.client.sock.setblocking(False)
        last = time.monotonic()
        while time.monotonic() - last < 0.5 and sent < 32 * MB:
            if select.select([], [ws.client.sock], [], 0.1)[1]:
                try:
                    sent += ws.client.sock.send(data[sent % len(data):])
                    last = time.monotonic()
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError):
                    break
        growth = s.program.rss() - before
        note(f"{sent} bytes of pings were taken, memory grew by {growth}")
        require(growth < 2 * MB or IS_SANITIZED, f"memory grew by {growth}")


CASES = [
    ("echo of text and binary", echoes),
    ("messages of 1 MB", one_megabyte),
    ("fragments, with a ping between", fragments),
    ("byte by byte", byte_by_byte),
    ("pings and pongs", pings),
    ("a frame behind the handshake", behind_the_head),
    ("the client closes", closes),
    ("the server closes", closed_by_server),
    ("the client vanishes", vanishes),
    ("a client that never reads", never_reads),
    ("a flood of pings", floods_pings),
]


def main():
    t = Suite()
    with Testd(sys.argv[1]) as s:
        for name, function in CASES:
            t.run(name, function, s)
        for name, data, code in BAD:
            t.run(f"{name}: {code}", refuses, s, data, code, True)
            t.run(f"{name}: {code}, byte by byte", refuses, s, data, code, False)
    t.done()


if __name__ == "__main__":
    main()
