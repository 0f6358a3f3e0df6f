"""What the HTTP suites share: TAP, programs under test, and a client that takes no nonsense.

The reader is strict on purpose: an answer that a lenient client would forgive is a failure here.
Everything a suite starts or writes is gone when it ends, also when it fails or is killed.
"""

import ctypes
import fcntl
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import traceback

TIMEOUT = 30  # seconds that anything may take before it counts as hung
IS_SANITIZED = os.environ.get("BERTH_SANITIZED") == "1"

resource.setrlimit(
    resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2
)


class Suite:
    """Cases are functions; one that raises has failed, and the others still run."""

    def __init__(self, watchdog=600):
        self.count = 0
        self.failed = 0
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        signal.signal(signal.SIGALRM, self._hung)
        signal.alarm(watchdog)

    @staticmethod
    def _hung(*_):
        raise TimeoutError("the suite's watchdog fired")

    def ok(self, condition, name, why=""):
        self.count += 1
        if not condition:
            self.failed += 1
            for line in str(why).splitlines():
                print("#", line)
        print("ok" if condition else "not ok", self.count, "-", name, flush=True)

    def run(self, name, function, *args):
        try:
            function(*args)
        except Exception as e:  # pylint: disable=broad-except
            trace = "".join(traceback.format_tb(e.__traceback__)[1:])
            self.ok(False, name, f"{type(e).__name__}: {e}\n{trace}")
        else:
            self.ok(True, name)

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}", flush=True)

    def done(self):
        signal.alarm(0)
        print(f"1..{self.count}", flush=True)
        sys.exit(1 if self.failed else 0)


def expect(actual, expected, what="value"):
    if actual != expected:
        raise AssertionError(f"{what}: got {actual!r}, expected {expected!r}")


