"""Previews of servers as people run them: Python's, Node's; what is counted of them, and what is logged."""

import base64
import hashlib
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import check, equal, main, until  # noqa: E402
from preview_api import Visitor, connect, expose, serve, start_preview, visit  # noqa: E402
from process_api import start, wait  # noqa: E402
from tap import Client, head  # noqa: E402
from test_lifetimes import figures  # noqa: E402

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def test_python(g):
    """python3 -m http.server: a listing, files, what was not modified, what is not there, a redirect."""
    start_preview(g)
    data = bytes(range(256)) * 4096
    g.put_file("a", "/workspace/data.bin", data, "644")
    g.out("a", "mkdir -p site/sub && echo '<h1>hi</h1>' >site/index.html && mv data.bin site/ && cp site/data.bin site/sub/")
    start(g, "a", ["python3", "-m", "http.server", "-d", "/workspace/site", "8000"], id="python")
    wait(g, "a", "python", "port", port=8000)
    exposed = expose(g, "a", 8000)
    visitor = Visitor(g, exposed)
    reply = visitor.fetch("GET", "/")
    equal((reply.status, reply.body, reply.headers["content-type"]), (200, b"<h1>hi</h1>\n", "text/html"), reply)
    again = visitor.fetch("GET", "/", If_Modified_Since=reply.headers["last-modified"])
    equal((again.status, again.body), (304, b""), again)
    listing = visitor.fetch("GET", "/sub/")
    check(listing.status == 200 and b"data.bin" in listing.body, listing)
    equal(visitor.fetch("GET", "/data.bin").body == data, True, "a file")
    reply = visitor.fetch("HEAD", "/data.bin")
    equal((reply.status, reply.headers["content-length"], reply.body), (200, str(len(data)), b""), "HEAD")
    reply = visitor.fetch("GET", "/data.bin", Range="bytes=10-19")  # it knows of no ranges
    equal((reply.status, reply.body == data), (200, True), "a range")
    reply = visitor.fetch("GET", "/sub")
    equal((reply.status, reply.headers["location"]), (301, "/sub/"), reply)
    equal(visitor.fetch("GET", "/none").status, 404, "nothing there")
    equal(visitor.fetch("POST", "/", b"x").status, 501, "not spoken")
    visitor.close()


def start_node(g):
    with open(os.path.join(HERE, "server.mjs"), "rb") as file:
        g.put_file("a", "/workspace/server.mjs", file.read())
    start(g, "a", ["node", "/workspace/server.mjs", "3000"], id="node")
    wait(g, "a", "node", "port", port=3000)
    return expose(g, "a", 3000)


class WebSocket:
    """The few lines of a client: text and binary messages of less than 64 kB."""

    def __init__(self, g, exposed):
        key = base64.b64encode(os.urandom(16)).decode()
        self.client = Client.tcp(g.preview)
        self.client.send(head("GET /socket HTTP/1.1", "Connection: keep-alive, Upgrade", "Upgrade: websocket",
                              f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
                              host=f"Host: {exposed['hostname']}"))
        answer = self.client.read_head()
        equal(answer.status, 101, answer)
        equal(answer.header("Sec-WebSocket-Accept"), base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode(), "key")
        equal((answer.header("Upgrade"), answer.header("Connection").lower()), ("websocket", "upgrade"), answer)

    def send(self, payload, code=2):
        mask = os.urandom(4)
        size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
        self.client.send(bytes([0x80 | code]) + size + mask + masked)

    def receive(self):
        first, size = self.client.read_exactly(2)
        if size == 126:
            size = int.from_bytes(self.client.read_exactly(2), "big")
        return first & 15, self.client.read_exactly(size)


