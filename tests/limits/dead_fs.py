"""A file system whose program can stop answering: a folder with nothing in it, by /dev/fuse."""

import ctypes
import errno
import os
import signal
import struct

HEAD, ANSWER = "<IIQQIIII", "<IiQ"
LOOKUP, FORGET, GETATTR, STATFS, INIT, ACCESS, BATCH_FORGET = 1, 2, 3, 17, 26, 34, 42
ATTRIBUTES = struct.pack("<QII", 0, 0, 0) + struct.pack("<6Q10I", 1, 0, 0, 1, 1, 1, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)


def answer_to(opcode):
    """(error, bytes), or None for what is not answered."""
    if opcode == INIT:
        return 0, struct.pack("<IIIIHHIIHH", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0) + bytes(32)
    if opcode == GETATTR:
        return 0, ATTRIBUTES
    if opcode == STATFS:
        return 0, struct.pack("<5Q4I6I", 1, 1, 1, 1, 1, 4096, 255, 4096, 0, *[0] * 6)
    if opcode in (FORGET, BATCH_FORGET):
        return None
    return (-errno.ENOENT if opcode == LOOKUP else -errno.ENOSYS), b""


def serve(device):
    """SIGUSR1: no more answers; SIGUSR2: all that are owed, and those that come."""
    owed, hangs = [], [False]

    def reply(unique, opcode):
        answer = answer_to(opcode)
        if answer:
            os.write(device, struct.pack(ANSWER, 16 + len(answer[1]), answer[0], unique) + answer[1])

    def go_on(*_):
        hangs[0] = False
        while owed:
            reply(*owed.pop())
    signal.signal(signal.SIGUSR1, lambda *_: hangs.__setitem__(0, True))
    signal.signal(signal.SIGUSR2, go_on)
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return  # it was unmounted
            continue
        _, opcode, unique, *_ = struct.unpack_from(HEAD, request)
        if hangs[0] and opcode != INIT:
            owed.append((unique, opcode))
        else:
            reply(unique, opcode)


class DeadFs:
    def __init__(self, path):
        self.path, self.libc = path.encode(), ctypes.CDLL(None, use_errno=True)
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if self.libc.mount(b"berth-test", self.path, b"fuse", 6, options) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        self.pid = os.fork()
        if self.pid == 0:
            try:
                serve(device)
            finally:
                os._exit(0)
        os.close(device)
        os.stat(path)  # it has begun

    def hang(self):
        os.kill(self.pid, signal.SIGUSR1)

    def mend(self):
        os.kill(self.pid, signal.SIGUSR2)

    def close(self):
        """Whoever hangs in it gets an error, when its program is gone."""
        self.libc.umount2(self.path, 2)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
