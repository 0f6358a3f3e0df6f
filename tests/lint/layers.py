"""Who may know whom. The table is STYLE's, by #include lines."""

import fnmatch
import os
import re

from tree import Finding, Rule, line_of

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)

# Our own headers, by who includes them. The first pattern that matches a path decides.
OURS = [
    ("base/*", ["base/*"]),
    ("proto/*", ["base/*", "proto/*"]),
    ("container/*", ["base/*", "proto/capability*", "proto/frame*", "proto/keeper*", "proto/mounts*", "proto/sandbox_id*", "container/*"]),
    ("daemon/*", ["base/*", "proto/*", "daemon/*"]),
    ("cmd/manual/*", ["base/*", "daemon/config.h", "cmd/*.h"]),
    ("cmd/berthd*", ["base/*", "proto/*", "daemon/*", "cmd/berthd/*", "cmd/*.h"]),
    ("cmd/*keeper*", ["base/*", "proto/frame*", "proto/mounts*", "container/*", "cmd/*keeper/*", "cmd/*.h"]),
    ("cmd/*init*", ["base/*", "proto/frame*", "proto/agent*", "proto/file*", "proto/watch*",
                   "cmd/*init/*", "cmd/*.h"]),
    ("cmd/*", ["base/*", "proto/*", "cmd/berth/*", "cmd/*.h"]),
    ("tests/*", ["*"]),
]

# Parsers turn bytes into facts: no I/O, no clock, so only what computes.
PROTO_MAY = {f"{name}.h" for name in """assert ctype endian errno float inttypes limits llhttp locale
    math stdarg stdbool stddef stdint stdio stdlib string strings""".split()}
PROTO_MAY_FOLDERS = ("nettle/", "yajl/")

# Others' headers, and the only files that may know them. Tests of those files may as well.
OTHERS = [
    ("uv.h", ["daemon/*", "cmd/berthd*", "tests/*"]),
    ("uv/*", ["daemon/*", "cmd/berthd*", "tests/*"]),
    ("yajl/*", ["proto/*.c"]),
    ("llhttp.h", ["proto/http.h"]),
    ("wslay/*", ["daemon/websocket.c", "cmd/berth/link.c"]),
    ("nettle/*", ["proto/*", "daemon/*", "cmd/berthd*", "tests/*"]),
    ("sqlite3.h", ["daemon/store*.c", "tests/unit/test_store*.c"]),
    ("curl/*", ["cmd/berth/client.c", "cmd/berth/upgrade.c"]),
    ("sys/mount.h", ["container/*", "tests/container/*"]),
    ("linux/mount.h", ["container/*"]),
    ("libmount/*", ["container/*"]),
    ("seccomp.h", ["container/*", "cmd/berthd/filter.c"]),
    ("sys/capability.h", ["container/*"]),
    ("archive*.h", ["daemon/*", "cmd/berth/tree.c"]),
]


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def includes(tree):
    """(path, line, is ours, header) of every #include."""
    for path in tree.paths(".c", ".h"):
        text = tree.uncommented(path)
        for include in INCLUDE.finditer(text):
            yield path, line_of(text, include.start()), include[1] == '"', include[2]


def check_ours(tree):
    for path, line, is_ours, header in includes(tree):
        may = next((allowed for pattern, allowed in OURS if matches(path, [pattern])), [])
        if not is_ours:
            continue
        if header.endswith(".c"):
            yield Finding(path, line, f"includes a source file, {header}", header)
        elif "/" not in header and not path.startswith("tests/"):
            yield Finding(path, line, f"include by path from the root, not \"{header}\"", header)
        elif ".." in header or not matches(header, may):
            yield Finding(path, line, f"must not know {header}", header)


def check_others(tree):
    for path, line, is_ours, header in includes(tree):
        if is_ours:
            continue
        for pattern, allowed in OTHERS:
            if matches(header, [pattern]) and not matches(path, allowed):
                yield Finding(path, line, f"<{header}> is for {' '.join(allowed)} only", header)


def check_proto(tree):
    for path, line, is_ours, header in includes(tree):
        if path.startswith("proto/") and not is_ours and header not in PROTO_MAY \
                and not header.startswith(PROTO_MAY_FOLDERS):
            yield Finding(path, line, f"proto/ does no I/O and has no clock: <{header}>", header)


