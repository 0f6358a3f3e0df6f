"""`berth cat put files cp tar` against a real daemon: what goes in comes out, Ctrl-C and all."""

import bz2
import fcntl
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import termios

from file_api import MB, check, equal, main, temporary, until

DATA = bytes(range(256)) * 1000


class Cli:
    """The built `berth`, and a directory of ours that it works in."""

    def __init__(self, ground):
        self.g, self.dir = ground, ground.path("cli")
        os.mkdir(self.dir)
        self.env = {**os.environ, "BERTH_SOCKET": ground.socket}

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def popen(self, *args, **more):
        return subprocess.Popen([os.path.abspath(os.path.join(self.g.build, "berth")), *args], cwd=self.dir, env=self.env,
                                **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                   "stderr": subprocess.PIPE, **more})

    def run(self, *args, code=0, **more):
        """What it says on stdout, or on stderr if it is to fail."""
        content = more.pop("content", None)
        process = self.popen(*args, **({"stdin": subprocess.PIPE} if content is not None else {}), **more)
        out, err = process.communicate(content, timeout=120)
        equal(process.returncode, code, f"{args}: {err}")
        check(code or not err, args, err)
        return err.decode() if code else out

    def write(self, name, content, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content)
        os.chmod(self.path(name), mode)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def make_tree(self, name):
        self.write(f"{name}/run.sh", b"#!/bin/sh\n", 0o755)
        self.write(f"{name}/a/b/c/deep", DATA, 0o640)
        self.write(f"{name}/.hidden", b"")
        self.write(f"{name}/\u00e4 \u65e5", b"utf-8")
        self.write(f"{name}/a/" + "n" * 200, b"long")
        with open(os.path.join(self.path(name).encode(), b"raw\xff\xe9"), "wb") as file:
            file.write(b"no utf-8")
        self.write(f"{name}/nfd e\u0301", b"decomposed")
        self.write(f"{name}/nfd \u00e9", b"composed")
        os.makedirs(self.path(name, "empty"))
        os.symlink("../run.sh", self.path(name, "a/link"))
        os.link(self.path(name, "run.sh"), self.path(name, "a/hard"))
        with open(self.path(name, "sparse"), "wb") as file:
            file.truncate(8 * MB)
            file.seek(4 * MB)
            file.write(b"island")


def facts(root):
    """Of everything in a tree: type, permissions, link or hash."""
    found = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        for name in folders + names:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            if os.path.islink(path):
                what = os.readlink(path)
            elif os.path.isdir(path):
                what = "directory"
            else:
                with open(path, "rb") as file:
                    what = hashlib.sha256(file.read()).hexdigest()
            found[os.path.relpath(path, os.fsencode(root))] = (info.st_mode, what)
    return found


def test_cat_put(g):
    """put and cat: any bytes, any size, modes, several at once, and sentences when it fails."""
    c = Cli(g)
    c.run("put", "a:x/y.bin", content=DATA)
    equal(c.run("cat", "a:x/y.bin"), DATA, "roundtrip")
    c.write("f", b"two")
    c.run("put", "--mode", "751", "a:/workspace/f", "f")
    equal(g.out("a", "stat -c %a f"), "751\n", "mode")
    equal(c.run("cat", "a:f", "a:/workspace/f"), b"twotwo", "several")
    equal(json.loads(c.run("put", "--json", "a:f", content=b""))["size"], 0, "as the daemon tells it")
    equal(c.run("cat", "a:f"), b"", "empty")
    equal(c.run("cat", "a:x/../f"), b"", "up")
    check("no such file" in c.run("cat", "a:none", code=1), "missing")
    check("slash" in c.run("put", "a:newdir/", code=2, content=b"x"), "a directory")
    check("forbidden" in c.run("put", "a:/usr/bin/new", code=1, content=b"x" * (8 * MB)), "read-only")
    big = os.urandom(MB) * 40
    c.run("put", "a:big", content=big)
    equal(c.run("cat", "a:big") == big, True, "40 MiB")


