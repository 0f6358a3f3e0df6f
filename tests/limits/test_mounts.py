"""Folders of the host and file systems in memory that sandboxes have mounted: whose files they are, what is refused,
and what hostile disks make of it."""

import contextlib
import io
import json
import os
import stat
import subprocess
import sys
import tarfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))
# pylint: disable=wrong-import-position
import ground  # noqa: E402
from ground import check, equal, main, needs_root, until  # noqa: E402
from mount_api import (NOBODY, ROOT_ALONE, bind, elsewhere, folder, host_mount, inside, mounted,  # noqa: E402
                       options_of, put, read, refused, restart, start, write)

# --- binds ---


def test_write(g):
    """A folder of the host is written to; as root, its owner's files are those of root inside."""
    own = g.is_root
    source = folder(g, "work", mode=0o755 if own else 0o777)
    write(source + "/old", "of the owner\n", 0o600 if own else 0o644)
    write(source + "/roots", "of root\n", 0o600, owner=0)
    start(g, g.path("host"))
    equal(g.get("/v1/info").json()["abilities"]["own_binds"], own, "what is told")
    mounted(g, "a", bind(source, "/workspace/data"))
    equal(inside(g, "a", "/workspace/data")[:2], ["0", "0"] if own else [str(NOBODY)] * 2, "whose it is")
    equal(g.out("a", "cat /workspace/data/old"), "of the owner\n", "a private file")
    g.out("a", "mkdir /workspace/data/d && echo new >/workspace/data/d/new")
    found = os.stat(source + "/d/new")
    equal(read(source + "/d/new"), "new\n", "on the host")
    if own:
        equal((found.st_uid, found.st_gid), (ground.place.USER,) * 2, "whose on the host")
        equal(inside(g, "a", "/workspace/data/d/new")[:2], ["0", "0"], "whose inside")
        # Nobody else has a number there, and root inside is not root.
        equal(inside(g, "a", "/workspace/data/roots")[:2], [str(NOBODY)] * 2, "root's")
        check(g.exec("a", "cat /workspace/data/roots").code != 0, "a file of the host's root")
        check(g.exec("a", "chown 5 /workspace/data/old").code != 0, "a file was given away")
        check(g.exec("a", "echo x >/workspace/data/x", user="1000").code != 0, "another user inside")
        g.out("a", "chmod 777 /workspace/data")
        check(g.exec("a", "echo x >/workspace/data/x", user="1000").code != 0, "a file of nobody")
    else:
        check(found.st_uid not in (0, ground.place.USER), "whose on the host:", found.st_uid)
        os.chmod(source, 0o755)
        check(g.exec("a", "echo x >/workspace/data/x").code != 0, "written without the right of others")
    equal(sorted(os.listdir(source)), ["d", "old", "roots"], "on the host")


def test_read(g):
    """read_only is read-only; a folder of the host's root can be read as others can, and not be written to."""
    source = folder(g, "work", mode=0o777)
    write(source + "/file", "text\n")
    roots = folder(g, "roots", owner=0)
    write(roots + "/all", "for all\n", owner=0)
    write(roots + "/own", "for root\n", 0o600, owner=0)
    start(g, g.path("host"))
    mounted(g, "a", bind(source, "/mnt/a", True), bind(roots, "/mnt/roots", True))
    equal(g.out("a", "cat /mnt/a/file /mnt/roots/all"), "text\nfor all\n", "what is read")
    for attempt in ("echo x >/mnt/a/x", "rm /mnt/a/file", "chmod 777 /mnt/a/file", "mount -o remount,rw /mnt/a",
                    "echo x >/mnt/roots/x"):
        check(g.exec("a", attempt).code != 0, attempt)
    if not g.is_root:
        return
    check(g.exec("a", "cat /mnt/roots/own").code != 0, "a private file of root")
    equal(inside(g, "a", "/mnt/roots/all")[:2], [str(NOBODY)] * 2, "whose")
    refused(g, "forbidden", bind(roots, "/mnt/a"), words=[roots, "read_only", "ordinary user"])
    os.chown(roots, ground.place.USER, 0)
    refused(g, "forbidden", bind(roots, "/mnt/a"), words=[roots, "group 0"])


