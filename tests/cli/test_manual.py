"""Manual pages and completion: whatever --help names is in both, and both are in good order."""

import json
import os
import re
import shutil
import subprocess

from harness import BUILD, check, equal, main
from shell import PACKAGE, Shell

PAGES = ["berth.1", "berthd.8"]
FLAG = re.compile(r"^  (?:(-\w), )?(--[\w-]+)(?: (\S+))?(?:  +(.*))?$", re.M)


def output(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)
    equal((done.returncode, done.stderr), (0, ""), command)
    return done.stdout


def section(text, title):
    """Of --help; its lines are indented."""
    found = re.search(rf"^{title}:\n((?:  .*\n)+)", text, re.M)
    check(found, title, text)
    return found[1]


def verbs(place):
    """{verb: [(letter, flag)]}, from --help, with those that all have."""
    found = {}
    for name in re.findall(r"^  (\w\S*)  ", section(place.run("--help").stdout, "Verbs"), re.M):
        text = place.run(name, "--help").stdout
        rows = FLAG.findall(section(text, "Flags for every verb"))
        if "\nFlags:\n" in text:
            rows += FLAG.findall(section(text, "Flags"))
        found[name] = [(letter, flag) for letter, flag, _, _ in rows]
    check(len(found) > 15 and ("-e", "--env") in found["exec"], found)
    return found


def daemon_flags():
    rows = FLAG.findall(section(output(os.path.join(BUILD, "berthd"), "--help"), "Flags"))
    check(len(rows) > 10, rows)
    return rows


def rendered(name):
    """As a person reads it, without what makes letters bold, and no line broken."""
    return output("groff", "-man", "-Tascii", "-P-cbou", "-rLL=1000n", os.path.join(BUILD, name))


def subsections(page):
    """{verb: its part of the page}"""
    parts = re.split(r"^   (\w+)\n", page, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def pages_have_no_mistakes(_place):
    for name in PAGES:
        path = os.path.join(BUILD, name)
        done = subprocess.run(["groff", "-ww", "-man", "-z", "-Tutf8", path], capture_output=True, text=True,
                              timeout=60, check=False)
        equal((done.returncode, done.stderr), (0, ""), name)
        lint = subprocess.run(["mandoc", "-T", "lint", path], capture_output=True, text=True, timeout=60,
                              check=False).stdout.splitlines()
        # A date would make two builds of the same tables differ.
        equal([line for line in lint if "missing date" not in line], [], name)


def page_has_every_verb(place):
    page = rendered("berth.1")
    parts, common = subsections(page), page.split("\nFLAGS FOR")[1].split("\nTHE VERBS")[0]
    for verb, flags in verbs(place).items():
        text = place.run(verb, "--help").stdout
        usage = text.splitlines()[0].removeprefix("Usage: ")
        check(usage in parts[verb], verb, usage, parts[verb])
        for letter, flag in flags:
            tag = f"\n       {letter}, {flag}" if letter else f"\n       {flag}"
            check(tag in common or tag in parts[verb], verb, flag)
        for example in re.findall(r"^  (\S.*?)(?:  +.*)?$", section(text, "Examples"), re.M):
            check(example.rstrip() in parts[verb], verb, example)
    text = place.run("--help").stdout
    for title in ("Environment", "Exit codes", "Files"):
        for row in re.findall(r"^  (\S+)", section(text, title), re.M):
            check(re.search(rf"^       {re.escape(row)}\b", page, re.M), title, row)
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "ENVIRONMENT", "FILES", "EXIT STATUS", "SEE ALSO"):
        check(f"\n{title}\n" in page, title)


def page_has_every_daemon_flag(_place):
    page = rendered("berthd.8")
    for letter, flag, value, meaning in daemon_flags():
        tag = (f"{letter}, " if letter else "") + flag + (f" {value}" if value else "")
        check(re.search(rf"^       {re.escape(tag)}\s", page, re.M), tag)
        check(meaning in page or not meaning, meaning)
    for field in ("socket_group", "log_level", "store_sync", "drain", "max_connections", "viewer_timeout",
                  "max_sandboxes", "max_running", "memory_floor", "max_runs", "init_timeout",
                  "autostart", "access_log", "trust", "run_trust", "pool"):
        check(re.search(rf"^       {field}\b", page, re.M), field)
    for word in ("SIGHUP", "EXIT STATUS", "FILES"):
        check(word in page, word)


