"""The preview part of scripts/bench: the proxy beside nginx, both in front of one and the same server inside."""

import json
import os
import re
import socket
import statistics
import subprocess
import time

from cost import spent
from sandboxes import Berth, BenchError, Connection, measure, memory_of

BIG_MB = 1024
SOCKETS = 2000
INSIDE = """
worker_processes 1;
daemon off;
pid /tmp/nginx.pid;
error_log /tmp/nginx.log;
events {{ worker_connections 8192; }}
http {{
	access_log off;
	sendfile on;
	keepalive_requests 1000000000;
	client_body_temp_path /tmp/n1; proxy_temp_path /tmp/n2; fastcgi_temp_path /tmp/n3;
	uwsgi_temp_path /tmp/n4; scgi_temp_path /tmp/n5;
	server {{
		listen 127.0.0.1:{port};
		location / {{ default_type text/plain; return 200 'hello\\n'; }}
		location /big {{ root /workspace; }}
	}}
}}
"""
PROXY = """
worker_processes 1;
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/nginx.log;
events {{ worker_connections 8192; }}
http {{
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path {dir}/n1; proxy_temp_path {dir}/n2; fastcgi_temp_path {dir}/n3;
	uwsgi_temp_path {dir}/n4; scgi_temp_path {dir}/n5;
	upstream inside {{ server 127.0.0.1:{port}; keepalive 64; keepalive_requests 1000000000; }}
	server {{
		listen 127.0.0.1:{front};
		location / {{
			proxy_pass http://inside;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Forwarded-Host $http_host;
			proxy_set_header X-Forwarded-Proto $scheme;
			proxy_max_temp_file_size 0;
		}}
	}}
}}
"""
IDLE_SERVER = """
import asyncio
async def talk(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n")
    await reader.read(1)
async def main():
    server = await asyncio.start_server(talk, "127.0.0.1", 8001, backlog=4096)
    async with server:
        await server.serve_forever()
asyncio.run(main())
"""
PORT, FRONT = 8000, 9000


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def worker_of(master):
    """The one process that does nginx's work; nsenter has become its master."""
    with open(f"/proc/{master}/task/{master}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


class PreviewBench:
    def __init__(self, bench, row):
        self.bench, self.row, self.rows = bench, row, []
        self.listen = free_port()
        self.berth = Berth(bench, "crun", "--preview", f"127.0.0.1:{self.listen}")
        self.put("nginx.conf", INSIDE.format(port=PORT).encode())
        self.start("server", ["nginx", "-c", "/workspace/nginx.conf", "-p", "/tmp"], PORT)
        self.host = self.ask("PUT", f"/port/{PORT}", {"public": True})["hostname"]

    def ask(self, method, path, body=None):
        connection = Connection(self.berth.socket)
        try:
            raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
            connection.request(method, "/v1/sandbox/warm" + path, raw, {"Accept": "application/json"})
            reply = connection.getresponse()
            text = reply.read()
            if reply.status >= 300:
                raise BenchError(f"{method} {path} answered {reply.status}: {text[:200]!r}")
            return json.loads(text) if text else None
        finally:
            connection.close()

    def put(self, name, content):
        self.ask("PUT", f"/file/workspace/{name}", content)

    def start(self, name, argv, port):
        self.ask("POST", "/processes", {"argv": argv, "id": name})
        self.ask("POST", f"/processes/{name}/wait", {"for": "port", "port": port, "timeout_ms": 20000})

    # --- beside nginx ---

    def netns(self):
        """Of the sandbox: that of the process that is its init."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if b"/workspace/nginx.conf" in file.read():
                        return ["nsenter", f"--net=/proc/{pid}/ns/net"]
            except OSError:
                continue
        raise BenchError("the server inside is not to be found")

    def start_nginx(self):
        if os.geteuid() != 0:
            raise BenchError("as an ordinary user nginx cannot be put into the sandbox's network")
        at = self.bench.place()
        with open(f"{at}/nginx.conf", "w", encoding="utf-8") as file:
            file.write(PROXY.format(dir=at, port=PORT, front=FRONT))
        child = self.bench.start([*self.netns(), "nginx", "-c", f"{at}/nginx.conf", "-p", at],
                                 stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        if child.poll() is not None:
            raise BenchError("nginx did not start")
        return child

    def wrk(self, url, prefix=(), header=()):
        seconds = 1 if self.bench.is_quick else 3
        done = subprocess.run([*prefix, "wrk", "-t1", "-c64", f"-d{seconds}s", "--latency", *header, url],
                              capture_output=True, text=True, check=True)
        if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
            raise BenchError(f"wrk saw errors: {done.stdout}")
        number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout).groups()
        return (float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)[1]),
                float(number) * {"us": 1, "ms": 1000, "s": 1e6}[unit],
                int(re.search(r"(\d+) requests in", done.stdout)[1]))

    def proxied(self, pid, *wrk):
        """Requests/s, p99, and the proxy's own processor time for each request in us."""
        before = spent(pid)[0]
        rate, p99, count = self.wrk(*wrk)
        return rate, p99, (spent(pid)[0] - before) / 1000 / count

    def curl(self, url, prefix=(), header=()):
        """MB/s of one download."""
        done = subprocess.run([*prefix, "curl", "-s", "-o", "/dev/null", "-w", "%{size_download} %{time_total} %{http_code}",
                               *header, url], capture_output=True, text=True, check=True)
        size, seconds, status = done.stdout.split()
        if status != "200" or int(size) != BIG_MB << 20:
            raise BenchError(f"curl got {done.stdout}")
        return int(size) / 1e6 / float(seconds)

    def beside_nginx(self):
        nginx, ns = self.start_nginx(), self.netns()
        ours, theirs = f"http://127.0.0.1:{self.listen}", f"http://127.0.0.1:{FRONT}"
        header = ("-H", f"Host: {self.host}")
        rates = {"berthd": [], "nginx": [], "none": []}
        for _ in range(1 if self.bench.is_quick else 5):
            rates["berthd"].append(self.proxied(self.berth.child.pid, ours + "/", (), header))
            rates["nginx"].append(self.proxied(worker_of(nginx.pid), theirs + "/", ns))
        rates["none"].append(self.wrk(f"http://127.0.0.1:{PORT}/", ns))
        rate, p99, each = ({k: statistics.median(x[i] for x in v) for k, v in rates.items()} for i in (0, 1, 2))
        self.rows.append(self.row("requests/s of a preview", rate["berthd"], "req/s", rate["nginx"], "nginx", goal=(">=", 1.0),
                                  detail=f"without a proxy {rate['none']:,.0f}"))
        # The server, the client and the proxy share the processors; this is the proxy's own part.
        self.rows.append(self.row("processor time of a request", each["berthd"], "us", each["nginx"], "nginx"))
        self.rows.append(self.row("p99 of a preview", p99["berthd"], "us", p99["nginx"], "nginx"))
        self.ask("POST", "/exec", {"command": f"mkdir -p big && truncate -s {BIG_MB}M big/file"})
        speed = {"berthd": [], "nginx": []}
        for _ in range(1 if self.bench.is_quick else 5):
            speed["berthd"].append(self.curl(ours + "/big/file", (), header))
            speed["nginx"].append(self.curl(theirs + "/big/file", ns))
        mbs = {k: statistics.median(v) for k, v in speed.items()}
        self.rows.append(self.row("download of 1 GiB", mbs["berthd"], "MB/s", mbs["nginx"], "nginx", goal=(">=", 0.8),
                                  detail=f"berthd holds {memory_of(self.berth.child.pid) / 1e6:.1f} MB"))
        self.bench.stop(nginx)

    # --- open and silent ---

    def sockets(self):
        count = 200 if self.bench.is_quick else SOCKETS
        self.put("idle.py", IDLE_SERVER.encode())
        self.start("idle", ["python3", "/workspace/idle.py"], 8001)
        host = self.ask("PUT", "/port/8001", {"public": True})["hostname"]
        request = (f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                   "User-Agent: bench\r\nAccept: */*\r\nOrigin: http://bench\r\n\r\n").encode()
        before, clients = memory_of(self.berth.child.pid), []
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", self.listen), 30)
            client.sendall(request)
            if not client.recv(4096).startswith(b"HTTP/1.1 101"):
                raise BenchError("no upgrade")
            clients.append(client)
        each = (memory_of(self.berth.child.pid) - before) / count / 1024
        for client in clients:
            client.close()
        self.rows.append(self.row(f"berthd for each of {count} WebSockets", each, "kB", 16, "goal", goal=("<=", 1)))


def bench_preview(bench, row):
    """Rows, as they come."""
    it = PreviewBench(bench, row)
    yield from measure(it, it.beside_nginx, it.sockets)
