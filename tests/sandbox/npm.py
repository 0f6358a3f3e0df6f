"""Packages from npm that tests use, fetched into the build directory."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys

from ground import Failed

NPM = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
       "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]  # each case says so: none may take long to find out


def install(source, folder):
    try:
        done = subprocess.run(NPM, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"npm could not install what {source} needs: {error}") from error
    if "EUSAGE" in done.stderr:
        sys.exit(f"the lock file of {source} is not that of its package.json: {done.stderr[:1500]}")
    if done.returncode:
        raise Failed(f"npm could not install what {source} needs (is its registry in reach?): "
                     + (done.stderr or done.stdout)[-1500:])


@contextlib.contextmanager
def locked(path):
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def packages(build, source, *scripts):
    """The folder that they are in, installed as source's lock file says; kept until that changes."""
    name = os.path.basename(source)
    folder = os.path.join(build, name)
    os.makedirs(folder, exist_ok=True)
    with locked(os.path.join(folder, "lock")):
        for script in scripts:
            shutil.copy(os.path.join(source, script), folder)  # imports are looked up from where it is
        stamp = os.path.join(folder, "installed")
        with open(os.path.join(source, "package-lock.json"), encoding="utf-8") as file:
            wanted = file.read()
        if os.path.exists(stamp):
            with open(stamp, encoding="utf-8") as file:
                if file.read() == wanted:
                    return folder
            os.remove(stamp)
        for part in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(source, part), folder)
        install(name, folder)
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(wanted)
    return folder


def packages_or_skip(build, source, *scripts):
    """What is tested is npm's to give; README.md names this skip."""
    try:
        return packages(build, source, *scripts)
    except Failed as missing:
        print("1..0 # SKIP", " ".join(str(missing).split())[:300], flush=True)
        sys.exit(0)
