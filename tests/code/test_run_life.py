"""Runs: queued, waited for, cancelled, listed, bounded; and what a crash leaves of them."""

import json
import os
import signal
import sqlite3
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from ground import at_once, check, equal, main, only, until  # noqa: E402
from run_api import begin, get, messages, post, run, wait  # noqa: E402

ENDLESS = "print('begun', flush=True)\nwhile True:\n    pass\n"
MANY = int(os.environ.get("BERTH_RUNS", "100"))


def await_output(g, run_id):
    """Its code has begun, and said something."""
    return until(lambda: (r := get(g, run_id)) and messages(r) and r, f"output of {run_id}")


def metric(g, name):
    for line in g.get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return int(line.split()[-1])
    return None


def test_async(g):
    """An answer at once; its state, its logs so far, its end."""
    record = begin(g, "print('a', flush=True)\nimport time\ntime.sleep(1)\n7", metadata={"m": 1})
    equal((record["status"], record["result"], record["ended_at"]), ("queued", None, None), str(record))
    now = await_output(g, record["id"])
    equal((now["status"], messages(now), now["metadata"]), ("running", ["a"], {"m": 1}), str(now))
    equal(messages(g.get(f"/v1/runs/{record['id']}/logs").json()), ["a"], "its logs so far")
    equal(wait(g, record["id"], status=504, timeout_ms=1)["code"], "timeout", "a short wait")
    end = wait(g, record["id"], timeout_ms=60000)
    equal((end["status"], end["result"]), ("completed", 7), str(end))
    equal(get(g, record["id"]), end, "as it is stored")
    equal(wait(g, record["id"]), end, "waiting for one that is over")
    wait(g, "run-nonsense", status=404)


def test_not_over(g):
    """A run that is not over has no result yet, and no verdicts."""
    code = "import time\ndef main(n):\n    if n == 2:\n        print('a', flush=True)\n        time.sleep(600)\n    return n\n"
    record = begin(g, code, tests=[{"input": n, "expected": n} for n in (1, 2)])
    now = await_output(g, record["id"])
    equal((now["status"], now["result"], now["error"], now["ended_at"]), ("running", None, None, None), str(now))
    equal([(t["input"], t["actual"], t["passed"]) for t in now["tests"]], [(1, None, False), (2, None, False)], str(now))
    end = g.request("DELETE", f"/v1/runs/{record['id']}").json()
    equal((end["status"], end["result"], [t["passed"] for t in end["tests"]]), ("cancelled", 1, [True, False]), str(end))


def test_cancel(g):
    """One that runs, one that waits, one that is over."""
    g.kill_berthd()
    g.start("--max-runs", "1")
    before = g.state_of_things()
    first, second = begin(g, ENDLESS), begin(g, ENDLESS)
    await_output(g, first["id"])
    equal(get(g, second["id"])["status"], "queued", "the second waits")
    for record in (second, first):
        reply = g.request("DELETE", f"/v1/runs/{record['id']}")
        equal((reply.status, reply.json()["status"], reply.json()["error"]["code"]), (200, "cancelled", "cancelled"),
              str(reply))
        equal(g.request("DELETE", f"/v1/runs/{record['id']}").json(), reply.json(), "once more")
    equal(reply.json()["metrics"]["duration_ms"] > 0, True, "it has run")
    equal(g.request("DELETE", "/v1/runs/run-nonsense").status, 404, "one that is not there")
    g.check_same(before)
    equal(metric(g, 'berth_runs_total{status="cancelled"}'), 2, "counted")


def test_client_goes(g):
    """Nobody is there for the answer: it is cancelled."""
    connection = g.connect()
    connection.request("POST", "/v1/runs", json.dumps({"code": ENDLESS, "language": "python"}))
    found = until(lambda: g.get("/v1/runs?status=running").json()["runs"], "a run")
    connection.close()
    end = wait(g, found[0]["id"])
    equal(end["status"], "cancelled", str(end))
    until(lambda: not g.list_all(), "the sandboxes to go")


