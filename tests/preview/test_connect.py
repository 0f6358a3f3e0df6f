"""GET .../connect/{port}: an API connection that becomes one to a port inside."""

import http.client
import json
import os
import select
import shutil
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from port_api import (Refused, Wire, await_state, block, exchange, holds, put, refuse, serve, sha, sleep,  # noqa: E402
                      start, state, wait)
from ground import IS_SANITIZED, Peak, at_once, check, equal, fds_of, main, needs_cgroups, until  # noqa: E402

MIB = 1 << 20
BIG = 64 * MIB


def test_addresses(g):
    """Whoever listens on 127.0.0.1, 0.0.0.0, ::1 or :: is reached, without any network."""
    for address, way in (("127.0.0.1", b"127.0.0.1"), ("0.0.0.0", b"127.0.0.1"), ("::1", b"::1"),
                         ("::", b"::ffff:127.0.0.1")):
        port = serve(g, "a", "tell", address)
        with Wire(g, "a", port) as wire:
            equal(dict(wire.headers)["Upgrade"], "tcp", wire.headers)
            equal(dict(wire.headers)["Berth-Generation"], "1", wire.headers)
            # Python's "::" is for IPv6 alone.
            check(wire.rest() in (way, b"::1"), address)


def test_echo(g):
    """64 MiB go both ways at once, byte for byte, and berthd stays small."""
    port, data = serve(g, "a", "echo"), block(BIG)
    with Peak(g.berthd.pid) as peak, Wire(g, "a", port) as wire:
        check(exchange(wire.sock, data, wire.raw) == data, "not what was sent")
    check(peak.most < 64 * MIB or IS_SANITIZED, f"berthd had {peak.most}")


def test_half_close(g):
    """The client's end is the server's, and its answer still comes; also bytes in front of the 101."""
    port, data = serve(g, "a", "digest"), block(8 * MIB)
    with Wire(g, "a", port, early=data[:5000]) as wire:
        wire.send(data[5000:])
        wire.end()
        equal(wire.rest(), sha(data), "its digest")
    with Wire(g, "a", serve(g, "a", "echo"), early=b"early") as wire:
        equal(wire.read(5), b"early", "what came in front of the 101, and nothing behind it")
    # A server that reads late, and a client that has long gone from its sending side.
    port = serve(g, "a", "gate")
    with Wire(g, "a", port) as wire:
        count = fill(wire.sock, data)
        until(lambda: holds(g) == ["preview"], "it is held for bytes that wait")
        wire.end()
        g.out("a", "sleep 2.5")  # longer than berthd looks after its clients
        g.out("a", "touch /tmp/gate")
        equal(wire.rest(), sha(data[:count]), "its digest, late")
    until(lambda: holds(g) == [], "nothing waits any more")


def fill(sock, data):
    """Sends until nobody takes more. How much that was."""
    sock.settimeout(1)
    count = 0
    try:
        while count < len(data):
            count += sock.send(data[count:count + 65536])
    except TimeoutError:
        pass
    sock.settimeout(120)
    check(0 < count < len(data), f"all of {count} was taken")
    return count


def test_close_at_once(g):
    """What a client has sent arrives, also if it is gone before it was read."""
    port, data = serve(g, "a", "gate", id="late"), block(16 * MIB)
    with Wire(g, "a", port) as wire:
        count = fill(wire.sock, data)
    g.out("a", "sleep 2.5")
    g.out("a", "touch /tmp/gate")
    until(lambda: b"done" in g.get("/v1/sandbox/a/processes/late/logs", Accept="application/octet-stream").body,
          "the server has read to the end")
    check(count > 0, "bytes")
    until(lambda: holds(g) == [], "nothing is held")


