"""Exposed ports: what is said of them, what it outlives, and whose a label is. Not the proxy."""

import json
import os
import re
import sqlite3
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "sandbox")]

# pylint: disable=wrong-import-position
from ground import at_once, check, equal, main, until  # noqa: E402

LONG = "a" + "-long-name" * 6 + "-z"  # 63 characters
FORTY = "a" * 40
TOKEN = re.compile(r"[a-z0-9]{16}")


def put(g, port=8080, box="a", status=200, **fields):
    reply = g.request("PUT", f"/v1/sandbox/{box}/port/{port}", fields)
    equal(reply.status, status, reply)
    return reply.json()


def ports(g, name="a"):
    reply = g.get(f"/v1/sandbox/{name}/port")
    equal(reply.status, 200, reply)
    return reply.json()["ports"]


def the_one(g):
    found = ports(g)
    equal(len(found), 1, found)
    return found[0]


def restart(g, *flags):
    g.kill_berthd()
    g.start(*flags)


def rows(g, sql):
    db = sqlite3.connect(f"file:{g.state}/berthd/state.db?mode=ro", uri=True)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def label(shown):
    return shown["hostname"].removesuffix(".localhost")


def events(g):
    """Those of ports, without what all events have."""
    found = [json.loads(data) for (data,) in rows(g, "SELECT data FROM event WHERE type LIKE 'port_%' ORDER BY id")]
    return [(e["type"], e["port"], e["hostname"], e["name"], e["public"]) for e in found]


def test_shape(g):
    """The first PUT makes the sandbox and starts nothing; the same again changes nothing."""
    shown = put(g, 8080, box="One")
    token = shown["token"]
    check(TOKEN.fullmatch(token), shown)
    check(re.fullmatch(r"\d{4}-.*Z", shown.pop("created_at")), shown)
    equal(shown, {"port": 8080, "url": None, "hostname": f"8080-one-{token}.localhost", "name": None,
                  "token": token, "public": False}, "without a listener there is no URL")
    sandbox = g.sandbox("one")
    equal((sandbox["state"], sandbox["generation"]), ("cold", 0), "nothing is started")
    equal(sandbox["ports"], ports(g, "one"), "the sandbox's own fields")
    equal(put(g, 8080, box="one")["token"], token, "again")
    equal(g.get("/v1/sandbox/one/port/8080").json(), ports(g, "one")[0], "one alone")
    equal(g.get("/v1/sandbox/one/port/81").status, 404, "another")
    equal(g.get("/v1/sandbox/two/port").status, 404, "of no sandbox")
    put(g, 1, box="one")
    put(g, 65535, box="one")
    equal([p["port"] for p in ports(g, "one")], [1, 8080, 65535], "by number")
    for _ in range(2):
        equal(g.request("DELETE", "/v1/sandbox/one/port/8080").status, 204, "delete, also twice")
    equal(g.request("DELETE", "/v1/sandbox/two/port/8080").status, 204, "of no sandbox")
    equal([p["port"] for p in ports(g, "one")], [1, 65535], "one is gone")
    check(put(g, 8080, box="one")["token"] != token, "exposed again, it has another token")


def test_changes(g):
    """What a PUT does not name stays; a token makes it private; each change is an event, nothing else is."""
    first = put(g)
    shown = put(g, name="my site")
    equal((shown["name"], shown["token"]), ("my site", first["token"]), shown)
    shown = put(g, token="chosen01")
    equal((shown["hostname"], shown["token"], shown["created_at"]),
          ("8080-a-chosen01.localhost", "chosen01", first["created_at"]), shown)
    shown = put(g, public=True)
    equal((shown["hostname"], shown["token"], shown["public"]), ("8080-a.localhost", None, True), shown)
    equal(put(g), shown, "nothing is asked for")
    shown = put(g, token="chosen02")
    equal((shown["token"], shown["public"]), ("chosen02", False), "a token makes it private")
    put(g, public=True)
    shown = put(g, public=False)
    check(TOKEN.fullmatch(shown["token"]), "and so does false")
    equal(put(g, name=""), {**shown, "name": None}, "without a name again")
    g.request("DELETE", "/v1/sandbox/a/port/8080")
    until(lambda: len(events(g)) == 9, "the events")
    told = events(g)
    equal(told[0], ("port_exposed", 8080, first["hostname"], None, False), "the first")
    equal(told[2][2:], ("8080-a-chosen01.localhost", "my site", False), "the third")
    equal(told[3][2:], ("8080-a.localhost", "my site", True), "the fourth")
    equal(told[-1], ("port_unexposed", 8080, shown["hostname"], None, False), "the last")
    equal([kind for kind, *_ in told[:-1]], ["port_exposed"] * 8, "each change")


