"""berth-keeper through its socket. usage: test_keeper.py BUILD root|user RUNTIME"""

import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys

import keeper_link as k
from place import (FIRST_SUBID, GUARD, STRANGER, SUBIDS, USER, check, equal, is_alive, needs_root, only,
                   run_all, stat_of, until)


def start(link, sandbox, generation=1, **more):
    frame = link.ask(k.START, id=sandbox, generation=generation, image="host", **more)
    check(frame.type == k.STARTED, frame)
    for fd in frame.fds:
        os.close(fd)
    return frame


def refused(frame, code):
    check(frame.type == k.FAILED, "not refused:", frame)
    equal(k.ERRORS.get(frame.code, frame.code), code, frame.sentence)
    check(frame.sentence, "no sentence")


def disks(place):
    """What is below <state>/sandboxes, also what only waits to be removed."""
    top = os.path.join(place.state, "sandboxes")
    return [name for name in os.listdir(top)
            if name != ".trash" or os.listdir(os.path.join(top, name))]


def strangers(place):
    return [p for p in place.processes() if p not in (place.monitor.pid, place.keeper())]


def start_hasty(place):
    """A keeper that soon ends for want of work, and our HELLO, which must be faster."""
    for idle_ms in (100, 1000, 10000, 100000):
        place.start("--idle-ms", str(idle_ms))
        try:
            return place.hello()
        except (OSError, EOFError):
            equal(place.monitor.wait(GUARD), 0, "the idle monitor's exit code")
    raise AssertionError("no keeper waited long enough for us")


def test_life(place):
    """hello, start, kill, exited, forget; nothing is left"""
    link, welcome, known = start_hasty(place)
    equal(known, {})
    equal(welcome.runtime, place.runtime)
    equal(bool(welcome.abilities & k.IS_ROOTLESS), place.mode == "user", "rootless")
    equal(bool(welcome.abilities & k.HAS_RANGES), place.mode == "root", "ranges")
    started = start(link, "one", 7)
    check(is_alive(started.pid), "init runs")
    equal(stat_of(started.pid)[1], place.monitor.pid, "init's parent")
    refused(link.ask(k.KILL, id="one", generation=6), "sandbox_restarted")
    killed = link.send(k.KILL, id="one", generation=7)
    exited = link.exited("one")
    equal((exited.generation, exited.is_known, exited.status), (7, 1, signal.SIGKILL), "exited")
    equal(link.answer(killed).type, k.DONE)
    check(not is_alive(started.pid), "init is gone")
    equal(os.path.exists(os.path.join(place.run, "one")), False, "<run>/one is there")
    equal(link.ask(k.KILL, id="one", generation=7).type, k.DONE, "a second KILL")
    equal(link.ask(k.FORGET, id="one", generation=7).type, k.DONE)
    equal(link.ask(k.FORGET, id="one", generation=7).type, k.DONE, "a second FORGET")
    refused(link.ask(k.KILL, id="one", generation=7), "not_found")
    equal(link.ask(k.REMOVE, id="one").type, k.DONE)
    equal(disks(place), [], "disks")
    link.close()
    equal(place.monitor.wait(GUARD), 0, "the idle monitor's exit code")
    equal(place.processes(), [], "processes")
    equal(place.mounts(), [], "mounts on the host")
    equal(place.cgroups(), [], "cgroups")
    equal([n for n in os.listdir(place.run) if not n.startswith(".")], [], "files in <run>")


def test_permissions(place):
    """directories and sockets belong to whom they should"""
    place.start()
    link, _, _ = place.hello()
    start(link, "one")
    for path in (place.run, place.state):
        info = os.stat(path)
        equal(info.st_uid, place.uid, path)
        equal(stat.S_IMODE(info.st_mode), 0o711, path)
    for path in ("keeper.sock", "one/agent.sock"):
        info = os.stat(os.path.join(place.run, path))
        equal((info.st_uid, stat.S_IMODE(info.st_mode)), (USER, 0o600), path)
    equal(os.stat(os.path.join(place.state, "lock")).st_uid, place.uid, "lock")


def test_second(place):
    """a second keeper for the same directories is refused with a sentence"""
    place.start()
    process, line = place.spawn()
    equal(process.wait(GUARD), 1)
    check("another berth-keeper" in line and str(place.monitor.pid) in line, line)
    link, _, _ = place.hello()
    start(link, "one")


