"""`berth shell` and `berth attach` on a real terminal: tmux is the person in front of it.

usage: test_shell.py BUILD_DIR root|user RUNTIME [TEST...]
"""

import base64
import hashlib
import os
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import threading
import time

from terminal_api import BINARY, CLOSE, TEXT, Tty, check, equal, start, until, until_in_front
from ground import main

GUARD = 60


class Screen:
    """A tmux of its own with one pane, in which a plain shell waits for what is typed."""

    def __init__(self, g, cols=80, rows=24):
        self.g = g
        self.socket = g.path("tmux")
        self.berth = shlex.join([os.path.join(g.build, "berth"), "--socket", g.socket])
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", str(cols), "-y", str(rows),
                  "env", "-i", "PATH=/usr/bin:/bin", "HOME=/", "PS1=host> ", "TERM=screen", "LC_ALL=C.UTF-8",
                  f"ASAN_OPTIONS={os.environ.get('ASAN_OPTIONS', '')}", "bash", "--norc", "--noprofile")

    def __enter__(self):
        self.wait("host>")
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)

    def tmux(self, *args):
        done = subprocess.run(["tmux", "-S", self.socket, *args], check=False, capture_output=True, text=True,
                              env={**os.environ, "LC_ALL": "C.UTF-8"})
        check(done.returncode == 0, args, done.stderr)
        return done.stdout

    def text(self):
        return self.tmux("capture-pane", "-p", "-t", "s").rstrip("\n")

    def wait(self, pattern):
        """Until the screen's last lines look like that."""
        try:
            until(lambda: re.search(pattern, self.text(), re.M), pattern, GUARD)
        except Exception as error:
            raise AssertionError(f"{pattern!r} is not on the screen:\n{self.text()}") from error

    def keys(self, *keys):
        self.tmux("send-keys", "-t", "s", *keys)

    def press(self, key, pattern):
        """A key that may be pressed again: less drops one that comes with a change of its window."""
        def is_seen():
            self.keys(key)
            time.sleep(0.2)
            return re.search(pattern, self.text(), re.M)
        until(is_seen, f"{pattern} after {key}", GUARD)

    def type(self, text):
        self.tmux("send-keys", "-t", "s", "-l", text)
        self.keys("Enter")

    def clear(self):
        """What is waited for next is not what was there before."""
        self.type("clear")
        self.wait(r"\Ahost>\Z")

    def shell(self, *more):
        self.type(f"{self.berth} shell {shlex.join(more) or 'a -- bash --norc --noprofile'}")
        self.wait(r"^bash-[0-9.]+#$|^#$")

    def settings(self):
        """stty -a of the pane, by its device; but its size is tmux's to say."""
        tty = self.tmux("display-message", "-p", "-t", "s", "#{pane_tty}").strip()
        with open(tty, encoding="utf-8") as file:
            told = subprocess.run(["stty", "-a"], stdin=file, check=True, capture_output=True, text=True).stdout
        return re.sub(r"rows \d+; columns \d+; ", "", told)

    def check_given_back(self, before):
        self.type("echo back $?")
        self.wait("^back ")
        until(lambda: self.settings() == before, "the terminal's settings as they were")

    def client(self):
        """The pid of berth in the pane."""
        pane = self.tmux("display-message", "-p", "-t", "s", "#{pane_pid}").strip()
        return int(subprocess.run(["pgrep", "-P", pane, "-x", "berth"], check=True, capture_output=True,
                                  text=True).stdout)


def test_shell(g):
    """A shell: its size, its exit code, and the terminal as it was."""
    with Screen(g, 100, 30) as s:
        before = s.settings()
        s.shell()
        s.type("stty size; echo $TERM; tty")
        s.wait("^30 100\nscreen\n/dev/pts/0")
        check("-isig" in s.settings(), "raw")
        s.type("printf '\\303\\244\\342\\202\\254\\n'")
        s.wait("^\u00e4\u20ac$")
        s.type("exit 7")
        s.wait("^host>$")
        s.type("echo code $?")
        s.wait("^code 7$")
        s.check_given_back(before)


def test_keys(g):
    """Ctrl-C, Ctrl-Z and fg reach what runs inside, and not berth."""
    with Screen(g) as s:
        s.shell()
        s.type("sleep 1000")
        until_in_front(g, "a", "sleep")
        s.keys("C-z")
        s.wait(r"Stopped +sleep 1000")
        s.type("fg")
        until_in_front(g, "a", "sleep")
        s.keys("C-c")
        s.wait(r"\^C")
        s.type("echo still $((40 + 2))")
        s.wait("^still 42$")
        s.keys("C-d")
        s.wait("^host>$")