def test_slow_client(g):
    """A client that does not read stops the server and holds the sandbox; berthd does not grow."""
    port = serve(g, "a", "source")
    with Peak(g.berthd.pid) as peak, Wire(g, "a", port) as wire:
        wire.send(b"%d\n" % BIG)
        until(lambda: holds(g) == ["preview"], "it is held")
        data = wire.rest()
    equal((len(data), sha(data)), (BIG, sha(bytes(range(256)) * (BIG // 256))), "all of it")
    check(peak.most < 64 * MIB or IS_SANITIZED, f"berthd had {peak.most}")
    until(lambda: holds(g) == [], "not any more")


def test_refused(g):
    """Nobody listens: 502, and who does is named. What makes no sense is refused before anything wakes."""
    equal(refuse(g, "nobody", 80, 404, "not_found")[:8], "there is", "no sandbox")
    equal(g.list_all(), [], "and none is made")
    put(g)
    for port in ("0", "65536", "-1", "http", "8080x", "99999999999", "%20"):
        refuse(g, "a", port, 400, "invalid_request")
    reply = g.get("/v1/sandbox/a/connect/80")
    equal((reply.status, reply.json()["code"], reply.headers["upgrade"]), (426, "upgrade_required", "tcp"), reply)
    equal(g.request("HEAD", "/v1/sandbox/a/connect/80").status, 426, "HEAD")
    equal(state(g), "cold", "nothing has woken it")
    check("nor on any other" in refuse(g, "a", 8080, 502, "port_not_listening"), "nobody at all")
    ports = sorted([serve(g, "a", "echo"), serve(g, "a", "echo", "::1")])
    sentence = refuse(g, "a", 1, 502, "port_not_listening")
    check(sentence.endswith(f"but on {ports[0]}, {ports[1]}"), sentence)
    start(g, "a", ["python3", "-c", "import socket, time\nall = [socket.create_server(('', 2000 + i)) for i in range(80)]\n"
                   "print('on', flush=True)\ntime.sleep(1000)"], id="many")
    until(lambda: refuse(g, "a", 1, 502, "port_not_listening").endswith("2018, 2019 and others"), "many are not all told")
    # The connection can be used on.
    connection = g.connect()
    connection.request("GET", "/v1/sandbox/a/connect/1", None, {"Connection": "Upgrade", "Upgrade": "tcp"})
    equal(connection.getresponse().read()[:9], b'{"error":', "an answer")
    connection.request("GET", "/health")
    equal(connection.getresponse().status, 200, "and another one")
    connection.close()


def test_generation(g):
    """If-Generation names the life that is meant."""
    port = serve(g, "a", "echo")
    with Wire(g, "a", port, "If-Generation: 1") as wire:
        wire.send(b"x")
        equal(wire.read(1), b"x", "of this life")
    refuse(g, "a", port, 409, "sandbox_restarted", "If-Generation: 2")
    sleep(g, "stop")
    refuse(g, "a", port, 409, "sandbox_restarted", "If-Generation: 1")
    equal(state(g), "cold", "it was not woken for another life")


def test_deleted(g):
    """One that is deleted while somebody waits for its server to come up is told as gone."""
    for i in range(6):
        delete_under(g, f"d{i}", 8)
    check(g.berthd.poll() is None, "berthd lives")


def delete_under(g, name, count):
    """The answers of so many who wait."""
    put(g, name)
    start(g, name, ["sleep", "1000"], autostart=True)
    clients = [g.connect() for _ in range(count)]
    for c in clients:
        c.request("GET", f"/v1/sandbox/{name}/connect/9", headers={"Upgrade": "tcp", "Connection": "Upgrade"})
    until(lambda: g.sandbox(name)["holds"], "they wait")
    equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
    answers = []
    for c in clients:
        reply = c.getresponse()
        answers.append((reply.status, json.loads(reply.read())["code"]))
        check(answers[-1][0] in (404, 409, 410, 502, 503), answers[-1])
        c.close()
    return answers


def test_deleted_late(g):
    """So it is if it was gone before they look again, however long that takes."""
    library, options = g.path("liblate.so"), os.environ.get("ASAN_OPTIONS", "detect_leaks=1")
    shutil.copy(os.path.join(g.build, "tests", "preview", "liblate.so"), library)
    os.chmod(library, 0o755)
    # The library stands before the sanitizer's.
    g.start(env={"LD_PRELOAD": library, "ASAN_OPTIONS": options + ":verify_asan_link_order=0"})
    equal(set(delete_under(g, "a", 3)), {(404, "not_found")}, "answers")
    check(g.berthd.poll() is None, "berthd lives")


@needs_cgroups
def test_frozen(g):
    """A frozen sandbox is woken by a connection, and by bytes on one that stays open meanwhile."""
    port = serve(g, "a", "echo")
    sleep(g, "freeze")
    equal(state(g), "frozen", "asleep")
    with Wire(g, "a", port) as wire:
        equal(state(g), "running", "woken")
        for i in range(3):
            sleep(g, "freeze")
            equal(state(g), "frozen", "asleep under an open connection")
            wire.send(b"%d" % i)
            equal(wire.read(1), b"%d" % i, "echo")
            await_state(g, "running")  # it was, or nothing would have come back
        # Whoever only goes away wakes nobody.
        sleep(g, "freeze")
    equal(state(g), "frozen", "it sleeps on")


@needs_cgroups
def test_idle(g):
    """A silent connection does not keep it awake, bytes do; what it sends after its sleep arrives."""
    put(g, sleep_after="700ms")
    port = serve(g, "a", "echo")
    with Wire(g, "a", port) as wire:
        for _ in range(30):  # three times as long as it would be awake without
            wire.send(b"x")
            equal(wire.read(1), b"x", "echo")
            equal(state(g), "running", "bytes are activity")
            select.select([], [], [], 0.07)  # a client that has nothing to say for a moment
        await_state(g, "frozen")
        wire.send(b"y")
        equal(wire.read(1), b"y", "echo after its sleep")


def test_stopped(g):
    """A stopped sandbox is started, and what is started with it is waited for."""
    put(g)
    port = serve(g, "a", "echo", port=7000, autostart=True)
    sleep(g, "stop")
    equal(state(g), "cold", "stopped")
    with Wire(g, "a", port) as wire:
        equal(dict(wire.headers)["Berth-Generation"], "2", "the next life")
        wire.send(b"hello")
        equal(wire.read(5), b"hello", "echo")
        wire.end()
        equal(wire.rest(), b"", "its end")


def test_ends(g):
    """When the sandbox stops, is killed or destroyed, its connections end; others are not touched."""
    other = serve(g, "b", "echo")
    with Wire(g, "b", other) as witness:
        for end in ("stop", "kill", "delete"):
            port = serve(g, "a", "echo")
            with Wire(g, "a", port) as wire:
                wire.send(b"x")
                equal(wire.read(1), b"x", "echo")
                if end == "stop":
                    sleep(g, "stop")
                elif end == "kill":
                    g.request("POST", "/v1/sandbox/a/exec", {"command": "kill -9 -1; sleep 1"}, Accept="application/json")
                else:
                    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "deleted")
                try:
                    equal(wire.rest(), b"", f"after {end}")
                except ConnectionResetError:
                    pass
        witness.send(b"still")
        equal(witness.read(5), b"still", "another sandbox")


def test_server_dies(g):
    """A server that dies in the midst of it, and a client that does."""
    port = serve(g, "a", "source", id="server")
    with Wire(g, "a", port) as wire:
        wire.send(b"%d\n" % (1 << 40))
        wire.read(MIB)
        equal(g.request("POST", "/v1/sandbox/a/processes/server/kill", {"signal": 9}).status, 204, "kill")
        try:
            wire.rest()
        except ConnectionResetError:
            pass
    port = serve(g, "a", "source", id="other")
    wire = Wire(g, "a", port)
    wire.send(b"%d\n" % (1 << 40))
    wire.read(MIB)
    wire.sock.close()
    until(lambda: b"lost" in g.get("/v1/sandbox/a/processes/other/logs", Accept="application/octet-stream").body,
          "the server hears of it")


def test_many(g):
    """200 at once, each with bytes of its own; nothing of them is left."""
    port = serve(g, "a", "echo")
    with Wire(g, "a", port) as wire:
        wire.send(b"first")
        equal(wire.read(5), b"first", "echo")
    before = until(lambda: fds_of(g.berthd.pid), "descriptors")

    def one(i):
        data = block(100000, i)
        with Wire(g, "a", port) as wire:
            return exchange(wire.sock, data, wire.raw) == data
    equal(set(at_once(200, one)), {True}, "all of them")
    until(lambda: fds_of(g.berthd.pid) <= before, "descriptors as before")


def test_full(g):
    """A server that accepts nobody: it is told in time, and the others go on."""
    start(g, "a", ["python3", "-c", "import socket, time\nl = socket.socket()\nl.bind(('127.0.0.1', 7001))\nl.listen(0)\n"
                   "print('on', flush=True)\ntime.sleep(1000)"], id="full")
    wait(g, "a", "full", "log", pattern="on")
    good = serve(g, "a", "echo")
    held = []
    try:
        def waits():
            try:
                held.append(Wire(g, "a", 7001))
                return False
            except Refused as refused:
                equal((refused.reply.status, refused.reply.json()["code"]), (504, "timeout"), refused.reply)
                return True
        until(waits, "its queue to be full")
        with Wire(g, "a", good) as wire:
            wire.send(b"x")
            equal(wire.read(1), b"x", "another port")
    finally:
        for wire in held:
            wire.sock.close()


def test_token(g):
    """By TCP only with the token."""
    token = "a" * 40
    listen = g.start_listening(token)
    port = serve(g, "a", "echo")
    for header, status in (("X: y", 401), (f"Authorization: Bearer {token}", 101)):
        try:
            with Wire(g, "a", port, header, connection=http.client.HTTPConnection("127.0.0.1", listen)) as wire:
                equal(status, 101, "let in")
                check(exchange(wire.sock, block(MIB)) == block(MIB), "echo")
        except Refused as refused:
            equal(refused.reply.status, status, refused.reply)


if __name__ == "__main__":
    main([test_addresses, test_echo, test_half_close, test_close_at_once, test_slow_client, test_refused, test_generation,
          test_deleted, test_deleted_late, test_frozen, test_idle, test_stopped, test_ends, test_server_dies, test_many, test_full, test_token],
         lambda test: test not in (test_token, test_deleted_late))
