"""The bash kernel, by its protocol alone, with the host's bash."""

import json
import os
import tempfile
import time

from kernel import GUARD, Kernel, check, equal, kernel_file, run_all

BASH = os.environ.get("BERTH_TEST_BASH", "/bin/bash")


def start():
    return Kernel(BASH, kernel_file("bash.sh"))


def test_ready(kernel):
    """It says what it is."""
    version = kernel.ok("echo ${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]} $$").stdout.decode().split()
    equal(kernel.ready, {"ready": True, "language": "bash", "version": version[0], "pid": int(version[1])})


def test_state(kernel):
    """Variables, arrays, functions, options, positions and the folder stay."""
    kernel.ok("x='a  b'; declare -A m=([k]=v); declare -i n=3; f() { local y=$1; echo \"f$y\"; }; set -- p q; cd /usr; "
              "alias l=ls")
    equal(kernel.ok('n+=2; echo "$x|${m[k]}|$n|$(f 1)|$2|$PWD|$(pwd)"').stdout, b"a  b|v|5|f1|q|/usr|/usr\n")
    kernel.ok("shopt -s nullglob; set -f")
    equal(kernel.ok("shopt nullglob; [[ -o noglob ]] && echo *").stdout, b"nullglob       \ton\n*\n")
    equal(kernel.ok("IFS=:; y=a:b; echo $y").stdout, b"a b\n")
    equal(kernel.ok('echo "$IFS"; IFS=$" "').stdout, b":\n")


def test_text(kernel):
    """Every character comes through: escapes, quotes, all of Unicode."""
    for text in ('a"b', "a\\b", "\\\\", 'x\\"', "tab\there", "ü", "€", "😀", "\x01\x7f", "\\n", "\\u0041", "/", "%s %b",
                 "$x `y`",
                 "'", "é" * 50, '"', '\\"\\', "a\r"):
        quoted = "'" + text.replace("'", "'\\''") + "'"
        equal(kernel.ok(f"printf %s {quoted}").stdout, text.encode(), repr(text))
    equal(kernel.ok("cat <<'E'\n one\n\ttwo \"x\"\nE\n").stdout, b' one\n\ttwo "x"\n')
    # As others write it, with no escapes that are not needed.
    kernel.write('{"code":"echo ü😀 \\/ \\\\ \\"q\\" ] } , {", "call":77 , "cwd" : "/tmp"}\n'.encode())
    kernel.until(lambda: {"call": 77, "done": "ok"} in kernel.strays, "the call")
    kernel.strays.clear()
    kernel.read_output()
    check(kernel.stdout.endswith("ü😀 /  q ] } , {\n".encode()), kernel.stdout[-100:])


def test_order_fields(kernel):
    """cwd and env stay; a folder that is not there is an error of the call."""
    equal(kernel.ok("echo \"$PWD $A\"; bash -c 'echo $B'", cwd="/usr",
                    env={"A": 'q"\n{x}', "B": "ü", "not a name": "x"}).stdout,
          '/usr q"\n{x}\nü\n'.encode())
    equal(kernel.ok("echo \"$PWD $B\"").stdout, "/usr ü\n".encode())
    kernel.run("echo no", cwd="/missing").failed("FileNotFoundError")
    equal(kernel.stdout.count(b"no\n"), 0)


def test_status(kernel):
    """A last status that is not 0 is an error; those before it are not."""
    equal(kernel.run("(exit 3)").failed("ExitStatus")["message"], "exit status 3")
    kernel.ok("false; true")
    kernel.run("missing_command_xyz").failed("ExitStatus")
    check(b"line 1: missing_command_xyz: command not found" in kernel.stderr, kernel.stderr)
    equal(kernel.run("f() { return 9; }; f").failed("ExitStatus")["message"], "exit status 9")
    equal(kernel.run("return 4").failed("ExitStatus")["message"], "exit status 4")
    equal(kernel.ok("").reports, [{"call": kernel.count, "done": "ok"}])
    equal(kernel.ok("echo $?").stdout, b"0\n")


