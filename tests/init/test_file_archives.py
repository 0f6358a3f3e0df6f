"""The file worker packs and unpacks trees; archives are hostile."""

import errno
import struct

import files as f
import sandbox as s

TIME = 10 ** 18 + 123456789


def xattr(name, value):
    return name + b"\0" + struct.pack("<I", len(value)) + value


def as_frames(packed):
    for entry, pieces in packed:
        yield f.entry(entry.name, entry.type, entry.mode, entry.size, entry.mtime_ns, (entry.uid, entry.gid), entry.link,
                      entry.original, entry.xattrs)
        for piece in pieces:
            yield f.hole(piece) if isinstance(piece, int) else f.data(piece)


def facts(packed):
    return {e.name: (e.type, e.mode, e.size, e.link, e.original, e.xattrs,
                     b"".join(b"\0" * p if isinstance(p, int) else p for p in pieces),
                     e.mtime_ns if e.name else 0) for e, pieces in packed}


def round_trips(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/pk/b/c /tmp/pk/empty; cd /tmp/pk; printf data > a; chmod 4640 a; ln a b/hard; ln a b/c/hard;"
                "ln -s /etc/passwd l; ln -s nowhere b/dangling; mkfifo -m 610 p; head -c 3000000 /dev/urandom > b/big;"
                "truncate -s 300M sparse; printf x | dd of=sparse bs=1 seek=200000000 conv=notrunc 2>/dev/null;"
                "truncate -s 5M hole; touch none \"$(printf '\\377\\nx')\"; ln -s l b/c/ll; touch -h -d @1000000000 l;"
                "touch -d @1000000000.123456789 a b/c empty; touch -d @1 b; chmod 511 b/c; chmod 1777 empty; chmod 750 .;"
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'")
    packed, result = files.pack("/tmp/pk")
    t.equal((result.error, result.count), (0, len(packed)), "packed")
    names = [e.name for e, _ in packed]
    t.equal(names, [b"", b"a", b"b", b"b/big", b"b/c", b"b/c/hard", b"b/c/ll", b"b/dangling", b"b/hard", b"empty", b"hole",
                    b"l", b"none", b"p", b"sparse", b"\xff\nx"], "in order, without the socket")
    found = facts(packed)
    t.equal(found[b"a"][:3] + (found[b"a"][6:]), (f.FILE, 0o4640, 4, b"data", TIME), "a file")
    t.equal((found[b"b/hard"][4], found[b"b/c/hard"][4], found[b"b/hard"][6]), (b"a", b"a", b""), "hard links")
    t.equal((found[b"l"][3], found[b"b/dangling"][3]), (b"/etc/passwd", b"nowhere"), "links")
    sent = sum(len(p) for _, pieces in packed for p in pieces if not isinstance(p, int))
    t.check(sent < 3500000, f"holes are not sent: {sent}")
    result = files.unpack("/tmp/again/tree", *as_frames(packed))
    t.equal((result.error, result.count, result.where), (0, len(packed), b""), "unpacked")
    again, _ = files.pack("/tmp/again/tree")
    t.check(facts(again) == found, "the same")
    text = files.shell("cd /tmp/again/tree; stat -c '%a %h %n' . a b/hard; [ $(du -k sparse | cut -f1) -lt 1000 ] && echo sparse;"
                       "find . -name '.berth*'")
    t.check(b"750 " in text and b"4640 3 b/hard\n" in text and b"sparse\n" in text and b".berth" not in text, text)
    files.shell("chmod 700 /tmp/again/tree; echo changed > /tmp/again/tree/a; rm /tmp/again/tree/l; mkdir /tmp/again/tree/new")
    result = files.unpack("/tmp/again/tree", *as_frames(packed))
    t.equal(result.error, 0, "over what is there")
    again = facts(files.pack("/tmp/again/tree")[0])
    t.check(again.pop(b"new") and {n: v for n, v in again.items() if n} == {n: v for n, v in found.items() if n}, "replaced")
    t.equal(files.simple(f.STAT, "/tmp/again/tree").mode, 0o700, "the root that was there stays as it is")
    packed, result = files.pack("/tmp/pk/a")
    t.equal([(e.name, e.type, p) for e, p in packed], [(b"", f.FILE, [b"data"])], "a file alone")
    for path, error in (("/tmp/pk/no", errno.ENOENT), ("/tmp/pk/p", errno.EOPNOTSUPP), ("/proc/self/root", errno.ELOOP)):
        t.equal(files.pack(path)[1].error, error, path)
    files.shell("chmod -R u+w /tmp/pk /tmp/again; rm -r /tmp/pk /tmp/again")


def patterns(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/pt/a/b/c /tmp/pt/node_modules/x /tmp/pt/a/node_modules/y; cd /tmp/pt;"
                "touch a/x.o a/b/y.o a/b/c/z.c top.c 'a/[q]'")
    every = {"a", "a/[q]", "a/b", "a/b/c", "a/b/c/z.c", "a/b/y.o", "a/node_modules", "a/node_modules/y", "a/x.o",
             "node_modules", "node_modules/x", "top.c"}
    for given, gone in (
            ([], set()), (["no"], set()), ([""], set()), (["/"], set()),
            (["*.o"], {"a/x.o", "a/b/y.o"}), (["/*.c"], {"top.c"}), (["a/*.o"], {"a/x.o"}), (["**/*.c"], {"top.c", "a/b/c/z.c"}),
            (["node_modules"], {n for n in every if "node_modules" in n}),
            (["/node_modules/"], {"node_modules", "node_modules/x"}), (["top.c/"], set()),
            (["a/**"], {n for n in every if n.startswith("a/")}), (["a/**/z.c", "[!a-z]q]"], {"a/b/c/z.c", "a/[q]"}),
            (["\\[q\\]"], {"a/[q]"}), (["[[]q]"], {"a/[q]"}), (["?.o"], {"a/x.o", "a/b/y.o"}), (["[x-z].[oc]"], {"a/x.o", "a/b/y.o", "a/b/c/z.c"}),
            (["[", "[a", "[a-", "\\", "a/**/.c", "***", "[]"][:5], set()), (["a/b*"], {n for n in every if n.startswith("a/b")}),
            (["*"], every), (["a/**/y.o", "a/**/b/c"], {"a/b/y.o", "a/b/c", "a/b/c/z.c"})):
        packed, result = files.pack("/tmp/pt", patterns=given)
        t.equal({e.name.decode() for e, _ in packed} - {""}, every - gone, given)
    t.equal(files.pack("/tmp/pt", patterns=["*a" * 1000])[1].error, 0, "no explosion")
    files.shell("rm -r /tmp/pt")


def xattrs(t, box, peer):
    files = f.Files(t, box, peer)
    result = files.unpack("/tmp/xa", f.entry("d", f.DIRECTORY, 0o755, xattrs=xattr(b"user.d", b"1")),
                          f.entry("d/f", size=1, xattrs=xattr(b"user.a", b"value\0x") + xattr(b"user.empty", b"")
                                  + xattr(b"trusted.x", b"no") + xattr(b"user.overlay.opaque", b"y")
                                  + xattr(b"security.capability", b"no")), f.data(b"x"))
    t.equal(result.error, 0, "unpacked")
    found = facts(files.pack("/tmp/xa")[0])
    supported = box.run(peer, ["python3", "-c", "import os; os.setxattr('/tmp/xa/d/f', 'user.z', b'')"]).status == 0
    if supported:
        got = found[b"d/f"][5]
        t.equal(sorted((xattr(b"user.a", b"value\0x"), xattr(b"user.empty", b""))),
                sorted(x for x in (xattr(b"user.a", b"value\0x"), xattr(b"user.empty", b"")) if x in got), "the user's own")
        t.check(b"overlay" not in got and b"trusted" not in got and b"security" not in got, f"and no others: {got}")
        t.equal(found[b"d"][5], xattr(b"user.d", b"1"), "of a directory")
    for bad in (b"user.a", b"user.a\0\1\0\0", b"user.a\0\2\0\0\0x", b"\0"):
        result = files.unpack("/tmp/xa", f.entry("bad", xattrs=bad))
        t.equal((result.error, result.where), (errno.EINVAL, b"bad"), bad)
    files.shell("rm -r /tmp/xa")


def escapes(t, box, peer):
    files = f.Files(t, box, peer)
    files.shell("mkdir -p /tmp/out /tmp/es/sub; echo safe > /tmp/out/file; ln -s /tmp/out /tmp/es/abs; ln -s ../out /tmp/es/rel;"
                "ln -s sub /tmp/es/in; ln -s /proc/self/root /tmp/es/magic; ln -s .. /tmp/es/sub/up")
    for name in ("../x", "/x", "a/../../x", "a//b", "a/./b", ".", "..", "a/", "./a", "a\0b"):
        result = files.unpack("/tmp/es", f.entry(name, size=1), f.data(b"x"))
        t.equal((result.error, result.stage, result.where), (errno.EINVAL, f.AT_ENTRY, name.encode().split(b"\0")[0]), name)
    for name, errors in (("abs/x", {errno.EXDEV}), ("rel/x", {errno.EXDEV}), ("magic/tmp/x", {errno.ELOOP, errno.EXDEV}),
                         ("abs/new/x", {errno.EXDEV}), ("sub/up/up/x", {errno.ENOENT, errno.EXDEV, 0}),
                         ("sub/up/rel/x", {errno.EXDEV})):
        result = files.unpack("/tmp/es", f.entry(name, size=1), f.data(b"x"))
        t.check(result.error in errors, f"{name}: {result.error}")
        result = files.unpack("/tmp/es", f.entry(name, f.DIRECTORY, 0o777))
        t.check(result.error in errors, f"{name}/: {result.error}")
    t.equal(files.unpack("/tmp/es", f.entry("in/x", size=1), f.data(b"x")).error, 0, "a link that stays in")
    result = files.unpack("/tmp/es", f.entry("evil", f.LINK, 0o777, link="/tmp/out"), f.entry("evil/file", size=4), f.data(b"evil"))
    t.equal((result.error, result.where, result.count), (errno.EXDEV, b"evil/file", 1), "through its own link")
    result = files.unpack("/tmp/es", f.entry("evil2", f.LINK, 0o777, link="../out/file"), f.entry("evil2", size=4), f.data(b"evil"))
    t.equal(result.error, 0, "a file instead of a link")
    for original, error in (("../out/file", errno.EINVAL), ("/tmp/out/file", errno.EINVAL), ("abs/file", errno.EXDEV),
                            ("rel/file", errno.EXDEV), ("sub", errno.EPERM), ("no", errno.ENOENT)):
        result = files.unpack("/tmp/es", f.entry("hard", original=original))
        t.equal((result.error, result.where), (error, b"hard"), original)
    t.equal(files.unpack("/tmp/es", f.entry("h", original="abs")).error, 0, "a link to a link")
    t.equal(files.simple(f.STAT, "/tmp/es/h", flags=f.NO_FOLLOW).type, f.LINK, "is that link")
    t.equal(files.unpack("/tmp/es", f.entry("in", f.DIRECTORY, 0o755), f.entry("in/y", size=0)).error, 0, "a directory instead of a link")
    t.equal(files.simple(f.STAT, "/tmp/es/in", flags=f.NO_FOLLOW).type, f.DIRECTORY, "it is one")
    for kind in (f.CHAR_DEVICE, f.BLOCK_DEVICE, f.SOCKET, f.NONE):
        result = files.unpack("/tmp/es", f.entry("dev", kind))
        t.equal((result.error, result.where), (errno.EPERM, b"dev"), kind)
    t.equal(files.shell("cat /tmp/out/file; ls -A /tmp/out; ls /tmp/es/sub; find /tmp/es -name '.berth*'; rm -r /tmp/es /tmp/out"),
            b"safe\nfile\nup\nx\n", "nothing got out")


def odd_entries(t, box, peer):
    files = f.Files(t, box, peer)
    result = files.unpack("/tmp/od", f.entry("d", f.DIRECTORY, 0o500), f.entry("d/e", f.DIRECTORY, 0o555, mtime_ns=TIME),
                          f.entry("d/e/f", size=0), f.entry("d/f", mode=0), f.entry("x/y/z", size=2), f.hole(1), f.data(b"z"),
                          f.entry("x/y", f.DIRECTORY, 0o700), f.entry("x/y", f.DIRECTORY, 0o711))
    t.equal((result.error, result.count, result.bytes), (0, 7, 2), "modes that would shut us out")
    t.equal(files.shell("cd /tmp/od; stat -c '%a %n' d d/e d/f x x/y; stat -c %Y d/e; od -c x/y/z | head -1; chmod 700 d d/e"),
            b"500 d\n555 d/e\n0 d/f\n755 x\n711 x/y\n1000000000\n0000000  \\0   z\n", "as they should be")
    for frames, error in (((f.entry("d"),), errno.EISDIR), ((f.entry("x/y/z/w"),), errno.ENOTDIR),
                          ((f.entry("", f.FILE),), errno.ENOTDIR), ((f.entry("l", f.LINK),), errno.EINVAL),
                          ((f.entry("y" * 256),), errno.ENAMETOOLONG), ((f.entry("x" + "/y" * 2047 + "z"),), errno.ENAMETOOLONG),
                          ((f.entry("bomb", size=1 << 63),), errno.EFBIG)):
        t.equal(files.unpack("/tmp/od", *frames).error, error, frames[0][:40])
    t.check(files.unpack("/tmp/od", f.entry("bomb", size=(1 << 63) - 1), f.hole((1 << 63) - 1)).error
            in (errno.EFBIG, errno.EINVAL, 0), "a hole as large as it gets")
    for sent in ((), (f.entry("cut", size=5), f.data(b"123")), (f.entry("cut", size=5), f.data(b"123456")),
                 (f.entry("cut", size=5), f.entry("other")), (f.entry("cut", size=5)[:-3],), (s.frame(f.GO, 0),),
                 (f.entry("cut", size=5), f.END_FRAME)):
        worker = files.worker(f.request(f.UNPACK, "/tmp/od"), *sent)
        t.equal(worker.next().error, 0, "it waits for entries")
        worker.close_stdin()
        t.equal((worker.rest(), worker.end()), (b"", 1), "cut off")
    t.equal(files.simple(f.STAT, "/tmp/od/cut").error, errno.ENOENT, "all or nothing")
    t.equal(files.unpack("/etc/passwd", f.entry("x")).error, errno.ENOTDIR, "not below a file")
    deep = "n" + "/n" * 2000
    t.equal(files.unpack("/tmp/od", f.entry(deep, size=0)).error, 0, "deep")
    packed, result = files.pack("/tmp/od/n")
    t.equal((result.error, len(packed)), (0, 2001), "and back")
    dirs = (f.entry("m" + "/m" * i, f.DIRECTORY, 0o755) for i in range(2000))
    t.equal(files.unpack("/tmp/od", *dirs).count, 2000, "directory by directory")
    files.shell("rm -r /tmp/od")


@s.needs_ids
def owners(t, box, peer):
    files, alice = f.Files(t, box, peer), f.Files(t, box, peer, "alice")
    entries = (f.entry("d", f.DIRECTORY, 0o755, ids=(5, 6)), f.entry("d/f", ids=(7, 8)), f.entry("d/l", f.LINK, link="x", ids=(9, 10)))
    files.shell("mkdir -m 777 /tmp/ow")
    for user, path, flags, expected in ((files, "a", 0, b"0:0\n" * 3), (files, "b", f.OWNERS, b"5:6\n7:8\n9:10\n"),
                                        (alice, "c", 0, b"1000:1001\n" * 3)):
        t.equal(user.unpack(f"/tmp/ow/{path}", *entries, flags=flags).error, 0, path)
        t.equal(files.shell(f"cd /tmp/ow/{path}; stat -c %u:%g d d/f d/l"), expected, path)
    t.equal(alice.unpack("/tmp/ow/d", *entries, flags=f.OWNERS).error, errno.EPERM, "not alice's to give")
    t.equal(alice.unpack("/tmp/ow/a", *entries).error, errno.EACCES, "not alice's directory")
    files.shell("chmod 600 /tmp/ow/a/d/f")
    packed, result = alice.pack("/tmp/ow/a")
    t.equal((result.error, result.stage, result.where), (errno.EACCES, f.AT_ENTRY, b"d/f"), "what alice may not read")
    files.shell("rm -r /tmp/ow")


def many_entries(t, box, peer):
    files = f.Files(t, box, peer)
    frames = [f.entry(f"d{i // 1000}/{i}", size=3) + f.data(b"abc") for i in range(10000)]
    result = files.unpack("/tmp/many", *frames)
    t.equal((result.error, result.count, result.bytes), (0, 10000, 30000), "unpacked")
    packed, result = files.pack("/tmp/many")
    t.equal((result.error, len(packed)), (0, 10011), "packed")
    t.equal(files.simple(f.REMOVE, "/tmp/many", flags=f.RECURSIVE).count, 10011, "removed")


if __name__ == "__main__":
    s.main([round_trips, patterns, xattrs, escapes, odd_entries, owners, many_entries])
