"""Limited disks: what they hold, what a full one can still do, and what kills and full hosts do to them."""

import errno
import glob
import io
import os
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "sandbox")]

# pylint: disable=wrong-import-position
from ground import check, equal, main, only, until  # noqa: E402
from pool import (FULL, MIB, NO_ROOM, attached, disk_of, doctor, end, fill, folder, image_of, limited, lost_of,  # noqa: E402
                  make, pool_of, refused, rest, size_of, start, stop, used_of_pool)

MANY = """
import itertools, os
os.mkdir("many")
for i in itertools.count():
    try:
        with open(f"many/{i}", "w") as file:
            file.write("x")
    except OSError as error:
        print(i, error.errno)
        break
"""


@only("root")
def test_holds(g):
    """[42] One large file, or many small ones: the limit holds to a few percent, and neighbours go on."""
    for name in ("a", "b"):
        limited(g, name, "32M")
    g.out("c", ["true"])
    size = fill(g, "a")
    check(30 * MIB < size <= 32 * MIB, size)
    check(size <= disk_of(g, "a")[0] <= 33 * MIB, disk_of(g, "a"))
    for name in ("b", "c"):
        g.out(name, "head -c 28M /dev/zero >big && sync big")
        equal(size_of(g, name, "big"), 28 * MIB, name)
    g.out("a", "rm big && head -c 20M /dev/zero >big")
    limited(g, "d", "4M")
    result = g.exec("d", ["python3", "-c", MANY])
    count, error = result.stdout.split()
    held, files = disk_of(g, "d")
    check(int(error) == errno.EDQUOT and 1000 < int(count) <= files and held <= 5 * MIB, held, files, result)
    g.out("d", "rm -r many && head -c 2M /dev/zero >big")
    end(g)


