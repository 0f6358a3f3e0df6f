"""The command line itself: help, wrong words, exit codes, output."""

import os
import pty
import subprocess
import sys

from harness import HERE, INFO, check, equal, http, main

VERBS = ["run", "exec", "code", "repl", "context", "runs", "shell", "attach", "create", "ls", "top", "inspect", "start", "sleep", "wake", "stop", "rm", "prune", "events", "ps", "logs",
         "wait", "kill", "session", "alarm", "expose", "unexpose", "ports", "open", "forward", "files", "cat", "put", "cp", "tar", "watch", "up", "down", "info", "doctor", "version", "help",
         "complete"]


def readme(title):
    """A section of README.md."""
    with open(os.path.join(os.path.dirname(os.path.dirname(HERE)), "README.md"), encoding="utf-8") as file:
        return file.read().split(f"\n## {title}\n")[1].split("\n## ")[0]


def help_lists_verbs(place):
    for args in (["--help"], ["-h"], ["help"]):
        r = place.run(*args)
        equal((r.returncode, r.stderr), (0, ""), args)
        for verb in VERBS:
            check(f"\n  {verb} " in r.stdout, verb)
        check("Exit codes:" in r.stdout and "no daemon answers" in r.stdout)
        check("BERTH_SOCKET" in r.stdout and "Examples:" in r.stdout)


def each_verb_has_help(place):
    for verb in VERBS:
        first = place.run(verb, "--help")
        equal(first.returncode, 0, verb)
        check(first.stdout.startswith(f"Usage: berth {verb}"), first.stdout)
        check("Examples:" in first.stdout and "--json" in first.stdout, verb)
        equal(place.run("help", verb).stdout, first.stdout, verb)
        equal(max(len(line) for line in first.stdout.splitlines()) <= 100, True, verb)


def each_script_has_help(place):
    scripts = os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts")
    for name in sorted([n for n in os.listdir(scripts) if n != "systemd"] + ["systemd/install"]):
        for flag in ("-h", "--help"):
            r = place.run(flag, program=os.path.join(scripts, name))
            equal((r.returncode, r.stderr), (0, ""), name)
            check(f"scripts/{name}" in r.stdout or f"usage: {name}" in r.stdout, name, r.stdout)


def version_flag(place):
    r = place.run("--version")
    equal(r.returncode, 0)
    check(r.stdout.startswith("berth ") and r.stdout.count("\n") == 1, r.stdout)


def wrong_words(place):
    for args, wanted in [
            (["inf"], "berth: there is no verb `inf`; did you mean `info`?\n"),
            (["docter"], "berth: there is no verb `docter`; did you mean `doctor`?\n"),
            (["xyzzy"], "berth: there is no verb `xyzzy`; `berth help` lists them\n"),
            (["x\033[31m" + "y" * 5000], None),
            (["help", "dwon"], "berth: there is no verb `dwon`; did you mean `down`?\n"),
            (["up", "--sate-dir", "x"],
             "berth: berth up has no flag `--sate-dir`; did you mean `--state-dir`?\n"),
            (["--frobnicate"], "berth: berth has no flag `--frobnicate`; `berth --help` lists them\n"),
            (["down", "--user", "x"], "berth: berth down has no flag `--user`; `berth down --help` lists them\n"),
            (["up", "--log-level", "bogus"], "berth: --log-level wants error, warn, info or debug\n"),
            (["put", "-m", "10000", "box:x"],
             "berth: --mode wants an octal number such as 0644, 7777 at most\n"),
            *(([verb, "a b"], "berth: `a b` is no sandbox's ID: 1 to 63 letters, digits and hyphens, "
                              "with no hyphen at its ends\n")
              for verb in ("inspect", "start", "sleep", "wake", "stop", "rm", "create")),
            (["info", "-x"], None),
            (["up", "--state-dir"], "berth: `--state-dir` wants a value: --state-dir DIR\n"),
            (["up", "--state-dir="], "berth: `--state-dir` wants a value: --state-dir DIR\n"),
            (["info", "--json=yes"], "berth: `--json` takes no value\n"),
            (["info", "more"], "berth: berth info does not know what to do with `more`\n"),
            (["info", "--", "--json"], "berth: berth info does not know what to do with `--json`\n"),
            (["--socket", "a", "--url", "http://b", "info"],
             "berth: --socket and --url exclude each other\n"),
            (["down", "--timeout", "soon"], "berth: --timeout wants seconds, from 1 to 86400\n"),
            (["down", "--timeout", "0"], None),
            (["--url", "http://127.0.0.1:1", "up"], None),
            (["--url", "http://127.0.0.1:1", "down"], None),
            ([], "berth: what should be done? `berth help` lists the verbs\n")]:
        r = place.run(*args)
        equal((r.returncode, r.stdout), (2, ""), args)
        equal(r.stderr.count("\n"), 1, args)
        check("\033" not in r.stderr, args)
        if wanted:
            equal(r.stderr, wanted, args)


