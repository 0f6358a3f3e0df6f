"""Lint as a test: lint.py ROOT FAMILY. Each rule is tried on bad samples, then on the tree.

Exceptions stand in allow.txt, one a line: rule, path or path:subject, reason. One that is no longer
needed is a failure too.
"""

import os
import shutil
import sys
import tempfile

import calls
import checks
import counting
import layers
import sizes
import text
import tools
from tree import Tree

FAMILIES = {
    "layers": (layers.RULES, layers.GOOD),
    "sizes": (sizes.RULES, sizes.GOOD),
    "calls": (calls.RULES, calls.GOOD),
    "checks": (checks.RULES, checks.GOOD),
    "text": (text.RULES, text.GOOD),
    "format": (tools.FORMAT, tools.GOOD),
    "cppcheck": (tools.STATIC, tools.GOOD),
    "scripts": (tools.SCRIPTS, tools.GOOD),
}


def read_exceptions(path):
    """{(rule, key): reason}, and what is wrong with the file."""
    known = {rule.name for rules, _ in FAMILIES.values() for rule in rules}
    exceptions, wrong = {}, []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split(None, 2)
            if not words or line.startswith("#"):
                continue
            if len(words) < 3 or words[0] not in known:
                wrong.append(f"allow.txt:{number}: needs a known rule, a place and a reason")
            else:
                exceptions[words[0], words[1]] = words[2].strip()
    return exceptions, wrong


def find(root, rule, sample):
    """What the rule finds in a tree that holds just this sample."""
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(os.path.join(root, ".clang-format"), directory)
        for path, content in sample.items():
            target = os.path.join(directory, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8", newline="") as file:
                file.write(content)
        return [f for f in rule.check(Tree(directory)) if f.path in sample]


def judge(rule, found, exceptions):
    """Findings that no exception covers, and exceptions that cover none."""
    allowed = {key for name, key in exceptions if name == rule.name}
    bad = [f"{f.path}:{f.line}: {f.what}" for f in found if f.key not in allowed]
    stale = sorted(allowed - {f.key for f in found})
    return bad + [f"allow.txt: {rule.name} {key} is no longer needed" for key in stale]


def points(root, family):
    """(title, what is wrong) of each test point."""
    if family == "counting":
        yield from counting.points()
        return
    rules, good = FAMILIES[family]
    exceptions, wrong = read_exceptions(os.path.join(root, "tests", "lint", "allow.txt"))
    yield "allow.txt gives a reason for each exception", wrong
    tree = Tree(root)
    for rule in rules:
        for title, sample in rule.samples:
            yield f"{rule.name} catches: {title}", [] if find(root, rule, sample) else ["not caught"]
        found = find(root, rule, good)
        yield f"{rule.name} leaves good code alone", [f"{f.path}:{f.line}: {f.what}" for f in found]
        yield f"{rule.name} holds in the tree", judge(rule, list(rule.check(tree)), exceptions)
    rule = rules[0]
    yield "a stale exception is caught", [] if judge(rule, [], {(rule.name, "a.c"): "x"}) else ["no"]


def main(root, family):
    number, has_failed = 0, False
    for title, wrong in points(root, family):
        number += 1
        for line in wrong:
            print(f"# {line}".replace("\n", "\n# "))
        print(f"{'not ok' if wrong else 'ok'} {number} - {title}", flush=True)
        has_failed = has_failed or bool(wrong)
    print(f"1..{number}")
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
