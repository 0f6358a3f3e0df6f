"""From the first request to delete: states, generations, single flight, limits, failures."""

import errno
import os
import signal
import stat
import subprocess

import ground
from ground import at_once, check, equal, main, only, until


def ids_of(reply):
    return [s["id"] for s in reply.json()["sandboxes"]]


def test_implicit(g):
    """The first request that needs a container makes the sandbox; reading makes nothing."""
    for target in ("/v1/sandbox/a", "/v1/sandbox/a/running?wake=0"):
        equal(g.get(target).status, 404, target)
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 404, "sleep of nothing")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete of nothing")
    equal(g.list_all(), [], "list")
    equal(g.out("A", "hostname"), "a\n", "upper case is folded")
    equal(ids_of(g.get("/v1/sandbox")), ["a"], "list")
    shown = g.sandbox("a")
    equal((shown["state"], shown["generation"], shown["image"], shown["last_failure"]),
          ("running", 1, "host", None), shown)
    reply = g.get("/v1/sandbox/b/running")
    equal((reply.status, reply.json(), reply.generation), (200, {"running": True}, 1), "running")
    equal(g.request("POST", "/v1/sandbox/c/start").json()["state"], "running", "start")
    for bad in ("-a", "a-", "a_b", "a" * 64, "%2e%2e", "a.b", "a%2fb", "%00"):
        equal(g.request("POST", f"/v1/sandbox/{bad}/exec", {"argv": ["true"]}).status, 400, bad)


def test_create(g):
    """create, put and get: what was asked for is shown; conflicts and nonsense are refused."""
    made = g.request("POST", "/v1/sandbox", {"id": "a", "labels": {"team": "x"}, "limits": {"files": 99},
                                             "env": {"SECRET": "hidden"}})
    equal((made.status, made.json()), (201, {"id": "a"}), "created")
    shown = g.get("/v1/sandbox/a")
    check("hidden" not in shown.body.decode(), "env is shown")
    equal((shown.json()["state"], shown.json()["labels"], shown.json()["limits"]["files"], shown.generation),
          ("cold", {"team": "x"}, 99, 0), shown)
    equal(g.request("POST", "/v1/sandbox", {"id": "a"}).status, 409, "twice")
    name = g.request("POST", "/v1/sandbox", {"start": True}).json()["id"]
    equal((len(name), g.sandbox(name)["state"]), (26, "running"), "a made name")
    put = g.request("PUT", "/v1/sandbox/a", {"limits": {"files": 100}})
    equal((put.status, put.json()["limits"]["files"], put.json()["labels"]), (200, 100, {"team": "x"}), put)
    equal(g.out("a", "echo $SECRET"), "hidden\n", "env")
    for body in ({"limits": {"pids": -1}}, {"limits": {"memory": "x"}}, {"image": "../x"}, {"env": {"A=": "b"}},
                 {"unknown": 1}, {"labels": []}):
        equal(g.request("PUT", "/v1/sandbox/bad", body).status, 400, body)
    equal(g.get("/v1/sandbox/bad").status, 404, "nothing was made")
    bridge = {"exposedPorts": [80], "timeoutMs": 5, "createTimeoutMs": 5}
    equal(g.request("POST", "/v1/sandbox", {"id": "bridged", **bridge, "mounts": []}).status, 201, "what has no effect")
    for mount in ({"bucket": "b", "mountPath": "/data"}, {"type": "s3", "target": "/data"}, "b"):
        reply = g.request("POST", "/v1/sandbox", {"id": "bad", "mounts": [mount]})
        equal((reply.status, reply.json()["code"]), (400, "invalid_request"), mount)
    for body in ({"mode": "nap"}, {"mode": 1}, {"kind": "stop"}):
        equal(g.request("POST", "/v1/sandbox/a/sleep", body).status, 400, body)