WRONG_VALUES = [
    (["create", "--cpus", "lots"], "--cpus wants a number"),
    (["create", "--pids", "lots"], "--pids wants a number"),
    (["create", "--pids", "-1"], "--pids wants a number"),
    (["create", "--memory", "lots"], "--memory wants a size"),
    *((["create", flag, "soon"], f"{flag} wants a duration")
      for flag in ("--sleep-after", "--max-awake", "--stop-after", "--delete-after", "--stop-grace")),
    (["create", "--sleep-mode", "deep"], "--sleep-mode wants"),
    (["create", "--image", b"\xff"], "no text"),
    (["expose", "--name", b"\xff", "box", "80"], "no text"),
    (["expose", "--name", "x" * 70000, "box", "80"], "too long"),
    (["expose", "box", "0"], "port"),
    (["unexpose", "box", "x"], "port"),
    (["forward", "box", "x"], "PORT[:LOCAL]"),
    (["prune", "--older-than", "soon"], "--older-than"),
    (["events", "--since", "x"], "--since"),
    (["kill", "--signal", "NOSUCH", "box", "p"], None),
    (["kill", "box", "a b"], "a b"),
    (["logs", "--tail", "x", "box", "p"], None),
    (["session", "nonsense", "box"], None),
    (["alarm", "set", "box"], None),
    (["cp", "a", "b"], None),
    (["put", "-m", "x", "box:x"], "--mode"),
    (["--url", "ftp://x", "info"], "no address of a daemon"),
    (["up", "--listen", "nonsense"], "--listen"),
    (["up", "--preview", "nonsense"], "--preview"),
    (["up", "--preview-url", "nonsense"], "--preview-url"),
    (["up", "--socket-group", "no-such-group"], "no-such-group"),
    (["up", "--config", "/nonexistent"], "/nonexistent"),
    (["up", "--listen", "127.0.0.1:0"], "--token-file"),
]


def wrong_values(place):
    """What was typed can mean nothing: that is 2, and needs no daemon to be told."""
    place.use_daemon("real")
    for args, wanted in WRONG_VALUES:
        where = place.daemon_flags() if args[0] == "up" else [] if args[0] == "--url" else ["--socket", place.path("none.sock")]
        r = place.run(*where, *args)
        equal((r.returncode, r.stdout, r.stderr.count("\n")), (2, "", 1), (args[:3], r.stderr[:300]))
        check(not wanted or wanted in r.stderr, args[:3], r.stderr[:300])


def long_name(place):
    """What is too long for a name the daemon says."""
    server = place.serve(http(400, {"error": "name must be shorter", "code": "invalid_request"}))
    r = place.run("--socket", place.path("api.sock"), "expose", "--name", "x" * 2000, "box", "80")
    equal((r.returncode, r.stderr, len(server.requests)), (1, "berth: name must be shorter (invalid_request)\n", 1), r.stderr)


