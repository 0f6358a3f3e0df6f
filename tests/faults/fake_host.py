"""A keeper and inits for a real berthd, in this process: reality would not lie on demand.

The keeper is honest. Each init is a function that is given its line when berthd connects to it; when
it returns the line ends, and with it the sandbox.
"""

import array
import os
import socket
import struct
import threading

import keeper_link as k

HELLO, EXEC, FORGET, SIGNAL, END, PING, RESIZE, STDIN_END, USAGE, TERMINATE, CONNECT, LISTENING = range(1, 13)
WELCOME, LIVE, STARTED, REFUSED, EXITED, ENDED, PONG, LOST, SETTLED, USAGE_IS, QUIET, HEARTBEAT, CONNECTED, \
    CONNECT_FAILED, LISTENING_IS = range(64, 79)
STDIN, IN_FD, IN_CGROUP, SUPERVISED, WORKER, KEPT, TERMINAL, SESSION, COMMAND = (1 << i for i in range(9))
NEWEST = 2
JOIN_S = 180  # after which a thing counts as hung


def frame(kind, tag=0, fields=b"", version=1):
    return struct.pack("<IHHII", 16 + len(fields), kind, version, tag, 0) + fields


def send(sock, message, fds=()):
    """Whoever has gone does not hear it."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        sock.sendmsg([message], rights)
    except (BrokenPipeError, ConnectionResetError):
        pass


class Line:
    """An init's end: what berthd has asked for, and whatever is to be said."""

    def __init__(self, sock):
        self.socket = sock

    def receive(self):
        """(kind, tag, fields), or None when berthd has gone."""
        try:
            data, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(64))
        except ConnectionResetError:
            return None
        for _, _, content in control:
            fds = array.array("i")
            fds.frombytes(content)
            for fd in fds:
                os.close(fd)
        if not data:
            return None
        _, kind, _, tag, _ = struct.unpack_from("<IHHII", data)
        return kind, tag, data[16:]

    def say(self, kind, fields=b"", tag=0, fds=(), version=1):
        send(self.socket, frame(kind, tag, fields, version), fds)

    def greet(self, version=NEWEST):
        """Answers the handshake as an init without execs does."""
        self.receive()
        self.say(WELCOME, struct.pack("<III", version, 0, 0))
        self.receive()
        self.say(PONG, struct.pack("<Q", 0))


def be_honest(line, kept=None):
    """An init each of whose commands says hello and exits with 3. Adds the numbers of kept ones, which go on."""
    line.greet()
    while asked := line.receive():
        kind, tag, fields = asked
        if kind == EXEC:
            number, flags = struct.unpack_from("<QI", fields)
            pipes = [os.pipe() for _ in range(3)]
            given = [pipes[0][1]] if flags & STDIN else []
            line.say(STARTED, struct.pack("<QI", number, 42), tag, [*given, pipes[1][0], pipes[2][0]])
            os.write(pipes[1][1], b"hello")
            for fd in (fd for pipe in pipes for fd in pipe):
                os.close(fd)
            if flags & KEPT:
                (kept if kept is not None else []).append(number)
            else:
                line.say(EXITED, struct.pack("<QIQQQ", number, 3 << 8, 0, 0, 0))
        elif kind == PING:
            line.say(PONG, fields, tag)
        elif kind == TERMINATE:
            line.say(QUIET)


class Host:
    """<run>/keeper.sock, and <run>/<id>/agent.sock of each sandbox that is started."""

    def __init__(self, run, init):
        self.run, self.init = run, init
        self.errors, self.threads = [], []
        self.generations, self.listeners = {}, {}  # of those that run
        os.makedirs(run, 0o711, exist_ok=True)
        os.chmod(run, 0o711)
        self.listener = self.listen(os.path.join(run, "keeper.sock"))
        self.begin(self.serve)

    @staticmethod
    def listen(path):
        if os.path.exists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen(4)
        return listener

    @staticmethod
    def deafen(listener):
        """Whoever waits there for a berthd that did not come waits no more."""
        try:
            listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was before
        listener.close()

    def begin(self, function, *args):
        def body():
            try:
                function(*args)
            except Exception as error:  # pylint: disable=broad-except
                self.errors.append(repr(error))
        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        self.threads.append(thread)

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                self.serve_one(peer)

    def serve_one(self, peer):
        while True:
            try:
                data = peer.recv(65536)
            except ConnectionResetError:
                return
            if not data:
                return
            asked = k.decode(data, [])
            for kind, tag, values in self.answers(asked):
                send(peer, k.encode(kind, tag, **values))

    def answers(self, asked):
        if asked.type == k.HELLO:
            for name in self.generations:
                self.start(name)  # its line to another berthd has ended
            known = [(k.RUNNING, 0, {"id": name, "generation": generation, "pid": os.getpid()})
                     for name, generation in self.generations.items()]
            return [(k.WELCOME, asked.tag, {"version": 2, "abilities": k.IS_ROOTLESS, "runtime": "/bin/true",
                                            "known": len(known)}), *known]
        if asked.type == k.START:
            self.start(asked.id)
            self.generations[asked.id] = asked.generation
            return [(k.STARTED, asked.tag, {"pid": os.getpid()})]
        if asked.type == k.KILL:
            self.deafen(self.listeners[asked.id])
            return [(k.DONE, asked.tag, {}),
                    (k.EXITED, 0, {"id": asked.id, "generation": self.generations.pop(asked.id, 0), "status": 9,
                                   "is_known": 1})]
        if asked.type in (k.GROUP_NEW, k.STATS):
            return [(k.FAILED, asked.tag, {"code": 1, "sentence": "there is none here"})]
        if asked.type == k.USAGE:
            return [(k.USAGE_IS, asked.tag, {})]
        if asked.type == k.ADOPT:
            return [(k.ADOPTED, asked.tag, {})]
        return [(k.DONE, asked.tag, {})]

    def start(self, name):
        folder = os.path.join(self.run, name)
        os.makedirs(folder, 0o711, exist_ok=True)
        os.chmod(folder, 0o711)
        if name in self.listeners:
            self.deafen(self.listeners[name])
        self.listeners[name] = self.listen(os.path.join(folder, "agent.sock"))
        self.begin(self.be_init, name, self.listeners[name])

    def be_init(self, name, listener):
        try:
            peer, _ = listener.accept()
        except OSError:
            return  # it was ended before
        with peer:
            self.init(name, Line(peer))

    def close(self):
        """After berthd's end. What went wrong on this side is told."""
        for listener in (*self.listeners.values(), self.listener):
            self.deafen(listener)
        for thread in self.threads:
            thread.join(JOIN_S)
            if thread.is_alive():
                self.errors.append("an init waits still")
        return self.errors
