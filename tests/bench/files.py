"""The files part of scripts/bench: what goes into a sandbox and out of it, beside cat, cp and tar.

All of it goes through the API's Unix socket, and all floors work on the file system that has
the sandbox's own files. What is read was written just before, so it is in memory for everybody.
"""

import os
import random
import shutil
import statistics
import subprocess

from sandboxes import Berth, BenchError, CLIENTS, measure, rounds, share

SMALL, SMALL_BYTES = 1000, 1000
TREE_FOLDERS, TREE_EACH = 100, 100
ROOM = "/workspace"


def target(verb, path, query=""):
    return f"/v1/sandbox/warm/{verb}{path}{query}"


class FilesBench:
    def __init__(self, bench, row):
        self.bench, self.row, self.rows = bench, row, []
        self.berth = Berth(bench, "crun")
        self.at = bench.place()
        self.samples = {}

    def pump(self, *words):
        """(seconds, bytes that came back)"""
        done = subprocess.run([self.bench.pump, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(done.stderr.strip())
        seconds, got = done.stdout.split()
        return float(seconds), int(got)

    def note(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def put(self, verb, path, file, query=""):
        method = "PUT" if verb == "file" else "POST"
        return self.pump("put", self.berth.socket, method, target(verb, path, query), file)[0]

    def get(self, verb, path, query=""):
        method = "GET" if verb == "file" else "POST"
        return self.pump("get", self.berth.socket, method, target(verb, path, query))

    def remove(self, path):
        self.berth.outside.order("http", 1, 1, "DELETE", target("file", path, "?recursive=1"), " 204 ")

    def say(self, name, what, floor, unit="MB/s", **more):
        mine, other = self.samples[what], self.samples[floor]
        self.rows.append(self.row(name, statistics.median(mine), unit, statistics.median(other),
                                  floor.split(":")[0], **more))

    # --- one large file ---

    def large(self):
        size = (64 if self.bench.is_quick else 1024) << 20
        title = f"{size >> 20:,} MiB"
        source, copy = f"{self.at}/large", f"{self.at}/copy"
        with open(source, "wb") as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))
        for _ in rounds(5, 60):
            self.note("in", size / 1e6 / self.put("file", f"{ROOM}/large", source))
            self.note("cat: in", size / 1e6 / self.pump("to", source, "sh", "-c", f"exec cat >'{copy}'")[0])
            seconds, got = self.get("file", f"{ROOM}/large")
            self.note("out", size / 1e6 / seconds)
            seconds, other = self.pump("from", "cat", copy)
            self.note("cat: out", size / 1e6 / seconds)
            if (got, other) != (size, size):
                raise BenchError(f"of {size} bytes came {got}, and {other} by cat")
            self.remove(f"{ROOM}/large")
            os.unlink(copy)
        os.unlink(source)
        self.say(f"file of {title} in", "in", "cat: in")
        with open(f"/proc/{self.berth.child.pid}/status", encoding="utf-8") as file:
            most = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
        self.say(f"file of {title} out", "out", "cat: out", goal=(">=", 0.5),
                 detail=f"the most memory that berthd had: {most / 1e3:.1f} MB")

    # --- many small files, a request each ---

    def small_round(self, at_once, content):
        order = self.berth.outside.order
        seconds, _, each = order("http", at_once, SMALL, "PUT", target("file", f"{ROOM}/small/*"), " 201 ",
                                 content)
        self.note(f"in {at_once}", seconds * 1e3)
        self.samples.setdefault(f"each in {at_once}", []).extend(each)
        seconds, _, each = order("http", at_once, SMALL, "GET", target("file", f"{ROOM}/small/*"), content)
        self.note(f"out {at_once}", seconds * 1e3)
        self.samples.setdefault(f"each out {at_once}", []).extend(each)
        self.remove(f"{ROOM}/small")

    def small(self):
        source, copy = f"{self.at}/small", f"{self.at}/copies"
        content = "x" * SMALL_BYTES
        os.mkdir(source)
        for number in range(SMALL):
            with open(f"{source}/{number}", "w", encoding="utf-8") as file:
                file.write(content)
        run = self.berth.outside.order
        for _ in rounds(2 if self.bench.is_quick else 5, 60):
            self.small_round(1, content)
            self.small_round(CLIENTS, content)
            self.note("cp -r", run("run", 1, 1, "cp", "-r", source, copy)[0] * 1e3)
            shutil.rmtree(copy)
            os.mkdir(copy)
            for at_once in (1, CLIENTS):
                seconds = run("run", at_once, SMALL, "cp", f"{source}/*", f"{copy}/*")[0]
                self.note(f"cp each: {at_once}", seconds * 1e3)
            shutil.rmtree(copy)
        for at_once in (1, CLIENTS):
            for way in ("in", "out"):
                each = self.samples[f"each {way} {at_once}"]
                self.say(f"{SMALL:,} files {way}, {at_once} at once", f"{way} {at_once}",
                         f"cp each: {at_once}", "ms",
                         detail=f"p50 {statistics.median(each):,.0f} us, p99 {share(each, 0.99):,.0f} us; "
                                f"one cp -r of all {statistics.median(self.samples['cp -r']):,.0f} ms")

    # --- trees ---

    def plant(self):
        """Ten thousand files, most of them small, as in a project with its packages."""
        chance, total = random.Random(1), 0
        for folder in range(TREE_FOLDERS):
            os.makedirs(f"{self.at}/tree/package-{folder}/lib")
            for number in range(TREE_EACH):
                path = f"{self.at}/tree/package-{folder}/{'lib/' * (number % 2)}file-{number}.js"
                with open(path, "wb") as file:
                    total += file.write(chance.randbytes(chance.choice((0, 90, 600, 1500, 4000, 9000, 20000))))
        return total

    def trees(self):
        total, archive = self.plant(), f"{self.at}/tree.tar"
        subprocess.run(["tar", "-cf", archive, "-C", f"{self.at}/tree", "."], check=True)
        copy = f"{self.at}/tree-copy"
        query = f"?path={ROOM}/tree"
        for _ in rounds(2 if self.bench.is_quick else 7, 60):
            self.note("hydrate", self.put("hydrate", "", archive, query) * 1e3)
            os.mkdir(copy)
            self.note("tar -x", self.pump("to", archive, "tar", "-xf", "-", "-C", copy)[0] * 1e3)
            seconds, got = self.get("persist", "", query)
            self.note("persist", seconds * 1e3)
            seconds, other = self.pump("from", "tar", "-cf", "-", "-C", copy, ".")
            self.note("tar -c", seconds * 1e3)
            if min(got, other) < total:
                raise BenchError(f"of {total} bytes in files came {got} bytes, and {other} by tar")
            self.remove(f"{ROOM}/tree")
            shutil.rmtree(copy)
        title, detail = f"{TREE_FOLDERS * TREE_EACH:,} files", f"{total / 1e6:.0f} MB"
        self.say(f"hydrate of {title}", "hydrate", "tar -x", "ms", detail=detail)
        self.say(f"persist of {title}", "persist", "tar -c", "ms", detail=detail)


def bench_files(bench, row):
    """Rows, as they come."""
    it = FilesBench(bench, row)
    yield from measure(it, it.large, it.small, it.trees)