def test_allowed(g):
    """Only what --allow-bind allows is mounted, and only as it allows; the innermost one decides."""
    for name in ("a", "a/rw", "a/rw/x", "ab", "b"):
        folder(g, *name.split("/"), mode=0o777)
    at, missing = g.path("host"), g.path("host", "later")
    start(g, f"{at}/a/:ro", f"{at}/a/rw", missing)
    mounted(g, "a", bind(f"{at}/a", "/mnt/a", True), bind(f"{at}/a/rw/x", "/mnt/x"), bind(f"{at}/a/rw", "/mnt/rw"))
    g.out("a", "echo x >/mnt/x/file")
    equal(g.out("a", "cat /mnt/a/rw/x/file"), "x\n", "the same folder")
    check(g.exec("a", "echo x >/mnt/a/rw/file").code != 0, "written through the read-only one")
    refused(g, "forbidden", bind(f"{at}/a", "/mnt/a"), words=[f"{at}/a", "read_only", "true"])
    for path in (f"{at}/ab", f"{at}/b", at, "/", "/etc", "/root"):
        refused(g, "forbidden", bind(path, "/mnt/a", True), words=[path, "allow_bind"])
    refused(g, "start_failed", bind(f"{at}/a/none", "/mnt/a", True), words=[f"{at}/a/none"])
    # What was not there when the keeper began.
    refused(g, "start_failed", bind(missing, "/mnt/a", True), words=[missing])
    folder(g, "later")
    mounted(g, "b", bind(missing, "/mnt/a", True))
    # And what has become another folder.
    os.rename(f"{at}/a", f"{at}/c")
    os.symlink("/etc", f"{at}/a")
    refused(g, "forbidden", bind(f"{at}/a", "/mnt/a", True), words=[f"{at}/a"])


def test_none_allowed(g):
    """Without --allow-bind no folder can be mounted, and what is in memory can."""
    start(g)
    refused(g, "forbidden", bind(folder(g, "work"), "/mnt/a", True), words=["allow_bind"])
    mounted(g, "a", {"type": "tmpfs", "size": "1M", "target": "/mnt/t"})


def test_sources(g):
    """Links, files, Berth's own directories and the kernel's are no sources."""
    source = folder(g, "work", mode=0o777)
    folder(g, "work", "real", "deep")
    os.symlink("real", source + "/link")
    os.symlink("/etc", source + "/etc")
    write(source + "/file", "text\n")
    start(g, g.dir, "/", "/proc", "/sys", "/dev", "/proc/self/fd")
    for path in (f"{source}/link", f"{source}/link/deep", f"{source}/etc", f"{source}/etc/ssl"):
        refused(g, "forbidden", bind(path, "/mnt/a", True), words=[path, "link"])
    refused(g, "start_failed", bind(f"{source}/file", "/mnt/a", True), words=["no folder"])
    refused(g, "start_failed", bind(f"{source}/file/x", "/mnt/a", True))
    for path in (f"{source}/../work", f"{source}//real", f"{source}/real/", f"{source}/./real", "work", ""):
        refused(g, "invalid_request", bind(path, "/mnt/a", True), words=["mounts[0].source"])
    for path in (g.state, g.run, g.path("home"), g.dir, f"{g.state}/sandboxes", f"{g.run}/berthd"):
        refused(g, "forbidden", bind(path, "/mnt/a", True), words=[path, "own"])
    for path in ("/", "/proc", "/proc/1", "/proc/self/fd", "/sys", "/sys/kernel", "/dev", "/dev/shm"):
        refused(g, "forbidden", bind(path, "/mnt/a", True), words=[path])
    mounted(g, "a", bind(f"{source}/real/deep", "/mnt/a", True))


