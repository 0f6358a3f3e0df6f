"""Previews: what a visitor asks reaches the server inside, and what it says comes back, byte for byte."""

import json
import os
import socket
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import IS_SANITIZED, Peak, at_once, check, equal, fds_of, main, only, until  # noqa: E402
from preview_api import Visitor, connect, expose, serve, start_preview, visit  # noqa: E402

MB = 1024 * 1024
BIG = (64 if IS_SANITIZED else 1024) * MB
PATTERN = bytes(range(256)) * 256
HTML = "text/html,application/xhtml+xml"


def test_plain(g):
    """GET, HEAD, methods, heads and bodies both ways; forwarding headers are ours alone."""
    start_preview(g)
    exposed = serve(g)
    reply = visit(g, exposed)
    equal((reply.status, reply.body, reply.headers["content-type"]), (200, b"hello\n", "text/plain"), reply)
    reply = visit(g, exposed, method="HEAD")
    equal((reply.status, reply.body), (200, b""), reply)
    reply = visit(g, exposed, "/seen?a=b%20c&d", "POST", b"x" * 5000, X_Own="1", X_Forwarded_For="6.6.6.6",
                  X_Forwarded_Host="evil", Forwarded="for=evil", X_Real_IP="6.6.6.6", Keep_Alive="1", Proxy_Authorization="x")
    seen = reply.json()
    equal((seen["method"], seen["path"], seen["size"]), ("POST", "/seen?a=b%20c&d", 5000), seen)
    headers = {}
    for name, value in seen["headers"]:
        check(name.lower() not in headers, "twice:", name)
        headers[name.lower()] = value
    host = f"{exposed['hostname']}:{g.preview}"
    equal([headers.get(n) for n in ("host", "x-forwarded-host", "x-forwarded-for", "x-forwarded-proto", "x-own")],
          [host, host, "127.0.0.1", "http", "1"], headers)
    equal({"forwarded", "x-real-ip", "keep-alive", "proxy-authorization"} & set(headers), set(), headers)
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        equal(visit(g, exposed, "/seen", method).json()["method"], method, method)
    equal(visit(g, exposed, "/nowhere").status, 404, "the server's own answer")


def test_addresses(g):
    """Whatever address it listens on."""
    start_preview(g)
    for port, address in enumerate(("127.0.0.1", "0.0.0.0", "::1", "::"), 8001):
        equal(visit(g, serve(g, port=port, address=address)).body, b"hello\n", address)


def test_nobody(g):
    """Wrong names and tokens are 404 without a hint, what was destroyed is 410, a port nobody listens on 502."""
    start_preview(g)
    exposed = serve(g)
    label, domain = exposed["hostname"].split(".", 1)
    wrong = [f"{label[:-1]}{'a' if label[-1] != 'a' else 'b'}.{domain}", f"{label}x.{domain}", f"8000-a.{domain}", domain,
             f"8001{label[4:]}.{domain}", f"{label}.{domain}.evil.example", "127.0.0.1", f"x.{label}.{domain}", "a" * 63 + "." + domain]
    replies = [visit(g, name) for name in wrong]
    for name, reply in zip(wrong, replies):
        equal((reply.status, reply.json()["code"]), (404, "not_found"), f"{name} {reply}")
    equal(len({r.body for r in replies}), 1, "one answer for all of them")
    equal(visit(g, f"{label.upper()}.{domain.upper()}").status, 200, "case does not count")
    silent = expose(g, "a", 9)
    reply = visit(g, silent)
    equal(reply.status, 502, reply)
    check("nothing listens on port 9" in reply.json()["error"] and "8000" in reply.json()["error"], reply)
    page = visit(g, silent, Accept=HTML)
    check(page.status == 502 and b"<h1>" in page.body and b"8000" in page.body, page)
    equal(g.request("DELETE", "/v1/sandbox/a/port/8000").status, 204, "unexpose")
    equal(visit(g, exposed).status, 404, "not exposed any more")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    reply = visit(g, silent)
    equal((reply.status, reply.json()["code"]), (410, "gone"), reply)
    equal(visit(g, exposed).status, 404, "its token was revoked before")
    g.kill_berthd()
    start_preview(g)
    equal(visit(g, silent).status, 410, "that is durable")


def test_kept(g):
    """Connections are kept on both sides; one that the server closed meanwhile does no harm."""
    start_preview(g)
    exposed = serve(g)
    visitor = Visitor(g, exposed)
    counts = [int(visitor.fetch("GET", "/count").body) for _ in range(50)]
    equal(counts, list(range(1, 51)), "one connection inside")
    before = fds_of(g.berthd.pid)
    for _ in range(300 if IS_SANITIZED else 10000):
        equal(visitor.fetch("GET", "/hello").body, b"hello\n", "answer")
    check(fds_of(g.berthd.pid) <= before + 1, "descriptors")
    for _ in range(20):  # each closes its connection
        equal(visitor.fetch("GET", "/close/10").body, PATTERN[:10], "until the end")
    visitor.close()
    bodies = [visit(g, exposed, "/seen", "POST", b"x" * n).json()["size"] for n in (0, 1, 70000)]
    equal(bodies, [0, 1, 70000], "bodies")


