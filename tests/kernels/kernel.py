"""Drives a kernel of images/kernels through pipes, as berthd does, and TAP.

A test is a function that takes a Kernel that is ready; run_all() starts one for each test, and ends it
by closing its orders: it must end with status 0 then, unless the test took its end away by wait_end().
"""

import fcntl
import json
import os
import select
import signal
import sys
import time
import traceback

GUARD = 60  # seconds after which a thing counts as hung; nothing is measured by it
LINE_MAX = 16 << 20
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "images", "kernels")


class Failed(Exception):
    pass


def check(condition, *what):
    if not condition:
        raise Failed(" ".join(str(w) for w in what) or "check failed")


def equal(got, wanted, what=""):
    check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


def kernel_file(name):
    return os.path.normpath(os.path.join(FOLDER, name))


class Call:
    """What came of one order: its reports in their order, and what was printed while it ran."""

    def __init__(self, number):
        self.number, self.reports, self.stdout, self.stderr = number, [], b"", b""

    def all(self, name):
        return [report[name] for report in self.reports if name in report]

    def one(self, name):
        found = self.all(name)
        check(len(found) < 2, f"{name} was reported {len(found)} times:", self.reports)
        return found[0] if found else None

    @property
    def results(self):
        return self.all("result")

    @property
    def logs(self):
        return self.all("log")

    @property
    def error(self):
        return self.one("error")

    @property
    def value(self):
        """Of invoke."""
        return self.one("value")

    @property
    def is_checked(self):
        return self.one("checked") is True

    @property
    def done(self):
        return self.one("done")

    @property
    def result(self):
        """The value of the last expression, or None."""
        found = [result for result in self.results if result.get("is_value")]
        check(len(found) < 2, "more than one is_value:", self.results)
        return found[0] if found else None

    @property
    def text(self):
        return (self.result or {}).get("text")

    def ok(self):
        check(self.done == "ok" and self.error is None, "the call failed:", self.done, self.error, self.stderr)
        return self

    def failed(self, name, done="error"):
        """The error, which must have that name."""
        check(self.error is not None, f"there was no {name}:", self.reports)
        equal((self.error["name"], self.done), (name, done), self.error)
        return self.error


