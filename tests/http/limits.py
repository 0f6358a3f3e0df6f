#!/usr/bin/env python3
"""Clients that are slow, greedy, silent or gone: what they may cost.

    limits.py TESTD
"""

import hashlib
import os
import select
import sys
import threading
import time

from tap import (
    IS_SANITIZED, Suite, Testd, chunked, expect, head, is_error, note, require, until,
)

MB = 1024 * 1024
TE = "Transfer-Encoding: chunked"
# The sanitizers' own memory (shadow, quarantine) is not the server's.
SLACK = 400 * MB if IS_SANITIZED else 0


def kernel_buffers(port_or_path):
    """What the kernel itself may hold between two ends that do not read, both directions."""
    if isinstance(port_or_path, str):
        with open("/proc/sys/net/core/wmem_default") as f:
            return 4 * int(f.read())
    total = 0
    for name in ("tcp_wmem", "tcp_rmem"):
        with open(f"/proc/sys/net/ipv4/{name}") as f:
            total += 2 * int(f.read().split()[2])
    return total


def grown(server, before):
    """How much the server's memory grew, in bytes."""
    return server.program.rss() - before


def many_headers(binary):
    with Testd(binary) as s:
        before = s.program.rss()
        with s.connect() as c:
            c.send_if_taken(b"GET /ok HTTP/1.1\r\nHost: t\r\n" + b"".join(
                b"A%d: b\r\n" % i for i in range(100000)) + b"\r\n")
            answer = c.read()
            expect(answer.status, 431)
            is_error(answer)
            c.expect_end(is_reset_fine=True)
        require(grown(s, before) < 2 * MB + SLACK, f"grew by {grown(s, before)}")


def nested_json(binary):
    with Testd(binary) as s:
        with s.connect() as c:  # the buffer itself is no growth: fill it once
            body = b'{"name":"' + b"x" * 10 * MB + b'"}'
            expect(len(c.request("POST", "/json", body=body).body), 10 * MB)
        before = s.program.rss()
        for body in (b"[" * 10 * MB, b'{"a":' * 2 * MB, b'{"name":' + b"[" * 10 * MB):
            with s.connect() as c:
                answer = c.request("POST", "/json", body=body)
                expect(answer.status, 400)
                is_error(answer)
        require(grown(s, before) < 24 * MB + SLACK, f"grew by {grown(s, before)}")
        with s.connect() as c:
            c.send_if_taken(head("POST /buffered HTTP/1.1", f"Content-Length: {10 * MB}"))
            expect(c.read().status, 413)


def slowloris(binary):
    """2,000 heads that never end are all refused in time, and cost little meanwhile."""
    count = 2000
    with Testd(binary, "--head-ms", "1500") as s:
        before = s.program.rss()
        clients = [s.connect_tcp() for _ in range(count)]
        try:
            for c in clients:
                c.send(b"GET /ok HTTP/1.1\r\nHost: t\r\nA: ")
            begun = time.monotonic()
            for c in clients:
                c.send_if_taken(b"b")
            until(lambda: s.stats()["connections"] > count, "all to be accepted")
            during = grown(s, before)
            with s.connect() as other:
                expect(other.get("/ok").status, 200, "another client meanwhile")
            for c in clients:
                answer = c.read()
                expect(answer.status, 408)
                is_error(answer)
                c.expect_end(is_reset_fine=True)
            took = time.monotonic() - begun
        finally:
            for c in clients:
                c.close()
        until(lambda: s.stats()["connections"] == 1, "all to be gone")
        note(f"{during // count} bytes a head, {grown(s, before)} after, {took:.1f} s")
        require(during < count * 8192 + SLACK, f"{during} bytes for {count} heads")


