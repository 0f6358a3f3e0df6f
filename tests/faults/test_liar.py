#!/usr/bin/env python3
"""A real berthd, and inits that lie: bytes, order, numbers and descriptors of any kind.

    test_liar.py BERTHD [CASE...]

What is said is drawn from a seed, which a failure names; LIAR_SEED is the first one, LIAR_COUNT how many.
"""

import json
import os
import random
import socket
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("http", "keeper")]

# pylint: disable=wrong-import-position
import fake_host as h  # noqa: E402
from place import Place, run_cases  # noqa: E402
from tap import expect, note, require, until  # noqa: E402

FIRST, COUNT = int(os.environ.get("LIAR_SEED", 1)), int(os.environ.get("LIAR_COUNT", 160))
AT_ONCE = 8
BODY = {"argv": ["true"]}
# Each needs an init, and is answered when that has said all its lies and gone.
REQUESTS = [
    ("POST", "exec", BODY, "application/json"),
    ("POST", "exec", BODY, "text/event-stream"),
    ("POST", "exec", {**BODY, "timeout_ms": 1}, "application/json"),
    ("POST", "processes", {**BODY, "id": "p"}, None),
    ("POST", "terminals", {"id": "t"}, None),
    ("POST", "session", {}, None),
    ("GET", "file/workspace/f", None, None),
    ("PUT", "file/workspace/f", {"some": "bytes"}, None),
    ("GET", "dir/workspace", None, None),
    ("GET", "stat/workspace/f", None, None),
    ("GET", "watch/workspace", None, None),
    ("POST", "persist", None, None),
    ("POST", "move", {"from": "/workspace/f", "to": "/workspace/g"}, None),
    ("GET", "connect/80", None, None),
    ("GET", "running", None, None),
    ("POST", "sleep", {"mode": "stop"}, None),
]


