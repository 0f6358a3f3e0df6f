"""berthd, the keeper, or both are killed: sandboxes live on and are found again."""

import concurrent.futures
import datetime
import json
import os
import signal
import subprocess
import threading
import time

from ground import TIMEOUT, check, equal, main, until


def settle(g):
    """One sandbox that has seen something, one that is cold, and what is there then."""
    g.out("cold", "echo kept >f")
    g.request("POST", "/v1/sandbox/cold/sleep", {"mode": "stop"})
    pid = g.out("a", "echo kept >f; setsid sleep 1000 >/dev/null 2>&1 & echo $!").strip()
    g.out("a", ["true"])
    return pid, start_of(g)


def start_of(g):
    """When init was started, as the kernel tells it: another init has another time."""
    return g.out("a", "cat /proc/1/stat").split()[21]


def check_adopted(g, pid, start):
    until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    equal(g.sandbox("a")["generation"], 1, "generation")
    equal(start_of(g), start, "init's start")
    g.out("a", f"kill -0 {pid} && grep -q kept f")
    equal((g.sandbox("cold")["state"], g.sandbox("cold")["generation"]), ("cold", 1), "the cold one")
    result = g.exec("a", ["sh", "-c", "sleep 100 & sleep 100"], timeout_ms=200)
    equal((result.reason, result.code), ("timeout", 124), result)
    equal(g.exec("a", "exit 7").code, 7, "exit code")
    equal(g.out("cold", "cat f"), "kept\n", "the cold one's disk")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    equal(g.out("a", "cat f"), "kept\n", "the disk")
    equal(g.sandbox("a")["generation"], 2, "generation")


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_berthd_killed(g):
    """kill -9 of berthd: a new one finds the sandbox, same generation, its processes alive."""
    facts = settle(g)
    begun = seconds_of(g.sandbox("a")["started_at"])
    for _ in range(3):
        g.kill_berthd()
        g.start()
    until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    check(abs(seconds_of(g.sandbox("a")["started_at"]) - begun) < 1, "it was not started anew:", g.sandbox("a"))
    check_adopted(g, *facts)


def test_other_state(g):
    """A berthd for another state directory is refused by who keeps sandboxes of the first one: none of them is ended."""
    facts = settle(g)
    g.kill_berthd()
    other = g.path("home", "other")
    berthd, line = g.spawn_berthd("--state-dir", other)
    equal(berthd.wait(TIMEOUT), 1, "its exit code")
    check(f"serves the state directory {g.state}, not {other}" in line, line)
    g.start()
    check_adopted(g, *facts)


def test_berthd_stopped(g):
    """SIGTERM of berthd leaves sandboxes running, too."""
    facts = settle(g)
    g.berthd.terminate()
    equal(g.berthd.wait(30), 0, "exit code")
    g.start()
    check_adopted(g, *facts)


def test_keeper_killed(g):
    """kill -9 of the keeper: it comes back with its namespaces, berthd notices nothing worse."""
    facts = settle(g)
    with g.events("a", "echo on; read x; exit 5", timeout_ms=20000, stdin="") as events:
        iterator = iter(events)
        next(iterator)
    for _ in range(3):
        g.kill_keeper()
        g.out("a", ["true"])
    g.kill_keeper()
    equal(g.request("POST", "/v1/sandbox/cold/start").status, 200, "a start that waits for the new keeper")
    g.kill_keeper()
    equal(g.request("POST", "/v1/sandbox/cold/sleep", {"mode": "stop"}).status, 200, "a stop that waits for it")
    equal(g.sandbox("cold")["state"], "cold", "state")
    equal(g.sandbox("a")["generation"], 1, "generation")
    equal(start_of(g), facts[1], "init's start")
    g.out("a", f"kill -0 {facts[0]}")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    equal(g.out("a", "cat f"), "kept\n", "the disk")


