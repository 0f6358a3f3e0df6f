"""A wall's clock for one berthd, which can be set: the test's side of clock.c."""

import ctypes
import datetime
import mmap
import os
import struct
import time

PIDFD_GETFD, TIMERFD_SETTIME = 438, 286 if os.uname().machine == "x86_64" else 86
DAY, YEAR = 86400, 365 * 86400


class Clock:
    """`env` is for berthd."""

    def __init__(self, library, path):
        with open(path, "wb") as file:
            file.write(bytes(16))
        os.chmod(path, 0o666)  # the program may become another user
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 16)
        self.libc = ctypes.CDLL(None, use_errno=True)
        options = os.environ.get("ASAN_OPTIONS", "detect_leaks=1")
        self.env = {"LD_PRELOAD": library, "BERTH_CLOCK": path, "ASAN_OPTIONS": options + ":verify_asan_link_order=0"}

    @property
    def ahead(self):
        return struct.unpack_from("<q", self.map)[0]

    def set(self, ahead):
        """While nobody looks at it."""
        struct.pack_into("<q", self.map, 0, ahead)

    def jump(self, seconds, pid):
        """While this berthd runs, which the kernel would tell now."""
        self.set(self.ahead + seconds)
        number = struct.unpack_from("<i", self.map, 8)[0]
        pidfd = os.pidfd_open(pid)
        timer = self.libc.syscall(PIDFD_GETFD, pidfd, number, 0)
        os.close(pidfd)
        if timer < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        self.libc.syscall(TIMERFD_SETTIME, timer, 0, struct.pack("<4q", 0, 0, 0, 1), None)
        os.close(timer)

    def at(self, seconds):
        """So far from its now, as the API writes times."""
        when = datetime.datetime.fromtimestamp(time.time() + self.ahead + seconds, datetime.timezone.utc)
        return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"
