"""SECURITY-CHECKS.md by number, tried from inside real sandboxes and against the real API."""

import errno
import hashlib
import os
import re
import shutil
import socket
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))
# pylint: disable=wrong-import-position
import ground  # noqa: E402
from ground import at_once, check, equal, is_alive, main, memory_of, until  # noqa: E402

DENIED = (errno.EPERM, errno.ENOSYS, errno.EACCES)
CAPABILITIES = 0x5FB  # chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service
NAMESPACES = ("pid", "mnt", "net", "ipc", "uts", "cgroup", "user")


def probe(g, name="a"):
    with open(os.path.join(g.build, "tests", "security", "security_probe"), "rb") as file:
        g.put_file(name, "/workspace/probe", file.read())
    return "/workspace/probe"


def status_of(text):
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def read(path, mode="rb"):
    with open(path, mode) as file:
        return file.read()


def test_daemon(g):
    """berthd has no capabilities, no_new_privs, and as root install is not root."""
    g.out("a", ["true"])
    for task in os.listdir(f"/proc/{g.berthd.pid}/task"):
        facts = status_of(read(f"/proc/{g.berthd.pid}/task/{task}/status").decode())
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            equal(int(facts[name], 16), 0, f"{name} of thread {task}")
        equal(facts["NoNewPrivs"], "1", "no_new_privs")
        if g.is_root:
            equal(int(facts["CapBnd"], 16), 0, "CapBnd")
            check("0" not in facts["Uid"].split() + facts["Gid"].split(), facts["Uid"], facts["Gid"])


def test_1(g):
    """1: no writable fd to a program's file while others exec beside it."""
    path = probe(g)
    init = read(g.path("berth-init"))
    with g.events("a", [path, "exe", "4"]) as events:
        end = time.monotonic() + 3.5

        def worker(_):
            count = 0
            while time.monotonic() < end:
                equal(g.exec("a", ["/usr/bin/true"]).code, 0, "exec")
                count += 1
            return count
        execs = sum(at_once(4, worker))
        result = events.result()
    tried, opened = map(int, result.stdout.split())
    print(f"# {execs} execs, {tried} files tried")
    check(execs > 100 and tried > 100, execs, tried)
    # Its own file in /workspace is its own to write, were it not running (ETXTBSY).
    equal(opened, 0, "files opened for writing")
    equal(g.out("a", ["sha256sum", "/run/berth/init"]).split()[0], hashlib.sha256(init).hexdigest(),
          "berth-init")
    check(g.exec("a", "echo x >>/run/berth/init").code != 0, "init can be written")
    check(g.exec("a", "echo x >>/usr/bin/true").code != 0, "/usr can be written")
    check(g.exec("a", "chmod 777 /usr/bin/true || touch /usr/x || mount -o remount,rw /usr").code != 0, "/usr")


def test_2(g):
    """2: an exec begins with fds 0, 1, 2; cwd is inside; cwd=/proc/self/fd/N is refused."""
    path = probe(g)
    for _ in range(20):
        equal(g.out("a", [path, "fds"]).split(), ["0", "1", "2"], "fds")
    equal(g.exec("a", [path, "fds"], stdin="x").stdout.split(), [b"0", b"1", b"2"], "fds with stdin")
    equal(set(at_once(20, lambda _: g.out("a", [path, "fds"]))), {"0 1 2 "}, "fds, side by side")
    for number in range(0, 24):
        for cwd in (f"/proc/self/fd/{number}", f"/proc/1/fd/{number}", f"/proc/self/fd/{number}/.."):
            result = g.exec("a", ["pwd"], cwd=cwd)
            equal(result.reason, "not_started", f"cwd={cwd}: {result}")
    result = g.exec("a", ["sh", "-c", "cd /proc/self/cwd && pwd -P; readlink /proc/self/root"], cwd="/tmp/../tmp")
    equal(result.stdout, b"/tmp\n/\n", result)
    for cwd in ("/proc/1/cwd", "/proc/1/root"):
        check(g.exec("a", ["true"], cwd=cwd).reason == "not_started", cwd)


