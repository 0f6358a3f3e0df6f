"""A server that runs inside a sandbox and says exactly what it is asked to: inside.py PORT [ADDRESS]

    /hello              a body with a length
    /seen               what it was sent, head and body, as JSON
    /echo               the body as it comes, chunk by chunk
    /bytes/N            N bytes of a pattern that can be checked
    /close/N            the same until the end of the connection
    /sse                events: the lines of /workspace/events, also those that are added
    /early              an answer before the body is read, and the end
    /trailers           a chunked body with trailers
    /count              how many requests came over this connection
    /raw/HEX[/more]     these bytes, then the end; with "more" the connection is kept
    /upgrade            another protocol: every byte comes back in upper case
    /hold/S             an answer after S seconds
    /say[/more][/drip]  the body, as it is and nothing around it; "drip": byte by byte
    /late/S/HEX/HEX     these bytes, and those S seconds later
    /behind/HEX/HEX     these bytes, and those when the next request comes over the connection; no answer to it
    /stall/S            another protocol, of which nothing is read for S seconds; then how much it was
    /tally              how often each path was asked for
"""

import json
import select
import socket
import sys
import threading
import time

PATTERN = bytes(range(256)) * 256
TALLY = {}


class Gone(Exception):
    pass


class Client:
    def __init__(self, sock):
        self.sock, self.kept, self.count = sock, b"", 0

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise Gone
        return data

    def line(self):
        while b"\n" not in self.kept:
            self.kept += self.more()
        line, self.kept = self.kept.split(b"\n", 1)
        return line.rstrip(b"\r").decode("latin-1")

    def exactly(self, size):
        while size:
            if not self.kept:
                self.kept = self.more()
            part, self.kept = self.kept[:size], self.kept[size:]
            size -= len(part)
            yield part

    def body(self, headers):
        names = {name.lower(): value for name, value in headers}
        if "transfer-encoding" in names:
            while size := int(self.line().split(";")[0], 16):
                yield from self.exactly(size)
                self.line()
            while self.line():
                pass
        else:
            yield from self.exactly(int(names.get("content-length", 0)))

    def send(self, *parts):
        self.sock.sendall(b"".join(p if isinstance(p, bytes) else p.encode("latin-1") for p in parts))

    def answer(self, body, *headers, status="200 OK"):
        body = body if isinstance(body, bytes) else body.encode()
        self.send(f"HTTP/1.1 {status}\r\n", *(h + "\r\n" for h in headers), f"Content-Length: {len(body)}\r\n\r\n", body)

    def chunk(self, data):
        self.send(f"{len(data):x}\r\n", data, "\r\n")


def pour(client, size):
    while size:
        part = PATTERN[:min(size, len(PATTERN))]
        client.sock.sendall(part)
        size -= len(part)


def sse(client):
    """Until its client is gone, which is told by a file."""
    client.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    told = 0
    while not select.select([client.sock], [], [], 0.02)[0]:
        try:
            with open("/workspace/events", encoding="utf-8") as file:
                lines = file.readlines()
        except OSError:
            continue
        for line in lines[told:]:
            client.chunk(f"data: {line}\n".encode())
        told = len(lines)
    with open("/workspace/left", "w", encoding="utf-8") as file:
        file.write("left\n")
    raise Gone


def upgrade(client):
    client.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: upper\r\nX-Own: yes\r\n\r\n")
    client.send(client.kept.upper())
    while data := client.sock.recv(65536):
        client.sock.sendall(data.upper())
    raise Gone


def stall(client, seconds):
    client.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: upper\r\n\r\n")
    time.sleep(seconds)
    size = len(client.kept)
    while data := client.sock.recv(65536):
        size += len(data)
    client.send(str(size))
    raise Gone


def say(client, data, words):
    for part in ([data[i:i + 1] for i in range(len(data))] if "drip" in words else [data]):
        client.send(part)
    if "more" not in words:
        raise Gone


def serve(client, method, path, headers):
    words = path.split("?")[0].split("/")[1:]
    TALLY[path] = TALLY.get(path, 0) + 1
    if words[0] == "echo":
        client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in client.body(headers):
            client.chunk(part)
        client.send("0\r\n\r\n")
        return
    if words[0] == "early":
        client.answer("no more", "Connection: close", status="413 Content Too Large")
        raise Gone
    if words[0] == "upgrade":
        upgrade(client)
    if words[0] == "stall":
        stall(client, float(words[1]))
    if words[0] == "say":
        say(client, b"".join(client.body(headers)), words[1:])
        return
    size, digest = 0, 0
    for part in client.body(headers):
        size += len(part)
        digest = (digest * 31 + sum(part)) % (1 << 61)
    if words[0] == "hello":
        client.answer("" if method == "HEAD" else "hello\n", "Content-Type: text/plain")
    elif words[0] == "seen":
        client.answer(json.dumps({"method": method, "path": path, "headers": headers, "size": size, "digest": digest}))
    elif words[0] == "bytes":
        client.send(f"HTTP/1.1 200 OK\r\nContent-Length: {words[1]}\r\n\r\n")
        pour(client, int(words[1]))
    elif words[0] == "close":
        client.send("HTTP/1.1 200 OK\r\n\r\n")
        pour(client, int(words[1]))
        raise Gone
    elif words[0] == "sse":
        sse(client)
    elif words[0] == "trailers":
        client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
        client.chunk(b"body")
        client.send("0\r\nX-Sum: 42\r\nContent-Length: 7\r\n\r\n")
    elif words[0] == "count":
        client.answer(str(client.count))
    elif words[0] == "hold":
        time.sleep(float(words[1]))
        client.answer("held")
    elif words[0] == "tally":
        client.answer(json.dumps(TALLY))
    elif words[0] == "late":
        client.send(bytes.fromhex(words[2]))
        time.sleep(float(words[1]))
        client.send(bytes.fromhex(words[3]))
    elif words[0] == "behind":
        client.send(bytes.fromhex(words[1]))
        client.line()
        client.send(bytes.fromhex(words[2]))
        TALLY["spoilt"] = TALLY.get("spoilt", 0) + 1
        client.sock.recv(65536)
        raise Gone
    elif words[0] == "raw":
        client.send(bytes.fromhex(words[1]))
        if words[2:] != ["more"]:
            raise Gone
    else:
        client.answer("no such path", status="404 Not Found")


def talk(sock):
    client = Client(sock)
    try:
        while True:
            method, path, _ = client.line().split(" ")
            headers = []
            while line := client.line():
                name, value = line.split(":", 1)
                headers.append((name, value.strip()))
            client.count += 1
            serve(client, method, path, headers)
    except (Gone, OSError):
        pass
    finally:
        sock.close()


def main(port, address="127.0.0.1"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, int(port)))
    listener.listen(4096)
    print("listens", flush=True)
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=talk, args=(sock,), daemon=True).start()


main(*sys.argv[1:])
