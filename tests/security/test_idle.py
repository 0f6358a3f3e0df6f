"""Check 40, 10,000 idle connections. usage: test_idle.py BUILD root|user RUNTIME [TEST...]"""

import json
import os
import resource
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "sandbox")]

# pylint: disable=wrong-import-position
from ground import check, equal, fds_of, main, memory_of, until  # noqa: E402

COUNT = 10000
EACH = 4096  # bytes that an idle connection may cost
IS_SANITIZED = os.environ.get("BERTH_SANITIZED") == "1"


def raise_files():
    """As far as the host lets us; we hold one end of each, and so does berthd."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    check(hard > COUNT + 500, f"RLIMIT_NOFILE is {hard}, which is too few for {COUNT} connections")


def connect(g):
    one = socket.socket(socket.AF_UNIX)
    one.connect(g.socket)  # which waits while the queue is full
    one.settimeout(60)
    return one


def status_of(one):
    """Of the answer that it gets without having asked, or after."""
    text = b""
    while b"\r\n\r\n" not in text:
        part = one.recv(4096)
        check(part, "closed without a word")
        text += part
    return int(text.split()[1]), text


def ask(one):
    one.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    return status_of(one)[0]


def close_all(ones):
    for one in ones:
        one.close()


def others(g, stop, times):
    """Somebody else, all the while."""
    connection = g.connect()
    while not stop.is_set():
        began = time.monotonic()
        connection.request("POST", "/v1/sandbox/a/exec", json.dumps({"command": "echo x"}), {"Accept": "application/json"})
        response = connection.getresponse()
        times.append((response.status, b'"exit_code":0' in response.read().replace(b" ", b""), time.monotonic() - began))
    connection.close()


def test_40_idle(g):
    """40: 10,000 connections that say nothing: others are answered meanwhile, each costs little, and all is well after."""
    raise_files()
    with open(g.path("config.json"), "w", encoding="utf-8") as file:
        json.dump({"max_connections": COUNT + 200}, file)
    os.chmod(g.path("config.json"), 0o644)
    g.start("--config", g.path("config.json"))
    g.out("a", "true")
    stop, times, idle = threading.Event(), [], []
    other = threading.Thread(target=others, args=(g, stop, times))
    before, fds = memory_of(g.berthd.pid), fds_of(g.berthd.pid)
    other.start()
    try:
        for _ in range(COUNT):
            idle.append(connect(g))
        equal(ask(idle[-1]), 200, "the last, and so all before it")
        check(fds_of(g.berthd.pid) > COUNT, "all of them are there")
        each = (memory_of(g.berthd.pid) - before) / COUNT
        for one in idle[::100]:
            equal(ask(one), 200, "one that was idle")
        until(lambda: len(times) > 20, "others to be answered")
        held = len(times)
        until(lambda: len(times) > held + 20, "others to be answered while all are there")
    finally:
        stop.set()
        other.join()
        close_all(idle)
    equal({(status, is_whole) for status, is_whole, _ in times}, {(200, True)}, "what the others got")
    check(max(took for _, _, took in times) < 10, f"another waited for {max(took for _, _, took in times):.1f} s")
    check(IS_SANITIZED or each < EACH, f"each costs {each:.0f} bytes")
    until(lambda: fds_of(g.berthd.pid) <= fds + 8, "all of them to be gone")
    equal(g.out("a", "echo y"), "y\n", "afterwards")
    print(f"# {each:.0f} bytes each; others waited {max(took for _, _, took in times) * 1000:.0f} ms at most")


def test_40_too_many(g):
    """40: of 10,000 those that are too many are told so; the others stay, and when they leave there is room again."""
    raise_files()
    g.start()
    g.out("a", "true")
    fds, most, idle, refused = fds_of(g.berthd.pid), 8192, [], 0  # SERVER_LIMITS_DEFAULT
    first = connect(g)
    equal(ask(first), 200, "the first")
    try:
        while len(idle) < most - 1:
            idle.append(connect(g))
        equal(ask(idle[-1]), 200, "the last, and so all before it")
        for _ in range(COUNT - most):
            with connect(g) as one:
                status, text = status_of(one)
                check(status == 503 and b"Connection: close" in text, text)
                refused += 1
        equal((ask(first), ask(idle[-1])), (200, 200), "those that were there before")
        equal(refused, COUNT - most, "refused")
    finally:
        close_all([first, *idle])
    until(lambda: fds_of(g.berthd.pid) <= fds + 8, "all of them to be gone")
    equal(g.out("a", "echo y"), "y\n", "afterwards")


main([test_40_idle, test_40_too_many], start=lambda test: False)