def require(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


def note(text):
    print("#", text, flush=True)


def until(predicate, what, timeout=TIMEOUT):
    """Waits for a fact that has no event of its own."""
    end = time.monotonic() + timeout
    while not predicate():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(0.005)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


class Program:
    """A child with its own temporary directory."""

    def __init__(self, argv, ready=b"ready", **popen):
        self.err = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.err,
            preexec_fn=die_with_parent,
            **popen,
        )
        self.ready_line = b""
        try:
            self._await_ready(ready)
        except BaseException:
            self.kill()
            raise

    def _await_ready(self, ready):
        end = time.monotonic() + TIMEOUT
        fd = self.process.stdout.fileno()
        while not self.ready_line.endswith(b"\n"):
            if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("no ready line")
            byte = os.read(fd, 1)
            if not byte:
                self.process.wait(TIMEOUT)
                raise RuntimeError(f"it did not start: {self.stderr()}")
            self.ready_line += byte
        require(self.ready_line.startswith(ready), f"first line was {self.ready_line!r}")

    @property
    def pid(self):
        return self.process.pid

    def stderr(self):
        self.err.seek(0)
        return self.err.read().decode(errors="replace")

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def rss(self):
        with open(f"/proc/{self.pid}/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize()

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=TIMEOUT):
        return self.process.wait(timeout)

    def stop(self):
        self.process.terminate()
        code = self.wait()
        require(code == 0, f"exit code {code} after SIGTERM: {self.stderr()}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.err.close()


def remove_tree(path):
    """Without root, files of a sandbox's ids can be removed only inside a user namespace."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        subprocess.run(["unshare", "--map-root-user", "--map-auto", "rm", "-rf", path], check=True)


class Directory:
    """A temporary directory, short enough for socket paths."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="berth-http-", dir="/tmp")
        os.chmod(self.path, 0o711)  # what root starts goes on as another user, who must get in
        return self

    def __exit__(self, *_):
        remove_tree(self.path)

    def __truediv__(self, name):
        return os.path.join(self.path, name)


class Testd(Directory):
    """The test server, on a Unix socket and a TCP port."""

    def __init__(self, binary, *flags):
        self.argv = [binary, *flags]

    def __enter__(self):
        super().__enter__()
        try:
            self.socket = self / "s"
            self.program = Program([*self.argv, "--socket", self.socket])
            self.port = int(self.program.ready_line.split()[1])
            self.start_fds = self.program.fds()
        except BaseException:
            super().__exit__()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.program.process.poll() is None:
                until(lambda: self.program.fds() <= self.start_fds, "fds to be closed")
                self.program.stop()
            if kind is None:
                require(not os.path.exists(self.socket), "the socket was left behind")
        finally:
            self.program.kill()
            super().__exit__()

    def connect(self):
        return Client.unix(self.socket)

    def connect_tcp(self, **options):
        return Client.tcp(self.port, **options)

    def stats(self):
        with self.connect() as c:
            return c.get("/stats").json()


class Response:
    def __init__(self, status, headers):
        self.status = status
        self.headers = headers
        self.body = b""
        self.is_chunked = False

    def header(self, name):
        found = [v for n, v in self.headers if n.lower() == name.lower()]
        require(len(found) <= 1, f"{name} came {len(found)} times")
        return found[0] if found else None

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"


STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([A-Za-z0-9 '\-]+)")
HEADER_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ([!-~](?:[ -~]*[!-~])?)")
CHUNK_LINE = re.compile(rb"[1-9a-fA-F][0-9a-fA-F]{0,7}|0")


class Client:
    """One connection. Reading is strict; sending is whatever the test says."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(TIMEOUT)
        self.pending = b""

    @classmethod
    def unix(cls, path):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(TIMEOUT)
        s.connect(path)
        return cls(s)

    @classmethod
    def tcp(cls, port, rcvbuf=None, host="127.0.0.1"):
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        s.settimeout(TIMEOUT)
        s.connect((host, port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(s)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def send_slowly(self, data, step=1):
        """Each piece is sent when the server has taken the one before (Unix sockets only)."""
        held = bytearray(4)
        for i in range(0, len(data), step):
            try:
                self.sock.sendall(data[i : i + step])
            except (BrokenPipeError, ConnectionResetError):
                return
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                fcntl.ioctl(self.sock, termios.TIOCOUTQ, held)
                if held == b"\0\0\0\0":
                    break

    def send_if_taken(self, data):
        """For data that the server may refuse halfway."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _more(self):
        data = self.sock.recv(262144)
        if not data:
            raise EOFError(f"closed after {self.pending[:200]!r}")
        self.pending += data

    def read_exactly(self, count):
        if count > 1 << 20:
            return self._read_large(count)
        while len(self.pending) < count:
            self._more()
        data, self.pending = self.pending[:count], self.pending[count:]
        return data

    def _read_large(self, count):
        parts, have = [self.pending], len(self.pending)
        self.pending = b""
        while have < count:
            parts.append(self.sock.recv(262144))
            if not parts[-1]:
                raise EOFError("closed within a body")
            have += len(parts[-1])
        data = b"".join(parts)
        self.pending = data[count:]
        return data[:count]

    def read_line(self):
        while b"\n" not in self.pending:
            require(len(self.pending) < 65536, "a line without an end")
            self._more()
        line, self.pending = self.pending.split(b"\n", 1)
        require(line.endswith(b"\r"), f"bare LF after {line!r}")
        return line[:-1]

    def read_head(self):
        line = self.read_line()
        match = STATUS_LINE.fullmatch(line)
        require(match, f"bad status line {line!r}")
        headers = []
        while line := self.read_line():
            field = HEADER_LINE.fullmatch(line)
            require(field, f"bad header line {line!r}")
            headers.append((field[1].decode(), field[2].decode()))
        return Response(int(match[1]), headers)

    def read_chunk(self):
        line = self.read_line()
        require(CHUNK_LINE.fullmatch(line), f"bad chunk size {line!r}")
        size = int(line, 16)
        data = self.read_exactly(size)
        expect(self.read_exactly(2), b"\r\n", "end of chunk")
        return data

    def read(self, method="GET"):
        """One answer, whole. Interim answers (1xx) are answers, too."""
        r = self.read_head()
        length, coding = r.header("Content-Length"), r.header("Transfer-Encoding")
        require(not (length and coding), "both lengths")
        r.is_chunked = coding is not None
        if r.status < 200 or r.status in (204, 304):
            require(not coding, f"{r.status} with a transfer coding")
            require(r.status == 304 or not length, f"{r.status} with a length")
        elif method == "HEAD":
            pass
        elif coding:
            expect(coding, "chunked", "transfer coding")
            parts = []
            while part := self.read_chunk():
                parts.append(part)
            r.body = b"".join(parts)
        else:
            require(length and length.isdigit(), f"no length in {r}")
            r.body = self.read_exactly(int(length))
        return r

    def request(self, method, target, *headers, body=None):
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        return self.read(method)

    def get(self, target, *headers):
        return self.request("GET", target, *headers)

    def at_end(self):
        """Did the server close, with nothing more to say and no reset?"""
        if self.pending:
            return False
        data = self.sock.recv(65536)
        self.pending += data
        return not data

    def expect_end(self, is_reset_fine=False):
        try:
            require(self.at_end(), f"more came: {self.pending[:200]!r}")
        except ConnectionResetError:
            require(is_reset_fine, "the connection was reset")


def head(line, *headers, host="Host: test"):
    """A request head from its lines; str or bytes."""
    lines = [line, *([host] if host else []), *headers]
    raw = [x if isinstance(x, bytes) else x.encode("latin-1") for x in lines]
    return b"\r\n".join(raw) + b"\r\n\r\n"


def chunked(*parts, last=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + last


def is_error(response):
    """Is this answer {"error": sentence, "code": word}?"""
    require(
        (response.header("Content-Type") or "").startswith("application/json"),
        f"not JSON: {response}",
    )
    value = response.json()
    require(
        isinstance(value.get("error"), str) and len(value["error"]) > 5,
        f"no sentence in {value}",
    )
    require(re.fullmatch(r"[a-z_]+", value.get("code", "")), f"no code in {value}")