def test_sandbox_deleted(g):
    """Somebody removes its sandbox: it ends, and says so."""
    record = begin(g, ENDLESS)
    await_output(g, record["id"])
    equal(g.request("DELETE", f"/v1/sandbox/{record['sandbox']}").status, 204, "delete")
    equal(wait(g, record["id"])["status"], "cancelled", "its end")


def test_key(g):
    """The same key is the same run."""
    one = post(g, "import uuid\nstr(uuid.uuid4())", Idempotency_Key="k").json()
    two = post(g, "import uuid\nstr(uuid.uuid4())", Idempotency_Key="k").json()
    equal(two, one, "the second answer")
    equal(post(g, "2", Idempotency_Key="k").status, 409, "another body")
    three = at_once(4, lambda _: post(g, "import uuid, time\ntime.sleep(0.3)\nstr(uuid.uuid4())",
                                      Idempotency_Key="l").json())
    equal(len({r["result"] for r in three}), 1, "four at once")
    equal(len(g.get("/v1/runs").json()["runs"]), 2, "runs")


def test_key_later(g):
    """It is the same run after berthd was killed, and after its client has gone; so it is of sandboxes and processes."""
    code = "import uuid\nstr(uuid.uuid4())"
    places = (("/v1/sandbox", {"labels": {"a": "b"}}), ("/v1/sandbox/a/processes", {"command": "sleep 1000"}))
    one = post(g, code, Idempotency_Key="k").json()
    made = [g.request("POST", path, body, Idempotency_Key="k").json()["id"] for path, body in places]
    connection = g.connect()
    slow = "import uuid, time\ntime.sleep(5)\nstr(uuid.uuid4())"
    connection.request("POST", "/v1/runs", json.dumps({"code": slow, "language": "python"}), {"Idempotency-Key": "l"})
    until(lambda: any(r["status"] == "running" for r in g.get("/v1/runs").json()["runs"]), "the run to begin")
    connection.close()
    two = post(g, slow, Idempotency_Key="l").json()
    equal((two["status"], two["error"]), ("completed", None), "a run whose client has gone")
    g.kill_berthd()
    g.start()
    equal([post(g, code, Idempotency_Key="k").json(), post(g, slow, Idempotency_Key="l").json()], [one, two], "after a restart")
    equal([g.request("POST", path, body, Idempotency_Key="k").json()["id"] for path, body in places], made, "others")
    equal(post(g, "2", Idempotency_Key="k").status, 409, "another body")
    equal(len(g.get("/v1/runs").json()["runs"]), 2, "runs")
    equal(g.request("DELETE", f"/v1/sandbox/{made[0]}").status, 204, "delete")
    again = [g.request("POST", places[0][0], places[0][1], Idempotency_Key="k").json()["id"] for _ in range(2)]
    equal((again[0] == again[1], made[0] in again), (True, False), f"anew, once: {again}, {made}")


def test_key_anew(g):
    """A run of which nothing is left any more is begun anew, once, by the same key."""
    code = "import uuid\nstr(uuid.uuid4())"
    for is_async in (False, True):
        key = f"k{is_async}"
        one = post(g, code, Idempotency_Key=key, **{"async": is_async}).json()
        wait(g, one["id"])
        until(lambda: not g.list_all(), "its sandbox to go")
        with sqlite3.connect(os.path.join(g.state, "berthd", "state.db")) as db:
            db.execute("DELETE FROM run")
        db.close()
        replies = at_once(4, lambda _, is_async=is_async, key=key: post(g, code, Idempotency_Key=key, **{"async": is_async}))
        equal([r.status for r in replies if r.status != (202 if is_async else 200)], [], str(replies))
        ids = {r.json()["id"] for r in replies}
        equal((len(ids), one["id"] in ids), (1, False), "runs")
        wait(g, ids.pop())


