"""Folders of the host on a file system that hangs. usage: test_hanging.py BUILD root|user RUNTIME"""

import contextlib
import os
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))
# pylint: disable=wrong-import-position
import dead_fs  # noqa: E402
from ground import check, equal, main, needs_root  # noqa: E402
from mount_api import bind, folder  # noqa: E402

HANG = 5  # seconds for which it is waited


@contextlib.contextmanager
def dead_folder(g):
    path = folder(g, "dead")
    fs = dead_fs.DeadFs(path)
    try:
        yield path, fs
    finally:
        fs.close()


def ask(g, name, answers):
    answers.append(g.request("POST", f"/v1/sandbox/{name}/start"))


@needs_root
def test_hanging(g):
    """A start on it fails in time and says which folder; all others go on, a new keeper too; mended, it works."""
    with dead_folder(g) as (path, fs):
        live = folder(g, "live", mode=0o755)
        allow = ["--allow-bind", path, "--allow-bind", live]
        g.start(*allow)
        both = [bind(live, "/mnt/live", True), bind(path, "/mnt/dead", True)]
        for name in ("a", "c"):
            equal(g.request("PUT", f"/v1/sandbox/{name}", {"mounts": both}).status, 200, name)
        equal(g.request("POST", "/v1/sandbox/a/start").status, 200, "while it answers")
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
        fs.hang()
        began, answers = time.monotonic(), []
        asker = threading.Thread(target=ask, args=(g, "a", answers))
        asker.start()
        equal(g.out("b", "echo runs"), "runs\n", "another sandbox meanwhile")
        equal(g.request("PUT", "/v1/sandbox/d", {"mounts": both[:1], "start": True}).status, 200, "with another folder")
        check(not answers and time.monotonic() - began < HANG, "they waited for it", answers)
        asker.join()
        reply = answers[0]
        equal((reply.status, reply.json()["code"]), (502, "start_failed"), reply)
        check(path in reply.json()["error"] and "does not answer" in reply.json()["error"], reply)
        check(time.monotonic() - began < 4 * HANG, "it took too long")
        began = time.monotonic()
        reply = g.request("POST", "/v1/sandbox/c/start")
        equal((reply.status, "still does not answer" in reply.json()["error"]), (502, True), reply)
        check(time.monotonic() - began < HANG, "it was waited for again")
        g.kill_keeper()
        equal(g.out("b", "echo still"), "still\n", "with another keeper")
        equal(g.request("POST", "/v1/sandbox/b2/start").status, 200, "by another keeper")
        fs.mend()
        equal(g.request("POST", "/v1/sandbox/a/start").status, 200, "when it answers again")
        for name in "abcd":
            equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, name)
        equal(g.request("DELETE", "/v1/sandbox/b2").status, 204, "b2")


main([test_hanging] if os.path.exists("/dev/fuse") else [], start=lambda test: False)
