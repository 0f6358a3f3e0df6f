"""Each promise about terminals, by real sandboxes and real WebSockets."""

import concurrent.futures
import hashlib
import http.client
import json
import os
import threading
import time
import urllib.parse

from terminal_api import BINARY, TEXT, Failed, Tty, View, check, equal, frame, show, start, until, until_in_front, \
    view
from ground import IS_SANITIZED, fds_of, main, memory_of

BASE = "/v1/sandbox/a/terminals"


def test_life(g):
    """Started, viewed, typed into; its exit status is told, and kept."""
    status = start(g, "a", id="One", cols=100, rows=30)
    equal((status["id"], status["state"], status["command"][0]), ("one", "running", "bash"), status)
    with view(g, "a", "one") as v:
        v.until("$ ")
        equal(v.ask("stty size; echo $TERM; tty"), "30 100\r\nxterm-256color\r\n/dev/pts/0", "its size and name")
        equal(v.ask("printf '\u00e4\u20ac\U0001f600' | wc -c"), "9", "UTF-8")
        equal([p["id"] for p in g.get(BASE).json()], ["one"], "list")
        equal(g.get("/v1/sandbox/a/processes").json(), [], "and no process")
        v.type("exit 7\n")
        v.rest()
        equal((v.exit["code"], v.exit["reason"], v.closed[0]), (7, "exited", 1000), "its end")
        equal(int(v.exit["cursor"]), v.cursor, "its last cursor")
    until(lambda: show(g, "a", "one")["state"] == "exited", "its end")
    equal(show(g, "a", "one")["exit_code"], 7, "kept")
    with view(g, "a", "one") as v:
        check(b"exit 7" in v.rest() and v.exit["code"] == 7, "the screen and the end of one that has ended", v.out)


def test_job_control(g):
    """[28] Ctrl-C, Ctrl-Z and fg, by the keys and by the route."""
    start(g, "a", id="t")
    with view(g, "a", "t") as v:
        v.until("$ ")
        v.type("sleep 1000\n")
        v.until("sleep 1000\r\n")
        until_in_front(g, "a", "sleep")
        v.type("\x1a")
        v.until("Stopped")
        v.until("$ ")
        v.type("fg\n")
        v.until("sleep 1000\r\n")
        until_in_front(g, "a", "sleep")
        v.type("\x03")
        v.until("$ ")
        v.type("cat\n")
        v.until("cat\r\n")
        until_in_front(g, "a", "cat")
        equal(g.request("POST", f"{BASE}/t/interrupt").status, 204, "interrupt")
        v.until("^C")
        v.until("$ ")
        equal(v.ask("true"), "", "the shell goes on")
        equal(g.request("POST", f"{BASE}/t/terminate").json()["state"], "exited", "terminate")
        v.rest()
        check(v.exit, "its viewer is told")
    equal(g.request("POST", f"{BASE}/t/interrupt").status, 409, "interrupt after its end")


def test_resize(g):
    """[28] Resized by a message, and by whoever comes to view."""
    start(g, "a", id="t")
    with view(g, "a", "t") as v:
        v.until("$ ")
        v.ask("trap 'echo resized' WINCH")
        v.resize(132, 43)
        until(lambda: "43 132" in v.ask("stty size"), "the new size")
        with view(g, "a", "t", "?cols=20&rows=10"):
            until(lambda: "10 20" in v.ask("stty size"), "the size of another viewer")
        until(lambda: "43 132" in v.ask("stty size"), "who stays has its own again")
        v.sock.sendall(frame(TEXT, b'{"type":"resize","cols":0,"rows":1}'))
        v.rest()
        equal(v.closed[0], 1008, v.closed)
    equal(show(g, "a", "t")["state"], "running", "nothing happens to the terminal")


def test_viewers(g):
    """Several see the same and type; each comes back where it was, with no gap and no repeat."""
    start(g, "a", id="t")
    with view(g, "a", "t") as one, view(g, "a", "t") as two:
        one.until("$ ")
        two.until("$ ")
        two.type("echo from two\n")
        one.until("\r\nfrom two\r\n")
        one.until("$ ")
        two.until("\r\nfrom two\r\n")
        two.until("$ ")
        cursor = one.cursor - len(one.out)
    with view(g, "a", "t", f"?cursor={cursor}") as three:
        equal((int(three.ready["cursor"]), three.ask("echo next")), (cursor, "next"), "goes on there")
    with view(g, "a", "t") as four:
        check(b"from two" in four.until("next\r\n"), "the recent screen")
    with view(g, "a", "t", f"?cursor={10**18}") as five:
        five.type("exit\n")
        check(b"from two" not in five.rest(), "a cursor ahead of all")
        equal(five.exit["code"], 0, five.exit)


