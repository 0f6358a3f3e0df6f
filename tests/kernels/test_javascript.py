"""The kernel of JavaScript and TypeScript, with the real node: BERTH_NODE names another one than that of PATH."""

import base64
import os
import signal
import socket
import subprocess
import tempfile
import time

from kernel import GUARD, LINE_MAX, Kernel, check, equal, kernel_file, run_all

NODE = os.environ.get("BERTH_NODE", "node")
FLAGS = ["--expose-internals", "--experimental-vm-modules", "--no-force-async-hooks-checks"]
OWN = "kernels/javascript"  # in the names of its files
FOREVER = "await new Promise(() => {})"


def start(env=None):
    return Kernel(NODE, *FLAGS, kernel_file("javascript.cjs"), env=env)


def place(error):
    return error.get("file"), error.get("line"), error.get("column")


# --- a context ---

def test_ready(kernel):
    """It says who it is."""
    equal((kernel.ready["language"], kernel.ready["pid"]), ("javascript", kernel.pid))
    check(int(kernel.ready["version"].split(".")[0]) >= 18, kernel.ready)


def test_names_last(kernel):
    """What is declared lasts, and may be declared again as the same or as something else."""
    kernel.ok("let a = 1; const b = 2; var c = 3; function d() { return 4 } class E { f = 5 }; const { g, ...h } = { g: 6 }")
    equal(kernel.ok("a + b + c + d() + new E().f + g").text, "21")
    kernel.ok("let a = 10; const b = 20; var c = 30; function d() { return 40 } class E { f = 50 }")
    equal(kernel.ok("a + b + c + d() + new E().f").text, "150")
    for declared in ["let x = 1", "const x = 1", "var x = 1", "function x() {}", "class x {}", "import x from 'fs'"]:
        for again, text in [("let x = 2; x++; x", "3"), ("const x = 4; x", "4"), ("var x = 5; x", "5"),
                            ("function x() { return 6 }; x()", "6"), ("class x { static y = 7 }; x.y", "7"),
                            ("for (var x = 0; x < 3; x++); 8", "8")]:
            kernel.ok(declared)
            equal(kernel.ok(again).text, text, f"{declared}, then {again}")
    equal(kernel.run("let twice = 1; let twice = 2").failed("SyntaxError")["is_syntax"], True)


def test_a_failed_call_leaves_what_it_did(kernel):
    """What was done before an error stays, and a name whose declaration failed can be had again."""
    kernel.run("let a = 1; let b = (() => { throw new Error('x') })()").failed("Error")
    equal(kernel.ok("a").text, "1")
    equal(kernel.ok("let b = 2; b").text, "2")


def test_results(kernel):
    """The value of the last expression is shown by inspect, as JSON where it is nothing but that."""
    for code, text, plain in [
            ("1 + 1", "2", 2), ("'a'", "'a'", "a"), ("null", "null", None), ("if (true) 5", "5", 5),
            ("({ a: [1, { b: true }] })", "{ a: [ 1, { b: true } ] }", {"a": [1, {"b": True}]}),
            ("'ä\\u0000\\n€😀'", "'ä\\x00\\n€😀'", "ä\0\n€😀"), ("await Promise.resolve(7)", "7", 7),
            ("Promise.resolve(8)", "8", 8),
            ("Object.create(null, { a: { value: 1, enumerable: true } })", "[Object: null prototype] { a: 1 }", {"a": 1})]:
        result = kernel.ok(code).result
        equal((result["text"], result["json"], result["is_value"]), (text, plain, True), code)
    for code, text in [("10n", "10n"), ("NaN", "NaN"), ("-0", "-0"), ("Symbol('a')", "Symbol(a)"),
                       ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"), ("() => 1", "[Function (anonymous)]"),
                       ("[undefined]", "[ undefined ]"), ("({ get a() { return 1 } })", "{ a: [Getter] }")]:
        result = kernel.ok(code).result
        equal(result["text"], text, code)
        check("json" not in result or code == "-0", code, result)
    for code in ["", "undefined", "let q = 1", "// nothing", "void 0", "function f() {}", ";"]:
        equal(kernel.ok(code).results, [], code)
    check(kernel.ok("const o = {}; o.o = o; o").text.startswith("<ref *1>"), "a cycle")


def test_half_characters(kernel):
    """What JSON cannot hold is not turned into something else: there is only the text of it then."""
    for code, text in [("'\\ud800'", "'\\ud800'"), ("['a', { b: '\\udc00c' }]", "[ 'a', { b: '\\udc00c' } ]"),
                       ("({ '\\ud83d': 1 })", "{ '\\ud83d': 1 }")]:
        result = kernel.ok(code).result
        equal((result["text"], result.get("json"), "truncated" in result), (text, None, False), code)
        equal([set(shown) for shown in kernel.ok(f"display({code}); display.json({code}); void 0").results], [{"text"}] * 2, code)
    equal(kernel.ok("'\\\\ud800 \\ud83d\\ude00'").result["json"], "\\ud800 😀")


