"""What a hostile sandbox, a full disk, a slow client or a crash must not do to files.

The numbers are those of the security checks. BERTH_RACE=N makes the race N rounds long, BERTH_BIG=N
the big file N MiB (4096 was asked for), BERTH_STALL=N a reader stop for N seconds (60 were).
"""

import concurrent.futures
import hashlib
import http.client
import os
import signal
import socket
import tempfile
import threading
import time

from file_api import MB, Peak, check, equal, get, ground, main, put, refused, stat, target, temporary, until, \
    workers

SIZE = int(os.environ.get("BERTH_BIG", "256")) * MB
RACE = int(os.environ.get("BERTH_RACE", "300"))
RACERS = 8
STALL = float(os.environ.get("BERTH_STALL", "1"))
BERTHD_MAX = 64 * MB


def block(i):
    return hashlib.sha256(b"%d" % i).digest() * (MB // 32)


def memory_stays(g, peak, before, what):
    if not ground.IS_SANITIZED:
        check(peak.most - before < 16 * MB, f"{what}: berthd grew by {(peak.most - before) >> 20} MB")


def highest_memory(pid):
    """All that it ever had at once, with its programs and libraries."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def test_big(g):
    """[21] 256 MiB or more up and down, byte for byte, with flat memory."""
    put(g, "/workspace/warm", b"x" * MB)
    before = ground.memory_of(g.berthd.pid)
    digest, connection = hashlib.sha256(), g.connect(300)
    with Peak(g.berthd.pid) as peak:
        def blocks():
            for i in range(SIZE // MB):
                digest.update(block(i))
                yield block(i)
        connection.request("PUT", target("file", "/workspace/big"), blocks(), {"Content-Length": str(SIZE)})
        response = connection.getresponse()
        check(response.status == 201, response.status, response.read())
        response.read()
        equal(stat(g, "/workspace/big")["size"], SIZE, "size")
        connection.request("GET", target("file", "/workspace/big"))
        response, back = connection.getresponse(), hashlib.sha256()
        while data := response.read(MB):
            back.update(data)
    connection.close()
    equal(back.hexdigest(), digest.hexdigest(), "the bytes")
    memory_stays(g, peak, before, f"{SIZE // MB} MiB")
    most = highest_memory(g.berthd.pid)
    print(f"# {SIZE // MB} MiB up and down: berthd's VmHWM was {most / 1e6:.1f} MB", flush=True)
    if not ground.IS_SANITIZED:
        check(most < BERTHD_MAX, f"berthd had {most / 1e6:.1f} MB")
    text = g.out("a", ["sha256sum", "/workspace/big"])
    equal(text.split()[0], digest.hexdigest(), "the bytes inside")


def test_slow_reader(g):
    """[21] Readers that do not read pin nothing, and nobody waits for them."""
    g.out("a", "head -c 200000000 /dev/zero >big")
    put(g, "/workspace/f", b"x")
    before = ground.memory_of(g.berthd.pid)
    clients = []
    with Peak(g.berthd.pid) as peak:
        for _ in range(8):
            c = socket.socket(socket.AF_UNIX)
            c.connect(g.socket)
            c.sendall(b"GET /v1/sandbox/a/file/workspace/big HTTP/1.1\r\nHost: x\r\n\r\n")
            check(c.recv(15).startswith(b"HTTP/1.1 200"), "begun")
            clients.append(c)
        for _ in range(20):
            equal(get(g, "/workspace/f").body, b"x", "others")
        time.sleep(1)  # nothing to await: it must stay as it is
    memory_stays(g, peak, before, "eight slow readers")
    for c in clients:
        c.close()
    until(lambda: g.sandbox("a")["execs"] == 0, "the workers of those who left")


def test_stalled_reader(g):
    """[21] A reader that stops in the middle and goes on later gets the whole file; none waits."""
    size, digest = 200 * MB, hashlib.sha256()
    g.out("a", ["python3", "-c", f"import hashlib\nwith open('/workspace/big', 'wb') as f:\n"
                f"    for i in range({size // MB}): f.write(hashlib.sha256(b'%d' % i).digest() * {MB // 32})"])
    put(g, "/workspace/f", b"x")
    connection, back = g.connect(STALL + 300), hashlib.sha256()
    before = ground.memory_of(g.berthd.pid)
    connection.request("GET", target("file", "/workspace/big"))
    response = connection.getresponse()
    for _ in range(100):
        back.update(response.read(MB))
    asked, slowest, end = 0, 0.0, time.monotonic() + STALL
    with Peak(g.berthd.pid) as peak:
        while time.monotonic() < end:  # what must happen meanwhile
            began = time.monotonic()
            put(g, "/workspace/g", b"%d" % asked)
            equal(get(g, "/workspace/f").body, b"x", "others")
            equal(g.out("a", "cat g"), f"{asked}", "others' commands")
            asked, slowest = asked + 1, max(slowest, time.monotonic() - began)
    memory_stays(g, peak, before, "a reader that stopped")
    while data := response.read(MB):
        back.update(data)
    connection.close()
    for i in range(size // MB):
        digest.update(block(i))
    equal(back.hexdigest(), digest.hexdigest(), "the bytes")
    check(asked >= 1, "nobody else was answered")
    print(f"# {STALL:g} s without reading: {asked} rounds of others, the slowest {slowest * 1e3:.0f} ms; berthd "
          f"grew by {max(0, peak.most - before) / 1e3:.0f} kB", flush=True)
    until(lambda: g.sandbox("a")["execs"] == 0, "its worker to end")


def test_gone(g):
    """[19] A client that leaves in the middle of a PUT changes nothing and leaves nothing."""
    put(g, "/workspace/f", b"old")
    for sent in (0, 1, 100000, 3 * MB):
        for name in ("f", "new/f"):
            c = socket.socket(socket.AF_UNIX)
            c.connect(g.socket)
            c.sendall(f"PUT /v1/sandbox/a/file/workspace/{name} HTTP/1.1\r\nHost: x\r\n"
                      f"Content-Length: {4 * MB}\r\n\r\n".encode())
            c.sendall(b"n" * sent)
            c.close()
    until(lambda: g.sandbox("a")["execs"] == 0, "the workers to end")
    equal(get(g, "/workspace/f").body, b"old", "the old file")
    refused(get(g, "/workspace/new/f"), 404, "not_found")
    equal(temporary(g, "/workspace") + temporary(g, "/workspace/new"), [], "what is left")


def test_stopped(g):
    """A worker that somebody inside has stopped goes, once its client has gone; one that waits is told."""
    put(g, "/workspace/f", b"old")
    clients = []
    for method, path, body in (("PUT", target("file", "/workspace/f"), b"new"), ("PUT", target("file", "/workspace/g"), b"new"),
                               ("POST", "/v1/sandbox/a/hydrate", bytes(10240))):
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(90)
        c.connect(g.socket)
        c.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:-1])
        clients.append((c, body))
    for pid in until(lambda: len(workers(g)) == 3 and workers(g), "the workers"):
        os.kill(pid, signal.SIGSTOP)
    for c, body in clients:
        c.sendall(body[-1:])
    c = clients.pop(0)[0]
    c.shutdown(socket.SHUT_WR)
    for gone, _ in clients:
        gone.close()
    response = http.client.HTTPResponse(c)
    response.begin()
    said = response.read()
    check(response.status == 504 and b"worker" in said, response.status, said)
    response.close()
    c.close()
    until(lambda: g.sandbox("a")["execs"] == 0, "the others to go", 60)
    equal(g.out("a", "cat f; ls -A"), "oldf\n", "what is there")


def test_crash(g):
    """[19] berthd killed amid 200 PUTs: each file is old or new, and whole; nothing is left."""
    old, new = b"old" * 50000, b"new!" * 70000
    g.out("a", "mkdir d")
    for i in range(200):
        if i % 2 == 0:
            put(g, f"/workspace/d/{i}", old)
    done = threading.Semaphore(0)

    def write(i):
        try:
            put(g, f"/workspace/d/{i}", new)
        except Exception:  # pylint: disable=broad-except
            return  # it was killed: what is on the disk counts
        finally:
            done.release()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit(write, i) for i in range(200)]
        for _ in range(60):
            done.acquire()
        g.kill_berthd()
        concurrent.futures.wait(jobs)
    g.start()
    states = {"old": 0, "new": 0, "none": 0}
    for i in range(200):
        reply = get(g, f"/workspace/d/{i}")
        if reply.status == 404:
            check(i % 2, "an old file is gone", i)
            states["none"] += 1
        else:
            check(reply.body in (old, new), f"file {i} is neither, {len(reply.body)} bytes")
            states["old" if reply.body == old else "new"] += 1
    check(states["new"] >= 40 and states["none"] + states["old"] >= 1, states)
    until(lambda: not temporary(g, "/workspace/d"), "temporary files to go", 10)


def test_special(g):
    """[18] A fifo, a socket, a tty, devices: refused at once by name, and nothing hangs."""
    g.out("a", ["python3", "-c", "import os, socket\nos.mkfifo('/workspace/fifo')\n"
                "socket.socket(socket.AF_UNIX).bind('/workspace/socket')"])
    g.out("a", "ln -s fifo to-fifo; ln -s /dev/zero to-zero")
    for path, word in (("/workspace/fifo", "fifo"), ("/workspace/to-fifo", "fifo"),
                       ("/workspace/socket", "socket"), ("/dev/zero", "char_device"), ("/dev/tty", "char_device"),
                       ("/workspace/to-zero", "char_device"), ("/dev/random", "char_device")):
        refused(get(g, path), 400, "invalid_request", path, word)
        refused(g.request("PUT", target("file", path), b"x"), 400, "invalid_request", path, word)
    until(lambda: g.sandbox("a")["execs"] == 0, "the workers to end")
    equal(g.out("a", "test -p fifo && test -S socket && test -c /dev/zero && echo same"), "same\n", "types")


def test_growing(g):
    """[18] A file that grows or shrinks while it is read: as long as it was, or visibly cut."""
    with g.events("a", "while :; do head -c 100000 /dev/zero >>grow; done"):
        until(lambda: g.request("HEAD", target("file", "/workspace/grow")).status == 200, "the file")
        for _ in range(5):
            reply = get(g, "/workspace/grow")
            equal(len(reply.body), int(reply.headers["content-length"]), "length")
    g.out("a", "head -c 100000000 /dev/zero >shrink")
    connection = g.connect()
    connection.request("GET", target("file", "/workspace/shrink"))
    response = connection.getresponse()
    response.read(1000)
    g.out("a", ": >shrink")
    try:
        rest = response.read()
        check(len(rest) < 100000000 - 1000, "a file that was cut came whole")
    except (ConnectionError, http.client.IncompleteRead):
        pass
    finally:
        response.close()
        connection.close()
    equal(get(g, "/workspace/shrink").status, 200, "and it goes on")


def test_outside(g):
    """[16] Links, chains, .., /proc/self/root, /proc/1/cwd: never a file of the host's."""
    with tempfile.TemporaryDirectory(prefix="berth-outside-") as outside:
        os.chmod(outside, 0o777)
        secret = os.path.join(outside, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("of the host")
        os.chmod(secret, 0o666)
        # A write through a link makes the same path inside: that is taken away again.
        anew = (f"rm -rf /workspace/* {outside}; ln -s {secret} link; ln -s link chain1; ln -s chain1 chain2; "
                f"ln -s {outside} dir; ln -s ../../../../../../../../ up; ln -s / root")
        below = secret[1:]
        ways = ["/workspace/link", "/workspace/chain2", "/workspace/dir/secret", f"/workspace/up/{below}",
                f"/workspace/root/{below}", f"/../../../{below}", f"/workspace/../../{below}",
                f"/proc/self/root/{below}", f"/proc/1/root/{below}", f"/proc/1/cwd/{below}",
                f"/proc/self/cwd/{below}", f"/dev/fd/../../../{below}"]
        for path in ways:
            g.out("a", anew)
            reply = get(g, path)
            check(reply.status in (400, 403, 404) and b"of the host" not in reply.body, path, reply)
            check(g.get(target("stat", path)).status in (400, 403, 404), path)
            for reply in (g.request("PUT", target("file", path), b"from inside"),
                          g.request("POST", "/v1/sandbox/a/chmod", {"path": path, "mode": "0"}),
                          g.request("POST", "/v1/sandbox/a/copy", {"from": path, "to": "/workspace/stolen"}),
                          g.request("POST", "/v1/sandbox/a/move", {"from": path, "to": "/workspace/stolen"}),
                          g.request("DELETE", target("file", path, recursive=1)),
                          g.get(target("dir", os.path.dirname(path), recursive=1, limit=10))):
                check(reply.status < 500 and b"of the host" not in reply.body, path, reply)
            with open(secret, encoding="utf-8") as file:
                equal(file.read(), "of the host", f"after {path}")
            equal((os.listdir(outside), os.stat(secret).st_mode & 0o777), (["secret"], 0o666), f"after {path}")
        for path in ("/dev/fd/0", "/dev/fd/1", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/1/fd/3", "/proc/1/exe"):
            for reply in (get(g, path), g.request("PUT", target("file", path), b"x")):
                check(400 <= reply.status < 500, path, reply)


SWAP = """
import os
os.makedirs('/workspace/real', exist_ok=True)
open('/workspace/real/f', 'w').write('inside')
os.symlink('%s', '/workspace/link')
os.rename('/workspace/real', '/workspace/x')
print('swapping', flush=True)
while True:
    for source in ('real', 'link'):
        other = 'link' if source == 'real' else 'real'
        try:
            os.rename('/workspace/x', '/workspace/' + source)
            os.rename('/workspace/' + other, '/workspace/x')
        except OSError:
            pass
"""


def race(g, outside, rounds, over):
    """How many reads hit the directory."""
    inside = 0
    for i in rounds:
        if over.is_set():
            break
        reply = get(g, "/workspace/x/f")
        check(b"of the host" not in reply.body, "read from outside")
        inside += reply.status == 200
        check(reply.status in (200, 400, 403, 404), reply)
        reply = g.request("PUT", target("file", "/workspace/x/f"), b"inside")
        check(reply.status < 500 or reply.status == 502, reply)
        if i // RACERS % 4 == 0:
            reply = g.get(target("dir", "/workspace/x"))
            check(outside.encode() not in reply.body and reply.status < 500, reply)
    return inside


def test_race(g):
    """[16] A directory and a link to the host's swapped under each request: never a host file."""
    with tempfile.TemporaryDirectory(prefix="berth-outside-") as outside:
        os.chmod(outside, 0o777)
        secret = os.path.join(outside, "f")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("of the host")
        os.chmod(secret, 0o666)
        with g.events("a", ["python3", "-c", SWAP % outside]) as events:
            equal(next(iter(events)), ("stdout", b"swapping\n"), "the swapper")
            over = threading.Event()
            with concurrent.futures.ThreadPoolExecutor(RACERS) as pool:
                jobs = [pool.submit(race, g, outside, range(first, RACE, RACERS), over) for first in range(RACERS)]
                try:
                    inside = sum(job.result() for job in jobs)
                finally:
                    over.set()  # one failed, or we are to end: nobody waits for the others' rounds
            check(inside > RACE // 50, inside)
        with open(secret, encoding="utf-8") as file:
            equal(file.read(), "of the host", "the host's file")
        equal(os.listdir(outside), ["f"], "the host's directory")


def test_page_bytes(g):
    """[18] A directory of very long names: its pages end early, and miss nothing."""
    g.out("a", ["python3", "-c", "import os\nos.mkdir('/workspace/d')\n"
                "for i in range(3000): open(f'/workspace/d/{i:04}' + '\\x01' * 240, 'w')"])
    seen, cursor, pages = set(), None, 0
    while True:
        reply = g.get(target("dir", "/workspace/d", limit=10000, **({"cursor": cursor} if cursor else {})))
        equal(reply.status, 200, reply)
        check(len(reply.body) < 5 * MB, len(reply.body))
        seen |= {e["name"] for e in reply.json()["entries"]}
        pages, cursor = pages + 1, reply.json().get("cursor")
        if not cursor:
            break
    equal((len(seen), pages > 1), (3000, True), "names and pages")
    until(lambda: g.sandbox("a")["execs"] == 0, "the workers of pages that ended early")


def test_shorter(g):
    """A file that becomes shorter while it is read cuts the archive: nothing is made up in its place."""
    g.out("a", "mkdir -p /tmp/tr/sub; head -c 100M /dev/zero | tr '\\0' x >/tmp/tr/sub/f; echo later >/tmp/tr/z")
    for path in ("/tmp/tr", "/tmp/tr/sub/f"):
        c = g.connect()
        c.request("POST", f"/v1/sandbox/a/persist?path={path}", b"")
        response = c.getresponse()
        got = response.read(MB)
        g.out("a", ["truncate", "-s", "50M", "/tmp/tr/sub/f"])
        try:
            while part := response.read(MB):
                got += part
            check(False, "a whole answer of", len(got))
        except http.client.IncompleteRead as error:
            got += error.partial
        finally:
            response.close()
            c.close()
        equal(b"\0" * 4096 in got[MB:], False, "made up")
        check(len(got) < 60 * MB, len(got))
        g.out("a", "head -c 100M /dev/zero | tr '\\0' x >/tmp/tr/sub/f")
    with open(g.log.name, encoding="utf-8") as log:
        lines = [line for line in log if "persist was cut" in line]
    equal(len(lines), 2, lines)
    check("sub/f" in lines[0] and "/tmp/tr/sub/f" in lines[1] and all("became shorter" in line for line in lines), lines)


if __name__ == "__main__":
    main([test_big, test_slow_reader, test_stalled_reader, test_gone, test_stopped, test_crash, test_special,
          test_growing, test_shorter, test_outside, test_race, test_page_bytes])
