#!/usr/bin/env python3
"""berthd as a program that runs: whom it lets in, signals, service managers, descriptors.

    running.py BERTHD
"""

import fcntl
import grp
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

from place import IS_ROOT, OTHER, TOKEN, USER, Place, fails, health, port_of, run_cases
from tap import TIMEOUT, Client, Program, die_with_parent, expect, head, is_error, require, until


def other_signals():
    """Signals that other daemons reopen their logs at do not end this one."""
    with Place() as p:
        d = p.start()
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
            d.signal(number)
        expect(p.connect().get("/health").status, 200)
        d.stop()


def pipe_is_released():
    """Whoever reads the ready line from a pipe sees its end, though the daemon lives."""
    with Place() as p:
        d = p.start()
        expect(d.process.stdout.read(), b"", "behind the ready line")
        expect(os.readlink(f"/proc/{d.pid}/fd/1"), "/dev/null")
        expect(p.connect().get("/health").status, 200)
        d.stop()


def all_cloexec():
    with Place() as p:
        d = p.start()
        bad = []
        for n in os.listdir(f"/proc/{d.pid}/fd"):
            if int(n) <= 2:
                continue
            with open(f"/proc/{d.pid}/fdinfo/{n}") as f:
                flags = next(int(x.split()[1], 8) for x in f if x.startswith("flags:"))
            if not flags & os.O_CLOEXEC:
                bad.append(os.readlink(f"/proc/{d.pid}/fd/{n}"))
        d.stop()
        require(not bad, f"descriptors without CLOEXEC: {bad}")


def closed_descriptors():
    """Without stdin, stdout or stderr it serves and ends all the same."""
    for redirections in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        with Place() as p:
            d = subprocess.Popen(
                ["sh", "-c", f'exec "$@" {redirections}', "sh", *p.argv()],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
            try:
                until(lambda: health(p) == 200, "an answer")
                d.terminate()
                expect(d.wait(TIMEOUT), 0, f"exit code with {redirections}")
            finally:
                d.kill()
                d.wait()


def status_with(port, target, *headers):
    with Client.tcp(port) as c:
        answer = c.get(target, *headers)
        if answer.status >= 400:
            is_error(answer)
        return answer.status


def tokens_on_tcp():
    with Place() as p:
        d, port = p.listen("--token-file", p.tokens("", TOKEN, OTHER))
        info = "/v1/info"
        expect(status_with(port, "/health"), 200, "/health is open")
        expect(status_with(port, info), 401, "no token")
        for value in (
            f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", "Bearer x", TOKEN,
            f"Basic {TOKEN}", f"Bearer {TOKEN} {OTHER}", f"Bearer {TOKEN.upper()}",
        ):
            expect(status_with(port, info, f"Authorization: {value}"), 401, value)
        expect(status_with(port, info, f"Authorization: Bearer {TOKEN}"), 200, "first token")
        expect(status_with(port, info, f"Authorization: Bearer {OTHER}"), 200, "second token")
        expect(status_with(port, info, f"authorization: bearer {TOKEN}"), 200, "scheme's case")
        expect(
            status_with(port, info, f"Authorization: Bearer {OTHER}x",
                        f"Authorization: Bearer {TOKEN}"), 401, "two of them")
        with Client.tcp(port) as c:
            answer = c.get(info)
            require("bearer" in (answer.header("WWW-Authenticate") or "").lower(), str(answer))
            expect(c.get("/health").status, 200, "the connection goes on")
            expect(status_with(port, "/nope"), 401, "unknown paths do not tell")
        with Client.tcp(port) as c:  # a refused upload is refused before it is read
            c.send_if_taken(head("POST /v1/info HTTP/1.1", "Content-Length: 1000000",
                                 "Expect: 100-continue"))
            expect(c.read().status, 401)
        expect(p.connect().get(info).status, 200, "the Unix socket needs no token")
        require(TOKEN not in d.stderr() and OTHER not in d.stderr(), "a token is in the log")
        d.stop()


def tokens_rotate():
    with Place() as p:
        d, port = p.listen("--token-file", p.tokens(TOKEN))
        info = "/v1/info"

        def code(token):
            return status_with(port, info, f"Authorization: Bearer {token}")

        expect((code(TOKEN), code(OTHER)), (200, 401))
        kept = Client.tcp(port)
        expect(kept.get("/health").status, 200)
        inode = os.stat(p.socket).st_ino
        p.tokens(OTHER)
        d.signal(signal.SIGHUP)
        until(lambda: code(OTHER) == 200, "the new token")
        expect(code(TOKEN), 401, "the old token")
        expect(kept.get("/health").status, 200, "a connection across the reload")
        kept.close()
        expect(os.stat(p.socket).st_ino, inode, "the socket's inode")
        p.tokens()  # a reload that would let nobody in, or everybody, is not done
        before = len(d.stderr())
        d.signal(signal.SIGHUP)
        until(lambda: len(d.stderr()) > before, "a line about the failed reload")
        expect((code(OTHER), code(TOKEN)), (200, 401), "after a bad reload")
        p.tokens(TOKEN, mode=0o644)
        before = len(d.stderr())
        d.signal(signal.SIGHUP)
        until(lambda: len(d.stderr()) > before, "a line about the failed reload")
        expect((code(OTHER), code(TOKEN)), (200, 401), "after a reload of a readable file")
        d.stop()


LAUNCH = """
import os, sys
fds, count = [int(x) for x in sys.argv[1].split(",")], sys.argv[2]
for i, fd in enumerate(fds):
    os.dup2(fd, 3 + i)
os.closerange(3 + len(fds), 32)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=count)
os.execv(sys.argv[3], sys.argv[3:])
"""


def launch(sockets, argv, count=None):
    """As a service manager would: a command, and what Popen needs for it."""
    fds = [s.fileno() for s in sockets]
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in fds]
    for fd in high:  # above all targets of dup2()
        os.set_inheritable(fd, True)
    command = [sys.executable, "-c", LAUNCH, ",".join(map(str, high)), str(count or len(fds)), *argv]
    return command, {"pass_fds": high}


