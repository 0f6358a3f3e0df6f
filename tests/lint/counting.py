"""Does tests/run.py count well? It decides what passes, so it is tested like a rule."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import run as runner

# What a program printed, how meson says it ended, and (passed, failed, skipped).
CASES = [
    ("two points", "ok 1 - a\nok 2 - b\n1..2\n", "OK", (2, 0, 0)),
    ("a failed point", "ok 1 - a\nnot ok 2 - b\n1..2\n", "FAIL", (1, 1, 0)),
    ("a failed point, then a crash", "not ok 1 - a\n", "ERROR", (0, 1, 0)),
    ("a crash after a point", "ok 1 - a\n", "ERROR", (1, 1, 0)),
    ("a leak after the plan", "1..1\nok 1 - a\n", "ERROR", (1, 1, 0)),
    ("a timeout", "ok 1\n", "TIMEOUT", (1, 1, 0)),
    ("no output", "", "SKIP", (0, 1, 0)),
    ("no TAP", "hello\n", "SKIP", (0, 1, 0)),
    ("a plan of none without a reason", "1..0\n", "SKIP", (0, 1, 0)),
    ("a whole program skipped", "1..0 # SKIP no root\n", "SKIP", (0, 0, 1)),
    ("a skipped point", "ok 1 - a # SKIP no root\nok 2 - b\n1..2\n", "OK", (1, 0, 1)),
    ("all points skipped", "ok 1 - a # skip no root\n1..1\n", "SKIP", (0, 0, 1)),
    ("a crash after a skipped point", "ok 1 - a # SKIP no root\n", "ERROR", (0, 1, 1)),
    ("what is not done yet", "not ok 1 - a # TODO later\n1..1\n", "OK", (1, 0, 0)),
    ("a hash in a title", "not ok 1 - a #1 and \\# SKIP b\n1..1\n", "FAIL", (0, 1, 0)),
    ("a test that never ran", "", "it did not run", (0, 1, 0)),
    ("words that are no points", "okay\n# not ok 1\n  ok 2\nok 1\n1..1\n", "OK", (1, 0, 0)),
]


def points():
    for title, stdout, result, expected in CASES:
        counts = runner.count("t", stdout, result)
        got = (counts.passed, len(counts.failed), len(counts.skipped))
        yield f"counts {title}", [] if got == expected else [f"got {got}, expected {expected}"]
    good, bad = runner.Counts(1, [], []), runner.Counts(0, ["t: a"], [])
    few = {"b": {"x": good, "y": bad}, "c": {"z": bad}}
    many = {"b": {str(i): bad for i in range(runner.AGAIN_MAX + 1)}}
    yield "runs again what failed, if that is little", \
        [] if runner.may_run_again(few) == [("b", "y"), ("c", "z")] and not runner.may_run_again(many) else ["it does not"]
    yield from chosen()
    allowed = runner.named_skips("x\nSkips: `cli: as root` (no root), `net`\n`other`\n")
    skips = [("cli: as root", ""), ("cli: b", ""), ("net: a", ""), ("net", ""), ("other", "")]
    rest = [name for name, _ in runner.unnamed(skips, allowed)]
    yield "README's Skips line names what may be skipped", \
        [] if rest == ["cli: b", "other"] else [f"not named: {rest}"]


def chosen():
    both, release, sanitized = {runner.SANITIZED, runner.RELEASE}, {runner.RELEASE}, {runner.SANITIZED}
    wrong = [(suites, is_all) for suites, is_all, builds in [
        ({"code"}, False, sanitized), ({"code"}, True, sanitized), ({"release"}, True, release),
        ({"code", "either"}, False, release), ({"code", "either"}, True, both),
    ] if runner.builds_of(suites, is_all) != builds]
    yield "runs each program from the build that it is for", [f"not {w}" for w in wrong]
    wrong = [(suites, wanted, is_all) for suites, wanted, is_all, is_chosen in [
        ({"code"}, [], False, True), ({"code", "more"}, [], False, False), ({"code", "more"}, [], True, True),
        ({"code", "more"}, ["code"], False, True), ({"code"}, ["t"], False, True), ({"code"}, ["x"], True, False),
    ] if runner.is_chosen("t", suites, wanted, is_all) != is_chosen]
    yield "leaves out what is `more`, unless it is asked for", [f"not {w}" for w in wrong]
