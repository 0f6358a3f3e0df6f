"""The keeper's frames (proto/keeper.h), written down a second time so that the two must agree."""

import array
import os
import re
import socket
import struct

HELLO, START, KILL, REMOVE, FORGET, GROUP_NEW, GROUP_END, STATS, USAGE, ADOPT, GROUP_OPEN = range(1, 12)
FREEZE, THAW = 12, 13
LIMIT = 15
WELCOME, RUNNING, STARTED, EXITED, DONE, FAILED, GROUP, STATS_ARE, USAGE_IS, ADOPTED = range(64, 74)
ALL_CAPABILITIES = 0x1ff
CAN_FREEZE, HAS_GROUPS, HAS_RANGES, IS_ROOTLESS = 8, 16, 32, 64
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../base/err.h"), encoding="utf-8") as header:
    ERRORS = dict(enumerate(name.lower() for name in re.findall(r"^\tERR_([A-Z_]+),", header.read(), re.M)))

# s: bytes, I: u32, Q: u64
FIELDS = {
    HELLO: "version:I", KILL: "id:s generation:Q", REMOVE: "id:s generation:Q",
    START: "id:s generation:Q flags:I capabilities:I image:s memory_bytes:Q swap_bytes:Q cpu_milli:I pids:I "
           "files:I file_size:Q disk_bytes:Q inodes:Q io_read:Q io_write:Q io_read_ops:I io_write_ops:I mounts:s",
    LIMIT: "id:s generation:Q memory_bytes:Q swap_bytes:Q cpu_milli:I pids:I disk_bytes:Q "
           "io_read:Q io_write:Q io_read_ops:I io_write_ops:I",
    FORGET: "id:s generation:Q", GROUP_NEW: "id:s generation:Q",
    GROUP_END: "id:s generation:Q group:I", GROUP_OPEN: "id:s generation:Q group:I", STATS: "id:s generation:Q", USAGE: "id:s generation:Q",
    WELCOME: "version:I abilities:I known:I runtime:s warning:s memory_bytes:Q pids:I files:I",
    RUNNING: "id:s generation:Q pid:I is_frozen:I is_ephemeral:I is_strict:I", STARTED: "pid:I groups:I has_counter:I has_usage:I",
    FREEZE: "id:s generation:Q", THAW: "id:s generation:Q",
    EXITED: "id:s generation:Q status:I is_known:I oom_kills:Q", DONE: "",
    FAILED: "code:I sentence:s", GROUP: "group:I",
    STATS_ARE: "cpu_us:Q memory_bytes:Q memory_peak_bytes:Q held_bytes:Q limit_bytes:Q pids:Q oom_kills:Q",
    USAGE_IS: "disk_bytes:Q files:Q", ADOPT: "id:s generation:Q", ADOPTED: "has_counter:I has_usage:I",
}


class Frame(dict):
    """Fields by name; .type, .tag and .fds beside them."""

    def __getattr__(self, name):
        return self[name]


def encode(kind, tag, **values):
    body = b""
    for field in FIELDS[kind].split():
        name, form = field.split(":")
        value = values.get(name, "" if form == "s" else ALL_CAPABILITIES if name == "capabilities" else 0)
        if form == "s":
            value = value if isinstance(value, bytes) else value.encode()
            body += struct.pack("<I", len(value)) + value
        else:
            body += struct.pack("<" + form, value)
    return struct.pack("<IHHII", len(body) + 16, kind, 1, tag, 0) + body


def decode(message, fds):
    size, kind, _, tag, _ = struct.unpack_from("<IHHII", message)
    assert size == len(message), (size, len(message))
    frame, at = Frame(type=kind, tag=tag, fds=fds), 16
    for field in FIELDS[kind].split():
        name, form = field.split(":")
        value, = struct.unpack_from("<" + ("I" if form == "s" else form), message, at)
        at += 8 if form == "Q" else 4
        if form == "s":
            value, at = message[at : at + value].decode(), at + value
        frame[name] = value
    assert at == size, frame
    return frame


class Link:
    """One connection of a berthd. Answers are kept until somebody asks for them."""

    def __init__(self, path, timeout):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.tag, self.waiting = 0, []

    def send(self, kind, **values):
        self.tag += 1
        self.socket.send(encode(kind, self.tag, **values))
        return self.tag

    def receive(self):
        message, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(8 * 4))
        if not message:
            raise EOFError("the keeper has closed the connection")
        fds = array.array("i")
        for _, _, data in control:
            fds.frombytes(data)
        return decode(message, list(fds))

    def wait(self, wanted):
        """The first frame that fits, of those that came already and those to come."""
        for frame in self.waiting:
            if wanted(frame):
                self.waiting.remove(frame)
                return frame
        while True:
            frame = self.receive()
            if wanted(frame):
                return frame
            self.waiting.append(frame)

    def answer(self, tag):
        return self.wait(lambda f: f.tag == tag and f.type not in (RUNNING, EXITED))

    def ask(self, kind, **values):
        return self.answer(self.send(kind, **values))

    def exited(self, sandbox):
        return self.wait(lambda f: f.type == EXITED and f.id == sandbox)

    def hello(self):
        """WELCOME and the frames that come with it, by sandbox."""
        welcome = self.ask(HELLO, version=2)
        known = {}
        for _ in range(welcome.known):
            frame = self.wait(lambda f: f.type in (RUNNING, EXITED))
            known[frame.id] = frame
        return welcome, known

    def close(self):
        self.socket.close()
