"""The sandbox part of scripts/bench: Berth beside crun, runc and podman, in one run.

Whoever is compared gets what Berth's own sandboxes have: a bundle is the live sandbox's config.json
with /bin/true as its program, its root is that sandbox's root, and the runtimes run in the
keeper's namespaces, where the root is mounted and the host's cgroups look as they need them.
"""

import contextlib
import glob
import http.client
import json
import os
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import time

PROGRAM = "/bin/true"
EXEC = json.dumps({"argv": [PROGRAM]})
DONE = '"exit_code":0'
SESSION = "Session-Id: bench"
FLOOD = 10 << 20  # bytes of output
# What the keeper gives to a runtime; podman wants a HOME too.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C",
               "XDG_RUNTIME_DIR": "/nonexistent"}
AT_ONCE, CLIENTS, MANY = 100, 16, 200
TIMEOUT = 180


class BenchError(Exception):
    pass


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("bench", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Driver:
    """A tests/bench/drive, here or in the namespaces of another process."""

    def __init__(self, bench, log, *argv):
        self.log = log
        with open(log, "ab") as stderr:
            self.child = bench.start(argv, stderr=stderr, orders=True,
                                     env={**ENVIRONMENT, "HOME": bench.dir,
                                          "CONTAINERS_CONF": f"{bench.dir}/containers.conf"})

    def order(self, kind, at_once, total, *words, may_fail=False):
        """(seconds for all, how many were wrong, the microseconds of each)"""
        self.child.stdin.write("\t".join([kind, str(at_once), str(total), *words]).encode() + b"\n")
        self.child.stdin.flush()
        ready, _, _ = select.select([self.child.stdout], [], [], TIMEOUT)
        line = self.child.stdout.readline() if ready else b""
        if not line:
            raise BenchError(f"{' '.join(words)[:300]}: {self.last_words()}")
        elapsed, wrong, *each = line.split()
        if int(wrong) and not may_fail:
            raise BenchError(f"{wrong.decode()} of {total} failed: {' '.join(words)[:300]}: "
                             f"{self.last_words()}")
        return float(elapsed) / 1e6, int(wrong), [float(x) for x in each]

    def last_words(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1] if lines else "(no word)"


def processes_with(word):
    """{pid: name} of those that have `word` among their arguments."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                name = file.read().strip()
        except OSError:
            continue
        if word.encode() in words:
            found[int(pid)] = name
    return found


def await_that(condition, seconds):
    """For what no event tells."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def remove_cgroup(name):
    """In every hierarchy, with what is still in it."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = {line.split()[4] for line in file if " - cgroup" in line}
    for mount in mounts:
        for folder, _, _ in os.walk(os.path.join(mount, name), topdown=False):
            try:
                with open(os.path.join(folder, "cgroup.procs"), encoding="utf-8") as file:
                    for pid in file.read().split():
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass
            await_that(lambda path=folder: try_rmdir(path), 2)


def try_rmdir(path):
    try:
        os.rmdir(path)
    except OSError:
        return not os.path.exists(path)
    return True


class Berth:
    """A berthd with a sandbox "warm", a driver outside and one in the keeper's namespaces."""

    def __init__(self, bench, runtime, *flags):
        self.bench, self.runtime, self.flags = bench, runtime, flags
        self.cgroups = {f"berth-bench-{os.getpid()}-{runtime}"}
        self.number, self.child = 0, None
        bench.closers.append(self.close)
        self.child, self.at = bench.start_berthd("--runtime", shutil.which(runtime), *flags)
        self.run, self.socket = bench.run_of(self.at), f"{self.at}/s"
        self.bundles = f"{self.run}-bundles"
        self.outside = Driver(bench, f"{self.at}/outside.log", bench.drive, self.socket)
        self.outside.order("http", 1, 1, "POST", "/v1/sandbox/warm/exec", DONE, EXEC)
        with open(self.bundle_file("config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        path = self.config["linux"].get("cgroupsPath")
        self.uses_cgroups = path is not None
        if path:
            self.cgroups.add(path.split("/")[1])
        self.keeper = next(p for p, name in processes_with(self.run).items() if name == "berth-keeper")
        users = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self.inside = Driver(bench, f"{self.at}/inside.log", "nsenter", f"--target={self.keeper}",
                             "--mount", *users, bench.drive)

    def restart(self):
        """Another berthd for what one has left that was killed."""
        self.child.kill()
        self.child.wait()
        self.child, _ = self.bench.start_berthd("--runtime", shutil.which(self.runtime), *self.flags, at=self.at)

    def bundle_file(self, name, sandbox="warm"):
        return os.path.join(self.run, sandbox, "bundle", name)

    def runtime_words(self, root):
        words = [self.runtime, f"--root={root}"]
        if self.runtime == "crun" and not self.uses_cgroups:
            words.append("--cgroup-manager=disabled")
        return words

    def exec_words(self):
        """Into the sandbox "warm", by the runtime that made it."""
        return [*self.runtime_words(f"{self.run}/.runtime"), "exec", "warm", PROGRAM]

    def run_words(self, count, program=(PROGRAM,)):
        """`count` bundles like the sandbox's own, with the program instead of init."""
        config = json.loads(json.dumps(self.config))
        config["process"]["args"] = list(program)
        config["root"]["path"] = self.bundle_file("rootfs")
        for number in range(count):
            folder = f"{self.bundles}/{number}"
            os.makedirs(folder, exist_ok=True)
            if self.uses_cgroups:
                config["linux"]["cgroupsPath"] = f"/berth-bench-{os.getpid()}-{self.runtime}/{number}"
            with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
                json.dump(config, file)
        return [*self.runtime_words(f"{self.run}-runtime"), "run", f"--bundle={self.bundles}/*",
                "bench-*"]

    def create(self, at_once, total, **options):
        """New sandboxes up to the result of their first command."""
        self.number += 1
        names = f"s{self.number}-*"
        answer = self.outside.order("http", at_once, total, "POST", f"/v1/sandbox/{names}/exec", DONE,
                                    EXEC, **options)
        return names, answer

    def flood(self, headers):
        """Microseconds until all of it has come as events."""
        connection = Connection(self.socket)
        body = json.dumps({"command": f"head -c {FLOOD} /dev/zero"})
        begun = time.monotonic()
        connection.request("POST", "/v1/sandbox/warm/exec", body, headers)
        with connection.getresponse() as response:
            answer = response.read()
        took = time.monotonic() - begun
        connection.close()
        if len(answer) < FLOOD * 4 / 3 or b'"exit_code":0' not in answer:
            raise BenchError(f"a flood of output came as {len(answer)} bytes: {answer[-200:]!r}")
        return took * 1e6

    def delete(self, names, total):
        self.outside.order("http", min(8, total), total, "DELETE", f"/v1/sandbox/{names}", " 204 ")

    def inits(self):
        found = []
        for name in os.listdir(self.run):
            try:
                with open(self.bundle_file("pid", name), encoding="utf-8") as file:
                    found.append(int(file.read()))
            except (OSError, ValueError):
                pass
        return found

    def delete_all(self):
        connection = Connection(self.socket)
        connection.request("GET", "/v1/sandbox?limit=1000")
        sandboxes = json.loads(connection.getresponse().read())["sandboxes"]
        for sandbox in sandboxes:
            connection.request("DELETE", f"/v1/sandbox/{sandbox['id']}")
            connection.getresponse().read()
        connection.close()

    def close(self):
        if not self.child:
            return
        try:
            self.delete_all()
            self.child.terminate()
            self.child.wait(60)
            gone = await_that(lambda: not processes_with(self.run), 20)
        except (OSError, ValueError, KeyError, http.client.HTTPException, subprocess.SubprocessError):
            gone = False
        if not gone:
            self.kill()
        self.child = None
        for name in self.cgroups:
            remove_cgroup(name)

    def kill(self):
        """The hard way: the monitor first, so that no keeper comes back; then all first processes."""
        found = processes_with(self.run)
        for pid in sorted(found, key=lambda pid: found[pid] != "berth-monitor") + self.inits():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Podman:
    """On the same root, with a store of its own; `why` it cannot be measured, or None."""

    def __init__(self, berth, program=(PROGRAM,)):
        self.berth, self.why, self.is_running, self.program = berth, None, False, program
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        at = f"{berth.at}/podman"
        self.base = ["podman", "--root", f"{at}/root", "--runroot", f"{berth.run}-podman",
                     "--tmpdir", f"{berth.run}-podman/tmp",
                     "--events-backend", "none", "--cgroup-manager", "cgroupfs", "--runtime", "crun",
                     "--runtime-flag", f"root={berth.run}-podman-crun"]
        self.options = ["--network", "none", "--ulimit", f"nofile={files}:{files}",
                        "--ulimit", "nproc=1024:1024"]
        # Podman leaves cgroups behind: here they are known to be ours.
        self.parent = f"berth-bench-podman-{os.getpid()}"
        self.options += ["--cgroup-parent", "/" + self.parent] if berth.uses_cgroups else ["--cgroups", "disabled"]
        self.root = ["--rootfs", berth.bundle_file("rootfs")]
        if not shutil.which("podman"):
            self.why = "podman is not installed"
            return
        with open(f"{berth.bench.dir}/containers.conf", "w", encoding="utf-8") as file:
            file.write('[engine]\nlock_type = "file"\n')  # else it leaves one in /dev/shm, for all
        berth.bench.closers.append(self.close)
        self.is_running = True  # perhaps
        self.attempt(*self.run_words())
        if not self.why:
            self.attempt(*self.base, "run", "--detach", "--name", "warm", *self.options, *self.root,
                         "/bin/sleep", "infinity")
        if not self.why:
            self.attempt(*self.exec_words())

    def attempt(self, *words):
        _, wrong, _ = self.berth.inside.order("run", 1, 1, *words, may_fail=True)
        if wrong:
            self.why = "podman does not run here: " + self.berth.inside.last_words()

    def run_words(self):
        return [*self.base, "run", "--rm", *self.options, *self.root, *self.program]

    def exec_words(self):
        return [*self.base, "exec", "warm", PROGRAM]

    def conmon(self):
        """The process that podman keeps for a container."""
        return [p for p, name in processes_with("warm").items()
                if name == "conmon" and p in processes_with(f"{self.berth.run}-podman")]

    def close(self):
        if self.is_running:
            self.is_running = False
            self.berth.inside.order("run", 1, 1, *self.base, "rm", "--all", "--force", "--time", "0",
                                    may_fail=True)
        for top in glob.glob(f"/sys/fs/cgroup/{self.parent}") + glob.glob(f"/sys/fs/cgroup/*/{self.parent}"):
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):  # whoever is still in there is nobody that we know
                    os.rmdir(folder)


def rounds(most, seconds):
    """At most so many, and no new one after so long: a busy machine is no reason to wait for ever."""
    end = time.monotonic() + seconds
    for number in range(most):
        if number and time.monotonic() > end:
            return
        yield number


def share(values, part):
    """The value below which `part` of them are."""
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))]


