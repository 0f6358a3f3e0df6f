"""The machine's kernel, first file system and root image, from Debian packages, kept in build-vm/.

They are made once, and again when anything that they are made of has changed.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / "build-vm"
KERNEL_PACKAGE = "linux-image-cloud-amd64"
# What build/ links with, what tests call, and systemd for the machines that have it.
PACKAGES = (
    "python3", "crun", "runc", "uidmap", "kmod", "procps", "iproute2", "curl", "git", "libuv1",
    "libyajl2", "libnettle8", "libcurl4", "libsqlite3-0", "libcap2", "libseccomp2", "systemd-sysv",
    "dbus-user-session", "libpam-systemd")
# In the order in which they can be loaded; the root image holds all others.
FIRST_MODULES = ("virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev",
                 "virtio_pci", "virtio_blk")
IMAGE_SIZE = "3G"


def run(*words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    if done.returncode != 0:
        sys.exit(f"scripts/vm-test: {' '.join(map(str, words))} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def recipe():
    """Changes whenever the machine would."""
    parts = [pathlib.Path(__file__), HERE / "first", HERE / "init", HERE / "job.service"]
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()


def unpack_kernel(work):
    depends = run("apt-cache", "depends", KERNEL_PACKAGE)
    package = next(word for word in depends.split() if word.startswith("linux-image-"
                   ) and word.endswith("-cloud-amd64") and word != KERNEL_PACKAGE)
    run("apt-get", "-qq", "download", package, cwd=work)
    run("dpkg-deb", "-x", next(work.glob("*.deb")), work / "kernel")
    return work / "kernel"


def make_first(work, kernel):
    """The first file system: loads the disk's driver, goes on to the disk."""
    first = work / "first"
    for folder in ("bin", "dev", "proc", "disk", "modules"):
        (first / folder).mkdir(parents=True)
    shutil.copy("/bin/busybox", first / "bin" / "busybox")
    shutil.copy(HERE / "first", first / "init")
    for number, name in enumerate(FIRST_MODULES):
        module = next(kernel.rglob(f"{name}.ko"))
        shutil.copy(module, first / "modules" / f"{number}-{name}.ko")
    run("sh", "-c", "find . | cpio -o -H newc -R 0:0 | gzip -1 >../initrd", cwd=first)


def make_root(work, kernel):
    root = work / "root"
    run("mmdebstrap", "--variant=minbase", "--include=" + ",".join(PACKAGES), "bookworm", root)
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


def make():
    """The folder with vmlinuz, initrd and root.ext4."""
    stamp = CACHE / "recipe"
    if stamp.exists() and stamp.read_text() == recipe():
        return CACHE
    if os.geteuid() != 0:
        sys.exit("scripts/vm-test: only root can make the machine's root image")
    print("== making the machine in build-vm/ (about two minutes)", flush=True)
    work = CACHE / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    stamp.unlink(missing_ok=True)
    kernel = unpack_kernel(work)
    make_first(work, kernel)
    make_root(work, kernel)
    shutil.move(next((kernel / "boot").glob("vmlinuz-*")), CACHE / "vmlinuz")
    for name in ("initrd", "root.ext4"):
        shutil.move(work / name, CACHE / name)
    shutil.rmtree(work)
    stamp.write_text(recipe())
    return CACHE
