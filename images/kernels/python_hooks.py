"""What the Python kernel does to modules once they are imported: a part of python.py, its `kernel`."""

sys = kernel.sys


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
    for file, text in kernel.SOURCES.items():
        add_lines(linecache, file, text)


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


THEN = {"linecache": watch_lines, "logging": watch_log, "matplotlib.pyplot": watch_pyplot, "subprocess": watch_children}
