"""The code part of scripts/bench: calls in a context and runs, beside the interpreter alone and beside podman."""

import json
import os
import statistics

from sandboxes import AT_ONCE, Berth, BenchError, Connection, Podman, await_that, measure, rounds, share

POOL = 8
PYTHON = ["python3", "-c", "print(1)"]
NODE = ["node", "-e", "console.log(1)"]
CALL_PYTHON = json.dumps({"language": "python", "code": "print(1)"})
CALL_NODE = json.dumps({"language": "javascript", "code": "console.log(1)"})
ANSWER = '"stdout":"1\\n"'
CALL = ("POST", "/v1/sandbox/warm/code", ANSWER)
RUN = ("POST", "/v1/runs")
COMPLETED = '"status":"completed"'


class CodeBench:
    def __init__(self, bench, row):
        self.bench, self.row, self.rows, self.samples = bench, row, [], {}
        self.cold = Berth(bench, "crun")
        self.pooled = Berth(bench, "crun", "--config", self.write_config())
        self.podman = Podman(self.cold, PYTHON)
        self.crun_words = self.cold.run_words(AT_ONCE, PYTHON)

    def write_config(self):
        path = os.path.join(self.bench.dir, "pool.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"pool": {"size": POOL, "languages": ["python"]}}, file)
        os.chmod(path, 0o644)
        return path

    def await_pool(self):
        """All of them, and none on its way: the next run alone is measured."""
        connection = Connection(self.pooled.socket)

        def warm():
            connection.request("GET", "/v1/pool/stats")
            return json.loads(connection.getresponse().read())["warm"]
        try:
            if not await_that(lambda: warm() == POOL, 60):
                raise BenchError(f"the pool has {warm()} of {POOL} that are warm")
        finally:
            connection.close()

    def spawn(self, name, count, words, driver=None):
        self.samples.setdefault(name, []).extend((driver or self.cold.outside).order("run", 1, count, *words)[2])

    def ask(self, name, berth, count, *words):
        self.samples.setdefault(name, []).extend(berth.outside.order("http", 1, count, *words)[2])

    def say(self, title, name, floor, goal=None):
        mine, other = self.samples[name], self.samples.get(floor)
        if not other:
            self.rows.append(self.row(title, None, "", None, floor, detail=self.podman.why or ""))
            return
        self.rows.append(self.row(
            title, statistics.median(mine), "us", statistics.median(other), floor, goal=goal,
            detail=f"p99 {share(mine, 0.99):,.0f} us of {len(mine)}, {floor} {share(other, 0.99):,.0f} us of "
                   f"{len(other)}"))

    # --- one after the other ---

    def contexts(self):
        for number in rounds(4 if self.bench.is_quick else 40, 60):
            self.spawn("python3 -c", 5, PYTHON)
            self.ask("python call", self.cold, 20, *CALL, CALL_PYTHON)
            self.spawn("node -e", 3, NODE)
            self.ask("node call", self.cold, 20, *CALL, CALL_NODE)
            if not number:
                self.samples.clear()  # to warm up
        self.say("call in a context", "python call", "python3 -c", ("<=", 0.2))
        self.say("... of JavaScript", "node call", "node -e")

    def runs(self):
        for number in rounds(4 if self.bench.is_quick else 40, 90):
            self.await_pool()
            self.spawn("python3 -c", 3, PYTHON)
            self.ask("pooled run", self.pooled, 1, *RUN, '"pooled":true', CALL_PYTHON)
            self.spawn("python3 -c", 3, PYTHON)
            self.ask("cold run", self.cold, 1, *RUN, COMPLETED, CALL_PYTHON)
            self.spawn("crun run", 1, self.crun_words, self.cold.inside)
            if not self.podman.why:
                self.spawn("podman run", 1, self.podman.run_words(), self.cold.inside)
            if not number:
                self.samples.clear()
        self.say("pooled run", "pooled run", "python3 -c", ("<=", 1.2))
        self.say("cold run", "cold run", "python3 -c")
        self.say("cold run", "cold run", "crun run")
        self.say("podman run to cold run", "podman run", "cold run") if not self.podman.why \
            else self.say("cold run", "cold run", "podman run")

    # --- many at once ---

    def at_once(self):
        """Milliseconds until the last of 100 is done."""
        self.await_pool()
        took = {}
        for name, driver, kind, words in (
                ("pooled", self.pooled.outside, "http", [*RUN, COMPLETED, CALL_PYTHON]),
                ("cold", self.cold.outside, "http", [*RUN, COMPLETED, CALL_PYTHON]),
                ("crun run", self.cold.inside, "run", self.crun_words),
                ("podman run", self.cold.inside, "run", self.podman.run_words())):
            if name == "podman run" and self.podman.why:
                continue
            seconds, wrong, each = driver.order(kind, AT_ONCE, AT_ONCE, *words, may_fail=True)
            took[name] = (seconds * 1e3, wrong, each)
        for name in ("pooled", "cold"):
            mine, wrong, each = took[name]
            detail = (f"{AT_ONCE - wrong} of {AT_ONCE} completed; p50 {statistics.median(each) / 1e3:,.0f} ms, "
                      f"p99 {share(each, 0.99) / 1e3:,.0f} ms")
            for floor in ("crun run", "podman run"):
                if floor not in took:
                    self.rows.append(self.row(f"{AT_ONCE} runs at once, {name}", None, "", None, floor,
                                              detail=self.podman.why))
                    continue
                self.rows.append(self.row(f"{AT_ONCE} runs at once, {name}", mine, "ms", took[floor][0], floor,
                                          detail=detail or f"{floor}: {took[floor][1]} failed"))
                detail = ""
        self.rows.append(self.row("runs that failed", took["pooled"][1] + took["cold"][1], "", goal=("<=", 0)))


def bench_code(bench, row):
    """Rows, as they come."""
    it = CodeBench(bench, row)
    yield from measure(it, it.contexts, it.runs, it.at_once)
