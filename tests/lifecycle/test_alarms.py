"""Alarms, which wake a sandbox when they are due, and delete_after, which ends one that nobody needs."""

import datetime
import json
import os
import random
import sqlite3
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "sandbox")]

# pylint: disable=wrong-import-position
from ground import check, equal, main, only, until  # noqa: E402

NOTE = 'echo "$BERTH_ALARM $BERTH_ALARM_DUE" >>/workspace/ran'


def put(g, name="a", **settings):
    reply = g.request("PUT", f"/v1/sandbox/{name}", settings)
    check(reply.status == 200, reply)
    return reply.json()


def sleep(g, mode):
    reply = g.request("POST", "/v1/sandbox/a/sleep", {"mode": mode})
    equal(reply.status, 200, reply)


def at(seconds):
    """So far from now, as the API writes times."""
    when = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


def ms_of(text):
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def put_alarm(g, command=NOTE, name="tick", **when):
    reply = g.request("PUT", f"/v1/sandbox/a/alarm/{name}", {"argv": ["sh", "-c", command], **when})
    equal(reply.status, 200, reply)
    return reply.json()


def alarm(g, name="tick"):
    reply = g.get(f"/v1/sandbox/a/alarm/{name}")
    equal(reply.status, 200, reply)
    return reply.json()


def ran(g):
    return g.out("a", "cat ran 2>/dev/null || true").splitlines()


def has_been(g):
    """Whether the first run of a command that is to be cut off has come as far as that."""
    return g.out("a", "ls again 2>/dev/null || true") != ""


def await_run(g, name="tick"):
    def look():
        last = alarm(g, name)["last_run"]
        return last if last and last["ended_at"] else None
    return until(look, "the alarm to have run")


def events(g, kind):
    """What is stored of that kind, in order."""
    db = sqlite3.connect(f"file:{g.state}/berthd/state.db?mode=ro", uri=True)
    try:
        return [json.loads(data) for (data,) in db.execute("SELECT data FROM event WHERE type = ? ORDER BY id", (kind,))]
    finally:
        db.close()


def await_events(g, kind, count):
    until(lambda: len(events(g, kind)) >= count, f"{count} events {kind}")
    return events(g, kind)


def test_wakes(g):
    """At its time it wakes a sandbox that is frozen, or stopped, and hands the due time over."""
    g.out("a", "true")
    for count, mode in enumerate(("freeze", "stop") if g.is_root else ("stop",), 1):
        sleep(g, mode)
        generation = g.sandbox("a")["generation"]
        due = at(1.5)
        shown = put_alarm(g, at=due, timeout_ms=60000)
        equal((shown["name"], shown["at"], shown["every"], shown["next_at"], shown["timeout_ms"], shown["last_run"]),
              ("tick", due, None, due, 60000, None), shown)
        equal(shown["argv"], ["sh", "-c", NOTE], shown)
        check(g.sandbox("a")["state"] in ("frozen", "cold"), "the PUT woke it")
        last = await_run(g)
        equal((last["due_at"], last["reason"], last["exit_code"], last["attempts"], last["skipped"], last["error"]),
              (due, "exited", 0, 1, 0, None), last)
        check(ms_of(due) <= ms_of(last["started_at"]) <= ms_of(last["ended_at"]), last)
        equal(alarm(g)["next_at"], None, "once")
        equal(g.sandbox("a")["generation"], generation + (mode == "stop"), "one start")
        equal((len(ran(g)), ran(g)[-1]), (count, f"tick {due}"), "what it was told")
        told = await_events(g, "alarm", count)[-1]
        equal([told.get(key) for key in ("alarm", "due_at", "attempts", "reason", "exit_code")],
              ["tick", due, 1, "exited", 0], told)


def test_holds(g):
    """Its command holds the sandbox awake, has a time limit, and says how it ended."""
    put(g, sleep_after="300ms")
    put_alarm(g, "sleep 1.5; exit 7", at=at(0))
    until(lambda: [h["kind"] for h in g.sandbox("a")["holds"]] == ["exec"], "the hold")
    running = until(lambda: alarm(g)["last_run"], "its start to be stored")
    check(running["started_at"] and not running["ended_at"] and running["reason"] is None, running)
    equal(await_run(g)["exit_code"], 7, "how it ended")
    until(lambda: g.sandbox("a")["state"] in ("frozen", "cold"), "sleep")
    put_alarm(g, "sleep 100", at=at(0), timeout_ms=300)
    last = await_run(g)
    equal((last["reason"], last["exit_code"]), ("timeout", 124), last)
    equal(g.request("PUT", "/v1/sandbox/a/alarm/tick", {"argv": ["/no/such"], "at": at(0)}).status, 200, "put")
    last = await_run(g)
    equal((last["reason"], last["exit_code"], last["attempts"]), ("not_started", 127, 1), last)
    check("/no/such" in last["error"], last)