def drip_head(binary):
    """The head's time is counted from its first byte: dripping does not prolong it."""
    with Testd(binary, "--head-ms", "300") as s, s.connect() as c:
        c.send(b"GET /ok HTTP/1.1\r\nHost: t\r\nA: ")
        begun = time.monotonic()
        while not select.select([c.sock], [], [], 0.02)[0]:
            c.send_if_taken(b"b")
            require(time.monotonic() - begun < 10, "still not refused")
        expect(c.read().status, 408)
        require(time.monotonic() - begun > 0.2, "refused too early")
        c.expect_end(is_reset_fine=True)


def slow_body(binary):
    with Testd(binary, "--body-ms", "300") as s, s.connect() as c:
        c.send(head("POST /buffered HTTP/1.1", "Content-Length: 100000"))
        begun = time.monotonic()
        while not select.select([c.sock], [], [], 0.02)[0]:
            c.send_if_taken(b"b")
            require(time.monotonic() - begun < 10, "still not refused")
        expect(c.read().status, 408)
        c.expect_end(is_reset_fine=True)


def idle(binary):
    with Testd(binary, "--idle-ms", "300") as s:
        with s.connect() as silent, s.connect() as used:
            begun = time.monotonic()
            expect(used.get("/ok").status, 200)
            used.expect_end()
            require(0.2 < time.monotonic() - begun < 10, "closed at a wrong time")
            try:
                expect(silent.read().status, 408)
            except EOFError:
                pass
        with s.connect() as c:  # an exchange is no idleness
            expect(c.get("/slow?ms=700").body, b"slow\n")
            expect(c.get("/ok").body, b"ok\n")


def never_reads(connect, server, limit):
    """Uploads to /echo without reading: the server must stop taking bytes."""
    before = server.program.rss()
    with connect() as c:
        c.send(head("POST /echo HTTP/1.1", f"Content-Length: {1 << 40}"))
        c.sock.setblocking(False)
        block, sent, last = bytes(65536), 0, time.monotonic()
        while time.monotonic() - last < 0.5:  # no byte was taken for that long
            if select.select([], [c.sock], [], 0.1)[1]:
                try:
                    sent += c.sock.send(block)
                    last = time.monotonic()
                except BlockingIOError:
                    pass
            require(sent < 256 * MB, "the server takes whatever it is given")
        growth = grown(server, before)
        with server.connect() as other:
            expect(other.get("/ok").status, 200, "another client meanwhile")
    note(f"{sent} bytes were taken ({limit} may stand in the kernel), memory grew by {growth}")
    require(sent <= MB + limit, f"{sent} bytes taken")
    require(growth < 2 * MB + SLACK, f"memory grew by {growth}")
    until(lambda: server.stats()["connections"] == 1, "the connection to end")


def never_reads_unix(binary):
    with Testd(binary) as s:
        never_reads(s.connect, s, kernel_buffers(s.socket))


def never_reads_tcp(binary):
    with Testd(binary) as s:
        never_reads(s.connect_tcp, s, kernel_buffers(s.port))


