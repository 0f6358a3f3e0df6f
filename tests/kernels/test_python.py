"""The Python kernel, by its protocol alone, with the host's Python."""

import base64
import os
import tempfile

from kernel import Kernel, check, equal, kernel_file, run_all

PYTHON = os.environ.get("BERTH_TEST_PYTHON", "/usr/bin/python3")
IS_ROOT = os.geteuid() == 0


def start():
    return Kernel(PYTHON, kernel_file("python.py"))


def version(kernel):
    return tuple(int(part) for part in kernel.ready["version"].split("."))


# --- code ---

def test_ready(kernel):
    """It says what it is."""
    text = kernel.ok("import sys; '%d.%d.%d' % sys.version_info[:3]").result["json"]
    equal(kernel.ready, {"ready": True, "language": "python", "version": text, "pid": kernel.pid})


def test_namespace(kernel):
    """Names stay from call to call, in __main__."""
    equal(kernel.ok("x = 40").results, [])
    equal(kernel.ok("def f(y):\n    return x + y\n").results, [])
    equal(kernel.ok("f(2)").text, "42")
    equal(kernel.ok("import __main__; __main__.x, __name__").text, "(40, '__main__')")
    equal(kernel.ok("import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))) is A").text, "True")


def test_last_expression(kernel):
    """The value is that of the last expression, and of nothing else."""
    equal(kernel.ok("1\n2\n3").text, "3")
    equal(kernel.ok("y = 3").results, [])
    equal(kernel.ok("None").results, [])
    equal(kernel.ok("5\nz = 1").results, [])
    equal(kernel.ok("").results, [])
    equal(kernel.ok("# nothing\n").results, [])
    equal(kernel.ok("'''a\nb'''").text, "'a\\nb'")
    equal(kernel.ok("if True:\n    7").results, [])
    equal(kernel.ok("_ is None").text, "False")


def test_byte_order_mark(kernel):
    """One at the beginning is no part of the code, as in a file; columns are counted without it."""
    equal(kernel.ok("\ufeffx = 6\nx * 7").text, "42")
    equal(kernel.ok("\ufeff").results, [])
    equal(kernel.ok("\ufefflen('\ufeff')").text, "1")
    error = kernel.run("\ufeff1 / 0", file="x.py").failed("ZeroDivisionError")
    equal((error["file"], error["line"], error["column"]), ("x.py", 1, 1))
    error = kernel.run("\ufeffx = = 2").failed("SyntaxError")
    equal((error["line"], error["column"], error["message"]), (1, 5, "invalid syntax"))
    error = kernel.run("1 + \ufeff2").failed("SyntaxError")
    equal(error["line"], 1)
    kernel.load("\ufeffdef main(x):\n    return x + 1\n").ok()
    equal(kernel.invoke(input=1).value, 2)


def test_underscore(kernel):
    """_ is the last value, unless the code has one of its own."""
    kernel.ok("21")
    equal(kernel.ok("_ * 2").text, "42")
    kernel.ok("x = 1")
    equal(kernel.ok("_").text, "42")
    kernel.ok("_ = 'mine'\n5")
    equal(kernel.ok("_").text, "'mine'")


def test_constructs(kernel):
    """Decorators, classes, generators, comprehensions, multi-line strings, non-ASCII names."""
    code = '''
import functools
def twice(function):
    @functools.wraps(function)
    def inner(*a):
        return function(*a) * 2
    return inner

@twice
def f(größe):
    """Doc."""
    return größe

class A:
    x: int = 3
    def g(self):
        yield from (i for i in range(self.x))

text = """line
  line 2
"""
[f(i) for i in A().g()], f.__doc__, text
'''
    equal(kernel.ok(code).text, "([0, 2, 4], 'Doc.', 'line\\n  line 2\\n')")
    equal(kernel.ok("import inspect\ninspect.getsource(A.g)").result["json"],
          "    def g(self):\n        yield from (i for i in range(self.x))\n")


