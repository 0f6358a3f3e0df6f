"""What was announced of each sandbox, and whether what is told later agrees with it.

A request that got no answer, or a refusal, may have been done or not: then more than one thing is admissible.
"""

import hashlib
import threading
import time

from ground import Failed, check, equal

AFTERMATH = 5  # seconds in which a stop may still go on whose answer nobody got
STOPPING = (1, 9, 15)  # signals by which all in a sandbox is ended
ASLEEP = ("frozen", "stopping", "cold", "failed")


def digest(content):
    return hashlib.sha256(content).hexdigest()


class Process:
    """One that was started in the background; `code` is how it ends by itself, None if it does not."""

    def __init__(self, name, code, marker):
        self.name, self.code, self.marker = name, code, marker
        self.begun, self.is_announced, self.end_wanted, self.told = time.monotonic(), False, False, None

    def judge(self, status, may_stop):
        """`may_stop`: something may have ended it on purpose. How it is."""
        if status["state"] == "running":
            check(self.told is None, "it runs again, after", self.told, status)
            return "running"
        told = status["reason"], status["exit_code"]
        check(self.told in (None, told), "it ended in another way before:", self.told, status)
        self.told = told
        judge_end(status, self.code, may_stop or self.end_wanted)
        return told[0]


def judge_end(facts, code, may_be_killed):
    """Raises if it is an invention."""
    reason = facts["reason"]
    if reason == "exited":
        equal(facts["exit_code"], code, f"an invented code: {facts}")
    elif reason == "lost":
        equal(facts["exit_code"], None, f"a code of what is lost: {facts}")
    elif reason == "not_started":
        check(facts["exit_code"] in (126, 127) and facts["message"], facts)
    elif reason == "killed" or facts.get("signal") in STOPPING:  # a berthd that came later does not know for what
        check(may_be_killed, "nobody wanted to kill it:", facts)
        equal(facts["exit_code"], 128 + facts.get("signal", 9), facts)
    else:
        raise Failed(f"it cannot have ended so: {facts}")


def judge_code(end, printed, may_be_killed):
    """What is told of a piece of code."""
    reason = end["reason"]
    if reason == "completed" and end["error"] and end["error"].get("exit_code", 0) - 128 in STOPPING:
        check(may_be_killed, "nobody wanted to signal it:", end)
    elif reason == "completed":
        equal((end["stdout"], end["error"]), (printed, None), f"what the code did: {end}")
    elif reason == "killed" or end.get("signal") in STOPPING:
        check(may_be_killed, "nobody wanted to kill it:", end)
    else:
        equal((reason, end["replaced"]), ("lost", True), end)
    return reason


def judge_run(record, result):
    """Nothing of ours fails as the code's own mistake."""
    status, error = record["status"], record["error"]
    if status == "completed":
        equal((record["result"], error), (result, None), record)
    else:
        check(status in ("lost", "failed") and record["result"] is None, record)
        check(error["code"] in ("lost", "start_failed"), record)
    return status


class Box:
    """A sandbox. Who is not shared belongs to one client, which alone asks for it."""

    def __init__(self, name, is_shared):
        self.name, self.is_shared, self.exists = name, is_shared, False
        self.lock, self.stops = threading.Lock(), []
        self.forget()

    def forget(self):
        """There is none."""
        self.exists = False
        self.files = {}  # by path: digests of what it may hold; None: it may be missing
        self.labels = {None}
        self.sessions, self.processes = set(), {}
        self.alarms = {}  # by name: (its command's code, whether it was announced)

    # --- ends on purpose ---

    def begin_stop(self):
        with self.lock:
            self.stops.append([time.monotonic(), None])
            return self.stops[-1]

    def end_stop(self, stop, is_answered):
        with self.lock:
            stop[1] = time.monotonic() + (0 if is_answered else AFTERMATH)

    def was_stopped_since(self, begun):
        with self.lock:
            return any(stop[1] is None or stop[1] >= begun for stop in self.stops)

    # --- files ---

    def admit(self, path, what, is_answered):
        """A write of a digest, or with None a removal."""
        if is_answered:
            self.files[path] = {what}
        else:
            self.files[path] = self.files.get(path, {None}) | {what}

    def judge_file(self, path, reply):
        known = self.files.get(path, {None})
        if reply.status == 404:
            check(None in known, f"{self.name}: {path} is lost:", reply)
            return "missing"
        equal(reply.status, 200, reply)
        check(digest(reply.body) in known, f"{self.name}: {path} holds {len(reply.body)} bytes that nobody wrote")
        return "read"

    # --- alarms ---

    def judge_alarm(self, name, reply):
        """Whether it is over: it has run, and its end is known."""
        code, is_announced = self.alarms[name]
        if not is_announced and reply.status == 404:
            return True
        equal(reply.status, 200, f"{self.name}: alarm {name} is lost: {reply}")
        last = reply.json()["last_run"]
        if last and last["reason"] in ("exited", "lost"):
            equal(last["exit_code"], code if last["reason"] == "exited" else None, f"an invented code: {last}")
        return bool(last and last["ended_at"] and reply.json()["next_at"] is None)

    # --- the whole ---

    def judge(self, reply):
        """What GET says of it."""
        if reply.status == 404:
            check(not self.exists, f"{self.name} is lost:", reply)
            return "missing"
        equal(reply.status, 200, reply)
        check(self.exists, f"{self.name} was deleted:", reply)
        shown = reply.json()
        label = shown["labels"].get("v")
        check(label in self.labels, f"{self.name}: settings are lost:", label, self.labels)
        check(not label or label.endswith("-" + shown["sleep_after"]), "settings of two requests:", shown)
        return shown["state"]
