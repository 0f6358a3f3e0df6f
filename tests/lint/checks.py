"""SECURITY.md's table of checks: each number has a test that bears it, or a reason why not."""

import re

from tree import Finding, Rule, line_of

DOCUMENT = "SECURITY.md"
NUMBERS = range(1, 45)
EXCUSES_MAX = 5
ROW = re.compile(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", re.M)
EXCUSE = re.compile(r"^- (\d+(?:, \d+)*): \w", re.M)


def bears(text, number):
    """A docstring or a title that begins with it: "7: what", or "[7] what"."""
    return re.search(rf"[\"'](?:{number}: |\[{number}\] )", text)


def check_numbers(tree):
    text = tree.texts.get(DOCUMENT, "")
    if "## The checks by number" not in text:
        return
    seen = []
    for row in ROW.finditer(text):
        number, line = int(row[1]), line_of(text, row.start())
        seen.append(number)
        names = re.findall(r"`([^`]+)`", row[2])
        for name in names:
            path = f"tests/{name}.py"
            if not bears(tree.texts.get(path, ""), number):
                yield Finding(DOCUMENT, line, f"{path} has no test that bears {number}")
        if not names:
            yield Finding(DOCUMENT, line, f"{number} names no test")
    excuses = list(EXCUSE.finditer(text))
    seen += [int(number) for excuse in excuses for number in excuse[1].split(", ")]
    if len(excuses) > EXCUSES_MAX:
        yield Finding(DOCUMENT, line_of(text, excuses[-1].start()), "more reasons than tests deserve")
    for number in NUMBERS:
        if seen.count(number) != 1:
            yield Finding(DOCUMENT, 1, f"check {number} stands there {seen.count(number)} times, not once")


def sample(rows, excuses="", tests=""):
    return {DOCUMENT: "## The checks by number\n\n" + rows + excuses, "tests/a.py": tests}


ALL = "".join(f"| {n} | what | `a` |\n" for n in NUMBERS)
TESTS = "".join(f'"""{n}: what"""\n' if n % 2 else f'("[{n}] what")\n' for n in NUMBERS)

RULES = [
    Rule("check-numbers", check_numbers, [
        ("a number without a test", sample(ALL, "", TESTS.replace("7: what", "what"))),
        ("another number in its place", sample(ALL, "", TESTS.replace("[4] ", "[44] "))),
        ("a number that is missing", sample(ALL.replace("| 9 | what | `a` |\n", ""), "", TESTS)),
        ("a number that is there twice", sample(ALL, "- 3: why not\n", TESTS)),
        ("a file that is not there", sample(ALL.replace("| 5 | what | `a`", "| 5 | what | `b`"), "", TESTS)),
        ("too many reasons", sample("".join(ALL.splitlines(True)[6:]),
                                    "".join(f"- {n}: why not\n" for n in range(1, 7)), TESTS)),
    ]),
]

GOOD = sample(ALL.replace("| 9 | what | `a` |\n", "").replace("| 11 | what | `a` |\n", ""), "- 9, 11: why not\n", TESTS)
