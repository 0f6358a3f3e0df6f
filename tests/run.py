"""Runs the tests that meson knows and counts TAP test points; scripts/test has built everything.

Tests of the suite `release` run from build/, all others from build-asan/. Those of the suite `either`
have been there as root with the sanitizers, and run from build/ as an ordinary user: with --all from
both. Those of the suite `more` differ from others by the runtime alone, in what hardly depends on it:
they run if they are named, and with --all.

meson itself takes a program that prints nothing for a skipped one; here that is a failure, as is a
crash, a leak or a timeout after the last point.

A program that failed is run once more, alone: many tests hold real processes to what the kernel
does in time, and a machine that does too much at once breaks that. One that passes then is told
as unsteady, by name and with what it said: whoever reads it looks into it. If more than a few
failed, it was not the machine, and none is run again.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

SANITIZED, RELEASE = "build-asan", "build"
SHOWN_LINES = 100
AGAIN_MAX = 3
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
POINT = re.compile(r"(not )?ok\b *\d* *-? *(.*)")
DIRECTIVE = re.compile(r"(?<!\\)# *(SKIP|TODO)\b *", re.I)
EMPTY_PLAN = re.compile(r"1\.\.0\b *(?:# *SKIP\b *(.*))?$", re.I)


class Counts(NamedTuple):
    passed: int
    failed: list  # of names
    skipped: list  # of (name, reason)


def count(name, stdout, result):
    """The points of one program. `result` is meson's word for how the program as a whole ended."""
    passed, failed, skipped = 0, [], []
    lines = stdout.splitlines()
    for line in lines:
        point = POINT.match(line)
        if not point:
            continue
        title, directive, reason = (*DIRECTIVE.split(point[2], maxsplit=1), "", "")[:3]
        if directive.upper() == "SKIP":
            skipped.append((f"{name}: {title.strip()}", reason))
        elif point[1] and directive.upper() != "TODO":
            failed.append(f"{name}: {title.strip()}")
        else:
            passed += 1
    empty = next(filter(None, map(EMPTY_PLAN.match, lines)), None)
    has_points = bool(passed or failed or skipped)
    if result == "SKIP" and not has_points and empty and empty[1] is not None:
        skipped.append((name, empty[1]))
    elif not has_points:
        failed.append(f"{name}: no test points ({result})")
    elif result not in ("OK", "SKIP") and not failed:
        failed.append(f"{name}: the program as a whole ({result})")
    return Counts(passed, failed, skipped)


def named_skips(readme):
    """What the README's lines "Skips: `name` ..." allow: programs, or "program: point"."""
    lines = [line for line in readme.splitlines() if line.startswith("Skips:")]
    return set(re.findall(r"`([^`]+)`", "\n".join(lines)))


def unnamed(skipped, allowed):
    return [s for s in skipped if s[0] not in allowed and s[0].split(":")[0] not in allowed]


def builds_of(suites, is_all):
    """From which of the two builds a test runs."""
    if "either" in suites:
        return {SANITIZED, RELEASE} if is_all else {RELEASE}
    return {RELEASE} if "release" in suites else {SANITIZED}


def is_chosen(name, suites, wanted, is_all):
    if wanted:
        return bool({name, *suites} & set(wanted))
    return is_all or "more" not in suites


def tests_of(build):
    listed = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                            capture_output=True, text=True).stdout
    seen = set()
    for test in json.loads(listed):
        # meson's own log writer dies of two tests with one name.
        if test["name"] in seen:
            sys.exit(f"scripts/test: two tests are called \"{test['name']}\"")
        seen.add(test["name"])
        yield test["name"], {s.split(":")[-1] for s in test["suite"]}


def show(test):
    """What a program that did not do well said: all but its good points."""
    lines = (test.get("stdout") or "").splitlines() + (test.get("stderr") or "").splitlines()
    told = [line for line in lines if not re.match(r"ok\b", line)]
    print(f"-- {test['name']}: {test['result']}, {test['duration']:.1f} s")
    if len(told) > SHOWN_LINES:
        print(f"   ... {len(told) - SHOWN_LINES} lines before these")
    for line in told[-SHOWN_LINES:]:
        print(f"   {line}")


