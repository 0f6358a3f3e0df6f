"""README.md's table of what differs between root and others, held to what the daemon tells and does."""

import json
import os
import re
import subprocess

import ground
from ground import check, equal, main

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "README.md")


def table():
    """{column: {ability: yes or no}}"""
    with open(README, encoding="utf-8") as file:
        lines = re.search(r"^\| `abilities` .*?\n\n", file.read(), re.M | re.S)[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    columns = {name: {} for name in rows[0][2:]}
    for row in rows[2:]:
        equal(len(row), len(rows[0]), f"cells of {row}")
        for name, cell in zip(rows[0][2:], row[2:]):
            check(re.match(r"yes$|no: \w", cell.replace("`", "")), "a cell says yes, or no and what instead:", cell)
            columns[name][row[0].strip("`")] = cell == "yes"
    return columns


def column(g, version):
    if g.is_root:
        return f"root, {version}"
    return "user, delegated" if g.given else "user"


def doctor(g):
    done = subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, "doctor", "--json"],
                          stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    return json.loads(done.stdout)


def test_told(g):
    """doctor and /v1/info tell what README.md's column for this host says."""
    info = g.get("/v1/info").json()
    kind = column(g, info["cgroups"]["version"])
    print(f"# {kind}")
    equal(doctor(g)["abilities"], table()[kind], kind)
    equal(info["abilities"], table()[kind], "/v1/info")


def is_done(reply):
    """True, or refused for what this host cannot do."""
    check(reply.status in (200, 204) or reply.json()["code"] in ("unsupported", "invalid_request"), reply)
    return reply.status in (200, 204)


def start_with(g, name, limits):
    reply = g.request("PUT", f"/v1/sandbox/{name}", {"limits": limits})
    return is_done(reply) and is_done(g.request("POST", f"/v1/sandbox/{name}/start"))


def test_done(g):
    """What it tells is what it does."""
    told = doctor(g)["abilities"]
    g.out("a", ["true"])
    done = {"memory_limit": start_with(g, "m", {"memory": "64M"}), "cpu_limit": start_with(g, "c", {"cpus": 0.5}),
            "swap_limit": start_with(g, "s", {"memory": "64M", "swap": "64M"}),
            "cpu_time_limit": start_with(g, "t", {"cpu_time_ms": 100000}),
            "disk_limit": start_with(g, "d", {"disk": "64M"}),
            "io_read_limit": start_with(g, "r", {"io_read": "1M", "io_read_ops": 100}),
            "io_write_limit": start_with(g, "w", {"io_write": "1M", "io_write_ops": 100}),
            "moment": is_done(g.request("POST", "/v1/sandbox/a/persist?freeze=1")),
            "freeze": is_done(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "freeze"}))}
    equal(done, {name: told[name] for name in done}, "done and told")
    if told["cpu_limit"] and len(os.sched_getaffinity(0)) > 1:
        count = int(g.out("c", "nproc"))
        equal(count == len(os.sched_getaffinity(0)) - 1, told["cpu_choice"], f"runs on {count}")
    hog = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    if told["oom_told"]:
        equal(g.exec("m", ["python3", "-c", hog]).reason, "oom", "what killed it")
    inside = {g.out(name, "cat /proc/self/uid_map") for name in ("b", "e")}
    equal(len(inside) == 2, told["own_ids"], f"ids {inside}")


ground.place.use_disk()  # where io can be limited
main([test_told, test_done])
