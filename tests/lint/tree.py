"""The files that lint looks at, and C seen without its comments and strings."""

import os
import re
from typing import NamedTuple

SKIPPED_DIRECTORIES = {".git", "node_modules", "__pycache__"}
COMMENT = r"//[^\n]*|/\*.*?\*/"
QUOTED = r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'"
TOKEN = re.compile(f"(?P<comment>{COMMENT})|(?P<quoted>{QUOTED})", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


class Finding(NamedTuple):
    path: str
    line: int
    what: str
    subject: str = ""  # with the path: what an exception in allow.txt names

    @property
    def key(self):
        return f"{self.path}:{self.subject}" if self.subject else self.path


class Rule(NamedTuple):
    name: str
    check: object  # tree -> findings
    samples: list  # of (what is wrong with it, {path: text}); each must be found


class Function(NamedTuple):
    name: str
    line: int
    length: int  # from its brace to its brace
    parameters: int


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def balanced(text, start):
    """What stands between the parenthesis at `start` and its partner."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1 : at]
    return text[start + 1 :]


def split_arguments(text):
    """The arguments of a call or the parameters of a function; commas inside brackets do not count."""
    depth, parts = 0, [""]
    for char in text:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Tree:
    def __init__(self, root):
        self.root = root
        self.texts = {}
        for directory, subdirectories, names in os.walk(root):
            here = os.path.relpath(directory, root)
            subdirectories[:] = [d for d in subdirectories if d not in SKIPPED_DIRECTORIES
                                 and not (here == "." and d.startswith("build"))]
            for name in names:
                path = os.path.normpath(os.path.join(here, name))
                # Samples for the fuzzers are bytes, not text; a worktree's .git is a file.
                if path.startswith("tests/fuzz/corpus/") or path == ".git":
                    continue
                with open(os.path.join(root, path), "rb") as file:
                    content = file.read()
                if b"\0" not in content:
                    self.texts[path] = content.decode("utf-8", "replace")

    def paths(self, *endings):
        return sorted(p for p in self.texts if p.endswith(endings or ""))

    def scripts(self, interpreter, ending):
        """Files of that ending, and those whose first line names the interpreter."""
        first = re.compile(rf"#!.*\b{interpreter}\b")
        return [p for p in self.paths() if p.endswith(ending) or first.match(self.texts[p])]

    def uncommented(self, path):
        return TOKEN.sub(lambda m: blank(m) if m["comment"] else m[0], self.texts[path])

    def code(self, path):
        """Without comments and contents of strings; every offset stays what it was."""
        return TOKEN.sub(lambda m: blank(m) if m["comment"] else '"' + blank(m)[2:] + '"',
                         self.texts[path])

    def functions(self, path):
        """Kernel style makes them easy: a brace alone in the first column opens, one closes."""
        lines = DIRECTIVE.sub(blank, self.code(path)).split("\n")
        opened = None
        for at, line in enumerate(lines):
            if line.rstrip() == "{":
                opened = at
            elif line.startswith("}") and opened is not None:
                yield self.function(lines, opened, at)
                opened = None

    @staticmethod
    def function(lines, opened, closed):
        first = opened
        while first > 0 and lines[first - 1].strip() and lines[first - 1].rstrip()[-1] not in ";}":
            first -= 1
        signature = " ".join(lines[first:opened])
        signature = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", signature)
        name = re.search(r"(\w+)\s*\(", signature)
        if not name:
            return Function("?", first + 1, closed - opened + 1, 0)
        parameters = split_arguments(balanced(signature, name.end() - 1))
        counted = [p for p in parameters if p not in ("void", "...")]
        return Function(name[1], first + 1, closed - opened + 1, len(counted))
