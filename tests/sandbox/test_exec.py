"""The exec contract, line by line, in a real sandbox."""

import base64
import hashlib
import os
import signal
import time

import ground
from ground import IS_SANITIZED, check, equal, main, memory_of, Peak, tap, until

MB = 1 << 20
# Away from its parent and session, deaf, and always somebody else: only its tree can be ended.
ESCAPE = """
import os, pathlib, signal, sys, time
for n in range(1, 32):
    try: signal.signal(n, signal.SIG_IGN)
    except OSError: pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path("/workspace/escaped").touch()
        for _ in range(100000):
            if os.fork() != 0: os._exit(0)
            time.sleep(0.005)
        os._exit(0)
    os._exit(0)
signal.pause()
"""
# After the first fork it needs no other: a shell that ended early would leave its bomb running, on purpose.
BOMB = "f() { f | f & }; f & exec sleep 300"


def ended(result, reason, code):
    equal((result.reason, result.code), (reason, code), result)


def test_codes(g):
    """Exit codes are those of the program, signals are 128 + n, in both forms of the answer."""
    for run in (g.exec, g.run_events):
        for code in (0, 1, 3, 42, 124, 126, 127, 137, 254, 255):
            ended(run("a", f"exit {code}"), "exited", code)
        for name in ("TERM", "KILL", "SEGV", "USR1", "PIPE"):
            number = getattr(signal, "SIG" + name)
            result = run("a", ["sh", "-c", f"kill -{name} $$"])
            ended(result, "signaled", 128 + number)
            equal(result.facts["signal"], number, "signal")
    facts = g.exec("a", ["python3", "-c", "x = bytearray(30 << 20)\nfor _ in range(3000000): pass"]).facts
    check(facts["cpu_ms"] >= 10 and facts["max_rss_bytes"] > 30 * MB, facts)
    check(facts["duration_ms"] >= 10, facts)


def test_not_started(g):
    """A program that is missing is 127, one that cannot be run 126, with the reason in words."""
    g.out("a", "echo data >/workspace/plain; mkdir /workspace/dir; echo '#!/nowhere' >bad; chmod 755 bad")
    for run in (g.exec, g.run_events):
        for argv, code, word in ((["/nowhere"], 127, "No such file"), (["nowhere-in-path"], 127, "No such"),
                                 (["/workspace/plain"], 126, "denied"), (["/workspace/dir"], 126, "denied"),
                                 (["/workspace/bad"], 127, "No such file")):
            result = run("a", argv)
            ended(result, "not_started", code)
            check(word in result.facts["message"], argv, result)
    result = g.exec("a", ["true"], cwd="/workspace/nowhere")
    ended(result, "not_started", 126)
    check("directory" in result.facts["message"], result)
    ended(g.exec("a", "nowhere-in-path"), "exited", 127)


def processes_inside(g, name="a"):
    """How many there are beside init and those that look."""
    text = g.out(name, ["python3", "-c", "import os\nprint(sum(n.isdigit() for n in os.listdir('/proc')))"])
    return int(text) - (2 if g.has_cgroups else 3)


def only_init_lives(g):
    """At once: nothing of a command. And soon: none of the supervisors that a rootless init has."""
    def names():
        return [ground.comm_of(p) for p in g.processes() if g.is_sandboxed(p) and ground.is_alive(p)]
    equal(set(names()) - {"init"}, set(), "what is left")
    until(lambda: names() == ["init"], "the end of all but init")


