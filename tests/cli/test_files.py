"""The verbs of files against a fake daemon: what is asked, what is shown, hostile answers, faults."""

import base64
import io
import json
import os
import pty
import resource
import signal
import subprocess
import tarfile
import threading

from fake_api import Api
from harness import check, equal, main

FILE = {"type": "file", "size": 3, "mode": "0640", "mtime": "2026-01-31T23:59:59.999Z", "uid": 0, "gid": 0}
DIRECTORY = {**FILE, "type": "directory", "mode": "0750"}


def api(place, handler):
    server = Api(place.listen())
    server.files = handler
    place.servers.append(server)
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    return server


def popen(place, *args, **more):
    return subprocess.Popen([place.berth, *args], env=place.env, cwd=place.dir,
                            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                               "stderr": subprocess.PIPE, **more})


def fails(place, code, words, *args, **more):
    r = place.run(*args, **more)
    equal((r.returncode, r.stdout, r.stderr.count("\n")), (code, "", 1), f"{args} {r.stderr}")
    check(words in r.stderr and "\033" not in r.stderr, args, r.stderr)


def left(place):
    """What is in the place and was not put there by it."""
    return sorted(n for n in os.listdir(place.dir) if n not in ("berth", "api.sock", "xdg"))


def write(place, name, content):
    with open(place.path(name), "wb") as file:
        file.write(content)


def read(place, *names):
    with open(place.path(*names), "rb") as file:
        return file.read()


