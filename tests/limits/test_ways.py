"""The ways to folders of the host that may be mounted: what others than root can have put there leads nowhere else, and
what can only be read, or is of a group of others, is not written to."""

import grp
import os
import pwd
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sandbox"))
# pylint: disable=wrong-import-position
import ground  # noqa: E402
from ground import check, equal, main  # noqa: E402
from mount_api import (NOBODY, ROOT_ALONE, bind, elsewhere, folder, give, host_mount, inside, mounted,  # noqa: E402
                       refused, start, write)


def test_ways(g):
    """What is allowed is found through no link of others than root, and from no user's folder into that of another."""
    host = folder(g, mode=0o755, owner=0 if g.is_root else None)
    ours, bobs = folder(g, "ours", mode=0o777), folder(g, "bobs", mode=0o755, owner=ground.place.STRANGER)
    write(bobs + "/secret", "of bob\n", owner=ground.place.STRANGER)
    folder(g, "real", "deep", mode=0o777)
    for name, target in (("way", "real"), ("whole", host + "/real"), ("up", "./real//../real")):
        os.symlink(target, f"{host}/{name}")
        give(f"{host}/{name}", 0 if g.is_root else ground.place.USER)
    ways = [f"{host}/{name}/deep" for name in ("way", "whole", "up")]
    later, soon = ours + "/later", ours + "/soon"
    start(g, later, later + "/in", soon, *ways)
    os.symlink(bobs, later)
    give(later, ground.place.USER)
    for path in (later, later + "/in"):
        refused(g, "forbidden", bind(path, "/mnt/a", True), words=[later, "link", "not followed"])
    folder(g, "ours", "soon", mode=0o777)
    mounted(g, "a", bind(soon, "/mnt/a", True), *[bind(way, f"/mnt/{i}") for i, way in enumerate(ways)])
    os.rename(soon, soon + ".old")
    folder(g, "ours", "soon", mode=0o777)
    refused(g, "forbidden", bind(soon, "/mnt/a", True), words=[soon, "another folder"])


@ROOT_ALONE
def test_owners(g):
    """Root inside cannot put another user's folder in the place of one that is allowed."""
    ours, sub = folder(g, "ours"), folder(g, "ours", "sub")
    bobs = folder(g, "bobs", mode=0o700, owner=ground.place.STRANGER)
    start(g, ours, sub)
    mounted(g, "a", bind(ours, "/mnt/a"))
    g.out("a", f"rmdir /mnt/a/sub && ln -s {bobs} /mnt/a/sub")
    g.stop()
    start(g, ours, sub)
    refused(g, "forbidden", bind(sub, "/mnt/a"), words=[sub, "link"])
    os.unlink(sub)
    # Whoever put it there: the owner of the outer one may do what he likes with its name.
    folder(g, "ours", "sub", owner=ground.place.STRANGER)
    deep = folder(g, "ours", "more", "deep", owner=ground.place.STRANGER)
    give(ours + "/more", 0)
    for path in (sub, deep):
        refused(g, "forbidden", bind(path, "/mnt/a"), words=[path, "one user"])


def test_inner(g):
    """What is allowed for reading cannot be written to through a folder that it is in, by whatever name."""
    at = folder(g, mode=0o777)
    data, other = folder(g, "data", "in", mode=0o777), folder(g, "other", mode=0o777)
    start(g, at, data + ":ro", f"{at}/missing:ro")
    for path in (at, f"{at}/data"):
        refused(g, "forbidden", bind(path, "/mnt/a"), words=[path, "read_only", "for reading"])
        refused(g, "forbidden", bind(other, "/mnt/b"), bind(path, "/mnt/a"), words=[path])
    mounted(g, "a", bind(at, "/mnt/a", True), bind(other, "/mnt/b"))
    g.out("a", "echo x >/mnt/b/x")


@ROOT_ALONE
def test_inner_alias(g):
    """Also where it is mounted a second time; but not what is mounted in the folder, since that stays outside."""
    with elsewhere() as at, host_mount("-t", "tmpfs", "berth-test", target=at), elsewhere() as alias:
        data, disk = folder(g, "data", "in", at=at), folder(g, "disk", "in", at=at)
        for name in ("data", "disk"):
            folder(g, name, at=at)
        with host_mount("--bind", at, target=alias), host_mount("-t", "tmpfs", "berth-test", target=disk):
            start(g, alias, at + "/disk", data + ":ro", disk + ":ro")
            refused(g, "forbidden", bind(f"{alias}/data", "/mnt/a"), words=[f"{alias}/data", data])
            mounted(g, "a", bind(f"{alias}/data", "/mnt/a", True), bind(f"{at}/disk", "/mnt/b"))
            g.out("a", "echo x >/mnt/b/in/x")
            equal(os.listdir(disk), [], "what can only be read")


@ROOT_ALONE
def test_groups(g):
    """The folder's group is root's inside if it is its owner's own; one of another group can only be read."""
    source = folder(g, "work", mode=0o775)
    start(g, source)
    someone = next(user for user in pwd.getpwall() if 0 not in (user.pw_uid, user.pw_gid) and user.pw_uid != user.pw_gid)
    for uid, gid in ((ground.place.USER, 4242), (someone.pw_uid, someone.pw_uid), (someone.pw_uid, 4242)):
        os.chown(source, uid, gid)
        refused(g, "forbidden", bind(source, "/mnt/a"), words=[f"group {gid}", f"user {uid}", "chgrp", "read_only"])
    mounted(g, "r", bind(source, "/mnt/a", True))
    equal(inside(g, "r", "/mnt/a")[:2], ["0", str(NOBODY)], "whose it is for reading")
    # A number that /etc/group gives to others is nobody's own.
    taken = next(entry.gr_gid for entry in grp.getgrall() if entry.gr_gid and entry.gr_gid not in {u.pw_uid for u in pwd.getpwall()})
    os.chown(source, taken, taken)
    refused(g, "forbidden", bind(source, "/mnt/a"), words=[f"group {taken}"])
    os.chown(source, someone.pw_uid, someone.pw_gid)
    mounted(g, "a", bind(source, "/mnt/a"))
    g.out("a", "echo x >/mnt/a/x")
    found = os.stat(source + "/x")
    equal((found.st_uid, found.st_gid), (someone.pw_uid, someone.pw_gid), "whose on the host")
    # And what is below it and of another group is as closed as that of others.
    other = folder(g, "work", "other", mode=0o2775)
    os.chown(other, someone.pw_uid, 4242)
    os.chmod(other, 0o2775)
    check(g.exec("a", "cp /usr/bin/id /mnt/a/other/id").code != 0, "a file of that group")
    equal(os.listdir(other), [], "on the host")


main([test_ways, test_owners, test_inner, test_inner_alias, test_groups], start=lambda test: False)