@only("root")
def test_full_disk(g):
    """A full one answers, runs commands, is cleaned, stopped and started, and is not mounted read-only."""
    limited(g, "a", "16M")
    g.out("a", "echo kept >f")
    fill(g, "a")
    refused(g.request("PUT", "/v1/sandbox/a/file/workspace/g", b"y" * MIB), 507, "disk_limit", "full")
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as archive:
        entry = tarfile.TarInfo("h")
        entry.size = MIB
        archive.addfile(entry, io.BytesIO(b"z" * MIB))
    refused(g.request("POST", "/v1/sandbox/a/hydrate", text.getvalue()), 507, "disk_limit")
    equal(g.out("a", "cat f; ls"), "kept\nbig\nf\n", "what is there")
    for mode in ("freeze", "stop"):
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": mode}).status, 200, mode)
        equal(g.out("a", "cat f"), "kept\n", f"after {mode}")
    equal(size_of(g, "a", "big") // MIB, 15, "the large file")
    check(FULL in g.exec("a", "head -c 1M /dev/zero >more").stderr, "it is still full")
    g.out("a", "rm big more; head -c 10M /dev/zero >big; rm -r /usr/local 2>/dev/null; mkdir new")
    equal(g.request("PUT", "/v1/sandbox/a/file/workspace/g", b"y" * MIB).status, 201, "there is room")
    fill(g, "a", "again")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    end(g)


@only("root")
def test_change(g):
    """A limit is raised, lowered below what is used, and lifted; but it cannot come later than the disk."""
    limited(g, "a", "16M")
    fill(g, "a")
    equal(make(g, "a", {"disk": "64M"}).status, 200, "raise")
    stop(g, "a")
    g.out("a", "head -c 24M /dev/zero >more")
    equal(make(g, "a", {"disk": "8M"}).status, 200, "lower")
    stop(g, "a")
    check(FULL in g.exec("a", "head -c 1M /dev/zero >no").stderr, "there is more than it may have")
    g.out("a", "rm big more no; head -c 4M /dev/zero >big")
    check(make(g, "a", {"disk": 0}).status == 200, "lift")
    stop(g, "a")
    g.out("a", "head -c 100M /dev/zero >more")
    check(disk_of(g, "a")[0] > 100 * MIB, disk_of(g, "a"))
    g.out("b", "echo kept >f")
    stop(g, "b")
    refused(make(g, "b", {"disk": "16M"}), 409, "conflict", "before its first start", "another sandbox")
    equal(make(g, "b", {"disk": 0}).status, 200, "as it was")
    equal(g.out("b", "cat f"), "kept\n", "its disk")
    refused(make(g, "d", {"disk": "16M", "inodes": 1000}), 501, "unsupported", "ephemeral", "limits.disk")
    # One whose limit was lifted has it back.
    stop(g, "a")
    for _ in range(2):
        equal(make(g, "a", {"disk": "128M"}).status, 200, "limited again")
    refused(make(g, "a", {"disk": "128M"}, ephemeral=True), 409, "conflict", "before its first start")
    check(FULL in g.exec("a", "head -c 100M /dev/zero >yet").stderr, "the limit")
    end(g)


def test_at_once(g):
    """What no start could have is refused when it is asked for, also of one that is cold; what stays is not."""
    g.out("a", "echo kept >f")
    for turn in ("running", "cold"):
        refused(make(g, "a", {}, ephemeral=True), 409, "conflict", "before its first start", "another sandbox")
        refused(make(g, "a", {"files": 1048576}), 501, "unsupported", "open files", "LimitNOFILE")
        refused(make(g, "a", {"inodes": 1000}), 501, "unsupported", "limits.inodes", "must be 0")
        shown = g.sandbox("a")
        equal((shown["ephemeral"], shown["limits"]["files"], shown["limits"]["inodes"]), (False, None, None), turn)
        for files in (1000, 0):
            equal(make(g, "a", {"files": files}, ephemeral=False).status, 200, f"what can be, {turn}")
        stop(g, "a")
    equal(g.out("a", "cat f"), "kept\n", "its disk")
    refused(g.request("POST", "/v1/sandbox", {"id": "b", "limits": {"files": 1048576}}), 501, "unsupported", "open files")
    equal(g.get("/v1/sandbox/b").status, 404, "what was not made")
    equal(make(g, "c", {"disk": "16M", "inodes": 500}, ephemeral=True).status, 200, "one in memory")
    refused(make(g, "c", {}, ephemeral=False), 501, "unsupported", "limits.inodes" if g.is_root else "without root")
    g.out("c", "true")
    stop(g, "c")
    for limits in ({}, {"disk": "32M"}, {"inodes": 600}):
        equal(make(g, "c", limits, ephemeral=True).status, 200, limits)
    equal(make(g, "c", {"disk": 0, "inodes": 0}, ephemeral=False).status, 200, "a disk that lasts")
    g.out("c", "true")
    refused(make(g, "c", {}, ephemeral=True), 409, "conflict", "before its first start")
    equal(g.request("PUT", "/v1/sandbox/c", {"labels": {"x": "y"}}).status, 200, "another change")
    end(g)


def check_alive(g, pid):
    until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    equal(g.sandbox("a")["generation"], 1, "generation")
    g.out("a", f"kill -0 {pid} && grep -q kept f && head -c 1M /dev/zero >more && rm more")
    equal(len(attached(g)), 1, "loop devices")


@only("root")
def test_change_while_running(g):
    """The same without a stop: what is answered holds, and a change that is refused has changed nothing."""
    limited(g, "a", "16M")
    fill(g, "a")
    equal((make(g, "a", {"disk": "64M"}).status, g.sandbox("a")["restart_needed"]), (200, False), "raise")
    g.out("a", "head -c 24M /dev/zero >more; head -c 32M /dev/zero >/dev/shm/held")
    refused(make(g, "a", {"disk": "8M", "memory": "16M"}), 409, "conflict", "memory")
    g.out("a", "head -c 8M /dev/zero >yet")
    equal(make(g, "a", {"disk": "8M"}).status, 200, "lower")
    check(FULL in g.exec("a", "head -c 1M /dev/zero >no").stderr, "there is more than it may have")
    equal(make(g, "a", {"disk": 0}).status, 200, "lift")
    g.out("a", "head -c 100M /dev/zero >far")
    g.out("b", "true")
    refused(make(g, "b", {"disk": "16M"}), 409, "conflict", "before its first start")
    equal(g.sandbox("b")["limits"]["disk"], None, "nothing is stored")
    equal(make(g, "c", {"disk": "16M"}, ephemeral=True).status, 200, "one in memory")
    g.out("c", "true")
    refused(make(g, "c", {"disk": "32M"}), 501, "unsupported", "ephemeral")
    end(g)


@only("root")
def test_kills(g):
    """kill -9 of the keeper, of berthd, of all: it runs on, one loop device serves, and the data is there."""
    limited(g, "a", "32M")
    limited(g, "cold", "16M")
    g.out("cold", "echo cold >f")
    stop(g, "cold")
    pid = g.out("a", "echo kept >f; setsid sleep 1000 >/dev/null 2>&1 & echo $!").strip()
    g.kill_keeper()
    check_alive(g, pid)
    g.kill_berthd()
    g.start()
    check_alive(g, pid)
    for kill in (g.kill_keeper, g.kill_keeper_and_monitor):
        g.kill_berthd()
        kill()
        g.start()
        check_alive(g, pid)
    check(30 * MIB < fill(g, "a") <= 32 * MIB, "the limit")
    g.out("a", "rm big")
    equal(g.out("cold", "cat f"), "cold\n", "one that did not run")
    stop(g, "a")
    equal(g.out("a", "cat f"), "kept\n", "after a stop")
    equal(len(attached(g)), 1, "loop devices")
    end(g)


@only("root")
def test_new_pool(g):
    """What a keeper that died left half-made is made anew; a pool is found again when nothing has run for a while."""
    with open(g.path("other"), "wb") as file:
        file.write(b"x" * MIB)
    os.link(g.path("other"), os.path.join(g.state, "pool.img.new"))
    limited(g, "a", "16M")
    equal(os.path.exists(os.path.join(g.state, "pool.img.new")), False, "the half-made one")
    equal(os.stat(g.path("other")).st_size, MIB, "what is behind its name")
    g.out("a", "echo kept >f")
    rest(g, "a")
    g.start()
    equal(g.out("a", "cat f"), "kept\n", "after a while")
    # Its mount point is a large file now, which is out of the way at once, and gone soon.
    g.out("a", "rm -rf /tmp; head -c 8M /dev/zero >/tmp; sync /tmp")
    equal(make(g, "a", {"disk": "16M"}, read_only=True).status, 200, "read-only")
    stop(g, "a")
    g.out("a", "test -d /tmp && touch /tmp/x && cat f")
    until(lambda: disk_of(g, "a")[0] < 2 * MIB, "what was in the way to be gone")
    end(g)


def limited_with_text(g, *names):
    """Each has a limited disk, and its name in a file there."""
    for name in names:
        limited(g, name, "16M")
        g.out(name, f"echo {name} >f")


@only("root")
def test_moved_folder(g):
    """A disk whose folder is elsewhere for a while is kept, and is there again with its folder."""
    limited_with_text(g, "a", "b")
    rest(g, "a", "b")
    os.rename(folder(g, "a"), g.path("aside"))
    g.start()
    equal(g.out("b", "cat f"), "b\n", "the neighbour")
    refused(start(g, "a"), 502, "start_failed", "Put it back")
    equal([len(lost_of(g)), lost_of(g)[0] in g.log_text()], [1, True], "what is lost, and told")
    os.rename(g.path("aside"), folder(g, "a"))
    equal(g.out("a", "cat f"), "a\n", "what came back")
    equal(lost_of(g), [], "lost disks")
    rest(g, "a", "b")
    # A symlink may lead to a disk; and where no sandbox is, the wrong folder may be mounted.
    os.rename(folder(g, "a"), g.path("aside"))
    os.symlink(g.path("aside"), folder(g, "a"))
    g.start()
    equal((g.out("b", "cat f"), lost_of(g)), ("b\n", []), "beside a symlink")
    rest(g, "b")
    os.remove(folder(g, "a"))
    os.rename(folder(g, "b"), g.path("beside"))
    g.start()
    limited(g, "c", "16M")
    equal((len(os.listdir(pool_of(g))), lost_of(g)), (3, []), "disks")
    for name, place in (("a", "aside"), ("b", "beside")):
        os.rename(g.path(place), folder(g, name))
        equal(g.out(name, "cat f"), name + "\n", "what came back")
    end(g)


@only("root")
def test_moved_alive(g):
    """One that runs keeps its disk, its limit and its user ids wherever its folder is, also for the next keeper."""
    limited_with_text(g, "a", "b")
    os.rename(folder(g, "a"), g.path("aside"))
    g.kill_keeper()
    until(lambda: g.sandbox("a")["state"] == "running" and g.keeper(), "the sandbox to be adopted")
    limited(g, "c", "16M")
    ranges = [open(path, encoding="utf-8").read() for path in
              (g.path("aside", "range"), folder(g, "b", "range"), folder(g, "c", "range"))]
    equal(len(set(ranges)), 3, f"ranges {ranges}")
    equal(lost_of(g), [], "lost disks")
    equal(make(g, "a", {"disk": "32M"}).status, 200, "raise")
    check(30 * MIB < fill(g, "a") <= 32 * MIB, "the limit")
    os.rename(g.path("aside"), folder(g, "a"))
    stop(g, "a")
    equal(g.out("a", "cat f"), "a\n", "after a stop")
    end(g)


@only("root")
def test_missing_pool(g):
    """No new pool takes the place of one that is missing; what had its disk there is told so, and can be deleted."""
    limited_with_text(g, "a", "b")
    rest(g, "a", "b")
    os.rename(os.path.join(g.state, "pool.img"), g.path("pool"))
    g.start()
    refused(start(g, "a"), 502, "start_failed", "pool.img, which is not there")
    equal(make(g, "c", {"disk": "16M"}).status, 200, "another")
    refused(start(g, "c"), 502, "start_failed", "other sandboxes", "pool.img")
    g.out("d", "true")
    equal(g.request("DELETE", "/v1/sandbox/b").status, 204, "delete")
    until(lambda: not os.listdir(folder(g, ".trash")), "what had its disk there to be gone")
    equal(image_of(g), 0, "the pool")
    os.rename(g.path("pool"), os.path.join(g.state, "pool.img"))
    equal(g.out("a", "cat f"), "a\n", "when it is there again")
    equal((len(lost_of(g)), g.exec("c", "true").code), (1, 0), "what was deleted meanwhile is nobody's")
    shutil.rmtree(os.path.join(pool_of(g), lost_of(g)[0]))
    equal(lost_of(g), [], "what nobody misses")
    # The next keeper cannot open it, says so, and does when it is back.
    os.rename(os.path.join(g.state, "pool.img"), g.path("pool"))
    g.kill_keeper()
    until(lambda: "cannot grow until it can be opened" in g.log_text(), "that to be told")
    equal(g.out("a", "cat f"), "a\n", "without a pool")
    os.rename(g.path("pool"), os.path.join(g.state, "pool.img"))
    until(lambda: "is open again" in g.log_text(), "the pool to be opened")
    end(g)


@only("root")
def test_wrong_disk(g):
    """A folder and a disk that were not made for each other are not put together."""
    limited_with_text(g, "a", "b")
    rest(g, "a", "b")

    def swap():
        os.rename(folder(g, "a", "range"), g.path("range"))
        os.rename(folder(g, "b", "range"), folder(g, "a", "range"))
        os.rename(g.path("range"), folder(g, "b", "range"))
    swap()
    g.start()
    for name in ("a", "b"):
        refused(start(g, name), 502, "start_failed", "its part of", "missing")
    swap()
    for name in ("a", "b"):
        equal(g.out(name, "cat f"), name + "\n", "its own")
    end(g)


def set_limit(g, name, size):
    """As a keeper does that dies before it has written it down."""
    token, number = (open(folder(g, name, file), encoding="ascii").read().strip() for file in ("pooled", "range"))
    subprocess.run(["nsenter", f"--mount=/proc/{g.keeper()}/ns/mnt", "btrfs", "qgroup", "limit", size,
                    os.path.join(g.run, ".pool", f"{number}-{token}")], check=True)


@only("root")
def test_half_changed(g):
    """A limit that a keeper was about to change when it died is what was answered last, also if it cannot look yet."""
    limited(g, "a", "16M")
    set_limit(g, "a", "64M")
    g.kill_keeper()
    until(lambda: "adopted sandbox=a" in g.log_text() and g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    check(14 * MIB < fill(g, "a") <= 16 * MIB, "the limit")
    g.out("a", "rm big")
    set_limit(g, "a", "64M")
    os.rename(os.path.join(g.state, "pool.img"), g.path("pool"))
    g.kill_keeper()
    until(lambda: "cannot grow until it can be opened" in g.log_text(), "that to be told")
    until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    refused(make(g, "a", {"disk": "16M", "memory": "300M"}), 502, "start_failed", "pool.img")
    os.rename(g.path("pool"), os.path.join(g.state, "pool.img"))
    until(lambda: "is open again" in g.log_text(), "the pool to be opened")
    equal(make(g, "a", {"disk": "16M", "memory": "300M"}).status, 200, "another limit, when it holds")
    check(14 * MIB < fill(g, "a") <= 16 * MIB, "the limit")
    end(g)


@only("root")
def test_same_number(g):
    """No two folders with the same user ids run, and a disk in the pool that two folders have goes with the last."""
    limited_with_text(g, "a", "b")
    shutil.copytree(folder(g, "a"), folder(g, "c"))
    refused(start(g, "c", "16M"), 409, "conflict", '"a"', "the same user ids")
    equal(g.request("DELETE", "/v1/sandbox/c").status, 204, "delete")
    until(lambda: not os.listdir(folder(g, ".trash")), "the copy to be gone")
    stop(g, "a")
    equal(g.out("a", "cat f"), "a\n", "what it was a copy of")
    rest(g, "a", "b")
    os.rename(folder(g, "a"), g.path("aside"))
    g.start()
    g.out("d", "true")  # the pool is not open, so the number of what is away looks free
    os.rename(g.path("aside"), folder(g, "a"))
    refused(start(g, "a"), 409, "conflict", '"d"', "the same user ids")
    equal(g.request("DELETE", "/v1/sandbox/d").status, 204, "delete")
    equal(g.out("a", "cat f"), "a\n", "what came back")
    end(g)


def take_all(g, name):
    """Until the pool is full. How large it was."""
    before = image_of(g)
    try:
        with open(os.path.join(pool_of(g), name), "wb", buffering=0) as file:
            while file.tell() < 2 * before and file.write(b"x" * MIB):
                pass
    except OSError as error:  # also of open(), if not even a name has room
        equal(error.errno, errno.ENOSPC, "what ends it")
    return before


@only("root")
def test_trouble(g):
    """An image without its end is made whole; a pool that is read-only says what to do."""
    limited_with_text(g, "a")
    rest(g, "a")
    os.truncate(os.path.join(g.state, "pool.img"), image_of(g) - 16 * MIB)
    g.start()
    equal(g.out("a", "cat f"), "a\n", "what was not at the end")
    # Somebody takes what it has: all that run may still write what was promised.
    before = take_all(g, "taken")
    until(lambda: image_of(g) > before, "its growth")
    stop(g, "a")
    # Where nobody runs it does not grow, until somebody wants to.
    take_all(g, "more")
    until(lambda: start(g, "a").status == 200, "room for one that starts")
    for name in {"taken", "more"} & set(os.listdir(pool_of(g))):
        os.remove(os.path.join(pool_of(g), name))
    stop(g, "a")
    subprocess.run(["nsenter", f"--mount=/proc/{g.keeper()}/ns/mnt", "mount", "-o", "remount,ro",
                    os.path.join(g.run, ".pool")], check=True)
    refused(start(g, "a"), 502, "start_failed", "read-only", "restart")
    rest(g)
    g.start()
    equal(g.out("a", "cat f"), "a\n", "after that")
    end(g)


@only("root")
def test_room(g):
    """The pool grows ahead of a writer, and what is deleted makes room in it."""
    limited(g, "a", "3G")
    size = 700
    g.out("a", f"head -c {size}M /dev/zero >big && sync big")
    grown = until(lambda: image_of(g) > size * MIB and image_of(g), "the pool's growth")
    for _ in range(3):
        until(lambda: used_of_pool(g) > size * MIB, "what was written to be counted")
        equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
        until(lambda: used_of_pool(g) < 64 * MIB, "what was deleted to be free again")
        limited(g, "a", "3G")
        g.out("a", f"head -c {size}M /dev/zero >big && sync big")
    check(image_of(g) < grown + 2048 * MIB, "grown", grown, image_of(g))
    equal(os.stat(os.path.join(g.state, "pool.img")).st_blocks * 512 >= image_of(g), True, "it has no holes")
    end(g)


def on_small_disk(g, size, test, mkfs=("mkfs.ext4", "-q", "-m", "0")):
    """The state directory is on a file system of its own."""
    image = g.path("disk.img")
    with open(image, "wb") as file:
        file.truncate(size)
    subprocess.run([*mkfs, image], check=True, stdout=subprocess.DEVNULL)
    os.mkdir(g.state)
    subprocess.run(["mount", "-o", "loop", image, g.state], check=True)
    try:
        g.start()
        test(g)
        for sandbox in g.list_all():
            equal(g.request("DELETE", f"/v1/sandbox/{sandbox['id']}").status, 204, "delete")
        g.berthd.terminate()
        equal(g.berthd.wait(60), 0, "berthd's exit code")
        until(lambda: not g.keepers(), "the keeper to go when there is nothing to keep")
        equal(g.sandbox_files(), [], "disks and folders of sandboxes")
    finally:
        if g.berthd and g.berthd.poll() is None:
            g.kill_berthd()
        g.kill([pid for pid in (g.monitor_pid(), *g.keepers()) if pid])
        g.kill(g.processes())
        until(lambda: not g.processes(), "the end of everything")
        subprocess.run(["umount", "-l", g.state], check=True)
        until(lambda: not attached(g), "the loop devices to go")


def use_small_host(g):
    limited(g, "a", "2G")
    limited(g, "b", "64M")
    g.out("b", "echo kept >f && sync f")
    fill(g, "a", most="2G")
    free = os.statvfs(g.state)
    check(free.f_bavail * free.f_frsize > 16 * MIB, "the host keeps some", free)
    equal(g.out("b", "cat f"), "kept\n", "the neighbour")
    check(size_of(g, "a", "big") > 100 * MIB, "what went in")
    # The host's own disk is full to the last byte now.
    with open(os.path.join(g.state, "full"), "wb", buffering=0) as file:
        try:
            while file.write(b"x" * MIB):
                pass
        except OSError:
            pass
    g.out("a", "sync; cat big >/dev/null; rm big; sync")
    g.out("a", "head -c 64M /dev/zero >big; sync big; cat big >/dev/null")
    equal(g.out("b", "cat f"), "kept\n", "the neighbour")
    os.remove(os.path.join(g.state, "full"))
    for name in ("a", "b"):
        stop(g, name)
    equal(g.out("b", "cat f"), "kept\n", "the neighbour")
    equal(size_of(g, "a", "big"), 64 * MIB, "what was written on a full host")


def use_tiny_host(g):
    equal(make(g, "a", {"disk": "16M"}).status, 200, "make")
    refused(g.request("POST", "/v1/sandbox/a/start"), 507, "disk_limit", "128 MiB")
    equal(glob.glob(os.path.join(g.state, "pool.img*")), [], "what could not be made")
    g.out("b", "echo x >f")


def use_without_reserve(g):
    before = sorted(os.listdir(g.state))
    found = doctor(g)["limited disks"]
    check(found["status"] == "warn" and "fallocate" in found["message"] and "--state-dir" in found["mend"], found)
    equal(sorted(os.listdir(g.state)), before, "what the look leaves")
    equal(make(g, "a", {"disk": "16M"}).status, 200, "make")
    refused(g.request("POST", "/v1/sandbox/a/start"), 501, "unsupported", "fallocate")
    g.out("b", "echo x >f")


@only("root")
def test_no_reserve(g):
    """Where blocks cannot be reserved there is no pool: a start says so, and the doctor before it."""
    check("limited disks" not in doctor(g), "where they can be")
    on_small_disk(g, 640 * MIB, use_without_reserve, ("mkfs.ext4", "-q", "-m", "0", "-O", "^extent,^64bit"))


def use_btrfs(g):
    limited(g, "a", "16M")
    g.out("a", "echo kept >f")
    rest(g, "a")
    check("shares blocks" not in g.log_text() and "without the attribute" not in g.log_text(), g.log_text())
    image, copy = (os.path.join(g.state, name) for name in ("pool.img", "copy"))
    subprocess.run(["sh", "-c", 'touch "$1" && chattr +C "$1" && cp --reflink=always "$0" "$1" && sync', image, copy],
                   check=True)
    g.start()
    equal(g.out("a", "cat f"), "kept\n", "its disk")
    check("shares blocks with a copy" in g.log_text(), "that is not told")


@only("root")
def test_copied_image(g):
    """On a btrfs the pool has blocks of its own, and it is told when a copy has made them common ones."""
    on_small_disk(g, 1024 * MIB, use_btrfs, ("mkfs.btrfs", "-q"))


@only("root")
def test_full_host(g):
    """A host that has no more to give: no space inside, nothing is broken, and all can be read and removed."""
    on_small_disk(g, 640 * MIB, use_small_host)


@only("root")
def test_tiny_host(g):
    """A host without room for a pool says so, and its other sandboxes start."""
    on_small_disk(g, 96 * MIB, use_tiny_host)


@only("user")
def test_refused(g):
    """Without root a disk that stays cannot be limited, and it is said what can be."""
    for name, limits in (("a", {"disk": "16M"}), ("b", {"inodes": 100})):
        refused(make(g, name, limits), 501, "unsupported", "ephemeral")
    for _ in range(2):
        g.out("c", "true")
        refused(make(g, "c", {"disk": "16M"}), 501, "unsupported", "without root", "a disk that lasts")
        stop(g, "c")
    end(g)


def receipt(g, mode):
    reply = g.request("POST", "/v1/sandbox/a/sleep", {"mode": mode})
    equal(reply.status, 200, reply)
    return g.sandbox("a")["last_sleep"]["kept"]


def test_ephemeral(g):
    """A disk in memory: its size and its inodes hold, freezing keeps it, a stop forgets it."""
    equal(make(g, "a", {"disk": "16M", "inodes": 500}, ephemeral=True).status, 200, "make")
    g.out("a", "echo x >f; rm -r /usr/share/doc 2>/dev/null; mkdir /etc/new; rm /etc/passwd; echo y >/etc/passwd")
    size = fill(g, "a", most="64M")
    check(14 * MIB < size <= 16 * MIB, size)
    refused(g.request("PUT", "/v1/sandbox/a/file/workspace/g", b"y" * MIB), 507, "disk_limit")
    check(14 * MIB < disk_of(g, "a")[0] <= 17 * MIB, disk_of(g, "a"))
    g.out("a", "rm big")
    result = g.exec("a", "i=0; while touch n$i; do i=$((i + 1)); done; echo $i")
    check(NO_ROOM in result.stderr and 300 < int(result.stdout) < 500, result)
    equal(os.listdir(os.path.join(g.state, "sandboxes", "a")), ["range"], "on disk")
    if g.has_cgroups:
        equal(receipt(g, "freeze"), ["disk", "memory", "processes"], "kept")
        equal(g.out("a", "cat f"), "x\n", "after freezing")
    equal(receipt(g, "stop"), [], "kept")
    equal(g.out("a", "ls; grep -c root /etc/passwd").split()[-1], "1", "a new disk")
    equal(g.exec("a", "cat f").code, 1, "what was forgotten")
    equal(g.sandbox("a")["last_wake"]["kept"], [], "kept")
    limits = ["--ephemeral", "--disk", "8M", "--inodes", "100"]
    subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, "create", "c", "--start", *limits],
                   stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)
    made = g.sandbox("c")
    equal((made["ephemeral"], made["limits"]["disk"], made["limits"]["inodes"]), (True, 8 * MIB, 100), made)
    check(fill(g, "c", most="64M") <= 8 * MIB, "what --disk says")
    before = disk_of(g, "c")
    check(7 * MIB < before[0] <= 9 * MIB and before[1] > 1, before)
    g.kill_keeper()
    until(lambda: g.keeper() and g.sandbox("c")["state"] == "running", "the sandbox to be adopted")
    equal(disk_of(g, "c"), before, "what is counted by the next keeper")
    g.out("c", "rm big; echo x >f")
    end(g)


main([test_holds, test_full_disk, test_change, test_at_once, test_change_while_running, test_kills, test_new_pool, test_moved_folder,
      test_moved_alive, test_missing_pool, test_wrong_disk, test_half_changed,
      test_same_number, test_trouble, test_room, test_copied_image, test_full_host,
      test_tiny_host, test_no_reserve, test_refused, test_ephemeral],
     start=lambda test: test not in (test_copied_image, test_full_host, test_tiny_host, test_no_reserve))
