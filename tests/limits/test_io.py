"""Limits of block io: what the kernel counts of a disk takes as long as it must, or they are refused with the reason."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "keeper")]

# pylint: disable=wrong-import-position
import keeper_link as k  # noqa: E402
from ground import check, comm_of, equal, main, only, pids, stat_of, until  # noqa: E402
from limit_api import MIB, put, refused  # noqa: E402
from place import use_disk  # noqa: E402
from pool import attached  # noqa: E402

# field: words of io.max, file of v1
FIELDS = {"io_read": ("rbps", "blkio.throttle.read_bps_device"), "io_write": ("wbps", "blkio.throttle.write_bps_device"),
          "io_read_ops": ("riops", "blkio.throttle.read_iops_device"),
          "io_write_ops": ("wiops", "blkio.throttle.write_iops_device")}
# The kernel deals in slices of a tenth of a second, and lets the first one through at once.
SLICES = 0.5
DIRECT_READ = "dd if=f of=/dev/null bs=64K iflag=direct 2>/dev/null"


def abilities(g):
    return g.get("/v1/info").json()["abilities"]


def files(g, *names, name="a"):
    """Lines of the first of these files that is in one of its cgroups."""
    for folder in g.cgroups():
        for file in names:
            with contextlib.suppress(OSError):
                if os.path.basename(folder) == name:
                    with open(os.path.join(folder, file), encoding="ascii") as found:
                        return found.read().splitlines()
    return []


def limit(g, field, name="a"):
    """{disk: limit} as the kernel has it."""
    word, file = FIELDS[field]
    if lines := files(g, "io.max", name=name):
        found = {line.split()[0]: re.search(rf"\b{word}=(\S+)", line)[1] for line in lines}
        return {disk: int(value) for disk, value in found.items() if value != "max"}
    return {disk: int(value) for disk, value in map(str.split, files(g, file, name=name))}


def counted(g, kind, disk, name="a"):
    """Bytes that the kernel has charged to the sandbox."""
    for line in files(g, "io.stat", name=name):
        if line.split()[0] == disk and (bytes_ := re.search(rf"\b{kind[0]}bytes=(\d+)", line)):
            return int(bytes_[1])
    for line in files(g, "blkio.throttle.io_service_bytes", name=name):
        if line.split()[:2] == [disk, kind.capitalize()]:
            return int(line.split()[2])
    return 0


def disk_of(path):
    """The whole disk that a folder is on, or None."""
    device = os.stat(path).st_dev
    at = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(at):
        return None
    with open(os.path.join(at, "../dev" if os.path.exists(at + "/partition") else "dev"), encoding="ascii") as file:
        return file.read().strip()


def timed(g, command, disk, kind):
    """Runs it. (seconds, bytes that were charged for it)"""
    before, began = counted(g, kind, disk), time.monotonic()
    g.out("a", command)
    seconds = time.monotonic() - began
    return seconds, counted(g, kind, disk) - before


def held_back(g, command, disk, kind, speed):
    """At least as long as what was counted takes, and something was."""
    seconds, counts = timed(g, command, disk, kind)
    print(f"# {kind}: {counts} bytes in {seconds:.2f} s, at {speed}")
    check(counts >= 2 * MIB, "counted", counts)
    check(seconds >= counts / speed - SLICES, f"{counts} bytes took {seconds:.2f} s")


def file_on_disk(g, size=3):
    g.out("a", f"dd if=/dev/zero of=f bs=1M count={size} conv=fsync 2>/dev/null")


@only("root")
def test_reads(g):
    """42: reads are held back, by the disk that the sandbox is on, and by nothing when that is asked for."""
    disk = disk_of(g.dir)
    check(disk and abilities(g)["io_read_limit"], "the tests' folder is on a disk", disk)
    file_on_disk(g)
    shown = put(g, io_read="1M")
    equal((shown["restart_needed"], shown["generation"], shown["limits"]["io_read"]), (False, 1, MIB), shown)
    equal(limit(g, "io_read").get(disk), MIB, "the cgroup")
    held_back(g, DIRECT_READ, disk, "read", MIB)
    equal(put(g, io_read=0)["limits"]["io_read"], None, "none")
    equal(limit(g, "io_read"), {}, "the cgroup, of none")
    put(g, io_read_ops=100)
    equal((limit(g, "io_read_ops").get(disk), limit(g, "io_read")), (100, {}), "the cgroup")
    seconds, _ = timed(g, "dd if=f of=/dev/null bs=8K count=300 iflag=direct 2>/dev/null", disk, "read")
    check(seconds >= 300 / 100 - SLICES, f"300 reads in {seconds} s")


@only("root")
def test_from_start(g):
    """It holds from the start on, through freezing, and after keeper and berthd were killed."""
    disk = disk_of(g.dir)
    put(g, io_read="1M", memory="256M")
    file_on_disk(g)
    equal(limit(g, "io_read").get(disk), MIB, "the cgroup")
    held_back(g, DIRECT_READ, disk, "read", MIB)
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}).status, 200, "frozen")
    put(g, io_read="2M")
    equal((g.sandbox("a")["state"], limit(g, "io_read").get(disk)), ("frozen", 2 * MIB), "changed while frozen")
    g.out("a", "true")
    g.kill_keeper()
    g.kill_berthd()
    g.start()
    equal(limit(g, "io_read").get(disk), 2 * MIB, "after that")
    put(g, io_read="4M", io_read_ops=1000)
    equal((limit(g, "io_read").get(disk), limit(g, "io_read_ops").get(disk)), (4 * MIB, 1000), "changed by the new ones")
    equal(g.sandbox("a")["generation"], 1, "it runs on")


@only("root")
def test_pool(g):
    """A limited disk is held back by the pool's own device."""
    put(g, disk="64M")
    file_on_disk(g)
    put(g, io_read="1M")
    loops = [disk for disk in limit(g, "io_read") if disk.startswith("7:")]
    equal(len(loops), 1, f"loop devices in {limit(g, 'io_read')}")
    held_back(g, DIRECT_READ, loops[0], "read", MIB)


