"""init, keeper, berthd, runtime killed at random: the true code or `lost`, and nothing orphaned.

BERTH_CHAOS_EXECS=2000 for the long run; BERTH_CHAOS_SEED to repeat one.
"""

import http.client
import os
import random
import signal
import threading
import time

from ground import Failed, at_once, check, comm_of, equal, main, pids, result_of, stat_of

EXECS = int(os.environ.get("BERTH_CHAOS_EXECS", "300"))
SEED = int(os.environ.get("BERTH_CHAOS_SEED", str(random.randrange(10**6))))
WORKERS, SANDBOXES = 6, 3
# What a client may see when the one it talks to dies, or says that it cannot now.
BROKEN = (ConnectionError, FileNotFoundError, http.client.HTTPException, TimeoutError, OSError)


class Chaos(threading.Thread):
    def __init__(self, g, rng):
        super().__init__(daemon=True)
        self.g, self.rng, self.over, self.kills, self.error = g, rng, threading.Event(), {}, None

    def run(self):
        try:
            while not self.over.wait(self.rng.uniform(0.02, 0.25)):
                self.strike(self.rng.choice(("init", "init", "keeper", "berthd", "runtime", "runtime")))
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def strike(self, whom):
        g = self.g
        if whom == "berthd":
            g.kill_berthd()
            g.start()
        elif whom == "keeper":
            pid = g.keeper()
            self.kill(pid)
        elif whom == "init":
            inits = g.inits()
            self.kill(self.rng.choice(inits) if inits else None)
        else:
            keeper = g.keeper()
            self.kill(next((p for p in pids() if (stat_of(p) or ("", 0))[1] == keeper
                            and comm_of(p) in ("crun", "runc", "runc:[1:CHILD]", "runc:[2:INIT]")), None))
        self.kills[whom] = self.kills.get(whom, 0) + 1

    @staticmethod
    def kill(pid):
        try:
            if pid:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def one(g, number):
    """Its code, "lost", or "no answer"; anything else is a failure."""
    code = number * 13 % 255 + 1  # never 0: a 0 would be an invention
    try:
        reply = g.request("POST", f"/v1/sandbox/c{number % SANDBOXES}/exec",
                          {"argv": ["sh", "-c", f"sleep 0.0{number % 6}; printf {number}; exit {code}"]},
                          Accept="application/json")
    except BROKEN:
        return "no answer"
    if reply.status != 200:
        check(reply.status in (409, 502, 503), reply)
        check(len(reply.json()["error"]) > 10, reply)
        return "refused"
    result = result_of(reply)
    if result.reason == "lost":
        equal(result.code, None, result)
        return "lost"
    if result.reason == "not_started":
        return "refused"
    equal((result.reason, result.code), ("exited", code), f"exec {number}: {result}")
    equal(result.stdout, str(number).encode(), f"exec {number}: {result}")
    return "exited"


def test_chaos(g):
    """Nothing is invented while everything is killed at random; afterwards nothing is orphaned."""
    rng = random.Random(SEED)
    print(f"# seed {SEED}")
    g.out("zero", ["true"])
    g.request("DELETE", "/v1/sandbox/zero")
    before = g.state_of_things()
    chaos = Chaos(g, rng)
    chaos.start()

    def worker(number):
        counts = {}
        for i in range(number, EXECS, WORKERS):
            how = one(g, i)
            counts[how] = counts.get(how, 0) + 1
            if how in ("no answer", "refused"):
                time.sleep(0.02)
        return counts
    try:
        all_counts = at_once(WORKERS, worker)
    finally:
        chaos.over.set()
        chaos.join()
    if chaos.error:
        raise Failed(f"chaos itself failed: {chaos.error!r}")
    total = {}
    for counts in all_counts:
        for how, count in counts.items():
            total[how] = total.get(how, 0) + count
    print(f"# {total}, kills {chaos.kills}")
    check(total.get("exited", 0) > EXECS // 20, "hardly anything ran:", total)
    for i in range(SANDBOXES):
        equal(g.request("POST", f"/v1/sandbox/c{i}/start").status, 200, "start again")
        equal(g.exec(f"c{i}", "exit 9").code, 9, "afterwards")
        equal(g.request("DELETE", f"/v1/sandbox/c{i}").status, 204, "delete")
    g.check_same(before)


main([test_chaos])
