"""Answers that no proxy may pass on, or not as they are: (name, bytes, what the client may see).

    BAD     a page that says 502, and nothing of what was said inside
    CUT     an answer that has begun and visibly does not end
    a body  a whole answer with just that body; what follows it inside is dropped
"""

BAD, CUT = "bad", "cut"
OK = "HTTP/1.1 200 OK\r\n"
TE = "Transfer-Encoding: chunked\r\n"
POISON = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"


def answer(*headers, body="", status="200 OK", version="HTTP/1.1"):
    return f"{version} {status}\r\n" + "".join(h + "\r\n" for h in headers) + "\r\n" + body


def sized(text, body="hello"):
    return answer(f"Content-Length: {text}", body=body)


def chunks(body):
    return OK + TE + "\r\n" + body


def line(text):
    return text + "\r\nContent-Length: 5\r\n\r\nhello"


STATUS_LINES = [(f"status line {text!r}", line(text), BAD) for text in (
    "HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 2", "HTTP/1.1 20", "HTTP/1.1 000 x", "HTTP/1.1 099 x", "HTTP/1.1 99 x",
    "HTTP/1.1 1000 x", "HTTP/1.1 200x", "HTTP/1.1 +20 x", "HTTP/1.1 -20 x", "HTTP/1.1 2 0 x", "HTTP/1.1  200 OK",
    "HTTP/1.1\t200 OK", " HTTP/1.1 200 OK", "http/1.1 200 OK", "HTTP/1.2 200 OK", "HTTP/2.0 200 OK", "HTTP/2 200 OK",
    "HTTP/0.9 200 OK", "HTTP/11 200 OK", "HTTP/1.1 200 O\0K", "HTTP/1.1 200 O\rK", "HTTP/1.1 200 \x1b[2J", "HTTP/1.1 200 \x7f",
    "ICY 200 OK", "200 OK", "", "<html>", "SSH-2.0-OpenSSH_9.2", "+OK", "GET / HTTP/1.1")]

HEADERS = [
    ("much in answers of 1xx", answer("Link: " + "a" * 6000, status="103 Early Hints") * 8 + sized(5), BAD),
    ("obs-fold", answer("A: b", " c", "Content-Length: 5", body="hello"), BAD),
    ("obs-fold by a tab", answer("A: b", "\tc", "Content-Length: 5", body="hello"), BAD),
    ("a folded length", answer("Content-Length:", " 5", body="hello"), BAD),
    ("the first header is folded", answer(" A: b", "Content-Length: 5", body="hello"), BAD),
    ("no colon", answer("nonsense", "Content-Length: 5", body="hello"), BAD),
    ("no name", answer(": x", "Content-Length: 5", body="hello"), BAD),
    ("space before a colon", answer("Content-Length : 5", body="hello"), BAD),
    ("tab before a colon", answer("A\t: b", "Content-Length: 5", body="hello"), BAD),
    ("NUL in a name", answer("A\0B: c", "Content-Length: 5", body="hello"), BAD),
    ("high byte in a name", answer("A\xe9: c", "Content-Length: 5", body="hello"), BAD),
    ("NUL in a value", answer("A: b\0c", "Content-Length: 5", body="hello"), BAD),
    ("CR in a value", answer("A: b\rSet-Cookie: x=y", "Content-Length: 5", body="hello"), BAD),
    ("LF in a value", answer("A: b\nSet-Cookie: x=y", "Content-Length: 5", body="hello"), BAD),
    ("escape in a value", answer("A: \x1b[2J", "Content-Length: 5", body="hello"), BAD),
    ("DEL in a value", answer("A: \x7f", "Content-Length: 5", body="hello"), BAD),
    ("bare LF everywhere", (OK + "Content-Length: 5\r\n\r\nhello").replace("\r\n", "\n"), BAD),
    ("bare CR everywhere", (OK + "Content-Length: 5\r\n\r\nhello").replace("\r\n", "\r") + "\r\n\r\n", BAD),
    ("bare LF as the empty line", OK + "Content-Length: 5\r\n\nhello", BAD),
    ("CR CR LF", OK + "Content-Length: 5\r\r\n\r\nhello", BAD),
    ("an empty line in front", "\r\n" + sized(5), BAD),
    ("101 headers", answer(*[f"A{i}: b" for i in range(100)], "Content-Length: 5", body="hello"), BAD),
    ("a header of 40 kB", answer("A: " + "b" * 40000, "Content-Length: 5", body="hello"), BAD),
    ("a name of 40 kB", answer("A" * 40000 + ": b", "Content-Length: 5", body="hello"), BAD),
    ("a reason of 40 kB", answer("Content-Length: 5", body="hello", status="200 " + "x" * 40000), BAD),
    ("a head that never ends", OK + "A: b\r\n" * 8000, BAD),
    ("Connection names 40 headers", answer("Connection: " + ", ".join(f"a{i}" for i in range(40)), "Content-Length: 5", body="hello"), BAD),
]