def dues(g):
    return [ms_of(line.split()[1]) for line in ran(g)]


def test_every(g):
    """Again and again, on the grid of its first time; at and every together begin with at."""
    put(g)
    first = at(0.7)
    put_alarm(g, at=first, every="1s")
    until(lambda: len(ran(g)) >= 3, "three runs")
    times = dues(g)
    equal((times[0], sorted(set(times))), (ms_of(first), times), "none twice")
    equal([t for t in times if (t - times[0]) % 1000], [], "the grid")
    before = time.time() * 1000
    shown = put_alarm(g, every="1h")
    check(before + 3600000 - 1000 <= ms_of(shown["next_at"]) <= time.time() * 1000 + 3600000, shown)
    equal(shown["last_run"], None, "it is another alarm now")
    equal(put_alarm(g, every="1h"), shown, "the same again changes nothing")


def test_overlap(g):
    """One that is due while it runs does not run twice: those times are skipped, and that is told."""
    put(g)
    put_alarm(g, "echo in >>ran; sleep 2.5; echo out >>ran", at=at(0), every="1s")
    last = await_run(g)
    check(last["skipped"] >= 2 and last["exit_code"] == 0, last)
    until(lambda: len(ran(g)) >= 4, "the next run")
    equal(ran(g)[:4], ["in", "out", "in", "out"], "one after the other")
    equal((ms_of(alarm(g)["next_at"]) - ms_of(last["due_at"])) % 1000, 0, "the grid")


def test_replaced(g):
    """A PUT replaces, also while its command runs; a DELETE is the end of it, but not of the command."""
    put(g)
    put_alarm(g, "echo old >>ran; sleep 1.5; echo over >>ran", at=at(0))
    until(lambda: alarm(g)["last_run"], "the first to run")
    put_alarm(g, "echo new >>ran", at=at(0))
    until(lambda: len(ran(g)) == 3, "both")
    equal(ran(g), ["old", "over", "new"], "one after the other")
    equal(await_run(g)["attempts"], 1, "the new one's run")
    put_alarm(g, "echo begun >>ran; sleep 1; echo done >>ran", at=at(0))
    until(lambda: "begun" in ran(g), "the third")
    for _ in range(2):
        equal(g.request("DELETE", "/v1/sandbox/a/alarm/tick").status, 204, "delete, also twice")
    equal(g.get("/v1/sandbox/a/alarm/tick").status, 404, "gone")
    until(lambda: "done" in ran(g), "its command to go on")
    equal(g.get("/v1/sandbox/a/alarms").json(), {"alarms": []}, "list")
    put_alarm(g, name="far", at=at(1.5))
    equal(g.request("DELETE", "/v1/sandbox/a/alarm/far").status, 204, "delete")
    time.sleep(2)
    equal([line for line in ran(g) if "far" in line], [], "one that was deleted before it was due")


def test_missed(g):
    """What was due while no berthd was there runs once, however often that was; then the grid goes on."""
    g.out("a", "true")
    first = at(3)
    put_alarm(g, at=first, every="1s")
    put_alarm(g, name="once", at=first)
    put_alarm(g, name="far", at=at(3600))
    g.kill_berthd()
    time.sleep(6)
    g.start()
    last = await_run(g)
    equal((last["due_at"], last["attempts"]), (first, 1), last)
    check(last["skipped"] >= 2, last)
    equal(await_run(g, "once")["due_at"], first, "the other")
    until(lambda: len([line for line in ran(g) if line.startswith("tick")]) >= 2, "the next")
    ticks = [ms_of(line.split()[1]) for line in ran(g) if line.startswith("tick")]
    check(ticks[1] - ticks[0] >= 3000 and (ticks[1] - ticks[0]) % 1000 == 0, ticks)
    g.request("DELETE", "/v1/sandbox/a/alarm/tick")
    equal(len([line for line in ran(g) if line.startswith("once")]), 1, "once")
    g.kill_berthd()
    g.start()
    equal(alarm(g, "once")["last_run"]["reason"], "exited", "its run is kept")
    equal(len([line for line in ran(g) if line.startswith("once")]), 1, "once, also after another restart")
    equal([a["name"] for a in g.get("/v1/sandbox/a/alarms").json()["alarms"]], ["far", "once"], "by name")


