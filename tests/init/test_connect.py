"""CONNECT and LISTENING: sockets to servers inside, handed out."""

import errno
import os
import socket
import struct

import sandbox as s

LO_UP = ("import fcntl, socket, struct\n"
         "with socket.socket() as lo:\n"
         " fcntl.ioctl(lo, 0x8914, struct.pack('16sH14x', b'lo', 1))\n")
SERVE = ("import socket, sys\n"
         "l = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\n"
         "if sys.argv[3:4] == ['only']: l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)\n"
         "l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
         "l.bind((sys.argv[1], int(sys.argv[2])))\n"
         "l.listen(int(sys.argv[4]) if sys.argv[4:] else 5)\n"
         "print(l.getsockname()[1], flush=True)\n")
ECHO = ("c, peer = l.accept()\n"
        "c.sendall(peer[0].encode() + b'\\n')\n"
        "while data := c.recv(65536): c.sendall(data)\n")
REST = "sys.stdin.read()\n"


class Server:
    """Python inside, until it is closed."""

    def __init__(self, box, peer, script, *arguments):
        self.peer, self.number = peer, box.number()
        started = peer.exec(self.number, ["/usr/bin/python3", "-Ic", script, *map(str, arguments)], flags=s.STDIN)
        assert started.kind == s.STARTED, started
        self.fds = started.fds
        line = os.read(self.fds[1], 100)
        assert line, os.read(self.fds[2], 4096)
        self.port = int(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.peer.signal(self.number, 9)
        for fd in self.fds:
            os.close(fd)
        self.peer.exited(self.number)
        self.peer.forget(self.number)


def lo_up(t, box, peer):
    """As a runtime does it."""
    t.equal(peer.welcome.version, s.NEWEST, "the version")
    done = box.run(peer, ["/usr/bin/python3", "-Ic", LO_UP])
    t.equal((done.code, done.err), (0, b""), "lo is up")


def ask(peer, port):
    return peer.expect(s.CONNECTED, s.CONNECT_FAILED, tag=peer.send(s.CONNECT, struct.pack("<I", port), version=2))


def listening(peer):
    return peer.expect(s.LISTENING_IS, tag=peer.send(s.LISTENING, version=2)).ports


def take(frame):
    assert frame.kind == s.CONNECTED and len(frame.fds) == 1, frame
    return socket.socket(fileno=frame.fds[0])


def addresses(t, box, peer):
    for address, way, only in (("127.0.0.1", b"127.0.0.1", ""), ("0.0.0.0", b"127.0.0.1", ""), ("::1", b"::1", ""),
                               ("::", b"::ffff:127.0.0.1", ""), ("::", b"::1", "only")):
        with Server(box, peer, SERVE + ECHO, address, 0, only) as server:
            t.equal(listening(peer), [server.port], f"{address} is seen")
            with take(ask(peer, server.port)) as c:
                t.check(not os.get_blocking(c.fileno()), f"{address}: it does not wait")
                t.equal(c.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), 1, f"{address}: nor does what is sent")
                c.settimeout(s.WAIT)
                c.sendall(b"hello")
                c.shutdown(socket.SHUT_WR)
                got = b"".join(iter(lambda: c.recv(4096), b""))
                t.equal(got, way + b"\nhello", f"{address} {only}")
    t.equal(listening(peer), [], "nobody any more")


def refused(t, box, peer):
    before = box.init_fds() if box.is_root else None
    for port in (1, 8080, 65535):
        answer = ask(peer, port)
        t.equal((answer.kind, answer.error), (s.CONNECT_FAILED, errno.ECONNREFUSED), f"nobody on {port}")
    # The kernel may choose that very port for our end, and connect it to itself.
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    kinds = {ask(peer, port).kind for port in range(first, first + 3000)}
    t.equal(kinds, {s.CONNECT_FAILED}, "nobody, and not itself either")
    with Server(box, peer, SERVE + REST, "127.0.0.2", 7000):
        t.equal(ask(peer, 7000).kind, s.CONNECT_FAILED, "where nobody reaches")
        t.equal(listening(peer), [], "and it is not told")
    if box.is_root:
        t.equal(box.init_fds(), before, "descriptors")