def test_files(g):
    """files shows modes, links and names that hurt nobody, of more than one page."""
    c = Cli(g)
    g.out("a", "mkdir many d; cd many; seq 1 2500 | xargs touch; cd ../d; ln -s /x l; touch .h; mkfifo p; "
               "mkdir -m 1777 t; printf x >\"$(printf 'e\\033c')\"")
    equal(len(c.run("files", "a:many").splitlines()), 2500, "pages")
    lines = c.run("files", "-a", "a:d").decode().splitlines()
    equal([(line[:10], line.split("Z  ")[1]) for line in lines],
          [("-rw-r--r--", ".h"), ("-rw-r--r--", "e?c"), ("lrwxrwxrwx", "l -> /x"),
           ("prw-r--r--", "p"), ("drwxrwxrwt", "t")], "table")
    check(b"/workspace/d/t\n" in c.run("files", "-R", "a"), "recursive")
    equal(len(c.run("files", "a:d/l", code=1).splitlines()), 1, "a link to nothing")
    equal(json.loads(c.run("files", "--json", "a:d"))["entries"][0]["name"], "e\033c", "json")


def test_cp_files(g):
    """cp of files both ways: into directories, over files, with permissions."""
    c = Cli(g)
    c.write("in", DATA, 0o751)
    g.out("a", "mkdir there")
    for target, path in (("a:", "in"), ("a:there", "there/in"), ("a:/workspace/x/new", "x/new"),
                         ("a:x/new", "x/new"), ("a:there/", "there/in")):
        c.run("cp", "in", target)
        equal(g.out("a", f"stat -c %a {path}; sha256sum <{path}").split()[:2],
              ["751", hashlib.sha256(DATA).hexdigest()], target)
    os.mkdir(c.path("local"))
    for target, path in ((".", "in"), ("local", "local/in"), ("new", "new"), ("new", "new")):
        c.run("cp", "a:there/in", target)
        equal((c.read(path), os.stat(c.path(path)).st_mode & 0o777), (DATA, 0o751), target)
    g.out("a", "ln -s there/in link")
    c.run("cp", "a:link", "followed")
    equal(c.read("followed"), DATA, "a link is followed")
    equal(sorted(os.listdir(c.dir)), ["followed", "in", "local", "new"], "nothing else")


def test_cp_trees(g):
    """cp -r in and out again: names, bytes, permissions, links, holes; and where it goes."""
    c = Cli(g)
    c.make_tree("t")
    c.run("cp", "-r", "t", "a:copy")
    equal(g.out("a", "stat -c %h copy/run.sh; stat -c %b copy/sparse; stat -c %u:%g copy/run.sh").split()[::2],
          ["2", "0:0"], "hard links and owners inside")
    c.run("cp", "-r", "a:copy", "back")
    equal(facts(c.path("back")), facts(c.path("t")), "the same")
    equal(os.stat(c.path("back/run.sh")).st_nlink, 2, "hard links")
    check(os.stat(c.path("back/sparse")).st_blocks * 512 < 4 * MB, "holes")
    c.run("cp", "-r", "t", "a:copy")
    c.run("cp", "-r", "a:copy/t", "back")
    equal(facts(c.path("back/t")), facts(c.path("t")), "below a directory that is there")
    c.run("cp", "-r", "t/.", "a:/workspace")
    equal(g.out("a", "cat run.sh"), "#!/bin/sh\n", "contents into a directory")
    os.mkdir(c.path("other"))
    c.write("other/run.sh", b"old")
    c.write("other/mine", b"stays")
    c.run("cp", "-r", "a:copy/t/.", "other")
    equal((c.read("other/run.sh"), c.read("other/mine")), (b"#!/bin/sh\n", b"stays"), "merged")
    g.out("a", "mkdir bad; ln -s /etc/passwd bad/l")
    check("--links" in c.run("cp", "-r", "a:bad", "bad", code=1), "a link that leads out")
    c.run("cp", "-r", "--links", "a:bad", "bad")
    equal(os.readlink(c.path("bad/l")), "/etc/passwd", "as it is")
    equal(sorted(os.listdir(c.dir)), ["back", "bad", "other", "t"], "nothing else")