def test_lasting(g):
    """Ports outlive kill -9 and sleep, aliases too, and go with their sandbox: then they are tombstones."""
    first = put(g, 3000, token="chosen01")
    public = put(g, 3001, public=True)
    far = put(g, 80, box=LONG)
    put(g, 9, box=LONG)
    g.request("DELETE", f"/v1/sandbox/{LONG}/port/9")
    restart(g)
    equal(ports(g), [first, public], "after kill -9")
    equal(ports(g, LONG), [far], "of the long one")
    alias = label(far).split("-")[1]
    equal(label(put(g, 81, box=LONG)).split("-")[1], alias, "its alias stays")
    g.out("a", "true")
    for mode in ("freeze", "stop") if g.is_root else ("stop",):
        equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": mode}).status, 200, "sleep")
        equal(ports(g), [first, public], "asleep")
        equal(g.sandbox("a")["state"], "frozen" if mode == "freeze" else "cold", "nothing wakes it")
    equal(put(g, 3000), first, "the same again")
    restart(g)
    equal(ports(g), [first, public], "after another kill -9")
    for name in ("a", LONG):
        equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
        equal(g.get(f"/v1/sandbox/{name}/port").status, 404, "gone")
    equal(rows(g, "SELECT * FROM port"), [], "nothing is stored of them")
    equal(rows(g, "SELECT * FROM alias"), [], "nor of aliases")
    graves = [row[0] for row in rows(g, "SELECT label FROM tombstone ORDER BY id")]
    equal(graves[:3], ["3000-a-chosen01", "3001-a", label(far)], "but their labels")
    equal(len(graves), 4, graves)
    again = put(g, 3001, public=True)
    equal(label(again), "3001-a", "the label can be had again")
    equal(rows(g, "SELECT * FROM tombstone WHERE label = '3001-a'"), [], "and is no tombstone any more")
    check(label(put(g, 80, box=LONG)).split("-")[1] != alias, "another sandbox, another alias")


def test_alias(g):
    """A label has 63 characters at most: an ID of more than 40 has an alias, and tokens have their limit."""
    equal(len(LONG), 63, LONG)
    shown = put(g, 65535, box=LONG)
    check(re.fullmatch(r"65535-[a-z2-7]{26}-[a-z0-9]{16}", label(shown)), shown)
    equal(len(label(put(g, 65535, box=FORTY))), 63, "the longest ID without one")
    equal(label(put(g, 80, box="a" * 41, public=True)).find("a" * 41), -1, "the shortest with one")
    refused = put(g, 65535, box=FORTY, status=400, token="a" * 17)
    check("token" in refused["error"] and "16 characters" in refused["error"], refused)
    equal(len(label(put(g, 65535, box=FORTY, token="a" * 16))), 63, "what fits")
    refused = put(g, 65535, box=LONG, status=400, token="a" * 31)
    check("30 characters" in refused["error"], refused)
    equal(len(label(put(g, 65535, box=LONG, token="a" * 30))), 63, "what fits")
    equal(len(label(put(g, 1, box="b", token="a" * 32))), 36, "a short one has room for any")


def test_conflict(g):
    """A label is one's own, also while it is being stored; of many who want it, one gets it."""
    put(g, 80, token="chosen01")
    refused = put(g, 80, box="a-chosen01", status=409, public=True)
    equal(refused["code"], "conflict", refused)
    equal(ports(g, "a-chosen01"), [], "nothing was exposed")
    g.request("DELETE", "/v1/sandbox/a/port/80")
    put(g, 80, box="a-chosen01", public=True)
    put(g, 80, status=409, token="chosen01")
    shown = put(g, 80, token="chosen02")
    equal(put(g, 80, status=409, token="chosen01")["code"], "conflict", "nor by a change")
    equal(ports(g), [shown], "which changed nothing")
    both = [("b", {"token": "chosen01"}), ("b-chosen01", {"public": True})]

    def ask(index):
        name, body = both[index % 2]
        return g.request("PUT", f"/v1/sandbox/{name}/port/80", body).status
    answers = at_once(20, ask)
    equal(sorted(set(answers)), [200, 409], answers)
    have = [p for name, _ in both for p in ports(g, name)]
    equal([label(p) for p in have], ["80-b-chosen01"], "one of them")
    equal(g.request("DELETE", "/v1/sandbox/a-chosen01").status, 204, "delete")
    equal(put(g, 80, token="chosen01")["token"], "chosen01", "a destroyed one's can be had")


