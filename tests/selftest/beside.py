"""Runs `berth selftest` beside a daemon of one's own."""

import os
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))
# pylint: disable=wrong-import-position
import ground  # noqa: E402
from ground import check, equal, main, until  # noqa: E402,F401


def spawn(g, *args, env=None, way=None):
    """Whoever runs the daemon runs this, too; what it makes on the host is ours to look at."""
    berth, tmp = g.path("berth"), g.path("tmp")
    if not os.path.exists(berth):
        shutil.copy(os.path.join(g.build, "berth"), berth)
        os.mkdir(tmp)
        os.chmod(tmp, 0o777)
    return subprocess.Popen([berth, *(way or ["--socket", g.socket]), "selftest", *args], text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                            env={**os.environ, "TMPDIR": tmp, **(env or {})},
                            preexec_fn=g.become_user if g.is_user_to_be else None)


def run(g, *args, **options):
    process = spawn(g, *args, **options)
    out, err = process.communicate(timeout=ground.TIMEOUT)
    return process.returncode, out, err


def nothing_left(g):
    equal([s["id"] for s in g.list_all()], [], "sandboxes")
    equal(os.listdir(g.path("tmp")), [], "canaries")
