"""Events of sandboxes, as a client reads them."""

import json
import queue
import threading
import urllib.parse

from ground import Failed, check, equal


def path_of(name=None, **query):
    path = f"/v1/sandbox/{name}/events" if name else "/v1/events"
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


class Follower(threading.Thread):
    """Reads as they come, to the end of the stream. Events are (id or None, name, data)."""

    def __init__(self, g, name=None, last=None, **query):
        super().__init__(daemon=True)
        self.connection = g.connect()
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        self.connection.request("GET", path_of(name, **query), None, headers)
        self.response = self.connection.getresponse()
        equal(self.response.status, 200, self.response.status)
        self.seen, self.queue, self.last = [], queue.Queue(), last
        self.start()

    def run(self):
        try:
            for event in parse(self.response):
                self.queue.put(event)
        except OSError:
            pass  # berthd was killed
        self.queue.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """A shutdown wakes the reader, which a close would not."""
        try:
            if self.connection.sock:
                self.connection.sock.shutdown(2)
            elif self.response.fp:
                self.response.fp.raw._sock.shutdown(2)  # pylint: disable=protected-access
        except (OSError, AttributeError):
            pass
        self.join()
        self.response.close()
        self.connection.close()

    def next(self, timeout=60):
        """None at the end."""
        try:
            event = self.queue.get(timeout=timeout)
        except queue.Empty as error:
            raise Failed(f"no event came; before: {self.seen[-5:]}") from error
        if event:
            self.seen.append(event)
            self.last = event[0] or self.last
        return event

    def until(self, name, sandbox=None):
        """All up to the first such one; its data."""
        while event := self.next():
            if event[1] == name and sandbox in (None, event[2].get("sandbox")):
                return event[2]
        raise Failed(f"the stream ended before {name}: {self.seen[-5:]}")

    def rest(self):
        while self.next():
            pass
        return self.seen


def parse(response):
    number, name, data = None, None, None
    while line := response.readline():
        line = line.rstrip(b"\r\n").decode()
        field, _, value = line.partition(": ")
        if field == "id":
            number = int(value)
        elif field == "event":
            name = value
        elif field == "data":
            data = json.loads(value)
        elif not line and name:
            equal(data["type"], name, data)
            check(name == "gap" or data["id"] == number, data)
            yield number, name, data
            number, name, data = None, None, None


def stored(g, name=None, last=None, **query):
    """What is kept, and no more than that."""
    with Follower(g, name, last, follow=0, **query) as follower:
        return follower.rest()


def names(events):
    return [name for _, name, _ in events]
