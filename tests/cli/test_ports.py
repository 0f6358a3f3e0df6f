"""expose, ports, open and unexpose with the real daemon, and where `up` has it serve previews."""

import json
import os
import pty
import re
import socket
import time

from harness import check, equal, http, main

LONG = "a" * 63


def up(place, *flags):
    if not os.path.exists(place.path("berthd")):
        place.use_daemon("real")
    r = place.run("up", *place.daemon_flags(), *flags)
    equal(r.returncode, 0, r.stderr)
    place.env["BERTH_SOCKET"] = place.daemon_socket()
    return r


def down(place):
    equal(place.run("down").returncode, 0, "down")


def said(r):
    equal((r.returncode, r.stderr), (0, ""), r.stdout)
    return r.stdout


def whole_life(place):
    up(place, "--preview", "127.0.0.1:0")
    port = json.loads(said(place.run("info", "--json")))["preview"].rpartition(":")[2]
    text = said(place.run("info"))
    check(re.search(rf"previews on +127\.0\.0\.1:{port}\n", text), text)
    check(re.search(rf"previews at +http://localhost:{port}\n", text), text)
    equal(said(place.run("ports")), "", "none yet")
    url = said(place.run("expose", "web", "8080", "--name", "my site"))
    check(re.fullmatch(rf"http://8080-web-[a-z0-9]{{16}}\.localhost:{port}/\n", url), url)
    equal(said(place.run("expose", "web", "8080")), url, "again")
    public = f"http://80-db.localhost:{port}/"
    equal(said(place.run("expose", "db", "80", "--public")), public + "\n", "public")
    chosen = json.loads(said(place.run("expose", "db", "81", "--token", "letmein2026", "--json")))
    equal((chosen["token"], chosen["public"]), ("letmein2026", False), chosen)
    head, *rows = [re.split(r" {2,}", line.strip()) for line in said(place.run("ports")).splitlines()]
    equal(head, ["SANDBOX", "PORT", "NAME", "PUBLIC", "URL"], "the table's head")
    equal(rows, [["db", "80", "-", "yes", public], ["db", "81", "-", "no", chosen["url"]],
                 ["web", "8080", "my site", "no", url.strip()]], "the table")
    equal(len(said(place.run("ports", "db")).splitlines()), 3, "of one")
    told = json.loads(said(place.run("ports", "--json")))["ports"]
    equal([(p["sandbox"], p["port"], p["public"]) for p in told], [("db", 80, True), ("db", 81, False), ("web", 8080, False)], told)
    check(public in said(place.run("inspect", "db")), "inspect")
    equal(said(place.run("open", "web", "8080")), url, "without a terminal it is printed")
    equal(said(place.run("complete", "--", "open", "db", "8")), "=80\n=81\n", "completion")
    equal(said(place.run("unexpose", "web", "8080")), "8080\n", "unexpose")
    equal(said(place.run("unexpose", "web", "8080")), "8080\n", "twice")
    r = place.run("open", "web", "8080")
    equal((r.returncode, r.stderr), (1, "berth: port 8080 of `web` is not exposed: `berth expose web 8080` does that\n"))
    equal(place.run("ports", "nobody").returncode, 1, "no such sandbox")
    down(place)


def mistakes(place):
    for args, words in ((["expose", "web"], "which port"), (["expose", "web", "0"], "`0` is no port"),
                        (["expose", "web", "65536"], "is no port"), (["expose", "web", "http"], "is no port"),
                        (["expose", "a/b", "80"], "no sandbox's ID"), (["unexpose", "web"], "which port"),
                        (["open", "web", "80a"], "is no port"), (["open", "web"], "which port"),
                        (["expose", "web", "80", "--token", "letmein2026", "--public"], "--token or --public")):
        r = place.run(*args)
        equal((r.returncode, r.stdout, r.stderr.count("\n")), (2, "", 1), (args, r.stderr))
        check(words in r.stderr, args, r.stderr)
    # Not the one that this machine may really have.
    for args in (("expose", "web", "80"), ("ports",)):
        equal(place.run("--socket", place.path("none.sock"), *args).returncode, 3, "no daemon")
    up(place, "--preview", "127.0.0.1:0")
    r = place.run("expose", "web", "80", "--token", "short")
    equal((r.returncode, r.stdout), (1, ""), r.stderr)
    check("token must be 8 to 32" in r.stderr, r.stderr)
    r = place.run("expose", "web", "80", "--token", "short", "--json")
    equal(json.loads(r.stdout)["code"], "invalid_request", r.stdout)
    down(place)


def no_previews(place):
    """Exposing works without them, and says that there is no URL."""
    up(place, "--preview", "none")
    r = place.run("expose", "web", "80")
    equal((r.returncode, r.stdout), (0, ""), r.stderr)
    check("serves no previews" in r.stderr and " up`" in r.stderr, r.stderr)
    r = place.run("open", "web", "80")
    equal((r.returncode, r.stdout), (1, ""), r.stderr)
    check(" no  -\n" in said(place.run("ports")).replace("      ", " "), "the table")
    down(place)


