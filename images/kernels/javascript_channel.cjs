// A part of javascript.cjs: the lines that come from berthd, and those that go there.

'use strict';

const fs = require('fs');
const {
	uncurry, defineProperty, floor, random, push, bytesSet, bytesIndexOf, bytesSlice, utf8, SavedBytes, reallyExit,
	Pipe, SOCKET, WriteWrap, streamBaseState, kReadBytesOrError,
} = require('./javascript_saved.cjs');
const { mended } = require('./javascript_json.cjs');

const LINE_MAX = 16 * 1024 * 1024;

// A descriptor cannot be duplicated here, but opened again by /proc: at a number that nobody guesses, behind some that
// are closed again. Where that is forbidden (the pipe belongs to a user of another namespace) it stays where it is.
function moved(fd, flags)
{
	const taken = [];
	try {
		for (let left = floor(random() * 60) + 20; left; left--)
			push(taken, fs.openSync('/dev/null', 'r'));
		const opened = fs.openSync('/proc/self/fd/' + fd, flags | fs.constants.O_NONBLOCK);
		fs.closeSync(fd);
		return opened;
	} catch {
		return fd;
	} finally {
		for (let i = 0; i < taken.length; i++)
			fs.closeSync(taken[i]);
	}
}

function handleOf(fd)
{
	const handle = new Pipe(SOCKET);
	const status = handle.open(fd);
	if (status)
		throw new Error(`descriptor ${fd} is no pipe: ${status}`);
	return handle;
}

// Without being dumpable, what is open here cannot be opened by others of the same user through /proc.
function hide()
{
	if (process.geteuid() !== 0)
		return;
	const group = process.getegid();
	for (const other of [65534, 1, 1000]) {
		try {
			process.setegid(other);
			process.setegid(group);
			return;
		} catch {
			// Not one of this user namespace.
		}
	}
}

let orders = null, reports = null, writeString = null;

// Once, and not when this file is read: whoever reads it again has no way to berthd. Nor has a second kernel in this process,
// in a thread of its own: what is at 0 by then is no pipe, and nothing is moved.
function openChannel()
{
	const orderer = fs.fstatSync(0);
	if (!orderer.isFIFO() && !orderer.isSocket())
		throw new Error('descriptor 0 is no pipe');
	const ordersFd = moved(0, fs.constants.O_RDONLY);
	if (ordersFd !== 0)
		fs.openSync('/dev/null', 'r');
	else
		defineProperty(process, 'stdin',
			{ __proto__: null, configurable: true, value: require('stream').Readable.from([]) });
	orders = handleOf(ordersFd);
	reports = handleOf(moved(3, fs.constants.O_WRONLY));
	reports.setBlocking(true);
	writeString = uncurry(reports.writeUtf8String);
	hide();
}

// In one call of the system's part of node: code that is ended by a signal is never ended within a line.
function send(line)
{
	const request = new WriteWrap();
	request.oncomplete = () => {};
	request.handle = reports;
	if (writeString(reports, request, mended(line) + '\n') !== 0)
		reallyExit(1);
}

function report(call, fields)
{
	send('{"call":' + call.number + ',' + fields + '}');
}

const queue = [];
let first = 0;
let parts = [], partsLength = 0;

// Tells onLines() that there are some.
function listen(onLines)
{
	orders.onread = (buffer) => {
		const count = streamBaseState[kReadBytesOrError];
		if (count < 0)
			reallyExit(0);
		if (count === 0)
			return;
		let bytes = new SavedBytes(buffer, 0, count);
		for (let at = bytesIndexOf(bytes, 10); at >= 0; at = bytesIndexOf(bytes, 10)) {
			addPart(bytesSlice(bytes, 0, at));
			push(queue, joinedParts());
			bytes = bytesSlice(bytes, at + 1);
		}
		addPart(bytes);
		onLines();
	};
	orders.readStart();
}

function addPart(bytes)
{
	push(parts, bytes);
	partsLength += bytes.length;
}

function joinedParts()
{
	const all = new SavedBytes(partsLength);
	for (let i = 0, at = 0; i < parts.length; at += parts[i++].length)
		bytesSet(all, parts[i], at);
	parts = [];
	partsLength = 0;
	return utf8(all, 0, all.length);
}

// The one that came first, or null.
function nextLine()
{
	if (first === queue.length) {
		queue.length = first = 0;
		return null;
	}
	const line = queue[first];
	queue[first++] = undefined;
	return line;
}

module.exports = { LINE_MAX, openChannel, send, report, listen, nextLine };
