"""Trees of real sandboxes out and in as archives, and archives that were made to do harm.

The numbers are those of the security checks. BERTH_MILLION=1 makes the long archive a million entries long,
BERTH_PROJECT=DIR takes the tree that goes there and back from there, such as a real node_modules.
"""

import concurrent.futures
import gzip
import hashlib
import http.client
import io
import lzma
import os
import socket
import subprocess
import tarfile
import time
import zlib

from file_api import MB, Peak, check, equal, ground, main, put, refused, stat, until, workers

ENTRIES = 1_000_000 if os.environ.get("BERTH_MILLION") == "1" else 100_000
OWN_PROJECT = os.environ.get("BERTH_PROJECT")
AT_ONCE, HYDRATES = 20, 16

# Names, modes, owners, times, links, attributes and contents of a tree, as one number per line.
LOOK = r"""
import hashlib, os, stat, sys
root = os.fsencode(sys.argv[1])
first = {}
def tell(path):
    st = os.lstat(path)
    name = os.path.relpath(path, root)
    facts = [repr(name), oct(st.st_mode), st.st_uid, st.st_gid]
    if not stat.S_ISDIR(st.st_mode) or path != root:
        facts.append(st.st_mtime_ns)
    if stat.S_ISLNK(st.st_mode):
        facts.append(repr(os.readlink(path)))
    else:
        facts.append([(n, os.getxattr(path, n, follow_symlinks=False)) for n in
                      sorted(os.listxattr(path, follow_symlinks=False)) if n.startswith('user.')])
    if stat.S_ISREG(st.st_mode):
        facts += [st.st_size, hashlib.sha256(open(path, 'rb').read()).hexdigest(), st.st_nlink]
        if st.st_nlink > 1:
            facts.append(first.setdefault((st.st_dev, st.st_ino), name))
    print(*facts)
def walk(path):
    if path != root:
        tell(path)
    if stat.S_ISDIR(os.lstat(path).st_mode):
        for name in sorted(os.listdir(path)):
            walk(os.path.join(path, name))
walk(root)
"""

PROJECT = r"""
import os, random
r = random.Random(1)
os.makedirs('/workspace/p/node_modules/.bin')
os.chdir('/workspace/p')
for i in range(600):
    d = f'node_modules/{"@scope%d/" % (i % 9) if i % 5 == 0 else ""}pkg-{i}'
    os.makedirs(d + '/lib/deep')
    for j in range(9):
        path = f'{d}/{"lib/" * (j % 2)}{"deep/" * (j % 4 == 3)}file{j}.js'
        open(path, 'wb').write(r.randbytes(r.choice((0, 1, 511, 512, 513, 3000, 70000 if i % 50 == 0 else 9))))
        os.chmod(path, r.choice((0o644, 0o755, 0o600, 0o444)))
    os.symlink(f'../pkg-{i}/file0.js', f'node_modules/.bin/pkg-{i}')
print(sum(len(f) for _, _, f in os.walk('.')))
"""

ODD = r"""
import os
os.mkdir('/workspace/odd'); os.chdir('/workspace/odd')
w = lambda n, c=b'x': open(n, 'wb').write(c)
w('a', b'shared'); os.link('a', 'b'); os.mkdir('sub'); os.link('a', 'sub/c'); w('sub/own')
w(b'\xff\xfe bytes'); w('caf\u00e9', b'composed'); w('cafe\u0301', b'decomposed'); w('new\nline'); w(' '); w('-rf'); w('*')
w('n' * 255, b'long'); d = '/'.join(['d' * 200] * 5); os.makedirs(d); w(d + '/' + 'f' * 250, b'far')
os.symlink('t' * 3000, 'long-link'); os.symlink('/etc/passwd', 'out'); os.symlink('nowhere', 'dangling'); os.symlink(b'\xff', 'bytes-link')
os.mkfifo('fifo', 0o640); w('suid'); os.chmod('suid', 0o4755); w('none', b''); os.chmod('none', 0)
os.mkdir('empty', 0o700); os.chmod('empty', 0o1777); os.mkdir('closed'); w('closed/in'); os.chmod('closed', 0o500)
w('attr'); os.setxattr('attr', 'user.one', b'\0\1\2'); os.setxattr('attr', 'user.two', b'v' * 3000)
os.setxattr('sub', 'user.dir', b'd')
os.utime('a', ns=(0, 10 ** 18 + 123456789)); os.utime('none', ns=(0, 0)); os.utime('out', (5, 5), follow_symlinks=False)
for n, t in (('before', -86400), ('after', 10413792000)): w(n); os.utime(n, (5, t))
f = open('sparse', 'wb'); f.truncate(40 << 20); f.seek(10 << 20); f.write(b'middle'); f.close()
open('hole', 'wb').truncate(3 << 20); f = open('tail', 'wb'); f.write(b'head'); f.truncate(2 << 20); f.close()
"""


