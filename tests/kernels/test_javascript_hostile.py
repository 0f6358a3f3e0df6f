"""The kernel of JavaScript when it is interrupted, and when code breaks what it stands on. With the real node."""

import contextlib
import json
import os
import tempfile
import time

from kernel import FOLDER, GUARD, Failed, check, equal, run_all
from test_javascript import FOREVER, start


# --- signals ---

# AT tells that it is where it is to be ended.
BUSY = ["AT for (;;);", "await null; AT for (;;);", "await new Promise(r => setTimeout(r, 5)); AT for (;;);",
        f"setTimeout(() => {{ AT for (;;); }}, 1); {FOREVER}", f"process.nextTick(() => {{ AT for (;;); }}); {FOREVER}",
        f"setTimeout(() => process.nextTick(() => {{ AT for (;;); }}), 1); {FOREVER}",
        f"require('fs').stat('/', () => {{ AT for (;;); }}); {FOREVER}", "AT await null; for (;;);",
        "try { AT for (;;); } catch {} finally { for (;;); }", "AT for (;;) console.log('abc')", "AT for (;;) display(1)",
        f"AT {FOREVER}", "AT await new Promise(r => setTimeout(r, 1e6))",
        "AT Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
        "AT require('child_process').execSync('sleep 1000')",
        "const go = require('util').promisify(require('child_process').exec)('sleep 1000'); AT await go",
        "process.on('SIGINT', () => {}); AT for (;;);",
        "({ [Symbol.for('nodejs.util.inspect.custom')]() { AT for (;;); } })", "AT new Promise(() => {})"]


def interrupted(kernel, code):
    call = kernel.begin(code=code.replace("AT", "process.stdout.write('at it\\n');"))
    kernel.wait_output(call, b"at it\n")
    # Whoever waits for a child is there a moment later; all else is ended wherever it is.
    time.sleep(0.3 if "child_process" in code else 0)
    kernel.interrupt()
    try:
        kernel.until(lambda: call.done, "the first signal", 10)
    except Failed:
        kernel.interrupt()  # as berthd does: one may come while the thread that listens is about to
    error = kernel.finish(call).error
    equal((call.done, error and error["name"]), ("interrupted", "Interrupted"), code)


def test_interrupt(kernel):
    """A signal ends whatever runs, or waits; variables stay, and printing works."""
    kernel.ok("let kept = 7")
    for code in BUSY:
        interrupted(kernel, code)
        call = kernel.ok("console.log('still'); kept")
        equal((call.text, call.stdout), ("7", b"still\n"), f"after {code}")
    kernel.ok("await new Promise(r => setTimeout(r, 5)); await (await import('fs')).promises.readFile('/etc/passwd'); 1")


def test_interrupt_often(kernel):
    """Whoever listened for the last signal is not ended in place of the call that is there by then."""
    for _ in range(40):
        interrupted(kernel, "AT await new Promise(() => {})")  # this is what it listens for
        interrupted(kernel, "AT await null; for (;;);")


def test_interrupt_a_run(kernel):
    """It ends what was invoked."""
    kernel.load("module.exports = async () => { process.stdout.write('at it\\n'); await 1; for (;;); }").ok()
    for _ in range(2):
        call = kernel.begin(invoke={})
        kernel.wait_output(call, b"at it\n")
        kernel.interrupt()
        equal(kernel.finish(call).done, "interrupted")


