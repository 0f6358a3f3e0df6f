"""A runtime that is killed at its start. usage: test_killed.py BUILD root|user RUNTIME"""

import os
import platform
import shutil
import sys
import tempfile

import keeper_link as k
from place import IS_ROOT, check, equal, run_all, until
from test_keeper import refused, start

tempfile.tempdir = "/var/tmp"  # since the keeper gets a /tmp of its own
# What is put on a runtime, with its number on each kind of machine. The first calls of these are those by which it
# makes sure that nobody inside can write to its program: on a file that it makes for a moment.
CALLS = {"x86_64": {"mount": 165, "umount2": 166}, "aarch64": {"mount": 40, "umount2": 39}}[platform.machine()]
RUNTIME = """#!/usr/bin/python3
import ctypes, os, struct, sys
try:
    number = int(open({trap!r}).read())
except FileNotFoundError:
    number = None
if number:
    libc = ctypes.CDLL(None, use_errno=True)
    rules = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x80000000), (6, 0, 0, 0x7fff0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
    libc.prctl(38, 1, 0, 0, 0)
    if libc.prctl(22, 2, program) != 0:
        sys.exit("no filter")
os.execv({real!r}, [{real!r}] + sys.argv[1:])
"""


def make_runtime(place):
    """One that is killed by the kernel in the middle of the call whose number the file `trap` holds."""
    trap, real = place.path("trap"), shutil.which(place.runtime)
    place.runtime = place.path(f"{os.path.basename(real)}-killed")
    with open(place.runtime, "w", encoding="utf-8") as file:
        file.write(RUNTIME.format(trap=trap, real=real))
    os.chmod(place.runtime, 0o755)
    return trap


def own_tmp(place):
    """Where the keeper's /tmp is, so that what other runs leave there is not taken for ours."""
    if IS_ROOT:
        place.tmp = place.path("tmp")
        os.mkdir(place.tmp)
        os.chmod(place.tmp, 0o1777)
    return place.tmp or "/tmp"


def left_in(tmp, place):
    return [name for name in os.listdir(tmp) if name.startswith(("crun.", "runc."))
            and os.lstat(os.path.join(tmp, name)).st_uid == place.uid]


def test_killed(place):
    """43: runtimes that are killed at their start leave no file in /tmp, no mount and no state"""
    trap, tmp = make_runtime(place), own_tmp(place)
    place.start()
    link, _, _ = place.hello()
    start(link, "first")
    link.ask(k.KILL, id="first", generation=1)
    link.exited("first")
    link.ask(k.FORGET, id="first", generation=1)
    before = sorted(place.mounts(place.keeper()))
    for name, number in CALLS.items():
        for turn in range(3):
            with open(trap, "w", encoding="ascii") as file:
                file.write(str(number))
            refused(link.ask(k.START, id=f"{name}-{turn}", generation=1, image="host"), "start_failed")
            equal(left_in(tmp, place), [], f"left in /tmp by a runtime that was killed in {name}")
            equal(sorted(place.mounts(place.keeper())), before, f"mounts after {name}")
            equal(os.listdir(os.path.join(place.run, ".runtime")), [], f"states after {name}")
            check(not os.path.exists(os.path.join(place.run, f"{name}-{turn}")), "its run directory is there")
            os.unlink(trap)
            start(link, f"{name}-{turn}", 2)
            link.ask(k.KILL, id=f"{name}-{turn}", generation=2)
            until(lambda: not os.listdir(os.path.join(place.run, ".runtime")), "the take-down")
            link.exited(f"{name}-{turn}")
            link.ask(k.FORGET, id=f"{name}-{turn}", generation=2)
    equal(left_in(tmp, place), [], "left in /tmp")


if __name__ == "__main__":
    run_all([test for name, test in list(globals().items()) if name.startswith("test_")
             and (len(sys.argv) < 5 or name in sys.argv[4:])],
            os.path.abspath(sys.argv[1]), sys.argv[2], shutil.which(sys.argv[3], path=os.environ["PATH"] + ":/usr/sbin"))
