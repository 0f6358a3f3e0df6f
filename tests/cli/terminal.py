"""berth on a terminal of its own: what it shows, and keys for it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios


class Terminal:
    def __init__(self, argv, cwd, env):
        self.leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.shown = b""
        self.process = subprocess.Popen(
            argv, cwd=cwd, stdin=follower, stdout=follower, stderr=follower, start_new_session=True, env=env,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(follower)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.leader)

    def read(self, seconds=60):
        """More of what it shows; False at its end."""
        if not select.select([self.leader], [], [], seconds)[0]:
            raise TimeoutError(f"silent behind {self.shown[-2000:]!r}")
        try:
            data = os.read(self.leader, 65536)
        except OSError:
            return False
        self.shown += data
        return bool(data)

    def wait_for(self, text, behind=0):
        """Until it is shown; where it ends."""
        while text not in self.shown[behind:]:
            if not self.read():
                raise EOFError(f"ended behind {self.shown[-2000:]!r}")
        return self.shown.index(text, behind) + len(text)

    def type(self, keys):
        """The place behind which what comes of it is shown."""
        at = len(self.shown)
        os.write(self.leader, keys)
        return at

    def end(self):
        """Its exit code, and all that it has shown."""
        while self.read():
            pass
        return self.process.wait(60), self.shown
