#!/usr/bin/env python3
"""A real berthd whose calls fail, one after the other, while it stores something or begins.

    test_store.py BERTHD LIBRARY [CASE...]
"""

import errno
import itertools
import json
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.abspath(sys.argv.pop(2))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("http", "keeper")]

# pylint: disable=wrong-import-position
import fake_host as h  # noqa: E402
import faults as f  # noqa: E402
from place import Place, run_cases  # noqa: E402
from tap import expect, note, require, until  # noqa: E402

MOST = 400  # calls of one kind that one thing may take; past it something is wrong with the counting
MEMORY_STEP = 1 if os.environ.get("STORE_ALL") == "1" else 3  # of a start's allocations, every so many
SAID_WRONGLY = (400, 413)  # an environment or a body that there is no memory for is called too large
ALARM = {"argv": ["true"], "at": "2099-01-01T00:00:00Z"}


class Ground(Place):
    """A berthd that stores with a sync for each answer, with a keeper that has nothing to do."""

    def __enter__(self):
        super().__enter__()
        self.faults = f.Faults(LIBRARY, self / "faults", "berthd")
        self.host = h.Host(self.run, lambda name, line: h.be_honest(line))
        self.config = self / "config.json"
        with open(self.config, "w", encoding="ascii") as file:
            json.dump({"store_sync": "full"}, file)
        os.chmod(self.config, 0o644)
        self.daemon, self.numbers = None, itertools.count(1)
        return self

    def __exit__(self, kind, *more):
        super().__exit__(kind, *more)
        errors = self.host.close()
        require(kind or not errors, f"what went wrong here: {errors}")

    def begin(self):
        self.daemon = self.start("--keeper", "await", "--config", self.config, env=self.faults.env)

    def again(self):
        """As after a crash."""
        self.daemon.kill()
        self.begin()

    def ask(self, method, target, body=None):
        """None: the connection was closed without an answer."""
        try:
            with self.connect() as client:
                return client.request(method, target, body=json.dumps(body).encode() if body is not None else None)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return None

    def settle(self):
        """Nothing is being stored, so that the next call is one of what is asked for next."""
        until(lambda: b"\nberth_store_queue 0\n" in self.ask("GET", "/metrics").body, "an empty queue")

    def check_lives(self):
        require(self.daemon.process.poll() is None, f"berthd has ended: {self.daemon.stderr()[-2000:]}")
        expect(self.ask("GET", "/health").status, 200, "/health")

    def label(self):
        return self.ask("GET", "/v1/sandbox/a").json()["labels"]["n"]


def put_label(g, n):
    return ("PUT", "/v1/sandbox/a", {"labels": {"n": str(n)}}), g.label


def put_new(g, n):
    return ("PUT", f"/v1/sandbox/new{n}", {}), lambda: g.ask("GET", f"/v1/sandbox/new{n}").status == 200


def delete(g, n):
    expect(g.ask("PUT", f"/v1/sandbox/old{n}", {}).status, 200, "put")
    return ("DELETE", f"/v1/sandbox/old{n}"), lambda: g.ask("GET", f"/v1/sandbox/old{n}").status == 404


def put_alarm(g, n):
    return ("PUT", f"/v1/sandbox/a/alarm/x{n}", ALARM), lambda: g.ask("GET", f"/v1/sandbox/a/alarm/x{n}").status == 200


def put_port(g, n):
    return ("PUT", f"/v1/sandbox/a/port/{n + 1000}", {}), \
        lambda: g.ask("GET", f"/v1/sandbox/a/port/{n + 1000}").status == 200


