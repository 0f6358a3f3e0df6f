"""The kernel of Python contexts and runs, for Python 3.9 and later. README.md says how it is spoken to.

The user's code lives in this process and may replace whatever it can reach: sys.stdout, builtins, functions of
modules. So what is needed here is taken at the start, before there is such code, and not looked up later. Little is
imported then, as each import is paid for by everyone who waits for a context: `json`, `ast`, `signal` alone would
double the time of a start, and what they stand on does not. What few calls need is in parts beside this file, which are
compiled when it is needed.
"""

# Functions keep the builtins that they are defined with.
import builtins
__builtins__ = dict(vars(builtins))

import _io
import _signal
import _thread
import os
import sys
import time
from errno import EBADF, EPIPE
from atexit import _run_exitfuncs as run_exit_functions
from _json import encode_basestring, make_encoder, make_scanner

LINE_MAX, TEXT_MAX = 16 << 20, 1 << 20
CANCELLED = b"\x18"  # at the end of an order that its sender could not complete
DEPTH_MAX = 28  # of values: berthd reads 32 levels, some of which are the report's own
JSON_ITEMS_MAX = 100_000
KEPT_MAX = 64 << 20  # bytes that SOURCES hold
ONLY_AST, TOP_LEVEL_AWAIT, FUTURE, COROUTINE = 0x400, 0x2000, 0x1FE0000, 0x80  # compile()'s, and flags of code
KERNEL = os.path.abspath(__file__)
PID, MAIN_THREAD = os.getpid(), _thread.get_ident()
PATH = [folder for folder in sys.path if folder not in ("", os.path.dirname(KERNEL))]
MODULE = type(sys)

ENVIRON = os.environ

chdir, close, dup2, fstat, getpid, os_open, read, write, leave = (
    os.chdir, os.close, os.dup2, os.fstat, os.getpid, os.open, os.read, os.write, os._exit)
get_ident, set_signal, settrace, setprofile, now = (
    _thread.get_ident, _signal.signal, sys.settrace, sys.setprofile, time.time)
get_recursion_limit, set_recursion_limit = sys.getrecursionlimit, sys.setrecursionlimit
whole_name_of = type.__dict__["__name__"].__get__


class State:
    """What the signal handler, other threads and forked children look at."""

    call = None  # the number of the one that runs
    is_run = False  # it is load or invoke
    is_armed = False  # SIGINT may raise
    was_interrupted = False
    writers, is_deferred = 0, False  # no line may be broken: SIGINT waits
    signals, is_idle = [], False  # others that wait, with the code's handlers; and whether nothing runs at all
    is_compiling = False
    status, has_number = None, False  # of the SystemExit that was judged last, and whether that is what it was given
    flags = 0  # from __future__, of all calls so far
    kept_size = 0  # of SOURCES
    ast = main = loop = task = None
    run, value, is_script = None, None, False  # the module that was loaded, its last expression, and whether it calls main
    env, has_env = {}, False  # of the run, and whether its request has one


class Streams:
    """Descriptors at numbers that nobody knows, and what sys.stdin and so on are."""

    orders = reports = null = -1
    spares = {}
    files = {}
    writer = _io.FileIO  # what is below stdout and stderr


WATCHED = {"linecache", "logging", "matplotlib.pyplot", "signal", "subprocess"}
SOURCES = {}  # by the name that a text is compiled with: what the user's lines were
FILES = {}  # by the same, where that is not the file's name: the file


class Part:
    """A file python_NAME.py beside this one. It is read at the start, and knows us as `kernel`."""

    files = {KERNEL}

    def __init__(self, name):
        self.path = f"{KERNEL[:-3]}_{name}.py"
        self.files.add(self.path)
        with _io.FileIO(self.path) as file:
            self.text, self.names = file.read(), None

    def __getattr__(self, name):
        if self.names is None:
            names = {"__builtins__": __builtins__, "__name__": self.path, "__file__": self.path, "kernel": OWN_MODULE}
            exec(compile(self.text, self.path, "exec", 0, True), names)
            self.names = names
        return self.names[name]


