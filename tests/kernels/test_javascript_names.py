"""Names in contexts of JavaScript that are declared again as something of another kind."""

import re

from kernel import check, equal, run_all
from test_javascript import place, start

# What was, what comes then, and what that says: as if the new kind had been the first one.
FUNCTIONS = [
    ("const h = () => 'old'", "const out = h();\nfunction h() { return 'new' }\nout", "'new'"),
    ("let h = 1", "h.name + h(); async function* h() {}", "'h[object AsyncGenerator]'"),
    ("class h {}", "function h() { return 1 }\nfunction h() { return 2 }\nh()", "2"),
    ("let h = 1", "'use strict'\nconst s = [h(), t()]\nfunction h() { return this }\nfunction t() { return 5 }\ns", "[ undefined, 5 ]"),
    ("let h = 1", "export function h() { h = () => 2; return 1 }\nh() + h()", "3"),
    ("let h = 1, i = 1", "const a = i()\nfunction h() { return 4 }\n(a + 1)\nfunction i() { return h() }", "5"),
    ("let h = 1", "5; function h() {}", "5"),
    ("let h = 1", "#!/usr/bin/env node\nawait h()\nasync function h() { return (await import('path')).sep }", "'/'"),
]
VARS = [
    ("let j = 7", "const fns = []; for (var j = 0; j < 3; j++) fns.push(() => j); [j, fns.map(f => f())]", "[ 3, [ 3, 3, 3 ] ]"),
    ("let j = 7", "for (var j of [1, 2, 3]); j", "3"),
    ("const j = 7", "for (var j in { a: 1 }); j", "'a'"),
    ("let j = 7", "for (var [j, l] of [[1, 2]]); [j, l]", "[ 1, 2 ]"),
    ("let j = 7", "for (var l2, j = 0, m = 2; j < m; j++) l2 = j; [j, l2, m]", "[ 2, 1, 2 ]"),
    ("let j = 7", "if (true) { var j = 5 } j", "5"),
    ("let j = 7", "if (true) var j = 5, n = () => j; else var o; [j, n(), o]", "[ 5, 5, undefined ]"),
    ("let j = 7", "try { throw 1 } catch (e) { switch (1) { case 1: var { j, p = 4 } = { j: 6 } } } [j, p]", "[ 6, 4 ]"),
    ("let j = 7", "var j = 8; var j = 9, q1; var q1 = j; q1", "9"),
    ("let j = 7, k = 7", "var j = 1, k = 2\nvar k; [j, k]", "[ 1, 2 ]"),
    ("let j = 7", "5; var j = 6", "5"),
    ("let j = 7", "const f = () => { var j = 1; return j }; class C { static { var j = 2 } } var j = 3; [f(), j]", "[ 1, 3 ]"),
    ("let j = (() => { throw 1 })()", "if (true) { var j = 5 } j", "5"),
    ("let j = (() => { throw 1 })()", "function j() { return 6 } j()", "6"),
    ("let j = 7", "'use strict'; var j = 1, r = 2; j + r // end", "3"),
]
LEXICALS = [
    ("var v = 7", "let v; v", None),
    ("var v = 7", "const gs = []; let v = 5; for (let v = 0; v < 2; v++) gs.push(() => v); gs.map(g => g())", "[ 0, 1 ]"),
    ("var v = 7; let w = 7", "const v = 1, w = 2; [v, w]", "[ 1, 2 ]"),
    ("var v = 7", "import v from 'path'; v.sep", "'/'"),
    ("function v() {}", "import v, { sep as w } from 'path'\nv.sep + w", "'//'"),
    ("var v = 7; let w = 7", "import w, * as v from 'path'\nv.sep + w.sep", "'//'"),
    ("var v = 7", "import { sep as v, delimiter } from 'path'; v + delimiter", "'/:'"),
    ("function v() {}", "export const v = 5; v", "5"),
    ("var v = 7", "export class v { static w = 6 } v.w", "6"),
    ("var v = 7", "export let v; v", None),
    ("let v = 7", "export var v = 8; v", "8"),
]


def test_other_kinds(kernel):
    """A name that changes its kind behaves as the new one: hoisted, or not, and one for all turns of a loop."""
    for number, case in enumerate([*FUNCTIONS, *VARS, *LEXICALS]):
        # Names of its own for each, so that one kernel does for all.
        was, code, text = (part and re.sub(r"\b[hijkvw]\b", rf"\g<0>{number}", part) for part in case)
        kernel.run(was)
        equal(kernel.ok(code).text, text, f"{was}, then {code}")


def test_places(kernel):
    """Places are those of the text as it was given, also in a function that runs from its start on."""
    kernel.ok("let f = 1, v = 2; var w")
    error = kernel.run("1;\nif (v) { var v = 3, x = 4 }; import(\"fs\")\nf()\n  function f() {\n    import('fs'); nope()\n  }").failed("ReferenceError")
    equal((place(error)[1:], error["traceback"][1:]), ((5, 19), ["    at f (cell-2.js:5:19)", "    at cell-2.js:3:1"]))
    equal(place(kernel.run("function f() {}; var v = 1;   nope").failed("ReferenceError"))[1:], (1, 31))
    equal(place(kernel.run("let w;  nope").failed("ReferenceError"))[1:], (1, 9))
    equal(place(kernel.run("function f(): void {}\n  let w: number; (nope)", language="typescript").failed("ReferenceError"))[1:], (2, 19))


def test_no_way(kernel):
    """What cannot become of another kind is told in V8's words, whatever else is in the code."""
    kernel.ok("let g = 1")
    for code in ["g: function g() {}\nimport os from 'os'", "export const z = 1; g: function g() {}", "for (var g = 1 in {}); import 'os'"]:
        error = kernel.run(code).failed("SyntaxError")
        equal((error["message"], error["is_syntax"]), ("Identifier 'g' has already been declared", True), code)
    check("already been declared" in kernel.run("import 'os'; let undefined = 1").failed("SyntaxError")["message"], "what is no variable")


if __name__ == "__main__":
    run_all(globals(), start)