def archive(*entries):
    """(name, type, link or bytes or None)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, what in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o6755
            if isinstance(what, str):
                info.linkname = what
            data = what if isinstance(what, bytes) else b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tree_of(data, length=None):
    def handler(client, _, kind, __):
        if kind == "stat":
            client.answer(200, DIRECTORY)
        else:
            client.content(data, length, "application/x-tar")
    return handler


def usage(place):
    write(place, "f", b"x")
    for args, words in [(["cat"], "which file"), (["cat", "box"], "ID:PATH"), (["cat", "box:"], "ID:PATH"),
                        (["cat", "-", "x"], "ID:PATH"), (["cat", "b_x:a"], "no sandbox's ID"),
                        (["cat", "box:" + "x" * 5000], "4095"),
                        (["put"], "where to"), (["put", "box"], "ID:PATH"), (["put", "./box:x"], "ID:PATH"),
                        (["put", "--mode", "9", "box:x"], "--mode"), (["put", "--mode", "777777", "box:x"], "--mode"),
                        (["files"], "which sandbox"), (["files", "../x"], "no sandbox's ID"),
                        (["files", "box", "more"], "more"),
                        (["cp"], "SRC DST"), (["cp", "box:x"], "SRC DST"), (["cp", "a", "b"], "ID:PATH"),
                        (["cp", "box:a", "box:b"], "local"), (["cp", "./a:b", "./c"], "ID:PATH"),
                        (["cp", "", "box:b"], "empty"), (["tar"], "which sandbox"),
                        (["tar", "-x", "--exclude", "a", "box"], "--exclude"), (["tar", "--owners", "box"], "--owners"),
                        (["tar", "-x", "--freeze", "box"], "--freeze"),
                        (["tar", "--exclude", "a,b", "box"], "comma"), (["watch"], "what should be watched"),
                        (["watch", "--include", "a,b", "box"], "comma")]:
        fails(place, 2, words, *args)
    place.env["BERTH_SOCKET"] = place.path("none.sock")
    for args in (["cat", "box:x"], ["put", "box:x"], ["files", "box"], ["cp", "f", "box:"],
                 ["cp", "box:f", "."], ["tar", "box"], ["tar", "-x", "box"], ["watch", "box"]):
        fails(place, 3, "none.sock", *args)
    equal(left(place), ["f"], "nothing was made")


def targets(place):
    def handler(client, request, kind, _):
        request.body()
        if kind == "stat":
            return client.answer(404, {"error": "nothing there", "code": "not_found"})
        if kind in ("file", "persist") and request.method in ("GET", "POST") and kind != "hydrate":
            return client.content(b"\0\xff\n")
        return client.answer(200, {"entries": 0, "bytes": 0})

    server = api(place, handler)
    write(place, "f", b"x")
    os.chmod(place.path("f"), 0o4751)
    os.mkdir(place.path("d"))
    for args, wanted in [
            (["cat", "box:a b/ä%?#"], "GET /v1/sandbox/box/file/workspace/a%20b/%C3%A4%25%3F%23"),
            (["cat", "Box:/etc/../x"], "GET /v1/sandbox/box/file/etc/../x"),
            (["put", "box:x"], "PUT /v1/sandbox/box/file/workspace/x"),
            (["put", "-m", "04755", "box:/x", "f"], "PUT /v1/sandbox/box/file/x?mode=04755"),
            (["cp", "f", "box:new"], "PUT /v1/sandbox/box/file/workspace/new?mode=0751"),
            (["cp", "-r", "d", "box:/srv/a&b"], "POST /v1/sandbox/box/hydrate?path=/srv/a%26b"),
            (["tar", "box"], "POST /v1/sandbox/box/persist?path=/workspace&sparse=1"),
            (["tar", "--freeze", "box"], "POST /v1/sandbox/box/persist?path=/workspace&sparse=1&freeze=1"),
            (["tar", "--exclude", "*.o", "--exclude", "a b", "box:src"],
             "POST /v1/sandbox/box/persist?path=/workspace/src&sparse=1&excludes=%2A.o%2Ca%20b"),
            (["tar", "-x", "--owners", "box:/"], "POST /v1/sandbox/box/hydrate?path=/&owners=1")]:
        process = popen(place, *args)
        out, err = process.communicate(timeout=60)
        equal((process.returncode, err), (0, b""), args)
        equal(out, b"\0\xff\n" if "GET" in wanted or "persist" in wanted else b"", args)
        equal(f"{server.requests[-1][0]} {server.targets[-1]}", wanted, args)
    equal(server.failures, [])


def listing(place):
    names = ["plain", "esc\033[31m\r\n\u009b1m", None, "link"]

    def entry(name):
        more = {"name": name, "path": f"/workspace/{name}"} if name else {
            "name_base64": base64.b64encode(b"\xff\x07\x9bx").decode(),
            "path_base64": base64.b64encode(b"/workspace/\xff\x07x").decode()}
        if name == "link":
            more.update(type="symlink", mode="0777", target="/\033]0;t")
        return {**FILE, "mode": "4751", "size": 12345, **more}

    def handler(client, request, kind, path):
        if kind == "stat":
            return client.answer(200, FILE if path == "/one" else DIRECTORY)
        at = int(dict(request.query).get("cursor", "0/ ?")[0])
        answer = {"entries": [entry(names[at])]}
        if at + 1 < len(names):
            answer["cursor"] = f"{at + 1}/ ?"
        return client.answer(200, answer)

    server = api(place, handler)
    process = popen(place, "files", "box")
    out, err = process.communicate(timeout=60)
    equal((process.returncode, err, server.failures), (0, b"", []))
    lines = out.split(b"\n")
    equal(len(lines), 5, out)
    equal(lines[0], b"-rwsr-x--x  0:0  12345  2026-01-31T23:59:59.999Z  plain")
    equal(lines[1].split(b"Z  ")[1], b"esc?[31m???1m")
    equal(lines[2].split(b"Z  ")[1], b"\xff??x")
    check(lines[3].startswith(b"lrwxrwxrwx") and lines[3].endswith(b"link -> /?]0;t"), lines[3])
    r = place.run("files", "-R", "-a", "--json", "box")
    equal([json.loads(line)["entries"] for line in r.stdout.splitlines()], [[entry(n)] for n in names])
    check("recursive=1&hidden=1&cursor=3/%20%3F" in server.targets[-1], server.targets[-1])
    check(place.run("files", "box:/one").stdout.startswith("-rw-r-----  0:0  3  2026"), "one file")


def refusals(place):
    def handler(client, request, kind, path):
        if kind == "stat" and path.endswith("dir"):
            return client.answer(200, DIRECTORY)
        if kind == "stat" and path.rstrip("/").endswith("there"):
            return client.answer(200, FILE)
        client.answer(404 if kind == "stat" else 403, {"error": "no\033", "code": "forbidden"})
        # As the daemon does it: whoever still sends must not lose the answer.
        check(client.is_gone(), "berth has left")
        return None

    api(place, handler)
    write(place, "f", b"x" * 3000000)
    os.mkdir(place.path("d"))
    for words, *args in [("no? (forbidden)", "cat", "box:x"), ("no? (forbidden)", "put", "box:x", "f"),
                         ("no? (forbidden)", "files", "box"), ("no? (forbidden)", "cp", "box:x", "y"),
                         ("no? (forbidden)", "cp", "box:there", "y"), ("no? (forbidden)", "cp", "f", "box:x"),
                         ("no? (forbidden)", "cp", "-r", "d", "box:x"), ("no? (forbidden)", "cp", "-r", "box:dir", "y"),
                         ("no? (forbidden)", "tar", "box"), ("-r copies trees", "cp", "d", "box:x"),
                         ("-r copies trees", "cp", "box:dir", "y"), ("no? (forbidden)", "cp", "f", "box:x/"),
                         ("no directory", "cp", "-r", "d", "box:there"), ("no directory", "cp", "box:there", "y/"),
                         ("no directory", "cp", "f", "box:there/"),
                         ("cannot write", "cp", "-r", "box:dir", "f"), ("no directory `no`", "cp", "box:there", "no/y"),
                         ("cannot read missing", "cp", "missing", "box:"), ("cannot read", "put", "box:x", "missing"),
                         ("directory", "put", "box:x", "d")]:
        fails(place, 1, words, *args)
    equal(left(place), ["d", "f"], "nothing was made")


def broken_off(place):
    sent = [b"half"]

    def handler(client, _, kind, path):
        if kind == "stat":
            return client.answer(200, DIRECTORY if path.endswith("dir") else FILE)
        return client.content(sent[0], 1000)

    api(place, handler)
    write(place, "old", b"old")
    fails(place, 1, "not everything has come", "cp", "box:x", "old")
    fails(place, 1, "not everything has come", "cp", "box:x", "new")
    equal((read(place, "old"), left(place)), (b"old", ["old"]))
    broken = f"berth: berthd on {place.path('api.sock')} broke off: not everything has come; its log may say why\n"
    r = place.run("cat", "box:x")
    equal((r.returncode, r.stdout, r.stderr), (1, "half", broken))
    sent[0] = b""
    r = place.run("cat", "box:x")
    equal((r.returncode, r.stdout, r.stderr), (1, "", broken), "cut before its first byte")
    fails(place, 1, broken, "cp", "box:x", "new")
    fails(place, 1, broken, "cp", "-r", "box:dir", "new")
    equal((read(place, "old"), left(place)), (b"old", ["old"]))


def broken_tree(place):
    data = archive(("./", tarfile.DIRTYPE, None), ("a", tarfile.REGTYPE, b"x" * 100000))
    api(place, tree_of(data[:50000], len(data)))
    fails(place, 1, "not everything has come", "cp", "-r", "box:x", "new")
    os.makedirs(place.path("there", "x"))
    write(place, "there/x/a", b"old")
    fails(place, 1, "not everything has come", "cp", "-r", "box:x", "there")
    equal((left(place), os.listdir(place.path("there", "x")), read(place, "there/x/a")),
          (["there"], ["a"], b"old"))
    place.servers.pop().close()
    os.unlink(place.path("api.sock"))
    api(place, tree_of(b"this is no archive" * 100))
    fails(place, 1, "archive that came", "cp", "-r", "box:x", "new")
    equal(left(place), ["there"])


def hostile_trees(place):
    reg, lnk, sym, folder = tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE
    outside = place.path("outside")
    write(place, "outside", b"mine")
    deep = [("d", folder, None), ("d/e", folder, None)]
    for words, entries in [
            ("leads out", [("../evil", reg, b"x")]), ("leads out", [("a/../../evil", reg, b"x")]),
            ("leads out", [(outside, reg, b"x")]), ("leads out", [("..", folder, None)]),
            ("leads out", [("/evil", folder, None)]), ("leads out", [("../evil", sym, "x")]),
            ("leads out", [("l", sym, "..")]), ("leads out", [("l", sym, outside)]),
            ("leads out", [("a/l", sym, "../../outside")]),
            ("leads out", deep + [("d/e/up", sym, "../.."), ("l", sym, "d/e/up/../outside")]),
            ("no file", deep + [("d/e/up", sym, "../.."), ("l", lnk, "d/e/up")]),
            ("through a link", [("d", folder, None), ("l", sym, "d"), ("l/x", reg, b"x")]),
            ("through a link", [("f", reg, b""), ("f/x", reg, b"x")]),
            ("through a link", [("l", sym, "."), ("l", folder, None)]),
            ("leads out", [("h", lnk, "../outside")]), ("leads out", [("h", lnk, outside)]),
            ("through a link", [("d", folder, None), ("l", sym, "d"), ("h", lnk, "l/x")]),
            ("no file", [("h", lnk, "missing")]), ("cannot make", [("n" * 256, reg, b"x")]),
            ("cannot make", [("p/" * 2040 + "x", reg, b"x")]), ("cannot make", [("d", folder, None), ("d", reg, b"x")])]:
        server = api(place, tree_of(archive(*entries)))
        fails(place, 1, words, "cp", "-r", "box:x", "new")
        os.mkdir(place.path("there"))
        fails(place, 1, words, "cp", "-r", "box:x/.", "there")
        check(not [n for _, _, names in os.walk(place.path("there")) for n in names if n.startswith(".berth")],
              "temporary files", entries)
        subprocess.run(["rm", "-rf", place.path("there")], check=True)
        equal((left(place), read(place, "outside")), (["outside"], b"mine"), entries)
        place.servers.remove(server)
        server.close()
        os.unlink(place.path("api.sock"))


def full_disk(place):
    """Which file it was is told by its path in the tree. A limit on sizes stands for the full disk."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    api(place, tree_of(archive(("./", tarfile.DIRTYPE, None), ("./a/", tarfile.DIRTYPE, None),
                               ("./a/2", tarfile.REGTYPE, b"x"), ("./a/3", tarfile.REGTYPE, b"x" * 100000))))
    os.mkdir(place.path("there"))
    for target in ("new", "there"):
        fails(place, 1, "berth: cannot write `a/3`: File too large\n", "cp", "-r", "box:x", target,
              preexec_fn=limit, restore_signals=False)
    equal((left(place), os.listdir(place.path("there"))), (["there"], []), "nothing is left")