def test_await(kernel):
    """await stands anywhere at the top, and its timers run between calls, too."""
    equal(kernel.ok("const a = await new Promise(r => setTimeout(r, 5, 6)); "
                    "for await (const b of [a]) globalThis.c = b; c").text, "6")
    kernel.ok("globalThis.n = 0; globalThis.told = new Promise(r => { const t = setInterval(() => { if (++n === 5) { "
              "clearInterval(t); console.log('ticked'); r() } }, 1) }); 1")
    kernel.until(lambda: b"ticked" in kernel.stdout, "timers between calls")
    equal(kernel.ok("await told; n").text, "5")


def test_modules(kernel):
    """import, import() and require, of node's own and of files relative to the directory of the call."""
    with tempfile.TemporaryDirectory() as folder:
        for name, code in {"a.mjs": "export default 1; export const b = 2", "c.cjs": "module.exports = { d: 3 }",
                           "node_modules/pack/index.js": "exports.e = 4", "f.json": '{"g": 5}'}.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(code)
        equal(kernel.ok("import a, { b as bb } from './a.mjs'; import * as all from './a.mjs'\nimport c from './c.cjs'; "
                        "import { e } from 'pack'; import 'node:os'; import fs, { readFileSync } from 'fs'\n"
                        "[a, bb, all.b, c.d, e, typeof fs.readFileSync, readFileSync === fs.readFileSync]",
                        cwd=folder).result["json"], [1, 2, 2, 3, 4, "function", True])
        equal(kernel.ok("[a, (await import('./a.mjs')).b, require('./c.cjs').d, require('pack').e, require('./f.json').g]")
              .result["json"], [1, 2, 3, 4, 5])
        equal(kernel.ok("[__dirname, module.paths[0], typeof exports, require.resolve('./c.cjs')]").result["json"],
              [folder, f"{folder}/node_modules", "object", f"{folder}/c.cjs"])
        call = kernel.ok("const f = () => import('path'); (await f()).sep + ' import(\"x\") ' + import.meta.dirname")
        equal(call.result["json"], '/ import("x") ' + folder)
        check("'nope'" in kernel.run("import { nope } from './a.mjs'").failed("SyntaxError")["message"], "no such export")
        equal(kernel.run("\nimport x from './none.mjs'").failed("Error")["line"], 2)
    equal(kernel.ok("export const y = 1; export default function z() { return 2 }; y + z()").text, "3")