def test_3(g):
    """3: nothing of the daemon or of another sandbox is inherited, by init or by an exec."""
    g.out("a", ["true"])
    g.out("b", ["true"])
    links = {}
    for init in g.inits():
        links[init] = []
        for fd in os.listdir(f"/proc/{init}/fd"):
            links[init].append(os.readlink(f"/proc/{init}/fd/{fd}"))
    kinds = re.compile(r"/dev/null$|/exec-\d+|anon_inode:\[(eventpoll|eventfd|signalfd|timerfd|pidfd)\]$|socket:\[\d+\]$|pipe:\[\d+\]$|/proc$|/$|.*/exec-\d+.*|/sys/fs/cgroup.*")
    for init, targets in links.items():
        for target in targets:
            check(kinds.match(target), init, "holds", target)
        # Its listener, its line to berthd; without cgroups one to each supervisor.
        check(sum(t.startswith("socket:") for t in targets) <= (2 if g.is_root else 4), targets)
    shared = set(t for t in links[g.inits()[0]] if t.startswith(("socket", "pipe"))) \
        & set(t for t in links[g.inits()[1]] if t.startswith(("socket", "pipe")))
    equal(shared, set(), "shared by two sandboxes")
    ours = {os.readlink(f"/proc/{g.berthd.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{g.berthd.pid}/fd")}
    inside = g.out("a", "ls -l /proc/self/fd | sed 's/.*-> //'").split()
    equal([t for t in inside if t in ours and t.startswith("socket")], [], "berthd's sockets inside")


def make_image(g, name, link, target):
    """An image in which one path is a symlink to somewhere else."""
    images = os.path.join(g.state, "images")
    rootfs = os.path.join(images, name, "rootfs")
    os.makedirs(rootfs)
    for folder in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "workspace", "bin"):
        os.mkdir(os.path.join(rootfs, folder))
    shutil.copy(os.path.join(g.build, "tests", "security", "security_probe"), os.path.join(rootfs, "bin", "probe"))
    path = os.path.join(rootfs, link.lstrip("/"))
    if os.path.isdir(path):
        os.rmdir(path)
    os.symlink(target, path)
    for folder, names, files in os.walk(images):
        for item in ["", *names, *files]:
            os.chown(os.path.join(folder, item), g.uid, g.uid, follow_symlinks=False)


def test_4(g):
    """4: images whose mount points are symlinks are refused or contained."""
    if not g.is_root:
        g.out("a", ["true"])  # a rootless image must be unpacked inside the keeper's namespace
    outside = g.path("outside")
    os.mkdir(outside)
    os.chmod(outside, 0o777)
    with open(os.path.join(outside, "null"), "w", encoding="utf-8") as file:
        file.write("host\n")
    os.chmod(os.path.join(outside, "null"), 0o666)
    links = ["/dev", "/dev/null", "/dev/pts", "/proc", "/sys", "/etc", "/tmp", "/workspace", "/run"]
    for number, link in enumerate(links):
        for target in (outside, "../" * 12 + outside.lstrip("/"), "/"):
            name = f"img{number}{'abc'[(outside, '../' * 12 + outside.lstrip('/'), '/').index(target)]}"
            make_image(g, name, link, target if link != "/dev/null" else target + "/null")
            g.request("PUT", f"/v1/sandbox/{name}", {"image": name})
            reply = g.request("POST", f"/v1/sandbox/{name}/exec", {"argv": ["/bin/probe", "devices"], "cwd": "/"},
                              Accept="application/json")
            if reply.status == 200:
                check(reply.json()["reason"] in ("exited", "not_started"), link, target, reply)
            else:
                equal((reply.status, reply.json()["code"]), (502, "start_failed"), f"{link} {target} {reply}")
            equal(sorted(os.listdir(outside)), ["null"], f"{link} -> {target}: files outside")
            equal(read(os.path.join(outside, "null")), b"host\n", "the file outside")
            equal(os.stat(outside).st_mode & 0o777, 0o777, "mode outside")
            equal([m for m in g.mounts() if "outside" in m], [], "mounts outside")
            equal(g.request("DELETE", f"/v1/sandbox/{name}").status, 204, "delete")
    check(os.path.exists("/etc/passwd") and os.path.isdir("/proc/self"), "the host itself")


