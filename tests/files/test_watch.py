"""GET .../watch: what changes in a sandbox, told once, in order, and whole or said not to be.

The numbers are those of the security checks. BERTH_WATCH_DIRS=N watches N directories.
"""

import base64
import contextlib
import os
import re
import socket
import subprocess
import tempfile
import time

from file_api import MB, Peak, check, equal, ground, main, put, refused, target, until, workers

DIRS = int(os.environ.get("BERTH_WATCH_DIRS", "2000" if ground.IS_SANITIZED else "20000"))
RACE = int(os.environ.get("BERTH_RACE", "40"))


def ask(g, path="/workspace", name="a", timeout=30, **query):
    connection = g.connect(timeout)
    connection.request("GET", target("watch", path, name, **query))
    return connection


class Watch:
    """A client that watches; its events are read one by one."""

    def __init__(self, g, path="/workspace", name="a", timeout=20, asked=None, **query):
        self.connection = asked or ask(g, path, name, timeout, **query)
        self.response = self.connection.getresponse()
        if self.response.status != 200:
            body = self.response.read()
            self.connection.close()
            raise ground.Failed(f"watch answered {self.response.status}: {body!r}")
        self.events = iter(ground.Events(self.connection, self.response))
        kind, self.ready = next(self.events)
        equal(kind, "ready", "the first event")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def next(self):
        kind, data = next(self.events)
        return short(kind, data)

    def until(self, last):
        """All events up to this one."""
        found = []
        while not found or found[-1] != last:
            found.append(self.next())
        return found

    def all(self, g, script, name="a"):
        """What a script does, and nothing more: a mark of ours follows it."""
        g.out(name, f"{script}\ntouch /workspace/.mark; rm /workspace/.mark", timeout_ms=60000)
        found = self.until("delete .mark")
        equal(found[-2:], ["create .mark", "delete .mark"], "the mark")
        return found[:-2]


def path_of(data, key="path"):
    text = data[key] if key in data else repr(base64.b64decode(data[key + "_base64"]))
    return text.removeprefix("/workspace/")


def short(kind, data):
    if kind in ("overflow", "end", "error"):
        return f"{kind} {data.get('reason', data.get('code', ''))}".strip()
    slash = "/" if data["is_directory"] else ""
    if kind == "move":
        return f"move {path_of(data, 'from')}{slash} {path_of(data)}{slash}"
    return f"{kind} {path_of(data)}{slash}"


def test_kinds(g):
    """Each kind of event, flat and recursive; what is below is not told to a flat watch."""
    g.out("a", "mkdir old old/sub; echo 1 >old/f")
    script = ("echo hi >f; echo more >>f; mkdir d; echo x >old/f; mv f g; mv g old/g; rm old/g; rmdir d; ln -s / l; "
              "mkfifo p; touch -d @0 p; rm l p")
    with Watch(g) as flat, Watch(g, recursive=1) as deep:
        equal((flat.ready["path"], flat.ready["recursive"], flat.ready["directories"]), ("/workspace", False, 1), "ready")
        equal(deep.ready["directories"], 3, "directories")
        script += "; touch .mark; rm .mark"
        g.out("a", script)
        seen = deep.until("delete .mark")
        equal([e for e in seen if not e.startswith("modify f")],
              ["create f", "create d/", "modify old/f", "move f g", "move g old/g", "delete old/g", "delete d/",
               "create l", "create p", "delete l", "delete p", "create .mark", "delete .mark"], "deep")
        check(1 <= seen.count("modify f") <= 2, seen)
        seen = flat.until("delete .mark")
        equal([e for e in seen if not e.startswith("modify f")],
              ["create f", "create d/", "move f g", "delete g", "delete d/", "create l", "create p", "delete l",
               "delete p", "create .mark", "delete .mark"], "flat")




def quiet(events):
    """Without what depends on how fast the reports follow the writes."""
    return [e for e in events if not e.startswith("modify")]