def test_many(place):
    """20 starts at once, and 20 ends"""
    place.start()
    link, _, _ = place.hello()
    names = [f"s{i}" for i in range(20)]
    tags = {n: link.send(k.START, id=n, generation=1, image="host") for n in names}
    inits = {}
    for name, tag in tags.items():
        frame = link.answer(tag)
        check(frame.type == k.STARTED, name, frame)
        for fd in frame.fds:
            os.close(fd)
        inits[name] = frame.pid
    equal(len(set(inits.values())), 20)
    refused(link.ask(k.START, id="s3", generation=2, image="host"), "conflict")
    tags = [link.send(k.KILL, id=n, generation=1) for n in names]
    for tag in tags:
        equal(link.answer(tag).type, k.DONE)
    for name in names:
        equal(link.exited(name).status, signal.SIGKILL, name)
    check(not any(is_alive(pid) for pid in inits.values()), "all ended")


def test_conflict(place):
    """a start under way, a removal, a start after an end that was not forgotten"""
    place.start()
    link, _, _ = place.hello()
    first = link.send(k.START, id="one", generation=1, image="host")
    second = link.send(k.START, id="one", generation=2, image="host")
    refused(link.answer(second), "conflict")
    equal(link.answer(first).type, k.STARTED)
    refused(link.ask(k.REMOVE, id="one"), "conflict")
    equal(link.ask(k.KILL, id="one", generation=1).type, k.DONE)
    start(link, "one", 2)
    first = link.send(k.START, id="two", generation=1, image="host")
    killed = link.send(k.KILL, id="two", generation=1)
    refused(link.answer(first), "conflict")
    equal(link.answer(killed).type, k.DONE)
    start(link, "two", 2)


def test_bad_fields(place):
    """every field is checked again"""
    place.start()
    link, _, _ = place.hello()
    for name in ("", "A", "a/b", "..", "a b", "-a", "a" * 62 + "-", "berthd", "a\0b"):
        refused(link.ask(k.START, id=name, generation=1, image="host"), "invalid_request")
        refused(link.ask(k.REMOVE, id=name), "invalid_request")
    for image in ("", "..", "../x", "a/b", "host\0x", "/etc"):
        refused(link.ask(k.START, id="one", generation=1, image=image), "invalid_request")
    refused(link.ask(k.START, id="one", generation=1, image="nothing"), "not_found")
    refused(link.ask(k.START, id="one", generation=0, image="host"), "invalid_request")
    refused(link.ask(k.START, id="one", generation=1, image="host", flags=16), "invalid_request")
    for kind in (k.STATS, k.GROUP_NEW, k.GROUP_OPEN, k.GROUP_END, k.FREEZE, k.THAW, k.KILL, k.LIMIT):
        refused(link.ask(kind, id="one", generation=1), "not_found")
    link.tag += 1
    link.socket.send(struct.pack("<IHHII", 16, 63, 1, link.tag, 0))
    refused(link.answer(link.tag), "unsupported")
    start(link, "one")
    for kind in (k.STATS, k.GROUP_NEW, k.GROUP_OPEN, k.GROUP_END, k.FREEZE, k.THAW, k.LIMIT):
        refused(link.ask(kind, id="one", generation=2), "sandbox_restarted")


def test_garbage(place):
    """garbage costs the connection, not the keeper"""
    place.start()
    keeper = place.keeper()
    hello = k.encode(k.HELLO, 1, version=1)
    start_frame = k.encode(k.START, 2, id="one", generation=1, image="host")
    garbage = [[b"x"], [b"x" * 70000], [hello, hello], [start_frame], [hello, start_frame[:-1]],
               [hello, start_frame + b"x"], [hello, start_frame[:16]],
               [hello, struct.pack("<IHHII", 28, k.KILL, 1, 2, 0) + struct.pack("<IQ", 99, 1)]]
    for frames in garbage:
        link = place.connect()
        try:
            for frame in frames:
                link.socket.send(frame)
            while True:
                link.receive()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            pass
    link = place.connect()
    with open("/dev/null", "rb") as file:
        socket.send_fds(link.socket, [hello], [file.fileno()])
        try:
            link.receive()
            check(False, "a frame with a descriptor was answered")
        except (EOFError, ConnectionResetError):
            pass
    equal(place.keeper(), keeper, "the same keeper")
    link, _, _ = place.hello()
    start(link, "one")