@ROOT_ALONE
def test_aliases(g):
    """Berth's own directories are found also where they are mounted a second time, or below what is."""
    home = g.path("home")
    for name in ("state", "run"):
        os.makedirs(os.path.join(home, name), mode=0o711)
    with elsewhere() as alias, host_mount("--bind", home, target=alias):
        start(g, alias, f"{alias}/state")
        for path in (alias, f"{alias}/state", f"{alias}/run"):
            refused(g, "forbidden", bind(path, "/mnt/a", True), words=[path, "own"])


@ROOT_ALONE
def test_other_file_systems(g):
    """What is mounted below an allowed folder must be allowed by its own name; the host can unmount it again."""
    with elsewhere() as at, host_mount("-t", "tmpfs", "berth-test", target=at):
        # As systemd has all of them: what happens to mounts here happens in the keeper's namespace, too.
        subprocess.run(["mount", "--make-shared", at], check=True)
        source, disk = folder(g, "work", at=at), folder(g, "work", "disk", at=at)
        with host_mount("-t", "tmpfs", "berth-test", target=disk):
            folder(g, "work", "disk", at=at)
            folder(g, "work", "disk", "deep", at=at)
            start(g, source)
            refused(g, "forbidden", bind(disk, "/mnt/a"), words=[disk, "file system"])
            g.stop()
            start(g, source, disk)
            mounted(g, "a", bind(disk + "/deep", "/mnt/a"))
            g.out("a", "echo x >/mnt/a/x")
            equal(read(disk + "/deep/x"), "x\n", "on the host")
            # While it runs, and without -l.
            subprocess.run(["umount", disk], check=True)
            equal(g.out("a", "cat /mnt/a/x"), "x\n", "it lives on inside")
            subprocess.run(["mount", "-t", "tmpfs", "berth-test", disk], check=True)
            equal(restart(g, "a").json().get("code"), "forbidden", "another folder is there now")
        os.rmdir(disk)


@needs_root
def test_nested(g):
    """What the host has mounted below a folder, or will have, is not seen in it."""
    with elsewhere() as at, contextlib.ExitStack() as stack:
        if g.is_root:
            subprocess.run(["mount", "-t", "tmpfs", "berth-test", at], check=True)
            stack.callback(subprocess.run, ["umount", "-l", at], check=True)
            subprocess.run(["mount", "--make-shared", at], check=True)
        source = folder(g, "work", mode=0o777, at=at)
        early, late = folder(g, "work", "early", at=at), folder(g, "work", "late", at=at)
        with host_mount("-t", "tmpfs", "berth-test", target=early):
            write(early + "/secret", "of the host\n")
            start(g, source)
            if not g.is_root:
                refused(g, "unsupported", bind(source, "/mnt/a"), words=[source, "mounted below"])
                return
            mounted(g, "a", bind(source, "/mnt/a"))
            equal(g.out("a", "ls /mnt/a/early"), "", "what is mounted there")
            with host_mount("-t", "tmpfs", "berth-test", target=late):
                write(late + "/secret", "of the host\n")
                equal(g.out("a", "ls /mnt/a/late"), "", "what is mounted there now")


# --- targets ---


def test_targets(g):
    """A target is made, as root's inside, also in a root that is read-only; /workspace itself can be one."""
    source = folder(g, "work", mode=0o777)
    start(g, source)
    mounted(g, "a", bind(source, "/srv/deep/er"), {"type": "tmpfs", "size": "1M", "target": "/workspace"})
    equal([inside(g, "a", path) for path in ("/srv/deep", "/workspace")],
          [["0", "0", "755"], ["0", "0", "1777"]], "what was made")
    equal(g.out("a", ["pwd"]), "/workspace\n", "where commands run")
    mounted(g, "b", bind(source, "/workspace/w"), {"type": "tmpfs", "size": "1M", "target": "/var/t"},
            bind(source, "/opt/r", True), read_only=True)
    g.out("b", "echo x >/workspace/w/x && echo x >/var/t/x && echo x >/workspace/x")
    check(g.exec("b", "echo x >/var/x").code != 0, "the root is writable")
    check(g.exec("b", "echo x >/opt/r/x2").code != 0, "a read-only bind is writable")
    equal(os.listdir(source), ["x"], "on the host")
    equal(restart(g, "b").status, 200, "again")
    equal(g.out("b", "ls /workspace/w /var/t"), "/var/t:\n\n/workspace/w:\nx\n", "after a restart")


