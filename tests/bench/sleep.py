"""The sleep part of scripts/bench: what it takes to wake, what those cost that do nothing, and adoption."""

import json
import statistics
import time

from cost import spent
from sandboxes import Berth, BenchError, Connection, DONE, EXEC, MANY, measure, memory_of, rounds, share

WAKE_MORE_US = 2000  # that an exec may take longer when it has to thaw first
WATCH_S = 10
PAUSE_S = 0.1
WARM = "/v1/sandbox/warm"


class SleepBench:
    def __init__(self, bench, row):
        self.bench, self.row, self.rows = bench, row, []
        self.berth = Berth(bench, "crun")
        self.samples = {}

    def ask(self, *words):
        return self.berth.outside.order("http", 1, 1, *words)[2][0]

    def exec(self, name):
        self.samples.setdefault(name, []).append(self.ask("POST", f"{WARM}/exec", DONE, EXEC))

    def sleep(self, mode):
        self.ask("POST", f"{WARM}/sleep", f'"mode":"{mode}"', json.dumps({"mode": mode}))

    def median(self, name):
        return statistics.median(self.samples[name])

    def detail(self, *names):
        return ", ".join(f"{name} p99 {share(self.samples[name], 0.99):,.0f} us of {len(self.samples[name])}"
                         for name in names)

    # --- waking ---

    def from_freeze(self):
        """Each exec comes after another request, so that both find the same processor."""
        if not self.berth.uses_cgroups:
            raise BenchError("without cgroups nothing can be frozen")
        for number in range(50 if self.bench.is_quick else 1000):
            self.ask("POST", f"{WARM}/heartbeat", " 200 ")
            self.exec("running")
            self.sleep("freeze")
            self.exec("frozen")
            if number < 5:
                self.samples.clear()  # to warm up
        self.rows += [
            self.row("exec when frozen", self.median("frozen"), "us", self.median("running"), "running",
                     detail=self.detail("frozen", "running")),
            self.row("... longer by", self.median("frozen") - self.median("running"), "us",
                     goal=("<=", WAKE_MORE_US)),
        ]

    def from_stop(self):
        """Each comes after a pause: the kernel lets whoever moves a process into a cgroup wait for
        all processors, unless another has just done so."""
        words = self.berth.run_words(1)
        for _ in rounds(5 if self.bench.is_quick else 100, 60):
            self.sleep("stop")
            time.sleep(PAUSE_S)
            self.exec("stopped")
            time.sleep(PAUSE_S)
            self.samples.setdefault("crun run", []).extend(self.berth.inside.order("run", 1, 1, *words)[2])
        self.rows.append(self.row("exec when stopped", self.median("stopped"), "us", self.median("crun run"),
                                  "crun run", goal=("<=", 1.5), detail=self.detail("stopped", "crun run")))

    # --- many that do nothing ---

    def say_idle(self, title, goal=None):
        """Of berthd and keeper, per second, with so many of them."""
        pids = {"berthd": self.berth.child.pid, "keeper": self.berth.keeper}
        before = {name: spent(pid) for name, pid in pids.items()}
        time.sleep(WATCH_S)
        for name, pid in pids.items():
            used, turns = (now - then for now, then in zip(spent(pid), before[name]))
            self.rows.append(self.row(f"{title}: {name}", used / 1e3 / WATCH_S, "us/s", goal=goal,
                                      detail=f"{turns / WATCH_S:.1f} turns a second"))

    def idle(self):
        self.ask("POST", f"{WARM}/wake", " 200 ")
        took = self.adopt(1)
        before = memory_of(self.berth.child.pid)
        names, _ = self.berth.create(8, MANY)
        each = (memory_of(self.berth.child.pid) - before) / MANY / 1024
        self.rows.append(self.row(f"berthd for each of {MANY} idle", each, "kB", 32, "goal", goal=("<=", 1)))
        self.say_idle(f"{MANY} idle")
        self.berth.outside.order("http", 8, MANY, "POST", f"/v1/sandbox/{names}/sleep", " 200 ")
        self.say_idle(f"{MANY} asleep", goal=("<=", 500))
        self.berth.outside.order("http", 8, MANY, "POST", f"/v1/sandbox/{names}/wake", " 200 ")
        more = self.adopt(MANY + 1)
        self.rows.append(self.row(f"adoption of {MANY}", more - took, "ms", detail=f"{(more - took) / MANY * 1e3:,.0f} us each; "
                                  f"{took:,.0f} ms with one sandbox, {more:,.0f} ms with {MANY} more"))
        self.berth.delete(names, MANY)

    def running(self):
        connection = Connection(self.berth.socket)
        try:
            connection.request("GET", "/v1/sandbox?state=running&limit=1000")
            return len(json.loads(connection.getresponse().read())["sandboxes"])
        finally:
            connection.close()

    def adopt(self, wanted):
        """Milliseconds from the start of another berthd until it has all of them."""
        took = []
        for _ in range(1 if self.bench.is_quick else 5):
            begun = time.monotonic()
            self.berth.restart()
            while self.running() < wanted:
                if time.monotonic() > begun + 60:
                    raise BenchError(f"only {self.running()} of {wanted} were adopted")
                time.sleep(0.001)
            took.append((time.monotonic() - begun) * 1e3)
        return statistics.median(took)



def bench_sleep(bench, row):
    """Rows, as they come."""
    it = SleepBench(bench, row)
    yield from measure(it, it.from_freeze, it.from_stop, it.idle)
