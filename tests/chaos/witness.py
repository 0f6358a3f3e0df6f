"""Somebody who follows all events while everything is killed, and goes on by the number of the last."""

import threading

from event_api import Follower, stored
from ground import Failed, check, equal, until
from load import BROKEN

KEPT, KEPT_OF_ONE = 10000, 500


class Witness(threading.Thread):
    """`error`: what it found wrong, if it did. `seen`: {number: event}."""

    def __init__(self, g):
        super().__init__(daemon=True)
        self.g, self.seen, self.last, self.error = g, {}, 0, None
        self.over = threading.Event()

    def run(self):
        while not self.over.is_set() and not self.error:
            try:
                with Follower(self.g, last=self.last, follow=1) as follower:
                    self.read(follower)
            except BROKEN:
                pass  # berthd is not there
            except Failed as error:
                self.error = error

    def read(self, follower):
        while not self.over.is_set():
            try:
                event = follower.next(timeout=0.2)
            except Failed:
                continue  # nothing has happened
            if not event:
                return
            number, name, data = event
            if name == "live":
                continue  # all that was kept has been told
            check(name != "gap", "what it has not seen is not kept any more:", data)
            check(number > self.last, "told twice, or out of order:", event, "after", self.last)
            self.seen[number], self.last = (name, data), number

    def close(self):
        self.over.set()
        self.join()

    def check(self):
        """What was told is kept, and what is kept was told; how many that are."""
        kept = {number: (name, data) for number, name, data in stored(self.g)}
        until(lambda: self.error or self.last >= max(kept), "the last events")
        self.close()
        if self.error:
            raise self.error
        for number, event in kept.items():
            equal(self.seen.get(number), event, f"event {number}")
        # Of each sandbox at least its newest, and of these again.
        told = {}
        before = [number for number in sorted(self.seen, reverse=True) if number <= max(kept)]
        for number in before[:KEPT]:
            of_one = told.setdefault(self.seen[number][1]["sandbox"], [])
            of_one.append(number)
            check(number in kept or len(of_one) > KEPT_OF_ONE, f"event {number} is lost:", self.seen[number])
        return len(self.seen)
