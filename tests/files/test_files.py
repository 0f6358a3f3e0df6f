"""Every file route, what it answers, and what it refuses."""

import base64
import http.client
import os
import socket

from file_api import MB, check, equal, get, main, names, post, put, refused, stat, target, until

DATA = bytes(range(256)) * 40


def test_roundtrip(g):
    """PUT makes parents, says what is there; GET gives the same bytes; DELETE removes them."""
    reply = put(g, "/workspace/new/deep/file.bin", DATA)
    equal(reply.status, 201, "made")
    facts = reply.json()
    equal([facts[k] for k in ("name", "path", "type", "size", "mode")],
          ["file.bin", "/workspace/new/deep/file.bin", "file", len(DATA), "0644"], "facts")
    equal(facts["etag"], reply.headers["etag"], "etag")
    check(reply.generation >= 1, reply)
    reply = get(g, "/workspace/new/deep/file.bin")
    equal((reply.status, reply.body == DATA), (200, True), "read")
    equal(reply.headers["content-length"], str(len(DATA)), "length")
    equal(reply.headers["content-type"], "application/octet-stream", "type")
    equal(reply.headers["etag"], facts["etag"], "etag of GET")
    equal(put(g, "/workspace/new/deep/file.bin", b"", mode="600").status, 200, "replaced")
    reply = get(g, "/workspace/new/deep/file.bin")
    equal((reply.status, reply.body, reply.headers["content-length"]), (200, b"", "0"), "empty")
    equal(stat(g, "/workspace/new/deep/file.bin")["mode"], "0600", "mode")
    equal(g.request("DELETE", target("file", "/workspace/new/deep/file.bin")).status, 204, "removed")
    refused(get(g, "/workspace/new/deep/file.bin"), 404, "not_found", "/workspace/new/deep/file.bin")
    refused(g.request("DELETE", target("file", "/workspace/new/deep/file.bin")), 404, "not_found")
    refused(g.request("DELETE", target("file", "/workspace/new")), 400, "invalid_request", "recursive")
    equal(g.request("DELETE", target("file", "/workspace/new", recursive=1)).status, 204, "tree")
    equal(g.out("a", ["ls", "-A", "/workspace"]), "", "what is left")


def test_owner(g):
    """[19] What is written belongs to the sandbox's user, and is seen by commands at once."""
    put(g, "/workspace/f", b"x")
    equal(g.out("a", "stat -c %u:%g:%a f; id -u; id -g").split(), ["0:0:644", "0", "0"], "owner")
    g.out("a", "chmod 751 f")
    put(g, "/workspace/f", b"y")
    equal(g.out("a", "stat -c %a f; cat f"), "751\ny", "the old mode stays")
    put(g, "/workspace/f", b"z", mode="04755")
    equal(stat(g, "/workspace/f")["mode"], "4755", "any mode")
    for mode in ("", "8", "0x1", "77777", "-1", "+1"):
        refused(g.request("PUT", target("file", "/workspace/f", mode=mode), b"x"), 400,
                "invalid_request", "mode")


def test_ranges(g):
    """One range is served, several are the whole, one past the end is 416; If-Range guards it."""
    put(g, "/workspace/f", DATA)
    size = len(DATA)
    for text, first, last in (("0-0", 0, 0), ("5-", 5, size - 1), ("-7", size - 7, size - 1),
                              ("100-299", 100, 299), (f"9-{size * 2}", 9, size - 1), (f"-{size * 2}", 0, size - 1)):
        reply = get(g, "/workspace/f", Range=f"bytes={text}")
        equal((reply.status, reply.body == DATA[first:last + 1]), (206, True), text)
        equal(reply.headers["content-range"], f"bytes {first}-{last}/{size}", text)
        equal(reply.headers["content-length"], str(last - first + 1), text)
    for text in ("bytes=0-1,4-5", "bytes=5-2", "lines=1-2", "bytes=x"):
        reply = get(g, "/workspace/f", Range=text)
        equal((reply.status, reply.body == DATA), (200, True), text)
    for text in (f"bytes={size}-", "bytes=-0"):
        reply = get(g, "/workspace/f", Range=text)
        refused(reply, 416, "range_not_satisfiable", str(size))
        equal(reply.headers["content-range"], f"bytes */{size}", text)
    etag = get(g, "/workspace/f").headers["etag"]
    equal(get(g, "/workspace/f", Range="bytes=0-0", If_Range=etag).status, 206, "same")
    equal(get(g, "/workspace/f", Range="bytes=0-0", If_Range='"other"').status, 200, "other")
    put(g, "/workspace/f", DATA[::-1])
    equal(get(g, "/workspace/f", Range="bytes=0-0", If_Range=etag).status, 200, "changed")


