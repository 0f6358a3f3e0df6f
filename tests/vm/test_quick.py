"""The quick form of scripts/test-vm: a few telling cases on one machine with pure cgroup v2.

A point for each program that runs in there. What the machine is made of comes with the packages of
this host; only its kernel is loaded from Debian, and where that cannot be done this is skipped.
"""

import sys

import image
import machines

SECONDS = 600  # for each program
# program, mode, cases
CASES = (
    ("lifecycle/test_sleep.py", "root", ("test_memory", "test_adopted")),
    ("sandbox/test_lifecycle.py", "root", ("test_limits",)),
    ("sandbox/test_exec.py", "root", ("test_groups", "test_let_go")),
    ("process/test_processes.py", "root", ("test_life", "test_tree")),
    ("sandbox/test_adopt.py", "root", ("test_berthd_and_keeper_killed",)),
    ("sandbox/test_abilities.py", "root", ()),
    ("limits/test_io.py", "root", ("test_reads", "test_writes", "test_ends")),
    ("sandbox/test_abilities.py", "delegated", ()),
    ("sandbox/test_abilities.py", "user", ()),
    ("lifecycle/test_sleep.py", "delegated", ("test_memory", "test_adopted")),
    ("sandbox/test_lifecycle.py", "delegated", ("test_limits",)),
    ("sandbox/test_exec.py", "delegated", ("test_let_go",)),
)


def job():
    for program, mode, cases in CASES:
        name = program.split("_")[-1].split(".")[0]
        yield {"name": f"{name}_{mode}", "cwd": str(machines.BUILD), "timeout": SECONDS,
               "env": {"BERTH_SANITIZED": "0"}, "cgroup": None,
               "cmd": ["/usr/bin/python3", "-B", str(image.ROOT / "tests" / program),
                       str(machines.BUILD), mode, "crun", *cases]}


def main():
    tests, failed = list(job()), 0
    try:
        folder = image.make("own")
    except image.Unreachable as error:
        print(f"1..0 # SKIP {error}")
        return 0
    print(f"1..{len(tests)}", flush=True)
    ended = machines.run_job(folder, "quick", "vm.cgroups=v2", tests)
    for number, (name, output, result, seconds) in enumerate(ended, 1):
        counts = machines.points.count(name, "\n".join(output), result)
        is_good = counts.passed and not counts.failed and not counts.skipped
        failed += not is_good
        print(f"{'ok' if is_good else 'not ok'} {number} - {name}: {counts.passed} cases in {seconds:.0f} s")
        for line in () if is_good else output:
            print("#", line, flush=True)
    return 1 if failed else 0


sys.exit(main())