def memory_of(pid, field="Private_Dirty"):
    """In bytes."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise BenchError(f"the kernel does not say {field}")


class SandboxBench:
    def __init__(self, bench, row):
        self.bench, self.row = bench, row
        self.crun, self.runc = Berth(bench, "crun"), Berth(bench, "runc")
        self.podman = Podman(self.crun)
        self.run_words = {b.runtime: b.run_words(AT_ONCE) for b in (self.crun, self.runc)}
        self.samples, self.rows = {}, []

    def measure(self, name, driver, count, *words):
        self.samples.setdefault(name, []).extend(driver.order("run", 1, count, *words)[2])

    def measure_create(self, name, berth, count):
        names, (_, _, each) = berth.create(1, count)
        self.samples.setdefault(name, []).extend(each)
        berth.delete(names, count)

    def round(self, hot, cold):
        """Each thing once, so that a busy machine is busy for all."""
        crun, runc = self.crun, self.runc
        self.measure("spawn", crun.outside, hot, PROGRAM)
        self.samples.setdefault("exec", []).extend(
            crun.outside.order("http", 1, hot, "POST", "/v1/sandbox/warm/exec", DONE, EXEC)[2])
        self.samples.setdefault("session exec", []).extend(
            crun.outside.order("http", 1, hot, "POST", "/v1/sandbox/warm/exec", DONE, EXEC, SESSION)[2])
        for name, header in (("flood", {}), ("session flood", {"Session-Id": "bench"})):
            self.samples.setdefault(name, []).append(crun.flood(header))
        self.measure("crun exec", crun.inside, cold, *crun.exec_words())
        self.measure("runc exec", runc.inside, cold, *runc.exec_words())
        self.measure_create("create", crun, cold)
        self.measure("crun run", crun.inside, cold, *self.run_words["crun"])
        self.measure_create("create with runc", runc, cold)
        self.measure("runc run", runc.inside, cold, *self.run_words["runc"])
        if not self.podman.why:
            self.measure("podman run", crun.inside, 1, *self.podman.run_words())
            self.measure("podman exec", crun.inside, 1, *self.podman.exec_words())

    def say_pace(self, name, what, floor, goal=None):
        if what not in self.samples or floor not in self.samples:
            self.say_missing(name, floor)
            return
        mine, other = self.samples[what], self.samples[floor]
        self.rows.append(self.row(
            name, statistics.median(mine), "us", statistics.median(other), floor, goal=goal,
            detail=f"p99 {share(mine, 0.99):,.0f} us of {len(mine)}, {floor} "
                   f"{share(other, 0.99):,.0f} us of {len(other)}"))

    def say_missing(self, name, floor):
        self.rows.append(self.row(name, None, "", None, floor, detail=self.podman.why))

    def pace(self):
        self.round(2, 1)  # to warm up
        self.samples.clear()
        for _ in rounds(3 if self.bench.is_quick else 60, 60):
            self.round(20, 2)
        self.say_pace("warm exec", "exec", "spawn", ("<=", 2))
        self.say_pace("exec in a session", "session exec", "exec", ("<=", 2))
        self.say_pace(f"{FLOOD >> 20} MB of output in a session", "session flood", "flood", ("<=", 1.5))
        self.say_pace("crun exec to warm exec", "crun exec", "exec")
        self.say_pace("runc exec to warm exec", "runc exec", "exec", (">=", 10))
        self.say_pace("podman exec to warm exec", "podman exec", "exec")
        self.say_pace("create to first result", "create", "crun run", ("<=", 1.5))
        self.say_pace("... with runc", "create with runc", "runc run")
        self.say_pace("podman run to create", "podman run", "create")

    # --- many at once ---

    def at_once(self):
        """Milliseconds until the last of 100 is done."""
        took, failed, latest = {"create": [], "crun run": [], "runc run": []}, 0, []
        for _ in rounds(1 if self.bench.is_quick else 3, 20):
            names, (seconds, wrong, each) = self.crun.create(AT_ONCE, AT_ONCE, may_fail=True)
            took["create"].append(seconds * 1e3)
            failed, latest = failed + wrong, latest + each
            self.crun.delete(names, AT_ONCE)
            for berth in (self.crun, self.runc):
                words = self.run_words[berth.runtime]
                seconds = berth.inside.order("run", AT_ONCE, AT_ONCE, *words)[0]
                took[f"{berth.runtime} run"].append(seconds * 1e3)
        mine = statistics.median(took["create"])
        for floor in ("crun run", "runc run"):
            self.rows.append(self.row(
                f"{AT_ONCE} creates at once", mine, "ms", statistics.median(took[floor]), floor,
                detail=f"{len(latest) - failed} of {len(latest)} succeeded; first result p50 "
                       f"{statistics.median(latest) / 1e3:,.0f} ms, p99 {share(latest, 0.99) / 1e3:,.0f} "
                       "ms" if floor == "crun run" else ""))
        self.rows.append(self.row("creates that failed", failed, "", goal=("<=", 0)))
        if self.podman.why:
            self.say_missing(f"{AT_ONCE} creates at once", "podman run")
            return
        seconds, wrong, _ = self.crun.inside.order("run", AT_ONCE, AT_ONCE, *self.podman.run_words(),
                                                   may_fail=True)
        self.rows.append(self.row(f"{AT_ONCE} creates at once", mine, "ms", seconds * 1e3, "podman run",
                                  detail=f"podman: {AT_ONCE - wrong} of {AT_ONCE} succeeded"))

    def throughput(self):
        """Execs per second with 16 that wait for their answers."""
        rates, each = {}, []
        things = [("spawn", self.crun.outside, 1600, [PROGRAM]),
                  ("crun exec", self.crun.inside, 160, self.crun.exec_words()),
                  ("runc exec", self.runc.inside, 80, self.runc.exec_words())]
        if not self.podman.why:
            things.append(("podman exec", self.crun.inside, 32, self.podman.exec_words()))
        for _ in rounds(1 if self.bench.is_quick else 5, 30):
            seconds, _, took = self.crun.outside.order("http", CLIENTS, 1600, "POST",
                                                       "/v1/sandbox/warm/exec", DONE, EXEC)
            rates.setdefault("exec", []).append(1600 / seconds)
            each += took
            for name, driver, total, words in things:
                seconds = driver.order("run", CLIENTS, total, *words)[0]
                rates.setdefault(name, []).append(total / seconds)
        detail = f"p50 {statistics.median(each):,.0f} us, p99 {share(each, 0.99):,.0f} us of {len(each)}"
        for name, _, _, _ in things:
            self.rows.append(self.row(f"execs with {CLIENTS} clients", statistics.median(rates["exec"]),
                                      "/s", statistics.median(rates[name]), name, detail=detail))
            detail = ""
        if self.podman.why:
            self.say_missing(f"execs with {CLIENTS} clients", "podman exec")

    # --- memory ---

    def memory(self):
        """A berthd of its own, that has done nothing else."""
        berth = Berth(self.bench, "crun")
        names, _ = berth.create(1, 1)
        berth.delete(names, 1)
        before = {pid: memory_of(pid) for pid in (berth.child.pid, berth.keeper)}
        names, _ = berth.create(8, MANY)
        each = {pid: (memory_of(pid) - before[pid]) / MANY / 1024 for pid in before}
        inits = berth.inits()
        self.rows += [
            self.row("berthd per sandbox", each[berth.child.pid], "kB", 32, "goal", goal=("<=", 1),
                     detail=f"private and dirty, {MANY} running; without any "
                            f"{before[berth.child.pid] // 1024:,} kB"),
            self.row("keeper per sandbox", each[berth.keeper], "kB",
                     detail=f"without any {before[berth.keeper] // 1024:,} kB"),
        ]
        self.say_inits(inits)
        berth.delete(names, MANY)
        berth.close()

    def say_inits(self, inits):
        try:
            shares, own = ([memory_of(pid, field) / 1024 for pid in inits]
                           for field in ("Pss", "Private_Dirty"))
        except PermissionError as error:
            self.rows.append(self.row("init", None, "", detail=f"its memory cannot be read: {error}"))
            return
        self.rows.append(self.row("init", statistics.mean(shares), "kB",
                                  detail=f"its share of what it maps, mean of {len(inits)}; private and "
                                         f"dirty {statistics.mean(own):.0f} kB"))
        if self.podman.why:
            self.say_missing("podman's conmon", "")
        else:
            own = memory_of(min(self.podman.conmon()), "Pss")  # an exec's, later, may linger
            self.rows.append(self.row("podman's conmon", own / 1024, "kB", detail="of one container"))


def measure(it, *parts):
    """Rows, as they come; what fails is one of them, and the other parts follow."""
    for part in parts:
        try:
            part()
        except BenchError as error:
            it.rows.append(it.row(part.__name__, None, "", detail=f"could not be measured: {error}"))
        yield from it.rows
        it.rows.clear()


def bench_sandbox(bench, row):
    """Rows, as they come."""
    it = SandboxBench(bench, row)
    yield from measure(it, it.pace, it.at_once, it.throughput, it.memory)
