"""How far a sandbox is trusted: what each preset gives, and what it takes away."""

import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "keeper", "process")]

# pylint: disable=wrong-import-position
import ground  # noqa: E402
import keeper_link as k  # noqa: E402
import process_api as process  # noqa: E402
from ground import check, equal, main, only, until  # noqa: E402
from limit_api import MIB, of_kernel  # noqa: E402

PRESETS = ("high", "medium", "low", "untrusted")
ALL, LOW, NONE = 0x5fb, 0xeb, 0
# Each by its number: no library stands between.
FATAL = {"bpf": 321, "delete_module": 176, "finit_module": 313, "fsopen": 430, "init_module": 175, "ioperm": 173, "iopl": 172,
         "kexec_load": 246, "kexec_file_load": 320, "mount": 165, "mount_setattr": 442, "move_mount": 429, "open_by_handle_at": 304,
         "open_tree": 428, "perf_event_open": 298, "pivot_root": 155, "reboot": 169, "setns": 308, "swapon": 167, "swapoff": 168,
         "umount2": 166, "userfaultfd": 323, "fsconfig": 431, "fsmount": 432, "fspick": 433}
# Refused, as ever, but nobody dies of it.
REFUSED = {"ptrace": 101, "keyctl": 250, "add_key": 248, "request_key": 249, "io_uring_setup": 425, "process_vm_readv": 310,
           "process_vm_writev": 311, "chroot": 161, "syslog": 103, "modify_ldt": 154, "pidfd_getfd": 438, "sethostname": 170}
NEWUSER, FILES = 0x10000000, 0x400


def call(number, *args):
    """A command that makes one system call and prints its errno."""
    words = ", ".join(f"ctypes.c_long({arg})" for arg in (number, *args, *[0] * (6 - len(args))))
    return ["python3", "-c", f"import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.syscall({words}); "
                             "print(ctypes.get_errno() if r < 0 else 0)"]


def make(g, name, trust, **settings):
    reply = g.request("POST", "/v1/sandbox", {"id": name, "trust": trust, **settings})
    equal(reply.status, 201, reply)
    shown = g.sandbox(name)
    equal(shown["trust"], trust, shown)
    return shown


def refused(g, status, code, words, method="POST", path="/v1/sandbox", **body):
    reply = g.request(method, path, body)
    equal((reply.status, reply.json()["code"]), (status, code), reply)
    check(all(word in reply.json()["error"] for word in words), reply)


def configure(g, trust):
    file = g.path("config.json")
    with open(file, "w", encoding="utf-8") as out:
        json.dump({"trust": trust}, out)
    os.chmod(file, 0o644)
    return "--config", file


def caps_of(g, name):
    """Of whatever runs there: the effective and the bounding set."""
    lines = dict(line.split(":\t") for line in g.out(name, "cat /proc/self/status").splitlines() if line.startswith("Cap"))
    equal((int(lines["CapPrm"], 16), int(lines["CapInh"], 16), int(lines["CapAmb"], 16)),
          (int(lines["CapEff"], 16), 0, 0), lines)
    return int(lines["CapEff"], 16), int(lines["CapBnd"], 16)


def test_table(g):
    """/v1/info tells what the presets are; one that nobody named is null."""
    table = g.get("/v1/info").json()["trust"]
    equal(list(table), list(PRESETS), "their names")
    equal([table[name]["seccomp"] for name in PRESETS], ["default", "default", "strict", "strict"], table)
    equal([len(table[name]["capabilities"]) for name in PRESETS], [9, 9, 6, 0], table)
    equal([table[name]["capped"] for name in PRESETS], [False, False, True, True], table)
    equal(table["untrusted"]["limits"]["memory"], 256 * MIB, table)
    equal(table["high"]["limits"], {name: None for name in table["low"]["limits"]}, "high says nothing")
    equal([table[name]["runtime"] for name in PRESETS], [None] * 4, table)
    g.request("PUT", "/v1/sandbox/a", {})
    equal(g.sandbox("a")["trust"], None, "nobody said so")
    refused(g, 400, "invalid_request", ["trust", '"untrusted"'], trust="trusted")
    refused(g, 400, "invalid_request", ["trust"], trust=1)
    refused(g, 400, "invalid_request", ["trust"], method="PUT", path="/v1/sandbox/a", trust="")
    equal(g.sandbox("a")["trust"], None, "nothing was stored")