def commands_own_codes(place):
    """Whoever gives a command's code says 125 of all that is Berth's failure; the others 1, 2, 3."""
    words = {"run": ["true"], "exec": ["box", "true"], "wait": ["box", "x"], "shell": ["box"], "attach": ["box"], "code": ["box"],
             "repl": ["box"]}
    for verb in VERBS:
        own = 125 if verb in words else 2
        for args in (["--bogus"], ["--json=yes"], ["--socket"], ["--socket", "a", "--url", "http://b", *words.get(verb, [])]):
            if args[0] == "--socket" and len(args) > 1 and verb in ("help", "complete"):
                continue
            r = place.run(verb, *args)
            equal((r.returncode, r.stdout, r.stderr.count("\n")), (own, "", 1), (verb, args))
    for verb, more in words.items():
        for args in ([], ["--socket", place.path("none.sock"), *more]):
            r = place.run(verb, *args, input="1")
            equal((r.returncode, r.stdout, r.stderr.count("\n")), (125, "", 1), (verb, args))
        check("125" in place.run(verb, "--help").stdout, verb)
    for args in (["wait", "--log", "", "box", "x"], ["wait", "--port", "0", "box", "x"], ["attach", "a", "b", "c"],
                 ["exec", "-e", "", "box", "true"], ["run", "--timeout", "soon", "true"]):
        equal(place.run(*args).returncode, 125, args)
    server = place.serve(http(200, {"for": "exit", "process": {"id": "x", "exit_code": 0}, "log": {"text": "y"}}))
    for args in (["--json"], ["--log", "y"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            r = place.run("--socket", place.path("api.sock"), "wait", *args, "box", "x", stdout=full)
        equal((r.returncode, r.stderr.count("\n")), (125, 1), (args, r.stderr))
    equal(len(server.requests), 2)
    for text in (place.run("help").stdout.split("Exit codes:")[1], readme("Exit codes")):
        for verb in words:
            check(verb in text, verb, text)


def empty_values(place):
    """Only where an empty value means something."""
    for verb in ("shell", "attach"):
        for args in (["--detach-keys", "", "box"], ["--detach-keys=", "box"]):
            r = place.run(verb, *args)
            equal((r.returncode, r.stderr), (125, "berth: this needs a terminal; without one there is `berth exec`\n"), args)
        r = place.run(verb, "box", "--detach-keys")
        equal((r.returncode, r.stderr), (125, "berth: `--detach-keys` wants a value: --detach-keys KEYS\n"), verb)


def removal(place):
    """How everything goes is written down, with flags that exist, for root and for anybody else."""
    text = readme("Removing Berth")
    for words in ("berth ls -q --all |", "berth down --stop-all", "/var/lib/berth", "/run/berth", "userdel berth",
                  "unshare --map-root-user --map-auto rm -rf ~/.local/state/berth"):
        check(words in text, words)
    for verb, flag in (("ls", "-q"), ("ls", "--all"), ("down", "--stop-all")):
        check(flag in place.run(verb, "--help").stdout, verb, flag)


def flags_on_both_sides(place):
    missing = place.path("none.sock")
    for args in (["--socket", missing, "info"], ["info", "--socket", missing],
                 ["info", "--socket=" + missing], ["--socket", "/x", "info", "--socket", missing]):
        r = place.run(*args)
        equal(r.returncode, 3, args)
        check(missing in r.stderr, r.stderr)
    r = place.run("info", env={"BERTH_SOCKET": missing})
    check(missing in r.stderr, r.stderr)
    r = place.run("info", "--socket", missing, env={"BERTH_URL": "http://127.0.0.1:1"})
    check(missing in r.stderr, "a flag outranks the environment", r.stderr)
    both = {"BERTH_URL": "http://127.0.0.1:1", "BERTH_SOCKET": "/x"}
    r = place.run("info", env=both)
    equal((r.returncode, r.stderr), (2, "berth: BERTH_SOCKET and BERTH_URL are both set: unset one, "
                                        "or use --socket or --url\n"))
    r = place.run("info", "--run-dir", place.path("rn"), env=both)
    equal(r.returncode, 3)
    check(place.path("rn", "berthd", "api.sock") in r.stderr, r.stderr)


def unwritable_output(place):
    with open("/dev/full", "w", encoding="utf-8") as full:
        r = place.run("--help", stdout=full)
    equal(r.returncode, 1)
    equal(r.stderr, "berth: cannot write the answer: No space left on device\n")
    r = subprocess.run(["/bin/sh", "-c", 'exec "$0" --help >&-', place.berth], env=place.env,
                       stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    equal((r.returncode, r.stderr), (1, "berth: cannot write the answer: Bad file descriptor\n"))


def closed_descriptors(place):
    server = place.serve(http(200, INFO))
    r = subprocess.run(["/bin/sh", "-c", 'exec "$0" info --socket "$1" <&- >&- 2>&-', place.berth,
                        place.path("api.sock")], env=place.env, check=False, timeout=60)
    equal(r.returncode, 1)
    # Had the connection become fd 1, the table would have been sent to the server.
    equal((len(server.requests), server.requests[0].count("\r\n\r\n")), (1, 1))


def on_a_terminal(place, env):
    """What `berth doctor` writes to a terminal."""
    leader, follower = pty.openpty()
    try:
        r = place.run("doctor", env={"TERM": "xterm", **env}, stdout=follower)
        check(r.returncode in (0, 1), r.stderr)
        os.set_blocking(leader, False)
        return os.read(leader, 65536)
    finally:
        os.close(leader)
        os.close(follower)


def colours(place):
    check(b"\033[32m" in on_a_terminal(place, {}), "a terminal gets colours")
    check(b"\033" not in on_a_terminal(place, {"NO_COLOR": "1"}), "NO_COLOR")
    check(b"\033" not in on_a_terminal(place, {"TERM": "dumb"}), "TERM=dumb")
    check("\033" not in place.run("doctor", env={"TERM": "xterm"}).stdout, "a pipe gets none")


def other_programs(place):
    for name in ("berth-keeper", "berth-init"):
        program = os.path.join(sys.argv[1], name)
        r = place.run("--version", program=program)
        equal((r.returncode, r.stdout.split()[0]), (0, name))
        equal(place.run("--help", program=program).returncode, 0, name)
        for args in ([], ["--nonsense"], ["more"]):
            r = place.run(*args, program=program)
            equal((r.returncode, r.stdout, r.stderr.count("\n")), (2, "", 1), name)
    check(os.path.getsize(os.path.join(sys.argv[1], "berth-init")) <= 128 * 1024, "size of init")
    r = subprocess.run(["ldd", os.path.join(sys.argv[1], "berth-init")], capture_output=True,
                       text=True, check=False)
    check("not a dynamic" in r.stderr or "statically linked" in r.stdout, r.stdout, r.stderr)


main([
    ("help lists all verbs, exit codes and variables", help_lists_verbs),
    ("each verb has help with examples", each_verb_has_help),
    ("each script has help", each_script_has_help),
    ("--version", version_flag),
    ("wrong words are one sentence and exit code 2", wrong_words),
    ("values that can mean nothing are one sentence and exit code 2", wrong_values),
    ("a name that is too long", long_name),
    ("run, exec, wait, shell, attach say 125 of Berth's failures", commands_own_codes),
    ("a value may be empty where that means something", empty_values),
    ("how Berth is removed is written down", removal),
    ("flags stand before or after the verb and outrank the environment", flags_on_both_sides),
    ("output that cannot be written is a failure", unwritable_output),
    ("closed descriptors do not become our output", closed_descriptors),
    ("colours only on a terminal that wants them", colours),
    ("keeper and init say what they are; init is small and static", other_programs),
])
