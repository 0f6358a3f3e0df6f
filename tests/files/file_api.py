"""The file routes as a client sees them; the ground is the sandbox suites' own."""

import os
import sys
import urllib.parse

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))

# pylint: disable=wrong-import-position
import ground  # noqa: E402,F401
from ground import check, equal, main, Peak, until  # noqa: E402,F401

MB = 1 << 20


def target(kind, path, name="a", **query):
    """`path` is absolute; text or bytes."""
    raw = path if isinstance(path, bytes) else path.encode()
    text = f"/v1/sandbox/{name}/{kind}/" + urllib.parse.quote_from_bytes(raw[1:], safe="/")
    return text + ("?" + urllib.parse.urlencode(query) if query else "")


def get(g, path, **headers):
    return g.request("GET", target("file", path), **headers)


def put(g, path, content, **query):
    reply = g.request("PUT", target("file", path, **query), content)
    check(reply.status in (200, 201), path, reply)
    return reply


def stat(g, path, **query):
    reply = g.request("GET", target("stat", path, **query))
    equal(reply.status, 200, f"stat {path}: {reply}")
    return reply.json()


def post(g, verb, **body):
    return g.request("POST", f"/v1/sandbox/a/{verb}", body)


def names(g, path, **query):
    """Of all pages."""
    found, cursor = [], None
    while True:
        more = {"cursor": cursor} if cursor else {}
        reply = g.request("GET", target("dir", path, **query, **more))
        equal(reply.status, 200, f"dir {path}: {reply}")
        found += [e.get("path", e.get("path_base64")) for e in reply.json()["entries"]]
        cursor = reply.json().get("cursor")
        if not cursor:
            return found


def refused(reply, status, code, *words):
    equal((reply.status, reply.json()["code"]), (status, code), f"{reply}")
    for word in words:
        check(word in reply.json()["error"], word, reply)


def temporary(g, folder):
    """Names in a folder that no client gave: what a write has left."""
    return [n for n in g.out("a", ["ls", "-A", folder]).split() if n.startswith(".berth")]


def workers(g):
    """The pids of the workers themselves: above one there may be a process that minds its tree."""
    def words(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return file.read().split(b"\0")
        except OSError:
            return []  # it has ended
    return [p for p in g.processes() if g.is_sandboxed(p) and words(p)[:1] == [b"berth-files"]]
