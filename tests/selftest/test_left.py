"""`berth selftest` that is interrupted, killed, or far from its daemon: what it says, and what it leaves."""

import json
import signal

from beside import check, equal, ground, main, nothing_left, run, spawn, until

TOKEN = "t" * 40


def test_interrupted(g):
    """After Ctrl-C, SIGTERM and a closed terminal everything is gone, too, wherever it was."""
    for signum, numbers in ((signal.SIGINT, ()), (signal.SIGTERM, ("16", "17", "18")), (signal.SIGHUP, ("3", "23"))):
        process = spawn(g, *numbers)
        line = process.stdout.readline()
        check(" ok  " in line, line, process.stderr.read() if not line else "")
        process.send_signal(signum)
        out, err = process.communicate(timeout=ground.TIMEOUT)
        equal((process.returncode, err), (128 + signum, ""), out)
        nothing_left(g)


def test_killed(g):
    """Killed, it leaves sandboxes that the daemon removes by itself."""
    process = spawn(g)
    check(" ok  " in process.stdout.readline(), "the first row")
    process.kill()
    process.communicate()
    left = g.list_all()
    check(left and all(s["id"].startswith("selftest-") for s in left), left)
    for sandbox in left:
        equal((sandbox["sleep_after"], sandbox["delete_after"]), ("10m", "10m"), sandbox["id"])


def test_daemon_gone(g):
    """A daemon that dies meanwhile is no hole, and nothing that holds."""
    process = spawn(g, "1", "23", "27")
    check(" ok  " in process.stdout.readline(), "the first row")
    g.kill_berthd()
    out, err = process.communicate(timeout=ground.TIMEOUT)
    equal(process.returncode, 2, out + err)
    check(out.count("failed") >= 2 and " HOLE " not in out and "could not be removed" in err, out, err)
    g.start()
    # What was sent when it died may have been done or not: they are gone with the others.
    until(lambda: all(s["state"] != "starting" for s in g.list_all()), "the sandboxes to be adopted")


def test_url(g):
    """Over TCP: what needs this very machine is not tried, and the token is."""
    port = g.start_listening(TOKEN)
    way = ["--url", f"http://127.0.0.1:{port}"]
    code, out, err = run(g, "--json", "9", "16", "23", "25", "37", "40", way=way, env={"BERTH_TOKEN": TOKEN})
    found = {c["number"]: (c["status"], c["message"]) for c in json.loads(out)["checks"]}
    equal({number: status for number, (status, _) in found.items()},
          {9: "untried", 16: "ok", 23: "ok", 25: "ok", 37: "ok", 40: "ok"}, found)
    check("401" in found[37][1], found[37])
    equal((code, err), (0, ""), "exit code")
    code, out, err = run(g, way=way, env={"BERTH_TOKEN": "wrong"})
    equal((code, out), (2, ""), err)
    nothing_left(g)


main([test_interrupted, test_killed, test_daemon_gone, test_url], start=lambda test: test is not test_url)
