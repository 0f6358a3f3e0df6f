"""The fifo by which those inside say that they are busy."""

import os
import select
import signal
import time

import sandbox as s

FIFO = "/run/berth/heartbeat"
BEAT = f"echo > {FIFO}"


def beats(peer, seconds):
    """When each came, in seconds from now on."""
    began, found = time.monotonic(), []
    while True:
        left = began + seconds - time.monotonic()
        if left <= 0 or not select.select([peer.socket], [], [], left)[0]:
            return found
        f = peer.receive()
        assert f.kind == s.HEARTBEAT and f.tag == 0 and not f.fds, f
        found.append(time.monotonic() - began)


def calm(peer):
    """So that the next is told at once."""
    time.sleep(1.05)
    peer.ping()
    peer.kept.clear()


def one(t, box, peer):
    calm(peer)
    t.equal(box.run(peer, ["sh", "-c", BEAT]).code, 0, "it is written to")
    peer.expect(s.HEARTBEAT)
    t.equal(beats(peer, 1.3), [], "once")
    t.equal(box.run(peer, ["stat", "-c", "%A %u", FIFO]).out, b"prw--w--w- 0\n", "what it is")


def two(t, box, peer):
    """The second waits for its second to be over, and takes the third along."""
    calm(peer)
    box.run(peer, ["sh", "-c", BEAT])
    peer.expect(s.HEARTBEAT)
    began = time.monotonic()
    for _ in range(3):
        box.run(peer, ["sh", "-c", BEAT])
    peer.expect(s.HEARTBEAT)
    took = time.monotonic() - began
    t.check(0.8 < took, f"too early: {took}")
    t.equal(beats(peer, 1.3), [], "once")


def floods(t, box, peer):
    calm(peer)
    numbers = [box.number() for _ in range(4)]
    scripts = [f"exec yes > {FIFO}", f"exec cat /dev/zero > {FIFO}", f"while :; do {BEAT}; done",
               f"exec dd if=/dev/zero of={FIFO} bs=1 oflag=direct"]
    for number, script in zip(numbers, scripts):
        for fd in peer.exec(number, ["sh", "-c", script]).fds:
            os.close(fd)
    began = time.monotonic()
    answers = 0
    while time.monotonic() - began < 3.5:
        peer.ping()
        t.equal(box.run(peer, ["echo", "x"]).out, b"x\n", "others go on")
        answers += 1
    took = time.monotonic() - began
    count = sum(f.kind == s.HEARTBEAT for f in peer.kept)
    t.check(2 <= count <= took + 1.5, f"{count} beats in {took} s")
    t.check(answers >= 10, f"{answers} others")
    t.equal(box.run(peer, ["timeout", "60", "sh", "-c", BEAT]).code, 0, "nobody else is held up")
    for number in numbers:
        peer.signal(number, signal.SIGKILL)
        peer.exited(number)
        peer.forget(number)
    calm(peer)
    calm(peer)
    t.equal(beats(peer, 1.2), [], "it is over")


@s.needs_ids
def as_a_user(t, box, peer):
    calm(peer)
    t.equal(box.run(peer, ["sh", "-c", BEAT], user="1000:1000").code, 0, "it is written to")
    peer.expect(s.HEARTBEAT)
    for attempt in (f"cat {FIFO}", f"rm -f {FIFO}", f"chmod 666 {FIFO}", "ls /run/berth"):
        t.check(box.run(peer, ["sh", "-c", attempt], user="1000:1000").code != 0, attempt)


def nobody_there(t, box, peer):
    """What nobody was there to hear is not told to who comes later."""
    first = box.peer()
    number = box.number()
    f = first.exec(number, ["sh", "-c", f"read x; {BEAT}"], flags=s.STDIN)
    first.close()
    for fd in f.fds:
        if fd == f.fds[0]:
            os.write(fd, b"\n")
        os.close(fd)
    s.wait_until(lambda: not box.inside())
    later = box.peer()
    later.exited(number)
    later.forget(number)
    later.ping()
    t.equal(later.kept, [], "of old")
    # And one that is due goes with who it was due to.
    for _ in range(2):
        box.run(later, ["sh", "-c", BEAT])
    last = box.peer()
    t.equal(beats(last, 1.3), [], "of another's time")
    box.run(last, ["sh", "-c", BEAT])
    last.expect(s.HEARTBEAT)


def thieves(t, box, peer):
    """Whoever may read it can take what others wrote, or make it another's."""
    number = box.number()
    for fd in peer.exec(number, ["cat", FIFO]).fds:
        os.close(fd)
    for _ in range(20):
        t.equal(box.run(peer, ["sh", "-c", BEAT]).code, 0, "written")
    peer.signal(number, signal.SIGKILL)
    peer.exited(number)
    peer.forget(number)
    box.run(peer, ["sh", "-c", f"rm {FIFO}; mkfifo {FIFO}"])
    box.run(peer, ["timeout", "0.1", "sh", "-c", BEAT])
    box.run(peer, ["sh", "-c", f"rm {FIFO}; ln -s /dev/null {FIFO}; {BEAT}; rm -r /run/berth"])
    calm(peer)
    t.equal(beats(peer, 1.2), [], "of another fifo")


def none(t, box, peer):
    with s.Sandbox(*box.programs, has_run=False) as other:
        peer = other.peer()
        t.equal(other.run(peer, ["sh", "-c", f"test -e {FIFO}"]).code, 1, "there is none")
        t.equal(other.run(peer, ["echo", "x"]).out, b"x\n", "all else works")


if __name__ == "__main__":
    s.main([one, two, floods, as_a_user, nobody_there, thieves, none])