def lift(g, name="a"):
    """As a keeper does that is in a hurry, and dies."""
    for folder in g.cgroups():
        for file in ("io.max", FIELDS["io_read"][1]):
            if os.path.basename(folder) == name and os.path.exists(os.path.join(folder, file)):
                for disk in limit(g, "io_read", name):
                    with open(os.path.join(folder, file), "w", encoding="ascii") as out:
                        out.write(f"{disk} " + ("rbps=max" if file == "io.max" else "0"))


@only("root")
def test_missing_pool(g):
    """A pool that cannot be opened is told, as its device is not known then; it has the limit when it is open again."""
    put(g, disk="64M", io_read="1M")
    g.out("a", "true")
    before = limit(g, "io_read")
    check(any(disk.startswith("7:") for disk in before), before)
    os.rename(os.path.join(g.state, "pool.img"), g.path("pool"))
    g.kill_keeper()
    until(lambda: "cannot grow until it can be opened" in g.log_text(), "that to be told")
    until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    check("pool.img" in refused(g, 502, "start_failed", io_read="2M"), "that is why")
    lift(g)
    equal(limit(g, "io_read"), {}, "the cgroup, of none")
    for how in ({"mode": "freeze"}, None):
        reply = g.request("POST", f"/v1/sandbox/a/{'sleep' if how else 'wake'}", how)
        equal(reply.status, 200, reply)
    equal(limit(g, "io_read"), {disk: MIB for disk in before if not disk.startswith("7:")}, "other disks, when it is thawed")
    os.rename(g.path("pool"), os.path.join(g.state, "pool.img"))
    until(lambda: limit(g, "io_read") == before, "the limits to hold again")
    equal(put(g, disk="64M", io_read="2M")["limits"]["io_read"], 2 * MIB, "another")
    equal(limit(g, "io_read"), {disk: 2 * MIB for disk in before}, "the cgroup")


@only("root")
def test_writes(g):
    """Writes are held back where the kernel knows whose they are, also those that it makes later. Else refused."""
    g.out("a", "true")
    if not abilities(g)["io_write_limit"]:
        equal(g.get("/v1/info").json()["cgroups"]["version"] != "v2", True, "only v2 can")
        for field, value in (("io_write", "1M"), ("io_write_ops", 100)):
            sentence = refused(g, 501, "unsupported", **{field: value})
            check("cgroup v2" in sentence and "in nobody's name" in sentence, sentence)
            # All or none: what could be had is not set, either.
            refused(g, 501, "unsupported", io_read="1M", **{field: value})
            equal(limit(g, "io_read"), {}, "the cgroup")
        reply = g.request("PUT", "/v1/sandbox/b", {"limits": {"io_write": "1M"}})
        equal(reply.status, 200, reply)
        reply = g.request("POST", "/v1/sandbox/b/start")
        equal((reply.status, reply.json()["code"]), (501, "unsupported"), reply)
        return
    disk = disk_of(g.dir)
    put(g, io_write="1M")
    equal(limit(g, "io_write").get(disk), MIB, "the cgroup")
    held_back(g, "dd if=/dev/zero of=f bs=64K count=48 oflag=direct 2>/dev/null", disk, "write", MIB)
    # Written by a thread of the kernel, for whoever is outside and waits for it.
    before, began = counted(g, "write", disk), time.monotonic()
    g.out("a", "dd if=/dev/zero of=g bs=1M count=4 2>/dev/null")
    until(lambda: os.sync() or counted(g, "write", disk) - before >= 3 * MIB, "it to be written")
    check(time.monotonic() - began >= 3 - SLICES, time.monotonic() - began)
    put(g, io_write=0, io_write_ops=100)
    equal((limit(g, "io_write"), limit(g, "io_write_ops").get(disk)), ({}, 100), "the cgroup")


