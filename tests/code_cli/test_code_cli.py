"""`berth code`, `repl` and `runs` against real interpreters in real sandboxes.

usage: test_code_cli.py BUILD_DIR root|user RUNTIME [CASE...]
"""

import base64
import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "cli")]

# pylint: disable=wrong-import-position
from ground import TIMEOUT, check, equal, main, until  # noqa: E402
from terminal import Terminal  # noqa: E402

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
PICTURE = f"""
import base64
class Picture:
    def _repr_png_(self):
        return base64.b64decode("{base64.b64encode(PNG).decode()}")
Picture()
"""


def program(g):
    return os.path.abspath(os.path.join(g.build, "berth"))


def env_of(g, **more):
    return {**os.environ, "BERTH_SOCKET": g.socket, "HOME": g.path("here"), "XDG_STATE_HOME": g.path("here"), "NO_COLOR": "1", **more}


def here(g):
    os.makedirs(g.path("here"), exist_ok=True)
    return g.path("here")


def berth(g, *args, text=""):
    return subprocess.run([program(g), *args], env=env_of(g), cwd=here(g), input=text, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)


def code(g, text, *flags, name="a"):
    r = berth(g, "code", *flags, name, text=text)
    return r.returncode, r.stdout, r.stderr


def test_contexts(g):
    """What is defined lasts; output and results in their order; each language has its own."""
    equal(code(g, "x = 6 * 7\nprint('out', flush=True)\nimport sys\nprint('err', file=sys.stderr)\nx"), (0, "out\n42\n", "err\n"))
    equal(code(g, "x"), (0, "42\n", ""))
    equal(code(g, "let x: number = 1; x + 1", "-l", "ts"), (0, "2\n", ""))
    equal(code(g, "x=3; echo $x", "-l", "bash"), (0, "3\n", ""))
    equal(code(g, "import os\nos.environ['A']", "-e", "A=b"), (0, "'b'\n", ""))
    equal(code(g, "x", "-e", "A=b")[0], 1, "a context of its own")
    equal(code(g, "x"), (0, "42\n", ""), "and the other one is as it was")
    listed = g.get("/v1/sandbox/a/context").json()
    equal({c["language"] for c in listed["contexts"]}, {"python", "typescript", "bash"}, listed)
    equal(len(listed["contexts"]), 3, "those for variables are gone")
    r = berth(g, "context", "create", "-l", "bash", "--cwd", "/tmp", "-e", "A=b c", "a", "own")
    equal((r.returncode, r.stdout, r.stderr), (0, "own\n", ""))
    equal(code(g, 'echo "$PWD $A"; A=d', "-c", "own"), (0, "/tmp b c\n", ""))
    equal(code(g, 'echo "$A"', "-c", "own"), (0, "d\n", ""), "one lasts that was made so")
    r = berth(g, "context", "create", "a", "own")
    equal((r.returncode, r.stdout, r.stderr), (1, "", "berth: there is a context `own` already: `berth context rm a own` removes it\n"))
    with open(os.path.join(here(g), "a.py"), "w", encoding="utf-8") as file:
        file.write("echo 1")
    r = berth(g, "code", "-c", "own", "a", "a.py")
    equal((r.returncode, r.stdout, "a.py is python, and the context `own` is of bash" in r.stderr), (125, "", True), r.stderr)
    r = berth(g, "code", "-l", "bash", "-c", "own", "a", "a.py")
    equal((r.returncode, r.stdout, r.stderr), (0, "1\n", ""), "as it is said to be")
    r = berth(g, "code", "-l", "python", "-c", "own", "a", text="1")
    equal((r.returncode, "language is bash, and not python" in r.stderr), (125, True), r.stderr)
    equal(berth(g, "context", "rm", "a", "own").returncode, 0)


def test_ends(g):
    """Errors, time, an interpreter that ended, a context that is not there; as JSON, too."""
    status, out, err = code(g, "def f():\n    return 1 / 0\nf()")
    equal((status, out), (1, ""), err)
    check("ZeroDivisionError: division by zero" in err and "line 2, in f" in err, err)
    status, out, err = code(g, "import time\nprint('on', flush=True)\ntime.sleep(1000)", "--timeout", "1s")
    equal((status, out), (124, "on\n"), err)
    status, out, err = code(g, "try: time.sleep(1000)\nexcept KeyboardInterrupt: print('caught')\n7", "--timeout", "1s")
    equal((status, out, err.count("berth: ")), (124, "caught\n7\n", 1), err)
    status, out, err = code(g, "import os\nos._exit(7)")
    equal((status, out, err.count("berth: ")), (7, "", 1), err)
    told = "there is no context `nobody`: `berth context ls` lists them, and `berth context create` makes one"
    equal(code(g, "1", "-c", "nobody"), (125, "", f"berth: {told}\n"))
    equal(code(g, "1", "-c", "nobody", name="none"), (125, "", 'berth: there is no sandbox "none" (not_found)\n'))
    r = berth(g, "code", "--json", "a", text="1 + 1")
    told = json.loads(r.stdout)
    equal((r.returncode, told["results"][0]["text"], told["reason"]), (0, "2", "completed"), told)
    r = berth(g, "code", "--json", "a", text="1 +")
    equal((r.returncode, json.loads(r.stdout)["error"]["name"]), (1, "SyntaxError"), r.stdout)