def test_resize(g):
    """Who changes the window changes it inside."""
    with Screen(g) as s:
        s.shell()
        s.type("trap 'echo it is $(stty size)' WINCH; echo set")
        s.wait("^set$")
        s.tmux("resize-window", "-t", "s", "-x", "61", "-y", "17")
        s.type("")
        s.wait("it is 17 61")
        s.type("exit")
        s.wait("^host>$")


def test_full_screen(g):
    """A full-screen program is painted, survives leaving and coming back, and leaves no trace."""
    with Screen(g) as s:
        before = s.settings()
        s.type("echo before")
        s.wait("^before$")
        s.shell()
        s.type("seq 1000 > /tmp/numbers; less /tmp/numbers")
        s.wait("^23\n.*numbers")
        s.keys("G")
        s.wait("^1000\n.*END")
        s.keys("C-p", "C-q")
        s.wait("left running; to come back: berth --socket")
        check(re.search(r"--socket \S+ attach a [a-z0-9]{26}", s.text().replace("\n", "")), s.text())
        s.check_given_back(before)
        check("before" in s.text(), "the main screen is back", s.text())
        s.clear()
        s.type(f"{s.berth} attach a")
        s.wait("^1000\n.*END")
        s.press("g", "^23$")
        s.tmux("resize-window", "-t", "s", "-x", "60", "-y", "10")
        s.wait(r"\A1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        s.keys("q")
        s.type("exit 4")
        s.wait("^host>$")
        s.type("echo code $?")
        s.wait("^code 4$")


def test_detach(g):
    """Left by its keys, the shell runs on; a lone Ctrl-P is the program's; other keys may be chosen."""
    with Screen(g) as s:
        before = s.settings()
        s.shell()
        s.type("X=kept; cat -v")
        s.wait("cat -v$")
        s.keys("C-p", "x", "Enter")
        s.wait(r"^\^Px$")
        s.keys("C-c")
        s.keys("C-p", "C-q")
        s.wait("left running")
        s.check_given_back(before)
        s.clear()
        s.type(f"{s.berth} attach a --detach-keys ctrl-],q")
        s.wait("#$")
        s.type("echo $X")
        s.wait("^kept$")
        s.type("stty -ixon; echo re''ady; cat -v")
        s.wait("^ready$")
        s.keys("C-p", "C-q", "Enter")
        s.wait(r"^\^P\^Q$")
        s.keys("C-c")
        s.wait(r"^\^C\n.*#$\Z")
        s.type("echo go on")
        s.wait("^go on$")
        s.keys("C-]", "q")
        s.wait("left running")
        s.check_given_back(before)
        s.clear()
        s.type(f"{s.berth} attach --detach-keys '' a")
        s.wait("#$")
        s.type("clear; cat -v")
        s.wait(r"\A\Z")
        s.keys("C-p", "C-q", "C-]", "q", "Enter")
        s.wait(r"^\^P\^Q\^\]q$")
        s.keys("C-c")
        s.wait(r"^\^C\n.*#$\Z")
        s.type("exit 3")
        s.wait("^host>$")
        s.check_given_back(before)


def test_listed(g):
    """Terminals are listed and ended by others than who made them; attach looks for one that is there."""
    def berth(*args):
        return subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, *args], check=False,
                              capture_output=True, text=True)
    with Screen(g) as s:
        s.shell()
        s.type("sleep 1000 </dev/null >/dev/null 2>&1 & disown; exit 3")
        s.wait("^host>$")
        s.clear()
        listed = berth("ps", "-t", "a")
        check(re.search(r"exited 3 .*bash --norc", listed.stdout), listed)
        s.type(f"{s.berth} attach a")
        s.wait("no terminal runs")
        s.clear()
        s.shell()
        running = berth("ps", "-t", "-r", "-q", "a").stdout.split()
        equal(len(running), 1, running)
        ended = berth("kill", "-t", "a", *running)
        equal((ended.returncode, ended.stdout.split()), (0, running), ended)
        s.wait("it was killed: told to end|^exit$|^logout$|^host>$")
        equal(berth("ps", "-t", "-r", "-q", "a").stdout, "", "none runs")
        equal(berth("kill", "-t", "a", "none").returncode, 1, "one that is not there")
        equal(berth("kill", "-t", "--end", "a", "none").returncode, 2, "what makes no sense")