def test_conditions(g):
    """ETag and Last-Modified change with the file; 304 while they do not; HEAD has no body."""
    put(g, "/workspace/f", DATA)
    with_head = g.request("HEAD", target("file", "/workspace/f"))
    equal((with_head.status, with_head.body), (200, b""), "HEAD")
    reply = get(g, "/workspace/f")
    for name in ("etag", "last-modified", "content-length", "accept-ranges"):
        equal(with_head.headers[name], reply.headers[name], name)
    etag = reply.headers["etag"]
    for value in (etag, f'"x", W/{etag}', "*"):
        known = get(g, "/workspace/f", If_None_Match=value)
        equal((known.status, known.body, known.headers["etag"]), (304, b"", etag), value)
    equal(get(g, "/workspace/f", If_None_Match='"x"').status, 200, "another")
    equal(get(g, "/workspace/f", If_Modified_Since=reply.headers["last-modified"]).status, 304, "date")
    equal(get(g, "/workspace/f", If_Modified_Since="Sun, 06 Nov 1994 08:49:37 GMT").status, 200, "date")
    g.out("a", "printf x >>f")
    check(get(g, "/workspace/f", If_None_Match=etag).status == 200, "a changed file")
    for header in ("If-Match", "If-None-Match"):
        refused(g.request("PUT", target("file", "/workspace/f"), b"no", **{header: "*"}), 501, "unsupported")
    equal(g.request("HEAD", target("file", "/workspace/none")).status, 404, "HEAD of nothing")


def test_keep_alive(g):
    """Reads, writes and refusals share one connection; no worker stays behind."""
    put(g, "/workspace/f", DATA)
    connection = g.connect()
    for i in range(30):
        for method, path, body, status in (
                ("GET", "f", None, 200), ("HEAD", "f", None, 200), ("PUT", "g", b"%d" % i, None),
                ("GET", "g", None, 200), ("GET", "none", None, 404), ("PUT", "f/x", b"no", 400)):
            connection.request(method, target("file", f"/workspace/{path}"), body)
            response = connection.getresponse()
            content = response.read()
            check(response.status == status or status is None and response.status in (200, 201),
                  method, path, response.status, content)
            equal(response.getheader("Connection"), None, f"{method} {path}: connection")
    connection.close()
    until(lambda: g.sandbox("a")["execs"] == 0, "the workers to end")


def test_streamed(g):
    """Large answers on one connection that nobody reads at first: each byte in its place."""
    big = os.urandom(5 * MB + 4321)
    put(g, "/workspace/big", big)
    asked = [(0, len(big)), (4 * MB - 1, len(big)), (1, 3 * MB + 17), (12345, 12346)]
    head = "GET /v1/sandbox/a/file/workspace/big HTTP/1.1\r\nHost: x\r\nRange: bytes={}-{}\r\n\r\n"
    with g.raw() as c:
        # All of it is asked for before anything is read: the socket is full again and again.
        c.send("".join(head.format(first, end - 1) for first, end in asked).encode())
        for first, end in asked:
            reply = c.read()
            equal(reply.status, 206, "status")
            check(reply.body == big[first:end], f"{first} to {end}: {len(reply.body)} bytes that differ")
    with g.raw() as c:
        c.send(head.format(0, len(big) - 1).replace("1.1", "1.0").encode())
        check(c.read().body == big, "as HTTP/1.0")
    until(lambda: g.sandbox("a")["execs"] == 0, "the workers to end")