OWN_MODULE = sys.modules["__main__"]  # it lives as long as this name
RESULTS, ERRORS, HOOKS, LOOP, RUNS = map(Part, ("results", "errors", "hooks", "loop", "runs"))


def name_of(kind):
    return str.__str__(whole_name_of(kind))[:200]  # it may be of any length, and a string of a class of its own


# --- JSON ---

def refuse(value):
    raise TypeError(f"{name_of(type(value))} is not JSON")


class Syntax:
    strict, object_hook, object_pairs_hook = False, None, None
    parse_float, parse_int, parse_constant = float, int, float


encode_chunks = make_encoder(None, refuse, encode_basestring, None, ":", ",", False, False, False)
decode_at = make_scanner(Syntax)


def encode(value):
    return "".join(encode_chunks(value, 0)).encode("utf-8", "replace")


def decode(line):
    text = line.decode("utf-8", "replace").strip()
    try:
        return decode_at(text, 0)[0]
    except ValueError:
        return RUNS.decode_large(text)


def plain(value, room, depth=DEPTH_MAX):
    """A copy of what has a form in JSON; room[0] is how many parts it may have."""
    room[0] -= 1
    if room[0] < 0:
        raise TypeError("it is large")
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if issubclass(kind, str):
        return plain_text(value)
    if issubclass(kind, int):
        if int.bit_length(value) > 14000:
            raise TypeError("an integer of so many digits has no form in JSON")
        return int.__add__(value, 0)
    if issubclass(kind, float):
        if float.__sub__(value, value) != 0:
            raise TypeError(f"{float.__repr__(value)} has no form in JSON")
        return float.__add__(value, 0.0)
    if depth < 1 and issubclass(kind, (list, tuple, dict)):
        raise TypeError(f"the value is nested deeper than {DEPTH_MAX}, or contains itself")
    if issubclass(kind, (list, tuple)):
        return [plain(item, room, depth - 1) for item in value]
    if issubclass(kind, dict):
        return plain_dict(value, room, depth)
    raise TypeError(f"a value of type {name_of(kind)} has no form in JSON")


def plain_dict(value, room, depth):
    copy = {}
    for key, item in value.items():
        name = plain_key(key)
        if name in copy:
            raise TypeError(f"two keys that are both {cut(name, 200)!r} have no form in JSON")
        copy[name] = plain(item, room, depth - 1)
    return copy