def test_capabilities(g):
    """What root inside can do, by preset, and that no more can be had."""
    has_users = g.out("plain", "wc -l </proc/self/uid_map; awk '{ print $3 }' /proc/self/uid_map").split()[1] != "1"
    for name, wanted in zip(PRESETS, (ALL, ALL, LOW, NONE)):
        make(g, name, name)
        equal(caps_of(g, name), (wanted, wanted), name)
    equal(caps_of(g, "plain"), (ALL, ALL), "without a preset")
    # Without any, root is one user as any other; what is its own is still its own.
    equal(g.out("untrusted", "echo x >a && chmod 600 a && cat a && id -u"), "x\n0\n", "its own files")
    check(g.exec("untrusted", "chown 1 a").code != 0, "to give one away")
    done = g.exec("untrusted", ["id"], user="1000")
    equal(done.reason, "not_started", done)
    equal(g.exec("low", ["id", "-u"], user="1000" if has_users else "0").code, 0, "low may")


def test_limits(g):
    """A preset's limits are those of the sandbox, where this host can hold them; low and untrusted cap them."""
    abilities = g.get("/v1/info").json()["abilities"]
    shown = make(g, "u", "untrusted")
    equal(shown["limits"]["memory"], 256 * MIB if abilities["memory_limit"] else None, shown)
    equal(shown["limits"]["cpus"], 1 if abilities["cpu_limit"] else None, shown)
    equal((shown["limits"]["pids"], shown["limits"]["files"], shown["limits"]["file_size"]), (128, 1024, 256 * MIB), shown)
    equal(g.out("u", ["python3", "-c", "from resource import *; print(getrlimit(RLIMIT_NOFILE), getrlimit(RLIMIT_FSIZE))"]),
          f"(1024, 1024) ({256 * MIB}, {256 * MIB})\n", "inside")
    if abilities["memory_limit"]:
        equal(of_kernel(g, "memory", "u"), str(256 * MIB), "the cgroup")
    # Less is fine, more is not.
    equal(make(g, "less", "untrusted", limits={"pids": 64})["limits"]["pids"], 64, "less")
    for limits, words in (({"pids": 129}, ["limits.pids", "128"]), ({"memory": "1G"}, ["limits.memory", "256M"]),
                          ({"cpus": 1.5}, ["limits.cpus", "1"]), ({"file_size": "257M"}, ["limits.file_size", "256M"])):
        refused(g, 403, "forbidden", [*words, "untrusted"], id="more", trust="untrusted", limits=limits)
    equal(g.get("/v1/sandbox/more").status, 404, "it was not made")
    refused(g, 403, "forbidden", ["limits.pids"], method="PUT", path="/v1/sandbox/less", limits={"pids": 1000})
    reply = g.request("PUT", "/v1/sandbox/less", {"limits": {"pids": 100}})
    equal((reply.status, reply.json()["limits"]["pids"]), (200, 100), reply)
    reply = g.request("PUT", "/v1/sandbox/less", {"limits": {"pids": 0}})
    equal(reply.json()["limits"]["pids"], 128, "the preset's again")
    # Of the others the limits are but defaults.
    equal(make(g, "m", "medium")["limits"]["pids"], 512, "medium")
    equal(make(g, "m2", "medium", limits={"pids": 2000})["limits"]["pids"], 2000, "more than that")
    # Whoever is trusted less afterwards must say with how much less.
    refused(g, 403, "forbidden", ["limits.", "low"], method="PUT", path="/v1/sandbox/m2", trust="low")
    reply = g.request("PUT", "/v1/sandbox/m2", {"trust": "low", "limits": {"pids": 0, "memory": 0, "cpus": 0}})
    equal((reply.status, reply.json()["limits"]["pids"], reply.json()["trust"]), (200, 256, "low"), reply)


