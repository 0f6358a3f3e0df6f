"""Limits as the API takes them, and as the kernel has them."""

import os

from ground import check, equal

# v2, v1
FILES = {"memory": ("memory.max", "memory.limit_in_bytes"), "cpus": ("cpu.max", "cpu.cfs_quota_us"),
         "weight": ("cpu.weight", "cpu.shares"), "processors": ("cpuset.cpus", "cpuset.cpus"),
         "pids": ("pids.max", "pids.max"), "both": ("", "memory.memsw.limit_in_bytes"),
         "cpu.stat": ("cpu.stat", "cpu.stat")}
MIB = 1 << 20


def put(g, name="a", **limits):
    """Other limits; what is shown of the sandbox then."""
    reply = g.request("PUT", f"/v1/sandbox/{name}", {"limits": limits})
    check(reply.status in (200, 201), reply)
    return reply.json()


def refused(g, status, code, name="a", **limits):
    """The sentence."""
    before = g.sandbox(name)["limits"]
    reply = g.request("PUT", f"/v1/sandbox/{name}", {"limits": limits})
    equal((reply.status, reply.json()["code"]), (status, code), reply)
    equal(g.sandbox(name)["limits"], before, "what is stored")
    return reply.json()["error"]


def file_of_kernel(g, what, name="a"):
    """The cgroup's file; None: there is none."""
    for folder in g.cgroups():
        for file in filter(None, FILES[what]):
            if os.path.basename(folder) == name and os.path.exists(os.path.join(folder, file)):
                return os.path.join(folder, file)
    return None


def of_kernel(g, what, name="a"):
    """The text of the cgroup's file; None: there is no such file."""
    path = file_of_kernel(g, what, name)
    if not path:
        return None
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def hold(size):
    """A command that holds so many MiB until its stdin, or it, ends, and says so."""
    return ["python3", "-c", f"x = bytearray({size} << 20); x[::4096] = bytes([1]) * len(x[::4096]); "
                             "print('held', flush=True); import time; time.sleep(1000)"]


def take(size):
    """A command that holds so many MiB for a moment."""
    return ["python3", "-c", f"x = bytearray({size} << 20); x[::4096] = bytes([1]) * len(x[::4096])"]
