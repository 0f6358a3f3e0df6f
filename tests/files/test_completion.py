"""Tab in a real bash, with a real daemon: IDs, and names of files that somebody else has chosen."""

import os
import socket
import subprocess
import sys

from file_api import check, equal, main, put

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

# pylint: disable=wrong-import-position
from shell import PACKAGE, TAB, Shell  # noqa: E402

SPECIAL = "".join(map(chr, range(32, 127))).replace("/", "")
HOSTILE = ["$(touch PWNED)", "`touch PWNED`", "a b", "  lead", "q'uote", 'q"uote', "back\\slash", "!!", "!$", "~root", "#x",
           "*", "?", "[a]", "{a,b}", "a;touch PWNED", "a|b", "a&", "a>PWNED", "<(touch PWNED)", "$PATH",
           "${x:=y}", "$'\\n'", "-rf", "--help", "a:b", "c=d", "e@f", "=+", "+plus", "\u00e4 \u65e5", "%s%n", "^a^b"]
UNSHOWABLE = [b"new\nline", b"esc\033]0;x\a", b"del\x7f", b"raw\xff\xe9", "c1\u009bm".encode(), b"tab\there",
              b"cr\rx", b"=fake\n=offer"]


# What people have in their ~/.bashrc.
HABITS = ["", f"source {PACKAGE}", "COMP_WORDBREAKS=${COMP_WORDBREAKS//[:=@]}",
          "set -u; shopt -s failglob nocasematch dotglob extglob; IFS=:o"]


def shell(g, directory, habit="", **env):
    path = os.path.abspath(g.build) + ":" + os.environ["PATH"]
    os.makedirs(directory, exist_ok=True)
    berth = os.path.join(os.path.abspath(g.build), "berth.bash")
    return Shell(directory, f"{habit}\nsource {berth}",
                 {**os.environ, "PATH": path, "BERTH_SOCKET": g.socket, "LC_ALL": "C.UTF-8", **env})


def offered(s, text):
    """All that Tab has for the last word. Where a colon breaks words, they come without what is before it."""
    before = text.split()[1:-1]
    words = s.words(text)
    equal(words[: len(before)], before, text)
    return sorted(word.removeprefix("a:") for word in words[len(before):])


def test_ids(g):
    """IDs where a sandbox is wanted, whatever people have in their ~/.bashrc."""
    for name in ("web", "web-2", "db"):
        equal(g.request("POST", "/v1/sandbox", {"id": name}).status, 201, name)
    for habit in HABITS:
        with shell(g, g.path("sh"), habit) as s:
            for verb in ("inspect", "start", "stop", "rm", "exec"):
                equal(s.line(f"berth {verb} d"), f"berth {verb} db ", verb)
            equal(s.words("berth rm "), ["rm", "db", "web", "web-2"], "all")
            equal(s.words("berth rm web d"), ["rm", "web", "db"], "the second")
            equal(s.line("berth run --name=d"), "berth run --name=db ", "a flag's value")
            equal(s.line("berth cat d"), "berth cat db:", "a path follows")
            equal(s.line("berth files d"), "berth files db", "a path may follow")
            equal(s.line("berth exec db d"), "berth exec db d", "a command is the sandbox's")
            equal(s.line("berth exec -w d"), "berth exec -w d", "and so is its place")
            equal(s.line("berth ls d"), "berth ls d", "nothing is wanted")
            equal(s.line("true; berth rm d"), "true; berth rm db ", "not the first command")
            equal(s.line("berth --json inspect 'd"), "berth --json inspect 'db' ", "quoted")
            equal(s.line("berth cat none:x"), "berth cat none:x", "a sandbox that is not there")
            equal(s.line("berth cat db:"), "berth cat db:", "a sandbox that does not run")
    equal(sorted((x["id"], x["state"]) for x in g.list_all()),
          [("db", "cold"), ("web", "cold"), ("web-2", "cold")], "Tab makes and starts nothing")


def test_paths(g):
    """ID:PATH one level at a time, directories with a slash; cp knows which side is which."""
    g.out("a", "mkdir -p src/sub .dot; touch src/one.c src/two.c notes .hidden; ln -s src link; touch 'with space'")
    directory = g.path("sh")
    os.makedirs(os.path.join(directory, "src-here"))
    for name in ("notes-here", "a-here", "\nnew"):
        with open(os.path.join(directory, name), "w", encoding="utf-8"):
            pass
    for habit in HABITS:
        with shell(g, directory, habit) as s:
            equal(s.line("berth cat a:no"), "berth cat a:notes ", "a file")
            equal(s.line("berth cat a:sr"), "berth cat a:src/", "a directory")
            equal(s.line("berth cat a:src/o"), "berth cat a:src/one.c ", "a file in it")
            equal(s.line("berth cat a:/workspace/src/o"), "berth cat a:/workspace/src/one.c ", "absolute")
            equal(s.line("berth cat a:src/t"), "berth cat a:src/two.c ", "another")
            equal(s.line("berth cat a:/etc/passw"), "berth cat a:/etc/passwd ", "elsewhere")
            equal(s.line("berth cat a:li"), "berth cat a:link", "a link may go on")
            equal(s.line("berth cat a:wi"), "berth cat a:with\\ space ", "a space")
            equal(s.line("berth cat a:with\\ s"), "berth cat a:with\\ space ", "a space that was typed")
            equal(s.line("berth cat 'a:with s"), "berth cat 'a:with space' ", "in quotes")
            equal(s.line('berth cat a:"with s'), 'berth cat a:"with space" ', "in quotes behind the colon")
            equal(s.line("berth cat a\\:no"), "berth cat a:notes ", "a quoted colon")
            equal(s.line("berth cat a:.h"), "berth cat a:.hidden ", "a dot")
            equal(offered(s, "berth cat a:src/"), ["src/one.c", "src/sub/", "src/two.c"], "all")
            for verb in ("files", "tar", "put"):
                equal(s.line(f"berth {verb} a:src/s"), f"berth {verb} a:src/sub/", verb)
            equal(s.line("berth put a:x notes"), "berth put a:x notes-here ", "put's second is here")
            equal(s.line("berth cp notes-h"), "berth cp notes-here ", "cp from here")
            equal(s.line("berth cp src-h"), "berth cp src-here/", "a directory here")
            equal(s.line("berth cp a:no"), "berth cp a:notes ", "cp from a sandbox")
            equal(sorted(s.words("berth cp a")), ["a-here", "a:", "cp"], "either")
            equal(s.line("berth cp a:notes a"), "berth cp a:notes a-here ", "then to here")
            equal(s.line("berth cp a-here a"), "berth cp a-here a:", "then to a sandbox")
            equal(s.line("berth cp -r ./s"), "berth cp -r ./src-here/", "a path here")
            equal(s.line("berth tar a:src/sub --ow"), "berth tar a:src/sub --owners ", "flags follow")


