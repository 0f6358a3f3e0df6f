#!/usr/bin/env python3
"""What must be answered, however the bytes were cut.

    wellformed.py TESTD
"""

import hashlib
import sys

from malformed import longest_head
from tap import Suite, Testd, chunked, expect, head, require

POST = "POST /buffered HTTP/1.1"
TE = "Transfer-Encoding: chunked"


def sum_of(data):
    return f"{len(data)} {hashlib.sha256(data).hexdigest()}".encode()


def get(*headers, target="/ok"):
    return head(f"GET {target} HTTP/1.1", *headers)


def post(*headers, body=b""):
    return head(POST, *headers) + body


# name, request, status, body (None: any)
GOOD = [
    ("GET", get(), 200, b"ok\n"),
    ("one empty line in front", b"\r\n" + get(), 200, b"ok\n"),
    ("names in any case", get("cOnNeCtIoN: KEEP-alive"), 200, b"ok\n"),
    ("tab and spaces around a value", get("A: \t b \t "), 200, b"ok\n"),
    ("no space after a colon", get("A:b"), 200, b"ok\n"),
    ("an empty value", get("A:", "B: "), 200, b"ok\n"),
    ("high bytes in a value", get("A: \xe9\xff"), 200, b"ok\n"),
    ("every token byte in a name", get("!#$%&'*+-.^_`|~09azAZ: b"), 200, b"ok\n"),
    ("Host with a port", head("GET /ok HTTP/1.1", host="Host: test:8080"), 200, b"ok\n"),
    ("Host is an address", head("GET /ok HTTP/1.1", host="Host: [::1]:80"), 200, b"ok\n"),
    ("100 headers", get(*[f"A{i}: b" for i in range(99)]), 200, b"ok\n"),
    ("a head of 32 kB", longest_head(32 * 1024), 200, b"ok\n"),
    ("a URL as target", get(target="http://test/ok"), 200, b"ok\n"),
    ("a URL with a port as target", get(target="http://test:80/ok?a"), 200, b"ok\n"),
    ("query", get(target="/ok?a=b&c=%20&d"), 200, b"ok\n"),
    ("empty query", get(target="/ok?"), 200, b"ok\n"),
    ("escapes are decoded once", get(target="/path/a%2Fb%2525%00"), 200, b"a/b%25\0"),
    ("bytes that are no UTF-8", get(target="/path/%ff%fe"), 200, b"\xff\xfe"),
    ("the rest of a path", get(target="/rest/a/b//c/../%2e"), 200, b"a/b//c/../."),
    ("plus is a plus in a path", get(target="/path/a+b"), 200, b"a+b"),
    ("an upgrade that nobody needs", get("Upgrade: h2c", "Connection: upgrade"), 200, b"ok\n"),
    ("Content-Length: 0 on GET", get("Content-Length: 0"), 200, b"ok\n"),
    ("no length on POST", post(), 200, sum_of(b"")),
    ("Content-Length: 0", post("Content-Length: 0"), 200, sum_of(b"")),
    ("leading zeros in a length", post("Content-Length: 0005", body=b"hello"), 200, sum_of(b"hello")),
    ("a body", post("Content-Length: 5", body=b"hello"), 200, sum_of(b"hello")),
    ("a body of 1 MiB", post("Content-Length: 1048576", body=b"x" * 1048576), 200,
     sum_of(b"x" * 1048576)),
    ("no chunks", post(TE, body=chunked()), 200, sum_of(b"")),
    ("chunks", post(TE, body=chunked(b"hello", b" ", b"world")), 200, sum_of(b"hello world")),
    ("chunks of one byte", post(TE, body=chunked(*[b"x"] * 5000)), 200, sum_of(b"x" * 5000)),
    ("Chunked in another case", post("transfer-encoding: CHUNKED", body=chunked(b"hi")), 200,
     sum_of(b"hi")),
    ("chunk size in upper case", post(TE, body=b"A\r\n0123456789\r\n0\r\n\r\n"), 200,
     sum_of(b"0123456789")),
    ("chunk size with zeros", post(TE, body=b"0005\r\nhello\r\n000\r\n\r\n"), 200, sum_of(b"hello")),
    ("extensions", post(TE, body=b'5;a;b="c"\r\nhello\r\n0;z\r\n\r\n'), 200, sum_of(b"hello")),
    ("an extension on every chunk",
     post(TE, body=b"1;a=123456789012345678901234567890\r\nx\r\n" * 1000 + b"0\r\n\r\n"), 200,
     sum_of(b"x" * 1000)),
    ("trailers", post(TE, body=chunked(b"hi", last=b"0\r\nA: b\r\nC: d\r\n\r\n")), 200, sum_of(b"hi")),
    ("trailers of 7 kB", post(TE, body=chunked(b"hi", last=b"0\r\nA: " + b"b" * 7000 + b"\r\n\r\n")),
     200, sum_of(b"hi")),
    ("streamed", head("POST /echo HTTP/1.1", "Content-Length: 5") + b"hello", 200, b"hello"),
    ("streamed chunks", head("POST /echo HTTP/1.1", TE) + chunked(b"a", b"b"), 200, b"ab"),
    ("streamed, empty", head("POST /echo HTTP/1.1", "Content-Length: 0"), 200, b""),
    ("a streamed body up to its limit",
     head("POST /limited HTTP/1.1", "Content-Length: 1048576") + b"x" * 1048576, 200, b"1048576\n"),
    ("JSON", head("POST /json HTTP/1.1", "Content-Length: 12") + b'{"name":"x"}', 200, b"x"),
    ("JSON that is none", head("POST /json HTTP/1.1", "Content-Length: 2") + b"{]", 400, None),
    ("JSON with an unknown field",
     head("POST /json HTTP/1.1", "Content-Length: 18") + b'{"name":"","b":""}', 400, None),
]


