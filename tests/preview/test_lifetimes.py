"""Visits that are under way when something ends: the port, the sandbox, its init, berthd, or the visitor."""

import json
import os
import signal
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import IS_SANITIZED, Peak, TIMEOUT, at_once, check, equal, fds_of, main, until  # noqa: E402
from preview_api import connect, serve, start_preview, visit  # noqa: E402
from tap import Client, head  # noqa: E402

MB = 1024 * 1024
PATTERN = bytes(range(256)) * 256
MANY = 500


class Visit:
    """One that is under way when this returns."""

    def __init__(self, g, exposed, *lines, body=b""):
        self.client = Client.tcp(g.preview)
        self.client.sock.settimeout(TIMEOUT)
        lines = lines if "Connection: Upgrade" in lines else (*lines, "Connection: close")
        self.client.send(head(*lines, host=f"Host: {exposed['hostname']}") + body)

    def begin(self, status):
        equal(self.client.read_head().status, status, "status")
        return self

    def end(self):
        """What still comes, until the end that must come."""
        size = len(self.client.pending)
        try:
            while data := self.client.sock.recv(1 << 20):
                size += len(data)
        except ConnectionResetError:
            pass
        self.client.close()
        return size


def all_kinds(g, exposed):
    """A request that waits, a download nobody reads, an upload that stands still, an upgraded connection."""
    upload = Visit(g, exposed, "POST /seen HTTP/1.1", f"Content-Length: {1 << 30}", body=b"x" * MB)
    chunks = Visit(g, exposed, "POST /echo HTTP/1.1", "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n").begin(200)
    tunnel = Visit(g, exposed, "GET /upgrade HTTP/1.1", "Connection: Upgrade", "Upgrade: upper", body=b"abc").begin(101)
    equal(tunnel.client.read_exactly(3), b"ABC", "tunnel")
    visits = [
        Visit(g, exposed, "POST /hold/1000 HTTP/1.1"),  # GET may be asked again
        Visit(g, exposed, f"GET /bytes/{1 << 30} HTTP/1.1").begin(200),
        Visit(g, exposed, f"GET /close/{1 << 30} HTTP/1.1").begin(200),
        Visit(g, exposed, "GET /sse HTTP/1.1").begin(200),
        upload, chunks, tunnel,
    ]
    equal(visit(g, exposed).body, b"hello\n", "one that is kept")
    return visits


def all_end(visits):
    for v in visits:
        check(v.end() < 1 << 30, "it looks complete")


def figures(g, port=8000):
    """Of that port, by their names without berth_port_."""
    found = {}
    for line in g.get("/metrics").body.decode().splitlines():
        if line.startswith("berth_port_") and f'port="{port}"' in line:
            name, _, value = line.removeprefix("berth_port_").partition(" ")
            key = name.partition("{")[0] + (name.partition('class="')[2][:4].rstrip('"}'))
            found[key] = int(value)
    return found


def test_port_deleted(g):
    """The port is taken back."""
    start_preview(g)
    for port in (8000, 8001, 8002):
        exposed = serve(g, port=port)
        before = fds_of(g.berthd.pid)
        visits = all_kinds(g, exposed)
        equal(g.request("DELETE", f"/v1/sandbox/a/port/{port}").status, 204, "delete")
        all_end(visits)
        equal(visit(g, exposed).status, 404, "not exposed")
        until(lambda: fds_of(g.berthd.pid) <= before + 1, "descriptors")
        until(lambda: not [h for h in g.sandbox("a")["holds"] if h["kind"] == "preview"], "holds")


def test_sandbox_deleted(g):
    """The sandbox is destroyed."""
    start_preview(g)
    before = fds_of(g.berthd.pid)
    for name in ("a", "b", "a"):
        exposed = serve(g, name)
        visits = all_kinds(g, exposed)
        equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
        all_end(visits)
        equal(visit(g, exposed).status, 410, "gone")
        until(lambda: fds_of(g.berthd.pid) <= before + 1, "descriptors")


def test_init_killed(g):
    """Its init is killed: each sees an end, and the next request starts it again."""
    start_preview(g)
    exposed = serve(g, autostart=True)
    before = fds_of(g.berthd.pid)
    for _ in range(2):
        visits = all_kinds(g, exposed)
        generation = g.sandbox("a")["generation"]
        for pid in g.inits():
            os.kill(pid, signal.SIGKILL)
        all_end(visits)
        equal(visit(g, exposed).body, b"hello\n", "again")
        equal(g.sandbox("a")["generation"], generation + 1, "one new life")
        until(lambda: figures(g)["open"] == 0, "visits to end")
        until(lambda: fds_of(g.berthd.pid) <= before + 3, "descriptors")


def test_stopped(g):
    """The sandbox is stopped, also while others come."""
    start_preview(g)
    exposed = serve(g, autostart=True)
    for _ in range(3):
        visits = all_kinds(g, exposed)
        at_once(8, lambda i: g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}) if i == 0 else visit(g, exposed))
        all_end(visits)
        equal(visit(g, exposed).body, b"hello\n", "again")
    until(lambda: figures(g)["open"] == 0, "visits to end")


