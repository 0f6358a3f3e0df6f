"""Calls of a program that fail: the test's side of faults.c."""

import errno
import mmap
import os
import struct

OPEN, WRITE, SYNC, MOUNT, FORK, MEMORY, MAKE, UNMAKE = range(1, 9)
NAMES = {OPEN: "open", WRITE: "write", SYNC: "sync", MOUNT: "mount", FORK: "fork", MEMORY: "memory", MAKE: "make",
         UNMAKE: "unmake"}
ERRORS = {OPEN: errno.EMFILE, WRITE: errno.EIO, SYNC: errno.EIO, MOUNT: errno.ENOMEM, FORK: errno.EAGAIN,
          MEMORY: errno.ENOMEM, MAKE: errno.ENOSPC, UNMAKE: errno.EBUSY}
LAYOUT = "<6i32s256s"


class Faults:
    """`env` is for the program; nothing fails until arm()."""

    def __init__(self, library, path, program):
        self.program, self.path = program, path
        with open(path, "wb") as file:
            file.write(bytes(struct.calcsize(LAYOUT)))
        os.chmod(path, 0o666)  # the program may become another user
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), struct.calcsize(LAYOUT))
        options = os.environ.get("ASAN_OPTIONS", "detect_leaks=1")
        # The library stands before the sanitizer's, and an allocation that fails is what is wanted.
        self.env = {**os.environ, "LD_PRELOAD": library, "BERTH_FAULTS": path,
                    "ASAN_OPTIONS": options + ":verify_asan_link_order=0:allocator_may_return_null=1"}

    def arm(self, kind, nth, path="", error=None, is_lasting=False):
        words = struct.pack(LAYOUT, 0, nth, error or ERRORS[kind], is_lasting, 0, 0, self.program.encode(), path.encode())
        self.map[:] = words
        self.map[:4] = struct.pack("<i", kind)  # the last, as it begins now

    def calls(self):
        """Of that kind, since arm()."""
        return struct.unpack_from("<i", self.map, 16)[0]

    def disarm(self):
        """(calls of that kind, those that failed) since arm()."""
        self.map[:4] = struct.pack("<i", 0)
        return struct.unpack_from("<2i", self.map, 16)
