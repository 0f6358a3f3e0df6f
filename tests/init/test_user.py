"""Who an exec runs as, by files that belong to the sandbox."""

import errno
import os

import sandbox as s

PROBE = "/sandbox/probe"


def users(t, box, peer):
    for user, ids in (("", "0 0"), ("root", "0 0 0"), ("0", "0 0 0"), ("0:0", "0 0 0"),
                      ("alice", "1000 1001 7 8 1001"), ("1000", "1000 1001 1001"),
                      ("1000:0", "1000 0 0"), ("4242", "4242 4242 4242"), ("65535:1", "65535 1 1"),
                      ("\u00fcser", "77 77 77")):
        done = box.run(peer, [PROBE, "ids"], user=user)
        if isinstance(done, s.Frame):
            t.check(not box.is_root and user not in ("", "root", "0", "0:0"), (user, done))
            t.equal(done.stage, s.STAGE_USER, user)
            continue
        # In a namespace with one id the groups of outside stay.
        fits = done.out.decode().strip() == ids if box.is_root else done.out.startswith(b"0 0")
        t.check(fits, f"{user!r}: {done.out}")
    for user, error in (("1000:0x", errno.EINVAL), ("1000:", errno.EINVAL), (":0", errno.EINVAL),
                        (":", errno.EINVAL), ("4294967295", errno.EINVAL), ("0x0", errno.EINVAL),
                        ("4294967296", errno.EINVAL), ("99999999999", errno.EINVAL), ("-1", errno.EINVAL),
                        ("+0", errno.ENOENT), (" 0", errno.EINVAL), ("0 ", errno.EINVAL),
                        ("0:0:0", errno.EINVAL), ("alice:0", errno.EINVAL), ("root\0", errno.EINVAL),
                        ("nobody-here", errno.ENOENT), ("bad", errno.ENOENT), ("70000", errno.EINVAL),
                        ("1000:70000", errno.EINVAL), ("al", errno.ENOENT)):
        got = box.run(peer, ["true"], user=user)
        t.equal((got.stage, got.error) if isinstance(got, s.Frame) else got.status,
                (s.STAGE_USER, error), repr(user))


@s.needs_ids
def home(t, box, peer):
    show = ["sh", "-c", "echo $HOME"]
    for user, expected in (("", "/root"), ("root", "/"), ("alice", "/home/alice"), ("1000", "/home/alice"),
                           ("1000:0", "/home/alice"), ("4242", "/")):
        t.equal(box.run(peer, show, user=user).out.decode().strip(), expected, repr(user))
    done = box.run(peer, show, user="alice", env=["PATH=/usr/bin", "HOME=/tmp"])
    t.equal(done.out, b"/tmp\n", "what was given stays")


@s.needs_ids
def user_rights(t, box, peer):
    done = box.run(peer, ["grep", "-E", "Cap(Inh|Prm|Eff|Amb)", "/proc/self/status"], user="alice")
    t.equal({line.split()[1] for line in done.out.decode().splitlines()}, {"0" * 16}, "capabilities")
    done = box.run(peer, ["sh", "-c", "echo a > /dev/stdout; echo b > /proc/self/fd/2; cat /dev/stdin"],
                   user="alice", stdin=b"c")
    t.equal((done.out, done.err, done.status), (b"a\nc", b"b\n", 0), "streams can be opened again")
    box.run(peer, ["mkdir", "-m", "700", "/tmp/private"])
    got = box.run(peer, ["true"], user="alice", cwd="/tmp/private")
    t.equal((got.stage, got.error), (s.STAGE_CWD, errno.EACCES), "a directory that is not hers")
    done = box.run(peer, ["cat", "/proc/1/environ", f"/proc/{os.getpid()}/environ"], user="alice")
    t.equal(done.out, b"", "init's environment")


def odd_passwd(t, box, peer):
    path = os.path.join(box.etc, "passwd")
    with open(path, encoding="utf-8") as file:
        text = file.read()

    def refused(user, error, what):
        got = box.run(peer, ["true"], user=user)
        t.equal((got.stage, got.error) if isinstance(got, s.Frame) else got.status,
                (s.STAGE_USER, error), what)

    os.unlink(path)
    refused("root", errno.ENOENT, "no passwd")
    t.equal(box.run(peer, ["true"], user="0").status, 0, "a number needs none")
    os.mkfifo(path)
    refused("root", errno.EINVAL, "a fifo")
    refused("0", errno.EINVAL, "a fifo")
    os.unlink(path)
    for target, error in (("/proc/self/fd/0", errno.ELOOP), ("/dev/zero", errno.EINVAL),
                          ("/proc/self/environ", errno.ENOENT), ("passwd", errno.ELOOP),
                          ("/usr", errno.EINVAL)):
        os.symlink(target, path)
        refused("root", error, target)
        os.unlink(path)
    with open(path, "wb") as file:
        file.truncate(5 << 20)
    refused("root", errno.EFBIG, "5 MiB")
    with open(path, "wb") as file:
        file.write(b":" * 300000 + b"\n" + b"\n" * 300000 + b"\xff\0:::\nroot:x:0")
    refused("root", errno.ENOENT, "no lines")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    t.equal(box.run(peer, ["true"], user="root").status, 0, "as it was")


s.main([users, home, user_rights, odd_passwd])