def test_server_killed(g):
    """The server alone dies: each sees an end, what is cut looks so, and nothing of it is kept."""
    start_preview(g)
    exposed = serve(g)
    visits = all_kinds(g, exposed)
    kept = Visit(g, exposed, "GET /hold/1000 HTTP/1.1")
    time.sleep(1.5)
    g.exec("a", ["pkill", "-9", "-f", "inside.py"])
    all_end(visits)
    answer = kept.client.read()
    equal(answer.status, 502, answer)
    check(b"without an answer" in answer.body, "it was asked again:", answer)
    kept.end()
    equal(visit(g, exposed).status, 502, "nobody listens")
    until(lambda: figures(g)["open"] == 0, "visits to end")


def test_berthd_stopped(g):
    """berthd is stopped: it waits as long as it was told, ends well, and leaves the sandbox alone."""
    config = g.path("config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"drain": "1s"}, file)
    os.chmod(config, 0o644)
    start_preview(g, "--config", config)
    exposed = serve(g)
    for _ in range(2):
        visits = all_kinds(g, exposed)
        g.berthd.terminate()
        all_end(visits)
        equal(g.berthd.wait(TIMEOUT), 0, "exit code")
        start_preview(g, "--config", config)
        equal(visit(g, exposed).body, b"hello\n", "the server lived on")
    # One that waits for a sandbox to come up.
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    waiting = [Visit(g, exposed, "GET /hello HTTP/1.1") for _ in range(20)]
    g.berthd.terminate()
    g.berthd.terminate()
    all_end(waiting)
    equal(g.berthd.wait(TIMEOUT), 0, "exit code")
    start_preview(g, "--config", config)


def test_storm(g):
    """200 visits at once to one that sleeps start it once."""
    start_preview(g)
    exposed = serve(g, autostart=True)
    for generation in (2, 3):
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
        bodies = at_once(200, lambda i: visit(g, exposed).body)
        equal(set(bodies), {b"hello\n"}, "answers")
        equal(g.sandbox("a")["generation"], generation, "starts")
    until(lambda: figures(g)["open"] == 0, "visits to end")
    counts = figures(g)
    equal((counts["requests_total"], counts["responses_total2xx"]), (400, 400), counts)


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_leaving(g):
    """Visitors that go away while it starts, while they wait, upload or download: nothing of them is left."""
    start_preview(g)
    exposed = serve(g, autostart=True)
    before = fds_of(g.berthd.pid)
    for round_ in range(3):
        if round_ < 2:
            equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
        for i in range(60):
            sock = connect(g)
            lines = [("GET /hello HTTP/1.1",), ("GET /hold/1000 HTTP/1.1",), ("GET /bytes/1000000000 HTTP/1.1",),
                     ("POST /seen HTTP/1.1", "Content-Length: 1000000"),
                     ("GET /upgrade HTTP/1.1", "Connection: Upgrade", "Upgrade: upper")][i % 5]
            sock.sendall(head(*lines, host=f"Host: {exposed['hostname']}") + b"x" * (i * 100))
            if i % 3 == 0:
                time.sleep(0.01)
            reset(sock) if i % 2 else sock.close()
        equal(visit(g, exposed).body, b"hello\n", "who stays")
    until(lambda: figures(g)["open"] == 0, "visits to end")
    until(lambda: not [h for h in g.sandbox("a")["holds"] if h["kind"] == "preview"], "holds")
    until(lambda: fds_of(g.berthd.pid) <= before + 4, "descriptors")


def test_slow(g):
    """A client that reads slowly gets every byte, and so does a server that does; half-closed or not."""
    start_preview(g)
    exposed = serve(g)
    size = 4 * MB
    with Peak(g.berthd.pid) as peak:
        with Client.tcp(g.preview, rcvbuf=4096) as c:
            c.send(head(f"GET /bytes/{size} HTTP/1.1", host=f"Host: {exposed['hostname']}"))
            equal(c.read_head().status, 200, "status")
            got = bytearray(c.pending)
            while len(got) < size:
                if len(got) < 64 * 1024:
                    time.sleep(0.005)
                got += c.sock.recv(4096 if len(got) < 64 * 1024 else 65536)
            check(bytes(got) == (PATTERN * (size // len(PATTERN) + 1))[:size], "bytes")

        def stall(i):  # of these, some end where all between the two is just full
            v = Visit(g, exposed, "GET /stall/4 HTTP/1.1", "Connection: Upgrade", "Upgrade: upper").begin(101)
            sent = (i + 1) * 64 * 1024
            v.client.send(b"x" * sent)
            v.client.sock.shutdown(socket.SHUT_WR)
            equal(v.client.sock.recv(100), str(sent).encode(), "all of it came, and then its end")
            v.client.close()
        at_once(80, stall)
    check(IS_SANITIZED or peak.most < 64 * MB, "berthd held", peak.most)
    until(lambda: figures(g)["open"] == 0, "visits to end")


def test_idle(g):
    """Many upgraded connections, silent, and then the sandbox is deleted."""
    start_preview(g)
    exposed = serve(g)
    before = fds_of(g.berthd.pid)
    tunnels = [Visit(g, exposed, "GET /upgrade HTTP/1.1", "Connection: Upgrade", "Upgrade: upper") for _ in range(MANY)]
    for v in tunnels:
        v.begin(101)
    equal(figures(g)["open"], MANY, "open")
    equal(visit(g, exposed).body, b"hello\n", "another")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    for v in tunnels:
        equal(v.end(), 0, "its end")
    until(lambda: fds_of(g.berthd.pid) <= before + 1, "descriptors")


if __name__ == "__main__":
    main([test_port_deleted, test_sandbox_deleted, test_init_killed, test_stopped, test_server_killed, test_berthd_stopped,
          test_storm, test_leaving, test_slow, test_idle], lambda test: False)