def python(g, code, *words, name="a"):
    result = g.exec(name, ["python3", "-c", code, *words])
    equal((result.reason, result.code), ("exited", 0), f"{result}")
    return result.stdout


def look(g, path, name="a"):
    """Through a hash: the text may be larger than an answer."""
    text = g.run_events(name, ["python3", "-c", LOOK, path])
    equal(text.code, 0, f"{text}")
    return text.stdout


def persist(g, name="a", **query):
    words = "&".join(f"{key}={value}" for key, value in query.items())
    reply = g.request("POST", f"/v1/sandbox/{name}/persist" + ("?" + words if words else ""))
    equal(reply.status, 200, f"persist: {reply}")
    return reply.body


def hydrate(g, archive, path="/workspace", name="a", more=""):
    return g.request("POST", f"/v1/sandbox/{name}/hydrate?path={path}{more}", archive)


def done(reply):
    equal(reply.status, 200, f"hydrate: {reply}")
    return reply.json()


def same(before, after):
    if before != after:
        old, new = before.splitlines(), after.splitlines()
        raise ground.Failed(f"{len(old)} and {len(new)} entries; lost {sorted(set(old) - set(new))[:5]}, "
                            f"new {sorted(set(new) - set(old))[:5]}")


def tar(*members, form=tarfile.PAX_FORMAT):
    """Of (name, TarInfo's members, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, errors="surrogateescape") as archive:
        for name, facts, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in facts.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def held(g):
    """berthd's threads and descriptors, without those of cgroups, which are kept for the next exec."""
    folder, links = f"/proc/{g.berthd.pid}/fd", []
    for fd in os.listdir(folder):
        try:
            links.append(os.readlink(f"{folder}/{fd}"))
        except OSError:
            pass
    return len(os.listdir(f"/proc/{g.berthd.pid}/task")), len([link for link in links if "/exec-" not in link])


def settled(g, before):
    """No worker, thread or descriptor of an archive is left."""
    until(lambda: g.sandbox("a")["execs"] == 0, "the workers to end", 45)
    try:
        until(lambda: all(now <= then for now, then in zip(held(g), before)), "threads and descriptors to go", 20)
    except ground.Failed as error:
        raise ground.Failed(f"threads and descriptors: {before} before, {held(g)} now") from error


def resources(g):
    """After something ran, so that what is there for ever is there."""
    g.out("a", "true")
    done(hydrate(g, tar(("warm", {}, b"x")), "/tmp/warm"))
    persist(g, path="/tmp/warm")
    until(lambda: g.sandbox("a")["execs"] == 0, "the workers to end")
    threads, fds = held(g)
    return threads, fds + 1  # the connection of whoever asks


# --- there and back ---

