"""Code that takes ten GiB of memory, in as many ways as there are to ask for it."""

import re

SIZE = 10 << 30


def gives_at_once():
    """Whether the machine lets a program ask for so much in one piece, before it uses it."""
    with open("/proc/sys/vm/overcommit_memory", encoding="ascii") as file:
        mode = int(file.read())
    with open("/proc/meminfo", encoding="ascii") as file:
        kilobytes = dict(re.findall(r"(\w+): +(\d+) kB", file.read()))
    return mode == 1 or mode == 0 and (int(kilobytes["MemTotal"]) + int(kilobytes["SwapTotal"])) * 1024 > SIZE + (1 << 30)


def greedy():
    """(language, code) of each; none of it can come to its end in less than it asks for."""
    pieces = SIZE >> 26
    found = [("python", f"all = [b'x' * (1 << 26) for _ in range({pieces})]"),
             ("python", f"all = []\nwhile len(all) < {SIZE >> 5}: all.append(len(all))"),
             ("javascript", f"const all = []; for (let i = 0; i < {pieces}; i++) all.push(Buffer.alloc(1 << 26, 1));"),
             ("javascript", "const all = []; for (let i = 0; i < 1e9; i++) all.push({i, a: [i], b: `${i}`});"),
             ("typescript", f"const all: Buffer[] = []; for (let i = 0; i < {pieces}; i++) all.push(Buffer.alloc(1 << 26, 1));"),
             ("bash", f"all=$(head -c {SIZE} /dev/zero | tr '\\0' x)")]
    if gives_at_once():
        found += [("python", f"all = bytearray({SIZE})\nfor i in range(0, len(all), 4096): all[i] = 1"),
                  ("python", f"all = b'x' * {SIZE}")]
    return found