class Kernel:
    """Its descriptors 0 to 3 are pipes; it leads a process group of its own."""

    def __init__(self, *command, env=None):
        self.stdout, self.stderr, self.strays, self.status = b"", b"", [], None
        self.calls, self.count, self.unread = {}, 0, b""
        far, near = [], []
        for i in range(4):
            ends = os.pipe()
            theirs, ours = ends if i == 0 else ends[::-1]
            far.append(fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 10))
            near.append(ours)
            os.close(theirs)
            os.set_blocking(ours, False)
        self.orders, self.fds = near[0], dict(zip(near[1:], ("stdout", "stderr", "reports")))
        program = command[0] if "/" in command[0] else next(
            path for folder in os.environ["PATH"].split(":") if os.access(path := f"{folder}/{command[0]}", os.X_OK))
        self.pid = os.posix_spawn(
            program, command, os.environ if env is None else env, setpgroup=0, setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGHUP],
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, i) for i, fd in enumerate(far)])
        for fd in far:
            os.close(fd)
        self.ready = self.until(lambda: next((r for r in self.strays if "ready" in r), None), "that it is ready")
        self.strays.remove(self.ready)

    # --- streams ---

    def take(self, report):
        """A report as its line said; those that belong to no call are strays."""
        number = report.get("call")
        if number not in self.calls:
            self.strays.append(report)
            return
        call = self.calls[number]
        check(not call.done, "a report of a call that is done:", report)
        if "done" in report:
            # What was printed before is in the pipes by now.
            self.read_output()
        call.reports.append(report)

    def read_reports(self, data):
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            check(len(line) < LINE_MAX, f"a line of {len(line)} bytes:", line[:100])
            try:
                report = json.loads(line.decode(), parse_constant=lambda name: check(False, "no JSON:", name))
            except ValueError as error:
                raise Failed(f"a broken line ({error}): {line[:300]!r}") from error
            check(isinstance(report, dict), "a report is no object:", line[:100])
            self.take(report)

    def read(self, fd, name):
        """True if there was something."""
        try:
            data = os.read(fd, 1 << 20)
        except BlockingIOError:
            return False
        if not data:
            del self.fds[fd]
            os.close(fd)
        elif name == "reports":
            self.read_reports(data)
        else:
            setattr(self, name, getattr(self, name) + data)
            for call in self.calls.values():
                if not call.done:
                    setattr(call, name, getattr(call, name) + data)
        return bool(data)

    def read_output(self):
        for fd, name in list(self.fds.items()):
            while name != "reports" and self.read(fd, name):
                pass

    def until(self, condition, what, seconds=GUARD):
        """Reads what comes until the condition is true, and returns that."""
        end = time.monotonic() + seconds
        while not (value := condition()):
            left = end - time.monotonic()
            check(left > 0 and self.fds, "in vain waited for", what, *self.strays,
                  self.stderr.decode(errors="replace")[-2000:])
            for fd in select.select(list(self.fds), [], [], left)[0]:
                self.read(fd, self.fds[fd])
        return value

    # --- orders ---

    def write(self, line):
        """While what the kernel says is read, so that neither waits for the other."""
        while line:
            select.select(list(self.fds), [self.orders], [], GUARD)
            for fd, name in list(self.fds.items()):
                self.read(fd, name)
            try:
                line = line[os.write(self.orders, line):]
            except BlockingIOError:
                pass

    def begin(self, **order):
        """Gives an order, and does not wait. Its Call fills while others are waited for."""
        self.read_output()
        self.count += 1
        call = self.calls[self.count] = Call(self.count)
        self.write(json.dumps({"call": self.count, **order}).encode() + b"\n")
        return call

    def finish(self, call):
        self.until(lambda: call.done, f"the end of call {call.number} {call.reports}")
        return call

    def order(self, **order):
        return self.finish(self.begin(**order))

    def run(self, code, **more):
        return self.order(code=code, **more)

    def ok(self, code, **more):
        return self.run(code, **more).ok()

    def load(self, code, **more):
        return self.order(load=code, **more)

    def invoke(self, **what):
        return self.order(invoke=what)

    def wait_output(self, call, data, name="stdout"):
        """Until the call has printed that: then it is where it says that."""
        return self.until(lambda: data in getattr(call, name), f"{data!r} in {name} of call {call.number}")

    def interrupt(self, whole_group=True):
        (os.killpg if whole_group else os.kill)(self.pid, signal.SIGINT)

    # --- its end ---

    def wait_end(self, seconds=GUARD):
        """Its status: what it exits with, or a signal below 0."""
        if self.status is not None:
            return self.status
        pidfd, end, is_alive = os.pidfd_open(self.pid), time.monotonic() + seconds, True
        try:
            while is_alive:
                ready = select.select([pidfd, *self.fds], [], [], max(0, end - time.monotonic()))[0]
                check(ready, "the kernel does not end")
                is_alive = pidfd not in ready
                for fd in self.fds.keys() & set(ready):
                    self.read(fd, self.fds[fd])
        finally:
            os.close(pidfd)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        for fd, name in list(self.fds.items()):
            while self.read(fd, name):
                pass
        return self.status

    def close_orders(self):
        if self.orders is not None:
            os.close(self.orders)
            self.orders = None

    def close(self):
        """True if it ended well by itself, or had ended."""
        is_ended = self.status is not None
        try:
            self.close_orders()
            return is_ended or self.wait_end(20) == 0
        except Failed:
            return False
        finally:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            if self.status is None:
                os.waitpid(self.pid, 0)
            for fd in self.fds:
                os.close(fd)


def run_test(test, start):
    """What went wrong, or None."""
    kernel = None
    try:
        kernel = start()
        test(kernel)
        check(kernel.close(), f"the kernel did not end with 0 at the end of its orders: {kernel.status}",
              kernel.stderr.decode(errors="replace")[-2000:])
        check(not kernel.strays, "reports of no call:", kernel.strays)
        return None
    except Exception as error:  # pylint: disable=broad-except
        if kernel and kernel.status is None:
            kernel.close()
        return str(error) if isinstance(error, Failed) else traceback.format_exc()


def run_all(module, start):
    """The test functions of a module in the order they are written, or those named in argv."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tests = [value for name, value in module.items() if name.startswith("test_") and callable(value)
             and (not sys.argv[1:] or name in sys.argv[1:])]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for number, test in enumerate(tests, 1):
        title = (test.__doc__ or test.__name__).strip().rstrip(".")
        text = run_test(test, start)
        failed += text is not None
        print(f"{'ok' if text is None else 'not ok'} {number} - {title}", flush=True)
        if text is not None:
            print("\n".join("# " + line for line in text.splitlines()), flush=True)
    sys.exit(1 if failed else 0)