def never_reads_download(binary):
    """An endless answer to a client that does not read waits in the kernel, not in the server."""
    with Testd(binary) as s:
        before = s.program.rss()
        clients = [s.connect() for _ in range(50)]
        for c in clients:
            c.send(head(f"GET /big?bytes={1 << 40} HTTP/1.1"))
            c.read_head()
        growth = grown(s, before)
        for c in clients:
            c.close()
        until(lambda: s.stats()["aborted"] == 50, "the producers to be told")
        note(f"{growth // 50} bytes per client that does not read")
        require(growth // 50 < 512 * 1024 + SLACK, f"{growth} bytes for 50 clients")


def write_timeout(binary):
    """A complete answer of which nothing is taken is not kept for ever."""
    with Testd(binary, "--write-ms", "300", "--idle-ms", "60000") as s, s.connect() as c:
        c.sock.setblocking(False)
        try:
            while True:
                c.sock.send(head("GET /ok HTTP/1.1") * 1000)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        until(lambda: s.stats()["connections"] == 1, "the connection to be given up", 20)


def pump(client, size, stall_at):
    """Sends `size` bytes to /echo from a thread and reads them back, with a stall on the way."""
    sent, got = hashlib.sha256(), hashlib.sha256()
    block = os.urandom(MB)

    def send():
        client.sock.sendall(head("POST /echo HTTP/1.1", f"Content-Length: {size}"))
        for _ in range(size // MB):
            client.sock.sendall(block)
            sent.update(block)

    sender = threading.Thread(target=send)
    sender.start()
    expect(client.read_head().status, 200)
    total, is_stalled = 0, False
    while data := client.read_chunk():
        got.update(data)
        total += len(data)
        if total > stall_at and not is_stalled:
            is_stalled = True
            time.sleep(0.5)
    sender.join()
    expect(total, size, "bytes")
    expect(got.hexdigest(), sent.hexdigest(), "sha256")


def echo_exact(binary):
    with Testd(binary) as s:
        for connect in (s.connect, s.connect_tcp):
            before = s.program.rss()
            with connect() as c:
                pump(c, 64 * MB, 10 * MB)
                expect(c.get("/ok").body, b"ok\n", "the next answer")
            require(grown(s, before) < 2 * MB + SLACK, f"grew by {grown(s, before)}")


def echo_chunked(binary):
    data = os.urandom(3 * MB)
    with Testd(binary) as s, s.connect() as c:
        body = chunked(*[data[i : i + 7777] for i in range(0, len(data), 7777)])
        sender = threading.Thread(target=c.send, args=(head("POST /echo HTTP/1.1", TE) + body,))
        sender.start()
        answer = c.read()
        sender.join()
        require(answer.body == data, "the bytes differ")
        expect(c.get("/ok").body, b"ok\n", "the next answer")


def big_exact(binary):
    size = 200 * MB
    block = bytes(i % 251 for i in range(251 * 4096))
    with Testd(binary) as s, s.connect_tcp() as c:
        before = s.program.rss()
        c.send(head(f"GET /big?bytes={size} HTTP/1.1"))
        expect(c.read_head().status, 200)
        total = 0
        while data := c.read_chunk():
            offset = total % 251
            require(block[offset : offset + len(data)] == data, f"bytes differ near {total}")
            total += len(data)
            if total % 7 == 0 and total < 4 * MB:
                time.sleep(0.01)
        expect(total, size, "bytes")
        require(grown(s, before) < 2 * MB + SLACK, f"grew by {grown(s, before)}")


def too_many(binary):
    with Testd(binary, "--connections", "20") as s:
        clients = [s.connect() for _ in range(20)]
        for c in clients:
            expect(c.get("/ok").status, 200)
        for connect in (s.connect, s.connect_tcp):
            with connect() as extra:  # curl's way: write first, then read
                extra.send(head("GET /ok HTTP/1.1"))
                expect_turned_away(extra)
            with connect() as extra:  # told before it asked; its request must not be a reset
                select.select([extra.sock], [], [])
                extra.send(head("GET /ok HTTP/1.1"))
                expect_turned_away(extra)
        clients.pop().close()
        until(lambda: s.connect().get("/ok").status == 200, "a free place")
        for c in clients:
            expect(c.get("/ok").status, 200)
            c.close()


def expect_turned_away(client):
    answer = client.read()
    expect(answer.status, 503)
    expect(answer.header("Retry-After"), "1")
    expect(answer.header("Connection"), "close")
    is_error(answer)
    client.expect_end()


def turned_away_are_few(binary):
    """Clients that were turned away and stay cost few descriptors, and not for long."""
    with Testd(binary, "--connections", "1") as s, s.connect() as only:
        expect(only.get("/ok").status, 200)
        fds = s.program.fds()
        for connect in (s.connect, s.connect_tcp):
            clients = [connect() for _ in range(300)]
            for c in clients[-64:]:
                expect(c.read().status, 503)
            require(s.program.fds() <= fds + 64, f"{s.program.fds() - fds} descriptors linger")
            until(lambda: s.program.fds() == fds, "all to be gone", 5)
            for c in clients:
                c.close()
        expect(only.get("/ok").status, 200)


def token_clients_leave_room(binary):
    """Whoever has only the TCP port cannot lock the Unix socket out."""
    for limit, spared in ((64, 16), (100, 25), (10, 5)):
        with Testd(binary, "--connections", str(limit), "--token", "t") as s:
            greedy = [s.connect_tcp() for _ in range(limit - spared)]
            for c in greedy:
                expect(c.get("/ok").status, 401)
            with s.connect_tcp() as extra:
                extra.send(head("GET /ok HTTP/1.1", "Authorization: Bearer t"))
                expect_turned_away(extra)
            trusted = [s.connect() for _ in range(spared)]
            for c in trusted:
                expect(c.get("/ok").status, 200)
            with s.connect() as extra:
                expect_turned_away(extra)
            for c in greedy + trusted:
                c.close()


def idle_without_token(binary):
    """The long idle limit is for those who have shown a token."""
    with Testd(binary, "--head-ms", "300", "--idle-ms", "60000", "--token", "t") as s:
        with s.connect_tcp() as silent, s.connect_tcp() as unknown, s.connect_tcp() as known, \
                s.connect() as trusted:
            expect(trusted.get("/ok").status, 200)
            expect(known.get("/ok", "Authorization: Bearer t").status, 200)
            expect(unknown.get("/ok", "Authorization: Bearer x").status, 401)
            silent.expect_end()
            unknown.expect_end()
            expect(known.get("/ok").status, 401, "each request needs its token")
            expect(known.get("/ok", "Authorization: Bearer t").status, 200)
            expect(trusted.get("/ok").status, 200)


def vanishing(binary):
    """A client that goes away while its handler runs is noticed at once."""
    with Testd(binary) as s:
        for connect in (s.connect, s.connect_tcp):
            for query in ("ms=60000&prompt=1", "ms=400"):
                seen = s.stats()["gone"]
                c = connect()
                c.send(head(f"GET /slow?{query} HTTP/1.1"))
                until(lambda: s.stats()["slow"] == 1, "the handler to run")
                c.close()
                until(lambda: s.stats()["gone"] == seen + 1, "the handler to be told", 5)
                until(lambda: s.stats()["slow"] == 0, "the handler to end")
        until(lambda: s.stats()["connections"] == 1, "the connections to end")


def vanishing_behind_pipeline(binary):
    """Also when the bytes of further requests wait in front of the end."""
    with Testd(binary) as s:
        c = s.connect()
        c.send(head("GET /slow?ms=60000&prompt=1 HTTP/1.1") + head("GET /ok HTTP/1.1") * 3)
        until(lambda: s.stats()["slow"] == 1, "the handler to run")
        c.close()
        until(lambda: s.stats()["gone"] == 1, "the handler to be told", 5)


def vanishing_uploads(binary):
    with Testd(binary, "--body-ms", "60000") as s:
        for path in ("/discard", "/echo", "/buffered"):
            seen = s.stats()["cut_bodies"]
            c = s.connect()
            c.send(head(f"POST {path} HTTP/1.1", "Content-Length: 100000") + b"half")
            if path == "/echo":
                expect(c.read_head().status, 200)
            c.close()
            if path != "/buffered":
                until(lambda: s.stats()["cut_bodies"] == seen + 1, f"{path} to be told", 5)
            until(lambda: s.stats()["connections"] == 1, "the connection to end")


def vanishing_readers(binary):
    with Testd(binary) as s:
        for target in (f"/big?bytes={1 << 40}", "/sse?count=1000000000&interval_ms=0",
                       "/sse?count=1000&interval_ms=1000"):
            seen = s.stats()["aborted"]
            c = s.connect()
            c.send(head(f"GET {target} HTTP/1.1"))
            c.read_head()
            c.read_chunk()
            c.close()
            until(lambda: s.stats()["aborted"] == seen + 1, f"{target} to be told", 5)
        until(lambda: s.stats()["connections"] == 1, "the connections to end")


def early_refusal(binary):
    """A client in the middle of a large upload can read why it was refused."""
    with Testd(binary) as s:
        for connect in (s.connect, s.connect_tcp):
            for line, status in (("POST /refuse HTTP/1.1", 403), ("POST /nope HTTP/1.1", 404),
                                 ("POST /buffered HTTP/1.1", 413), ("POST /ok HTTP/1.1", 405)):
                with connect() as c:
                    refuse_upload(c, line, status)
        until(lambda: s.stats()["connections"] == 1, "the connections to end")


def blind_upload(binary):
    """A client that reads only after its whole upload is not cut off by a reset."""
    body = bytes(8 * MB)
    with Testd(binary, "--linger-ms", "20000") as s:
        for connect in (s.connect, s.connect_tcp):
            for line, status in (("POST /refuse HTTP/1.1", 403), ("POST /buffered HTTP/1.1", 413)):
                with connect() as c:
                    c.send(head(line, f"Content-Length: {len(body)}"))
                    c.send(body)
                    answer = c.read()
                    expect(answer.status, status)
                    expect((answer.header("Connection") or "").lower(), "close")
                    c.expect_end()


def refuse_upload(c, line, status):
    c.send(head(line, f"Content-Length: {100 * MB}"))
    block, sent = bytes(65536), 0
    while sent < 100 * MB:
        readable, writable, _ = select.select([c.sock], [c.sock], [], 10)
        require(readable or writable, "neither read nor refused")
        if readable:
            break
        sent += c.sock.send(block)
    answer = c.read()
    expect(answer.status, status)
    is_error(answer)
    require(sent <= 16 * MB, f"{sent} bytes were sent before the refusal")


def sse_events(binary):
    with Testd(binary) as s, s.connect() as c:
        answer = c.get("/sse?count=5&interval_ms=1")
        expect(answer.status, 200)
        require((answer.header("Content-Type") or "").startswith("text/event-stream"), str(answer))
        expect(answer.header("Cache-Control"), "no-store")
        events = [e for e in answer.body.decode().split("\n\n") if e]
        expect(len(events), 5)
        for i, event in enumerate(events):
            fields = sorted(event.split("\n"))
            expect(fields, sorted(["event: tick", f"id: {i}", f"data: event {i}", "data: of 5"]))
        expect(c.get("/ok").body, b"ok\n", "the next answer")


def sse_flood(binary):
    """Many events to a slow reader: none lost, nothing piled up."""
    count = 50000 if IS_SANITIZED else 300000
    with Testd(binary) as s, s.connect() as c:
        before = s.program.rss()
        c.send(head(f"GET /sse?count={count}&interval_ms=0 HTTP/1.1"))
        c.read_head()
        time.sleep(0.2)
        growth = grown(s, before)
        events = 0
        while data := c.read_chunk():
            events += data.count(b"event: tick\n")
        expect(events, count, "events")
        require(growth < 2 * MB + SLACK, f"grew by {growth}")


def sse_heartbeats(binary):
    """A comment goes out when there is nothing to say, and only then."""
    with Testd(binary) as s, s.connect() as c:
        c.send(head("GET /sse?count=1&interval_ms=1000&heartbeat_ms=100 HTTP/1.1"))
        c.read_head()
        text = b""
        while part := c.read_chunk():
            text += part
        beats = text.count(b": \n\n")
        require(2 <= beats <= 12, f"{beats} heartbeats")
        require(text.startswith(b": \n\n" * beats + b"id: 0\n"), f"got {text!r}")


def at_once(binary):
    """Events are not held back until there are more of them."""
    with Testd(binary) as s, s.connect() as c:
        c.send(head("GET /sse?count=2&interval_ms=2000 HTTP/1.1"))
        c.read_head()
        require(b"id: 0" in c.read_chunk(), "the first event")
        begun = time.monotonic()
        require(b"id: 1" in c.read_chunk(), "the second event")
        require(time.monotonic() - begun > 0.5, "the first event was held back")


def drains(binary):
    """SIGTERM: idle connections end, an exchange under way is finished, exit code 0."""
    with Testd(binary) as s:
        idle_one, busy = s.connect(), s.connect()
        expect(idle_one.get("/ok").status, 200)
        busy.send(head("GET /slow?ms=600 HTTP/1.1"))
        until(lambda: s.stats()["slow"] == 1, "the handler to run")
        s.program.process.terminate()
        idle_one.expect_end()
        try:
            s.connect()
            raise AssertionError("it still accepts")
        except (ConnectionRefusedError, FileNotFoundError):
            pass
        answer = busy.read()
        expect(answer.body, b"slow\n")
        expect((answer.header("Connection") or "").lower(), "close")
        busy.expect_end()
        expect(s.program.wait(), 0, "exit code")


def drains_with_grace(binary):
    """What does not end within the grace is cut; the handler is told."""
    with Testd(binary, "--grace-ms", "200") as s, s.connect() as c:
        c.send(head(f"GET /big?bytes={1 << 40} HTTP/1.1"))
        c.read_head()
        s.program.process.terminate()
        expect(s.program.wait(10), 0, "exit code")


def leaks_nothing(binary):
    """Many short connections of every kind leave no memory and no descriptors behind."""
    with Testd(binary) as s:
        def round_of(count):
            for _ in range(count):
                with s.connect() as c:
                    c.get("/ok")
                    c.request("POST", "/buffered", body=b"x" * 1000)
                with s.connect() as c:
                    c.send(b"GET")
                with s.connect() as c:
                    c.send(b"nonsense\r\n\r\n")
                    c.read()
                s.connect().close()
            until(lambda: s.stats()["connections"] == 1, "the connections to end")

        round_of(300)
        before = s.program.rss()
        round_of(2000)
        note(f"8,000 connections: memory grew by {grown(s, before)}")
        require(grown(s, before) < MB + SLACK, f"grew by {grown(s, before)}")


CASES = [
    ("[40] 100k headers are refused", many_headers),
    ("[40] 10 MB of nested JSON is refused", nested_json),
    ("[40] slowloris with 2,000 sockets", slowloris),
    ("a head that drips", drip_head),
    ("a buffered body that drips", slow_body),
    ("idle connections are closed", idle),
    ("an upload to a client that never reads stops (Unix)", never_reads_unix),
    ("an upload to a client that never reads stops (TCP)", never_reads_tcp),
    ("downloads that nobody reads stop", never_reads_download),
    ("answers that nobody takes are given up", write_timeout),
    ("64 MB through /echo with a stall: exact", echo_exact),
    ("chunks through /echo: exact", echo_chunked),
    ("200 MB from /big: exact", big_exact),
    ("the connection limit answers 503", too_many),
    ("clients turned away do not pile up", turned_away_are_few),
    ("TCP clients leave room for the Unix socket", token_clients_leave_room),
    ("without a token idle time is short", idle_without_token),
    ("a client that vanishes is noticed", vanishing),
    ("a client that vanishes behind pipelined requests", vanishing_behind_pipeline),
    ("uploads that break off", vanishing_uploads),
    ("readers that break off", vanishing_readers),
    ("early refusal of 100 MB uploads", early_refusal),
    ("refusal of an upload that is sent blindly", blind_upload),
    ("server-sent events", sse_events),
    ("a flood of events", sse_flood),
    ("heartbeats fill the silence", sse_heartbeats),
    ("events are sent at once", at_once),
    ("SIGTERM drains", drains),
    ("SIGTERM cuts after the grace", drains_with_grace),
    ("connections leave nothing behind", leaks_nothing),
]


def main():
    binary, wanted = sys.argv[1], sys.argv[2:]
    t = Suite()
    for name, function in CASES:
        if not wanted or function.__name__ in wanted:
            t.run(name, function, binary)
    t.done()


if __name__ == "__main__":
    main()