def activation_is_told():
    """The ready line and /v1/info name the sockets that were passed."""
    with Place() as p, socket.socket(socket.AF_UNIX) as s, socket.socket() as tcp:
        path = p / "activated"
        s.bind(path)
        tcp.bind(("127.0.0.1", 0))
        for x in (s, tcp):
            x.listen(16)
        group = grp.getgrgid(os.getgid()).gr_name
        command, popen = launch(
            [s, tcp], p.argv("--token-file", p.tokens(TOKEN), "--socket-group", group))
        d = Program(command, **popen)
        p.programs.append(d)
        address = f"127.0.0.1:{tcp.getsockname()[1]}"
        expect(d.ready_line.decode(), f"ready socket={path} listen={address}\n")
        with Client.unix(path) as c:
            info = c.get("/v1/info").json()
        expect((info["socket"], info["listen"]), (path, address))
        require("socket_group has no effect" in d.stderr(), d.stderr())
        fails(p, p.argv(), f"berth --socket {path} down")
        d.stop()


def start_is_told():
    """One line in the log says who started and where; IPv6 addresses have their brackets."""
    with Place() as p:
        d = p.start("--listen", "[::1]:0", "--token-file", p.tokens(TOKEN))
        found = re.search(r" listen=(\[::1\]:\d+)\n", d.ready_line.decode())
        require(found, d.ready_line)
        with p.connect() as c:
            info = c.get("/v1/info").json()
        expect(info["listen"], found[1])
        line = (f" info started version={info['version']} pid={d.pid} socket={p.socket} "
                f"listen={found[1]} state_dir={p.state}\n")
        require(line in d.stderr(), d.stderr())
        d.stop()


def wrong_activation():
    """A count that is too high is one sentence, and no abort."""
    with Place() as p, socket.socket(socket.AF_UNIX) as s:
        s.bind(p / "activated")
        s.listen(16)
        for count, word in ((2, "LISTEN_FDS"), (7, "LISTEN_FDS"), (17, "up to 16")):
            command, popen = launch([s], p.argv(), count)
            text = fails(p, command, word, **popen)
            require("Traceback" not in text, text)
        with socket.socket() as plain:  # a socket, but nobody listens on it
            command, popen = launch([s, plain], p.argv())
            fails(p, command, "listening", **popen)