def test_future(kernel):
    """from __future__ lasts, as in a shell of Python."""
    kernel.run("class Early:\n    def f(self) -> Missing: pass").failed("NameError")
    kernel.ok("from __future__ import annotations\ndef f(x: Missing): pass\nf.__annotations__")
    equal(kernel.ok("def g(x: Missing): pass\ng.__annotations__").text, "{'x': 'Missing'}")


def test_await(kernel):
    """await at the top; one loop stays, and tasks go on in later calls and between them."""
    equal(kernel.ok("import asyncio\nawait asyncio.sleep(0, 'v')").text, "'v'")
    kernel.ok("async def me():\n    return asyncio.get_running_loop()\nfirst = await me()")
    equal(kernel.ok("(await me()) is first").text, "True")
    kernel.ok("seen = []\nasync def work():\n    for i in range(3):\n        await asyncio.sleep(0.01)\n"
              "        seen.append(i)\n"
              "    print('worked')\ntask = asyncio.create_task(work())\nawait asyncio.sleep(0)")
    # Nothing is asked meanwhile.
    kernel.until(lambda: b"worked" in kernel.stdout, "the task between calls")
    equal(kernel.ok("seen, task.done()").text, "([0, 1, 2], True)")
    equal(kernel.ok("asyncio.run(asyncio.sleep(0, 'own loop'))").text, "'own loop'")
    equal(kernel.ok("(await me()) is first").text, "True")
    equal(kernel.ok("async def gen():\n    yield 1\n    yield 2\n[x async for x in gen()]").text, "[1, 2]")


def test_await_error(kernel):
    """An error behind an await is told by the user's lines."""
    error = kernel.run("import asyncio\nasync def bad():\n    await asyncio.sleep(0)\n    raise ValueError('x')\n"
                       "await bad()").failed(
        "ValueError")
    equal((error["line"], error["file"]), (4, "cell-1.py"))
    equal([line for line in error["traceback"] if line.startswith("  File")],
          ['  File "cell-1.py", line 5, in <module>', '  File "cell-1.py", line 4, in bad'])


def test_order_fields(kernel):
    """cwd, env and the file's name; a folder that is not there is an error of the call."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "near.py"), "w", encoding="utf-8") as file:
            file.write("where = 'near'\n")
        equal(kernel.ok("import os; os.getcwd(), os.environ['A_B'], __import__('near').where", cwd=folder,
                        env={"A_B": "ü"}).text, repr((os.path.realpath(folder), "ü", "near")))
        equal(kernel.ok("os.environ['A_B']").text, "'ü'")
        equal(kernel.ok("import time; time.tzname[0]", env={"TZ": "XYZ3"}).text, "'XYZ'")
        equal(kernel.ok("os.getcwd()").result["json"], os.path.realpath(folder))
        equal(kernel.run("1/0", file="my file.py").failed("ZeroDivisionError")["file"], "my file.py")
        kernel.run("1", cwd=folder + "/missing").failed("FileNotFoundError")
        kernel.ok("os.chdir('/')")


def test_modules_in_the_way(kernel):
    """Files named like Python's own modules, where the user works, do not break the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("traceback", "asyncio", "warnings", "binascii", "atexit", "linecache", "tokenize", "re"):
            with open(os.path.join(folder, name + ".py"), "w", encoding="utf-8") as file:
                file.write("raise SystemError('not this one')\n")
        kernel.ok("1", cwd=folder)
        error = kernel.run("def f():\n    1/0\nf()").failed("ZeroDivisionError")
        equal(error["traceback"][-1], "ZeroDivisionError: division by zero")
        check('    f()' in error["traceback"], error)
        equal(kernel.ok("async def g(): return 3\nawait g()").text, "3")
        kernel.ok("import os; os.chdir('/')")


# --- results ---