def full(t, box, peer):
    """A server that takes no more: it is handed out all the same, and nobody waits for it."""
    with Server(box, peer, SERVE + REST, "127.0.0.1", 0, "", 0) as server:
        held = [take(ask(peer, server.port)) for _ in range(5)]
        states = []
        for c in held:
            try:
                c.getpeername()
                states.append(True)
            except OSError as error:
                t.equal(error.errno, errno.ENOTCONN, "on its way")
                states.append(False)
        t.check(states[0] and not states[-1], f"connected: {states}")
        peer.ping()
        for c in held:
            c.close()


def many_ports(t, box, peer):
    script = ("import socket, sys\n"
              "all = [socket.create_server(('127.0.0.1', p)) for p in range(9200, 9100, -1)]\n"
              "also = [socket.create_server(('::1', p), family=socket.AF_INET6) for p in (9101, 80, 9103)]\n"
              "busy = [socket.create_connection(('127.0.0.1', 9101)) for _ in range(50)]\n"
              "print(1, flush=True)\n") + REST
    with Server(box, peer, script):
        t.equal(listening(peer), [80, *range(9101, 9164)], "the first of them, in order and once")
        held = [take(ask(peer, 9110)) for _ in range(40)]
        t.equal(listening(peer)[:2], [80, 9101], "beside connections")
        for c in held:
            c.close()


def outlive(t, box, peer):
    """What was handed out is ours, whoever is connected to init."""
    with Server(box, peer, SERVE + ECHO, "127.0.0.1", 0) as server:
        with take(ask(peer, server.port)) as c:
            other = box.peer()
            known = [other.receive() for _ in range(other.welcome.known)]
            t.equal([f.kind for f in known], [s.LIVE], "the server")
            c.settimeout(s.WAIT)
            c.sendall(b"x")
            got = b""
            while not got.endswith(b"x"):
                got += c.recv(100)
            t.equal(got, b"127.0.0.1\nx", "goes on")
        server.peer = other


def unread(t, box, peer):
    """An answer that nobody reads is closed with the connection."""
    with Server(box, peer, SERVE + REST, "127.0.0.1", 0, "", 1000) as server:
        before = box.init_fds()
        other = box.peer()
        other.socket.setblocking(False)
        try:
            while True:
                other.send(s.CONNECT, struct.pack("<I", server.port), version=2)
        except BlockingIOError:
            pass
        s.wait_until(lambda: len(box.init_fds()) > len(before))
        other.close()
        last = box.peer()
        known = [last.receive() for _ in range(last.welcome.known)]
        t.equal([f.kind for f in known], [s.LIVE], "the server")
        last.ping()
        t.equal(len(box.init_fds()), len(before), "descriptors")
        server.peer = last


unread.needs_root = True


def versions(t, box, peer):
    old = box.peer(version=1)
    t.equal(old.welcome.version, 1, "an older berthd")
    old.ping()
    t.equal(old.welcome.version, 1, "is spoken to as it can")
    old.send(s.CONNECT, struct.pack("<I", 1), version=2)
    try:
        old.receive()
        t.check(False, "dropped")
    except (EOFError, ConnectionResetError):
        pass
    new = box.peer(version=9)
    t.equal(new.welcome.version, s.NEWEST, "a newer one")
    new.ping()
    new.send(s.CONNECT, b"\0\0\1\0")
    try:
        new.receive()
        t.check(False, "dropped, too: no such port")
    except (EOFError, ConnectionResetError):
        new.close()


if __name__ == "__main__":
    s.main([lo_up, addresses, refused, full, many_ports, outlive, unread, versions])