def test_name_taken(g):
    """The ID of a run that waits is known: nobody else can make a sandbox of it."""
    g.kill_berthd()
    g.start("--max-runs", "1")
    first, second = begin(g, ENDLESS), begin(g, "6 * 7")
    await_output(g, first["id"])
    path = f"/v1/sandbox/{second['id'].upper()}"
    for method, target, body in (("POST", path + "/exec", {"argv": ["true"]}), ("PUT", path, {}), ("POST", path + "/start", None),
                                 ("POST", "/v1/sandbox", {"id": second["id"]}), ("PUT", path + "/file/workspace/mark", "x"),
                                 ("POST", path + "/code", {"code": "1", "language": "python"}), ("PUT", path + "/port/8000", {}),
                                 ("POST", path + "/processes", {"argv": ["sleep", "60"]}), ("POST", path + "/session", {})):
        reply = g.request(method, target, body)
        equal((reply.status, reply.json().get("code")), (409, "conflict"), f"{method} {target}: {reply}")
    equal([s["id"] for s in g.list_all()], [first["id"]], "what was made")
    equal(g.request("DELETE", f"/v1/runs/{first['id']}").status, 200, "the first is cancelled")
    end = wait(g, second["id"], timeout_ms=60000)
    equal((end["status"], end["result"]), ("completed", 42), str(end))


def test_name_kept(g):
    """A sandbox that has the ID of a run, but not its label, was somebody's own: it is not removed after a crash."""
    own, ours = (f"run-{letter * 26}" for letter in "ab")
    equal(g.request("PUT", "/v1/sandbox/own", {"labels": {"a": "b"}}).status, 200, "one of a client")
    equal(g.request("PUT", "/v1/sandbox/ours", {"labels": {"berth.run": ours}}).status, 200, "one as a run has")
    g.kill_berthd()
    with sqlite3.connect(os.path.join(g.state, "berthd", "state.db")) as db:
        for before, name in (("own", own), ("ours", ours)):
            db.execute("UPDATE sandbox SET id = ? WHERE id = ?", (name, before))
            db.execute("INSERT INTO pool (id) VALUES (?)", (name,))
    db.close()
    g.start()
    until(lambda: [s["id"] for s in g.list_all()] == [own], "that of the run to go")
    until(lambda: f"sandbox={own} is kept" in g.log_text(), "the log to say so")
    equal(g.out(own, "echo here"), "here\n", "it can be used")


def test_list(g):
    """The newest first, by pages and by status."""
    for n in range(5):
        run(g, f"{n}" if n % 2 else "1/0", task_id=f"t{n}")
    page = g.get("/v1/runs?limit=2").json()
    equal([r["task_id"] for r in page["runs"]], ["t4", "t3"], "the first page")
    check("result" not in page["runs"][0] and "logs" not in page["runs"][0], page)
    page = g.get(f"/v1/runs?limit=4&cursor={page['cursor']}").json()
    equal(([r["task_id"] for r in page["runs"]], "cursor" in page), (["t2", "t1", "t0"], False), "the last page")
    page = g.get("/v1/runs?status=failed").json()
    equal([r["task_id"] for r in page["runs"]], ["t4", "t2", "t0"], "by status")
    equal(page["runs"][0]["error"]["name"], "ZeroDivisionError", "why")
    for query in ("limit=0", "limit=x", "status=done", "cursor=-1"):
        equal(g.get(f"/v1/runs?{query}").status, 400, query)
    equal(metric(g, 'berth_runs_total{status="failed"}'), 3, "counted")


def test_bounds(g):
    """Only so many records are kept, and the oldest go."""
    first = run(g, "1")
    g.kill_berthd()
    path = os.path.join(g.state, "berthd", "state.db")
    with sqlite3.connect(path) as db:
        columns = "status, language, bytes, created_at_ms, started_at_ms, ended_at_ms, timeout_ms, duration_ms," \
                  "cold_start_ms, cpu_ms, memory_peak_bytes, logs_dropped, task_id, metadata, error, result, logs, tests"
        db.execute(f"INSERT INTO run (id, has_sandbox, {columns}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                   f"FROM n WHERE i < 1000) SELECT 'run-' || i, 0, {columns} FROM run, n")
    db.close()
    g.start()
    last = run(g, "2")
    get(g, first["id"], status=404)
    equal(until(lambda: get(g, last["id"]), "the last")["result"], 2, "the newest stays")
    path = f"file:{path}?mode=ro"
    with sqlite3.connect(path, uri=True) as db:
        equal(db.execute("SELECT count(*) FROM run").fetchone()[0], 1000, "records")
    db.close()


