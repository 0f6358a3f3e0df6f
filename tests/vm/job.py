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


def as_user(words, scope):
    """In a service of the user's manager, with or without a cgroup that was delegated to it."""
    delegate = ["-p", "Delegate=yes"] if scope == "user" else []
    name, value = "XDG_RUNTIME_DIR", f"/run/user/{USER}"
    run = ["runuser", "-u", "tester", "--", "env", f"{name}={value}"]
    if scope == "session":
        return [*run, "-u", name, *words]
    return [*run, "systemd-run", "--user", "--quiet", "--pipe", "--wait", "--collect", *delegate,
            f"--setenv={name}={value}", *words]


def run(test):
    words = test["cmd"]
    if test["scope"] != "root":
        words = as_user(words, test["scope"])
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
    subprocess.run(["modprobe", "-a", "overlay", "loop"], check=True)
    subprocess.run(["tar", "-xf", DISK, "-C", "/", "--exclude=job.py"], check=True)
    with open("/job.json", encoding="utf-8") as file:
        job = json.load(file)
    print(f"vm: up {os.uname().release}, after {time.monotonic():.1f} s", flush=True)
    for test in job:
        run(test)
    print("vm: done", flush=True)


sys.exit(main())
