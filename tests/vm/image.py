"""The machines' kernel, first file system and root images, from Debian packages, kept in build-vm/.

"debian" is a whole system with systemd, which takes minutes and root. "own" is made of the packages
that this machine has, in seconds and by anybody; it is for the quick form. Each is made once, and
again when anything that it is made of has changed.
"""

import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / "build-vm"
KERNEL_PACKAGE = "linux-image-cloud-amd64"
# What build/ links with and what tests call; and systemd for the machine that has it.
PACKAGES = (
    "python3", "crun", "runc", "uidmap", "btrfs-progs", "procps", "iproute2", "libuv1", "libyajl2", "libnettle8",
    "libwslay1", "libarchive13", "libedit2", "libcurl4", "libsqlite3-0", "libcap2", "libseccomp2")
DEBIAN_PACKAGES = (
    *PACKAGES, "kmod", "curl", "git", "systemd-sysv", "dbus-user-session", "libpam-systemd")
OWN_PACKAGES = (
    *PACKAGES, "bash", "coreutils", "dash", "findutils", "grep", "hostname", "login", "mount", "sed",
    "tar", "util-linux")
OWN_LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
OWN_ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\ntester:x:1000:1000::/home/tester:/bin/bash\n"
              "berth:x:999:999::/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\ntty:x:5:\ntester:x:1000:\nberth:x:999:\n",
    "subuid": "tester:100000:65536\n", "subgid": "tester:100000:65536\n"}
# With all that they depend on; the image "debian" holds all others.
FIRST_MODULES = ("virtio_pci", "virtio_blk", "overlay", "loop", "btrfs")
IMAGE_SIZE = "3G"  # as a sparse file
# Whatever is started and mounted so goes when we do, also if we are killed.
ALONE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class Unreachable(Exception):
    """Debian's packages cannot be loaded from here."""


def run(*words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"scripts/test-vm: {' '.join(map(str, words))} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def recipe():
    """Changes whenever the machine would."""
    parts = [pathlib.Path(__file__), HERE / "first", HERE / "init", HERE / "job.service"]
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()


def unpack_kernel(work):
    depends = run("apt-cache", "depends", KERNEL_PACKAGE)
    package = next(word for word in depends.split() if word.startswith("linux-image-"
                   ) and word.endswith("-cloud-amd64") and word != KERNEL_PACKAGE)
    loaded = subprocess.run(["apt-get", "-qq", "download", package], cwd=work, check=False,
                            capture_output=True, text=True)
    if loaded.returncode != 0:
        raise Unreachable(f"apt-get cannot load {package}: {loaded.stderr.strip()[-300:]}")
    run("dpkg-deb", "-x", next(work.glob("*.deb")), work / "kernel")
    return work / "kernel"


def modules_in_order(kernel, names):
    """The files of these and of those that they depend on, as they say themselves, in an order in which they can be
    loaded: which ones there are changes from kernel to kernel."""
    files = {path.stem.replace("-", "_"): path for path in kernel.rglob("*.ko")}
    ordered = {}

    def add(name):
        if name not in ordered:
            needed = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes())[1].decode()
            for other in filter(None, needed.split(",")):
                add(other.replace("-", "_"))
            ordered[name] = files[name]
    for name in names:
        add(name)
    return list(ordered.values())


def make_first(work, kernel):
    """The first file system: loads the disk's driver, goes on to the disk."""
    first = work / "first"
    for folder in ("bin", "dev", "proc", "disk", "modules"):
        (first / folder).mkdir(parents=True)
    shutil.copy("/bin/busybox", first / "bin" / "busybox")
    shutil.copy(HERE / "first", first / "init")
    for number, module in enumerate(modules_in_order(kernel, FIRST_MODULES)):
        shutil.copy(module, first / "modules" / f"{number:02}-{module.name}")
    run("sh", "-c", "find . | cpio -o -H newc -R 0:0 | gzip -1 >../initrd", cwd=first)