def test_6_7(g):
    """6, 7: kernel surfaces are masked or read-only; writes to them fail."""
    program = r"""
import os
for p in ("/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/sched_debug", "/proc/acpi", "/proc/scsi", "/sys/firmware"):
    try:
        if os.path.isdir(p): data = repr(os.listdir(p)) if os.listdir(p) else ""
        else: data = open(p, "rb").read(64).decode("latin-1")
    except OSError as e: data = ""
    if data: print("readable", p, repr(data))
for p in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe",
          "/proc/irq/default_smp_affinity", "/proc/bus/pci/00", "/sys/fs/cgroup/release_agent", "/sys/kernel/uevent_helper",
          "/proc/1/uid_map", "/proc/self/uid_map", "/proc/self/gid_map", "/proc/sys/fs/binfmt_misc/register", "/sys/fs/bpf/x",
          "/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward", "/proc/acpi/wakeup"):
    try:
        fd = os.open(p, os.O_WRONLY)
        os.write(fd, b"1\n")
        print("written", p)
    except OSError: pass
for base, _, files in os.walk("/sys"):
    for f in files:
        p = os.path.join(base, f)
        try: os.close(os.open(p, os.O_WRONLY)); print("writable", p)
        except OSError: pass
own = int(open("/proc/self/oom_score_adj").read())
init = int(open("/proc/1/oom_score_adj").read())
try:
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(fd, str(init - 1).encode()); print("oom_score_adj", own, init)
except OSError: pass
print("end", own > init)
"""
    for user in ("0", "1000:1000"):
        equal(g.out("a", ["python3", "-c", program], user=user), "end True\n", f"as {user}")
    check(g.exec("a", "dmesg").code != 0, "dmesg")
    check(g.exec("a", "mount -t cgroup x /mnt; mount -t proc p /mnt; mount --bind / /mnt").code != 0, "mount")


def test_8(g):
    """8: capabilities are the documented few; no_new_privs; set-uid files give nothing."""
    path = probe(g)
    for pid in ("self", "1"):
        facts = status_of(g.out("a", f"cat /proc/{pid}/status"))
        for name in ("CapPrm", "CapEff", "CapBnd"):
            equal(int(facts[name], 16) & ~CAPABILITIES, 0, f"{name} of {pid}: {facts[name]}")
        equal(facts["NoNewPrivs"], "1", "no_new_privs")
        equal(facts["Seccomp"], "2", "seccomp")
    facts = status_of(g.out("a", "cat /proc/self/status", user="1000"))
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        equal(int(facts[name], 16), 0, f"{name} as an ordinary user")
    g.out("a", f"cp {path} /tmp/suid; chown 0:0 /tmp/suid; chmod 6755 /tmp/suid")
    equal(g.out("a", ["/tmp/suid", "ids"], user="1000"), "1000 1000\n", "a set-uid file")


def test_9(g):
    """9: root inside is nobody outside; ranges of two sandboxes do not overlap."""
    ranges = []
    for i in range(6):
        inside, outside, count = g.out(f"s{i}", "cat /proc/self/uid_map").split()
        check(int(inside) == 0 and int(outside) != 0, inside, outside)
        ranges.append((int(outside), int(count)))
        g.out(f"s{i}", "touch /workspace/mine; chown 65534 /workspace/mine")
    for init in g.inits():
        facts = status_of(read(f"/proc/{init}/status").decode())
        check("0" not in facts["Uid"].split() and "0" not in facts["Gid"].split(), facts["Uid"])
    if g.is_root:
        ranges.sort()
        for (first, count), (second, _) in zip(ranges, ranges[1:]):
            check(first + count <= second, ranges)


def test_10(g):
    """10: the seccomp allowlist denies what nobody needs, and the other ABIs."""
    path = probe(g)
    for user in ("0", "1000"):
        for line in g.out("a", [path, "calls"], user=user).splitlines():
            name, result, error = line.split()
            check(int(result) == -1 and int(error) in DENIED, f"as {user}:", line)
    for abi in ("i386", "x32"):
        result = g.exec("a", [path, "abi", abi])
        check(result.reason == "signaled" or int(result.stdout) < 0, abi, result)


