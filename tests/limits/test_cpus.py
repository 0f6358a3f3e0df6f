"""On which processors sandboxes run: with a part of one, on all but one, as long as that is enough."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))

# pylint: disable=wrong-import-position
from ground import check, equal, main, until  # noqa: E402
from limit_api import file_of_kernel, put  # noqa: E402

ALL = len(os.sched_getaffinity(0))
BUT_ONE = max(ALL - 1, 1)


def count(g, name):
    """How many a process inside may use."""
    return int(g.out(name, "nproc"))


def make(g, name, cpus):
    put(g, name, cpus=cpus)
    return count(g, name)


def sleep(g, name):
    equal(g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "freeze"}).status, 200, name)


def test_part(g):
    """One with a part of a processor leaves one to the others, which run on all."""
    equal(make(g, "part", 0.2), BUT_ONE, "a part")
    for name, cpus in (("one", 1), ("more", 1.5), ("free", 0)):
        equal(make(g, name, cpus), ALL, name)
    lists = g.out("part", "sed -n 's/^Cpus_allowed_list:[ \t]*//p' /proc/1/status /proc/self/status").split()
    equal((len(lists), len(set(lists))), (2, 1), f"its first process, and a command: {lists}")


def test_changed(g):
    """Another limit holds for what runs already."""
    put(g, "a", cpus=0.5)
    with g.events("a", "while nproc; do sleep 0.05; done") as events:
        for cpus, wanted in ((0.5, BUT_ONE), (1.5, ALL), (0.1, BUT_ONE), (0, ALL)):
            put(g, "a", cpus=cpus)
            equal(count(g, "a"), wanted, f"what comes with {cpus}")
            until(lambda wanted=wanted: int(next(iter(events))[1].split()[-1]) == wanted, f"what runs with {cpus}")
    equal(g.sandbox("a")["generation"], 1, "in the same life")


def test_crowded(g):
    """If they may use more than what all but one have, they run on all; who is frozen does not count."""
    names = [f"c{number}" for number in range(ALL)]
    equal([make(g, name, 0.99) for name in names[:-1]], [BUT_ONE] * (ALL - 1), "while they fit")
    equal(make(g, names[-1], 0.99), ALL, "one too many")
    equal({count(g, name) for name in names}, {ALL}, "all of them then")
    for name in names:
        sleep(g, name)
    equal(make(g, "new", 0.5), BUT_ONE, "one beside those that are frozen")
    for name in names:
        equal(g.request("POST", f"/v1/sandbox/{name}/wake").status, 200, name)
    equal({count(g, name) for name in names}, {ALL}, "all of them, awake")
    for name in names:
        equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204)
    equal(count(g, "new"), BUT_ONE, "one alone")


def test_adopted(g):
    """The next keeper mends whatever it finds."""
    equal((make(g, "part", 0.5), make(g, "free", 0)), (BUT_ONE, ALL))
    files = {name: file_of_kernel(g, "processors", name) for name in ("part", "free")}
    check(all(files.values()), files)
    lists = {}
    for name, path in files.items():
        with open(path, encoding="ascii") as file:
            lists[name] = file.read().strip()
    g.kill_keeper()
    for name, other in (("part", "free"), ("free", "part")):
        with open(files[name], "w", encoding="ascii") as file:
            file.write(lists[other] or f"0-{ALL - 1}")
    until(lambda: (count(g, "part"), count(g, "free")) == (BUT_ONE, ALL), "both where they belong")
    equal((g.sandbox("part")["generation"], g.sandbox("free")["generation"]), (1, 1))


main([test_part, test_changed, test_crowded, test_adopted])
