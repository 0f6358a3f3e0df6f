"""Requests that meet in the middle of something: pipelined, beside a delete, while nothing can be stored."""

import contextlib
import json
import os
import signal
import sqlite3
import threading
import time

from ground import TIMEOUT, at_once, check, equal, main, until


def text_of(method, target, body=None, **headers):
    body = json.dumps(body).encode() if body is not None else b""
    lines = [f"{method} {target} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}",
             *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def exec_text(name, command):
    return text_of("POST", f"/v1/sandbox/{name}/exec", {"command": command}, Accept="application/json")


def statuses(g, *requests):
    """All in one write, on one connection."""
    connection = g.connect()
    connection.connect()
    try:
        connection.sock.sendall(b"".join(requests))
        found, stream = [], connection.sock.makefile("rb")
        while len(found) < len(requests):
            line = stream.readline()
            check(line, f"the connection ended after {found}")
            length = 0
            while header := stream.readline().strip():
                name, _, value = header.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            stream.read(length)
            found.append(int(line.split()[1]))
        return found
    finally:
        connection.close()


@contextlib.contextmanager
def locked_store(g):
    """Another program holds the database's write lock."""
    db = sqlite3.connect(os.path.join(g.state, "berthd", "state.db"), isolation_level=None, timeout=TIMEOUT)
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
    finally:
        db.close()


def rows(g):
    db = sqlite3.connect(os.path.join(g.state, "berthd", "state.db"))
    try:
        return {name: json.loads(settings) for name, settings in db.execute("SELECT id, settings FROM sandbox")}
    finally:
        db.close()


def test_pipelined(g):
    """What one connection asks for in one breath is done one after the other."""
    def post(name, verb):
        return text_of("POST", f"/v1/sandbox/{name}/{verb}")

    for _ in range(3):
        g.out("a", "true")
        equal(statuses(g, post("a", "sleep"), post("a", "start")), [200, 200], "sleep, start")
        equal(statuses(g, text_of("DELETE", "/v1/sandbox/a"), exec_text("a", "true")), [204, 200], "delete, exec")
        equal(statuses(g, post("a", "sleep"), exec_text("a", "true"), post("a", "sleep"), post("a", "start"),
                       text_of("DELETE", "/v1/sandbox/a"), text_of("GET", "/v1/sandbox/a")),
              [200, 200, 200, 200, 204, 404], "many")
        # One deletes what another waits for.
        def other(i):
            if i == 0:
                return statuses(g, post("b", "start"), text_of("DELETE", "/v1/sandbox/b"))
            return statuses(g, exec_text("b", "true"))
        first, second = at_once(2, other)
        equal(first, [200, 204], "start, delete")
        check(second[0] in (200, 404), second)
    equal(g.out("c", "echo x"), "x\n", "afterwards")


def test_put_beside_delete(g):
    """A sandbox that is being deleted cannot be changed, and does not come back."""
    g.out("a", "true")
    with locked_store(g):
        answers = []
        deleting = threading.Thread(target=lambda: answers.append(g.request("DELETE", "/v1/sandbox/a").status))
        deleting.start()
        until(lambda: g.sandbox("a")["state"] == "destroying", "the delete to begin")
        reply = g.request("PUT", "/v1/sandbox/a", {"limits": {"files": 99}})
        equal((reply.status, reply.json()["code"]), (409, "conflict"), reply)
    deleting.join()
    check(answers[0] in (204, 503), answers)
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    equal((g.get("/v1/sandbox/a").status, rows(g)), (404, {}), "it is gone")


def test_unstored(g):
    """What could not be stored did not happen, and can be asked for again."""
    equal(g.request("PUT", "/v1/sandbox/a", {"limits": {"files": 99}, "start": True}).status, 200, "put")
    with locked_store(g):
        def ask(i):
            if i == 0:
                return g.request("POST", "/v1/sandbox", {"id": "b"}, Idempotency_Key="k").status
            if i == 1:
                return g.request("PUT", "/v1/sandbox/a", {"limits": {"files": 100}, "start": True}).status
            return g.request("POST", "/v1/sandbox/c/exec", {"command": "true"}, Accept="application/json").status
        equal(at_once(3, ask), [503] * 3, "while the database is locked")
        for name in ("b", "c"):
            equal(g.get(f"/v1/sandbox/{name}").status, 404, name)
    equal(g.sandbox("a")["limits"]["files"], 99, "the settings in force")
    equal(list(rows(g)), ["a"], "what is stored")
    equal(g.request("POST", "/v1/sandbox", {"id": "b"}, Idempotency_Key="k").status, 201, "the key again")
    equal(g.request("POST", "/v1/sandbox", {"id": "b"}, Idempotency_Key="k").json(), {"id": "b"}, "and again")
    equal(g.request("PUT", "/v1/sandbox/a", {"limits": {"files": 100}, "start": True}).status, 200, "put")
    equal((rows(g)["a"]["limits"]["files"], g.sandbox("a")["limits"]["files"]), (100, 100), "stored, in force")
    g.kill_berthd()
    g.start()
    equal(g.sandbox("a")["limits"]["files"], 100, "after a crash")


def test_changes(g):
    """Changes of one sandbox at once: none is lost."""
    equal(g.request("PUT", "/v1/sandbox/a").status, 200, "put")
    fields = [{"limits": {"files": 100}}, {"limits": {"pids": 100}}, {"labels": {"x": "y"}},
              {"limits": {"file_size": 65536}}]
    equal([r.status for r in at_once(4, lambda i: g.request("PUT", "/v1/sandbox/a", fields[i]))], [200] * 4, "puts")
    shown = g.sandbox("a")
    equal((shown["limits"]["files"], shown["limits"]["pids"], shown["limits"]["file_size"], shown["labels"]),
          (100, 100, 65536, {"x": "y"}), shown)
    made = at_once(8, lambda i: g.request("POST", "/v1/sandbox", {"start": True}, Idempotency_Key="one"))
    equal({r.status for r in made}, {201}, "the same key")
    equal(len({r.json()["id"] for r in made}), 1, "sandboxes of one key")
    reply = g.request("POST", "/v1/sandbox", {"start": True, "read_only": True}, Idempotency_Key="one")
    equal((reply.status, reply.json()["code"]), (409, "conflict"), "the same key, but another wish")


def test_environment_size(g):
    """Many variables on both sides cost no time that others would notice."""
    own = {f"OF_THE_SANDBOX_{i}": "" for i in range(8000)}
    equal(g.request("PUT", "/v1/sandbox/a", {"env": own, "start": True}).status, 200, "put")
    mine = {f"V{i}": "" for i in range(20000)}
    begun = time.monotonic()
    shown = g.exec("a", ["env"], env=mine)
    took = time.monotonic() - begun
    equal(len(shown.stdout.splitlines()), 28000 + 3, "variables")
    check(took < 30, f"it took {took} s")
    g.refuse("a", ["true"], env={f"V{i}": "" for i in range(40000)})


def test_generation_asked_for(g):
    """If-Generation: a sandbox that sleeps is not woken into another generation."""
    g.out("a", "true")

    def ask(generation):
        reply = g.request("POST", "/v1/sandbox/a/exec", {"command": "true"}, Accept="application/json",
                          If_Generation=generation)
        return reply.status, reply.json().get("code")

    equal(ask(1), (200, None), "it runs")
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "sleep")
    equal(ask(1), (409, "sandbox_restarted"), "it sleeps")
    equal(g.sandbox("a")["state"], "cold", "state")
    g.out("a", "true")
    equal((ask(1), ask(2)), ((409, "sandbox_restarted"), (200, None)), "the next life")
    reply = g.request("POST", "/v1/sandbox/new/exec", {"command": "true"}, If_Generation=1)
    equal((reply.status, g.get("/v1/sandbox/new").status), (409, 404), "one that is not there")