def test_flood(g):
    """[28] All that is printed comes, however slowly it is read, and nothing grows meanwhile."""
    count = 400000
    start(g, "a", ["sh", "-c", f"stty -opost -echo; echo go; read x; seq {count}; exit 5"], id="t")
    with view(g, "a", "t") as slow, view(g, "a", "t") as fast:
        before = memory_of(g.berthd.pid)
        fast.until("go\n")
        fast.type("\n")
        slow.until("go\n1\n2\n")
        # The one that does not read holds up all: the terminal stands still.
        size = until(lambda: still(g), "a terminal that waits")
        check(size < 2500000, "it went on without its viewer:", size)
        check(IS_SANITIZED or memory_of(g.berthd.pid) - before < 4 << 20, "memory grows", before)
        expected = b"".join(b"%d\n" % i for i in range(1, count + 1))
        got = [slow, fast]
        text = {}
        for v in got:
            v.sock.setblocking(True)
            threads = [threading.Thread(target=lambda v=v: text.update({v: v.rest()})) for v in got]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(text[fast] == expected, "every byte:", len(text[fast]), len(expected))
        check(text[slow] == expected[4:], "every byte:", len(text[slow]), len(expected))
        equal((slow.exit["code"], fast.exit["code"]), (5, 5), "its end")


def still(g):
    """How much it printed, if that stays so."""
    size = int(show(g, "a", "t")["log"]["end"])
    time.sleep(0.5)
    return size if size and size == int(show(g, "a", "t")["log"]["end"]) else None


def test_without_viewers(g):
    """Nobody looks: it runs on, what is kept of it is bounded, and what is gone is said."""
    start(g, "a", ["sh", "-c", "stty -opost; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo done; sleep 1000"], id="t")
    until(lambda: int(show(g, "a", "t")["log"]["end"]) == 3000006, "all of its output")
    log = show(g, "a", "t")["log"]
    check(500000 <= int(log["end"]) - int(log["start"]) <= 1100000, log)
    with view(g, "a", "t") as v:
        equal(len(v.until("done\n")), 65536, "the recent screen")
    with view(g, "a", "t", "?cursor=0") as v:
        told = v.text()
        equal((told["type"], told["bytes"], told["cursor"]), ("truncated", int(log["start"]), log["start"]), told)
        equal(len(v.until("done\n")), 3000006 - int(log["start"]), "what is kept")


