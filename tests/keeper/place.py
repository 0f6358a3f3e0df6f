"""A keeper of one's own in a temporary directory, as root or as an ordinary user, and TAP.

As an ordinary user means: a uid that no account has, in a mount namespace of its own in which
/etc/passwd, /etc/subuid and /etc/subgid know it. The host's files stay as they are.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import keeper_link as k

USER, FIRST_SUBID, SUBIDS = 41234, 2_100_000_000, 65536 * 4
PROGRAMS = ("berth-keeper", "berth-init")


class Failed(Exception):
    pass


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what) or "check failed")


def equal(got, wanted, what=""):
    check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


def until(condition, what, seconds=60):
    """For facts of the kernel that no event tells."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        check(time.monotonic() < end, "in vain waited for:", what)
        time.sleep(0.01)
    return value


def stat_of(pid):
    """(state, parent) of a process, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return fields[0], int(fields[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def comm_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Place:
    def __init__(self, build, mode, runtime):
        self.mode, self.runtime = mode, runtime
        self.dir = tempfile.mkdtemp(prefix="berth-keeper-")
        os.chmod(self.dir, 0o755)
        for program in PROGRAMS:
            shutil.copy(os.path.join(build, program), self.path(program))
        self.mark = self.dir.encode()
        with open(self.path("berth-init"), "ab") as file:
            file.write(self.mark)
        self.uid = 0 if mode == "root" else USER
        self.daemon_uid = USER
        self.state, self.run = self.path("home/state"), self.path("home/run")
        os.mkdir(self.path("home"), 0o755)
        os.chown(self.path("home"), self.uid, self.uid)
        self.log = open(self.path("log"), "ab")  # pylint: disable=consider-using-with
        self.monitor, self.links = None, []

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def become_user(self, subids=True):
        """In the child, before exec: the user and the /etc that knows it."""
        libc = ctypes.CDLL(None, use_errno=True)

        def call(result):
            if result != 0:
                raise OSError(ctypes.get_errno(), "become_user")

        call(libc.unshare(0x20000))
        call(libc.mount(None, b"/", None, 0x40000 | 0x4000, None))
        for name, line in (("passwd", f"berth-test:x:{USER}:{USER}::/nonexistent:/bin/false"),
                           ("subuid", f"{USER}:{FIRST_SUBID}:{SUBIDS}" if subids else ""),
                           ("subgid", f"{USER}:{FIRST_SUBID}:{SUBIDS}" if subids else "")):
            target = f"/etc/{name}"
            with open(target, encoding="utf-8") as file:
                text = file.read()
            copy = self.path(f"etc-{name}")
            with open(copy, "w", encoding="utf-8") as file:
                file.write(text + line + "\n")
            os.chmod(copy, 0o644)
            call(libc.mount(copy.encode(), target.encode(), None, 0x1000, None))
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)

    def command(self, *more):
        return [self.path("berth-keeper"), "--state-dir", self.state, "--run-dir", self.run,
                "--daemon-uid", str(self.daemon_uid), "--daemon-gid", str(self.daemon_uid),
                "--runtime", self.runtime, *more]

    def spawn(self, *more, subids=True):
        """The process and the first line that it says."""
        process = subprocess.Popen(
            self.command(*more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
            cwd="/", preexec_fn=None if self.mode == "root" else lambda: self.become_user(subids))
        ready, _, _ = select.select([process.stdout], [], [], 60)
        line = process.stdout.readline().decode().strip() if ready else "(silence)"
        process.stdout.close()
        return process, line

    def start(self, *more, **options):
        self.monitor, line = self.spawn(*more, **options)
        equal(line, "ready", "the first line")

    def keeper(self):
        """The keeper's pid: the monitor's child of that name."""
        return next((p for p in pids() if (stat_of(p) or "  ")[1] == self.monitor.pid
                     and comm_of(p) == "berth-keeper" and is_alive(p)), None)

    def connect(self, **options):
        # The kernel keeps who we are at this moment.
        os.setegid(self.daemon_uid)
        os.seteuid(self.daemon_uid)
        try:
            link = k.Link(os.path.join(self.run, "keeper.sock"), **options)
        finally:
            os.seteuid(0)
            os.setegid(0)
        self.links.append(link)
        return link

    def hello(self):
        link = self.connect()
        welcome, known = link.hello()
        return link, welcome, known

    def reconnect(self):
        """To a keeper that is just being started again."""
        def attempt():
            try:
                return self.hello()
            except (OSError, EOFError):
                return None
        return until(attempt, "a keeper that answers")

    def kill_keeper(self):
        pid = self.keeper()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid), "the keeper's death")

    def kill_both(self):
        keeper = self.keeper()
        os.kill(self.monitor.pid, signal.SIGSTOP)  # so that it starts no other keeper meanwhile
        os.kill(keeper, signal.SIGKILL)
        os.kill(self.monitor.pid, signal.SIGKILL)
        self.monitor.wait()
        until(lambda: not is_alive(keeper), "the keeper's death")

    def is_from_here(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if self.dir.encode() in file.read():
                    return True
            with open(f"/proc/{pid}/exe", "rb") as file:
                file.seek(-len(self.mark), os.SEEK_END)
                return file.read() == self.mark
        except OSError:
            return False

    def processes(self):
        """The keeper's, by their arguments; inits, by the mark at the end of our berth-init."""
        return [pid for pid in pids() if pid != os.getpid() and self.is_from_here(pid)]

    def kill(self, *spared):
        for pid in self.processes():
            if pid not in spared:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def take_down(self):
        """Ends what a test left running, and lets a keeper clear it away, cgroups too."""
        if self.monitor.poll() is not None:
            self.start()
        self.kill(self.monitor.pid, self.keeper())
        until(lambda: not [n for n in os.listdir(self.run) if os.path.isdir(os.path.join(self.run, n))
                           and not n.startswith(".")], "the take-down of all sandboxes")
        self.monitor.terminate()
        self.monitor.wait(30)

    def close(self):
        for link in self.links:
            link.close()
        try:
            if self.monitor:
                self.take_down()
        finally:
            self.kill()
            if self.monitor:
                self.monitor.wait()
            self.log.close()
            shutil.rmtree(self.dir, ignore_errors=True)

    def log_text(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()


def run_all(tests, build, mode, runtime):
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        title = (test.__doc__ or test.__name__).strip().rstrip(".")
        place = Place(build, mode, runtime)
        try:
            test(place)
            print(f"ok {number} - {title}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            text = str(error) if isinstance(error, Failed) else traceback.format_exc()
            text += "\n" + place.log_text()[-3000:]
            print(f"not ok {number} - {title}")
            print("\n".join("# " + line for line in text.splitlines()), flush=True)
        finally:
            try:
                place.close()
            except (Failed, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"# {title} could not be cleared away: {error}", flush=True)
    sys.exit(1 if failed else 0)
