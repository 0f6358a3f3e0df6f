#!/usr/bin/env python3
"""berthd as a program: how it starts, and how it refuses to.

    startup.py BERTHD
"""

import grp
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import threading

from place import BERTHD, IS_ROOT, TOKEN, USER, Place, fails, run_cases
from tap import TIMEOUT, Client, expect, head, is_error, require, until


def refuses(place, flags, *words):
    fails(place, place.argv(*flags), *words)
    require(not os.path.lexists(place.socket), "a socket was left behind")
    program = place.start()  # and nothing is in the way of a good start
    program.stop()


def starts_and_ends():
    with Place() as p:
        d = p.start()
        with p.connect() as c:
            answer = c.get("/health")
            expect((answer.status, answer.json()), (200, {"ok": True}))
            expect(c.get("/v1/info").status, 200)
        mode = os.stat(p.socket).st_mode
        require(stat.S_ISSOCK(mode), "not a socket")
        expect(stat.S_IMODE(mode), 0o600, "mode of the socket")
        for path, mode, uid in [(p.state, 0o711, os.geteuid()), (p.run, 0o711, os.geteuid()),
                                (f"{p.state}/berthd", 0o700, USER.pw_uid),
                                (f"{p.run}/berthd", 0o711, USER.pw_uid)]:
            status = os.stat(path)
            expect((stat.S_IMODE(status.st_mode), status.st_uid), (mode, uid), path)
        d.stop()
        require(not os.path.lexists(p.socket), "the socket was left behind")
        d = p.start()  # the directories are there now
        d.signal(signal.SIGINT)
        expect(d.wait(), 0, "exit code after SIGINT")


def one_ready_line():
    with Place() as p:
        d = p.start()
        d.process.terminate()
        rest = d.process.stdout.read()
        expect(rest, b"", "more on stdout")
        expect(d.wait(), 0)


def errors_of_routes():
    with Place() as p:
        d = p.start()
        with p.connect() as c:
            for line, status in (("GET /nope HTTP/1.1", 404), ("DELETE /health HTTP/1.1", 405)):
                c.send(head(line))
                answer = c.read()
                expect(answer.status, status)
                is_error(answer)
            c.send_if_taken(head("GET /health HTTP/1.1", "Content-Length: 5") + b"hello")
            answer = c.read()
            expect(answer.status, 413)
            is_error(answer)
        with p.connect() as c:
            for body, status in (("", 404), ("{}", 404), (" {} ", 404), ('{"a":1}', 400), ("no", 400), ("{} " * 30, 413)):
                c.send(head("POST /v1/sandbox/none/terminals/none/interrupt HTTP/1.1", f"Content-Length: {len(body)}") + body.encode())
                answer = c.read()
                expect(answer.status, status, body)
                is_error(answer)
        with p.connect() as c:
            c.send_if_taken(head("GET /health HTTP/1.1", "A: " + "b" * 40000))
            expect(c.read().status, 431)
        with p.connect() as c:
            for path in ("/echo", "/slow", "/stats", "/ok"):
                expect(c.get(path).status, 404, "a test route in the real daemon")
        d.stop()


def serves_contract():
    with Place() as p:
        d = p.start()
        with p.connect() as c:
            answer = c.get("/v1/openapi.json")
            expect(answer.status, 200)
            require("/health" in answer.json()["paths"], "no /health in the contract")
            page = c.get("/v1/openapi.html")
            expect(page.status, 200)
            require((page.header("Content-Type") or "").startswith("text/html"), str(page))
        d.stop()


def socket_in_use():
    with Place() as p, Place() as other:
        d = p.start()
        other.socket = p.socket
        fails(other, other.argv(), p.socket)
        expect(p.connect().get("/health").status, 200, "the first one")
        d.stop()


def stale_socket():
    with Place() as p:
        d = p.start()
        d.kill()
        require(os.path.exists(p.socket), "no stale socket to try this with")
        d = p.start()
        expect(p.connect().get("/health").status, 200)
        d.stop()


def not_a_socket():
    with Place() as p:
        with open(p.socket, "w") as f:
            f.write("precious")
        fails(p, p.argv(), p.socket)
        with open(p.socket) as f:
            expect(f.read(), "precious", "the file in the way")


def state_locked():
    with Place() as p:
        d = p.start()
        first = p.socket
        p.socket = first + "2"
        fails(p, p.argv(), p.state)
        require(not os.path.lexists(p.socket), "a socket was left behind")
        p.socket = first
        expect(p.connect().get("/health").status, 200, "the first one")
        d.stop()


