"""berth-keeper when things go wrong around it. usage: test_trouble.py BUILD root|user RUNTIME"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys

import keeper_link as k
from place import check, equal, is_alive, needs_root, run_all, stat_of, until
from test_keeper import refused, start


def stop_young_keeper(place):
    """Stops the next keeper right after its fork; its pid."""
    def child():
        with open(f"/proc/{place.monitor.pid}/task/{place.monitor.pid}/children", encoding="ascii") as file:
            return file.read().split()
    before = child()
    os.kill(int(before[0]), signal.SIGKILL)
    while (now := child()) in ([], before):
        pass
    os.kill(int(now[0]), signal.SIGSTOP)
    return int(now[0])


@contextlib.contextmanager
def sleeper():
    """Somebody else's process."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_monitor_killed_early(place):
    """kill -9 of the monitor while a keeper begins: whoever inherits it keeps its own children"""
    place.start()
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: in the place of the machine's first process
    try:
        with sleeper() as bystander:
            keeper = stop_young_keeper(place)
            equal(place.log_text().count("keeper.sock serves"), 1, "it was stopped before it served")
            # The monitor has told it everything by now; else it would find out by itself.
            until(lambda: (stat_of(place.monitor.pid) or "  ")[0] == "S", "the monitor's sleep")
            place.monitor.kill()
            place.monitor.wait()
            os.kill(keeper, signal.SIGCONT)
            os.waitpid(keeper, 0)
            equal(bystander.poll(), None, "the bystander's status")
            bystander.kill()
    finally:
        libc.prctl(36, 0, 0, 0, 0)