def check_yajl(tree):
    users = sorted({path for path, _, _, header in includes(tree) if header.startswith("yajl/")})
    for path in users[1:]:
        yield Finding(path, 1, f"yajl stands behind one file, and {users[0]} is it", "yajl")


def check_own_first(tree):
    seen = set()
    for path, line, _, header in includes(tree):
        own = os.path.splitext(path)[0] + ".h"
        if path.endswith(".c") and path not in seen and own in tree.texts and header != own:
            yield Finding(path, line, f"{own} must come first", own)
        seen.add(path)


def one(path, *lines):
    return {path: "\n".join(lines) + "\n"}


RULES = [
    Rule("layer", check_ours, [
        ("base includes proto", one("base/a.c", '#include "proto/http.h"')),
        ("proto includes daemon", one("proto/a.c", '#include "daemon/server.h"')),
        ("daemon includes container", one("daemon/a.h", '#  include "container/cgroup.h"')),
        ("container includes HTTP", one("container/a.c", '#include "proto/http.h"')),
        ("berth includes daemon", one("cmd/berth/main.c", '#include "daemon/server.h"')),
        ("berth-init includes JSON", one("cmd/berth-init/main.c", '#include "proto/json.h"')),
        ("a folder that is not in the table", one("utils/a.c", '#include "base/str.h"')),
        ("a source file is included", one("tests/unit/a.c", '#include "base/arena.c"')),
        ("an include not from the root", one("daemon/a.c", '#include "server.h"')),
        ("a way around by ..", one("base/a.c", '#include "base/../proto/http.h"')),
    ]),
    Rule("library", check_others, [
        ("libuv in base", one("base/a.c", "#include <uv.h>")),
        ("yajl in daemon", one("daemon/a.c", "#include <yajl/yajl_parse.h>")),
        ("yajl in a header", one("proto/json.h", "#include <yajl/yajl_parse.h>")),
        ("llhttp in daemon", one("daemon/a.c", "#include <llhttp.h>")),
        ("wslay outside websocket.c", one("daemon/a.c", "#include <wslay/wslay.h>")),
        ("SQLite outside the store", one("daemon/a.c", "#include <sqlite3.h>")),
        ("curl outside the client", one("cmd/berth/main.c", "#include <curl/curl.h>")),
        ("mounts in daemon", one("daemon/a.c", "#include <sys/mount.h>")),
    ]),
    Rule("proto-io", check_proto, [
        (f"proto includes {header}", one("proto/a.c", f"#include <{header}>"))
        for header in ("sys/socket.h", "time.h", "fcntl.h", "unistd.h", "sys/stat.h", "uv.h")
    ]),
    Rule("one-yajl", check_yajl, [
        ("two files include yajl", {"proto/a.c": "#include <yajl/yajl_gen.h>\n",
                                    "proto/b.c": "#include <yajl/yajl_parse.h>\n"}),
    ]),
    Rule("own-header", check_own_first, [
        ("another header comes first", {"base/a.h": "\n",
                                        "base/a.c": '#include <stdio.h>\n#include "base/a.h"\n'}),
    ]),
]

GOOD = {
    "base/a.h": "#include <unistd.h>\n",
    "base/a.c": '#include "base/a.h"\n\n/* #include <uv.h> */\n#include <stdio.h>\n',
    "proto/http.h": '#include <llhttp.h>\n#include "base/a.h"\n',
    "proto/json.c": '#include <yajl/yajl_parse.h>\n#include <yajl/yajl_gen.h>\n#include <string.h>\n',
    "container/a.c": '#include <sys/mount.h>\n#include "proto/frame.h"\n',
    "daemon/websocket.c": '#include <uv.h>\n#include <wslay/wslay.h>\n#include "proto/http.h"\n',
    "daemon/store_schema.c": "#include <sqlite3.h>\n",
    "cmd/berthd/main.c": '#include "daemon/server.h"\n',
    "cmd/berth/client.c": '#include <curl/curl.h>\n#include "cmd/berth/client.h"\n',
    "tests/unit/test_store.c": '#include <sqlite3.h>\n#include "tap.h"\n#include "daemon/store.h"\n',
}