def test_image(g):
    """An image that is not there is refused at once, with those that are; nothing is made, changed or woken."""
    equal(g.request("PUT", "/v1/sandbox/a", {"labels": {"team": "x"}}).status, 200, "create")
    key = {"Idempotency-Key": "one"}
    for method, target, body, headers in (
            ("POST", "/v1/sandbox", {"id": "b", "image": "python"}, {}), ("POST", "/v1/sandbox", {"image": "python"}, key),
            ("POST", "/v1/sandbox", {"image": "python", "start": True}, {}),
            ("PUT", "/v1/sandbox/b", {"image": "python", "start": True}, {}),
            ("PUT", "/v1/sandbox/a", {"image": "python", "labels": {"team": "y"}}, {})):
        reply = g.request(method, target, body, **headers)
        equal((reply.status, reply.json()["code"]), (404, "not_found"), reply)
        check('no image "python": there is "host"' in reply.json()["error"], reply)
        os.makedirs(os.path.join(g.state, "images", "python", "half"), exist_ok=True)  # which is none yet
    equal([(s["id"], s["state"], s["labels"]) for s in g.list_all()], [("a", "cold", {"team": "x"})], "what there is")
    folder = os.path.join(g.state, "images", "python", "rootfs")
    os.makedirs(folder)
    equal(g.request("POST", "/v1/sandbox", {"image": "python"}, **key).status, 201, "the same key, now that it is there")
    equal(g.request("PUT", "/v1/sandbox/b", {"image": "python"}).json()["image"], "python", "make")
    equal(g.request("PUT", "/v1/sandbox/a", {"image": "python"}).json()["image"], "python", "change")
    check('there is "host", "python"' in g.request("POST", "/v1/sandbox", {"image": "x"}).json()["error"], "both")
    ground.shutil.rmtree(os.path.dirname(folder))
    equal(g.request("PUT", "/v1/sandbox/a", {"labels": {}}).json()["labels"], {}, "a change of something else")
    equal(g.request("POST", "/v1/sandbox/a/start").json()["code"], "not_found", "a start without it")
    equal(g.request("PUT", "/v1/sandbox/a", {"image": "host"}).status, 200, "back")
    equal(g.out("a", "echo runs"), "runs\n", "with the host's")


def test_image_unasked(g):
    """Whoever asks for an image waits for the keeper and for nobody else; who goes away leaves nothing."""
    g.request("PUT", "/v1/sandbox/a", {})
    os.makedirs(os.path.join(g.state, "images", "python", "rootfs"))
    keeper = g.keeper()
    os.kill(keeper, signal.SIGSTOP)
    try:
        asked = g.connect()
        body = b'{"id": "b", "image": "python"}'
        asked.request("POST", "/v1/sandbox", body, {"Content-Type": "application/json"})
        gone = g.connect()
        gone.request("POST", "/v1/sandbox", b'{"id": "c", "image": "python"}', {"Content-Type": "application/json"})
        equal(g.request("PUT", "/v1/sandbox/a", {"labels": {"x": "y"}}).status, 200, "another change meanwhile")
        gone.close()
        equal([s["id"] for s in g.list_all()], ["a"], "nothing is made yet")
    finally:
        os.kill(keeper, signal.SIGCONT)
    equal(asked.getresponse().status, 201, "when it goes on")
    asked.close()
    equal([s["id"] for s in g.list_all()], ["a", "b"], "what there is")


def test_list(g):
    """The list comes in pages, in order, each sandbox once; by state too."""
    names = [f"s{i:03}" for i in range(25)]
    at_once(5, lambda w: [g.request("PUT", f"/v1/sandbox/{n}", {}) for n in names[w::5]])
    seen, cursor = [], ""
    while cursor is not None:
        page = g.get(f"/v1/sandbox?limit=10&cursor={cursor}").json()
        check(len(page["sandboxes"]) <= 10, "a page")
        seen += [s["id"] for s in page["sandboxes"]]
        cursor = page.get("cursor")
    equal(seen, names, "pages")
    g.out("s007", ["true"])
    equal(ids_of(g.get("/v1/sandbox?state=running")), ["s007"], "by state")
    for bad in ("limit=0", "limit=1001", "limit=x", "state=runing", "cursor=no%20id"):
        equal(g.get("/v1/sandbox?" + bad).status, 400, bad)


