"""An archive of one moment: everything that writes stands still meanwhile, and goes on whatever happens."""

import concurrent.futures
import contextlib
import io
import os
import signal
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process")]

# pylint: disable=wrong-import-position
from ground import at_once, check, equal, main, only, until  # noqa: E402
from process_api import start, wait  # noqa: E402

# The last file is behind the first and a large one in the archive, and one line behind it in the sandbox.
WRITER = """
import os
a, z = (os.open(f"/workspace/{name}/count", os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in "az")
print("on", flush=True)
while True:
    os.write(a, b".")
    os.write(z, b".")
"""
GROUPS_FIRST = 4  # KEEPER_GROUPS_FIRST of proto/keeper.h
PERSIST = "/v1/sandbox/a/persist?freeze=1"


def write(g, size=8):
    g.out("a", f"mkdir a m z; head -c {size}M /dev/urandom >m/large")
    start(g, "a", ["python3", "-c", WRITER], id="writer")
    wait(g, "a", "writer", "log", pattern="on")


def counts(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [tar.getmember(f"{name}/count").size for name in "az"]


def written(g):
    return int(g.out("a", "stat -c %s z/count"))


def frozen(g):
    """Exec groups that stand still, as the kernel has it."""
    found = []
    for folder in g.cgroups():
        path = os.path.join(folder, "cgroup.freeze")
        if os.path.basename(folder).startswith("exec-") and os.path.exists(path):
            with open(path, encoding="ascii") as file:
                if file.read() == "1\n":
                    found.append(folder)
    return found


def goes_on(g):
    until(lambda: not frozen(g), "everything to be thawed")
    before = written(g)
    until(lambda: written(g) > before, "the writer to go on")


class Slow:
    """A client that asks for an archive and does not read it."""

    def __init__(self, g):
        self.connection = g.connect()
        self.connection.request("POST", PERSIST)
        self.response = self.connection.getresponse()
        equal(self.response.status, 200, "persist")

    def close(self):
        self.response.close()
        self.connection.close()

    def is_cut(self):
        try:
            return not self.response.read().endswith(bytes(1024))
        except OSError:
            return True
        except Exception as error:  # pylint: disable=broad-except
            return "IncompleteRead" in repr(error)
        finally:
            self.close()


@only("root")
def test_moment(g):
    """Files that are written one after the other are in the archive as they were at one moment."""
    write(g)
    for _ in range(10):
        reply = g.request("POST", PERSIST)
        equal(reply.status, 200, reply)
        first, last = counts(reply.body)
        check(first - last in (0, 1), f"{first} and {last}")
        until(lambda: written(g) > last, "the writer to go on")  # pylint: disable=cell-var-from-loop
    goes_on(g)
    equal(g.request("POST", "/v1/sandbox/a/persist?freeze=0").status, 200, "without")
    equal(g.request("POST", "/v1/sandbox/a/persist?freeze=7").status, 400, "nonsense")
    equal(g.request("POST", "/v1/sandbox/a/persist?freeze=1&path=/none").status, 404, "what is not there")
    goes_on(g)
    equal(g.sandbox("a")["generation"], 1, "all of it in one life")


def archive_in_first(g):
    """In the first group of a life: those that it begins with are taken from the last on, and a keeper that
    stands still makes no others."""
    equal(g.request("POST", "/v1/sandbox/a/start").status, 200, "start")
    keeper = g.keeper()
    os.kill(keeper, signal.SIGSTOP)
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(1) as pool:
        stack.callback(os.kill, keeper, signal.SIGCONT)
        for _ in range(GROUPS_FIRST - 1):
            equal(next(iter(stack.enter_context(g.events("a", "echo on; sleep 1000")))), ("stdout", b"on\n"), "exec")
        archive = pool.submit(g.request, "POST", PERSIST)
        until(lambda: g.sandbox("a")["execs"] == GROUPS_FIRST, "who reads to begin")
        os.kill(keeper, signal.SIGCONT)
        equal(archive.result().status, 200, archive.result())
    until(lambda: g.sandbox("a")["execs"] == 0, "the end of all")


@only("root")
def test_groups(g):
    """Whichever group is free for who reads: nothing of it is left, and nothing holds the sandbox awake."""
    archive_in_first(g)
    g.out("a", "mkdir a")
    for _ in range(6):
        at_once(4, lambda i: g.out("a", "true"))
        equal(g.request("POST", PERSIST + "&path=/workspace/a").status, 200, "persist")
        until(lambda: (g.sandbox("a")["execs"], g.sandbox("a")["holds"]) == (0, []), "its end")
    equal(g.sandbox("a")["generation"], 1, "one life")


@only("root")
def test_waits(g):
    """What comes meanwhile waits until it is over: a command, a file, a sleep; and a client that goes away ends it."""
    write(g, 64)
    slow = Slow(g)
    check(frozen(g), "nothing stands still")
    equal([(hold["kind"], "stands still" in hold.get("detail", "")) for hold in g.sandbox("a")["holds"]], [("request", True)],
          "what holds it")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(g.out, "a", "echo hello"),
                   pool.submit(g.request, "PUT", "/v1/sandbox/a/file/workspace/f", b"x"),
                   pool.submit(g.request, "POST", PERSIST + "&path=/workspace/a"),
                   pool.submit(g.request, "POST", "/v1/sandbox/a/sleep", {"mode": "freeze"})]
        done, _ = concurrent.futures.wait(waiting, timeout=2, return_when=concurrent.futures.FIRST_COMPLETED)
        check(not done and frozen(g), "somebody did not wait", done)
        equal(g.sandbox("a")["state"], "running", "what is shown")
        slow.close()
        equal(waiting[3].result().status, 200, waiting[3].result())
        equal(g.request("POST", "/v1/sandbox/a/wake").status, 200, "wake")
        equal(waiting[0].result(), "hello\n", "the command")
        check(waiting[1].result().status < 300, waiting[1].result())
        equal(waiting[2].result().status, 200, waiting[2].result().body[:200])
    goes_on(g)


@only("root")
def test_stop(g):
    """A stop and a delete do not wait: the archive is cut."""
    write(g, 64)
    slow = Slow(g)
    equal(g.request("POST", "/v1/sandbox/a/sleep", {"mode": "stop"}).status, 200, "stop")
    check(slow.is_cut(), "the archive is whole")
    start(g, "a", ["python3", "-c", WRITER], id="writer")
    slow = Slow(g)
    equal(g.request("DELETE", "/v1/sandbox/a").status, 204, "delete")
    check(slow.is_cut(), "the archive is whole")


@only("root")
def test_kills(g):
    """berthd, its keeper or the worker is killed meanwhile: everything goes on."""
    write(g, 64)
    slow = Slow(g)
    check(frozen(g), "nothing stands still")
    g.kill_keeper()
    check(slow.is_cut(), "the archive is whole")
    goes_on(g)
    slow = Slow(g)
    check(frozen(g), "nothing stands still")
    g.kill_berthd()
    until(lambda: not frozen(g), "the keeper to thaw what nobody waits for")
    slow.close()
    g.start()
    goes_on(g)
    equal(g.sandbox("a")["generation"], 1, "all of it in one life")


@only("user")
def test_unsupported(g):
    """Without cgroups that cannot be done, and nothing is begun."""
    reply = g.request("POST", PERSIST)
    equal((reply.status, reply.json()["code"]), (501, "unsupported"), reply)
    equal(g.list_all(), [], "nothing was made")


main([test_moment, test_groups, test_waits, test_stop, test_kills, test_unsupported])
