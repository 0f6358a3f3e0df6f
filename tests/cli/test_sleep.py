"""Sleeping and waking against a fake daemon, of today and of yesterday: what is asked, what is shown."""

import json
from datetime import datetime, timedelta, timezone

from fake_api import Api
from harness import check, equal, main


def api(place):
    def ended(client, request):
        request.body()
        client.stream()
        client.exit(0)

    server = Api(place.listen(), ended)
    place.servers.append(server)
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    return server


def moment(seconds):
    """A time so far from now, as the daemon writes it."""
    then = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%S.") + f"{then.microsecond // 1000:03}Z"


def ls_says_why(place):
    server = api(place)
    server.page = 100
    held = [{"kind": "exec", "id": "12", "since": moment(-3)}, {"kind": "terminal", "since": moment(-9)},
            {"kind": "cpu", "since": moment(-9), "new": {}}]
    cases = [
        ({"holds": held[:1], "sleeps_at": None}, "awake: exec"),
        ({"holds": held, "sleeps_at": moment(999)}, "awake: exec +2"),
        ({"holds": [{"kind": "a\033[2J"}]}, "awake: a?[2J"),
        ({"holds": [{"kind": "x" * 100}]}, "awake: " + "x" * 32),
        ({"holds": [], "sleeps_at": moment(240)}, "sleeps in 4m"),
        ({"holds": [], "sleeps_at": moment(600)}, "sleeps in 10m"),
        ({"holds": [], "sleeps_at": moment(3601)}, "sleeps in 1h"),
        ({"holds": [], "sleeps_at": moment(3 * 86400)}, "sleeps in 3d"),
        ({"holds": [], "sleeps_at": moment(-5)}, "sleeps in 0s"),
        ({"holds": [], "sleeps_at": None}, "awake"),
        ({"holds": [], "sleeps_at": "soon"}, "awake"),
        ({"holds": None}, "-"),
        ({"holds": [], "state": "frozen"}, "frozen"),
        ({"holds": [], "state": "cold"}, "stopped"),
        ({"state": "starting"}, "-"),
    ]
    for number, (facts, _) in enumerate(cases):
        server.put(f"s{number:02}", {"state": "running", **facts})
    r = place.run("ls")
    equal((r.returncode, r.stderr), (0, ""))
    head, *rows = r.stdout.splitlines()
    first, end = head.index("ACTIVITY"), head.index("GENERATION")
    equal([row[first:end].strip() for row in rows], [words for _, words in cases])


def inspect_says_why(place):
    server = api(place)
    server.put("web", {
        "state": "running", "sleep_after": "10m", "sleep_mode": "auto", "max_awake": "2h", "stop_after": "never",
        "stop_grace": "30s", "keep_alive": True, "sleeps_at": moment(3600 * 2),
        "holds": [{"kind": "exec", "id": "12", "since": moment(-180), "detail": "sh\007"},
                  {"kind": "request", "id": "8", "since": moment(-180), "detail": "slow"},
                  {"kind": "keep_alive", "since": moment(-600)}, {"kind": "later"}],
        "last_sleep": {"mode": "freeze", "reason": "idle", "generation": 3, "at": moment(-1200),
                       "kept": ["disk", "memory", "processes"]},
        "last_wake": {"from": "frozen", "generation": 3, "at": moment(-600), "kept": ["disk", "memory", "processes"]}})
    r = place.run("inspect", "web")
    equal((r.returncode, r.stderr), (0, ""))
    rows = [(line[:18].strip(), line[19:]) for line in r.stdout.splitlines()]
    for row in [("sleep after", "10m"), ("sleep mode", "auto"), ("max awake", "2h"), ("stop grace", "30s"),
                ("keep alive", "yes: it is never idle"), ("awake because", "exec 12 has run for 3m (sh?)"),
                ("", "a request has been under way for 3m (slow)"), ("", "its keep_alive has been set for 10m"), ("", "later"), ("sleeps", "in 2h at the latest"),
                ("last sleep", "frozen 20m ago, as it was idle; it kept its disk, memory and processes"),
                ("last wake", "from frozen 10m ago; it kept its disk, memory and processes, generation 3")]:
        check(row in rows, row, rows)
    check("stop after" not in r.stdout and "delete after" not in r.stdout, r.stdout)
    server.put("web", {"holds": [], "sleeps_at": moment(240), "deletes_at": moment(3600 * 24 * 7), "last_wake": {"from": "adopted", "kept": []},
                       "last_sleep": {"mode": "stop", "reason": "new", "kept": ["disk"]}})
    rows = [(line[:18].strip(), line[19:]) for line in place.run("inspect", "web").stdout.splitlines()]
    for row in [("sleeps", "in 4m if nothing happens"), ("is removed", "in 7d if nobody uses it"), ("last sleep", "stopped; it kept its disk"),
                ("last wake", "found running by a new berthd, generation 0")]:
        check(row in rows, row, rows)
    server.put("old", {"state": "running"})
    r = place.run("inspect", "old")
    equal((r.returncode, r.stderr), (0, ""))
    check("sleep" not in r.stdout and "awake" not in r.stdout, r.stdout)


def sleep_flags(place):
    server = api(place)
    flags = ["--sleep-after", "90s", "--sleep-mode", "stop", "--keep-alive", "--max-awake", "2h", "--stop-after", "1d",
             "--stop-grace", "30s", "--delete-after", "7d"]
    wanted = {"sleep_after": "90s", "sleep_mode": "stop", "keep_alive": True, "max_awake": "2h", "stop_after": "1d",
              "stop_grace": "30s", "delete_after": "7d"}
    equal(place.run("create", "web", *flags).stdout, "web\n")
    equal(place.run("run", "--name", "job", *flags, "--", "prog").returncode, 0)
    for name in ("web", "job"):
        equal({key: server.sandboxes[name].get(key) for key in wanted}, wanted, name)
    equal(place.run("create", "plain").stdout, "plain\n")
    check(not wanted.keys() & server.sandboxes["plain"].keys(), server.sandboxes["plain"])


def sleeps_and_wakes(place):
    server = api(place)
    for name in ("web", "db"):
        server.put(name, {"state": "running"})
    r = place.run("sleep", "Web")
    equal((r.returncode, r.stdout, r.stderr), (0, "web is frozen; it kept its disk, memory and processes\n", ""))
    equal(server.sandboxes["web"]["state"], "frozen")
    r = place.run("sleep", "--mode", "stop", "web", "nobody", "db")
    equal((r.returncode, r.stdout, r.stderr), (1, "web is stopped; it kept its disk\ndb is stopped; it kept its disk\n",
                                               "berth: there is no sandbox nobody (not_found)\n"))
    equal(json.loads(place.run("--json", "sleep", "web", "--mode", "freeze").stdout)["reason"], "asked")
    r = place.run("wake", "web", "db")
    equal((r.returncode, r.stdout, r.stderr), (0, "web\ndb\n", ""))
    equal({s["state"] for s in server.sandboxes.values()}, {"running"})
    equal(json.loads(place.run("wake", "--json", "web").stdout)["state"], "running")
    equal(server.requests[-1], ("POST", "/v1/sandbox/web/wake"))
    server.requests.clear()
    r = place.run("sleep", "web", "--mode", "nap")
    equal((r.returncode, r.stderr, server.requests), (2, "berth: --mode wants `freeze` or `stop`\n", []))
    for verb in ("sleep", "wake"):
        equal(place.run(verb).returncode, 2, verb)
        equal(place.run(verb, "a/b").returncode, 2, verb)
        equal(place.run("--socket", place.path("none"), verb, "a", "b").stderr.count("\n"), 1)
    server.is_old = True
    equal(place.run("sleep", "web").stdout, "web is stopped; it kept its disk\n")
    equal(place.run("sleep", "web", "--mode", "freeze").returncode, 1)
    server.sleep = lambda client, request, name: client.answer(200, {"mode": "stop", "kept": []})
    equal(place.run("sleep", "web").stdout, "web is stopped\n")
    server.sleep = lambda client, request, name: client.answer(200, [])
    r = place.run("sleep", "web")
    equal((r.returncode, r.stdout), (1, ""))
    check("cannot be understood" in r.stderr, r.stderr)


main([
    ("ls says why it is awake, or when it sleeps", ls_says_why),
    ("inspect says it, too, and how it slept and woke", inspect_says_why),
    ("create and run say how to sleep", sleep_flags),
    ("sleep, wake", sleeps_and_wakes),
])
