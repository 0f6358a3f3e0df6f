"""The few lines of TAP that these tests need. A failed check says why; the case goes on."""

import sys
import traceback


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0
        self.problems = []

    def check(self, condition, problem):
        if not condition:
            self.problems.append(problem)
        return bool(condition)

    def equal(self, actual, expected, what):
        return self.check(actual == expected, f"{what}: got {actual!r}, expected {expected!r}")

    def case(self, name, function, *args):
        self.count += 1
        self.problems = []
        try:
            function(self, *args)
        except Exception:
            self.problems.append(traceback.format_exc())
        for problem in self.problems:
            print("\n".join("# " + line for line in str(problem).splitlines()))
        print(f"{'not ok' if self.problems else 'ok'} {self.count} - {name}", flush=True)
        self.failed += bool(self.problems)

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}", flush=True)

    def done(self):
        print(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)
