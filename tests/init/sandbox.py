"""The real berth-init as PID 1 of real namespaces, and a peer that speaks its frames."""

import array
import ctypes
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "contract"))
from tap import Tap

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NAMESPACES = 0x10000000 | 0x20000000 | 0x20000 | 0x40000000 | 0x8000000 | 0x4000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, CAP_SYS_PTRACE = 1, 4, 24, 19
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
FIRST_ID, IDS = 300000, 65536

VERSION, NEWEST = 1, 3  # of most frames, and of the channel
HELLO, EXEC, FORGET, SIGNAL, END, PING, RESIZE, STDIN_END, USAGE, TERMINATE, CONNECT, LISTENING = range(1, 13)
WELCOME, LIVE, STARTED, REFUSED, EXITED, ENDED, PONG, LOST, SETTLED, USAGE_IS, QUIET, HEARTBEAT, CONNECTED, \
    CONNECT_FAILED, LISTENING_IS = range(64, 79)
STDIN, IN_FD, IN_CGROUP, SUPERVISED, WORKER, KEPT, TERMINAL, SESSION, COMMAND = (1 << i for i in range(9))
STAGE_REQUEST, STAGE_RESOURCES, STAGE_USER, STAGE_CWD, STAGE_PROGRAM = range(5)
ANSWERS = {
    WELCOME: ("<III", ("version", "known", "serial")),
    LIVE: ("<QI", ("exec", "pid")),
    STARTED: ("<QI", ("exec", "pid")),
    REFUSED: ("<QII", ("exec", "stage", "error")),
    EXITED: ("<QIQQQ", ("exec", "status", "user_us", "system_us", "max_rss_bytes")),
    ENDED: ("<QI", ("exec", "is_proven")),
    PONG: ("<Q", ("nonce",)),
    LOST: ("<Q", ("exec",)),
    SETTLED: ("<Q", ("exec",)),
    USAGE_IS: ("<Q", ("cpu_us",)),
    QUIET: ("", ()),
    HEARTBEAT: ("", ()),
    CONNECTED: ("", ()),
    CONNECT_FAILED: ("<I", ("error",)),
}
WAIT = 180  # seconds after which something counts as hung
ORDINARY = 54321  # a user that no machine has


def allow_all():
    """A filter, as every runtime installs one; this one lets everything pass."""
    code = ctypes.create_string_buffer(struct.pack("<HBBI", 0x06, 0, 0, 0x7fff0000))
    program = ctypes.create_string_buffer(struct.pack("@HP", 1, ctypes.addressof(code)))
    libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc("prctl", PR_SET_SECCOMP, 2, program)


def libc(function, *args):
    if getattr(LIBC, function)(*args) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{function}: {os.strerror(error)}")


def mount(source, target, kind=None, flags=0, options=None):
    libc("mount", source.encode(), target.encode(), kind and kind.encode(), flags, options and options.encode())


def frame(kind, tag, fields=b"", version=VERSION):
    return struct.pack("<IHHII", 16 + len(fields), kind, version, tag, 0) + fields


def run(data):
    return struct.pack("<I", len(data)) + data


def strings(items):
    return b"".join(os.fsencode(i) + b"\0" for i in items)


class Frame:
    def __init__(self, data, fds):
        size, self.kind, self.version, self.tag, zero = struct.unpack_from("<IHHII", data)
        assert size == len(data) and zero == 0, data
        self.fds = fds
        if self.kind == LISTENING_IS:
            length, = struct.unpack_from("<I", data, 16)
            assert length == len(data) - 20 and length % 2 == 0, data
            self.ports = list(struct.unpack(f"<{length // 2}H", data[20:]))
            return
        layout, names = ANSWERS[self.kind]
        self.__dict__.update(zip(names, struct.unpack(layout, data[16:])))

    def __repr__(self):
        return f"Frame({self.__dict__})"