def test_at_once(g):
    """Many PUTs of one port at once are one port with one token; with deletes between, each is answered."""
    answers = at_once(20, lambda _: g.request("PUT", "/v1/sandbox/a/port/80", {}))
    equal({a.status for a in answers}, {200}, answers)
    equal(len({a.json()["token"] for a in answers}), 1, "tokens")
    equal([s["id"] for s in g.list_all()], ["a"], "sandboxes")

    def ask(index):
        return g.request("DELETE" if index % 3 == 0 else "PUT", f"/v1/sandbox/a/port/{80 + index % 2}").status
    check(set(at_once(30, ask)) <= {200, 204}, "all are answered")
    check(len(ports(g)) <= 2, ports(g))

    def end(index):
        if index == 10:
            return g.request("DELETE", "/v1/sandbox/a").status
        return g.request("PUT", f"/v1/sandbox/a/port/{index + 1}").status
    check(set(at_once(20, end)) <= {200, 204, 404, 409}, "while it is deleted")


def test_limits(g):
    """64 ports, and what a field may be."""
    for number in range(1, 65):
        put(g, number)
    refused = put(g, 65, status=409)
    check("64" in refused["error"], refused)
    put(g, 64, token="chosen01")
    g.request("DELETE", "/v1/sandbox/a/port/7")
    put(g, 65)
    for number in ("0", "65536", "-1", "080", "http", "8e1", "", "%2e"):
        reply = g.request("PUT", f"/v1/sandbox/b/port/{number}", {})
        check(reply.status in (400, 404, 405), reply)
        if number:
            equal(reply.json()["code"], "invalid_request", reply)
    for body, field in (({"token": "short"}, "token"), ({"token": "UPPERCASE"}, "token"), ({"token": 1}, "token"),
                        ({"token": "a" * 33}, "token"), ({"token": "chosen01", "public": True}, "token"),
                        ({"name": "x" * 64}, "name"), ({"name": "a\x1b[2J"}, "name"), ({"public": "yes"}, "public"),
                        ({"port": 80}, "port")):
        reply = g.request("PUT", "/v1/sandbox/b/port/80", body)
        equal(reply.status, 400, reply)
        check(field in reply.json()["error"], reply)
    equal(g.get("/v1/sandbox/b").status, 404, "nothing was made of it")
    equal(g.request("PUT", "/v1/sandbox/b/port/80", {}, **{"If-Generation": "1"}).status, 409, "of no generation")
    equal(g.request("PUT", "/v1/sandbox/a/port/80", {}, **{"If-Generation": "1"}).status, 409, "nor of another")
    equal(put(g, 1, name="ä" * 31)["name"], "ä" * 31, "a name of 62 bytes")


def test_tunnel(g):
    """The bridge's words for the same thing."""
    shown = g.request("POST", "/v1/sandbox/a/tunnel/8080", {"anything": [1]})
    equal(shown.status, 200, shown)
    port = the_one(g)
    equal(shown.json(), {"id": label(port), "port": 8080, "url": None, "hostname": port["hostname"],
                         "createdAt": port["created_at"]}, "without a name")
    named = g.request("POST", "/v1/sandbox/a/tunnel/8080", {"name": "site"}).json()
    equal((named["name"], named["id"]), ("site", label(port)), named)
    equal(g.request("POST", "/v1/sandbox/a/tunnel/8080").json(), named, "idempotent")
    equal(g.request("POST", "/v1/sandbox/a/tunnel/0").status, 400, "no port")
    for _ in range(2):
        equal(g.request("DELETE", "/v1/sandbox/a/tunnel/8080").status, 204, "delete")
    equal(ports(g), [], "gone")


def test_urls(g):
    """By the listener's own port, or as the setting says; berthd tells it."""
    token = put(g)["token"]
    equal(g.get("/v1/info").json()["preview_url"], None, "no listener")
    restart(g, "--preview", "127.0.0.1:0")
    info = g.get("/v1/info").json()
    base = f"localhost:{info['preview'].rpartition(':')[2]}"
    equal(info["preview_url"], f"http://{base}", info)
    equal(the_one(g)["url"], f"http://8080-a-{token}.{base}/", "the same port has a URL now")
    restart(g, "--preview", "127.0.0.1:0", "--preview-url", "https://Preview.Example.com/")
    equal(g.get("/v1/info").json()["preview_url"], "https://preview.example.com", "as it is reached")
    shown = the_one(g)
    equal((shown["url"], shown["hostname"]), (f"https://8080-a-{token}.preview.example.com/",
                                              f"8080-a-{token}.preview.example.com"), shown)
    restart(g, "--preview-url", "https://preview.example.com:8443")
    equal(the_one(g)["url"], None, "without a listener it would lead nowhere")


if __name__ == "__main__":
    main([test_shape, test_changes, test_lasting, test_alias, test_conflict, test_at_once, test_limits, test_tunnel,
          test_urls])
