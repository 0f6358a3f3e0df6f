"""A real berth-keeper whose calls fail, one after the other, while it starts a sandbox.

usage: test_starts.py BUILD root|user RUNTIME LIBRARY [CASE...]. STARTS_ALL=1: every call of each kind; else, where
there are many of them, some that are evenly spread.
"""

import contextlib
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "keeper"))

# pylint: disable=wrong-import-position
import faults as f  # noqa: E402
import keeper_link as k  # noqa: E402
from limits import limit_files, soft_files  # noqa: E402
from place import Failed, check, equal, is_alive, only, own_mounts, run_all, until  # noqa: E402

LIBRARY = os.path.abspath(sys.argv[4])
FEW = 10**6 if os.environ.get("STARTS_ALL") == "1" else 4  # of one kind that are tried
MOST = 2000  # calls of one kind that a start may take
ENDS_STEP = {f.UNMAKE: 7, f.FORK: 1, f.OPEN: 9}  # of those of an end, every so many


@contextlib.contextmanager
def environment(values):
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Ground:
    """A keeper with the library, and what there is of it while nothing runs."""

    def __init__(self, place):
        self.place, self.faults = place, f.Faults(LIBRARY, place.path("faults"), "berth-keeper")
        with environment(self.faults.env):
            place.start()
        self.link, _, _ = place.hello()
        self.count = 0
        self.use("first")  # what is made once for all
        self.keeper, self.before = place.keeper(), self.look()
        self.fds = self.count_fds()

    def look(self):
        place = self.place
        return {
            "mounts": sorted(place.mounts(place.keeper())), "host mounts": place.mounts(),
            "cgroups": [c for c in place.cgroups() if not c.endswith(place.cgroup_name())],
            "run": sorted(os.listdir(place.run)),
            "disks": sorted(os.listdir(os.path.join(place.state, "sandboxes"))),
            "trash": os.listdir(os.path.join(place.state, "sandboxes", ".trash")),
            "processes": len([p for p in place.processes() if is_alive(p)]),
        }

    def count_fds(self):
        return len(os.listdir(f"/proc/{self.keeper}/fd"))

    def ask(self, kind, **values):
        frame = self.link.ask(kind, **values)
        for fd in frame.fds:
            os.close(fd)
        return frame

    def start(self, name, generation):
        return self.ask(k.START, id=name, generation=generation, image="host")

    def end(self, name, generation):
        equal(self.ask(k.KILL, id=name, generation=generation).type, k.DONE, "kill")
        equal(self.link.exited(name).generation, generation, "exited")
        equal(self.ask(k.FORGET, id=name, generation=generation).type, k.DONE, "forget")

    def use(self, name, generation=1):
        """As if nothing had been."""
        frame = self.start(name, generation)
        check(frame.type == k.STARTED, "a start without a fault:", frame)
        check(is_alive(frame.pid), "its init is gone")
        self.end(name, generation)
        equal(self.ask(k.REMOVE, id=name).type, k.DONE, "remove")

    def check_same(self):
        """Waits: the last of a dying process goes without an event."""
        equal(self.place.keeper(), self.keeper, "the keeper's pid")

        def differences():
            now = self.look()
            return {key: (self.before[key], now[key]) for key in now if now[key] != self.before[key]}
        try:
            until(lambda: not differences(), "everything to be as before")
        except Failed as error:
            raise Failed(f"left behind: {differences()}") from error


def await_answer(g, name):
    """Of a start. An answer that there is no memory for is the end of the line: told to whoever comes next."""
    try:
        return g.start(name, 1)
    except EOFError:
        g.faults.disarm()
        g.link, _, known = g.place.reconnect()
        for frame in known.values():
            g.end(frame.id, frame.generation)
        return None


def try_start(g, kind, nth):
    """(calls of that kind, whether one failed, whether that was too much)."""
    g.count += 1
    name = f"s{g.count}"
    g.faults.arm(kind, nth)
    frame = await_answer(g, name)
    calls, hits = g.faults.disarm()
    check(frame or kind == f.MEMORY, "it was cut off")
    has_failed = not frame or frame.type == k.FAILED
    if frame and has_failed:
        check(len(frame.sentence) > 15 and frame.code in k.ERRORS, "no sentence:", frame)
        check(hits, "without a fault:", frame)
    elif frame:
        check(frame.type == k.STARTED and is_alive(frame.pid), "a false success:", frame)
        g.end(name, 1)
    if has_failed:
        g.use(name, 2)
    else:
        equal(g.ask(k.REMOVE, id=name).type, k.DONE, "remove")
    g.check_same()
    return calls, hits, has_failed