def kept_links(place):
    reg, lnk, sym = tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE
    api(place, tree_of(archive(("./", tarfile.DIRTYPE, None), ("a/f", reg, b"12"), ("a/l", sym, "../b/./c"),
                               ("h", lnk, "./a/f"), ("out", sym, "/etc/passwd"), ("p", tarfile.FIFOTYPE, None),
                               ("dev", tarfile.CHRTYPE, None))))
    fails(place, 1, "--links", "cp", "-r", "box:x", "new")
    r = place.run("cp", "-r", "--links", "box:x", "new")
    equal((r.returncode, r.stderr.endswith("): 2\n")), (0, True), r.stderr)
    equal(sorted(os.listdir(place.path("new"))), ["a", "h", "out"])
    equal((os.readlink(place.path("new/out")), os.readlink(place.path("new/a/l"))), ("/etc/passwd", "../b/./c"))
    info = os.stat(place.path("new/h"))
    equal((info.st_mode & 0o7777, info.st_nlink, read(place, "new", "a", "f")), (0o755, 2, b"12"), "no set-id")
    # Again, into what is there now: links are replaced, never followed.
    os.unlink(place.path("new/h"))
    write(place, "victim", b"mine")
    os.symlink(place.path("victim"), place.path("new/h"))
    equal(place.run("cp", "-r", "--links", "box:x/.", "new").returncode, 0)
    equal((read(place, "victim"), os.stat(place.path("new/h")).st_nlink), (b"mine", 2))