def good(server, data, status, body, is_whole):
    with server.connect() as c:
        if is_whole:
            c.send(data)
        else:
            c.send_slowly(data[:2000])
            c.send_slowly(data[2000:], 4999)
        answer = c.read()
        expect(answer.status, status, "status")
        if body is not None:
            expect(answer.body, body, "body")
        expect(c.get("/ok").body, b"ok\n", "the next answer")


def pipelined(server):
    with server.connect() as c:
        for _ in range(3):
            c.send(get() * 1000)
            for _ in range(1000):
                expect(c.read().body, b"ok\n")


def pipelined_mixed(server):
    """Bodies, chunks, errors and slow answers in one batch keep their order."""
    batch = (
        get(target="/slow?ms=20")
        + post("Content-Length: 5", body=b"hello")
        + head("GET /nope HTTP/1.1")
        + post(TE, body=chunked(b"x" * 3000, b"y"))
        + head("POST /echo HTTP/1.1", TE) + chunked(b"echo")
        + head("HEAD /ok HTTP/1.1")
        + get(target="/path/end")
    )
    for step in (len(batch), 1, 7):
        with server.connect() as c:
            c.send_slowly(batch, step)
            expect(c.read().body, b"slow\n")
            expect(c.read().body, sum_of(b"hello"))
            expect(c.read().status, 404)
            expect(c.read().body, sum_of(b"x" * 3000 + b"y"))
            expect(c.read().body, b"echo")
            expect(c.read("HEAD").status, 200)
            expect(c.read().body, b"end")


def pipelined_ahead(server):
    """What comes while an answer is owed waits, however much it is."""
    with server.connect() as c:
        c.send(get(target="/slow?ms=100"))
        c.sock.setblocking(False)
        data, taken = get() * 20000, 0
        try:
            while taken < len(data):
                taken += c.sock.send(data[taken:])
        except BlockingIOError:
            pass
        require(taken < len(data), "the server took everything while it owed an answer")
        c.sock.setblocking(True)
        c.sock.settimeout(30)
        expect(c.read().body, b"slow\n")
        whole = taken // len(get())
        for _ in range(whole):
            expect(c.read().body, b"ok\n")


def kept_alive(server):
    with server.connect() as c:
        for _ in range(10000):
            expect(c.get("/ok").body, b"ok\n")


