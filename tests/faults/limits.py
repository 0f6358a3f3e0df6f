"""How many files another process may have open."""

import os
import re
import subprocess


def soft_files(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        return int(re.search(r"Max open files +(\d+)", file.read())[1])


def limit_files(pid, most):
    """As its own user: root may lack the capability. Its hard limit stays."""
    info = os.stat(f"/proc/{pid}")
    become = ["setpriv", f"--reuid={info.st_uid}", f"--regid={info.st_gid}", "--clear-groups"]
    subprocess.run([*(become if os.getuid() == 0 else []), "prlimit", f"--pid={pid}", f"--nofile={most}:"], check=True)