def test_pictures(g):
    """Inline where the terminal can, and as files else."""
    status, out, err = code(g, PICTURE)
    equal((status, out, err), (0, "", "saved ./result-1.png\n"))
    with open(os.path.join(here(g), "result-1.png"), "rb") as file:
        equal(file.read(), PNG)
    with open(os.path.join(here(g), "p.py"), "w", encoding="utf-8") as file:
        file.write(PICTURE)
    with Terminal([program(g), "code", "a", "p.py"], here(g), env_of(g, TERM="xterm-kitty")) as t:
        status, shown = t.end()
    equal(status, 0, shown)
    check(shown.startswith(b"\x1b_Ga=T,f=100,m=0;" + base64.b64encode(PNG) + b"\x1b\\"), shown)


def test_interrupt(g):
    """Ctrl-C interrupts the code, and what was defined stays."""
    equal(code(g, "kept = 1"), (0, "", ""))
    with subprocess.Popen([program(g), "code", "a"], env=env_of(g), cwd=here(g), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"print('on', flush=True)\nwhile True: pass\n")
        process.stdin.close()
        equal(process.stdout.readline(), b"on\n")
        process.send_signal(signal.SIGINT)
        equal(process.wait(TIMEOUT), 130)
    equal(code(g, "kept"), (0, "1\n", ""))


def test_repl(g):
    """Typed on a terminal: results, an error, Ctrl-C, .reset; and by a pipe."""
    with Terminal([program(g), "repl", "a"], here(g), env_of(g, TERM="xterm", LC_ALL="C.UTF-8")) as t:
        at = t.wait_for(b">>> ")
        for typed, wanted in ((b"x = 20\n", b">>> "), (b"x + 1\n", b"21\r\n"), (b"1/0\n", b"ZeroDivisionError"),
                              (b"print('busy', flush=True) or [0 for i in iter(int, 1)]\n", b"\nbusy\r\n"), (b"\x03", b"interrupted"),
                              (b"x + 2\n", b"22\r\n"), (b".reset\n", b"is gone\r\n"), (b"x\n", b"NameError"), (b"'a\\x1bb'\n", b"a\\x1bb")):
            t.type(typed)
            at = t.wait_for(wanted, at)
            at = t.wait_for(b">>> ", at) if wanted != b">>> " and wanted != b"\nbusy\r\n" else at
        t.type(b"\x04")
        equal(t.end()[0], 0, t.shown)
    r = berth(g, "repl", "-l", "js", "a", text="const f = (a) => {\n  return a + 1\n}\nf(1)\nlet y = 5\ny\n")
    equal((r.returncode, r.stdout, r.stderr), (0, "2\n5\n", ""))


def test_runs(g):
    """A run of its own: called with its input, listed, looked at; nothing else is left."""
    with open(os.path.join(here(g), "add.js"), "w", encoding="utf-8") as file:
        file.write("module.exports = (a, b, env) => { console.log('hey'); console.error('hm'); return {sum: a + b, A: env.A}; };")
    r = berth(g, "code", "--run", "--input", "[1, 2]", "-e", "A=b", "add.js")
    equal((r.returncode, r.stdout, r.stderr), (0, 'hey\n{"sum":3,"A":"b"}\n', "hm\n"))
    r = berth(g, "code", "--run", text="def main(text, env):\n    return text.upper()\n")
    equal(r.returncode, 1, "it wants an input")
    r = berth(g, "code", "--run", "--input", '"abc"', text="def main(text, env):\n    return text.upper()\n")
    equal((r.returncode, r.stdout, r.stderr), (0, "ABC\n", ""))
    r = berth(g, "code", "--run", "--timeout", "1s", text="import time\ntime.sleep(1000)")
    equal(r.returncode, 124, r.stderr)
    check("SANDBOX_TIMEOUT" in r.stderr, r.stderr)
    lines = berth(g, "runs").stdout.splitlines()
    equal([line.split()[1] for line in lines[1:]], ["timed_out", "completed", "failed", "completed"], lines)
    first = lines[4].split()[0]
    r = berth(g, "runs", "logs", first)
    equal((r.returncode, r.stdout, r.stderr), (0, "hey\n", "hm\n"))
    r = berth(g, "runs", "show", first)
    check(r.returncode == 0 and '{"sum":3,"A":"b"}' in r.stdout, r.stdout)
    r = berth(g, "runs", "wait", lines[1].split()[0])
    equal(r.returncode, 124, r.stderr)
    equal(berth(g, "runs", "-q", "--status", "completed").stdout.split(), [lines[2].split()[0], first])
    until(lambda: not berth(g, "ls", "-a", "-q").stdout, "the sandboxes to go")