def test_generation(g):
    """Each start is a new generation, in every answer; If-Generation guards against another."""
    reply = g.request("POST", "/v1/sandbox/a/exec", {"argv": ["true"]}, Accept="application/json")
    equal(reply.generation, 1, "first")
    g.out("a", "echo kept >/workspace/f; echo kept >/etc/mine; (sleep 100 &)")
    receipt = g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).json()
    check(receipt.pop("at"), "when")
    equal(receipt, {"mode": "stop", "reason": "asked", "generation": 1, "kept": ["disk"]}, "receipt")
    equal(g.sandbox("a")["state"], "cold", "state")
    equal([p for p in g.processes() if g.is_sandboxed(p)], [], "processes")
    equal(g.get("/v1/sandbox/a/running?wake=0").json(), {"running": False}, "running")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "twice")
    equal(g.out("a", "cat /workspace/f /etc/mine"), "kept\nkept\n", "the disk")
    equal(g.get("/v1/sandbox/a").generation, 2, "second")
    equal(g.request("POST", "/v1/sandbox/a/exec", {"argv": ["true"]}, If_Generation=2).status, 200, "same")
    for target, body in (("exec", {"argv": ["true"]}), ("sleep", None), ("start", None)):
        reply = g.request("POST", f"/v1/sandbox/a/{target}", body, If_Generation=1)
        equal((reply.status, reply.json()["code"]), (409, "sandbox_restarted"), reply)
    equal(g.request("DELETE", "/v1/sandbox/a", If_Generation=1).status, 409, "delete")
    equal(g.get("/v1/sandbox/a", If_Generation="2x").status, 400, "no number")


def test_looking(g):
    """[44] running?wake=0, in any way to write it, makes and starts nothing; nonsense is refused."""
    g.request("PUT", "/v1/sandbox/a", {})
    for no in ("0", "false"):
        equal(g.get(f"/v1/sandbox/a/running?wake={no}").json(), {"running": False}, no)
        equal(g.get(f"/v1/sandbox/none/running?wake={no}").status, 404, no)
    equal(g.get("/v1/sandbox/a/running?wake=no").status, 400, "no")
    equal((g.sandbox("a")["state"], g.sandbox("a")["last_active_at"]), ("cold", None), "state")
    equal(g.get("/v1/sandbox/a/running?wake=true").json(), {"running": True}, "true")
    check(g.sandbox("a")["last_active_at"] >= g.sandbox("a")["created_at"], g.sandbox("a"))


def test_restart_needed(g):
    """Limits that were changed while it runs are said to hold only from the next start on."""
    g.out("a", ["true"])
    equal(g.request("PUT", "/v1/sandbox/a", {"labels": {"x": "y"}, "env": {"A": "b"}}).json()["restart_needed"], False,
          "what needs no start")
    reply = g.request("PUT", "/v1/sandbox/a", {"limits": {"files": 99}}).json()
    equal((reply["restart_needed"], reply["limits"]["files"]), (True, 99), reply)
    check(g.out("a", "ulimit -n") != "99\n", "the limit holds already?")
    g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    equal(g.sandbox("a")["restart_needed"], False, "cold")
    equal(g.out("a", "ulimit -n"), "99\n", "the next start")
    equal(g.sandbox("a")["restart_needed"], False, "running")


def test_single_flight(g):
    """[44] Fifty first requests at once start one container."""
    replies = at_once(50, lambda _: g.request("POST", "/v1/sandbox/a/exec", {"command": "cat /proc/1/stat"},
                                              Accept="application/json"))
    equal({r.status for r in replies}, {200}, "status")
    equal({r.generation for r in replies}, {1}, "generation")
    equal(len({r.json()["stdout"].split()[21] for r in replies}), 1, "start times of init")
    equal(len(g.inits()), 1, "inits")