def sweep(g, kind):
    """Each of these calls in turn, or some of them, until there is none left to fail."""
    calls, _, _ = try_start(g, kind, MOST)
    step, failed, tried = max(1, -(-calls // FEW)), 0, 0
    for nth in range(1, MOST, step):
        try:
            _, hits, has_failed = try_start(g, kind, nth)
        except (Failed, OSError, EOFError) as error:
            raise Failed(f"{f.NAMES[kind]} {nth}: {error!r}") from error
        if not hits:
            return calls, tried, failed
        failed, tried = failed + has_failed, tried + 1
    raise Failed(f"more than {MOST} calls: {f.NAMES[kind]}")


def test_starts(place):
    """each mount, fork, open, mkdir, write and allocation of a start fails in turn: said, and nothing is left"""
    g = Ground(place)
    done = {}
    for kind in (f.MOUNT, f.FORK, f.MAKE, f.SYNC, f.WRITE, f.MEMORY, f.OPEN):
        calls, tried, failed = sweep(g, kind)
        done[f.NAMES[kind]] = f"{failed} of {tried} tried, of {calls}"
    print(f"# failures: {done}", flush=True)
    check(all(not done[f.NAMES[kind]].startswith("0 ") for kind in (f.MOUNT, f.FORK, f.MAKE, f.OPEN)), done)
    until(lambda: g.count_fds() <= g.fds, f"descriptors of the keeper: {g.count_fds()}, at first {g.fds}")
    check("Sanitizer" not in place.log_text(), place.log_text()[-3000:])


def try_end(g, kind, nth):
    """Whether the nth of these calls was reached while one was ended and its disk removed."""
    g.count += 1
    name = f"e{g.count}"
    check(g.start(name, 1).type == k.STARTED, "start")
    g.faults.arm(kind, nth)
    answers = [g.ask(k.KILL, id=name, generation=1)]
    if answers[0].type == k.DONE:
        equal(g.link.exited(name).generation, 1, "exited")
        answers.append(g.ask(k.REMOVE, id=name))
    _, hits = g.faults.disarm()
    for frame in answers:
        check(frame.type == k.DONE or len(frame.sentence) > 15, "no sentence:", frame)
    # Whatever was too much is done now, and what was done is done.
    if answers[0].type != k.DONE:
        equal(g.link.exited(name).generation, 1, "exited")
    g.ask(k.FORGET, id=name, generation=1)
    until(lambda: g.ask(k.REMOVE, id=name).type == k.DONE, "the removal")
    g.check_same()
    return hits


def test_ends(place):
    """each unmount, unlink, open and fork of an end fails in turn: it comes to its end all the same"""
    g = Ground(place)
    done = {}
    for kind in (f.UNMAKE, f.FORK, f.OPEN):
        step = 1 if FEW > MOST else ENDS_STEP[kind]
        for nth in range(1, MOST, step):
            try:
                if not try_end(g, kind, nth):
                    break
            except (Failed, OSError, EOFError) as error:
                raise Failed(f"{f.NAMES[kind]} {nth}: {error!r}") from error
            done[f.NAMES[kind]] = nth
    print(f"# calls of an end: {done}", flush=True)
    check(len(done) == 3, done)
    check("Sanitizer" not in place.log_text(), place.log_text()[-3000:])


def check_refused(frame, *codes):
    check(frame.type == k.FAILED and len(frame.sentence) > 15, "no sentence:", frame)
    check(not codes or k.ERRORS.get(frame.code) in codes, "code:", k.ERRORS.get(frame.code), frame.sentence)


def test_few_files(place):
    """a keeper without descriptors for a start says so, and nothing is left; with enough of them it starts"""
    g = Ground(place)
    outcomes, most = [], soft_files(g.keeper)
    for more in range(0, 60, 6):
        name = f"s{more}"
        limit_files(g.keeper, g.fds + more)
        try:
            frame = g.start(name, 1)
        finally:
            limit_files(g.keeper, most)
        outcomes.append(frame.type == k.STARTED)
        if outcomes[-1]:
            g.end(name, 1)
        else:
            check_refused(frame)
        g.use(name, 2)
        g.check_same()
    check(outcomes[0] is False and outcomes[-1] is True, outcomes)


@only("root")
def test_full_run(place):
    """a run directory without room, as a tmpfs can be: the start is refused, and nothing is left"""
    own_mounts()  # ours alone, so that they go with us
    os.makedirs(place.run, 0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k,mode=0711", "tmpfs", place.run], check=True)
    try:
        g = Ground(place)
        filler = os.path.join(place.run, "berthd")  # which no keeper takes for a sandbox
        for left in (0, 4096, 8192, 16384):
            with open(filler, "wb", buffering=0) as file:
                with contextlib.suppress(OSError):
                    while file.write(b"x" * 4096):
                        pass
                file.truncate(max(0, file.tell() - left))
            frame = g.start("one", 1)
            if frame.type == k.STARTED:
                g.end("one", 1)
            else:
                check_refused(frame, "disk_limit", "start_failed")
            check(left or frame.type == k.FAILED, "there was room")
            os.unlink(filler)
            g.use("one", 2)
            g.check_same()
        place.take_down()
    finally:
        place.kill(place.processes())
        subprocess.run(["umount", "-l", place.run], check=True)


if __name__ == "__main__":
    tests = [test_starts, test_ends, test_few_files, test_full_run]
    run_all([test for test in tests if len(sys.argv) < 6 or test.__name__ in sys.argv[5:]], os.path.abspath(sys.argv[1]), sys.argv[2],
            shutil.which(sys.argv[3], path=os.environ["PATH"] + ":/usr/sbin"))