RICH = '''
class Rich:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>"
    def _repr_markdown_(self): return "**"
    def _repr_json_(self): return {"a": [1]}
    def _repr_svg_(self): return "<svg>"
    def _repr_png_(self): return b"png!"
    def _repr_jpeg_(self): return "anBlZyE="
    def _repr_latex_(self): return "$x$", {"meta": 1}
'''


def test_rich(kernel):
    """Every _repr_*_ is asked; display() shows at once, and what it shows is not the value."""
    rich = {"text": "plain", "html": "<b>", "markdown": "**", "json": {"a": [1]}, "svg": "<svg>",
            "png": base64.b64encode(b"png!").decode(), "jpeg": base64.b64encode(b"jpeg!").decode(), "latex": "$x$"}
    kernel.ok(RICH)
    equal(kernel.ok("Rich()").results, [{**rich, "is_value": True}])
    call = kernel.ok("display(Rich(), 5)\n'last'")
    equal(call.results, [rich, {"text": "5", "json": 5}, {"text": "'last'", "json": "last", "is_value": True}])
    equal(kernel.ok("Rich").result.keys(), {"text", "is_value"}, "a class is not its objects")
    call = kernel.ok("class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
                     "        return {'text/plain': 'T', 'text/html': '<i>', 'image/png': 'AAAA', 'x/y': 1}, {}\nB()")
    equal(call.results, [{"text": "T", "html": "<i>", "png": "AAAA", "is_value": True}])


def test_rich_that_fails(kernel):
    """A _repr_*_ that fails or lies is left out; a __repr__ that fails is the error of the call."""
    kernel.ok("class C:\n    def __repr__(self): return 'c'\n    def _repr_html_(self): return 5\n"
              "    def _repr_png_(self): return 'no base64 %'\n    def _repr_svg_(self): raise ValueError\n"
              "    def _repr_json_(self): return {1, 2}\n    def __getattr__(self, name): return lambda *a: 'all'")
    equal(kernel.ok("C()").results[0].keys() - {"png"}, {"text", "is_value"})
    kernel.run("class D:\n    def __repr__(self): return 1/0\nD()").failed("ZeroDivisionError")
    equal(kernel.ok("from unittest.mock import MagicMock; MagicMock(name='m')").result.keys(), {"text", "is_value"})


def test_json(kernel):
    """Plain values are told as JSON too; what has no form there is not."""
    for code, value in (("{'a': [1, 2.5, None, True, 'ü\\U0001f600'], 'b': {}}", {"a": [1, 2.5, None, True, "ü😀"], "b": {}}),
                        ("True", True), ("'x'", "x"), ("10**20", 10**20), ("{1: 2, None: 3}", {"1": 2, "null": 3}),
                        ("[(1, 2)]", [[1, 2]]), ("__import__('collections').Counter('aab')", {"a": 2, "b": 1})):
        equal(kernel.ok(code).result["json"], value, code)
    for code in ("float('nan')", "[float('inf')]", "{(1,): 2}", "{1: 2, '1': 3}", "[object()]", "10**5000", "(l := [], l.append(l))[0]",
                 "list(range(200000))", "f = [1]\nfor i in range(50):\n    f = [f]\nf", "{1, 2}", "'x' * 2_000_000"):
        kernel.ok("import sys; getattr(sys, 'set_int_max_str_digits', int)(0)")
        check("json" not in kernel.ok(code).result, code)
    check("json" not in kernel.ok("'\\ud800'").result, "half a character")
    for levels in (28, 29):
        equal("json" in kernel.ok(f"f = []\nfor i in range({levels - 1}): f = [f]\nf").result, levels == 28, "what berthd reads")


