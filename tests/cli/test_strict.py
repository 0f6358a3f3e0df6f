"""doctor --strict: a runtime or kernel known to be vulnerable is named, and refused."""

import json
import os

from harness import INFO, check, equal, http, main

CRUN = "crun version {}\\ncommit: 1\\nspec: 1.0.0\\n{}\\n"
RUNC = "runc version {}\\ncommit: {}\\nspec: 1.0.2\\n"


def doctor(place, *args):
    """(exit code, {name: check}, what else the JSON says)."""
    r = place.run("doctor", "--json", "--state-dir", place.path("s"), "--run-dir", place.path("r"), *args)
    found = json.loads(r.stdout)
    names = [item["name"] for item in found["checks"]]
    equal(sorted(set(names)), sorted(names), "each check has a name of its own")
    return r.returncode, {item["name"]: item for item in found["checks"]}, found


def fake(place, text):
    """A runtime that says so. No old one can be had on demand."""
    path = place.path("runx")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nprintf '{text}'\n")
    os.chmod(path, 0o755)
    return ["--runtime", path]


def holes(place, text, *args):
    return {name: item for name, item in doctor(place, *fake(place, text), *args)[1].items()
            if name.startswith("CVE-") and "Linux" not in item["message"] and item["status"] != "ok"}


def runtimes(place):
    for text, wanted in (
            (RUNC.format("1.0.0-rc6", "x"), ["CVE-2019-16884", "CVE-2019-19921", "CVE-2019-5736", "CVE-2021-30465",
                                             "CVE-2021-43784", "CVE-2022-29162", "CVE-2023-27561", "CVE-2024-45310",
                                             "CVE-2025-31133"]),
            (RUNC.format("1.1.11", "v1.1.11-0-g1"), ["CVE-2024-21626", "CVE-2024-45310", "CVE-2025-31133"]),
            (RUNC.format("1.1.5+ds1", "1.1.5+ds1-1+deb12u1"), ["CVE-2024-45310", "CVE-2025-31133"]),
            (RUNC.format("1.3.2", "x"), ["CVE-2025-31133"]),
            (RUNC.format("1.3.3", "x"), []),
            (CRUN.format("0.10.4", ""), ["CVE-2019-18837", "CVE-2022-27650"]),
            (CRUN.format("1.8.1", "+SYSTEMD +YAJL"), []),
            (CRUN.format("1.19.1", "+SYSTEMD +LIBKRUN"), ["CVE-2025-24965"]),
            (CRUN.format("1.20", "+SYSTEMD +LIBKRUN"), []),
            ("runx version 0.1\\nspec: 1.0.2\\n", [])):
        for args, status in (([], "note"), (["--strict"], "unsafe")):
            found = holes(place, text, *args)
            equal(sorted(found), sorted(wanted), (text, args))
            for item in found.values():
                equal(item["status"], status, item)
                check("by its version" in item["message"] and item["mend"].startswith("install "), item)
    mended = doctor(place, *fake(place, RUNC.format("1.1.5+ds1", "1.1.5+ds1-1+deb12u1")), "--strict")[1]
    equal((mended["CVE-2024-21626"]["status"], mended["CVE-2024-21626"]["mend"]), ("ok", None))
    check("Debian has mended it" in mended["CVE-2024-21626"]["message"], mended)


def codes(place):
    """Notes change no exit code; --strict fails for each of them."""
    vulnerable = fake(place, RUNC.format("1.3.2", "x"))
    plain, found, facts = doctor(place, *vulnerable)
    needed = any(item["status"] == "missing" for item in found.values())
    equal((plain, facts["ok"], facts["strict"]), (int(needed), not needed, False))
    check(not any(item["status"] == "unsafe" for item in found.values()), found)
    code, strict, facts = doctor(place, "--strict", *vulnerable)
    equal((code, facts["ok"], facts["strict"]), (1, False, True))
    check(not any(item["status"] == "note" for item in strict.values()), strict)
    # All that is a note without it is unsafe with it, and nothing else.
    equal({n for n, i in strict.items() if i["status"] == "unsafe"}, {n for n, i in found.items() if i["status"] == "note"})
    r = place.run("doctor", "--strict", *vulnerable)
    equal(r.returncode, 1)
    check("unsafe   CVE-2025-31133" in r.stdout and " unsafe, " in r.stdout.splitlines()[-1], r.stdout)
    r = place.run("doctor", *vulnerable)
    check("could be safer (--strict fails for them)" in r.stdout.splitlines()[-1], r.stdout)


