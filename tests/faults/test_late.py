#!/usr/bin/env python3
"""A real berthd, and a keeper that answers when it is too late, or is of another age.

    test_late.py BERTHD [CASE...]
"""

import json
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("http", "keeper")]

# pylint: disable=wrong-import-position
import fake_host as h  # noqa: E402
import keeper_link as k  # noqa: E402
from place import Place, run_cases  # noqa: E402
from tap import expect, require, until  # noqa: E402

CAN_LIMIT = 1 | 2 | 4
HAS_DISK = 4
MIB = 1 << 20


class LateHost(h.Host):
    """LIMIT is answered when `answer_limits` is called."""

    def __init__(self, run):
        super().__init__(run, lambda name, line: h.be_honest(line))
        self.late, self.starts, self.peer = [], [], None
        self.more = {k.WELCOME: {"abilities": CAN_LIMIT}}

    def serve_one(self, peer):
        self.peer = peer
        super().serve_one(peer)

    def answers(self, asked):
        if asked.type == k.LIMIT:
            self.late.append(asked.tag)
            return []
        if asked.type == k.START:
            self.starts.append(asked.flags)
        return [(kind, tag, {**values, **self.more.get(kind, {})}) for kind, tag, values in super().answers(asked)]

    def answer_limits(self, kind, **values):
        for tag in self.late:
            h.send(self.peer, k.encode(kind, tag, **values))
        self.late.clear()


def ask(place, method, path, body=None):
    with place.connect() as client:
        return client.request(method, f"/v1/sandbox/{path}", body=None if body is None else json.dumps(body).encode())


def exec_in(place, name):
    expect(ask(place, "POST", f"{name}/exec", {"argv": ["true"]}).status, 200, "an exec")


def end(daemon, host):
    code = (daemon.process.terminate(), daemon.wait())[1]
    require(code == 0, f"exit code {code}: {daemon.stderr()[-2000:]}")
    expect(host.close(), [], "what went wrong here")


def deleted():
    """One that is deleted while its limits are being changed is gone, and whoever changed it is told."""
    with Place() as place:
        host = LateHost(place.run)
        daemon = place.start("--keeper", "await")
        for late in ((k.DONE, {}), (k.FAILED, {"code": 4, "sentence": "there is none"}), None):
            exec_in(place, "a")
            replies = []
            change = threading.Thread(target=lambda to=replies: to.append(
                ask(place, "PUT", "a", {"limits": {"memory": 64 * MIB}})))
            change.start()
            until(lambda: host.late, "the keeper to be asked")
            expect(ask(place, "DELETE", "a").status, 204, "DELETE")
            change.join(h.JOIN_S)
            expect((replies[0].status, replies[0].json()["code"]), (404, "not_found"), "the change")
            if late:
                host.answer_limits(late[0], **late[1])
            host.late.clear()
            expect(ask(place, "GET", "a").status, 404, "it is gone")
        exec_in(place, "b")
        end(daemon, host)
        host = LateHost(place.run)
        daemon = place.start("--keeper", "await")
        expect(ask(place, "GET", "a").status, 404, "and stays so")
        end(daemon, host)


def ephemeral():
    """The disk of a life in memory is none that a later start would want, whatever was set meanwhile."""
    with Place() as place:
        host = LateHost(place.run)
        daemon = place.start("--keeper", "await")
        expect(ask(place, "PUT", "a", {"ephemeral": True}).status, 200, "PUT")
        exec_in(place, "a")
        expect(ask(place, "PUT", "a", {"ephemeral": False}).json()["restart_needed"], True, "PUT")
        daemon.kill()
        host.more[k.RUNNING] = {"is_ephemeral": 1}
        daemon = place.start("--keeper", "await")
        exec_in(place, "a")
        expect(ask(place, "POST", "a/sleep", {"mode": "stop"}).status, 200, "stop")
        exec_in(place, "a")
        expect([flags & HAS_DISK for flags in host.starts], [0, 0], "the first life had none")
        expect(ask(place, "POST", "a/sleep", {"mode": "stop"}).status, 200, "stop")
        exec_in(place, "a")
        expect([flags & HAS_DISK for flags in host.starts], [0, 0, HAS_DISK], "the second has")
        end(daemon, host)


def version():
    """A keeper of another version is named as what it is, however its words go on."""
    class OldHost(LateHost):
        def answers(self, asked):
            h.send(self.peer, h.frame(k.WELCOME, asked.tag, b"\1\0\0\0some words that nobody knows"))
            return []

    with Place() as place:
        host = OldHost(place.run)
        daemon = place.start("--keeper", "await", ready=b"failed")
        require(b"speaks version 1, and this berthd 2" in daemon.ready_line, daemon.ready_line)
        require(daemon.wait() != 0, "it ends")
        expect(host.close(), [], "what went wrong here")


run_cases([(case.__doc__.rstrip("."), case) for case in (deleted, ephemeral, version)])
