"""What berthd and the keeper have put on themselves, seen from outside, and that it bites.

usage: test_confine.py BUILD_DIR root|user RUNTIME [CASE...]
"""

import os
import socket
import subprocess
import sys

sys.path += [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder) for folder in ("sandbox", "process")]
# pylint: disable=wrong-import-position
import ground  # noqa: E402
from ground import check, equal, main, needs_root, until  # noqa: E402
from process_api import start  # noqa: E402

CLOEXEC = 0o2000000
NOBODY = 65534
MAKE_RING = "import ctypes; exit(ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120)) < 0)"
# As container/confine.h lists them: what is not here has no way back.
KEPT = {"chown": 0, "dac_override": 1, "fowner": 3, "fsetid": 4, "kill": 5, "setgid": 6, "setuid": 7,
        "setpcap": 8, "net_bind_service": 10, "net_admin": 12, "sys_admin": 21,
        "sys_resource": 24, "setfcap": 31}

# What must work in each form, and what must not: by each layer alone and by both.
WORKS = ["own-mkdir", "own-make", "own-move", "own-truncate", "own-unlink", "own-rmdir", "config-read",
         "tokens-read", "tokens-beside", "log-append", "log-beside", "log-make", "null", "urandom", "meminfo",
         "group", "socket-unix", "kill-self"]
LANDLOCK = {"config-write": "EACCES", "log-read": "EACCES", "log-unlink": "EACCES",
            "outside-read": "EACCES", "outside-write": "EACCES",
            "outside-make": "EACCES", "state-make": "EACCES", "thread-outside": "EACCES",
            "ptrace": "EPERM", "execve": "EACCES"}
LANDLOCK_NET = {"connect-tcp": "EACCES", "bind-tcp": "EACCES"}  # ABI 4
LANDLOCK_SCOPE = {"abstract": "EPERM", "kill-parent": "EPERM"}  # ABI 6
SECCOMP = {"chmod": "EPERM", "link": "EPERM", "unshare": "EPERM", "mount": "EPERM", "setns": "EPERM",
           "bpf": "EPERM", "keyctl": "EPERM", "thread-keyctl": "EPERM", "init_module": "EPERM",
           "process_vm_writev": "EPERM", "pidfd_open": "EPERM", "io_uring_setup": "ENOSYS",
           "bind-tcp": "EPERM", "execve": "EPERM", "socket-inet": "ENOSYS", "socket-netlink": "ENOSYS",
           "tiocsti": "ENOSYS"}
# Where a directory holds more than the file.
WIDE = {"tokens-read": "ok", "log-append": "ok", "tokens-beside": "EACCES", "log-beside": "EACCES", "log-make": "EACCES",
        "log-read": "EACCES", "log-unlink": "EACCES", "outside-read": "EACCES", "outside-write": "EACCES"}
# The sanitizers need these calls themselves.
SECCOMP_RELEASE = {"mmap-wx": "ENOSYS", "mprotect-x": "ENOSYS", "kill-parent": "ENOSYS", "ptrace": "EPERM",
                   "fork": "ENOSYS"}