def settings(place):
    """What /proc and /sys of this machine say is what is told."""
    _, found, _ = doctor(place, "--strict")
    for name, path, least in (("bpf", "kernel/unprivileged_bpf_disabled", 1), ("kptr_restrict", "kernel/kptr_restrict", 1),
                              ("dmesg_restrict", "kernel/dmesg_restrict", 1), ("symlinks", "fs/protected_symlinks", 1),
                              ("hardlinks", "fs/protected_hardlinks", 1)):
        try:
            with open(f"/proc/sys/{path}", encoding="ascii") as file:
                is_good = int(file.read()) >= least
        except OSError:
            is_good = True
        equal(found[name]["status"], "ok" if is_good else "unsafe", name)
        check(is_good or path.replace("/", ".") in found[name]["mend"], found[name])
    folder = "/sys/devices/system/cpu/vulnerabilities"
    bad = []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, name), encoding="ascii") as file:
            if file.read().startswith("Vulnerable"):
                bad.append(name)
    equal(found["processor"]["status"], "unsafe" if bad else "ok")
    check(all(name in found["processor"]["message"] for name in bad), found["processor"])
    check("kernel's holes" in found or any("Linux" in i["message"] for n, i in found.items() if n.startswith("CVE-")), found)


def state(place):
    os.mkdir(place.path("s"))
    for mode, status in ((0o700, "ok"), (0o711, "ok"), (0o755, "unsafe"), (0o777, "unsafe")):
        os.chmod(place.path("s"), mode)
        item = doctor(place, "--strict")[1]["state's mode"]
        equal(item["status"], status, (oct(mode), item))
        check(status == "ok" or item["mend"].startswith("chmod o-rw "), item)


def reach(place):
    names = {"TCP listener", "preview listener", "socket's mode"}
    for number, (listen, preview, unsafe) in enumerate((
            (None, None, set()), ("127.0.0.1:8080", "[::1]:1", set()), ("0.0.0.0:8080", None, {"TCP listener"}),
            ("192.0.2.1:80", "[::]:8620", {"TCP listener", "preview listener"}))):
        path = place.path(f"{number}.sock")
        place.serve(http(200, {**INFO, "socket": path, "listen": listen, "preview": preview}), f"{number}.sock")
        for mode, more in ((0o600, set()), (0o660, set()), (0o666, {"socket's mode"}), (0o606, {"socket's mode"})):
            os.chmod(path, mode)
            found = doctor(place, "--strict", "--socket", path)[1]
            equal({n for n in names if found[n]["status"] == "unsafe"}, unsafe | more, (listen, oct(mode)))


def folders(place):
    """The whole host is no folder for sandboxes."""
    for number, (allowed, told) in enumerate(((None, None), ([], None), (["/srv", "/home:ro"], None), (["/srv", "/"], "write to"),
                                              (["/:ro"], "read"))):
        path = place.path(f"{number}.sock")
        place.serve(http(200, {**INFO, "socket": path, **({} if allowed is None else {"allow_bind": allowed})}), f"{number}.sock")
        found = doctor(place, "--strict", "--socket", path)[1]["allowed folders"]
        equal(found["status"], "unsafe" if told else "ok", allowed)
        check(not told or f"may {told} all of this machine" in found["message"], found)


main([
    ("14: a vulnerable runtime is named, by its version, package and features", runtimes),
    ("14: --strict fails for what is a note without it", codes),
    ("settings of the kernel and the processor's holes", settings),
    ("a state directory that others may read", state),
    ("who can reach the daemon", reach),
    ("what sandboxes may mount", folders),
])
