"""prune, info and doctor against a fake daemon: what is taken for unused, what is asked, and what is said."""

import json
import os
import pty
import subprocess
from datetime import datetime, timedelta, timezone

from fake_api import Api
from harness import INFO, check, equal, main

CAPACITY = {"max_sandboxes": None, "max_running": None, "memory_floor_bytes": None, "sandboxes": 0, "running": 0,
            "frozen": 0, "waiting": 0, "memory_available_bytes": 1 << 30}
DAY = 86400


def moment(seconds):
    then = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%S.") + f"{then.microsecond // 1000:03}Z"


class Prunable(Api):
    """It knows conditions, and since when it runs."""

    up_for, skew, capacity, busy = 400 * DAY, 0, CAPACITY, ()

    def route(self, client, request):
        if request.path == "/health":
            return client.answer(200, {"ok": True})
        if request.path != "/v1/info":
            return super().route(client, request)
        info = {**INFO, "started_at": moment(self.skew - self.up_for), "uptime_ms": self.up_for * 1000}
        if self.capacity:
            info["capacity"] = self.capacity
        return client.answer(200, info)

    def one(self, client, request, name, rest):
        if request.method != "DELETE":
            return super().one(client, request, name, rest)
        sandbox, query = self.sandboxes[name], dict(request.query)
        if name in self.busy or query["if_state"] != sandbox["state"]:
            return client.answer(409, {"error": "the sandbox is running: it was not removed", "code": "conflict"})
        equal(request.headers["if-generation"], str(sandbox["generation"]), name)
        return super().one(client, request, name, rest)

    def age(self, name, days, **facts):
        self.put(name, {"created_at": moment(-days * DAY), "state": "cold", **facts})


def api(place):
    server = Prunable(place.listen())
    place.servers.append(server)
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    return server


def removed(server):
    return [path.rsplit("/", 1)[1] for method, path in server.requests if method == "DELETE"]


def chooses(place):
    server = api(place)
    server.age("old", 9, generation=4)
    server.age("older", 40, state="failed", last_failure={"code": "start_failed", "message": "x", "at": moment(-35 * DAY)})
    server.age("young", 6)
    server.age("slept", 50, last_sleep={"mode": "stop", "at": moment(-DAY)})
    server.age("used", 50, last_active_at=moment(-DAY))
    server.age("failed", 50, state="failed", last_failure={"code": "start_failed", "message": "x", "at": moment(-60)})
    for state in ("starting", "running", "frozen", "stopping", "destroying"):
        server.age(state, 50, state=state)
    r = place.run("prune", "--dry-run")
    equal((r.returncode, r.stdout, r.stderr), (0, "old is cold, and unused for 9 d 0 h\n"
                                               "older is failed, and unused for 35 d 0 h\n", ""))
    equal(removed(server), [], "a dry run")
    equal([s["id"] for s in json.loads(place.run("prune", "--dry-run", "--json").stdout)["sandboxes"]], ["old", "older"])
    r = place.run("prune", "--older-than", "30d", "-y")
    equal((r.returncode, r.stdout, r.stderr), (0, "older is failed, and unused for 35 d 0 h\nremoved older\n", ""))
    equal(removed(server), ["older"])
    equal(server.targets[-1], "/v1/sandbox/older?reason=prune&if_state=failed")
    server.age("old", 9, labels={"kind": "ci"})
    for label, wanted in [("kind", 1), ("kind=ci", 1), ("kind=c", 0), ("kin", 0), ("kind=", 0), ("ci", 0)]:
        r = place.run("prune", "--dry-run", "--json", "--label", label)
        equal(len(json.loads(r.stdout)["sandboxes"]), wanted, label)


def is_careful(place):
    """Neither a daemon that has just been started nor a clock that is wrong makes anything older than it is."""
    server = api(place)
    server.age("a", 100)
    server.up_for = 3 * DAY
    check("nothing to remove" in place.run("prune", "--dry-run").stdout, "the daemon was started since")
    check("a is cold" in place.run("prune", "--dry-run", "--older-than", "2d").stdout, "what it knows of")
    server.up_for, server.skew = 400 * DAY, -99 * DAY
    check("nothing to remove" in place.run("prune", "--dry-run").stdout, "its clock is behind")
    server.skew = 99 * DAY
    server.age("a", -98)
    check("nothing to remove" in place.run("prune", "--dry-run").stdout, "its clock is ahead, and we are careful")
    server.skew, server.capacity = 0, None
    server.age("a", 100)
    r = place.run("prune", "--yes")
    equal((r.returncode, r.stdout, removed(server)), (1, "", []))
    check("older than this" in r.stderr, r.stderr)


def refuses(place):
    server = api(place)
    server.age("a", 100)
    for args in (["prune"], ["prune", "--json"]):
        r = place.run(*args)
        equal((r.returncode, r.stdout), (2, ""), args)
        check("--yes" in r.stderr and "--dry-run" in r.stderr, r.stderr)
    for args in (["prune", "-y", "--older-than", "week"], ["prune", "-y", "--older-than", ""], ["prune", "-y", "a"]):
        equal(place.run(*args).returncode, 2, args)
    equal(server.requests, [], "nothing was asked")
    equal(place.run("--socket", place.path("none"), "prune", "-y").returncode, 3, "no daemon")


def tells_failures(place):
    """One that came into use stays; the others go, and the exit code says that not all did."""
    server = api(place)
    for name in "abc":
        server.age(name, 100)
    server.busy = ("b",)
    r = place.run("prune", "-y", "--json")
    found = json.loads(r.stdout)["sandboxes"]
    equal((r.returncode, {s["id"]: s["removed"] for s in found}), (1, {"a": True, "b": False, "c": True}), r.stderr)
    check("it was not removed" in found[1]["error"] and "error" not in found[0], found)
    check(r.stderr.startswith("berth: b was not removed: the sandbox is running"), r.stderr)
    equal(sorted(server.sandboxes), ["b"])


def asks(place):
    server = api(place)
    for answer, code in (("n\n", 1), ("\n", 1), ("\x04", 1), ("yes please\n", 1), ("y\n", 0)):
        server.age("a", 100)
        leader, follower = pty.openpty()
        try:
            with subprocess.Popen([place.berth, "prune"], stdin=follower, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=place.env, text=True) as process:
                os.write(leader, answer.encode())
                out, err = process.communicate(timeout=60)
        finally:
            os.close(leader)
            os.close(follower)
        check(out.startswith("a is cold, and unused for 100 d 0 h\nremove it with its disk? [y/N] "), out)
        equal((process.returncode, "a" in server.sandboxes), (code, bool(code)), answer)
        equal(err, "berth: nothing was removed\n" if code else "", answer)


def shows(place):
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    server = api(place)
    server.capacity = {**CAPACITY, "max_running": 7, "sandboxes": 90, "running": 7, "frozen": 3,
                       "memory_floor_bytes": 2 << 30}
    text = " ".join(place.run("info").stdout.split())
    for words in ("sandboxes 90, without a limit", "with a container 7 of 7; 3 frozen",
                  "memory floor 2 GiB; 1 GiB are available"):
        check(words in text, words, text)
    found = {c["name"]: c for c in json.loads(place.run("doctor", "--json").stdout)["checks"]}
    equal(found["capacity"]["status"], "warn")
    check("below its floor" in found["capacity"]["message"] and "memory_floor" in found["capacity"]["mend"], found)
    server.capacity = {**CAPACITY, "max_running": 7, "sandboxes": 90, "running": 7, "frozen": 3}
    found = {c["name"]: c for c in json.loads(place.run("doctor", "--json").stdout)["checks"]}
    equal(found["capacity"]["message"],
          "90 sandboxes, 7 with a container; to start another one, a frozen one has to give way")
    server.capacity = {**server.capacity, "frozen": 0, "memory_floor_bytes": 2 << 30, "memory_available_bytes": None}
    found = {c["name"]: c for c in json.loads(place.run("doctor", "--json").stdout)["checks"]}
    equal((found["capacity"]["status"], found["capacity"]["message"]),
          ("warn", "90 sandboxes, 7 with a container; no other one can start, as none is frozen and could give way"))
    server.capacity = CAPACITY
    found = {c["name"]: c for c in json.loads(place.run("doctor", "--json").stdout)["checks"]}
    equal((found["capacity"]["status"], found["capacity"]["mend"]), ("ok", None))


main([
    ("prune takes what is cold or failed, and old enough", chooses),
    ("prune takes nothing for older than it is", is_careful),
    ("prune does nothing without being told", refuses),
    ("prune says what it could not remove", tells_failures),
    ("prune asks on a terminal", asks),
    ("info and doctor show the limits", shows),
])
