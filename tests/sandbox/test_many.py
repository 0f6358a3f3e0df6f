"""Many execs, many sandboxes: every code right, nothing left, memory flat.

BERTH_EXECS=10000 for the long run.
"""

import os

from ground import IS_SANITIZED, at_once, check, equal, fds_of, main, memory_of, until

EXECS = int(os.environ.get("BERTH_EXECS", "2000"))
WORKERS = 8


def programs(g):
    """Those of ours that may be looked into: without root they are not what other ids run."""
    found = {"berthd": g.berthd.pid, "keeper": g.keeper(), "init": g.inits()[0]}
    return {name: pid for name, pid in found.items() if os.access(f"/proc/{pid}/fd", os.R_OK)}


def things(g):
    """Numbers that must not grow with the number of execs."""
    return {
        **{f"{name}'s fds": fds_of(pid) for name, pid in programs(g).items()},
        "processes": len([p for p in g.processes()]),
        "mounts": len(g.mounts(g.keeper())),
    }


def run_some(g, count):
    def worker(number):
        wrong = []
        for i in range(number, count, WORKERS):
            code = i * 7 % 256
            form = i % 3
            if form == 0:
                result = g.exec("a", ["sh", "-c", f"exit {code}"])
            elif form == 1:
                result = g.run_events("a", f"printf {i}; exit {code}")
                if result.stdout != str(i).encode():
                    wrong.append((i, result))
            else:
                result = g.exec("a", ["sh", "-c", f"cat; exit {code}"], stdin="x" * (i % 999))
                if len(result.stdout) != i % 999:
                    wrong.append((i, result))
            if (result.reason, result.code) != ("exited", code):
                wrong.append((i, code, result))
        return wrong
    equal([w for wrong in at_once(WORKERS, worker) for w in wrong], [], "wrong answers")


def test_execs(g):
    """Every one of many execs has its own code and output; afterwards all is as before."""
    run_some(g, 200)  # what is made once is made now
    until(lambda: g.sandbox("a")["execs"] == 0, "no exec")
    before, groups = things(g), len(g.cgroups())
    memory = {name: memory_of(pid) for name, pid in programs(g).items()}
    check("berthd" in memory, "berthd cannot be looked into")
    run_some(g, EXECS)
    until(lambda: g.sandbox("a")["execs"] == 0, "no exec")
    until(lambda: all(now <= before[name] + 8 for name, now in things(g).items()),
          f"fewer things than {things(g)}, before {before}")
    check(len(g.cgroups()) <= groups + 16, "cgroups", groups, len(g.cgroups()))
    for name, pid in programs(g).items():
        grown = memory_of(pid) - memory[name]
        print(f"# {EXECS} execs: memory of {name} grew by {grown >> 10} kB")
        check(IS_SANITIZED or grown < 1 << 20, name, "grew by", grown)
    zombies = g.out("a", "cat /proc/[0-9]*/stat | grep -c ') Z ' || true")
    equal(zombies, "0\n", "zombies inside")
    equal(g.sandbox("a")["generation"], 1, "generation")


def keys_of(uid):
    """How many of the kernel's keys a user has; an ordinary one may have 200."""
    with open("/proc/key-users", encoding="utf-8") as file:
        lines = [line.split() for line in file]
    return next((int(words[3].split("/")[0]) for words in lines if words[0] == f"{uid}:"), 0)


def test_creates(g):
    """A hundred sandboxes at once: all run, each its own; then nothing is left."""
    g.out("zero", ["true"])
    g.request("DELETE", "/v1/sandbox/zero")
    before, keys = g.state_of_things(), keys_of(g.uid)
    equal(at_once(100, lambda i: g.out(f"s{i}", "hostname")), [f"s{i}\n" for i in range(100)], "names")
    equal({s["state"] for s in g.list_all()}, {"running"}, "states")
    equal(len(g.inits()), 100, "inits")
    check(g.is_root or keys_of(g.uid) < keys + 50, "keys", keys, keys_of(g.uid))
    equal(set(at_once(100, lambda i: g.request("DELETE", f"/v1/sandbox/s{i}").status)), {204}, "delete")
    g.check_same(before)


main([test_execs, test_creates])
