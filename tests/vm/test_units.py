"""The units of scripts/systemd: what a restart, a stop and a start of the services leave running.

usage: test_units.py BUILD system|user        as root, or as a lingering user
"""

import json
import os
import subprocess
import sys
import time

BUILD, KIND = sys.argv[1:]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTALL = os.path.join(ROOT, "scripts", "systemd", "install")
COUNTER = "i=0; while :; do i=$((i + 1)); echo $i >/workspace/count; sleep 0.2; done"
PATIENCE_S = 120


def run(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                          check=False)


def succeed(*words):
    done = run(*words)
    assert done.returncode == 0, done
    return done.stdout


def berth(*words):
    return succeed(os.path.join(BUILD, "berth"), *words)


def systemctl(*words):
    return succeed("systemctl", f"--{KIND}", *words)


def until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return value


def install(*words):
    return succeed(INSTALL, *(["--user"] if KIND == "user" else []), *words)


def main_pid(unit):
    return int(systemctl("show", "--property", "MainPID", "--value", unit))


def life():
    """What must not change: the sandbox's generation and the process inside; and it goes on."""
    process = json.loads(berth("--json", "ps", "box"))[0]
    assert process["state"] == "running", process
    count = int(berth("exec", "box", "--", "cat", "/workspace/count"))
    until(lambda: int(berth("exec", "box", "--", "cat", "/workspace/count") or 0) > count, "it does not go on")
    shown = json.loads(berth("--json", "inspect", "box"))
    return process["pid"], process["generation"], shown["state"], shown["generation"]


def test_install():
    """install starts the services, and may be run again"""
    install()
    install()
    for unit in ("berthd.socket", "berthd.service", "berth-keeper.service", "berth-sandboxes.service"):
        assert systemctl("is-active", unit).strip() == "active", unit


def test_abilities():
    """all limits are there, and the freezer"""
    info = json.loads(berth("--json", "info"))["cgroups"]
    assert info == {"version": "v2", "memory": True, "cpu": True, "pids": True, "freezer": True}, info
    line = next(line for line in run(os.path.join(BUILD, "berth"), "doctor").stdout.splitlines() if "cgroups" in line)
    assert "memory cpu pids freezer" in line, line


def test_place():
    """sandboxes are in the cgroup of berth-sandboxes, the services are not"""
    berth("create", "--start", "--memory", "128M", "--sleep-after", "never", "box")
    berth("exec", "-d", "--name", "counter", "box", "--", "sh", "-c", COUNTER)
    until(lambda: run(os.path.join(BUILD, "berth"), "exec", "box", "--", "cat", "/workspace/count").stdout, "no count")
    group = systemctl("show", "--property", "ControlGroup", "--value", "berth-sandboxes.service").strip()
    found = succeed("find", f"/sys/fs/cgroup{group}", "-name", "box")
    assert "/berth-sandboxes.service/berth-" in found, found
    for unit in ("berthd.service", "berth-keeper.service"):
        with open(f"/proc/{main_pid(unit)}/cgroup", encoding="ascii") as file:
            assert file.read().strip().endswith(unit), unit


def check_kept(*commands):
    before = life()
    for words in commands:
        systemctl(*words)
    until(lambda: run(os.path.join(BUILD, "berth"), "info").returncode == 0, "no berthd answers")
    until(lambda: json.loads(berth("--json", "inspect", "box"))["state"] == "running", "it is not adopted")
    after = life()
    assert after == before, (before, after)


def test_restart_berthd():
    """a restart of berthd leaves them running"""
    pid = main_pid("berthd.service")
    check_kept(("restart", "berthd.service"))
    assert main_pid("berthd.service") != pid


def test_restart_keeper():
    """a restart of berth-keeper leaves them running, and berthd too"""
    pid, other = main_pid("berth-keeper.service"), main_pid("berthd.service")
    check_kept(("restart", "berth-keeper.service"))
    assert main_pid("berth-keeper.service") != pid
    assert main_pid("berthd.service") == other


def test_stop_both():
    """a stop of both leaves them running, and a later start adopts them"""
    check_kept(("stop", "berthd.socket", "berthd.service", "berth-keeper.service"),
               ("start", "berthd.socket", "berth-keeper.service", "berthd.service"))


def test_activation():
    """a connection to the socket starts berthd"""
    systemctl("stop", "berthd.service")
    assert run("systemctl", f"--{KIND}", "is-active", "berthd.service").stdout.strip() == "inactive"
    assert json.loads(berth("--json", "inspect", "box"))["generation"] == 1
    assert systemctl("is-active", "berthd.service").strip() == "active"


def test_killed():
    """berthd and the keeper come back by themselves after kill -9"""
    check_kept(("kill", "--signal", "KILL", "berth-keeper.service"),
               ("kill", "--signal", "KILL", "berthd.service"))


def test_sleep():
    """a frozen one stays frozen over a restart of both, and wakes as it was"""
    before = life()
    berth("sleep", "--mode", "freeze", "box")
    systemctl("restart", "berth-keeper.service", "berthd.service")
    assert json.loads(berth("--json", "inspect", "box"))["state"] == "frozen"
    assert life() == before


def test_limits():
    """a memory limit ends what exceeds it, and says so"""
    hog = "x = []\nfor _ in range(400): x.append(bytearray(1 << 20))"
    done = run(os.path.join(BUILD, "berth"), "exec", "box", "--", "python3", "-c", hog)
    assert done.returncode == 137, done


def test_remove():
    """remove ends everything and leaves no unit and no process"""
    install("--remove")
    for unit in ("berthd.socket", "berthd.service", "berth-keeper.service", "berth-sandboxes.service"):
        assert systemctl("show", "--property", "LoadState", "--value", unit).strip() == "not-found", unit
    left = run("pgrep", "-u", str(os.getuid()), "-x", "berth-keeper|berth-monitor|berthd|berth-init").stdout
    assert not left, left
    install("--remove")


def main():
    tests = [test_install, test_abilities, test_place, test_restart_berthd, test_restart_keeper, test_stop_both,
             test_activation, test_killed, test_sleep, test_limits, test_remove]
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__doc__}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {test.__doc__}\n# {error!r}", flush=True)
            log = run("journalctl", "--no-pager", "-n", "40", "-o", "cat").stdout
            print("\n".join("# " + line for line in log.splitlines()), flush=True)
    sys.exit(1 if failed else 0)


main()