def test_new_directories(g):
    """What is made in a new directory before it could be watched is told, and only once."""
    with Watch(g, recursive=1) as w:
        for i in range(RACE):
            made = [f"d{i}/", f"d{i}/e/", f"d{i}/e/f/"] + [f"d{i}/e/f/{n}" for n in "123"] + [f"d{i}/x"]
            seen = w.all(g, f"mkdir -p d{i}/e/f; touch d{i}/e/f/1 d{i}/e/f/2; echo 3 >d{i}/e/f/3; echo x >d{i}/x")
            created = [e.removeprefix("create ") for e in quiet(seen)]
            equal(sorted(created), sorted(made), f"round {i}: {seen}")
            for path in made:
                parent = path.rstrip("/").rpartition("/")[0]
                check(not parent or created.index(parent + "/") < created.index(path), path, seen)
        equal(w.all(g, "echo y >d0/e/f/new"), ["create d0/e/f/new", "modify d0/e/f/new"], "and they are watched")
        moved = "mkdir m1; mv m1 m2; mkdir m1; touch m1/a m2/b"
        seen = w.all(g, moved)
        check({"create m1/a", "create m2/b"} <= set(seen), seen)
        equal(w.all(g, "touch m1/c m2/d"), ["create m1/c", "create m2/d"], "both are watched, each by its name")


def test_trees_move(g):
    """Directories that move take their watches along, inside, in and out."""
    g.out("a", "mkdir -p in/deep/er /tmp/out/x/y; touch /tmp/out/x/f")
    with Watch(g, recursive=1) as w:
        equal(w.all(g, "mv in there"), ["move in/ there/"], "inside")
        equal(w.all(g, "touch there/deep/er/f"), ["create there/deep/er/f"], "below its new name")
        equal(w.all(g, "mkdir in"), ["create in/"], "a new one")
        equal(w.all(g, "mv there/deep in/"), ["move there/deep/ in/deep/"], "another parent")
        equal(w.all(g, "rm in/deep/er/f"), ["delete in/deep/er/f"], "below")
        equal(sorted(w.all(g, "cd /workspace; python3 -c 'import os; os.rename(\"/tmp/out/x\", \"x\")' || mv /tmp/out/x x"))
              in (["create x/", "create x/f", "create x/y/"],
                  sorted(["create x/", "create x/f", "create x/y/", "modify x/f"])), True, "in")
        equal(w.all(g, "mkdir x/y/z; touch x/y/z/1")[:1], ["create x/y/z/"], "below what came")
        w.all(g, "mkdir /tmp/gone")
        seen = w.all(g, "mv in /tmp/gone/")
        check("delete in/" in seen, seen)
        equal(w.all(g, "touch /tmp/gone/in/deep/er/f"), [], "out: not watched any more")
        w.all(g, "mkdir p p/1 q q/2")
        g.out("a", ["python3", "-c", "import ctypes; ctypes.CDLL(None).renameat2(-100, b'/workspace/p', -100, b'/workspace/q', 2)"])
        w.all(g, ":")
        equal(w.all(g, "touch q/1/a p/2/b"), ["create q/1/a", "create p/2/b"], "exchanged")


def test_save(g):
    """An editor's save is one set of events; one file is watched through any number of them."""
    g.out("a", "echo old >f; echo 1 >other")
    save = "import os\nfor i in range(3):\n    open('/workspace/.f.tmp', 'w').write('new'); os.rename('/workspace/.f.tmp', '/workspace/f')"
    with Watch(g) as w, Watch(g, "/workspace/f") as file, Watch(g, include="f") as only:
        g.out("a", ["python3", "-c", save])
        seen = w.all(g, ":")
        equal(seen, ["create .f.tmp", "modify .f.tmp", "move .f.tmp f"] * 3, "the directory")
        equal([only.next() for _ in range(3)], ["create f"] * 3, "only what is included")
        equal([file.next() for _ in range(3)], ["modify f"] * 3, "the file")
        g.out("a", "mv f f~; echo x >f; rm f~; echo >other; rm f")
        equal([file.next() for _ in range(4)], ["delete f", "create f", "modify f", "delete f"], "and on it goes")


