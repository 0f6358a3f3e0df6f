"""Talking to a daemon that is missing, forbidden, odd or hostile."""

import json
import os
import stat

from harness import INFO, check, equal, http, main


def missing(place):
    path = place.path("none.sock")
    for verb in ("info",):
        for more in ([], ["--json"]):
            r = place.run("--socket", path, verb, *more)
            equal((r.returncode, r.stdout, r.stderr), (
                3, "", f"berth: no berthd answers on {path}: start one with `berth --socket {path} up`\n"))
    where = ["--state-dir", place.path("s"), "--run-dir", place.path("r")]
    r = place.run(*where, "info")
    check(f"start one with `berth {' '.join(where)} up`" in r.stderr, "where it would be", r.stderr)
    r = place.run("--socket", place.path("no", "such", "dir"), "info")
    equal(r.returncode, 3)
    who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    for verb in ("info", "up", "down"):
        r = place.run(verb, env={"HOME": "", "XDG_RUNTIME_DIR": ""}, **who)
        equal((r.returncode, r.stdout, r.stderr.count("\n")), (1, "", 1), verb)
        check("set HOME" in r.stderr, "no place at all", r.stderr)
    r = place.run("--socket", path, "info", env={"HOME": "", "XDG_RUNTIME_DIR": ""}, **who)
    equal(r.returncode, 3, f"a socket that is named needs no other place: {r.stderr}")


def stale(place):
    place.listen().close()
    path = place.path("api.sock")
    r = place.run("--socket", path, "info")
    equal((r.returncode, r.stdout), (3, ""))
    equal(r.stderr, f"berth: {path} was left behind by a berthd that is gone: "
                    f"start a new one with `berth --socket {path} up`\n")


def not_a_socket(place):
    path = place.path("file")
    with open(path, "w", encoding="utf-8"):
        pass
    r = place.run("--socket", path, "info")
    equal((r.returncode, r.stderr), (1, f"berth: {path} is not a socket\n"))


def forbidden(place):
    place.serve(http(200, INFO))
    path = place.path("api.sock")
    os.chmod(path, 0)
    who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    r = place.run("--socket", path, "info", **who)
    equal((r.returncode, r.stdout), (1, ""))
    check(r.stderr.startswith(f"berth: you may not connect to {path}: "), r.stderr)
    equal(r.stderr.count("\n"), 1)


def long_path(place):
    name = os.path.join("d" * 100, "e" * 100, "api.sock")
    os.makedirs(os.path.dirname(place.path(name)))
    server = place.serve(http(200, INFO), name)
    r = place.run("--socket", place.path(name), "info")
    equal((r.returncode, r.stderr), (0, ""))
    equal(len(server.requests), 1)
    r = place.run("--socket", place.path("d" * 100, "e" * 100, "none"), "info")
    equal(r.returncode, 3)
    r = place.run("--socket", "x" * 5000, "info")
    equal(r.returncode, 1)


def info(place):
    server = place.serve(http(200, INFO))
    # A proxy in the environment is for the network, not for the socket.
    env = {"http_proxy": "http://127.0.0.1:1", "all_proxy": "http://127.0.0.1:1"}
    r = place.run("--socket", place.path("api.sock"), "info", env=env)
    equal((r.returncode, r.stderr), (0, ""))
    for word in ("9.8.7", "1 d 2 h", "8 GiB", "crun (/usr/bin/crun)", "v2 memory cpu pids\n",
                 "1 of 8192", "32 KiB, 100 headers"):
        check(word in r.stdout, word, "in", r.stdout)
    check("listens on" not in r.stdout)
    check(server.requests[0].startswith("GET /v1/info HTTP/1.1\r\n"), server.requests)
    check("Authorization" not in server.requests[0])
    r = place.run("--socket", place.path("api.sock"), "version")
    check("berthd 9.8.7\n" in r.stdout, r.stdout)


def info_as_it_is(place):
    text = json.dumps(INFO, indent=3)
    place.serve(http(200, text))
    r = place.run("--socket", place.path("api.sock"), "info", "--json")
    equal((r.returncode, r.stdout), (0, text + "\n"))


def info_of_another_version(place):
    place.serve(http(200, {"version": "1", "new": {"deep": [1, {"x": None}]}, "runtime": None,
                           "cgroups": {"version": "v3", "new": 1}}))
    r = place.run("--socket", place.path("api.sock"), "info")
    equal((r.returncode, r.stderr), (0, ""))
    check("v3" in r.stdout and "none: see `berth doctor`" in r.stdout, r.stdout)


def hostile_text(place):
    place.serve(http(200, {**INFO, "kernel": "a\033[2Jb\nc\u009bd", "version": "v" * 100000}))
    r = place.run("--socket", place.path("api.sock"), "info")
    equal(r.returncode, 0)
    check("a?[2Jb?c?d" in r.stdout and "\033" not in r.stdout, r.stdout[-500:])
    check(len(r.stdout) < 4000)