def test_exit(kernel):
    """exit ends the call, from wherever, and the context lives on; in subshells it is what it was."""
    kernel.ok("x=5; f() { g; echo not here; }; g() { while :; do exit 7; done; }")
    for code, status in (("exit 3; echo no", 3), ("f; echo no", 7), ("exit; echo no", 0), ("false; exit; echo no", 1),
                         ("builtin exit 4; echo no", 4), ("for i in 1 2; do exit 5; done; echo no", 5)):
        call = kernel.run(code)
        if status:
            error = call.failed("Exit")
            equal((error["message"], error["exit_code"], call.stdout), (f"exit {status}", status, b""), code)
        else:
            equal(call.ok().stdout, b"", code)
        equal(kernel.ok("echo $x").stdout, b"5\n", code)
    for given, status in (("-1", 255), ("257", 1), ("08", 8), ("' 7 '", 7), ("-- 9", 9), ("256", 0), ("-256", 0), ("abc", 2), ("1-2", 2),
                          ("''", 2), ("99999999999999999999", 2), ("'a[$(echo no >&2)]'", 2)):
        call = kernel.run(f"exit {given}; echo no")
        equal(((call.error or {}).get("exit_code", 0), call.stdout), (status, b""), given)
        equal(call.stderr.count(b"numeric argument required"), int(status == 2), call.stderr)
    equal(kernel.ok("(exit 3); echo $?; y=$(exit 4); echo $?; exit 5 | cat; echo ${PIPESTATUS[0]}").stdout, b"3\n4\n5\n")


def test_errexit(kernel):
    """set -e ends the call at the command that fails, also in a function, and lasts; set -u likewise."""
    kernel.ok("x=5; set -eo pipefail; f() { false; echo no; }")
    for _ in range(2):
        for code in ("false; echo no", "f; echo no", "true | false | true; echo no", "y=$(false); echo no",
                     "(false; echo no)"):
            call = kernel.run(code)
            equal((call.failed("ExitStatus")["message"], call.stdout), ("exit status 1", b""), code)
        equal(kernel.ok("if false; then :; fi; false || true; ! true; echo $x").stdout, b"5\n")
        call = kernel.run("set -u; echo $unknown; echo no")  # it ends the shell: what follows is in another one
        equal((call.failed("Exit")["name"], call.stdout), ("Exit", b""))
    equal(kernel.ok("set +eu; false; echo on$unknown").stdout, b"on\n")
    equal(kernel.ok("false; echo on").stdout, b"on\n")


def test_anew(kernel):
    """After an end of the shell itself the same process has all that was there."""
    kernel.ok("status=mine; state=mine; x='a\n\"b'; declare -A m=([a b]='c d'); declare -rx r=1; "
              "f() { echo \"f $x\"; }; cd /usr; shopt -s nullglob")
    for _ in range(3):
        kernel.run("echo ${unknown:?gone}").failed("Exit")
        call = kernel.ok('f; echo "$status $state ${m[a b]} $PWD $$ $r"; shopt -q nullglob; bash -c \'echo $r\'')
        equal(call.stdout, f'f a\n"b\nmine mine c d /usr {kernel.pid} 1\n1\n'.encode())
    kernel.run("g() { cat <<E\n  declare -fr\tx\\\\y\nE\n}; readonly -f g; echo ${unknown:?gone}").failed("Exit")
    equal(kernel.ok("g").stdout, b"  declare -fr\tx\\y\n")
    kernel.run("g() { :; }; echo err >&2")
    equal(kernel.stderr.count(b"readonly function"), 1, "that of the code is, and nothing else is said")
    check(kernel.stderr.endswith(b"err\n"), kernel.stderr)


