"""What no text file of the project may hold."""

import re

from tree import Finding, Rule, line_of

# Nothing is fetched from a registry, by tests least of all; images are made here.
REGISTRY = re.compile(r"\b(docker\.(io|com)|ghcr\.io|quay\.io|gcr\.io|pkg\.dev|azurecr\.io|"
                      r"mcr\.microsoft\.com|ecr\.aws|registry\.[a-z0-9-]+\.[a-z]+)\b")
# Paths of the machine that somebody worked on. A path that goes on from another one is fine.
MACHINE = re.compile(r"(?<![\w.>})*])/(wor[k]|roo[t])/|\.pyen[v]\b")
SUPPRESSION = re.compile(r"(cppcheck-suppress|shellcheck disable=)[ \t]*(\S+)(.*)")


def search(pattern, what):
    def check(tree):
        for path in tree.paths():
            text = tree.texts[path]
            for match in pattern.finditer(text):
                yield Finding(path, line_of(text, match.start()), what.format(match[0].strip()))

    return check


def check_end(tree):
    for path in tree.paths():
        text = tree.texts[path]
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            yield Finding(path, line_of(text, len(text)), "must end with one newline")


def check_suppressions(tree):
    """Behind the name of what is suppressed stands why: "; reason" or "# reason"."""
    for path in tree.paths():
        for match in SUPPRESSION.finditer(tree.texts[path]):
            is_pattern = path.startswith("tests/lint/")
            if not is_pattern and not re.match(r"\s*[;#]\s*\w+", match[3]):
                yield Finding(path, line_of(tree.texts[path], match.start()),
                              f"{match[1]} {match[2]} without a reason")


RULES = [
    Rule("registry", search(REGISTRY, "names a registry: {}"), [
        ("an image by registry", {"README.md": "Use docker" + ".io/library/debian.\n"}),
        ("another registry", {"images/a.json": '{"from": "registry' + '.example.org/a"}\n'}),
    ]),
    Rule("machine-path", search(MACHINE, "a path of one machine: {}"), [
        ("a checkout", {"scripts/a": "cd /wor" + "k/berth\n"}),
        ("root's home", {"tests/a.py": 'x = "/roo' + 't/x"\n'}),
    ]),
    Rule("trailing-space", search(re.compile(r"[ \t\r]+$", re.M), "white space at the end of a line"), [
        ("a space", {"NEWS.md": "new \n"}),
        ("a carriage return", {"base/a.h": "int a;\r\n"}),
    ]),
    Rule("last-newline", check_end, [
        ("none", {"meson.build": "project('a')"}),
        ("two", {"meson.build": "project('a')\n\n"}),
    ]),
    Rule("suppression", check_suppressions, [
        ("cppcheck's", {"base/a.c": "// cppcheck-suppress nullPointer\n"}),
        ("shellcheck's", {"scripts/a": "# shellcheck disable=SC2086\n"}),
    ]),
]

GOOD = {
    "a.md": "/workspace, /proc/self/roo" + "t/etc, <state>/wor" + "k/x, rootfs\n",
    "base/a.c": "// cppcheck-suppress nullPointer ; the table above excludes it\n",
    "scripts/a": "# shellcheck disable=SC2086 # words are wanted\n",
    "empty": "",
}