def test_11(g):
    """11: all namespaces differ from the host's and from each other's; /proc shows own pids only."""
    g.out("a", ["true"])
    g.out("b", ["true"])
    names = {}
    for where in ("a", "b"):
        names[where] = g.out(where, "readlink " + " ".join(f"/proc/self/ns/{n}" for n in NAMESPACES)).split()
    host = [os.readlink(f"/proc/self/ns/{n}") for n in NAMESPACES]
    for one, other in ((names["a"], host), (names["b"], host), (names["a"], names["b"])):
        equal(set(one) & set(other), set(), "shared namespaces")
    seen = [int(n) for n in g.out("a", "ls /proc").split() if n.isdigit()]
    check(1 in seen and len(seen) < 10, seen)
    equal(g.out("a", "cat /proc/1/comm"), "init\n", "pid 1")
    # Also the processes that an exec starts through init are in them.
    equal(g.out("a", ["readlink", "/proc/self/ns/mnt"]).strip(), names["a"][1], "mount namespace")


def test_12(g):
    """12: only the harmless devices; no device node can be made."""
    path = probe(g)
    lines = dict(line.split() for line in g.out("a", [path, "devices"]).splitlines())
    equal(lines["fifo"], "0", "a fifo")
    check(lines["char"] != "0" and lines["block"] != "0", lines)
    devices = g.out("a", "find /dev -type c -o -type b").split()
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    equal([d for d in devices if os.path.basename(d) not in allowed and not d.startswith("/dev/pts/")], [], "devices")
    equal(g.out("a", "find / -xdev -type b"), "", "block devices")


def test_13(g):
    """13: no control surface of the host inside: sockets, abstract names, vsock."""
    path = probe(g)
    name = f"\0berth-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        program = f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0berth-test-{os.getpid()}')"
        check(g.exec("a", ["python3", "-c", program]).code == 1, "an abstract socket of the host")
    found = g.out("a", "find / -xdev -type s 2>/dev/null; find /run -type s 2>/dev/null; awk 'NR > 1 && NF > 7' /proc/net/unix")
    equal(found, "", "sockets inside")
    for thing in (g.socket, g.run + "/keeper.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/berth/keeper.sock"):
        check(g.exec("a", ["test", "-e", thing]).code == 1, thing)
    sockets = dict(line.split() for line in g.out("a", [path, "sockets"]).splitlines())
    for kind in ("vsock", "packet", "raw4", "raw6", "alg", "bluetooth"):
        check(sockets[kind] != "0", kind, "can be opened")


def lives(g, *names):
    return [p for p in g.processes() if g.is_sandboxed(p) and is_alive(p) and ground.comm_of(p) in names]


def test_23(g):
    """23: timeout, disconnect, DELETE and sleep end everything that an exec started."""
    escape = ("(trap '' TERM HUP; setsid sh -c 'sleep 300' & ) & (setsid sleep 300 &) ; sleep 300 & "
              "kill -STOP $! ; sh -c 'kill -STOP $$' & sleep 300")

    def begin(name):
        connection = g.connect()
        connection.request("POST", f"/v1/sandbox/{name}/exec", ground.json.dumps({"command": escape}),
                           {"Accept": "text/event-stream"})
        until(lambda: len(lives(g, "sleep")) >= 3, "the processes")
        return connection
    equal(g.exec("a", escape, timeout_ms=700).reason, "timeout", "reason")
    equal(lives(g, "sleep", "sh"), [], "after a timeout")
    begin("a").close()
    until(lambda: not lives(g, "sleep", "sh"), "an end after a disconnect")
    for method, target in (("POST", "/v1/sandbox/a/sleep"), ("DELETE", "/v1/sandbox/a")):
        connection = begin("a")
        check(g.request(method, target).status in (200, 204), target)
        equal(lives(g, "sleep", "sh", "init"), [], target)
        connection.close()


def test_24(g):
    """24: an exit status is never invented: what is killed is `lost`, not 0."""
    for _ in range(5):
        with g.events("a", "trap 'exit 0' TERM; echo on; sleep 100") as events:
            iterator = iter(events)
            next(iterator)
            os.kill(g.inits()[0], 9)
            _, end = next(iterator)
            equal((end["reason"], end["exit_code"]), ("lost", None), end)
    # Somebody inside kills what minds the exec.
    result = g.exec("a", "kill -9 $PPID; sleep 0.2; exit 0")
    check((result.reason, result.code) in (("exited", 0), ("lost", None)), result)