@only("root")
def test_ephemeral(g):
    """One whose disk is in memory is held back where it reads from a disk: the image."""
    reply = g.request("PUT", "/v1/sandbox/a", {"ephemeral": True, "limits": {"io_read": "2M"}})
    equal(reply.status, 200, reply)
    g.out("a", "true")
    equal(limit(g, "io_read"), {disk: 2 * MIB for disk in (disk_of("/usr"), disk_of(g.state))}, "the cgroup")


def make_image(g, name):
    """Nothing is in it: init, which is all that runs, comes along."""
    rootfs = os.path.join(g.state, "images", name, "rootfs")
    os.makedirs(rootfs)
    for folder in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "workspace"):
        os.mkdir(os.path.join(rootfs, folder))


@only("root")
def test_image(g):
    """The disk of an image counts, also where the sandbox's own disk is in the pool or in memory."""
    disk, config = disk_of(g.dir), g.path("config.json")
    with open(config, "w", encoding="utf-8") as file:
        file.write('{"trust": {"low": {"limits": {"io_read": "4M"}}}}')
    os.chmod(config, 0o644)
    g.kill_berthd()
    g.start("--config", config)
    make_image(g, "plain")
    for name, settings in (("a", {"limits": {"io_read": "2M", "disk": "16M"}}), ("b", {"limits": {"io_read": "2M"}, "ephemeral": True})):
        reply = g.request("PUT", f"/v1/sandbox/{name}", {"image": "plain", **settings})
        equal(reply.status, 200, reply)
        reply = g.request("POST", f"/v1/sandbox/{name}/start")
        equal(reply.status, 200, reply)
        equal(limit(g, "io_read", name).get(disk), 2 * MIB, f"the cgroup of {name}")
    # So that of a preset is for those in memory, too.
    reply = g.request("POST", "/v1/sandbox", {"id": "c", "trust": "low", "ephemeral": True, "start": True})
    equal((reply.status, limit(g, "io_read", "c").get(disk)), (201, 4 * MIB), reply)


def inside(g, name="a"):
    """All that is in the sandbox's cgroups; who is gone meanwhile has no state."""
    found = files(g, "cgroup.procs", name=name)
    for folder in g.cgroups():
        if os.path.dirname(folder).endswith("/" + name):
            with contextlib.suppress(OSError), open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
                found += file.read().split()
    return [int(pid) for pid in found if stat_of(pid)]


WAITS = "exec dd if=f of=/dev/null bs=256M iflag=direct"  # for 256 seconds, at 1M