def test_crash(g):
    """kill -9 of berthd: lost, and nothing is left."""
    before = g.state_of_things()
    g.kill_berthd()
    g.start("--max-runs", "2")
    done = run(g, "1")
    records = [begin(g, ENDLESS) for _ in range(4)]
    for record in records[:2]:
        await_output(g, record["id"])
    g.kill_berthd()
    check(g.inits(), "sandboxes outlive berthd")
    g.start()
    for number, record in enumerate(records):
        now = get(g, record["id"])
        equal((now["status"], now["error"]["code"]), ("lost", "lost"), str(now))
        equal(now["started_at"] is not None, number < 2, "whether it had begun")
    equal(get(g, done["id"]), done, "what was over stays as it is")
    until(lambda: not g.list_all(), "the sandboxes to go")
    g.check_same(before)
    equal(run(g, "2")["result"], 2, "the next run")
    equal(metric(g, 'berth_runs_total{status="lost"}'), 4, "counted")


def test_crash_anywhere(g):
    """Killed at any moment of short runs: no record is stuck, nothing is left."""
    before = g.state_of_things()
    ids = []
    for delay in (0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3):
        timer = threading.Timer(delay, g.berthd.kill)
        ids += [begin(g, "print(1)\n2")["id"] for _ in range(3)]
        timer.start()
        timer.join()
        g.berthd.wait()
        g.start()
    states = {i: get(g, i)["status"] for i in ids}
    check(set(states.values()) <= {"completed", "lost"}, states)
    until(lambda: not g.list_all(), "the sandboxes to go")
    g.check_same(before)


def test_keeper_dies(g):
    """Without the keeper a sandbox cannot be removed: that is done when it is back."""
    before = g.state_of_things()
    for _ in range(3):
        until(lambda: g.get("/v1/info").json()["keeper"]["answers"], "the keeper")
        record = begin(g, ENDLESS)
        await_output(g, record["id"])
        g.kill_keeper()
        end = g.request("DELETE", f"/v1/runs/{record['id']}").json()
        check(end["status"] in ("cancelled", "lost"), end)
    until(lambda: not g.list_all(), "the sandboxes to go")
    g.check_same(before)
    equal(run(g, "2")["result"], 2, "the next run")


def test_init_dies(g):
    """Its sandbox ends under it: the run ends, and says so."""
    record = begin(g, ENDLESS)
    await_output(g, record["id"])
    os.kill(g.inits()[0], signal.SIGKILL)
    end = wait(g, record["id"], timeout_ms=60000)
    check(end["status"] in ("lost", "failed", "cancelled") and end["error"], end)
    until(lambda: not g.list_all(), "the sandboxes to go")


# Does something as soon as its first test has returned; the verdict on that takes a while.
BETWEEN = """
import gc, os, threading
state = next(o for o in gc.get_objects() if isinstance(o, type) and o.__name__ == 'State')
def wait():
    while state.call is not None or not state.is_idle:
        pass
    %s
def main(n):
    if n == 1:
        threading.Thread(target=wait).start()
    return ['ab'] * 300000
"""


def end_between(g, what, **options):
    """The error of a run that does that between its first test and its second."""
    tests = [{"input": n, "expected": ["ab"] * 300000} for n in (1, 2)]
    record = run(g, BETWEEN % what, tests=tests, timeout_ms=120000, **options)
    equal((record["status"], [t["passed"] for t in record["tests"]]), ("failed", [True, False]),
          str((record["error"], [t.get("error") for t in record["tests"]])))
    equal(record["tests"][1]["error"]["code"], record["error"]["code"], "of the test that was not called")
    return record["error"]["code"], record["error"]["message"]