def test_limits(kernel):
    """What is too long is cut or left out, and no line is broken."""
    text = kernel.ok("class T:\n    def __repr__(self): return 'x' * 50_000_000\nT()").text
    check(1 << 20 <= len(text) < (1 << 20) + 200 and "50000000" in text[-100:], len(text), text[-100:])
    result = kernel.ok("class P:\n    def _repr_png_(self): return bytes(9 << 20)\n"
                       "    def _repr_html_(self): return 'h' * (5 << 20)\n"
                       "    def __repr__(self): return 'pic'\nP()").result
    check(result.keys() == {"text", "is_value", "truncated"} and "png is left out" in result["text"] and "html" in result["text"], result)
    result = kernel.ok("class Q(P):\n    def _repr_png_(self): return bytes(8 << 20)\n"
                       "    def _repr_jpeg_(self): return bytes(8 << 20)\n"
                       "    def __repr__(self): return '\\x00' * (1 << 20)\nQ()").result
    equal(("png" in result, "jpeg" in result), (False, False), "both, with such a text, are too many")
    result = kernel.ok("Q.__repr__ = lambda self: 'q'\nQ()").result
    equal(("png" in result, "jpeg" in result, result["truncated"]), (True, False, True))
    for code in ("'x' * (1 << 20)", "['x' * 600_000] * 2", "[0] * 100_000", "['\\x01' * 200_000]", "{'k': ['é' * 600_000]}", "bytes(600_000)",
                 "class S(str):\n    def __repr__(self): return 's'\n[S('x' * 2_000_000)]"):
        result = kernel.ok(code).result
        check(result["truncated"] is True and "json" not in result, code, len(result["text"]))
        check(kernel.ok(f"{code}\ndisplay(_)").results[0]["truncated"], code)
    for code in ("'x' * 900_000", "['é' * 400_000]", "[0] * 99_999", "object()", "[float('nan')]", "(l := [], l.append(l))[0]", "{1: 2, '1': 3}", "5"):
        check("truncated" not in kernel.ok(code).result, code)
    error = kernel.run("raise ValueError('\\x01' * 30_000_000)").failed("ValueError")
    check(len(error["message"]) < 100_000, len(error["message"]))
    equal(kernel.ok("1").text, "1")


MATPLOTLIB = {"__init__.py": "", "figure.py": '''
class Figure:
    def __init__(self, number): self.number = number
    def __repr__(self): return f"<Figure {self.number}>"
    def savefig(self, file, format=None, bbox_inches=None): file.write(b"%s %d" % (format.encode(), self.number))
''', "pyplot.py": '''
import os
from matplotlib.figure import Figure
figures = {}
backend = os.environ["MPLBACKEND"]
def figure(number=None):
    number = number or max(figures, default=0) + 1
    return figures.setdefault(number, Figure(number))
def get_fignums(): return sorted(figures)
def close(which):
    for number in [n for n, f in figures.items() if which == "all" or f is which]: del figures[number]
def show(): raise RuntimeError("there is no window")
'''}


def test_matplotlib(kernel):
    """Open figures are pictures at the end of a call, or at show(), once. (By a library that stands for the real one.)"""
    def pictures(call):
        return [base64.b64decode(result["png"]) for result in call.results if "png" in result]
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "matplotlib"))
        for name, text in MATPLOTLIB.items():
            with open(os.path.join(folder, "matplotlib", name), "w", encoding="utf-8") as file:
                file.write(text)
        call = kernel.ok("import matplotlib.pyplot as plt\nf = plt.figure(); g = plt.figure()", cwd=folder)
        equal(pictures(call), [b"png 1", b"png 2"])
        equal(kernel.ok("plt.backend, plt.get_fignums()").text, "('Agg', [])")
        call = kernel.ok("plt.figure(7)\nplt.show()\ndisplay('after')\nplt.figure(8)\n1")
        equal([base64.b64decode(r.get("png", "")) or r["text"] for r in call.results],
              [b"png 7", "'after'", "1", b"png 8"])
        equal(pictures(kernel.ok("plt.figure(9)")), [b"png 9"], "the value itself, and not again")
        call = kernel.run("plt.figure(3)\n1/0")
        call.failed("ZeroDivisionError")
        equal(pictures(call), [b"png 3"])
        kernel.run("from matplotlib.figure import Figure\nFigure.savefig = lambda *a, **k: 1/0\nplt.figure(4)\nNone").failed(
            "ZeroDivisionError")
        equal(kernel.ok("plt.get_fignums()").text, "[]")
        kernel.ok("import os; os.chdir('/')")


