"""Code of a run: how the Python kernel loads it, calls its function, and reports what it logs.

A part of python.py, its `kernel`.
"""

builtins, sys = kernel.builtins, kernel.sys
SOURCES, State, cut, name_of, report = kernel.SOURCES, kernel.State, kernel.cut, kernel.name_of, kernel.report

CODE, MANY = type((lambda: None).__code__), 1 << 30
LEVELS = (40, "error"), (30, "warn"), (20, "info")


def do_load(order):
    """Like a script that is run, or, if it has a main, like a module that is imported."""
    State.run = State.value = None
    first, last, _, names = kernel.compile_code(order["load"], order.get("file") or "main.py", 0)
    report(checked=True)
    module = kernel.MODULE("__run__" if "main" in names else "__main__")
    sys.modules[module.__name__] = module
    module.__builtins__, State.env, State.has_env = builtins, dict(order.get("env") or {}), "env" in order
    module.env = State.env
    kernel.load_module("warnings").showwarning = show_warning
    if "logging" in sys.modules:
        watch_log(sys.modules["logging"])
    State.value = kernel.run_code(first, last, module.__dict__)
    State.run = module


def do_invoke(order):
    if State.run is None:
        raise LookupError("there is no code that was loaded")
    asked, space = order["invoke"], State.run.__dict__
    function, given, value = space.get("main"), [], State.value
    is_handler = "request" in asked and "fetch" in space
    if "request" in asked:
        function, given = space.get("fetch", function), [asked["request"]]
    elif "input" in asked:
        given = asked["input"] if type(asked["input"]) is list else [asked["input"]]
    if callable(function):
        value = call_with(function, given, is_handler or State.has_env)
        if hasattr(type(value), "__await__"):
            value = kernel.LOOP.wait_for(value)
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


def watch_log(logging):
    """What is logged is reported: all of the user's own, and warnings of others."""

    class Reporter(logging.Handler):
        def emit(self, record):
            if record.levelno < logging.WARNING and record.pathname not in SOURCES:
                return
            level = next((name for least, name in LEVELS if record.levelno >= least), "debug")
            report(log={"level": level, "message": cut(self.format(record), kernel.TEXT_MAX), "time": record.created})

    root = logging.getLogger()
    if not any(name_of(type(handler)) == "Reporter" for handler in root.handlers):
        root.addHandler(Reporter())
        root.setLevel(logging.DEBUG)


def show_warning(message, category, filename, lineno, file=None, line=None):
    text = f"{filename}:{lineno}: {name_of(category)}: {message}"
    if file is None and State.is_run and State.call is not None:
        report(log={"level": "warn", "message": cut(text, kernel.TEXT_MAX), "time": kernel.now()})
    else:
        (file or sys.stderr).write(text + "\n")