def test_cut_off(kernel):
    """Code that a signal or an assignment cuts off has failed, and the context lives on with its variables and traps."""
    kernel.ok("x=5; f() { kill -HUP $$; echo no; }; trap 'echo got' USR2")
    for option in ("set +e", "set -e"):
        kernel.ok(option)
        for code, status in (("kill -TERM $$; echo no; exit 5", 143), ("f; echo no", 129), ("kill -USR1 $$; sleep 1; echo no", 138),
                             ("(sleep .2; kill -USR1 $$)& sleep .5; echo no", 138), ("kill 0; echo no", 143),
                             ("kill -ALRM $$; echo no", 142), ("trap - TERM; kill -TERM $$; echo no", 1),
                             ("kill -SEGV $$; echo no", 1), ("declare -i y; y=1/0; echo no", 1), ("z=(1); z[1/0]=2; echo no", 1),
                             ("g() { local -i y; y=1/0; echo no; }; g; echo no", 1)):
            call = kernel.run(code)
            equal((call.failed("ExitStatus")["exit_code"], call.stdout), (status, b""), code)
            equal(kernel.ok("echo $x").stdout, b"5\n", code)
    kernel.ok("trap 'echo got' USR2")
    equal(kernel.ok("kill -USR2 $$; echo after").stdout, b"got\nafter\n")
    equal(kernel.ok("sleep 5 & kill $!; wait $! || echo $?").stdout, b"143\n", "children have none of the kernel's traps")
    equal(kernel.ok("builtin exit 0; echo no").stdout, b"")
    victim = start()
    victim.ok("x=5")
    os.kill(victim.pid, 15)
    equal(victim.wait_end(), -15)
    victim.close()


def test_syntax_error(kernel):
    """Errors of syntax have their line; the context lives on, under set -e too."""
    for option in ("set +e", "set -e"):
        kernel.ok(option)
        for code, line in (("echo 1\nif true; then\n", None), ("x=1\ny=(\n", None), ("echo ok\n\nfi\necho no", 3),
                           ("a ) b", 1)):
            error = kernel.run(code).failed("SyntaxError")
            check(error["is_syntax"] and (line is None or error["line"] == line), code, error)
        kernel.ok("echo fine")


def test_large_environment(kernel):
    """What is too large for any program to start with is no error of syntax, and the context begins anew with it."""
    kernel.ok("export large=$(printf %0200000d 0)")
    equal(kernel.run("(exit 6)").failed("ExitStatus")["message"], "exit status 6")
    equal(kernel.run("echo ok\nif true; then\ncat <<E\n").failed("SyntaxError")["message"], "syntax error: unexpected end of file")
    check(kernel.load("echo 1").ok().is_checked)
    equal(kernel.load("echo 1\nfi").failed("SyntaxError")["line"], 2)
    kernel.run("echo ${unknown:?gone}").failed("Exit")
    equal(kernel.ok("echo ${#large}; unset large").stdout, b"200000\n")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("fi\n")
        file.flush()
        kernel.run(f"export BASH_ENV={file.name}; false").failed("ExitStatus")


def await_sleep(group):
    """Until a sleep runs there: bash heeds what comes while it starts one only when that has ended. No event tells it."""
    def runs():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    name, rest = file.read().rsplit(") ", 1)
            except OSError:
                continue
            if name.endswith("(sleep") and int(rest.split()[2]) == group:
                return True
        return False
    end = time.monotonic() + GUARD
    while not runs():
        check(time.monotonic() < end, "sleep does not run")
        time.sleep(0.01)


def test_interrupt(kernel):
    """SIGINT ends what runs, in loops and functions too; variables stay, and between calls it does nothing."""
    kernel.ok("kept=5; g() { echo x; while true; do sleep 0.01; done; }; h() { g; echo no; }")
    for code in ("echo x; sleep 60; echo no", "echo x; while :; do :; done; echo no", "h; echo no",
                 "echo x; sleep 60 | cat; echo no", "echo x; y=$(sleep 60); echo no",
                 "echo x; (sleep 60; echo no); echo no", "sleep 60 & echo x; wait; echo no",
                 "until echo x; false; do :; done; echo no", "for ((;;)); do echo x; done; echo no"):
        call = kernel.begin(code=code)
        kernel.wait_output(call, b"x")
        if "sleep 60" in code:
            await_sleep(kernel.pid)
        kernel.interrupt()
        kernel.finish(call).failed("Interrupted", "interrupted")
        check(b"no" not in call.stdout, code, call.stdout[-100:])
        kernel.interrupt()
        equal(kernel.ok("echo $kept").stdout, b"5\n", code)