# --- errors ---

def test_error(kernel):
    """Name, message, place of the innermost line of the user's, and the traceback without the kernel's."""
    code = "def f(x):\n    größe = x; return größe + x.missing\n\nf(1)"
    error = kernel.run(code, file="a.py").failed("AttributeError")
    column = 31 if version(kernel) >= (3, 11) else 5
    equal((error["file"], error["line"], error["column"], error["message"]),
          ("a.py", 2, column, "'int' object has no attribute 'missing'"))
    equal([line for line in error["traceback"] if "^" not in line],
          ["Traceback (most recent call last):", '  File "a.py", line 4, in <module>', "    f(1)",
           '  File "a.py", line 2, in f', "    größe = x; return größe + x.missing",
           "AttributeError: 'int' object has no attribute 'missing'"])
    check("is_syntax" not in error and "blocked" not in error, error)
    error = kernel.run("import json\n\njson.loads('{')").failed("JSONDecodeError")
    equal((error["line"], error["file"]), (3, "cell-2.py"))
    check(any("json/decoder.py" in line for line in error["traceback"]), "frames of libraries stay:", error["traceback"])


def test_error_chain(kernel):
    """Causes stay, each without the kernel's frames, and functions of earlier calls show their lines."""
    kernel.ok("def inner():\n    raise KeyError('k')", file="first.py")
    error = kernel.run("try:\n    inner()\nexcept KeyError as e:\n"
                       "    raise RuntimeError('outer') from e").failed("RuntimeError")
    text = "\n".join(error["traceback"])
    for part in ("    raise KeyError('k')", "KeyError: 'k'", "The above exception was the direct cause",
                 "RuntimeError: outer"):
        check(part in text, part, "in", text)
    check("images/kernels" not in text and "python.py" not in text, text)
    equal((error["line"], error["file"]), (4, "cell-2.py"))
    equal(kernel.ok("import traceback\ntry:\n    inner()\nexcept KeyError:\n    print(traceback.format_exc())").stdout.count(
        b"raise KeyError('k')"), 1, "the user's own traceback")


def test_same_file(kernel):
    """Each of several texts of one file shows its own lines, and all are told by the name that was given."""
    kernel.ok("def first():\n    return 1/0  # the first", file="x.py")
    kernel.ok("# another\n\ndef second():\n    return first()", file="x.py")
    kernel.ok("def last():\n\n    return second()", file="x.py")
    error = kernel.run("last()", file="x.py").failed("ZeroDivisionError")
    equal((error["file"], error["line"], error["column"]), ("x.py", 2, 12 if version(kernel) >= (3, 11) else 5))
    lines = [line for line in error["traceback"] if "^" not in line]
    equal(lines[1:-1], ['  File "x.py", line 1, in <module>', "    last()", '  File "x.py", line 3, in last', "    return second()",
                        '  File "x.py", line 4, in second', "    return first()", '  File "x.py", line 2, in first', "    return 1/0  # the first"])
    printed = kernel.ok("import inspect, traceback\ntry: last()\nexcept ZeroDivisionError: print(traceback.format_exc())\n"
                        "inspect.getsource(first)", file="x.py")
    check(all(line in printed.stdout.decode().splitlines() for line in lines[3:]), printed.stdout)
    equal(printed.result["json"], "def first():\n    return 1/0  # the first\n")
    error = kernel.run("1\n2 2", file="x.py").failed("SyntaxError")
    equal((error["file"], error["line"]), ("x.py", 2))
    check(any('File "x.py", line 2' in line for line in error["traceback"]), error)
    equal(kernel.ok("def f(): pass\nf.__code__.co_filename", file="y.py").text, "'y.py'")
    equal(kernel.ok("def f(): pass\nf.__code__.co_filename", file="y.py").text, "'y.py'", "the same text")


