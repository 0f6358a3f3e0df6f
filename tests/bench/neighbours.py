"""The neighbours part of scripts/bench: what five that do their worst cost a sixth one."""

import json
import os
import signal
import time

from sandboxes import Berth, BenchError, Connection, DONE, Driver, EXEC, PROGRAM, measure, share

LIMITS = {"cpus": 0.2, "memory": "256M", "pids": 256}
SETTLE_S, PAUSE_S, TURNS = 4, 0.5, 10
P99_RATIO, HEALTH_MS = 2, 50
WORK_LEAST = 0.01  # of a processor, or it does not what its name says
FLOOD = 100000  # execs, more than there is time for
# A shell would end when it cannot fork, and the bomb with it.
BOMB = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
HOG = "x = []\nwhile True: x.append(bytearray(1 << 20))"
# What each runs inside; the last is kept busy from outside.
COMMANDS = {
    "fork bomb": f"exec python3 -c '{BOMB}'",
    "memory hog": f"while :; do python3 -c '{HOG}'; done",
    "disk filler": "while :; do dd if=/dev/zero of=big bs=1M count=200; rm big; done",
    "log flooder": "exec yes 'a line of a log that nobody reads'",
    "exec flooder": None,
}


def delays(pid):
    """(ns that it ran, ns that it was ready and had no processor), of all its threads."""
    rows = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            rows.append([int(word) for word in file.read().split()])
    return sum(r[0] for r in rows), sum(r[1] for r in rows)


class NeighboursBench:
    def __init__(self, bench, row):
        self.bench, self.row, self.rows = bench, row, []
        self.berth = Berth(bench, "crun")
        if not self.berth.uses_cgroups:
            raise BenchError("without cgroups nobody can be given a fifth of a processor")
        self.flood = None
        self.count = 200 if bench.is_quick else 2000

    def ask(self, method, path, body=None):
        connection = Connection(self.berth.socket)
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        connection.close()
        if response.status >= 300:
            raise BenchError(f"{method} {path}: {response.status} {text[:200]!r}")
        return text

    @staticmethod
    def place(name):
        return "/v1/sandbox/" + name.replace(" ", "-")

    def begin(self, name):
        self.ask("PUT", self.place(name), {"limits": LIMITS, "sleep_after": "never"})
        if COMMANDS[name]:
            self.ask("POST", self.place(name) + "/processes", {"command": COMMANDS[name]})
            return
        driver = Driver(self.bench, f"{self.berth.at}/flood.log", self.bench.drive, self.berth.socket)
        words = ["http", "8", str(FLOOD), "POST", self.place(name) + "/exec", DONE, EXEC]
        driver.child.stdin.write("\t".join(words).encode() + b"\n")
        driver.child.stdin.flush()
        self.flood = driver.child

    def end(self, names):
        if self.flood:
            self.flood.kill()
            self.flood.wait()
            self.flood = None
        for name in names:
            self.ask("DELETE", self.place(name))

    def used(self, names):
        """Seconds of processor time of each since its start."""
        return [json.loads(self.ask("GET", self.place(name) + "/stats"))["usage"]["cpu_ms"] / 1e3 for name in names]

    def hush(self, names):
        """Frozen, with whoever would wake them: a moment at which only the machine's other work is felt."""
        if self.flood:
            self.flood.send_signal(signal.SIGSTOP)
        for name in names:
            self.ask("POST", self.place(name) + "/sleep", {"mode": "freeze"})

    def unhush(self, names):
        for name in names:
            self.ask("POST", self.place(name) + "/wake")
        if self.flood:
            self.flood.send_signal(signal.SIGCONT)

    def sample(self, into, count):
        """Microseconds, one after the other: execs in the sixth, /health, and a plain spawn on the host."""
        order = self.berth.outside.order
        before, begun = delays(self.berth.child.pid), time.monotonic()
        into["exec"] += order("http", 1, count, "POST", "/v1/sandbox/warm/exec", DONE, EXEC)[2]
        after = delays(self.berth.child.pid)
        into["took"] += time.monotonic() - begun
        into["ran"] += (after[0] - before[0]) / 1e9
        into["waited"] += (after[1] - before[1]) / 1e9
        into["health"] += order("http", 1, count, "GET", "/health", " 200 ")[2]
        into["spawn"] += order("run", 1, count, PROGRAM)[2]

    def beside(self, names, count):
        """(quiet, loud), in turns, so that what else the machine does is in both; loud with the work of each."""
        quiet, loud = ({"exec": [], "health": [], "spawn": [], "took": 0, "ran": 0, "waited": 0} for _ in range(2))
        try:
            for name in names:
                self.begin(name)
            time.sleep(SETTLE_S)
            before, lasted, begun = self.used(names), 0, time.monotonic()
            for _ in range(TURNS):
                self.sample(loud, count // TURNS)
                lasted += time.monotonic() - begun
                self.hush(names)
                time.sleep(PAUSE_S)
                self.sample(quiet, count // TURNS)
                self.unhush(names)
                begun = time.monotonic()
                time.sleep(PAUSE_S)
            lasted += time.monotonic() - begun
            loud["work"] = [(now - was) / lasted for now, was in zip(self.used(names), before)]
        finally:
            self.end(names)
        for name, work in zip(names, loud["work"]):
            if work < WORK_LEAST:
                raise BenchError(f"the {name} did nothing: {work:.3f} of a processor")
        return quiet, loud

    def say(self, title, quiet, loud, goal=None):
        per_exec = 1e6 / len(loud["exec"])
        self.rows.append(self.row(
            f"exec p99, {title}", share(loud["exec"], 0.99), "us", share(quiet["exec"], 0.99), "quiet p99", goal=goal,
            detail=f"p50 {share(loud['exec'], 0.5):,.0f} us, quiet {share(quiet['exec'], 0.5):,.0f} us; host's own spawn p99 "
                   f"{share(loud['spawn'], 0.99):,.0f} us, quiet {share(quiet['spawn'], 0.99):,.0f} us; busy "
                   f"{' '.join(f'{work:.2f}' for work in loud['work'])} of a processor; for each exec berthd "
                   f"ran {loud['ran'] * per_exec:,.0f} us and waited {loud['waited'] * per_exec:,.0f} us for a processor, quiet "
                   f"{quiet['ran'] * per_exec:,.0f} and {quiet['waited'] * per_exec:,.0f}"))

    def all(self):
        """Beside all of them."""
        quiet, loud = self.beside(list(COMMANDS), self.count)
        self.say("five at their worst", quiet, loud, goal=("<=", P99_RATIO))
        self.rows.append(self.row("/health, worst of them", max(loud["health"]) / 1e3, "ms", goal=("<=", HEALTH_MS),
                                  detail=f"p99 {share(loud['health'], 0.99) / 1e3:.2f} ms of {len(loud['health'])}"))

    def each(self):
        """Who of them it is that is felt."""
        for name in COMMANDS:
            self.say(name, *self.beside([name], self.count // 2))


def bench_neighbours(bench, row):
    """Rows, as they come."""
    it = NeighboursBench(bench, row)
    yield from measure(it, it.all, it.each)