def unreadable_tree(place):
    ends = []

    def handler(client, request, kind, _):
        if kind == "stat":
            return client.answer(404, {"error": "nothing there", "code": "not_found"})
        try:
            ends.append(request.body())
        except ValueError:
            ends.append("broken off")
        return None

    api(place, handler)
    os.chmod(place.path("api.sock"), 0o666)
    os.mkdir(place.path("t"))
    write(place, "t/a", b"x" * 100000)
    write(place, "t/b", b"x")
    os.chmod(place.path("t/b"), 0)
    # Root may read everything.
    more = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
    fails(place, 1, "t/b`: Permission denied", "cp", "-r", "t", "box:new", **more)
    for thread in place.servers[0].threads:
        thread.join(30)
    equal(ends, ["broken off"], "half an archive is not sent as a whole one")


def interrupts(place):
    begun = threading.Event()

    def hang(client, request, kind, path):
        if kind == "stat":
            return client.answer(200, DIRECTORY if path.endswith("dir") else FILE)
        data = archive(("./", tarfile.DIRTYPE, None), ("a", tarfile.REGTYPE, b"x" * 100000))
        client.content(data[:50000], len(data))
        begun.set()
        check(client.is_gone(), "berth has left")
        return None

    server = api(place, hang)
    write(place, "old", b"old")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        for args in (["cp", "box:x", "old"], ["cp", "box:x", "new"], ["cp", "-r", "box:dir", "new"]):
            begun.clear()
            process = popen(place, *args)
            check(begun.wait(30), args)
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
            equal((process.returncode, out, err), (code, b"", b""), args)
            equal((left(place), read(place, "old")), (["old"], b"old"), args)
    equal(server.failures, [])


