"""SECURITY-CHECKS.md 5, 32 to 34, 37 and 41 by number: what a sandbox reaches, and who reaches the API."""

import http.client
import json
import os
import random
import socket
import stat
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))
# pylint: disable=wrong-import-position
import ground  # noqa: E402
from ground import check, equal, main, only, until  # noqa: E402

POINTS = ("/tmp", "/etc", "/dev", "/run", "/proc", "/sys", "/workspace", "/usr", "/bin", "/var", "/home")
# On its own disk a directory and a link to the host's swap places, as fast as they can, until it is stopped.
SWAP = r"""
import ctypes, os, shutil, sys
libc, target = ctypes.CDLL(None), sys.argv[1].encode()
pairs = []
for point in sys.argv[2:]:
    link = f"/.link{point.replace('/', '-')}".encode()
    try:
        # An overlay moves only directories that are all its own.
        if os.path.isdir(point) and not os.path.islink(point) and not os.path.ismount(point):
            shutil.copytree(point, point + ".own", symlinks=True)
            shutil.rmtree(point)
            os.rename(point + ".own", point)
    except OSError: pass
    try: os.symlink(target, link)
    except FileExistsError: pass
    pairs.append((point.encode(), link))
def swap():
    return [p.decode() for p, link in pairs if libc.renameat2(-100, p, -100, link, 2) == 0]  # RENAME_EXCHANGE
print("swapped", *swap(), flush=True)
while True: swap()
"""


def test_5(g):
    """5: directories and links to the host's swap places while the sandbox sleeps and wakes: no host path is seen."""
    outside = g.path("outside")
    os.mkdir(outside)
    os.chmod(outside, 0o777)
    with open(os.path.join(outside, "secret"), "w", encoding="utf-8") as file:
        file.write("of the host\n")
    before = os.stat(outside)
    rng, kinds, swapped = random.Random(5), set(), set()
    for turn in range(12):
        # Swapped in the act by one who is frozen or killed amid it; what is there then is what the wake finds.
        points = rng.sample(POINTS, 4)
        reply = g.request("POST", "/v1/sandbox/a/processes",
                          {"argv": ["/usr/bin/python3", "-c", SWAP, outside, *points], "cwd": "/", "id": f"swap{turn}"})
        if reply.status != 200:  # an earlier turn has left it without what a start needs: refused is contained
            check(reply.json()["code"] in ("start_failed", "exec_error", "conflict"), reply)
            kinds.add("refused")
            equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
            continue
        told = g.request("POST", f"/v1/sandbox/a/processes/swap{turn}/wait",
                         {"for": "log", "pattern": "swapped.*", "timeout_ms": 60000})
        equal(told.status, 200, told)
        log = g.get(f"/v1/sandbox/a/processes/swap{turn}/logs", Accept="application/octet-stream").body.decode()
        swapped |= set(log.split()[1:])
        for mode in rng.sample(["freeze", "stop"], 2) if g.has_cgroups else ["stop"]:
            g.request("POST", "/v1/sandbox/a/sleep", {"mode": mode})
            start = g.request("POST", "/v1/sandbox/a/start")
            check(start.status == 200 or start.json()["code"] == "start_failed", start)
            kinds.add("woken" if start.status == 200 else "refused")
            for path in (outside + "/secret", *(f"{p}/secret" for p in points)):
                seen = g.request("POST", "/v1/sandbox/a/exec", {"argv": ["/usr/bin/cat", path], "cwd": "/"},
                                 Accept="application/json")
                check("of the host" not in seen.body.decode(), path, seen)
                # Through the file API the same names lead nowhere else.
                check(b"of the host" not in g.get(f"/v1/sandbox/a/file{path}").body, path)
        equal(sorted(os.listdir(outside)), ["secret"], "files outside")
        equal([m for m in g.mounts() if "outside" in m], [], "mounts outside")
    after = os.stat(outside)
    equal((after.st_mode, after.st_uid, after.st_ctime_ns), (before.st_mode, before.st_uid, before.st_ctime_ns), "outside")
    check("woken" in kinds and len(swapped) >= 3, kinds, swapped)  # what is mounted cannot be moved
    print(f"# {kinds}, swapped {sorted(swapped)}")


