"""Runs of the kernel of JavaScript and TypeScript: code that is loaded, and invoked."""

import base64
import time

from kernel import check, equal, run_all
from test_javascript import place, start


def value_of(kernel, code, **what):
    kernel.load(code).ok()
    return kernel.invoke(**what).ok().value


def test_run_of_a_function(kernel):
    """What is exported is called with input and env, which is a global as well."""
    call = kernel.load("module.exports = async (a, b, env) => [a, b, env.X, globalThis.env.X, process.env.X]",
                       env={"X": "y"}).ok()
    check(call.is_checked, call.reports)
    equal(kernel.invoke(input=[1, {"c": 2}]).ok().value, [1, {"c": 2}, "y", "y", "y"])
    for code in ["module.exports = f", "exports.default = f", "exports.main = f", "export default f",
                 "export { f as default }"]:
        equal(value_of(kernel, f"function f(...a) {{ return a.length }}\n{code}", input=[1, 2, 3]), 3, code)
    for code in ["export default (a) => a * 2", "export default async function (a) { return a * 2 }",
                 "export function main(a) { return a * 2 }",
                 "import os from 'os'; import { sep } from 'path'; export default async a => (await import('fs')) && a * 2 "
                 "+ sep.length - 1",
                 "const x = await Promise.resolve(2); export default a => a * x"]:
        equal(value_of(kernel, code, input=21), 42, code)
    equal(value_of(kernel, "module.exports = (...a) => a.length"), 0)
    equal(value_of(kernel, "module.exports = (...a) => a.length", input=None), 1)
    equal(value_of(kernel, "module.exports = (a, env) => [a, typeof env]", input=None), [None, "object"])
    equal(kernel.order(load="export default (a: number): number => a + 1", language="typescript").ok().is_checked, True)
    equal(kernel.invoke(input=1).ok().value, 2)


def test_run_of_an_expression(kernel):
    """Without a function the last value is the value, however often it is asked for."""
    kernel.load("globalThis.n = (globalThis.n ?? 0) + 1; const x = await Promise.resolve(20); ({ x, n })").ok()
    for _ in range(3):
        equal(kernel.invoke().ok().value, {"x": 20, "n": 1})
    equal(value_of(kernel, "async function main() { return 5 }\nmain()"), 5)
    call = kernel.load("let y = 1").ok()
    call = kernel.invoke().ok()
    equal((call.value, call.all("nothing")), (None, [True]))


def test_run_values(kernel):
    """A value is JSON, or it is an error that says why not."""
    for code, value in [("null", None), ("'ä'", "ä"), ("new Date(0)", "1970-01-01T00:00:00.000Z"),
                        ("[undefined]", [None]), ("Buffer.from('a')", {"type": "Buffer", "data": [97]}),
                        ("[new Number(5), new String('a'), Object(true)]", [5, "a", True]), ("new URL('http://a/b')", "http://a/b"),
                        ("new (class extends Array {})(2).fill(1)", [1, 1]), ("new Proxy({ a: [1] }, {})", {"a": [1]}),
                        ("new Proxy([1, 2], {})", [1, 2]), ("new (class { a = 1; get [Symbol.toStringTag]() { return 'A' } })", {"a": 1}),
                        ("new (class {})", {}), ("({ a: 1, [Symbol.iterator]: undefined })", {"a": 1}), ("Object.create(null)", {}),
                        ("(() => { const o = { toJSON: null }; return Object.setPrototypeOf(o, new Proxy(o, {})) })()", {"toJSON": None})]:
        equal(value_of(kernel, f"module.exports = () => ({code})"), value, code)
    for code, word in [("[1, NaN]", "NaN"), ("new Map()", "Map"), ("1n", "BigInt"), ("({ a: [1n] })", "BigInt"), ("() => 1", "function"), ("({ f() {} })", "function"),
                       ("Symbol()", "symbol"), ("Uint8Array.of(1)", "TypedArray"), ("[new Float64Array(2)]", "[0], a value of type TypedArray"),
                       ("(() => { const o = {}; o.o = o; return o })()", "The value contains itself, at .o, which JSON cannot hold."),
                       ("(() => { const l = [1, { a: [] }]; l[1].a[0] = l[1]; return { l } })()", "contains itself, at .l[1].a[0], which"),
                       ("setTimeout(() => {}, 60000)", "contains itself, at ._idle"), ("new Number(NaN)", "NaN"), ("[new Number(-1 / 0)]", "[0], -Infinity"),
                       ("Object(1n)", "BigInt"), ("[1, 2].values()", "Array Iterator"), ("new Headers({ a: '1' })", "Headers"),
                       ("new URLSearchParams('a=1')", "URLSearchParams"), ("[new Blob([])]", "[0], a value of type Blob"), ("new WeakRef({})", "WeakRef"),
                       ("new Response('x')", "Response"), ("({ a: 1, *[Symbol.iterator]() {} })", "iterate"),
                       ("new (class { a = 1; *[Symbol.iterator]() {} })", "iterate"), ("new Proxy(new Map([[1, 2]]), {})", "Map"),
                       ("new Proxy(new Proxy(new WeakRef({}), {}), { getPrototypeOf: () => Object.prototype })", "WeakRef"),
                       ("Object.create(new Proxy([].values(), {}))", "Array Iterator")]:
        kernel.load(f"module.exports = () => ({code})").ok()
        call = kernel.invoke()
        check(word in call.failed("TypeError")["message"] and call.value is None, code, call.reports)