@needs_root
def test_wrong_user(place):
    """another user is refused, also with the socket opened to all"""
    place.start()
    path = os.path.join(place.run, "keeper.sock")
    os.chmod(path, 0o666)
    script = ("import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
              f"s.connect({path!r}); s.settimeout({GUARD}); "
              f"s.send(bytes.fromhex('{k.encode(k.HELLO, 1, version=1).hex()}')); "
              "print(len(s.recv(100)))")
    for uid, allowed in ((STRANGER, False), (USER, True)):
        done = subprocess.run(["/usr/bin/python3", "-c", script], user=uid, group=uid, extra_groups=[],
                              capture_output=True, text=True, check=False, timeout=GUARD)
        equal(done.returncode == 0 and int(done.stdout) > 0, allowed, f"uid {uid}: {done}")


def test_replaced(place):
    """a new connection replaces the old one"""
    place.start()
    link, _, _ = place.hello()
    started = start(link, "one")
    other, _, known = place.hello()
    equal(known["one"].pid, started.pid)
    try:
        link.receive()
        check(False, "the old connection still lives")
    except (EOFError, ConnectionResetError):
        pass
    equal(other.ask(k.KILL, id="one", generation=1).type, k.DONE)


def test_start_abandoned(place):
    """a start whose berthd has gone is undone before the next HELLO is answered"""
    place.start()
    link, _, _ = place.hello()
    for i in range(20):
        link.send(k.START, id=f"s{i}", generation=1, image="host")
    link.close()
    link, _, known = place.hello()
    check(all(frame.type == k.RUNNING for frame in known.values()), known)
    for i in range(20):
        if f"s{i}" not in known:
            start(link, f"s{i}", 2)
    for i in range(20):
        generation = known[f"s{i}"].generation if f"s{i}" in known else 2
        equal(link.ask(k.KILL, id=f"s{i}", generation=generation).type, k.DONE)


def test_away(place):
    """berthd is away while init ends: a later one is told, until it forgets"""
    place.start()
    link, _, _ = place.hello()
    started = start(link, "one", 3)
    link.close()
    os.kill(started.pid, signal.SIGKILL)
    until(lambda: not os.path.exists(os.path.join(place.run, "one")), "the take-down")
    for _ in range(2):
        link, _, known = place.hello()
        frame = known["one"] if known["one"].type == k.EXITED else link.exited("one")
        equal((frame.generation, frame.is_known, frame.status), (3, 1, signal.SIGKILL))
        link.close()
    link, _, _ = place.hello()
    link.ask(k.FORGET, id="one", generation=3)
    link.close()
    equal(place.hello()[2], {})


def test_keeper_killed(place):
    """kill -9 of the keeper: adopted, same pids, true statuses"""
    place.start()
    link, _, _ = place.hello()
    inits = {n: start(link, n, 5).pid for n in ("stays", "ends", "ended")}
    link.ask(k.KILL, id="ended", generation=5)
    link.exited("ended")
    os.kill(place.monitor.pid, signal.SIGSTOP)  # the next keeper must find "ends" dead
    place.kill_keeper()
    os.kill(inits["ends"], signal.SIGKILL)
    until(lambda: not is_alive(inits["ends"]), "the end of \"ends\"")
    os.kill(place.monitor.pid, signal.SIGCONT)
    link, _, known = place.reconnect()
    equal(set(known), set(inits))
    equal((known["stays"].type, known["stays"].pid), (k.RUNNING, inits["stays"]), "stays")
    for name in ("ended", "ends"):
        frame = known[name] if known[name].type == k.EXITED else link.exited(name)
        equal((frame.generation, frame.is_known, frame.status), (5, 1, signal.SIGKILL), name)
        equal(link.ask(k.FORGET, id=name, generation=5).type, k.DONE)
    check(is_alive(inits["stays"]), "init lives")
    place.kill_keeper()
    link, _, known = place.reconnect()
    equal(list(known), ["stays"], "what was forgotten stays forgotten")
    os.kill(inits["stays"], signal.SIGKILL)
    frame = link.exited("stays")
    equal((frame.is_known, frame.status), (1, signal.SIGKILL), "an adopted init's status")