def test_missing_modules(kernel):
    """Who asked for a module that is not there is the code, wherever that is told."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/a.cjs", "w", encoding="utf-8") as file:
            file.write("require('nope')")
        kernel.ok("1", cwd=folder)
        for code in ["import x from 'nope'", "await import('nope')", "await import('./nope.mjs')", "require('nope')", "require('./a.cjs')",
                     "require.resolve('nope')", "import.meta.resolve('nope')", "const f = () => require('nope'); f()"]:
            error = kernel.run(code, file="my.js").failed("Error")
            check(f"{folder}/my.js" in error["message"] and "[berth]" not in str(error), code, error)
            equal(place(error)[:2], ("my.js", 1) if "a.cjs" not in code else (place(error)[0], 1), error)
            error = kernel.load(f"{code}\nexport default 1" if "import" in code else code, file="my.js").failed("Error")
            check(f"{folder}/my.js" in error["message"] and "[berth]" not in str(error), code, error)
        for code in ["await import('nope')", "require('nope')"]:
            call = kernel.ok(f"try {{ {code} }} catch (e) {{ console.log(e); [e.message, e.stack, e.requireStack].join() }}", file="my.js")
            check("my.js" in call.text and "[berth]" not in call.text + call.stdout.decode(), call.text, call.stdout)
        equal(kernel.run("\n f()").failed("Error")["message"].split("- ")[1], f"{folder}/my.js")


ATTRIBUTES = [
    "import f from './f.json' with { type: 'json' }; f.g", "import f from './f.json' assert { type: 'json' }\nf.g",
    "import * as f from \"./f.json\" with { 'type': 'json' }\nf.default.g", "import { default as f } from './f.json' with "
    "{ type: \"json\", }; import 'os'; f.g", "(await import('./f.json', { with: { type: 'json' } })).default.g",
]


def parses_attributes(kernel):
    """Whether the parser that node carries knows attributes of imports: that of 18 does not."""
    return int(kernel.ready["version"].split(".")[0]) >= 20


def test_attributes(kernel):
    """Attributes of imports are passed on, of cells and of runs, in the newer and in the older form."""
    if not parses_attributes(kernel):
        for code in ATTRIBUTES[:2]:
            check("attributes" in kernel.run(code).failed("SyntaxError")["message"], code)
        return
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/f.json", "w", encoding="utf-8") as file:
            file.write('{"g": 5}')
        for code in ATTRIBUTES:
            equal(kernel.ok(code, cwd=folder).text, "5", code)
            kernel.load(code).ok()
            equal(kernel.invoke().ok().value, 5, code)
            call = kernel.load(code + "; export default () => 6").ok()
            equal((kernel.invoke().ok().value, call.is_checked), (6, True), code)
            if "assert" in code or "import(" in code:
                equal(kernel.ok(code, language="typescript").text, "5", code)
        kernel.load("export { default as main } from './f.json' with { type: 'json' }").ok()
        error = kernel.run("import f from './f.json' assert { type: 'json' };\n  nope").failed("ReferenceError")
        equal(place(error)[1:], (2, 3))
        check("css" in kernel.run("import f from './f.json' with { type: 'css' }").failed("TypeError")["message"], "the attribute")


def test_attributes_of_old_parsers(kernel):
    """Who does not know them says so."""
    error = kernel.run("import f from './f.json' with { type: 'json' }", language="typescript").error
    check("is_syntax" not in error or "0.19.7" in error["message"], error)
    kernel.ok("const acorn = require('internal/deps/acorn/acorn/dist/acorn'), { parse } = acorn; "
              "acorn.parse = (code, how) => parse(code, { ...how, ecmaVersion: 2024 })")
    error = kernel.run("1;\nimport f from './f.json' with { type: 'json' }").failed("SyntaxError")
    equal((error["is_syntax"], place(error)[1:], "attributes" in error["message"]), (True, (2, 26), True), error)


def test_directory_and_variables(kernel):
    """cwd and env of a call stay; a directory that is not there is its error."""
    with tempfile.TemporaryDirectory() as folder:
        equal(kernel.ok("[process.cwd(), process.env.KERNEL_X]", cwd=folder, env={"KERNEL_X": "a b"}).result["json"],
              [folder, "a b"])
        equal(kernel.ok("[process.cwd(), process.env.KERNEL_X]").result["json"], [folder, "a b"])
        equal(kernel.ok("require('child_process').execSync('echo $KERNEL_X; pwd').toString()").result["json"],
              f"a b\n{folder}\n")
        kernel.run("1", cwd=f"{folder}/none").failed("Error")
        equal(kernel.ok("2", cwd="/").text, "2")


# --- what is printed ---

def test_output(kernel):
    """Byte for byte on both streams, all of it before the call is done, and while it runs."""
    call = kernel.ok("console.log('a', { b: 1 }); console.error('c'); console.warn('d'); "
                     "process.stdout.write(Buffer.from([255, 0]));"
                     "process.stdout.write('e\\n'); process.stderr.write('fe', 'hex'); await new Promise(r => "
                     "process.stdout.write('g', r))")
    equal((call.stdout, call.stderr), (b"a { b: 1 }\n\xff\0e\ng", b"c\nd\n\xfe"))
    call = kernel.ok("for (let i = 0; i < 3e5; i++) console.log('line ' + i)")
    equal(call.stdout, b"".join(b"line %d\n" % i for i in range(300000)))
    call = kernel.ok("process.stdout.write('x'.repeat(5e6))")
    equal(len(call.stdout), 5000000)
    call = kernel.begin(code="console.log('early'); let go = false; setTimeout(() => go = true, 50); while (!go) await new "
                             "Promise("
                             "r => setTimeout(r, 5)); console.log('late')")
    kernel.wait_output(call, b"early\n")
    check(not call.done, "it is not done yet")
    equal(kernel.finish(call).stdout, b"early\nlate\n")


def test_children(kernel):
    """Children print there, too, in blocking pipes, have no orders to read, and no channel to report by."""
    equal(kernel.ok("require('child_process').execSync('head -c 3000000 /dev/zero', { stdio: 'inherit' }); 1").stdout,
          bytes(3000000))
    listed = kernel.ok("require('child_process').execSync('cat; ls -l /proc/self/fd', { stdio: ['inherit', 'pipe', "
                       "'inherit'] }).toString()").text
    channels = [os.fstat(fd).st_ino for fd, name in [*kernel.fds.items(), (kernel.orders, "reports")] if name == "reports"]
    check("/dev/null" in listed and not [ino for ino in channels if f"pipe:[{ino}]" in listed], listed)
    equal(kernel.ok("process.stdin.read(); require('fs').readFileSync(0).length").text, "0")
    kernel.ok("const { Worker } = require('worker_threads'); await new Promise(r => new Worker(\"console.log('from a "
              "worker')\", "
              "{ eval: true }).on('exit', r))")
    check(b"from a worker" in kernel.stdout, kernel.stdout[-100:])


def test_descriptors(kernel):
    """Orders and reports are moved away, and nobody else may look at what is open here."""
    equal(os.readlink(f"/proc/{kernel.pid}/fd/0"), "/dev/null")
    check(not os.path.exists(f"/proc/{kernel.pid}/fd/3") or "pipe" not in os.readlink(f"/proc/{kernel.pid}/fd/3"),
          "3 is a pipe still")


def test_no_looks(_):
    """As root, it is not to be looked at by another process that is root, unless that one may look at all."""
    if os.geteuid() != 0:
        return
    plain = ["setpriv", "--bounding-set=-sys_ptrace"]
    kernel = Kernel(*plain, NODE, *FLAGS, kernel_file("javascript.cjs"))
    try:
        for pid, is_seen in [(kernel.pid, False), (os.spawnvp(os.P_NOWAIT, plain[0], [*plain, "sleep", "1000"]), True)]:
            end = time.monotonic() + GUARD
            while (seen := subprocess.run([*plain, "readlink", f"/proc/{pid}/fd/1"], stdout=subprocess.PIPE,
                                          check=False).stdout) == b"" \
                    and is_seen and time.monotonic() < end:
                pass
            if is_seen:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            equal(seen != b"", is_seen, "what another process sees")
    finally:
        check(kernel.close(), "its end")


def test_pipes_of_another_user(_):
    """Where they cannot be opened again they stay where they are, and no child has that of reports."""
    if os.geteuid() != 0:
        return
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    kernel = Kernel(*other, NODE, *FLAGS, kernel_file("javascript.cjs"))
    try:
        equal(kernel.ok("let n = 0; for await (const chunk of process.stdin) n++; n", cwd="/").text, "0")
        listed = kernel.ok("require('child_process').execSync('ls -l /proc/self/fd').toString()").text
        reports = next(fd for fd, name in kernel.fds.items() if name == "reports")
        check(f"pipe:[{os.fstat(reports).st_ino}]" not in listed, listed)
        equal(kernel.ok("console.log('a'); await new Promise(r => setTimeout(r, 1)); 2").text, "2")
    finally:
        check(kernel.close(), "its end")


def test_display(kernel):
    """display() shows as many things as it is told, in any of the kinds, before the value."""
    call = kernel.ok("display(1); display.html('<b>'); display.markdown('*'); display.svg('<svg/>'); display.latex('x^2'); "
                     "display.json({ a: 1 }); display.png(Buffer.from('png')); display.jpeg('anBn'); display('<i>', "
                     "'text/html'); 2")
    equal([{k: v for k, v in result.items() if k != "text"} for result in call.results], [
        {"json": 1}, {"html": "<b>"}, {"markdown": "*"}, {"svg": "<svg/>"}, {"latex": "x^2"}, {"json": {"a": 1}},
        {"png": base64.b64encode(b"png").decode()}, {"jpeg": "anBn"}, {"html": "<i>"}, {"json": 2, "is_value": True}])
    equal(kernel.ok("({ [Symbol.for('berth.display')]() { return { html: '<p>', 'text/latex': 'y', png: new "
                    "Uint8Array([1]) } } })")
          .result["html"], "<p>")
    equal(kernel.run("({ [Symbol.for('berth.display')]() { throw new RangeError('no') } })").failed("RangeError")["message"],
          "no")
    check("text/x" in kernel.run("display(1, 'text/x')").failed("TypeError")["message"], "an unknown kind")
    kernel.ok("setTimeout(() => { display('unasked'); }, 1); 1")
    kernel.until(lambda: b"unasked" in kernel.stdout, "what is shown between calls")


def test_large(kernel):
    """What is too much is cut, and said to be."""
    text = kernel.ok("'x'.repeat(3 << 20)").text
    check(len(text) < (1 << 20) + 100 and "cut" in text or "more characters" in text, len(text), text[-50:])
    equal(len(kernel.ok("'\\u0001'.repeat(1 << 20)").results), 1)
    for code in ["'x'.repeat(3 << 20)", "({ a: ['x'.repeat(1 << 20)] })", "Array(200000).fill(0)", "Array.from({ length: 1000 }, () => Array(200).fill(0))",
                 "display.html('x'.repeat(17 << 20)); 1", "display('x'.repeat(3 << 20)); 1",
                 "({ [Symbol.for('berth.display')]: () => ({ text: 't', json: 'x'.repeat(3 << 20) }) })"]:
        result = kernel.ok(code).results[0]
        check(result["truncated"] is True and "json" not in result, code, result["text"][:100])
    for code in ["'x'.repeat(1000000)", "Array(50000).fill(0)", "() => 1", "[NaN]", "const o = {}; o.o = o; o", "new Map()", "5"]:
        check("truncated" not in kernel.ok(code).result, code)
    result = kernel.ok("display.png(Buffer.alloc(13 << 20)); 1").results[0]
    check("png" not in result and "too large" in result["text"] and result["truncated"], result["text"])
    check(len(kernel.run("throw new Error('x'.repeat(3 << 20))").failed("Error")["message"]) < 1 << 17, "a message")
    equal(len(kernel.ok("x = 'ä'.repeat(7 << 20); 'y'".replace("ä", "é" * 1)).text), 3)
    code = "'" + "z" * (LINE_MAX - 1000) + "'.length"
    equal(kernel.ok(code).text, str(LINE_MAX - 1000))
    kernel.load("module.exports = n => 'v'.repeat(n)").ok()
    equal(len(kernel.invoke(input=15 << 20).ok().value), 15 << 20)
    check("bytes" in kernel.invoke(input=17 << 20).failed("RangeError")["message"], "a value")


# --- errors ---

def test_errors(kernel):
    """Name, message, the user's own frames, and where it was in the user's lines."""
    error = kernel.run("let a = 1\nfunction f() {\n    throw new TypeError('no: ä')\n}\nf()",
                       file="my cell.js").failed("TypeError")
    equal((error["message"], place(error)), ("no: ä", ("my cell.js", 3, 11)))
    equal(error["traceback"], ["TypeError: no: ä", "    at f (my cell.js:3:11)", "    at my cell.js:5:1"])
    equal(place(kernel.run("await null;\n  f()").failed("TypeError")), ("my cell.js", 3, 11))
    equal(place(kernel.run("\n\n  nope.x").failed("ReferenceError")), ("cell-3.js", 3, 3))
    equal(place(kernel.run("await 1\nawait new Promise(r => setTimeout(r, 1));\n   null.x").failed("TypeError")),
          ("cell-4.js", 3, 9))
    equal(place(kernel.run("const a1 = 1; import os from 'os'; import(\"fs\");  nope").failed("ReferenceError")),
          ("cell-5.js", 1, 51))
    error = kernel.run("require('fs').readFileSync('/none')").failed("Error")
    equal(place(error), ("cell-6.js", 1, 15))
    check(not [line for line in error["traceback"] if "node:" in line or OWN in line], error["traceback"])
    error = kernel.run("class MyError extends Error { constructor(m) { super(m); this.name = 'MyError' } }\nthrow new "
                       "MyError('m')")
    equal(place(error.failed("MyError")), ("cell-7.js", 2, 7))
    kernel.run("Promise.reject(new RangeError('r'))").failed("RangeError")
    printed = kernel.ok("try { null.x } catch (e) { console.log(e.stack) }").stdout.decode()
    check("cell-9.js:1:12" in printed and OWN not in printed and "berth:" not in printed, printed)
    error = kernel.run("\n display(1, 'x/y')").failed("TypeError")
    equal((error["traceback"][1:], place(error)[1:]), (["    at cell-10.js:2:2"], (2, 2)))
    error = kernel.run("function deep() { deep() }; deep()").failed("RangeError")
    check(len(error["traceback"]) < 110, "a deep stack")


def test_errors_of_other_kinds(kernel):
    """Anything can be thrown."""
    for code, message in [("5", "5"), ("'text'", "'text'"), ("null", "null"), ("undefined", "undefined"),
                          ("({ a: 1 })", "{ a: 1 }"),
                          ("Symbol('s')", "Symbol(s)"), ("new Proxy({}, {})", "{}"),
                          ("Object.create(null)", "[Object: null prototype] {}")]:
        error = kernel.run(f"throw {code}").failed("Error")
        check(message in error["message"], code, error)
    equal(kernel.run("throw { get name() { throw 1 }, get message() { throw 2 } }").done, "error")
    error = kernel.run("const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw 1 } }); throw e")
    equal(error.failed("Error")["message"], "x")
    error = kernel.run("const e2 = new Error('y'); Object.defineProperty(e2, 'message', { get() { throw 1 } }); throw e2")
    equal(error.done, "error")
    equal(kernel.ok("1").text, "1")


def test_causes(kernel):
    """What an error is of is told behind it, and lends it a place if it has none."""
    error = kernel.run("\nthrow new Error('a', { cause: new TypeError('b', { cause: 'c' }) })").failed("Error")
    equal((error["traceback"], place(error)), (["Error: a", "    at cell-1.js:2:7", "  [cause]: TypeError: b", "      at cell-1.js:2:31",
                                                "    [cause]: 'c'"], ("cell-1.js", 2, 7)))
    error = kernel.run("await null;\nawait Promise.any([Promise.reject(new RangeError('d')), 1, 2].slice(0, 1))").failed("AggregateError")
    equal((error["traceback"][1:], place(error)), (["  [errors[0]]: RangeError: d", "      at cell-2.js:2:35"], ("cell-2.js", 2, 35)))
    error = kernel.run("const all = []; for (let i = 0; i < 30; i++) all.push(new Error(i)); throw new AggregateError(all, 'z')").error
    check(len(error["traceback"]) < 30 and error["traceback"][-1] == "  [errors]: 30 in all", error["traceback"])
    kernel.load("module.exports = (n) => { throw new Error('e', { cause: n }) }").ok()
    equal(kernel.invoke(input={"f": 1}).failed("Error")["traceback"][-1], "  [cause]: { f: 1 }")


def test_causes_of_node(kernel):
    """Those of node itself, and where the code waited for it, also if that came before anything else did."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    for asked, cause in ((url, "ECONNREFUSED"), ("http://127.0.0.1:9/", "")):
        error = kernel.run(f"async function f() {{\n  await fetch('{asked}') }}\n await f()", file="f.js").failed("TypeError")
        equal((place(error), error["traceback"][1:3]), (("f.js", 2, 3), ["    at async f (f.js:2:3)", "    at f.js:3:2"]), error)
        check(error["traceback"][3].startswith("  [cause]: Error: ") and cause in error["traceback"][3], error["traceback"])
        kernel.load(f"export default async () => {{\n  await fetch('{asked}') }}").ok()
        equal(place(kernel.invoke().failed("TypeError")), ("main.js", 2, 3), asked)


