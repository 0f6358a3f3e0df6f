"""`berth selftest` against a daemon without walls: every check must find its hole. One that dies of it is a hole, too.

usage: test_holes.py BUILD_DIR [gone]     gone: only the one that dies
As nobody in particular, in a network of its own that leads nowhere.
"""

import ctypes
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile

from naive import Fragile, Naive

BUILD, IS_BRIEF = os.path.abspath(sys.argv[1]), sys.argv[2:] == ["gone"]
NOBODY = 65533
NEW_USER_AND_NET = 0x10000000 | 0x40000000
CHECKS = (1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 23, 25, 26, 27, 28, 29, 33, 37, 40, 41, 42)
HARMLESS = {os.makedev(1, n) for n in (3, 5, 7, 8, 9)} | {os.makedev(5, n) for n in (0, 1, 2)}


def leave_the_network():
    """Root of a namespace that has a route, but to nobody; nobody in particular to the machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/self is ours again
    ids = {"uid_map": os.getuid(), "gid_map": os.getgid()}
    if libc.unshare(NEW_USER_AND_NET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), *((name, f"0 {outside} 1") for name, outside in ids.items())):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    for words in ("link set lo up", "route add default dev lo", "-6 route add default dev lo"):
        subprocess.run(["ip", *words.split()], check=True)


def is_expected(number):
    """Not on every machine is there something to be found."""
    if number == 12:
        devices = (os.lstat(os.path.join(top, name)) for top, _, names in os.walk("/dev") for name in names)
        return any(stat.S_ISBLK(d.st_mode) or stat.S_ISCHR(d.st_mode) and d.st_rdev not in HARMLESS
                   and os.major(d.st_rdev) != 136 for d in devices)
    if number == 28:  # newer kernels deny it by themselves
        try:
            with open("/proc/sys/dev/tty/legacy_tiocsti", encoding="ascii") as file:
                return file.read().strip() == "1"
        except FileNotFoundError:
            return True
    return True


def run(place, kind, *numbers):
    listener = socket.socket(socket.AF_UNIX)
    path, workspace = (os.path.join(place, kind.__name__ + end) for end in (".sock", ""))
    listener.bind(path)
    listener.listen(64)
    os.chmod(path, 0o666)
    os.makedirs(workspace)
    naive = kind(listener, workspace)
    try:
        return subprocess.run([os.path.join(place, "berth"), "--socket", path, "--json", "selftest", *numbers],
                              timeout=170, stdout=subprocess.PIPE, check=False, env={**os.environ, "TMPDIR": place})
    finally:
        naive.end_all()
        if naive.failures:
            print(f"# the daemon: {naive.failures}")


def judge_naive(place):
    """Its test points."""
    done = run(place, Naive)
    answer = json.loads(done.stdout)
    found = {check["number"]: check for check in answer["checks"]}
    left = [name for name in os.listdir(place) if name.startswith("berth-selftest-")]
    points = [("the exit code is 1", done.returncode == 1 and answer["ok"] is False),
              ("every check is there", sorted(found) == sorted(CHECKS)),
              ("the canary is gone", not left)]
    for number in CHECKS:
        row = found.get(number, {"status": "missing", "message": ""})
        points.append((f"{number}: {row['status']}, {row['message']}",
                       row["status"] == "hole" or not is_expected(number)))
    return points


def judge_fragile(place):
    """Its test point."""
    done = run(place, Fragile, "40")
    try:
        row = json.loads(done.stdout)["checks"][0]
    except ValueError:
        row = {"status": f"exit code {done.returncode}", "message": "no verdict"}
    return (f"gone at 40: {row['status']}, {row['message']}",
            (done.returncode, row["status"], "did not survive" in row["message"]) == (1, "hole", True))


def main():
    place = tempfile.mkdtemp(prefix="berth-holes-")
    shutil.copy(os.path.join(BUILD, "berth"), place)
    if os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    leave_the_network()
    print(f"1..{1 if IS_BRIEF else len(CHECKS) + 4}", flush=True)
    try:
        points = [judge_fragile(place), *([] if IS_BRIEF else judge_naive(place))]
        for number, (title, is_good) in enumerate(points, 1):
            print(f"{'ok' if is_good else 'not ok'} {number} - {title}")
    finally:
        shutil.rmtree(place)
    sys.exit(0 if all(is_good for _, is_good in points) else 1)


main()