def test_hostile_names(g):
    """Names that mean something to a shell come out as they are; nothing of them runs."""
    g.out("a", "mkdir names odd")
    for name in HOSTILE + [SPECIAL]:
        put(g, f"/workspace/names/{name}", b"x")
    for name in UNSHOWABLE:
        put(g, b"/workspace/odd/" + name, b"x")
    put(g, "/workspace/odd/plain", b"x")
    directory = g.path("sh")
    for habit in HABITS:
        with shell(g, directory, habit) as s:
            equal(offered(s, "berth cat a:names/"), sorted(f"names/{n}" for n in HOSTILE + [SPECIAL]), "all")
            equal(s.line("berth cat a:odd/"), "berth cat a:odd/plain ", "what cannot be shown is left out")
            s.line("berth cat a:names/", TAB + TAB)
            s.line("berth cat a:odd/", TAB + TAB)
            check(b"fake" not in s.shown and b"\033]0" not in s.shown and b"\xc2\x9b" not in s.shown,
                  "what was shown")
            equal(s.line('berth cat "a:names/!'), 'berth cat "a:names/!', "no way to write it there")
            equal(s.line("berth cat 'a:names/q'"), "berth cat 'a:names/q'", "a closed quote")
            equal([n for n in os.listdir(directory) if n != ".shellrc"], [], "nothing has run")


def test_every_name(g):
    """Each hostile name alone in its directory: Tab writes it, and the program gets it."""
    g.out("a", "mkdir n")
    names = HOSTILE + [SPECIAL]
    for i, name in enumerate(names):
        g.out("a", f"mkdir n/{i}")
        put(g, f"/workspace/n/{i}/{name}", b"x")
    directory = g.path("sh")
    with shell(g, directory) as s:
        for i, name in enumerate(names):
            for quote in ("", "'", '"'):
                line = f"berth cat {quote}a:n/{i}/"
                if (quote == "'" and "'" in name) or (quote == '"' and "!" in name):
                    equal(s.line(line), line, f"{name!r} cannot stand in {quote}")
                else:
                    equal(s.words(line, TAB), ["cat", f"a:n/{i}/{name}"], f"{quote}{name!r}")
        equal([n for n in os.listdir(directory) if n != ".shellrc"], [], "nothing has run")


def test_silence(g):
    """No daemon, one that hangs, and one elsewhere: no words on the terminal, and not for long."""
    g.out("a", "touch notes")
    hanging = socket.socket(socket.AF_UNIX)
    hanging.bind(g.path("hangs.sock"))
    hanging.listen(8)
    with shell(g, g.path("sh"), BERTH_SOCKET=g.path("none.sock")) as s:
        before = len(s.shown)
        equal(s.line("berth rm a"), "berth rm a", "no daemon")
        equal(s.line("berth cat a:n"), "berth cat a:n", "no daemon")
        line = f"berth --socket {g.path('hangs.sock')} rm a"
        equal(s.line(line), line, "a daemon that hangs")
        # Its own clock has ended it, before the one of a request that nobody answers.
        done = subprocess.run([os.path.join(g.build, "berth"), "--socket", g.path("hangs.sock"), "complete", "--",
                               "rm", "a"], capture_output=True, check=False, timeout=60)
        equal((done.returncode, done.stdout, done.stderr), (1, b"", b""), "a daemon that hangs")
        for flag in (f"--socket {g.socket}", f"--socket={g.socket}", f"--run-dir '{g.run}'"):
            equal(s.line(f"berth {flag} cat a:no"), f"berth {flag} cat a:notes ", "the line says which one")
        equal(s.line("berth nonsense a"), "berth nonsense a", "no such verb")
        equal(s.line("berth rm --nonsense a"), "berth rm --nonsense a", "no such flag")
        check(b"berth:" not in s.shown[before:], bytes(s.shown[before:]))
    hanging.close()


if __name__ == "__main__":
    main([test_ids, test_paths, test_hostile_names, test_every_name, test_silence])
