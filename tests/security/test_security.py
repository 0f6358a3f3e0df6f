"""SECURITY-CHECKS.md by number, tried from inside real sandboxes and against the real API."""

import base64
import errno
import hashlib
import itertools
import os
import pwd
import random
import re
import shutil
import socket
import stat
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))
# pylint: disable=wrong-import-position
import ground  # noqa: E402
from ground import at_once, check, equal, lives, main, needs_root, stat_of, until  # noqa: E402

REFUSED = (errno.EROFS, errno.ETXTBSY, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ESRCH)
CAPABILITIES = 0x5FB  # chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service
HEARTBEAT = "/run/berth/heartbeat"
NAMESPACES = ("pid", "mnt", "net", "ipc", "uts", "cgroup", "user")


def probe_file(g):
    """The program that `berth selftest` carries along."""
    return os.path.join(g.build, "cmd", "berth-probe")


def probe(g, name="a"):
    g.put_file(name, "/workspace/probe", read(probe_file(g)))
    return "/workspace/probe"


def no_hole(text, least, notes=False):
    """What the probe's verbs say that judge by themselves: all was tried, and nothing worked."""
    *lines, last = text.splitlines()
    word, count = last.split()
    check(word == "tried" and int(count) >= least, "the probe's end:", text)
    equal([line for line in lines if not (notes and line.startswith("note "))], [], "what the probe found")


def status_of(text):
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def read(path, mode="rb"):
    with open(path, mode) as file:
        return file.read()


def test_daemon(g):
    """berthd is an ordinary user without a capability, with no_new_privs, in every thread."""
    g.out("a", ["true"])
    user = pwd.getpwnam("berth").pw_uid if g.is_root else ground.place.USER
    for task in os.listdir(f"/proc/{g.berthd.pid}/task"):
        facts = status_of(read(f"/proc/{g.berthd.pid}/task/{task}/status").decode())
        # Who was never root cannot empty the bounding set; no_new_privs makes it worthless.
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", *(["CapBnd"] if g.is_root else [])):
            equal(int(facts[name], 16), 0, f"{name} of thread {task}")
        equal(facts["NoNewPrivs"], "1", "no_new_privs")
        equal(set(facts["Uid"].split()), {str(user)}, "user ids")
        check("0" not in facts["Gid"].split() + facts["Groups"].split(), facts["Gid"], facts["Groups"])


def test_1(g):
    """1: a loop over /proc/*/exe during 1,000 execs never has a writable fd to a program of the host."""
    path = probe(g)
    init, true = read(g.path("berth-init")), hashlib.sha256(read("/usr/bin/true")).hexdigest()
    with g.events("a", [path, "exe", "/workspace/stop"]) as events:
        equal(next(iter(events)), ("stdout", b"ready\n"), "the loop")
        codes = at_once(8, lambda _: [g.exec("a", ["/usr/bin/true"]).code for _ in range(125)])
        equal(sum(codes, []), [0] * 1000, "codes")
        g.out("a", "touch stop")
        result = events.result()
    tried = {}
    for line in result.stdout.decode().splitlines():
        name, error, count = line.rsplit(" ", 2)
        tried[name, int(error)] = int(count)
    print(f"# {tried}")
    equal([t for t in tried if t[1] == 0], [], "files opened for writing")
    equal([t for t in tried if t[1] not in REFUSED], [], "refused in an odd way")
    # A program of the host was there to be tried, and neither its owner nor its mount let it pass.
    check(sum(tried.get(("/usr/bin/true", error), 0) for error in (errno.EACCES, errno.EROFS)) > 50, tried)
    equal(g.out("a", ["sha256sum", "/run/berth/init"]).split()[0], hashlib.sha256(init).hexdigest(),
          "berth-init")
    equal(hashlib.sha256(read("/usr/bin/true")).hexdigest(), true, "the host's /usr/bin/true")
    for attempt in ("echo x >>/run/berth/init", "echo x >>/usr/bin/true", "chmod 777 /usr/bin/true",
                    "touch /usr/x", "mount -o remount,rw /usr", "ln /usr/bin/true /usr/bin/false2"):
        check(g.exec("a", attempt).code != 0, attempt)


