"""A keeper of one's own in a temporary directory, as root or as an ordinary user, and TAP.

As an ordinary user means: a uid that no account has, in a mount namespace of its own in which
/etc/passwd, /etc/subuid and /etc/subgid know it. The host's files stay as they are. Who is no root
has only one's own uid to be that user.

Runs may go on side by side: what a Place calls its own is told by its directory, the cgroups named
after that, and user ids that no other run has. It is cleared away also when the run is killed.
"""

import ctypes
import os
import pwd
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import keeper_link as k
from delegation import Delegation

GUARD = 180  # seconds after which a thing counts as hung; nothing is measured by it
IS_ROOT = os.geteuid() == 0
SLOTS, SUBIDS = 4096, 65536 * 4


def hold_slot():
    """A number that no other run has now. Its abstract name is free again when its holder is gone."""
    holder = socket.socket(socket.AF_UNIX)
    for i in range(SLOTS):
        try:
            slot = (os.getpid() + i) % SLOTS
            holder.bind(f"\0berth-test-slot-{slot}")
            return holder, slot
        except OSError:
            continue
    raise OSError("all numbers for runs are taken")


def given_subids():
    """(first, count) of what /etc/subuid gives an ordinary user who runs this."""
    names = {str(os.getuid()), *(p.pw_name for p in pwd.getpwall() if p.pw_uid == os.getuid())}
    with open("/etc/subuid", encoding="utf-8") as file:
        rows = [line.strip().split(":") for line in file]
    return next(((int(row[1]), int(row[2])) for row in rows if row[0] in names), (0, 0))


SLOT_HOLDER, SLOT = hold_slot()
# The user, and another that is a stranger to it. Their limits (keys, pipes, namespaces) count per
# uid, so that two runs with one uid would take them from each other.
USER, FIRST_SUBID = 41_000_000 + 2 * SLOT, 2_200_000_000 + SLOT * SUBIDS
if not IS_ROOT:
    USER, (FIRST_SUBID, SUBIDS) = os.getuid(), given_subids()
STRANGER = USER + 1
PROGRAMS = ("berth-keeper", "berth-init")


class Failed(Exception):
    pass


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what) or "check failed")


def equal(got, wanted, what=""):
    check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


def until(condition, what, seconds=GUARD):
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


def is_first(pid):
    """Of its pid namespace."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in file)
    except (FileNotFoundError, ProcessLookupError):
        return False


def comm_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def own_mounts():
    """In a child, before exec: a mount namespace of its own. libc, and what checks its answers."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(result):
        if result != 0:
            raise OSError(ctypes.get_errno(), "before exec")
    call(libc.unshare(0x20000))
    call(libc.mount(None, b"/", None, 0x40000 | 0x4000, None))
    return libc, call


def cgroup_mounts(*types, controller=None):
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        rows = [line.split() for line in file]
    return [row[4] for row in rows if row[row.index("-") + 1] in types
            and controller in (None, *row[-1].split(","))]


