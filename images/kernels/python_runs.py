"""Code of a run: how the Python kernel loads it, calls its function, and reports what it logs.

A part of python.py, its `kernel`.
"""

import gc
from codecs import getincrementaldecoder

builtins, sys = kernel.builtins, kernel.sys
SOURCES, State, cut, name_of, report = kernel.SOURCES, kernel.State, kernel.cut, kernel.name_of, kernel.report

write_file = kernel._io.FileIO.write
is_collecting, stop_collecting, start_collecting = gc.isenabled, gc.disable, gc.enable

REPORTS = "reports"
DECODERS = {name: getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
CODE, MANY = type((lambda: None).__code__), 1 << 30
LEVELS = (40, "error"), (30, "warn"), (20, "info")
ast = __import__("_ast")
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda  # a call in there is none of the script's own


def decode_large(text):
    """An order whose input has a number of more digits than int() takes."""
    def tolerant_int(digits):
        try:
            return int(digits)
        except ValueError:
            return float(digits)

    syntax = type("Syntax", (kernel.Syntax,), {"parse_int": staticmethod(tolerant_int)})
    return kernel.make_scanner(syntax)(text, 0)[0]


def do_load(order):
    """Like a script that is run, or, if it has a main, like a module that is imported."""
    State.run = State.value = None
    route_output()
    first, last, _, parts = kernel.compile_code(order["load"], order.get("file") or "main.py", 0)
    report(checked=True)
    has_main = any(type(part) in FUNCTIONS[:2] and part.name == "main" for part in parts)
    State.is_script = "main" in order["load"] and calls_main(parts, has_main)
    module = kernel.MODULE("__run__" if has_main else "__main__")
    sys.modules[module.__name__] = module
    module.__builtins__, State.env, State.has_env = builtins, dict(order.get("env") or {}), "env" in order
    module.env = State.env
    kernel.with_own_path(__import__, "warnings").showwarning = show_warning
    if "logging" in sys.modules:
        watch_log(sys.modules["logging"])
    State.value = kernel.run_code(first, last, module.__dict__)
    State.run = module


def end_load():
    """Of code that has exited with status 0: it is over, and has no value."""
    State.run = kernel.MODULE("__run__")
    State.run.main = lambda *given, **named: None


def calls_main(parts, has_main):
    """Whether the code calls its main by itself, as a script does. What is below `if __name__ == "__main__"` is not run if it has one."""
    waiting = parts[:]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind is list:
            waiting += part
        elif kind is ast.Call and type(part.func) is ast.Name and part.func.id == "main":
            return True
        elif kind is ast.If and has_main and asks_for_script(part.test):
            waiting += part.orelse
        elif issubclass(kind, ast.AST) and kind not in FUNCTIONS:
            waiting += [getattr(part, name, None) for name in part._fields]
    return False


def asks_for_script(test):
    if type(test) is ast.BoolOp and type(test.op) is ast.And:
        return any(map(asks_for_script, test.values))
    if type(test) is not ast.Compare or type(test.ops[0]) is not ast.Eq or len(test.ops) > 1:
        return False
    sides = test.left, test.comparators[0]
    return any(type(side) is ast.Name and side.id == "__name__" for side in sides) and any(
        type(side) is ast.Constant and side.value == "__main__" for side in sides)


def do_invoke(order):
    if State.run is None:
        raise LookupError("there is no code that was loaded")
    asked = {name: given for name, given in order["invoke"].items() if name == "input" or given is not None}
    space = State.run.__dict__
    function, given, value = space.get("main"), [], State.value
    is_handler = "request" in asked and "fetch" in space
    if "request" in asked:
        function, given = space.get("fetch", function), [asked["request"]]
    elif "input" in asked:
        given = asked["input"] if type(asked["input"]) is list else [asked["input"]]
    if asked and not callable(function):
        what, name = ("request", "fetch") if "request" in asked else ("input", "main")
        raise LookupError(f"the {what} was given to nothing: define a function `{name}` that takes it")
    is_called = callable(function) and not (State.is_script and not asked)
    if is_called:
        value = call_with(function, given, is_handler or State.has_env)
    if hasattr(type(value), "__await__"):
        value = kernel.LOOP.wait_for(value)
        if not is_called:
            State.value = value  # nothing can be awaited twice
    if value is None:
        report(value=None, nothing=True)
    else:
        report(value=plain_whole(value))


def plain_whole(value):
    """All of it as JSON has it, or an error that says what has no such form, and where."""
    try:
        return kernel.plain(value, [kernel.LINE_MAX])
    except TypeError as error:
        path, why = path_to(value, str(error), kernel.DEPTH_MAX)
        if "contains itself" in why:
            raise
        raise TypeError(f"{why}, at {cut(path, 200)} of the result" if path else why) from None


def path_to(value, why, depth):
    """To the part of it that has no form in JSON, as text, and why it has none."""
    items = ()
    if issubclass(type(value), (list, tuple)):
        items = enumerate(value)
    elif issubclass(type(value), dict):
        items = ((kernel.plain_key(key), item) for key, item in value.items())
    try:
        for key, item in items if depth else ():
            try:
                kernel.plain(item, [kernel.LINE_MAX], depth - 1)
            except TypeError as error:
                path, why = path_to(item, str(error), depth - 1)
                return f"[{key!r}]{path}", why
    except TypeError:
        pass  # a key
    return "", why


def call_with(function, given, has_env):
    """With env behind what is given, if there is one to give and a place for it, or if an argument is missing."""
    least, most, named = places_of(function)
    if named == "needed" or named and has_env:
        return function(*given, env=State.env)
    if len(given) < (most if has_env else least):
        return function(*given, State.env)
    return function(*given)


def places_of(function):
    """How many arguments it needs by position, how many it takes, and whether there is an `env` by name alone."""
    code = getattr(function, "__code__", None)
    if type(code) is not CODE or hasattr(function, "__wrapped__"):
        return kernel.with_own_path(places_by_signature, function)
    bound = getattr(function, "__self__", None) is not None
    most, names = code.co_argcount, code.co_varnames
    least = max(most - len(function.__defaults__ or ()) - bound, 0)
    named = "env" in names[most:most + code.co_kwonlyargcount]
    if named and "env" not in (function.__kwdefaults__ or {}):
        named = "needed"
    return least, MANY if code.co_flags & 4 else most - bound, named


def places_by_signature(function):
    """Of what is no plain function. `inspect` takes longer to load than most runs to run."""
    inspect = __import__("inspect")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0, MANY, False
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    is_open = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    named = next((p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name == "env"), False)
    if named:
        named = "needed" if named.default is named.empty else True
    return sum(p.default is p.empty for p in by_place), MANY if is_open else len(by_place), named


class Output(kernel._io.FileIO):
    """Standard output or standard error.

    As long as all is said by one of them it goes to the pipe, where also children print. Once there is something on the
    other one, or a message, all is reported: nobody could tell in which order it was said.
    """

    way = None  # which one that was, and REPORTS from then on

    def __init__(self, fd, *arguments, **options):
        super().__init__(fd, *arguments, **options)
        self.name_of_log = "stdout" if fd == 1 else "stderr"

    def write(self, data):
        number = State.call
        if Output.way == self.name_of_log or number is None or kernel.getpid() != kernel.PID:
            return write_file(self, data)
        if Output.way is None:
            Output.way = self.name_of_log
            return write_file(self, data)
        Output.way = REPORTS
        was_enabled = is_collecting()
        stop_collecting()  # a destructor that prints could not, within a write
        try:
            data = bytes(data)
            tell_output(self.name_of_log, DECODERS[self.name_of_log].decode(data), number)
        finally:
            if was_enabled:
                start_collecting()
        return len(data)


def tell_output(name, text, number):
    for at in range(0, len(text), kernel.TEXT_MAX):
        message = kernel.encode_basestring(text[at:at + kernel.TEXT_MAX])
        line = f'{{"call":{number},"log":{{"level":"{name}","message":{message},"time":{kernel.now()}}}}}\n'
        kernel.send(line.encode(), number)


def end_output():
    """Tells half of a character that nothing has followed, or it would be the next call's."""
    for name, decoder in DECODERS.items():
        tell_output(name, decoder.decode(b"", True), State.call)


def route_output():
    if kernel.Streams.writer is not Output:
        kernel.Streams.writer = Output
        for name in ("stdout", "stderr"):
            kernel.Streams.files.pop(name).flush()
        kernel.set_streams()


def tell(level, message, time):
    kernel.flush_own()  # what was printed before comes before it
    Output.way = REPORTS
    report(log={"level": level, "message": cut(message, kernel.TEXT_MAX), "time": time})


def watch_log(logging):
    """What is logged is reported: all of the user's own, and warnings of others."""

    class Reporter(logging.Handler):
        def emit(self, record):
            if record.levelno < logging.WARNING and record.pathname not in SOURCES:
                return
            level = next((name for least, name in LEVELS if record.levelno >= least), "debug")
            tell(level, self.format(record), record.created)

    root = logging.getLogger()
    if not any(name_of(type(handler)) == "Reporter" for handler in root.handlers):
        root.addHandler(Reporter())
        root.setLevel(logging.DEBUG)


def show_warning(message, category, filename, lineno, file=None, line=None):
    text = f"{kernel.ERRORS.file_of(filename)}:{lineno}: {name_of(category)}: {message}"
    if file is None and State.is_run and State.call is not None:
        tell("warn", text, kernel.now())
    else:
        (file or sys.stderr).write(text + "\n")