def test_timeout(g):
    """After a timeout answers 124, nothing of the tree is left: not the deaf, not the forking."""
    equal(processes_inside(g), processes_inside(g), "a quiet sandbox")
    for run in (g.exec, g.run_events):
        g.out("a", "rm -f escaped")
        for timeout_ms in (1000, 5000, 25000):  # until there is time enough to escape
            result = run("a", ["python3", "-c", ESCAPE], timeout_ms=timeout_ms)
            ended(result, "timeout", 124)
            check(result.facts["duration_ms"] >= timeout_ms, result)
            only_init_lives(g)
            equal(g.sandbox("a")["state"], "running", "state")
            if g.exec("a", ["test", "-e", "/workspace/escaped"]).code == 0:
                break
        g.out("a", ["test", "-e", "/workspace/escaped"])
    ended(g.exec("a", "echo still here"), "exited", 0)
    ended(g.exec("a", "trap '' TERM; kill -STOP $$", timeout_ms=200), "timeout", 124)
    ended(g.exec("a", "echo kept; sleep 100", timeout_ms=300), "timeout", 124)
    equal(g.sandbox("a")["generation"], 1, "generation")


def test_bomb(g):
    """A fork bomb under a limit of processes ends at its timeout; the sandbox works on."""
    asked = g.request("PUT", "/v1/sandbox/a", {"limits": {"pids": 200}, "start": True})
    equal(asked.status, 200, "put")
    result = g.run_events("a", BOMB, timeout_ms=1000)
    ended(result, "timeout", 124)
    equal(g.out("a", "echo here"), "here\n", "the next exec")
    only_init_lives(g)


def test_background(g):
    """What a command leaves running on purpose does not hold up its answer, and lives on."""
    for run in (g.exec, g.run_events):
        result = run("a", "sleep 10000 & echo $!")
        ended(result, "exited", 0)
        g.out("a", f"kill -0 {result.stdout.decode()}")
    # What a survivor prints later is dropped, and it does not die of it.
    g.out("a", "mkfifo go said")
    pid = g.out("a", "(read x <go; yes | head -c 1000000; echo >said; sleep 10000) & echo $!").strip()
    g.out("a", f"echo >go; read x <said; kill -0 {pid}")


def test_environment(g):
    """Environment, directory and user are exactly as asked for; nothing of the daemon's leaks."""
    base = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
            "LANG": "C.UTF-8"}
    odd = {"EMPTY": "", "SPACE": " a  b ", "LINES": "1\n2\n", "EQUAL": "a=b=c", "ÄÖ.-x y": "ünï", "1": "one"}
    shown = g.exec("a", ["env", "-0"], env=odd).stdout.split(b"\0")[:-1]
    got = dict(item.decode().split("=", 1) for item in shown)
    equal(got, {**base, **odd}, "environment")
    equal(g.request("PUT", "/v1/sandbox/b", {"env": {"A": "of the sandbox", "B": "b"}}).status, 200, "put")
    shown = g.exec("b", ["env", "-0"], env={"A": "of the exec", "PATH": "/usr/bin"}).stdout.split(b"\0")[:-1]
    equal(dict(item.decode().split("=", 1) for item in shown),
          {**base, "A": "of the exec", "B": "b", "PATH": "/usr/bin"}, "layers of environment")
    equal(g.out("a", "pwd"), "/workspace\n", "directory")
    equal(g.out("a", "pwd", cwd="/usr/../tmp"), "/tmp\n", "directory")
    equal(g.out("a", "id -u; id -g; id -G"), "0\n0\n0\n", "root")
    equal(g.out("a", "id -u; id -g", user="1000:1001"), "1000\n1001\n", "numbers")
    equal(g.out("a", "id -un", user="nobody"), "nobody\n", "a name")
    equal(g.exec("a", ["printf", "%s|", "", " ", "a b", "*", "$HOME"]).stdout, b"| |a b|*|$HOME|", "argv")
    equal(g.exec("a", ["true"], user="no-such-user").reason, "not_started", "a user that is not there")
    for bad in ({"env": {"A=B": "x"}}, {"env": {"": "x"}}, {"env": {"A": "x\0y"}}, {"env": {"A\0B": "x"}},
                {"user": "1000:0x"}, {"user": "-1"}, {"user": "4294967295"}, {"user": "a b"},
                {"user": "1000:"}, {"cwd": "relative"}, {"cwd": ""}, {"cwd": "/a\0b"},
                {"timeout_ms": -1}, {"nonsense": 1}):
        g.refuse("a", ["true"], **bad)
    for argv in ([], [""], ["a\0b"]):
        g.refuse("a", argv)
    g.refuse("a", ["true"], command="true")