def test_violation(g):
    """Whoever tries what only an attack needs dies of it, and that is told; others live."""
    make(g, "u", "untrusted")
    for name, number in FATAL.items():
        done = g.exec("u", call(number))
        equal((done.reason, done.facts.get("signal"), done.code), ("security_violation", signal.SIGSYS, 128 + signal.SIGSYS), name)
    done = g.exec("u", call(272, NEWUSER))
    equal(done.reason, "security_violation", "unshare of a namespace")
    equal(g.out("u", call(272, FILES)), "1\n", "unshare of nothing that matters")
    for name, number in REFUSED.items():
        equal(g.out("u", call(number)), "1\n", name)
    # All threads go, whichever of them it was.
    done = g.exec("u", ["python3", "-c", "import ctypes, threading, time\nthreading.Thread(target=lambda: "
                        "ctypes.CDLL(None).syscall(321, 0, 0, 0)).start()\ntime.sleep(1000)"])
    equal(done.reason, "security_violation", done)
    # Of a child its parent knows, and nobody else.
    done = g.exec("u", ["sh", "-c", '"$@"; echo $?', "sh", *call(165)])
    equal((done.reason, done.stdout.split()[-1]), ("exited", b"159"), done)
    # Where the filter is the ordinary one nobody dies.
    make(g, "m", "medium")
    for name, number in FATAL.items():
        equal(g.out("m", call(number)), "1\n", name)


def test_no_other_cause(g):
    """In a strict sandbox no process can send that signal; what a client sends is told as that."""
    make(g, "u", "untrusted")
    for sender in ("os.kill(os.getpid(), 31)", "signal.pthread_kill(threading.get_ident(), 31)",
                   "signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 31)", "os.kill(0, 31)"):
        done = g.exec("u", ["python3", "-c", f"import os, signal, threading\ntry:\n  {sender}\nexcept PermissionError: print('no')"])
        equal((done.reason, done.stdout), ("exited", b"no\n"), sender)
    by_pipe = ("import fcntl, os\nchild = os.fork() or os.execlp('sleep', 'sleep', '1000')\nr, w = os.pipe()\n"
               "fcntl.fcntl(r, fcntl.F_SETOWN, child)\ntry:\n  fcntl.fcntl(r, 10, 31)\nexcept PermissionError: print('no')\n"
               "fcntl.fcntl(r, 10, 15)\nfcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)\nos.write(w, b'x')\nprint(os.wait()[1])")
    equal(g.out("u", ["python3", "-c", by_pipe]), "no\n15\n", "what a descriptor sends")
    equal(g.out("u", "sleep 1000 & kill $!; wait $!; echo $?"), "143\n", "other signals")
    process.start(g, "u", ["sleep", "1000"], id="p")
    equal(g.request("POST", "/v1/sandbox/u/processes/p/kill", {"signal": signal.SIGSYS}).status, 204, "sent")
    equal(process.ended(g, "u", "p")["reason"], "signaled", "what a client sends")
    # And of one that is not strict it says nothing but that.
    make(g, "h", "high")
    equal(g.exec("h", "kill -SYS $$").reason, "signaled", "high")


def test_process(g):
    """A background process, across a restart of berthd, is told to have been ended so, too."""
    make(g, "u", "untrusted")
    g.out("u", "mkfifo go")
    process.start(g, "u", ["sh", "-c", 'read x <go; exec "$@"', "sh", *call(165)], id="p")
    g.kill_berthd()
    g.start()
    g.out("u", "echo >go")
    shown = process.ended(g, "u", "p")
    equal((shown["reason"], shown["exit"]["code"]), ("security_violation", 159), shown)
    g.kill_berthd()
    g.start()
    equal(process.show(g, "u", "p")["reason"], "security_violation", "as it is stored")
    g.kill_keeper()
    g.await_keeper()
    equal(g.exec("u", call(321)).reason, "security_violation", "adopted by another keeper")


