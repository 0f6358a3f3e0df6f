"""A real berth-keeper, and a berthd that has gone bad: any frame, any fields, any descriptors.

usage: test_frames.py BUILD root|user RUNTIME [CASE...]. What is sent is drawn from a seed, which a failure names;
FRAMES_SEED is the first one, FRAMES_COUNT how many connections there are.
"""

import array
import os
import random
import shutil
import socket
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "keeper"))

# pylint: disable=wrong-import-position
import keeper_link as k  # noqa: E402
from place import Failed, check, equal, is_alive, run_all, until  # noqa: E402
from test_keeper import start  # noqa: E402

FIRST, COUNT = int(os.environ.get("FRAMES_SEED", 1)), int(os.environ.get("FRAMES_COUNT", 60))
FREEZE_OTHERS = 14
k.FIELDS[FREEZE_OTHERS] = k.FIELDS[k.GROUP_END]
KINDS = [k.START, k.START, k.KILL, k.REMOVE, k.FORGET, k.GROUP_NEW, k.GROUP_END, k.STATS, k.USAGE, k.ADOPT,
         k.GROUP_OPEN, k.FREEZE, k.THAW, FREEZE_OTHERS, k.LIMIT, k.LIMIT]
# Those that may be, and those that lead elsewhere if they are believed.
NAMES = ["one", "two", "one", "two"]
BAD_NAMES = ["", ".", "..", "../bait", "../../bait", "/bait", "one/../two", "berthd", ".trash", "keeper.sock",
             "../images", "a" * 63, "ONE", "one\0", "\0", "one ", "-rf", "%s%n", "ä", b"\xff\xfe"]
LONG_NAMES = ["a" * 64, "a" * 5000]
IMAGES = [*["host"] * 20, "", ".", "..", "../sandboxes/safe/upper", "/", "nowhere", "host\0", "x" * 63]
MOUNTS = [*[""] * 20, "x", b"bind\0rw\0/\0/mnt\0", b"\0" * 4, b"\xff" * 9]
NUMBERS = [0, 1, 2, 7, 2**31, 2**32 - 1]
LONG = [*NUMBERS, 8 << 20, 1 << 50, 2**63, 2**64 - 1]


