"""Ports of sandboxes by the API, and their previews as a visitor sees them."""

import http.client
import os
import re
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import TIMEOUT, Reply, check, equal  # noqa: E402
from process_api import start, wait  # noqa: E402


def start_preview(g, *flags):
    """A berthd that serves previews; g.preview is their port."""
    g.berthd, line = g.spawn_berthd("--preview", "127.0.0.1:0", *flags)
    port = re.search(r" preview=127\.0\.0\.1:(\d+)\b", line)
    check(line.startswith("ready") and port, "berthd's first line:", line)
    g.monitors.add(g.monitor_pid())
    g.preview = int(port[1])


def expose(g, name, port, **body):
    reply = g.request("PUT", f"/v1/sandbox/{name}/port/{port}", body)
    equal(reply.status, 200, reply)
    return reply.json()


def serve(g, name="a", port=8000, address="127.0.0.1", **options):
    """inside.py in that sandbox, listening; what exposing its port answers."""
    with open(os.path.join(HERE, "inside.py"), "rb") as file:
        reply = g.request("PUT", f"/v1/sandbox/{name}/file/workspace/inside.py", file.read())
    check(reply.status in (200, 201, 204), reply)
    start(g, name, ["python3", "-u", "/workspace/inside.py", str(port), address], id=f"server{port}", **options)
    wait(g, name, f"server{port}", "port", port=port)
    return expose(g, name, port)


def connect(g, timeout=TIMEOUT):
    return socket.create_connection(("127.0.0.1", g.preview), timeout)


class Visitor(http.client.HTTPConnection):
    """A client of one preview; the name is not looked up, as *.localhost is in any browser."""

    def __init__(self, g, exposed, timeout=TIMEOUT):
        super().__init__("127.0.0.1", g.preview, timeout=timeout)
        self.name = f"{exposed['hostname']}:{g.preview}" if isinstance(exposed, dict) else exposed

    def ask(self, method, target, body=None, chunked=False, **headers):
        names = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        self.request(method, target, body, {"Host": self.name, **names}, encode_chunked=chunked)
        response = self.getresponse()
        return response

    def fetch(self, method, target, body=None, **headers):
        response = self.ask(method, target, body, **headers)
        return Reply(response.status, response.getheaders(), response.read())


def visit(g, exposed, target="/hello", method="GET", body=None, **headers):
    visitor = Visitor(g, exposed)
    try:
        return visitor.fetch(method, target, body, **headers)
    finally:
        visitor.close()