def test_programs(g):
    """What ordinary programs do is never taken for an attack."""
    shown = make(g, "u", "untrusted")
    equal(shown["limits"]["pids"], 128, shown)
    commands = {
        "python3": "python3 -c 'import asyncio, ctypes, multiprocessing as m, sqlite3, ssl, subprocess, threading\n"
                   "async def f(): return await (await asyncio.create_subprocess_exec(\"true\")).wait()\n"
                   "print(asyncio.run(f()), subprocess.run([\"true\"]).returncode, m.Pool(2).map(abs, [-1]))'",
        "node": "node -e 'const fs = require(\"fs\"); fs.writeFileSync(\"n\", \"x\"); fs.promises.readFile(\"n\").then(() => "
                "require(\"child_process\").execSync(\"true\"));new (require(\"worker_threads\").Worker)(\"1\", {eval: true})'",
        "npm": "npm --version && npm init -y && npm ls",
        "git": "git init -q r && cd r && echo x >f && git add f && git -c user.name=n -c user.email=e commit -qm m && git gc -q && "
               "git clone -q . ../r2 && git log --oneline",
        "gcc": "echo 'int main(void) { return 0; }' >c.c && gcc -O2 -pthread -o c c.c && ./c",
        "tar": "mkdir -p d && echo x >d/f && tar cf - d | gzip | tar tzf - && tar cJf d.txz d && tar xJf d.txz --no-same-owner",
        "find": "find /etc -maxdepth 1 -newer /bin/sh | sort | head -3; ls -la /; df -h / || true; ps ax; dd if=/dev/zero of=z bs=1M count=4; "
                "stat z; cp -a z y; mv y x; ln -s x w; rm -rf w x z",
        "perl": "perl -e 'fork; print 1'",
        "apt": "apt list 2>/dev/null | head -1; apt-cache policy bash; dpkg -l | head -3; dpkg-query -W bash",
        "curl": "curl -s http://127.0.0.1:9/ ; curl --version",
        "openssl": "openssl rand -hex 4 && openssl speed -seconds 1 -bytes 16 sha256",
    }
    for program, script in commands.items():
        if g.exec("u", f"command -v {program}").code != 0:
            check(program not in ("python3", "git", "tar"), program)
            continue
        done = g.exec("u", ["bash", "-c", f"set -o pipefail; {script}; s=$?; dmesg >/dev/null 2>&1; exit $s"], timeout_ms=120000)
        equal(done.reason, "exited", (program, done))
        check(b"Bad system call" not in done.stderr and done.code not in (31, 159), (program, done))
        check(done.code == 0 or program in ("find", "curl", "apt"), (program, done))


def test_config(g):
    """The operator says what a preset means; SIGHUP changes it for what is made or started then."""
    flags = configure(g, {"untrusted": {"limits": {"pids": 64, "memory": 0}, "capabilities": ["CAP_CHOWN"], "seccomp": "default"},
                          "high": {"seccomp": "strict"}})
    g.start(*flags)
    table = g.get("/v1/info").json()["trust"]
    equal((table["untrusted"]["limits"]["pids"], table["untrusted"]["limits"]["memory"], table["untrusted"]["limits"]["files"]),
          (64, None, 1024), "the rest is as it was built in")
    equal(make(g, "u", "untrusted")["limits"]["pids"], 64, "its own")
    equal(caps_of(g, "u"), (1, 1), "CHOWN alone")
    equal(g.out("u", call(165)), "1\n", "the ordinary filter")
    make(g, "h", "high")
    equal(g.exec("h", call(165)).reason, "security_violation", "high can be strict")
    configure(g, {"untrusted": {"limits": {"pids": 32}, "capabilities": []}})
    os.kill(g.berthd.pid, signal.SIGHUP)
    until(lambda: g.get("/v1/info").json()["trust"]["untrusted"]["limits"]["pids"] == 32, "SIGHUP")
    equal(g.sandbox("u")["limits"]["pids"], 64, "those that are there keep their limits")
    equal(g.request("PUT", "/v1/sandbox/u", {"labels": {"a": "b"}}).status, 200, "and can be changed otherwise")
    equal(caps_of(g, "u"), (1, 1), "in its life")
    equal(g.request("POST", "/v1/sandbox/u/sleep", {"mode": "stop"}).status, 200, "stop")
    equal(caps_of(g, "u"), (0, 0), "from the next start on")
    equal(g.exec("u", call(165)).reason, "security_violation", "and the filter")


