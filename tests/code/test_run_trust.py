"""Runs and trust: which preset each has, what that takes away, and what is told of it."""

import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from ground import check, equal, main, until  # noqa: E402
from run_api import fails, get, post, run, value  # noqa: E402

MOUNT = "import ctypes\nctypes.CDLL(None, use_errno=True).syscall(165, 0, 0, 0, 0, 0)\nctypes.get_errno()\n"
LIMITS = "import resource\nresource.getrlimit(resource.RLIMIT_FSIZE)[0]\n"


def test_violation(g):
    """A call that no ordinary code makes ends it, and why is told; those that are trusted get an errno."""
    for options in ({}, {"trust": "untrusted"}, {"trust": "low"}):
        error = fails(g, MOUNT, "SANDBOX_SECURITY_VIOLATION", **options)
        check("forbidden" in error["message"], error)
    check(value(g, MOUNT, trust="medium") > 0, "an errno")
    record = run(g, "import os, signal\nos.kill(os.getpid(), signal.SIGSYS)", trust="medium")
    equal(record["error"]["code"], "CODE_ERROR", "whoever sends that signal itself")
    until(lambda: not g.list_all(), "the sandboxes to go")


def test_presets(g):
    """The record says which it was; its limits are the preset's, and the most."""
    for trust, size in (("untrusted", 256 << 20), ("low", 1 << 30)):
        record = run(g, LIMITS, trust=trust)
        equal((record["trust"], record["result"]), (trust, size), str(record))
        equal(get(g, record["id"]), record, "as it is stored")
    equal(run(g, "1")["trust"], "untrusted", "one that names none")
    equal(value(g, LIMITS, limits={"file_size": "1M"}), 1 << 20, "less than the preset has")
    reply = post(g, "1", limits={"pids": 129})
    equal((reply.status, reply.json()["code"]), (403, "forbidden"), str(reply))
    check("untrusted" in reply.json()["error"], reply)
    equal(run(g, "1", trust="low", limits={"pids": 129})["status"], "completed", "one that may have more")
    equal(post(g, "1", trust="blind").status, 400, "no such preset")
    equal(value(g, "open('/proc/self/status').read().split('CapEff:')[1].split()[0]"), "0" * 16, "capabilities")


def test_configured(g):
    """`run_trust` says what runs have that name none; SIGHUP changes it."""
    path = g.path("config.json")

    def configure(trust):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"run_trust": trust}, file)
        os.chmod(path, 0o644)
    g.kill_berthd()
    configure("low")
    g.start("--config", path)
    equal((run(g, "1")["trust"], run(g, "1", trust="high")["trust"]), ("low", "high"), "by the file, by the request")
    configure("medium")
    g.berthd.send_signal(signal.SIGHUP)
    until(lambda: run(g, "1")["trust"] == "medium", "the new configuration")


def test_cli(g):
    """berth code --run --trust."""
    file = g.path("x.py")
    with open(file, "w", encoding="utf-8") as out:
        out.write(MOUNT)
    os.chmod(file, 0o644)
    def berth(*args):
        return subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, *args], capture_output=True, text=True,
                              check=False, timeout=60)
    r = berth("code", "--run", "--trust", "untrusted", file)
    check(r.returncode != 0 and "SANDBOX_SECURITY_VIOLATION" in r.stdout + r.stderr, r)
    r = berth("code", "--run", "--trust", "medium", file)
    equal(r.returncode, 0, str(r))


if __name__ == "__main__":
    main([test_violation, test_presets, test_configured, test_cli])