def error_answers(place):
    body = {"error": "there is no such thing\007", "code": "not_found", "sandbox": "x", "n": [1]}
    place.serve(http(404, body))
    r = place.run("--socket", place.path("api.sock"), "info")
    equal((r.returncode, r.stdout, r.stderr),
          (1, "", "berth: there is no such thing? (not_found)\n"))
    r = place.run("--socket", place.path("api.sock"), "info", "--json")
    equal((r.returncode, json.loads(r.stdout)), (1, body))


def odd_answers(place):
    big = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (17 * 1024 * 1024)
    deep = "[" * 1000000
    for number, (answer, wanted) in enumerate([
            (http(500, "<html>", "text/html"), "answered 500 without saying why"),
            (http(502, ""), "answered 502 without saying why"),
            (http(302, "").replace(b"\r\n\r\n", b"\r\nLocation: http://127.0.0.1:1/\r\n\r\n"),
             "answered 302 without saying why"),
            (http(200, "<html>", "text/html"), "cannot be understood"),
            (http(200, ""), "cannot be understood"),
            (http(200, deep), "cannot be understood"),
            (http(200, '{"pid": "x"}'), "cannot be understood"),
            (big, "more than 16 MiB"),
            (b"", "closed the connection without an answer"),
            (b"SSH-2.0-x\r\n", ""),
            (http(200, INFO)[:-5], "broke off: not everything has come")]):
        name = f"{number}.sock"
        place.serve(answer, name)
        r = place.run("--socket", place.path(name), "info")
        equal((r.returncode, r.stdout), (1, ""), number)
        equal(r.stderr.count("\n"), 1, r.stderr)
        check(wanted in r.stderr, number, r.stderr)
        r = place.run("--socket", place.path(name), "info", "--json")
        check(r.returncode == 1, "with --json too", number)


def by_url(place):
    server, url = place.serve_tcp(http(200, INFO))
    r = place.run("--url", url + "/", "info", env={"BERTH_TOKEN": "t0ken"})
    equal((r.returncode, r.stderr), (0, ""))
    check(server.requests[0].startswith("GET /v1/info HTTP/1.1\r\n"))
    check("\r\nAuthorization: Bearer t0ken\r\n" in server.requests[0], server.requests)
    r = place.run("info", env={"BERTH_TOKEN": "t\r\nX: y", "BERTH_URL": url})
    equal((r.returncode, len(server.requests)), (1, 1))
    for url in ("file:///etc/passwd", "gopher://127.0.0.1/x", "127.0.0.1:80", "http://127.0.0.1:99999"):
        r = place.run("--url", url, "info")
        equal((r.returncode, r.stdout, r.stderr.count("\n")), (2, "", 1), r.stderr)
    closed, url = place.serve_tcp(b"")
    closed.close()
    place.servers.remove(closed)
    r = place.run("--url", url, "info")
    equal(r.returncode, 3)
    check(f"no berthd answers on {url}" in r.stderr, r.stderr)


def no_proxy(place):
    server, url = place.serve_tcp(http(200, INFO))
    proxy, proxy_url = place.serve_tcp(http(200, INFO))
    r = place.run("--url", url, "info", env={"BERTH_TOKEN": "t0ken", "http_proxy": proxy_url,
                                             "all_proxy": proxy_url})
    equal((r.returncode, len(server.requests), len(proxy.requests)), (0, 1, 0), r.stderr)


def refused_tokens(place):
    _, url = place.serve_tcp(http(401, {"error": "who are you?", "code": "unauthorized"}))
    r = place.run("--url", url, "info")
    equal((r.returncode, r.stderr), (1, f"berth: {url} wants a token: set BERTH_TOKEN\n"))
    r = place.run("--url", url, "info", env={"BERTH_TOKEN": "t0ken"})
    equal((r.returncode, r.stderr),
          (1, f"berth: {url} wants a token: the one in BERTH_TOKEN is not accepted\n"))


def doctor_plain(place):
    env = {"PATH": "/usr/bin:/bin", "HOME": place.dir}
    place.env = {k: v for k, v in place.env.items() if k.endswith("_OPTIONS")}
    r = place.run("doctor", "--state-dir", place.path("s"), "--run-dir", place.path("r"), env=env)
    check(r.returncode in (0, 1), r.returncode)
    equal(r.stderr, "")
    lines = [l for l in r.stdout.splitlines() if l and not l.startswith(" ")]
    for name in ("kernel", "memory", "open files", "inotify", "runtime", "user namespaces",
                 "cgroups", "overlay", "seccomp", "ids", "state directory", "disk space", "run directory",
                 "daemon"):
        check(any(l.split(None, 1)[1].startswith(name) for l in lines[:-1]), name, r.stdout)
    check(all(l.split()[0] in ("ok", "warn", "note", "missing") for l in lines[:-1]), r.stdout)
    equal(r.returncode, int(any(l.startswith("missing") for l in lines)))
    check(not os.path.exists(place.path("s")), "it changes nothing")


