"""The neighbours part of scripts/bench: what five that do their worst cost a sixth one."""

import json
import time

from cost import spent
from sandboxes import Berth, BenchError, Connection, DONE, Driver, EXEC, measure, share

LIMITS = {"cpus": 0.2, "memory": "256M", "pids": 256}
SETTLE_S = 4
P99_RATIO, HEALTH_MS = 2, 50
HOG = "x = []\nwhile True: x.append(bytearray(1 << 20))"
# What each runs inside; the last is kept busy from outside.
COMMANDS = {
    "fork bomb": "f() { f | f & }; f & exec sleep 3000",
    "memory hog": f"while :; do python3 -c '{HOG}'; done",
    "disk filler": "while :; do dd if=/dev/zero of=big bs=1M count=200; rm big; done",
    "log flooder": "exec yes 'a line of a log that nobody reads'",
    "exec flooder": None,
}


class NeighboursBench:
    def __init__(self, bench, row):
        self.bench, self.row, self.rows = bench, row, []
        self.berth = Berth(bench, "crun")
        if not self.berth.uses_cgroups:
            raise BenchError("without cgroups nobody can be given a fifth of a processor")
        self.count = 200 if bench.is_quick else 2000

    def ask(self, method, path, body=None):
        connection = Connection(self.berth.socket)
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        connection.close()
        if response.status >= 300:
            raise BenchError(f"{method} {path}: {response.status} {text[:200]!r}")

    @staticmethod
    def place(name):
        return "/v1/sandbox/" + name.replace(" ", "-")

    def begin(self, name):
        """What ends it."""
        self.ask("PUT", self.place(name), {"limits": LIMITS, "sleep_after": "never"})
        if COMMANDS[name]:
            self.ask("POST", self.place(name) + "/processes", {"command": COMMANDS[name]})
            return lambda: self.ask("DELETE", self.place(name))
        driver = Driver(self.bench, f"{self.berth.at}/flood.log", self.bench.drive, self.berth.socket)
        words = ["http", "8", "1000000", "POST", self.place(name) + "/exec", DONE, EXEC]
        driver.child.stdin.write("\t".join(words).encode() + b"\n")
        driver.child.stdin.flush()

        def end():
            driver.child.kill()
            driver.child.wait()
            self.ask("DELETE", self.place(name))
        return end

    def sample(self, count):
        """Microseconds of execs in the sixth, and of /health, one after the other."""
        execs = self.berth.outside.order("http", 1, count, "POST", "/v1/sandbox/warm/exec", DONE, EXEC)[2]
        health = self.berth.outside.order("http", 1, count, "GET", "/health", " 200 ")[2]
        return execs, health

    def beside(self, names, count):
        ends = []
        try:
            for name in names:
                ends.append(self.begin(name))
            time.sleep(SETTLE_S)
            before, begun = spent(self.berth.child.pid)[0], time.monotonic()
            execs, health = self.sample(count)
            used = (spent(self.berth.child.pid)[0] - before) / 1e9 / (time.monotonic() - begun)
            return execs, health, used
        finally:
            for end in ends:
                end()

    def all(self):
        self.sample(self.count // 10)  # to warm up
        quiet, _ = self.sample(self.count)
        loud, health, used = self.beside(COMMANDS, self.count)
        self.rows += [
            self.row("exec p99, five at their worst", share(loud, 0.99), "us", share(quiet, 0.99), "quiet p99",
                     goal=("<=", P99_RATIO),
                     detail=f"p50 {share(loud, 0.5):,.0f} us, quiet {share(quiet, 0.5):,.0f} us; worst {max(loud):,.0f} us, "
                            f"quiet {max(quiet):,.0f} us; berthd used {100 * used:.0f} % of a processor"),
            self.row("/health, worst of them", max(health) / 1e3, "ms", goal=("<=", HEALTH_MS),
                     detail=f"p99 {share(health, 0.99) / 1e3:.2f} ms of {len(health)}"),
        ]

    def each(self):
        """Who of them it is that is felt."""
        quiet, _ = self.sample(self.count)
        for name in COMMANDS:
            loud, health, used = self.beside([name], self.count // 2)
            self.rows.append(self.row(f"exec p99, {name}", share(loud, 0.99), "us", share(quiet, 0.99), "quiet p99",
                                      detail=f"p50 {share(loud, 0.5):,.0f} us; /health p99 {share(health, 0.99) / 1e3:.2f} ms; "
                                             f"berthd used {100 * used:.0f} % of a processor"))


def bench_neighbours(bench, row):
    """Rows, as they come."""
    it = NeighboursBench(bench, row)
    yield from measure(it, it.all, it.each)
