"""The frames of a file worker, spoken by berthd's side."""

import os
import select
import struct

import sandbox as s

REQUEST, GO, RESULT, ENTRY, DATA, HOLE, END = range(1, 8)
READ, WRITE, REMOVE, STAT, LIST, MKDIR, MOVE, COPY, CHMOD, PACK, UNPACK = range(1, 12)
RECURSIVE, HIDDEN, HAS_MODE, NO_FOLLOW, OWNERS, SPARSE = 1, 2, 4, 8, 16, 32
NONE, FILE, DIRECTORY, LINK, FIFO, SOCKET, CHAR_DEVICE, BLOCK_DEVICE = range(8)
AT_REQUEST, AT_PATH, AT_PARENT, AT_OTHER, AT_DATA, AT_ENTRY = range(6)
STAT_LAYOUT = "<IIIIIQqIQQQ"
STAT_NAMES = ("type", "mode", "uid", "gid", "links", "size", "mtime", "mtime_nsec", "ctime_ns", "dev", "ino")


class Fields:
    """Takes the fields of a frame from its front."""

    def __init__(self, data):
        self.data, self.at = data, 16

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def bytes(self):
        size, = self.take("<I")
        self.at += size
        assert self.at <= len(self.data)
        return self.data[self.at - size:self.at]


class Answer:
    """A RESULT or an ENTRY, with the members of its stat as its own."""

    def __init__(self, kind, data):
        self.kind = kind
        f = Fields(data)
        if kind == RESULT:
            self.error, self.stage, self.is_new = f.take("<III")
        else:
            self.name = f.bytes()
        self.__dict__.update(zip(STAT_NAMES, f.take(STAT_LAYOUT)))
        self.mtime_ns = self.mtime * 10 ** 9 + self.mtime_nsec
        if kind == RESULT:
            self.count, self.bytes, self.has_more = f.take("<QQI")
            self.where = f.bytes()
        else:
            self.link, self.original, self.xattrs, self.map = f.bytes(), f.bytes(), f.bytes(), f.bytes()
        assert f.at == len(data), "trailing bytes"

    def __repr__(self):
        return f"Answer({self.__dict__})"


def request(op, path, flags=0, mode=0, limit=0, other=b"", cursor=b"", patterns=()):
    return s.frame(REQUEST, 7, struct.pack("<IIII", op, flags, mode, limit) + s.run(os.fsencode(path))
                   + s.run(os.fsencode(other)) + s.run(cursor) + s.run(s.strings(patterns)))


def entry(name, kind=FILE, mode=0o644, size=0, mtime_ns=0, ids=(0, 0), link=b"", original=b"", xattrs=b""):
    stat = struct.pack(STAT_LAYOUT, kind, mode, *ids, 1, size, *divmod(mtime_ns, 10 ** 9), 0, 0, 0)
    return s.frame(ENTRY, 0, s.run(os.fsencode(name)) + stat + s.run(os.fsencode(link))
                   + s.run(os.fsencode(original)) + s.run(xattrs) + s.run(b""))


def data(content):
    return s.frame(DATA, 0, struct.pack("<Q", len(content))) + content


def hole(size):
    return s.frame(HOLE, 0, struct.pack("<Q", size))


def go(offset=0, length=1 << 62):
    return s.frame(GO, 0, struct.pack("<QQ", offset, length))


END_FRAME = s.frame(END, 0, struct.pack("<I", 0))