def test_causes_without_end(kernel):
    """However they are made."""
    for code in ["e.cause = e", "e.cause = new Error('f', { cause: e })", "Object.defineProperty(e, 'cause', { get() { throw 1 } })",
                 "Error.prototype.__defineGetter__('cause', () => new Error('g'))", "e.cause = new Proxy(e, {})",
                 "e.cause = new Proxy(new Error('p'), new Proxy({}, { get() { throw 1 } }))", "e.errors = new Proxy([], { get() { throw 1 } })",
                 "e.errors = new Array(1e9)", "e.errors = [new Error('f')]; e.errors[0].errors = [e]",
                 "Error.prototype.__defineGetter__('errors', () => [new Error('h')])", "e.errors = [e, e, { get message() { throw 1 } }]", "e.cause = { get a() { throw 1 } }",
                 "e.cause = { [Symbol.for('nodejs.util.inspect.custom')]() { throw 1 } }", "e.cause = Symbol('s')",
                 "e.cause = Object.create(null)", "e.cause = new Error('m'.repeat(1e6)); e.cause.name = 'n'.repeat(1e6)"]:
        error = kernel.run("{ const e = new Error('e');\n" + code + "; throw e }").failed("Error")
        equal((error["message"], place(error)[1]), ("e", 1), code)
        check(sum(map(len, error["traceback"])) < 10000 and len(error["traceback"]) < 60, code, error["traceback"][:30])
    equal(kernel.ok("delete Error.prototype.cause; delete Error.prototype.errors; 1").text, "1")