def test_keeper_killed_starting(place):
    """kill -9 of the keeper while it starts many: nothing is orphaned, all start again"""
    place.start()
    link, _, _ = place.hello()
    for i in range(20):
        link.send(k.START, id=f"s{i}", generation=1, image="host")
    link.answer(5)
    place.kill_keeper()
    link, _, known = place.reconnect()
    for i in range(20):
        name = f"s{i}"
        if name in known and known[name].type == k.RUNNING:
            check(is_alive(known[name].pid), name)
            equal(link.ask(k.KILL, id=name, generation=1).type, k.DONE, name)
            link.exited(name)
        answer = link.ask(k.START, id=name, generation=2, image="host")
        check(answer.type == k.STARTED, name, answer)
        equal(link.ask(k.KILL, id=name, generation=2).type, k.DONE, name)
    equal(strangers(place), [], "processes")


def test_both_killed_starting(place):
    """kill -9 of both while many start: the next start leaves only what it adopts"""
    place.start()
    link, _, _ = place.hello()
    for i in range(20):
        link.send(k.START, id=f"s{i}", generation=1, image="host")
    link.answer(5)
    place.kill_both()
    place.start()
    link, _, known = place.hello()
    for name, frame in known.items():
        if frame.type == k.RUNNING:
            check(is_alive(frame.pid), name)
            equal(link.ask(k.KILL, id=name, generation=1).type, k.DONE, name)
    until(lambda: not strangers(place), "the end of all processes")
    for i in range(20):
        start(link, f"s{i}", 2)


def test_both_killed(place):
    """kill -9 of monitor and keeper: the next start adopts, statuses are unknown"""
    place.start()
    link, _, _ = place.hello()
    inits = {n: start(link, n, 4).pid for n in ("stays", "ends")}
    place.kill_both()
    os.kill(inits["ends"], signal.SIGKILL)
    until(lambda: not is_alive(inits["ends"]), "the end of \"ends\"")
    place.start()
    link, _, known = place.hello()
    equal(known["stays"].pid, inits["stays"])
    frame = known["ends"] if known["ends"].type == k.EXITED else link.exited("ends")
    equal((frame.generation, frame.is_known), (4, 0), "ends")
    start(link, "new")
    equal(link.ask(k.KILL, id="stays", generation=4).type, k.DONE)
    equal(link.exited("stays").is_known, 0, "stays")
    check(not is_alive(inits["stays"]), "stays was killed")
    equal(os.path.exists(os.path.join(place.run, "stays")), False, "<run>/stays is there")


def test_monitor_killed(place):
    """kill -9 of the monitor: the keeper ends too, the next start adopts"""
    place.start()
    link, _, _ = place.hello()
    started = start(link, "one", 4)
    keeper = place.keeper()
    place.monitor.kill()
    place.monitor.wait()
    until(lambda: not is_alive(keeper), "the keeper's end")
    place.start()
    _, _, known = place.hello()
    equal(known["one"].pid, started.pid)


def test_term(place):
    """SIGTERM ends both, sandboxes run on and are adopted"""
    place.start()
    link, _, _ = place.hello()
    started = start(link, "one")
    place.monitor.terminate()
    equal(place.monitor.wait(GUARD), 0)
    check(is_alive(started.pid), "init lives")
    equal(os.path.exists(os.path.join(place.run, "keeper.sock")), False, "keeper.sock is there")
    place.start()
    link, _, known = place.hello()
    equal(known["one"].pid, started.pid)
    equal(link.ask(k.KILL, id="one", generation=1).type, k.DONE)


def test_groups(place):
    """exec groups: none, and said to be none"""
    place.start()
    link, welcome, _ = place.hello()
    if welcome.abilities & k.HAS_GROUPS:
        return check_groups(link)
    equal(place.mode, "user", "who has no groups")
    started = start(link, "one")
    equal(len(started.fds), started.has_counter + started.has_usage, "groups that came with STARTED")
    equal(link.ask(k.ADOPT, id="one", generation=1).type, k.ADOPTED)
    refused(link.ask(k.GROUP_NEW, id="one", generation=1), "unsupported")
    return None


def is_populated(group_fd):
    with open(os.open("cgroup.events", os.O_RDONLY, dir_fd=group_fd), encoding="ascii") as file:
        return "populated 1" in file.read()


