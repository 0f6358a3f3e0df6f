"""A berthd of one's own with real sandboxes, as root or as an ordinary user, and what it leaves.

usage of each suite: SUITE BUILD_DIR root|user|delegated RUNTIME [CASE...]
"""

import base64
import concurrent.futures
import http.client
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import traceback
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "keeper"), os.path.join(HERE, "..", "http")]

# pylint: disable=wrong-import-position
import place  # noqa: E402
import tap  # noqa: E402
from place import (Failed, check, comm_of, equal, is_alive, is_first, needs_cgroups, needs_root, only, pids,  # noqa: E402,F401
                   stat_of, until)

IS_SANITIZED = os.environ.get("BERTH_SANITIZED") == "1"
TIMEOUT = place.GUARD
KEEPERS = ("berth-keeper", "berth-monitor")
# By v1 alone who is frozen dies only when thawed, and that is for the next request to do.
DIES_FROZEN = bool(place.cgroup_mounts("cgroup2"))


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}

    def json(self):
        return json.loads(self.body)

    @property
    def generation(self):
        return int(self.headers["berth-generation"])

    def __repr__(self):
        return f"<{self.status} {self.body[:600]!r}>"


class Result:
    """How an exec ended, and what it said."""

    def __init__(self, facts, stdout, stderr):
        self.facts, self.stdout, self.stderr = facts, stdout, stderr

    @property
    def code(self):
        return self.facts["exit_code"]

    @property
    def reason(self):
        return self.facts["reason"]

    def __repr__(self):
        return f"<{self.facts} {self.stdout[:300]!r} {self.stderr[:300]!r}>"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=TIMEOUT):
        super().__init__("berth", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Refused(Failed):
    """An exec that was answered by an error before it began."""

    def __init__(self, status, body):
        super().__init__(f"exec answered {status}: {body!r}")
        self.status = status


class Events:
    """An exec as server-sent events, read one by one."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        # The response owns the socket once it is there; both must go, or the peer sees no end.
        self.response.close()
        self.connection.close()

    def __iter__(self):
        name, data = "message", None
        while line := self.response.readline():
            line = line.rstrip(b"\r\n")
            if line.startswith(b"event:"):
                name = line[6:].strip().decode()
            elif line.startswith(b"data:"):
                data = line[5:].strip()
            elif not line and data is not None:
                is_output = name in ("stdout", "stderr")
                yield name, base64.b64decode(data, validate=True) if is_output else json.loads(data)
                name, data = "message", None

    def result(self):
        """All of it; exactly one end, and nothing after it."""
        output, ends = {"stdout": [], "stderr": []}, []
        for name, data in self:
            check(not ends, f"{name} came after the end")
            if name in output:
                output[name].append(data)
            else:
                ends.append((name, data))
        equal([name for name, _ in ends], ["exit"], f"terminal events ({ends})")
        return Result(ends[0][1], b"".join(output["stdout"]), b"".join(output["stderr"]))


def is_socket(path):
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:  # it went meanwhile
        return False


class Ground(place.Place):
    """Directories, a berthd, its keeper. Everything is gone when it closes, also on failure."""

    def __init__(self, build, mode, runtime):
        self.build, self.berthd = build, None
        super().__init__(build, mode, runtime)
        shutil.copy(os.path.join(build, "berthd"), self.path("berthd"))
        self.socket = os.path.join(self.run, "berthd", "api.sock")
        self.monitors, self.own_keepers = set(), []

    # --- the daemon ---

    @property
    def is_root(self):
        return self.mode == "root"

    @property
    def has_cgroups(self):
        return self.is_root or self.given is not None

    def await_keeper(self):
        """Where a service of its own starts it. The flags that berthd then needs."""
        if not self.given:
            return []
        if not self.monitor_pid():
            process, line = self.spawn("--idle-ms", "300")
            equal(line, "ready", "the keeper's first line")
            self.own_keepers.append(process)
        return ["--keeper", "await"]

    def spawn_berthd(self, *flags, runtime=None, files=None, env=None):
        """files: how many it may have open."""
        flags = [*self.await_keeper(), *flags]

        def prepare():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            if self.given:
                self.given.enter()
            if self.is_user_to_be:
                self.become_user()
        process = subprocess.Popen(
            [self.path("berthd"), "--state-dir", self.state, "--run-dir", self.run,
             "--runtime", runtime or self.runtime, *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, cwd="/",
            env={**os.environ, "BERTH_SECRET_OF_THE_DAEMON": "1", **(env or {})},
            preexec_fn=prepare)
        ready, _, _ = select.select([process.stdout], [], [], TIMEOUT)
        line = process.stdout.readline().decode() if ready else "(silence)"
        process.stdout.close()
        return process, line

    def start(self, *flags, **options):  # pylint: disable=arguments-differ
        self.berthd, line = self.spawn_berthd(*flags, **options)
        check(line.startswith("ready"), "berthd's first line:", line)
        self.monitors.add(self.monitor_pid())

    def start_listening(self, token):
        """On a port of loopback too, with this token. The port."""
        tokens = self.path("tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(token + "\n")
        os.chmod(tokens, 0o600)
        if not self.is_root:
            owner = os.stat(self.path("home"))
            os.chown(tokens, owner.st_uid, owner.st_gid)
        self.berthd, line = self.spawn_berthd("--listen", "127.0.0.1:0", "--token-file", tokens)
        port = re.search(r" listen=127\.0\.0\.1:(\d+)\b", line)
        check(line.startswith("ready") and port, "berthd's first line:", line)
        self.monitors.add(self.monitor_pid())
        return int(port[1])

    def monitor_pid(self):
        """The keeper's parent: the one of our berth-keepers whose parent is none of them."""
        ours = self.keepers()
        return next((p for p in ours if (found := stat_of(p)) and found[1] not in ours), None)

    def keepers(self):
        found = []
        for pid in pids():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if comm_of(pid) in KEEPERS and self.run.encode() in words and is_alive(pid):
                found.append(pid)
        return found

    def keeper(self):
        monitor = self.monitor_pid()
        return next((p for p in self.keepers() if (stat_of(p) or (0, 0))[1] == monitor), None)

    def kill_berthd(self):
        self.berthd.kill()
        self.berthd.wait()

    def kill_keeper(self):
        pid = until(self.keeper, "a keeper to kill")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid), "the keeper's death")

    def kill_keeper_and_monitor(self):
        monitor = until(self.monitor_pid, "a monitor to kill")
        os.kill(monitor, signal.SIGSTOP)  # so that it starts no other keeper meanwhile
        self.kill(both := [pid for pid in (self.keeper(), monitor) if pid])
        until(lambda: not any(map(is_alive, both)), "the keepers' death")

    def stop(self):
        """Everything is asked to end; nothing may be left."""
        if self.request("POST", "/v1/pool/shutdown-prewarmed").status == 200:  # or it would fill itself meanwhile
            until(lambda: self.get("/v1/pool/stats").json()["total"] == 0, "the pool to be empty")
        for sandbox in self.list_all():
            # Those of runs go by themselves, and may be gone.
            wanted = (204, 404) if "berth.run" in sandbox["labels"] else (204,)
            check(self.request("DELETE", f"/v1/sandbox/{sandbox['id']}").status in wanted, "delete")
        equal([s["id"] for s in self.list_all()], [], "sandboxes after delete")
        self.berthd.terminate()
        equal(self.berthd.wait(TIMEOUT), 0, "berthd's exit code")
        until(lambda: not self.keepers(), "the keeper to go when there is nothing to keep")
        self.check_nothing_left()

    # --- what is left ---

    def is_sandboxed(self, pid):
        try:
            if not self.is_root:
                return has_subid(pid) and (place.IS_ROOT or pid_namespace(pid) in self.pid_namespaces())
            with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
                return self.cgroup_name() + "/" in file.read()
        except OSError:
            return False

    def pid_namespaces(self):
        """Of our inits. An ordinary user has one range of ids for all: for other runs, and for real use."""
        return {pid_namespace(p) for p in pids() if has_subid(p) and self.is_init(p)} - {None}

    def processes(self):
        """The daemon, its keeper, and everything in its sandboxes."""
        return sorted({*super().processes(), *filter(self.is_sandboxed, pids())})

    def sockets(self):
        """By their paths: most are bound through an fd, and /proc/net/unix does not tell whose."""
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.run) for name in names]
        return sorted(filter(is_socket, found))

    def namespaces(self):
        """Network namespaces that our processes are in or keep open."""
        found = set()
        for pid in self.processes():
            links = [f"/proc/{pid}/ns/net"]
            try:
                links += [f"/proc/{pid}/fd/{fd}" for fd in os.listdir(f"/proc/{pid}/fd")]
            except OSError:
                continue
            for link in links:
                try:
                    target = os.readlink(link)
                except OSError:
                    continue
                if target.startswith("net:["):
                    found.add(target)
        return found - {os.readlink("/proc/self/ns/net")}

    def sandbox_files(self):
        """What sandboxes have on disk and in the run directory."""
        found = []
        for folder in (os.path.join(self.state, "sandboxes"), self.run):
            if os.path.isdir(folder):
                found += [os.path.join(folder, name) for name in os.listdir(folder)]
        own = ("berthd", "keeper.sock", ".")  # with a dot: the keeper's own
        return [f for f in found if not os.path.basename(f).startswith(own)]

    def inits(self):
        """Not what they fork: an exec is called so too until its execve."""
        return [p for p in self.processes() if comm_of(p) in ("init", "berth-init") and is_first(p)]

    def state_of_things(self):
        """To be compared before and after; a sandbox makes each of these longer."""
        return {
            "processes": sorted(comm_of(p) for p in self.processes() if is_alive(p)),
            "cgroups": [c for c in self.cgroups() if not c.endswith(self.cgroup_name())],
            "mounts": sorted(self.mounts(self.keeper() or "self")),
            "host mounts": sorted(self.mounts()),
            "network namespaces": len(self.namespaces()),
            "sockets": self.sockets(),
            "files": sorted(self.sandbox_files()),
            "zombies": [p for p in pids() if (stat := stat_of(p)) and stat[0] == "Z" and stat[1] in self.keepers()],
        }

    def check_same(self, before):
        """Waits: the last of a dying process goes without an event."""
        def differences():
            now = self.state_of_things()
            return {key: (before[key], now[key]) for key in before if before[key] != now[key]}
        try:
            until(lambda: not differences(), "everything to be as before")
        except Failed as error:
            raise Failed(f"not as before: {differences()}") from error

    def check_nothing_left(self):
        until(lambda: not self.cgroups() and not self.processes(), "the last process and cgroup")
        equal(self.mounts(), [], "mounts on the host")
        left = os.path.join(self.state, "sandboxes")
        equal(self.sandbox_files(), [], "disks and folders of sandboxes")
        equal(os.listdir(os.path.join(left, ".trash")), [], "half-removed disks")

    def close(self):
        if self.berthd and self.berthd.poll() is None:
            self.berthd.kill()
            self.berthd.wait()
        # The monitor first, so that no keeper comes back; then whatever is in the sandboxes.
        self.kill([pid for pid in (self.monitor_pid(), *self.keepers()) if pid])
        super().close()

    # --- the API ---

    def connect(self, timeout=TIMEOUT):  # pylint: disable=arguments-differ
        return UnixConnection(self.socket, timeout)

    def raw(self):
        return tap.Client.unix(self.socket)

    def request(self, method, target, body=None, **headers):
        connection = self.connect()
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body).encode()
            names = {name.replace("_", "-"): str(value) for name, value in headers.items()}
            connection.request(method, target, body, names)
            response = connection.getresponse()
            return Reply(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def get(self, target, **headers):
        return self.request("GET", target, **headers)

    def sandbox(self, name):
        return self.get(f"/v1/sandbox/{name}").json()

    def list_all(self):
        return self.get("/v1/sandbox?limit=1000").json()["sandboxes"]

    def events(self, name, what, timeout=TIMEOUT, **options):
        """`what`: argv, or a command for sh. The answer has begun when this returns."""
        connection = self.connect(timeout)
        try:
            connection.request("POST", f"/v1/sandbox/{name}/exec", json.dumps(body_of(what, options)),
                               {"Accept": "text/event-stream"})
            response = connection.getresponse()
            if response.status != 200:
                raise Refused(response.status, response.read())
        except BaseException:
            connection.close()
            raise
        return Events(connection, response)

    def run_events(self, name, what, **options):
        with self.events(name, what, **options) as events:
            return events.result()

    def exec(self, name, what, **options):
        """As JSON."""
        reply = self.request("POST", f"/v1/sandbox/{name}/exec", body_of(what, options),
                             Accept="application/json")
        if reply.status != 200:
            raise Failed(f"exec answered {reply}")
        return result_of(reply)

    def refuse(self, name, what, status=400, **options):
        reply = self.request("POST", f"/v1/sandbox/{name}/exec", body_of(what, options),
                             Accept="application/json")
        equal(reply.status, status, f"status of {reply}")
        check(len(reply.json()["error"]) > 5, reply)
        return reply.json()

    def out(self, name, what, **options):
        """What a command says that must succeed."""
        result = self.exec(name, what, **options)
        equal((result.reason, result.code), ("exited", 0), f"{what!r}: {result}")
        return result.stdout.decode()

    def put_file(self, name, path, content, mode="755"):
        """By a streamed stdin."""
        words = ("sh", "-c", 'cat >"$0" && chmod "$1" "$0"', path, mode)
        query = urllib.parse.urlencode([("argv", word) for word in words])
        reply = self.request("POST", f"/v1/sandbox/{name}/exec?{query}", content,
                             Accept="application/json", Content_Type="application/octet-stream")
        check(reply.status == 200 and reply.json()["exit_code"] == 0, reply)


def has_subid(pid):
    try:
        return 0 <= os.stat(f"/proc/{pid}").st_uid - place.FIRST_SUBID < place.SUBIDS
    except OSError:
        return False


def pid_namespace(pid):
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return None


def body_of(what, options):
    key = "command" if isinstance(what, str) else "argv"
    return {key: what, **options}


def result_of(reply):
    facts = reply.json()
    texts = [facts.pop("stdout"), facts.pop("stderr")]
    if facts["encoding"] == "base64":
        texts = [base64.b64decode(text, validate=True) for text in texts]
    else:
        texts = [text.encode() for text in texts]
    return Result(facts, *texts)


def lives(g, *names):
    """Those that are in a sandbox, alive, and called so."""
    return [p for p in g.processes() if g.is_sandboxed(p) and is_alive(p) and comm_of(p) in names]


def at_once(count, function, *args):
    """function(i) in threads; what each returned, in order."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda i: function(i, *args), range(count)))


def memory_of(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return int(re.search(r"Pss_Anon: +(\d+)", file.read())[1]) * 1024


def fds_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Peak(threading.Thread):
    """The most memory that a process held while this watched."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.most, self.over = pid, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, memory_of(self.pid))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def main(tests, start=lambda test: True):
    """Each test has a daemon of its own, and fails if anything is left behind."""
    build, mode, runtime = sys.argv[1:4]
    wanted = sys.argv[4:]
    unknown = set(wanted) - {t.__name__ for t in tests}
    if unknown:
        sys.exit(f"{sys.argv[0]} has no {', '.join(sorted(unknown))}")
    tests = [t for t in tests if (not wanted or t.__name__ in wanted) and mode in getattr(t, "modes", (mode,))]
    failed = 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if mode != "user" and os.getuid() != 0:
        print("1..0 # SKIP needs root", flush=True)
        sys.exit(0)
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        title = (test.__doc__ or test.__name__).strip().rstrip(".")
        if hasattr(test, "needs_root") and os.getuid() != 0:
            print(f"ok {number} - {title} # SKIP needs root, to look into what other ids run", flush=True)
            continue
        ground = Ground(build, mode, runtime)
        try:
            if start(test):
                ground.start()
            test(ground)
            if ground.berthd and ground.berthd.poll() is None:
                ground.stop()
            print(f"ok {number} - {title}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            text = traceback.format_exc() + str(error) + "\n" + ground.log_text()[-3000:]
            print(f"not ok {number} - {title}")
            print("\n".join("# " + line for line in text.splitlines()), flush=True)
        finally:
            try:
                ground.close()
            except (Failed, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"# {title} could not be cleared away: {error}", flush=True)
    sys.exit(1 if failed else 0)