def test_syntax(kernel):
    """What is no code is told with its place, and nothing of it runs."""
    for code, where in [("let a = \n  1 +* 2", (2, 6)), ("1 +", (1, 4)), ("}", (1, 1)), ("import x frm 'y'", None),
                        ("`abc", None),
                        ("/* abc", None), ("return 1", (1, 1)), ("let let = 1", None),
                        ("globalThis.ran = 1;\n\n'abc", (3, 1))]:
        error = kernel.run(code).failed("SyntaxError")
        equal((error["is_syntax"], error["file"]), (True, f"cell-{kernel.count}.js"), code)
        check(where is None or place(error)[1:] == where, code, error)
        check(error["line"] <= code.count("\n") + 1, code, error)
    check("is_syntax" not in kernel.run("JSON.parse('{')").failed("SyntaxError"), "an error of a function")
    check("is_syntax" not in kernel.run("new Function('+*')").failed("SyntaxError"), "an error of Function()")
    mistakes = [("import fs from 'fs'\nlet a = 1 +* 2", (2, 12)), ("let a = 1\nexport const b = ;", (2, 18))]
    if parses_attributes(kernel):
        mistakes.append(("import x from './f.json' assert { type: 'json' }; 1 +* 2", (1, 54)))
    for code, where in mistakes:
        error = kernel.run(code).failed("SyntaxError")
        equal((place(error)[1:], error["message"]), (where, "Unexpected token"), code)
    equal(kernel.ok("typeof ran").text, "'undefined'")