def start(g, n):
    """A start uses up a generation, and that is stored first."""
    g.ask("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    return ("POST", "/v1/sandbox/a/start"), lambda: g.ask("GET", "/v1/sandbox/a").json()["generation"]


CHANGES = [put_label, put_new, delete, put_alarm, put_port, start]


def try_change(g, change, kind, nth, error):
    """Whether the nth call was reached."""
    request, fact = change(g, next(g.numbers))
    old = fact()
    g.settle()
    g.faults.arm(kind, nth, path="state.db", error=error)
    answer = g.ask(*request)
    _, hits = g.faults.disarm()
    g.check_lives()
    has_failed = answer is None or answer.status >= 400
    if answer and has_failed:
        require(answer.status >= 500 and len(answer.json()["error"]) > 20, f"no sentence: {answer}")
    told = fact()
    g.again()
    after = fact()
    if not has_failed:
        expect(after, told, "what was answered, after a crash")
        require(change is start or after != old, f"a false success: {answer}, {old!r}")
    elif change is not start:
        expect(told, old, "what could not be stored")
    if not hits:
        require(not has_failed, f"without a fault: {answer}")
        return None
    # And now that all goes well.
    if has_failed:
        again = g.ask(*request)
        require(again.status < 300 or (change is delete and after and again.status == 404), f"the next one: {again}")
    return has_failed


def sweep(g, change, kind, error=None):
    """Every one of these calls in turn, until there is none left to fail."""
    failed = 0
    for nth in range(1, MOST):
        try:
            result = try_change(g, change, kind, nth, error)
        except Exception as wrong:
            raise AssertionError(f"{change.__name__}, {f.NAMES[kind]} {nth} ({os.strerror(error or f.ERRORS[kind])}): "
                                 f"{wrong!r}\n{g.daemon.stderr()[-1500:]}") from wrong
        if result is None:
            return nth - 1, failed
        failed += result
    raise AssertionError(f"{change.__name__}: more than {MOST} calls")


def stored():
    """Each write and each sync of a change fails in turn: an error, and the old fact or the new one after a crash."""
    with Ground() as g:
        g.begin()
        expect(g.ask("PUT", "/v1/sandbox/a", {"labels": {"n": "0"}}).status, 200, "put")
        # What a full disk does is seen on one, too: tests/lifecycle.
        for kind, error, changes in ((f.WRITE, errno.EIO, CHANGES), (f.WRITE, errno.ENOSPC, [put_label, start]),
                                     (f.SYNC, errno.EIO, CHANGES)):
            done = {change.__name__: sweep(g, change, kind, error) for change in changes}
            note(f"{f.NAMES[kind]}, {os.strerror(error)}: (calls, failures) {done}")
            # For a start room is kept: what does not fit at first is stored all the same.
            wanted = {name: not (name == "start" and error == errno.ENOSPC) for name in done}
            expect({name: failures > 0 for name, (_, failures) in done.items()}, wanted, f"what failed: {done}")
            require(all(calls for calls, _ in done.values()), f"nothing was tried: {done}")
        g.daemon.stop()


def dead_disk():
    """While no write succeeds nothing is stored, and that is said; afterwards all goes on without a restart."""
    with Ground() as g:
        g.begin()
        expect(g.ask("PUT", "/v1/sandbox/a", {"labels": {"n": "0"}}).status, 200, "put")
        for kind in (f.WRITE, f.SYNC):
            g.faults.arm(kind, 1, path="state.db", is_lasting=True)
            for change in CHANGES[:2] + CHANGES[3:]:
                request, _ = change(g, next(g.numbers))
                answer = g.ask(*request)
                require(answer and answer.status >= 500 and len(answer.json()["error"]) > 20, f"{change.__name__}: {answer}")
            g.faults.disarm()
            g.check_lives()
            for change in CHANGES:
                request, fact = change(g, next(g.numbers))
                require(g.ask(*request).status < 300, change.__name__)
                if change is not start:
                    require(fact(), change.__name__)
        g.daemon.stop()


def listing(g, n):
    return ("GET", "/v1/sandbox"), None


def run(g, n):
    return ("POST", "/v1/sandbox/a/exec", {"argv": ["true"]}), None


def process(g, n):
    return ("POST", "/v1/sandbox/a/processes", {"argv": ["true"], "id": f"p{n}"}), None


def try_memory(g, change, nth):
    """Whether the nth allocation was reached. On a line that is there: who cannot be let in is another matter."""
    (method, target, *body), _ = change(g, next(g.numbers))
    g.settle()
    with g.connect() as client:
        expect(client.get("/health").status, 200, "/health")
        g.faults.arm(f.MEMORY, nth)
        try:
            answer = client.request(method, target, body=json.dumps(body[0]).encode() if body else None)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            answer = None
        _, hits = g.faults.disarm()
    g.check_lives()
    if answer and answer.status >= 400:
        require((answer.status >= 500 or answer.status in SAID_WRONGLY) and len(answer.json()["error"]) > 5, f"{answer}")
    return hits


def memory():
    """Each allocation of a request fails in turn: an error or a closed connection, and berthd goes on."""
    with Ground() as g:
        g.begin()
        expect(g.ask("PUT", "/v1/sandbox/a", {"labels": {"n": "0"}}).status, 200, "put")
        done = {}
        for change in CHANGES + [listing, run, process]:
            nth = 1
            try:
                while try_memory(g, change, nth):
                    nth += 1
            except Exception as wrong:
                raise AssertionError(f"{change.__name__}, allocation {nth}: {wrong!r}") from wrong
            done[change.__name__] = nth - 1
        note(f"allocations: {done}")
        require(all(done.values()), f"nothing was allocated: {done}")
        g.again()
        require(g.ask("PUT", "/v1/sandbox/a", {"labels": {"n": "1"}}).status == 200 and g.label() == "1", "afterwards")
        g.daemon.stop()


def accepted():
    """What new connections need cannot be allocated: they are closed, and the next one is let in all the same."""
    with Ground() as g:
        g.begin()
        g.settle()
        for count in (1, 20):
            os.kill(g.daemon.process.pid, signal.SIGSTOP)  # so that it hears of them all at once
            g.faults.arm(f.MEMORY, 1, is_lasting=True)
            clients = [g.connect() for _ in range(count)]
            os.kill(g.daemon.process.pid, signal.SIGCONT)
            for client in clients:
                client.expect_end(is_reset_fine=True)
                client.close()
            g.faults.disarm()
            g.check_lives()
        g.daemon.stop()


def try_begin(g, kind, nth, path):
    """Ready, or an end with a sentence. Whether the call was reached, and whether it was too much."""
    g.faults.arm(kind, nth, path=path)
    try:
        g.begin()
        has_failed = False
    except (RuntimeError, AssertionError) as error:  # it says so on its first line, or before there is one
        has_failed = True
        text = str(error)
        require("Sanitizer" not in text and "Assertion" not in text, text)
        require("berthd: " in text or "failed " in text, text)
    _, hits = g.faults.disarm()
    if not has_failed:
        g.check_lives()
        shown = g.ask("GET", "/v1/sandbox/a").json()
        # Without memory for its settings it is not taken for one that has others.
        require(shown["state"] == "failed" or shown["labels"] == {"n": "0"}, f"what was stored: {shown}")
        g.daemon.stop()
    return hits, has_failed


def beginnings():
    """Each call of a start on stored facts fails in turn: it serves or says why not, and loses nothing."""
    with Ground() as g:
        g.begin()
        expect(g.ask("PUT", "/v1/sandbox/a", {"labels": {"n": "0"}}).status, 200, "put")
        g.daemon.stop()
        for kind, path in ((f.OPEN, "state.db"), (f.WRITE, "state.db"), (f.SYNC, "state.db"), (f.MEMORY, "")):
            failed, tried, nth = 0, 0, 1
            while nth < MOST:
                try:
                    hits, has_failed = try_begin(g, kind, nth, path)
                except Exception as wrong:
                    raise AssertionError(f"{f.NAMES[kind]} {nth}: {wrong!r}") from wrong
                if not hits:
                    require(not has_failed, "without a fault")
                    break
                failed, tried = failed + has_failed, tried + 1
                nth += MEMORY_STEP if kind == f.MEMORY else 1
            note(f"{f.NAMES[kind]}: {tried} of at most {nth - 1} calls, {failed} of them too much")
        g.begin()
        expect(g.label(), "0", "what was stored")
        g.daemon.stop()


run_cases([(case.__doc__.rstrip("."), case) for case in (stored, dead_disk, memory, beginnings, accepted)])
