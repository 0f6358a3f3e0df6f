// A server as people write them, on nothing but Node: server.mjs PORT
//
//   /events   server-sent events, one every 20 ms, five of them
//   /upload   the body as it comes, in chunks
//   a WebSocket anywhere: each message comes back
import http from "node:http";
import { createHash } from "node:crypto";

const server = http.createServer((request, response) => {
	if (request.url === "/events") {
		let n = 0;
		response.writeHead(200, { "Content-Type": "text/event-stream" });
		const timer = setInterval(() => {
			response.write(`id: ${n}\ndata: ${Date.now()}\n\n`);
			if (++n === 5) {
				clearInterval(timer);
				response.end();
			}
		}, 20);
	} else if (request.url === "/upload") {
		response.writeHead(200, { "X-Coding": request.headers["transfer-encoding"] ?? "none" });
		request.pipe(response);
	} else {
		response.end("node\n");
	}
});

// Frames of less than 64 kB, as a client sends them: masked.
function takeFrame(bytes) {
	if (bytes.length < 6) return null;
	let size = bytes[1] & 0x7f, at = 2;
	if (size === 126) {
		if (bytes.length < 8) return null;
		size = bytes.readUInt16BE(2);
		at = 4;
	}
	if (bytes.length < at + 4 + size) return null;
	const mask = bytes.subarray(at, at + 4);
	const payload = Buffer.from(bytes.subarray(at + 4, at + 4 + size));
	for (let i = 0; i < payload.length; i++) payload[i] ^= mask[i % 4];
	return { code: bytes[0] & 0xf, payload, rest: bytes.subarray(at + 4 + size) };
}

function frame(code, payload) {
	const head = payload.length < 126 ? Buffer.from([0x80 | code, payload.length])
		: Buffer.from([0x80 | code, 126, payload.length >> 8, payload.length & 0xff]);
	return Buffer.concat([head, payload]);
}

server.on("upgrade", (request, socket, first) => {
	const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	let bytes = first;
	socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		`Sec-WebSocket-Accept: ${createHash("sha1").update(key).digest("base64")}\r\n\r\n`);
	socket.on("error", () => {});
	socket.on("data", (data) => {
		bytes = Buffer.concat([bytes, data]);
		for (let found; (found = takeFrame(bytes)); bytes = found.rest) {
			socket.write(frame(found.code, found.payload));
			if (found.code === 8) socket.end();
		}
	});
});

server.listen(Number(process.argv[2]), "127.0.0.1");
