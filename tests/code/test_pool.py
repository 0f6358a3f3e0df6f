"""The warm pool: runs get sandboxes that are ready, each once, and nothing of it is left."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from ground import at_once, check, comm_of, equal, is_alive, main, needs_cgroups, only, until  # noqa: E402
from run_api import begin, fails, get, post, run, wait  # noqa: E402

SELF = "import os\nos.path.exists('/workspace/mark'), open('/workspace/mark', 'w').write('x'), os.getpid()\n"


def configure(g, size, languages=("python",), images=("host",), **more):
    path = g.path("config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"pool": {"size": size, "languages": list(languages), "images": list(images)}, **more}, file)
    os.chmod(path, 0o644)
    return "--config", path


def restart(g, size, *args, **more):
    g.kill_berthd()
    g.start(*configure(g, size, *args, **more))


def stats(g):
    reply = g.get("/v1/pool/stats")
    equal(reply.status, 200, str(reply))
    return reply.json()


def full(g, count):
    return until(lambda: (s := stats(g))["warm"] == count and s, f"{count} warm ones")


def test_off(g):
    """There is none unless one is asked for."""
    equal(stats(g), {"warm": 0, "assigned": 0, "total": 0, "config": {"size": 0, "languages": ["python", "javascript"], "images": ["host"]},
                     "maxInstances": 0}, "stats")
    equal(g.request("POST", "/v1/pool/prime", None).status, 409, "prime")
    equal(run(g, "1")["pooled"], False, "a run")


def test_taken_once(g):
    """Each run has one of its own, which is gone after it; another takes its place."""
    restart(g, 2)
    equal((full(g, 2)["total"], stats(g)["maxInstances"]), (2, 2), "as many as there may be")
    ids = {s["id"] for s in g.list_all()}
    seen = set()
    for _ in range(3):
        record = run(g, SELF)
        equal((record["pooled"], record["result"][0]), (True, False), str(record))
        check(record["sandbox"] not in seen and record["sandbox"] != record["id"], record)
        seen.add(record["sandbox"])
        check(full(g, 2)["total"] <= 2, "bounded")
    check(ids & seen, "one of those that were there")
    until(lambda: not seen & {s["id"] for s in g.list_all()}, "them to go")
    records = at_once(5, lambda _: run(g, SELF))
    check(all(r["result"][0] is False for r in records), records)
    equal(len({r["sandbox"] for r in records}), 5, "each its own")
    equal(stats(g)["assigned"], 0, "all are over")


def test_settings(g):
    """Limits and environment are the run's; what does not fit is not taken."""
    restart(g, 1)
    full(g, 1)
    record = run(g, "import os\n[env['A'], os.environ['A']]", env={"A": "x"})
    equal((record["pooled"], record["result"]), (True, ["x", "x"]), str(record))
    full(g, 1)
    equal(run(g, "1", trust="low")["pooled"], False, "another trust")
    equal(run(g, "1", "javascript")["pooled"], False, "another language")
    equal(run(g, "1", limits={"file_size": "1M"})["pooled"], False, "what is set at the start")
    if not g.has_cgroups:
        return
    full(g, 1)
    fails(g, "x = bytearray(10 << 30)\nfor i in range(0, len(x), 4096):\n    x[i] = 1\n", "SANDBOX_MEMORY_LIMIT",
          limits={"memory": "64M", "disk": "128M"})
    equal(g.get("/v1/runs?limit=1").json()["runs"][0]["pooled"], True, "it was one of the pool's")
    full(g, 1)
    error = "import os, time\nfor n in range(200):\n    if os.fork() == 0:\n        time.sleep(60)\n"
    fails(g, error, "CODE_ERROR", limits={"pids": 20})
    equal(g.get("/v1/runs?limit=1").json()["runs"][0]["pooled"], True, "it was one of the pool's")
    full(g, 1)
    equal(run(g, "1", limits={"memory": "64M"})["pooled"], False, "another disk, which follows from its memory")


def test_routes(g):
    """Shut, and primed again; SIGHUP changes its size."""
    before = g.state_of_things()
    restart(g, 1)
    full(g, 1)
    reply = g.request("POST", "/v1/pool/shutdown-prewarmed", None)
    equal((reply.status, reply.json()["warm"]), (200, 0), str(reply))
    until(lambda: not g.list_all(), "them to go")
    g.check_same(before)
    equal(run(g, "1")["pooled"], False, "a run meanwhile")
    equal(g.request("POST", "/v1/pool/prime", None).status, 200, "prime")
    full(g, 1)
    configure(g, 0)
    g.berthd.send_signal(signal.SIGHUP)
    until(lambda: not g.list_all(), "them to go")
    equal(stats(g)["total"], 0, "none")
    g.check_same(before)


def kill_init(g):
    """Until it is dead its interpreter may still take code, and the run would have been in there."""
    init = g.inits()[0]
    os.kill(init, signal.SIGKILL)
    until(lambda: not is_alive(init), "its death")


def test_dies(g):
    """A warm one that is deleted, or whose init dies, is replaced."""
    restart(g, 1)
    full(g, 1)
    one = g.list_all()[0]["id"]
    equal(g.request("DELETE", f"/v1/sandbox/{one}").status, 204, "delete")
    until(lambda: [s["id"] for s in g.list_all()] not in ([], [one]) and stats(g)["warm"], "another")
    check("to be kept warm, and cannot be" not in g.log_text(), "nothing has failed, so nobody waits before the next try")
    kill_init(g)
    record = run(g, "7")
    equal((record["status"], record["result"]), ("completed", 7), str(record))