def test_project(g):
    """A project of thousands of files goes out and comes back the same, in another sandbox."""
    if OWN_PROJECT:
        packed = subprocess.run(["tar", "-c", "--owner=0", "--group=0", "-C", OWN_PROJECT, "."], capture_output=True,
                                check=True)
        done(hydrate(g, packed.stdout, "/workspace/p"))
        print("# " + g.out("a", "find p -type f | wc -l; find p -type l | wc -l; du -sm p").replace("\n", ", "))
    else:
        equal(python(g, PROJECT), b"6000\n", "files")
    before = look(g, "/workspace/p")
    check(before.count(b"\n") > 5000, before.count(b"\n"))
    archive = persist(g, path="/workspace/p")
    made = done(hydrate(g, archive, "/workspace/p", name="b"))
    equal(made["entries"], before.count(b"\n") + 1, "entries")
    same(before, look(g, "/workspace/p", "b"))
    done(hydrate(g, archive, "/workspace/p", name="b"))
    same(before, look(g, "/workspace/p", "b"))
    with tarfile.open(fileobj=io.BytesIO(archive)) as read:
        equal(len(read.getmembers()), made["entries"], "as Python reads it")


def test_odd(g):
    """Hard links, long and odd names, both forms of one, attributes, holes, modes: all the same."""
    python(g, ODD)
    before = look(g, "/workspace/odd")
    for query in ({}, {"sparse": 1}):
        archive = persist(g, path="/workspace/odd", **query)
        check((len(archive) < 5 * MB) == bool(query), query, len(archive))
        g.out("a", "chmod -R u+rwx /tmp/again 2>/dev/null; rm -rf /tmp/again")
        done(hydrate(g, archive, "/tmp/again"))
        same(before, look(g, "/tmp/again"))
        if query:
            equal(g.out("a", "[ $(du -k /tmp/again/sparse | cut -f1) -lt 1000 ] && echo sparse"), "sparse\n", "holes")
    folder = g.path("check")
    os.mkdir(folder)
    said = subprocess.run(["tar", "-xf", "-", "-C", folder, "--no-same-owner"], input=archive, capture_output=True,
                          check=False)
    equal(said.returncode, 0, f"GNU tar: {said.stderr[-500:]}")
    equal(sorted(os.listdir(os.fsencode(folder))),
          sorted(n for n in (eval(line.split(b" 0o")[0]) for line in before.splitlines())  # pylint: disable=eval-used
                 if b"/" not in n), "as GNU tar reads it")


def test_foreign(g):
    """What other programs pack: GNU, ustar and pax, and names that are no UTF-8."""
    names = ["plain", "caf\u00e9", "cafe\u0301", "\udcff\udcfe", "d/" * 60 + "f"]
    for form in (tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT):
        if form == tarfile.PAX_FORMAT:
            names.pop(2)  # libarchive composes the UTF-8 of pax headers anew, unless these say that it is binary
        archive = tar(*[(name, {"mode": 0o640, "mtime": 1000}, name.encode(errors="surrogateescape")) for name in names],
                      form=form)
        done(hydrate(g, archive, f"/tmp/f{form}"))
        for name in names:
            raw = os.fsencode(name)
            got = python(g, "import os, sys; sys.stdout.buffer.write(open(bytes.fromhex(sys.argv[1]), 'rb').read())",
                         (f"/tmp/f{form}/".encode() + raw).hex())
            equal(got, raw, f"{form} {name!r}")