def socket_activation():
    with Place() as p, socket.socket(socket.AF_UNIX) as s:
        path = p / "activated"
        s.bind(path)
        s.listen(16)
        early = Client.unix(path)  # waits in the queue of systemd's socket
        early.send(head("GET /health HTTP/1.1"))
        command, popen = launch([s], p.argv())
        d = Program(command, **popen)
        p.programs.append(d)
        expect(early.read().status, 200, "a request from before the start")
        early.close()
        require(not os.path.lexists(p.socket), "it made a socket of its own beside the passed one")
        d.stop()
        require(os.path.exists(path), "a socket that is not its own was removed")


def notifies():
    with Place() as p, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        path = p / "notify"
        s.bind(path)
        os.chmod(path, 0o777)  # as systemd's is
        s.settimeout(TIMEOUT)
        d = p.start(env={**os.environ, "NOTIFY_SOCKET": path})
        require("READY=1" in s.recv(4096).decode().split("\n"), "no READY=1")
        d.process.terminate()
        require("STOPPING=1" in s.recv(4096).decode().split("\n"), "no STOPPING=1")
        expect(d.wait(), 0)


def notify_socket_missing():
    """A wrong NOTIFY_SOCKET does not keep it from serving."""
    with Place() as p:
        d = p.start(env={**os.environ, "NOTIFY_SOCKET": p / "missing"})
        expect(p.connect().get("/health").status, 200)
        d.stop()


def side_by_side():
    with Place() as a, Place() as b, Place() as c:
        daemons = [x.start() for x in (a, b, c)]
        for x in (a, b, c):
            expect(x.connect().get("/health").status, 200)
        daemons[1].stop()
        for x in (a, c):
            expect(x.connect().get("/health").status, 200)
        daemons[0].stop()
        daemons[2].stop()


def preview():
    with Place() as p:
        d = p.start("--preview", "127.0.0.1:0")
        port = port_of(d, "preview")
        with Client.tcp(port) as c:
            for target in ("/", "/health", "/v1/info", "/v1/openapi.json"):
                answer = c.get(target)
                expect(answer.status, 404, target)
                is_error(answer)
        d.stop()


def config_file():
    """What flags say outranks the file."""
    with Place() as p:
        path = p / "config.json"
        with open(path, "w") as f:
            f.write("{}")
        d = p.start("--config", path)
        expect(p.connect().get("/health").status, 200)
        d.signal(signal.SIGHUP)
        expect(p.connect().get("/health").status, 200, "after SIGHUP")
        with open(path, "w") as f:
            f.write("{nonsense")
        before = len(d.stderr())
        d.signal(signal.SIGHUP)
        until(lambda: len(d.stderr()) > before, "a line about the failed reload")
        expect(p.connect().get("/health").status, 200, "after a bad SIGHUP")
        d.stop()


def access_log():
    """Its file is berthd's own, made anew when it was moved away, and follows the settings."""
    with Place() as p:
        config, path = p / "config.json", os.path.join(p / "own", "access.log")

        def configure(**settings):
            with open(config, "w") as f:
                json.dump(settings, f)

        def reload(said):
            before = len(d.stderr())
            d.signal(signal.SIGHUP)
            until(lambda: said in d.stderr()[before:], said)

        configure(access_log=path)
        d = p.start("--config", config)
        made = os.stat(path)
        expect((made.st_mode & 0o777, made.st_uid, made.st_size), (0o640 & ~umask(), USER.pw_uid, 0), "the file")
        os.rename(path, path + ".1")
        reload("read again")
        require(os.stat(path).st_ino != made.st_ino, "it is not made anew")
        configure(access_log=p / "missing" + "/access.log")
        reload("cannot be opened")
        configure()
        reload("read again")
        os.remove(path)
        reload("read again")
        require(not os.path.exists(path), "it is opened though it is off")
        d.stop()
    with Place() as p:
        fails(p, p.argv("--access-log", p / "missing/file"), "access log", "missing/file")


def umask():
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def descriptors():
    """2,000 connections, good, bad and broken off, leave no descriptor behind."""
    with Place() as p:
        d = p.start()
        before = d.fds()
        for i in range(500):
            with p.connect() as c:
                expect(c.get("/health").status, 200)
            with p.connect() as c:
                c.send(b"GET /health HT")
            with p.connect() as c:
                c.send(b"nonsense\r\n\r\n")
                if i % 2:
                    c.read()
            p.connect().close()
        until(lambda: d.fds() == before, "descriptors to be closed")
        d.stop()