def test_uncaught(kernel):
    """What nobody catches ends the call that runs, or is printed; the kernel lives on."""
    equal(place(kernel.run(f"setTimeout(() => {{\n null.x }}, 1); {FOREVER}").failed("TypeError")), ("cell-1.js", 2, 7))
    equal(kernel.run(f"Promise.reject(new RangeError('r')); {FOREVER}").failed("RangeError")["message"], "r")
    kernel.run(f"process.nextTick(() => {{ throw new Error('t') }}); {FOREVER}").failed("Error")
    kernel.run(f"new (require('events'))().emit('error', new Error('e')); {FOREVER}").failed("Error")
    kernel.ok("setTimeout(() => { throw new Error('later') }, 1); 1")
    kernel.until(lambda: b"later" in kernel.stderr, "an error between calls")
    kernel.ok("setTimeout(() => Promise.reject(new Error('as well')), 1); 1")
    kernel.until(lambda: b"as well" in kernel.stderr, "a rejection between calls")
    check(OWN.encode() not in kernel.stderr, kernel.stderr)
    equal(kernel.ok("2").text, "2")


def test_exit(kernel):
    """process.exit() ends the call, wherever it is, and what was declared stays."""
    kernel.ok("let a = 1")
    for code in ["process.exit(3); a = 2", "await null; process.exit(3); a = 2",
                 f"setTimeout(() => process.exit(3), 1); {FOREVER}",
                 f"(async () => {{ await 1; process.exit(3) }})(); {FOREVER}", "process.reallyExit(3)",
                 f"Promise.resolve().then(() => process.exit(3)).catch(() => {{}}); {FOREVER}",
                 "try { process.exit(3) } catch {}; 5"]:
        call = kernel.run(code)
        error = call.failed("ProcessExit")
        equal((error["message"], error["exit_code"]), ("process.exit(3) was called: exit status 3", 3), code)
        equal(call.results, [], code)
    equal(kernel.ok("process.exit(); 5").results, [])
    equal(kernel.ok("a").text, "1")
    kernel.ok("setTimeout(() => process.exit(4), 1); 1")
    kernel.until(lambda: b"process.exit(4)" in kernel.stderr, "an exit between calls")
    equal(kernel.ok("a").text, "1")