@needs_root
def test_2(g):
    """2: an exec begins with fds 0, 1, 2; cwd is inside; cwd=/proc/self/fd/N is refused."""
    path = probe(g)
    for _ in range(20):
        equal(g.out("a", [path, "fds"]), "0 1 2 /workspace\n", "fds and cwd")
    equal(g.exec("a", [path, "fds"], stdin="x").stdout, b"0 1 2 /workspace\n", "fds with stdin")
    equal(g.out("a", [path, "fds"], cwd="/tmp", user="1000"), "0 1 2 /tmp\n", "fds of a user")
    equal(set(at_once(20, lambda _: g.out("a", [path, "fds"]))), {"0 1 2 /workspace\n"}, "fds, side by side")
    # Everybody inside may write to what init reads.
    equal(g.exec("a", ["timeout", "60", "sh", "-c", f"echo > {HEARTBEAT}"], user="1000").code, 0, HEARTBEAT)
    for init in g.inits():
        equal([target for target, _ in fds_of(init).values()].count(HEARTBEAT), 1, "init's fifo")
        for fd, (target, flags) in fds_of(init).items():
            if fd <= 2:
                equal(target, "/dev/null", f"init's fd {fd}")
            else:
                check(flags & os.O_CLOEXEC, "without CLOEXEC:", fd, target)
    for number in range(0, 24):
        for cwd in (f"/proc/self/fd/{number}", f"/proc/1/fd/{number}", f"/proc/self/fd/{number}/.."):
            result = g.exec("a", ["pwd"], cwd=cwd)
            equal(result.reason, "not_started", f"cwd={cwd}: {result}")
    result = g.exec("a", ["sh", "-c", "cd /proc/self/cwd && pwd -P; readlink /proc/self/root"], cwd="/tmp/../tmp")
    equal(result.stdout, b"/tmp\n/\n", result)
    for cwd in ("/proc/1/cwd", "/proc/1/root"):
        check(g.exec("a", ["true"], cwd=cwd).reason == "not_started", cwd)