def test_trace(kernel):
    """set -x and set -v show the code, in this call and the next ones, and nothing of the kernel."""
    def traced(code, wanted, last="ok"):
        kernel.stderr = b""
        call = kernel.run(code)
        equal((call.done, [line.lstrip("+ ") for line in call.stderr.decode().splitlines()]), (last, wanted), code)
    traced("set -x", [])
    traced("echo a; f() { echo in; }; f", ["echo a", "f", "echo in"])
    traced("(exit 4); echo $?", ["exit 4", "echo 4"])
    traced("trap 'echo T' USR1; kill -USR1 $$", ["trap 'echo T' USR1", f"kill -USR1 {kernel.pid}", "echo T"])
    traced("# a comment\n\ncat <<X\nhi\nX", ["cat"])
    traced("exit 3", ["exit 3"], "error")
    traced("f() { false; exit; }; f", ["f", "false", "exit"], "error")
    traced("exec 2>&-; exit 3; echo no", ["exec"], "error")
    traced("exit abc 2>/dev/null", ["exit abc"], "error")
    traced("exit abc", ["exit abc", "exit: abc: numeric argument required"], "error")
    traced("set -e\nfalse\necho no", ["set -e", "false"], "error")
    traced("set +e", ["set +e"])
    traced("kill -INT $$; echo no", [f"kill -INT {kernel.pid}"], "interrupted")
    traced("builtin exit 5", ["builtin exit 5"], "error")
    traced("[[ $- == *x* ]]", [f"[[ {kernel.ok('echo -n $-').stdout.decode()} == *x* ]]"])
    traced("set +x; echo b", ["set +x"])
    traced("echo b", [])
    traced("set -v", [])
    traced("echo c\necho d", ["echo c", "echo d"])
    traced("set +v", ["set +v"])
    traced("echo e", [])


def test_descriptors(kernel):
    """Children have neither orders nor reports; stdin is /dev/null or at its end."""
    inside = kernel.ok("sh -c 'ls -l /proc/self/fd'; ls -l /proc/self/fd").stdout.decode()
    for fd in [kernel.orders, *(fd for fd, name in kernel.fds.items() if name == "reports")]:
        pipe = os.readlink(f"/proc/self/fd/{fd}")
        check(pipe not in inside, pipe, inside)
        folder = f"/proc/{kernel.pid}/fd"
        own = [int(n) for n in os.listdir(folder) if int(n) > 2 and os.readlink(f"{folder}/{n}") == pipe]
        check(len(own) == 1 and own[0] >= 20, own)
    equal(kernel.ok("cat; read -r line; echo \"<$line>\"").stdout, b"<>\n")


def test_output(kernel):
    """Bytes come as they were printed, and all of them before the end of the call."""
    equal(kernel.ok(r"printf '\xff\x00'; echo err >&2; printf end").stdout, b"\xff\x00end")
    equal(kernel.stderr, b"err\n")
    equal(len(kernel.ok("printf '%0100000d' 0 0 0 0 0 0 0 0 0 0").stdout), 1_000_000)


def test_hostile(kernel):
    """Code that replaces builtins or sets strange options does not change what is told."""
    for code in ("set -x", "set -v", "set -o noclobber", "set -o posix; set +o posix", "shopt -s nocasematch extglob",
                 "LC_ALL=C; LANG=xx",
                 "PATH=/nowhere", "trap 'echo trapped' INT ERR DEBUG; trap - DEBUG",
                 "exec 5>/dev/null 10>/dev/null 11>/dev/null",
                 "unset IFS", "call=9 code=x status=3 i=7 key=z"):
        victim = start()
        try:
            victim.run(code)
            equal(victim.run("echo 42").stdout, b"42\n", code)
            equal(victim.run("(exit 6)").failed("ExitStatus")["message"], "exit status 6", code)
            check(victim.close(), code, "has ended badly:", victim.status, victim.stderr)
        finally:
            if victim.status is None:
                victim.close()
    equal(kernel.ok("echo 1").stdout, b"1\n")