def test_cp_odd_trees(g):
    """A pipe goes along and is not waited for; no tree takes the place of a file."""
    c = Cli(g)
    c.write("t/a", b"x")
    os.mkfifo(c.path("t/pipe"))
    c.run("cp", "-r", "t", "a:copy")
    equal(g.out("a", "ls copy").split(), ["a", "pipe"], "a pipe")
    equal(g.out("a", "mkdir wall; touch wall/copy; ls wall").split(), ["copy"], "ground")
    check("directory" in c.run("cp", "-r", "t", "a:wall/copy", code=1), "over a file")


def test_cp_too_deep(g):
    """A tree that is deeper than paths are long is refused by name, and nothing gets another name."""
    c = Cli(g)
    at = os.open(c.dir, os.O_RDONLY)
    for name in ["deep"] + ["d" * 200] * 20 + ["e" * 60]:
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("f" * 200, os.O_CREAT, dir_fd=at))
    os.close(at)
    said = c.run("cp", "-r", "deep", "a:deep", code=1)
    check("too long" in said and "ddd" in said, said)
    equal(g.out("a", "find deep -type f | wc -l"), "0\n", "files")
    shutil.rmtree(c.path("deep"))


def test_cp_left_out(g):
    """Sockets are left out and told of; what cannot be read is told with why."""
    c = Cli(g)
    c.write("t/a", b"x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(c.path("t/s"))
        process = c.popen("cp", "-r", "t", "a:copy")
        out, err = process.communicate(timeout=60)
    equal((process.returncode, out), (0, b""), err)
    check(b"left out" in err and err.endswith(b": 1\n"), err)
    equal(g.out("a", "ls copy").split(), ["a"], "what went in")
    if os.geteuid() != 0:
        os.chmod(c.path("t/a"), 0)
        check("t/a`: Permission denied" in c.run("cp", "-r", "t", "a:other", code=1), "why")
    g.out("a", "mkfifo copy/p; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"copy/s\")'; ls copy")
    process = c.popen("cp", "-r", "a:copy", "back")
    out, err = process.communicate(timeout=60)
    equal((process.returncode, out, os.listdir(c.path("back"))), (0, b"", ["a"]), err)
    check(b"sockets and devices are not counted" in err and err.endswith(b": 1\n"), err)
    c.write("f", b"x")
    check("no directory `nodir`" in c.run("cp", "a:copy/a", "nodir/x", code=1), "no such directory here")
    check("no directory `nodir`" in c.run("cp", "-r", "a:copy", "nodir/x", code=1), "for a tree")
    c.run("cp", "f", "a:data/")
    equal(g.out("a", "cat data/f"), "x", "a directory is made there")
    check("not a directory" in c.run("cp", "f", "a:data/f/", code=1), "a file is no directory")


def looks(root):
    """Modes and times of all directories."""
    return {os.path.relpath(path, root): (os.stat(path).st_mode & 0o7777, int(os.stat(path).st_mtime))
            for path, _, _ in os.walk(root)}


def test_cp_directories(g):
    """Permissions and times of directories, both ways, in any order; none is left open for writing."""
    c = Cli(g)
    for number, (name, mode) in enumerate((("sub/deep/er", 0o755), ("sub/deep", 0o500), ("sub", 0o555), ("zz", 0o700),
                                           ("", 0o755))):
        os.makedirs(c.path("t", name), exist_ok=True)
        c.write(f"t/{name}/file" if name else "t/file", b"x")
        os.link(c.path("t", name, "file"), c.path("t", name, "link"))
        os.utime(c.path("t", name), (1, 1000000000 + number * 1000))
        os.chmod(c.path("t", name), mode)
        os.utime(os.path.dirname(c.path("t", name).rstrip("/")), (1, 1))
    for number, name in enumerate(("sub/deep/er", "sub/deep", "sub", "zz", "")):
        os.utime(c.path("t", name), (1, 1000000000 + number * 1000))
    wanted = looks(c.path("t"))
    c.run("cp", "-r", "t", "a:in")
    inside = g.out("a", "cd in; find . -type d -printf '%P %m %Ts\\n'").splitlines()
    equal({line.rsplit(" ", 2)[0] or ".": (int(line.split()[-2], 8), int(line.split()[-1])) for line in inside},
          wanted, "inside")
    c.run("cp", "-r", "a:in", "out")
    equal(looks(c.path("out")), wanted, "and back")
    check("out" in c.run("cp", "-r", "t", "a:/proc/out", code=1), "a failure")
    g.out("a", "mkdir -p bad/ro; touch bad/ro/f; chmod 555 bad/ro; ln -s / bad/zlink")
    c.run("cp", "-r", "a:bad", "bad", code=1)
    equal(sorted(os.listdir(c.dir)), ["out", "t"], "what could not be finished is gone")
    for root in ("t", "out"):
        for name in ("sub/deep", "sub"):
            os.chmod(c.path(root, name), 0o755)


def test_standard(g):
    """Standard input and output: by `-`, by /dev/stdout, closed, empty, and not read by anybody."""
    c = Cli(g)
    c.run("cp", "-", "a:x", content=b"one")
    equal(c.run("cp", "a:x", "-"), b"one", "out")
    equal(c.run("cp", "a:x", "/dev/stdout"), b"one", "by its name")
    check("no name" in c.run("cp", "-", "a:", code=1, content=b""), "what shall it be called")
    for args in (("cp", "-", "a:y"), ("cp", "-r", "-", "a:y"), ("put", "a:y")):
        fd = os.open(c.dir, os.O_RDONLY)
        said = c.run(*args, code=1, stdin=fd)
        os.close(fd)
        check(said.startswith("berth: standard input is a directory: ") and said.count("\n") == 1, args, said)
    with open(c.path("so"), "wb") as out:
        for args in (("cat", "a:x"), ("cp", "a:x", "/dev/stdout"), ("cat", "a:x")):
            equal(c.popen(*args, stdout=out).wait(60), 0, args)
    equal(c.read("so"), b"oneoneone", "nothing is replaced")
    for args in (("put", "a:x"), ("tar", "-x", "a:z"), ("cp", "-", "a:x")):
        process = c.popen(*args, stdin=None, preexec_fn=lambda: os.close(0))
        equal((process.communicate(timeout=60)[1], process.returncode),
              (b"berth: standard input is closed\n", 1), args)
    equal(c.run("cat", "a:x"), b"one", "as it was")
    check("not one byte" in c.run("tar", "-x", "a:z", code=1, content=b""), "an empty archive")
    for other in (bz2.compress(bytes(9999)), b"PK\3\4" + bytes(999)):
        check("gzip, xz or zstd" in c.run("tar", "-x", "a:z", code=1, content=other), "another format")
    c.write("BZh9", b"a name")
    c.run("tar", "-x", "a:z", content=subprocess.run(["tar", "-C", c.dir, "-c", "BZh9"], check=True,
                                                     capture_output=True).stdout)
    equal(g.out("a", "cat z/BZh9"), "a name", "not bzip2")
    process = c.popen("files", "-R", "a:/usr/share")
    until(lambda: unread(process.stdout) > 32768, "a pipe that is full")
    process.send_signal(signal.SIGINT)
    equal(process.wait(60), 130, "Ctrl-C while nobody reads")
    process.communicate(timeout=60)


def test_tar(g):
    """tar out and in, with patterns, compressed, and from one sandbox to another."""
    c = Cli(g)
    g.out("a", "mkdir -p src/sub; echo 1 >src/a.c; echo 2 >src/a.o; echo 3 >src/sub/b.o; echo 4 >src/sub/b.c")
    with tarfile.open(fileobj=io.BytesIO(c.run("tar", "--exclude", "*.o", "a:src"))) as tar:
        equal(sorted(n for n in tar.getnames() if n != "."), ["a.c", "sub", "sub/b.c"], "patterns")
    with tarfile.open(fileobj=io.BytesIO(c.run("tar", "--exclude", "sub", "--exclude", "a.c", "a:src"))) as tar:
        equal(sorted(n for n in tar.getnames() if n != "."), ["a.o"], "two of them")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        info = tarfile.TarInfo("x/y")
        info.size, info.uid = 2, 1000
        tar.addfile(info, io.BytesIO(b"hi"))
    c.run("tar", "-x", "a:un", content=out.getvalue())
    equal(g.out("a", "cat un/x/y; stat -c ' %u' un/x/y"), "hi 0\n", "unpacked")
    equal(json.loads(c.run("tar", "-x", "--owners", "--json", "a:un2", content=out.getvalue()))["bytes"], 2, "json")
    equal(g.out("a", "stat -c %u un2/x/y"), "1000\n", "owners")
    c.run("tar", "-x", "b", content=c.run("tar", "a:src"))
    equal(g.out("b", "cat sub/b.c"), "4\n", "from sandbox to sandbox")
    check("archive" in c.run("tar", "-x", "a", content=b"no archive" * 999, code=1), "nonsense")


def test_shorter(g):
    """tar and cp -r say it and fail when a file becomes shorter while it is read."""
    c = Cli(g)
    for args in (("tar", "a:tr"), ("cp", "-r", "a:tr", "tr")):
        g.out("a", "mkdir -p tr; head -c 300M /dev/zero | tr '\\0' x >tr/f")
        process = c.popen(*args)
        if args[0] == "tar":
            process.stdout.read(MB)
        else:
            while process.poll() is None and not any(f for _, _, f in os.walk(c.dir)):
                pass  # not a moment may pass between its first byte and the stop
            process.send_signal(signal.SIGSTOP)
        g.out("a", "truncate -s 1M tr/f")
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=120)
        check(process.returncode not in (0, 130) and b"broke off" in err, args, process.returncode, err)