def check_open(link, group, gone):
    """a group that an earlier berthd had: the same, and nothing else"""
    start(link, "other")
    again = link.ask(k.GROUP_OPEN, id="one", generation=1, group=group.group)
    equal((again.type, again.group, len(again.fds)), (k.GROUP, group.group, 1))
    equal(os.fstat(again.fds[0]).st_ino, os.fstat(group.fds[0]).st_ino, "its directory")
    check(is_populated(again.fds[0]), "somebody lives in it")
    equal(os.readlink(f"/proc/self/fd/{again.fds[0]}"), os.readlink(f"/proc/self/fd/{group.fds[0]}"),
          "from a mount of its own, too")
    for number in (gone, group.group + 1, 99999, 0xffffffff):
        refused(link.ask(k.GROUP_OPEN, id="one", generation=1, group=number), "not_found")
    refused(link.ask(k.GROUP_OPEN, id="other", generation=1, group=group.group), "not_found")
    refused(link.ask(k.GROUP_OPEN, id="one", generation=2, group=group.group), "sandbox_restarted")
    refused(link.ask(k.GROUP_OPEN, id="../one", generation=1, group=group.group), "invalid_request")
    equal(link.ask(k.KILL, id="other", generation=1).type, k.DONE)
    os.close(again.fds[0])


def check_groups(link):
    frame = link.ask(k.START, id="one", generation=1, image="host")
    equal(len(frame.fds), 4 + frame.has_counter + frame.has_usage, "groups that came with STARTED")
    group = link.ask(k.GROUP_NEW, id="one", generation=1)
    equal(len(group.fds), 1)
    check(group.group not in range(frame.groups, frame.groups + 4), "its own number", group)
    procs = os.open("cgroup.procs", os.O_WRONLY, dir_fd=group.fds[0])
    with subprocess.Popen(["sleep", "1000"]) as child:
        os.write(procs, str(child.pid).encode())
        equal(link.ask(k.GROUP_END, id="one", generation=1, group=group.group).type, k.DONE)
        equal(child.wait(GUARD), -signal.SIGKILL)
    equal(link.ask(k.GROUP_END, id="one", generation=1, group=frame.groups).type, k.DONE)
    refused(link.ask(k.GROUP_END, id="one", generation=1, group=99999), "not_found")
    # Another berthd: what is empty goes, what is not stays until it is.
    last = link.ask(k.GROUP_NEW, id="one", generation=1)
    procs2 = os.open("cgroup.procs", os.O_WRONLY, dir_fd=last.fds[0])
    with subprocess.Popen(["sleep", "1000"]) as child:
        os.write(procs2, str(child.pid).encode())
        adopted = link.ask(k.ADOPT, id="one", generation=1)
        equal((adopted.type, len(adopted.fds)), (k.ADOPTED, frame.has_counter + frame.has_usage))
        refused(link.ask(k.GROUP_END, id="one", generation=1, group=frame.groups + 1), "not_found")
        equal(child.poll(), None, "the one in a group")
        check_open(link, last, frame.groups + 1)
        fresh = link.ask(k.GROUP_NEW, id="one", generation=1)
        check(fresh.group > last.group, "a number that was never given", fresh)
        equal(link.ask(k.GROUP_END, id="one", generation=1, group=last.group).type, k.DONE)
        equal(child.wait(GUARD), -signal.SIGKILL)
    refused(link.ask(k.ADOPT, id="one", generation=2), "sandbox_restarted")
    for fd, word in zip(adopted.fds, ["oom_kill 0"] * adopted.has_counter + ["usage_usec"]):
        with open(fd, encoding="ascii") as file:
            check(word in file.read(), word)
    for fd in (*frame.fds, *group.fds, *last.fds, *fresh.fds, procs, procs2):
        os.close(fd)
    return "exec groups: made, filled, ended, proven empty"


@needs_root
def test_disk(place):
    """usage and removal, also of what belongs to a sandbox's own users"""
    place.start()
    link, _, _ = place.hello()
    start(link, "one")
    before = link.ask(k.USAGE, id="one")
    equal(before.type, k.USAGE_IS)
    upper = os.path.join(place.state, "sandboxes/one/upper")
    owner = os.stat(upper).st_uid
    check(place.mode == "root" or FIRST_SUBID <= owner < FIRST_SUBID + SUBIDS, "owner", owner)
    os.makedirs(os.path.join(upper, "a/b/c"))
    for i in range(10):
        with open(os.path.join(upper, f"a/b/c/{i}"), "wb") as file:
            file.write(b"x" * 100_000)
    os.symlink("/etc", os.path.join(upper, "a/etc"))
    for root, names, files in os.walk(upper):
        for name in (*names, *files):
            os.chown(os.path.join(root, name), owner, owner, follow_symlinks=False)
    os.chmod(os.path.join(upper, "a/b"), 0)
    after = link.ask(k.USAGE, id="one")
    check(1_000_000 <= after.disk_bytes - before.disk_bytes < 1_200_000, before, after)
    check(13 <= after.files - before.files <= 15, before, after)
    stats = link.ask(k.STATS, id="one", generation=1)
    check(stats.type in (k.STATS_ARE, k.FAILED), stats)
    link.ask(k.KILL, id="one", generation=1)
    start(link, "one", 2)
    check(os.path.exists(os.path.join(upper, "a/etc")), "the disk survives")
    link.ask(k.KILL, id="one", generation=2)
    equal(link.ask(k.REMOVE, id="one").type, k.DONE)
    equal(disks(place), [], "disks")
    check(os.path.exists("/etc/passwd"), "symlinks are not followed")
    equal(link.ask(k.REMOVE, id="never-was").type, k.DONE)
    equal(link.ask(k.USAGE, id="never-was").type in (k.USAGE_IS, k.FAILED), True)


