"""A berthd that does only what `berth up`, `info` and `down` need, or fails as FAKE_MODE says."""

import fcntl
import json
import os
import signal
import socket
import sys

args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
mode = os.environ.get("FAKE_MODE", "")
state, run = args["--state-dir"], args["--run-dir"]
path = args.get("--socket", os.path.join(run, "berthd", "api.sock"))

with open(os.path.join(state, "starts"), "a", encoding="utf-8") as starts:
    starts.write(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd()}) + "\n")
if mode == "sentence":
    sys.stderr.write("2026-01-02T03:04:05.678Z info begins\n"
                     "2026-01-02T03:04:05.678Z error the moon is in the way\n")
    sys.exit(1)
if mode == "slow":
    # Never becomes ready, and says when it was told to end.
    def on_term(*_):
        with open(os.path.join(state, "ended"), "w", encoding="utf-8"):
            os._exit(0)
    signal.signal(signal.SIGTERM, on_term)
    with open(os.path.join(state, "waits"), "w", encoding="utf-8") as waits:
        waits.write(str(os.getpid()))
    while True:
        signal.pause()
if mode == "signal":
    os.kill(os.getpid(), signal.SIGKILL)
if mode == "silent":
    sys.exit(7)
if mode == "mute":
    # Ends its output but not itself: `up` must not wait for it for ever.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.close(1)
    while True:
        signal.pause()

lock = open(os.path.join(state, "lock"), "w", encoding="utf-8")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.stderr.write("berthd: the state is locked\n")
    sys.exit(1)
os.makedirs(os.path.dirname(path), exist_ok=True)
if os.path.exists(path):
    os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(16)
signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "deaf" else lambda *_: os._exit(0))
print("starting\nready on " + path, flush=True)
info = json.dumps({"version": "0", "pid": os.getpid(), "instance": "i", "state_dir": state,
                   "run_dir": run, "listen": args.get("--listen"), "uid": os.geteuid(), "mode": "root",
                   "log_level": args.get("--log-level", "info"), "config": args.get("--config"),
                   "token_file": args.get("--token-file"), "socket_group": args.get("--socket-group")}).encode()
while True:
    client, _ = listener.accept()
    with client:
        if client.recv(4096):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
                           % (len(info), info))