def test_killed(kernel):
    """Who means it can end the kernel."""
    kernel.begin(code="process.kill(process.pid, 'SIGKILL'); for (;;);")
    equal(kernel.wait_end(), -signal.SIGKILL)


def test_end_of_orders(kernel):
    """It ends at once, whatever is still to come."""
    kernel.ok("setInterval(() => {}, 1e6); require('net').createServer().listen(0, '127.0.0.1'); setTimeout(() => {}, "
              "1e6); 1")
    kernel.close_orders()
    equal(kernel.wait_end(), 0)


def test_network(kernel):
    """An error says that there is no network."""
    for code in ["ENETUNREACH", "EHOSTUNREACH", "EAI_AGAIN", "ENOTFOUND"]:
        error = kernel.run(f"throw new TypeError('fetch failed', "
                           f"{{ cause: Object.assign(new Error('x'), {{ code: '{code}' }}) }})")
        equal(error.failed("TypeError").get("blocked"), "network", code)
        equal(kernel.run(f"throw Object.assign(new Error('x'), {{ code: '{code}' }})").failed("Error").get("blocked"),
              "network")
    check("blocked" not in kernel.run("await fetch('http://127.0.0.1:1')").failed("TypeError"), "refused is not blocked")
    check("blocked" not in kernel.run("const e = new Error(); e.cause = e; throw e").failed("Error"), "a cycle of causes")


# --- TypeScript ---

def test_typescript(kernel):
    """Types are taken away by esbuild; what is declared lasts."""
    def ok(code):
        return kernel.ok(code, language="typescript")
    equal(ok("interface A { a: number }\nconst a: A = { a: 1 }; a.a as number").text, "1")
    equal(ok("enum E { X = 5 }\nclass C<T> { constructor(public t: T) {} }\nnew C<number>(E.X).t! + a.a").text, "6")
    for code in ["interface B {}", "type C2 = string", "declare const x: number", "import type { Stats } from 'fs'"]:
        equal(ok(code).results, [], code)
    ok("import { readFileSync } from 'fs'; import os from 'os'")
    equal(ok("typeof readFileSync + typeof os.EOL").text, "'functionstring'")
    equal(ok("const w: number = await Promise.resolve(9); w").text, "9")
    equal(kernel.ok("w + a.a").text, "10")
    equal(ok("const u = 'ä€😀'; u").result["json"], "ä€😀")


KEPT_CONSTANTS = [
    ("'a' + 'b'", "'ab'"), ("1 + 2;", "3"), ("-1", "-1"), ("let x: number = 1;\n'a' + 'b';  // it's (the value\n", "'ab'"),
    ("true && false", "false"), ("!0", "true"), ("typeof 1", "'number'"), ("1 === 1", "true"), ("NaN", "NaN"),
    ("null ?? -5", "-5"), ("-Infinity", "-Infinity"), ("+1e400", "Infinity"), ("'\"' + `\"'`", "`\"\"'`"),
    ("enum E { A = 1, B = 'b' }\nE.A === 1", "true"), ("typeof E.B", "'string'"), ("enum E2 { A = 1 } -E2.A", "-1"),
    ("-1 as number", "-1"), ("<string>('a' + 'b')", "'ab'"), ("('a' as string) + 'b'", "'ab'"), ("-1!", "-1"),
    ("'a;}(' + '{b'", "'a;}({b'"), ("/* ( */ 'a' + // }\n 'b'", "'ab'"), ("'a'\n+ 'b'", "'ab'"),
    ("-1\n'a' + 'b'", "'ab'"), ("-1; -2; 'x' + 'y'\n+ 'z'", "'xyz'"), ("(\n  'a' +\n  'b'\n)\n", "'ab'"),
    ("type A = 'x'\n-1", "-1"), ("interface A {\n  a: 1;\n  b: -1\n}\n\n'a' + 'b'\n", "'ab'"),
    ("if (x) { x } -1", "-1"), ("function f() { 'a' + 'b' }\n'c' + 'd'", "'cd'"), ("'use strict'\n'a' + 'b'", "'ab'"),
    ("import os from 'os'; 'a' + 'b'", "'ab'"), ("export const z: number = 1\n'a' + 'b'", "'ab'"),
    ("NaN && 'a'\n+ true", "NaN"), ("'a' || 'b'\n-1", "'a'"), ("let f0 = () => {}\n-1", "-1"), ("x++\n'a' + 'b'", "'ab'"),
    ("'ä😀' + '€'", "'ä😀€'"), ("await null; -1", "-1"), ("'a' + 'b'\ninterface A {}", "'ab'"),
]