def status(path):
    with open(path + "/status", encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def tasks(pid):
    return [f"/proc/{pid}/task/{tid}" for tid in os.listdir(f"/proc/{pid}/task")]


def open_across_exec(pid):
    """Descriptors that a program which it ran would get, but 0, 1 and 2."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="utf-8") as file:
                flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if int(fd) > 2 and not flags & CLOEXEC:
            found.append((int(fd), target))
    return found


def test_berthd(g):
    """every thread of berthd is filtered, gains nothing and has no capability."""
    g.out("a", "echo up")  # the pool's threads exist by now
    threads = tasks(g.berthd.pid)
    check(len(threads) > 1, "threads:", threads)
    for task in threads:
        facts = status(task)
        equal((facts["Seccomp"], facts["NoNewPrivs"]), ("2", "1"), f"{task}: seccomp, no_new_privs")
        equal({facts[name] for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")}, {"0" * 16}, task)
        if g.is_root:
            equal(facts["CapBnd"], "0" * 16, f"{task}: bounding set")
    abi = g.request("GET", "/v1/info").json()["confined"]
    check(abi["seccomp"] is True, abi)


def test_keeper(g):
    """the keeper and its monitor have the capabilities of the list and no others."""
    wanted = sum(1 << bit for bit in KEPT.values())
    if g.is_root:  # which may not have had all of them
        wanted &= int(status("/proc/self")["CapBnd"], 16)
    for pid in (g.keeper(), g.monitor_pid()):
        for task in tasks(pid):
            facts = status(task)
            for name in ("CapPrm", "CapEff", "CapBnd"):
                equal(int(facts[name], 16), wanted, f"{name} of {facts['Name']}")
            equal(int(facts["CapInh"], 16) | int(facts["CapAmb"], 16), 0, "inherited")
            equal(facts["NoNewPrivs"], "1", f"no_new_privs of {facts['Name']}")


@needs_root
def test_descriptors(g):
    """no program that berthd, keeper, monitor or init runs gets a descriptor of theirs."""
    g.out("a", "echo up")
    inits = until(g.inits, "an init")
    for name, pid in [("berthd", g.berthd.pid), ("keeper", g.keeper()), ("monitor", g.monitor_pid()),
                      *(("init", pid) for pid in inits)]:
        equal(open_across_exec(pid), [], name)


def spell(place, way):
    """Another name of that directory."""
    if way == "link":
        os.symlink(place, place + ".link")
        return place + ".link"
    if way == "file":  # a link to the file is in a directory of its own
        os.makedirs(place + ".links")
        for name in os.listdir(place):
            os.symlink(os.path.join(place, name), os.path.join(place + ".links", name))
        return place + ".links"
    parent, name = os.path.split(place)
    return {"dot": f"{place}/.", "double": f"{parent}//{name}", "dots": f"{parent}/{name}/../{name}", "end": place + "/"}[way]


def attempts(g, layers, keys="keys", log="log", home="home", spelt=None):
    """By name what `confined` was answered, with its files in these directories, which it is told as `spelt` says; there is no log
    yet."""
    base = g.path("confined")
    places = {name: os.path.normpath(os.path.join(base, name)) for name in ("state", "run", "etc", keys, log, home, "outside")}
    for place in (*places.values(), places["state"] + "/berthd", places["run"] + "/berthd"):
        os.makedirs(place, exist_ok=True)
    files = [os.path.join(places["etc"], "berth.json"), os.path.join(places[keys], "tokens"),
             os.path.join(places[log], "access.log")]
    for path in (*files[:2], *(os.path.join(places[name], "beside") for name in (keys, log)),
                 os.path.join(places["outside"], "secret")):
        with open(path, "w", encoding="utf-8") as file:
            file.write("x\n")
    told = {"home": places[home], **{name: os.path.dirname(path) for name, path in zip(("etc", "keys", "log"), files)}}
    for name, way in (spelt or {}).items():
        told[name] = spell(told[name], way)
    files = [os.path.join(told[name], os.path.basename(path)) for name, path in zip(("etc", "keys", "log"), files)]
    if not g.is_root:
        owner = os.stat(g.path("home"))
        for folder, _, names in os.walk(base):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                os.chown(path, owner.st_uid, owner.st_gid)
    name = f"berth-confined-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        done = subprocess.run(
            [g.path("confined-program"), layers, places["state"], places["run"], *files, places["outside"], name],
            capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, "HOME": told["home"]},
            preexec_fn=g.become_user if g.is_user_to_be else None)
    check(done.returncode in (0, 2), layers, done.returncode, done.stderr)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def put_program(g):
    ground.shutil.copy(os.path.join(g.build, "tests", "security", "confined"), g.path("confined-program"))


def by_landlock(abi):
    return {**LANDLOCK, **(LANDLOCK_NET if abi >= 4 else {}), **(LANDLOCK_SCOPE if abi >= 6 else {})}


def compare(got, refused, layers):
    for name in WORKS:
        equal(got.get(name), "ok", f"{layers}: {name}")
    equal({name: got.get(name) for name in refused}, refused, layers)


def test_free(g):
    """without either layer the same attempts get through: it is the layers that refuse."""
    put_program(g)
    got = attempts(g, "none")
    free = ["outside-read", "outside-write", "outside-make", "state-make", "chmod", "link", "log-unlink",
            "abstract", "kill-parent", "unshare", "pidfd_open", "socket-inet", "mmap-wx", "fork"]
    equal({name: got.get(name) for name in free}, dict.fromkeys(free, "ok"), "without layers")
    check("execve" not in got, "execve:", got.get("execve"))


def test_landlock(g):
    """Landlock alone: nothing outside of its directories, no program, no TCP."""
    put_program(g)
    got = attempts(g, "landlock")
    check(int(got["abi"]) >= 2, "this kernel's Landlock:", got["abi"])
    compare(got, by_landlock(int(got["abi"])), "landlock")


def test_seccomp(g):
    """the filter alone: no call that berthd does not make."""
    put_program(g)
    compare(attempts(g, "seccomp"), {**SECCOMP, **({} if ground.IS_SANITIZED else SECCOMP_RELEASE)}, "seccomp")


def test_both(g):
    """both, as berthd wears them."""
    put_program(g)
    got = attempts(g, "all")
    seccomp = {**SECCOMP, **({} if ground.IS_SANITIZED else SECCOMP_RELEASE)}
    compare(got, {**by_landlock(int(got["abi"])), **seccomp}, "both")


def check_wide(g, **layout):
    got = attempts(g, "landlock", **layout)
    narrow = {"tokens-beside": "ok"} if "log" in layout or layout["keys"] == "state" else {}
    if "keys" in layout:
        narrow |= {"log-beside": "ok", "log-make": "ok"}
    wanted = {**WIDE, **narrow}
    equal({name: got.get(name) for name in wanted}, wanted, layout)
    ground.shutil.rmtree(g.path("confined"))


def test_wide(g):
    """of directories that hold a home only the files themselves can be opened; one with the state can be read, not written."""
    put_program(g)
    for layout in ({"keys": "above/home", "home": "above/home"}, {"log": "above/home", "home": "above/home"},
                   {"keys": "above", "home": "above/home"}, {"log": "above", "home": "above/home"},
                   {"keys": "state"}, {"log": "state"}, {"keys": "."}, {"log": "."}):
        check_wide(g, **layout)


def test_wide_names(g):
    """so it is whatever such a directory is called."""
    put_program(g)
    for way in ("dot", "double", "dots", "link"):
        for what in ("keys", "log"):
            check_wide(g, **{what: "above/home", "home": "above/home", "spelt": {what: way}})
            check_wide(g, **{what: "above", "home": "above/home", "spelt": {what: way}})
        check_wide(g, log="state", spelt={"log": way})
    for way in ("double", "dots", "link", "end"):
        check_wide(g, keys="above/home", home="above/home", spelt={"home": way})
    check_wide(g, keys="above/home", home="above/home", spelt={"keys": "file"})


def has_ring(pid):
    found = subprocess.run(["ls", "-l", f"/proc/{pid}/fd"], capture_output=True, text=True, check=False).stdout
    check("socket:" in found, found)
    return "io_uring" in found


def test_ring(g):
    """with a libuv that makes an io_uring for its loop berthd serves, and has none."""
    library, options = g.path("libring.so"), os.environ.get("ASAN_OPTIONS", "detect_leaks=1")
    ground.shutil.copy(os.path.join(g.build, "tests", "security", "libring.so"), library)
    os.chmod(library, 0o755)
    who = {"user": NOBODY} if g.is_root else {"preexec_fn": g.become_user if g.is_user_to_be else None}
    can_be_made = subprocess.run(["/usr/bin/python3", "-c", MAKE_RING], check=False, **who).returncode == 0
    for flags, wanted in (([], False), (["--no-confine"], can_be_made)):
        g.berthd.terminate()
        equal(g.berthd.wait(ground.TIMEOUT), 0, "exit code")
        # The library stands before the sanitizer's.
        g.start(*flags, env={"LD_PRELOAD": library, "ASAN_OPTIONS": options + ":verify_asan_link_order=0"})
        equal(g.get("/health").status, 200, "health")
        equal(g.out("a", "echo served"), "served\n", "exec")
        equal(has_ring(g.berthd.pid), wanted, f"io_uring with {flags}")


def test_logs_elsewhere(g):
    """A link in the place of the directory of logs is told at the start, with what helps; a mount is none of our business."""
    g.out("a", "true")
    g.berthd.terminate()
    equal(g.berthd.wait(ground.TIMEOUT), 0, "exit code")
    logs, elsewhere = os.path.join(g.state, "berthd", "logs"), g.path("home", "elsewhere")
    os.rename(logs, elsewhere)
    os.symlink(elsewhere, logs)
    berthd, line = g.spawn_berthd()
    equal(berthd.wait(ground.TIMEOUT), 1, "its exit code")
    check(f"{logs} leads to {elsewhere}" in line and "--no-confine" in line and "mount" in line, line)
    g.start("--no-confine")
    start(g, "a", ["true"], id="p")  # whose log is there
    g.berthd.terminate()
    equal(g.berthd.wait(ground.TIMEOUT), 0, "exit code")
    os.unlink(logs)
    os.rename(elsewhere, os.path.join(g.state, "berthd", "moved"))
    os.symlink("moved", logs)  # within what is ours
    g.start()
    start(g, "a", ["true"], id="q")


def test_off(g):
    """--no-confine is said in the log and by /v1/info."""
    g.berthd.terminate()
    equal(g.berthd.wait(ground.TIMEOUT), 0, "exit code")
    g.start("--no-confine")
    equal(g.request("GET", "/v1/info").json()["confined"], {"landlock": 0, "seccomp": False}, "info")
    equal({status(task)["Seccomp"] for task in tasks(g.berthd.pid)}, {"0"}, "seccomp")
    check("--no-confine" in g.log_text(), "the log")


main([test_berthd, test_keeper, test_descriptors, test_free, test_landlock, test_seccomp, test_both, test_wide, test_wide_names,
      test_ring, test_logs_elsewhere, test_off])
