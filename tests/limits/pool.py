"""Sandboxes with limited disks, and the pool that they are in."""

import glob
import json
import os
import subprocess

from ground import check, equal, until

MIB = 1 << 20
FULL = b"Disk quota exceeded"
NO_ROOM = b"No space left on device"


def attached(g, name=""):
    """Loop devices with a file of ours that has this in its name, whose path may begin at a mount that is gone."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            found += [path] if os.path.basename(g.dir) in text and name in text else []
        except OSError:
            pass
    return found


def end(g):
    """All is removed, and nothing of the pool stays but its file."""
    g.stop()
    until(lambda: not attached(g), "the loop device to go")


def make(g, name, limits, **settings):
    return g.request("PUT", f"/v1/sandbox/{name}", {"limits": limits, **settings})


def limited(g, name, disk, **settings):
    equal(make(g, name, {"disk": disk}, **settings).status, 200, name)
    g.out(name, ["true"])


def refused(reply, status, code, *words):
    equal((reply.status, reply.json()["code"]), (status, code), reply)
    for word in words:
        check(word in reply.json()["error"], word, reply)


def stop(g, name):
    equal(g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "stop"}).status, 200, name)


def rest(g, *names):
    """They are stopped, and the keeper goes when there is nothing to keep; and with it the pool."""
    for name in names:
        stop(g, name)
    g.berthd.terminate()
    equal(g.berthd.wait(60), 0, "berthd's exit code")
    until(lambda: not g.keepers() and not attached(g, "pool.img"), "the pool to be let go")


def start(g, name, disk=None):
    """disk: it is made with that limit first."""
    if disk:
        equal(make(g, name, {"disk": disk}).status, 200, name)
    return g.request("POST", f"/v1/sandbox/{name}/start")


def folder(g, *names):
    return os.path.join(g.state, "sandboxes", *names)


def pool_of(g):
    """As the keeper sees it, who alone has it mounted."""
    return f"/proc/{g.keeper()}/root{g.run}/.pool"


def lost_of(g):
    return [name for name in os.listdir(pool_of(g)) if name.startswith("lost-")]


def disk_of(g, name):
    usage = g.get(f"/v1/sandbox/{name}/stats?disk=1").json()["usage"]
    return usage["disk_bytes"], usage["files"]


def size_of(g, name, path):
    return int(g.out(name, f"stat -c %s {path}"))


def fill(g, name, path="big", most="1G"):
    """Until it is full. How much went in."""
    result = g.exec(name, f"head -c {most} /dev/zero >{path}")
    check(result.code != 0 and (FULL in result.stderr or NO_ROOM in result.stderr), result)
    return size_of(g, name, path)


def used_of_pool(g):
    pool = os.statvfs(pool_of(g))
    return (pool.f_blocks - pool.f_bfree) * pool.f_frsize


def image_of(g):
    path = os.path.join(g.state, "pool.img")
    return os.stat(path).st_size if os.path.exists(path) else 0


def doctor(g):
    """{name: check}"""
    done = subprocess.run([os.path.join(g.build, "berth"), "doctor", "--json", "--state-dir", g.state, "--run-dir", g.run],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=60)
    return {item["name"]: item for item in json.loads(done.stdout)["checks"]}
