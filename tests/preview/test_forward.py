"""`berth forward ID PORT[:LOCAL]` against real sandboxes."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from port_api import await_state, block, ended, exchange, put, serve, sha, sleep, state  # noqa: E402
from ground import at_once, check, equal, fds_of, main, until  # noqa: E402

MIB = 1 << 20
WAIT = 120


class Forward:
    """A `berth forward` that runs. What it said on stdout first is in .line."""

    def __init__(self, g, *args, url=None, token=None):
        env = {**os.environ, "BERTH_SOCKET": g.socket}
        if url:
            env = {**os.environ, "BERTH_URL": url, "BERTH_TOKEN": token}
        self.process = subprocess.Popen([os.path.abspath(os.path.join(g.build, "berth")), "forward", *args], env=env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.line = self.process.stdout.readline().decode()
        found = re.search(r"127\.0\.0\.1:(\d+)", self.line)
        check(found or self.process.wait(WAIT), self.line, args)
        self.port = int(found[1]) if found else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT)

    def end(self, number=signal.SIGINT):
        """Its exit code, and what it said on stderr."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=WAIT)
        return self.process.returncode, said.decode()

    def failed(self, code):
        equal(self.process.wait(WAIT), code, "its exit code")
        return self.process.stderr.read().decode()


def rest(sock):
    return b"".join(iter(lambda: sock.recv(MIB), b""))


def test_echo(g):
    """Bytes both ways, byte for byte, for as many as come; Ctrl-C ends it."""
    port, data = serve(g, "a", "echo"), block(32 * MIB)
    with Forward(g, "a", f"{port}:0") as f:
        equal(f.line, f"port {port} of a is 127.0.0.1:{f.port} here, until Ctrl-C\n", "what it says")
        with f.connect() as sock:
            check(exchange(sock, data) == data, "not what was sent")
        before = fds_of(f.process.pid)

        def one(i):
            with f.connect() as sock:
                return exchange(sock, block(200000, i)) == block(200000, i)
        equal(set(at_once(100, one)), {True}, "many at once")
        until(lambda: fds_of(f.process.pid) <= before, "nothing of them is left")
        with f.connect() as sock:
            sock.sendall(b"x")
            equal(sock.recv(1), b"x", "one that is open at the end")
            equal(f.end(), (130, ""), "Ctrl-C")
            equal(sock.recv(1), b"", "is closed")


def test_half_close(g):
    """Who has sent all still gets the answer; who goes without reading it stops the server."""
    port = serve(g, "a", "digest")
    with Forward(g, "--json", "a", f"{port}:0") as f:
        equal(json.loads(f.line), {"id": "a", "port": port, "listen": f"127.0.0.1:{f.port}"}, "as JSON")
        with f.connect() as sock:
            sock.sendall(block(4 * MIB))
            sock.shutdown(socket.SHUT_WR)
            equal(rest(sock), sha(block(4 * MIB)), "the answer")
    port = serve(g, "a", "source", id="source")
    with Forward(g, "a", f"{port}:0") as f:
        with f.connect() as sock:
            sock.sendall(b"%d\n" % (16 * MIB))
            equal(len(rest(sock)), 16 * MIB, "what the server sends before its end")
        sock = f.connect()
        sock.sendall(b"%d\n" % (1 << 40))
        sock.recv(MIB)
        sock.close()
        until(lambda: b"lost" in g.get("/v1/sandbox/a/processes/source/logs", Accept="application/octet-stream").body,
              "the server hears of it")
        equal(f.end(), (130, ""), "nothing to complain about")


def test_slow(g):
    """One that does not read keeps nobody waiting."""
    port = serve(g, "a", "source")
    with Forward(g, "a", f"{port}:0") as f, f.connect() as stuck:
        stuck.sendall(b"%d\n" % (1 << 40))
        stuck.recv(1)
        with f.connect() as sock:
            sock.sendall(b"%d\n" % MIB)
            equal(len(rest(sock)), MIB, "another one")


def test_nobody(g):
    """Nobody listens inside: it is said once, the connection ends, and the next one may do better."""
    put(g)
    with Forward(g, "a", "7000:0") as f:
        equal(state(g), "cold", "asking wakes nobody")
        for _ in range(3):
            with f.connect() as sock:
                equal(sock.recv(1), b"", "closed")
        serve(g, "a", "echo", port=7000, id="server")
        with f.connect() as sock:
            sock.sendall(b"x")
            equal(sock.recv(1), b"x", "now")
        equal(g.request("POST", "/v1/sandbox/a/processes/server/kill", {"signal": 9}).status, 204, "kill")
        ended(g, "a", "server")
        check(is_closed(f), "not any more")
        code, said = f.end(signal.SIGTERM)
    equal(code, 143, said)
    sentences = [line for line in said.splitlines() if "nothing listens on port 7000" in line]
    equal(len(sentences), 2, said)
    check(sentences[0].startswith("berth: ") and "(port_not_listening)" in sentences[0], said)


def is_closed(f):
    with f.connect() as sock:
        try:
            sock.sendall(b"x")
            return not sock.recv(1)
        except ConnectionResetError:
            return True