# What looks like one that was dropped, and is a part of something else.
NO_CONSTANTS = [
    "interface A {\n  a: number\n  'b': -1\n}", "type A =\n  'x'", "type A = 'x' |\n  'y'", "declare const q:\n  'a'",
    "let y1 = x\n+ 'b'", "let y2 =\n 'a' + 'b'", "function f2() {\n  'a' + 'b'\n}", "/*\n-1\n/**/", "// -1", "undefined",
    "declare function f3(): A |\n  'b'", "let y3 = NaN && 'a'\n+ true", "if (!x)\n  'a' + 'b'", "for (const i of [])\n  -1",
    "a:\n  undefined", "type K = keyof\n  typeof x", "const g = () => {\n  return 1\n}\n;;\n",
]


def test_typescript_constants(kernel):
    """A last expression that esbuild folds to a constant is the value, too, and nothing else is."""
    for code, text in KEPT_CONSTANTS:
        equal(kernel.ok(code, language="typescript").text, text, code)
    for code in NO_CONSTANTS:
        equal(kernel.ok(code, language="typescript").results, [], code)
    equal(kernel.ok("[y1, y2, y3 !== y3, g()]").result["json"], ["2b", "ab", True, 1])
    kernel.order(load="let a: string = 'x'\n'a' + 'b'", language="typescript").ok()
    equal(kernel.invoke().ok().value, "ab")
    error = kernel.run("type A = 1;   -1;\n  nope(1 as number); 'a' + 'b'", language="typescript", file="a.ts")
    equal(place(error.failed("ReferenceError")), ("a.ts", 2, 3))
    equal(place(kernel.run("'a' + 'b'; 'c'\n+ 1 +* 2", language="typescript").failed("SyntaxError"))[1:], (2, 6))


def test_typescript_runs_esbuild_once(_):
    """Unless something is missing, and there would be a reason to look for it."""
    with tempfile.TemporaryDirectory() as folder:
        real = next(f"{d}/esbuild" for d in os.environ["PATH"].split(":") if os.access(f"{d}/esbuild", os.X_OK))
        with open(f"{folder}/esbuild", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho >>{folder}/runs\nexec {real} \"$@\"\n")
        os.chmod(f"{folder}/esbuild", 0o755)
        kernel = start({**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        try:
            for code in ["1", "let a: number = 1\na", "console.log('a;b');\n", "interface A {\n  a: number\n  b: () => void\n}\n",
                         "function f(): void {\n  return\n}\n// and\n", "type B = {\n  a: 1\n} | 'b'\n", "f({\n  a: 1\n});\n",
                         "const c = [1, 2].map((n: number) => {\n  return n\n})\nc", "1 + 2"]:
                kernel.run(code, language="typescript")
                with open(f"{folder}/runs", encoding="utf-8") as file:
                    equal(file.read(), "\n", code)
                os.unlink(f"{folder}/runs")
        finally:
            check(kernel.close(), "its end")


def test_typescript_errors(kernel):
    """Places are those of the TypeScript."""
    def run(code):
        return kernel.run(code, language="typescript")
    error = run("interface A {\n  a: number\n}\n\nfunction f(a: A): never {\n  const b: number = 1;   throw new "
                "RangeError('x' as string)\n}\n"
                "   f({ a: 1 })").failed("RangeError")
    equal(place(error), ("cell-1.ts", 6, 32))
    equal(error["traceback"][1:], ["    at f (cell-1.ts:6:32)", "    at cell-1.ts:8:4"])
    error = run("let a: number = 1\nlet  b: = 2").failed("SyntaxError")
    equal((error["is_syntax"], place(error)), (True, ("cell-2.ts", 2, 9)))
    equal(place(run("let ä: = 1").failed("SyntaxError")), ("cell-3.ts", 1, 8))
    equal(place(run("'ä'\n'€😀'; let x: = 1").failed("SyntaxError")), ("cell-4.ts", 2, 15))
    equal(place(run("type A = {\n x: 1 }\nimport os from 'os'\n  nope").failed("ReferenceError")), ("cell-5.ts", 4, 3))


def test_typescript_without_esbuild(_):
    """It is said what is missing."""
    with tempfile.TemporaryDirectory() as folder:
        node = next(f"{d}/{NODE}" for d in os.environ["PATH"].split(":") if os.access(f"{d}/{NODE}",
                                                                                      os.X_OK)) if "/" not in NODE else NODE
        kernel = Kernel(node, *FLAGS, kernel_file("javascript.cjs"), env={"PATH": folder})
        try:
            check("no esbuild" in kernel.run("1", language="typescript").failed("Error")["message"], "what is missing")
            equal(kernel.ok("1").text, "1")
        finally:
            check(kernel.close(), "its end")


if __name__ == "__main__":
    run_all(globals(), start)