def shell(place, load):
    return Shell(place.dir, load, {**place.env, "PATH": BUILD + ":" + place.env["PATH"], "TMPDIR": place.dir})


def completion_has_everything(place):
    everything = verbs(place)
    with shell(place, f"source {BUILD}/berth.bash; source {BUILD}/berthd.bash") as s:
        equal(s.words("berth "), sorted(everything), "verbs")
        equal(s.words("berth help "), ["help", *sorted(everything)], "verbs to be explained")
        for verb, flags in everything.items():
            wanted = sorted({word for pair in flags for word in pair if word})
            equal(sorted(s.words(f"berth {verb} -")), sorted([verb, *wanted]), verb)
        for verb in everything:
            equal(s.line(f"berth {verb[:-1]}", "\t"), s.line(f"berth {verb[:-1]}", "\t\t"), "twice is once")
        rows = daemon_flags()
        equal(sorted(s.words("berthd ")), sorted(word for row in rows for word in row[:2] if word), "berthd")


def completion_has_values(place):
    os.mkdir(place.path("a dir"))
    with open(place.path("a file"), "w", encoding="utf-8"):
        pass
    levels = ["debug", "error", "info", "warn"]
    with shell(place, f"source {BUILD}/berth.bash; source {BUILD}/berthd.bash") as s:
        for command in ("berth up", "berthd"):
            words = command.split()[1:]
            equal(s.words(f"{command} --log-level "), [*words, "--log-level", *levels], command)
            equal(s.line(f"{command} --log-level=d"), f"{command} --log-level=debug ", command)
            equal(s.line(f"{command} --socket-group roo"), f"{command} --socket-group root ", command)
            equal(s.line(f"{command} --config a\\ f"), f"{command} --config a\\ file ", command)
            equal(s.line(f"{command} --config=a\\ f"), f"{command} --config=a\\ file ", command)
            equal(s.line(f"{command} --state-dir a"), f"{command} --state-dir a\\ dir/", command)
            equal(s.line(f"{command} --listen a"), f"{command} --listen a", command)
        equal(s.line("berthd --user roo"), "berthd --user root ", "a user")
        equal(s.words("berth sleep --mode "), ["sleep", "--mode", "auto", "freeze", "stop"], "ways to sleep")
        equal(s.line("berth create --sleep-mode=f"), "berth create --sleep-mode=freeze ", "a way to sleep")
        equal(s.line("berth events --type wo"), "berth events --type woke ", "a type of event")


def installed_where_it_is_found(place):
    """As the package bash-completion and man look for it."""
    plan = json.loads(output("meson", "introspect", "--installed", BUILD))
    for source, target in plan.items():
        if "/share/" in target:
            where = place.path("usr/share" + target.split("/share", 1)[1])
            os.makedirs(os.path.dirname(where), exist_ok=True)
            shutil.copy(source, where)
    share = place.path("usr/share")
    for name in PAGES:
        stem, number = name.split(".")
        equal(output("man", "-w", "-M", share + "/man", number, stem).strip(),
              f"{share}/man/man{number}/{name}", "manual page")
    place.env["XDG_DATA_DIRS"] = share
    with shell(place, f"source {PACKAGE}") as s:
        equal(s.line("berth doct"), "berth doctor ", "loaded on first use")
        equal(s.line(f"{BUILD}/berth doct"), f"{BUILD}/berth doctor ", "by a path")
        equal(s.line("berthd --tok"), "berthd --token-file ", "berthd")


main([
    ("manual pages have no mistakes", pages_have_no_mistakes),
    ("berth(1) has every verb, flag, example, variable, file and exit code", page_has_every_verb),
    ("berthd(8) has every flag and setting", page_has_every_daemon_flag),
    ("completion has every verb and every flag", completion_has_everything),
    ("completion has values of flags", completion_has_values),
    ("both are installed where they are looked for", installed_where_it_is_found),
])