def plain_text(text):
    text = str.__str__(text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise TypeError("half of a character (a lone surrogate) has no form in JSON") from None
    return text


def plain_key(key):
    if type(key) is str:
        return plain_text(key)
    if key is None or issubclass(type(key), (str, int, float)):
        key = plain(key, [1])
        return key if type(key) is str else encode(key).decode()
    raise TypeError(f"a key of type {name_of(type(key))} has no form in JSON")


# --- orders and reports ---

class Lines:
    """Reports that wait, as one is being written: by another thread, or by us, where a destructor came between."""

    lock, waiting, is_writing = _thread.RLock(), [], False


def write_all(data):
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[write(Streams.reports, rest):]
    except OSError as error:
        if error.errno not in (EBADF, EPIPE):
            raise
        leave(1)  # nobody listens


def send(line, number, is_last=False):
    is_main = get_ident() == MAIN_THREAD
    State.writers += is_main
    try:
        with Lines.lock:
            if State.call == number and getpid() == PID:
                Lines.waiting.append(line)
                if is_last:
                    State.call = None
            while Lines.waiting and not Lines.is_writing:
                Lines.is_writing = True
                try:
                    write_all(Lines.waiting.pop(0))
                finally:
                    Lines.is_writing = False
    finally:
        State.writers -= is_main
    if is_main and not State.writers and State.is_deferred:
        State.is_deferred = False
        if State.is_armed:
            raise KeyboardInterrupt
    if is_main:
        answer_signals()


# Of what no line can hold. To others it is what it is called.
TooLong = type("ValueError", (ValueError,), {"__module__": "builtins"})


def report(is_last=False, **what):
    """Of the call that runs; after it nothing can be told any more."""
    number = State.call
    if number is None or getpid() != PID:
        return
    line = encode({"call": number, **what})
    if len(line) >= LINE_MAX:
        raise TooLong(f"{len(line)} bytes are more than can be told: the limit is {LINE_MAX}")
    send(line + b"\n", number, is_last)


def orders():
    unread = b""
    while True:
        line, end, rest = unread.partition(b"\n")
        if end:
            unread = rest
            yield line
            continue
        parts = [unread]
        while b"\n" not in parts[-1]:
            State.is_idle = True
            if State.signals:
                HOOKS.answer_idle()
            if State.loop:
                guard(LOOP.wait_idle, is_armed=False)  # it is the user's; the read below waits as well
            data = read(Streams.orders, 1 << 20)
            State.is_idle = False
            if not data:
                return
            parts.append(data)
        unread = b"".join(parts)


# --- interruption ---

def on_interrupt(_number, frame):
    """Raises in the user's code, or lets what it awaits raise."""
    if not State.is_armed or frame.f_code is guard.__code__:
        return  # nothing runs, or what ran has just ended
    State.was_interrupted = True
    if State.writers:
        State.is_deferred = True
        return
    task, asyncio = State.task, sys.modules.get("asyncio")
    if task and not task.done() and State.loop.is_running() and not asyncio.current_task(State.loop):
        task.cancel()
        State.loop.call_soon_threadsafe(int)  # wakes it
        return
    raise KeyboardInterrupt


def answer_signals():
    """Those that came while lines of ours ran, as soon as what their handlers raise breaks off the user's own."""
    while State.signals and State.is_armed and not State.writers:
        handler, *arguments = State.signals.pop(0)
        handler(*arguments)


def guard(function, *arguments, is_armed=True):
    """(what it returns, None) or (None, what it raised)."""
    try:
        try:
            State.is_armed = is_armed
            answer_signals()
            return function(*arguments), None
        finally:
            State.is_armed = State.is_deferred = False
    except BaseException as error:
        return None, error


# --- what the user's code meets ---

def with_own_path(function, *arguments):
    """What it imports is Python's own, also if there is a file of that name where the user works."""
    kept = sys.path
    sys.path = PATH
    try:
        return function(*arguments)
    finally:
        sys.path = kept


class Watch:
    """A finder that lets hooks know of modules that some of what is promised hangs on."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return HOOKS.find(Watch, name, path, target) if name in WATCHED else None


def flush_own():
    for file in Streams.files.values():
        try:
            file.flush()
        except (OSError, ValueError):
            pass


def system(command, run=os.system):
    """Runs the command in a subshell, and returns how it ended, as os.system does."""
    flush_own()
    return run(command)


def flush_all():
    """Also what stands in place of ours, and what C's printf keeps."""
    for file in (sys.stdout, sys.stderr):
        if not any(file is own for own in Streams.files.values()):
            try:
                file.flush()
            except Exception:
                pass
    flush_own()
    if "ctypes" in sys.modules:
        try:
            sys.modules["ctypes"].CDLL(None).fflush(None)
        except Exception:
            pass


def set_streams():
    """Opens again what the user's code closed: exit() closes sys.stdin."""
    for fd, spare in Streams.spares.items():
        try:
            fstat(fd)
        except OSError:
            dup2(spare, fd)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        old = Streams.files.get(name)
        try:
            old.flush()
        except (AttributeError, ValueError, OSError):
            raw = Streams.writer(fd, "w", closefd=False) if fd else _io.FileIO(fd, "r", closefd=False)
            buffered = (_io.BufferedWriter if fd else _io.BufferedReader)(raw)
            new = Streams.files[name] = _io.TextIOWrapper(
                buffered, "utf-8", "backslashreplace" if fd == 2 else "surrogateescape", line_buffering=fd > 0)
            new.mode = "w" if fd else "r"
            if old is None or getattr(sys, name, None) is old:
                setattr(sys, name, new)
            setattr(sys, f"__{name}__", new)


def cut(text, most):
    if len(text) * 4 <= most:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    return data[:most].decode("utf-8", "ignore") + f"\n[cut here: these are {most} of {len(data)} bytes]"


def result_of(value):
    """How it is shown. All but the plainest are asked what they look like, and what may be too large is looked at there."""
    text = repr(value)
    if type(value) in (bool, int, float, str, list, dict) and len(text) * 4 <= TEXT_MAX:
        try:
            copy = plain(value, [JSON_ITEMS_MAX])
            if len(encode(copy)) <= TEXT_MAX:
                return {"text": text, "json": copy}
        except TypeError:
            pass
    return RESULTS.result_of(value, text)


def display(*objects):
    """Shows each of the objects as a result of the call that runs."""
    for value in objects:
        report(result=result_of(value))


# --- calls ---

def size_of(text):
    return 2 * str.__sizeof__(text) + 64 * text.count("\n")  # linecache has each line once more


def keep_source(file, text):
    """The name to compile it with: another one than the file's if that has had another text."""
    name = file if SOURCES.get(file, text) == text else HOOKS.other_name(file, text)
    if linecache := sys.modules.get("linecache"):
        HOOKS.add_lines(linecache, name, text)
    if name not in SOURCES:
        SOURCES[name] = text
        State.kept_size += size_of(text)
        if State.kept_size > KEPT_MAX:
            HOOKS.forget_sources()
    return name


def compile_code(text, file, flags):
    """The statements, and the expression that they end with, of which each may be None; and the tree of both."""
    State.is_compiling = True
    ast = State.ast = State.ast or __import__("_ast")  # with the first code, as it takes a while
    text = text.removeprefix("\ufeff")  # as Python itself does with that of a file
    file = keep_source(file, text)
    flags |= TOP_LEVEL_AWAIT
    tree = compile(text, file, "exec", flags | ONLY_AST, True)
    parts = tree.body[:]
    last = tree.body.pop() if tree.body and type(tree.body[-1]) is ast.Expr else None
    first = compile(tree, file, "exec", flags, True) if tree.body else None
    if first:
        flags |= first.co_flags & FUTURE
    last = compile(ast.Expression(last.value), file, "eval", flags, True) if last else None
    State.is_compiling = False
    return first, last, flags & FUTURE, parts


def run_code(first, last, namespace):
    """The value of the last expression. If there is an await, all of it runs in the event loop."""
    if any(code and code.co_flags & COROUTINE for code in (first, last)):
        return LOOP.wait_for(LOOP.run_code(first, last, namespace))
    if first:
        eval(first, namespace)
    return eval(last, namespace) if last else None


def do_code(order):
    first, last, flags, _ = compile_code(order["code"], order.get("file") or f"cell-{order['call']}.py", State.flags)
    State.flags |= flags
    value = run_code(first, last, State.main.__dict__)
    if value is not None:
        builtins._ = value
        report(result={**result_of(value), "is_value": True})


def do_order(order):
    if order.get("env"):
        ENVIRON.update(order["env"])
        time.tzset()
    if order.get("cwd"):
        chdir(order["cwd"])
    if "code" in order:
        do_code(order)
    elif "load" in order:
        RUNS.do_load(order)
    else:
        RUNS.do_invoke(order)


def settle():
    """What belongs to the end of a call, of which some is the user's code again."""
    if "matplotlib.pyplot" in sys.modules and not State.was_interrupted:
        RESULTS.show_figures()
    flush_all()


def take_back():
    """What the user's code may have done to the way functions are called, ours as well."""
    settrace(None)
    setprofile(None)
    if get_recursion_limit() < 500:
        set_recursion_limit(500)


def judge(error, is_armed=True):
    """The error, or None of an exit with status 0. The status is asked for once: that may run the user's code, and its error counts."""
    State.status, State.has_number = None, False
    if issubclass(type(error), SystemExit):
        code, late_error = guard(lambda: error.code, is_armed=is_armed)
        if late_error is not None:
            error, code = late_error, 1  # which is not asked in its turn, if it is an exit
    if issubclass(type(error), SystemExit):
        State.has_number = issubclass(type(code), int)
        State.status = int.__and__(code, 0xFF) if State.has_number else int(code is not None)
    return None if State.status == 0 else error


def serve(order):
    State.call, State.is_run, State.is_compiling, State.was_interrupted = order["call"], "code" not in order, False, False
    set_signal(_signal.SIGINT, on_interrupt)
    set_streams()
    error = guard(do_order, order)[1]
    take_back()
    error = judge(error)
    if getpid() != PID:
        ERRORS.end_child(error)
    if State.status == 0 and "load" in order:
        RUNS.end_load()
    late_error = guard(settle)[1]
    error = judge(late_error) if error is None else error
    done = "ok"
    if error is not None:
        done = "interrupted" if State.was_interrupted and issubclass(type(error), KeyboardInterrupt) else "error"
        told = guard(lambda: ERRORS.describe(error))[0]
        if told is None or guard(lambda: report(error=told), is_armed=False)[1] is not None:
            report(error={"name": name_of(type(error)), "message": "(it cannot be told)", "traceback": []})
    flush_own()
    if Streams.writer is not _io.FileIO:
        guard(RUNS.end_output, is_armed=False)
    report(is_last=True, done=done)


def end(status=0):
    guard(run_exit_functions)
    guard(flush_all)
    leave(status)


def forked():
    State.call = State.task = State.loop = None
    for fd in (Streams.orders, Streams.reports):
        try:
            close(fd)
        except OSError:
            pass  # a daemon has closed all that it found
    Streams.orders = Streams.reports = -1  # in its own children they are somebody else's


def hide(fd):
    """At a number above those that programs count to."""
    for most in (800, 150, 50):
        for _ in range(20):
            number = 100 * (most > 50) + 10 + int.from_bytes(os.urandom(2), "little") % most
            try:
                fstat(number)
            except OSError:
                try:
                    return dup2(fd, number, False)
                except OSError:
                    break  # the limit is lower
    return os.dup(fd)


def set_up():
    Streams.orders, Streams.reports = hide(0), hide(3)
    close(3)
    null = os_open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    dup2(null, 0)
    Streams.spares = {0: hide(null), 1: hide(1), 2: hide(2)}
    close(null)
    if os.geteuid() == 0:
        own = os.getegid()
        for other in (1, 65534):
            try:
                os.setegid(other)  # a process that changes its ids cannot be looked into
                os.setegid(own)
                break
            except OSError:
                continue
    set_streams()
    set_signal(_signal.SIGINT, on_interrupt)
    os.register_at_fork(before=flush_own, after_in_child=forked)
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.argv, sys.path[:] = [""], ["", *PATH]
    sys.meta_path.insert(0, Watch)
    os.system = system
    if "signal" in sys.modules:
        HOOKS.watch_signals()
    sys.modules["__main__"] = State.main = MODULE("__main__")
    State.main.__builtins__, builtins.display = builtins, display


def main():
    set_up()
    version = ".".join(map(str, sys.version_info[:3]))
    write_all(encode({"ready": True, "language": "python", "version": version, "pid": PID}) + b"\n")
    for line in orders():
        if line[-1:] != CANCELLED:
            serve(decode(line))
    end()


exec("main()", {"main": main, "__builtins__": __builtins__})