def few_descriptors():
    """A low limit of open files lowers the number of connections, and is said."""
    with Place() as p:
        for few in (8, 16, 47):
            fails(p, ["prlimit", f"--nofile={few}:{few}", *p.argv()], "RLIMIT_NOFILE", str(few),
                  "ulimit -n")
        d = Program(["prlimit", "--nofile=64:64", *p.argv()])
        p.programs.append(d)
        found = re.search(r"max_connections lowered from 8192 to (\d+): RLIMIT_NOFILE is 64",
                          d.stderr())
        require(found, d.stderr())
        limit = int(found[1])
        require(16 <= limit < 48, f"lowered to {limit}")
        clients = [p.connect() for _ in range(limit)]
        for c in clients:
            expect(c.get("/health").status, 200)
        expect(clients[0].get("/v1/info").json()["limits"]["connections"], limit)
        with p.connect() as extra:
            expect(extra.get("/health").status, 503)
        for c in clients:
            c.close()
        d.stop()


def descriptors_run_out():
    """Whatever takes the descriptors: that they run out is said once, not for each connection."""
    with Place() as p:
        d = p.start()
        limit = d.fds() + 20
        as_itself = ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}",
                     "--clear-groups"] if IS_ROOT else []
        subprocess.run([*as_itself, "prlimit", f"--pid={d.pid}", f"--nofile={limit}:{limit}"],
                       check=True)
        clients = [p.connect() for _ in range(60)]
        until(lambda: "RLIMIT_NOFILE" in d.stderr(), "a line about the limit")
        for c in clients:
            c.close()
        until(lambda: health(p) == 200, "an answer")
        expect(d.stderr().count("RLIMIT_NOFILE"), 1, "lines about the limit")
        d.stop()


def out_of_descriptors():
    """At the limit of descriptors it neither dies nor spins, and recovers."""
    with Place() as p:
        d = Program(["prlimit", "--nofile=64:64", *p.argv()])
        p.programs.append(d)
        clients = []
        for _ in range(100):
            clients.append(p.connect())
        cpu = cpu_ticks(d.pid)
        time.sleep(0.5)
        used = (cpu_ticks(d.pid) - cpu) / os.sysconf("SC_CLK_TCK")
        require(used < 0.25, f"it span: {used} s of CPU in half a second")
        for c in clients:
            c.close()
        until(lambda: health(p) == 200, "an answer")
        d.stop()


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def idle_costs_nothing():
    with Place() as p:
        d = p.start()
        kept = [p.connect() for _ in range(50)]
        for c in kept:
            c.get("/health")
        cpu = cpu_ticks(d.pid)
        time.sleep(1)
        require(cpu_ticks(d.pid) - cpu <= 1, "it works while nothing happens")
        for c in kept:
            c.close()
        d.stop()


CASES = [
    ("signals without a meaning", other_signals),
    ("the ready line's pipe is released", pipe_is_released),
    ("every descriptor is close-on-exec", all_cloexec),
    ("standard descriptors that are closed", closed_descriptors),
    ("[37] tokens on TCP", tokens_on_tcp),
    ("[37] SIGHUP rotates tokens", tokens_rotate),
    ("SIGHUP rereads the configuration", config_file),
    ("the access log is opened, moved away and closed", access_log),
    ("socket activation", socket_activation),
    ("passed sockets are named", activation_is_told),
    ("the log says what was started", start_is_told),
    ("socket activation that promises too much", wrong_activation),
    ("READY=1 and STOPPING=1", notifies),
    ("a NOTIFY_SOCKET that is not there", notify_socket_missing),
    ("several daemons side by side", side_by_side),
    ("the preview listener answers 404", preview),
    ("no descriptor leaks", descriptors),
    ("few descriptors", few_descriptors),
    ("descriptors that run out are said", descriptors_run_out),
    ("out of descriptors", out_of_descriptors),
    ("idle costs no CPU", idle_costs_nothing),
]


if __name__ == "__main__":
    run_cases(CASES)