FRAMING = [(f"Content-Length: {text!r}", sized(text), BAD) for text in (
    "+5", "-1", "5 5", "5,5", "5, 5", "0x5", "5a", "", "1e1", "5.0", "\x0b5", "\xb2", "9223372036854775808",
    "18446744073709551621", "99999999999999999999999999")] + [
    (f"Transfer-Encoding: {text!r}", answer(f"Transfer-Encoding: {text}", body="5\r\nhello\r\n0\r\n\r\n"), BAD) for text in (
        "gzip", "identity", "xchunked", "chunked, chunked", "gzip, chunked", "chunked, identity", ", chunked", "chunked;q=1",
        '"chunked"', "\x0bchunked", "")] + [
    ("CL.TE", answer("Content-Length: 6", TE[:-2], body="0\r\n\r\nG"), BAD),
    ("TE.CL", answer(TE[:-2], "Content-Length: 4", body="5c\r\n0\r\n\r\n"), BAD),
    ("CL.TE that agree", answer("Content-Length: 5", TE[:-2], body="0\r\n\r\n"), BAD),
    ("two lengths, the same", answer("Content-Length: 5", "Content-Length: 5", body="hello"), BAD),
    ("two lengths, different", answer("Content-Length: 5", "content-length: 50", body="hello"), BAD),
    ("two codings", answer(TE[:-2], TE[:-2], body="0\r\n\r\n"), BAD),
    ("TE in HTTP/1.0", answer(TE[:-2], body="5\r\nhello\r\n0\r\n\r\n", version="HTTP/1.0"), BAD),
    ("204 with a length", answer("Content-Length: 5", body="hello", status="204 No Content"), BAD),
    ("204 with chunks", answer(TE[:-2], body="5\r\nhello\r\n0\r\n\r\n", status="204 No Content"), BAD),
    ("100 with a length", answer("Content-Length: 5", body="hello", status="100 Continue") + sized(5), BAD),
    ("103 with chunks", answer(TE[:-2], body="5\r\nhello\r\n0\r\n\r\n", status="103 Early Hints") + sized(5), BAD),
    ("101 that nobody asked for", answer("Connection: Upgrade", "Upgrade: websocket", status="101 Switching Protocols") + POISON, BAD),
    ("101 as plain as that", answer(status="101 x") + POISON, BAD),
    ("1,000 answers of 1xx", answer(status="102 Processing") * 1000 + sized(5), BAD),
    ("1,000 answers of 100", answer(status="100 Continue") * 1000 + sized(5), BAD),
]