def test_kept_together(g):
    """Over all ports no more are kept than a quarter of the connections that there may be; all are served."""
    config = g.path("config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"max_connections": 8}, file)
    os.chmod(config, 0o644)
    start_preview(g, "--config", config)
    exposed = {port: serve(g, port=port) for port in range(8000, 8006)}
    ports = list(exposed)

    def kept():
        rows = [line.split() for line in g.out("a", "cat /proc/net/tcp").splitlines()[1:]]
        return sorted(port for row in rows if row[3] == "01" and (port := int(row[1].split(":")[1], 16)) in exposed)

    def visit_all(chosen):
        equal({visit(g, exposed[port]).body for port in chosen * 2}, {b"hello\n"}, "answers")

    def await_kept(wanted):
        try:
            until(lambda: kept() == wanted, "those that are kept", 10)
        finally:
            equal(kept(), wanted, "kept")

    visit_all(ports)
    await_kept(ports[:2])
    for port in ports[:2]:
        equal(g.request("DELETE", f"/v1/sandbox/a/port/{port}").status, 204, "unexpose")
    visit_all(ports[2:])
    await_kept(ports[2:4])


def test_streams(g):
    """Uploads and downloads of any size, chunked or not, with little memory; slow readers too."""
    start_preview(g)
    exposed = serve(g)

    def parts(size):
        while size:
            part = PATTERN[:min(size, len(PATTERN))]
            size -= len(part)
            yield part

    with Peak(g.berthd.pid) as peak:
        for path in (f"/bytes/{BIG}", f"/close/{BIG // 4}"):
            visitor = Visitor(g, exposed)
            response = visitor.ask("GET", path)
            size = 0
            while data := response.read(65536):
                at = size % 256
                check(data == (PATTERN + PATTERN)[at:at + len(data)], "at", size)
                size += len(data)
            equal(size, int(path.split("/")[2]), path)
            visitor.close()
        visitor = Visitor(g, exposed)
        reply = visitor.fetch("POST", "/seen", parts(BIG // 4), chunked=True, Transfer_Encoding="chunked")
        equal(reply.json()["size"], BIG // 4, "upload")
        reply = visitor.fetch("PUT", "/echo", PATTERN * 64)
        equal(reply.body == PATTERN * 64, True, "echo")
        visitor.close()
        stalled = Visitor(g, exposed)
        stalled.ask("GET", f"/bytes/{BIG}")
        for _ in range(20):
            equal(visit(g, exposed).body, b"hello\n", "others")
        stalled.close()
    check(IS_SANITIZED or peak.most < 64 * MB, "berthd held", peak.most)
    print(f"# berthd's peak: {peak.most >> 10} kB")
    until(lambda: g.sandbox("a")["holds"] == [], "nothing to hold it any more")


def test_early(g):
    """A server answers before it has read the body, and closes: that answer comes, and none is invented."""
    start_preview(g)
    exposed = serve(g)

    def put(_):
        sock = connect(g)
        sock.sendall(f"PUT /early HTTP/1.1\r\nHost: {exposed['hostname']}\r\nContent-Length: {32 * MB}\r\n\r\n".encode())

        def send():
            try:
                for _ in range(32 * MB // len(PATTERN)):
                    sock.sendall(PATTERN)
            except OSError:
                pass  # it need not be read
        sender = threading.Thread(target=send)
        sender.start()
        head = sock.recv(65536)
        sock.shutdown(socket.SHUT_RDWR)
        sender.join()
        sock.close()
        return head.split(b"\r\n")[0]
    answers = at_once(4, lambda i: [put(n) for n in range(20)])
    equal({line for lines in answers for line in lines}, {b"HTTP/1.1 413 Content Too Large"}, "answers")


def test_events(g):
    """An event goes out when it comes in; one who leaves ends it inside."""
    start_preview(g)
    exposed = serve(g)
    visitor = Visitor(g, exposed)
    response = visitor.ask("GET", "/sse")
    equal(response.getheader("content-type"), "text/event-stream", "type")
    for word in ("one", "two", "three"):
        g.out("a", f"echo {word} >>events")
        equal(response.readline() + response.readline(), f"data: {word}\n\n".encode(), "as it came")
    response.close()
    visitor.close()
    until(lambda: g.out("a", "cat left 2>/dev/null || true") == "left\n", "the server to hear of it")


def test_trailers(g):
    """Trailers come through, but none that would frame a message."""
    start_preview(g)
    exposed = serve(g)
    sock = connect(g)
    sock.sendall(f"GET /trailers HTTP/1.1\r\nHost: {exposed['hostname']}\r\nConnection: close\r\n\r\n".encode())
    data = b""
    while part := sock.recv(65536):
        data += part
    sock.close()
    check(data.endswith(b"4\r\nbody\r\n0\r\nX-Sum: 42\r\n\r\n"), data)


def test_upgrade(g):
    """Another protocol: bytes both ways, half-closed, and closed when the sandbox stops."""
    start_preview(g)
    exposed = serve(g)

    def begin():
        sock = connect(g)
        sock.sendall(f"GET /upgrade HTTP/1.1\r\nHost: {exposed['hostname']}\r\nConnection: Upgrade\r\n"
                     "Upgrade: upper\r\nX-Secret: 1\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(65536)
        check(head.startswith(b"HTTP/1.1 101 ") and b"X-Own: yes" in head, head)
        return sock

    sock = begin()
    received = []

    def read():
        while part := sock.recv(65536):
            received.append(part)
    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(256):
        sock.sendall(b"abc" * 21845)
    sock.shutdown(socket.SHUT_WR)
    reader.join()
    equal(b"".join(received) == b"ABC" * (21845 * 256), True, "all of it")
    sock.close()
    sock = begin()
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    equal(sock.recv(10), b"", "closed")
    sock.close()


@only("root")
def test_frozen(g):
    """A request wakes what was frozen; an open connection survives that, and its next byte wakes it, too."""
    start_preview(g)
    exposed = serve(g)
    sock = connect(g)
    sock.sendall(f"GET /upgrade HTTP/1.1\r\nHost: {exposed['hostname']}\r\nConnection: Upgrade\r\n"
                 "Upgrade: upper\r\n\r\n".encode())
    check(sock.recv(65536).startswith(b"HTTP/1.1 101 "), "upgrade")
    for ask in (lambda: equal(visit(g, exposed).body, b"hello\n", "a request"), lambda: sock.sendall(b"x")):
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}).json()["mode"], "freeze", "sleep")
        equal(g.sandbox("a")["state"], "frozen", "state")
        ask()
        until(lambda: g.sandbox("a")["state"] == "running", "to be awake")
    equal(sock.recv(10), b"X", "it goes on")
    equal(g.sandbox("a")["generation"], 1, "one life")
    sock.close()


def test_waking(g):
    """After a stop a browser sees that it wakes up, others wait; autostart brings the server back."""
    start_preview(g)
    exposed = serve(g, autostart=True)
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    equal(visit(g, exposed).body, b"hello\n", "who waits gets it")
    equal(g.sandbox("a")["generation"], 2, "the next life")
    # One whose server takes its time.
    g.request("POST", "/v1/sandbox/b/processes", {"command": "sleep 3; exec python3 -u /workspace/inside.py 8000",
                                                 "id": "slow", "autostart": True})
    with open(os.path.join(HERE, "inside.py"), "rb") as file:
        g.request("PUT", "/v1/sandbox/b/file/workspace/inside.py", file.read())
    slow = expose(g, "b", 8000)
    equal(g.request("POST", "/v1/sandbox/b/sleep", {"mode": "stop"}).status, 200, "stop")
    page = visit(g, slow, Accept=HTML)
    check(page.status == 503 and b"Waking up" in page.body and b'http-equiv="refresh"' in page.body, page)
    check("retry-after" in page.headers, page.headers)
    equal(visit(g, slow).body, b"hello\n", "who waits gets it")


def test_activity(g):
    """A request that waits for its answer holds the sandbox; a silent connection does so only if that is set."""
    start_preview(g)
    exposed = serve(g)
    equal(g.request("PUT", "/v1/sandbox/a", {"sleep_after": "1s"}).status, 200, "settings")
    visitor = Visitor(g, exposed)
    holder = threading.Thread(target=lambda: equal(visitor.fetch("GET", "/hold/4").body, b"held", "held"))
    holder.start()
    until(lambda: [h["kind"] for h in g.sandbox("a")["holds"]] == ["preview"], "the hold")
    holder.join()
    equal(g.sandbox("a")["generation"], 1, "it was awake all the time")
    sock = connect(g)
    sock.sendall(f"GET /upgrade HTTP/1.1\r\nHost: {exposed['hostname']}\r\nConnection: Upgrade\r\n"
                 "Upgrade: upper\r\n\r\n".encode())
    check(sock.recv(65536).startswith(b"HTTP/1.1 101 "), "upgrade")
    until(lambda: g.sandbox("a")["state"] in ("frozen", "cold"), "sleep in spite of it")
    sock.close()
    visitor.close()


if __name__ == "__main__":
    main([test_plain, test_addresses, test_nobody, test_kept, test_kept_together, test_streams, test_early, test_events,
          test_trailers, test_upgrade, test_frozen, test_waking, test_activity], lambda test: False)