def no_permission():
    """An ordinary user in front of directories that are not theirs."""
    with Place() as p:
        os.chmod(p.path, 0o755)
        binary = p / "berthd"  # the build tree may be closed to others
        shutil.copy(BERTHD, binary)
        closed = p / "closed"
        os.mkdir(closed, 0o700)
        drop = []
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            drop = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}",
                    "--clear-groups"]
            mine = p / "mine"
            os.mkdir(mine)
            os.chown(mine, nobody.pw_uid, nobody.pw_gid)
        else:
            mine = p / "mine"
            os.mkdir(mine)
            os.chmod(closed, 0)
        for at in ("socket", "state-dir", "run-dir"):
            flags = {"socket": f"{mine}/s", "state-dir": f"{mine}/state", "run-dir": f"{mine}/run"}
            flags[at] = f"{closed}/x/y"
            argv = [x for k, v in flags.items() for x in (f"--{k}", v)]
            fails(p, [*drop, binary, *argv], "permission", cwd=p.path)
            require(not os.path.lexists(f"{mine}/s"), "a socket was left behind")
        os.chmod(closed, 0o700)


def bad_flags():
    with Place() as p:
        for flags, word in (
            (["--nonsense"], "nonsense"),
            (["--listen"], "listen"),
            (["stray"], "stray"),
            (["--listen", "nonsense", "--token-file", p.tokens(TOKEN)], "--listen"),
            (["--listen", "127.0.0.1:99999", "--token-file", p.tokens(TOKEN)], "--listen"),
            (["--listen", "127.0.0.1:-1", "--token-file", p.tokens(TOKEN)], "--listen"),
            (["--listen", "127.0.0.1:", "--token-file", p.tokens(TOKEN)], "--listen"),
            (["--preview", "nonsense"], "--preview"),
            (["--socket-group", "no-such-group"], "group"),
            (["--log-level", "loud"], "--log-level"),
        ):
            refuses(p, flags, word)


def long_socket_path():
    with Place() as p:
        p.socket = p / ("x" * 200)
        fails(p, p.argv(), "xxx")


def bad_config():
    with Place() as p:
        path = p / "config.json"
        for text, word in (
            ('{"nonsense": 1}', "nonsense"),
            ('{"listen": 5}', "listen"),
            ('{"listen": "127.0.0.1:0", "listen": "127.0.0.1:0"}', "listen"),
            ("{", path),
            ("", path),
            ("[" * 100000, path),
            ("\xff\xfe", path),
        ):
            with open(path, "w", encoding="latin-1") as f:
                f.write(text)
            refuses(p, ["--config", path], word)
        refuses(p, ["--config", p / "missing"], p / "missing")
        refuses(p, ["--config", p.path], p.path)


def token_files():
    with Place() as p:
        listen = ["--listen", "127.0.0.1:0"]
        refuses(p, listen, "token")
        refuses(p, [*listen, "--token-file", p / "missing"], p / "missing")
        refuses(p, [*listen, "--token-file", p.tokens()], "token")
        refuses(p, [*listen, "--token-file", p.tokens("", "  ", "")], "token")
        refuses(p, [*listen, "--token-file", p.tokens(TOKEN, mode=0o604)], p / "tokens")
        refuses(p, [*listen, "--token-file", p.tokens(TOKEN, mode=0o644)], p / "tokens")
        refuses(p, [*listen, "--token-file", p.path], p.path)


def port_in_use():
    with Place() as p, socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        refuses(p, ["--listen", f"127.0.0.1:{port}", "--token-file", p.tokens(TOKEN)], str(port))
        refuses(p, ["--preview", f"127.0.0.1:{port}"], str(port))


def socket_group():
    """With a group the socket is 0660 and belongs to it."""
    with Place() as p:
        d = p.start("--socket-group", grp.getgrgid(os.getgid()).gr_name)
        status = os.stat(p.socket)
        expect((stat.S_IMODE(status.st_mode), status.st_gid), (0o660, os.getgid()))
        d.stop()


def foreign_group():
    """A group that the user is not in is named, with what to do; no socket stays."""
    with Place() as p:
        os.chmod(p.path, 0o755)
        binary, mine, drop = p / "berthd", p / "mine", []
        shutil.copy(BERTHD, binary)
        os.mkdir(mine)
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            drop = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}",
                    "--clear-groups"]
            os.chown(mine, nobody.pw_uid, nobody.pw_gid)
        fails(p, [*drop, binary, "--socket", f"{mine}/s", "--state-dir", f"{mine}/state",
                  "--run-dir", f"{mine}/run", "--socket-group", grp.getgrgid(0).gr_name],
              f'group "{grp.getgrgid(0).gr_name}"', "usermod", cwd=p.path)
        require(not os.path.lexists(f"{mine}/s"), "a socket was left behind")


def fails_late():
    """With the keeper started already: that one ends too, which leaving the place checks."""
    with Place() as p:
        os.makedirs(f"{p.state}/berthd")
        os.chmod(p.state, 0o711)
        with open(f"{p.state}/berthd/state.db", "w") as f:
            f.write("no database " * 1000)
        os.chmod(f"{p.state}/berthd", 0o700)
        p.give(f"{p.state}/berthd/state.db")
        fails(p, p.argv(), "state.db")
        require(not os.path.lexists(p.socket), "a socket was left behind")