def test_small(g):
    """An empty tree, one file, a tree that is not there, an empty archive."""
    g.out("a", "mkdir /tmp/empty; echo one >/tmp/one; chmod 640 /tmp/one")
    archive = persist(g, path="/tmp/empty")
    equal(done(hydrate(g, archive, "/tmp/e2"))["entries"], 1, "the root alone")
    equal(g.out("a", "ls -A /tmp/e2"), "", "nothing in it")
    archive = persist(g, path="/tmp/one")
    done(hydrate(g, archive, "/tmp/e3"))
    equal(g.out("a", "cat /tmp/e3/one; stat -c %a /tmp/e3/one"), "one\n640\n", "one file")
    reply = g.request("POST", "/v1/sandbox/a/persist?path=/tmp/none")
    refused(reply, 404, "not_found", "/tmp/none")
    reply = hydrate(g, archive, "/tmp/one")
    check(400 <= reply.status < 500 and "/tmp/one" in reply.json()["error"], reply)
    refused(hydrate(g, archive, "relative"), 400, "invalid_request", "path")
    for path in ("/proc/cpuinfo", "/proc/self/", "/proc"):
        refused(g.request("POST", f"/v1/sandbox/a/persist?path={path}"), 400, "invalid_request", path, "kernel")
        reply = g.request("POST", "/v1/sandbox/a/copy", {"from": path, "to": "/tmp/p", "recursive": True})
        refused(reply, 400, "invalid_request", path, "kernel")
    for nothing in (bytes(1024), bytes(10240), gzip.compress(bytes(1024))):
        equal(done(hydrate(g, nothing, "/tmp/e4"))["entries"], 0, f"{len(nothing)} zeros")


def test_excludes(g):
    """Paths and patterns are left out, with all below them."""
    g.out("a", "mkdir -p x/keep/deep x/cache/y x/keep/cache; touch x/a.o x/b.c x/keep/d.o x/keep/deep/e.o x/cache/y/z")
    with tarfile.open(fileobj=io.BytesIO(persist(g, path="/workspace/x", excludes="*.o,keep/cache,cache/y"))) as read:
        found = sorted(name.strip("./") for name in read.getnames())
    equal(found, ["", "b.c", "cache", "keep", "keep/deep"], "names")
    refused(g.request("POST", "/v1/sandbox/a/persist?excludes=" + "a," * 9000), 400, "invalid_request", "excludes")


def test_compressed(g):
    """Archives come in as gzip, xz and zstd too, and with more behind them."""
    plain = tar(("d/f", {"mode": 0o600}, b"content" * 1000), ("l", {"type": tarfile.SYMTYPE, "linkname": "d/f"}, b""))
    zstd = subprocess.run(["zstd", "-q", "-c"], input=plain, capture_output=True, check=True).stdout
    for number, archive in enumerate((gzip.compress(plain), lzma.compress(plain), zstd, plain + b"\0" * MB,
                                      plain + b"garbage behind its end" * 9999)):
        equal(done(hydrate(g, archive, f"/tmp/c{number}"))["entries"], 2, "entries")
        equal(g.out("a", f"cat /tmp/c{number}/l | sha256sum")[:64], hashlib.sha256(b"content" * 1000).hexdigest(), "bytes")


def test_owners(g):
    """Everything belongs to the sandbox's user, or with owners=1 to whom the archive says."""
    archive = tar(("f", {"uid": 1234, "gid": 4321, "uname": "root"}, b""), ("d", {"type": tarfile.DIRTYPE, "uid": 7, "gid": 8, "mode": 0o755}, b""))
    done(hydrate(g, archive, "/tmp/o1"))
    equal(g.out("a", "stat -c %u:%g /tmp/o1/f /tmp/o1/d"), "0:0\n0:0\n", "owners")
    done(hydrate(g, archive, "/tmp/o2", more="&owners=1"))
    equal(g.out("a", "stat -c %u:%g /tmp/o2/f /tmp/o2/d"), "1234:4321\n7:8\n", "owners that are wanted")


# --- hostile ---

