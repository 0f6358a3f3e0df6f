"""What a call of the kernel of JavaScript leaves behind, which is no business of those after it."""

from kernel import check, equal, run_all
from test_javascript import FOREVER, start

SLEEP = "const sleep = (ms) => new Promise(r => setTimeout(r, ms));"
# Time stands still until somebody waits, however slow the machine is.
STILL = ("let passes = false; const setTimeout = (f, ms, ...given) => { const turn = setInterval(() => { "
         "if (passes) { clearInterval(turn); f(...given) } }, 1) };" + SLEEP)
WAITS = "passes = true; await new Promise(r => globalThis.setTimeout(r, 150)); passes = false; 'fine'"

# What fails 50 ms later, and what is printed then.
LEFT = [
    ("setTimeout(() => { throw new Error('late') }, 50)", b"Error: late"),
    ("setTimeout(() => Promise.reject('late'), 50)", b"Uncaught 'late'"),
    ("setTimeout(() => Promise.reject(new Error('late')), 50)", b"Error: late"),
    ("setTimeout(() => require('fs').promises.readFile('/none'), 50)", b"ENOENT"),
    ("setTimeout(() => (async () => { await 1; throw 'late' })(), 50)", b"'late'"),
    ("new Promise((_, reject) => setTimeout(reject, 50, 'late'))", b"'late'"),
    ("sleep(50).then(() => { throw 'late' })", b"'late'"),
    ("(async () => { await sleep(50); throw new Error('late') })()", b"Error: late"),
    ("(async () => { await sleep(50); (async () => { await sleep(1); throw 'late' })() })()", b"'late'"),
    ("(async () => { for (let i = 0; i < 5; i++) await sleep(10); setTimeout(() => {}, 1); null.x })()", b"TypeError"),
    ("setTimeout(() => process.exit(3), 50)", b"process.exit(3)"),
    ("(async () => { await sleep(50); process.exit(3) })()", b"process.exit(3)"),
    ("sleep(50).then(() => process.nextTick(() => {})).then(() => process.exit(3))", b"process.exit(3)"),
]


def test_cells(kernel):
    """What a cell left behind and fails while the next one waits is printed, and that one goes on."""
    kernel.ok(STILL)
    for code, printed in LEFT:
        kernel.ok(f"{code}; 1")
        call = kernel.ok(WAITS)
        equal((call.text, printed in call.stderr), ("'fine'", True), f"{code}: {call.stderr}")


def test_invocations(kernel):
    """So it is with what an invocation left behind, in those after it."""
    kernel.load(f"{STILL}\nmodule.exports = async (n) => {{ if (n < 0) {{ {WAITS}; return n }} switch (n) {{ "
                + " ".join(f"case {i}: {code}; break;" for i, (code, _) in enumerate(LEFT)) + " } return n }").ok()
    for i, (code, printed) in enumerate(LEFT):
        equal(kernel.invoke(input=i).ok().value, i, code)
        call = kernel.invoke(input=-1).ok()
        equal((call.value, printed in call.stderr), (-1, True), f"{code}: {call.stderr}")


def test_own(kernel):
    """What is of the call itself ends it, and what a run began while it was loaded ends any of its invocations."""
    kernel.ok(SLEEP)
    for code, _ in LEFT:
        check(kernel.run(f"{code}; {FOREVER}").done == "error", code)
        check(kernel.run(f"await sleep(1); {code}; {FOREVER}").done == "error", code)
    for code, _ in LEFT:
        kernel.load(f"{STILL} {code}; module.exports = async (n) => {{ passes = !n; return n || {FOREVER} }}").ok()
        kernel.invoke(input=1).ok()
        check(kernel.invoke(input=0).done == "error", code)


def test_own_within_another(kernel):
    """A call that is waited for by nothing but what an earlier one began is still its own."""
    kernel.ok("let go, gone = new Promise(r => { go = r }); gone.then(() => { throw new Error('of the first') }); 1")
    call = kernel.ok("go(); await gone; await new Promise(r => setTimeout(r, 20)); 2")
    equal((call.text, b"of the first" in call.stderr), ("2", True))
    equal(kernel.run(f"gone.then(() => {{ throw new RangeError('of this one') }}); {FOREVER}").failed("RangeError")["line"], 1)


def test_listeners(kernel):
    """Code that listens for rejections has them, and the kernel has them again when it no longer does."""
    kernel.ok("let had = []; const listener = (error) => had.push(error); process.on('unhandledRejection', listener)")
    equal(kernel.ok("Promise.reject(1); await new Promise(r => setTimeout(r, 20)); had").result["json"], [1])
    kernel.ok("process.off('unhandledRejection', listener)")
    equal(kernel.run(f"Promise.reject(2); {FOREVER}").failed("Error")["message"], "2")
    kernel.ok("process.removeAllListeners('unhandledRejection')")
    kernel.run(f"Promise.reject(new RangeError('r')); {FOREVER}").failed("RangeError")


def test_marks(kernel):
    """Nothing is seen of how the kernel knows, and nothing that code does to promises takes it away."""
    equal(kernel.ok("const p = Promise.resolve(1); [Reflect.ownKeys(p).length, require('util').inspect(p, { showHidden: true })]")
          .result["json"], [0, "Promise { 1 }"])
    kernel.ok("const storage = new (require('async_hooks').AsyncLocalStorage)(); require('async_hooks').createHook({ init() {} "
              "}).enable(); storage.enterWith(1); var { process } = globalThis; globalThis.process = undefined; "
              "WeakMap.prototype.get = Promise.prototype.catch = null")
    kernel.ok("Object.freeze((async () => { await new Promise(r => setTimeout(r, 50)); throw new Error('late') })()); 1")
    call = kernel.ok(WAITS)
    equal((call.text, b"late" in call.stderr), ("'fine'", True))
    kernel.run(f"Promise.reject(new RangeError('r')); {FOREVER}").failed("RangeError")


if __name__ == "__main__":
    run_all(globals(), start)
