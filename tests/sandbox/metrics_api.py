"""GET /metrics, read as strictly as its format (0.0.4 of Prometheus) is written."""

import re

from ground import check, equal

TYPE = "text/plain; version=0.0.4; charset=utf-8"
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9]+(?:\.[0-9]+)?)")


class Metrics:
    """Families by name: (type, {labels: value})."""

    def __init__(self, text):
        check(text.endswith("\n"), "the last line has no end")
        self.families, self.name, helped = {}, None, None
        for line in text[:-1].split("\n"):
            if found := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
                helped = found[1]
                check(helped not in self.families and "\\" not in found[2], line)
                self.check_last()
            elif found := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line):
                equal(found[1], helped, "HELP stands before TYPE")
                self.name = found[1]
                check(self.name.startswith("berth_") and self.name not in self.families, line)
                equal(self.name.endswith("_total"), found[2] == "counter", line)
                self.families[self.name] = (found[2], {})
            else:
                self.sample(line)
        self.check_last()

    def check_last(self):
        check(self.name is None or self.families[self.name][1], f"{self.name} has no sample")

    def sample(self, line):
        found = SAMPLE.fullmatch(line)
        check(found, f"no sample: {line!r}")
        equal(found[1], self.name, "whose sample it is")
        pairs = [match.groups() for match in re.finditer(LABEL, found[2] or "")]
        labels = frozenset(pairs)
        equal(len({name for name, _ in pairs}), len(pairs), f"labels of {line!r}")
        samples = self.families[self.name][1]
        check(labels not in samples, f"twice: {line!r}")
        samples[labels] = float(found[found.re.groups])
        check(samples[labels] >= 0, line)

    def __call__(self, family, **labels):
        return self.families["berth_" + family][1][frozenset(labels.items())]

    def all(self, family, label):
        """By the value of this label."""
        return {dict(labels)[label]: value for labels, value in self.families["berth_" + family][1].items()}


def metrics(g):
    reply = g.get("/metrics")
    equal((reply.status, reply.headers["content-type"]), (200, TYPE), reply)
    return Metrics(reply.body.decode("ascii"))