def test_in_the_way(g):
    """Links and files that root inside has put in a target's path are told, and never followed."""
    source, outside = folder(g, "work", mode=0o777), folder(g, "outside", mode=0o777)
    start(g, source)
    for number, (make, target, word) in enumerate((
            (f"ln -s {outside} /srv/t", "/srv/t", "link"),
            (f"ln -s {outside} /srv/t", "/srv/t/deep", "link"),
            ("rm -rf /srv && ln -s / /srv", "/srv/etc", "link"),
            ("ln -s /proc/self/root /srv/t", "/srv/t/x", "link"),
            ("ln -s nowhere /srv/t", "/srv/t", "link"),
            ("echo x >/srv/t", "/srv/t", "file"),
            ("mkfifo /srv/t", "/srv/t/x", "no folder"),
            ("rm -rf /workspace && ln -s /etc /workspace", "/workspace/x", "link"))):
        name = f"s{number}"
        g.out(name, f"mkdir -p /srv; {make}", cwd="/")
        equal(g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "stop"}).status, 200, "stop")
        reply = put(g, name, bind(source, target))
        equal(reply.json().get("code"), "start_failed", f"{make}: {reply}")
        for part in (target, word, "remove it"):
            check(part in reply.json()["error"], part, reply)
        # As the sentence says: without it, remove what is there, and try again.
        equal(put(g, name).status, 200, "without it")
        g.out(name, "rm -rf /srv/t; test ! -L /srv || rm /srv; test ! -L /workspace || rm /workspace", cwd="/")
        equal(g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "stop"}).status, 200, "stop")
        mounted(g, name, bind(source, target))
        equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
    equal((os.listdir(source), os.listdir(outside)), ([], []), "on the host")


SWAP = r"""
import ctypes, os, sys
libc, outside = ctypes.CDLL(None), sys.argv[1].encode()
pairs = []
for path in (b"/srv", b"/srv/a", b"/srv/a/b", b"/workspace/w", b"/opt/o"):
    os.makedirs(path, exist_ok=True)
    link = path + b".link"
    os.path.lexists(link) or os.symlink(outside, link)
    pairs.append((path, link))
def swap():
    return [p.decode() for p, link in pairs if libc.renameat2(-100, p, -100, link, 2) == 0]  # RENAME_EXCHANGE
print("swapped", *swap(), flush=True)
while True: swap()
"""


def test_5(g):
    """5: links and folders that are targets of mounts swap places until the sandbox is stopped: no host path is seen."""
    source, outside = folder(g, "work", mode=0o777), folder(g, "outside", mode=0o777)
    write(outside + "/secret", "of the host\n")
    before, kinds, swapped = os.stat(outside), {}, set()
    start(g, source)
    mounts = [bind(source, "/srv/a/b/c"), {"type": "tmpfs", "size": "1M", "target": "/workspace/w/t"},
              bind(source, "/opt/o/r", True)]
    for turn in range(10):
        equal(put(g, "a").status, 200, "without mounts")
        reply = g.request("POST", "/v1/sandbox/a/processes",
                          {"argv": ["/usr/bin/python3", "-c", SWAP, outside], "cwd": "/", "id": f"swap{turn}"})
        equal(reply.status, 200, reply)
        told = g.request("POST", f"/v1/sandbox/a/processes/swap{turn}/wait",
                         {"for": "log", "pattern": "swapped.*", "timeout_ms": 60000})
        equal(told.status, 200, told)
        log = g.get(f"/v1/sandbox/a/processes/swap{turn}/logs", Accept="application/octet-stream").body.decode()
        swapped |= set(log.split()[1:])
        g.request("PUT", "/v1/sandbox/a", {"mounts": mounts, "stop_grace": "0s"})
        reply = restart(g, "a")
        kind = "started" if reply.status == 200 else reply.json()["code"]
        kinds[kind] = kinds.get(kind, 0) + 1
        check(kind in ("started", "start_failed"), reply)
        if kind == "started":
            seen = g.exec("a", "cat /srv/a/b/c/secret /srv/a/b/secret /srv/secret /workspace/w/t/secret /opt/o/r/secret "
                               f"{outside}/secret; echo x >/srv/a/b/c/x; echo x >/workspace/w/t/x", cwd="/")
            check(b"of the host" not in seen.stdout, seen)
        equal(os.listdir(outside), ["secret"], "outside")
        g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
        put(g, "a")
        g.out("a", "rm -rf /srv /srv.link /workspace/w* /opt/o*", cwd="/")
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    after = os.stat(outside)
    equal((after.st_mode, after.st_uid, after.st_ctime_ns), (before.st_mode, before.st_uid, before.st_ctime_ns), "outside")
    print(f"# {kinds}, swapped {sorted(swapped)}")
    check("start_failed" in kinds and len(swapped) >= 3, kinds, swapped)


