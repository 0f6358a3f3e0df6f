"""Peers that come, go, lie, and do not read."""

import errno
import os
import random
import signal
import socket
import struct

import sandbox as s


def forget_all(box):
    """What mutated requests have started."""
    peer = box.peer()
    for f in [peer.receive() for _ in range(peer.welcome.known)]:
        if f.kind == s.LIVE:
            peer.signal(f.exec, signal.SIGKILL)
            peer.exited(f.exec)
        peer.forget(f.exec)
    peer.ping()


def bad_frames(t, box, peer):
    rng = random.Random(1)
    hello = s.frame(s.HELLO, 1, struct.pack("<I", 1))
    exec_fields = struct.pack("<QII", 1 << 40, 0, 0) + s.run(b"true\0") + s.run(b"") + s.run(b"/") + s.run(b"") \
        + struct.pack("<QII", 0, 0, 0)
    known = [hello, s.frame(s.EXEC, 2, exec_fields), s.frame(s.SIGNAL, 3, struct.pack("<QI", 1, 9)),
             s.frame(s.END, 4, struct.pack("<Q", 1)), s.frame(s.FORGET, 5, struct.pack("<Q", 1)),
             s.frame(s.USAGE, 6), s.frame(s.TERMINATE, 7)]
    null = os.open("/dev/null", os.O_RDONLY)
    for i in range(600):
        enemy = box.peer(greet=False)
        try:
            if i % 3:
                enemy.socket.send(hello)
            for _ in range(rng.randrange(1, 4)):
                data = bytearray(rng.choice(known))
                for _ in range(rng.randrange(4)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                cut = rng.randrange(len(data) + 1) if rng.random() < .3 else len(data)
                data = data[:cut] or bytearray(b"x")
                if rng.random() < .3:
                    data[0:4] = struct.pack("<I", len(data))
                fds = [null] * rng.choice((0, 0, 0, 1, 3, 8, 20))
                socket.send_fds(enemy.socket, [data], fds)
            enemy.socket.setblocking(False)
            while enemy.socket.recv(65536):
                pass
        except OSError:
            pass
        finally:
            enemy.close()
            box.peers.remove(enemy)
    os.close(null)
    forget_all(box)
    for data in (b"x", s.frame(s.PING, 1, b""), s.frame(s.PING, 1, b"123456789"),
                 s.frame(s.PING, 1, b"12345678", version=9), b"\0" * 65536, s.frame(s.HELLO, 1, b"\0" * 4),
                 s.frame(s.SIGNAL, 1, struct.pack("<QI", 1, 65)), s.frame(s.PING, 1, b"x" * 70000),
                 s.frame(s.USAGE, 1, b"x"), s.frame(s.TERMINATE, 1, b"x")):
        bad = box.peer()
        bad.socket.send(data)
        try:
            bad.receive()
            t.check(False, f"kept the connection after {data[:40]!r}")
        except (EOFError, ConnectionResetError):
            pass
    bad = box.peer(greet=False)
    bad.send(s.PING, b"12345678")
    try:
        bad.receive()
        t.check(False, "answered before HELLO")
    except (EOFError, ConnectionResetError):
        pass
    peer = box.peer()
    peer.send(4711, b"of a newer version")
    peer.ping()


def reconnects(t, box, peer):
    first = box.peer()
    gone, stays, silent = box.number(), box.number(), box.number()
    first.exec(gone, ["sh", "-c", "exit 9"])
    first.exited(gone)
    first.exec(stays, ["sleep", "1000"])
    started = first.exec(silent, ["sh", "-c", "read x; exit 5"], flags=s.STDIN)
    second = box.peer()
    try:
        first.receive()
        t.check(False, "two peers at once")
    except (EOFError, ConnectionResetError):
        pass
    t.equal(second.welcome.known, 3, "known")
    frames = {f.exec: f for f in (second.receive() for _ in range(3))}
    t.equal({n: f.kind for n, f in frames.items()}, {gone: s.EXITED, stays: s.LIVE, silent: s.LIVE}, "kinds")
    t.equal(frames[gone].status, 9 << 8, "status")
    t.equal(frames[stays].fds, [], "the pipes went to the first")
    second.close()
    os.write(started.fds[0], b"\n")
    for fd in started.fds:
        os.close(fd)
    # Nobody is connected; it ends meanwhile.
    s.wait_until(lambda: not any("(sh)" in text for text in box.inside().values()))
    third = box.peer()
    t.equal(third.expect(s.EXITED, exec_id=silent).status, 5 << 8, "status that nobody saw")
    got = third.exec(gone, ["true"])
    t.equal((got.kind, got.stage, got.error), (s.REFUSED, s.STAGE_REQUEST, errno.EEXIST), "a number twice")
    for number in (gone, silent, 999999):
        third.forget(number)
    third.forget(stays)
    third.signal(stays, signal.SIGKILL)
    s.wait_until(lambda: not box.inside())
    last = box.peer()
    t.equal(last.welcome.known, 0, "all forgotten")
    serial = last.welcome.serial + 1
    last.exec(serial << 32 | 1, ["true"])
    last.exited(serial << 32 | 1)
    last.forget(serial << 32 | 1)
    t.equal(box.peer().welcome.serial, serial, "it is taken, though nothing is told of it")


def from_inside(t, box, peer):
    peer = box.peer()
    code = ("import socket,sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            "s.connect('/sandbox/agent.sock')\nprint(s.recv(10))")
    done = box.run(peer, ["/usr/bin/python3", "-Ic", code])
    t.equal(done.out, b"b''\n", "a process of the sandbox is turned away")
    peer.ping()


def deaf_peer(t, box, peer):
    """Floods init and reads nothing: it must stop to read requests, and then go on."""
    deaf = box.peer()
    deaf.socket.setblocking(False)
    sent = 0
    try:
        for sent in range(100000):
            deaf.send(s.PING, struct.pack("<Q", sent))
    except BlockingIOError:
        pass
    t.check(10 < sent < 10000, f"{sent} requests went in")
    with open(f"/proc/{box.pid}/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    t.check(pages < 1000, f"{pages} pages")
    deaf.socket.settimeout(s.WAIT)
    t.equal([deaf.receive().nonce for _ in range(sent)], list(range(sent)), "answers")
    deaf.ping()
    hung = box.peer()
    hung.socket.setblocking(False)
    try:
        while True:
            hung.send(s.PING, b"12345678")
    except BlockingIOError:
        pass
    box.peer().ping()


def terminates(t, box, peer):
    peer = box.peer()
    box.run(peer, ["sh", "-c", "kill -TERM 1"])
    code = ("import ctypes, os, struct\nc = ctypes.CDLL(None)\n"
            "info = struct.pack('iiiiii', 15, 0, -1, 0, 0, 0).ljust(128, b'\\0')\n"
            "c.syscall(129, 1, 15, info)\n")
    box.run(peer, ["/usr/bin/python3", "-Ic", code])
    # With no room for another one a signal is still sent, but not who sent it.
    full = ("import ctypes, signal\nc = ctypes.CDLL(None)\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [40])\n"
            "while c.sigqueue(os.getpid(), 40, 0) == 0: pass\n")
    done = box.run(peer, ["/usr/bin/python3", "-Ic", "import os\n" + full + code])
    t.equal((done.code, done.err), (0, b""), "the fake")
    peer.ping()
    if not box.is_root:
        return  # whoever could send it is root inside
    number, deaf = box.number(), box.number()
    trap = ["sh", "-c", "trap 'exit 4' TERM; echo; while :; do sleep 0.01; done"]
    plain = peer.exec(number, trap)
    deaf_one = peer.exec(deaf, ["sh", "-c", "trap '' TERM; echo; read x"], flags=s.STDIN)
    f = peer.exec(box.number(), trap, flags=s.SUPERVISED)
    for fd in (plain.fds[0], deaf_one.fds[1], f.fds[0]):
        os.read(fd, 1)  # its trap is set
    os.kill(box.pid, signal.SIGTERM)
    t.equal(peer.exited(number).status, 4 << 8, "status")
    got = peer.exec(box.number(), ["true"])
    t.equal((got.stage, got.error), (s.STAGE_REQUEST, errno.ESHUTDOWN), "no new ones")
    peer.signal(deaf, signal.SIGKILL)
    t.equal(box.wait(), 0, "init's exit code")
    s.pump(f)


def unfiltered(t, box, peer):
    """Without a system call filter init does not run: not all runtimes heed how we ask for it."""
    try:
        with s.Sandbox(*box.programs, is_filtered=False):
            t.check(False, "it runs")
    except ChildProcessError as error:
        t.equal(error.args, (2,), "its exit code")


s.main([bad_frames, reconnects, from_inside, deaf_peer, unfiltered, terminates])