def test_delete(g):
    """delete leaves nothing: disk, cgroups, mounts, run directory, processes; also while starting."""
    g.out("zero", ["true"])
    g.request("DELETE", "/v1/sandbox/zero")
    before = g.state_of_things()
    g.out("a", "mkdir -p d/e/f; touch d/e/f/g; chmod 0 d; mkfifo p; ln -s / l; (setsid sleep 100 &)")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    g.check_same(before)
    equal(g.get("/v1/sandbox/a").status, 404, "get")
    # All at once: whoever comes first, in the end there is nothing, and each answer is a clear one.
    def mixed(i):
        name = f"m{i % 3}"
        if i % 2:
            return g.request("DELETE", f"/v1/sandbox/{name}").status
        return g.request("POST", f"/v1/sandbox/{name}/exec", {"argv": ["true"]}, Accept="application/json").status
    statuses = at_once(24, mixed)
    check(set(statuses) <= {200, 204, 404, 409}, statuses)
    for i in range(3):
        equal(g.request("DELETE", f"/v1/sandbox/m{i}").status, 204, "delete")
    g.check_same(before)
    # An exec that runs meanwhile is told the truth, whatever form it has.
    with g.events("b", "echo on; sleep 100") as events:
        iterator = iter(events)
        equal(next(iterator), ("stdout", b"on\n"), "output")
        equal(g.request("DELETE", "/v1/sandbox/b").status, 204, "delete")
        name, end = next(iterator)
        check(name == "exit" and end["reason"] in ("killed", "lost") and end["exit_code"] != 0, end)
    g.check_same(before)


def limit_files(g, name):
    """A sandbox's cgroup, in every hierarchy: what stands in the files of its limits."""
    found = {}
    for folder in g.cgroups():
        if folder.endswith(f"{g.cgroup_name()}/{name}"):
            for file in ("memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.cfs_quota_us"):
                if os.path.exists(os.path.join(folder, file)):
                    with open(os.path.join(folder, file), encoding="utf-8") as text:
                        found[file] = text.read().split()[0]
    return found


@ground.only("root")
def test_limits_written(g):
    """[42] Limits stand in the sandbox's cgroup, v1 or v2, and a quarter of a processor is a quarter."""
    limits = {"memory": "64M", "pids": 32, "cpus": 0.25}
    asked = g.request("PUT", "/v1/sandbox/a", {"limits": limits, "start": True})
    equal(asked.status, 200, asked)
    files = limit_files(g, "a")
    memory = {files[name] for name in ("memory.max", "memory.limit_in_bytes") if name in files}
    cpus = {files[name] for name in ("cpu.max", "cpu.cfs_quota_us") if name in files}
    equal((memory, cpus, files.get("pids.max")), ({str(64 << 20)}, {"25000"}, "32"), files)
    used = g.out("a", ["python3", "-c", "import time\nend = time.monotonic() + 2\n"
                       "while time.monotonic() < end: pass\nprint(time.process_time())"])
    check(float(used) < 1, "of two seconds it ran", used)


LIMITS = {"memory": "64M", "pids": 32, "files": 64, "file_size": "1M"}


@ground.only("user")
def test_limits_refused(g):
    """Limits that need cgroups are refused without them; others hold; a kill -9 may be for memory."""
    asked = g.request("PUT", "/v1/sandbox/a", {"limits": LIMITS, "start": True})
    equal((asked.status, asked.json()["code"]), (501, "unsupported"), "rootless without cgroups")
    equal(g.request("PUT", "/v1/sandbox/a", {"limits": {"memory": 0, "pids": 0}}).status, 200, "put")
    check_file_limits(g)
    result = g.exec("a", ["sh", "-c", "kill -9 $$"])
    equal((result.reason, result.code, result.facts.get("oom_suspected")), ("signaled", 137, True), result)


