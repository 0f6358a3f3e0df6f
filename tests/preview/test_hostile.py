"""Previews between two sides that lie: requests and answers that no parser may misread, and who may come in."""

import os
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import Failed, at_once, check, equal, fds_of, main, until  # noqa: E402
import malformed  # noqa: E402
import responses  # noqa: E402
from preview_api import Visitor, connect, expose, serve, start_preview, visit  # noqa: E402
from tap import Client, head, is_error  # noqa: E402

SMUGGLED = "/smuggled"


def client(g):
    return Client.tcp(g.preview)


def host_of(g, exposed):
    return f"Host: {exposed['hostname']}:{g.preview}"


def tally(g, exposed):
    return visit(g, exposed, "/tally").json()


def settled(g, exposed):
    """Nobody is visiting it any more, and berthd lives."""
    def is_open():
        lines = g.get("/metrics").body.decode().splitlines()
        name = f'berth_port_open{{sandbox="a",port="{exposed["port"]}"}} '
        return [line.removeprefix(name) for line in lines if line.startswith(name)] == ["0"]
    until(is_open, "the last visit to end")


def clean_connections(g, port):
    """Of berthd to that port, with nothing to read: their own addresses, by the sandbox's network."""
    with open(f"/proc/{g.inits()[0]}/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file][1:]
    return {row[1] for row in rows if row[3] == "01" and row[2].endswith(f":{port:04X}") and row[4].endswith(":00000000")}


def test_requests(g):
    """[39] Malformed requests are refused; nothing behind them reaches the server inside."""
    start_preview(g)
    exposed = serve(g)
    host = host_of(g, exposed).encode()
    second = head(f"GET {SMUGGLED} HTTP/1.1", host=host_of(g, exposed))
    cases = malformed.REQUEST_LINES + malformed.HEADERS + malformed.LENGTHS + malformed.CODINGS + malformed.CHUNKS
    before = fds_of(g.berthd.pid)
    tried = 0

    def refused(data, statuses, step):
        with client(g) as c:
            try:
                for i in range(0, len(data), step):
                    c.sock.sendall(data[i:i + step])
            except (BrokenPipeError, ConnectionResetError):
                pass
            try:
                answer = c.read("GET")
            except ConnectionResetError:
                check(len(data) > 20000, "reset before the answer")  # it came while we still sent
                return
            check(answer.status in statuses, "status", answer)
            is_error(answer)
            equal((answer.header("Connection") or "").lower(), "close", "Connection")
            c.expect_end(is_reset_fine=True)

    for name, data, status in cases:
        if status == 413:
            continue  # the proxy has no limit
        data = (data or malformed.longest_head(32 * 1024 + 1)).replace(b"Host: test\r\n", host + b"\r\n") + second
        for step in (len(data), 1 if len(data) < 2000 else 997):
            try:
                refused(data, (status, 400), step)
            except Exception as error:
                raise Failed(f"{name}, by {step}: {error!r}") from error
            tried += 1
    print(f"# {tried} malformed requests")
    check(tried > 300, tried)
    settled(g, exposed)
    seen = tally(g, exposed)
    check(not [path for path in seen if "smuggled" in path], seen)
    until(lambda: fds_of(g.berthd.pid) <= before + 1, "descriptors")


def outcome(g, exposed, data, words, method="POST"):
    """What a client sees of that answer: ("whole", status, body), or ("cut",)."""
    with client(g) as c:
        c.send(head(f"{method} /say{words} HTTP/1.1", f"Content-Length: {len(data)}", host=host_of(g, exposed)) + data)
        try:
            answer = c.read(method)
            while answer.status < 200:
                answer = c.read(method)
        except (EOFError, ConnectionResetError):
            return ("cut",)
        return "whole", answer.status, answer.body


def judge(seen, expected):
    if expected == responses.CUT:
        equal(seen, ("cut",), "it must be cut")
    elif expected == responses.BAD:
        equal(seen[:2], ("whole", 502), "it must be refused")
        for word in (b"POISON", b"hello", b"Set-Cookie"):
            check(word not in seen[2], "it says what was said inside:", seen)
    else:
        equal((seen[0], seen[-1]), ("whole", expected.encode()), seen)


def test_responses(g):
    """[39] Malformed answers are refused or cut, and the next client gets a clean one."""
    start_preview(g)
    exposed = serve(g)
    visit(g, exposed)  # its connection is kept from now on
    settled(g, exposed)
    before = fds_of(g.berthd.pid)
    tried = 0
    for table, kept in ((responses.KEPT, "/more"), (responses.BEHIND, "/more"), (responses.ENDS, "")):
        for name, text, expected in table:
            data = text.encode("latin-1")
            for drip in ("", "/drip") if len(data) < 2000 else ("",):
                try:
                    known = clean_connections(g, exposed["port"])
                    judge(outcome(g, exposed, data, kept + drip), expected)
                    if table is responses.BEHIND:  # a POST has a connection of its own; what comes behind its answer can be late
                        until(lambda: clean_connections(g, exposed["port"]) <= known, "more than the answer")  # pylint: disable=cell-var-from-loop
                    reply = visit(g, exposed)
                    equal((reply.status, reply.body, reply.headers.get("content-type")), (200, b"hello\n", "text/plain"), "next")
                except Exception as error:
                    raise Failed(f"{name}{drip}: {error!r}") from error
                tried += 1
    print(f"# {tried} malformed answers")
    check(len(responses.KEPT) + len(responses.BEHIND) + len(responses.ENDS) >= 60 and tried > 150, tried)
    settled(g, exposed)
    until(lambda: fds_of(g.berthd.pid) <= before + 2, "descriptors")


def test_head(g):
    """Of HEAD no body is read: what the server sends as one is for nobody."""
    start_preview(g)
    exposed = serve(g)
    for text in (responses.sized(5), responses.sized(5) + responses.POISON, responses.chunks("5\r\nhello\r\n0\r\n\r\n")):
        with client(g) as c:
            c.send(head(f"HEAD /raw/{text.encode().hex()}/more HTTP/1.1", host=host_of(g, exposed)))
            answer = c.read("HEAD")
            equal((answer.status, answer.header("Transfer-Encoding")), (200, None), answer)
            c.send(head("GET /hello HTTP/1.1", host=host_of(g, exposed)))
            equal(c.read().body, b"hello\n", "the same client")
        equal(visit(g, exposed).body, b"hello\n", "the next one")
    # A body that comes only when the next visitor has asked.
    with client(g) as c:
        late = f"/late/0.4/{responses.answer('Content-Length: 44').encode().hex()}/{responses.POISON.encode().hex()}"
        c.send(head(f"HEAD {late} HTTP/1.1", host=host_of(g, exposed)))
        equal(c.read("HEAD").status, 200, "its head")
        equal(visit(g, exposed).body, b"hello\n", "the next one, before that body came")
    settled(g, exposed)


def test_no_content(g):
    """204 has no body, and says nothing of its length."""
    start_preview(g)
    exposed = serve(g)
    said = responses.answer("Content-Length: 0", "X-Seen: 1", status="204 No Content")
    reply = visit(g, exposed, f"/raw/{said.encode().hex()}")
    equal((reply.status, reply.headers.get("content-length"), reply.headers.get("x-seen")), (204, None, "1"), reply)


def test_late(g):
    """Bytes behind an answer, as late as may be: the next client never gets them."""
    start_preview(g)
    exposed = serve(g)
    late = f"/late/0.5/{responses.sized(5).encode().hex()}/{responses.POISON.encode().hex()}"
    for is_first in (True, False):
        with client(g) as one, client(g) as two:
            two.send(head("GET /hello HTTP/1.1", host=host_of(g, exposed)))
            equal(two.read().body, b"hello\n", "before")
            one.send(head(f"GET {late} HTTP/1.1", host=host_of(g, exposed)))
            equal(one.read().body, b"hello", "its own answer")
            os.kill(g.berthd.pid, signal.SIGSTOP)
            try:
                if is_first:  # the loop hears of the request before it hears of the bytes
                    two.send(head("GET /hello HTTP/1.1", host=host_of(g, exposed)))
                time.sleep(1)
                if not is_first:
                    two.send(head("GET /hello HTTP/1.1", host=host_of(g, exposed)))
            finally:
                os.kill(g.berthd.pid, signal.SIGCONT)
            equal(two.read().body, b"hello\n", "the next client's")
    settled(g, exposed)


def test_behind(g):
    """What comes over a kept connection and is no answer: the request is made again, over a new one."""
    start_preview(g)
    exposed = serve(g)
    spoilt = 0
    for junk in ("\r\n", "x", "HTTP/1.1 nonsense\r\n\r\n", responses.sized("5a")):
        for path, method in (("/hello", "GET"), ("/hello", "HEAD")):
            visit(g, exposed, f"/behind/{responses.sized(5).encode().hex()}/{junk.encode().hex()}")
            reply = visit(g, exposed, path, method=method)
            equal((reply.status, reply.body), (200, b"hello\n" if method == "GET" else b""), (junk, method))
            spoilt += 1
            equal(tally(g, exposed).get("spoilt"), spoilt, "the kept connection was asked first")
    settled(g, exposed)


def fetch(g, *lines):
    """One answer to a request of these lines; the first is the request line."""
    with client(g) as c:
        c.send(head(lines[0], *lines[1:], host=None))
        return c.read(lines[0].split(" ")[0])


def test_routing(g):
    """[39] What names the sandbox is the URL, else Host, and nothing else; nobody is reached but sandboxes."""
    start_preview(g)
    one = serve(g)
    g.request("PUT", "/v1/sandbox/b", {})
    two = serve(g, "b", 8001)
    mine, other = one["hostname"], two["hostname"]
    for target, host, expected in (
            ("/seen", mine, one), ("/seen", other, two),
            (f"http://{mine}/seen", "evil.example", one), (f"http://{other}/seen", mine, two),
            (f"HTTP://{mine.upper()}:1/seen", other, one),
            ("//evil.example/seen", mine, None), ("http://evil.example/seen", mine, 404),
            ("http://127.0.0.1:1/seen", mine, 404), ("http://169.254.169.254/latest", mine, 404),
            ("/seen", f"{mine}.evil.example", 404), ("/seen", f"evil.{mine}", 404), ("/seen", "[::1]", 404),
            (f"http://{mine}@evil.example/", mine, 400), (f"http://evil.example@{mine}/", mine, 400),
            (f"https://{mine}/seen", mine, 400), ("file:///etc/passwd", mine, 400), (f"{mine}:80", mine, 400),
            ("http://", mine, 400), (f"http://{mine}\\@evil/", mine, 400), ("http:/seen", mine, 400)):
        answer = fetch(g, f"GET {target} HTTP/1.1", f"Host: {host}")
        if isinstance(expected, int):
            equal(answer.status, expected, f"{target} {host} {answer}")
        elif expected:
            seen = dict((n.lower(), v) for n, v in answer.json()["headers"])
            equal(seen["host"].lower().partition(":")[0], expected["hostname"], f"{target} {host}")
            equal((answer.json()["path"], seen["x-forwarded-host"]), ("/seen", seen["host"]), seen)
        else:
            equal((answer.status, answer.body), (404, b"no such path"), "a path like any other")
    for name in ("X-Forwarded-Host", "X-Host", "X-Original-Host", "Forwarded"):
        equal(fetch(g, "GET /seen HTTP/1.1", "Host: localhost", f"{name}: {mine}").status, 404, name)
    equal(fetch(g, f"CONNECT {mine}:80 HTTP/1.1", f"Host: {mine}").status, 400, "no proxy")
    equal(fetch(g, "GET /seen HTTP/1.0").status, 404, "HTTP/1.0 without a host")


def test_spoofed(g):
    """[39] What a client says about itself, in whatever spelling, does not reach the server."""
    start_preview(g)
    exposed = serve(g)
    said = ["Forwarded: for=6.6.6.6", "X-Forwarded-For: 6.6.6.6", "x_forwarded_for: 6.6.6.6", "X-Forwarded-Proto: https",
            "X-FORWARDED-HOST: evil", "X-Forwarded-Port: 1", "X-Forwarded-Prefix: /evil", "X-Forwarded-Server: evil",
            "X-Real-IP: 6.6.6.6", "X_REAL_IP: 6.6.6.6", "Proxy: http://evil/", "Proxy-Authorization: evil", "Keep-Alive: evil",
            "TE: evil", "Trailer: evil", "Content_Length: 666", "Transfer_Encoding: chunked",
            "Connection: X-Forwarded-For, Host, X-Forwarded-Proto, X-Evil", "X-Evil: evil"]
    answer = fetch(g, "GET /seen HTTP/1.1", host_of(g, exposed), *said).json()
    names = [name.lower() for name, _ in answer["headers"]]
    equal(sorted(names), ["host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto"], answer)
    equal(dict(answer["headers"])["X-Forwarded-For"], "127.0.0.1", answer)
    check("6.6.6.6" not in str(answer) and "evil" not in str(answer), answer)


def upgrade(g, host, protocol="upper", path="/upgrade"):
    c = client(g)
    c.send(head(f"GET {path} HTTP/1.1", "Connection: Upgrade", f"Upgrade: {protocol}", "Sec-WebSocket-Version: 13",
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", host=host))
    return c


def ended(c):
    """The client sees an end, by whatever is left to come."""
    try:
        while c.sock.recv(1 << 20):
            pass
    except ConnectionResetError:
        pass
    c.close()
    return True


def test_tokens(g):
    """[39] An upgrade needs the token as all do; one that is revoked or changed cuts who came by it."""
    start_preview(g)
    exposed = serve(g)
    label, domain = exposed["hostname"].split(".", 1)
    without = label.rpartition("-")[0]
    for name in (without, f"{without}-", f"{without}-{'a' * 16}", label[:-1], f"{label}a"):
        with upgrade(g, f"Host: {name}.{domain}", "websocket") as c:
            equal(c.read().status, 404, name)
    for change in (lambda: expose(g, "a", 8000, token="chosen01"), lambda: expose(g, "a", 8000, public=True),
                   lambda: expose(g, "a", 8000, public=False),
                   lambda: equal(g.request("DELETE", "/v1/sandbox/a/port/8000").status, 204, "delete")):
        host = host_of(g, exposed)
        tunnel = upgrade(g, host)
        equal(tunnel.read().status, 101, "upgrade")
        download = client(g)
        download.send(head("GET /bytes/1000000000 HTTP/1.1", host=host))
        download.read_head()
        waiting = client(g)
        waiting.send(head("GET /hold/100 HTTP/1.1", host=host))
        kept = client(g)
        kept.send(head("GET /hello HTTP/1.1", host=host))
        equal(kept.read().status, 200, "before")
        equal(g.request("PUT", "/v1/sandbox/a/port/8000", {"name": f"site {host[-1]}"}).status, 200, "a name")
        tunnel.send(b"abc")
        equal(tunnel.read_exactly(3), b"ABC", "a name cuts nobody")
        shown = change()
        equal(waiting.read().status, 404, "who waits")
        waiting.close()
        for c in (tunnel, download):
            check(ended(c), "cut")
        kept.send(head("GET /hello HTTP/1.1", host=host))
        equal(kept.read().status, 404, "an open connection is no pass")
        kept.close()
        exposed = shown or exposed
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    equal(fetch(g, "GET / HTTP/1.1", host_of(g, exposed)).status, 404, "revoked before it was destroyed")


def test_destroyed(g):
    """[39] Of a destroyed sandbox 410, also for who waits while it goes; a page shows no more than that."""
    start_preview(g)
    exposed = serve(g)
    host = host_of(g, exposed)
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    equal(fetch(g, "GET /hello HTTP/1.1", host).status, 410, "gone")
    with upgrade(g, host, "websocket") as c:
        equal(c.read().status, 410, "an upgrade")
    page = fetch(g, "GET /<script>alert(1)</script> HTTP/1.1", host, "Accept: text/html", "Referer: <script>")
    check(page.status == 410 and b"script" not in page.body and b"<h1>" in page.body, page)
    check("default-src 'none'" in page.header("Content-Security-Policy"), page)
    # Whoever has the ID again has not got the label.
    again = serve(g)
    check(again["hostname"] != exposed["hostname"], again)
    equal(fetch(g, "GET /hello HTTP/1.1", host).status, 410, "still")


def test_unable(g):
    """Why a sandbox cannot be started is for its owner: visitors are told 503, and nothing of the host."""
    start_preview(g)
    exposed = serve(g)
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    g.kill_berthd()
    g.kill_keeper_and_monitor()
    broken = g.path("broken")
    with open(broken, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\n[ "$1" = --version ] && exec crun --version\nexit 1\n')
    os.chmod(broken, 0o755)
    g.runtime, runtime = broken, g.runtime
    try:
        start_preview(g)
        for accept in ("*/*", "text/html"):
            answer = fetch(g, "GET /hello HTTP/1.1", host_of(g, exposed), f"Accept: {accept}")
            equal(answer.status, 503, answer)
            check(b"broken" not in answer.body and b"/tmp" not in answer.body, answer)
            check(answer.header("Retry-After"), answer)
        check(broken in str(g.sandbox("a")["last_failure"]), "its owner is not told")
    finally:
        g.runtime = runtime


def test_slow_answers(g):
    """Who has woken a sandbox and is answered for longer than it was willing to wait gets all of it."""
    start_preview(g)
    exposed = serve(g, autostart=True)
    for mode in ("stop", "freeze") if g.is_root else ("stop",):
        for target in ("/hold/3", "/sse"):
            equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": mode}).status, 200, "sleep")
            visitor = Visitor(g, exposed)
            response = visitor.ask("GET", target, Accept="text/html")
            if response.status == 503:  # it took a second to come up: the page is right
                response.read()
                visitor.close()
                continue
            equal(response.status, 200, target)
            if target == "/sse":
                time.sleep(2)
                g.out("a", "echo word >>events")
                equal(response.readline(), b"data: word\n", "an event")
                g.out("a", "rm events")
            else:
                equal(response.read(), b"held", "the answer")
            response.close()
            visitor.close()
    settled(g, exposed)


def test_many(g):
    """As many as there can be at once, of which each gets its own answer."""
    start_preview(g)
    exposed = serve(g)

    def one(i):
        return visit(g, exposed, f"/seen?{i}", "POST" if i % 2 else "GET", b"x" * i if i % 2 else None).json()

    for i, seen in enumerate(at_once(64, one)):
        equal((seen["path"], seen["size"]), (f"/seen?{i}", i if i % 2 else 0), "its own")
    socks = [connect(g) for _ in range(1500)]
    for sock in socks:
        sock.sendall(head("GET /hello HTTP/1.1", "Connection: close", host=host_of(g, exposed)))
    for sock in socks:
        sock.shutdown(socket.SHUT_RDWR) if sock.fileno() % 3 == 0 else None
    answers = 0
    for sock in socks:
        try:
            data = b""
            while part := sock.recv(65536):
                data += part
        except OSError:
            data = b""
        check(not data or data.startswith(b"HTTP/1.1 200 "), data)
        answers += bool(data)
        sock.close()
    check(answers >= 1000, answers)
    settled(g, exposed)


if __name__ == "__main__":
    main([test_requests, test_responses, test_head, test_no_content, test_late, test_behind, test_routing, test_spoofed, test_tokens,
          test_destroyed, test_unable, test_slow_answers, test_many], lambda test: False)