def test_cancel(g):
    """Ctrl-C cancels a run; so does `berth runs cancel` for whoever waits elsewhere."""
    text = "import time\nprint('on', flush=True)\ntime.sleep(1000)"

    def begin():
        process = subprocess.Popen([program(g), "code", "--run"], env=env_of(g), cwd=here(g), stdin=subprocess.PIPE,  # pylint: disable=consider-using-with
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(text.encode())
        process.stdin.close()
        return process

    def running():
        while True:
            found = berth(g, "runs", "-q", "--status", "running").stdout.split()
            if found and "on" in berth(g, "runs", "logs", found[0]).stdout:
                return found[0]
    with begin() as process:
        name = running()
        process.send_signal(signal.SIGINT)
        equal(process.wait(TIMEOUT), 130)
    equal(berth(g, "runs", "wait", name).returncode, 125, "cancelled")
    with begin() as process:
        name = running()
        equal(berth(g, "runs", "wait", "--timeout", "100ms", name).returncode, 124, "it goes on")
        r = berth(g, "runs", "cancel", name)
        equal((r.returncode, r.stdout), (0, name + "\n"), r.stderr)
        equal(process.wait(TIMEOUT), 125)
        check(b"cancelled" in process.stderr.read(), "it is told")
    until(lambda: not berth(g, "ls", "-a", "-q").stdout, "the sandboxes to go")


def test_follow(g):
    """A run's output comes while it runs, each to its stream; `runs logs -f` from another terminal, too, which ends nothing."""
    text = "import sys\nprint('on', flush=True)\nprint('hm', file=sys.stderr, flush=True)\nimport time\n" \
           "for i in range(50):\n    print(i, flush=True)\n    time.sleep(0.1)\nprint('last', end='')\n7"
    with subprocess.Popen([program(g), "code", "--run"], env=env_of(g), cwd=here(g), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdin.write(text.encode())
        process.stdin.close()
        equal((process.stdout.readline(), process.stderr.readline()), (b"on\n", b"hm\n"))
        name, = berth(g, "runs", "-q", "--status", "running").stdout.split()
        with subprocess.Popen([program(g), "runs", "logs", "-f", name], env=env_of(g), stdout=subprocess.PIPE) as other:
            equal(other.stdout.readline(), b"on\n")
            other.send_signal(signal.SIGINT)
            equal(other.wait(TIMEOUT), 130)
        r = berth(g, "runs", "logs", "--follow", name)
        wanted = "".join(f"{i}\n" for i in range(50)) + "last\n"
        equal((r.returncode, r.stdout, r.stderr), (0, "on\n" + wanted, "hm\n"))
        equal((process.stdout.read().decode(), process.stderr.read(), process.wait(TIMEOUT)), (wanted + "7\n", b"", 0))
    r = berth(g, "runs", "logs", "-f", name)
    equal((r.returncode, r.stdout), (0, "on\n" + wanted), "one that is over")
    equal(berth(g, "runs", "logs", "-f", "run-nonsense").returncode, 1, "one that is not there")
    until(lambda: not berth(g, "ls", "-a", "-q").stdout, "the sandboxes to go")


def test_interrupt_anywhere(g):
    """Ctrl-C at any moment, twice: no run goes on."""
    for delay in (0.0, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0):
        with subprocess.Popen([program(g), "code", "--run"], env=env_of(g), cwd=here(g), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdin.write(b"while True: pass")
            process.stdin.close()
            try:
                process.wait(0.05 + delay)
            except subprocess.TimeoutExpired:
                pass
            for _ in range(2):
                process.send_signal(signal.SIGINT)
            check(process.wait(TIMEOUT) in (130, -signal.SIGINT), process.returncode, process.stderr.read())
        for status in ("queued", "running"):
            equal(berth(g, "runs", "-q", "--status", status).stdout, "", f"after {delay} s")
    until(lambda: not berth(g, "ls", "-a", "-q").stdout, "the sandboxes to go")


if __name__ == "__main__":
    main([test_contexts, test_ends, test_pictures, test_interrupt, test_repl, test_runs, test_cancel, test_follow, test_interrupt_anywhere])