class Peer:
    """berthd's side of the connection."""

    def __init__(self, path, greet=True, version=NEWEST):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        self.socket.settimeout(WAIT)
        self.tag = 0
        self.kept = []
        if greet:
            self.send(HELLO, struct.pack("<I", version))
            self.welcome = self.expect(WELCOME)

    def close(self):
        self.socket.close()
        for kept in self.kept:
            for fd in kept.fds:
                os.close(fd)
        self.kept = []

    def send(self, kind, fields=b"", fds=(), version=VERSION):
        self.tag += 1
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([frame(kind, self.tag, fields, version)], rights)
        return self.tag

    def receive(self):
        """The next frame as it comes."""
        fds = array.array("i")
        data, control, flags, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(32))
        for level, kind, content in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content)
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        if not data:
            raise EOFError("init has dropped the connection")
        return Frame(data, list(fds))

    def expect(self, *kinds, exec_id=None, tag=None):
        """The next of these; what comes in between is kept for later."""
        def fits(f):
            return f.kind in kinds and (exec_id is None or f.exec == exec_id) \
                and (tag is None or f.tag == tag)

        for kept in self.kept:
            if fits(kept):
                self.kept.remove(kept)
                return kept
        while True:
            got = self.receive()
            if fits(got):
                return got
            self.kept.append(got)

    def ping(self):
        tag = self.send(PING, struct.pack("<Q", 77))
        assert self.expect(PONG, tag=tag).nonce == 77

    def forget(self, exec_id):
        self.send(FORGET, struct.pack("<Q", exec_id))

    def signal(self, exec_id, number):
        self.send(SIGNAL, struct.pack("<QI", exec_id, number))

    def end(self, exec_id):
        return self.expect(ENDED, tag=self.send(END, struct.pack("<Q", exec_id))).is_proven

    def exec(self, exec_id, argv, env=("PATH=/usr/bin:/bin",), cwd="/", user="", flags=0, fds=(),
             argv_size=0, session=0, cells=(0, 0)):
        """STARTED, REFUSED or LOST."""
        fields = struct.pack("<QII", exec_id, flags, argv_size) + run(strings(argv)) \
            + run(strings(env)) + run(os.fsencode(cwd)) + run(os.fsencode(user)) \
            + struct.pack("<QII", session, *cells)
        return self.expect(STARTED, REFUSED, LOST, tag=self.send(EXEC, fields, fds))

    def exited(self, exec_id):
        return self.expect(EXITED, exec_id=exec_id)


class Done:
    def __init__(self, out, err, exited):
        self.out, self.err, self.status = out, err, exited.status
        self.exited = exited

    @property
    def code(self):
        return os.waitstatus_to_exitcode(self.status)


def pump(started, data=b"", has_stdin=False):
    """Feeds stdin and reads both outputs to their ends."""
    fds = list(started.fds)
    into = fds.pop(0) if has_stdin else None
    texts = {fds[0]: bytearray(), fds[1]: bytearray()}
    reading, view = set(fds), memoryview(data)
    if into is not None:
        os.set_blocking(into, False)
    try:
        while reading or into is not None:
            readable, writable, _ = select.select(reading, [into] if into is not None else [], [], WAIT)
            assert readable or writable, "nothing moves"
            for fd in readable:
                part = os.read(fd, 1 << 20)
                texts[fd] += part
                if not part:
                    reading.discard(fd)
            if writable:
                view = view[os.write(into, view):] if view else view
                if not view:
                    os.close(into)
                    into = None
    finally:
        for fd in [*fds, *([into] if into is not None else [])]:
            os.close(fd)
    return bytes(texts[fds[0]]), bytes(texts[fds[1]])


