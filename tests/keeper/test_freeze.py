"""Sandboxes that are frozen and thawed. usage: test_freeze.py BUILD root|user RUNTIME"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time

import keeper_link as k
from place import GUARD, cgroup_mounts, check, equal, is_alive, only, run_all, stat_of, until
from test_keeper import refused, start

STILL = 0.3  # seconds in which what counts would have counted on


def group_of(place, sandbox):
    """The cgroup that is frozen."""
    v2 = [] if place.hides_v2 else cgroup_mounts("cgroup2")
    return os.path.join((v2 or cgroup_mounts("cgroup", controller="freezer"))[0], place.cgroup_name(), sandbox)


def enter(group):
    with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
        file.write("0")


class Counter:
    """A process of a sandbox, in its pid namespace and in a cgroup of it, that makes a file longer."""

    def __init__(self, place, init, group):
        self.path = place.path(f"count-{init}-{time.monotonic_ns()}")
        with open(self.path, "wb") as file:
            self.process = subprocess.Popen(
                ["nsenter", "--target", str(init), "--pid", "sh", "-c", "while :; do echo; done"],
                stdout=file, preexec_fn=lambda: enter(group))
        until(self.size, "the first count")

    def size(self):
        return os.path.getsize(self.path)

    def check_counts(self):
        before = self.size()
        until(lambda: self.size() > before, "a higher count")

    def check_stands(self):
        before = self.size()
        time.sleep(STILL)
        equal(self.size(), before, "the count of one that is frozen")

    def until_stands(self):
        """While nobody tells."""
        def stands():
            before = self.size()
            time.sleep(STILL)
            return self.size() == before
        until(stands, "the end of counting")

    def check_dead(self):
        equal(self.process.wait(GUARD), -signal.SIGKILL, "the counter's status")


def ask(link, kind, sandbox="one", generation=1):
    equal(link.ask(kind, id=sandbox, generation=generation).type, k.DONE, "DONE")


def is_frozen(place, sandbox="one"):
    """As a new berthd is told."""
    link, _, known = place.reconnect()
    equal(known[sandbox].type, k.RUNNING)
    return link, bool(known[sandbox].is_frozen)


def begin(place):
    place.start()
    link, welcome, _ = place.hello()
    check(welcome.abilities & k.CAN_FREEZE, "it can freeze", welcome.abilities)
    equal(bool(welcome.abilities & k.HAS_GROUPS), not place.hides_v2 and bool(cgroup_mounts("cgroup2")), "groups")
    started = start(link, "one")
    return link, started, Counter(place, started.pid, group_of(place, "one"))


def check_life(place):
    link, started, counter = begin(place)
    ask(link, k.THAW)  # it is not frozen
    for _ in range(2):
        ask(link, k.FREEZE)
        counter.check_stands()
    refused(link.ask(k.FREEZE, id="one", generation=2), "sandbox_restarted")
    refused(link.ask(k.THAW, id="two", generation=1), "not_found")
    link, frozen = is_frozen(place)
    check(frozen, "told to be frozen")
    counter.check_stands()
    for _ in range(2):
        ask(link, k.THAW)
        counter.check_counts()
    link, frozen = is_frozen(place)
    check(not frozen, "told to be frozen, and is not")
    tags = [link.send(kind, id="one", generation=1) for kind in (k.FREEZE, k.THAW) * 100]
    check(all(link.answer(tag).type in (k.DONE, k.FAILED) for tag in tags), "each one is answered")
    counter.check_counts()
    check(is_alive(started.pid), "init lives")


def check_killed(place):
    link, started, counter = begin(place)
    for generation in (1, 2):
        ask(link, k.FREEZE, "one", generation)
        counter.check_stands()
        killed = link.send(k.KILL, id="one", generation=generation)
        refused(link.ask(k.FREEZE, id="one", generation=generation), "conflict")
        exited = link.exited("one")
        equal((exited.is_known, exited.status), (1, signal.SIGKILL), "exited")
        equal(link.answer(killed).type, k.DONE)
        check(not is_alive(started.pid), "init is gone")
        counter.check_dead()
        equal([path for path in place.cgroups() if os.path.basename(path) == "one"], [], "cgroups")
        equal(os.path.exists(os.path.join(place.run, "one")), False, "<run>/one is there")
        started = start(link, "one", generation + 1)
        counter = Counter(place, started.pid, group_of(place, "one"))
    ask(link, k.KILL, "one", 3)
    counter.check_dead()
    ask(link, k.REMOVE)


def check_adopted(place):
    """A keeper of later: with the same monitor, with another, and to kill it at once."""
    _, started, counter = begin(place)
    for end in (place.kill_keeper, place.kill_both):
        link, _ = is_frozen(place)
        ask(link, k.FREEZE)
        end()
        counter.check_stands()
        if end == place.kill_both:
            place.start()
        link, frozen = is_frozen(place)
        check(frozen, "told to be frozen")
        equal(link.ask(k.ADOPT, id="one", generation=1).type, k.ADOPTED)
        counter.check_stands()
        ask(link, k.THAW)
        counter.check_counts()
    ask(link, k.FREEZE)
    place.kill_keeper()
    link, _ = is_frozen(place)
    ask(link, k.KILL)
    check(not is_alive(started.pid), "init is gone")
    counter.check_dead()


def only_v1(check_it):
    """As on a host that has no unified hierarchy."""
    def run(place):
        if not cgroup_mounts("cgroup", controller="freezer"):
            return "v1 alone: this host has no v1"
        place.hides_v2 = True
        return check_it(place)
    return run


@only("root")
def test_life(place):
    """what is frozen stands still, what is thawed goes on; both may be asked for twice"""
    check_life(place)


@only("root")
def test_life_v1(place):
    """v1 alone: what is frozen stands still, what is thawed goes on"""
    return only_v1(check_life)(place)


@only("root")
def test_killed(place):
    """what is frozen can be killed and removed, and nothing is left"""
    check_killed(place)


@only("root")
def test_killed_v1(place):
    """v1 alone: what is frozen can be killed and removed"""
    return only_v1(check_killed)(place)


def check_doomed(place):
    link, started, counter = begin(place)
    ask(link, k.FREEZE)
    os.kill(started.pid, signal.SIGKILL)
    counter.check_stands()
    check(is_alive(started.pid), "who is frozen by v1 cannot die")
    refused(link.ask(k.THAW, id="one", generation=1), "not_found")
    exited = link.exited("one")
    equal((exited.is_known, exited.status), (1, signal.SIGKILL), "exited")
    counter.check_dead()


@only("root")
def test_doomed_v1(place):
    """v1 alone: one that was killed while frozen is not said to be thawed, but ends"""
    return only_v1(check_doomed)(place)


@only("root")
def test_adopted(place):
    """kill -9 of the keeper: the next one tells that it is frozen, and thaws or kills it"""
    check_adopted(place)


@only("root")
def test_adopted_v1(place):
    """v1 alone: the next keeper tells that it is frozen, and thaws or kills it"""
    return only_v1(check_adopted)(place)


@only("root")
def test_group_end(place):
    """an exec group of a frozen sandbox is ended and proven empty, and the rest stays frozen"""
    place.start()
    link, welcome, _ = place.hello()
    if not welcome.abilities & k.HAS_GROUPS:
        return "no exec groups, frozen or not"
    started = start(link, "one")
    group = link.ask(k.GROUP_NEW, id="one", generation=1)
    path = os.path.join(group_of(place, "one"), f"exec-{group.group}")
    stays, ends = (Counter(place, started.pid, where) for where in (group_of(place, "one"), path))
    ask(link, k.FREEZE)
    ends.check_stands()
    equal(link.ask(k.GROUP_END, id="one", generation=1, group=group.group).type, k.DONE)
    ends.check_dead()
    check(not os.path.exists(path), "the group is gone")
    fresh = link.ask(k.GROUP_NEW, id="one", generation=1)
    equal(fresh.type, k.GROUP)
    stays.check_stands()
    link, frozen = is_frozen(place)
    check(frozen, "told to be frozen")
    ask(link, k.THAW)
    stays.check_counts()
    ask(link, k.KILL)
    stays.check_dead()
    for fd in (*group.fds, *fresh.fds):
        os.close(fd)
    return None


def hangs(pid):
    """In that file system, and not for a moment in another: a busy disk is waited for in the same state."""
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
            where = file.read()
    except OSError:
        return False
    return (stat_of(pid) or " ")[0] == "D" and (where in ("", "0") or "fuse" in where or "request_wait" in where)


@contextlib.contextmanager
def stuck(place, group):
    """A process in that cgroup that hangs in the kernel: it waits for a file system that never answers."""
    libc, path = ctypes.CDLL(None, use_errno=True), place.path("stuck")
    os.makedirs(path, exist_ok=True)
    fuse = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    equal(libc.mount(b"stuck", path.encode(), b"fuse", 0, options), 0, os.strerror(ctypes.get_errno()))
    try:
        with subprocess.Popen(["stat", os.path.join(path, "file")], stderr=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, preexec_fn=lambda: enter(group)) as process:
            try:
                until(lambda: hangs(process.pid), "its hanging")
                yield process
            finally:
                process.kill()
    finally:
        libc.umount2(path.encode(), 2)
        os.close(fuse)


@only("root")
def test_stuck(place):
    """one that cannot be frozen: said within seconds, and all run on"""
    link, _, counter = begin(place)
    group = group_of(place, "one")
    if not os.path.exists(os.path.join(group, "cgroup.freeze")) or not os.path.exists("/dev/fuse"):
        return "one that cannot be frozen: not on this host"
    with stuck(place, os.path.join(group, "exec-1")):
        refused(link.ask(k.FREEZE, id="one", generation=1), "timeout")
        counter.check_counts()
    ask(link, k.FREEZE)
    ask(link, k.THAW)
    with stuck(place, group) as process:
        for _ in range(2):
            refused(link.ask(k.FREEZE, id="one", generation=1), "timeout")
        counter.check_counts()
        tags = [link.send(kind, id="one", generation=1) for kind in (k.FREEZE, k.FREEZE, k.THAW)]
        for tag in tags[:2]:
            refused(link.answer(tag), "conflict")
        equal(link.answer(tags[2]).type, k.DONE)
        counter.check_counts()
        # Nobody waits for it any more: the next berthd, or keeper, finds it running.
        for kill in (lambda: None, place.kill_keeper):
            link.send(k.FREEZE, id="one", generation=1)
            counter.until_stands()
            kill()
            link, frozen = is_frozen(place)
            check(not frozen, "it is frozen, and nobody was told")
            counter.check_counts()
        tags = [link.send(kind, id="one", generation=1) for kind in (k.FREEZE, k.KILL)]
        refused(link.answer(tags[0]), "conflict")
        equal(link.answer(tags[1]).type, k.DONE)
        equal(process.wait(GUARD), -signal.SIGKILL, "the stuck one's status")
        counter.check_dead()
    return None


def usage_us(fd):
    text = os.pread(fd, 4096, 0).decode()
    words = text.split()
    return int(words[1]) if words[0] == "usage_usec" else int(text) // 1000


def check_usage(place):
    place.start()
    link, _, _ = place.hello()
    started = link.ask(k.START, id="one", generation=1, image="host")
    check(started.has_usage, started)
    adopted = link.ask(k.ADOPT, id="one", generation=1)
    equal((adopted.type, adopted.has_usage), (k.ADOPTED, 1))
    equal(len(adopted.fds), adopted.has_counter + 1)
    counter = Counter(place, started.pid, group_of(place, "one"))
    if place.hides_v2:  # it is counted in another hierarchy
        where = os.path.join(cgroup_mounts("cgroup", controller="cpuacct")[0], place.cgroup_name(), "one/cgroup.procs")
        with open(os.path.join(group_of(place, "one"), "cgroup.procs"), encoding="ascii") as procs:
            for pid in procs.read().split():
                with open(where, "w", encoding="ascii") as file:
                    file.write(pid)
    for fd in (started.fds[-1], adopted.fds[-1]):
        before = usage_us(fd)
        until(lambda: usage_us(fd) > before + 50_000, "a rise")  # pylint: disable=cell-var-from-loop
    stats = link.ask(k.STATS, id="one", generation=1)
    check(stats.cpu_us >= before, "STATS tell the same", stats, before)
    ask(link, k.FREEZE)
    before = usage_us(started.fds[-1])
    time.sleep(STILL)
    check(usage_us(started.fds[-1]) < before + 10_000, "what is frozen uses nothing")
    counter.check_stands()
    for fd in (*started.fds, *adopted.fds):
        os.close(fd)


@only("root")
def test_usage(place):
    """the file with its processor time: rises, and stands still with it"""
    check_usage(place)


@only("root")
def test_usage_v1(place):
    """v1 alone: the file with its processor time"""
    return only_v1(check_usage)(place)


@only("user")
def test_unsupported(place):
    """without cgroups nothing is frozen, and that is said"""
    place.start()
    link, welcome, _ = place.hello()
    equal(welcome.abilities & k.CAN_FREEZE, 0)
    started = start(link, "one")
    equal(started.has_usage, 0)
    for kind in (k.FREEZE, k.THAW):
        refused(link.ask(kind, id="one", generation=1), "unsupported")
        refused(link.ask(kind, id="one", generation=2), "sandbox_restarted")
    link, frozen = is_frozen(place)
    check(not frozen and is_alive(started.pid))
    ask(link, k.KILL)


if __name__ == "__main__":
    run_all([test for name, test in list(globals().items()) if name.startswith("test_")
             and (len(sys.argv) < 5 or name in sys.argv[4:])],
            os.path.abspath(sys.argv[1]), sys.argv[2], shutil.which(sys.argv[3], path=os.environ["PATH"] + ":/usr/sbin"))
