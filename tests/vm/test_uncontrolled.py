"""Berth where it has no controllers: as a person of this machine, or as root of a container.

usage: test_uncontrolled.py BUILD delegated|session|contained
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

BUILD, CGROUP = sys.argv[1:]


def berth(*words):
    return subprocess.run([os.path.join(BUILD, "berth"), *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300, check=False)


def succeed(*words):
    done = berth(*words)
    assert done.returncode == 0, done
    return done.stdout


def test_doctor():
    """doctor says what cgroups are for here"""
    line = next(line for line in berth("doctor").stdout.splitlines() if "cgroups" in line)
    if CGROUP == "contained":
        assert "v2, but not usable by us: memory cpu pids" in line, line
        return
    assert "v2, but not for a daemon that you start by hand" in line, line


def test_info():
    """info calls no controller usable"""
    info = json.loads(succeed("--json", "info"))["cgroups"]
    assert info == {"version": "v2", "memory": False, "cpu": False, "pids": False,
                    "freezer": CGROUP == "contained"}, info


def test_run():
    """a command runs, as root of its sandbox, and its tree ends with its time"""
    assert succeed("run", "--rm", "--", "id", "-u").strip() == "0"
    done = berth("run", "--rm", "--timeout", "2s", "--", "sh", "-c", "setsid sleep 777 & sleep 777")
    assert done.returncode == 124, done
    left = subprocess.run(["pgrep", "-f", "^sleep 777"], capture_output=True, text=True, check=False)
    assert not left.stdout, left


def test_limit():
    """a limit that cannot be kept is refused"""
    done = berth("create", "--start", "--memory", "64M", "limited")
    assert done.returncode != 0 and "limit memory" in done.stderr, done


def main():
    tests = [test_doctor, test_info, test_run, test_limit]
    failed = 0
    home = tempfile.mkdtemp(prefix="berth-vm-", dir=os.path.expanduser("~"))
    os.environ["XDG_STATE_HOME"] = os.environ["HOME"] = home
    print(f"1..{len(tests)}", flush=True)
    up = berth("up")
    print("# up:", up.stdout.strip(), up.stderr.strip(), flush=True)
    try:
        for number, test in enumerate(tests, 1):
            try:
                test()
                print(f"ok {number} - {test.__doc__}", flush=True)
            except Exception as error:  # pylint: disable=broad-except
                failed += 1
                print(f"not ok {number} - {test.__doc__}\n# {error!r}", flush=True)
    finally:
        berth("down")
        shutil.rmtree(home, ignore_errors=True)
    sys.exit(1 if failed or up.returncode else 0)


main()