def make_debian(work, kernel):
    if os.geteuid() != 0:
        sys.exit("scripts/test-vm: only root can make the machine's root image")
    root = work / "root"
    run(*ALONE, "mmdebstrap", "--variant=minbase", "--include=" + ",".join(DEBIAN_PACKAGES), "bookworm", root)
    release = next((kernel / "lib" / "modules").iterdir())
    modules = root / "usr" / "lib" / "modules"
    modules.mkdir(exist_ok=True)
    run("cp", "-a", release, modules)
    run("chroot", root, "depmod", release.name)
    shutil.copy(HERE / "init", root / "sbin" / "vm-init")
    shutil.copy(HERE / "job.service", root / "etc" / "systemd" / "system" / "job.service")
    for line in ("useradd --system --user-group --home-dir /nonexistent --shell /usr/sbin/nologin berth",
                 "useradd --uid 1000 --create-home --shell /bin/bash tester",
                 "systemctl enable -q job.service",
                 "systemctl mask -q apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer"
                 " fstrim.timer systemd-networkd.service getty@tty1.service systemd-timesyncd.service"
                 " serial-getty@ttyS0.service dpkg-db-backup.timer"):
        run("chroot", root, "sh", "-c", line)
    linger = root / "var" / "lib" / "systemd" / "linger"
    linger.mkdir(parents=True, exist_ok=True)
    (linger / "tester").touch()
    run("mke2fs", "-q", "-t", "ext4", "-d", root, work / "root.ext4", IMAGE_SIZE)


def own_files():
    """What the packages above and all that they need have put onto this machine."""
    needed = run("apt-cache", "depends", "--recurse", "--installed", "--important", *OWN_PACKAGES)
    installed = run("dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package}\n")
    names = [line.split()[1] for line in installed.splitlines() if line.startswith("installed ")]
    names = set(names) & set(needed.splitlines())
    for path in sorted(set(run("dpkg-query", "--listfiles", *names).splitlines())):
        if path.startswith("/") and not path.startswith(OWN_LEFT_OUT) and not os.path.isdir(path):
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            yield path
            # No package's file: emulated, each start of python would take seconds without it.
            if path.endswith(".py") and os.path.exists(compiled := importlib.util.cache_from_source(path)):
                yield compiled


def make_own(work, _kernel):
    """By whom it is made does not matter: in a user namespace all of it is root's."""
    root = work / "root"
    for folder in ("usr", "etc", "dev", "proc", "sys", "run", "tmp", "root", "home/tester", "var/lib"):
        (root / folder).mkdir(parents=True)
    for name in os.listdir("/"):
        if os.path.islink(f"/{name}") and os.readlink(f"/{name}").startswith("usr/"):
            (root / name).symlink_to(os.readlink(f"/{name}"))
    (work / "files").write_text("".join(f"{path[1:]}\n" for path in own_files() if os.access(path, os.R_OK)))
    run("sh", "-c", "tar -C / -c --no-recursion -T files --ignore-failed-read | tar -C root -x -p --no-same-owner", cwd=work)
    for name, text in OWN_ACCOUNTS.items():
        (root / "etc" / name).write_text(text)
    shutil.copy("/etc/ld.so.cache", root / "etc" / "ld.so.cache")
    shutil.copy(HERE / "init", root / "usr" / "sbin" / "vm-init")
    words = ["mke2fs", "-q", "-t", "ext4", "-d", root, work / "root.ext4", IMAGE_SIZE]
    run(*(words if os.geteuid() == 0 else ["unshare", "--map-root-user", *words]))


MAKERS = {"debian": make_debian, "own": make_own}


def make(kind):
    """The folder with vmlinuz, initrd and root.ext4."""
    folder = CACHE / kind
    stamp = folder / "recipe"
    if stamp.exists() and stamp.read_text() == recipe():
        return folder
    print(f"# making the machine in build-vm/{kind}", flush=True)
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    stamp.unlink(missing_ok=True)
    kernel = unpack_kernel(work)
    make_first(work, kernel)
    MAKERS[kind](work, kernel)
    shutil.move(next((kernel / "boot").glob("vmlinuz-*")), folder / "vmlinuz")
    for name in ("initrd", "root.ext4"):
        shutil.move(work / name, folder / name)
    shutil.rmtree(work)
    stamp.write_text(recipe())
    return folder