def test_redefined(kernel):
    """Functions in place of builtins, options, variables and closed descriptors last for the code, and not for the kernel."""
    for code in (*(f"{name}() {{ :; }}" for name in ("printf", "read", "eval", "trap", "source", "return", "continue", "shopt",
                                                     "set", "builtin", "cd", "export", "declare", "true", "test")),
                 ":() { return 1; }", "exit() { :; }", "unset -f exit", "unset -f berth_end", "berth_report() { :; }",
                 "shopt -s expand_aliases; alias printf=: read=: builtin=: trap=: source=: eval=: exec=:",
                 "set -e", "set -u", "set -eu", "set -o pipefail", "set -o posix", "POSIXLY_CORRECT=1", "set -C", "set -a", "set -T",
                 "set -k", "set -p", "set -f", "shopt -s nocasematch", "readonly IFS=x", "readonly IFS=1", "IFS=",
                 "IFS=,", "IFS='\"'", "unset IFS", "FUNCNEST=4", "TMOUT=1", "BASH=/bin/false", "unset BASH BASH_SOURCE",
                 "exec 1>&- 2>&-", "exec 0<&- 1>&- 2>&-", "exec {x}>&1 1>&- {x}>&-",
                 "shopt -s extdebug", "shopt -s lastpipe", "shopt -s compat31", "shopt -s failglob nullglob",
                 "trap '' EXIT", "trap - EXIT ERR INT", "trap 'return 2' DEBUG; shopt -s extdebug"):
        victim = start()
        try:
            victim.run(code)
            for _ in range(2):
                equal(victim.run("echo 42; y=7").stdout, b"42\n", code)
                equal(victim.run("(exit 6)").failed("ExitStatus")["message"], "exit status 6", code)
                call = victim.run("echo before; exit 3; echo after")
                equal((call.failed("Exit")["message"], call.stdout), ("exit 3", b"before\n"), code)
                equal(victim.run("echo $y").stdout.strip(), b"7", code)
            check(victim.close(), code, "has ended badly:", victim.status, victim.stderr)
        finally:
            if victim.status is None:
                victim.close()
    equal(kernel.ok("cd() { builtin cd \"$1\" && echo \"at $PWD\"; }; cd /usr").stdout, b"at /usr\n")
    equal(kernel.ok("cd /; set -o posix", cwd="/usr").stdout, b"at /\n", "what the code defines is the code's")
    equal(kernel.ok("[[ -o posix ]] && echo still").stdout, b"still\n")


def test_nocasematch(kernel):
    """Options that change how words are compared do not turn on set -e, nor lose variables."""
    kernel.ok("shopt -s nocasematch extglob; seconds=5; f() { [[ a == @(A|b) ]] && echo f; }; IFS=:")
    equal(kernel.ok("false; echo on; [[ a == A ]] && echo same").stdout, b"on\nsame\n")
    equal(kernel.ok("false; echo on").stdout, b"on\n")
    kernel.run("echo ${unknown:?gone}").failed("Exit")
    equal(kernel.ok('false; f; echo "$seconds$IFS"; [[ a == A ]] && echo same').stdout, b"f\n5:\nsame\n")
    kernel.ok("readonly IFS=1 && printf %s 'a  ü😀\x01é'")
    kernel.load('echo "$INPUT"').ok()
    equal(json.loads(kernel.invoke(input={"a 1": ["1 ", " 1"]}).ok().stdout), {"a 1": ["1 ", " 1"]})
    kernel.run("echo ${unknown:?gone}").failed("Exit")
    equal(kernel.ok('y=a1b; echo $y "$seconds"').stdout, b"a b 5\n")


