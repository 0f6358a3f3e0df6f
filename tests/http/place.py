"""A berthd of one's own: directories for it, and what the suites about the program share.

The program is the suite's first argument.
"""

import os
import pwd
import re
import select
import signal
import subprocess
import sys

from tap import TIMEOUT, Client, Directory, Program, Suite, expect, require

TOKEN, OTHER = "correct-horse-battery-staple-0123456789", "another-token-for-tests-9876543210"
IS_ROOT = os.geteuid() == 0
USER = pwd.getpwnam("berth") if IS_ROOT else pwd.getpwuid(os.geteuid())  # whom berthd becomes
BERTHD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "berthd"


class Place(Directory):
    """Directories for one daemon."""

    def __enter__(self):
        super().__enter__()
        own = self / "own"  # where berthd may remove its socket again
        os.mkdir(own, 0o711)
        self.give(own)
        self.socket, self.state, self.run = os.path.join(own, "s"), self / "state", self / "run"
        self.programs = []
        return self

    def __exit__(self, kind, *_):
        for p in self.programs:
            p.kill()
        left = await_end(self.path)
        super().__exit__()
        require(kind or not left, f"processes were left behind: {left}")

    @staticmethod
    def give(path):
        """To berthd's user."""
        if IS_ROOT:
            os.chown(path, USER.pw_uid, USER.pw_gid)

    def argv(self, *flags):
        return [BERTHD, "--socket", self.socket, "--state-dir", self.state, "--run-dir", self.run,
                *flags]

    def start(self, *flags, **popen):
        program = Program(self.argv(*flags), **popen)
        self.programs.append(program)
        return program

    def connect(self):
        return Client.unix(self.socket)

    def tokens(self, *lines, mode=0o600):
        path = self / "tokens"
        with open(path, "w") as f:
            f.write("".join(line + "\n" for line in lines))
        os.chmod(path, mode)
        self.give(path)
        return path

    def listen(self, *flags):
        """Starts it on a TCP port of the kernel's choice."""
        program = self.start("--listen", "127.0.0.1:0", *flags)
        return program, port_of(program, "listen")


def processes(path):
    """Those whose command line names this directory: berthd, and the keeper it started."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if int(pid) != os.getpid() and any(w.startswith(path.encode() + b"/") for w in words):
            yield int(pid)


def await_end(path):
    """Waits until they have ended by themselves; those that do not are ended, and returned."""
    left = []
    for pid in processes(path):
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not select.select([fd], [], [], TIMEOUT)[0]:
            left.append(pid)
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)
    return left


def port_of(program, listener):
    """What the ready line says."""
    found = re.search(rf" {listener}=127\.0\.0\.1:(\d+)\b", program.ready_line.decode())
    require(found, f"no {listener} in {program.ready_line!r}")
    return int(found[1])


def fails(place, argv, *words, **popen):
    """It must say one sentence with these words in it, exit with an error, and leave no socket."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT,
                          **popen)
    # A keeper that was started logs its beginning and its end in the same place.
    text = re.sub(r"^\S+Z (info keeper\.sock serves|info no berthd and no sandbox:|warn rootless:)"
                  r".*\n", "", done.stderr.decode(), flags=re.M)
    require(done.returncode > 0, f"exit code {done.returncode}: {text}")
    expect(done.stdout, b"", "stdout")
    require(text.endswith("\n") and text.count("\n") == 1, f"not one line: {text!r}")
    require(len(text) > 20, f"not a sentence: {text!r}")
    for word in words:
        require(word.lower() in text.lower(), f"{word!r} is not in {text!r}")
    return text


def health(place):
    """What /health answers; None while there is nobody."""
    try:
        with place.connect() as c:
            return c.get("/health").status
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError,
            EOFError):
        return None


def run_cases(cases, root_cases=()):
    """All of them, or those that the command line names."""
    wanted = sys.argv[2:]
    t = Suite()
    for name, function in (*cases, *root_cases):
        if wanted and function.__name__ not in wanted:
            continue
        if IS_ROOT or (name, function) not in root_cases:
            t.run(name, function)
        else:
            t.skip(name, "needs root")
    t.done()