def test_killed_while_it_runs(g):
    """berthd is killed under the command: the next one runs it again, to its end."""
    g.out("a", "true")
    due = at(0.5)
    put_alarm(g, NOTE + "; test -e again || { touch again; sleep 1000; }; echo end >>ran", at=due)
    until(lambda: (last := alarm(g)["last_run"]) and last["started_at"], "the run")
    until(lambda: has_been(g), "the command")
    g.kill_berthd()
    g.start()
    last = await_run(g)
    equal((last["due_at"], last["attempts"], last["reason"], last["exit_code"]), (due, 2, "exited", 0), last)
    equal(ran(g), [f"tick {due}", f"tick {due}", "end"], "what ran")
    until(lambda: g.sandbox("a")["execs"] == 0, "the first to be ended")


def test_none_is_lost(g):
    """berthd is killed, or stopped, again and again while alarms are due: each of them has run in the end."""
    random.seed(os.getpid())
    g.out("a", "true")
    dues = {f"x{i}": at(1 + 0.2 * i) for i in range(30)}
    for name, due in dues.items():
        put_alarm(g, 'echo "$BERTH_ALARM $BERTH_ALARM_DUE begun" >>ran; sleep 0.2; echo "$BERTH_ALARM ended" >>ran', name,
                  at=due)
    end = time.monotonic() + 6
    while time.monotonic() < end:
        time.sleep(random.uniform(0.1, 0.6))
        if random.random() < 0.3:
            g.berthd.terminate()
            equal(g.berthd.wait(60), 0, "berthd's exit code")
        else:
            g.kill_berthd()
        g.start()
    repeated = 0
    for name, due in dues.items():
        last = await_run(g, name)
        equal((last["due_at"], last["reason"], last["exit_code"]), (due, "exited", 0), last)
        repeated += last["attempts"] > 1
    lines = ran(g)
    for name, due in dues.items():
        check(f"{name} {due} begun" in lines and f"{name} ended" in lines, name, lines)
    equal([a["next_at"] for a in g.get("/v1/sandbox/a/alarms").json()["alarms"]], [None] * len(dues), "none is left")
    print(f"# {repeated} of {len(dues)} ran more than once")


def test_sandbox_dies(g):
    """The sandbox dies under the command: it is run again."""
    g.out("a", "true")
    put_alarm(g, "echo x >>ran; test -e again || { touch again; sleep 1000; }", at=at(0))
    until(lambda: has_been(g), "the command")
    for pid in g.inits():
        os.kill(pid, 9)
    last = await_run(g)
    equal((last["attempts"], last["reason"], last["exit_code"]), (2, "exited", 0), last)
    equal(ran(g), ["x", "x"], "what ran")


def test_cannot_start(g):
    """A sandbox that cannot start: that is told, it is tried again, and runs once it can."""
    put(g, sleep_after="1s")
    put_alarm(g, at=at(3))
    g.kill_berthd()
    db = sqlite3.connect(os.path.join(g.state, "berthd", "state.db"))
    db.execute("UPDATE sandbox SET settings = '{\"image\": 7}'")
    db.commit()
    db.close()
    g.start()
    until(lambda: (last := alarm(g)["last_run"]) and last["attempts"] == 2, "a second attempt")
    failed = alarm(g)
    check("settings cannot be read" in failed["last_run"]["error"], failed)
    equal((failed["last_run"]["started_at"], failed["last_run"]["reason"], failed["next_at"]),
          (None, None, failed["at"]), failed)
    await_events(g, "alarm_failed", 2)  # each is stored for itself
    g.kill_berthd()
    g.start()
    until(lambda: alarm(g)["last_run"]["attempts"] >= 3, "a third, by another berthd")
    put(g, sleep_after="1s")
    last = await_run(g)
    check(last["attempts"] >= 4 and last["reason"] == "exited" and last["error"] is None, last)
    equal(len(ran(g)), 1, "it ran once")
    told = await_events(g, "alarm_failed", 3)
    check(told[0]["attempts"] == 1 and "settings cannot be read" in told[0]["message"], told)
    equal([e["attempts"] for e in await_events(g, "alarm", 1)], [last["attempts"]], "and then it ran")


