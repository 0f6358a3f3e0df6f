"""Folders of the host, and sandboxes that have them mounted."""

import contextlib
import os
import shutil
import subprocess
import tempfile

import ground
from ground import check, equal, only

NOBODY = 65534
ROOT_ALONE = only("root")


def folder(g, *names, mode=0o755, owner=None, at=None):
    """A folder of the host, of an ordinary user."""
    path = os.path.join(at or g.path("host"), *names)
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)
    give(path, ground.place.USER if owner is None else owner)
    return path


def give(path, owner):
    if os.getuid() == 0:
        os.chown(path, owner, owner, follow_symlinks=False)


def write(path, text, mode=0o644, owner=None):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    give(path, ground.place.USER if owner is None else owner)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def start(g, *allowed):
    g.start(*[word for text in allowed for word in ("--allow-bind", text)])


def bind(source, target, read_only=False):
    return {"type": "bind", "source": source, "target": target, "read_only": read_only}


def put(g, name, *mounts, **more):
    reply = g.request("PUT", f"/v1/sandbox/{name}", {"mounts": list(mounts), **more})
    return reply if reply.status >= 400 else g.request("POST", f"/v1/sandbox/{name}/start")


def mounted(g, name, *mounts, **more):
    reply = put(g, name, *mounts, **more)
    equal(reply.status, 200, reply)


def refused(g, code, *mounts, words=(), **more):
    """Nothing is left of it; the sentence names what it is about."""
    reply = put(g, "refused", *mounts, **more)
    check(reply.status >= 400, "was not refused:", mounts, reply)
    equal(reply.json()["code"], code, reply)
    for word in words:
        check(word in reply.json()["error"], f"no {word!r} in", reply)
    equal(g.request("DELETE", "/v1/sandbox/refused").status, 204, "delete")


def restart(g, name):
    equal(g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "stop"}).status, 200, "stop")
    return g.request("POST", f"/v1/sandbox/{name}/start")


@contextlib.contextmanager
def host_mount(*words, target):
    """Of the test's own, gone when it is over."""
    subprocess.run(["mount", *words, target], check=True)
    try:
        yield target
    finally:
        subprocess.run(["umount", "-l", target], check=True)


@contextlib.contextmanager
def elsewhere():
    """Not below the Place, which takes every mount there for one that was left behind."""
    path = tempfile.mkdtemp(prefix="berth-mounts-")
    os.chmod(path, 0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def inside(g, name, path):
    """uid, gid and mode, as they are inside."""
    return g.out(name, ["stat", "-c", "%u %g %a", path]).split()


def options_of(g, name, target):
    for line in g.out(name, ["cat", "/proc/self/mountinfo"]).splitlines():
        if line.split()[4] == target:
            return set(line.split()[5].split(","))
    raise ground.Failed(f"{target} is no mount")