def test_dies_between(g):
    """Its interpreter ends between two tests: it gets no other, and how it ended is told."""
    said = "the code ended its process before it returned"
    for _ in range(3):
        equal(end_between(g, "os.kill(os.getpid(), 9)"), ("CODE_ERROR", said + " (signal 9)"), "killed")
    equal(end_between(g, "os._exit(3)"), ("CODE_ERROR", said + " (status 3)"), "exited")
    code, message = end_between(g, "for fd in range(3, 4096):\n        try: os.write(fd, b'no report\\n')\n        except OSError: pass")
    check(code == "CODE_ERROR" and "broken the line" in message, code, message)
    if g.has_cgroups:
        equal(end_between(g, "x = []\n    while True: x.append(bytearray(b'x' * (1 << 20)))", limits={"memory": "96M"})[0],
              "SANDBOX_MEMORY_LIMIT", "greedy")


@only("root")
def test_limit_between(g):
    """A limit that ends its sandbox while one test is over and the next has not begun is told as any other."""
    code = ("import time\ndef main(n):\n    end = time.process_time() + 0.0005\n    while time.process_time() < end:\n        pass\n"
            "    return n\n")
    for _ in range(4):
        record = run(g, code, tests=[{"input": n, "expected": n} for n in range(1000)], limits={"cpu_time_ms": 300}, timeout_ms=60000)
        equal((record["status"], record["error"] and record["error"]["code"]), ("failed", "SANDBOX_CPU_LIMIT"), str(record["error"]))


def test_reload(g):
    """SIGHUP changes how many are at work at once."""
    path = g.path("config.json")
    def configure(count):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"max_runs": count}, file)
        os.chmod(path, 0o644)
    g.kill_berthd()
    configure(1)
    g.start("--config", path)
    records = [begin(g, ENDLESS) for _ in range(3)]
    await_output(g, records[0]["id"])
    equal((metric(g, "berth_runs_active"), metric(g, "berth_runs_waiting")), (1, 2), "one at a time")
    configure(3)
    g.berthd.send_signal(signal.SIGHUP)
    for record in records:
        await_output(g, record["id"])
    at_once(3, lambda i: g.request("DELETE", f"/v1/runs/{records[i]['id']}"))


def test_stop(g):
    """SIGTERM while some run: the next berthd finds them lost, or cancelled."""
    record = begin(g, ENDLESS)
    await_output(g, record["id"])
    connection = g.connect()
    connection.request("POST", "/v1/runs", json.dumps({"code": ENDLESS, "language": "python"}))
    other = until(lambda: [r for r in g.get("/v1/runs?status=running").json()["runs"] if r["id"] != record["id"]],
                  "the other")[0]
    g.berthd.terminate()
    until(lambda: "stopping signal" in g.log_text(), "the stop to begin")
    g.berthd.terminate()
    equal(g.berthd.wait(60), 0, "berthd's exit code")
    connection.close()
    g.start()
    equal(get(g, record["id"])["status"], "lost", "its record")
    check(get(g, other["id"])["status"] in ("lost", "cancelled"), "the other's record")
    until(lambda: not g.list_all(), "the sandboxes to go")


def test_many(g):
    """A hundred at once: all of them are right, and some had to wait."""
    before = g.state_of_things()
    records = at_once(MANY, lambda i: post(g, "def main(n):\n    return n * n\n", input=i, timeout_ms=60000).json())
    wrong = [r for i, r in enumerate(records) if r.get("result") != i * i]
    check(not wrong, len(wrong), wrong[:2])
    equal(metric(g, 'berth_runs_total{status="completed"}'), MANY, "counted")
    until(lambda: (metric(g, "berth_runs_active"), metric(g, "berth_runs_waiting")) == (0, 0), "all of them to go")
    g.check_same(before)


if __name__ == "__main__":
    main([test_async, test_not_over, test_cancel, test_client_goes, test_sandbox_deleted, test_key, test_key_later, test_key_anew,
          test_name_taken, test_name_kept, test_list, test_bounds,
          test_crash, test_crash_anywhere, test_keeper_dies, test_init_dies, test_dies_between, test_limit_between, test_reload, test_stop, test_many])
