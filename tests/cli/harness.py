"""What the tests of the command line share: TAP, a private place, a fake daemon.

A test is a function that takes a Place; main() runs those of a module in the order they are
written. A Place is a temporary directory with a copy of berth in it, so that a test can put its own
berthd beside it, run it as another user, and leave nothing behind.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
HERE = os.path.dirname(os.path.abspath(__file__))
INFO = {
    "version": "9.8.7", "pid": 0, "instance": "abc", "started_at": "2026-01-02T03:04:05Z",
    "uptime_ms": 93784000, "mode": "rootless", "kernel": "6.1.0", "machine": "x86_64", "cpus": 4,
    "memory_bytes": 8589934592, "runtime": {"name": "crun", "path": "/usr/bin/crun"},
    "cgroups": {"version": "v2", "memory": True, "cpu": True, "pids": True, "freezer": False},
    "user_namespaces": True, "overlay": True, "seccomp": True, "subuids": 65536,
    "network_modes": ["none"],
    "limits": {"head_bytes": 32768, "headers": 100, "body_bytes": 1048576, "connections": 8192},
    "socket": "/x/api.sock", "listen": None, "preview": None, "state_dir": "/s", "run_dir": "/r",
    "connections": 1,
}


class Failed(Exception):
    pass


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what) or "check failed")


def equal(got, wanted, what=""):
    check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


class Server:
    """Answers every connection with the same bytes and keeps what was asked."""

    def __init__(self, listener, answer):
        self.listener, self.answer, self.requests = listener, answer, []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                client.settimeout(20)
                head = b""
                while b"\r\n\r\n" not in head:
                    more = client.recv(4096)
                    if not more:
                        break
                    head += more
                if not head:
                    continue
                self.requests.append(head.decode("latin-1"))
                try:
                    client.sendall(self.answer)
                except OSError:
                    pass

    def close(self):
        # close() alone would not wake accept().
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


def http(status, body, kind="application/json"):
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    return (f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n").encode() + body


def remove_tree(path):
    """Without root, files of a sandbox's ids can be removed only inside a user namespace."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        subprocess.run(["unshare", "--map-root-user", "--map-auto", "rm", "-rf", path], check=True)


def apart(args):
    """A daemon that serves no previews, unless they are what it is about: all would want the same port."""
    is_apt = "up" in args and "--run-dir" in args and "--preview" not in args
    return [*args, *(["--preview", "none"] if is_apt else [])]


class Place:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="berth-cli-")
        os.chmod(self.dir, 0o755)
        self.berth = os.path.join(self.dir, "berth")
        shutil.copy(os.path.join(BUILD, "berth"), self.berth)
        self.servers = []
        self.env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.dir,
                    "XDG_RUNTIME_DIR": self.path("xdg"), "LC_ALL": "C"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def run(self, *args, env=None, **more):
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        program = more.pop("program", self.berth)
        args = apart(args) if more.pop("apart", True) else args
        return subprocess.run([program, *args], env={**self.env, **(env or {})}, timeout=120,
                              text=True, cwd=more.pop("cwd", self.dir), check=False, **more)

    def listen(self, name="api.sock"):
        listener = socket.socket(socket.AF_UNIX)
        where = self.path(name)
        # Longer paths than an address holds are bound through their directory.
        fd = os.open(os.path.dirname(where), os.O_PATH)
        try:
            listener.bind(f"/proc/self/fd/{fd}/{os.path.basename(where)}")
        finally:
            os.close(fd)
        listener.listen(8)
        return listener

    def serve(self, answer, name="api.sock"):
        server = Server(self.listen(name), answer)
        self.servers.append(server)
        return server

    def serve_tcp(self, answer):
        listener = socket.create_server(("127.0.0.1", 0))
        server = Server(listener, answer)
        self.servers.append(server)
        return server, f"http://127.0.0.1:{listener.getsockname()[1]}"

    def use_daemon(self, kind):
        """Puts the real daemon, or the fake one, beside berth."""
        target = self.path("berthd")
        if kind == "real":
            for name in ("berthd", "berth-keeper", "berth-init"):
                shutil.copy(os.path.join(BUILD, name), self.path(name))
        else:
            with open(os.path.join(HERE, "fake_berthd.py"), encoding="utf-8") as source:
                text = source.read()
            with open(target, "w", encoding="utf-8") as out:
                out.write(f"#!{sys.executable} -I\n" + text)
        os.chmod(target, 0o755)

    def daemon_flags(self, name="d"):
        return ["--state-dir", self.path(name), "--run-dir", self.path(name, "run")]

    def daemon_socket(self, name="d"):
        return self.path(name, "run", "berthd", "api.sock")

    def close(self):
        for server in self.servers:
            server.close()
        for pid, words in self.left_over():
            if not words[0].endswith(b"berth-keeper"):
                os.kill(pid, signal.SIGKILL)
        self.await_keeper()
        remove_tree(self.dir)

    def left_over(self):
        """Daemons that a test did not end. They need not have a socket any more, but their
        command line names our directory, which is nobody else's."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if int(pid) != os.getpid() and any(w.startswith(self.dir.encode()) for w in words):
                yield int(pid), words

    def await_keeper(self):
        """It ends by itself, a moment after its daemon and its last sandbox."""
        for pid, _ in self.left_over():
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            if not select.select([pidfd], [], [], 30)[0]:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                print(f"Bail out! a keeper did not end: pid {pid}", flush=True)
            os.close(pidfd)


def peer_pid(path):
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return None
        cred = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(cred[:4], sys.byteorder)


def main(tests):
    failed = 0
    # The time limit of a run ends us by SIGTERM: clean up then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"1..{len(tests)}", flush=True)
    for number, (name, test) in enumerate(tests, 1):
        place = Place()
        try:
            test(place)
            print(f"ok {number} - {name}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {name}")
            text = str(error) if isinstance(error, Failed) else traceback.format_exc()
            print("\n".join("# " + line for line in text.splitlines()), flush=True)
        finally:
            place.close()
    sys.exit(1 if failed else 0)