def configure(g, **settings):
    """A berthd with these."""
    path = g.path("config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(settings, file)
    os.chmod(path, 0o644)
    g.start("--config", path)


def test_stall(g):
    """A viewer that does not read is closed, and told why; the others go on, and miss nothing."""
    configure(g, viewer_timeout="1s")
    count = 400000
    expected = b"".join(b"%d\n" % i for i in range(1, count + 1))
    start(g, "a", ["sh", "-c", f"stty -opost -echo; echo go; read x; seq {count}; exit 5"], id="t")
    with view(g, "a", "t") as stalled, view(g, "a", "t") as one:
        stalled.until("go\n")
        one.until("go\n")
        before = memory_of(g.berthd.pid)
        one.type("\n")
        check(one.rest() == expected, "every byte:", len(one.out), len(expected))
        equal(one.exit["code"], 5, one.exit)
        check(IS_SANITIZED or memory_of(g.berthd.pid) - before < 4 << 20, "memory grows", before)
        got = stalled.rest()
        check(0 < len(got) < len(expected) and expected.startswith(got), "what it was sent before:", len(got))
        equal((stalled.exit, stalled.closed[0]), (None, 1008), "it is not told an end that it has not seen")
        check("did not read" in stalled.closed[1], stalled.closed)
    with view(g, "a", "t", f"?cursor={stalled.cursor}") as again:
        again.rest()
        equal((again.exit["code"], int(again.exit["cursor"])), (5, 3 + len(expected)), "it may come back")


def test_many_viewers(g):
    """As many as there may be see the same; one more is refused until another has left."""
    start(g, "a", id="t")
    before = fds_of(g.berthd.pid)
    viewers = [view(g, "a", "t") for _ in range(32)]
    try:
        try:
            view(g, "a", "t").close()
            raise AssertionError("one too many")
        except Failed as error:
            check("capacity_exceeded" in str(error), error)
        for v in viewers:
            v.until("$ ")
        viewers[0].type("echo a''b; kill -9 $$\n")
        for v in viewers[1:]:
            v.until("\r\nab\r\n")
        for v in viewers[1:]:
            v.rest()
            equal((v.exit["code"], v.exit["signal"]), (137, 9), v.exit)
        viewers[0].rest()
    finally:
        for v in viewers:
            v.close()
    start(g, "a", id="u")
    viewers = [view(g, "a", "u") for _ in range(32)]
    viewers.pop().close()

    def comes():
        try:
            viewers.append(view(g, "a", "u"))
        except Failed:
            return False
        return True
    until(comes, "a place that became free")
    for v in viewers:
        v.close()
    equal(g.request("POST", f"{BASE}/u/terminate").status, 200, "terminate")
    until(lambda: fds_of(g.berthd.pid) <= before, "the last file of those viewers")


def test_leaving(g):
    """The terminal, its sandbox or berthd ends under its viewers: they are told, and nothing breaks."""
    start(g, "a", id="t")
    with view(g, "a", "t") as v, view(g, "a", "t") as w:
        v.until("$ ")
        w.close()
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
        v.rest()
        equal((v.exit["code"], v.exit["reason"]), (129, "killed"), v.exit)
    start(g, "a", ["sh", "-c", "stty -opost; yes"], id="t")
    with view(g, "a", "t") as v, view(g, "a", "t") as w:
        v.until("y\n" * 1000)
        equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
        for viewer in (v, w):
            viewer.rest()
            check(viewer.closed[0] in (1000, 1001), viewer.closed)
    start(g, "a", ["sh", "-c", "stty -opost; yes"], id="t")
    with view(g, "a", "t") as v, view(g, "a", "t") as w:
        v.until("y\n" * 1000)
        g.berthd.terminate()
        try:
            v.rest()
        except EOFError:
            pass
        equal(g.berthd.wait(60), 0, "berthd's exit code")
    g.start()
    until(lambda: g.sandbox("a")["state"] == "running", "adopted")
    with view(g, "a", "t") as v:
        v.until("y\n" * 1000)
        equal(g.request("POST", f"{BASE}/t/terminate").json()["state"], "exited", "terminate")


def test_tokens(g):
    """On TCP a token is needed, in a header or, for browsers, in the query; and it is not logged."""
    token = "a-token-for-terminals-that-is-long-enough-0123456789"
    port = g.start_listening(token)
    start(g, "a", id="t")

    def by_tcp(target, *headers):
        return View(g, target, *headers, connection=http.client.HTTPConnection("127.0.0.1", port, timeout=60))
    escaped = urllib.parse.quote(f"Bearer {token}")
    connect = f"{BASE}/t/connect"
    for target, headers in ((connect, [f"Authorization: Bearer {token}"]), (f"{connect}?authorization={escaped}", []),
                            (f"/v1/sandbox/a/pty?session=t&authorization={escaped}&cols=90&rows=20", [])):
        with by_tcp(target, *headers) as v:
            v.until("$ ")
            equal(v.ask("echo $((40 + 2))"), "42", target)
    for target, headers in ((connect, []), (f"{connect}?authorization=Bearer%20x{token}", []),
                            (f"{connect}?authorization={escaped}&authorization={escaped}", []),
                            (f"{connect}?authorization={token}", []),
                            (f"{connect}?authorization={escaped}", ["Authorization: Bearer nonsense"])):
        try:
            by_tcp(target, *headers).close()
            raise AssertionError(target)
        except Failed as error:
            check(" 401 " in str(error), error)
    plain = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    plain.request("GET", f"{BASE}/t?authorization={escaped}")
    equal(plain.getresponse().status, 401, "a query that is no WebSocket's")
    plain.close()
    berth = [os.path.join(g.build, "berth"), "--url", f"http://127.0.0.1:{port}"]
    with Tty([*berth, "shell", "a", "--", "sh", "-c", "echo size $(stty size); exit 3"], {"BERTH_TOKEN": token}) as tty:
        equal(tty.end(), 3, tty.out)
        check(b"size 24 80" in tty.out, tty.out)
        tty.check_given_back()
    with Tty([*berth, "attach", "a", "t"], {"BERTH_TOKEN": token + "x"}) as tty:
        equal(tty.end(), 125, tty.out)
        check(b"token" in tty.out, tty.out)
    check(token not in g.log_text(), "a token in the log")


def test_pty(g):
    """The bridge's way: a terminal for one client, or one with a name."""
    with View(g, "/v1/sandbox/a/pty?cols=90&rows=20") as v:
        v.type("PS1='$ '; stty size\n")
        v.until("20 90\r\n")
        equal(len(g.get(BASE).json()), 1, "a terminal")
        check(v.ready["type"] == "ready", v.ready)
        v.sock.sendall(frame(TEXT, b"nonsense"))
        v.rest()
        told = v.texts[-1]
        check(told["type"] == "error" and "resize" in told["message"] and v.closed[0] == 1008, told, v.closed)
    until(lambda: g.get(BASE).json()[0]["state"] != "running", "its end, when its client is gone")
    with View(g, "/v1/sandbox/a/pty") as v:
        g.kill_berthd()
        g.start()
    until(lambda: all(t["state"] != "running" for t in g.get(BASE).json()), "its end, when berthd is gone, too")
    with View(g, "/v1/sandbox/a/pty?session=mine&shell=/bin/sh") as v:
        v.type("PS1='$ '; X=kept; echo re''ady\n")
        v.until("ready\r\n")
    with View(g, "/v1/sandbox/a/pty?session=mine&shell=/bin/sh") as v:
        v.until("ready\r\n")
        v.until("$ ")
        equal(v.ask("echo $X"), "kept", "the same shell, and its screen")
        v.type("exit 3\n")
        v.rest()
        equal(v.exit["code"], 3, v.exit)
    with View(g, "/v1/sandbox/a/pty?session=mine&shell=/bin/sh") as v:
        v.type("PS1='$ '; echo x$X; exit\n")
        check(b"x\r\n" in v.rest() and b"kept" not in v.out, "a new one after its end", v.out)


def test_pty_waits(g):
    """A name whose shell has exited, but not what it left: it is waited for, whatever happens meanwhile."""
    target = "/v1/sandbox/a/pty?session=mine&shell=/bin/sh"

    def leave_something():
        with View(g, target) as v:
            v.type("sleep 1000 </dev/null >/dev/null 2>&1 & exit 4\n")
            v.rest()
            equal(v.exit["code"], 4, v.exit)
        equal(show(g, "a", "mine")["state"], "exited", "though something is left")

    def connect(_):
        with View(g, target) as v:
            v.type("PS1='$ '; echo re''ady $PPID\n")
            return v.until("ready").endswith(b"ready")
    leave_something()
    try:
        View(g, target).close()
        raise AssertionError("the name is not free")
    except Failed as error:
        check("conflict" in str(error) and "terminate" in str(error), error)
    # It ends while they wait: by its end, by that of its sandbox.
    for way in (lambda: g.request("POST", f"{BASE}/mine/terminate"),
                lambda: g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(connect, i) for i in range(3)]
            time.sleep(0.3)  # some wait by then; who comes later finds what is there
            equal(way().status, 200, "the end")
            for future in waiting:
                check(future.result(60), "it came to a shell")
        equal(g.request("POST", f"{BASE}/mine/terminate").status, 200, "terminate")
        leave_something()
    # And who waits goes away.
    connection = g.connect()
    connection.connect()
    connection.sock.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    connection.sock.close()
    connection.close()
    equal(g.request("POST", f"{BASE}/mine/terminate").status, 200, "terminate")


def test_refused(g):
    """What makes no sense, or is not there, is said so."""
    g.out("a", ["true"])
    for body in ({"argv": []}, {"cols": 70000}, {"nonsense": 1}, {"timeout": 3}, {"id": "-"}):
        reply = g.request("POST", BASE, body)
        equal((reply.status, reply.json()["code"]), (400, "invalid_request"), (body, reply))
    equal(g.request("POST", BASE, {"argv": ["/no/such"]}).json()["code"], "exec_error", "no program")
    equal(g.get(BASE).json(), [], "nothing of those is kept")
    equal(g.get(f"{BASE}/none").status, 404, "no terminal")
    start(g, "a", id="t")
    equal(g.get(f"{BASE}/t/connect").status, 426, "no WebSocket")
    equal(g.get("/v1/sandbox/a/pty").status, 426, "no WebSocket")
    equal(g.get("/v1/sandbox/a/processes/t").status, 404, "it is no process")
    equal(g.request("POST", BASE, {"id": "t"}).json()["code"], "conflict", "its name is taken")
    for query in ("?cols=0", "?rows=70000", "?cursor=x", "?cols=1&cols=2"):
        try:
            view(g, "a", "t", query).close()
            raise AssertionError(query)
        except Failed as error:
            check("invalid_request" in str(error), error)
    equal(g.request("POST", f"{BASE}/t/terminate").status, 200, "terminate")


def test_tiocsti(g):
    """[28] Nothing inside can type into its own terminal."""
    # The kernel looks at 32 bits of what a system call has 64 of.
    start(g, "a", ["python3", "-c", "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                   "ioctl = {'x86_64': 16}.get(__import__('os').uname().machine, 29)\n"
                   "for request in (0x5412, 0x100005412, 0xffffffff00005412):\n"
                   " r = libc.syscall(ioctl, 0, ctypes.c_ulong(request), b'x'); print(r, ctypes.get_errno())"], id="t")
    with view(g, "a", "t") as v:
        equal(v.rest(), b"-1 1\r\n" * 3, "EPERM")


def test_survivors(g):
    """The shell's end is told at once; what it left runs on until the terminal is ended."""
    start(g, "a", id="t")
    with view(g, "a", "t") as v:
        v.until("$ ")
        v.type("sleep 1000 </dev/null >/dev/null 2>&1 & disown; exit 4\n")
        v.rest()
        equal(v.exit["code"], 4, v.exit)
    said = show(g, "a", "t")
    equal((said["state"], said["exit_code"]), ("exited", 4), "though something is left")
    refused = g.request("POST", BASE, {"id": "t"})
    equal(refused.status, 409, refused)
    check("has exited, but something" in refused.json()["error"], refused)
    g.kill_berthd()
    g.start()
    equal({**show(g, "a", "t"), "log": 0}, {**said, "log": 0}, "a new berthd says the same")
    g.out("a", ["pgrep", "-x", "sleep"])
    end = g.request("POST", f"{BASE}/t/terminate").json()
    equal({**end, "log": 0}, {**said, "log": 0}, "and stays the same")
    check("sleep" not in g.out("a", "cat /proc/[0-9]*/comm 2>/dev/null; true"), "nothing is left")


def test_berthd_dies(g):
    """kill -9 of berthd: the shell, its screen and its viewers' places outlive it."""
    start(g, "a", id="t")
    with view(g, "a", "t") as v:
        v.until("$ ")
        equal(v.ask("X=kept; echo before"), "before", "before")
        cursor = v.cursor
    g.kill_berthd()
    g.start()
    until(lambda: g.sandbox("a")["state"] == "running", "adopted")
    with view(g, "a", "t", f"?cursor={cursor}") as v:
        equal(v.ask("echo $X"), "kept", "the same shell")
        v.resize(77, 11)  # goes by init, and what is typed by a pipe: either may be there first
        until(lambda: v.ask("stty size") == "11 77", "the new size")
    with view(g, "a", "t") as v:
        check(b"before" in v.until("11 77"), "the recent screen")
        v.type("exit 9\n")
        v.rest()
        equal(v.exit["code"], 9, v.exit)


def test_berthd_dies_in_a_flood(g):
    """kill -9 of berthd in the middle of output: nothing is missing, and nothing comes twice."""
    count = 80000
    sized = "until stty size | grep -v '24 80'; do sleep 0.01; done"
    start(g, "a", ["sh", "-c", f"stty -opost -echo; echo go; read x; seq {count}; read x; {sized}; exit 5"], id="t")
    with view(g, "a", "t") as v:
        v.until("go\n")
        v.type("\n")
        v.until("\n100\n")
        seen = v.cursor - len(v.out)
    g.kill_berthd()
    g.start()
    with view(g, "a", "t", f"?cursor={seen}&cols=77&rows=11") as v:  # it need not be adopted yet
        got = v.until(f"\n{count}\n")
        check(got == b"".join(b"%d\n" % i for i in range(101, count + 1)), "no gap and no repeat:", len(got))
        v.type("\n")
        equal(v.rest(), b"11 77\n", "the size of who came")
        equal(v.exit["code"], 5, v.exit)


def test_many_keys(g):
    """What is typed faster than it is read waits, and nothing of it is lost."""
    start(g, "a", ["sh", "-c", "stty raw -echo; echo go; sleep 1; head -c 1000000 | sha256sum"], id="t")
    data = bytes(range(256)) * 3907
    data = data[:1000000]
    with view(g, "a", "t") as v:
        v.until("go")
        for at in range(0, len(data), 50000):
            v.sock.sendall(frame(BINARY, data[at:at + 50000]))
        check(hashlib.sha256(data).hexdigest().encode() in v.rest(), "all of it", v.out)


if __name__ == "__main__":
    main([test_life, test_job_control, test_resize, test_viewers, test_many_viewers, test_flood, test_stall,
          test_without_viewers, test_leaving, test_tokens, test_pty, test_pty_waits, test_refused, test_tiocsti,
          test_survivors, test_berthd_dies, test_berthd_dies_in_a_flood, test_many_keys],
         start=lambda test: test not in (test_stall, test_tokens))