def terminals(place):
    shown = threading.Event()

    def slow(client, _, kind, __):
        if kind == "stat":
            return client.answer(200, {**FILE, "size": 1000000})
        client.content(b"", 1000000)
        for i in range(1000):
            client.sock.sendall(b"x" * 1000)
            if i < 500:
                shown.wait(0.01)
        return None

    server = api(place, slow)
    place.env["TERM"] = "xterm"
    leader, follower = pty.openpty()
    try:
        process = popen(place, "cp", "box:f\033", "f", stderr=follower, stdout=subprocess.DEVNULL)
        seen = b""
        while b"left" not in seen:
            seen += os.read(leader, 65536)
        shown.set()
        equal(process.wait(60), 0, seen)
        check(b"%" in seen and b"/s" in seen and b"f?" in seen and b"f\033" not in seen, seen)
        equal(os.path.getsize(place.path("f")), 1000000)
        r = place.run("tar", "box", stdout=follower)
        equal((r.returncode, r.stderr), (2, "berth: an archive is not for a terminal: >FILE, or | tar -t\n"))
        r = place.run("tar", "-x", "box", stdin=follower)
        equal((r.returncode, r.stderr), (2, "berth: an archive is read from standard input: <FILE\n"))
    finally:
        os.close(leader)
        os.close(follower)
    equal(server.failures, [])
    equal(place.run("cp", "box:f", "g").stderr, "", "nothing without a terminal")


def outputs(place):
    def handler(client, _, kind, __):
        return client.answer(200, FILE) if kind == "stat" else client.content(b"x" * 1000000)

    api(place, handler)
    with open("/dev/full", "w", encoding="utf-8") as full:
        r = place.run("cat", "box:x", stdout=full)
    equal((r.returncode, r.stderr), (1, "berth: cannot write the answer: No space left on device\n"))
    process = popen(place, "cat", "box:x")
    process.stdout.close()
    equal((process.wait(60), process.stderr.read()), (141, b""), "a reader who left")
    process.stderr.close()
    equal(place.run("cp", "box:x", "/dev/null").returncode, 0, "a device is written to")
    check(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"), "and stays what it is")
    write(place, "real", b"old")
    os.symlink("real", place.path("link"))
    equal(place.run("cp", "box:x", "link").returncode, 0)
    equal((os.readlink(place.path("link")), os.path.getsize(place.path("real"))), ("real", 1000000))
    equal(os.stat(place.path("real")).st_mode & 0o777, 0o640 & ~0o022, "its permissions")


main([
    ("wrong words are 2, and no daemon is 3", usage),
    ("what is asked for, byte by byte", targets),
    ("a listing of pages, with names that would steer a terminal", listing),
    ("refusals are a sentence and 1, and change nothing", refusals),
    ("a file that breaks off leaves nothing", broken_off),
    ("a tree that breaks off leaves nothing half-written", broken_tree),
    ("no archive writes outside of its directory", hostile_trees),
    ("a full disk, and which file it was", full_disk),
    ("--links, set-id bits, things that are no files", kept_links),
    ("a tree that cannot be read is not sent as a smaller one", unreadable_tree),
    ("Ctrl-C leaves nothing behind", interrupts),
    ("progress and archives on a terminal", terminals),
    ("outputs that fail, leave, or are no files", outputs),
])