def test_interrupt_esbuild(_):
    """The program that takes types away can be ended, too."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/esbuild", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n: >{folder}/begun\nexec /bin/sleep 1000\n")
        os.chmod(f"{folder}/esbuild", 0o755)
        kernel = start({**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        try:
            call = kernel.begin(code="1", language="typescript")
            end = time.monotonic() + GUARD
            while not os.path.exists(f"{folder}/begun"):
                check(time.monotonic() < end, "esbuild was not run")
                time.sleep(0.01)
            kernel.interrupt()
            kernel.finish(call).failed("Interrupted", "interrupted")
            equal(kernel.ok("1").text, "1")
        finally:
            check(kernel.close(), "its end")


def test_interrupt_between_calls(kernel):
    """It does nothing then, with and without the thread that watches."""
    for code in ["1", "await new Promise(r => setTimeout(r, 1)); 1"]:
        for _ in range(3):
            kernel.interrupt()
            # The signal has no effect that could be waited for; it must not meet the next call.
            time.sleep(0.2)
            equal(kernel.ok(code).text, "1")


def test_interrupt_at_any_time(kernel):
    """Whenever it comes, it ends one call or none, and all others are well."""
    kernel.ok("let kept = 7")
    sent = ended = 0
    for i in range(60):
        begin = "for (let i = 0; i < 2e5; i++);" if i % 2 else "await new Promise(r => setTimeout(r, 2));"
        call = kernel.begin(code=begin + "display(1); 1")
        time.sleep(i / 10000)
        kernel.interrupt()
        sent += 1
        # One that came too late for this one may meet another.
        for call in [kernel.finish(call), kernel.run("kept"), kernel.run("kept")]:
            check(call.done in ("ok", "interrupted"), call.reports)
            ended += call.done == "interrupted"
    check(0 < ended <= sent, f"{sent} signals ended {ended} calls")
    time.sleep(0.3)
    for _ in range(3):
        equal(kernel.ok("kept").text, "7")


def test_own_interrupt(kernel):
    """Code that interrupts itself is interrupted, wherever it does, and the calls after it are well."""
    kernel.ok("let kept = 7")
    for code in ["process.kill(process.pid, 'SIGINT')", "process.kill(0, 2); 1", "await null; process.kill(-process.pid, 'SIGINT'); 1",
                 "await new Promise(r => setTimeout(r, 2)); try { process.kill(process.pid, 'SIGINT') } catch {} 1",
                 f"setTimeout(() => process.kill(process.pid, 'SIGINT'), 2); {FOREVER}"]:
        for _ in range(5):
            kernel.run(code).failed("Interrupted", "interrupted")
            equal((kernel.ok("kept").text, kernel.ok("await null; kept").text), ("7", "7"), f"after {code}")
    kernel.run("process.kill(process.pid, 'SIGINT'); const n: number = 1; n", language="typescript").failed("Interrupted", "interrupted")
    equal(kernel.ok("const m: number = 8; m", language="typescript").text, "8")
    kernel.load("module.exports = () => process.kill(process.pid, 'SIGINT')").ok()
    for _ in range(3):
        kernel.invoke().failed("Interrupted", "interrupted")


def test_harmless_signals(kernel):
    """A signal that does not end the process changes nothing, be it sent by code of a cell or of a run."""
    kernel.ok("let kept = 7")
    for what in ["process.pid, 'SIGWINCH'", "process.pid, 'SIGCONT'", "process.pid, 'SIGUSR1'", "0, 'SIGWINCH'", "-process.pid, 23",
                 "process.pid, 0", "process.pid, 1000"]:
        kernel.ok(f"try {{ process.kill({what}) }} catch {{}}")
        equal((kernel.ok("kept").text, kernel.ok("await null; kept").text), ("7", "7"), what)
        kernel.load(f"module.exports = () => {{ try {{ process.kill({what}) }} catch {{}} return 8 }}").ok()
        equal((kernel.invoke().ok().value, kernel.invoke().ok().value), (8, 8), what)
    kernel.run("null.x").failed("TypeError")
    # node's debugger does not listen, with and without a listener of code.
    equal(kernel.ok("const had = await new Promise(r => { process.once('SIGUSR1', r); process.kill(process.pid, 'SIGUSR1') }); "
                    "process.kill(process.pid, 'SIGUSR1'); await new Promise(r => setTimeout(r, 50)); "
                    "[had, require('inspector').url()].join()").text, "'SIGUSR1,'")
    equal(kernel.stderr, b"")


# --- code that breaks things ---

def broken(*places):
    """Code that makes each of these throw."""
    return "; ".join(f"{place} = () => {{ throw 1 }}" for place in places)


def all_broken(prototype):
    return (f"for (const n of Object.getOwnPropertyNames({prototype})) if (n !== 'constructor' && n !== 'length') "
            f"{prototype}[n] = () => {{ throw 1 }}")


HOSTILE = [
    "globalThis.console = null",
    broken("console.log"),
    "JSON.stringify = () => 'x'; JSON.parse = () => ({ call: 9 })",
    "globalThis.JSON = undefined",
    broken("process.stdout.write"),
    "Object.defineProperty(process, 'stdout', { value: null, configurable: true })",
    broken("require('fs').writeSync"),
    "for (const n of ['call', 'result', 'toJSON', 'id', 'file', 'language', 'exit', 'exceptionDetails', 'error', 'env', "
    "'cwd', 'get', 'value', 'load']) Object.defineProperty(Object.prototype, n, { __proto__: null, configurable: true, "
    "get() { return () => 'evil' }, set() { throw new Error('set') } })",
    all_broken("Array.prototype"),
    broken("Array.prototype[Symbol.iterator]"),
    "Object.defineProperty(Array.prototype, 0, { set() { throw 1 } })",
    all_broken("String.prototype"),
    all_broken("RegExp.prototype"),
    broken("RegExp.prototype.exec", "RegExp.prototype[Symbol.match]", "RegExp.prototype[Symbol.replace]"),
    broken("Promise.prototype.then"),
    "for (const n of ['Promise', 'Error', 'Object', 'Array', 'String', 'Buffer', 'Uint8Array', 'Map']) globalThis[n] = null",
    broken("Error.prepareStackTrace"),
    "Error.prepareStackTrace = () => 5",
    "Error.stackTraceLimit = 0",
    broken("Function.prototype.call", "Function.prototype.apply", "Function.prototype.bind"),
    broken("Reflect.apply", "Object.defineProperty", "Object.keys", "Reflect.ownKeys"),
    "Uint8Array.prototype.set = Uint8Array.prototype.subarray = null",
    broken("Buffer.from", "Buffer.concat", "Buffer.prototype.toString", "Buffer.prototype.utf8Slice", "Buffer.byteLength"),
    broken("globalThis.setTimeout", "globalThis.setImmediate", "globalThis.queueMicrotask"),
    broken("process.nextTick", "process.emit", "process.on"),
    broken("require('events').prototype.emit"),
    "process.removeAllListeners(); process._tickCallback = null; process.binding = null",
    broken("process.cwd", "process.chdir"),
    broken("require('vm').Script.prototype.runInThisContext"),
    broken("require('util').inspect"),
    broken("Map.prototype.get", "Map.prototype.set", "WeakMap.prototype.get", "WeakMap.prototype.set"),
    "const m = require('module'); " + broken("m.prototype.require", "m._load"),
    broken("Math.min", "Date.now"),
    broken("Atomics.store", "Atomics.load", "Atomics.compareExchange"),
    "Symbol.for = null; globalThis.Symbol = null",
    "process.exit = null; process.reallyExit = null",
    "for (const n of Object.keys(globalThis)) try { delete globalThis[n] } catch {}",
    "for (const n of Object.getOwnPropertyNames(globalThis)) try { globalThis[n] = null } catch {}",
]


def breaking(kernel):
    """What this kernel is to bear: V8 before 11 asks Promise.prototype.then itself for the end of code."""
    is_old = int(kernel.ready["version"].split(".")[0]) < 20
    return [code for code in HOSTILE if not is_old or "Promise.prototype.then" not in code]


def interrupt_unseen(kernel):
    """Of code that cannot tell that it runs: a signal that comes before that does nothing, so there are more."""
    call, end = kernel.begin(code="for (;;);"), time.monotonic() + GUARD
    while not call.done and time.monotonic() < end:
        kernel.interrupt()
        with contextlib.suppress(Failed):
            kernel.until(lambda: call.done, "an end of it", 0.2)
    return call.done


def test_hostile(first):
    """Whatever is replaced, what is told of the next calls is true."""
    for code in breaking(first):
        kernel = start()
        try:
            equal(kernel.run("let kept = 7; {\n" + code + "\n}\nvoid 0").done, "ok", code)
            call = kernel.run("kept + 1")
            equal((call.done, call.text), ("ok", "8"), f"{code}: {call.reports}")
            equal(kernel.run("await null; kept").text, "7", code)
            error = kernel.run("\n null.x").error
            equal((error["name"], error["is_syntax"] if "is_syntax" in error else False), ("TypeError", False), code)
            check("stackTraceLimit" in code or error["line"] == 2, code, error)
            equal(kernel.run("let a = 1 +* 2").error["is_syntax"], True, code)
            equal(interrupt_unseen(kernel), "interrupted", code)
            equal(kernel.run("kept").text, "7", code)
            check(not kernel.strays, code, kernel.strays)
        finally:
            check(kernel.close(), f"its end after {code}: {kernel.status} {kernel.stderr[-300:]}")


def test_hostile_run(first):
    """Of a run, too."""
    for code in breaking(first):
        kernel = start()
        try:
            kernel.load("{\n" + code + "\n}\nmodule.exports = (a) => a + 1").ok()
            equal(kernel.invoke(input=4).ok().value, 5, code)
            equal(kernel.invoke(input=[5, 6]).ok().value, 6, code)
        finally:
            check(kernel.close(), f"its end after {code}: {kernel.status} {kernel.stderr[-300:]}")


def test_broken_promises(kernel):
    """Where not even V8 can wait for the end of code, that is said, and nothing hangs."""
    kernel.run("let n = 1; Object.defineProperty(Promise.prototype, 'constructor', { get() { throw 1 } })")
    check("promises" in kernel.run("n++").failed("Error")["message"], "what is said")
    equal(kernel.run("1 +* 2").error["is_syntax"], True)


def test_lies(kernel):
    """A line that code writes where reports went once is no report."""
    call = kernel.ok("try { require('fs').writeSync(3, JSON.stringify({ call: 1, log: {} }) + '\\n') } catch {}; 1")
    equal((call.logs, call.text), ([], "1"))


# Walks from all that knows of modules, also inside node, and tells which functions of the kernel it meets. What code is
# given on purpose hangs on other things.
REACH = r"""
const fs = require('fs'), path = require('path'), Module = require('module');
const internal = (name) => { try { return require('internal/' + name) } catch {} };
const bindings = internal('test/binding').internalBinding, { previewEntries } = bindings('util');
const folder = path.dirname(process.mainModule.filename);
const files = fs.readdirSync(folder).filter((name) => /^javascript.*\.cjs$/.test(name)).map((name) => folder + '/' + name);
const texts = files.map((file) => fs.readFileSync(file, 'utf8')), textOf = Function.prototype.toString;
const met = [], seen = new Set([globalThis, process, console, process.stdout, process.stderr, $berth, display, require]);
const left = [require.cache, module, process.mainModule, Module, internal('modules/cjs/loader'),
              internal('process/esm_loader'), internal('modules/esm/loader'), internal('modules/esm/utils')];