BODIES = [
    ("a negative chunk", chunks("-1\r\nhello\r\n0\r\n\r\n"), CUT),
    ("a chunk with 0x", chunks("0x5\r\nhello\r\n0\r\n\r\n"), CUT),
    ("a chunk size that is no number", chunks("G\r\nhello\r\n0\r\n\r\n"), CUT),
    ("an empty chunk size", chunks("\r\nhello\r\n0\r\n\r\n"), CUT),
    ("space behind a chunk size", chunks("5 \r\nhello\r\n0\r\n\r\n"), CUT),
    ("a chunk size of 65 bits", chunks("10000000000000005\r\nhello\r\n0\r\n\r\n"), CUT),
    ("a chunk longer than said", chunks("3\r\nhello\r\n0\r\n\r\n"), CUT),
    ("a chunk shorter than said", chunks("7\r\nhello\r\n0\r\n\r\n"), CUT),
    ("LF behind a chunk size", chunks("5\nhello\r\n0\r\n\r\n"), CUT),
    ("LF behind a chunk", chunks("5\r\nhello\n0\r\n\r\n"), CUT),
    ("LF as the end", chunks("5\r\nhello\r\n0\r\n\n"), CUT),
    ("an endless extension", chunks("5;" + "a" * 70000), CUT),
    ("NUL in an extension", chunks("5;a=\0\r\nhello\r\n0\r\n\r\n"), CUT),
    ("an answer behind the last chunk's size", chunks("5\r\nhello\r\n0\r\n" + POISON), CUT),
    ("trailers of 9 kB", chunks("5\r\nhello\r\n0\r\nA: " + "b" * 9000 + "\r\n\r\n"), CUT),
    ("a folded trailer", chunks("5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n"), CUT),
    ("a trailer without a colon", chunks("5\r\nhello\r\n0\r\nnonsense\r\n\r\n"), CUT),
    ("NUL in a trailer", chunks("5\r\nhello\r\n0\r\nA: \0\r\n\r\n"), CUT),
]

# These close their connection.
ENDS = [
    ("nothing at all", "", BAD),
    ("the end within the status line", "HTTP/1.1 20", BAD),
    ("the end within a header", OK + "Content-Le", BAD),
    ("the end before the empty line", OK + "Content-Length: 5\r\n", BAD),
    ("the end behind an answer of 1xx", answer(status="102 Processing"), BAD),
    ("the end within a sized body", sized(50), CUT),
    ("the end before a sized body", sized(50, ""), CUT),
    ("the end within a chunk's size", chunks("5\r\nhello\r\n5"), CUT),
    ("the end within a chunk", chunks("5\r\nhello\r\n5\r\nhel"), CUT),
    ("the end behind a chunk", chunks("5\r\nhello\r\n"), CUT),
    ("the end before the last CRLF", chunks("5\r\nhello\r\n0\r\n"), CUT),
    ("the end within a trailer", chunks("5\r\nhello\r\n0\r\nA: b"), CUT),
]

# Well-formed in the beginning; what comes behind it is for nobody.
BEHIND = [
    ("an answer behind a sized one", sized(5) + POISON, "hello"),
    ("an answer behind chunks", chunks("5\r\nhello\r\n0\r\n\r\n") + POISON, "hello"),
    ("an answer behind an empty one", sized(0, "") + POISON, ""),
    ("a byte behind a sized one", sized(5) + "x", "hello"),
    ("CRLF behind a sized one", sized(5) + "\r\n", "hello"),
    ("an answer behind 204", answer(status="204 No Content") + POISON, ""),
    ("a body behind 204", answer(body="hello", status="204 No Content"), ""),
    ("a body behind 304", answer("Content-Length: 5", body="hello", status="304 Not Modified"), ""),
    ("chunks behind 304", answer(TE[:-2], body="5\r\nhello\r\n0\r\n\r\n", status="304 Not Modified"), ""),
    ("many answers", sized(5) + POISON * 100, "hello"),
    ("answers of 1xx in front", answer("Link: </a>", status="103 Early Hints") * 3 + sized(5) + POISON, "hello"),
]

KEPT = STATUS_LINES + HEADERS + FRAMING + BODIES