def remove_tree(path):
    """Without root, files of a sandbox's ids can be removed only inside a user namespace."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        subprocess.run(["unshare", "--map-root-user", *(["--map-auto"] if SUBIDS else []), "rm", "-rf", path],
                       check=False)


def use_disk():
    """Places are made where files are on a disk: many machines have /tmp in memory."""
    if subprocess.run(["stat", "-f", "-c", "%T", tempfile.gettempdir()], stdout=subprocess.PIPE, check=True).stdout == b"tmpfs\n":
        tempfile.tempdir = "/var/tmp"


class Place:
    def __init__(self, build, mode, runtime):
        self.given = None  # mode "delegated" is an ordinary user with a cgroup
        if mode == "delegated":
            mode, self.given = "user", Delegation(cgroup_mounts("cgroup2")[0], f"berth-given-{SLOT}", USER)
        self.mode, self.runtime = mode, runtime
        self.dir = tempfile.mkdtemp(prefix="berth-keeper-")
        os.chmod(self.dir, 0o755)
        self.uid = 0 if mode == "root" else USER
        self.daemon_uid = USER
        self.state, self.run = self.path("home/state"), self.path("home/run")
        self.mark = self.dir.encode()
        self.log = open(self.path("log"), "ab")  # pylint: disable=consider-using-with
        self.monitor, self.links, self.janitor, self.last_words = None, [], None, []
        self.hides_v2 = False  # so that the keeper sees a host that has only v1
        self.tmp = None  # a folder that is the keeper's /tmp; the place must be elsewhere then
        self.call_janitor()
        for program in PROGRAMS:
            shutil.copy(os.path.join(build, program), self.path(program))
        with open(self.path("berth-init"), "ab") as file:
            file.write(self.mark)
        os.mkdir(self.path("home"), 0o755)
        if IS_ROOT:
            os.chown(self.path("home"), self.uid, self.uid)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def call_janitor(self):
        """A process that clears this place away if we end without having done so ourselves."""
        seen, held = os.pipe()
        pid = os.fork()
        if pid:
            os.close(seen)
            self.janitor = pid, held
            return
        try:
            os.close(held)
            os.setsid()  # a time limit ends our whole process group
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            null = os.open("/dev/null", os.O_RDWR)
            for fd in range(3):  # or whoever reads our output would wait for the janitor's end
                os.dup2(null, fd)
            if not os.read(seen, 1):
                self.close()
        finally:
            os._exit(0)

    def dismiss_janitor(self):
        if self.janitor:
            pid, held = self.janitor
            self.janitor = None
            os.write(held, b"x")
            os.close(held)
            os.waitpid(pid, 0)

    def become_user(self, subids=True):
        """In the child, before exec: the user and the /etc that knows it."""
        libc, call = own_mounts()
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

    @property
    def is_user_to_be(self):
        return self.mode == "user" and IS_ROOT

    def command(self, *more):
        return [self.path("berth-keeper"), "--state-dir", self.state, "--run-dir", self.run,
                "--daemon-uid", str(self.daemon_uid), "--daemon-gid", str(self.daemon_uid),
                "--runtime", shutil.which(self.runtime), *(["--cgroup", self.given.path] if self.given else []), *more]

    def spawn(self, *more, subids=True, files=None):
        """The process and the first line that it says."""
        def prepare():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            if self.given:
                self.given.enter()
            if self.tmp:
                libc, call = own_mounts()
                call(libc.mount(self.tmp.encode(), b"/tmp", None, 0x1000, None))
            if self.is_user_to_be:
                self.become_user(subids)
            elif self.hides_v2:
                libc, call = own_mounts()
                for mount in cgroup_mounts("cgroup2"):
                    call(libc.umount2(mount.encode(), 2))
        process = subprocess.Popen(
            self.command(*more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
            cwd="/", preexec_fn=prepare)
        ready, _, _ = select.select([process.stdout], [], [], GUARD)
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

    def connect(self):
        # The kernel keeps who we are at this moment.
        own = os.geteuid(), os.getegid()
        if IS_ROOT:
            os.setegid(self.daemon_uid)
            os.seteuid(self.daemon_uid)
        try:
            link = k.Link(os.path.join(self.run, "keeper.sock"), GUARD)
        finally:
            if IS_ROOT:
                os.seteuid(own[0])
                os.setegid(own[1])
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

    # --- what is ours ---

    def cgroup_name(self):
        value = 0xCBF29CE484222325
        info = os.stat(self.state)
        for byte in f"{os.path.realpath(self.state)} {info.st_dev} {info.st_ino}".encode():
            value = (value ^ byte) * 0x100000001B3 % 2**64
        return f"berth-{value:016x}"

    def cgroups(self):
        """Every cgroup of ours, in every hierarchy."""
        if not os.path.exists(self.state):
            return []
        found, name = [], self.cgroup_name()
        for mount in cgroup_mounts("cgroup", "cgroup2"):
            base = mount + (self.given.path if self.given else "")
            for folder, names, _ in os.walk(os.path.join(base, name)):
                found += [folder] + [os.path.join(folder, n) for n in names]
        return sorted(set(found))

    def thaw(self):
        """After a failure: in v1 who is frozen does not die."""
        for folder in self.cgroups():
            for name, word in (("cgroup.freeze", "0"), ("freezer.state", "THAWED")):
                if os.path.exists(os.path.join(folder, name)):
                    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                        file.write(word)

    def remove_cgroups(self):
        """After a failure. The last process leaves a cgroup without an event."""
        def attempt(path):
            try:
                os.rmdir(path)
            except OSError:
                return not os.path.exists(path)
            return True
        for path in sorted(self.cgroups(), key=len, reverse=True):
            until(lambda: attempt(path), f"the end of {path}", 20)  # pylint: disable=cell-var-from-loop

    def mounts(self, pid="self"):
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as file:
            return [line.split()[4] for line in file if self.dir in line]

    def is_init(self, pid):
        """By the mark at the end of our berth-init."""
        try:
            with open(f"/proc/{pid}/exe", "rb") as file:
                file.seek(-len(self.mark), os.SEEK_END)
                return file.read() == self.mark
        except OSError:
            return False

    def is_from_here(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return self.dir.encode() in file.read() or self.is_init(pid)
        except OSError:
            return False

    def processes(self):
        """The keeper's, by their arguments, and inits."""
        return [pid for pid in pids() if pid != os.getpid() and self.is_from_here(pid)]

    @staticmethod
    def kill(found):
        """Those that lived are returned."""
        alive = [pid for pid in found if is_alive(pid)]
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return alive

    def take_down(self):
        """Ends what a test left running, and lets a keeper clear it away, cgroups too."""
        if self.monitor.poll() is not None:
            self.start()

        def is_down():
            if not [n for n in os.listdir(self.run) if os.path.isdir(os.path.join(self.run, n))
                    and not n.startswith(".")]:
                return True
            # Again and again: what the runtime has just made may not be berth-init yet.
            self.kill(filter(self.is_init, pids()))
            return False
        until(is_down, "the take-down of all sandboxes")
        self.monitor.terminate()
        self.monitor.wait(GUARD)

    def close(self):
        for link in self.links:
            link.close()
        try:
            self.thaw()
            if self.monitor:
                self.take_down()
        finally:
            self.last_words = self.log_text().splitlines()[-20:]
            until(lambda: not self.kill(self.processes()), "the end of all processes", 20)
            if self.monitor:
                self.monitor.wait()
            self.remove_cgroups()
            if self.given:
                self.given.remove()
            self.log.close()
            remove_tree(self.dir)
            self.dismiss_janitor()

    def log_text(self):
        if not os.path.exists(self.path("log")):
            return ""  # a janitor may go on where somebody was killed
        with open(self.path("log"), encoding="utf-8", errors="replace") as file:
            return file.read()


def only(mode):
    """A test about something that the other mode does not have."""
    def mark(test):
        test.modes = (mode,)
        return test
    return mark


def needs_cgroups(test):
    """As root, or in a delegated cgroup."""
    test.modes = ("root", "delegated")
    return test


def needs_root(test):
    """It plays several users."""
    test.needs_root = True
    return test


def run_all(tests, build, mode, runtime):
    failed = 0
    # The time limit of a run ends us by SIGTERM: clean up then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if mode != "user" and not IS_ROOT:
        print("1..0 # SKIP needs root", flush=True)
        sys.exit(0)
    tests = [test for test in tests if mode in getattr(test, "modes", (mode,))]
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        title = (test.__doc__ or test.__name__).strip().rstrip(".")
        if hasattr(test, "needs_root") and not IS_ROOT:
            print(f"ok {number} - {title} # SKIP needs root", flush=True)
            continue
        place = Place(build, mode, runtime)
        try:
            title = test(place) or title  # it may say which of two cases it met
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
                print(f"# {title} could not be cleared away: {error}\n# " + "\n# ".join(place.last_words),
                      flush=True)
    sys.exit(1 if failed else 0)
