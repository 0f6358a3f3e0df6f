"""The file worker on directories and trees: list, make, move, remove, chmod, copy."""

import errno
import signal

import files as f
import sandbox as s

NAMES = 20000
DEEP = "/tmp/deep" + "/d" * 2000
# Deeper than any path can say.
ABYSS = ("import os\nos.chdir('/tmp')\nos.mkdir('abyss')\nos.chdir('abyss')\n"
         "for i in range(5000):\n os.mkdir('some-name')\n os.chdir('some-name')\n"
         "open('bottom', 'w').write('x')\n")


def lists(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/ls/b/c /tmp/ls/.git/x /tmp/ls/a-; cd /tmp/ls; printf 123 > a; ln -s /etc/passwd l;"
                "ln -s / root; touch B b/.h b/f b/c/f 'b f' a-/f; mkfifo p; touch \"$(printf '\\377\\nx')\"")
    plain = [b"B", b"a", b"a-", b"b", b"b f", b"l", b"p", b"root", b"\xff\nx"]
    t.equal(files.names("/tmp/ls"), plain, "sorted by bytes, none hidden")
    t.equal(files.names("/tmp/ls", flags=f.HIDDEN), [b".git", *plain], "hidden too")
    tree = [b"B", b"a", b"a-", b"a-/f", b"b", b"b/c", b"b/c/f", b"b/f", b"b f", b"l", b"p", b"root", b"\xff\nx"]
    t.equal(files.names("/tmp/ls", flags=f.RECURSIVE), tree, "the tree")
    every = files.names("/tmp/ls/", flags=f.RECURSIVE | f.HIDDEN)
    t.equal(every, [b".git", b".git/x", *tree[:5], b"b/.h", *tree[5:]], "with the hidden")
    for limit in (1, 2, 3, 100):
        for flags in (f.RECURSIVE | f.HIDDEN, f.HIDDEN):
            seen, cursor, result = [], b"", None
            while result is None or result.has_more:
                entries, result = files.list("/tmp/ls", flags=flags, limit=limit, cursor=cursor)
                seen += [e.name for e in entries]
                t.check(len(entries) == limit or not result.has_more, "a full page")
                cursor = seen[-1]
            t.equal(seen, every if flags & f.RECURSIVE else [b".git", *plain], f"pages of {limit}")
    for cursor, first in ((b"b/c/zz", b"b/f"), (b"b/bb", b"b/c"), (b"a/x", b"a-"), (b"b", b"b/c"), (b"zz", b"\xff\nx"),
                          (b"b/c/f/x/y", b"b/f"), (b"b//c", b"b/c")):
        t.equal(files.names("/tmp/ls", flags=f.RECURSIVE, cursor=cursor)[:1], [first], cursor)
    entries, result = files.list("/tmp/ls")
    facts = {e.name: e for e in entries}
    t.equal((facts[b"a"].type, facts[b"a"].size, facts[b"l"].type, facts[b"l"].link, facts[b"p"].type),
            (f.FILE, 3, f.LINK, b"/etc/passwd", f.FIFO), "what they are")
    t.equal((result.type, result.count), (f.DIRECTORY, len(plain)), "the directory")
    t.check(b"proc/self" not in files.names("/", flags=f.RECURSIVE, cursor=b"etc/zzz", limit=3), "not into proc")
    for path, error in (("/tmp/ls/a", errno.ENOTDIR), ("/tmp/ls/no", errno.ENOENT), ("/proc/self/cwd", errno.ELOOP)):
        result = files.list(path)[1]
        t.equal((result.error, result.stage), (error, f.AT_PATH), path)
    t.equal(files.list("/tmp/ls", cursor=b"x" * 300)[1].error, errno.ENAMETOOLONG, "no such name")
    t.equal(files.list("/tmp/ls", cursor=b"a\0b")[1].error, errno.EINVAL, "no name at all")
    files.shell("rm -r /tmp/ls")