def fds_of(pid):
    """{fd: (target, flags)}; what was closed meanwhile is left out."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            flags = re.search(r"flags:\s*(\d+)", read(f"/proc/{pid}/fdinfo/{fd}").decode())[1]
            found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}"), int(flags, 8)
        except FileNotFoundError:
            pass
    return found


def name_of(init):
    return read(f"/proc/{init}/root/etc/hostname").decode().strip()


def private(pid):
    """What a process holds that has an identity: sockets, pipes, files; not /dev/null and the like."""
    targets = set()
    for fd, (target, _) in fds_of(pid).items():
        if target == HEARTBEAT:  # each sandbox has one of that name
            st = os.stat(f"/proc/{pid}/fd/{fd}")
            check(stat.S_ISFIFO(st.st_mode), "no fifo:", target)
            target += f" of {st.st_dev}:{st.st_ino}"
        targets.add(target)
    return {t for t in targets if not t.startswith(("anon_inode:", "/dev/")) and t not in ("/", "/proc")}


@needs_root
def test_3(g):
    """3: nothing of the daemon or of another sandbox is inherited, by init or by an exec."""
    running = [g.events(name, "echo; exec sleep 1000") for name in ("a", "a", "a", "b", "b")]
    try:
        for events in running:
            next(iter(events))
        daemon = set().union(*(private(p) for p in (g.berthd.pid, *g.keepers())))
        check(any(t.endswith("/log") for t in daemon) and len(daemon) > 5, "what the daemon holds:", daemon)
        mine = [p for p in g.inits() if stat_of(p)[1] in g.keepers()]
        until(lambda: not any(t.startswith("pipe:") for p in mine for t in private(p)),
              "init to close what it has handed over")
        inits = {p: private(p) for p in mine}
        equal(sorted(map(name_of, inits)), ["a", "b"], "inits")
        kinds = rf"socket:\[\d+\]$|{HEARTBEAT} of \d+:\d+$" + (r"|.*/%s/exec-\d+$" if g.is_root else "")
        for init, held in inits.items():
            pattern = kinds % name_of(init) if g.is_root else kinds
            equal([t for t in held if not re.match(pattern, t)], [], "what init holds")
            # Its listener, its line to berthd; without cgroups one to each supervisor.
            check(sum(t.startswith("socket:") for t in held) <= (2 if g.is_root else 2 + 3), held)
            equal(held & daemon, set(), "shared by init and the daemon")
        until(lambda: len(lives(g, "sleep")) == 5, "five execs that have become sleep")
        execs = {p: private(p) for p in lives(g, "sleep")}
        for pid, held in execs.items():
            equal(sorted(fds_of(pid)), [0, 1, 2], "fds of an exec")
            equal([t for t in held if not t.startswith("pipe:")], [], "what an exec holds")
        for one, other in itertools.combinations([*inits.values(), *execs.values()], 2):
            equal(one & other, set(), "shared by two")
    finally:
        for events in running:
            events.close()


def make_image(g, name, link, target):
    """An image in which one path is a symlink to somewhere else."""
    images = os.path.join(g.state, "images")
    rootfs = os.path.join(images, name, "rootfs")
    os.makedirs(rootfs)
    for folder in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "workspace", "bin"):
        os.mkdir(os.path.join(rootfs, folder))
    shutil.copy(probe_file(g), os.path.join(rootfs, "bin", "probe"))
    if link:
        path = os.path.join(rootfs, link.lstrip("/"))
        if os.path.isdir(path):
            os.rmdir(path)
        os.symlink(target, path)
    # As an image is unpacked: its root is the sandbox's, which rootless is the first of the subids.
    owner = 0 if g.is_root else ground.place.FIRST_SUBID
    for folder, names, files in os.walk(os.path.join(images, name)):
        for item in ["", *names, *files]:
            os.chown(os.path.join(folder, item), owner, owner, follow_symlinks=False)


def identity(path):
    info = os.stat(path, follow_symlinks=False)
    return info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, info.st_ctime_ns, os.path.isdir(path)


def run_image(g, name):
    """Starts it, writes to where the links are, and says how that went."""
    g.request("PUT", f"/v1/sandbox/{name}", {"image": name})
    how = set()
    for argv in (["/bin/probe", "devices", "/tmp"],
                 ["/bin/probe", "touch", "/tmp/x", "/workspace/x", "/etc/x", "/dev/x", "/run/x", "/sys/x"]):
        reply = g.request("POST", f"/v1/sandbox/{name}/exec", {"argv": argv, "cwd": "/"}, Accept="application/json")
        if reply.status == 200:
            equal((reply.json()["reason"], reply.json()["exit_code"]), ("exited", 0), f"{name}: {reply}")
        else:
            equal((reply.status, reply.json()["code"]), (502, "start_failed"), f"{name}: {reply}")
        how.add("contained" if reply.status == 200 else "refused")
    equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
    return how


@needs_root
def test_4(g):
    """4: images whose mount points are symlinks are refused or contained."""
    g.out("a", ["true"])  # the folder of images is there
    make_image(g, "plain", None, None)
    equal(run_image(g, "plain"), {"contained"}, "an image without symlinks")
    outside = g.path("outside")
    os.mkdir(outside)
    os.chmod(outside, 0o777)
    with open(os.path.join(outside, "null"), "w", encoding="utf-8") as file:
        file.write("host\n")
    os.chmod(os.path.join(outside, "null"), 0o666)
    before = {path: identity(path) for path in (outside, os.path.join(outside, "null"))}
    seen = {}
    for number, link in enumerate(("/dev", "/dev/null", "/dev/pts", "/proc", "/sys", "/etc", "/tmp", "/workspace",
                                   "/run")):
        for form, target in enumerate((outside, "../" * 12 + outside.lstrip("/"), "/", "/proc/self/root" + outside)):
            name = f"img{number}-{form}"
            make_image(g, name, link, target if link != "/dev/null" else target + "/null")
            seen[link, form] = run_image(g, name)
            equal(sorted(os.listdir(outside)), ["null"], f"{link} -> {target}: files outside")
            equal(read(os.path.join(outside, "null")), b"host\n", "the file outside")
            equal({path: identity(path) for path in before}, before, f"{link} -> {target}: owner, mode, times")
            equal([m for m in g.mounts() if "outside" in m], [], "mounts outside")
    print(f"# refused: {[link for link, how in seen.items() if 'refused' in how]}")


SURFACES = r"""
import os
def read(p):
    try: return repr(os.listdir(p) or "") if os.path.isdir(p) else open(p, "rb").read(64).decode("latin-1")
    except OSError: return ""
for p in ("kcore", "keys", "sysrq-trigger", "timer_list", "sched_debug", "acpi", "scsi", "interrupts"):
    if read("/proc/" + p).strip("'"): print("readable", p, read("/proc/" + p))
for p in ("firmware", "kernel", "fs/bpf"):
    if read("/sys/" + p).strip("'"): print("readable", p, read("/sys/" + p))
seen = 0
for top in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/sys"):
    for base, folders, files in os.walk(top):
        for f in files:
            p = os.path.join(base, f); seen += 1
            try: os.close(os.open(p, os.O_WRONLY)); print("writable", p)
            except OSError: pass
