"""The client that the bridge's routes are for: the OpenAI Agents SDK's, unchanged, as npm has it.

usage: test_bridge.py BUILD_DIR root|user RUNTIME [CASE...]
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "sandbox"))

# pylint: disable=wrong-import-position
from ground import equal, main  # noqa: E402
from npm import packages, packages_or_skip  # noqa: E402

TOKEN = "a-token-for-the-bridge-that-is-long-enough-0123456789"


def run_case(g, name):
    folder = packages(g.build, HERE, "client.mjs")
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
    packages_or_skip(sys.argv[1], HERE, "client.mjs")
    main([test_commands, test_timeout, test_files, test_editor, test_archives, test_terminals, test_ends, test_mounts,
          test_tokens],
         start=lambda test: False)
