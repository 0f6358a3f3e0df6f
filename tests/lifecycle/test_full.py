"""The file system that all is kept on is full: each request works or says so, and nothing is half of what it was."""

import errno
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import check, equal, main, only, until  # noqa: E402
from process_api import ended, start  # noqa: E402


def fill(path):
    """To the last byte, and again until nothing that others free in the meantime is left."""
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1) * 3:
            try:
                while file.write(b"x" * size):
                    pass
            except OSError as error:
                equal(error.errno, errno.ENOSPC, path)


def is_done(reply):
    """It worked, or said why not; there may be a little room left in the database."""
    if reply.status < 300:
        return True
    equal((reply.status, reply.json()["code"]), (507, "disk_limit"), reply)
    check(len(reply.json()["error"]) > 20, reply)
    return False


def use_while_full(g):
    names = []
    for number in range(200):
        name = f"c{number}"
        if not is_done(g.request("PUT", f"/v1/sandbox/{name}", {"labels": {"text": "x" * 200}})):
            equal(g.get(f"/v1/sandbox/{name}").status, 404, "what could not be made")
            break
        names.append(name)
    else:
        check(False, "the disk is not full")
    equal(sorted(s["id"] for s in g.list_all()), sorted(["a", "b", *names]), "what is there")
    reply = g.request("POST", "/v1/sandbox/new/exec", {"argv": ["true"]}, Accept="application/json")
    check(not is_done(reply), reply)
    equal(g.get("/v1/sandbox/new").status, 404, "what could not be made")
    for _ in range(2):
        reply = g.request("POST", "/v1/sandbox/b/start")
        if not is_done(reply):
            failure = g.sandbox("b")["last_failure"]
            equal((g.sandbox("b")["state"], failure["code"]), ("failed", "disk_limit"), failure)
    reply = g.request("PUT", "/v1/sandbox/a/file/workspace/f", b"y" * (1 << 20))
    check(not is_done(reply), reply)
    equal(g.out("a", "cat f; ls -A | grep -v '^f$' || true"), "kept\n", "the file that could not be replaced")
    result = g.exec("a", "head -c 1M /dev/zero >/workspace/big")
    check(result.reason == "exited" and result.code != 0 and b"space" in result.stderr, result)
    is_done(g.request("POST", "/v1/sandbox/a/processes", {"argv": ["sleep", "1000"]}))
    for mode in ("freeze", "stop"):
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": mode}).status, 200, f"to {mode} needs no room")
        is_done(g.request("POST", "/v1/sandbox/a/wake"))


@only("root")
def test_full(g):
    """[43] Create, start, exec, sleep, wake and files on a full disk; and all of it when there is room again."""
    image, full = g.path("disk.img"), os.path.join(g.state, "full")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    os.mkdir(g.state)
    subprocess.run(["mount", "-o", "loop", image, g.state], check=True)
    try:
        g.start()
        for name in ("a", "b"):
            g.out(name, "echo kept >f")
        equal(g.request("POST", "/v1/sandbox/b/sleep", {"mode": "stop"}).status, 200, "stop")
        fill(full)
        use_while_full(g)
        os.remove(full)
        for name in ("a", "b", "new"):
            g.out(name, "echo more >>f")
            equal(g.request("PUT", f"/v1/sandbox/{name}/file/workspace/g", b"y" * (1 << 20)).status, 201, name)
        equal([g.out(name, "cat f; stat -c %s g") for name in ("a", "b")], ["kept\nmore\n1048576\n"] * 2, "the disks")
        start(g, "a", ["true"], id="p")
        equal(ended(g, "a", "p")["exit"]["code"], 0, "a process")
        for name in [s["id"] for s in g.list_all()]:
            equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
        g.berthd.terminate()
        equal(g.berthd.wait(60), 0, "berthd's exit code")
        until(lambda: not g.keepers(), "the keeper to go when there is nothing to keep")
        equal(g.sandbox_files(), [], "disks and folders of sandboxes")
    finally:
        if g.berthd and g.berthd.poll() is None:
            g.kill_berthd()
        g.kill([pid for pid in (g.monitor_pid(), *g.keepers()) if pid])
        g.kill(g.processes())
        until(lambda: not g.processes(), "the end of everything")
        subprocess.run(["umount", "-l", g.state], check=True)


main([test_full], start=lambda test: False)
