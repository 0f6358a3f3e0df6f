"""What other programs find: clang-format, cppcheck, bash, shellcheck, python."""

import os
import re
import subprocess

from tree import Finding, Rule

CPPCHECK = ["cppcheck", "--quiet", "--language=c", "--std=c11", "--inline-suppr", "--error-exitcode=1",
            "--enable=warning,performance,portability", "--suppress=missingIncludeSystem",
            # It does not know the cleanup attribute; LeakSanitizer sees every leak that a test meets.
            "--suppress=memleak", "--suppress=resourceLeak",
            # A failed check() of a test says so and goes on.
            "--suppress=nullPointerRedundantCheck:tests/*",
            "--template={file}:{line}: {message} [{id}]", "-D_GNU_SOURCE", "-D__linux__", "-j2"]
PLACE = re.compile(r"^(?P<path>[^\s:]+):(?:\s*line )?(?P<line>\d+):\s*(?:\d+:\s*)?(?P<what>.*)", re.M)


def findings(tree, command, paths):
    """Runs it on the files; its complaints, or one for the whole if it failed without any."""
    if not paths:
        return []
    done = subprocess.run([*command, *paths], cwd=tree.root, capture_output=True, text=True,
                          errors="replace", check=False, env={**os.environ, "LC_ALL": "C"})
    if done.returncode == 0:
        return []
    output = done.stdout + done.stderr
    found = [Finding(m["path"], int(m["line"]), m["what"]) for m in PLACE.finditer(output)]
    return found or [Finding(paths[0], 1, f"{command[0]}: {output.strip()[-2000:]}")]


def check_format(tree):
    return findings(tree, ["clang-format", "--dry-run", "-Werror"], tree.paths(".c", ".h"))


def check_cppcheck(tree):
    return findings(tree, [*CPPCHECK, f"-I{tree.root}"], tree.paths(".c"))


def check_bash(tree):
    for path in tree.scripts("bash", ".sh"):
        yield from findings(tree, ["bash", "-n"], [path])


def check_shellcheck(tree):
    return findings(tree, ["shellcheck", "--format=gcc"], tree.scripts("bash", ".sh"))


def check_python(tree):
    for path in tree.scripts("python3", ".py"):
        try:
            compile(tree.texts[path], path, "exec", dont_inherit=True)
        except SyntaxError as error:
            yield Finding(path, error.lineno or 1, error.msg)


FORMAT = [Rule("format", check_format, [
    ("spaces for a tab", {"base/a.c": "int a(void)\n{\n        return 1;\n}\n"}),
    ("a brace in the wrong place", {"base/a.h": "static inline int a(void) {\n\treturn 1;\n}\n"}),
])]

STATIC = [Rule("cppcheck", check_cppcheck, [
    ("an index out of bounds", {"base/a.c": "int a(void)\n{\n\tint b[2] = {0};\n\n\treturn b[2];\n}\n"}),
    ("a null pointer that is used", {"base/a.c": "int a(int *b)\n{\n\tint c = *b;\n\n"
                                                 "\treturn b ? c : 0;\n}\n"}),
    ("a double free", {"base/a.c": "#include <stdlib.h>\nvoid a(char *b)\n{\n\tfree(b);\n"
                                   "\tfree(b);\n}\n"}),
    ("an uninitialised variable", {"base/a.c": "int a(void)\n{\n\tint b;\n\n\treturn b;\n}\n"}),
])]

SCRIPTS = [
    Rule("bash", check_bash, [
        ("an if without fi", {"scripts/a": "#!/usr/bin/env bash\nif true; then\n"})]),
    Rule("shellcheck", check_shellcheck, [
        ("an unquoted variable", {"scripts/a": '#!/usr/bin/env bash\nrm -r $1\n'})]),
    Rule("python", check_python, [("a syntax error", {"tests/a.py": "def a(:\n"})]),
]

GOOD = {
    "base/a.c": "#include <stdlib.h>\n\nint a(const int *b)\n{\n\tif (!b)\n\t\treturn 0;\n"
                "\treturn *b;\n}\n",
    "scripts/a": '#!/usr/bin/env bash\nset -eu\nrm -r "$1"\n',
    "tests/a.py": "def a():\n    return 1\n",
}