def test_run_of_a_module(kernel):
    """Without a function the value of a module is what it exports as default, or else its last statement if that is an expression."""
    for code, value in [("export default 42", 42), ("export default { a: 1 }\n5", {"a": 1}), ("const x = 41; export { x as default }", 41),
                        ("export const a = 1;\na + 41", 42), ("const x = 41;\nexport { x };\nx + 1", 42),
                        ("export const a = 1;\n[1, 2].length, 5 // five\nfunction f() {}", 5), ("5; export const a = 1, b = 2;", 5),
                        ("export default Promise.resolve(6)", 6), ("export const a = 1\nPromise.resolve(a)", 1),
                        ("export const a = 1; 7\nif (a) 8", None), ("export const a = 1", None), ("export default undefined; 5", None),
                        ("export default setTimeout(() => {}, 1)", None)]:
        kernel.load(code).ok()
        for _ in range(2):
            call = kernel.invoke().ok()
            equal((call.value, call.all("nothing")), (value, [] if value else [True]), code)
    kernel.load("export const f = () => 1\nf").ok()
    check("a function" in kernel.invoke().failed("TypeError")["message"], "a function is no value, and not asked for")
    kernel.order(load="export const a: number = 1;\na + 41", language="typescript").ok()
    equal(kernel.invoke().ok().value, 42)
    equal(place(kernel.load("export const a = 1\n  a + nope", file="run.js").failed("ReferenceError")), ("run.js", 2, 7))
    kernel.load("export const a = 1\nPromise.reject(new RangeError('r'))").failed("RangeError")


def test_run_goes_on(kernel):
    """A timer or a server that is only the last expression is no value; what holds one thing twice is one."""
    for code in ["setTimeout(() => console.log('done'), 100)", "setInterval(() => {}, 100)", "setImmediate(() => {})",
                 "const t = setTimeout(() => {}, 1).unref(); t.refresh()", "require('http').createServer(() => {}).listen(0)",
                 "require('net').createServer().listen(0)", "new (class extends require('http').Server {})()"]:
        kernel.load(code).ok()
        for _ in range(2):
            call = kernel.invoke().ok()
            equal((call.value, call.all("nothing")), (None, [True]), code)
    equal(value_of(kernel, "const o = { a: 1 }; ({ x: o, y: [o, o], z: { o } })"),
          {"x": {"a": 1}, "y": [{"a": 1}, {"a": 1}], "z": {"o": {"a": 1}}})
    kernel.load("({ t: setTimeout(() => {}, 60000) })").ok()
    check("at .t._idle" in kernel.invoke().failed("TypeError")["message"], "one that is within a value")
    equal(value_of(kernel, "await new Promise(r => setTimeout(r, 10)); 5"), 5)


def test_run_errors(kernel):
    """Of its syntax before it is checked, of its own afterwards; with their places."""
    for code, where in [("let a =\n 1 +* 2", (2, 5)), ("export default 1\nlet b = 1 +* 2", (2, 12)),
                        ("export default { a() { }", None)]:
        call = kernel.load(code, file="run.js")
        check(not call.is_checked and call.failed("SyntaxError")["is_syntax"], code, call.reports)
        check(where is None or place(call.error) == ("run.js", *where), code, call.error)
    for code in ["\n  nope()", "export default 1;\n  nope()"]:
        call = kernel.load(code, file="run.js")
        check(call.is_checked, code)
        equal(place(call.failed("ReferenceError")), ("run.js", 2, 3), code)
    call = kernel.load("import { nope } from 'fs'; export default nope")
    equal(call.done, "error")
    kernel.load("export default () => {\n  throw new RangeError('r')\n}", file="run.mjs").ok()
    equal(place(kernel.invoke().failed("RangeError")), ("run.mjs", 2, 9))
    kernel.load("exports.main = async () => {\n  await 1; null.x\n}").ok()
    equal(place(kernel.invoke().failed("TypeError"))[1:], (2, 17))