def test_watch(g):
    """watch prints each event, as text that hurts nobody or as JSON, until it ends or Ctrl-C comes."""
    c = Cli(g)
    g.out("a", "mkdir -p d/sub skip")
    text, lines = c.popen("watch", "-r", "--exclude", "skip", "--exclude", "*.o", "a"), c.popen("watch", "--json", "a:d")
    equal(text.stdout.readline(), b"ready    /workspace\n", "text")
    equal(json.loads(lines.stdout.readline()),
          {"event": "ready", "name": "d", "path": "/workspace/d", "recursive": False, "directories": 1}, "json")
    g.out("a", "touch d/x.o skip/x d/sub/y; mv d/sub/y \"d/$(printf 'e\\033c')\"; rm -r d")
    equal([json.loads(line)["event"] for line in lines.stdout], ["create", "create", "delete", "delete", "delete", "delete", "end"],
          "json")
    equal((lines.wait(), lines.stderr.read()), (0, b""), "what was watched is gone")
    seen = [text.stdout.readline().decode() for _ in range(5)]
    equal(seen[:2], ["create   /workspace/d/sub/y\n", "move     /workspace/d/sub/y -> /workspace/d/e?c\n"], "text")
    equal(sorted(seen[2:]), [f"delete   /workspace/{n}\n" for n in ("d/", "d/e?c", "d/sub/")], "text")
    text.send_signal(signal.SIGINT)
    equal((text.wait(60), text.stdout.read(), text.stderr.read()), (130, b"", b""), "Ctrl-C")
    check("not_found" in c.run("watch", "a:none", code=1), "missing")
    for process in (text, lines):
        process.stdout.close()
        process.stderr.close()