# --- in memory ---


MANY = """
import os
os.unlink("/mnt/s/big")
try:
    for count in range(100000): open(f"/mnt/s/{count}", "w").close()
except OSError as error: print(error.strerror, count)
"""


def test_tmpfs(g):
    """A file system in memory holds its size and its number of files, and is everybody's inside."""
    start(g)
    mounted(g, "a", {"type": "tmpfs", "size": "4M", "target": "/mnt/t"}, {"type": "tmpfs", "size": "64K", "target": "/mnt/s"},
            {"type": "tmpfs", "size": "1M", "target": "/mnt/r", "read_only": True})
    equal(inside(g, "a", "/mnt/t"), ["0", "0", "1777"], "whose")
    result = g.exec("a", "head -c 5000000 /dev/zero >/mnt/t/big")
    check(result.code != 0 and b"No space" in result.stderr, result)
    equal(int(g.out("a", "wc -c </mnt/t/big")), 4 << 20, "what fits")
    g.out("a", "rm /mnt/t/big")
    g.out("a", "echo x >/mnt/t/small", user="1000")
    check(g.exec("a", "head -c 100000 /dev/zero >/mnt/s/big").code != 0, "beyond 64K")
    result = g.exec("a", ["python3", "-c", MANY])
    check(b"No space" in result.stdout and 900 < int(result.stdout.split()[-1]) <= 1024, result)
    check(g.exec("a", "echo x >/mnt/r/x").code != 0, "a read-only one")
    check("ro" in options_of(g, "a", "/mnt/r"), "a read-only one")


