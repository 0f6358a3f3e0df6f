"""GET /metrics: that it is well formed, and that its figures follow what happens."""

import http.client
import os
import signal

from ground import IS_SANITIZED, at_once, check, equal, fds_of, main, until
from metrics_api import metrics

STATES = ["cold", "starting", "running", "frozen", "stopping", "destroying", "failed"]
TOKEN = "metrics-" + "x" * 32


def sleep(g, name):
    reply = g.request("POST", f"/v1/sandbox/{name}/sleep")
    equal(reply.status, 200, reply)


def test_form(g):
    """All families are there from the beginning, with zeros."""
    m = metrics(g)
    info = g.get("/v1/info").json()
    equal(m("build_info", version=info["version"]), 1, "version")
    equal(m.all("sandboxes", "state"), dict.fromkeys(STATES, 0), "states")
    check(set(m.all("events_total", "type").values()) == {0}, m.families)
    equal((m("execs"), m("execs_started_total"), m("oom_kills_total")), (0, 0, 0), "execs")
    equal((m("connections", server="api"), m("connections", server="preview")), (1, 0), "connections")
    check(m("uptime_seconds") < 600 and m("store_queue") < 10, m.families)
    check(1 << 20 < m("resident_memory_bytes") < (1 << 30 if not IS_SANITIZED else 1 << 44), m.families)
    if "berth_open_files" in m.families:
        check(abs(m("open_files") - fds_of(g.berthd.pid)) < 5, m("open_files"), fds_of(g.berthd.pid))


def test_answers(g):
    """Each answer counts once, by its class and its listener."""
    def classes(server):
        m = metrics(g)
        return {name: m("http_responses_total", server=server, **{"class": name})
                for name in ("1xx", "2xx", "3xx", "4xx", "5xx")}

    before = classes("api")  # which is a request itself, and counted by the next one
    tag = g.get("/v1/openapi.json").headers["etag"]
    equal(g.get("/v1/openapi.json", If_None_Match=tag).status, 304, "not modified")
    equal([g.get("/nothing").status for _ in range(3)], [404] * 3, "not found")
    with g.raw() as client:
        client.send(b"rubbish\r\n\r\n")
        equal(client.read().status, 400, "refused")
    after = classes("api")
    equal({name: after[name] - before[name] for name in after},
          {"1xx": 0, "2xx": 2, "3xx": 1, "4xx": 4, "5xx": 0}, "answers")
    equal(set(classes("preview").values()), {0}, "nothing was asked of the previews")


def test_life(g):
    """Starts, commands, sleeps, wakes, deaths and ends are counted; looking changes nothing."""
    def changed(*types):
        """These have happened since it was last asked, and nothing else."""
        nonlocal seen
        until(lambda: metrics(g).all("events_total", "type") != seen or not types, f"{types}")
        now = metrics(g).all("events_total", "type")
        equal(sorted(t for t in now for _ in range(int(now[t] - seen[t]))), sorted(types), "events")
        seen = now

    seen = metrics(g).all("events_total", "type")
    g.out("a", "true")
    changed("created", "started")
    m = metrics(g)
    equal((m("sandboxes", state="running"), m("execs_started_total")), (1, 1), "one runs")
    with g.events("a", "echo begun; read wait", stdin="") as events:
        equal(next(iter(events)), ("stdout", b"begun\n"), "it runs")
    until(lambda: metrics(g)("execs") == 0, "its end")
    equal(metrics(g)("execs_started_total"), 2, "commands")
    with g.events("a", "echo begun; exec sleep 1000") as events:
        equal(next(iter(events)), ("stdout", b"begun\n"), "it runs")
        equal((metrics(g)("execs"), metrics(g)("connections", server="api")), (1, 2), "a command")
    until(lambda: metrics(g)("execs") == 0, "its end, as its client has gone")
    sleep(g, "a")
    asleep = g.sandbox("a")["state"]
    equal(metrics(g)("sandboxes", state=asleep), 1, "it sleeps")
    changed("slept")
    equal((g.sandbox("a")["state"], g.sandbox("a")["holds"]), (asleep, []), "looking wakes nobody")
    g.out("a", "true")
    changed("woke")
    os.kill(g.inits()[0], signal.SIGKILL)
    until(lambda: metrics(g)("sandboxes", state="running") == 0, "its death")
    changed("exited")
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    changed("destroyed")
    equal(set(metrics(g).all("sandboxes", "state").values()), {0}, "none is left")


def test_restart(g):
    """Counters begin anew with berthd; what there is does not."""
    g.out("a", "true")
    g.kill_berthd()
    g.start()
    until(lambda: metrics(g)("sandboxes", state="running") == 1, "it is adopted")
    m = metrics(g)
    equal((m("execs_started_total"), m("events_total", type="started")), (0, 0), "counters")
    g.out("a", "true")
    equal(metrics(g)("execs_started_total"), 1, "counters")


def test_many(g):
    """A walk over many, and asked by many at once."""
    def make(i):
        reply = g.request("PUT", f"/v1/sandbox/box-{i}", {})
        check(reply.status in (200, 201), reply)

    at_once(8, lambda worker: [make(i) for i in range(worker, 200, 8)])
    for m in at_once(8, lambda _: metrics(g)):
        equal((m("sandboxes", state="cold"), m("events_total", type="created")), (200, 200), "all of them")


def test_ports(g):
    """Each exposed port has figures, and no others have; telling them wakes nobody."""
    def told():
        return metrics(g).families.get("berth_port_requests_total", (None, {}))[1]

    equal(told(), {}, "none")
    for port in (8000, 9000):
        equal(g.request("PUT", f"/v1/sandbox/a/port/{port}", {}).status, 200, port)
    m, state = metrics(g), g.sandbox("a")["state"]
    equal([m("port_requests_total", sandbox="a", port=port) for port in ("8000", "9000")], [0, 0], "requests")
    equal(m("port_responses_total", sandbox="a", port="8000", **{"class": "none"}), 0, "without an answer")
    equal((m("port_open", sandbox="a", port="8000"), m("events_total", type="port_exposed")), (0, 2), "open")
    g.request("DELETE", "/v1/sandbox/a/port/8000")
    equal(list(told()), [frozenset({("sandbox", "a"), ("port", "9000")})], "the other one")
    equal(g.sandbox("a")["state"], state, "state")


def test_token(g):
    """On TCP it is for those who have a token."""
    port = g.start_listening(TOKEN)

    def ask(headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/metrics", None, headers)
        status = connection.getresponse().status
        connection.close()
        return status

    equal(ask({}), 401, "without")
    equal(ask({"Authorization": f"Bearer {TOKEN}"}), 200, "with")


if __name__ == "__main__":
    main([test_form, test_answers, test_life, test_restart, test_many, test_ports, test_token],
         start=lambda test: test is not test_token)