def slow_start():
    """The keeper waits 300 ms for a berthd; this one takes longer, because its database is locked."""
    with Place() as p:
        os.makedirs(f"{p.state}/berthd")
        os.chmod(p.state, 0o711)
        os.chmod(f"{p.state}/berthd", 0o700)
        other = sqlite3.connect(f"{p.state}/berthd/state.db", isolation_level=None,
                                check_same_thread=False)
        other.execute("BEGIN EXCLUSIVE")
        p.give(f"{p.state}/berthd")
        p.give(f"{p.state}/berthd/state.db")
        release = threading.Timer(1, other.close)
        release.start()
        try:
            d = p.start()
            require(release.finished.is_set(), "it did not wait for its database")
            d.stop()
        finally:
            release.join()


def no_user_to_choose():
    """Nobody but root can choose whom the daemon becomes."""
    with Place() as p:
        os.chmod(p.path, 0o755)
        binary, mine, drop = p / "berthd", p / "mine", []
        shutil.copy(BERTHD, binary)
        os.mkdir(mine)
        if IS_ROOT:
            drop = ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"]
            p.give(mine)
        fails(p, [*drop, binary, "--socket", f"{mine}/s", "--state-dir", f"{mine}/state",
                  "--run-dir", f"{mine}/run", "--user", USER.pw_name], "--user", cwd=p.path)


def other_user():
    """Root's daemon has given up everything."""
    with Place() as p:
        fails(p, p.argv("--user", "no-such-user"), "no-such-user", "scripts/setup")
        fails(p, p.argv("--user", "root"), "root")
        d = p.start()
        with open(f"/proc/{d.pid}/status") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        expect(set(status["Uid"].split()), {str(USER.pw_uid)}, "user ids")
        expect(set(status["Gid"].split()), {str(USER.pw_gid)}, "group ids")
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            expect(int(status[name], 16), 0, name)
        expect(status["NoNewPrivs"], "1", "NoNewPrivs")
        d.stop()


def reach_is_told():
    """What only root can read or remove is named at the start; what is one's own is not."""
    with Place() as p:
        tokens = p.tokens(TOKEN)
        d, _ = p.listen("--token-file", tokens)
        require("SIGHUP" not in d.stderr() and "left behind" not in d.stderr(), d.stderr())
        d.stop()


def root_reach_is_told():
    """Root's daemon is another user afterwards."""
    with Place() as p:
        tokens = p.tokens(TOKEN)
        os.chown(tokens, 0, 0)
        p.socket = p / "s"
        d, port = p.listen("--token-file", tokens)
        told = [line for line in d.stderr().splitlines() if " warn " in line]
        expect(len(told), 2, "warnings")
        require("SIGHUP" in told[0] and tokens in told[0], told[0])
        require("left behind" in told[1] and p.socket in told[1], told[1])
        d.signal(signal.SIGHUP)
        until(lambda: "reload failed" in d.stderr(), "a line about the failed reload")
        with Client.tcp(port) as c:
            expect(c.get("/v1/info", f"Authorization: Bearer {TOKEN}").status, 200, "the token")
        d.stop()


def version_and_help():
    for flag in ("--version", "--help", "-h"):
        done = subprocess.run([BERTHD, flag], capture_output=True, timeout=TIMEOUT)
        expect((done.returncode, done.stderr), (0, b""), flag)
        require(b"berthd" in done.stdout, flag)


CASES = [
    ("it starts, serves and ends", starts_and_ends),
    ("one ready line", one_ready_line),
    ("--version and --help", version_and_help),
    ("404, 405, 413, 431; no test routes", errors_of_routes),
    ("the contract is served", serves_contract),
    ("a socket in use by a live daemon", socket_in_use),
    ("a stale socket is replaced", stale_socket),
    ("a file in the socket's place", not_a_socket),
    ("a socket path that is too long", long_socket_path),
    ("a locked state directory", state_locked),
    ("no permission", no_permission),
    ("bad flags", bad_flags),
    ("bad configuration", bad_config),
    ("[37] bad token files", token_files),
    ("a port in use", port_in_use),
    ("a start that fails late", fails_late),
    ("a start that takes its time", slow_start),
    ("only root can choose whom it becomes", no_user_to_choose),
    ("what it will reach is not said", reach_is_told),
    ("[37] the socket's group", socket_group),
    ("a group that the user is not in", foreign_group),
]
ROOT_CASES = [
    ("whom root's daemon becomes", other_user),
    ("what root's daemon will not reach is said", root_reach_is_told),
]


if __name__ == "__main__":
    run_cases(CASES, ROOT_CASES)