def test_leading_out(g):
    """[17] Names, links and devices that lead out are refused by name, and nothing is written there."""
    g.out("a", "mkdir -p /tmp/t/in; echo safe >/tmp/t/outside")
    link, hard, device = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE
    evil = [[("../outside", {}, b"evil")], [("in/../../outside", {}, b"evil")], [("/tmp/t/outside", {}, b"evil")],
            [("..", {"type": tarfile.DIRTYPE}, b"")], [("h", {"type": hard, "linkname": "../outside"}, b"")],
            [("h", {"type": hard, "linkname": "/tmp/t/outside"}, b"")],
            [("s", {"type": link, "linkname": ".."}, b""), ("s/outside", {}, b"evil")],
            [("s", {"type": link, "linkname": "/tmp/t"}, b""), ("s/outside", {}, b"evil")],
            [("s", {"type": link, "linkname": "../outside"}, b""), ("h", {"type": hard, "linkname": "s"}, b""),
             ("t", {"type": link, "linkname": "/tmp/t"}, b""), ("h2", {"type": hard, "linkname": "t/outside"}, b"")],
            [("dev", {"type": device, "devmajor": 1, "devminor": 5}, b"")],
            [("dev", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0}, b"")]]
    for members in evil:
        for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
            g.out("a", "rm -rf /tmp/t/in; mkdir /tmp/t/in")
            reply = hydrate(g, tar(*members, form=form), "/tmp/t/in")
            words = (400, "invalid_request", "leads out of the tree") if members[-1][0] == "s/outside" else ()
            refused(reply, *(words or (min(max(reply.status, 400), 499), reply.json()["code"])))
            equal(g.out("a", "cat /tmp/t/outside; stat -c %h /tmp/t/outside; ls /tmp/t; find /tmp/t ! -type d -a ! -type f -a ! -type l"),
                  "safe\n1\nin\noutside\n", f"after {members}")
    # A link in the way of a file is replaced, not followed.
    g.out("a", "rm -rf /tmp/t/in; mkdir /tmp/t/in; ln -s ../outside /tmp/t/in/f; ln -s .. /tmp/t/in/d")
    done(hydrate(g, tar(("f", {}, b"new"), ("d", {"type": tarfile.DIRTYPE, "mode": 0o755}, b""), ("d/outside", {}, b"evil")),
                 "/tmp/t/in"))
    equal(g.out("a", "cat /tmp/t/in/f /tmp/t/outside"), "newsafe\n", "a link in the way")
    settled(g, resources(g))


def test_setuid(g):
    """[17] A set-uid program is root's only inside: the sandbox's user is nobody on the host."""
    done(hydrate(g, tar(("su", {"mode": 0o6755, "uid": 0}, b"#!/bin/sh\n")), "/tmp/s"))
    equal(g.out("a", "stat -c '%a %u' /tmp/s/su"), "6755 0\n", "inside")
    found = [os.path.join(folder, "su") for folder, _, names in os.walk(os.path.join(g.state, "sandboxes")) if "su" in names]
    check(found and all(os.stat(f).st_uid >= 1000 for f in found), found)


def sparse_header(name, real, data=b"x"):
    """A pax header of a sparse file, as large as one likes; it has one byte."""
    table = f"1\n{real - 1}\n1\n".encode().ljust(512, b"\0")
    pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name, "GNU.sparse.realsize": str(real)}
    return tar((name, {"pax_headers": pax}, table + data))


def sparse_blocks(count):
    """A sparse file as GNU tar had it first: blocks of a map, in front of its data."""
    head, part = bytearray(tarfile.TarInfo("f").tobuf(tarfile.GNU_FORMAT)), b"00000000001\0" + b"0" * 11 + b"\0"
    head[156:157], head[386:482], head[482], head[483:495] = b"S", part * 4, 1, b"00000000001\0"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + (part * 21 + b"\1" + bytes(7)) * count + part * 21 + bytes(8 + 1024)


def wide_xz(data):
    """An xz that asks for a window of 512 MiB, of which it uses nothing."""
    packed = bytearray(lzma.compress(data))
    end = 12 + (packed[12] + 1) * 4 - 4
    equal(packed[14:16], b"\x21\1", "the filter of the first block")
    packed[16] = 34
    packed[end:end + 4] = zlib.crc32(packed[12:end]).to_bytes(4, "little")
    return bytes(packed)