def heads(server):
    with server.connect() as c:
        full = c.get("/ok")
        answer = c.request("HEAD", "/ok")
        expect(answer.status, 200)
        expect(answer.header("Content-Length"), full.header("Content-Length"))
        expect(answer.header("Test-Header"), "present")
        expect(c.request("HEAD", "/big?bytes=100000").status, 200)
        expect(c.request("HEAD", "/nope").status, 404)
        expect(c.request("HEAD", "/echo").status, 405)
        expect(c.get("/ok").body, b"ok\n")


def http_1_0(server):
    with server.connect() as c:
        c.send(b"GET /ok HTTP/1.0\r\n\r\n")
        expect(c.read().body, b"ok\n")
        c.expect_end()
    with server.connect() as c:
        c.send(b"GET /ok HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        answer = c.read()
        expect(answer.body, b"ok\n")
        if (answer.header("Connection") or "").lower() == "keep-alive":
            expect(c.get("/ok").status, 200)
        else:
            c.expect_end()


def http_1_0_stream(server):
    """No chunks for a client that does not know them: the end of the connection is the end."""
    with server.connect() as c:
        c.send(b"GET /big?bytes=1000 HTTP/1.0\r\n\r\n")
        answer = c.read_head()
        expect(answer.header("Transfer-Encoding"), None)
        expect(c.read_exactly(1000), bytes(i % 251 for i in range(1000)))
        c.expect_end()


def connection_close(server):
    for value in ("close", "Close", "keep-alive, close", "x, close"):
        with server.connect() as c:
            c.send(get(f"Connection: {value}") + get())
            answer = c.read()
            expect(answer.body, b"ok\n")
            expect((answer.header("Connection") or "").lower(), "close")
            c.expect_end(is_reset_fine=True)


def half_closed(server):
    """A client that has said all it wants to say still gets its answer."""
    with server.connect() as c:
        c.send(get(target="/slow?ms=30"))
        c.sock.shutdown(1)
        try:
            expect(c.read().body, b"slow\n")
        except EOFError:
            pass  # it may also count as gone: then nothing is answered
        c.expect_end(is_reset_fine=True)


def expects(server):
    with server.connect() as c:
        c.send(post("Content-Length: 5", "Expect: 100-continue"))
        expect(c.read().status, 100)
        c.send(b"hello")
        expect(c.read().body, sum_of(b"hello"))
        c.send(head("POST /echo HTTP/1.1", TE, "Expect: 100-Continue"))
        expect(c.read().status, 100)
        c.send(chunked(b"hello"))
        expect(c.read().body, b"hello")
        c.send(get("Expect: 100-continue"))
        answer = c.read()
        expect(answer.status, 200, "no body, no 100")


def expects_refused(server):
    """The refusal comes instead of the 100, and the body is then not expected."""
    for request, status in (
        (post("Content-Length: 2000000", "Expect: 100-continue"), 413),
        (head("POST /nope HTTP/1.1", "Content-Length: 5", "Expect: 100-continue"), 404),
        (head("POST /ok HTTP/1.1", "Content-Length: 5", "Expect: 100-continue"), 405),
        (head("POST /refuse HTTP/1.1", "Content-Length: 5", "Expect: 100-continue"), 403),
        (post("Content-Length: 5", "Expect: 200-maybe"), 417),
    ):
        with server.connect() as c:
            c.send(request)
            expect(c.read().status, status)


def expects_with_body(server):
    """A client that does not wait for the 100 is understood all the same."""
    with server.connect() as c:
        c.send(post("Content-Length: 5", "Expect: 100-continue", body=b"hello") + get())
        answer = c.read()
        if answer.status == 100:
            answer = c.read()
        expect(answer.body, sum_of(b"hello"))
        expect(c.read().body, b"ok\n")


def expects_in_1_0(server):
    with server.connect() as c:
        c.send(b"POST /buffered HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
        expect(c.read().body, sum_of(b"hello"))


def empty_answers(server):
    with server.connect() as c:
        expect(c.get("/empty").status, 204)
        answer = c.get("/not-modified")
        expect((answer.status, answer.header("ETag")), (304, '"1"'))
        expect(c.get("/ok").body, b"ok\n")


def cut(server):
    """An answer that fails halfway must not look complete."""
    with server.connect() as c:
        c.send(get(target="/cut"))
        expect(c.read_head().status, 200)
        try:
            while True:
                require(c.read_chunk() != b"", "the end of the chunks was sent")
        except (EOFError, ConnectionResetError):
            pass


def sized(server):
    """A stream of a known length: no chunks, kept alive; one that falls short is cut."""
    with server.connect() as c:
        for count in (1, 1000, 3000000):
            answer = c.get(f"/big?bytes={count}&sized=1")
            expect(answer.header("Content-Length"), str(count))
            expect(answer.header("Transfer-Encoding"), None)
            expect(answer.body, (bytes(range(251)) * (count // 251 + 1))[:count])
        expect(c.get("/big?bytes=0&sized=1").header("Content-Length"), "0")
        answer = c.request("HEAD", "/big?bytes=70000&sized=1")
        expect((answer.status, answer.header("Content-Length")), (200, "70000"))
        expect(c.get("/ok").body, b"ok\n")
        c.send(get(target="/cut?length=5"))
        expect(c.read().body, b"begun")
        c.send(get(target="/cut?length=6"))
        expect(c.read_head().header("Content-Length"), "6")
        expect(c.read_exactly(5), b"begun")
        try:
            c.expect_end()
        except ConnectionResetError:
            pass


def refused_and_drained(server):
    """A refused body of modest size is read away, and the connection goes on."""
    for body in (b"x" * 10, b"x" * 100000):
        with server.connect() as c:
            answer = c.request("POST", "/refuse", body=body)
            expect(answer.status, 403)
            if (answer.header("Connection") or "").lower() == "close":
                c.expect_end()
            else:
                expect(c.get("/ok").body, b"ok\n")


def taken_late(server):
    """A handler may take the body after a while; what came meanwhile is not lost."""
    for body in (b"", b"x" * 10, b"x" * 300000):
        with server.connect() as c:
            c.send(head("POST /discard?ms=50 HTTP/1.1", f"Content-Length: {len(body)}") + body)
            expect(c.read().body, b"%d\n" % len(body))
            expect(c.get("/ok").body, b"ok\n")
            c.send(head("POST /discard?ms=50 HTTP/1.1", TE, "Expect: 100-continue"))
            expect(c.read().status, 100)
            c.send(chunked(body) if body else chunked())
            expect(c.read().body, b"%d\n" % len(body))


def over_tcp(server):
    with server.connect_tcp() as c:
        expect(c.get("/ok").body, b"ok\n")
        expect(c.request("POST", "/buffered", body=b"hello").body, sum_of(b"hello"))


CASES = [
    ("3,000 requests in batches of 1,000", pipelined),
    ("a mixed batch keeps its order", pipelined_mixed),
    ("bytes behind an owed answer wait", pipelined_ahead),
    ("10,000 requests on one connection", kept_alive),
    ("HEAD", heads),
    ("HTTP/1.0", http_1_0),
    ("a stream to HTTP/1.0", http_1_0_stream),
    ("Connection: close", connection_close),
    ("a half-closed connection", half_closed),
    ("Expect: 100-continue", expects),
    ("Expect: 100-continue, refused", expects_refused),
    ("Expect: 100-continue, not waited for", expects_with_body),
    ("Expect: 100-continue in HTTP/1.0", expects_in_1_0),
    ("204 and 304", empty_answers),
    ("an answer that fails halfway", cut),
    ("a stream of a known length", sized),
    ("a refused body is drained", refused_and_drained),
    ("a body that is taken late", taken_late),
    ("over TCP", over_tcp),
]


def main():
    t = Suite()
    with Testd(sys.argv[1]) as server:
        for name, data, status, body in GOOD:
            t.run(name, good, server, data, status, body, True)
            t.run(f"{name}, byte by byte", good, server, data, status, body, False)
        for name, function in CASES:
            t.run(name, function, server)
    t.done()


if __name__ == "__main__":
    main()