def test_bytes(g):
    """stdout and stderr are exact and apart; 64 MB arrive whole as events, a part of it as JSON."""
    program = "import os\nos.write(1, bytes(range(256)))\nos.write(2, bytes(range(255, -1, -1)))"
    for run in (g.exec, g.run_events):
        result = run("a", ["python3", "-c", program])
        equal((result.stdout, result.stderr), (bytes(range(256)), bytes(range(255, -1, -1))), "bytes")
    big = ("import hashlib, os, sys\nh = hashlib.sha256(); block = os.urandom(1 << 20)\n"
           "for i in range(64):\n b = i.to_bytes(4, 'big') + block; h.update(b); sys.stdout.buffer.write(b)\n"
           "sys.stderr.write(h.hexdigest())")
    result = g.run_events("a", ["python3", "-c", big])
    ended(result, "exited", 0)
    equal(len(result.stdout), 64 * (MB + 4), "length")
    equal(hashlib.sha256(result.stdout).hexdigest(), result.stderr.decode(), "hash")
    result = g.exec("a", ["python3", "-c", big])
    ended(result, "exited", 0)
    equal((len(result.stdout), result.facts["truncated"]), (4 * MB, True), "a part")
    result = g.exec("a", "printf 12345; printf abc >&2", max_output_bytes=4)
    equal((result.stdout, result.stderr, result.facts["truncated"]), (b"1234", b"abc", True), "cut")
    equal(g.exec("a", "printf 1234", max_output_bytes=4).facts["truncated"], False, "not cut")
    # Whatever it is made of, as much as is kept can be sent.
    for byte in ("\\0", "\\n", '"', "x", "\\377"):
        for size in (4 * MB, 5 * MB):
            result = g.exec("a", f"head -c {size} /dev/zero | tr '\\0' '{byte}' | tee /dev/stderr", max_output_bytes=size)
            equal((len(result.stdout), len(result.stderr), result.facts["truncated"]), (size, size, False), byte)
            equal(result.facts["encoding"], "utf-8" if byte == "x" else "base64", byte)
    equal(g.exec("a", "seq 200000").facts["encoding"], "utf-8", "much of what is text")
    equal(g.exec("a", r"printf '\n\n\n\t\t\0\0'").facts["encoding"], "utf-8", "little of it")
    g.refuse("a", ["true"], max_output_bytes=5 * MB + 1)
    result = g.exec("a", "printf 'aé€😀'", max_output_bytes=9)
    equal((result.stdout.decode(), result.facts["encoding"], result.facts["truncated"]), ("aé€", "utf-8", True),
          "cut at a character")


def test_utf8(g):
    """No character is split between two events, however it is written; no byte is lost."""
    text = "aé€😀" * 40000
    slow = ("import os, time\nfor b in 'aé€😀'.encode() * 20:\n os.write(1, bytes([b])); time.sleep(0.002)")
    for what, wanted in ((["python3", "-c", f"print('aé€😀' * 40000, end='')"], text), (["python3", "-c", slow], "aé€😀" * 20)):
        parts = []
        with g.events("a", what) as events:
            for name, data in events:
                if name == "stdout":
                    parts.append(data.decode())  # raises if one is split
        equal("".join(parts), wanted, "text")
        check(len(parts) > 1, "it came in one event")
    equal(g.run_events("a", r"printf 'x\342\202'").stdout, b"x\xe2\x82", "half a character at the end")
    equal(g.run_events("a", r"printf '\377\342(\300'").stdout, b"\xff\xe2(\xc0", "no characters at all")