print("end", seen > 100)
"""


def test_6(g):
    """6: the kernel's surfaces are masked or read-only, in exec and in init."""
    for user in ("0", "1000:1000"):
        equal(g.out("a", ["python3", "-c", SURFACES], user=user), "end True\n", f"as {user}")
    # An exec has the very mounts of init.
    equal(g.out("a", "readlink /proc/self/ns/mnt").strip(), os.readlink(f"/proc/{g.inits()[0]}/ns/mnt"), "mounts")
    check(g.exec("a", "dmesg").code != 0, "dmesg")


WRITES = r"""
import ctypes, os, subprocess
child = subprocess.Popen(["sleep", "1000"])
def attempt(p, data):
    try:
        fd = os.open(p, os.O_WRONLY)
        os.write(fd, data)
        print("written", p, data)
    except OSError: pass
for p in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe",
          "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register",
          "/proc/irq/default_smp_affinity", "/proc/bus/pci/00", "/proc/acpi/wakeup", "/sys/kernel/uevent_helper",
          "/sys/fs/bpf/x", "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent"):
    attempt(p, b"|/workspace/x\n")
for data in (b"h", b"b", b"_"): attempt("/proc/sysrq-trigger", data)
for pid in ("1", "self", str(child.pid)):
    for name in ("uid_map", "gid_map"): attempt(f"/proc/{pid}/{name}", b"0 0 4294967295\n")
    attempt(f"/proc/{pid}/setgroups", b"deny\n")
for base, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(base, f) not in ("/proc", "/usr")]
    for f in files:
        if f in ("release_agent", "notify_on_release"): print("there is", os.path.join(base, f))
os.makedirs("/tmp/cg", exist_ok=True)
libc = ctypes.CDLL(None)
for kind, data in ((b"cgroup", b"memory"), (b"cgroup", b"rdma"), (b"cgroup2", None), (b"proc", None), (b"sysfs", None)):
    if libc.mount(b"x", b"/tmp/cg", kind, 0, data) == 0: print("mounted", kind)
own, init = (int(open(f"/proc/{p}/oom_score_adj").read()) for p in ("self", "1"))
for value in (init - 1, -1, -1000):
    for pid in ("self", str(child.pid), "1"): attempt(f"/proc/{pid}/oom_score_adj", str(value).encode())
    attempt("/proc/self/oom_adj", b"-17")
child.kill()
print("end", own > init)
"""


def test_7(g):
    """7: writes to core_pattern, sysrq-trigger, release_agent, uid_map, a lower oom_score_adj fail."""
    kept = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward")
    before = [read(path) for path in kept]
    for user in ("0", "1000:1000"):
        equal(g.out("a", ["python3", "-c", WRITES], user=user), "end True\n", f"as {user}")
    equal([read(path) for path in kept], before, "the host's own")


def test_8(g):
    """8: capabilities are the documented few; no_new_privs; set-uid files give nothing."""
    path = probe(g)
    for pid in ("self", "1"):
        facts = status_of(g.out("a", f"cat /proc/{pid}/status"))
        for name in ("CapPrm", "CapEff", "CapBnd"):
            equal(int(facts[name], 16), CAPABILITIES, f"{name} of {pid}")
        for name in ("CapInh", "CapAmb"):
            equal(int(facts[name], 16), 0, f"{name} of {pid}")
        equal(facts["NoNewPrivs"], "1", "no_new_privs")
        equal(facts["Seccomp"], "2", "seccomp")
        # The runtime's, and in an exec init's own on top.
        equal(facts["Seccomp_filters"], "1" if pid == "1" else "2", f"filters of {pid}")
    facts = status_of(g.out("a", "cat /proc/self/status", user="1000"))
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        equal(int(facts[name], 16), 0, f"{name} as an ordinary user")
    g.out("a", f"cp {path} /tmp/suid; chown 0:0 /tmp/suid; chmod 6755 /tmp/suid")
    equal(g.out("a", ["/tmp/suid", "ids"], user="1000"), "1000 1000\n", "a set-uid file")
    # All capabilities on a file: they cannot be set, or they are worth nothing.
    caps = ("import os, struct\ntry: os.setxattr('/tmp/cat', 'security.capability', "
            "struct.pack('<IIIII', 0x02000001, 0xffffffff, 0, 0x1ff, 0))\nexcept OSError: print('not set')")
    g.out("a", "cp /usr/bin/cat /tmp/cat; chmod 755 /tmp/cat")
    g.out("a", ["python3", "-c", caps])
    facts = status_of(g.out("a", ["/tmp/cat", "/proc/self/status"], user="1000"))
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        equal(int(facts[name], 16), 0, f"{name} by a file")


