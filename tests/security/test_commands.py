"""SECURITY-CHECKS.md 23 to 29 by number: what a command may do to its sandbox, and what it reaches."""

import os
import random
import socket
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))
# pylint: disable=wrong-import-position
import ground  # noqa: E402
from ground import check, equal, lives, main, memory_of, needs_root, until  # noqa: E402

# Double-forked, in sessions of their own, deaf to SIGTERM, stopped; and one that is none of it.
ESCAPE = ("(trap '' TERM HUP; setsid sh -c 'sleep 3000' & ) & (setsid sleep 3000 &) ; sleep 3000 & "
          "kill -STOP $! ; sh -c 'kill -STOP $$' & touch /workspace/up; sleep 3000")
BOMB = "f() { f | f & }; f & exec sleep 3000"  # a shell that cannot fork would leave it running
THREADS = """
import threading, time
try:
    for _ in range(100000): threading.Thread(target=time.sleep, args=(3000,), daemon=True).start()
except RuntimeError: print("stopped", flush=True)
time.sleep(3000)
"""


def test_23(g):
    """23: timeout, disconnect, DELETE and sleep end everything that an exec started."""
    def begin(name):
        connection = g.connect()
        connection.request("POST", f"/v1/sandbox/{name}/exec", ground.json.dumps({"command": ESCAPE}),
                           {"Accept": "text/event-stream"})
        until(lambda: len(lives(g, "sleep")) >= 3, "the processes")
        return connection
    for timeout_ms in (700, 5000, 25000):  # until it is long enough for all of it to begin
        g.out("a", "rm -f up")
        equal(g.exec("a", ESCAPE, timeout_ms=timeout_ms).reason, "timeout", "reason")
        equal(lives(g, "sleep", "sh", "setsid"), [], "after a timeout")
        if g.exec("a", ["test", "-e", "/workspace/up"]).code == 0:
            break
    g.out("a", ["test", "-e", "/workspace/up"])
    begin("a").close()
    until(lambda: not lives(g, "sleep", "sh", "setsid"), "an end after a disconnect")
    for stop in (("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}), ("DELETE", "/v1/sandbox/a")):
        connection = begin("a")
        check(g.request(*stop).status in (200, 204), stop)
        equal([p for p in g.processes() if g.is_sandboxed(p) and ground.is_alive(p)], [], stop)
        connection.close()


def true_or_lost(g, strike):
    """One exec whose true code is 7, while something dies."""
    script = "trap 'exit 7' TERM; echo on; for i in 1 2 3 4 5 6 7 8; do sleep 0.01; done; exit 7"
    with g.events("a", script) as events:
        try:
            ends = []
            for name, data in events:
                if name == "exit":
                    ends.append(data)
                else:
                    equal((name, data), ("stdout", b"on\n"), "output")
                    strike()
        except OSError:
            return "no answer"
    check(len(ends) < 2, ends)
    for end in ends:  # before the command began it may be lost to an earlier blow
        check((end["reason"], end["exit_code"]) in (("exited", 7), ("lost", None)), end)
    return ends[0]["reason"] if ends else "no answer"


def test_24(g):
    """24: an exit status is never invented: init or the daemon killed, it is the true one or `lost`."""
    rng, seen = random.Random(24), []

    def kill_init():
        init = g.inits()
        ground.time.sleep(rng.uniform(0, 0.12))
        if init:
            os.kill(init[0], 9)

    for _ in range(15):  # init may be dying when it is asked: its successor is
        seen.append(true_or_lost(g, kill_init))
        until(lambda: g.request("POST", "/v1/sandbox/a/start").status == 200, "another start")
    check("lost" in seen and "no answer" not in seen, seen)
    until(lambda: g.exec("a", "exit 3").code == 3, "a sandbox that knows of the last blow")
    for _ in range(3):
        equal(true_or_lost(g, g.kill_berthd), "no answer", "the daemon killed")
        g.start()
        until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    # Somebody inside kills what minds the exec.
    result = g.exec("a", "kill -9 $PPID; sleep 0.2; exit 5")
    check((result.reason, result.code) in (("exited", 5), ("lost", None)), result)
    print(f"# {seen}")


def test_25(g):
    """25: output that nobody reads blocks no other exec and grows nothing."""
    g.out("a", ["true"])
    pids = {"berthd": g.berthd.pid, "init": g.inits()[0]}
    before = {name: memory_of(pid) for name, pid in pids.items()}
    floods = [g.events("a", ["sh", "-c", "yes floods"]) for _ in range(8)]
    try:
        for _ in range(20):  # each of them is answered although nobody will ever read the floods
            equal(g.out("a", ["echo", "x"]), "x\n", "another exec")
        for name, pid in pids.items():
            grown = memory_of(pid) - before[name]
            check(ground.IS_SANITIZED and name == "berthd" or grown < 8 << 20, name, "grew by", grown)
    finally:
        for flood in floods:
            flood.close()
    until(lambda: not lives(g, "yes"), "the floods to end")


def test_26(g):
    """26: fork bombs, thread bombs and huge arguments are contained; the daemon can still kill."""
    def limit():
        equal(g.request("PUT", "/v1/sandbox/a", {"limits": {"pids": 100}}).status, 200, "put")
    limit()
    with g.events("a", ["python3", "-c", THREADS]) as events:
        equal(next(iter(events)), ("stdout", b"stopped\n"), "the limit")
        equal(g.get("/v1/sandbox/a").status, 200, "the daemon meanwhile")
    until(lambda: not lives(g, "python3"), "the threads to end")
    for end in ("timeout", "DELETE"):
        limit()
        with g.events("a", ["sh", "-c", "echo on; " + BOMB],
                      timeout_ms=1000 if end == "timeout" else 0) as events:
            equal(next(iter(events)), ("stdout", b"on\n"), "the bomb")
            if end == "DELETE":
                equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
            for _ in events:
                pass
        until(lambda: not lives(g, "sh", "sleep"), f"the bomb to end by {end}")
    equal(g.exec("a", ["true", "x" * 140000]).reason, "not_started", "a huge argument")
    g.refuse("a", ["x"] * 3_000_000, status=413)
    g.refuse("a", ["true"], env={"A": "x" * (3 << 20)})
    check("A" in g.refuse("a", ["true"], env={"A": "x" * 140000})["error"], "a huge variable")
    equal(g.out("a", "echo fine"), "fine\n", "afterwards")


def test_27(g):
    """27: user, cwd, env are exactly as asked; bad names are refused; nothing of the daemon's leaks."""
    base = [b"HOME=/root", b"LANG=C.UTF-8", b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    for env, more in (({}, []), ({"A": "b=c\n"}, [b"A=b=c\n"])):
        shown = g.exec("a", ["cat", "/proc/self/environ"], env=env).stdout.split(b"\0")
        equal(sorted(shown), sorted([b"", *base, *more]), "env")
    facts = "id -u; id -g; id -G; pwd -P"
    for user, cwd, wanted in (("1000:1001", "/tmp", "1000\n1001\n1001\n/tmp\n"), ("nobody", "/", "65534\n65534\n65534\n/\n"),
                              ("0:0", "/usr/../run", "0\n0\n0\n/run\n"), ("4242", "/", "4242\n4242\n4242\n/\n")):
        equal(g.out("a", facts, user=user, cwd=cwd), wanted, (user, cwd))
    for bad in ({"env": {"A=B": "x"}}, {"env": {"": "x"}}, {"env": {"A": "x\0y"}}, {"env": {"A\0B": "x"}},
                {"user": "1000:0x"}, {"user": "-1"}, {"user": "4294967295"}, {"user": "a b"}, {"user": "root\0"},
                {"user": "1000:"}, {"user": ":0"}, {"user": "0x0"}, {"cwd": "relative"}, {"cwd": "/a\0b"}):
        g.refuse("a", ["true"], **bad)
    check(g.exec("a", "cat /proc/1/environ").code != 0, "init's environment can be read inside")


@needs_root
def test_27_init(g):
    """27: nothing of the daemon's environment is in init's, seen from outside."""
    g.out("a", "true")
    check(g.inits(), "no init")
    for init in g.inits():
        with open(f"/proc/{init}/environ", "rb") as file:
            names = {item.split(b"=")[0] for item in file.read().split(b"\0")} - {b""}
        check(names <= {b"PATH", b"HOME"}, "init's environment:", names)


def test_29(g):
    """29: without a network there is only lo; TCP, UDP, ICMP, IPv6 and DNS all fail."""
    program = r"""
import errno, fcntl, socket, struct
def attempt(name, family, kind, address):
    try:
        s = socket.socket(family, kind); s.settimeout(1)
        s.connect(address)
        if kind == socket.SOCK_DGRAM: s.send(b"x")
        print("reached", name)
    except OSError: pass
attempt("tcp", socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80))
attempt("udp", socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))
attempt("metadata", socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
attempt("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80))
attempt("udp6", socket.AF_INET6, socket.SOCK_DGRAM, ("2001:db8::1", 53))
attempt("host", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))
attempt("host6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", PORT))
try: print("resolved", socket.getaddrinfo("example.com", 80))
except OSError: pass
for family, kind, protocol, address in ((2, socket.SOCK_RAW, 1, "192.0.2.1"), (2, socket.SOCK_DGRAM, 1, "192.0.2.1"),
                                        (2, socket.SOCK_RAW, 255, "192.0.2.1"), (10, socket.SOCK_RAW, 58, "2001:db8::1"),
                                        (10, socket.SOCK_DGRAM, 58, "2001:db8::1")):
    try:
        s = socket.socket(family, kind, protocol); s.sendto(b"\x08\0\xf7\xff\0\0\0\0", (address, 0)); print("icmp", family, kind)
    except OSError: pass
# An address, a route, a flag of an interface, as root inside might set them.
s = socket.socket()
for number, data in ((0x8916, struct.pack("16sHH4s8x", b"lo:1", 2, 0, b"\xc0\0\2\x09")), (0x890B, bytes(120)),
                     (0x8914, struct.pack("16sH22x", b"lo", 0))):
    try: fcntl.ioctl(s, number, data); print("ioctl", hex(number))
    except PermissionError: pass
l = socket.create_server(("127.0.0.1", 0)); socket.create_connection(l.getsockname()); print("lo works")
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        equal(g.out("a", ["python3", "-c", program.replace("PORT", str(port))]), "lo works\n", "network")
    lines = g.out("a", "cat /proc/net/dev").splitlines()[2:]
    equal([line.split(":")[0].strip() for line in lines], ["lo"], "interfaces")
    equal(len(g.out("a", "cat /proc/net/route").splitlines()), 1, "routes")
    g.out("a", "ip link")  # it is there
    for attempt in ("link add x type dummy", "route add default dev lo", "addr add 192.0.2.9/32 dev lo", "link set lo down"):
        check(g.exec("a", "ip " + attempt).code != 0, attempt)


main([test_23, test_24, test_25, test_26, test_27, test_27_init, test_29])