class Liar:
    """One init. It answers some of what it is asked, and says much that nobody asked for."""

    def __init__(self, seed, line):
        self.random, self.line = random.Random(seed), line
        self.number, self.flags, self.tag, self.ends = 0, 0, 0, []

    def choose(self, *options):
        return self.random.choice(options)

    def any_number(self):
        flipped = self.number ^ 1 << self.random.randrange(64)
        return self.choose(self.number, self.number, self.number, flipped, 0, 2**64 - 1, self.random.getrandbits(64))

    def make_fd(self, kind):
        """Those that fit, and others."""
        if kind == "in":
            ours, given = os.pipe()
            self.ends.append(ours)
        elif kind == "out":
            given, ours = os.pipe()
            os.set_blocking(ours, False)
            self.ends.append(ours)
        elif kind == "tcp":
            with socket.socket() as sock:
                given = sock.detach()
        elif kind == "unix":
            one, other = socket.socketpair()
            given = one.detach()
            self.ends.append(other.detach())
        elif kind == "dir":
            given = os.open("/", os.O_RDONLY)
        elif kind == "memory":
            given = os.memfd_create("any")
        else:
            given = os.open("/dev/null", os.O_RDWR)
        return given

    def pipes(self):
        right = (["in"] if self.flags & h.STDIN else []) + ["out"] * (1 if self.flags & h.TERMINAL else 2)
        if self.flags & h.SESSION:
            right = []
        wrong = self.random.choices(["in", "out", "tcp", "unix", "dir", "memory", "null"],
                                    k=self.random.choice([0, 1, 2, 3, 8, 12]))
        return self.choose(right, right, right, wrong)

    def say(self, kind, fields=b"", kinds=(), **options):
        fds = [self.make_fd(name) for name in kinds]
        self.line.say(kind, fields, fds=fds, **options)
        for fd in fds:
            os.close(fd)

    def fields_of(self, kind):
        r = self.random
        layout = {
            h.WELCOME: lambda: struct.pack("<III", r.choice([0, 1, 2, 3, 2**32 - 1]), r.getrandbits(8), r.getrandbits(32)),
            h.REFUSED: lambda: struct.pack("<QII", self.any_number(), r.choice([0, 1, 2, 3, 4, 5, 2**31]),
                                           r.choice([0, 2, 13, 4095, 2**32 - 1])),
            h.EXITED: lambda: struct.pack("<QIQQQ", self.any_number(), r.choice([0, 9, 256, 0xffff, 2**31]),
                                          *(r.getrandbits(64) for _ in range(3))),
            h.PONG: lambda: struct.pack("<Q", r.choice([0, 1, 2, r.getrandbits(64)])),
            h.USAGE_IS: lambda: struct.pack("<Q", r.getrandbits(64)),
            h.CONNECT_FAILED: lambda: struct.pack("<I", r.choice([0, 111, 4095, 2**32 - 1])),
            h.LISTENING_IS: lambda: struct.pack("<I4s", 4, r.randbytes(4)),
        }
        if kind in layout:
            return layout[kind]()
        if kind in (h.LIVE, h.STARTED, h.ENDED):
            return struct.pack("<QI", self.any_number(), r.choice([0, 1, 42, 2**32 - 1]))
        return struct.pack("<Q", self.any_number()) if kind in (h.LOST, h.SETTLED) else b""

    # --- what it may do ---

    def answer(self):
        """As it should, as far as it goes."""
        if self.flags & h.SUPERVISED or self.flags & h.COMMAND:
            self.say(h.STARTED, struct.pack("<QI", self.number, 42), self.pipes())

    def exit(self):
        self.say(h.EXITED, struct.pack("<QIQQQ", self.number, self.choose(0, 9, 256), 0, 0, 0))

    def lie(self):
        kind = self.random.randrange(64, 80)
        self.say(kind, self.fields_of(kind), self.pipes() if self.random.random() < 0.3 else (),
                 tag=self.choose(0, self.tag, self.random.getrandbits(32)), version=self.choose(1, 1, 2, 0, 999))

    def babble(self):
        """No frame at all, or not the whole of one."""
        whole = h.frame(h.EXITED, self.tag, self.fields_of(h.EXITED))
        bad = self.choose(whole[: self.random.randrange(1, len(whole))], whole + b"x", self.random.randbytes(40),
                          b"\0" * 65536, h.frame(self.random.getrandbits(16)), struct.pack("<I", 2**32 - 1) + whole[4:])
        h.send(self.line.socket, bad)

    def flood(self):
        for _ in range(300):
            kind = self.choose(h.HEARTBEAT, h.EXITED, h.LOST, h.PONG, h.CONNECTED)
            self.say(kind, self.fields_of(kind), ["tcp"] if kind == h.CONNECTED else ())

    def print(self):
        """Bytes where a command prints, or a file worker answers."""
        length = self.random.choice([4, 40, 5000])
        text = self.choose(self.random.randbytes(length), struct.pack("<IHHII", 24, self.random.randrange(1, 12), 1, 0, 0)
                           + self.random.randbytes(8))
        for end in self.ends:
            try:
                os.write(end, text)
            except OSError:
                pass  # the wrong end, or nobody reads

    def tell(self):
        """Of execs that an earlier berthd may have started, before all was told."""
        for _ in range(self.random.randrange(6)):
            kind = self.choose(h.LIVE, h.LIVE, h.EXITED, h.LOST, h.SETTLED, h.ENDED, h.STARTED)
            self.say(kind, self.fields_of(kind), self.pipes() if kind == h.LIVE else ())

    def be_adopted(self, number):
        """By a berthd that knows one kept exec, of this number."""
        self.number, self.flags = number, 0
        try:
            self.line.receive()
            self.say(h.WELCOME, struct.pack("<III", 2, self.random.randrange(8), self.random.getrandbits(32)))
            self.tell()
            self.line.receive()
            self.say(h.PONG, struct.pack("<Q", 0))
            self.tell()
        finally:
            for end in self.ends:
                os.close(end)

    def run(self):
        acts = [self.answer] * 4 + [self.lie] * 4 + [self.print] * 2 + [self.exit, self.babble, self.flood]
        try:
            if self.random.random() < 0.1:
                for _ in range(self.random.randrange(5)):
                    self.lie()
            self.line.greet(self.choose(2, 2, 2, 2, 2, 2, 1, 3))
            asked = self.line.receive()
            if asked and asked[0] == h.EXEC:
                self.number, self.flags = struct.unpack_from("<QI", asked[2])
                self.answer()
            self.tag = asked[1] if asked else 0
            for _ in range(self.random.randrange(12)):
                self.random.choice(acts)()
        finally:
            for end in self.ends:
                os.close(end)


