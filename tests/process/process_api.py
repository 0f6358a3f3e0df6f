"""Background processes by the API, and what their logs say."""

import base64
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "sandbox"))

# pylint: disable=wrong-import-position
from ground import Failed, check, equal, until  # noqa: E402


def start(g, name, what, **options):
    """Its status once it runs. `what`: argv, or a command for sh."""
    key = "command" if isinstance(what, str) else "argv"
    reply = g.request("POST", f"/v1/sandbox/{name}/processes", {key: what, **options})
    if reply.status != 200:
        raise Failed(f"start answered {reply}")
    status = reply.json()
    equal(status["state"], "running", status)
    check(status["pid"] > 1, status)
    return status


def show(g, name, process):
    reply = g.get(f"/v1/sandbox/{name}/processes/{process}")
    equal(reply.status, 200, reply)
    return reply.json()


def refuse(g, method, target, status, code, body=None, **headers):
    reply = g.request(method, target, body, **headers)
    equal((reply.status, reply.json()["code"]), (status, code), reply)
    check(len(reply.json()["error"]) > 5, reply)
    return reply.json()


def wait(g, name, process, what="exit", status=200, **options):
    reply = g.request("POST", f"/v1/sandbox/{name}/processes/{process}/wait",
                      {"for": what, "timeout_ms": 120000, **options})
    equal(reply.status, status, f"waiting for {what}: {reply}")
    return reply.json()


def ended(g, name, process):
    """How it ended."""
    return wait(g, name, process)["process"]


def raw(g, name, process, query=""):
    reply = g.get(f"/v1/sandbox/{name}/processes/{process}/logs{query}", Accept="application/octet-stream")
    equal((reply.status, reply.headers["content-type"]), (200, "application/octet-stream"), reply)
    return reply.body


class Log:
    """Its events, one by one; the answer has begun when this returns."""

    def __init__(self, g, name, process, query="", **headers):
        self.connection = g.connect()
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        self.connection.request("GET", f"/v1/sandbox/{name}/processes/{process}/logs{query}", headers=headers)
        self.response = self.connection.getresponse()
        if self.response.status != 200:
            body = self.response.read()
            self.connection.close()
            raise Failed(f"logs answered {self.response.status}: {body!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def __iter__(self):
        fields = {}
        while line := self.response.readline():
            line = line.rstrip(b"\r\n").decode()
            if line and not line.startswith(":"):
                key, _, value = line.partition(":")
                fields[key] = value.strip()
            elif "data" in fields:
                data = json.loads(fields["data"])
                equal(fields["id"], data["cursor"], "the event's id")
                if fields["event"] in ("stdout", "stderr"):
                    equal(data["type"], fields["event"], "the type")
                    data["data"] = base64.b64decode(data["data"], validate=True)
                yield fields["event"], data
                fields = {}


class Output:
    """A log that was read to its end: the streams, the gaps, the exit; cursors were checked."""

    def __init__(self, events, since=0):
        self.stdout = self.stderr = self.both = b""
        self.gap, self.exit, self.cursor, self.events = 0, None, since, []
        for name, data in events:
            check(self.exit is None, f"{name} came after the end")
            self.events.append((name, data))
            if name == "exit":
                self.exit = data
            elif name == "truncated":
                self.gap += data["bytes"]
            else:
                setattr(self, name, getattr(self, name) + data["data"])
                self.both += data["data"]
            check(int(data["cursor"]) >= self.cursor, "the cursor goes back", data)
            self.cursor = int(data["cursor"])


def read(g, name, process, query="", since=0, **headers):
    with Log(g, name, process, query, **headers) as log:
        return Output(log, since)


def await_output(g, name, process, size):
    """Until so many bytes were printed."""
    until(lambda: int(show(g, name, process)["log"]["end"]) >= size, f"{size} bytes of output")


def logs_of(g, name):
    """What is on disk of its processes' output: paths."""
    top = os.path.join(g.state, "berthd", "logs")
    found = [os.path.join(folder, f) for folder, _, files in os.walk(top) for f in files]
    return [f for f in found if f"/{name}/" in f or "/.gone-" in f]
