"""What the Python kernel says of an error: a part of python.py, its `kernel`."""

sys = kernel.sys
SOURCES, State, cut, name_of = kernel.SOURCES, kernel.State, kernel.cut, kernel.name_of

TRACEBACK_LINES, TRACEBACK_LINE_MAX, MESSAGE_MAX = 400, 4 << 10, 64 << 10
NETWORK_ERRNOS, NAME_ERRNOS = (101, 113), (-2, -3)  # ENETUNREACH EHOSTUNREACH, EAI_NONAME EAI_AGAIN


def related(error):
    """It, and all that led to it."""
    found, waiting = [], [error]
    while waiting and len(found) < 100:
        one = waiting.pop(0)
        if issubclass(type(one), BaseException) and not any(one is other for other in found):
            found.append(one)
            waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
            waiting += getattr(one, "exceptions", ())
    return found


def is_network(error):
    sockets = sys.modules.get("_socket")
    return issubclass(type(error), OSError) and (
        error.errno in NETWORK_ERRNOS
        or sockets is not None and issubclass(type(error), sockets.gaierror) and error.errno in NAME_ERRNOS)


def file_of(name):
    """As the user knows it; `name` is what the code was compiled with."""
    return kernel.FILES.get(name, name) if type(name) is str else name


def name_files(frames):
    for frame in frames:
        getattr(frame, "line")  # it is looked for by the other name
        frame.filename = file_of(frame.filename)


def traceback_lines(error):
    """As Python prints it, without frames from here, and without those before the user's first."""
    waiting = [__import__("traceback").TracebackException(type(error), error, error.__traceback__)]
    whole, seen = waiting[0], []
    while waiting:
        one = waiting.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        waiting += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
        stack = [frame for frame in one.stack or () if frame.filename not in kernel.Part.files]
        first = next((i for i, frame in enumerate(stack) if frame.filename in SOURCES), 0)
        if one.stack is not None:
            one.stack[:] = stack[first:]
            name_files(one.stack)
        if hasattr(one, "filename"):
            one.filename = file_of(one.filename)  # of a SyntaxError
        if not stack and sys.version_info >= (3, 10):
            one.stack = None
    lines = "".join(whole.format()).splitlines()
    if len(lines) > TRACEBACK_LINES:
        half = TRACEBACK_LINES // 2
        lines[half:-half] = [f"[{len(lines) - 2 * half} lines are left out]"]
    return [cut(line, TRACEBACK_LINE_MAX) for line in lines]


def place_of(error):
    """Where in the user's lines: those of the innermost frame."""
    if State.is_compiling and issubclass(type(error), SyntaxError):
        return {"file": file_of(error.filename), "line": error.lineno, "column": error.offset}
    found, step = None, error.__traceback__
    while step:
        found, step = step if step.tb_frame.f_code.co_filename in SOURCES else found, step.tb_next
    if not found:
        return {}
    code, line, column = found.tb_frame.f_code, found.tb_lineno, None
    lines = SOURCES[code.co_filename].split("\n")
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    if hasattr(code, "co_positions"):
        position = next((p for i, p in enumerate(code.co_positions()) if i == found.tb_lasti // 2), None)
        if position and position[0] == line and position[2] is not None:
            column = len(text.encode()[:position[2]].decode("utf-8", "replace")) + 1
    return {"file": file_of(code.co_filename), "line": line, "column": column or len(text) - len(text.lstrip()) + 1}


def checked_place(place):
    """Without what has the wrong form: whoever raises a SyntaxError says whatever it likes."""
    file = place.get("file")
    numbers = {key: place.get(key) for key in ("line", "column")}
    checked = {key: number for key, number in numbers.items() if type(number) is int and 0 < number < 1 << 31}
    if issubclass(type(file), str) and str.__len__(file):
        checked["file"] = cut(str.__str__(file), TRACEBACK_LINE_MAX)
    return checked


def message_of(error):
    if State.has_number:
        return f"exit status {State.status}"
    try:
        return str.__str__(str(error.msg if issubclass(type(error), SyntaxError) else error))
    except Exception:
        return "(it has no text)"


def describe(error):
    """Of the error that was judged last."""
    name = name_of(type(error))
    told = {"name": name, "message": cut(message_of(error), MESSAGE_MAX)}
    place = checked_place(place_of(error))
    told.update(place)
    if State.status is not None:
        told["exit_code"] = State.status
    if type(error) is kernel.TooLong:
        told["too_long"] = True
    if State.is_compiling:
        told["is_syntax"] = True
    if any(is_network(one) for one in related(error)):
        told["blocked"] = "network"
    try:
        told["traceback"] = kernel.with_own_path(traceback_lines, error)
    except Exception:
        at = f"  File \"{place.get('file')}\", line {place['line']}" if place.get("line") else ""
        told["traceback"] = ["Traceback (most recent call last):", at, f"{name}: {told['message']}"]
    return told


def end_child(error):
    """A process that the user's code forked, and that came to the end of it: it is no kernel. The error is one that was judged."""
    status = State.status
    if status is None:
        status = int(error is not None)
        if status:
            print_error(error)
    kernel.guard(kernel.flush_all)
    kernel.leave(status)


def print_error(error):
    kernel.guard(lambda: print(*traceback_lines(error), sep="\n", file=kernel.Streams.files["stderr"]), is_armed=False)