class Worker:
    """One worker. Reads what it says with a deadline; writes block as berthd's would not."""

    def __init__(self, box, peer, user="", flags=0):
        self.peer, self.number = peer, box.number()
        started = peer.exec(self.number, [], env=[], user=user, flags=s.WORKER | s.STDIN | flags)
        if started.kind != s.STARTED:
            raise OSError(started.error, f"stage {started.stage}")
        self.into, self.out, self.err = started.fds
        self.pid = started.pid
        self.kept = b""

    def send(self, *frames):
        view = memoryview(b"".join(frames))
        while view:
            assert select.select([], [self.into], [], s.WAIT)[1], "it takes nothing"
            view = view[os.write(self.into, view[:65536]):]
        return self

    def close_stdin(self):
        os.close(self.into)
        self.into = -1

    def read(self, size):
        while len(self.kept) < size:
            assert select.select([self.out], [], [], s.WAIT)[0], "it says nothing"
            part = os.read(self.out, 1 << 20)
            if not part:
                raise EOFError
            self.kept += part
        got, self.kept = self.kept[:size], self.kept[size:]
        return got

    def next(self):
        """(kind, RESULT and ENTRY as Answer, of DATA and HOLE the size)."""
        head = self.read(16)
        size, kind, version, _, zero = struct.unpack("<IHHII", head)
        assert 16 <= size <= 65536 and version == 1 and zero == 0
        frame = head + self.read(size - 16)
        if kind in (RESULT, ENTRY):
            return Answer(kind, frame)
        assert kind in (DATA, HOLE), kind
        return kind, Fields(frame).take("<Q")[0]

    def rest(self):
        """Everything until it closes its stdout."""
        while select.select([self.out], [], [], s.WAIT)[0]:
            part = os.read(self.out, 1 << 20)
            if not part:
                break
            self.kept += part
        return self.kept

    def end(self):
        """Its exit code; it must have said nothing more."""
        for fd in (self.into, self.out, self.err):
            if fd >= 0:
                os.close(fd)
        code = os.waitstatus_to_exitcode(self.peer.exited(self.number).status)
        self.peer.forget(self.number)
        return code


class Files:
    """Whole operations, each by a worker of its own."""

    def __init__(self, t, box, peer, user="", flags=0):
        self.t, self.box, self.peer, self.options = t, box, peer, (user, flags)

    def worker(self, *frames):
        return Worker(self.box, self.peer, *self.options).send(*frames)

    def simple(self, op, path, **options):
        """The RESULT."""
        worker = self.worker(request(op, path, **options))
        result = worker.next()
        self.t.equal((worker.rest(), worker.end()), (b"", 0), f"nothing else, and exit 0: {op} {path}")
        return result

    def read(self, path, offset=0, length=1 << 62):
        """(RESULT, bytes or None)."""
        worker = self.worker(request(READ, path), go(offset, length))
        result = worker.next()
        content = None
        if not result.error:
            kind, size = worker.next()
            self.t.equal(kind, DATA, "data")
            content = worker.read(size)
        self.t.equal((worker.rest(), worker.end()), (b"", 0), f"the end of {path}")
        return result, content

    def write(self, path, content, **options):
        """The last RESULT."""
        if "mode" in options:
            options["flags"] = options.get("flags", 0) | HAS_MODE
        worker = self.worker(request(WRITE, path, **options))
        result = worker.next()
        if not result.error:
            worker.send(data(content[:100]), data(content[100:]), END_FRAME)
            result = worker.next()
        self.t.equal((worker.rest(), worker.end()), (b"", 0), f"the end of {path}")
        return result

    def list(self, path, **options):
        """(entries, RESULT)."""
        worker = self.worker(request(LIST, path, **options))
        entries = []
        while (answer := worker.next()).kind == ENTRY:
            entries.append(answer)
        self.t.equal((worker.rest(), worker.end()), (b"", 0), f"the end of {path}")
        return entries, answer

    def names(self, path, **options):
        entries, result = self.list(path, **options)
        self.t.equal(result.error, 0, f"list {path}")
        return [e.name for e in entries]

    def pack(self, path, patterns=()):
        """([(entry, pieces)], RESULT); a piece is bytes, or the size of a hole."""
        worker = self.worker(request(PACK, path, flags=SPARSE, patterns=patterns))
        answer, packed = worker.next(), []
        while not answer.error:
            answer = worker.next()
            if isinstance(answer, tuple):
                kind, size = answer
                packed[-1][1].append(worker.read(size) if kind == DATA else size)
                answer = packed[-1][0]
                answer.error = 0
                continue
            if answer.kind == RESULT:
                break
            answer.error = 0
            packed.append((answer, []))
        self.t.equal((worker.rest(), worker.end()), (b"", 0), f"the end of {path}")
        return packed, answer

    def unpack(self, path, *frames, flags=0):
        worker = self.worker(request(UNPACK, path, flags=flags))
        result = worker.next()
        if not result.error:
            try:
                worker.send(*frames, END_FRAME)
            except BrokenPipeError:
                pass  # it has refused before it read all
            result = worker.next()
        self.t.equal((worker.rest(), worker.end()), (b"", 0), f"the end of {path}")
        return result

    def shell(self, script):
        done = self.box.run(self.peer, ["sh", "-c", script])
        self.t.equal((done.status, done.err), (0, b""), script)
        return done.out