def test_run_of_a_program(kernel):
    """One that names its interpreter first is checked before it runs, like any other."""
    for language, code in [("javascript", "module.exports = () => 5"), ("javascript", "import os from 'os'; exports.main = () => 5"),
                           ("javascript", "export default () => 5"), ("typescript", "exports.main = (): number => 5")]:
        call = kernel.load("#!/usr/bin/env node\n" + code, language=language).ok()
        check(call.is_checked, code, call.reports)
        equal(kernel.invoke().ok().value, 5, code)
    call = kernel.load("#!/usr/bin/env node\n  nope()", file="run.js")
    equal((call.is_checked, place(call.failed("ReferenceError"))), (True, ("run.js", 2, 3)))
    check(not kernel.load("#!/usr/bin/env node\nlet a = 1 +* 2").is_checked, "no code")
    for code in ["--> x\nmodule.exports = () => 5", "--> x\nawait 1; module.exports = () => 5", "#!node\n--> x\nexports.main = () => 5"]:
        check(kernel.load(code).ok().is_checked, "a comment in front of it", code)
        equal(kernel.invoke().ok().value, 5, code)


def test_run_logs(kernel):
    """console.* are reports with their level, and are not printed; in a cell they are."""
    begin = time.time()
    call = kernel.load("console.log('a %d', 1, { b: 2 }); console.info('c'); console.warn('d'); console.error('e'); "
                       "console.debug('f');"
                       "console.group('g'); console.log('h\\ni'); console.groupEnd(); console.table([[1]]); console.dir({ "
                       "j: 1 })").ok()
    equal((call.stdout, call.stderr), (b"", b""))
    levels = [(log["level"], log["message"]) for log in call.logs]
    equal(levels[:7], [("info", "a 1 { b: 2 }"), ("info", "c"), ("warn", "d"), ("error", "e"), ("debug", "f"), ("info", "g"),
                       ("info", "  h\n  i")])
    check("┌" in levels[7][1] and levels[8] == ("info", "{ j: 1 }"), levels)
    check(all(begin - 1 < log["time"] < time.time() + 1 for log in call.logs), call.logs)
    kernel.load("module.exports = async () => { console.log('in'); await 1; console.warn('after'); "
                "process.stdout.write('raw') }").ok()
    call = kernel.invoke().ok()
    equal(([log["message"] for log in call.logs], call.stdout), (["in", "after", "raw"], b""))
    call = kernel.ok("console.log('printed')")
    equal((call.logs, call.stdout), ([], b"printed\n"))


def test_run_of_a_handler(kernel):
    """A real Request, env and ctx go in; status, headers and body come out, and what waits is waited for."""
    kernel.load("export default { async fetch(request, env, ctx) { ctx.passThroughOnException();\n"
                "ctx.waitUntil(new Promise(r => setTimeout(() => { console.log('waited'); r() }, 20)));\n"
                "const url = new URL(request.url); if (url.pathname === '/bytes') return new Response(new Uint8Array([255, "
                "254]));\n"
                "if (url.pathname === '/bad') return 5;\n"
                "return new Response(`${request.method} ${url.pathname} ${await request.text()} "
                "${request.headers.get('x-a')} ${env.K}`,"
                "{ status: 201, headers: { 'X-B': 'c' } }) } }", env={"K": "v"}).ok()
    call = kernel.invoke(request={"url": "https://a.example/b?c", "method": "POST", "headers": {"X-A": "d"},
                                  "body": "ä"}).ok()
    equal((call.value["status"], call.value["headers"]["x-b"], call.value["body"]), (201, "c", "POST /b ä d v"))
    equal([log["message"] for log in call.logs], ["waited"])
    value = kernel.invoke(request={"url": "/x", "method": "PUT",
                                   "body_base64": base64.b64encode(b"raw").decode()}).ok().value
    equal(value["body"], "PUT /x raw null v")
    equal(base64.b64decode(kernel.invoke(request={"url": "/bytes"}).ok().value["body_base64"]), b"\xff\xfe")
    check("Response" in kernel.invoke(request={"url": "/bad"}).failed("TypeError")["message"], "no Response")
    check("request" in kernel.invoke(input=1).failed("TypeError")["message"], "no request")
    kernel.invoke(request={"url": "http://a b/"}).failed("TypeError")


