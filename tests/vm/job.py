"""Inside the machine: unpacks the job's disk where it lay on the host, runs its tests one by one.

The tests' own output goes out as it is, between lines that say where one begins and how it ended.
"""

import json
import os
import subprocess
import sys
import time

DISK = "/dev/vdb"
USER = 1000


CONTAINED = """
mkdir /sys/fs/cgroup/box && echo $$ >/sys/fs/cgroup/box/cgroup.procs &&
exec unshare -Cm sh -c 'umount /sys/fs/cgroup && mount -t cgroup2 box /sys/fs/cgroup && exec "$@"' sh "$@"
"""


def placed(words, cgroup):
    """In a delegated cgroup of a user's manager, outside of it but able to ask it, outside of it, or as
    in a container."""
    if cgroup is None:
        return words
    if cgroup == "contained":
        return ["sh", "-c", CONTAINED, "sh", *words]
    user = ["runuser", "-u", "tester", "--", "env", "HOME=/home/tester"]
    if cgroup == "session":
        return [*user, *words]
    user.append(f"XDG_RUNTIME_DIR=/run/user/{USER}")
    if cgroup == "manager":
        return [*user, *words]
    return [*user, "systemd-run", "--user", "--quiet", "--pipe",
            "--wait", "--collect", "-p", "Delegate=yes", *words]


def run(test):
    words = placed(test["cmd"], test["cgroup"])
    print(f"\nvm: begin {test['name']}", flush=True)
    began = time.monotonic()
    try:
        code = subprocess.run(words, cwd=test["cwd"], env={**os.environ, **test["env"]}, check=False,
                              stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                              timeout=test["timeout"]).returncode
    except subprocess.TimeoutExpired:
        code = "timeout"
    print(f"\nvm: end {test['name']} {code} {time.monotonic() - began:.1f}", flush=True)


def main():
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    subprocess.run(["tar", "-xf", DISK, "-C", "/", "--exclude=job.py"], check=True)
    with open("/job.json", encoding="utf-8") as file:
        job = json.load(file)
    print(f"vm: up {os.uname().release}, after {time.monotonic():.1f} s", flush=True)
    for test in job:
        run(test)
    print("vm: done", flush=True)


sys.exit(main())
