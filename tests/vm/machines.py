"""Boots each machine with a job of tests and counts their TAP points; scripts/test-vm has built all.

usage: machines.py [MACHINE...] [NAME...]
"""

import importlib.util
import io
import json
import os
import pathlib
import py_compile
import re
import select
import subprocess
import sys
import tarfile
import tempfile
import time

import image

sys.path.append(str(image.HERE.parent))
import run as points  # noqa: E402  pylint: disable=wrong-import-position

BUILD = image.ROOT / "build"
AS_ROOT = r"(keeper|freeze|container|inside)_root_|init_(exec|user|channel|tree)$|" \
          r"sandbox_(exec|lifecycle|adopt|many)(_runc)?$|chaos_(root|runc)$|security_root_|" \
          r"lifecycle_(sleep|between|capacity|alarms|death|events|left)(_runc)?$|process_(processes|edges)(_runc)?$"
# By name: its root image, words of the kernel's command line, which tests. See scripts/test-vm.
MACHINES = {
    "v2": ("debian", "vm.cgroups=v2", AS_ROOT + r"|lifecycle_still(_runc)?$|vm_(contained|(sleep|between)_delegated)"),
    "v1": ("debian", "vm.cgroups=v1", AS_ROOT),
    "systemd": ("debian", "vm.init=/lib/systemd/systemd",
                r"vm_(delegated|session|units)|keeper_|sandbox_(exec|lifecycle|adopt)|security_user_|"
                r"lifecycle_(sleep|between)"),
}
# An emulated machine is slow, and a test's own limit is meant for a real one.
SLOWNESS = 5
MACHINE_TIMEOUT_S = 3600
MEMORY_MB = 3072
# A /dev/kvm that is there need not work (in a virtual machine, as a rule, it does not): only if asked.
ACCELERATOR = os.environ.get("VM_ACCEL", "tcg")
# Emulated, the machine's clock counts its instructions while it is busy, half a thousand million to
# the second: how busy this host is changes little of what happens inside.
CLOCK = ("-icount", "shift=1") if ACCELERATOR == "tcg" else ()
# A plain processor: what a newer one has makes emulation slower, above all copies byte by byte (erms),
# which kernel and libc prefer where they are said to be fast.
PROCESSOR = "qemu64" if ACCELERATOR == "tcg" else "max"
# The tests of its cryptography are nearly half of the kernel's start.
KERNEL_WORDS = "console=ttyS0 quiet panic=-1 random.trust_cpu=on cryptomgr.notests"


def listed():
    """The tests that meson knows, and those that need this machine: its account, its cgroups."""
    yield from json.loads(image.run("meson", "introspect", "--tests", BUILD))
    def program(name, word):
        return ["/usr/bin/python3", "-B", str(image.HERE / name), str(BUILD), word]
    for cgroup in ("delegated", "session", "contained"):
        yield {"name": f"vm_{cgroup}", "suite": ["berth:vm"], "env": {}, "timeout": 120,
               "cmd": program("test_uncontrolled.py", cgroup), "cgroup": cgroup}
    for kind, cgroup in (("system", None), ("user", "manager")):
        yield {"name": f"vm_units_{kind}", "suite": ["berth:vm"], "env": {}, "timeout": 240,
               "cmd": program("test_units.py", kind), "cgroup": cgroup}
    for name in ("sleep", "between"):
        yield {"name": f"vm_{name}_delegated", "suite": ["berth:vm"], "env": {"BERTH_SANITIZED": "0"},
               "timeout": 600, "cmd": [*program(f"../lifecycle/test_{name}.py", "delegated"), "crun"]}


def tests_of(pattern, wanted):
    for test in listed():
        suites = {s.split(":")[-1] for s in test["suite"]}
        if not re.match(pattern, test["name"]) or "release" in suites:
            continue
        if wanted and not {test["name"], *suites} & set(wanted):
            continue
        yield {"name": test["name"], "cmd": test["cmd"], "env": test["env"], "cwd": str(BUILD),
               "timeout": test["timeout"] * SLOWNESS, "cgroup": test.get("cgroup")}


def is_needed(path):
    """Programs of the build, the tests that python runs, and the headers that those read."""
    if BUILD in path.parents:
        return os.access(path, os.X_OK) and not path.parent.name.endswith(".p")
    return path.suffix in (".py", ".json", ".h") or \
        path.relative_to(image.ROOT).parts[0] in ("tests", "scripts")