def test_broken(kernel):
    """A shell without what no shell can do without ends, and answers nothing that is not so."""
    for code in ("enable -n builtin", "enable -n printf", "unset BASH_SUBSHELL", "unset FUNCNAME", "unset BASHPID",
                 "builtin() { :; }; enable -n unset"):
        victim = start()
        try:
            victim.begin(code=code)
            equal(victim.wait_end(), -9, code)
            equal([r for call in victim.calls.values() for r in call.reports], [], code)
        finally:
            victim.close()
    equal(kernel.ok("echo 1").stdout, b"1\n")


def test_run(kernel):
    """A run is checked when it is loaded, and runs as a script with INPUT each time that it is invoked."""
    with tempfile.TemporaryDirectory() as folder:
        call = kernel.load('echo "$INPUT $A"; n=$((n + 1)); echo $n; [[ $INPUT != *fail* ]] || exit 3', env={"A": "b"},
                           cwd=folder).ok()
        equal((call.is_checked, call.stdout), (True, b""))
        for given in ({"a": [1, "x\"y, }"]}, [1, 2], "text", 5, None):
            call = kernel.invoke(input=given).ok()
            text, count = call.stdout.decode().rsplit(" b\n", 1)
            equal((json.loads(text), count), (given, "1\n"))
            equal(call.reports[0], {"call": kernel.count, "value": None, "nothing": True})
        equal(kernel.invoke().ok().stdout, b" b\n1\n")
        # Nothing in it is taken for a part of the order, and a long one is no longer work than it is long.
        for given in ({"call": 1, "input": {"env": {"call": "2"}}}, list(range(200000)), [[n, {"k": n}] for n in range(5000)]):
            equal(json.loads(kernel.invoke(input=given).ok().stdout.decode().rsplit(" b\n", 1)[0]), given, str(given)[:50])
        kernel.load("echo $call", env={"call": "7"}, cwd=folder).ok()
        equal(kernel.invoke().ok().stdout, b"7\n")
        kernel.load('echo "$INPUT $A"; [[ $INPUT != *fail* ]] || exit 3', env={"A": "b"}, cwd=folder).ok()
        equal(kernel.invoke(input="fail").failed("ExitStatus")["message"], "exit status 3")
        call = kernel.load("echo 1\nfi")
        equal((call.failed("SyntaxError")["line"], call.is_checked), (2, False))
        kernel.invoke().failed("LookupError")
        kernel.ok("cd /")


def test_run_shell(kernel):
    """The code of a run has a shell of its own, which is $$: its traps are called, and a signal that ends it is an error."""
    kernel.load("echo $(($$ - BASHPID)) $BASH_SUBSHELL; trap 'echo got' TERM; kill -TERM $$; echo after").ok()
    equal(kernel.invoke().ok().stdout, b"0 0\ngot\nafter\n")
    for code, status in (("kill -TERM $$; echo no; exit 5", 143), ("kill -HUP $$; echo no", 129), ("kill -USR1 $$; echo no", 138),
                         ("kill 0; echo no", 143), ("kill -KILL $$; echo no", 137), ("kill -INT $$; echo no", 130),
                         ("kill $PPID", 143), ("return 4; echo no", 4), ("set -e; false; echo no", 1),
                         ("declare -i x; x=1/0; echo no", 1)):
        kernel.load(code).ok()
        for given in ("", "x" * 200000):
            call = kernel.invoke(input=given)
            equal((call.failed("ExitStatus")["exit_code"], call.stdout), (status, b""), code)
    kernel.load("ls -l /proc/$$/fd; echo ${REPLY-none}; cat").ok()
    for given in ("", "x" * 200000):
        inside = kernel.invoke(input=given).ok().stdout.decode()
        for fd in [kernel.orders, *(fd for fd, name in kernel.fds.items() if name == "reports")]:
            check(os.readlink(f"/proc/self/fd/{fd}") not in inside, inside)
        check(inside.endswith("none\n"), inside)
    kernel.load("echo no", env={"large": "x" * 200000}).ok()
    equal(kernel.invoke().failed("ExitStatus")["exit_code"], 126, "no program starts with that")