@s.needs_ids
def lists_what_may_be_seen(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/see/a/x /tmp/see/b /tmp/see/c/y; chmod 700 /tmp/see/a /tmp/see/b")
    t.equal(f.Files(t, box, peer, "alice").names("/tmp/see", flags=f.RECURSIVE), [b"a", b"b", b"c", b"c/y"], "closed")
    files.shell("rm -r /tmp/see")


def wide_directories(t, box, peer):
    files = f.Files(t, box, peer)
    done = box.run(peer, ["python3", "-c", f"import os\nos.mkdir('/tmp/wide')\nfor i in range({NAMES}):\n"
                          " open('/tmp/wide/' + str(i), 'w').close()"])
    t.equal(done.status, 0, done.err)
    expected = sorted(str(i).encode() for i in range(NAMES))
    for limit in (777, 10000):
        seen, cursor, result = [], b"", None
        while result is None or result.has_more:
            entries, result = files.list("/tmp/wide", limit=limit, cursor=cursor)
            seen += [e.name for e in entries]
            cursor = seen[-1]
        t.check(seen == expected, f"pages of {limit}")
    result = files.simple(f.COPY, "/tmp/wide", other="/tmp/wider/copy", flags=f.RECURSIVE)
    t.equal((result.error, result.count), (0, NAMES + 1), "copied")
    result = files.simple(f.CHMOD, "/tmp/wider/copy", mode=0o700, flags=f.RECURSIVE)
    t.equal((result.error, result.count), (0, NAMES + 1), "changed")
    for path, more in (("/tmp/wide", 1), ("/tmp/wider", 2)):
        result = files.simple(f.REMOVE, path, flags=f.RECURSIVE)
        t.equal((result.error, result.count), (0, NAMES + more), "removed")


def deep_trees(t, box, peer):
    files = f.Files(t, box, peer)
    t.equal(files.simple(f.MKDIR, DEEP).is_new, 1, "made")
    t.equal(files.write(DEEP + "/file", b"deep").error, 0, "written")
    names = files.names("/tmp/deep", flags=f.RECURSIVE)
    t.equal((len(names), names[-1]), (2001, b"d/" * 2000 + b"file"), "listed")
    page = files.names("/tmp/deep", flags=f.RECURSIVE, cursor=names[1700], limit=50)
    t.check(page == names[1701:1751], "from the middle")
    result = files.simple(f.COPY, "/tmp/deep", other="/tmp/e", flags=f.RECURSIVE)
    t.equal((result.error, result.count, result.bytes), (0, 2002, 4), "copied")
    t.equal(files.read("/tmp/e" + "/d" * 2000 + "/file")[1], b"deep", "the same")
    t.equal(files.simple(f.CHMOD, "/tmp/e", mode=0o600, flags=f.RECURSIVE).error, 0, "closed")
    t.equal(files.simple(f.CHMOD, "/tmp/e", mode=0o700, flags=f.RECURSIVE).error, 0, "and opened again")
    for path in ("/tmp/deep", "/tmp/e"):
        result = files.simple(f.REMOVE, path, flags=f.RECURSIVE)
        t.equal((result.error, result.count, result.bytes), (0, 2002, 4), "removed")
    t.equal(box.run(peer, ["python3", "-c", ABYSS]).status, 0, "deeper than a path")
    entries, result = files.list("/tmp/abyss", flags=f.RECURSIVE)
    t.equal((result.error, result.stage, len(entries)), (errno.ENAMETOOLONG, f.AT_ENTRY, 409), "cannot be said")
    result = files.simple(f.COPY, "/tmp/abyss", other="/tmp/abyss2", flags=f.RECURSIVE)
    t.equal((result.error, result.count), (0, 5002), "copied")
    for path in ("/tmp/abyss", "/tmp/abyss2"):
        result = files.simple(f.REMOVE, path, flags=f.RECURSIVE)
        t.equal((result.error, result.count), (0, 5002), "removed")


def makes_directories(t, box, peer):
    files = f.Files(t, box, peer)
    result = files.simple(f.MKDIR, "/tmp/mk/a/b/")
    t.equal((result.error, result.is_new, result.type, result.mode), (0, 1, f.DIRECTORY, 0o755), "new")
    t.equal(files.simple(f.MKDIR, "/tmp/mk/a/b").is_new, 0, "old")
    result = files.simple(f.MKDIR, "/tmp/mk/m", mode=0o3770, flags=f.HAS_MODE)
    t.equal((result.is_new, result.mode), (1, 0o3770), "its mode")
    files.shell("touch /tmp/mk/file; ln -s a /tmp/mk/link; ln -s nowhere /tmp/mk/dangling")
    t.equal(files.simple(f.MKDIR, "/tmp/mk/link").is_new, 0, "through a link")
    t.equal(files.simple(f.MKDIR, "/").is_new, 0, "the root")
    t.equal(files.simple(f.MKDIR, "/tmp/mk/..").is_new, 0, "dots")
    for path, error, stage in (("/tmp/mk/file", errno.EEXIST, f.AT_PATH), ("/tmp/mk/dangling", errno.EEXIST, f.AT_PATH),
                               ("/tmp/mk/file/x", errno.ENOTDIR, f.AT_PARENT), ("/proc/x", errno.ENOENT, f.AT_PATH),
                               ("/tmp/mk/dangling/x", errno.ENOENT, f.AT_PARENT),
                               ("/tmp/mk/" + "x" * 256, errno.ENAMETOOLONG, f.AT_PARENT),
                               ("/tmp/mk/" + "x" * 256 + "/y", errno.ENAMETOOLONG, f.AT_PARENT)):
        result = files.simple(f.MKDIR, path)
        t.equal((result.error, result.stage), (error, stage), path[:40])
    files.shell("rm -r /tmp/mk")


def moves(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/mv/d/x; cd /tmp/mv; echo a > a; echo b > b; ln -s a l")
    t.equal(files.simple(f.MOVE, "/tmp/mv/a", other="/tmp/mv/n/m/a").error, 0, "parents are made")
    t.equal(files.simple(f.MOVE, "/tmp/mv/b", other="/tmp/mv/n/m/a").error, 0, "replaced")
    t.equal(files.simple(f.MOVE, "/tmp/mv/l", other="/tmp/mv/l2").error, 0, "the link itself")
    t.equal(files.simple(f.MOVE, "/tmp/mv/d", other="/tmp/mv/n/d").error, 0, "a directory")
    for path, other, error, stage in (
            ("/tmp/mv/no", "/tmp/mv/new/x", errno.ENOENT, f.AT_PATH), ("/tmp/mv/n", "/tmp/mv/n/m/n", errno.EINVAL, f.AT_OTHER),
            ("/tmp/mv/n/m/a", "/tmp/mv/n/d", errno.EISDIR, f.AT_OTHER), ("/", "/tmp/mv/root", errno.EBUSY, f.AT_PATH),
            ("/tmp/mv/n/m/a", "/sandbox/a", errno.EXDEV, f.AT_OTHER), ("/tmp/mv/n", "/", errno.EBUSY, f.AT_OTHER),
            ("/tmp/mv/n/m/a", "x", errno.EINVAL, f.AT_OTHER)):
        result = files.simple(f.MOVE, path, other=other)
        t.equal((result.error, result.stage), (error, stage), (path, other))
    t.equal(files.shell("cd /tmp/mv; find . | sort; cat n/m/a; rm -r /tmp/mv"),
            b".\n./l2\n./n\n./n/d\n./n/d/x\n./n/m\n./n/m/a\nb\n", "what is there")


def removes(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/rm/d/x /tmp/keep; cd /tmp/rm; echo a > a; ln -s /tmp/keep l; ln -s /tmp/keep d/l;"
                "touch /tmp/keep/file d/x/f; mkfifo d/p; mkdir e")
    for path, error in (("/tmp/rm/d", errno.EISDIR), ("/tmp/rm/e", errno.EISDIR), ("/tmp/rm/no", errno.ENOENT)):
        t.equal(files.simple(f.REMOVE, path).error, error, path)
    for path in ("/", "/proc", "/dev", "/usr"):
        t.equal(files.simple(f.REMOVE, path, flags=f.RECURSIVE).error, errno.EBUSY, path)
    t.equal(files.simple(f.REMOVE, "/tmp/rm/..", flags=f.RECURSIVE).error, errno.EINVAL, "..")
    result = files.simple(f.REMOVE, "/tmp/rm/a")
    t.equal((result.error, result.count, result.bytes), (0, 1, 2), "a file")
    t.equal(files.simple(f.REMOVE, "/tmp/rm/l", flags=f.RECURSIVE).error, 0, "a link")
    t.equal(files.simple(f.REMOVE, "/tmp/rm/l/", flags=f.RECURSIVE).error, errno.ENOENT, "gone")
    result = files.simple(f.REMOVE, "/tmp/rm", flags=f.RECURSIVE)
    t.equal((result.error, result.count), (0, 7), "the tree")
    t.equal(files.shell("ls /tmp/keep; rm -r /tmp/keep"), b"file\n", "links were not followed")


@s.needs_ids
def refuses_in_the_middle(t, box, peer):
    files, alice = f.Files(t, box, peer), f.Files(t, box, peer, "alice")
    files.shell("mkdir -p /tmp/mid/a/b /tmp/mid/c; touch /tmp/mid/a/b/f; chown -R 1000 /tmp/mid; chown 0 /tmp/mid/a/b;"
                "chmod 700 /tmp/mid/a/b")
    for op, options in ((f.REMOVE, {}), (f.COPY, {"other": "/tmp/mid/copy"}), (f.CHMOD, {"mode": 0o755})):
        path = "/tmp/mid/a" if op == f.COPY else "/tmp/mid"
        if op == f.COPY:
            options["other"] = "/tmp/mid/c/copy"
        result = alice.simple(op, path, flags=f.RECURSIVE, **options)
        where = b"b" if op == f.COPY else b"a/b"
        t.check(result.error in (errno.EACCES, errno.EPERM), f"{op}: {result.error}")
        t.equal((result.stage, result.where), (f.AT_ENTRY, where), op)
    t.equal(files.shell("ls -A /tmp/mid/c /tmp/mid/a/b; rm -r /tmp/mid"), b"/tmp/mid/a/b:\nf\n\n/tmp/mid/c:\n",
            "nothing is left of the copy")


def changes_modes(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/cm/d/e; cd /tmp/cm; touch a d/f d/e/g out; ln -s out d/l; chmod 644 out; ln -s d ld")
    t.equal(files.simple(f.CHMOD, "/tmp/cm/a", mode=0o4711).mode, 0o4711, "a file")
    t.equal(files.simple(f.CHMOD, "/tmp/cm/ld", mode=0o700).mode, 0o700, "through the link that was named")
    result = files.simple(f.CHMOD, "/tmp/cm/d", mode=0o751, flags=f.RECURSIVE)
    t.equal((result.error, result.count), (0, 4), "the tree")
    t.equal(files.shell("cd /tmp/cm; stat -c %a out d d/f d/e d/e/g"), b"644\n751\n751\n751\n751\n", "no link on the way")
    t.equal(files.simple(f.CHMOD, "/tmp/cm/no", mode=0o700).error, errno.ENOENT, "nothing")
    t.equal(files.simple(f.CHMOD, "/proc/self/fd/0", mode=0o777).error, errno.ELOOP, "a magic link")
    files.shell("rm -r /tmp/cm")


def copies(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/cp/d/e; cd /tmp/cp; printf data > a; chmod 4751 a; ln -s a l; ln -s /no/such d/dangling;"
                "truncate -s 100M d/sparse; printf x | dd of=d/sparse bs=1 seek=50000000 conv=notrunc 2>/dev/null;"
                "mkfifo d/p; head -c 3000000 /dev/urandom > d/e/big; chmod 500 d/e; chmod 2750 d; ln -s d ld")
    result = files.simple(f.COPY, "/tmp/cp/l", other="/tmp/cp/n/m/b")
    t.equal((result.error, result.count, result.bytes, result.is_new), (0, 1, 4, 1), "a file, through a link")
    result = files.simple(f.STAT, "/tmp/cp/n/m/b")
    t.equal((result.type, result.mode, result.size), (f.FILE, 0o4751, 4), "its mode")
    t.equal(files.simple(f.COPY, "/tmp/cp/d/e/big", other="/tmp/cp/n/m/b").is_new, 0, "over another")
    result = files.simple(f.COPY, "/tmp/cp/ld", other="/tmp/cp/n/d", flags=f.RECURSIVE)
    t.equal((result.error, result.count, result.bytes), (0, 6, (100 << 20) + 3000000), "a tree")
    t.equal(files.shell("cd /tmp/cp/n/d; stat -c '%A %s %n' . dangling p e e/big; cmp e/big ../../d/e/big;"
                        "cmp sparse ../../d/sparse; readlink dangling; [ $(du -k sparse | cut -f1) -lt 1000 ] && echo sparse"
                        ).splitlines()[1:],
            [b"lrwxrwxrwx 8 dangling", b"prw-r--r-- 0 p", b"dr-x------ 60 e", b"-rw-r--r-- 3000000 e/big", b"/no/such",
             b"sparse"], "as it was")
    t.equal(files.simple(f.STAT, "/tmp/cp/n/d").mode, 0o2750, "the root's mode")
    for path, other, flags, error, stage in (
            ("/tmp/cp/d", "/tmp/cp/x", 0, errno.EISDIR, f.AT_PATH), ("/tmp/cp/a", "/tmp/cp/d", 0, errno.EISDIR, f.AT_OTHER),
            ("/tmp/cp/d", "/tmp/cp/d/e/x", f.RECURSIVE, errno.EINVAL, f.AT_OTHER),
            ("/tmp/cp/d", "/tmp/cp/d/x", f.RECURSIVE, errno.EINVAL, f.AT_OTHER),
            ("/tmp", "/tmp/cp/ld/x", f.RECURSIVE, errno.EINVAL, f.AT_OTHER),
            ("/tmp/cp/d", "/tmp/cp/n", f.RECURSIVE, errno.EEXIST, f.AT_OTHER),
            ("/tmp/cp/d/p", "/tmp/cp/x", 0, errno.EOPNOTSUPP, f.AT_PATH), ("/tmp/cp/a", "/tmp/cp/a", 0, errno.EINVAL, f.AT_OTHER),
            ("/proc/self/status", "/tmp/cp/x", 0, errno.EOPNOTSUPP, f.AT_PATH),
            ("/tmp/cp/no", "/tmp/cp/x", f.RECURSIVE, errno.ENOENT, f.AT_PATH)):
        result = files.simple(f.COPY, path, other=other, flags=flags)
        t.equal((result.error, result.stage), (error, stage), (path, other))
    t.equal(files.shell("cd /tmp/cp; find . -name '.berth*' -o -name x; chmod -R u+w .; rm -r /tmp/cp"), b"", "no rests")


def overlays(t, box, peer):
    files, root = f.Files(t, box, peer), "/over/lay"
    t.equal(files.read(f"{root}/file")[1], b"of the image\n", "read")
    for path, is_new in ((f"{root}/new/file", 1), (f"{root}/new/file", 0), (f"{root}/dir/file", 0)):
        result = files.write(path, b"mine" * 50000)
        t.equal((result.error, result.is_new), (0, is_new), path)
        t.equal(files.read(path)[1], b"mine" * 50000, path)
    worker = files.worker(f.request(f.WRITE, f"{root}/killed"))
    worker.next()
    worker.send(f.data(b"x" * (1 << 20)))
    peer.signal(worker.number, signal.SIGKILL)
    worker.rest()
    t.equal(worker.end(), -signal.SIGKILL, "killed")
    t.equal(files.simple(f.MOVE, f"{root}/dir", other=f"{root}/moved").error, errno.EXDEV, "a directory of the image")
    t.equal(files.simple(f.MOVE, f"{root}/new", other=f"{root}/moved").error, 0, "a new one")
    t.equal(files.simple(f.COPY, f"{root}/dir", other=f"{root}/copy", flags=f.RECURSIVE).error, 0, "copied")
    t.equal(files.simple(f.CHMOD, f"{root}/dir", mode=0o700, flags=f.RECURSIVE).error, 0, "changed")
    packed, result = files.pack(root)
    t.equal((result.error, {e.original for e, _ in packed if e.name == b"hard"}), (0, {b"file"}), "packed, with its hard link")
    t.check(all(b"overlay" not in e.xattrs for e, _ in packed), "without the overlay's notes")
    entries = (f.entry("dir", f.DIRECTORY, 0o755), f.entry("dir/file", size=2), f.data(b"xy"), f.entry("file", f.LINK, link="dir/file"),
               f.entry("hard", original="dir/file"))
    t.equal(files.unpack(root, *entries).error, 0, "unpacked over the image")
    t.equal(files.read(f"{root}/file")[1], b"xy", "what is there now")
    t.equal(files.names(root, flags=f.RECURSIVE | f.HIDDEN), [b"copy", b"copy/file", b"copy/other", b"dir", b"dir/file", b"dir/other",
                                                              b"file", b"hard", b"moved", b"moved/file"], "and nothing else")
    for name in ("dir", "file", "hard", "copy", "moved"):
        t.equal(files.simple(f.REMOVE, f"{root}/{name}", flags=f.RECURSIVE).error, 0, name)
    t.equal(files.names(root, flags=f.HIDDEN), [], "removed")
    t.equal(files.simple(f.REMOVE, root, flags=f.RECURSIVE).error, errno.EBUSY, "not the mount itself")
    files.write(f"{root}/keep", b"")
    t.equal(files.simple(f.REMOVE, "/over", flags=f.RECURSIVE).error, errno.EBUSY, "nor from above")
    t.equal(files.names(root), [b"keep"], "what is in it stays")


if __name__ == "__main__":
    s.main([lists, lists_what_may_be_seen, wide_directories, deep_trees, makes_directories, moves, removes,
            refuses_in_the_middle, changes_modes, copies, overlays])