def write_disk(path, job):
    """A tar with the job and, at the paths that they have here, everything that it calls."""
    def add_text(tar, name, text):
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(text), 0o644
        tar.addfile(info, io.BytesIO(text))

    def add_compiled(tar, file):
        """So that the machine need not compile it, which there takes seconds for each test program."""
        with tempfile.NamedTemporaryFile() as made:
            py_compile.compile(file, made.name, doraise=True,
                               invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
            add_text(tar, importlib.util.cache_from_source(file).lstrip("/"), pathlib.Path(made.name).read_bytes())

    with tarfile.open(path, "w") as tar:
        add_text(tar, "job.py", (image.HERE / "job.py").read_bytes())
        add_text(tar, "job.json", json.dumps(job).encode())
        tar.add(image.ROOT / "README.md", str(image.ROOT / "README.md").lstrip("/"))
        for top in (BUILD, *(image.ROOT / name for name in ("tests", "proto", "base", "scripts"))):
            for folder, _, names in os.walk(top):
                for file in (pathlib.Path(folder, n) for n in names):
                    if file.is_file() and is_needed(file):
                        tar.add(file, str(file).lstrip("/"))
                        if file.suffix == ".py":
                            add_compiled(tar, file)
    size = path.stat().st_size
    os.truncate(path, (size + 511) // 512 * 512)


def boot(folder, name, words):
    """The machine's process; what its job says is its stdout."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-machine", f"q35,accel={ACCELERATOR}",
         "-cpu", PROCESSOR, "-m", str(MEMORY_MB), *CLOCK,
         "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
         "-kernel", folder / "vmlinuz", "-initrd", folder / "initrd", "-append",
         f"{KERNEL_WORDS} {words}",
         "-drive", f"file={folder}/root.ext4,format=raw,if=virtio,snapshot=on",
         "-drive", f"file={folder}/{name}.tar,format=raw,if=virtio,readonly=on",
         "-device", "virtio-rng-pci", "-serial", f"file:{folder}/{name}.console",
         "-serial", "stdio"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def read_lines(machine, log):
    """Its lines, until it is off or out of time."""
    end, rest = time.monotonic() + MACHINE_TIMEOUT_S, b""
    while select.select([machine.stdout], [], [], max(0, end - time.monotonic()))[0]:
        more = os.read(machine.stdout.fileno(), 65536)
        if not more:
            break
        log.write(more)
        log.flush()
        *lines, rest = (rest + more).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r").decode(errors="replace")


def collect(lines, names):
    """Yields (name, output, how it ended, seconds); a test that did not end has failed."""
    name, output, left = None, [], list(names)
    for line in lines:
        if line.startswith("vm: begin "):
            name, output = line.split()[2], []
        elif line.startswith("vm: end "):
            _, _, ended, code, seconds = line.split()
            left.remove(ended)
            yield ended, output, "OK" if code == "0" else f"exit code {code}", float(seconds)
            name = None
        elif name:
            output.append(line)
        elif line.startswith("vm: "):
            print("#", line[4:], flush=True)
        elif line:
            print("#", line, flush=True)
    for missing in left:
        yield missing, output if missing == name else [], "the machine ended before it", 0


def run_job(folder, name, words, job):
    """Boots the machine `name`; yields what collect() does of each test."""
    write_disk(folder / f"{name}.tar", job)
    machine = boot(folder, name, words)
    try:
        with open(folder / f"{name}.log", "wb") as log:
            yield from collect(read_lines(machine, log), [t["name"] for t in job])
    finally:
        machine.kill()
        machine.wait()


def run_machine(name, wanted):
    kind, words, pattern = MACHINES[name]
    job = list(tests_of(pattern, wanted))
    passed, failed, skipped = 0, [], []
    if not job:
        return passed, failed, skipped
    folder = image.make(kind)
    print(f"== {name}: {len(job)} test programs", flush=True)
    for test, output, result, seconds in run_job(folder, name, words, job):
        counts = points.count(f"{name}: {test}", "\n".join(output), result)
        print(f"   {test}: {counts.passed} passed, {len(counts.failed)} failed, "
              f"{len(counts.skipped)} skipped, {seconds:.0f} s", flush=True)
        if counts.failed:
            points.show({"name": test, "result": result, "duration": seconds,
                         "stdout": "\n".join(output)})
        passed += counts.passed
        failed += counts.failed
        skipped += counts.skipped
    return passed, failed, skipped


def main(words):
    machines = [w for w in words if w in MACHINES] or list(MACHINES)
    wanted = [w for w in words if w not in MACHINES]
    passed, failed, skipped = 0, [], []
    for name in machines:
        counts = run_machine(name, wanted)
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    print()
    for name, reason in skipped:
        print(f"skipped: {name} ({reason})")
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