def test_safe(g):
    """Neither set-uid files nor devices work in either, for whoever is inside."""
    source = folder(g, "work", mode=0o777)
    if os.getuid() == 0:
        os.mknod(source + "/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.chmod(source + "/null", 0o666)
    start(g, source)
    mounted(g, "a", bind(source, "/mnt/a"), {"type": "tmpfs", "size": "4M", "target": "/mnt/t"})
    for target in ("/mnt/a", "/mnt/t"):
        check({"nosuid", "nodev"} <= options_of(g, "a", target), target, options_of(g, "a", target))
        g.out("a", f"cp /usr/bin/id {target}/id && chmod 6755 {target}/id")
        equal(g.out("a", [f"{target}/id", "-u"], user="1000"), "1000\n", "a set-uid file")
    if os.getuid() == 0:
        check(g.exec("a", "echo x >/mnt/a/null").code != 0, "a device")


# --- lives ---


def test_lives(g):
    """Binds outlive stops, and a keeper that was killed; what is in memory outlives the keeper alone."""
    source = folder(g, "work", mode=0o777)
    start(g, source)
    before = g.state_of_things()
    mounted(g, "a", bind(source, "/mnt/a"), {"type": "tmpfs", "size": "1M", "target": "/mnt/t"})
    g.out("a", "echo 1 >/mnt/a/f; echo 1 >/mnt/t/f")
    equal(restart(g, "a").status, 200, "start")
    equal(g.out("a", "cat /mnt/a/f; ls /mnt/t"), "1\n", "after a stop")
    g.out("a", "echo 2 >/mnt/t/f")
    generation = g.sandbox("a")["generation"]
    g.kill_keeper()
    equal(g.out("a", "echo 3 >/mnt/a/f; cat /mnt/t/f"), "2\n", "without its keeper")
    until(lambda: g.get("/v1/info").json()["keeper"]["answers"], "a new keeper")
    equal((g.sandbox("a")["generation"], read(source + "/f")), (generation, "3\n"), "adopted")
    equal(restart(g, "a").status, 200, "start by the new keeper")
    equal(g.out("a", "cat /mnt/a/f; ls /mnt/t"), "3\n", "after all")
    shown = g.sandbox("a")["mounts"]
    equal([(m["type"], m["target"]) for m in shown], [("bind", "/mnt/a"), ("tmpfs", "/mnt/t")], "what is told")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    g.check_same(before)
    equal(os.listdir(source), ["f"], "what is the host's stays")


def test_change(g):
    """A change of the mounts waits for the next start, and says so."""
    one, two = folder(g, "one"), folder(g, "two")
    write(one + "/1", "")
    write(two + "/2", "")
    start(g, g.path("host"))
    mounted(g, "a", bind(one, "/mnt/a", True))
    reply = g.request("PUT", "/v1/sandbox/a", {"mounts": [bind(two, "/mnt/a", True)]})
    equal((reply.status, reply.json()["restart_needed"]), (200, True), reply)
    equal(g.out("a", "ls /mnt/a"), "1\n", "before")
    equal(restart(g, "a").status, 200, "start")
    equal(g.out("a", "ls /mnt/a"), "2\n", "after")


# --- by a berthd that has gone bad ---


def test_bad_berthd(g):
    """The keeper checks what a berthd asks for again: paths, targets, and the list itself."""
    k = ground.place.k
    source = folder(g, "work", mode=0o777)
    keeper, line = g.spawn("--idle-ms", "60000", "--allow-bind", g.path("host"))
    equal(line, "ready", "the keeper's first line")
    g.own_keepers.append(keeper)
    link = ground.place.Place.connect(g)
    link.hello()
    tmpfs = ("tmpfs", "rw", "65536", "/a")
    lists = [("bind", "rw", f"{source}/../../..", "/a"), ("bind", "rw", source, "/a/../../b"), ("bind", "rw", source, "/"),
             ("bind", "rw", source, "/usr/lib"), ("bind", "rw", source, "/proc/x"), ("bind", "rw", source),
             ("bind", "xx", source, "/a"), ("disk", "rw", source, "/a"), ("bind", "rw", "", "/a"), ("bind", "rw", source, ""),
             ("tmpfs", "rw", "1", "/a"), tmpfs + tmpfs, tmpfs * 20, ("bind", "rw", source, "a"), ("bind", "rw", "work", "/a")]
    for words in lists:
        for text in ("".join(word + "\0" for word in words), "\0".join(words)):
            frame = link.ask(k.START, id="one", generation=1, image="host", mounts=text)
            equal((frame.type, k.ERRORS.get(frame.code)), (k.FAILED, "invalid_request"), words)
    for path in ("/etc", g.state, g.path("host2")):
        frame = link.ask(k.START, id="one", generation=1, image="host", mounts=f"bind\0ro\0{path}\0/a\0")
        equal((frame.type, k.ERRORS.get(frame.code)), (k.FAILED, "forbidden"), path)
    frame = link.ask(k.START, id="one", generation=1, image="host", mounts=f"bind\0ro\0{source}\0/a\0")
    equal(frame.type, k.STARTED, frame)
    for fd in frame.fds:
        os.close(fd)
    equal(link.ask(k.KILL, id="one", generation=1).type, k.DONE, "kill")
    equal(link.ask(k.REMOVE, id="one", generation=1).type, k.DONE, "remove")
    keeper.terminate()
    equal(keeper.wait(ground.TIMEOUT), 0, "the keeper's exit code")
    g.check_nothing_left()


# --- by berthd and berth ---


def test_config(g):
    """allow_bind of the file and of flags are one list; what it does not allow is refused before it is stored."""
    one, two = folder(g, "one"), folder(g, "two")
    file = g.path("config.json")
    with open(file, "w", encoding="utf-8") as out:
        json.dump({"allow_bind": [one + ":ro", "host/three"]}, out)
    os.chmod(file, 0o644)
    g.start("--config", file, "--allow-bind", two + "/")
    equal(g.get("/v1/info").json()["allow_bind"], [one + ":ro", g.path("host/three"), two], "what is told")
    mounted(g, "a", bind(one, "/mnt/1", True), bind(two, "/mnt/2", True))
    for mount, words in ((bind(one, "/mnt/1"), ["read_only"]), (bind("/srv", "/mnt/1"), ["allow_bind"])):
        for method, path in (("PUT", "/v1/sandbox/b"), ("POST", "/v1/sandbox")):
            reply = g.request(method, path, {"mounts": [mount]})
            equal((reply.status, reply.json()["code"]), (403, "forbidden"), reply)
            check(all(word in reply.json()["error"] for word in words), reply)
    equal([s["id"] for s in g.list_all()], ["a"], "what was made")
    g.kill_berthd()
    g.start("--allow-bind", two)  # the first one is not allowed any more
    stays = [bind(one, "/mnt/1", True), bind(two, "/mnt/2", True)]
    for body in ({"labels": {"n": "1"}}, {"labels": {"n": "2"}, "mounts": stays}):
        reply = g.request("PUT", "/v1/sandbox/a", body)
        equal((reply.status, reply.json().get("labels")), (200, body["labels"]), "a change by which mounts stay")
    equal(g.request("PUT", "/v1/sandbox/a", {"mounts": stays[:1]}).status, 403, "others")


def test_taken_back(g):
    """A list that is changed holds from the next start on; where a keeper has to stay, of both what both allow."""
    one, two = folder(g, "one"), folder(g, "two")
    g.start("--allow-bind", one)
    mounted(g, "a", bind(one, "/mnt/1", True))
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    for allowed, refused_one in ((two, one), (one, two)):
        g.berthd.terminate()
        equal(g.berthd.wait(ground.TIMEOUT), 0, "berthd's exit code")
        g.start("--allow-bind", allowed)
        equal(g.request("PUT", "/v1/sandbox/x", {"mounts": [bind(refused_one, "/mnt/1", True)]}).status, 403, "the other")
        mounted(g, "b", bind(allowed, "/mnt/1", True))
        equal(g.request("POST", "/v1/sandbox/b/sleep", {"mode": "stop"}).status, 200, "stop")
    g.out("c", "true")  # and its keeper stays
    g.kill_berthd()
    g.start()
    equal(g.request("PUT", "/v1/sandbox/b", {"labels": {"a": "b"}}).status, 200, "what was stored before")
    equal(g.request("POST", "/v1/sandbox/b/start").json().get("code"), "forbidden", "its start, whatever its keeper allows")
    for path in (one, two):
        equal(g.request("PUT", "/v1/sandbox/d", {"mounts": [bind(path, "/mnt/1", True)]}).status, 403, "none is allowed")


def berth(g, *words, code=0):
    done = subprocess.run([os.path.abspath(os.path.join(g.build, "berth")), "--socket", g.socket, *words], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, timeout=ground.TIMEOUT, cwd=g.path("host"))
    equal(done.returncode, code, done)
    return done.stdout.decode() if code == 0 else done.stderr.decode()


def test_cli(g):
    """berth create and run take --mount, -v and --tmpfs; inspect shows what is mounted."""
    source = folder(g, "work", mode=0o777)
    write(source + "/file", "text\n")
    start(g, source)
    berth(g, "create", "a", "--mount", f"type=bind,source={source},target=/mnt/a,ro", "-v", "work:/mnt/b/",
          "--tmpfs", "/mnt/t:1M", "--mount", "type=tmpfs,target=/mnt/u,size=2M,readonly")
    equal(berth(g, "exec", "a", "cat", "/mnt/a/file", "/mnt/b/file"), "text\ntext\n", "inside")
    shown = [line.split(None, 1) for line in berth(g, "inspect", "a").splitlines()]
    start_at = next(i for i, words in enumerate(shown) if words[0] == "mounts")
    lines = [" ".join(words) for words in shown[start_at:start_at + 4]]
    equal(lines, [f"mounts /mnt/a: {source}, read-only", f"/mnt/b: {source}", "/mnt/t: 1 MiB of memory",
                  "/mnt/u: 2 MiB of memory, read-only"], "inspect")
    equal(berth(g, "run", "--rm", "-v", f"{source}:/mnt/a:ro", "--", "cat", "/mnt/a/file"), "text\n", "run")
    for words in (["-v", "x"], ["-v", "/x:/y:z"], ["--tmpfs", "/x"], ["--mount", "type=bind,what=x"],
                  ["--mount", "source=/x"], ["-v", "none:/x"]):
        check(berth(g, "create", *words, code=2), words)
    check(berth(g, "create", "-v", "/etc:/mnt/a", code=1), "not allowed")
    check("/usr" in berth(g, "run", "--rm", "-v", f"{source}:/usr/x", "--", "true", code=125), "a reserved target")
    equal([s["id"] for s in g.list_all()], ["a"], "what was made")


# --- by the file API ---


def test_files(g):
    """The file API and archives read and write in both, as anywhere else."""
    source = folder(g, "work", mode=0o777)
    write(source + "/host", "of the host\n")
    start(g, source)
    mounted(g, "a", bind(source, "/mnt/a"), {"type": "tmpfs", "size": "4M", "target": "/mnt/t"},
            bind(source, "/workspace/w"))
    at = "/v1/sandbox/a/file"
    equal(g.get(f"{at}/mnt/a/host").body, b"of the host\n", "read")
    for path in ("/mnt/a/new", "/mnt/t/new", "/mnt/a/deep/new"):
        check(g.request("PUT", at + path, b"by the API\n").status in (200, 201, 204), "write", path)
        equal(g.get(at + path).body, b"by the API\n", path)
    equal(read(source + "/new"), "by the API\n", "on the host")
    if g.is_root:
        equal(os.stat(source + "/new").st_uid, ground.place.USER, "whose")
    check(g.request("PUT", f"{at}/mnt/t/big", bytes(5 << 20)).json()["code"] == "disk_limit", "more than fits")
    equal(g.get(f"{at}/mnt/t/big").status, 404, "half of a file")
    archive = g.request("POST", "/v1/sandbox/a/persist?path=/mnt/a")
    equal(archive.status, 200, archive)
    done = g.request("POST", "/v1/sandbox/a/hydrate?path=/mnt/t", archive.body)
    equal(done.status, 200, done)
    equal(g.out("a", "cat /mnt/t/host /mnt/t/deep/new"), "of the host\nby the API\n", "from one into the other")
    # What is mounted in a folder is a part of it.
    whole = g.request("POST", "/v1/sandbox/a/persist")
    equal(whole.status, 200, whole)
    with tarfile.open(fileobj=io.BytesIO(whole.body)) as tar:
        check(any(name.endswith("w/host") for name in tar.getnames()), tar.getnames())


main([test_write, test_read, test_allowed, test_none_allowed, test_sources, test_aliases, test_other_file_systems,
      test_nested, test_targets, test_in_the_way, test_5, test_tmpfs, test_safe, test_lives, test_change, test_bad_berthd,
      test_config, test_taken_back, test_cli, test_files],
     start=lambda test: False)