def ranges_of(g):
    """{sandbox: (first id outside, count)} of all that run, as the host sees them."""
    found = {}
    for init in (p for p in g.inits() if stat_of(p)[1] in g.keepers()):
        for kind in ("uid_map", "gid_map"):
            inside, outside, count = map(int, read(f"/proc/{init}/{kind}").split())
            equal(inside, 0, kind)
            equal(found.setdefault(name_of(init), (outside, count)), (outside, count), "uids and gids")
        facts = status_of(read(f"/proc/{init}/status").decode())
        equal(set(facts["Uid"].split() + facts["Gid"].split()), {str(outside)}, "root outside")
    return found


def test_9(g):
    """9: root inside is nobody outside; ids of sandboxes stay, and overlap only where there is one range."""
    seed = int(os.environ.get("BERTH_SEED", str(random.randrange(10**6))))
    rng, known, most = random.Random(seed), {}, 0
    print(f"# seed {seed}")
    for _ in range(40):
        name = f"s{rng.randrange(12)}"
        if name in known and rng.random() < 0.3:
            equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
            del known[name]
            continue
        if rng.random() < 0.3:
            check(g.request("POST", f"/v1/sandbox/{name}/sleep", {"mode": "stop"}).status in (200, 404), "sleep")
            continue
        equal(g.request("POST", f"/v1/sandbox/{name}/start").status, 200, "start")
        for other, ids in ranges_of(g).items():
            equal(known.setdefault(other, ids), ids, f"ids of {other} after a sleep")
        ids = sorted(known.values())
        most = max(most, len(ids))
        # Cold ones have their range, too: their disk belongs to it.
        for (first, count), (second, _) in zip(ids, ids[1:]):
            check(first + count <= second if g.is_root else first == second, known)
        own = range(1 << 30, 1 << 31) if g.is_root else range(ground.place.FIRST_SUBID,
                                                              ground.place.FIRST_SUBID + ground.place.SUBIDS)
        check(all(first in own and first + count - 1 in own for first, count in ids), known)
    check(most > 4, "too few sandboxes at once:", most)


def test_10(g):
    """10: the seccomp allowlist denies what nobody needs, and the other ABIs."""
    path = probe(g)
    for user in ("0", "1000"):
        no_hole(g.out("a", [path, "calls"], user=user), 37)
    for abi in ("i386", "x32"):
        result = g.exec("a", [path, "abi", abi])
        if result.reason != "signaled":
            no_hole(result.stdout.decode(), 1)


def test_11(g):
    """11: all namespaces differ from the host's and from each other's; /proc shows own pids only."""
    listing = "readlink " + " ".join(f"/proc/self/ns/{n}" for n in NAMESPACES)
    names = {where: g.out(where, listing).split() for where in ("a", "b", "c", "d")}
    names["host"] = [os.readlink(f"/proc/self/ns/{n}") for n in NAMESPACES]
    names["keeper"] = [os.readlink(f"/proc/{g.keeper()}/ns/{n}") for n in ("mnt", "user")]
    if g.is_root:
        names["keeper"].pop()  # root's keeper is in the host's own
    for (one, its), (other, others) in itertools.combinations(names.items(), 2):
        check({one, other} == {"host", "keeper"} or not set(its) & set(others), one, its, other, others)
    seen = [int(n) for n in g.out("a", "ls /proc").split() if n.isdigit()]
    check(1 in seen and len(seen) < 10, seen)
    equal(g.out("a", "cat /proc/1/comm"), "init\n", "pid 1")
    # Also the processes that an exec starts through init are in them.
    equal(g.out("a", ["readlink", "/proc/self/ns/mnt"]).strip(), names["a"][1], "mount namespace")