def test_no_room(g):
    """The host is full: that is told, however long a sentence it takes, and it runs when there is room."""
    names = [63 * letter for letter in "bcd"]
    g.kill_berthd()
    with open(g.path("config.json"), "w", encoding="utf-8") as file:
        json.dump({"max_running": len(names)}, file)
    os.chmod(g.path("config.json"), 0o644)
    g.start("--config", g.path("config.json"))
    put(g)
    for name in names:
        g.out(name, "true")
    put_alarm(g, at=at(0))
    until(lambda: (last := alarm(g)["last_run"]) and last["error"], "the refusal")
    error = alarm(g)["last_run"]["error"]
    check(error.startswith("max_running is 3") and error.endswith("or raise max_running"), "it is cut:", error)
    equal(await_events(g, "alarm_failed", 1)[0]["message"], error, "as an event")
    g.kill_berthd()
    g.start("--config", g.path("config.json"))
    check("or raise max_running" in alarm(g)["last_run"]["error"], "it was stored otherwise", alarm(g))
    equal(g.request("POST", f"/v1/sandbox/{names[0]}/sleep", {"mode": "stop"}).status, 200, "sleep")
    last = await_run(g)
    check(last["attempts"] > 1 and last["exit_code"] == 0 and last["error"] is None, last)


@only("root")
def test_frozen_command(g):
    """Its command was frozen in the middle: the next due time wakes it, and it goes on."""
    put(g)
    put_alarm(g, "echo in >>ran; sleep 1; echo out >>ran", at=at(0.2), every="3s")
    until(lambda: (last := alarm(g)["last_run"]) and last["started_at"], "the run")
    sleep(g, "freeze")
    await_run(g)
    equal(ran(g)[:2], ["in", "out"], "what ran")


def test_refused(g):
    """Bodies and names that make no sense, too many alarms, and sandboxes that are not there."""
    equal(g.request("PUT", "/v1/sandbox/a/alarm/x", {"argv": ["true"], "every": "1s"}).status, 404, "no sandbox")
    equal(g.get("/v1/sandbox/a/alarms").status, 404, "no sandbox")
    equal(g.request("DELETE", "/v1/sandbox/a/alarm/x").status, 204, "no sandbox, no alarm")
    put(g)
    good = {"argv": ["true"], "every": "1h"}
    for body, word in (({"argv": ["true"]}, "at or every"), ({"every": "1h"}, "argv"),
                       ({**good, "every": "999ms"}, "at least 1s"), ({**good, "every": "4000d"}, "3650d"),
                       ({**good, "every": "x"}, "duration"), ({**good, "at": "tomorrow"}, "RFC 3339"),
                       ({**good, "at": "1969-01-01T00:00:00Z"}, "1970"), ({**good, "argv": []}, "argv"),
                       ({**good, "argv": ["x" * 70000]}, "larger"), ({**good, "cron": "* * * * *"}, "cron"),
                       ({**good, "timeout_ms": -1}, "timeout_ms")):
        reply = g.request("PUT", "/v1/sandbox/a/alarm/x", body)
        equal((reply.status, reply.json()["code"]), (400, "invalid_request"), f"{body} {reply}")
        check(word in reply.json()["error"], reply)
    equal(g.request("PUT", "/v1/sandbox/a/alarm/b%20ad", good).status, 400, "name")
    equal(g.get("/v1/sandbox/a/alarms").json(), {"alarms": []}, "nothing was made")
    for i in range(64):
        equal(g.request("PUT", f"/v1/sandbox/a/alarm/x{i}", good).status, 200, "put")
    reply = g.request("PUT", "/v1/sandbox/a/alarm/y", good)
    equal((reply.status, reply.json()["code"]), (409, "conflict"), reply)
    equal(g.request("PUT", "/v1/sandbox/a/alarm/x0", {**good, "every": "2h"}).status, 200, "one that is there")
    equal(g.request("DELETE", "/v1/sandbox/a/alarm/x1").status, 204, "delete")
    equal(g.request("PUT", "/v1/sandbox/a/alarm/y", good).status, 200, "room again")
    shown = alarm(g, "x0")
    equal((shown["every"], g.sandbox("a")["state"], g.sandbox("a")["generation"]), ("2h", "cold", 0), shown)


def test_deleted_sandbox(g):
    """Alarms go with their sandbox, and the next of that name has none."""
    put(g)
    put_alarm(g, at=at(1))
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    g.out("a", "true")
    equal(g.get("/v1/sandbox/a/alarms").json(), {"alarms": []}, "the next")
    time.sleep(1.5)
    equal(ran(g), [], "nothing ran")
    put_alarm(g, "sleep 1000", at=at(0))
    until(lambda: (last := alarm(g)["last_run"]) and last["started_at"], "the run")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete while it runs")
    g.kill_berthd()
    g.start()
    equal(g.list_all(), [], "nothing is left")