def test_client_dies(g):
    """kill -9 and other ends of berth: the shell runs on, and is found again."""
    with Screen(g) as s:
        s.shell()
        s.type("X=kept; echo set")
        s.wait("^set$")
        os.kill(s.client(), 9)
        s.wait("Killed")
        s.type("stty sane; clear")  # nobody could give it back
        s.wait(r"\Ahost>$")
        s.type(f"{s.berth} attach a")
        s.wait("#$")
        s.type("echo still $X")
        s.wait("^still kept$")
        settings = s.settings()
        check("-isig" in settings, settings)
        os.kill(s.client(), 15)
        s.wait("host>$")
        until(lambda: "-isig" not in s.settings(), "given back after SIGTERM")
        s.clear()
        s.type(f"{s.berth} attach a")
        s.wait("#$")
        g.kill_berthd()
        s.wait("the connection ended; to come back: berth --socket")
        until(lambda: "-isig" not in s.settings(), "given back when berthd is gone")
        g.start()
        s.clear()
        s.type(f"{s.berth} attach a")
        s.wait("#$")
        s.type("echo once more $X")
        s.wait("^once more kept$")
        s.type("exit")
        s.wait("host>$")


def test_flood(g):
    """A flood fills no memory, and Ctrl-C still ends it."""
    with Screen(g) as s:
        s.shell()
        s.type("yes")
        s.wait("^y\ny\ny$")
        s.keys("C-c")
        s.type("clear; echo re''ady")
        s.wait("^ready$")
        s.type("exit")
        s.wait("^host>$")


def test_suspend(g):
    """Stopped by a signal it gives the terminal back, and takes it again."""
    with Screen(g) as s:
        before = s.settings()
        s.shell()
        s.type("X=kept; echo now it is")
        s.wait("^now it is$")  # what was not read yet would be the host shell's
        os.kill(s.client(), signal.SIGTSTP)
        s.wait("Stopped")
        s.check_given_back(before)
        s.clear()
        s.type("fg")
        until(lambda: "-isig" in s.settings(), "raw again")
        s.type("echo still $X")
        s.wait("^still kept$")
        s.type("exit")
        s.wait("host>$")
        s.check_given_back(before)


def test_top(g):
    """A program that paints all the time: it is seen, resized, left and found again, and ends by its key."""
    with Screen(g) as s:
        before = s.settings()
        s.type(f"{s.berth} shell a -- top -d 0.2")
        s.wait("PID USER")
        s.tmux("resize-window", "-t", "s", "-x", "120", "-y", "12")
        s.wait("PID USER")
        s.keys("C-p", "C-q")
        s.wait("left running")
        s.check_given_back(before)
        s.clear()
        s.type(f"{s.berth} attach a")
        s.wait("PID USER")
        s.keys("q")
        s.wait("^host>$")  # until then what is typed is top's
        s.type("echo code $?")
        s.wait("^code 0$")
        s.check_given_back(before)


class Impostor:
    """Whoever answers where a berthd should: the terminal is there, then `behave` has the WebSocket."""

    def __init__(self, behave, accept=None):
        self.behave, self.accept, self.failed = behave, accept, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with sock:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += sock.recv(65536)
                key = re.search(rb"^Sec-WebSocket-Key: (.*)\r$", head, re.M)
                if not key:
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}")
                    continue
                self.head = head.decode()
                right = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
                lines = ["HTTP/1.1 101 Switching Protocols", "upgrade: WebSocket", "Connection: Upgrade"]
                lines += [line % right if "%" in line else line for line in
                          (["sec-websocket-accept:  %s "] if self.accept is None else self.accept)]
                sock.sendall("\r\n".join((*lines, "", "")).encode())
                try:
                    self.behave(sock)
                except OSError as error:
                    self.failed = error


def sent(opcode, data):
    """A frame of a server."""
    size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack("!H", len(data))
    return bytes([0x80 | opcode]) + size + data


def attach(g, impostor, *flags):
    return Tty([os.path.join(g.build, "berth"), "--url", impostor.url, "attach", "a", "t", *flags])


def test_handshake(g):
    """Who answers 101 without knowing what it says is not believed; who knows is."""
    def behave(sock):
        sock.sendall(sent(BINARY, b"believed") + sent(TEXT, b'{"type":"exit","code":0,"reason":"exited"}'))
        sock.recv(1)
    for accept in ([], ["Sec-WebSocket-Accept: nonsense"], ["Sec-WebSocket-Accept: %sx"], ["X-Sec-WebSocket-Accept: %s"]):
        with Impostor(behave, accept) as impostor, attach(g, impostor) as tty:
            equal(tty.end(), 125, (accept, tty.out))
            check(b"does not speak WebSocket" in tty.out and b"believed" not in tty.out, tty.out)
            tty.check_given_back()
    with Impostor(behave) as impostor, attach(g, impostor) as tty:
        equal(tty.end(), 0, tty.out)
        check(b"believed" in tty.out, tty.out)
        check(f"Host: {impostor.url[7:]}\r\n" in impostor.head, impostor.head)
        tty.check_given_back()