REACH = r"""
import socket, sys
for word in sys.argv[1:]:
    host, port = word.rsplit(":", 1)
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind); s.settimeout(2)
            s.connect((host, int(port)))
            if kind == socket.SOCK_DGRAM: s.send(b"x"); s.recv(1)
            print("reached", word, kind)
        except OSError: pass
print("end")
"""


def test_32(g):
    """32: metadata addresses, link-local, private ranges, the host, the daemon, other sandboxes: none is reached."""
    g.berthd.terminate()
    g.berthd.wait()
    until(lambda: not g.keepers(), "the keeper to go")
    daemon = g.start_listening("a-token-of-thirty-two-characters!")
    listen = ("import socket; l = socket.create_server(('127.0.0.1', 7777)); print('on', flush=True); "
              "c, _ = l.accept(); print('reached', flush=True)")
    with g.events("b", ["python3", "-c", listen]) as neighbour, socket.create_server(("0.0.0.0", 0)) as host:
        equal(next(iter(neighbour)), ("stdout", b"on\n"), "a server in another sandbox")
        host.settimeout(0.1)
        port = host.getsockname()[1]
        links = json.loads(subprocess.run(["ip", "-4", "-json", "address"], check=True, capture_output=True).stdout)
        own = {address["local"] for link in links for address in link["addr_info"]} | {"127.0.0.1"}
        words = [f"{a}:{p}" for a in own for p in (port, daemon)]
        words += [f"{a}:80" for a in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254", "fe80::1",
                                      "10.0.0.1", "172.16.0.1", "192.168.0.1", "10.0.2.2", "0.0.0.0")]
        words += ["127.0.0.1:7777", f"::ffff:127.0.0.1:{port}", f"::1:{port}"]
        equal(g.out("a", ["python3", "-c", REACH, *words]), "end\n", "what was reached")
        try:
            host.accept()
            raise ground.Failed("the host was reached")
        except TimeoutError:
            pass


NETLINK = r"""
import ctypes, errno, os, socket, struct
done = []
def attempt(name, function):
    try: function(); done.append(name)
    except OSError as e: assert e.errno in (errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENODEV, errno.EINVAL, errno.ENOPROTOOPT), (name, e)
def ask(kind, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
    answer = s.recv(4096)
    error = -struct.unpack("=i", answer[16:20])[0]
    if error: raise OSError(error, os.strerror(error))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))
attempt("raw6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 255))
attempt("transparent", lambda: socket.socket().setsockopt(0, 19, 1))
attempt("address", lambda: ask(20, struct.pack("=BBBBI", 2, 32, 0, 0, 1) + struct.pack("=HH4s", 8, 2, b"\xc0\0\2\x09")))
attempt("route", lambda: ask(24, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0) + struct.pack("=HHI", 8, 4, 1)))
attempt("link", lambda: ask(16, struct.pack("=BxHiII", 0, 0, 0, 1, 1) + struct.pack("=HH8s", 12, 3, b"dummy9\0\0")))
def spoof():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("192.0.2.9", 0))
try: spoof(); done.append("spoof")
except OSError as e: assert e.errno == errno.EADDRNOTAVAIL, e
print(done)
"""


def test_33(g):
    """33: no spoofing, no added routes, addresses or links; NET_RAW and NET_ADMIN are absent, as root inside too."""
    for user in ("0", "1000"):
        equal(g.out("a", ["python3", "-c", NETLINK], user=user), "[]\n", f"what worked as {user}")
        text = g.out("a", "grep Cap /proc/self/status", user=user)
        for line in text.splitlines():
            equal(int(line.split()[1], 16) & (1 << 12 | 1 << 13), 0, line)


# By one write: whoever counts lines sees all of it or nothing.
FIRST = ("net=$(cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' \\n'); routes=$(grep -c . /proc/net/route); "
         "echo $net$routes >>/workspace/first")