def test_usage(g):
    """A port that is taken, a sandbox that does not exist, and what is no port, in plain words."""
    put(g)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with Forward(g, "a", f"80:{number}") as f:
            said = f.failed(1)
            check(f"port {number} of this machine is taken" in said and "PORT:0" in said, said)
    with Forward(g, "b", "80:0") as f:
        check("(not_found)" in f.failed(1), "no sandbox")
    for words in (["a"], ["a", "0"], ["a", "65536"], ["a", "80:"], ["a", ":80"], ["a", "80:70000"], ["a", "80:1:2"],
                  ["a", "http"], ["a", "-1"]):
        with Forward(g, *words) as f:
            check(f.failed(2).startswith("berth: "), words)
    equal(state(g), "cold", "and nothing has woken it")


def test_sleep(g):
    """A connection outlives a sleep by freezing; a stop ends it, and the next one starts what is autostarted."""
    port = serve(g, "a", "echo", port=7000, autostart=True)
    with Forward(g, "a", f"{port}:0") as f:
        with f.connect() as sock:
            sock.sendall(b"x")
            equal(sock.recv(1), b"x", "awake")
            if g.has_cgroups:
                sleep(g, "freeze")
                sock.sendall(b"y")
                equal(sock.recv(1), b"y", "after a freeze")
                await_state(g, "running")
            sleep(g, "stop")
            equal(sock.recv(1), b"", "after a stop")
        with f.connect() as sock:
            sock.sendall(b"z")
            equal(sock.recv(1), b"z", "started anew")
        equal(f.end(), (130, ""), "nothing to complain about")


def test_web(g):
    """A web server by its port here, over TCP and with the token; and a daemon that goes and comes back."""
    token = "b" * 40
    listen = g.start_listening(token)
    g.put_file("a", "/workspace/page.html", b"<p>hello</p>\n" * 1000, "644")
    server = "import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=7000, bind='0.0.0.0')"
    reply = g.request("POST", "/v1/sandbox/a/processes", {"argv": ["python3", "-c", server], "cwd": "/workspace", "id": "web"})
    equal(reply.status, 200, reply)
    reply = g.request("POST", "/v1/sandbox/a/processes/web/wait", {"for": "port", "port": 7000, "timeout_ms": 60000})
    equal(reply.status, 200, reply)
    with Forward(g, "a", "7000:0", url=f"http://127.0.0.1:{listen}", token=token) as f:
        page = f"http://127.0.0.1:{f.port}/page.html"

        def get(_):
            with urllib.request.urlopen(page, timeout=WAIT) as answer:
                return answer.read() == b"<p>hello</p>\n" * 1000
        equal(set(at_once(20, get)), {True}, "the page")
        equal(f.end(), (130, ""), "nothing to complain about")
    with Forward(g, "a", "7000:0") as f:
        g.kill_berthd()
        with f.connect() as sock:
            equal(sock.recv(1), b"", "no daemon")
        g.start()
        until(lambda: answers(f), "the daemon that came back")
        code, said = f.end()
    check(code == 130 and "cannot reach" in said, said)


def answers(f):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{f.port}/page.html", timeout=WAIT) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_most(g):
    """256 at once; one more waits until another has gone."""
    port = serve(g, "a", "echo")
    with Forward(g, "a", f"{port}:0") as f:
        held = [f.connect() for _ in range(256)]
        for i, sock in enumerate(held):
            sock.sendall(b"%d" % (i % 10))
        equal([sock.recv(1) for sock in held], [b"%d" % (i % 10) for i in range(256)], "all of them")
        with f.connect() as late:
            late.sendall(b"late")
            got = []
            reader = threading.Thread(target=lambda: got.append(late.recv(4)))
            reader.start()
            reader.join(0.3)
            equal(got, [], "too many")
            held.pop().close()
            reader.join(WAIT)
            equal(got, [b"late"], "its turn")
        for sock in held:
            sock.close()


def rests(pid):
    """How often it has waited for something; whoever tries all the time does not."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches:"))


def test_descriptors(g):
    """Without a descriptor for one more it waits, and not by trying all the time; whoever waited has its turn."""
    port = serve(g, "a", "echo")
    with Forward(g, "a", f"{port}:0") as f, f.connect() as held:
        held.settimeout(10)
        held.sendall(b"x")
        equal(held.recv(1), b"x", "while there are some")
        used = {int(fd) for fd in os.listdir(f"/proc/{f.process.pid}/fd")}
        limits = resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE, (min(set(range(100)) - used), limits[1]))
        with f.connect() as waiting:
            waiting.sendall(b"late")
            waiting.settimeout(2)
            before = rests(f.process.pid)
            try:
                check(False, "there was a descriptor for it:", waiting.recv(4))
            except TimeoutError:
                pass
            check(5 <= rests(f.process.pid) - before <= 100, "in two seconds it rested:", rests(f.process.pid) - before)
            resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE, limits)
            waiting.settimeout(10)
            equal(waiting.recv(4), b"late", "its turn")


if __name__ == "__main__":
    main([test_echo, test_half_close, test_slow, test_nobody, test_usage, test_sleep, test_web, test_most, test_descriptors],
         lambda test: test is not test_web)