def test_endings(g):
    """However the other end goes, the terminal is given back, and what was said is shown."""
    cases = (
        (sent(CLOSE, struct.pack("!H", 1001) + b"berthd is \x1b[31mstopping"), 125, b"berthd is ?[31mstopping"),
        (sent(CLOSE, b""), 125, b"the connection ended;"),
        (b"", 125, b"the connection ended;"),
        (b"\xff\xff\xff\xff", 125, b"the connection ended;"),
        (sent(BINARY, b"half")[:-1], 125, b"the connection ended;"),
        (sent(TEXT, b"nonsense"), 125, b"the connection ended;"),
        (sent(TEXT, b'{"type":"exit","code":null,"reason":"lost"}'), 125, b"how it ended is not known (lost)"),
        (sent(TEXT, b'{"type":"exit","code":256,"reason":"exited"}'), 125, b"how it ended is not known"),
        (sent(TEXT, b'{"type":"exit","code":255,"reason":"exited"}'), 255, b""),
        (sent(TEXT, b'{"type":"exit","code":137,"reason":"killed"}'), 137, b"it was killed: told to end, or its sandbox was stopped or removed"),
        (sent(BINARY, b"\x1b[?1049hin vi") + sent(CLOSE, b""), 125, b"\x1b[?1049l"),
    )
    for frames, code, words in cases:
        with Impostor(lambda sock, frames=frames: sock.sendall(frames)) as impostor, attach(g, impostor) as tty:
            equal(tty.end(), code, (frames, tty.out))
            check(words in tty.out, frames, tty.out)
            tty.check_given_back()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        with Impostor(lambda sock: (sock.sendall(sent(BINARY, b"go")), until_gone(sock))) as impostor, \
                attach(g, impostor) as tty:
            tty.until("go")
            tty.process.send_signal(number)
            equal(tty.end(), 128 + number, tty.out)
            tty.check_given_back()


def until_gone(sock):
    while sock.recv(65536):
        pass


def test_keys_in_a_flood(g):
    """However much comes, without a pause, what is typed goes out."""
    def behave(sock):
        flood = sent(BINARY, b"flood\r\n" * 4000) * 8
        sock.setblocking(False)
        heard, left = b"", b""
        while b"\x82\x81" not in heard:  # a binary frame of one byte
            readable, writable, _ = select.select([sock], [sock], [], 60)
            if readable:
                heard += sock.recv(65536)
            if writable:
                left = left or flood
                left = left[sock.send(left):]
        sock.setblocking(True)
        sock.sendall(left + sent(TEXT, b'{"type":"exit","code":7,"reason":"exited"}'))
        until_gone(sock)
    with Impostor(behave) as impostor, attach(g, impostor) as tty:
        tty.until("flood")
        tty.type("\x03")
        equal(tty.end(), 7, tty.out[-100:])
        tty.check_given_back()


def test_refused(g):
    """What cannot be is said, and nothing is done to the terminal."""
    berth = [os.path.join(g.build, "berth"), "--socket", g.socket]
    for args in (["shell", "a"], ["attach", "a"]):
        done = subprocess.run([*berth, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        equal(done.returncode, 125, done)
        check("terminal" in done.stderr, done)
    with Screen(g) as s:
        for args, word in (("attach none", "none"), ("attach a none", "no terminal"), ("shell a -- /no/such", "No such file"),
                           ("attach", "which sandbox"), ("shell a --detach-keys ctrl-", "detach-keys")):
            start(g, "a", id="x") if args == "attach a none" else None
            s.clear()
            s.type(f"{s.berth} {args}; echo code $?")
            s.wait("^code 125$")
            check(word in s.text().replace("\n", ""), s.text())


if __name__ == "__main__":
    main([test_shell, test_keys, test_resize, test_full_screen, test_top, test_detach, test_listed, test_suspend, test_client_dies,
          test_flood, test_handshake, test_endings, test_keys_in_a_flood, test_refused],
         start=lambda test: test not in (test_handshake, test_endings, test_keys_in_a_flood))