def in_memory(place, command):
    """The command with a TMPDIR in memory, which goes with it: each test makes and removes thousands of
    files, and some file systems look for a long time which of the removed ones to use again."""
    if os.geteuid() != 0:
        return command
    script = 'mount -t tmpfs -o mode=1777 tmpfs "$0" && TMPDIR=$0 exec "$@"'
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, place, *command]


def run(build, names, threads):
    """Runs these tests and yields (name, stdout, result) for each, also if meson lost one."""
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    print(f"== {len(names)} test programs of {build}/", flush=True)
    command = ["meson", "test", "-C", build, "--no-rebuild", "--num-processes", threads, *names]
    with tempfile.TemporaryDirectory(prefix="berth-tests-") as place:
        subprocess.run(in_memory(place, command), env={**os.environ, **ENVIRONMENT}, check=False)
    results = {}
    if os.path.exists(log):
        with open(log, encoding="utf-8") as file:
            for test in map(json.loads, file):
                # The log calls it "project:suite / name".
                results[test["name"].split(" / ")[-1]] = (test.get("stdout") or "", test["result"])
                if test["result"] != "OK":
                    show(test)
    for name in names:
        yield (name, *results.get(name, ("", "it did not run")))


def counted(build, names, threads):
    return {name: count(name, stdout, result) for name, stdout, result in run(build, names, threads)}


def may_run_again(all_counts):
    """Of {build: {name: Counts}}: the (build, name) that failed, if they are few."""
    failed = [(build, name) for build, counts in all_counts.items() for name in counts if counts[name].failed]
    return failed if len(failed) <= AGAIN_MAX else []


def run_all(chosen):
    """The counts of all programs, and those that passed only when they ran alone."""
    # Most of them wait for something most of the time.
    threads = os.environ.get("MESON_TESTTHREADS") or str(2 * len(os.sched_getaffinity(0)))
    all_counts = {build: counted(build, names, threads) for build, names in chosen.items() if names}
    unsteady = []
    for build, name in may_run_again(all_counts):
        print(f"== {name} failed, and is run once more, alone", flush=True)
        counts = counted(build, [name], "1")[name]
        if not counts.failed:
            unsteady += all_counts[build][name].failed
        all_counts[build][name] = counts
    return [counts for tests in all_counts.values() for counts in tests.values()], unsteady


def main(words):
    is_all = "--all" in words
    wanted = [word for word in words if word != "--all"]
    known = {build: dict(tests_of(build)) for build in (SANITIZED, RELEASE)}
    names = {w for tests in known.values() for name, suites in tests.items() for w in (name, *suites)}
    for word in wanted:
        if word not in names:
            print(f"scripts/test: there is no test or suite \"{word}\"", file=sys.stderr)
            return 2
    chosen = {build: [name for name, suites in tests.items()
                      if build in builds_of(suites, is_all) and is_chosen(name, suites, wanted, is_all)]
              for build, tests in known.items()}
    results, unsteady = run_all(chosen)
    passed = sum(counts.passed for counts in results)
    failed = [name for counts in results for name in counts.failed]
    skipped = [skip for counts in results for skip in counts.skipped]

    readme = pathlib.Path("README.md")
    allowed = named_skips(readme.read_text(encoding="utf-8")) if readme.exists() else set()
    unexpected = unnamed(skipped, allowed) if os.environ.get("CI") == "true" else []
    print()
    for name, reason in skipped:
        print(f"skipped: {name} ({reason})")
    for name, _ in unexpected:
        print(f"a skip that README.md does not name: {name}")
    for name in unsteady:
        print(f"unsteady: {name} (failed beside others, passed alone)")
    for name in failed:
        print(f"failed: {name}")
    if not wanted and not is_all:
        print("variants that hardly differ were left out: scripts/test --all runs them, too")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or unexpected or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