@only("root")
def test_ends(g):
    """Whoever waits for a slow disk holds up neither its own end, nor freezing, nor the end of its sandbox."""
    disk = disk_of(g.dir)
    file_on_disk(g, 256)
    put(g, io_read="1M")
    result = g.exec("a", WAITS, timeout_ms=1000)
    equal((result.reason, limit(g, "io_read").get(disk)), ("timeout", MIB), result)
    for request in (("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}), ("DELETE", "/v1/sandbox/a")):
        with g.events("a", f"echo begun; {WAITS}") as events:
            equal(next(iter(events)), ("stdout", b"begun\n"), "it runs")
            until(lambda: any(comm_of(pid) == "dd" and (stat_of(pid) or " ")[0] == "D" for pid in inside(g)), "it to wait")
            began = time.monotonic()
            reply = g.request(*request)
            check(reply.status in (200, 204), reply)
            check(time.monotonic() - began < 128, "it took", time.monotonic() - began)
            if "sleep" in request[1]:
                equal(g.request("POST", "/v1/sandbox/a/wake").status, 200, "woken")
                equal(limit(g, "io_read").get(disk), MIB, "the cgroup, when it is thawed")


@contextlib.contextmanager
def own_file_system(g):
    """The state directory is in an ext4 of its own."""
    image = g.path("disk.img")
    with open(image, "wb") as file:
        file.truncate(256 * MIB)
    subprocess.run(["mkfs.ext4", "-q", image], check=True, stdout=subprocess.DEVNULL)
    os.mkdir(g.state)
    subprocess.run(["mount", "-o", "loop", image, g.state], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "-u", g.state], check=False, stderr=subprocess.DEVNULL)
        g.kill_berthd()
        g.kill([pid for pid in (g.monitor_pid(), *g.keepers()) if pid])
        until(lambda: not g.kill(g.processes()), "the end of everything")
        subprocess.run(["umount", "-l", g.state], check=True)
        until(lambda: not attached(g), "the loop device to go")


def guards(g):
    return [pid for pid in pids() if comm_of(pid) == "berth-io-guard" and (stat_of(pid) or (0, 0))[1] == g.keeper()]


@only("root")
def test_guard(g):
    """A file system that holds up the keeper has the limits lifted, as they may be why; then they hold again."""
    with own_file_system(g):
        g.start()
        g.out("b", "true")
        equal(guards(g), [], "guards, while nobody has limits")
        put(g, io_read="1M")
        g.out("a", "true")
        equal(len(guards(g)), 1, "guards")
        before = limit(g, "io_read")
        check(disk_of(g.state) in before, before)
        g.kill_berthd()  # it writes there, too
        link = k.Link(os.path.join(g.run, "keeper.sock"), 60)
        link.hello()
        subprocess.run(["fsfreeze", "-f", g.state], check=True)
        began = time.monotonic()
        tag = link.send(k.START, id="c", generation=1, image="host")
        until(lambda: not limit(g, "io_read"), "the limits to be lifted", 30)
        print(f"# lifted after {time.monotonic() - began:.2f} s")
        subprocess.run(["fsfreeze", "-u", g.state], check=True)
        equal(link.answer(tag).type, k.STARTED, "what it was at")
        until(lambda: limit(g, "io_read") == before, "the limits to hold again")
        os.kill(guards(g)[0], signal.SIGKILL)
        until(lambda: len(guards(g)) == 1, "another guard")
        equal(link.ask(k.LIMIT, id="a", generation=1).type, k.DONE, "no limits")
        until(lambda: not guards(g), "the guard to go")
        link.close()


def test_refused(g):
    """Nonsense is refused by berthd, and what cannot hold here by the keeper, with what to do."""
    g.out("a", "true")
    for field, value in (("io_read", "1023K"), ("io_write", "2T"), ("io_read_ops", 99), ("io_write_ops", 2**32)):
        sentence = refused(g, 400, "invalid_request", **{field: value})
        check(f"limits.{field} must be" in sentence, sentence)
    if abilities(g)["io_read_limit"]:
        return
    for field, value in (("io_read", "1M"), ("io_write", "1M"), ("io_read_ops", 100), ("io_write_ops", 100)):
        sentence = refused(g, 501, "unsupported", **{field: value})
        check("Delegate=cpu io memory pids" in sentence, sentence)


@only("root")
def test_nonsense(g):
    """A berthd that has gone bad: whatever it asks for, nothing changes but by what makes sense."""
    put(g, io_read="1M")
    g.out("a", "true")
    before = limit(g, "io_read")
    g.kill_berthd()
    link = k.Link(os.path.join(g.run, "keeper.sock"), 60)
    link.hello()
    for wrong in ({"io_read": 2**20 - 1}, {"io_write": 2**63}, {"io_read_ops": 99}, {"io_write_ops": 2**32 - 1}):
        answer = link.ask(k.LIMIT, **{"id": "a", "generation": 1, "io_read": 2 * MIB, **wrong})
        equal((answer.type, k.ERRORS.get(answer.get("code"))), (k.FAILED, "invalid_request"), f"{wrong} {answer}")
        equal(limit(g, "io_read"), before, wrong)
    # What fails after it is undone: a disk without a limit cannot get one.
    answer = link.ask(k.LIMIT, id="a", generation=1, io_read=2 * MIB, disk_bytes=2**30)
    equal((answer.type, k.ERRORS.get(answer.get("code")), limit(g, "io_read")), (k.FAILED, "conflict", before), answer)
    link.close()
    g.start()


use_disk()
main([test_reads, test_from_start, test_pool, test_missing_pool, test_writes, test_ephemeral, test_image, test_ends, test_guard,
      test_refused, test_nonsense], start=lambda test: test is not test_guard)
