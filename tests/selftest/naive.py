"""A daemon without walls: what it is told to run runs on this very machine, and paths are just paths.

Berth's own daemon cannot be made to have holes. This one has them all, so that each check of `berth
selftest` can be seen to find one; nothing here is an answer made up for a check.
"""

import fcntl
import io
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import termios
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "cli"), os.path.join(HERE, "..", "keeper")]
# pylint: disable=wrong-import-position
from fake_api import Api  # noqa: E402
from place import stat_of, until  # noqa: E402

INFO = {"version": "0", "pid": os.getpid(), "mode": "root"}
CANARY_READ = 1 << 20  # of a device, too


def fds_of(pid):
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return found


def holds_still(pid, path):
    """Stops it, and lets it go on if it does not hold that file."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: stat_of(pid)[0] == "T", "a process to stop")
    if path in fds_of(pid):
        return True
    os.kill(pid, signal.SIGCONT)
    return False


class Naive(Api):
    patience = 2

    def __init__(self, listener, workspace):
        self.workspace, self.running, self.copies = workspace, {}, 0
        self.lock = threading.Lock()
        # Whatever is started has this open, too.
        self.leak = os.open("/dev/null", os.O_RDONLY)
        super().__init__(listener)

    def path(self, text):
        return self.workspace + text[len("/workspace"):] if text.startswith("/workspace") else text

    def serve(self, sock):
        try:
            super().serve(sock)
        except (ValueError, OSError):
            pass  # what is no request gets no answer

    # --- what runs ---

    def popen(self, body, **options):
        words = [self.path(word) for word in body["argv"]]
        if words[0].startswith(self.workspace):
            with self.lock:
                self.copies += 1
                copy = f"{self.workspace}/copy-{self.copies}"
            shutil.copy(words[0], copy)
            words = [copy, *words[1:]]
        env = {**os.environ, **body.get("env", {})}
        options.setdefault("stdin", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        process = subprocess.Popen(words, cwd=self.path(body.get("cwd", "/workspace")), env=env,
                                   pass_fds=[self.leak], **options)
        if process.stdin:
            process.stdin.write(body.get("stdin", "").encode())
            process.stdin.close()
        return process

    def run(self, client, request):
        body = request.json()
        try:
            process = self.popen(body)
        except OSError:
            return client.answer(200, {"stdout": "", "encoding": "utf-8", "reason": "not_started",
                                       "exit_code": 127})
        if request.headers.get("accept") == "text/event-stream":
            return self.stream(client, process)
        timer = threading.Timer(body.get("timeout_ms", 600000) / 1000, process.kill)
        timer.start()
        # Only up to its own end: others may hold the pipe for ever.
        out, reader = [], threading.Thread(target=lambda: self.read(process, out), daemon=True)
        reader.start()
        code = process.wait()
        reader.join(0.5)
        timer.cancel()
        text = b"".join(out).decode(errors="replace")  # bytes that are no text are lost
        reason = "timeout" if code == -signal.SIGKILL else "exited"
        return client.answer(200, {"stdout": text, "encoding": "utf-8", "reason": reason, "exit_code": code})

    @staticmethod
    def read(process, out):
        while piece := process.stdout.read1(65536):
            out.append(piece)

    @staticmethod
    def stream(client, process):
        client.stream()
        while piece := process.stdout.read1(65536):
            client.event("stdout", piece)

    def start(self, client, request):
        body = request.json()
        self.running[body["id"]] = process = self.popen(body)
        return client.answer(200, {"id": body["id"], "pid": process.pid})

    def terminal(self, client, request):
        master, slave = pty.openpty()
        self.popen(request.json(), stdin=slave, stdout=slave, start_new_session=True,
                   preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        self.running[master] = None  # open until the end
        os.close(slave)
        return client.answer(200, {"id": "tty"})

    def be_seen(self, watcher):
        """A program of ours runs until the watcher holds its file, and is gone when it tries that again."""
        process = self.popen({"argv": ["/workspace/berth-probe", "stay", "/workspace/seen", "seen"]})
        copy = os.readlink(f"/proc/{process.pid}/exe")
        until(lambda: holds_still(watcher, copy), "its file to be held")
        process.kill()
        process.wait()
        os.kill(watcher, signal.SIGCONT)
        until(lambda: copy not in fds_of(watcher), "its file to be tried")

    def process(self, client, request, name, verb):
        process = self.running[name]
        if verb == "wait":
            body = request.json()
            if body["for"] == "log":
                while body["pattern"].encode() not in process.stdout.readline():
                    pass
            else:
                process.wait()
        else:
            process.kill()
            process.wait()
        return client.answer(200, {})

    # --- files ---

    def file(self, client, request, path):
        """Opens it, whatever it is and wherever it leads."""
        body = request.body()
        if request.method == "PUT" and path == self.workspace + "/stop":
            self.be_seen(self.running["exe"].pid)
        try:
            if request.method == "DELETE":
                os.unlink(path)
                return client.answer(204)
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC if request.method == "PUT" else os.O_RDONLY
            fd = os.open(path, flags | os.O_NONBLOCK, 0o777)
        except OSError as error:
            return client.answer(404, {"error": str(error), "code": "not_found"})
        with os.fdopen(fd, "r+b" if request.method == "PUT" else "rb", buffering=0) as file:
            if request.method == "PUT":
                file.write(body)
                return client.answer(201, {})
            return client.content(file.read(CANARY_READ) or b"")

    def hydrate(self, client, request):
        with tarfile.open(fileobj=io.BytesIO(request.body())) as archive:
            for member in archive:
                try:
                    archive.extract(member, self.workspace)
                except (OSError, KeyError):
                    pass
        return client.answer(200, {})

    def move(self, client, request):
        body = request.json()
        try:
            shutil.copyfile(self.path(body["from"]), self.path(body["to"]))
        except OSError:
            pass
        return client.answer(200, {})

    # --- routes ---

    def route(self, client, request):
        parts = request.path.strip("/").split("/")
        verb, rest = (parts[3] if len(parts) > 3 else ""), parts[4:]
        if request.path == "/v1/info":
            return client.answer(200, INFO)
        if verb == "exec":
            return self.run(client, request)
        if verb == "processes" and not rest:
            return self.start(client, request)
        if verb == "processes":
            return self.process(client, request, rest[0], rest[-1])
        if verb == "terminals":
            return self.terminal(client, request)
        if verb == "file":
            return self.file(client, request, self.path("/" + "/".join(self.decode(rest))))
        if verb == "hydrate":
            return self.hydrate(client, request)
        if verb in ("copy", "move"):
            return self.move(client, request)
        request.body()
        return client.answer(200, {"id": "x"})

    @staticmethod
    def decode(parts):
        return [part.replace("%2e", ".") for part in parts]

    def end_all(self):
        """By their program, which is nobody else's: some have left us for good."""
        mine = self.workspace.encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if file.read().startswith(mine):
                        os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass


class Fragile(Naive):
    """Answers the first bytes that are no request as one should, and is gone."""

    def serve(self, sock):
        if sock.recv(1, socket.MSG_PEEK).isalpha():
            super().serve(sock)
            return
        with sock:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.thread.join()
            self.listener.close()
            sock.sendall(b"HTTP/1.1 400 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