def test_late_wait(kernel):
    """Nothing is told of a call that is done: what was to be waited for behind its response fails later, and adds more."""
    kernel.load("export default { fetch(request, env, ctx) { setTimeout(() => { throw new Error('x') }, 10);\n"
                "ctx.waitUntil(new Promise((_, j) => setTimeout(() => j(new Error('late')), 100)));\n"
                "ctx.waitUntil(new Promise((_, j) => setTimeout(() => j(new Error('later')), 110))); return new Response('a') } }").ok()
    call = kernel.invoke(request={"url": "/"})
    equal((call.failed("Error")["message"], call.logs), ("x", []))
    kernel.ok("await new Promise(r => setTimeout(r, 300))")


def test_half_a_character(kernel):
    """What is left of a character at the end of a call is told in that call, and before what is written behind it."""
    kernel.load("console.log('a'); process.stdout.write(Buffer.from([0xe2, 0x82]))\n"
                "module.exports = () => { process.stdout.write(Buffer.from([0xe2])); process.stdout.write('b'); "
                "process.stderr.write(Buffer.from([0xe2])); process.stderr.write(Buffer.from([0x82, 0xac, 0xe2])) }")
    equal([log["message"] for log in kernel.calls[kernel.count].logs], ["a", "\ufffd"])
    for _ in range(2):
        equal([(log["level"], log["message"]) for log in kernel.invoke().ok().logs],
              [("stdout", "\ufffdb"), ("stderr", "€"), ("stderr", "\ufffd")])


def test_given_to_nothing(kernel):
    """An input or a request that nobody takes is an error that says what to export."""
    for code in ["5", "let main = (n) => n", "exports.add = (a, b) => a + b", "module.exports = { add: (a) => a }", "module.exports = 5",
                 "export const f = (n) => n", "export default 5"]:
        kernel.load(code).ok()
        for given in [{"input": 1}, {"input": None}, {"input": []}]:
            equal(kernel.invoke(**given).failed("Error")["message"],
                  "The input was given to nothing: export a function, as by `module.exports = f` or `export default f`.", code)
    for code in ["5", "module.exports = (n) => n", "exports.fetch = 5"]:
        kernel.load(code).ok()
        check("The request was given to nothing: export a handler" in kernel.invoke(request={"url": "/"}).failed("Error")["message"], code)
    kernel.load("exports.f = 1; 5").ok()
    equal(kernel.invoke().ok().value, 5)
    kernel.load("process.exit(0)").ok()
    equal(kernel.invoke(input=1).ok().value, None, "it has ended by itself")


def test_invoke_nothing(kernel):
    """Without a load there is nothing to call, nor behind one that failed."""
    check("loaded" in kernel.invoke().failed("Error")["message"], "nothing")
    for code, language in [("module.exports = () => 1; nope", "javascript"), ("let a = 1 +* 2", "javascript"), ("let a: = 1", "typescript"),
                           ("export default 1 +* 2", "javascript"), ("export default () => 1; process.exit(3)", "javascript")]:
        kernel.load("module.exports = () => 5").ok()
        equal(kernel.invoke().ok().value, 5)
        equal(kernel.load(code, language=language).done, "error", code)
        for what in [{}, {"input": 1}]:
            check("loaded" in kernel.invoke(**what).failed("Error")["message"], code)
    kernel.load("module.exports = () => 5").ok()
    kernel.order(load="1", cwd="/none").failed("Error")
    check("loaded" in kernel.invoke().failed("Error")["message"], "a directory that is not there")
    kernel.load("export default () => 5; process.exit(0)").ok()
    equal(kernel.invoke().ok().all("nothing"), [True], "it has ended by itself")


def test_interrupts_itself(_kernel):
    """A signal that the code of a run sends to itself interrupts it, wherever that meets it: no other error is told."""
    for _ in range(12):
        kernel = start()
        call = kernel.load("process.kill(process.pid, 'SIGINT'); await new Promise(r => setTimeout(r, 60000))")
        call.failed("Interrupted", "interrupted")
        kernel.close()


if __name__ == "__main__":
    run_all(globals(), start)