def test_keeper_gone_for_good(g):
    """Keeper and monitor die, and nobody brings them back: nothing hangs, and the answer says what helps."""
    g.out("a", "true")
    answers = []

    def run():
        answers.append(g.exec("a", "sleep 1000", timeout_ms=2000))

    init = g.inits()[0]
    running = threading.Thread(target=run)
    running.start()
    until(lambda: g.sandbox("a")["execs"] == 1, "the exec to run")
    g.kill_keeper_and_monitor()
    os.kill(init, signal.SIGKILL)
    running.join(TIMEOUT)
    check(answers and answers[0].reason in ("lost", "timeout"), answers)
    for method, target in (("POST", "/v1/sandbox/a/start"), ("POST", "/v1/sandbox/a/sleep"),
                           ("POST", "/v1/sandbox/b/start"), ("DELETE", "/v1/sandbox/a")):
        reply = g.request(method, target)
        equal((reply.status, reply.json()["code"]), (503, "unavailable"), (method, target))
        check("berth up" in reply.json()["error"], reply)
    g.berthd.terminate()
    equal(g.berthd.wait(TIMEOUT), 0, "berthd's exit code")
    g.start()
    equal(g.out("a", "echo x"), "x\n", "after a restart")


def test_keeper_killed_at_work(g):
    """kill -9 of the keeper while it starts, stops and deletes: each is done, or done again."""
    g.out("zero", ["true"])
    g.request("DELETE", "/v1/sandbox/zero")
    before = g.state_of_things()

    def try_all(number):
        name = f"w{number}"
        for method, path, status in (("POST", "/start", 200), ("POST", "/sleep", 200), ("POST", "/start", 200),
                                     ("DELETE", "", 204)):
            reply = g.request(method, f"/v1/sandbox/{name}{path}")
            equal(reply.status, status, f"{method} {path}: {reply}")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = [pool.submit(try_all, i) for i in range(4)]
        for _ in range(3):
            until(lambda: g.keeper() and (len(g.inits()) > 0 or all(f.done() for f in done)), "work")
            g.kill_keeper()
        for future in done:
            future.result()
    g.check_same(before)


def test_end_without_keeper(g):
    """A command that times out while the keeper is away is ended by the next one, and no more."""
    g.out("a", ["true"])
    with g.events("a", "setsid sleep 1000 & echo on; wait", timeout_ms=1000) as events:
        iterator = iter(events)
        next(iterator)
        g.kill_keeper()
        name, facts = next(iterator)
    equal((name, facts["reason"], facts["exit_code"]), ("exit", "timeout", 124), facts)
    check("sleep" not in g.out("a", "cat /proc/[0-9]*/comm; true"), "something survived")
    equal(g.sandbox("a")["generation"], 1, "generation")


def doctor(g):
    """What it finds, by name."""
    done = subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, "doctor", "--json"],
                          stdout=subprocess.PIPE, check=False)
    return {finding["name"]: finding for finding in json.loads(done.stdout)["checks"]}


def test_keeper_gone(g):
    """Without a monitor no keeper comes back: requests wait, then say so; the next berthd mends it."""
    facts = settle(g)
    equal(doctor(g)["keeper"]["status"], "ok", "with a keeper")
    g.kill_keeper_and_monitor()
    until(lambda: doctor(g)["keeper"]["status"] == "missing", "the doctor to miss the keeper")
    check(("systemctl" if g.given else " up") in doctor(g)["keeper"]["mend"], doctor(g)["keeper"])
    begin = time.monotonic()
    reply = g.request("POST", "/v1/sandbox/cold/start")
    equal((reply.status, reply.json()["code"]), (503, "unavailable"), reply)
    check(5 < time.monotonic() - begin < 30, "it took", time.monotonic() - begin)
    g.out("a", ["true"])  # what runs needs no keeper
    g.kill_berthd()
    g.start()
    until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
    equal(start_of(g), facts[1], "init's start")
    equal(g.out("cold", "cat f"), "kept\n", "the cold one's disk")
    equal(doctor(g)["keeper"]["status"], "ok", "with another keeper")


def test_end_refused(g):
    """While no keeper is there to end it, neither stop nor delete begins anything: all of it lives on."""
    facts = settle(g)
    g.kill_keeper_and_monitor()
    equal(g.request("POST", "/v1/sandbox/other/start").status, 503, "what waits for a keeper")
    for method, path, body in (("DELETE", "", None), ("POST", "/sleep", {"mode": "stop"})):
        reply = g.request(method, f"/v1/sandbox/a{path}", body)
        equal((reply.status, reply.json()["code"]), (503, "unavailable"), reply)
        check("berth up" in reply.json()["error"], reply)
        equal(g.sandbox("a")["state"], "running", f"after {method}")
    g.kill_berthd()
    g.start()
    check_adopted(g, *facts)


