"""The client that the bridge's routes are for: the OpenAI Agents SDK's, unchanged, as npm has it.

usage: test_bridge.py BUILD_DIR root|user RUNTIME [CASE...]
"""

import fcntl
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "sandbox"))

# pylint: disable=wrong-import-position
from ground import Failed, equal, main  # noqa: E402

TOKEN = "a-token-for-the-bridge-that-is-long-enough-0123456789"
NPM = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
       "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]  # each case says so: none may take long to find out


def packages(build):
    """The folder that they are in, installed as the lock file says; kept until that changes."""
    folder = os.path.join(build, "bridge")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copy(os.path.join(HERE, "client.mjs"), folder)  # imports are looked up from where it is
        stamp = os.path.join(folder, "installed")
        with open(os.path.join(HERE, "package-lock.json"), encoding="utf-8") as file:
            wanted = file.read()
        if os.path.exists(stamp):
            with open(stamp, encoding="utf-8") as file:
                if file.read() == wanted:
                    return folder
            os.remove(stamp)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(HERE, name), folder)
        try:
            done = subprocess.run(NPM, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"npm could not install the client that is to be tested: {error}") from error
        if done.returncode:
            raise Failed("npm could not install the client that is to be tested (is its registry in reach?): "
                         + (done.stderr or done.stdout)[-1500:])
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(wanted)
    return folder


def run_case(g, name):
    folder = packages(g.build)
    port = g.start_listening(TOKEN)
    done = subprocess.run(["node", "client.mjs", name, f"http://127.0.0.1:{port}"],
                          cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "BERTH_TEST_TOKEN": TOKEN}, check=False)
    equal(done.returncode, 0, f"{name}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done


def test_commands(g):
    """Create with a manifest, execCommand, running."""
    run_case(g, "commands")
    equal(g.list_all(), [], "sandboxes after close")


def test_timeout(g):
    """A command that takes too long ends, and the session goes on."""
    run_case(g, "timeout")


def test_files(g):
    """The readFile, pathExists, materializeEntry of a session."""
    run_case(g, "files")


def test_editor(g):
    """An editor creates, updates, moves and deletes."""
    run_case(g, "editor")


def test_archives(g):
    """What persistWorkspace gave is the same after hydrateWorkspace."""
    run_case(g, "archives")


def test_terminals(g):
    """The execCommand of a session with `tty`, and what is typed into it."""
    run_case(g, "terminals")
    equal(g.list_all(), [], "sandboxes after close")


def test_ends(g):
    """After delete nothing is there, and close is not refused."""
    run_case(g, "ends")
    equal(g.list_all(), [], "sandboxes after delete")


def test_mounts(g):
    """Buckets are unsupported, in words that reach the client's user."""
    run_case(g, "mounts")


def test_tokens(g):
    """Another token is refused."""
    run_case(g, "tokens")


if __name__ == "__main__":
    try:
        packages(sys.argv[1])
    except Failed as missing:
        # What is tested is npm's to give; README.md names this skip.
        print("1..0 # SKIP", " ".join(str(missing).split())[:300], flush=True)
        sys.exit(0)
    main([test_commands, test_timeout, test_files, test_editor, test_archives, test_terminals, test_ends, test_mounts,
          test_tokens],
         start=lambda test: False)