def test_node(g):
    """Node: events as they come, chunks both ways, WebSockets."""
    start_preview(g)
    exposed = start_node(g)
    visitor = Visitor(g, exposed)
    equal(visitor.fetch("GET", "/").body, b"node\n", "plain")
    response = visitor.ask("GET", "/events", Accept="text/event-stream")
    equal(response.getheader("content-type"), "text/event-stream", "type")
    late = []
    while line := response.readline():
        if line.startswith(b"data: "):
            late.append(time.time() * 1000 - int(line[6:]))
    equal(len(late), 5, "events")
    check(max(late) < 2000, "held back", late)

    def parts():
        for i in range(200):
            yield bytes([i]) * (i * 37 + 1)
    reply = visitor.fetch("POST", "/upload", parts(), chunked=True, Transfer_Encoding="chunked")
    equal((reply.headers["x-coding"], reply.body == b"".join(parts())), ("chunked", True), "chunks")
    equal(visitor.fetch("PUT", "/upload", b"x" * 3000000).body == b"x" * 3000000, True, "a length")
    visitor.close()
    socks = [WebSocket(g, exposed) for _ in range(20)]
    for size in (0, 1, 125, 126, 5000, 65535):
        for s in socks:
            s.send(os.urandom(4) + bytes(size)[4:] if size > 4 else bytes(size))
        for s in socks:
            code, payload = s.receive()
            equal((code, len(payload)), (2, size), "echo")
    for s in socks:
        s.send(b"\x03\xe8", 8)
        equal(s.receive(), (8, b"\x03\xe8"), "close")
        s.client.expect_end(is_reset_fine=True)
        s.client.close()
    equal(visit(g, exposed).body, b"node\n", "after them")


def lines_of(path, count):
    def read():
        with open(path, encoding="utf-8") as file:
            found = file.read().splitlines()
        return found if len(found) >= count else None
    return until(read, f"{count} lines of the access log")


def test_counted(g):
    """Each request is counted and has a line in the access log; neither holds the token, a query or a secret."""
    folder = g.path("home")
    log = os.path.join(folder, "access.log")
    with open(log, "w", encoding="utf-8"):
        pass
    os.chmod(log, 0o666)
    start_preview(g, "--access-log", log)
    exposed = serve(g)
    token = exposed["token"]
    before = figures(g)
    equal(before["requests_total"], 0, before)
    equal(visit(g, exposed, f"/hello?token={token}", Authorization=f"Bearer {token}", Referer=token).status, 200, "GET")
    equal(visit(g, exposed, "/seen", "POST", b"x" * 1000).status, 200, "POST")
    equal(visit(g, exposed, "/none\x7f".replace("\x7f", "%7f%0aforged")).status, 404, "none")
    equal(visit(g, exposed, f"/raw/{b'nonsense'.hex()}").status, 502, "nonsense")
    equal(visit(g, exposed, f"http://{exposed['hostname']}/hello").status, 200, "a URL as target")
    sock = connect(g)
    sock.sendall(head("GET /upgrade HTTP/1.1", "Connection: Upgrade", "Upgrade: upper", host=f"Host: {exposed['hostname']}"))
    check(sock.recv(4096).startswith(b"HTTP/1.1 101 "), "upgrade")
    sock.sendall(b"abcd")
    equal(sock.recv(10), b"ABCD", "echo")
    equal(figures(g)["open"], 1, "open")
    sock.close()
    gone = connect(g)
    gone.sendall(head("GET /hold/100 HTTP/1.1", host=f"Host: {exposed['hostname']}"))
    until(lambda: figures(g)["open"] == 1, "it waits")
    gone.close()
    until(lambda: figures(g)["open"] == 0, "all of them to end")
    counts = figures(g)
    equal({k: v for k, v in counts.items() if v}, {
        "requests_total": 7, "responses_total2xx": 3, "responses_total4xx": 1, "responses_total5xx": 1,
        "responses_total1xx": 1, "responses_totalnone": 1, "request_bytes_total": 1004,
        "response_bytes_total": counts["response_bytes_total"]}, "counted")
    check(counts["response_bytes_total"] > 4, counts)
    lines = lines_of(log, 7)
    equal(len(lines), 7, lines)
    for text in (token, exposed["hostname"], "Bearer", "forged\n"):
        check(text not in "\n".join(lines) + "\n" or text == "forged\n", "it holds", text)
    shown = [re.search(r" client=(\S+) sandbox=(\S+) port=(\d+) method=(\S+) path=(\S+) status=(\d+) bytes_in=(\d+) .* upgrade=(\d)$",
                       line) for line in lines]
    check(all(shown), lines)
    equal({(m[1], m[2], m[3]) for m in shown}, {("127.0.0.1", "a", "8000")}, lines)
    equal([(m[4], m[6], m[7], m[8]) for m in shown], [
        ("GET", "200", "0", "0"), ("POST", "200", "1000", "0"), ("GET", "404", "0", "0"), ("GET", "502", "0", "0"),
        ("GET", "200", "0", "0"), ("GET", "101", "4", "1"), ("GET", "0", "0", "0")], lines)
    equal([shown[0][5], shown[4][5]], ["/hello", "/hello"], lines)


if __name__ == "__main__":
    main([test_python, test_node, test_counted], lambda test: False)