def test_no_init(place):
    """a runtime that fails tells why, and leaves nothing"""
    place.start()
    link, _, _ = place.hello()
    place.monitor.terminate()
    place.monitor.wait(GUARD)
    place.runtime = place.path("runtime")
    with open(place.runtime, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho 'the dog ate it' >&4\nexit 3\n")
    os.chmod(place.runtime, 0o755)
    place.start()
    link, _, _ = place.hello()
    frame = link.ask(k.START, id="one", generation=1, image="host")
    refused(frame, "start_failed")
    check("the dog ate it" in frame.sentence, frame.sentence)
    equal(os.path.exists(os.path.join(place.run, "one")), False, "<run>/one is there")
    refused(link.ask(k.START, id="one", generation=2, image="host"), "start_failed")


@only("root")
def test_daemon_is_root(place):
    """a berthd that is root, too"""
    place.daemon_uid = 0
    place.start()
    link, _, _ = place.hello()
    start(link, "one")
    equal(link.ask(k.KILL, id="one", generation=1).type, k.DONE)


@only("user")
@needs_root
def test_one_id(place):
    """without ids in /etc/subuid: a warning, no ranges, and it works all the same"""
    place.start(subids=False)
    link, welcome, _ = place.hello()
    equal(welcome.abilities & k.HAS_RANGES, 0)
    check("/etc/subuid" in welcome.warning, welcome.warning)
    start(link, "one")
    equal(link.ask(k.KILL, id="one", generation=1).type, k.DONE)


def test_flags(place):
    """bad flags and bad places: exit codes and sentences"""
    def run(*args):
        return subprocess.run([place.path("berth-keeper"), *args], capture_output=True, text=True,
                              check=False, timeout=GUARD)
    equal(run("--version").stdout.split()[0], "berth-keeper")
    check("--daemon-uid" in run("--help").stdout)
    for args in ([], ["--what"], ["x"], ["--state-dir", "/x"], ["--daemon-uid"],
                 ["--state-dir", "x", "--run-dir", "/x", "--daemon-uid", "1", "--daemon-gid", "1"],
                 ["--state-dir", "/x", "--run-dir", "/x", "--daemon-uid", "-1", "--daemon-gid", "1"],
                 ["--ready-fd", "77", "--state-dir", "/x", "--run-dir", "/x", "--daemon-uid", "0",
                  "--daemon-gid", "0"]):
        done = run(*args)
        equal(done.returncode, 2, args)
        check(done.stderr.startswith("berth-keeper: "), done.stderr)
    os.mkdir(place.state, 0o777)
    os.chmod(place.state, 0o777)
    os.chown(place.state, place.uid, place.uid)
    process, line = place.spawn()
    equal(process.wait(GUARD), 1)
    check("chmod go-w" in line, line)


@needs_root
def test_state_of_other(place):
    """a state directory that belongs to somebody else is refused with a sentence"""
    os.mkdir(place.state, 0o700)
    os.chown(place.state, STRANGER, 0)
    process, line = place.spawn()
    equal(process.wait(GUARD), 1)
    check(str(STRANGER) in line or "cannot be opened" in line, line)


if __name__ == "__main__":
    run_all([test for name, test in list(globals().items()) if name.startswith("test_")
             and (len(sys.argv) < 5 or name in sys.argv[4:])],
            os.path.abspath(sys.argv[1]), sys.argv[2], shutil.which(sys.argv[3], path=os.environ["PATH"] + ":/usr/sbin"))
