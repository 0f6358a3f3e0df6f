"""Kills berthd, its keeper, inits and the runtime by SIGKILL, again and again, in an order that a seed gives."""

import os
import random
import signal
import threading
import time

from ground import comm_of, is_alive, until

# How often each is chosen. "keepers" is the keeper with its monitor, and berthd, who starts them again.
WEIGHTS = {"init": 9, "runtime": 8, "berthd": 4, "keeper": 5, "keepers": 1}
PAUSE = 0.02, 0.2  # seconds between two kills
KILLS_PER_RUN = 3  # at most, for each command that has run to its end
HUNT = 0.5  # seconds to wait for a runtime, which lives for some milliseconds


class Killer(threading.Thread):
    """Counts only those that it hit. `error`: why it gave up, if it did. `ran` tells how many commands have run to
    their end: on a busy machine it is their pace that counts, as nothing is proven by kills of what never comes up."""

    def __init__(self, g, rng, wanted, ran):
        super().__init__(daemon=True)
        self.g, self.rng, self.wanted = g, random.Random(rng.random()), wanted
        self.kills, self.error, self.ran = dict.fromkeys(WEIGHTS, 0), None, ran

    @property
    def done(self):
        return sum(self.kills.values())

    def run(self):
        try:
            while self.done < self.wanted:
                time.sleep(self.rng.uniform(*PAUSE))
                until(lambda: self.done >= self.wanted or self.ran() * KILLS_PER_RUN >= self.done,
                      "a command to run to its end")
                whom = self.rng.choices(list(WEIGHTS), WEIGHTS.values())[0]
                self.kills[whom] += getattr(self, "kill_" + whom)()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def kill_berthd(self):
        self.g.kill_berthd()
        self.g.start()
        return True

    def kill_keepers(self):
        self.g.kill_keeper_and_monitor()
        return self.kill_berthd()

    def kill_keeper(self):
        return kill(self.g.keeper(), ("berth-keeper",))

    def kill_init(self):
        inits = self.g.inits()
        return bool(inits) and kill(self.rng.choice(inits), ("init", "berth-init"))

    def kill_runtime(self):
        """The one that the keeper waits for, or what that has forked."""
        end, keeper = time.monotonic() + HUNT, self.g.keeper()
        while keeper and time.monotonic() < end:
            found = [p for child in children(keeper) for p in (child, *children(child)) if is_runtime(p)]
            if found and kill(self.rng.choice(found), None):
                return True
            time.sleep(0.001)
        return False


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def is_runtime(pid):
    return comm_of(pid).startswith(("crun", "runc"))


def kill(pid, names):
    """True if it hit: the pid is looked at again once it cannot become another's. `names`: None for a runtime."""
    try:
        handle = os.pidfd_open(pid) if pid else None
    except ProcessLookupError:
        return False
    if handle is None:
        return False
    try:
        if not (comm_of(pid) in names if names else is_runtime(pid)) or not is_alive(pid):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
