"""Clients that use sandboxes in all ways at once, and check each answer against what was announced."""

import datetime
import http.client
import random
import threading
import time

from ground import Failed, Refused, Result, body_of, check, equal, result_of
from ledger import ASLEEP, Box, Process, digest, judge_code, judge_end, judge_run

# What a client may see when the one it talks to dies.
BROKEN = (http.client.HTTPException, OSError)
NOT_NOW = (409, 502, 503)
CODES = 120  # 1 to that: neither success nor anything that a signal, a shell or a timeout would give
OWN, FILES, ALARMS, RECORDS, ENDLESS = 2, 4, 16, 20, "1000"
# What a client does, and how often.
SHARED = {"exec": 30, "events": 8, "session": 8, "code": 6, "run": 2, "put": 8, "get": 6, "sleep": 4, "wake": 1}
PRIVATE = {"exec": 8, "events": 2, "session": 5, "code": 5, "run": 2, "record": 3, "put": 8, "get": 8, "remove": 2,
           "process": 10, "look": 8, "end": 3, "alarm": 3, "sleep": 6, "wake": 2, "change": 5, "show": 4, "delete": 3}
ABSENT = {"change": 3, "exec": 2, "show": 1}


class Client(threading.Thread):
    """`error`: what it found wrong, if it did; it asks no more then."""

    def __init__(self, g, number, shared, run):
        super().__init__(daemon=True)
        self.g, self.number, self.run_id = g, number, run.name
        self.rng, self.over = random.Random(f"{run.seed} {number}"), run.over
        self.shared, self.own = shared, [Box(f"c{number}-{i}", False) for i in range(OWN)]
        self.counts, self.serial, self.generations, self.error = {}, 0, {}, None
        self.records = []  # of runs, with their keys: (key, a number, the record)

    def run(self):
        try:
            while not self.over.is_set():
                self.step()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def step(self):
        box = self.rng.choice(self.shared if self.rng.random() < 0.4 else self.own)
        ways = SHARED if box.is_shared else PRIVATE if box.exists else ABSENT
        what = self.rng.choices(list(ways), ways.values())[0]
        how = getattr(self, "do_" + what)(box)
        if not box.exists and what != "delete" and how != "missing":
            self.settle(box)

    # --- one request ---

    def next(self):
        self.serial += 1
        return self.number * 1_000_000 + self.serial

    def count(self, what, how):
        self.counts[what, how] = self.counts.get((what, how), 0) + 1
        return how

    def ask(self, what, box, method, rest="", body=None, **headers):
        """The reply; None if there was none, or it says why it cannot now."""
        try:
            reply = self.g.request(method, f"/v1/sandbox/{box.name}{rest}", body, **headers)
        except TimeoutError as error:
            raise Failed(f"{method} {box.name}{rest} is never answered") from error
        except BROKEN:
            return self.fail(what, "no answer")
        if "berth-generation" in reply.headers:
            check(reply.generation >= self.generations.get(box, 0), "the generation goes back:", reply.generation, reply)
            self.generations[box] = reply.generation
        if reply.status in NOT_NOW:
            check(len(reply.json()["error"]) > 10, reply)
            return self.fail(what, f"refused {reply.status}")
        return reply

    def fail(self, what, how):
        self.count(what, how)
        time.sleep(0.02)

    def insist(self, what, box, method, *rest):
        """Asks until there is an answer."""
        while not (reply := self.ask(what, box, method, *rest)):
            pass
        return reply

    def settle(self, box):
        """Whether something that failed has made it."""
        box.exists = self.insist("show", box, "GET").status == 200

    # --- commands ---

    def command(self):
        """(a command for sh, its code, what it prints)"""
        number = self.next()
        code = number * 13 % CODES + 1
        return f"sleep 0.0{number % 6}; printf {number}; (exit {code})", code, str(number).encode()

    def judge(self, what, box, result, expected, begun):
        code, text = expected
        judge_end(result.facts, code, box.was_stopped_since(begun))
        if result.reason == "exited":
            equal(result.stdout, text, f"the output: {result}")
        box.exists = True
        return self.count(what, result.reason)

    def do_exec(self, box, what="exec", **headers):
        text, *expected = self.command()
        begun = time.monotonic()
        reply = self.ask(what, box, "POST", "/exec", body_of(text, {}), Accept="application/json", **headers)
        if not reply:
            return None
        equal(reply.status, 200, reply)
        return self.judge(what, box, result_of(reply), expected, begun)

    def do_events(self, box):
        text, *expected = self.command()
        begun = time.monotonic()
        try:
            with self.g.events(box.name, text) as events:
                end = end_of(events)
        except Refused as error:
            check(error.status in NOT_NOW, error)
            return self.fail("events", f"refused {error.status}")
        except TimeoutError as error:
            raise Failed(f"the events of {text} in {box.name} do not end") from error
        except BROKEN:
            end = None
        if not end or end[0] == "error":
            return self.fail("events", "error" if end else "no answer")
        return self.judge("events", box, end[1], expected, begun)

    def do_session(self, box):
        name = f"s{self.number}"
        if name not in box.sessions:
            reply = self.ask("make session", box, "POST", "/session", {"id": name})
            if not reply:
                return None
            equal(reply.status, 200, reply)
            box.sessions.add(name)
            self.count("make session", "done")
        return self.do_exec(box, "session", Session_Id=name)

    # --- code ---

    def do_code(self, box):
        number, begun = self.next(), time.monotonic()
        reply = self.ask("code", box, "POST", "/code", {"language": "bash", "code": f"sleep 0.0{number % 6}; printf {number}"},
                         Accept="application/json")
        if not reply:
            return None
        equal(reply.status, 200, reply)
        box.exists = True
        return self.count("code", judge_code(reply.json(), str(number), box.was_stopped_since(begun)))

    def post_run(self, key, number):
        try:
            reply = self.g.request("POST", "/v1/runs", {"language": "python", "code": f"{number} * 7"}, Idempotency_Key=key)
        except TimeoutError as error:
            raise Failed(f"the run of {key} is never answered") from error
        except BROKEN:
            return self.fail("run", "no answer")
        return reply if reply.status not in NOT_NOW else self.fail("run", f"refused {reply.status}")

    def do_run(self, _):
        """With a key, by which it is asked for until its end is told."""
        number = self.next()
        key = f"{self.run_id}-{number}"
        while not (reply := self.post_run(key, number)):
            pass
        equal(reply.status, 200, reply)
        record = reply.json()
        how = judge_run(record, number * 7)
        self.records = [*self.records[1 - RECORDS:], (key, number, record)]
        return self.count("run", how)

    def do_record(self, box, known=None):
        """An end that was told is told again, also to who comes with its key."""
        if not self.records:
            return None
        key, number, record = known or self.rng.choice(self.records)
        try:
            reply = self.g.get(f"/v1/runs/{record['id']}")
        except BROKEN:
            return self.fail("record", "no answer")
        equal((reply.status, reply.json()), (200, record), "a record")
        again = self.post_run(key, number)
        check(not again or again.json() == record, "a run of the same key:", again, record)
        return self.count("record", "the same")

    # --- files ---

    def path(self):
        return f"/workspace/{self.number}/f{self.rng.randrange(FILES)}"

    def do_put(self, box):
        path = self.path()
        content = self.rng.randbytes(self.rng.choice((0, 10, 5000, 70_000, 1_000_000)))
        reply = self.ask("put", box, "PUT", "/file" + path, content)
        check(not reply or reply.status in (200, 201), reply)
        box.admit(path, digest(content), reply)
        return reply and self.count("put", "done")

    def do_get(self, box):
        path = self.path()
        reply = self.ask("get", box, "GET", "/file" + path)
        return reply and self.count("get", box.judge_file(path, reply))

    def do_remove(self, box):
        path = self.path()
        reply = self.ask("remove", box, "DELETE", "/file" + path)
        check(not reply or reply.status == 204 or None in box.files.get(path, {None}), path, "is lost:", reply)
        box.admit(path, None, reply)
        return reply and self.count("remove", "done")

    # --- background processes ---

    def do_process(self, box):
        number = self.next()
        seconds, code = self.rng.choice(("0.05", "0.2", "0.5", ENDLESS)), number * 13 % CODES + 1
        process = Process(f"p{number}", None if seconds == ENDLESS else code, f"{self.run_id}-{number}")
        box.processes[process.name] = process
        reply = self.ask("process", box, "POST", "/processes",
                         {"id": process.name, "argv": ["sh", "-c", f"sleep {seconds}; exit {code}", process.marker]})
        if not reply:
            return None
        equal((reply.status, reply.json()["state"]), (200, "running"), reply)
        process.is_announced = True
        return self.count("process", "running")

    def do_look(self, box, what="look", method="GET", process=None):
        if not box.processes:
            return None
        process = process or box.processes[self.rng.choice(list(box.processes))]
        reply = self.ask(what, box, method, f"/processes/{process.name}")
        if not reply:
            return None
        if reply.status == 404:
            check(not process.is_announced, process.name, "of", box.name, "is lost:", reply)
            return self.count(what, "missing")
        equal(reply.status, 200, reply)
        may_stop = not self.g.is_root or box.was_stopped_since(process.begun)
        return self.count(what, process.judge(reply.json(), may_stop))

    def do_end(self, box):
        if not box.processes:
            return None
        process = box.processes[self.rng.choice(list(box.processes))]
        process.end_wanted = True
        return self.do_look(box, "end", "DELETE", process)

    # --- alarms ---

    def do_alarm(self, box):
        """It may wake the sandbox whenever it likes from now on."""
        if len(box.alarms) == ALARMS:
            return None
        number = self.next()
        name, code = f"a{number}", number * 13 % CODES + 1
        box.alarms[name] = code, False
        due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.rng.uniform(0, 1))
        reply = self.ask("alarm", box, "PUT", f"/alarm/{name}",
                         {"argv": ["sh", "-c", f"echo {name} >>/workspace/alarms; exit {code}"],
                          "at": due.isoformat(timespec="milliseconds").replace("+00:00", "Z")})
        if not reply:
            return None
        equal(reply.status, 200, reply)
        box.alarms[name] = code, True
        return self.count("alarm", "done")

    # --- sleep, settings, life ---

    def do_sleep(self, box):
        mode = self.rng.choice(("freeze", "stop", None) if self.g.is_root else ("stop", None))
        stop = box.begin_stop() if mode == "stop" or not self.g.is_root else None
        reply = self.ask("sleep", box, "POST", "/sleep", {"mode": mode} if mode else None)
        if stop:
            box.end_stop(stop, reply)
        if not reply:
            return None
        equal(reply.status, 200, reply)
        check(mode != "stop" or reply.json()["mode"] == "stop", "it was to be stopped:", reply)  # a cold one is not frozen
        if not box.is_shared and not box.alarms:
            shown = self.ask("show", box, "GET")
            check(not shown or box.judge(shown) in ASLEEP, f"{box.name} does not sleep:", shown)
        return self.count("sleep", reply.json()["mode"])

    def do_wake(self, box):
        reply = self.ask("wake", box, "POST", "/wake")
        check(not reply or reply.status == 200, reply)
        return reply and self.count("wake", "done")

    def do_change(self, box):
        sleep_after = self.rng.choice(("150ms", "400ms", "10m"))
        value = f"{self.next()}-{sleep_after}"
        reply = self.ask("change", box, "PUT", "", {"labels": {"v": value}, "sleep_after": sleep_after})
        if not reply:
            box.labels.add(value)
            return None
        equal(reply.status, 200, reply)
        box.exists, box.labels = True, {value}
        return self.count("change", "done")

    def do_show(self, box):
        reply = self.ask("show", box, "GET")
        return reply and self.count("show", box.judge(reply))

    def do_delete(self, box):
        stop = box.begin_stop()
        equal(self.insist("delete", box, "DELETE").status, 204, "delete")
        box.end_stop(stop, True)
        box.forget()
        self.generations.pop(box, None)
        self.do_show(box)
        return self.count("delete", "done")


def end_of(events):
    """(name, what it says or a Result) of the one end that there is; None if the events just stop."""
    end, output = None, []
    for name, data in events:
        check(not end, f"{name} came after the end")
        if name in ("exit", "error"):
            end = name, data
        elif name == "stdout":
            output.append(data)
    return ("exit", Result(end[1], b"".join(output), b"")) if end and end[0] == "exit" else end