def check_file_limits(g):
    equal(g.out("a", "ulimit -n"), "64\n", "files")
    result = g.exec("a", "head -c 2000000 /dev/zero >big")
    check(result.code != 0 and g.out("a", "stat -c %s big") == "1048576\n", result)


@ground.needs_cgroups
def test_limits(g):
    """[42] Limits hold: memory says oom and kills one process, not the sandbox; processes are counted."""
    hog = ["python3", "-c", "x = []\nfor _ in range(400): x.append(bytearray(1 << 20))"]
    asked = g.request("PUT", "/v1/sandbox/a", {"limits": LIMITS, "start": True})
    equal(asked.status, 200, asked)
    result = g.exec("a", hog)
    equal((result.reason, result.code), ("oom", 137), result)
    result = g.exec("a", ["sh", "-c", "kill -9 $$"])
    equal((result.reason, result.code), ("signaled", 137), "a kill that is not for memory")
    # A child dies of it, and the command goes on: that is told of nobody else, later or by another berthd.
    result = g.exec("a", ["sh", "-c", '"$@"; echo $?; exit 3', "sh", *hog])
    equal((result.reason, result.code, result.stdout), ("exited", 3, b"137\n"), result)
    for _ in range(2):
        result = g.exec("a", ["sh", "-c", "kill -9 $$"])
        equal((result.reason, result.code, result.facts.get("oom_suspected", False)), ("signaled", 137, False),
              "a kill after somebody else's")
        g.kill_berthd()
        g.start()
        until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    result = g.exec("a", hog)
    equal((result.reason, result.code), ("oom", 137), "after adoption")
    check_file_limits(g)
    result = g.exec("a", "for i in $(seq 100); do sleep 1000 & done", timeout_ms=ground.TIMEOUT * 1000)
    check(b"fork" in result.stderr and result.reason == "exited" and result.code != 0, result)
    equal((g.sandbox("a")["state"], g.sandbox("a")["generation"]), ("running", 1), "the sandbox")
    equal(g.request("PUT", "/v1/sandbox/b", {"limits": {"memory": "4M"}, "start": True}).status, 400,
          "less than a sandbox needs")


def test_smallest_limits(g):
    """What is too little to start with is refused when it is asked for; the least that is taken will do."""
    least = {"pids": 8, "files": 64, "file_size": 64 << 10}
    for field, value in least.items():
        name = field.replace("_", "-")
        equal(g.request("PUT", f"/v1/sandbox/{name}", {"limits": {field: value}, "start": True}).status, 200, field)
        equal(g.out(name, "cat /etc/passwd | grep -c root:"), "1\n", f"a command with few {name}")
        reply = g.request("PUT", "/v1/sandbox/none", {"limits": {field: value - 1}})
        equal((reply.status, reply.json()["code"]), (400, "invalid_request"), reply)
        check(f"limits.{field} must be" in reply.json()["error"], reply)
    equal(g.get("/v1/sandbox/none").status, 404, "what was refused")


def test_failed_start(g):
    """A start that fails is told in the runtime's words; the next request tries again."""
    wrapper = g.path("runtime")
    with open(wrapper, "w", encoding="utf-8") as file:
        # fd 4 is what --log names.
        file.write(f"#!/bin/sh\nif [ -e {g.dir}/broken ]; then echo 'the flux is inverted' >&4; exit 3; fi\n"
                   f"exec {g.runtime} \"$@\"\n")
    os.chmod(wrapper, 0o755)
    g.start(runtime=wrapper)
    g.out("a", "echo kept >f")
    g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    before = g.state_of_things()
    with open(g.path("broken"), "w", encoding="utf-8"):
        pass
    for expected in (2, 3):
        reply = g.request("POST", "/v1/sandbox/a/exec", {"argv": ["true"]}, Accept="application/json")
        equal((reply.status, reply.json()["code"]), (502, "start_failed"), reply)
        check("the flux is inverted" in reply.json()["error"], reply)
        shown = g.sandbox("a")
        equal((shown["state"], shown["generation"]), ("failed", expected), shown)
        check("the flux is inverted" in shown["last_failure"]["message"], shown)
        equal(shown["last_failure"]["code"], "start_failed", shown)
    g.check_same(before)
    os.unlink(g.path("broken"))
    equal(g.out("a", "cat f"), "kept\n", "the disk after failures")
    equal((g.sandbox("a")["state"], g.sandbox("a")["last_failure"]), ("running", None), "state")


