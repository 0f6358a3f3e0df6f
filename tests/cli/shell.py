"""A real bash on a terminal of its own, to press Tab in."""

import fcntl
import os
import pty
import select
import subprocess
import termios
import threading

PACKAGE = "/usr/share/bash-completion/bash_completion"
TAB, ALL, CLEAR, DUMP = "\t", "\033*", "\001\013", "\030d"
RC = r"""
PS1='> ' HISTFILE=
bind 'set completion-query-items 0'; bind 'set page-completions off'; bind 'set bell-style none'
bind 'set enable-bracketed-paste off'
dump() { printf '%s' "$READLINE_LINE" >&"$DUMP_FD"; printf '\0' >&"$DUMP_FD"; }
bind -x '"\C-xd": dump'
"""


class Shell:
    """`load` is what a person has in the ~/.bashrc; `line` says what stands on the command line."""

    def __init__(self, directory, load, env):
        rc = os.path.join(directory, ".shellrc")
        with open(rc, "w", encoding="utf-8") as file:
            file.write(RC + load + "\n")
        leader, follower = pty.openpty()
        self.dumps, dump = os.pipe()
        self.leader, self.shown = leader, bytearray()
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--rcfile", rc, "-i"], cwd=directory, stdin=follower,
            stdout=follower, stderr=follower, pass_fds=[dump], start_new_session=True,
            env={**env, "TERM": "dumb", "DUMP_FD": str(dump)},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(follower)
        os.close(dump)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.line("", "")

    def read(self):
        """What nobody reads would stop the shell."""
        while True:
            try:
                data = os.read(self.leader, 65536)
            except OSError:
                return
            if not data:
                return
            self.shown += data

    def line(self, text, keys=TAB):
        """Of an empty line on which `text` was typed and then `keys`."""
        os.write(self.leader, (CLEAR + text + keys + DUMP).encode())
        found = bytearray()
        while not found.endswith(b"\0"):
            if not select.select([self.dumps], [], [], 60)[0]:
                raise TimeoutError(f"bash is silent behind {text!r}: {bytes(self.shown[-2000:])!r}")
            more = os.read(self.dumps, 65536)
            if not more:
                raise EOFError(f"bash has ended: {bytes(self.shown[-2000:])!r}")
            found += more
        return found[:-1].decode("utf-8", "surrogateescape")

    def words(self, text, keys=ALL):
        """The words of that line, as the program would get them."""
        line = self.line(text, keys)
        name = line.split(None, 1)[0]
        script = f'{name}() {{ printf "%s\\0" "$@"; }}; {line}'
        done = subprocess.run(["bash", "--noprofile", "--norc", "-c", script], capture_output=True,
                              check=True, cwd="/", timeout=60)
        return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.dumps)
        self.reader.join(10)
        os.close(self.leader)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