def test_wrong_init(place):
    """a runtime that names somebody else's process: no start, and that one is left alone"""
    with sleeper() as bystander:
        place.runtime = place.path("runtime")
        with open(place.runtime, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n[ -f config.json ] && echo {bystander.pid} >pid\nexit 0\n")
        os.chmod(place.runtime, 0o755)
        place.start()
        link, _, _ = place.hello()
        frame = link.ask(k.START, id="one", generation=1, image="host")
        refused(frame, "start_failed")
        check(str(bystander.pid) in frame.sentence, frame.sentence)
        equal(bystander.poll(), None, "the bystander's status")
        equal(os.path.exists(os.path.join(place.run, "one")), False, "<run>/one is there")
        bystander.kill()


def pids_group(place):
    """A cgroup that limits processes, on hosts of either kind."""
    top = "/sys/fs/cgroup/pids" if os.path.exists("/sys/fs/cgroup/pids") else "/sys/fs/cgroup"
    path = os.path.join(top, os.path.basename(place.dir))
    os.mkdir(path)
    return path


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


@needs_root
def test_no_forks(place):
    """while nothing can be forked a sandbox is not down, and nobody is told that it is"""
    place.start()
    link, _, _ = place.hello()
    started = start(link, "one")
    group, keeper = pids_group(place), place.keeper()
    try:
        write(os.path.join(group, "pids.max"), 1)
        write(os.path.join(group, "cgroup.procs"), keeper)
        killed = link.send(k.KILL, id="one", generation=1)
        refused(link.answer(killed), "internal")
        check(not any(f.type == k.EXITED for f in link.waiting), "told", link.waiting)
        check(os.path.exists(os.path.join(place.run, "one")), "<run>/one is gone")
        refused(link.ask(k.START, id="one", generation=2, image="host"), "conflict")
        write(os.path.join(group, "pids.max"), "max")
        equal(link.exited("one").status, signal.SIGKILL, "status")
        equal(os.path.exists(os.path.join(place.run, "one")), False, "<run>/one is there")
        check(not is_alive(started.pid), "init is gone")
        start(link, "one", 2)
    finally:
        write(os.path.join(os.path.dirname(group), "cgroup.procs"), keeper)
        # What the keeper has started meanwhile is in there, too.
        with open(os.path.join(group, "cgroup.procs"), encoding="ascii") as file:
            for pid in file.read().split():
                write(os.path.join(os.path.dirname(group), "cgroup.procs"), pid)
        os.rmdir(group)


def test_remains(place):
    """what is in the way of START or REMOVE is taken down, and the next one works"""
    place.start()
    link, _, _ = place.hello()
    for kind, more in ((k.START, {"image": "host", "generation": 1}), (k.REMOVE, {})):
        os.mkdir(os.path.join(place.run, "one"), 0o711)
        os.chown(os.path.join(place.run, "one"), place.uid, place.uid)
        refused(link.ask(kind, id="one", **more), "conflict")
        until(lambda: not os.path.exists(os.path.join(place.run, "one")), "the take-down")
        until(lambda: link.ask(kind, id="one", **more).type != k.FAILED, "the next one")
        if kind == k.START:
            link.ask(k.KILL, id="one", generation=1)
            link.ask(k.FORGET, id="one", generation=1)


def test_start_behind_unwanted(place):
    """a start that another berthd did not wait for is undone slowly: the next one waits for that"""
    hold, real, place.runtime = place.path("hold"), place.runtime, place.path("runtime")
    with open(place.runtime, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nwhile [ -e {hold} ]; do sleep 0.02; done\nexec {real} "$@"\n')
    os.chmod(place.runtime, 0o755)
    with open(hold, "w", encoding="ascii"):
        pass
    place.start()
    link, _, _ = place.hello()
    link.send(k.START, id="one", generation=1, image="host")
    until(lambda: os.path.exists(os.path.join(place.run, "one", "bundle", "config.json")), "the start")
    link.close()
    link, _, known = place.hello()  # which does not wait for that without end
    equal(known, {}, "nothing runs")
    tag = link.send(k.START, id="one", generation=2, image="host")
    refused(link.ask(k.START, id="one", generation=3, image="host"), "conflict")
    os.unlink(hold)
    equal(link.answer(tag).type, k.STARTED, "the next start")
    equal(link.ask(k.KILL, id="one", generation=2).type, k.DONE, "kill")
    equal(link.exited("one").generation, 2, "the one that ran")
    link.ask(k.FORGET, id="one", generation=2)


def test_few_files(place):
    """a start that runs out of descriptors is refused; it does not take what runs for dead"""
    place.start()
    link, _, _ = place.hello()
    inits = {f"s{i}": start(link, f"s{i}", 4).pid for i in range(16)}  # more than a start needs otherwise
    place.kill_both()
    lines = {}
    for files in range(10, 64):
        process, line = place.spawn(files=files)
        lines[files] = line
        check(all(is_alive(pid) for pid in inits.values()), f"killed with {files} files:", line)
        if line == "ready":
            place.monitor = process
            break
        equal(process.wait(20), 1, line)
    check("ready" in lines.values(), lines)
    check(any("earlier sandboxes cannot be found" in line for line in lines.values()), lines)
    _, _, known = place.hello()
    equal({n: f.pid for n, f in known.items()}, inits, "adopted")
    for pid in inits.values():
        os.kill(pid, signal.SIGKILL)


def test_no_such_cgroup(place):
    """a delegated cgroup that cannot be had is told, and nothing is started without it"""
    process, line = place.spawn("--cgroup", "/nowhere/to/be-found")
    equal(process.wait(20), 1)
    check('cgroup "/nowhere/to/be-found" cannot be used' in line or "cgroup v2 and no other" in line, line)
    check(not os.path.exists(os.path.join(place.run, "keeper.sock")), "it serves")


if __name__ == "__main__":
    run_all([test for name, test in list(globals().items()) if name.startswith("test_")
             and (len(sys.argv) < 5 or name in sys.argv[4:])],
            os.path.abspath(sys.argv[1]), sys.argv[2], shutil.which(sys.argv[3], path=os.environ["PATH"] + ":/usr/sbin"))
