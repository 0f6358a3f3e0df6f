"""Calls that C code here must not make, or must make in one way only. A heuristic on the text."""

import re

from tree import Finding, Rule, balanced, line_of, split_arguments

FORBIDDEN = {
    "strcpy": "snprintf or memcpy", "strcat": "struct buf", "sprintf": "snprintf",
    "vsprintf": "vsnprintf", "gets": "getline", "strtok": "strsep or a parser in proto/",
    "alloca": "an arena", "system": "posix_spawn", "popen": "posix_spawn", "tmpnam": "mkostemp",
    "mktemp": "mkostemp",
}

# Makes an fd, and can say O_CLOEXEC in its arguments.
WITH_FLAG = {"open", "open64", "openat", "socket", "socketpair", "pipe2", "accept4", "dup3", "eventfd",
             "epoll_create1", "memfd_create", "inotify_init1", "signalfd", "timerfd_create",
             "mkostemp", "open_tree", "fsopen", "fsmount"}
# Cannot: there is another call that can.
WITHOUT_FLAG = {"pipe": "pipe2", "accept": "accept4", "dup": "fcntl with F_DUPFD_CLOEXEC",
                "creat": "open", "epoll_create": "epoll_create1", "inotify_init": "inotify_init1",
                "mkstemp": "mkostemp"}
STANDARD = {"0", "1", "2", "STDIN_FILENO", "STDOUT_FILENO", "STDERR_FILENO"}


def calls(tree, names):
    """(path, line, name, arguments, the same with their strings) of each call, not of members."""
    call = re.compile(r"(?<![\w.>])(" + "|".join(sorted(names)) + r")\s*\(")
    for path in tree.paths(".c", ".h"):
        code, text = tree.code(path), tree.uncommented(path)
        for match in call.finditer(code):
            inside = slice(match.end(), match.end() + len(balanced(code, match.end() - 1)))
            yield (path, line_of(code, match.start()), match[1],
                   split_arguments(code[inside]), split_arguments(text[inside]))


def check_forbidden(tree):
    for path, line, name, _, _ in calls(tree, FORBIDDEN):
        yield Finding(path, line, f"{name}() is not used here: {FORBIDDEN[name]}", name)


def check_exit(tree):
    for path, line, name, _, _ in calls(tree, {"exit"}):
        if not path.startswith(("cmd/", "tests/")):
            yield Finding(path, line, "only cmd/ may exit(): return an error", name)


def check_cloexec(tree):
    for path, line, name, arguments, _ in calls(tree, WITH_FLAG):
        if "CLOEXEC" not in "".join(arguments):
            yield Finding(path, line, f"{name}() without CLOEXEC", name)
    for path, line, name, _, _ in calls(tree, WITHOUT_FLAG):
        yield Finding(path, line, f"{name}() cannot be CLOEXEC: {WITHOUT_FLAG[name]}", name)
    for path, line, name, arguments, _ in calls(tree, {"dup2"}):
        if arguments[-1:] and arguments[-1] not in STANDARD:
            yield Finding(path, line, "dup2() is for 0, 1 and 2: dup3 with O_CLOEXEC", name)
    for path, line, name, arguments, _ in calls(tree, {"fcntl"}):
        if "F_DUPFD" in arguments:
            yield Finding(path, line, "F_DUPFD_CLOEXEC, not F_DUPFD", name)
    for path, line, name, _, arguments in calls(tree, {"fopen", "freopen"}):
        if len(arguments) > 1 and arguments[1].startswith('"') and "e" not in arguments[1]:
            yield Finding(path, line, f"{name}() without \"e\"", name)


def check_cleanup(tree):
    """What is cleaned up at a return must be something by then."""
    declared = re.compile(r"^\s*cleanup\w*(?:\([^)\n]*\))?\s[^=;()\n]*?(\w+);$", re.MULTILINE)
    for path in tree.paths(".c", ".h"):
        code = tree.code(path)
        for match in declared.finditer(code):
            end = code.find("\n}", match.end())
            rest = code[match.end():end if end >= 0 else len(code)]
            used, left = (re.search(rf"\b{word}\b", rest) for word in (match[1], "return"))
            if left and (not used or left.start() < used.start()):
                yield Finding(path, line_of(code, match.end()), f"a return comes before {match[1]} is "
                              "something that can be cleaned up", match[1])


def body(statement, path="daemon/a.c"):
    return {path: f"void a(void)\n{{\n\t{statement}\n}}\n"}


RULES = [
    Rule("forbidden-call", check_forbidden, [
        (f"{name}()", body(f"{name}(b);")) for name in FORBIDDEN
    ]),
    Rule("exit", check_exit, [("exit() in daemon", body("exit(1);")),
                              ("exit() in base", body("if (x) exit (1);", "base/a.c"))]),
    Rule("cleanup", check_cleanup, [
        ("a return before it", body("cleanup(buf_close) struct buf b;\n\n\tif (x)\n\t\treturn;\n\tbuf_init(&b, 1);")),
        ("a pointer", body("cleanup_free char *p;\n\tint r = f();\n\n\tif (r < 0)\n\t\treturn;\n\tp = g();")),
    ]),
    Rule("cloexec", check_cloexec, [
        ("open()", body('fd = open("CLOEXEC", O_RDONLY /* O_CLOEXEC */);')),
        ("open() on two lines", body("fd = open(path,\n\t\t  O_RDONLY | f(O_CREAT), 0600);")),
        ("socket()", body("fd = socket(AF_UNIX, SOCK_STREAM, 0);")),
        ("pipe()", body("pipe(fds);")),
        ("pipe2() without it", body("pipe2(fds, O_NONBLOCK);")),
        ("accept()", body("fd = accept(l, NULL, NULL);")),
        ("dup()", body("fd = dup(1);")),
        ("dup2() to another fd", body("dup2(fd, other);")),
        ("F_DUPFD", body("fd = fcntl(1, F_DUPFD, 3);")),
        ("fopen() without e", body('f = fopen("/e", "r");')),
    ]),
]

GOOD = {
    "daemon/a.c": 'void a(void)\n{\n\topen("x", O_RDONLY | O_CLOEXEC);\n\tdup2(fd, STDIN_FILENO);\n'
                  '\t/* exit(1), strcpy() */\n\tlog_info("exit(1) system(x)");\n\top->open(x);\n'
                  '\tx.accept(y);\n\t_exit(1);\n\tuv_accept(a, b);\n\tfopen(path, "re");\n'
                  '\tfcntl(1, F_DUPFD_CLOEXEC, 3);\n\tsocket(AF_UNIX,\n\t       SOCK_STREAM | '
                  'SOCK_CLOEXEC, 0);\n}\n',
    "daemon/b.c": "int b(void)\n{\n\tcleanup(buf_close) struct buf b;\n\tcleanup_fd int fd = -1;\n\n\tbuf_init(&b, 1);\n"
                  "\tif (fd < 0)\n\t\treturn 1;\n\treturn 0;\n}\n",
    "cmd/berth/main.c": "int main(void)\n{\n\texit(1);\n}\n",
}