def test_stdin(g):
    """stdin arrives inline, as base64, streamed; without one it is empty."""
    equal(g.exec("a", ["cat"]).stdout, b"", "none")
    equal(g.exec("a", ["cat"], stdin="héllo\n").stdout, "héllo\n".encode(), "inline")
    data = os.urandom(200000)
    equal(g.exec("a", ["cat"], stdin=base64.b64encode(data).decode(), stdin_encoding="base64").stdout, data,
          "base64")
    ended(g.exec("a", ["true"], stdin="x" * MB), "exited", 0)
    for run in (g.exec, g.run_events):
        for text in ("x" * (600 << 10), ("y" * 99 + "\n") * (4 * MB // 100), "z" * 4 * MB):
            result = run("a", "sleep 0.3; sha256sum", stdin=text)
            equal(result.stdout.split()[0].decode(), hashlib.sha256(text.encode()).hexdigest(), f"{len(text)} bytes inline")
    data = os.urandom(4 * MB)
    text = base64.b64encode(data).decode()
    equal(g.out("a", "sha256sum", stdin=text, stdin_encoding="base64").split()[0],
          hashlib.sha256(data).hexdigest(), "the most as base64")
    ended(g.exec("a", "sleep 0.1; head -c 5", stdin="x" * 4 * MB), "exited", 0)
    equal(g.refuse("a", ["cat"], 413, stdin="x" * (4 * MB + 1))["code"], "payload_too_large", "too much")
    g.refuse("a", ["cat"], stdin="!", stdin_encoding="base64")
    size = 32 * MB
    block = os.urandom(MB)
    with g.raw() as c:
        c.send(b"POST /v1/sandbox/a/exec?argv=sha256sum HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n"
               b"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(size // MB):
            c.send(b"%x\r\n%s\r\n" % (MB, block))
        c.send(b"0\r\n\r\n")
        reply = c.read("POST").json()
    equal(reply["stdout"].split()[0], hashlib.sha256(block * (size // MB)).hexdigest(), "streamed")
    # A program that does not read, or not all of it, hinders nobody.
    with g.raw() as c:
        c.send(b"POST /v1/sandbox/a/exec?command=head+-c+5 HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n"
               b"Content-Type: application/octet-stream\r\nContent-Length: 9999999\r\n\r\n" + b"y" * 100000)
        reply = c.read("POST").json()
        equal((reply["stdout"], reply["exit_code"]), ("yyyyy", 0), "an early end")
    # Both ways at once: an answer begins before its request has ended.
    with g.raw() as c:
        c.send(b"POST /v1/sandbox/a/exec?argv=cat HTTP/1.1\r\nHost: x\r\n"
               b"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        c.send(b"5\r\nfirst\r\n")
        c.read_head()
        check(base64.b64encode(b"first") in c.read_chunk(), "no echo before the end")
        c.send(b"6\r\nsecond\r\n0\r\n\r\n")
        rest = b""
        while part := c.read_chunk():
            rest += part
        check(base64.b64encode(b"second") in rest and b'"exit_code":0' in rest, rest)


def test_huge_arguments(g):
    """Arguments as large as the kernel takes them; beyond that a clean error."""
    for size in (1000, 60000, 131000):
        equal(len(g.exec("a", ["printf", "%s", "x" * size]).stdout), size, "argument")
    many = ["x" * 100] * 10000
    equal(g.out("a", ["sh", "-c", "echo $#", "sh", *many]), "10000\n", "many")
    equal(g.out("a", 'printf %s "$BIG" | wc -c', env={"BIG": "y" * 120000}), "120000\n", "environment")
    result = g.exec("a", ["true", "x" * 200000])
    ended(result, "not_started", 126)
    check("too long" in result.facts["message"], result)
    g.refuse("a", ["true", *["x" * 100000] * 30])
    reply = g.request("POST", "/v1/sandbox/a/exec", b'{"argv":["' + b"x" * (25 * MB) + b'"]}')
    equal(reply.status, 413, reply)
    check("larger than" in reply.json()["error"] and "malformed" not in reply.json()["error"], reply)
    ended(g.exec("a", ["true"]), "exited", 0)


def test_slow_reader(g):
    """1 GiB with a slow reader: memory stays flat, bytes are exact, another exec is unhindered."""
    total = 64 * MB if IS_SANITIZED else 1024 * MB
    g.out("a", ["true"])
    pid = g.berthd.pid
    start = memory_of(pid)
    program = ("import sys\nb = bytes(range(256)) * 4096\n"
               f"for _ in range({total // MB}): sys.stdout.buffer.write(b)")
    with Peak(pid) as peak, g.events("a", ["python3", "-c", program], timeout=ground.TIMEOUT) as events:
        time.sleep(0.5)  # nobody reads, and until the other exec has ended nobody will
        equal(g.out("a", "echo quick"), "quick\n", "another exec")
        length, digest = 0, hashlib.sha256()
        for name, data in events:
            if name == "stdout":
                length += len(data)
                digest.update(data)
            else:
                equal(data["exit_code"], 0, data)
    equal(length, total, "length")
    wanted = hashlib.sha256()
    for _ in range(total // MB):
        wanted.update(bytes(range(256)) * 4096)
    equal(digest.hexdigest(), wanted.hexdigest(), "hash")
    print(f"# memory: {start >> 10} kB before, {peak.most >> 10} kB at most")
    check(IS_SANITIZED or peak.most - start < 4 * MB, f"memory grew by {peak.most - start} bytes")


def test_disconnect(g):
    """A client that goes away ends its command's whole tree, whichever form it asked for."""
    g.out("a", ["true"])

    def lives():
        return [p for p in g.processes() if g.is_sandboxed(p) and ground.is_alive(p)
                and ground.comm_of(p) in ("python3", "sleep", "sh")]

    for accept in (b"text/event-stream", b"application/json"):
        for program in ("sleep 100", "setsid sleep 100 & sleep 100"):
            body = b'{"command":"%s"}' % program.encode()
            with tap.Client.unix(g.socket) as c:
                c.send(b"POST /v1/sandbox/a/exec HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (accept, len(body), body))
                until(lives, "the command to run")
            until(lambda: not lives(), "the command to be ended")
    until(lambda: g.sandbox("a")["execs"] == 0, "the execs to be forgotten")
    equal((g.sandbox("a")["state"], g.sandbox("a")["generation"]), ("running", 1), "the sandbox")


def test_groups(g):
    """Timeouts leave no more groups behind than a quiet sandbox has."""
    g.out("a", ["true"])
    for _ in range(12):
        ended(g.exec("a", ["sleep", "9"], timeout_ms=30), "timeout", 124)
    until(lambda: len(g.cgroups()) < 30, f"groups to be removed: {len(g.cgroups())}")


def test_let_go(g):
    """A command that has ended is forgotten, and its group serves the next one."""
    for _ in range(40):
        g.out("a", ["true"])
    until(lambda: g.sandbox("a")["execs"] == 0, "the commands to be let go")
    check(len(g.cgroups()) < 30, f"groups: {len(g.cgroups())}")


def test_deleted_meanwhile(g):
    """A sandbox that is deleted while a request for it is still being sent."""
    for body in (b'{"argv":["echo","hi"]}', b"garbage"):
        g.out("a", ["true"])
        with g.raw() as c:
            c.send(b"POST /v1/sandbox/a/exec HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n"
                   b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
            g.sandbox("a")  # a turn of the loop later the head has been read
            equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
            c.send(body[5:])
            reply = c.read("POST")
            check(reply.status in (200, 400, 404), reply)
    g.request("DELETE", "/v1/sandbox/a")


main([test_codes, test_not_started, test_timeout, test_bomb, test_background, test_environment,
      test_bytes, test_utf8, test_stdin, test_huge_arguments, test_slow_reader, test_disconnect,
      test_groups, test_let_go, test_deleted_meanwhile])
