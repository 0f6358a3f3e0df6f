"""Everything is killed at random under a mixed load; then what was announced is compared with what is there."""

import os
import random
import threading
import time

from ground import Failed, check, equal, pids, until
from killer import Killer
from ledger import Box
from load import Client
from witness import Witness

CLIENTS, SHARED = 6, 2


class Run:
    """One of them: `figures` holds what it did once it is over."""

    def __init__(self, g, kills, seed, say):
        self.g, self.wanted, self.seed, self.say = g, kills, seed, say
        self.name, self.over = f"chaos-{os.getpid()}-{seed}", threading.Event()
        self.shared = [Box(f"shared-{i}", True) for i in range(SHARED)]
        self.clients, self.killer, self.figures = [], None, {}
        self.witness = Witness(g)

    def boxes(self):
        return self.shared + [box for client in self.clients for box in client.own]

    def begin(self):
        """What shares a sandbox finds it there: nobody deletes it."""
        for box in self.shared:
            equal(self.g.request("PUT", f"/v1/sandbox/{box.name}", {"sleep_after": "150ms"}).status, 200, "create")
            box.exists = True
        self.clients = [Client(self.g, i, self.shared, self) for i in range(CLIENTS)]
        self.killer = Killer(self.g, random.Random(self.seed), self.wanted, self.commands_run)
        for thread in (self.witness, *self.clients, self.killer):
            thread.start()

    def kill_and_load(self):
        self.begin()
        try:
            said = 0
            while self.killer.is_alive() and not self.wrong():
                self.killer.join(0.2)
                if self.killer.done >= said + max(20, self.wanted // 20):
                    said = self.killer.done
                    self.say(f"{said} of {self.wanted} kills, {self.requests()} requests")
        finally:
            self.killer.wanted = 0
            self.killer.join()
            self.over.set()
        self.join_clients()
        if wrong := self.wrong():
            raise wrong[0]

    def join_clients(self):
        """A command that was frozen goes on when somebody wakes it, and nobody else may be left to do so."""
        while (alive := [client for client in self.clients if client.is_alive()]) and not self.wrong():
            for box in self.shared:
                self.g.request("POST", f"/v1/sandbox/{box.name}/wake")
            alive[0].join(0.2)

    def wrong(self):
        return [thread.error for thread in (self.killer, self.witness, *self.clients) if thread.error]

    def requests(self):
        return sum(sum(list(client.counts.values())) for client in self.clients)

    def commands_run(self):
        return sum(client.counts.get(("exec", "exited"), 0) for client in self.clients)

    # --- afterwards ---

    def marked(self):
        """Words by which our background processes are known, of those that live."""
        found = set()
        for pid in pids():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    found |= {word for word in file.read().decode(errors="replace").split("\0")
                              if word.startswith(self.name + "-")}
            except OSError:
                pass
        return found

    def check_processes(self):
        """Told running: it lives. Told ended: it does not."""
        owners = {process: (client, box) for client in self.clients for box in client.own
                  for process in box.processes.values()}

        def look(process):
            client, box = owners[process]
            return client.do_look(box, process=process)

        def told():
            return {process: look(process) for process in owners}

        before, lives, after = told(), self.marked(), told()
        for process, how in after.items():
            if how == "running" and process.marker not in lives:  # its sandbox may end at this moment, by its settings
                until(lambda process=process: look(process) != "running" or process.marker in self.marked(),
                      f"{process.name} to run, as it is said to")
            if before[process] not in ("running", None):
                check(process.marker not in lives, process.name, "runs, and is said to be", before[process])

    def check_alarms(self):
        """Each runs at least once. One that failed is tried again later, but by another berthd at once."""
        self.g.kill_berthd()
        self.g.start()
        for client in self.clients:
            for box in client.own:
                for name in box.alarms:
                    self.check_alarm(client, box, name)

    def check_alarm(self, client, box, name):
        def look():
            reply = client.ask("alarm", box, "GET", f"/alarm/{name}")
            return reply if reply and box.judge_alarm(name, reply) else None
        reply = until(look, f"alarm {name} of {box.name} to have run")
        if reply.status == 200 and reply.json()["last_run"]["reason"] == "exited":
            check(name in self.g.out(box.name, "cat alarms").split(), f"{box.name}: alarm {name} has not run")

    def check_facts(self):
        """Each of them once more, now that nothing is killed."""
        for client in self.clients:
            client.counts = {}
            for known in client.records:
                client.do_record(None, known)
            for box in client.own:
                client.do_show(box)
            for box in (*client.own, *self.shared):
                for path in [p for p in box.files if box.exists and p.startswith(f"/workspace/{client.number}/")]:
                    client.count("file", box.judge_file(path, client.ask("file", box, "GET", "/file" + path)))
                if box.sessions:
                    shown = client.ask("sessions", box, "GET", "/session").json()["sessions"]
                    lost = box.sessions - {s["id"] for s in shown}
                    check(not lost, f"{box.name}: sessions are lost:", lost)
            check(not [how for _, how in client.counts if how.startswith(("refused", "no answer"))], client.counts)

    def end(self):
        for box in self.boxes():
            equal(self.g.request("POST", f"/v1/sandbox/{box.name}/start").status, 200, "start again")
            equal(self.g.exec(box.name, "exit 9").code, 9, "afterwards")
            equal(self.g.request("DELETE", f"/v1/sandbox/{box.name}").status, 204, "delete")

    def sum_up(self, seconds):
        answers = {}
        for client in self.clients:
            for (what, how), count in client.counts.items():
                by = answers.setdefault(what, {})
                by[how] = by.get(how, 0) + count
        self.figures = {"seconds": round(seconds, 1), "kills": self.killer.kills, "requests": self.requests(),
                        "answers": answers}


def go(it, begun):
    it.kill_and_load()
    it.sum_up(time.monotonic() - begun)
    for what, how in sorted(it.figures["answers"].items()):
        it.say(f"{what:12} " + ", ".join(f"{name} {count}" for name, count in sorted(how.items())))
    ran = it.figures["answers"]["exec"].get("exited", 0)
    check(ran > it.killer.done / 4, "hardly anything ran:", it.figures)
    it.check_processes()
    it.check_alarms()
    it.check_facts()
    it.figures["events"] = it.witness.check()
    it.end()


def run(g, kills, seed, say):
    """Raises what it finds wrong; the figures if that is nothing."""
    equal(g.request("POST", "/v1/sandbox/zero/start").status, 200, "start")
    g.request("DELETE", "/v1/sandbox/zero")
    before, begun = g.state_of_things(), time.monotonic()
    it = Run(g, kills, seed, say)
    try:
        go(it, begun)
    finally:
        it.witness.close()
    try:
        g.check_same(before)
    except Failed as error:
        raise Failed(f"orphans: {error}") from error
    return it.figures