def check_disk_missing(g, name):
    for _ in range(2):
        reply = g.request("POST", f"/v1/sandbox/{name}/exec", {"argv": ["true"]}, Accept="application/json")
        equal((reply.status, reply.json()["code"]), (502, "start_failed"), reply)
        check("disk is missing" in reply.json()["error"] and f"{g.state}/sandboxes/{name}" in reply.json()["error"], reply)
        check(f"berth rm {name}" in reply.json()["error"], reply)
    check(not os.path.exists(disk_of(g, name)), "a disk was made")
    equal(g.sandbox(name)["state"], "failed", "state")


def disk_of(g, name):
    return os.path.join(g.state, "sandboxes", name)


def test_disk_missing(g):
    """One that has run is not started without its disk, also by the next berthd; with it, or made anew, it is."""
    g.out("a", "echo kept >f")
    g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"})
    g.out("b", "true")
    os.rename(disk_of(g, "a"), g.path("away"))
    check_disk_missing(g, "a")
    g.kill_berthd()
    ground.place.remove_tree(disk_of(g, "b"))  # whose files its overlay holds
    init = g.inits()
    equal(len(init), 1, "the first process of b")
    g.start()
    until(lambda: g.sandbox("b")["state"] == "running", "b to be adopted")
    os.kill(init[0], 9)
    until(lambda: g.sandbox("b")["state"] == "failed", "b to have died")
    check_disk_missing(g, "a")
    check_disk_missing(g, "b")
    os.rename(g.path("away"), disk_of(g, "a"))
    equal(g.out("a", "cat f"), "kept\n", "the disk is back")
    for name in ("a", "b"):
        equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
        equal(g.out(name, "ls"), "", "made anew")


def test_disk_missing_crash(g):
    """So it is if all ended at once in its first life, as machines do."""
    g.out("a", "true")
    equal(g.request("PUT", "/v1/sandbox/a", {"labels": {"a": "b"}}).status, 200, "what is stored before that")
    g.kill_berthd()
    g.kill([*filter(None, (g.monitor_pid(), g.keeper())), *g.inits()])
    until(lambda: not g.inits() and not g.keepers(), "all to be dead")
    ground.place.remove_tree(disk_of(g, "a"))
    g.start()
    check_disk_missing(g, "a")


def test_disk_never_made(g):
    """One that never ran has no disk to be missing: whatever a failed start has left may go."""
    wrapper = g.path("runtime")
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n[ -e {g.dir}/broken ] && exit 3\nexec {g.runtime} \"$@\"\n")
    os.chmod(wrapper, 0o755)
    with open(g.path("broken"), "w", encoding="utf-8"):
        pass
    g.start(runtime=wrapper)
    os.makedirs(os.path.join(g.state, "images", "none", "rootfs"))
    equal(g.request("PUT", "/v1/sandbox/b", {"image": "none"}).status, 200, "create")
    ground.shutil.rmtree(os.path.join(g.state, "images", "none"))
    for name, code in (("a", "start_failed"), ("b", "not_found")):
        for _ in range(2):
            equal(g.request("POST", f"/v1/sandbox/{name}/start").json()["code"], code, name)
    ground.place.remove_tree(disk_of(g, "a"))
    check(not os.path.exists(disk_of(g, "b")), "a disk without an image")
    g.kill_berthd()
    g.start(runtime=wrapper)
    os.unlink(g.path("broken"))
    equal(g.request("PUT", "/v1/sandbox/b", {"image": "host"}).status, 200, "another image")
    for name in ("a", "b"):
        equal(g.out(name, "echo runs"), "runs\n", name)


