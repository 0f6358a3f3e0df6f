"""The file worker: reading, writing and looking, and what stands in the way."""

import errno
import random
import signal

import files as f
import sandbox as s

BIG = 5 << 20


def reads_and_writes(t, box, peer):
    for options in ((), ("", s.SUPERVISED)):
        files = f.Files(t, box, peer, *options)
        for size in (0, 1, 99, 65536, 65537, 200000, BIG):
            content = random.randbytes(size)
            for is_new in (1, 0):
                result = files.write("/tmp/rw/a/file", content)
                t.equal((result.error, result.is_new, result.size, result.type, result.mode, result.links),
                        (0, is_new, size, f.FILE, 0o644, 1), f"write {size}")
            result, got = files.read("/tmp/rw/a/file")
            t.check(got == content and result.size == size, f"read {size}")
            result, got = files.read("/tmp/rw/a/file", size // 2, size // 3)
            t.check(got == content[size // 2:size // 2 + size // 3], f"a range of {size}")
            files.shell(f"[ {size} = {BIG} ] || rm /tmp/rw/a/file")
        t.equal(files.read("/tmp/rw/a/file", BIG + 5, 3)[1], b"", "behind the end")
        t.equal(files.shell("ls -A /tmp/rw/a; stat -c %a:%u /tmp/rw /tmp/rw/a /tmp/rw/a/file; rm -r /tmp/rw"),
                b"file\n755:0\n755:0\n644:0\n", "what is there")


def modes(t, box, peer):
    files = f.Files(t, box, peer)
    for mode in (0, 0o600, 0o777, 0o4755, 0o1640):
        t.equal(files.write("/tmp/mode", b"x", mode=mode).mode, mode, "as asked")
    files.shell("chmod 751 /tmp/mode")
    t.equal(files.write("/tmp/mode", b"y").mode, 0o751, "of the old file")
    files.shell("chmod 4755 /tmp/mode")
    t.equal(files.write("/tmp/mode", b"y").mode, 0o755, "but for what a write clears")
    files.shell("rm /tmp/mode")


@s.needs_ids
def users(t, box, peer):
    files, alice = f.Files(t, box, peer), f.Files(t, box, peer, "alice")
    files.shell("mkdir -p /tmp/own && echo root > /tmp/own/root; chmod 600 /tmp/own/root")
    t.equal(alice.read("/tmp/own/root")[0].error, errno.EACCES, "what alice may not read")
    for path in ("/tmp/own/root", "/tmp/own/new", "/tmp/own/d/new"):
        t.equal(alice.write(path, b"x").error, errno.EACCES, "what alice may not write")
    result = alice.write("/tmp/alice/file", b"x")
    t.equal((result.error, result.uid, result.gid), (0, 1000, 1001), "who writes owns")
    result = files.write("/tmp/alice/file", b"y")
    t.equal((result.error, result.uid), (0, 0), "who writes owns")
    files.shell("chown 1000 /tmp/alice/file; chmod 444 /tmp/alice/file")
    t.equal(alice.write("/tmp/alice/file", b"x").error, errno.EACCES, "read-only is read-only")
    files.shell("rm -r /tmp/own /tmp/alice")


def looks(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir /tmp/st; cd /tmp/st; printf 12345 > a; ln a b; ln -s a l; mkfifo p; chmod 640 a;"
                "touch -d @1000000000.5 a; ln -s nowhere dangling")
    result = files.simple(f.STAT, "/tmp/st/a")
    t.equal((result.error, result.type, result.mode, result.size, result.links, result.mtime_ns, result.where),
            (0, f.FILE, 0o640, 5, 2, 10 ** 18 + 5 * 10 ** 8, b""), "a file")
    t.equal(files.simple(f.STAT, "/tmp/st/l").ino, result.ino, "through a link")
    link = files.simple(f.STAT, "/tmp/st/l", flags=f.NO_FOLLOW)
    t.equal((link.type, link.where), (f.LINK, b"a"), "the link")
    for path, kind in (("/", f.DIRECTORY), ("/tmp/st/", f.DIRECTORY), ("/tmp/st/p", f.FIFO),
                       ("/dev/null", f.CHAR_DEVICE)):
        t.equal(files.simple(f.STAT, path).type, kind, path)
    for path, error in (("/tmp/st/no", errno.ENOENT), ("/tmp/st/a/", errno.ENOTDIR), ("/tmp/st/a/x", errno.ENOTDIR),
                        ("/tmp/st/dangling", errno.ENOENT), ("/" + "x" * 300, errno.ENAMETOOLONG),
                        ("/x" * 2048, errno.ENAMETOOLONG), ("/x" * 2047, errno.ENOENT), ("tmp", errno.EINVAL),
                        ("", errno.EINVAL), ("/tmp\0/x", errno.EINVAL), ("/proc/self/root", errno.ELOOP),
                        ("/proc/1/cwd/etc", errno.EACCES)):
        result = files.simple(f.STAT, path)
        t.equal((result.error, result.stage), (error, f.AT_PATH), path[:40])
    files.shell("rm -r /tmp/st")


def specials(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir /tmp/sp; cd /tmp/sp; mkfifo fifo; mkdir dir; ln -s fifo to-fifo; ln -s dir to-dir;"
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'")
    for path, kind, error in (
            ("/tmp/sp/fifo", f.FIFO, errno.EOPNOTSUPP), ("/tmp/sp/to-fifo", f.FIFO, errno.EOPNOTSUPP),
            ("/tmp/sp/socket", f.SOCKET, errno.EOPNOTSUPP), ("/dev/zero", f.CHAR_DEVICE, errno.EOPNOTSUPP),
            ("/tmp/sp/dir", f.DIRECTORY, errno.EISDIR), ("/tmp/sp/to-dir", f.DIRECTORY, errno.EISDIR)):
        result, _ = files.read(path)
        t.equal((result.error, result.stage, result.type), (error, f.AT_PATH, kind), f"read {path}")
        result = files.write(path, b"x")
        t.equal((result.error, result.type), (error, kind), f"write {path}")
    for path in ("/", "/tmp/sp/dir/..", "/tmp/sp/dir/."):
        t.equal(files.write(path, b"x").error, errno.EISDIR, path)
    t.equal(files.shell("ls -A /tmp/sp; rm -r /tmp/sp"), b"dir\nfifo\nsocket\nto-dir\nto-fifo\n", "untouched")


def tricks(t, box, peer):
    files = f.Files(t, box, peer)
    for path in ("/proc/self/fd/0", "/proc/self/fd/1", "/dev/fd/1", "/dev/stdin", "/proc/self/root/etc/passwd",
                 "/proc/self/cwd/etc/passwd", "/proc/self/exe"):
        t.equal(files.read(path)[0].error, errno.ELOOP, f"read {path}")
        t.check(files.write(path, b"x").error in (errno.ELOOP, errno.ENOENT), f"write {path}")
    for path in ("/proc/1/cwd/etc/passwd", "/proc/1/root/etc/passwd", "/proc/1/fd/3", "/proc/1/exe"):
        t.check(files.read(path)[0].error in (errno.EACCES, errno.ELOOP), f"read {path}")
        t.check(files.write(path, b"x").error in (errno.EACCES, errno.ELOOP), f"write {path}")
    t.check(files.read("/../../../../etc/passwd")[1].startswith(b"root:"), "the root has no parent")
    files.shell("mkdir -p /tmp/tr/d; cd /tmp/tr; ln -s /etc/passwd abs; ln -s ../../../../../../etc/passwd rel;"
                "ln -s loop loop; ln -s d/new dangling; ln -s no/such/new deep; ln -s dangling chain;"
                "ln -s /proc/self/root/tmp root; echo old > d/file; ln -s d/file link; ln -s / slash")
    for path in ("abs", "rel", "slash/etc/passwd"):
        t.check(files.read(f"/tmp/tr/{path}")[1].startswith(b"root:"), "links lead to the sandbox's own")
    t.equal(files.read("/tmp/tr/loop")[0].error, errno.ELOOP, "loop")
    t.equal(files.write("/tmp/tr/loop", b"").error, errno.ELOOP, "loop")
    t.equal(files.write("/tmp/tr/root/x", b"").error, errno.ELOOP, "a magic link on the way")
    for path, real, is_new in (("chain", "d/new", 1), ("deep", "no/such/new", 1), ("link", "d/file", 0)):
        result = files.write(f"/tmp/tr/{path}", path.encode())
        t.equal((result.error, result.is_new), (0, is_new), path)
        t.equal(files.read(f"/tmp/tr/{real}")[1], path.encode(), f"through {path}")
        t.equal(files.simple(f.STAT, f"/tmp/tr/{path}", flags=f.NO_FOLLOW).type, f.LINK, "the link stays")
    t.equal(files.write("/tmp/tr/slash", b"").error, errno.EISDIR, "a link to the root")
    odd = b"/tmp/tr/\xff\xfe \n\x01"
    t.equal((files.write(odd, b"odd").error, files.read(odd)[1]), (0, b"odd"), "no UTF-8")
    files.shell("rm -r /tmp/tr")


def files_of_proc(t, box, peer):
    files = f.Files(t, box, peer)
    result, text = files.read("/proc/self/status")
    t.check(text.startswith(b"Name:\tberth-init\n") or b"\nSeccomp:\t2\n" in text, text[:60])
    t.equal(result.size, len(text), "its size")
    t.check(b"\nNoNewPrivs:\t1\n" in text, "it is confined as every exec")
    t.equal(files.read("/proc/self/status", 1, 4)[1], text[1:5], "a range")
    t.check(files.read("/proc/self/mem")[0].error in (errno.EIO, errno.EACCES), "no memory")
    t.check(files.write("/proc/self/oom_score_adj", b"0").error != 0, "cannot be replaced")


def broken_streams(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir /tmp/br; echo old > /tmp/br/file")
    for sent in ((), (f.data(b"some"),), (f.data(b"x" * BIG),), (f.data(b"some")[:-1],), (f.data(b"")[:9],),
                 (s.frame(f.GO, 0),), (s.frame(77, 0),), (f.hole(10),), (b"\xff" * 20,)):
        for path in ("/tmp/br/file", "/tmp/br/new"):
            worker = files.worker(f.request(f.WRITE, path))
            t.equal(worker.next().error, 0, "it can be written")
            worker.send(*sent)
            worker.close_stdin()
            t.equal((worker.rest(), worker.end()), (b"", 1), f"undone: {sent and sent[0][:30]}")
    for sent in (b"", b"\0" * 16, f.request(f.READ, "/x")[:-1], s.frame(f.REQUEST, 0), f.go(),
                 s.frame(f.REQUEST, 0, b"\xff" * 100)):
        worker = files.worker(sent)
        worker.close_stdin()
        t.equal((worker.rest(), worker.end()), (b"", 1), "no request")
    worker = files.worker(f.request(f.READ, "/tmp/br/file"))
    t.equal(worker.next().size, 4, "open")
    worker.close_stdin()
    t.equal((worker.rest(), worker.end()), (b"", 0), "not wanted")
    t.equal(files.shell("ls -A /tmp/br; cat /tmp/br/file; rm -r /tmp/br"), b"file\nold\n", "nothing is left")


def killed_writers(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir /tmp/ki; echo old > /tmp/ki/file")
    for path in ("/tmp/ki/file", "/tmp/ki/new"):
        worker = files.worker(f.request(f.WRITE, path))
        worker.next()
        worker.send(f.data(b"x" * BIG))
        peer.signal(worker.number, signal.SIGKILL)
        worker.rest()
        t.equal(worker.end(), -signal.SIGKILL, "killed")
    t.equal(files.shell("ls -A /tmp/ki; cat /tmp/ki/file; rm -r /tmp/ki"), b"file\nold\n", "nothing is left")


def changing_files(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("head -c 3000000 /dev/zero > /tmp/ch")
    worker = files.worker(f.request(f.READ, "/tmp/ch"))
    t.equal(worker.next().size, 3000000, "at open")
    files.shell("echo more >> /tmp/ch")
    worker.send(f.go())
    t.equal(worker.next(), (f.DATA, 3000000), "what was there")
    t.equal((worker.rest(), worker.end()), (b"\0" * 3000000, 0), "and no more")
    worker = files.worker(f.request(f.READ, "/tmp/ch"))
    worker.next()
    files.shell("truncate -s 1000 /tmp/ch")
    worker.send(f.go())
    worker.next()
    t.equal((worker.rest(), worker.end()), (b"\0" * 1000, 1), "cut, and said so")
    files.shell("rm /tmp/ch")


def full_disks(t, box, peer):
    files = f.Files(t, box, peer)
    worker = files.worker(f.request(f.WRITE, "/tmp/full"))
    t.equal(worker.next().error, 0, "it can be written")
    with_limit = box.run(peer, ["prlimit", f"--pid={worker.pid}", "--fsize=100000"])
    t.equal(with_limit.status, 0, with_limit.err)
    try:
        worker.send(f.data(b"x" * BIG))
    except BrokenPipeError:
        pass
    result = worker.next()
    t.equal((result.error, result.stage), (errno.EFBIG, f.AT_DATA), "past the limit")
    t.equal((worker.rest(), worker.end()), (b"", 0), "the end")
    t.equal(files.simple(f.STAT, "/tmp/full").error, errno.ENOENT, "nothing is left")


def workers_are_confined(t, box, peer):
    files = f.Files(t, box, peer)
    before = box.init_fds() if box.is_root else None
    worker = files.worker(f.request(f.READ, "/etc/passwd"))
    worker.next()
    done = box.run(peer, ["sh", "-c", f"cat /proc/{worker.pid}/maps; readlink /proc/{worker.pid}/fd/*;"
                          f"tr '\\0' ' ' < /proc/{worker.pid}/cmdline"])
    t.equal(done.out, b"berth-files ", "its memory is its own")
    worker.send(f.go())
    worker.rest()
    t.equal(worker.end(), 0, "done")
    if before is not None:
        t.equal(box.init_fds(), before, "init's descriptors")
    got = peer.exec(box.number(), ["x"], flags=s.WORKER | s.IN_FD, fds=[0])
    t.equal((got.kind, got.error), (s.REFUSED, errno.EINVAL), "no arguments")
    done = box.run(peer, ["sh", "-c", "exec 0</dev/null; (exec -a berth-files /sandbox/init); echo $?"])
    t.check(done.out in (b"1\n", b"127\n"), f"by hand: {done.out}")


if __name__ == "__main__":
    s.main([reads_and_writes, modes, users, looks, specials, tricks, files_of_proc, broken_streams,
            killed_writers, changing_files, full_disks, workers_are_confined])