def on_terminal(place, *args, **env):
    """What it says to a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(place.berth, [place.berth, *args], {**place.env, **env})
    text = b""
    try:
        while more := os.read(terminal, 4096):
            text += more
    except OSError:
        pass  # its last user is gone
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    return code, text.decode().replace("\r\n", "\n")


def browser(place):
    """On a terminal the URL goes to a browser, as one argument and through no shell."""
    url = "http://80-web.localhost:1/$(touch${IFS}x)"
    place.serve(http(200, {"port": 80, "url": url, "hostname": "80-web.localhost", "public": True}))
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    program = place.path("a browser")
    with open(program, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nprintf "%s\\n" "$#" "$1" >"{place.path("opened")}"\n')
    os.chmod(program, 0o755)
    equal(on_terminal(place, "open", "web", "80", BROWSER=f"{program}:another"), (0, url + "\n"), "what it says")
    with open(place.path("opened"), encoding="utf-8") as file:
        equal(file.read(), f"1\n{url}\n", "what it is told")
    code, text = on_terminal(place, "open", "web", "80", BROWSER="/no/such")
    equal(code, 0, text)
    check(text.startswith(url + "\n") and "set BROWSER" in text, text)
    os.unlink(place.path("opened"))
    equal(said(place.run("open", "web", "80", env={"BROWSER": program})), url + "\n", "without a terminal")
    check(not os.path.exists(place.path("opened")), "nothing is opened")


def hostile_answers(place):
    place.serve(http(200, {"sandboxes": [{"id": "a", "ports": [
        {"port": 80, "url": "http://x/\033[2J", "name": "n\nm", "public": False}]}]}))
    place.env["BERTH_SOCKET"] = place.path("api.sock")
    text = said(place.run("ports"))
    check("\033" not in text and text.count("\n") == 2, text)


def take_default():
    """Its port, or nothing if somebody has it who does not let go."""
    for _ in range(100):
        try:
            return socket.create_server(("127.0.0.1", 8620))
        except OSError:
            time.sleep(0.2)
    return None


def default_place(place):
    """127.0.0.1:8620 unless something else is said; a free port, and a sentence, if that is taken."""
    place.use_daemon("real")
    place.env["BERTH_SOCKET"] = place.daemon_socket()
    flags = place.daemon_flags()
    held = take_default()
    try:
        r = place.run("up", *flags, apart=False)
        equal(r.returncode, 0, r.stderr)
        preview = json.loads(said(place.run("info", "--json")))["preview"]
        check(re.fullmatch(r"127\.0\.0\.1:\d+", preview) and preview != "127.0.0.1:8620", preview)
        equal(r.stderr, f"berth: 127.0.0.1:8620 is taken by another program: previews are on {preview} instead\n")
        check(f" preview={preview} taken=127.0.0.1:8620\n" in r.stdout, r.stdout)
        equal(place.run("up", *flags, apart=False).stderr, "", "a daemon that runs is what it is")
        r = place.run("up", *flags, "--preview", "none")
        check(f"--preview {preview}, not none" in r.stderr, r.stderr)
        down(place)
    finally:
        if held:
            held.close()
    # Whether it is free now is for others to say: one of both.
    r = place.run("up", *flags, apart=False)
    equal(r.returncode, 0, r.stderr)
    preview = json.loads(said(place.run("info", "--json")))["preview"]
    check((preview == "127.0.0.1:8620") == (r.stderr == ""), preview, r.stderr)
    down(place)


def said_otherwise(place):
    """By the configuration, or by a flag."""
    place.use_daemon("real")
    place.env["BERTH_SOCKET"] = place.daemon_socket()
    config, flags = place.path("c.json"), place.daemon_flags()
    for text, wanted in (('{"preview": "none"}', None), ('{"preview": "127.0.0.1:0"}', r"127\.0\.0\.1:\d+")):
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        r = place.run("up", *flags, "--config", config, apart=False)
        equal((r.returncode, r.stderr), (0, ""), text)
        preview = json.loads(said(place.run("info", "--json")))["preview"]
        check(preview is None if wanted is None else re.fullmatch(wanted, preview), text, preview)
        down(place)
    url = "https://Preview.example.com/"
    up(place, "--preview", "none", "--preview-url", url)
    up(place, "--preview", "none")
    r = place.run("up", *flags, "--preview", "127.0.0.1:0")
    check("--preview (none), not 127.0.0.1:0" in r.stderr, r.stderr)
    down(place)
    up(place, "--preview", "127.0.0.1:0", "--preview-url", url)
    up(place, "--preview", "127.0.0.1:0", "--preview-url", "https://preview.example.com")
    r = place.run("up", *flags, "--preview-url", "http://other.example.com", apart=False)
    check("--preview-url https://preview.example.com, not http://other.example.com" in r.stderr, r.stderr)
    equal(said(place.run("expose", LONG, "80", "--public")).count(".preview.example.com/\n"), 1, "its URL")
    down(place)
    r = place.run("up", *flags, "--preview-url", "preview.example.com")
    equal(r.returncode, 2, r.stdout)
    check("SCHEME://DOMAIN" in r.stderr, r.stderr)


main([
    ("expose, ports, open, unexpose", whole_life),
    ("mistakes are named", mistakes),
    ("a daemon without previews", no_previews),
    ("a browser is started on a terminal", browser),
    ("what comes from elsewhere does not steer the terminal", hostile_answers),
    ("up serves previews where it says", default_place),
    ("up serves previews where it is told", said_otherwise),
])