def use(place, seed):
    """One request to a sandbox whose init is the seed's. Its status; 0 if the answer was cut."""
    method, what, body, accept = REQUESTS[seed % len(REQUESTS)]
    headers = [f"Accept: {accept}"] if accept else []
    if what.startswith("connect"):
        headers += ["Connection: Upgrade", "Upgrade: tcp"]
    if what in ("sleep", "running", "connect/80"):  # which need one that is there
        with place.connect() as client:
            require(client.request("POST", f"/v1/sandbox/s{seed}/start").status in (200, 502, 503), "start")
    with place.connect() as client:
        try:
            answer = client.request(method, f"/v1/sandbox/s{seed}/{what}", *headers,
                                    body=json.dumps(body).encode() if body is not None else None)
        except EOFError:
            return 0
    if answer.status >= 400:
        require(len(answer.json()["error"]) > 5 and answer.json()["code"], f"no sentence: {answer}")
    return answer.status


def check_after(place, daemon, seed):
    require(daemon.process.poll() is None, f"berthd ended: {daemon.stderr()[-3000:]}")
    with place.connect() as client:
        expect(client.get("/health").status, 200, "/health")
        expect(client.request("DELETE", f"/v1/sandbox/s{seed}").status, 204, "delete")
        expect(client.get(f"/v1/sandbox/s{seed}").status, 404, "what was deleted")


def start(place):
    """Leaks end it with an error."""
    return place.start("--keeper", "await")


def check_serves(place):
    with place.connect() as client:
        answer = client.request("POST", "/v1/sandbox/honest/exec", "Accept: application/json",
                                body=json.dumps(BODY).encode())
    expect((answer.status, answer.json()["exit_code"], answer.json()["stdout"]), (200, 3, "hello"), "an honest one")


def end(daemon, host):
    code = (daemon.process.terminate(), daemon.wait())[1]
    require(code == 0, f"exit code {code}: {daemon.stderr()[-2000:]}")
    expect(host.close(), [], "what went wrong here")


def lying():
    """Every request is answered, each sandbox can be deleted, nothing is left open, and berthd goes on."""
    def init(name, line):
        if name == "honest":
            h.be_honest(line)
        else:
            Liar(int(name[1:]), line).run()

    with Place() as place:
        host = h.Host(place.run, init)
        daemon = start(place)
        before, seen = None, {}
        for seed in range(FIRST, FIRST + COUNT):
            try:
                status = use(place, seed)
                check_after(place, daemon, seed)
            except Exception as error:
                raise AssertionError(f"LIAR_SEED={seed}, {REQUESTS[seed % len(REQUESTS)][:2]}: {error!r}\n"
                                     + daemon.stderr()[-2000:]) from error
            seen[status] = seen.get(status, 0) + 1
            before = before or daemon.fds()
        note(f"{COUNT} liars from {FIRST} on; statuses {dict(sorted(seen.items()))}")
        require(len(seen) > 1, f"they all ended alike: {seen}")
        until(lambda: daemon.fds() <= before, f"descriptors: {daemon.fds()}, at first {before}")
        check_serves(place)
        end(daemon, host)


def adopted():
    """Inits that lie to the next berthd about what an earlier one started: it serves, and they can be deleted."""
    kept, is_told = {}, set()

    def init(name, line):
        if name == "honest" or name not in is_told:
            h.be_honest(line, kept.setdefault(name, []))
        else:
            Liar(int(name[1:]), line).be_adopted(kept[name][0])

    with Place() as place:
        host = h.Host(place.run, init)
        daemon = start(place)
        for first in range(FIRST, FIRST + COUNT // 4, AT_ONCE):
            names = [f"s{seed}" for seed in range(first, first + AT_ONCE)]
            for name in names:
                with place.connect() as client:
                    answer = client.request("POST", f"/v1/sandbox/{name}/processes",
                                            body=json.dumps({**BODY, "id": "p"}).encode())
                expect(answer.status, 200, f"a process: {answer}")
            is_told.update(names)
            daemon.kill()
            daemon = start(place)
            for name in names:
                try:
                    with place.connect() as client:
                        expect(client.get(f"/v1/sandbox/{name}/processes").status, 200, "processes")
                    check_after(place, daemon, int(name[1:]))
                except Exception as error:
                    raise AssertionError(f"LIAR_SEED={name[1:]}: {error!r}\n" + daemon.stderr()[-2000:]) from error
        check_serves(place)
        end(daemon, host)


run_cases([(case.__doc__.rstrip("."), case) for case in (lying, adopted)])