def test_12(g):
    """12: only the harmless devices; no device node can be made."""
    path = probe(g)
    # Without root the runtime binds the host's devices: their times are whose they always were.
    no_hole(g.out("a", [path, "devices"]), 20, notes=not g.is_root)
    # Of what is bound readdir() tells another type, and find would believe it.
    listing = g.out("a", "find /dev -exec stat -c '%F %n' {} +").splitlines()
    devices = [line.split()[-1] for line in listing if " special file " in line]
    check(len(devices) >= 5, listing)
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    equal([d for d in devices if os.path.basename(d) not in allowed and not d.startswith("/dev/pts/")], [], "devices")
    equal(g.out("a", "find / -xdev -type b"), "", "block devices")
    # They are the host's own: they must not be changed for everybody.
    for device in devices:
        if device.startswith("/dev/pts/") or device == "/dev/ptmx":
            continue
        for change in (f"chmod $(stat -c %a {device}) {device}", f"chown 0:0 {device}", f"chown 1000 {device}",
                       *([f"touch {device}"] if g.is_root else []), f"rm {device}", f"mv {device} /dev/x"):
            check(g.exec("a", change).code != 0, change)
        g.out("a", f"exec 3<{device}" if device != "/dev/tty" else "true")
    g.out("a", "echo x >/dev/null; head -c 5 /dev/zero | wc -c")


@ground.only("root")
def test_12_given_away(g):
    """12: the runtime cannot give devices of the host to a sandbox."""
    g.out("a", ["true"])
    for name in ("null", "zero", "full", "random", "urandom"):
        fd = os.open(f"/proc/{g.keeper()}/root/dev/{name}", os.O_RDWR)
        try:
            for change in (lambda: os.fchown(fd, 0, 0), lambda: os.fchmod(fd, 0o666)):  # pylint: disable=cell-var-from-loop
                try:
                    change()
                    raise ground.Failed(f"/dev/{name} can be given away")
                except OSError as error:
                    equal(error.errno, errno.EROFS, name)
        finally:
            os.close(fd)


CONNECT = r"""
import base64, socket, sys
tried = 0
for word in sys.stdin.read().split():
    name = base64.b64decode(word)
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        s = socket.socket(socket.AF_UNIX, kind); tried += 1
        try: s.connect(name); print("reached", name)
        except OSError: pass
        s.close()
for port in (1, 1024, 9999):
    for cid in (0, 1, 2, 4294967295):
        try: socket.socket(40, socket.SOCK_STREAM).connect((cid, port)); print("vsock", cid, port)
        except OSError: pass
print("end", tried > 12)
"""


def host_sockets(g):
    """Every name that somebody on the host is bound to, abstract ones too."""
    with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        names = {line.rstrip("\n").split(None, 7)[7] for line in list(file)[1:] if len(line.split(None, 7)) > 7}
    # Many other tests may run: all that are well known, ours, and some of theirs.
    mine = {n for n in names if g.dir in n or "docker" in n or "dbus" in n or "berth-test" in n}
    # What was bound through a directory's fd has another name for those who come by the path.
    paths = {g.socket, os.path.join(g.run, "keeper.sock"), os.path.join(g.run, "a", "agent.sock")}
    return sorted(mine | paths | set(sorted(names)[:300]))


def test_13(g):
    """13: no control surface of the host inside: sockets, abstract names, vsock."""
    path = probe(g)
    listeners = []
    try:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            listeners.append(socket.socket(socket.AF_UNIX, kind))
            listeners[-1].bind(f"\0berth-test-{os.getpid()}-{int(kind)}")
            if kind != socket.SOCK_DGRAM:
                listeners[-1].listen()
        names = host_sockets(g)
        check(g.socket in names and f"@berth-test-{os.getpid()}-1" in names, names)
        words = [base64.b64encode(re.sub("^@", "\0", n).encode(errors="surrogateescape")).decode() for n in names]
        for user in ("0", "1000"):
            equal(g.out("a", ["python3", "-c", CONNECT], stdin=" ".join(words), user=user), "end True\n", "sockets")
    finally:
        for listener in listeners:
            listener.close()
    found = g.out("a", "find / -xdev -type s 2>/dev/null; find /run /dev /tmp -type s; awk 'NR > 1 && NF > 7' /proc/net/unix")
    equal(found, "", "sockets inside")
    for thing in (g.socket, g.run, g.run + "/keeper.sock", "/var/run/docker.sock", "/run/docker.sock", "/run/dbus",
                  "/run/systemd", "/run/berth/keeper.sock"):
        check(g.exec("a", ["test", "-e", thing]).code == 1, thing)
    no_hole(g.out("a", [path, "sockets"]), 8)


main([test_daemon, test_1, test_2, test_3, test_4, test_6, test_7, test_8, test_9, test_10, test_11, test_12,
      test_12_given_away, test_13])