def test_sources_end(kernel):
    """Lines of code are kept up to a limit: the newest are."""
    def used():
        with open(f"/proc/{kernel.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    kernel.ok("import linecache\ndef old(): 1/0")
    kernel.ok(f"#{'x' * (1 << 20)}")
    before = used()
    for i in range(150):
        kernel.ok(f"#{'x' * (1 << 20)}\ndef new(): 1/0  # {i}", file="x.py" if i % 2 else None)
    check(used() - before < 110 << 10, f"{used() - before} KiB are held by 150 MiB of code")
    error = kernel.run("new()").failed("ZeroDivisionError")
    check("    def new(): 1/0  # 149" in error["traceback"] and error["line"] == 2, error["traceback"])
    error = kernel.run("old()").failed("ZeroDivisionError")
    equal((error["file"], error["line"]), ("cell-1.py", 2), "of the oldest the name is known")


def test_syntax_error(kernel):
    """Errors of syntax have their own place, and nothing of the code runs."""
    call = kernel.run("print('no')\nx = (1,\ny = 2 2")
    error = call.failed("SyntaxError")
    equal((error["is_syntax"], call.stdout, error["line"] > 1, error["file"]), (True, b"", True, "cell-1.py"))
    error = kernel.run("a = 1\nb = = 2").failed("SyntaxError")
    equal((error["line"], error["column"], error["message"]), (2, 5, "invalid syntax"))
    equal(error["traceback"][-1], "SyntaxError: invalid syntax")
    check("Traceback (most recent call last):" not in error["traceback"], error)
    error = kernel.run("if 1:\npass").failed("IndentationError")
    equal((error["is_syntax"], error["line"]), (True, 2))
    equal(kernel.run("return 5").failed("SyntaxError")["is_syntax"], True)
    equal(kernel.run("x = '\0'").error["is_syntax"], True)
    check("is_syntax" not in kernel.run("eval('1 +')").failed("SyntaxError"), "it is not the call's own syntax")
    kernel.run("(" * 5000)
    equal(kernel.ok("2").text, "2")


def test_exit(kernel):
    """exit() ends the call, not the context."""
    kernel.ok("x = 5")
    equal(kernel.run("import sys\nprint('before', end='')\nsys.exit(3)").failed("SystemExit")["message"], "exit status 3")
    equal(kernel.ok("print('on'); exit()").results, [])
    equal(kernel.run("sys.exit(4)").failed("SystemExit")["exit_code"], 4)
    equal(kernel.ok("print('still'); x").text, "5")
    kernel.run("input()").failed("EOFError")
    kernel.run("import asyncio\nasync def f(): sys.exit('why')\nawait f()").failed("SystemExit")
    equal(kernel.ok("await asyncio.sleep(0, x)").text, "5")


def test_deep_and_large(kernel):
    """RecursionError and MemoryError are errors like others."""
    error = kernel.run("def f(): return f()\nf()").failed("RecursionError")
    check(len(error["traceback"]) < 500, len(error["traceback"]))
    kernel.run("import resource\nresource.setrlimit(resource.RLIMIT_AS, (400 << 20, -1))\n"
               "x = bytearray(1 << 40)").failed("MemoryError")
    kernel.run("l = []\nwhile True: l.append(bytearray(10 << 20))").failed("MemoryError")
    kernel.ok("del l")
    equal(kernel.ok("resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\n1").text, "1")
    kernel.run("import sys\nsys.setrecursionlimit(40)\n1/0").failed("ZeroDivisionError")
    equal(kernel.ok("1").text, "1")


def test_strange_errors(kernel):
    """Errors that fail themselves when they are looked at."""
    kernel.run("class E(Exception):\n    def __str__(self): 1/0\nraise E").failed("E")
    kernel.run("class F(Exception):\n    @property\n    def __class__(self): raise ValueError\n    @property\n"
               "    def reason(self): raise ValueError\nraise F").failed("F")
    error = kernel.run("e = ValueError('own')\ne.__cause__ = e\nraise e").failed("ValueError")
    equal(error["message"], "own")
    if version(kernel) >= (3, 11):
        error = kernel.run("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])").failed("ExceptionGroup")
        check(any("TypeError: 2" in line for line in error["traceback"]), error)


def test_strange_exits(kernel):
    """Exits that fail themselves when they are asked for their status, and names without end."""
    kernel.ok("import sys\nx = 5\nclass S(SystemExit):\n    asked = 0\n    code = property(lambda self: answer(self))")
    for answer, name, status in (("1/0", "ZeroDivisionError", None), ("sys.exit(0)", "SystemExit", 1), ("exec('raise self')", "S", 1),
                                 ("'why'", "S", 1), ("259", "S", 3), ("True", "S", 1)):
        error = kernel.run(f"answer = lambda self: {answer}\nraise S()").failed(name)
        equal(error.get("exit_code"), status, answer)
        equal(kernel.ok("x").text, "5", answer)
    for answer in ("0", "False", "None"):
        kernel.ok(f"answer = lambda self: {answer}\nraise S()")
    error = kernel.run("def answer(self):\n    S.asked += 1\n    return S.asked\nraise S()").failed("S")
    equal((error["exit_code"], error["message"], kernel.ok("S.asked").text), (1, "exit status 1", "1"), "it is asked once")
    call = kernel.begin(code="def answer(self):\n    print('x')\n    while True: pass\nraise S()")
    kernel.wait_output(call, b"x")
    kernel.interrupt()
    equal(kernel.finish(call).failed("KeyboardInterrupt", "interrupted").get("exit_code"), None)
    call = kernel.ok("import os\nanswer = lambda self: 1/0\nif not (pid := os.fork()): raise S()\n"
                     "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    check(call.text == "1" and b"ZeroDivisionError" in call.stderr and b"images/kernels" not in call.stderr, call.text, call.stderr)
    for late in ("__import__('time').sleep(0)", "1/0", "3"):
        call = kernel.ok(f"answer = lambda self: 0 if os.fork() and os.wait() else {late}\nraise S()")
        equal(call.results, [], "a child that begins there is no kernel, either")
    error = kernel.run("raise type('A' * (17 << 20), (Exception,), {})('m')").failed("A" * 200)
    equal(error["message"], "m")
    kernel.run("def f(self): raise GeneratorExit\nraise type('B' * (17 << 20), (Exception,), {'__str__': f})").failed("B" * 200)
    kernel.run("class N(str):\n    def __getitem__(self, key): 1/0\nraise type(N('C' * 300), (SystemExit,), {})(7)").failed("C" * 200)
    equal(kernel.ok("x").text, "5")


def test_blocked(kernel):
    """An error that comes of there being no network is marked, however it is wrapped."""
    kernel.ok("import errno, socket, urllib.error")
    for code in ("raise OSError(errno.ENETUNREACH, 'x')", "raise OSError(errno.EHOSTUNREACH, 'x')",
                 "raise socket.gaierror(socket.EAI_AGAIN, 'x')", "raise socket.gaierror(socket.EAI_NONAME, 'x')",
                 "raise urllib.error.URLError(socket.gaierror(socket.EAI_AGAIN, 'x'))",
                 "try:\n    raise OSError(errno.ENETUNREACH, 'x')\nexcept OSError as e:\n    raise ValueError('y') from e",
                 "try:\n    raise OSError(errno.ENETUNREACH, 'x')\nexcept OSError:\n    raise ValueError('y')"):
        equal(kernel.run(code).error.get("blocked"), "network", code)
    for code in ("raise OSError(errno.ECONNREFUSED, 'x')", "raise ValueError('no network')", "raise OSError('x')",
                 "raise socket.gaierror(socket.EAI_SERVICE, 'x')"):
        check("blocked" not in kernel.run(code).error, code)


if __name__ == "__main__":
    run_all(globals(), start)