def test_gone_client(g):
    """Who asks and goes away: what was asked for is done."""
    g.out("a", "true")
    os.kill(g.keeper(), signal.SIGSTOP)
    keeper = g.keeper()
    try:
        for target in (("POST", "/v1/sandbox/b/start"), ("DELETE", "/v1/sandbox/a")):
            connection = g.connect()
            connection.connect()
            connection.sock.sendall(text_of(*target))
            connection.close()
    finally:
        os.kill(keeper, signal.SIGCONT)
    until(lambda: g.get("/v1/sandbox/a").status == 404, "a to be gone")
    until(lambda: g.get("/v1/sandbox/b").status == 200 and g.sandbox("b")["state"] == "running", "b to run")


def test_stop_while_storing(g):
    """SIGTERM while a start waits for the store, and its client has gone: a clean end."""
    g.out("a", "true")
    with locked_store(g):
        connection = g.connect()
        connection.connect()
        connection.sock.sendall(exec_text("b", "true"))
        until(lambda: g.get("/health").status == 200, "the loop to turn")
        connection.close()
        g.berthd.send_signal(signal.SIGTERM)
    equal(g.berthd.wait(TIMEOUT), 0, "berthd's exit code")
    g.start()
    equal(g.out("a", "echo x"), "x\n", "afterwards")


def test_unreadable(g):
    """Stored settings that cannot be read: it is not started with others, and can be mended."""
    equal(g.request("PUT", "/v1/sandbox/a", {"limits": {"files": 99}}).status, 200, "put")
    g.kill_berthd()
    db = sqlite3.connect(os.path.join(g.state, "berthd", "state.db"))
    db.execute("UPDATE sandbox SET settings = '{\"image\": 7}'")
    db.commit()
    db.close()
    g.start()
    shown = g.sandbox("a")
    equal((shown["state"], shown["last_failure"]["code"]), ("failed", "start_failed"), shown)
    equal(g.refuse("a", "true", status=502)["code"], "start_failed", "exec")
    equal(rows(g), {"a": {"image": 7}}, "what is stored stays")
    equal(g.request("PUT", "/v1/sandbox/a", {"limits": {"files": 98}}).status, 200, "put")
    equal(g.out("a", "ulimit -n"), "98\n", "afterwards")


main([test_pipelined, test_put_beside_delete, test_unstored, test_changes, test_environment_size,
      test_generation_asked_for, test_gone_client, test_stop_while_storing, test_unreadable])