class Liar:
    """One connection after the other, each with a few frames."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tags = set()

    def value_of(self, kind, name, form):
        choice = self.random.choice
        if name == "id":
            return choice(self.random.choices([NAMES, BAD_NAMES, LONG_NAMES], [80, 19, 1])[0])
        if name == "image":
            return choice(IMAGES)
        if name == "mounts":
            return choice(MOUNTS)
        if name == "generation":
            return choice([1, 1, 1, 0, 2, 2**64 - 1])
        if name == "version":
            return choice([1, 1, 1, 0, 2, 2**32 - 1])
        # Limits: mostly none, or every start would fail by them alone.
        is_wild = self.random.random() < (0.06 if kind == k.START else 0.5)
        return choice(LONG if form == "Q" else NUMBERS) if is_wild else 0

    def make(self):
        """(bytes, tag). Mostly whole frames; after others, which have no tag, the keeper listens no more."""
        kind = self.random.choice(KINDS) if self.random.random() < 0.98 else k.HELLO
        tag = self.random.randrange(1000, 2**32)
        fields = [field.split(":") for field in k.FIELDS[kind].split()]
        message = k.encode(kind, tag, **{name: self.value_of(kind, name, form) for name, form in fields})
        broken = [message[: self.random.randrange(1, len(message))],
                  message + self.random.randbytes(self.random.randrange(1, 9)),
                  struct.pack("<IHHII", 16, self.random.getrandbits(16), self.random.choice([1, 2, 0]), tag, 0),
                  self.random.randbytes(self.random.randrange(1, 200)),
                  b"\0" * self.random.choice([16, 65536, 65537])]
        return (self.random.choice(broken), None) if self.random.random() < 0.05 else (message, tag)

    def rights(self):
        """Now and then descriptors, which no request carries; also more than there is room for."""
        if self.random.random() > 0.01:
            return []
        fds = array.array("i", [self.random.choice([0, 1, 2])] * self.random.choice([1, 8, 65, 253]))
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]

    def talk(self, link):
        """Until the keeper has enough of it, or we have."""
        try:
            if self.random.random() < 0.9:
                link.hello()
            for _ in range(self.random.randrange(1, 30)):
                message, tag = self.make()
                link.socket.sendmsg([message], self.rights())
                if tag and self.random.random() < 0.4:  # each is answered, or the line is cut
                    link.waiting.append(link.answer(tag))
            if self.random.random() < 0.3:
                return set()  # gone without having read the answers
            link.waiting.append(link.ask(k.USAGE, id="nobody"))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass
        finally:
            close_fds(link)
        return {frame.type for frame in link.waiting}


def close_fds(link):
    for frame in link.waiting:
        for fd in frame.fds:
            os.close(fd)


def plant(place):
    """What nobody may touch: beside the keeper's directories, in them, and another sandbox's."""
    for folder in (place.path("bait"), os.path.join(place.run, "berthd"), os.path.join(place.state, "berthd")):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "file"), "w", encoding="ascii") as file:
            file.write("untouched")
    return [place.path("bait"), os.path.join(place.run, "berthd"), os.path.join(place.state, "berthd"),
            os.path.join(place.state, "sandboxes", "safe"), os.path.join(place.run, "safe")]


def look(paths):
    """Names, kinds, owners and contents of all below."""
    found = {}
    for top in paths:
        for folder, names, files in os.walk(top):
            for path in [folder, *(os.path.join(folder, name) for name in names + files)]:
                info = os.lstat(path)
                found[path] = (info.st_mode, info.st_uid, info.st_gid, info.st_size if path in files else 0)
            for name in files:
                if os.path.isfile(os.path.join(folder, name)):
                    with open(os.path.join(folder, name), "rb") as file:
                        found[os.path.join(folder, name)] += (file.read(65536),)
    return found


def ask_as_usual(place):
    """It serves whoever asks properly, and what is not meant by anybody is as it was."""
    link, _, known = place.reconnect()
    for name, frame in known.items():
        if name != "safe" and frame.type == k.RUNNING:
            # Somebody may have frozen it: v1 kills only who is thawed.
            link.ask(k.THAW, id=name, generation=frame.generation)
            equal(link.ask(k.KILL, id=name, generation=frame.generation).type, k.DONE, name)
    return link, known


def test_frames(place):
    """whatever a berthd sends: nothing of others is touched, the keeper lives, and serves the next one"""
    place.start()
    try:
        lie(place)
    finally:
        shutil.rmtree(os.path.join(place.run, "berthd"))  # or it is taken for a sandbox that is left
    return f"{test_frames.__doc__}: {COUNT} connections from seed {FIRST} on"


def disks(place):
    return [name for name in os.listdir(os.path.join(place.state, "sandboxes")) if not name.startswith(".")]


def lie(place):
    link, _, _ = place.hello()
    safe = start(link, "safe", 3).pid
    paths = plant(place)
    before, keeper = look(paths), place.keeper()
    check(len(before) > 8, before)
    seen = set()
    for seed in range(FIRST, FIRST + COUNT):
        try:
            link = place.connect()
            seen |= Liar(seed).talk(link)
            link.close()
            place.links.remove(link)
            equal(place.keeper(), keeper, "the keeper's pid")
            check(is_alive(safe), "another sandbox's init is gone")
            equal(look(paths), before, "what is not its own")
        except (Failed, OSError) as error:
            raise Failed(f"FRAMES_SEED={seed}: {error}") from error
    check(seen >= {k.STARTED, k.DONE, k.FAILED, k.USAGE_IS}, f"they do not get far: {seen}")
    link, known = ask_as_usual(place)
    equal((known["safe"].type, known["safe"].pid), (k.RUNNING, safe), "the one that nobody named")
    for name in disks(place):
        if name != "safe":
            until(lambda n=name: link.ask(k.REMOVE, id=n).type == k.DONE, f"the end of {name}")
    started = start(link, "one", 2)
    equal(link.ask(k.KILL, id="one", generation=2).type, k.DONE, "kill")
    check(not is_alive(started.pid), "init is gone")
    equal(link.ask(k.REMOVE, id="one").type, k.DONE, "remove")
    equal(link.ask(k.KILL, id="safe", generation=3).type, k.DONE, "kill")
    equal(link.ask(k.REMOVE, id="safe").type, k.DONE, "remove")
    equal(disks(place), [], "disks")
    equal(place.keeper(), keeper, "the keeper's pid")
    check("Sanitizer" not in place.log_text(), place.log_text()[-3000:])


if __name__ == "__main__":
    run_all([test_frames], os.path.abspath(sys.argv[1]), sys.argv[2],
            shutil.which(sys.argv[3], path=os.environ["PATH"] + ":/usr/sbin"))