@needs_cgroups
def test_dies_meanwhile(g):
    """One that dies while it gets what the run has asked for: the run has a fresh one."""
    restart(g, 1)
    for _ in range(3):
        full(g, 1)
        keeper = g.keeper()
        os.kill(keeper, signal.SIGSTOP)
        try:
            record = begin(g, "7", limits={"pids": 50})
            until(lambda: stats(g)["assigned"] == 1 or g.get(f"/v1/runs/{record['id']}").json()["ended_at"], "it to be taken")
            kill_init(g)
        finally:
            os.kill(keeper, signal.SIGCONT)
        end = wait(g, record["id"], timeout_ms=30000)
        equal((end["status"], end["result"]), ("completed", 7), str(end))


def test_never_twice(g):
    """Code that has begun in a warm one, or said something there, does not begin again when that dies."""
    restart(g, 1, ("javascript",))
    for first in ("", "--> x\n", "--> x\nawait 1;"):
        full(g, 1)
        record = run(g, first + "console.log('ran'); process.kill(process.pid, 'SIGKILL')", "javascript")
        equal((record["pooled"], record["status"], record["error"]["code"]), (True, "failed", "CODE_ERROR"), f"{first!r}: {record}")
        equal([entry["message"] for entry in record["logs"]], ["ran"], repr(first))


def interpreter(g):
    return next(p for p in g.processes() if g.is_sandboxed(p) and comm_of(p) == "python3" and is_alive(p))


@only("root")
def test_ended_unchecked(g):
    """A warm one that ends before its code was looked at: the run begins again if that was nobody's wish."""
    restart(g, 1)
    for is_deleted in (False, True):
        full(g, 1)
        kernel = interpreter(g)
        os.kill(kernel, signal.SIGSTOP)
        record = begin(g, "7")
        until(lambda record=record: get(g, record["id"])["status"] == "running", "the order to be given")
        if is_deleted:
            equal(g.request("DELETE", f"/v1/sandbox/{get(g, record['id'])['sandbox']}").status, 204, "delete")
        else:
            os.kill(kernel, signal.SIGKILL)
        end = wait(g, record["id"], timeout_ms=60000)
        equal((end["status"], end["pooled"], end["result"]), ("cancelled", True, None) if is_deleted else ("completed", False, 7), str(end))


def test_nobody_else(g):
    """What is kept for a run can be seen and deleted, but not used: it is fresh when the run comes."""
    restart(g, 1)
    full(g, 1)
    one = f"/v1/sandbox/{g.list_all()[0]['id']}"
    for method, path, body in (("POST", "/exec", {"argv": ["touch", "/workspace/mark"]}), ("PUT", "/file/workspace/mark", "x"),
                               ("GET", "/file/etc/passwd", None), ("POST", "/code", {"code": "1", "language": "python"}),
                               ("POST", "/context", {"language": "bash"}), ("POST", "/sleep", {}), ("POST", "/start", None),
                               ("POST", "/processes", {"argv": ["sleep", "60"]}), ("PUT", "/port/8000", {}), ("POST", "/session", {}),
                               ("PUT", "", {"limits": {"pids": 20}}), ("GET", "/running", None)):
        reply = g.request(method, one + path, body)
        equal((reply.status, reply.json()["code"]), (409, "conflict"), f"{method} {path}")
        check("run" in reply.json()["error"], reply)
    equal((g.get(one).status, g.get(one + "/stats").status), (200, 200), "to look at it")
    record = run(g, SELF)
    equal((record["pooled"], record["result"][0], one.endswith(record["sandbox"])), (True, False, True), str(record))


def make_small(g, name):
    """An image with a bash and what that needs, and nothing else."""
    root = os.path.join(g.state, "images", name, "rootfs")
    libraries = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    for path in ["/bin/bash", *re.findall(r"(/\S+)", libraries)]:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        shutil.copy(path, root + path)
    for folder in ("etc", "tmp", "workspace", "root"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    with open(os.path.join(root, "etc", "small"), "w", encoding="utf-8") as file:
        file.write("small\n")
    subprocess.run(["chmod", "-R", "a+rX", os.path.join(g.state, "images", name)], check=True)


def test_images(g):
    """Each image has its own; one that is not there does not keep the others from being filled."""
    make_small(g, "small")
    restart(g, 1, languages=("bash",), images=("absent", "small", "host"))
    full(g, 2)
    for image, wanted in (("small", ["small"]), ("host", ["none"])):
        record = run(g, "x=none; [ -e /etc/small ] && read x </etc/small; echo $x", "bash", image=image)
        equal((record["pooled"], [m["message"] for m in record["logs"]]), (True, wanted), str(record))
    error = fails(g, "1", "not_found", image="absent")
    check("absent" in error["message"], error)
    equal(post(g, "1", image="../x").status, 400, "a name that is none")


def test_crash(g):
    """kill -9 of berthd: the next one removes what is left."""
    before = g.state_of_things()
    restart(g, 2)
    full(g, 2)
    old = {s["id"] for s in g.list_all()}
    restart(g, 1)
    until(lambda: not old & {s["id"] for s in g.list_all()}, "the old ones to go")
    full(g, 1)
    equal(run(g, "1")["pooled"], True, "the next run")
    g.kill_berthd()
    g.start()
    until(lambda: not g.list_all(), "them to go")
    g.check_same(before)


if __name__ == "__main__":
    main([test_off, test_taken_once, test_settings, test_routes, test_dies, test_dies_meanwhile, test_never_twice, test_ended_unchecked, test_nobody_else, test_images, test_crash])