def test_tcp(g):
    """A large file over TCP, both ways."""
    token, big = "for-large-files-" + "0123456789" * 3, os.urandom(9 * MB + 1)
    connection = http.client.HTTPConnection("127.0.0.1", g.start_listening(token))
    for method, body in (("PUT", big), ("GET", None)):
        connection.request(method, target("file", "/workspace/big"), body, {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        content = response.read()
        equal(response.status, 201 if body else 200, method)
    check(content == big, f"{len(content)} bytes that differ")
    connection.close()


def test_chunked(g):
    """A body without a length is written as well; one that is malformed writes nothing."""
    connection = g.connect()
    connection.request("PUT", target("file", "/workspace/f"), iter([b"one", b"", b"two" * 50000, b"end"]),
                       encode_chunked=True)
    equal(connection.getresponse().status, 201, "chunked")
    connection.close()
    equal(get(g, "/workspace/f").body, b"one" + b"two" * 50000 + b"end", "content")
    with g.raw() as c:
        c.send(b"PUT /v1/sandbox/a/file/workspace/f HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"3\r\nabc\r\nnonsense\r\n")
        equal(c.read().status, 400, "malformed")
    check(get(g, "/workspace/f").body.startswith(b"one"), "the old file")


def test_expect(g):
    """100 Continue comes only when the file can be written; else the refusal, and no body."""
    put(g, "/workspace/f", b"old")
    head = "PUT /v1/sandbox/a/file{} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    with g.raw() as c:
        c.send(head.format("/workspace/f").encode())
        equal(c.read().status, 100, "go on")
        c.send(b"hello")
        equal(c.read().status, 200, "written")
    equal(get(g, "/workspace/f").body, b"hello", "content")
    with g.raw() as c:
        c.send(head.format("/workspace/f/below").encode())
        equal(c.read().status, 400, "refused at once")
    with g.raw() as c:
        c.send(head.format("/proc/version").encode())
        check(c.read().status in (403, 400), "refused at once")


def test_half_closed(g):
    """A client that sends everything and closes its side is answered, and its file is there."""
    with g.raw() as c:
        c.send(b"PUT /v1/sandbox/a/file/workspace/f HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
        c.sock.shutdown(socket.SHUT_WR)
        equal(c.read().status, 201, "written")
    equal(get(g, "/workspace/f").body, b"hello", "content")


def test_directories(g):
    """Listing: pages, hidden names, trees, types and targets; making a directory."""
    g.out("a", "mkdir -p d/sub/deep; for i in $(seq 25); do echo $i >d/f$i; done; echo x >d/.hidden; "
               "ln -s ../nowhere d/link; mkfifo d/pipe; echo 1 >d/sub/deep/x")
    plain = sorted([f"/workspace/d/f{i}" for i in range(1, 26)]
                   + ["/workspace/d/" + n for n in ("sub", "link", "pipe")])
    equal(sorted(names(g, "/workspace/d")), plain, "plain")
    equal(sorted(names(g, "/workspace/d", hidden=1)), sorted(plain + ["/workspace/d/.hidden"]), "hidden")
    tree = plain + ["/workspace/d/sub/deep", "/workspace/d/sub/deep/x"]
    equal(sorted(names(g, "/workspace/d", recursive="")), sorted(tree), "recursive")
    for limit in (1, 7, 28, 30):
        equal(sorted(names(g, "/workspace/d", recursive=1, limit=limit)), sorted(tree), f"by {limit}")
    entries = {e["name"]: e for e in g.get(target("dir", "/workspace/d")).json()["entries"]}
    equal((entries["link"]["type"], entries["link"]["target"]), ("symlink", "../nowhere"), "link")
    equal((entries["pipe"]["type"], entries["sub"]["type"]), ("fifo", "directory"), "types")
    equal((entries["f1"]["size"], entries["f1"]["mode"], entries["f1"]["uid"]), (2, "0644", 0), "facts")
    check(entries["f1"]["mtime"].startswith("20") and entries["f1"]["mtime"].endswith("Z"), entries["f1"])
    check("/workspace" in names(g, "/"), "the root")
    for query in ({"limit": 0}, {"limit": 10001}, {"limit": "x"}, {"cursor": "!"}, {"cursor": ""}, {"recursive": "x"}):
        refused(g.get(target("dir", "/workspace/d", **query)), 400, "invalid_request", *query)
    refused(g.get(target("dir", "/workspace/d/f1")), 400, "invalid_request", "directory")
    refused(g.get(target("dir", "/workspace/none")), 404, "not_found")
    reply = g.request("PUT", target("dir", "/workspace/new/dir", mode="700"))
    equal((reply.status, reply.json()["type"], reply.json()["mode"]), (201, "directory", "0700"), "made")
    equal(g.request("PUT", target("dir", "/workspace/new/dir")).status, 200, "again")
    refused(g.request("PUT", target("dir", "/workspace/d/f1")), 409, "conflict")


def test_stat(g):
    """stat: of what a link leads to, or of the link itself."""
    g.out("a", "echo hi >f; ln -s f l; ln -s nowhere dead")
    equal(stat(g, "/workspace/l")["type"], "file", "followed")
    link = stat(g, "/workspace/l", no_follow=1)
    equal((link["type"], link["target"], link["name"]), ("symlink", "f", "l"), "itself")
    equal(stat(g, "/workspace/dead", no_follow=1)["target"], "nowhere", "dangling")
    refused(g.get(target("stat", "/workspace/dead")), 404, "not_found")
    root = stat(g, "/")
    equal((root["name"], root["path"], root["type"]), ("/", "/", "directory"), "root")


def test_changes(g):
    """move, copy and chmod, of files and of trees; what they refuse."""
    g.out("a", "mkdir -p t/sub; echo 1 >t/one; echo 2 >t/sub/two; echo o >other")
    equal(post(g, "move", **{"from": "/workspace/other", "to": "/workspace/moved"}).status, 204, "move")
    equal(get(g, "/workspace/moved").body, b"o\n", "moved")
    refused(post(g, "move", **{"from": "/workspace/other", "to": "/workspace/x"}), 404, "not_found")
    reply = post(g, "copy", **{"from": "/workspace/moved", "to": "/workspace/copied"})
    equal((reply.status, reply.json()["bytes"]), (200, 2), "copy")
    equal(get(g, "/workspace/copied").body, b"o\n", "copied")
    check(post(g, "copy", **{"from": "/workspace/t", "to": "/workspace/u"}).status in (400, 409), "not recursive")
    reply = post(g, "copy", **{"from": "/workspace/t", "to": "/workspace/u", "recursive": True})
    equal((reply.status, reply.json()["bytes"]), (200, 4), f"tree {reply}")
    equal(g.out("a", "diff -r t u && echo same"), "same\n", "tree")
    equal(post(g, "chmod", path="/workspace/t/one", mode="0640").status, 204, "chmod")
    equal(stat(g, "/workspace/t/one")["mode"], "0640", "mode")
    equal(post(g, "chmod", path="/workspace/t", mode="700", recursive=True).status, 204, "tree")
    equal(g.out("a", "stat -c %a t t/sub t/sub/two").split(), ["700"] * 3, "modes")
    for verb, body, word in (("move", {"from": "/a"}, "to"), ("move", {"to": "/a"}, "from"),
                             ("copy", {"from": "a", "to": "/b"}, "from"), ("chmod", {"path": "/a"}, "mode"),
                             ("chmod", {"path": "/a", "mode": "9"}, "mode"),
                             ("move", {"from": "/a", "to": "/b", "what": 1}, "what"),
                             ("move", {"from": "/a", "from_base64": "L2E=", "to": "/b"}, "from"),
                             ("move", {"from_base64": "!", "to": "/b"}, "from_base64")):
        refused(post(g, verb, **body), 400, "invalid_request", word)
    g.out("a", "mkdir empty")
    refused(post(g, "copy", **{"from": "/workspace/moved", "to": "/workspace/t", "recursive": True}), 400, "invalid_request",
            "workspace/t", "is a directory, which no file replaces")
    reply = post(g, "move", **{"from": "/workspace/empty", "to": "/workspace/t"})
    refused(reply, 409, "conflict", "workspace/t", "not empty")
    check("recursive" not in reply.json()["error"], reply)
    refused(post(g, "move", **{"from": "/workspace/empty", "to": "/workspace/moved"}), 409, "conflict", "workspace/moved",
            "no directory replaces it")
    refused(post(g, "move", **{"from": "/workspace/empty", "to": "/workspace/moved/x"}), 400, "invalid_request", "part of")
    for verb in ("mount", "unmount"):
        refused(post(g, verb), 501, "unsupported")


def test_names(g):
    """[16] Any name that Linux knows: not UTF-8, 255 bytes, escapes, line breaks; and no other."""
    for name in (b"caf\xe9", b"\xff\xfe", b"a b+c%41", b"line\nbreak", b"n" * 255, "größe".encode(), b"-rf"):
        path = b"/workspace/d/" + name
        check(put(g, path, name).status == 201, name)
        equal(get(g, path).body, name, name)
        shown = stat(g, path)
        if "name" in shown:
            equal(shown["name"].encode(), name, "as text")
        else:
            equal(base64.b64decode(shown["name_base64"]), name, "as base64")
        equal("name" in shown, b"\xe9" not in name and b"\xff" not in name, "which of them")
    check(base64.b64encode(b"/workspace/d/caf\xe9").decode() in names(g, "/workspace/d", limit=1), "pages")
    moved = {"from_base64": base64.b64encode(b"/workspace/d/caf\xe9").decode(), "to": "/workspace/plain"}
    equal(post(g, "move", **moved).status, 204, "move")
    equal(get(g, "/workspace/plain").body, b"caf\xe9", "moved")
    refused(get(g, b"/workspace/a\0b"), 400, "invalid_request", "zero")
    refused(get(g, b"/workspace/" + b"n" * 256), 400, "invalid_request", "long")
    refused(get(g, b"/" + b"x/" * 2060), 400, "invalid_request", "4095")
    refused(get(g, b"/" + b"x" * 4094), 400, "invalid_request", "long")
    refused(g.get("/v1/sandbox/a/file/bad%4"), 400, "invalid_request", "%")
    refused(g.get("/v1/sandbox/a/file/"), 400, "invalid_request", "directory")


def test_refusals(g):
    """Each error has its status, its code, and a sentence with the path."""
    g.out("a", "mkdir dir; touch file; ln -s loop loop; mkdir -m 0 closed")
    refused(get(g, "/workspace/dir"), 400, "invalid_request", "directory", "/workspace/dir")
    refused(get(g, "/workspace/file/x"), 400, "invalid_request", "not a directory")
    refused(get(g, "/workspace/loop"), 400, "invalid_request", "links")
    refused(g.request("PUT", target("file", "/workspace/dir"), b"x"), 400, "invalid_request", "directory")
    refused(g.request("PUT", target("file", "/usr/bin/new"), b"x"), 403, "forbidden", "/usr/bin/new")
    refused(g.request("DELETE", target("file", "/usr/bin/env")), 403, "forbidden")
    refused(g.get(target("file", "/x", name="-bad-")), 400, "invalid_request")
    equal(g.request("POST", target("file", "/x"), b"").status, 405, "method")
    generation = stat(g, "/workspace") and g.sandbox("a")["generation"]
    equal(get(g, "/etc/passwd", If_Generation=generation).status, 200, "generation")
    refused(get(g, "/etc/passwd", If_Generation=generation + 1), 409, "sandbox_restarted")


def test_query(g):
    """A name in the query that a route does not know is refused by name, and nothing happens."""
    put(g, "/workspace/d/f", b"old")
    base = "/v1/sandbox/a/"
    for method, path, body, known in (
            ("GET", "file/workspace/d/f?mode=1", None, "none"), ("PUT", "file/workspace/d/f?mod=0600", b"new", "mode"),
            ("DELETE", "file/workspace/d?recursive=1&forse=1", None, "recursive"), ("GET", "dir/workspace?recursiv", None, "cursor"),
            ("PUT", "dir/workspace/n?owner=1", None, "mode"), ("GET", "stat/workspace?follow=0", None, "no_follow"),
            ("POST", "move?dry=1", {"from": "/workspace/d", "to": "/workspace/e"}, "none"),
            ("POST", "persist?exclude=x", None, "excludes"), ("POST", "hydrate?paht=/tmp/x", bytes(1024), "path")):
        name = path.split("?")[1].split("&")[-1].split("=")[0]
        refused(g.request(method, base + path, body), 400, "invalid_request", f'"{name}"', known)
    equal(get(g, "/workspace/d/f").body, b"old", "the file")
    equal(g.request("GET", base + "file/workspace/d/f?&").status, 200, "nothing in it")


def test_no_space(g):
    """A full file system is 507 disk_limit, and the old file stays."""
    put(g, "/dev/shm/f", b"old")
    size = int(g.out("a", "df -k --output=size /dev/shm | tail -1")) * 1024
    check(size < 1 << 30, size)
    reply = g.request("PUT", target("file", "/dev/shm/f"), iter([b"x" * (1 << 20)] * (size // (1 << 20) + 4)))
    refused(reply, 507, "disk_limit", "/dev/shm/f", "space")
    equal(get(g, "/dev/shm/f").body, b"old", "the old file")
    equal(g.out("a", ["ls", "-A", "/dev/shm"]), "f\n", "nothing else")


if __name__ == "__main__":
    os.umask(0o022)
    main([test_roundtrip, test_owner, test_ranges, test_conditions, test_keep_alive, test_streamed, test_tcp, test_chunked, test_expect,
          test_half_closed, test_directories, test_stat, test_changes, test_names, test_refusals, test_query, test_no_space],
         start=lambda test: test is not test_tcp)
