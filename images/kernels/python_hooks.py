"""What the Python kernel does to modules once they are imported: a part of python.py, its `kernel`."""

sys, SOURCES, State = kernel.sys, kernel.SOURCES, kernel.State
NEWEST = {}  # of a file that has had several texts: the name that the last one was compiled with, and its number


def find(watch, name, path, target):
    """A module by the other finders, and a loader that has something done afterwards."""
    for finder in list(sys.meta_path):
        spec = finder.find_spec(name, path, target) if finder is not watch else None
        if spec and spec.loader:
            spec.loader = Watched(spec.loader, THEN[name])
            return spec
    return None


class Watched:
    def __init__(self, loader, then):
        self.loader, self.then = loader, then

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.then(module)


def add_lines(linecache, file, text):
    """Those of the user's code, for tracebacks that it prints itself."""
    linecache.cache[file] = len(text), None, [line + "\n" for line in text.split("\n")], file


def watch_lines(linecache):
    for name, text in SOURCES.items():
        if text:
            add_lines(linecache, name, text)


def other_name(file, text):
    """For a text whose file has had another one: what that has defined still shows its own lines."""
    name, number = NEWEST.get(file, (file, 1))
    while SOURCES.get(name, text) != text:
        number += 1
        name = f"{file} ({number})"
    NEWEST[file], kernel.FILES[name] = (name, number), file
    if "traceback" not in kernel.WATCHED:
        kernel.WATCHED.add("traceback")
        if "traceback" in sys.modules:
            watch_traces(sys.modules["traceback"])
    return name


def watch_traces(traceback):
    """Those that the user prints have the names of files, too."""
    format_frames = traceback.StackSummary.format

    def format_named(self, **options):
        kernel.ERRORS.name_files(self)
        return format_frames(self, **options)

    traceback.StackSummary.format = format_named


def forget_sources():
    """Of the oldest only the names are known then."""
    linecache = sys.modules.get("linecache")
    for name, text in list(SOURCES.items())[:-1]:
        if text and State.kept_size > kernel.KEPT_MAX // 2:
            State.kept_size -= kernel.size_of(text)
            SOURCES[name] = ""
            if linecache:
                linecache.cache.pop(name, None)


def watch_pyplot(pyplot):
    pyplot.show = kernel.RESULTS.show_figures


def watch_children(subprocess):
    execute = subprocess.Popen._execute_child

    def execute_child(self, *arguments, **options):
        kernel.flush_own()  # or what the child prints would come first
        return execute(self, *arguments, **options)

    subprocess.Popen._execute_child = execute_child


def watch_log(logging):
    if kernel.State.is_run:
        kernel.RUNS.watch_log(logging)


class Handler:
    """Of a signal: the user's. It may raise in the user's lines, and waits for those where ours run."""

    def __init__(self, function):
        self.function = function

    def __call__(self, number, frame):
        is_ours = not State.is_armed or State.writers or frame and frame.f_code is kernel.guard.__code__
        if not is_ours or kernel.getpid() != kernel.PID:
            self.function(number, frame)
            return
        State.signals.append((self.function, number, frame))
        if State.is_idle:
            answer_idle()


def answer_idle():
    """Between calls an error is printed. An exit is one: only there the user can mean the interpreter (SIGTERM)."""
    while State.signals:
        try:
            waiting = State.signals.pop(0)
        except IndexError:
            return  # a signal that came between these two lines has answered it
        error = kernel.guard(*waiting, is_armed=False)[1]
        State.is_idle = False  # what comes now waits for this loop: it would be judged, and a file cannot be written to within a write
        error = kernel.judge(error, is_armed=False)
        if kernel.getpid() != kernel.PID:
            kernel.ERRORS.end_child(error)
        if State.status is not None:
            kernel.end(State.status)
        if error is not None:
            kernel.ERRORS.print_error(error)
        State.is_idle = True


def watch_signals(_module=None):
    signals = kernel._signal
    set_handler, get_handler = signals.signal, signals.getsignal

    def shown(handler):
        return handler.function if type(handler) is Handler else handler

    def signal(number, handler):
        is_users = callable(handler) and handler is not kernel.on_interrupt
        return shown(set_handler(number, Handler(handler) if is_users else handler))

    def getsignal(number):
        return shown(get_handler(number))

    signals.signal, signals.getsignal = signal, getsignal


THEN = {"linecache": watch_lines, "logging": watch_log, "matplotlib.pyplot": watch_pyplot, "signal": watch_signals,
        "subprocess": watch_children, "traceback": watch_traces}