def unread(pipe):
    count = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return int.from_bytes(count, sys.byteorder)


def interrupt(process, is_begun, what):
    """Ctrl-C once it is under way."""
    until(is_begun, what)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    equal((process.returncode, out, err), (130, b"", b""), what)


def holds_signals(pid):
    """It has begun: what ends it comes by a descriptor now."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        held = next(line for line in file if line.startswith("SigBlk:"))
    return int(held.split()[1], 16) >> signal.SIGINT - 1 & 1


def test_interrupted_in(g):
    """Ctrl-C while a file or a tree goes in: what was there stays, and nothing else."""
    c = Cli(g)
    g.out("a", "echo old >f; mkdir d")
    fifo = c.path("endless")
    os.mkfifo(fifo)
    process = c.popen("cp", "endless", "a:f")
    with open(fifo, "wb") as writer:
        writer.write(DATA)
        writer.flush()
        interrupt(process, lambda: unread(writer) == 0, "a file on its way in")
    equal(temporary(g, "/workspace"), [], "temporary files")
    for args in (("cp", "endless", "a:f"), ("put", "a:f", "endless"), ("cp", "a:f", "endless")):
        process = c.popen(*args)
        interrupt(process, lambda pid=process.pid: holds_signals(pid), f"a pipe without another side: {args}")
    process = c.popen("cp", "a:f", "endless")
    with open(fifo, "rb") as reader:
        equal(reader.read(), b"old\n", "a pipe whose reader comes late")
    equal(process.wait(60), 0, "its exit code")
    equal(g.out("a", "cat f; ls -A"), "old\nd\nf\n", "what is there")
    os.mkdir(c.path("t"))
    for i in range(8):
        with open(c.path("t", str(i)), "wb") as file:
            for _ in range(32):
                file.write(os.urandom(MB))
    process = c.popen("cp", "-r", "t", "a:d")
    interrupt(process, lambda: g.out("a", "ls -A d/t 2>/dev/null || :"), "a tree on its way in")
    until(lambda: not temporary(g, "/workspace/d/t"), "its temporary file to go")
    for name in g.out("a", "ls -A d/t").split():
        equal(g.out("a", f"stat -c %s d/t/{name}"), f"{32 * MB}\n", "each is whole")


def test_interrupted_out(g):
    """Ctrl-C while a file or a tree comes out: what was there stays, and nothing else."""
    c = Cli(g)
    g.out("a", "mkdir t; truncate -s 8G t/big f; for i in 1 2 3; do head -c 100000000 /dev/urandom >t/$i; done",
          timeout_ms=100000)
    c.write("f", b"old")
    interrupt(c.popen("cp", "a:f", "f"),
              lambda: any(n.startswith(".berth") for n in os.listdir(c.dir)), "a file on its way out")
    equal((os.listdir(c.dir), c.read("f")), (["f"], b"old"), "what is there")
    interrupt(c.popen("cp", "-r", "a:t", "new"),
              lambda: any(os.listdir(c.path(n)) for n in os.listdir(c.dir) if n.startswith(".berth")),
              "a tree on its way out")
    equal((os.listdir(c.dir), c.read("f")), (["f"], b"old"), "what is there")
    os.makedirs(c.path("old", "t"))
    interrupt(c.popen("cp", "-r", "a:t", "old"), lambda: os.listdir(c.path("old", "t")), "a tree into another")
    for name in os.listdir(c.path("old", "t")):
        equal(os.path.getsize(c.path("old", "t", name)), 100000000, "each is whole")
    shutil.rmtree(c.dir)


if __name__ == "__main__":
    os.umask(0o022)
    main([test_cat_put, test_files, test_cp_files, test_cp_trees, test_cp_odd_trees, test_cp_too_deep,
          test_cp_left_out, test_cp_directories, test_standard, test_tar, test_shorter, test_watch,
          test_interrupted_in, test_interrupted_out])