def test_run_extglob(kernel):
    """Code that turns on extglob for its later lines runs as bash runs a file; what no bash can read is refused."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.txt", "b.c"):
            with open(os.path.join(folder, name), "w", encoding="utf-8"):
                pass
        for code, said in (("shopt -s extglob\ncase x in @(a|x)) echo hi;; esac\n", b"hi\n"),
                           ("shopt -s extglob\nfor f in !(*.txt); do echo $f; done", b"b.c\n"),
                           ("shopt -s extglob\nf() {\n  echo ${1##+(0)} @(a|b).*\n}\nf 007", b"7 a.txt b.c\n"),
                           ("if !(false); then shopt -q extglob || echo off; fi", b"off\n")):
            check(kernel.load(code, cwd=folder).ok().is_checked, code)
            for _ in range(2):
                call = kernel.invoke().ok()
                equal((call.stdout, call.stderr), (said, b""), code)
    kernel.load("echo before\ncase x in @(a|x)) echo hi;; esac").ok()
    call = kernel.invoke()
    equal((call.failed("ExitStatus")["exit_code"], call.stdout), (2, b"before\n"), "nobody has turned it on")
    check(b"line 2: syntax error near unexpected token" in call.stderr, call.stderr)
    for code, line in (("shopt -s extglob\ncase x in @(a|x)) echo hi;; esac\nfi", 2), ("echo 1\necho a (b)", 2)):
        error = kernel.load(code).failed("SyntaxError")
        equal((error["line"], error["message"]), (line, "syntax error near unexpected token `('"), code)


def test_run_stderr(kernel):
    """Standard error has what the code and its children print, and no word about the shell that it runs in."""
    for code, said in (("kill -KILL $$", b""), ("kill -ABRT $$", b""), ("echo before >&2; kill -HUP $$", b"before\n"),
                       ("sh -c 'printf a >&2'; (printf b >&2); { sleep .1; printf c >&2; } & wait; printf d >/dev/stderr; false", b"abcd"),
                       ("exec 3>&2 2>/dev/null; echo no >&2; echo three >&3; kill -KILL $$", b"three\n")):
        kernel.load(code).ok()
        for given in ("", "x" * 200000):
            call = kernel.invoke(input=given)
            check(call.failed("ExitStatus"), code)
            equal((call.stdout, call.stderr), (b"", said), code)
    kernel.load("(kill -KILL $BASHPID); echo $?").ok()
    call = kernel.invoke().ok()
    check(call.stdout == b"137\n" and b"line 1:" in call.stderr and b"Killed" in call.stderr, "of a child it is told:", call.stderr)
    kernel.load("sleep .2 && echo late >&2 &\nkill -KILL $$").ok()
    kernel.invoke().failed("ExitStatus")
    kernel.until(lambda: kernel.stderr.endswith(b"late\n"), "what a process in the background prints")
    with tempfile.NamedTemporaryFile() as file:
        kernel.ok(f"exec 2>{file.name}")
        kernel.load("ls -l /proc/self/fd; echo err >&2; kill -KILL $$").ok()
        call = kernel.invoke()
        equal((file.read(), call.stderr, call.stdout.count(file.name.encode())), (b"err\n", b"", 1), "where the shell sends it")


def test_run_large_input(kernel):
    """An input that no environment can hold is in the shell alone, and programs start."""
    kernel.load('echo "${#INPUT}"; sh -c \'echo "${#INPUT}"\'; wc -c <<<"$INPUT"').ok()
    for size, outside in ((131065, 131065), (131066, 0), (3_000_000, 0), (10, 10)):
        call = kernel.invoke(input="x" * (size - 2)).ok()
        equal((call.stdout, call.stderr), (f"{size}\n{outside}\n{size + 1}\n".encode(), b""))


if __name__ == "__main__":
    run_all(globals(), start)
