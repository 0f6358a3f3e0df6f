"""A delegated cgroup for an ordinary user, as a service manager gives one; needs root and pure v2."""

import os

CONTROLLERS = "+cpu +memory +pids"


class Delegation:
    """Below its directory: `run`, where keeper and berthd are, and `pen`, which sandboxes are to be in."""

    def __init__(self, mount, name, uid):
        self.top = os.path.join(mount, name)
        self.path = f"/{name}/pen"  # as the hierarchy calls it
        for folder in (mount, self.top):
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "cgroup.subtree_control"), "w", encoding="ascii") as file:
                file.write(CONTROLLERS)
        for folder in (self.top, os.path.join(self.top, "run"), os.path.join(self.top, "pen")):
            os.makedirs(folder, exist_ok=True)
            os.chown(folder, uid, uid)
            for file in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
                os.chown(os.path.join(folder, file), uid, uid)

    def enter(self):
        """In a child, before it becomes the user."""
        with open(os.path.join(self.top, "run", "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    def remove(self):
        """It must be empty."""
        for folder in ("pen/berth-leaf", "pen", "run", ""):
            path = os.path.join(self.top, folder)
            if os.path.isdir(path):
                os.rmdir(path)