def test_false_runtime(g):
    """A runtime that only fails is a failed start, nothing else."""
    g.start(runtime="/bin/false")
    reply = g.request("POST", "/v1/sandbox/a/start")
    equal((reply.status, reply.json()["code"]), (502, "start_failed"), reply)
    equal(g.sandbox("a")["state"], "failed", "state")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")


def test_init_killed(g):
    """If init dies the sandbox is cold and says why; the next request starts it anew."""
    g.out("a", "echo kept >f")
    with g.events("a", "echo on; sleep 100") as events:
        iterator = iter(events)
        next(iterator)
        os.kill(g.inits()[0], 9)
        name, end = next(iterator)
        equal((name, end["reason"], end["exit_code"]), ("exit", "lost", None), end)
        check(len(end["message"]) > 10, end)
    until(lambda: g.sandbox("a")["state"] == "failed", "state")
    check(g.sandbox("a")["last_failure"]["message"], "last failure")
    equal(g.out("a", "cat f"), "kept\n", "the disk")
    equal(g.sandbox("a")["generation"], 2, "generation")


def test_ownership(g):
    """Directories and sockets have the owners and modes that the design names."""
    g.out("a", ["true"])
    api = os.stat(g.socket)
    check(stat.S_ISSOCK(api.st_mode), "the API's socket")
    equal(stat.S_IMODE(api.st_mode) & 0o007, 0, "others at the API's socket")
    daemon = os.stat(f"/proc/{g.berthd.pid}").st_uid
    equal(os.stat(os.path.join(g.state, "berthd")).st_uid, daemon, "berthd's folder")
    for path in (g.state, os.path.join(g.state, "sandboxes"), os.path.join(g.state, "sandboxes", "a"), g.run):
        info = os.stat(path)
        equal(info.st_uid, 0 if g.is_root else daemon, f"owner of {path}")
        equal(stat.S_IMODE(info.st_mode) & 0o022, 0, f"others may write {path}")
    for name in ("keeper.sock", "a/agent.sock"):
        info = os.stat(os.path.join(g.run, name))
        equal((info.st_uid, stat.S_IMODE(info.st_mode)), (daemon, 0o600), name)
    check(daemon != 0, "berthd is root")


def test_workspace_removed(g):
    """A /workspace that was removed inside is said to be, and made anew by the next start; a link stays one."""
    g.out("a", "rm -rf /workspace", cwd="/")
    result = g.exec("a", "true")
    equal(result.reason, "not_started", result)
    check("give \"/\" as cwd" in result.facts["message"], result)
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "sleep")
    equal(g.out("a", "pwd; stat -c '%u %g %a' ."), "/workspace\n0 0 755\n", "made anew")
    g.out("a", "touch kept; cd /; mv workspace other; ln -s other workspace")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "sleep")
    equal(g.out("a", "ls; readlink /workspace"), "kept\nother\n", "a link")


def test_too_long(g):
    """A variable that no program could be started with is refused by name; so is what execve finds too long."""
    for method, target, body in (("PUT", "/v1/sandbox/a/env", {"LONG": "x" * 131067}),
                                 ("PUT", "/v1/sandbox/a", {"env": {"LONG": "x" * 131067}}),
                                 ("POST", "/v1/sandbox/a/exec", {"argv": ["true"], "env": {"LONG": "x" * 131067}})):
        reply = g.request(method, target, body)
        equal((reply.status, reply.json()["code"]), (400, "invalid_request"), reply)
        check("LONG" in reply.json()["error"] and "131070" in reply.json()["error"], reply)
    equal(g.request("PUT", "/v1/sandbox/a/env", {"LONG": "x" * 131066}).status, 204, "the longest")
    equal(g.out("a", "echo ${#LONG}"), "131066\n", "the longest")
    result = g.exec("a", ["true", "x" * 131072])
    check("arguments or its environment are too long" in result.facts["message"], result)