def cpu_seconds(g):
    with open(f"/proc/{g.berthd.pid}/stat", encoding="utf-8") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_bombs(g):
    """[17] Sparse and compressed bombs cost berthd nothing, and end at the disk's limit or the file's."""
    before = resources(g)
    with Peak(g.berthd.pid) as peak:
        reply = hydrate(g, sparse_header("big", 1 << 40), "/tmp/b")
        check(reply.status in (200, 400, 413, 507), reply)
        if reply.status == 200:
            equal(g.out("a", "stat -c %s /tmp/b/big; [ $(du -k /tmp/b/big | cut -f1) -lt 1000 ] && echo sparse"),
                  f"{1 << 40}\nsparse\n", "it is sparse")
        for real in (1 << 62, (1 << 63) - 1, 1 << 63, 1 << 70, 0, -5):
            reply = hydrate(g, sparse_header("huge", real), "/tmp/b")
            check(400 <= reply.status < 600 and reply.status != 500 or reply.status == 200, real, reply)
        # 4 GB of zeros in a few kilobytes, into 64 MB of room.
        head = tarfile.TarInfo("zeros")
        head.size = 4 << 30
        zeros = bytes(16 * MB)
        with subprocess.Popen(["zstd", "-q", "-c", "-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as packer:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                bomb = pool.submit(packer.stdout.read)
                packer.stdin.write(head.tobuf(tarfile.GNU_FORMAT))
                for _ in range(256):
                    packer.stdin.write(zeros)
                packer.stdin.close()
                bomb = bomb.result()
        check(len(bomb) < MB, len(bomb))
        reply = hydrate(g, bomb, "/dev/shm/b")
        spent = cpu_seconds(g)
        check(400 <= reply.status < 600 and reply.status != 500, reply)
        settled(g, before)
        spent = cpu_seconds(g) - spent
        check(spent < 1, f"the rest of a bomb was unpacked for nobody, in {spent} seconds")
        # What libarchive would keep in memory: a map of a sparse file, as text and in blocks, and a window of xz.
        count = 5_000_000
        pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "f", "GNU.sparse.realsize": "1"}
        text = f"{count}\n".encode() + b"1\n0\n" * count
        refused(hydrate(g, gzip.compress(tar(("f", {"pax_headers": pax}, text)), 1), "/tmp/b"), 400, "invalid_request",
                "tells more")
        refused(hydrate(g, gzip.compress(sparse_blocks(100_000), 1), "/tmp/b"), 400, "invalid_request", "tells more")
        refused(hydrate(g, wide_xz(tar(("f", {}, b"x"))), "/tmp/b"), 400, "invalid_request", "memory")
    if not ground.IS_SANITIZED:
        check(peak.most < 64 * MB, f"berthd held {peak.most >> 20} MB")


def test_many_entries(g):
    """[17] A hundred thousand entries, or a million: in memory that stays flat."""
    before = resources(g)
    rest = hashlib.sha256()

    def parts():
        for i in range(ENTRIES):
            info = tarfile.TarInfo(f"{i % 100}/{i}")
            info.mode = 0o644
            data = info.tobuf(tarfile.USTAR_FORMAT)
            rest.update(data)
            yield data
        yield bytes(1024)

    memory = ground.memory_of(g.berthd.pid)
    connection = g.connect(600)
    with Peak(g.berthd.pid) as peak:
        connection.request("POST", "/v1/sandbox/a/hydrate?path=/tmp/many", gathered(parts()), {"Transfer-Encoding": "chunked"},
                           encode_chunked=True)
        response = connection.getresponse()
        said = response.read()
    connection.close()
    check(response.status == 200 and b"%d" % ENTRIES in said, response.status, said)
    equal(g.out("a", "find /tmp/many -type f | wc -l"), f"{ENTRIES}\n", "files")
    if not ground.IS_SANITIZED:
        check(peak.most - memory < 16 * MB, f"berthd grew by {(peak.most - memory) >> 20} MB")
    settled(g, before)


def gathered(parts, size=MB):
    kept = []
    length = 0
    for part in parts:
        kept.append(part)
        length += len(part)
        if length >= size:
            yield b"".join(kept)
            kept, length = [], 0
    yield b"".join(kept)


def test_damaged(g):
    """Truncated, garbage, flipped bits: refused in a sentence or taken, never a hang or a crash."""
    before = resources(g)
    whole = tar(*[(f"f{i}", {}, os.urandom(3000)) for i in range(5)], ("x" * 300, {}, b"long"))
    packed = gzip.compress(whole)
    for data in (whole, packed):
        for cut in (1, 100, 511, 513, 1500, 2000, 5000, len(data) // 2):
            reply = hydrate(g, data[:cut], "/tmp/cut")
            check(reply.status in (200, 400), cut, reply)
            if cut % 512 and data is whole:
                refused(reply, 400, "invalid_request", "archive")
    # Where another file could begin. Without the zeros at its end it may be the half of one.
    for cut in (0, 512 + 3072, 2 * (512 + 3072)):
        for data in (whole[:cut], gzip.compress(whole[:cut]), lzma.compress(whole[:cut])):
            refused(hydrate(g, data, "/tmp/cut"), 400, "invalid_request", "cut")
    equal(done(hydrate(g, whole[:2 * (512 + 3072)] + bytes(512), "/tmp/cut"))["entries"], 2, "with one block of zeros")
    refused(hydrate(g, b"this is no archive at all " * 1000, "/tmp/x"), 400, "invalid_request", "archive cannot be read")
    refused(hydrate(g, os.urandom(100000), "/tmp/x"), 400, "invalid_request")
    refused(hydrate(g, b"\x1f\x8b\x08\0" + os.urandom(5000), "/tmp/x"), 400, "invalid_request")
    for i in range(0, 1536, 37):
        flipped = bytearray(whole)
        flipped[i] ^= 1 << i % 8
        check(hydrate(g, bytes(flipped), "/tmp/flip").status in (200, 400), i)
    broken = bytearray(whole)
    broken[3584 + 100] ^= 1  # the second header's mode: its checksum is wrong
    refused(hydrate(g, bytes(broken), "/tmp/flip"), 400, "invalid_request", "cannot be read")
    settled(g, before)


def begin(g, length, sent, path="/tmp/gone"):
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(60)
    c.connect(g.socket)
    c.sendall(f"POST /v1/sandbox/a/hydrate?path={path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
    c.sendall(sent)
    return c


def test_gone(g):
    """A client that leaves in the middle, of either: its worker, thread and descriptors go."""
    before = resources(g)
    archive = tar(("f", {}, os.urandom(8 * MB)))
    for sent in (0, 1, 600, 100000, 5 * MB):
        begin(g, len(archive), archive[:sent]).close()
        settled(g, before)
    for sent in (0, 1, 600, 100000, 5 * MB) * 2:
        begin(g, len(archive), archive[:sent]).close()
    settled(g, before)
    equal(g.out("a", "find /tmp/gone -name 'f' -o -name '.berth*'"), "", "what is left")
    g.out("a", "head -c 100000000 /dev/urandom >/tmp/big")
    for taken in (0, 1, 100000):
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(60)
        c.connect(g.socket)
        c.sendall(b"POST /v1/sandbox/a/persist?path=/tmp HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        left = taken
        while left > 0:
            left -= len(c.recv(min(left, 65536)))
        c.close()
    settled(g, before)


def kill_worker(g):
    os.kill(until(lambda: workers(g), "a worker")[0], 9)


def test_killed(g):
    """A worker that is killed in the middle is an error, of a hydrate and of a persist."""
    before = resources(g)
    archive = tar(("f", {}, os.urandom(8 * MB)))
    c = begin(g, len(archive), archive[:3 * MB])
    kill_worker(g)
    response = http.client.HTTPResponse(c)
    response.begin()
    check(response.status == 502, response.status)
    response.read()
    response.close()
    c.close()
    settled(g, before)
    g.out("a", "head -c 50000000 /dev/urandom >/tmp/big")
    connection = g.connect()
    connection.request("POST", "/v1/sandbox/a/persist?path=/tmp")
    response = connection.getresponse()
    response.read(1000)
    kill_worker(g)
    try:
        response.read()
        raise ground.Failed("half an archive came as a whole one")
    except (http.client.IncompleteRead, ConnectionError):
        pass
    finally:
        response.close()
        connection.close()
    check("persist was cut" in g.log_text(), "the log says why")
    settled(g, before)
    equal(g.out("a", "echo on"), "on\n", "and it goes on")


def test_full(g):
    """A full file system inside: 507 with the entry's name, and nothing half-written stays."""
    before = resources(g)
    room = int(g.out("a", "df -k --output=size /dev/shm | tail -1")) * 1024
    check(room < 200 * MB, room)
    archive = tar(("first", {}, b"x"), ("too/large", {}, bytes(room + MB)), ("last", {}, b"x"))
    refused(hydrate(g, archive, "/dev/shm/h"), 507, "disk_limit", "too/large")
    equal(g.out("a", "ls -A /dev/shm/h /dev/shm/h/too"), "/dev/shm/h:\nfirst\ntoo\n\n/dev/shm/h/too:\n", "what is there")
    settled(g, before)


def test_at_once(g):
    """Sixteen are unpacked at once; more are told so at once, and it works when one is done."""
    before = resources(g)
    archive = tar(("f", {}, os.urandom(2 * MB)))
    clients = [begin(g, len(archive), archive[:MB], f"/tmp/once{i}") for i in range(HYDRATES)]
    until(lambda: held(g)[0] >= before[0] + HYDRATES, "sixteen threads")
    for i in range(AT_ONCE - HYDRATES):
        refused(hydrate(g, tar(("f", {}, b"x")), f"/tmp/more{i}"), 503, "capacity_exceeded", "16")
    for c in clients:
        c.sendall(archive[MB:])
    for c in clients:
        response = http.client.HTTPResponse(c)
        response.begin()
        equal((response.status, response.read()[:12]), (200, b'{"entries":1'), "the sixteen")
        response.close()
        c.close()
    settled(g, before)
    done(hydrate(g, archive, "/tmp/later"))


def test_slow_reader(g):
    """[21] 500 MB out to a client that reads slowly, with flat memory."""
    size = 500 * MB
    g.out("a", f"head -c {size} /dev/zero >/tmp/large")
    persist(g, path="/etc/hostname")
    before = ground.memory_of(g.berthd.pid)
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(60)
    c.connect(g.socket)
    with Peak(g.berthd.pid) as peak:
        c.sendall(b"POST /v1/sandbox/a/persist?path=/tmp/large HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        got = len(c.recv(1000))
        time.sleep(1.5)  # nothing to await: it must stay as it is
        while data := c.recv(MB):
            got += len(data)
    c.close()
    check(got > size, got)
    if not ground.IS_SANITIZED:
        check(peak.most - before < 16 * MB, f"berthd grew by {(peak.most - before) >> 20} MB")


def test_nothing_of_it(g):
    """A hydrate over what is there keeps what the archive does not name; one that fails says where."""
    put(g, "/workspace/h/kept", b"kept")
    g.out("a", "mkdir -p h/dir/full; touch h/dir/full/x")
    done(hydrate(g, tar(("new", {}, b"new"), ("kept2/f", {}, b"x")), "/workspace/h"))
    equal(g.out("a", "cat h/kept h/new"), "keptnew", "both")
    reply = hydrate(g, tar(("first", {}, b"1"), ("dir/full", {}, b"no file replaces a directory")), "/workspace/h")
    check(reply.status in (400, 409) and "dir/full" in reply.json()["error"], reply)
    equal(stat(g, "/workspace/h/dir/full/x")["type"], "file", "what is in it")


if __name__ == "__main__":
    main([test_project, test_odd, test_foreign, test_small, test_excludes, test_compressed, test_owners, test_leading_out,
          test_setuid, test_bombs, test_many_entries, test_damaged, test_gone, test_killed, test_full, test_at_once,
          test_slow_reader, test_nothing_of_it])