def doctor_json(place):
    r = place.run("doctor", "--json", "--state-dir", place.path("s"), "--run-dir", place.path("r"))
    found = json.loads(r.stdout)
    equal((r.returncode, found["abilities"]), (0 if found["ok"] else 1, None))
    for item in found["checks"]:
        equal(sorted(item), ["mend", "message", "name", "status"])
        check(item["status"] in ("ok", "warn", "note", "missing"))
        check(item["status"] != "ok" or item["mend"] is None)
    equal(found["ok"], all(i["status"] != "missing" for i in found["checks"]))


def doctor_finds(place):
    def found(name, *args, **more):
        r = place.run("doctor", "--json", *args, **more)
        item = [i for i in json.loads(r.stdout)["checks"] if i["name"] == name][0]
        return r.returncode, item["status"], item["message"], item["mend"]

    code, status, message, _ = found("runtime", "--runtime", "/nonexistent/crun")
    equal((code, status, message), (1, "missing", "/nonexistent/crun is no program"))
    script = place.path("runx")
    with open(script, "w", encoding="utf-8") as out:
        out.write("#!/bin/sh\nexit 3\n")
    os.chmod(script, 0o755)
    code, status, message, _ = found("runtime", "--runtime", script)
    equal((code, status), (1, "missing"))
    with open(script, "w", encoding="utf-8") as out:
        out.write("#!/bin/sh\nprintf 'runx 1\\033[2J\\nmore\\n'\n")
    _, status, message, _ = found("runtime", "--runtime", script)
    equal((status, message), ("warn", f"runx 1?[2J ({script}) does not look like an OCI runtime"))
    with open(script, "w", encoding="utf-8") as out:
        out.write("#!/bin/sh\nprintf 'runx version 1\\nspec: 1.0.2\\n'\n")
    _, status, message, _ = found("runtime", "--runtime", script)
    equal((status, message), ("ok", f"runx version 1 ({script})"))
    equal(found("state directory", "--state-dir", "a/b")[1:3], ("ok", "a/b can be made"))
    status, message = found("disk space", "--state-dir", "/proc/berth")[1:3]
    equal((status, message), ("warn", "0 bytes free for /proc/berth"))
    code, status, _, mend = found("state directory", "--state-dir", script + "/s")
    equal((code, status), (1, "missing"))
    equal(mend, "choose another with --state-dir")
    os.mkdir(place.path("closed"), 0o700)
    os.chmod(place.path("closed"), 0o700)
    wanted = "warn" if os.geteuid() == 0 else "ok"
    equal(found("state directory", "--state-dir", place.path("closed", "s"))[1], wanted)
    if os.geteuid() == 0:
        code, status, _, _ = found("state directory", "--state-dir", place.path("closed", "s"),
                                   user=65534, group=65534, extra_groups=[])
        equal((code, status), (1, "missing"))
    place.serve(http(200, {"ok": True}))
    equal(found("daemon", "--socket", place.path("api.sock"))[1], "ok")
    check(stat.S_ISSOCK(os.stat(place.path("api.sock")).st_mode))


def doctor_elsewhere(place):
    """Of a daemon that BERTH_SOCKET names it looks at the directories that the daemon has."""
    def found(names):
        r = place.run("doctor", "--json", env={"BERTH_SOCKET": place.path("api.sock")})
        return {i["name"]: i for i in json.loads(r.stdout)["checks"] if i["name"] in names}
    dirs = ("state directory", "run directory", "disk space", "daemon")
    items = found(dirs)
    equal((items["state directory"]["status"], sorted(items)), ("warn", ["daemon", "state directory"]), items)
    check(place.path("api.sock") in items["state directory"]["message"], items)
    equal(items["daemon"]["mend"], f"berth --socket {place.path('api.sock')} up", items)
    os.mkdir(place.path("state"))
    place.serve(http(200, {**INFO, "state_dir": place.path("state"), "run_dir": place.path("run")}))
    items = found(dirs)
    equal(items["state directory"]["message"], place.path("state"), items)
    equal(items["run directory"]["message"], place.path("run") + " can be made", items)
    check(place.path("state") in items["disk space"]["message"], items)


main([
    ("a missing daemon is one sentence and exit code 3", missing),
    ("a stale socket is told apart", stale),
    ("a file that is no socket is told apart", not_a_socket),
    ("permission denied is told apart", forbidden),
    ("paths longer than a socket address", long_path),
    ("info as a table", info),
    ("info --json as the daemon sends it", info_as_it_is),
    ("info of a newer or older daemon", info_of_another_version),
    ("text from outside cannot steer the terminal", hostile_text),
    ("an error answer shows its sentence and code", error_answers),
    ("answers that are no answers are one sentence", odd_answers),
    ("a daemon on TCP, with a token", by_url),
    ("a proxy in the environment does not see the token", no_proxy),
    ("a refused token says which variable to set", refused_tokens),
    ("doctor in a plain environment", doctor_plain),
    ("doctor --json", doctor_json),
    ("doctor of a daemon elsewhere", doctor_elsewhere),
    ("doctor finds what is missing", doctor_finds),
])
