"""`berth selftest` against real sandboxes: all holds, and it says so."""

import json
import os

from beside import check, equal, ground, main, nothing_left, run

NUMBERS = [1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 23, 25, 26, 27, 28, 29, 33, 37, 40, 41, 42]
FOLDERS = ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "workspace")


def test_all(g):
    """Every check holds, as JSON tells it; what cannot be tried is memory without cgroups."""
    code, out, err = run(g, "--json")
    answer = json.loads(out)
    print(f"# {[(c['number'], c['message']) for c in answer['checks']]}")
    equal([c["number"] for c in answer["checks"]], NUMBERS, "checks")
    equal({c["number"]: c["status"] for c in answer["checks"] if c["status"] != "ok"},
          {} if g.has_cgroups else {42: "untried"}, "those that are not ok")
    equal((code, err, answer["ok"]), (0, "", True), "exit code")
    nothing_left(g)


@ground.needs_root  # to give its image to the ids of sandboxes
def test_bare(g):
    """An image without a single program is enough, and a person can read what came of it."""
    g.out("a", ["true"])  # the folder of images is there
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    rootfs = os.path.join(g.state, "images", "bare", "rootfs")
    owner = 0 if g.is_root else ground.place.FIRST_SUBID
    for folder in ("", *FOLDERS):
        os.makedirs(os.path.join(rootfs, folder), exist_ok=True)
        os.chown(os.path.join(rootfs, folder), owner, owner)
    os.chown(os.path.dirname(rootfs), owner, owner)
    code, out, err = run(g, "--image", "bare")
    *rows, empty, last = out.splitlines()
    bad = [row for row in rows if " ok  " not in row]
    equal(([row.split()[0] for row in bad], empty), ([] if g.has_cgroups else ["42"], ""), "rows")
    check(all("not tried" in row and "cgroup" in row for row in bad), bad)
    equal(last, f"{25 - len(bad)} hold, 0 HOLES, {len(bad)} could not be tried on this host", "the sum")
    equal((code, err), (0, ""), "exit code")
    nothing_left(g)


def test_some(g):
    """By numbers; wrong ones are refused."""
    code, out, err = run(g, "10", "41")
    equal([line.split()[0] for line in out.splitlines()[:2]], ["10", "41"], out)
    equal((code, err), (0, ""), "exit code")
    code, out, err = run(g, "10", "4711")
    equal((code, out), (2, ""), "a number that is none")
    check("4711" in err, err)
    nothing_left(g)


def test_nobody(g):
    """Without a daemon it says so, and exits with 2."""
    code, out, err = run(g)
    equal((code, out), (2, ""), err)
    check("no berthd answers" in err and os.listdir(g.path("tmp")) == [], err)


main([test_all, test_bare, test_some, test_nobody], start=lambda test: test is not test_nobody)
