"""berthd runs out of descriptors in the middle of its work: each request works or says so, and nothing is lost.

usage: test_descriptors.py BUILD root|user RUNTIME [CASE...]
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import Reply, check, equal, fds_of, main, until  # noqa: E402
from limits import limit_files, soft_files  # noqa: E402
from process_api import start  # noqa: E402

CONTENT = b"y" * 100000


class Line:
    """One connection that is there already: who comes later may not be let in at all."""

    def __init__(self, g):
        self.g, self.connection = g, g.connect()
        self.connection.connect()

    def ask(self, method, target, body=None):
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        self.connection.request(method, target, body, {"Accept": "application/json"})
        response = self.connection.getresponse()
        reply = Reply(response.status, response.getheaders(), response.read())
        if reply.status >= 400:
            check(len(reply.json()["error"]) > 15, "no sentence:", reply)
        return reply


def use(line, number):
    """What has worked, by name."""
    done = set()
    reply = line.ask("POST", "/v1/sandbox/a/exec", {"command": "printf hello; exit 7"})
    if reply.status == 200 and reply.json()["reason"] == "exited":
        equal((reply.json()["exit_code"], reply.json()["stdout"]), (7, "hello"), "a result that is not its own")
        done.add("exec")
    elif reply.status == 200:
        check(reply.json()["reason"] in ("lost", "not_started", "killed"), reply)
    reply = line.ask("PUT", f"/v1/sandbox/a/file/workspace/f{number}", CONTENT)
    if reply.status < 300:
        done.add("file")
    reply = line.ask("POST", "/v1/sandbox/a/processes", {"argv": ["true"], "id": f"p{number}"})
    if reply.status < 300:
        done.add("process")
    if line.ask("POST", f"/v1/sandbox/b{number}/start").status == 200:
        done.add("start")
    return done


def test_descriptors(g):
    """[43] Execs, files, processes and starts while berthd has few descriptors left; and all of it afterwards."""
    g.out("a", "echo kept >f")
    start(g, "a", ["sleep", "1000"], id="keeps")
    line = Line(g)
    equal(line.ask("GET", "/health").status, 200, "/health")
    g.out("a", "true")
    before, most, seen = fds_of(g.berthd.pid), soft_files(g.berthd.pid), []
    for number, more in enumerate((0, 2, 4, 6, 8, 12, 16, 24, 200)):
        limit_files(g.berthd.pid, before + more)
        try:
            seen.append(use(line, number))
        finally:
            limit_files(g.berthd.pid, most)
        equal(g.berthd.poll(), None, "berthd's exit code")
        # Whatever of it failed works now, and what was said to have worked is there.
        if "file" in seen[-1]:
            equal(g.get(f"/v1/sandbox/a/file/workspace/f{number}").body, CONTENT, "the file")
        equal(g.out("a", "cat f"), "kept\n", "the sandbox's own file")
        equal(g.out(f"b{number}", "echo x"), "x\n", "another sandbox")
        equal(g.request("DELETE", f"/v1/sandbox/b{number}").status, 204, "delete")
        equal(g.get("/v1/sandbox/a/processes/keeps").json()["state"], "running", "what runs in the background")
    print(f"# worked with few descriptors: {[sorted(done) for done in seen]}", flush=True)
    check(not seen[0] and len(seen[-1]) == 4, seen)
    line.connection.close()
    until(lambda: fds_of(g.berthd.pid) <= before + 2, f"descriptors: {fds_of(g.berthd.pid)}, at first {before}")


main([test_descriptors])
