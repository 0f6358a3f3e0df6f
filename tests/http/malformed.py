#!/usr/bin/env python3
"""[40] What must be refused, and that nothing hidden behind it is ever answered.

    malformed.py TESTD

Every case is sent whole and byte by byte. Behind each stands a complete second request; if the
first is refused with a close, the second must never be served.
"""

import sys

from tap import Client, Suite, Testd, chunked, expect, head, is_error

SMUGGLED = b"POST /count HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
POST = "POST /buffered HTTP/1.1"
TE = "Transfer-Encoding: chunked"
SPLICE = b"0\r\n\r\n"


def post(*headers, body=b"hello"):
    return head(POST, *headers) + body


def chunks(body):
    return head(POST, TE) + body


def line(text):
    return head(text)


def get(*headers):
    return head("GET /ok HTTP/1.1", *headers)


def raw(text):
    return text if isinstance(text, bytes) else text.encode("latin-1")


REQUEST_LINES = [
    ("no method", line(" /ok HTTP/1.1"), 400),
    ("a method in two words", line("G ET /ok HTTP/1.1"), 400),
    ("a method with a slash", line("GE/T /ok HTTP/1.1"), 400),
    ("a method with a control byte", line("GE\x01T /ok HTTP/1.1"), 400),
    ("two spaces after the method", line("GET  /ok HTTP/1.1"), 400),
    ("two spaces before the version", line("GET /ok  HTTP/1.1"), 400),
    ("tab after the method", line("GET\t/ok HTTP/1.1"), 400),
    ("tab before the version", line("GET /ok\tHTTP/1.1"), 400),
    ("space in front", line(" GET /ok HTTP/1.1"), 400),
    ("space at the end", line("GET /ok HTTP/1.1 "), 400),
    ("space in the path", line("GET /o k HTTP/1.1"), 400),
    ("HTTP/0.9", raw("GET /ok\r\n\r\n"), 400),
    ("a method alone", raw("GET\r\n\r\n"), 400),
    ("no target", line("GET HTTP/1.1"), 400),
    ("relative target", line("GET ok HTTP/1.1"), 400),
    ("absolute URI of another scheme", line("GET ftp://test/ok HTTP/1.1"), 400),
    ("absolute URI with a user", line("GET http://u@test/ok HTTP/1.1"), 400),
    ("absolute URI with https", line("GET https://test/ok HTTP/1.1"), 400),
    ("absolute URI without a host", line("GET http:///ok HTTP/1.1"), 400),
    ("star that is not OPTIONS", line("GET * HTTP/1.1"), 400),
    ("CONNECT", line("CONNECT test:80 HTTP/1.1"), 400),
    ("fragment", line("GET /ok#part HTTP/1.1"), 400),
    ("NUL in the path", line("GET /o\0k HTTP/1.1"), 400),
    ("DEL in the path", line("GET /o\x7fk HTTP/1.1"), 400),
    ("control byte in the path", line("GET /o\x01k HTTP/1.1"), 400),
    ("bare CR in the path", line("GET /o\rk HTTP/1.1"), 400),
    ("high byte in the path", line("GET /o\xe9k HTTP/1.1"), 400),
    ("NUL in the query", line("GET /ok?a=\0 HTTP/1.1"), 400),
    ("HTTP/1.2", line("GET /ok HTTP/1.2"), 505),
    ("HTTP/2.0", line("GET /ok HTTP/2.0"), 505),
    ("HTTP/0.9 by name", line("GET /ok HTTP/0.9"), 505),
    ("HTTP/3.1", line("GET /ok HTTP/3.1"), 505),
    ("HTTP/1", line("GET /ok HTTP/1"), 400),
    ("HTTP/1.", line("GET /ok HTTP/1."), 400),
    ("HTTP/1.10", line("GET /ok HTTP/1.10"), 400),
    ("HTTP/01.1", line("GET /ok HTTP/01.1"), 400),
    ("HTTP/11.1", line("GET /ok HTTP/11.1"), 400),
    ("http/1.1", line("GET /ok http/1.1"), 400),
    ("HTTPS/1.1", line("GET /ok HTTPS/1.1"), 400),
    ("HTTP/1,1", line("GET /ok HTTP/1,1"), 400),
    ("HTTP/+1.1", line("GET /ok HTTP/+1.1"), 400),
    ("HTTP/1.1x", line("GET /ok HTTP/1.1x"), 400),
    ("HTTP/ 1.1", line("GET /ok HTTP/ 1.1"), 400),
    ("version of another protocol", line("GET /ok ICE/1.0"), 400),
    ("HTTP/2 preface", raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505),
    ("TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)), 400),
    ("SSH banner", b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n", 400),
    ("SOCKS greeting", b"\x05\x01\x00", 400),
    ("NUL bytes", bytes(64), 400),
    ("an answer instead of a request", raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 400),
    ("three empty lines in front", b"\r\n\r\n\r\n" + get(), 400),
    ("LF in front", b"\n" + get(), 400),
    ("a path of 40 kB", line("GET /" + "a" * 40000 + " HTTP/1.1"), 431),
    ("a method of 40 kB", line("A" * 40000 + " / HTTP/1.1"), 431),
]

HEADERS = [
    ("no Host", head("GET /ok HTTP/1.1", host=None), 400),
    ("Host twice, the same", get("Host: test"), 400),
    ("Host twice, different", get("Host: other"), 400),
    ("Host twice, other case", get("HOST: test"), 400),
    ("Host with a space", head("GET /ok HTTP/1.1", host="Host: a b"), 400),
    ("Host with a slash", head("GET /ok HTTP/1.1", host="Host: a/b"), 400),
    ("Host with a user", head("GET /ok HTTP/1.1", host="Host: u@b"), 400),
    ("Host as a list", head("GET /ok HTTP/1.1", host="Host: a, b"), 400),
    ("Host with a high byte", head("GET /ok HTTP/1.1", host="Host: \xe9"), 400),
    ("Host with two ports", head("GET /ok HTTP/1.1", host="Host: a:1:2"), 400),
    ("Host with a port of letters", head("GET /ok HTTP/1.1", host="Host: a:http"), 400),
    ("Host with a question mark", head("GET /ok HTTP/1.1", host="Host: a?b"), 400),
    ("space before the colon of Host", head("GET /ok HTTP/1.1", host="Host : test"), 400),
    ("space before a colon", get("A : b"), 400),
    ("tab before a colon", get("A\t: b"), 400),
    ("a header without a name", get(": b"), 400),
    ("a header without a colon", get("nonsense"), 400),
    ("space in a name", get("A B: c"), 400),
    ("NUL in a name", get("A\0B: c"), 400),
    ("parenthesis in a name", get("A(B): c"), 400),
    ("slash in a name", get("A/B: c"), 400),
    ("high byte in a name", get("A\xe9: c"), 400),
    ("folded with a space", get("A: b\r\n c"), 400),
    ("folded with a tab", get("A: b\r\n\tc"), 400),
    ("folded to nothing", get("A: b\r\n "), 400),
    ("first header begins with a space", head("GET /ok HTTP/1.1", host=" Host: test"), 400),
    ("first header begins with a tab", head("GET /ok HTTP/1.1", host="\tHost: test"), 400),
    ("NUL in a value", get("A: b\0c"), 400),
    ("bare CR in a value", get("A: b\rc"), 400),
    ("bare CR, then a header", get("A: b\rContent-Length: 50"), 400),
    ("control byte in a value", get("A: b\x01c"), 400),
    ("DEL in a value", get("A: b\x7fc"), 400),
    ("LF after the request line", raw("GET /ok HTTP/1.1\nHost: test\r\n\r\n"), 400),
    ("LF after a header", raw("GET /ok HTTP/1.1\r\nHost: test\nA: b\r\n\r\n"), 400),
    ("LF as the empty line", raw("GET /ok HTTP/1.1\r\nHost: test\r\n\n"), 400),
    ("LF only", raw("GET /ok HTTP/1.1\nHost: test\n\n"), 400),
    ("CR only", raw("GET /ok HTTP/1.1\rHost: test\r\r"), 400),
    ("LF CR", raw("GET /ok HTTP/1.1\n\rHost: test\n\r\n\r"), 400),
    ("CR CR LF", raw("GET /ok HTTP/1.1\r\r\nHost: test\r\n\r\n"), 400),
    ("CR CR LF as the empty line", raw("GET /ok HTTP/1.1\r\nHost: test\r\n\r\r\n"), 400),
    ("101 headers", get(*[f"A{i}: b" for i in range(100)]), 431),
    ("a header of 40 kB", get("A: " + "b" * 40000), 431),
    ("a header name of 40 kB", get("A" * 40000 + ": b"), 431),
    ("one byte more than the head may have", None, 431),
    ("an unknown expectation", post("Expect: 200-ok", "Content-Length: 5"), 417),
    ("two expectations", post("Expect: 100-continue, x", "Content-Length: 5"), 417),
]

LENGTHS = [
    (f"Content-Length: {text!r}", post(f"Content-Length: {text}"), 400)
    for text in (
        "+5", "-1", "-0", "5 5", "5,5", "5, 5", "5;", "0x5", "5a", "a", "", "1e1", "5.0", "'5'",
        "\x0b5", "5\x0b", "\xb2", "18446744073709551616", "18446744073709551621",
        "99999999999999999999999999", "0" * 5000 + "x",
    )
] + [
    ("Content-Length twice, the same", post("Content-Length: 5", "Content-Length: 5"), 400),
    ("Content-Length twice, different", post("Content-Length: 5", "Content-Length: 0"), 400),
    ("Content-Length twice, other case", post("Content-Length: 5", "content-length: 6"), 400),
    ("Content-Length, space before the colon", post("Content-Length : 5"), 400),
    ("Content-Length, folded", post("Content-Length:\r\n 5"), 400),
    ("Content-Length with a NUL", post("Content-Length: 5\0"), 400),
    ("CL.TE", post("Content-Length: 6", TE, body=SPLICE + b"G"), 400),
    ("TE.CL", post(TE, "Content-Length: 4", body=b"5c\r\n" + SPLICE), 400),
    ("CL.TE with a length of 0", post("Content-Length: 0", TE, body=SPLICE), 400),
    ("CL.TE that agree", post("Content-Length: 5", TE, body=SPLICE), 400),
    ("CL.TE on GET", get("Content-Length: 5", TE) + SPLICE, 400),
    ("CL.TE in HTTP/1.0", head("POST /buffered HTTP/1.0", "Content-Length: 5", TE) + SPLICE, 400),
]

CODINGS = [
    (f"Transfer-Encoding: {text!r}", post(f"Transfer-Encoding: {text}", body=SPLICE), status)
    for text, status in (
        ("gzip", 501), ("identity", 501), ("x", 501), ("xchunked", 501), ("chunkedx", 501),
        ("chunked, chunked", 400), ("chunked, gzip", 400), ("chunked, identity", 400),
        ("gzip, chunked", 501), ("identity, chunked", 501), (", chunked", 501), ("chunked,", 400),
        ("chunked;q=1", 501), ('"chunked"', 501), ("chun ked", 501), ("\xa0chunked", 501),
        ("\x0bchunked", 400), ("chunked\x0b", 400), ("chunked\0", 400), ("", 400),
    )
] + [
    ("TE twice", post(TE, TE, body=SPLICE), 400),
    ("TE twice, identity last", post(TE, "Transfer-Encoding: identity", body=SPLICE), 400),
    ("TE twice, identity first", post("Transfer-Encoding: identity", TE, body=SPLICE), 400),
    ("TE twice, other case", post(TE, "transfer-ENCODING: cow", body=SPLICE), 400),
    ("TE, space before the colon", post("Transfer-Encoding : chunked", body=SPLICE), 400),
    ("TE, folded", post("Transfer-Encoding:\r\n chunked", body=SPLICE), 400),
    ("TE, folded into another", post("A: b\r\n Transfer-Encoding: chunked", body=SPLICE), 400),
    ("TE behind a bare LF", post("A: b\nTransfer-Encoding: chunked", body=SPLICE), 400),
    ("TE behind a bare CR", post("A: b\rTransfer-Encoding: chunked", body=SPLICE), 400),
    ("TE in HTTP/1.0", head("POST /buffered HTTP/1.0", TE) + SPLICE, 400),
]

CHUNKS = [
    (name, chunks(body), status)
    for name, body, status in (
        ("negative chunk", b"-1\r\nhello\r\n" + SPLICE, 400),
        ("chunk with a plus", b"+5\r\nhello\r\n" + SPLICE, 400),
        ("chunk with 0x", b"0x5\r\nhello\r\n" + SPLICE, 400),
        ("chunk size that is no number", b"G\r\nhello\r\n" + SPLICE, 400),
        ("empty chunk size", b"\r\nhello\r\n" + SPLICE, 400),
        ("space before a chunk size", b" 5\r\nhello\r\n" + SPLICE, 400),
        ("space after a chunk size", b"5 \r\nhello\r\n" + SPLICE, 400),
        ("tab after a chunk size", b"5\t\r\nhello\r\n" + SPLICE, 400),
        ("underscore in a chunk size", b"0_5\r\nhello\r\n" + SPLICE, 400),
        ("LF after a chunk size", b"5\nhello\r\n" + SPLICE, 400),
        ("CR after a chunk size", b"5\rhello\r\n" + SPLICE, 400),
        ("NUL after a chunk size", b"5\0\r\nhello\r\n" + SPLICE, 400),
        ("chunk size of 65 bits", b"10000000000000005\r\nhello\r\n" + SPLICE, 400),
        ("chunk size of 20 digits", b"F" * 20 + b"\r\nhello\r\n" + SPLICE, 400),
        ("chunk shorter than said", b"5\r\nhi\r\n" + SPLICE, 400),
        ("chunk longer than said", b"5\r\nhello you\r\n" + SPLICE, 400),
        ("chunk without its CRLF", b"5\r\nhello" + SPLICE, 400),
        ("LF after a chunk", b"5\r\nhello\n" + SPLICE, 400),
        ("CR after a chunk", b"5\r\nhello\r0\r\n\r\n", 400),
        ("LF after the last chunk size", b"0\n\r\n", 400),
        ("LF as the end", b"0\r\n\n", 400),
        ("two bytes behind the end", b"0\r\nXX", 400),
        ("NUL in an extension", b"5;a=\0\r\nhello\r\n" + SPLICE, 400),
        ("control byte in an extension", b"5;a=\x01\r\nhello\r\n" + SPLICE, 400),
        ("LF in an extension", b"5;a\nb\r\nhello\r\n" + SPLICE, 400),
        ("CR in an extension", b"5;a\rb\r\nhello\r\n" + SPLICE, 400),
        ("an extension of 300 bytes", b"5;a=" + b"b" * 300 + b"\r\nhello\r\n" + SPLICE, 400),
        ("an endless extension", b"5;a=" + b"b" * 100000, 400),
        ("an endless row of zeros", b"0" * 100000, 400),
        ("chunk size behind 300 zeros", b"0" * 300 + b"5\r\nhello\r\n" + SPLICE, 400),
        ("trailers of 9 kB", b"0\r\nA: " + b"b" * 9000 + b"\r\n\r\n", 431),
        ("endless trailers", b"0\r\n" + b"A: b\r\n" * 20000, 431),
        ("folded trailer", b"0\r\nA: b\r\n c\r\n\r\n", 400),
        ("trailer without a colon", b"0\r\nnonsense\r\n\r\n", 400),
        ("space before a trailer's colon", b"0\r\nA : b\r\n\r\n", 400),
        ("LF after a trailer", b"0\r\nA: b\n\r\n", 400),
        ("NUL in a trailer", b"0\r\nA: b\0\r\n\r\n", 400),
        ("chunks of 2 MB", chunked(*[b"x" * 65536] * 32), 413),
        ("one chunk of 2 GB", b"7fffffff\r\n" + b"x" * 2000000, 413),
    )
]

# Framing that is understood, so that the connection may live on, or must not.
BODIES = [
    ("chunks where there is no body", get(TE) + chunked(b"hello"), 413),
    ("a body that is too large", post(f"Content-Length: {1 << 21}"), 413),
    ("a body of 2^63-1 bytes", post(f"Content-Length: {(1 << 63) - 1}"), 413),
    ("a body of 2^63 bytes", post(f"Content-Length: {1 << 63}"), 400),
    ("a body of 2^64-1 bytes", post(f"Content-Length: {(1 << 64) - 1}"), 400),
    ("a streamed body that is too large",
     head("POST /limited HTTP/1.1", "Content-Length: 1048577"), 413),
    ("streamed chunks that are too large",
     head("POST /limited HTTP/1.1", TE) + chunked(*[b"x" * 65536] * 17), 413),
]

WS = ["Upgrade: websocket", "Connection: Upgrade"]
KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
V13 = "Sec-WebSocket-Version: 13"


def ws(*headers, version="1.1", method="GET"):
    return head(f"{method} /ws HTTP/{version}", *headers)


# Well-formed requests that get an error, on a connection that goes on.
KEPT = [
    ("unknown path", line("GET /nope HTTP/1.1"), 404),
    ("the root", line("GET / HTTP/1.1"), 404),
    ("slash at the end", line("GET /ok/ HTTP/1.1"), 404),
    ("two slashes", line("GET //ok HTTP/1.1"), 404),
    ("other case", line("GET /OK HTTP/1.1"), 404),
    ("dots are not resolved", line("GET /x/../ok HTTP/1.1"), 404),
    ("encoded letters of a word", line("GET /%6fk HTTP/1.1"), 404),
    ("unknown method on an unknown path", line("PROPFIND /nope HTTP/1.1"), 404),
    ("OPTIONS of the server", line("OPTIONS * HTTP/1.1"), 404),
    ("a method that we do not route", line("PROPFIND /ok HTTP/1.1"), 405),
    ("a method that nobody knows", line("BREW /ok HTTP/1.1"), 405),
    ("a lower-case method", line("get /ok HTTP/1.1"), 405),
    ("a body where there is none", get("Content-Length: 5") + b"hello", 413),
    ("TRACE", line("TRACE /ok HTTP/1.1"), 405),
    ("POST where GET is", head("POST /ok HTTP/1.1", "Content-Length: 0"), 405),
    ("DELETE where GET is", line("DELETE /ok HTTP/1.1"), 405),
    ("PATCH where GET is", line("PATCH /ok HTTP/1.1"), 405),
    ("GET where POST is", line("GET /echo HTTP/1.1"), 405),
    ("bad escape", line("GET /path/%zz HTTP/1.1"), 400),
    ("half an escape", line("GET /path/%a HTTP/1.1"), 400),
    ("percent alone", line("GET /path/% HTTP/1.1"), 400),
    ("WebSocket without its headers", ws(), 426),
    ("WebSocket without Connection", ws("Upgrade: websocket", KEY, V13), 426),
    ("WebSocket without a key", ws(*WS, V13), 400),
    ("WebSocket with a short key", ws(*WS, V13, "Sec-WebSocket-Key: AAAA"), 400),
    ("WebSocket with a bad key", ws(*WS, V13, KEY.replace("A", "!", 1)), 400),
    ("WebSocket with two keys", ws(*WS, V13, KEY, KEY), 400),
    ("WebSocket version 8", ws(*WS, KEY, "Sec-WebSocket-Version: 8"), 426),
    ("WebSocket without a version", ws(*WS, KEY), 426),
    ("upgrade to something else", ws("Upgrade: h2c", "Connection: Upgrade", KEY, V13), 426),
    ("WebSocket by POST", ws(*WS, KEY, V13, method="POST"), 405),
]


def longest_head(length):
    """A head of just that many bytes."""
    empty = get("A: ")
    return empty[:-4] + b"b" * (length - len(empty)) + b"\r\n\r\n"


def send(client, data, is_whole):
    if is_whole:
        client.send_if_taken(data)
    elif len(data) > 20000:  # the first bytes one by one, then in odd pieces
        client.send_slowly(data[:500])
        client.send_slowly(data[500:], 997)
    else:
        client.send_slowly(data)


def refused(server, data, status, is_whole):
    with server.connect() as c:
        send(c, data + SMUGGLED, is_whole)
        answer = c.read("GET")
        expect(answer.status, status, "status")
        is_error(answer)
        expect((answer.header("Connection") or "").lower(), "close", "Connection")
        c.expect_end(is_reset_fine=True)


def answered(server, data, status, is_whole):
    with server.connect() as c:
        send(c, data, is_whole)
        answer = c.read("GET")
        expect(answer.status, status, "status")
        is_error(answer)
        if status == 405:
            assert answer.header("Allow"), "no Allow header"
        expect(c.get("/ok").body, b"ok\n", "the next answer")


def in_both_ways(t, server, check, name, data, status):
    t.run(f"{name}: {status}", check, server, data, status, True)
    t.run(f"{name}: {status}, byte by byte", check, server, data, status, False)


def main():
    t = Suite()
    with Testd(sys.argv[1]) as server:
        for name, data, status in REQUEST_LINES + HEADERS + LENGTHS + CODINGS + CHUNKS + BODIES:
            if data is None:
                data = longest_head(32 * 1024 + 1)
            in_both_ways(t, server, refused, name, data, status)
        for name, data, status in KEPT:
            in_both_ways(t, server, answered, name, data, status)
        t.run("no smuggled request was served", lambda: expect(server.stats()["handled"], 0))
        t.run("the server still serves", lambda: expect(Client.unix(server.socket).get("/ok").status, 200))
    t.done()


if __name__ == "__main__":
    main()