def test_34(g):
    """34: the policy stands before the first instruction on create, wake and a new life: there is only lo, no route."""
    reply = g.request("POST", "/v1/sandbox/a/processes", {"command": FIRST, "autostart": True, "id": "first"})
    equal(reply.status, 200, reply)

    def lives():
        return len(g.out("a", "cat first").splitlines())
    until(lambda: g.exec("a", ["test", "-e", "first"]).code == 0 and lives() == 1, "the first instruction")
    for count in (2, 3, 4):
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "sleep")
        equal(g.request("POST", "/v1/sandbox/a/start").status, 200, "start")
        until(lambda: lives() == count, "the first instruction of another life")  # pylint: disable=cell-var-from-loop
    if g.has_cgroups:
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}).status, 200, "freeze")
    g.out("a", FIRST)
    equal(set(g.out("a", "cat first").splitlines()), {"lo1"}, "interfaces, and lines of the routes")


def test_37(g):
    """37: the socket is its owner's; TCP answers nobody without the token, whatever stands in its place; it is in no log."""
    mode = os.stat(g.socket)
    equal(stat.S_IMODE(mode.st_mode), 0o600, "the socket's mode")
    equal(mode.st_uid, 0 if g.is_root else ground.place.USER, "the socket's owner")
    g.berthd.terminate()
    g.berthd.wait()
    until(lambda: not g.keepers(), "the keeper to go")
    token = "a-token-of-thirty-two-characters!"
    port = g.start_listening(token)

    def ask(*headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.putrequest("GET", "/v1/sandbox")
        for header in headers:
            connection.putheader("Authorization", header)
        connection.endheaders()
        status = connection.getresponse().status
        connection.close()
        return status
    equal(ask(f"Bearer {token}"), 200, "the token")
    for headers in ((), ("",), ("Bearer",), ("Bearer ",), (f"Bearer {token[:-1]}",), (f"Bearer {token}x",), (f"Basic {token}",),
                    (token,), (f"Bearer {token.upper()}",), ("Bearer \\0",)):
        check(ask(*headers) in (400, 401), headers)
    check(token not in g.log_text(), "the token is in the log")
    for folder, _, names in os.walk(os.path.join(g.state, "berthd")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                check(token.encode() not in file.read(), "the token is on disk:", name)


def test_41(g):
    """41: IDs are checked, folded once, and reach no path, cgroup or argument but as they are."""
    for name in ("..", ".", "a%2fb", "%2e%2e", "a%00b", "-a", "a-", "a.b", "a_b", "a" * 64, "%c3%a9", "a%20b", "a%0ab", "$(id)", "--help",
                 "a%5cb", "%2d-root", "a;b", "a*"):
        for method, rest in (("PUT", ""), ("POST", "/start"), ("GET", ""), ("DELETE", ""), ("PUT", "/file/workspace/x")):
            reply = g.request(method, f"/v1/sandbox/{name}{rest}", {} if method in ("PUT", "POST") else None)
            check(reply.status in (400, 404, 405), method, name, reply)
        # It arrives as JSON, too.
        plain = ground.urllib.parse.unquote(name, errors="surrogateescape")
        if "\udcc3" not in plain:
            equal(g.request("POST", "/v1/sandbox", {"id": plain}).status, 400, plain)
    equal(g.list_all(), [], "sandboxes")
    equal(g.sandbox_files(), [], "files")
    longest = "z" * 63
    for name in ("MixedCase-9", longest, "0"):
        equal(g.out(name, ["hostname"]).strip(), name.lower(), "its name inside")
        equal(g.sandbox(name.upper())["id"], name.lower(), "folded")
    equal(sorted(os.listdir(os.path.join(g.state, "sandboxes")))[-3:], ["0", "mixedcase-9", longest], "disks")


@only("root")
def test_41_cgroups(g):
    """41: a cgroup is called by its sandbox's ID and nothing else."""
    g.out("UPPER", ["true"])
    names = {os.path.basename(c) for c in g.cgroups() if not c.endswith(g.cgroup_name())}
    equal({n for n in names if not n.startswith("exec-")}, {"upper"}, "cgroups")


main([test_5, test_32, test_33, test_34, test_37, test_41, test_41_cgroups])