def fill(path):
    """To the last byte."""
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError as error:
                equal(error.errno, errno.ENOSPC, path)


def end_all(g):
    if g.berthd and g.berthd.poll() is None:
        g.berthd.terminate()
        g.berthd.wait(ground.TIMEOUT)
    until(lambda: not g.keepers(), "the keeper to go")


@only("root")
def test_full_disk(g):
    """On a full disk berthd starts, after its end and after its death, and DELETE makes room."""
    image, full = g.path("disk.img"), os.path.join(g.state, "full")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    os.mkdir(g.state)
    subprocess.run(["mount", "-o", "loop", image, g.state], check=True)
    try:
        for is_killed in (False, True):
            g.start()
            for name in ("a", "b"):
                g.out(name, "head -c 8M /dev/zero >big")
                equal(g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "stop"}).status, 200, name)
            if is_killed:
                g.kill_berthd()
            end_all(g)
            fill(full)
            g.start()
            equal(sorted(s["id"] for s in g.list_all()), ["a", "b"], "what it knows")
            equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
            equal([s["id"] for s in g.list_all()], ["b"], "what is left")
            equal(g.out("b", "wc -c <big"), f"{8 << 20}\n", "there is room again")
            os.remove(full)
            equal(g.request("DELETE", "/v1/sandbox/b").status, 204, "delete")
            end_all(g)
        equal(g.sandbox_files(), [], "disks and folders of sandboxes")
    finally:
        if g.berthd and g.berthd.poll() is None:
            g.kill_berthd()
        g.kill([pid for pid in (g.monitor_pid(), *g.keepers()) if pid])
        subprocess.run(["umount", "-l", g.state], check=True)


@only("root")
def test_full_disk_start(g):
    """On a full disk a sandbox can be started, to be cleaned; what was kept for that is kept again."""
    image, full = g.path("disk.img"), os.path.join(g.state, "full")
    reserve = os.path.join(g.state, "berthd", "state.db-reserve")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    os.mkdir(g.state)
    subprocess.run(["mount", "-o", "loop", image, g.state], check=True)
    try:
        g.start()
        g.out("a", "head -c 8M /dev/zero >big")
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
        until(lambda: os.path.exists(reserve), "the reserve")
        fill(full)
        equal(g.request("PUT", "/v1/sandbox/b").status, 507, "what is not needed for that")
        check(os.path.exists(reserve), "the reserve is not for that")
        g.kill_berthd()
        g.start()
        equal(g.request("PUT", "/v1/sandbox/b").status, 507, "still full")
        check(os.path.exists(reserve), "a reserve that is there is not given up for being the last that is left")
        equal(g.out("a", "rm big; echo cleaned"), "cleaned\n", "a start without room")
        check(not os.path.exists(reserve), "the reserve was spent")
        equal(g.sandbox("a")["generation"], 2, "generation")
        g.kill_berthd()
        g.start()
        equal(g.sandbox("a")["generation"], 2, "it was stored")
        until(lambda: os.path.exists(reserve), "the reserve again")
        os.remove(full)
        equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
        end_all(g)
    finally:
        if g.berthd and g.berthd.poll() is None:
            g.kill_berthd()
        g.kill([pid for pid in (g.monitor_pid(), *g.keepers()) if pid])
        subprocess.run(["umount", "-l", g.state], check=True)


RUNNING = [test_implicit, test_create, test_image, test_image_unasked, test_list, test_workspace_removed, test_too_long,
           test_generation, test_looking, test_restart_needed, test_single_flight, test_delete, test_limits_written, test_limits, test_smallest_limits, test_limits_refused, test_init_killed,
           test_ownership, test_disk_missing, test_disk_missing_crash]
main([*RUNNING, test_failed_start, test_disk_never_made, test_false_runtime, test_full_disk, test_full_disk_start],
     start=lambda test: test in RUNNING)