def test_end_unfinished(g):
    """A delete that loses its keeper fails, and says what happens all the same: its end, and nothing more."""
    settle(g)
    g.kill_keeper_and_monitor()
    reply = g.request("DELETE", "/v1/sandbox/a")
    equal((reply.status, reply.json()["code"]), (503, "unavailable"), reply)
    check("not removed, but it is ended as soon as" in reply.json()["error"], reply)
    equal(g.sandbox("a")["state"], "stopping", "meanwhile")
    check("could not be ended" in g.request("DELETE", "/v1/sandbox/a").json()["error"], "again")
    g.kill_berthd()
    g.start()
    until(lambda: g.sandbox("a")["state"] == "cold", "its end")
    equal(g.out("a", "cat f"), "kept\n", "the disk")


def test_berthd_and_keeper_killed(g):
    """A berthd that starts while the monitor restarts the keeper waits for that."""
    facts = settle(g)
    for _ in range(2):
        g.kill_berthd()
        g.kill_keeper()
        g.start()
    check_adopted(g, *facts)


def test_all_killed(g):
    """kill -9 of berthd, keeper and monitor: the next start adopts what lives."""
    facts = settle(g)
    g.kill_berthd()
    g.kill_keeper_and_monitor()
    check(any(g.is_sandboxed(p) for p in g.processes()), "the sandbox died with its keeper")
    g.start()
    check_adopted(g, *facts)


def sleeps(g):
    """Of the sandbox, by how long."""
    lines = g.out("a", "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; echo; done 2>/dev/null; true")
    return sorted(line.strip() for line in lines.split("\n") if line.startswith("sleep "))


def groups(g):
    return [c for c in g.cgroups() if "/a/exec-" in c]


def test_exec_while_away(g):
    """Of a command whose berthd was killed everything is ended when a new one comes; survivors stay."""
    g.out("a", "setsid sleep 1000 >/dev/null 2>&1 & sleep 1001 & echo hi")
    for _ in range(2):
        with g.events("a", "(setsid sh -c 'trap : TERM; sleep 2000 & sleep 2001; wait' &); echo on; "
                           "exec sleep 2002") as events:
            next(iter(events))
            until(lambda: len(sleeps(g)) == 5, "all of it to run")
            g.kill_berthd()
        g.start()
        until(lambda: g.sandbox("a")["state"] == "running", "the sandbox to be adopted")
        until(lambda: sleeps(g) == ["sleep 1000", "sleep 1001"], "the whole tree to end, and nothing else")
    equal(g.sandbox("a")["generation"], 1, "generation")
    if g.has_cgroups:
        # Ready ones, two that are in use or come back, and that of the survivors.
        until(lambda: len(groups(g)) <= 4 + 2 + 1, f"groups that nobody uses to go: {groups(g)}")


def test_many_groups(g):
    """Groups that a burst of commands needed are removed when they are over."""
    g.out("a", ["true"])
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        list(pool.map(lambda _: g.out("a", ["sleep", "1"]), range(40)))
    until(lambda: len(groups(g)) <= 16, f"groups that nobody uses to go: {groups(g)}")


def test_init_killed_while_away(g):
    """An init that dies while nobody looks: its sandbox is cold, and starts again."""
    settle(g)
    init = g.inits()[0]
    g.kill_berthd()
    os.kill(init, 9)
    until(lambda: not any(g.is_sandboxed(p) for p in g.processes()), "the sandbox to end")
    g.start()
    until(lambda: g.sandbox("a")["state"] in ("cold", "failed"), "its end to be known")
    equal(g.out("a", "cat f"), "kept\n", "the disk")
    equal(g.sandbox("a")["generation"], 2, "generation")


def test_deleted_after(g):
    """After adoption delete leaves nothing, as before."""
    g.out("zero", ["true"])
    g.request("DELETE", "/v1/sandbox/zero")
    before = g.state_of_things()
    settle(g)
    g.kill_berthd()
    g.kill_keeper_and_monitor()
    g.start()
    for name in ("a", "cold"):
        equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
    g.check_same(before)


main([test_berthd_killed, test_other_state, test_berthd_stopped, test_keeper_killed, test_keeper_killed_at_work,
      test_keeper_gone_for_good, test_end_without_keeper, test_keeper_gone, test_end_refused, test_end_unfinished, test_berthd_and_keeper_killed,
      test_all_killed, test_exec_while_away, test_many_groups, test_init_killed_while_away, test_deleted_after])