const add = (item) => {
    if (item === null || typeof item !== 'object' && typeof item !== 'function' || seen.has(item))
        return;
    seen.add(item);
    left.push(item);
};
while (left.length) {
    const item = left.pop(), of = typeof item === 'function' ? textOf.call(item) : '';
    if (of.length > 60 && texts.some((text) => text.includes(of)))
        met.push(item.name);
    for (const name of item ? Reflect.ownKeys(item) : []) {
        const field = Object.getOwnPropertyDescriptor(item, name);
        try { add('value' in field ? field.value : field.get.call(item)) } catch {}
    }
    try { previewEntries(item).forEach(add) } catch {}
    try { add(Object.getPrototypeOf(item)) } catch {}
}
[files.length, seen.size > 100, met.join()].join(' ')
"""

# All ways to read them again, and what they would have if they were those that run.
READ_AGAIN = r"""
const ways = { require, Module: (file) => Module._load(file), main: (file) => process.mainModule.require(file),
               import: async (file) => (await import(file)).default };
const main = folder + '/javascript.cjs', own = [];
for (const [name, way] of Object.entries(ways)) {
    for (const file of files.filter((file) => file !== main))
        await way(file);
    const { state } = await way(folder + '/javascript_state.cjs');
    const { report, send, nextLine } = await way(folder + '/javascript_channel.cjs');
    for (const say of [() => report({ number: CALL }, '"log":{"level":"info","message":"a lie","time":1}'),
                       () => send('{"call":CALL,"done":"ok"}')])
        try { say(); own.push(name + ' speaks') } catch {}
    if (state.current || nextLine() !== null || Object.keys(await way(main)).length)
        own.push(name + ' has it');
}
ways.import = (file) => import(file + '?again');
ways.worker = (file) => new Promise((resolve, reject) => {
    const worker = new (require('worker_threads').Worker)(file, { execArgv: ['--expose-internals'] });
    worker.on('exit', resolve).on('error', reject);
});
for (const [name, way] of Object.entries(ways)) {
    delete require.cache[main];
    try { await way(main); own.push(name + ' ran it') } catch (e) { if (!/runs already|no pipe/.test(e.message)) throw e }
}
own.join()
"""


def test_own_modules(kernel):
    """Code finds no part of the kernel that runs, and a copy that it reads itself has no way to berthd."""
    count = len([name for name in os.listdir(FOLDER) if name.startswith("javascript") and name.endswith(".cjs")])
    equal(kernel.ok(REACH).text, f"'{count} true '")
    call = kernel.ok(READ_AGAIN.replace("CALL", str(kernel.count + 1)))
    equal((call.text, call.logs), ("''", []))
    equal((kernel.ok("await null; files.length").text, kernel.run("null.x").failed("TypeError")["line"]), (str(count), 1))


def test_orders_in_pieces(kernel):
    """A line may come in any pieces, and two at once are done one after the other."""
    line = json.dumps({"call": 1000, "code": "'ä€😀'.length"}, ensure_ascii=False).encode() + b"\n"
    for byte in line:
        kernel.write(bytes([byte]))
    kernel.until(lambda: any(r.get("done") for r in kernel.strays), "a call in pieces")
    equal(kernel.strays[0]["result"]["text"], "4")
    kernel.strays.clear()
    kernel.write(b'{"call": 1001, "code": "await new Promise(r => setTimeout(r, 5)); 1"}\n{"call": 1002, "code": "2"}\n')
    kernel.until(lambda: len([r for r in kernel.strays if "done" in r]) == 2, "two at once")
    equal([(r["call"], "done" in r) for r in kernel.strays], [(1001, False), (1001, True), (1002, False), (1002, True)])
    kernel.strays.clear()


if __name__ == "__main__":
    run_all(globals(), start)