def test_due_while_deleted(g):
    """An alarm that becomes due while its sandbox is being deleted goes with it, and nothing is told of it afterwards."""
    for i in range(20):
        g.out("a", "true")
        put_alarm(g, "sleep 1000", at=at(0.002 * i), every="1s")
        equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
        equal(gone(g), True, "it is gone")
    until(lambda: len(events(g, "destroyed")) == 20, "the last event")
    equal(events(g, "alarm_failed"), [], "none failed")


def gone(g):
    return g.get("/v1/sandbox/a").status == 404


def test_delete_after(g):
    """Asleep for so long, it is deleted, disk and all; whatever uses it puts that off."""
    equal(put(g, delete_after="5s", sleep_after="100ms")["delete_after"], "5s", "setting")
    first = g.sandbox("a")["deletes_at"]
    check(first, "a cold one sleeps")
    g.out("a", "true")
    equal(g.sandbox("a")["deletes_at"], None, "awake")
    until(lambda: g.sandbox("a")["deletes_at"], "sleep")
    shown = g.sandbox("a")
    check(abs(ms_of(shown["deletes_at"]) - ms_of(shown["last_sleep"]["at"]) - 5000) < 50, shown)
    equal(put(g, delete_after="never")["deletes_at"], None, "never")
    before = time.time() * 1000
    shown = put(g, delete_after="3s")
    check(ms_of(shown["deletes_at"]) >= before + 3000 - 5, "a change of settings puts it off")
    time.sleep(1)
    g.out("a", "true")
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        check(not gone(g), "too early")
        time.sleep(0.02)
    until(lambda: gone(g), "its end")
    equal(g.sandbox_files(), [], "disk")
    equal(g.inits(), [], "processes")


def test_delete_after_restart(g):
    """berthd was away when it was due: then it is done when it is back; what runs stays."""
    for name in ("a", "b", "c"):
        put(g, name, delete_after="2s", sleep_after="never")
        g.out(name, "true")
    for name in ("a", "b"):
        equal(g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "auto"}).status, 200, "sleep")
    put(g, "b", delete_after="1d")
    receipt, due = g.sandbox("b")["last_sleep"], g.sandbox("b")["deletes_at"]
    g.kill_berthd()
    time.sleep(2.5)
    g.start()
    until(lambda: gone(g), "the end of the one that slept")
    equal((g.sandbox("b")["deletes_at"], g.sandbox("b")["last_sleep"]), (due, receipt), "what is known of its sleep")
    time.sleep(1)
    equal((g.sandbox("c")["state"], g.sandbox("c")["deletes_at"]), ("running", None), "one that runs")
    equal(g.out("c", "echo x"), "x\n", "it still does")
    g.request("POST", "/v1/sandbox/c/sleep", {"mode": "auto"})
    g.kill_berthd()
    g.start()
    until(lambda: g.get("/v1/sandbox/c").status == 404, "its end, too")


def test_delete_after_alarm(g):
    """A sandbox with an alarm that is yet to come is not deleted; afterwards it is."""
    put(g, delete_after="1s", sleep_after="100ms")
    put_alarm(g, at=at(2.5))
    equal(g.sandbox("a")["deletes_at"], None, "with an alarm")
    check(g.sandbox("a")["next_alarm_at"], "it is told")
    refused = g.request("DELETE", "/v1/sandbox/a?if_state=cold")
    equal((refused.status, refused.json()["code"]), (409, "conflict"), "nor by who removes what nobody needs")
    last = await_run(g)
    equal(last["exit_code"], 0, last)
    until(lambda: gone(g), "its end")


def test_fails_and_expires(g):
    """One that could not be started sleeps, too."""
    put(g, delete_after="2s")
    g.out("a", "true")
    for pid in g.inits():
        os.kill(pid, 9)
    until(lambda: g.sandbox("a")["state"] == "failed", "the failure")
    check(g.sandbox("a")["deletes_at"], json.dumps(g.sandbox("a")))
    until(lambda: gone(g), "its end")


if __name__ == "__main__":
    main([test_wakes, test_holds, test_every, test_overlap, test_replaced, test_missed, test_killed_while_it_runs,
          test_none_is_lost, test_sandbox_dies, test_cannot_start, test_no_room, test_frozen_command, test_refused,
          test_deleted_sandbox, test_due_while_deleted, test_delete_after, test_delete_after_restart,
          test_delete_after_alarm, test_fails_and_expires])