def test_own_files(g):
    """What the API writes is told by its own name alone: a new file, a changed one, a tree."""
    g.out("a", "mkdir tree; echo 1 >tree/1")
    with Watch(g, recursive=1) as w, Watch(g, "/workspace/tree/1") as file:
        put(g, "/workspace/n", b"new")
        equal(w.all(g, ":"), ["create n"], "new")
        for i in range(3):
            put(g, "/workspace/n", b"x" * (i * MB + 1))
        equal(w.all(g, ":"), ["modify n"] * 3, "replaced")
        for name in ("m", "m", "tree/1"):
            equal(g.request("POST", "/v1/sandbox/a/copy", {"from": "/workspace/n", "to": f"/workspace/{name}"}).status // 100,
                  2, "copy")
        equal(w.all(g, ":"), ["create m", "modify m", "modify tree/1"], "copies")
        equal(file.next(), "modify tree/1", "the file alone")
        equal(g.request("POST", "/v1/sandbox/a/copy",
                        {"from": "/workspace/tree", "to": "/workspace/other", "recursive": True}).status // 100, 2, "copy")
        equal(quiet(w.all(g, ":")), ["create other/", "create other/1"], "a tree")
        equal(g.request("POST", "/v1/sandbox/a/copy",
                        {"from": "/workspace/tree", "to": "/workspace/new/er/copy", "recursive": True}).status // 100, 2, "copy")
        seen = w.until("create new/er/copy/1")
        equal(quiet(seen), ["create new/", "create new/er/", "create new/er/copy/", "create new/er/copy/1"], "into new directories")
        equal(w.all(g, "touch '#77'; sleep 0.3; echo >>'#77'"), ["create #77", "modify #77"], "a name like any other")


def test_modify(g):
    """Many writes are few events, the last of them after the last write; touching is one."""
    g.out("a", "echo 1 >f; echo 1 >mapped; echo 1 >touched")
    with Watch(g) as w:
        seen = w.all(g, "for i in $(seq 2000); do echo $i >>f; done; sleep 0.3")
        check(1 <= len(seen) <= 100 and set(seen) == {"modify f"}, len(seen), set(seen))
        held = "import time\nf = open('/workspace/f', 'w', buffering=1)\nfor i in range(20): f.write('x\\n'); time.sleep(0.05)\n"
        g.out("a", ["python3", "-c", held])
        seen = w.all(g, "sleep 0.3")
        check(4 <= len(seen) <= 22 and set(seen) == {"modify f"}, seen)
        equal(w.all(g, "touch touched; sleep 0.3; : >>mapped; sleep 0.3"), ["modify touched", "modify mapped"], "without writes")
        equal(w.all(g, "touch new; sleep 0.3; echo >new2"), ["create new", "create new2", "modify new2"], "new ones")


def test_patterns(g):
    """include and exclude: names, paths, directories; what is excluded is not even watched."""
    g.out("a", "mkdir -p src/gen node_modules/a/b/c")
    with Watch(g, recursive=1, include="*.py,src/**/*.c,.mark", exclude="node_modules,src/gen,*.tmp.py") as w:
        equal(w.ready["directories"], 2, "directories")
        seen = w.all(g, "touch a.py a.c src/b.c src/b.txt src/b.py x.tmp.py node_modules/a/m.py src/gen/g.py; "
                        "mkdir -p lib/deep")
        seen += w.all(g, "touch lib/deep/l.py lib/l.c; mv src/b.txt src/c.py; mv a.py a.txt; mv lib lib2")
        seen += w.all(g, "touch lib2/deep/n.py; mv lib2 node_modules/")
        equal(seen, ["create a.py", "create src/b.c", "create src/b.py", "create lib/deep/l.py", "create src/c.py",
                     "delete a.py", "move lib/ lib2/", "create lib2/deep/n.py", "delete lib2/"], "told")
    refused(g.get(target("watch", "/workspace", include="x" * 20000)), 400, "invalid_request", "include")
    refused(g.get(target("watch", "/workspace") + "?exclude=a%00b"), 400, "invalid_request", "exclude")
    refused(g.get(target("watch", "/workspace", recursive="maybe")), 400, "invalid_request", "recursive")
    refused(g.get(target("watch", "/workspace", excludes="x")), 400, "invalid_request", "excludes")


def test_names(g):
    """Names of any bytes, and very long ones; a path without end is left out, and nothing breaks."""
    script = ("import os\nos.chdir('/workspace')\n"
              "for n in (b'raw\\xff', b'new\\nline', '\u00e4 \u65e5'.encode(), b'\\x1b[31m', b'n' * 255): open(n, 'w')\n"
              "os.mkdir(b'd\\xfe')\n")
    move = "import os\nos.chdir('/workspace')\nopen(b'd\\xfe/f', 'w'); os.rename(b'd\\xfe/f', b'raw\\xff')\n"
    with Watch(g, recursive=1) as w:
        g.out("a", ["python3", "-c", script])
        raw, folder, below = repr(b"/workspace/raw\xff"), repr(b"/workspace/d\xfe"), repr(b"/workspace/d\xfe/f")
        equal(quiet(w.all(g, ":")), [f"create {raw}", "create new\nline", "create \u00e4 \u65e5", "create \x1b[31m",
                                     "create " + "n" * 255, f"create {folder}/"], "names")
        g.out("a", ["python3", "-c", move])
        equal(quiet(w.all(g, ":")), [f"create {below}", f"move {below} {raw}"], "a move of such names")
        deep = ("import os\nos.chdir('/workspace')\nfor i in range(40):\n    os.mkdir('x' * 200); os.chdir('x' * 200)\n"
                "    open('f', 'w')\n")
        g.out("a", ["python3", "-c", deep])
        seen = w.all(g, ":")
        check(all(e.startswith(("create xxx", "modify xxx")) for e in seen), seen[:3])
        longest = max(seen, key=len)
        check(3800 < len(longest) < 4200, len(longest), len(seen))
        equal(w.all(g, "touch last"), ["create last"], "and on it goes")


def test_ends(g):
    """What is watched goes, moves, or its sandbox stops: each is said, and the stream ends."""
    g.out("a", "mkdir -p gone/sub moved file; touch file/f")
    for path, script, events in (
            ("gone", "rm -r gone", ["delete gone/sub/", "delete gone/", "end removed"]),
            ("moved", "mv moved elsewhere", ["end moved"]),
            ("file/f", "rm -r file", ["delete file/f", "end removed"])):
        with Watch(g, f"/workspace/{path}", recursive=1) as w:
            g.out("a", script)
            equal([w.next() for _ in events], events, path)
            equal(next(w.events, None), None, "the end")
    until(lambda: g.sandbox("a")["execs"] == 0, "the watcher to end")
    for stop in (("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}), ("DELETE", "/v1/sandbox/a")):
        with Watch(g) as w:
            check(g.request(*stop).status in (200, 204), stop)
            equal((w.next(), next(w.events, None)), ("end stopped", None), stop)


def test_refused(g):
    """What is not there, or may not be seen, is refused before anything is answered."""
    refused(g.get(target("watch", "/workspace/none")), 404, "not_found", "/workspace/none")
    put(g, "/workspace/f", b"")
    refused(g.get(target("watch", "/workspace/f/below")), 400, "invalid_request")
    refused(g.get(target("watch", "/workspace/" + "x" * 300)), 400, "invalid_request")
    refused(g.get(target("watch", "/proc/self/root")), 400, "invalid_request", "proc")
    equal(g.request("POST", target("watch", "/workspace"), b"").status, 405, "method")
    until(lambda: g.sandbox("a")["execs"] == 0, "no watcher is left")


def test_churn(g):
    """Clients come and go: one watcher as long as there is one, none after the last."""
    with Watch(g) as w:
        first = until(lambda: workers(g), "the watcher")
        equal(len(first), 1, "watchers")
        for i in range(RACE):
            with Watch(g, recursive=1) as other:
                equal(other.all(g, f"touch {i}")[0], f"create {i}", "another")
                equal(w.until(f"create {i}")[-1], f"create {i}", "the first")
        equal(workers(g), first, "one for all of them")
    until(lambda: not workers(g) and g.sandbox("a")["execs"] == 0, "the watcher to end with the last")
    clients = [Watch(g) for _ in range(64)]
    refused(g.get(target("watch", "/workspace")), 503, "capacity_exceeded", "64")
    equal(len(workers(g)), 1, "watchers")
    g.out("a", "touch all")
    equal({c.next() for c in clients}, {"create all"}, "all of them")
    for c in clients:
        c.close()
    until(lambda: not workers(g), "the watcher to end with the last")
    with Watch(g) as w:
        os.kill(workers(g)[0], 9)
        check(w.next().startswith("error exec_"), "killed")
    with Watch(g) as w:
        equal(w.all(g, "touch again"), ["create again"], "and a new one")


def test_berthd_dies(g):
    """berthd is killed: its watcher goes, and the next berthd has its own."""
    with Watch(g):
        g.kill_berthd()
    g.start()
    until(lambda: not workers(g), "the watcher of the dead")
    with Watch(g) as w:
        equal(w.all(g, "touch f"), ["create f"], "and on it goes")


def silent(g, path="/workspace", **query):
    """A client that asks, sees the beginning, and never reads on."""
    c = socket.socket(socket.AF_UNIX)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.settimeout(60)
    c.connect(g.socket)
    c.sendall(f"GET {target('watch', path, **query)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    check(c.recv(12).startswith(b"HTTP/1.1 200"), "begun")
    return c


def overflowed(c):
    """Reads on until it is told that it has missed something; how many events came before."""
    text = b""
    while b"event: overflow" not in text:
        data = c.recv(65536)
        check(data and len(text) < 8 * MB, "no overflow after so many bytes:", len(text))
        text += data
    return text.count(b"event: create")


STORM = "import os\nos.makedirs('/workspace/storm', exist_ok=True)\nos.chdir('/workspace/storm')\nprint('on', flush=True)\n" \
        "while True:\n    for i in range(200): os.mkdir(f'd{i}'); open(f'd{i}/f', 'w')\n" \
        "    for i in range(200): os.unlink(f'd{i}/f'); os.rmdir(f'd{i}')\n"


def test_storm(g):
    """[20] Churn without end: others are served, readers and silent ones cost nothing, overflow is said."""
    g.out("b", "mkdir d")
    with Watch(g, recursive=1), Watch(g, "/workspace", "b", recursive=1) as calm:
        before = ground.memory_of(g.berthd.pid)
        with Peak(g.berthd.pid) as peak, g.events("a", ["python3", "-c", STORM]) as storm:
            equal(next(iter(storm)), ("stdout", b"on\n"), "the storm")
            clients = [silent(g, recursive=1) for _ in range(8)]
            with Watch(g, recursive=1, timeout=120) as w:
                slowest, started, count = 0, time.monotonic(), 0
                while time.monotonic() - started < 5:
                    at = time.monotonic()
                    equal(calm.all(g, f"mkdir d/{count}; touch d/{count}/f", "b"),
                          [f"create d/{count}/", f"create d/{count}/f"], "another sandbox")
                    slowest, count = max(slowest, time.monotonic() - at), count + 1
                check(slowest < 10, f"another sandbox's events took {slowest:.1f} s")
                for _ in range(15000):  # far more than is kept for those who do not read
                    w.next()
            for c in clients:
                overflowed(c)
        if not ground.IS_SANITIZED:
            check(peak.most - before < 16 * MB, f"berthd grew by {(peak.most - before) >> 20} MB")
        for c in clients:
            c.close()
        g.out("a", "rm -rf storm; mkdir -p after/all")
    with Watch(g, recursive=1) as w:
        equal(w.all(g, "touch after/all/f"), ["create after/all/f"], "and on it goes")


def test_overflow(g):
    """[20] Events are lost while the watcher is stopped: that is said, and from then on it is whole again."""
    with Watch(g, recursive=1) as w:
        pid, = workers(g)
        os.kill(pid, 19)
        with open("/proc/sys/fs/inotify/max_queued_events", encoding="utf-8") as file:
            most = int(file.read())
        g.out("a", ["python3", "-c", f"import os\nos.mkdir('/workspace/d')\nfor i in range({most + 100}):\n"
                    "    os.mkdir('/workspace/d/x')\n    os.rmdir('/workspace/d/x')\n"
                    "    open(f'/workspace/f{i % 7}', 'w')\n    os.unlink(f'/workspace/f{i % 7}')\n"
                    "os.makedirs('/workspace/d/late/er')"], timeout_ms=100000)
        os.kill(pid, 18)
        w.until("overflow")
        found = w.all(g, "touch d/late/er/f")
        equal([e for e in found if e.startswith("create d/late/er/f")], ["create d/late/er/f"], "after the overflow")


@contextlib.contextmanager
def stopped(g):
    """The watcher sees what happens meanwhile only afterwards, all at once."""
    pid, = workers(g)
    os.kill(pid, 19)
    try:
        yield
    finally:
        os.kill(pid, 18)


def test_future(g):
    """A new directory is read when things have moved on: what then seems to be inside itself is looked at again."""
    script = "import os\nos.chdir('/workspace')\n"
    for step in ("os.mkdir('n')", "os.rename('n', 'q/n')", "os.rename('q/n', 'n')", "os.rename('q', 'n/q')"):
        script += step + "\n"
    g.out("a", "mkdir q")
    with Watch(g, recursive=1) as w:
        with stopped(g):
            g.out("a", ["python3", "-c", script])
        w.all(g, ":")
        g.out("a", "sleep 0.6")
        w.all(g, ":")
        equal(w.all(g, "touch n/f n/q/f"), ["create n/f", "create n/q/f"], "watched by their names")
        w.all(g, "rm -r n")
        equal(w.all(g, "mkdir n; sleep 0.1; touch n/f"), ["create n/", "create n/f"], "and on it goes")


def test_late_news(g):
    """What happened before a watch began, and is heard of only then, changes nothing for it."""
    g.out("a", "mkdir d e")
    churn = "import os\nos.chdir('/workspace')\nfor i in range(1500): open('f' * 60, 'w').close(); os.unlink('f' * 60)\n"
    with Watch(g, recursive=1):
        with stopped(g):
            g.out("a", ["python3", "-c", churn + "os.rmdir('d'); os.mkdir('d'); os.rename('e', 'x'); os.mkdir('e')\n"])
            asked = ask(g, recursive=1)
            g.out("a", "true")  # so the watcher was told
        with Watch(g, asked=asked) as w:
            equal(w.all(g, "touch d/f e/f x/f"), ["create d/f", "create e/f", "create x/f"], "watched")


def test_silent(g):
    """A client that reads late gets what fitted, then overflow, and then what follows."""
    c = silent(g)
    g.out("a", "for i in $(seq 3000); do touch $(printf %0200d $i); done", timeout_ms=100000)
    with Watch(g) as w:
        equal(w.all(g, "touch other"), ["create other"], "nobody waits for it")
    check(100 < overflowed(c) < 3000, "what was kept")
    g.out("a", "touch late")
    text = b""
    while b"/workspace/late" not in text:
        text += c.recv(65536)
    c.close()
    until(lambda: g.sandbox("a")["execs"] == 0, "the watcher to end")


def test_many_directories(g):
    """20,000 directories: watched, changed in each, moved as one, and left."""
    g.out("a", ["python3", "-c", f"import os\nfor i in range({DIRS}): os.makedirs(f'/workspace/t/{{i % 100}}/{{i}}')"],
          timeout_ms=300000)
    started = time.monotonic()
    with Watch(g, recursive=1, timeout=300) as w:
        print(f"# {w.ready['directories']} directories in {time.monotonic() - started:.2f} s", flush=True)
        equal(w.ready["directories"], DIRS + 102, "directories")
        touch = "import os, sys\nfor i in range(0, %d, 10): open(f'/workspace/{sys.argv[1]}/{i %% 100}/{i}/f' + sys.argv[2], 'w')" % DIRS
        g.out("a", ["python3", "-c", touch, "t", "1"], timeout_ms=100000)
        seen = w.all(g, ":")
        equal(sorted(quiet(seen)), sorted(f"create t/{i % 100}/{i}/f1" for i in range(0, DIRS, 10)), "each")
        equal(w.all(g, "mv t u"), ["move t/ u/"], "moved")
        g.out("a", ["python3", "-c", touch, "u", "2"], timeout_ms=100000)
        seen = w.all(g, ":")
        equal(sorted(quiet(seen)), sorted(f"create u/{i % 100}/{i}/f2" for i in range(0, DIRS, 10)), "each")
    until(lambda: g.sandbox("a")["execs"] == 0, "the watcher to end")


def limit(g, name, value):
    """For the sandbox's user namespace alone; nothing of the host changes."""
    subprocess.run(["nsenter", "--user", f"--target={g.inits()[0]}", "sh", "-c", f"echo {value} >/proc/sys/user/{name}"],
                   check=True)


def test_limits(g):
    """Out of inotify instances, or of watches, at the beginning or later: a code and a sentence."""
    g.out("a", "mkdir -p d/1 d/2 d/3 d/4")
    limit(g, "max_inotify_instances", 0)
    refused(g.get(target("watch", "/workspace")), 507, "watch_limit", "fs.inotify.max_user_instances")
    limit(g, "max_inotify_instances", 1000)
    limit(g, "max_inotify_watches", 4)
    refused(g.get(target("watch", "/workspace", recursive=1)), 507, "watch_limit", "fs.inotify.max_user_watches")
    with Watch(g) as other, Watch(g, "/workspace/d/1", recursive=1) as w:
        equal(w.ready["directories"], 1, "one")
        g.out("a", "mkdir -p d/1/a; touch x")
        equal(w.next(), "create d/1/a/", "three")
        g.out("a", "mkdir -p d/1/a/b; mkdir -p d/1/a/c")
        seen = [w.next() for _ in range(3)]
        equal(seen, ["create d/1/a/b/", "create d/1/a/c/", "error watch_limit"], "told, then it ends")
        equal(next(w.events, None), None, "the end")
        equal(other.next(), "create x", "the other goes on")
    limit(g, "max_inotify_watches", 100000)
    with Watch(g, recursive=1) as w:
        equal(w.all(g, "touch d/4/f"), ["create d/4/f"], "and again")


def test_outside(g):
    """[16] Links, .., /proc/self/root and the like: never an inode of the host's."""
    with tempfile.TemporaryDirectory(prefix="berth-outside-") as outside:
        os.chmod(outside, 0o777)
        g.out("a", f"ln -s {outside} dir; ln -s dir chain; ln -s ../../../../../.. up; ln -s / root")
        below, inside = outside[1:], []
        for path in ("/workspace/dir", "/workspace/chain", f"/workspace/up/{below}", f"/workspace/root/{below}",
                     f"/../../{below}", f"/workspace/../../../{below}", f"/proc/self/root/{below}", f"/proc/1/root/{below}",
                     f"/proc/1/cwd/{below}", f"/dev/fd/../../../{below}", outside):
            reply = g.get(target("watch", path, recursive=1))
            check(reply.status in (400, 403, 404), path, reply)
        for path in ("/dev/fd/0", "/proc/self/fd/1", "/proc/1/fd/3", "/proc/1/exe", "/workspace/a%00b"):
            check(g.get("/v1/sandbox/a/watch" + path).status in (400, 403, 404), path)
        with Watch(g, recursive=1) as w:
            equal(w.ready["directories"], 1, "links are not followed")
            with open(os.path.join(outside, "f"), "w", encoding="utf-8"):
                pass
            g.out("a", f"mkdir -p {outside}")
            inside += w.all(g, f"touch {outside}/g dir/h; ln -s {outside} new")
        equal(inside, ["create new"], "nothing behind a link")


SWAP = """
import os
os.makedirs('/workspace/real', exist_ok=True)
os.symlink('%s', '/workspace/link')
print('swapping', flush=True)
while True:
    for source in ('real', 'link'):
        os.rename('/workspace/' + source, '/workspace/x')
        os.rename('/workspace/x', '/workspace/' + source)
"""


def test_swapped(g):
    """[16] A directory and a link to the host's swapped under the watch: never an event of the host's."""
    with tempfile.TemporaryDirectory(prefix="berth-outside-") as outside:
        os.chmod(outside, 0o777)
        os.mkdir(os.path.join(outside, "of-the-host"))
        with Watch(g, recursive=1, timeout=60) as w, g.events("a", ["python3", "-c", SWAP % outside]) as swapper:
            equal(next(iter(swapper)), ("stdout", b"swapping\n"), "the swapper")
            for i in range(RACE):
                with open(os.path.join(outside, "of-the-host", str(i)), "w", encoding="utf-8"):
                    pass
                path = "/workspace/x"
                reply = g.connect()
                reply.request("GET", target("watch", path, recursive=1))
                response = reply.getresponse()
                check(response.status in (200, 400, 404), response.status)
                response.close()
                reply.close()
            seen = set()
            for _ in range(2000):
                seen.add(w.next())
        check(not [e for e in seen if "of-the-host" in e], seen)
        check({e for e in seen if re.match("move (x|real)/? (x|real)/?$", e)}, seen)


if __name__ == "__main__":
    main([test_kinds, test_new_directories, test_trees_move, test_save, test_own_files, test_modify, test_patterns, test_names,
          test_ends, test_refused, test_churn, test_berthd_dies, test_storm, test_overflow, test_future, test_late_news, test_silent,
          test_many_directories, test_limits, test_outside, test_swapped])
