"""How long a file and a function may be, and how many parameters a function may have."""

import re

from tree import Finding, Rule

FILE_LINES, FUNCTION_LINES, STEP_LINES, PARAMETERS = 600, 60, 120, 5


def check_files(tree):
    sources = {*tree.paths(".c", ".h", ".py", ".cjs"), *tree.scripts("bash", ".sh")}
    for path in sorted(sources):
        lines = tree.texts[path].count("\n")
        if lines > FILE_LINES:
            yield Finding(path, lines, f"{lines} lines, at most {FILE_LINES}")


def functions(tree):
    for path in tree.paths(".c", ".h"):
        for function in tree.functions(path):
            yield path, function


def check_functions(tree):
    for path, function in functions(tree):
        most = STEP_LINES if re.search(r"(^|_)step$", function.name) else FUNCTION_LINES
        if function.length > most:
            yield Finding(path, function.line, f"{function.name}() has {function.length} lines, "
                          f"at most {most}", function.name)


def check_parameters(tree):
    for path, function in functions(tree):
        if function.parameters > PARAMETERS:
            yield Finding(path, function.line, f"{function.name}() has {function.parameters} "
                          f"parameters, at most {PARAMETERS}", function.name)


def check_shape(tree):
    """What the scanner above would not see."""
    opening = re.compile(r"^[A-Za-z_][^=;\n]*\)[ \t]*\{[ \t]*$", re.M)
    for path in tree.paths(".c", ".h"):
        code = tree.code(path)
        for match in opening.finditer(code):
            yield Finding(path, code.count("\n", 0, match.start()) + 1,
                          "a function's brace stands on a line of its own")


def function(signature, lines, comment=""):
    return {"daemon/a.c": f"{comment}{signature}\n{{\n" + "\tx();\n" * (lines - 2) + "}\n"}


RULES = [
    Rule("file-size", check_files, [
        ("a source of 601 lines", {"base/a.c": "\n" * 601}),
        ("a part of a kernel of 601 lines", {"images/kernels/a.cjs": "\n" * 601}),
        ("a script of 601 lines", {"scripts/a": "#!/usr/bin/env bash\n" + "\n" * 600}),
    ]),
    Rule("function-size", check_functions, [
        ("61 lines", function("void a(void)", 61)),
        ("a step of 121 lines", function("static void sandbox_step(struct sandbox *sb)", 121)),
        ("61 lines in a header", {"base/a.h": function("static inline int a(void)", 61)["daemon/a.c"]}),
        ("61 lines under a wrapped signature", function("static int a(int b,\n\t\t int c)", 61)),
        ("61 lines with braces in strings", {"base/a.c": 'void a(void)\n{\n' + '\tp("}");\n' * 59
                                             + "}\n"}),
    ]),
    Rule("parameters", check_parameters, [
        ("6 parameters", function("int a(int b, int c, int d, int e, int f, int g)", 3)),
        ("6 with one a function", function(
            "int a(void (*b)(int, int), int c, int d,\n      int e, int f, int g)", 3)),
        ("6 after an attribute", function(
            "__attribute__((format(printf, 6, 7))) int a(int b, int c, int d, int e, int f, "
            "const char *g, ...)", 3)),
    ]),
    Rule("function-shape", check_shape, [
        ("a brace behind the signature", {"base/a.c": "int a(void) {\n}\n"}),
    ]),
]

# Just within the limits: nothing may be found here.
GOOD = {
    **function("static void sandbox_step(struct sandbox *sb)", 120),
    "base/a.c": "/* a(b, c, d, e, f, g) { */\n"
                "__attribute__((format(printf, 5, 6))) int a(int b, int c, void (*d)(int, int),\n"
                "\t\tint e, const char *f, ...)\n{\n" + "\tx();\n" * 58 + "}\n",
}