class Sandbox:
    """One init, with /etc of its own and the machine's /usr. Host paths: .root, .etc."""

    def __init__(self, init, probe, *arguments, is_filtered=True, has_run=True):
        self.is_filtered, self.has_run = is_filtered, has_run
        self.programs = init, probe
        self.is_root = os.geteuid() == 0
        self.next_id = 0
        self.peers = []
        self.pid = self.outer = None
        self.directory = tempfile.mkdtemp(prefix="berth-init-")
        os.chmod(self.directory, 0o755)
        try:
            self.etc = os.path.join(self.directory, "etc")
            self.root = os.path.join(self.directory, "root")
            os.mkdir(self.etc)
            os.mkdir(self.root)
            for name, source in (("init", init), ("probe", probe)):
                shutil.copy(source, os.path.join(self.directory, name))
                os.chmod(os.path.join(self.directory, name), 0o755)
            self.path = os.path.join(self.directory, "agent.sock")
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.listener.bind(self.path)
            os.chmod(self.path, 0o777)  # it must turn away the sandbox's own by itself
            self.start(arguments)
            self.listener.close()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, arguments):
        ready, done = os.pipe(), os.pipe()
        self.outer = os.fork()
        if self.outer == 0:
            try:
                self.become_outer(ready, done, arguments)
            except BaseException as error:
                os.write(2, f"# {error!r}\n".encode())
            os._exit(99)
        os.close(ready[1])
        os.close(done[0])
        assert os.read(ready[0], 1) == b"1", "no namespaces"
        uid, gid, count = (FIRST_ID, FIRST_ID, IDS) if self.is_root else (os.getuid(), os.getgid(), 1)
        if not self.is_root:
            self.write_proc("setgroups", "deny")
        self.write_proc("uid_map", f"0 {uid} {count}")
        self.write_proc("gid_map", f"0 {gid} {count}")
        os.close(done[1])
        self.pid = int(os.read(ready[0], 16) or b"0")
        os.close(ready[0])
        assert self.pid > 0, "init was not started"
        wait_until(self.is_listening)

    def is_listening(self):
        try:
            Peer(self.path, greet=False).close()
            return True
        except ConnectionRefusedError:
            pid, status = os.waitpid(self.outer, os.WNOHANG)
            if pid:
                self.pid = self.outer = None
                raise ChildProcessError(os.waitstatus_to_exitcode(status)) from None
            return False

    def write_proc(self, name, text):
        with open(f"/proc/{self.outer}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def become_outer(self, ready, done, arguments):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(ready[0])
        os.close(done[1])
        libc("unshare", NEW_NAMESPACES)
        os.write(ready[1], b"1")
        os.read(done[0], 1)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        if self.is_root:
            os.setgroups([])
        inner = os.fork()
        if inner == 0:
            try:
                self.become_init(arguments)
            except BaseException as error:
                os.write(2, f"# {error!r}\n".encode())
            os._exit(98)
        os.write(ready[1], str(inner).encode())
        os._exit(min(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 0xff, 97))

    def become_init(self, arguments):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        mount("tmpfs", self.root, "tmpfs")
        for name in ("usr", "dev", "etc", "proc", "tmp", "sandbox"):
            os.mkdir(f"{self.root}/{name}")
        for name in ("bin", "sbin", "lib", "lib64"):
            os.symlink(f"usr/{name}", f"{self.root}/{name}")
        os.chmod(f"{self.root}/tmp", 0o1777)
        if self.has_run:
            os.makedirs(f"{self.root}/run/berth")
            os.chmod(f"{self.root}/run/berth", 0o711)
        for source, name in (("/usr", "usr"), ("/dev", "dev"), (self.etc, "etc"),
                             (self.directory, "sandbox")):
            mount(source, f"{self.root}/{name}", None, MS_BIND | MS_REC)
        mount("devpts", f"{self.root}/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=0620")
        mount("proc", f"{self.root}/proc", "proc")
        self.mount_overlay(f"{self.root}/layers", f"{self.root}/over/lay")
        os.chroot(self.root)
        os.chdir("/")
        os.dup2(self.listener.fileno(), 3)
        os.set_inheritable(3, True)
        # Something that it must close, and a signal that it must not leave ignored.
        os.dup2(1, 77, inheritable=True)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        # As every sandbox is: with it a root inside could look into a process that is not dumpable.
        libc("prctl", PR_CAPBSET_DROP, CAP_SYS_PTRACE)
        if self.is_filtered:
            allow_all()
        os.execve("/sandbox/init", ["berth-init", *arguments], {"SECRET": "of the runtime"})

    @staticmethod
    def mount_overlay(layers, target):
        """What a sandbox's root really is; the tests' own is a tmpfs. Inside: /over/lay."""
        os.makedirs(target)
        for name in ("", "/lower", "/lower/dir", "/upper", "/work"):
            os.mkdir(layers + name)
        for name in ("file", "dir/file", "dir/other"):
            with open(f"{layers}/lower/{name}", "w", encoding="ascii") as file:
                file.write("of the image\n")
        os.link(f"{layers}/lower/file", f"{layers}/lower/hard")
        mount("overlay", target, "overlay", 0, f"lowerdir={layers}/lower,upperdir={layers}/upper,"
              f"workdir={layers}/work,userxattr")

    def close(self):
        for peer in self.peers:
            peer.close()
        for pid in (self.pid, self.outer):
            if pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if self.outer:
            os.waitpid(self.outer, 0)
            self.outer = None
        shutil.rmtree(self.directory)

    def wait(self):
        """How init ended, by itself."""
        status = os.waitpid(self.outer, 0)[1]
        self.pid = self.outer = None
        return os.waitstatus_to_exitcode(status)

    def peer(self, greet=True, version=NEWEST):
        peer = Peer(self.path, greet, version)
        self.peers.append(peer)
        return peer

    def number(self):
        self.next_id += 1
        return self.next_id

    def run(self, peer, argv, stdin=None, forget=True, **options):
        """A whole exec. A refused one comes back as its frame."""
        number = self.number()
        if stdin is not None:
            options["flags"] = options.get("flags", 0) | STDIN
        started = peer.exec(number, argv, **options)
        if started.kind != STARTED:
            return started
        out, err = pump(started, stdin or b"", stdin is not None)
        done = Done(out, err, peer.exited(number))
        if forget:
            peer.forget(number)
        return done

    def inside(self):
        """Command lines of all processes inside, by host pid, but for init's own."""
        found = {}
        space = os.readlink(f"/proc/{self.pid}/ns/pid") if self.is_root else None
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if self.is_root:
                    mine = os.readlink(f"/proc/{name}/ns/pid") == space
                else:
                    mine = is_descendant(int(name), self.pid)
                if mine and int(name) != self.pid:
                    with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                        found[int(name)] = file.read()
            except OSError:
                pass
        return found

    def init_fds(self):
        """Needs root: init is not dumpable."""
        return sorted(int(fd) for fd in os.listdir(f"/proc/{self.pid}/fd"))


def is_descendant(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
    return False


def wait_until(condition, seconds=WAIT):
    """For what announces itself to nobody."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {condition}")
        time.sleep(0.002)


def write_etc(box):
    with open(os.path.join(box.etc, "passwd"), "w", encoding="utf-8") as file:
        file.write("root:x:0:0::/:/bin/sh\nbad:x:12x:0::/:\nalice:x:1000:1001::/home/alice:\n"
                   "alice:x:0:0::/:\n\u00fcser:x:77:77::/:")
    with open(os.path.join(box.etc, "group"), "w", encoding="utf-8") as file:
        file.write("root:x:0:\na:x:7:bob,alice\nb:x:8:alice\nc:x:9:bob,alicex\nd:x:1001:alice\ne:x:y:alice\n")


def drop_privileges():
    os.setgroups([])
    os.setresgid(ORDINARY, ORDINARY, ORDINARY)
    os.setresuid(ORDINARY, ORDINARY, ORDINARY)
    LIBC.prctl(PR_SET_DUMPABLE, 1)  # or our own children's /proc belongs to root


def needs_ids(function):
    """A case for a namespace with more than one id, and a cgroup of ours: for root."""
    function.needs_root = True
    return function


def main(cases):
    """usage: test_NAME.py BUILD [--as-user]"""
    build, *options = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a timeout cleans up, too
    t = Tap()
    with open(os.path.join(build, "berth-init"), "rb") as init, \
            open(os.path.join(build, "tests", "init", "probe"), "rb") as probe:
        # Opened before: the user may have no way to the build.
        programs = [f"/proc/{os.getpid()}/fd/{f.fileno()}" for f in (init, probe)]
        if "--as-user" in options and os.geteuid() == 0:
            drop_privileges()
        with Sandbox(*programs, "--processes", "150") as box:
            write_etc(box)
            for case in cases:
                name = case.__name__.replace("_", " ")
                if box.is_root or not hasattr(case, "needs_root"):
                    t.case(name, run_case, case, box)
                elif "--as-user" not in options:  # there it is about something else
                    t.skip(name, "needs root")
    t.done()


def run_case(t, case, box):
    case(t, box, box.peer())
    if box.pid:
        # What it has sent must have been read before another peer takes its place.
        if box.peers[-1].socket.fileno() >= 0:
            box.peers[-1].ping()
        last = box.peer()
        t.equal([last.receive() for _ in range(last.welcome.known)], [], "execs left behind")