def test_25(g):
    """25: output that nobody reads blocks no other exec and grows nothing."""
    g.out("a", ["true"])
    start = memory_of(g.berthd.pid)
    floods = [g.events("a", ["sh", "-c", "yes floods"]) for _ in range(8)]
    try:
        for _ in range(20):
            begun = time.monotonic()
            equal(g.out("a", ["echo", "x"]), "x\n", "another exec")
            check(time.monotonic() - begun < 3, "it waited")
        grown = memory_of(g.berthd.pid) - start
        check(ground.IS_SANITIZED or grown < 8 << 20, "memory grew by", grown)
    finally:
        for flood in floods:
            flood.close()
    until(lambda: not lives(g, "yes"), "the floods to end")


def test_26(g):
    """26: thread bombs and huge arguments are contained, with a clean error."""
    threads = ("import threading, time\nn = 0\ntry:\n for n in range(100000): threading.Thread(target=time.sleep, "
               "args=(30,), daemon=True).start()\nexcept RuntimeError: print('stopped', flush=True)\ntime.sleep(30)")
    if g.is_root:
        g.request("PUT", "/v1/sandbox/a", {"limits": {"pids": 100}})
        result = g.exec("a", ["python3", "-c", threads], timeout_ms=2000)
        equal((result.reason, result.stdout), ("timeout", b"stopped\n"), result)
    equal(g.exec("a", ["true", "x" * 140000]).reason, "not_started", "a huge argument")
    g.refuse("a", ["x"] * 3_000_000, status=413)
    g.refuse("a", ["true"], env={"A": "x" * (3 << 20)})
    equal(g.out("a", "echo fine"), "fine\n", "afterwards")


def test_27(g):
    """27: nothing of the daemon's environment leaks, to an exec or to init."""
    equal(sorted(x.split("=")[0] for x in g.out("a", ["env"]).splitlines()), ["HOME", "LANG", "PATH"], "env")
    for init in g.inits():
        environ = read(f"/proc/{init}/environ")
        check(b"SECRET_OF_THE_DAEMON" not in environ and b"XDG" not in environ, environ)
    check(g.exec("a", "cat /proc/1/environ").code != 0, "init's environment can be read inside")


def test_29(g):
    """29: without a network there is only lo; TCP, UDP, ICMP, IPv6 and DNS all fail."""
    program = r"""
import errno, socket
def attempt(name, family, kind, address):
    try:
        s = socket.socket(family, kind); s.settimeout(1)
        s.connect(address)
        if kind == socket.SOCK_DGRAM: s.send(b"x")
        print("reached", name)
    except OSError: pass
attempt("tcp", socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80))
attempt("udp", socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))
attempt("metadata", socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
attempt("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80))
attempt("udp6", socket.AF_INET6, socket.SOCK_DGRAM, ("2001:db8::1", 53))
attempt("host", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))
attempt("host6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", PORT))
try: print("resolved", socket.getaddrinfo("example.com", 80))
except OSError: pass
for kind, protocol in ((socket.SOCK_RAW, 1), (socket.SOCK_DGRAM, 1)):
    try:
        s = socket.socket(socket.AF_INET, kind, protocol); s.sendto(b"\x08\0\xf7\xff\0\0\0\0", ("192.0.2.1", 0)); print("icmp", kind)
    except OSError: pass
l = socket.create_server(("127.0.0.1", 0)); socket.create_connection(l.getsockname()); print("lo works")
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        equal(g.out("a", ["python3", "-c", program.replace("PORT", str(port))]), "lo works\n", "network")
    lines = g.out("a", "cat /proc/net/dev").splitlines()[2:]
    equal([line.split(":")[0].strip() for line in lines], ["lo"], "interfaces")
    equal(len(g.out("a", "cat /proc/net/route").splitlines()), 1, "routes")
    check(g.exec("a", "ip link add x type dummy || ip route add default dev lo || ip addr add 192.0.2.9/32 dev lo").code != 0,
          "an interface, a route or an address can be added")


main([test_daemon, test_1, test_2, test_3, test_4, test_6_7, test_8, test_9, test_10, test_11, test_12, test_13,
      test_23, test_24, test_25, test_26, test_27, test_29])
