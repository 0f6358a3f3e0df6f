// Runs a script under node's inspector, and lets it be reached by any host name: the inspector
// itself answers only to an IP address or "localhost" in the Host header, and a preview has a name of
// its own. That check is against pages that have a name of theirs lead to 127.0.0.1; a preview's
// name has a token in it, which they do not know. `berth debug` gives this to `node -e`.
"use strict";
const { spawn } = require("node:child_process");
const http = require("node:http");
const net = require("node:net");

const LISTENING = /^Debugger listening on ws:\/\/127\.0\.0\.1:(\d+)\/([0-9a-f-]{36})$/;
const words = process.argv.slice(1);
const child = spawn(process.execPath, ["--inspect-brk=127.0.0.1:0", "--", ...words], {
	stdio: ["inherit", "inherit", "pipe"],
});
let inside; // the inspector's port
let isOver = false; // both lines of the inspector's have come
let early = Buffer.alloc(0); // of the child's stderr, before the inspector has said where it is

const headersFor = (request) => ({ ...request.headers, host: `127.0.0.1:${inside}` });

// What is told of URLs is made to name the host that was asked.
const server = http.createServer((request, response) => {
	const headers = headersFor(request);
	delete headers["accept-encoding"];
	const inner = http.request(
		{ host: "127.0.0.1", port: inside, method: request.method, path: request.url, headers },
		(answer) => {
			const parts = [];
			answer.on("data", (part) => parts.push(part));
			answer.on("end", () => {
				const text = Buffer.concat(parts).toString();
				const told = text.replaceAll(`127.0.0.1:${inside}`, request.headers.host ?? "localhost");
				const type = answer.headers["content-type"] ?? "text/plain";
				response.writeHead(answer.statusCode, { "content-type": type });
				response.end(told);
			});
		},
	);
	inner.on("error", () => response.destroy());
	request.pipe(inner);
});

server.on("upgrade", (request, outer, head) => {
	const inner = net.connect(inside, "127.0.0.1", () => {
		const lines = Object.entries(headersFor(request)).map(([name, value]) => `${name}: ${value}\r\n`);
		inner.write(`${request.method} ${request.url} HTTP/1.1\r\n${lines.join("")}\r\n`);
		inner.write(head);
		outer.pipe(inner);
		inner.pipe(outer);
	});
	for (const [one, other] of [[inner, outer], [outer, inner]]) {
		one.on("error", () => other.destroy());
		one.on("close", () => other.destroy());
	}
});

// The inspector's two lines are for somebody who is in here: one of ours takes their place. They need
// not come in one piece.
const takeLine = (line) => {
	const text = line.toString("latin1");
	const found = LISTENING.exec(text.trimEnd());
	if (found && inside === undefined) {
		inside = Number(found[1]);
		server.listen(0, "127.0.0.1", () => {
			process.stderr.write(`berth-debug ${server.address().port} ${found[2]}\n`);
		});
		return;
	}
	if (inside === undefined || !text.startsWith("For help, see: ")) process.stderr.write(line);
	if (inside !== undefined) isOver = true;
};

const onEarly = (piece) => {
	early = Buffer.concat([early, piece]);
	for (let end = early.indexOf("\n") + 1; end && !isOver; end = early.indexOf("\n") + 1) {
		const line = early.subarray(0, end);
		early = early.subarray(end);
		takeLine(line);
	}
	if (!isOver) return;
	process.stderr.write(early);
	early = Buffer.alloc(0);
	child.stderr.off("data", onEarly);
	child.stderr.pipe(process.stderr);
};
child.stderr.on("data", onEarly);
child.stderr.on("end", () => process.stderr.write(early));

const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
for (const signal of signals) process.on(signal, () => child.kill(signal));
child.on("close", (code, signal) => {
	for (const heard of signals) process.removeAllListeners(heard);
	if (signal) process.kill(process.pid, signal);
	else process.exit(code);
});