def test_wrong_config(g):
    """What a preset cannot be is an error that names it."""
    for trust, words in (({"none": {}}, ["trust", "none"]), ({"low": {"limits": {"pids": 1}}}, ["trust: low", "limits.pids"]),
                         ({"low": {"capabilities": ["CAP_SYS_ADMIN"]}}, ["trust: low", "capabilities[0]", "CAP_CHOWN"]),
                         ({"low": {"capabilities": "none"}}, ["capabilities"]), ({"low": {"seccomp": "off"}}, ["trust: low", "strict"]),
                         ({"low": {"runtime": "/bin/sh"}}, ["trust: low", "runtime"]), ([], ["trust"])):
        done = subprocess.run([os.path.join(g.build, "berthd"), *configure(g, trust)], capture_output=True, check=False, timeout=60)
        check(done.returncode != 0 and all(word in done.stderr.decode() for word in words), (trust, done))


def test_runtime(g):
    """A preset may name the runtime that the daemon has; another cannot be had, and the answer says so."""
    own = g.runtime
    other = "runc" if own == "crun" else "crun"
    g.start(*configure(g, {"low": {"runtime": own}, "untrusted": {"runtime": other}}))
    make(g, "l", "low")
    equal(g.out("l", "echo x"), "x\n", "its own")
    refused(g, 501, "unsupported", [other, "--runtime", "untrusted"], id="u", trust="untrusted")


@only("root")
def test_disk(g):
    """A preset's limit of the disk is for those that can still get one."""
    g.start(*configure(g, {"untrusted": {"limits": {"disk": "64M"}}}))
    g.out("old", "echo x >a")
    reply = g.request("PUT", "/v1/sandbox/old", {"trust": "untrusted"})
    equal((reply.status, reply.json()["limits"]["disk"]), (200, None), reply)
    equal(g.request("POST", "/v1/sandbox/old/sleep", {"mode": "stop"}).status, 200, "stop")
    equal(g.out("old", "cat a"), "x\n", "it starts")
    equal(make(g, "new", "untrusted")["limits"]["disk"], 64 * MIB, "a new one")
    check(b"quota" in g.exec("new", "head -c 80M /dev/zero >big").stderr, "which holds")


@only("root")
def test_keeper(g):
    """The keeper takes no word for it: other capabilities than those that there are do not exist."""
    g.out("a", "true")
    g.kill_berthd()
    link = k.Link(os.path.join(g.run, "keeper.sock"), 60)
    link.hello()
    for wrong in ({"capabilities": 0x200}, {"capabilities": 0xffffffff}, {"flags": 16}):
        answer = link.ask(k.START, **{"id": "b", "generation": 1, "image": "host", **wrong})
        equal((answer.type, k.ERRORS.get(answer.get("code"))), (k.FAILED, "invalid_request"), f"{wrong} {answer}")
    link.close()
    g.start()
    equal(g.out("a", "echo x"), "x\n", "it serves the next one")


def test_cli(g):
    """berth create --trust, inspect, and an end that is told in words."""
    berth = [os.path.join(g.build, "berth"), "--socket", g.socket]
    done = subprocess.run([*berth, "create", "c", "--trust", "untrusted"], capture_output=True, check=False, timeout=ground.TIMEOUT)
    equal((done.returncode, done.stdout), (0, b"c\n"), done)
    done = subprocess.run([*berth, "inspect", "c"], capture_output=True, check=False, timeout=ground.TIMEOUT)
    check(b"untrusted" in done.stdout, done)
    done = subprocess.run([*berth, "exec", "c", "--", *call(165)], capture_output=True, check=False, timeout=ground.TIMEOUT)
    check(done.returncode == 159 and b"forbids" in done.stderr, done)
    done = subprocess.run([*berth, "create", "--trust", "much"], capture_output=True, check=False, timeout=ground.TIMEOUT)
    check(done.returncode == 2 and b"--trust" in done.stderr, done)


main([test_table, test_capabilities, test_limits, test_violation, test_no_other_cause, test_process, test_programs, test_config,
      test_wrong_config, test_runtime, test_disk, test_keeper, test_cli],
     start=lambda test: test not in (test_config, test_wrong_config, test_runtime, test_disk))
