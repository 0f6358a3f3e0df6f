// A part of javascript.cjs: standard output and standard error, of this process itself.

'use strict';

const {
	apply, freeze, push, decodeText, isView, bufferOf, writeSync, nextTick, stdout, stderr, WriteWrap, own,
} = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');
const { cut, shown } = require('./javascript_texts.cjs');
const { isReported, reportOutput } = require('./javascript_logs.cjs');

// What is printed goes to the pipe at once, and the pipe blocks: it has left before the call is done. A stream of node
// would remember that it is writing, for ever, when code is ended while it does.
const pipes = [];

// What is reported in their place is text, and a character may come in two pieces.
const decoders = [];
const GOES_ON = freeze({ __proto__: null, stream: true });

function decoded(one, bytes)
{
	one.isOpen = true;
	return decodeText(one.decoder, bytes, GOES_ON);
}

// What is left of a character that does not go on.
function rest(one)
{
	const isOpen = one.isOpen;
	one.isOpen = false;
	return isOpen ? decodeText(one.decoder) : '';
}

function makeDirect(stream, handle, name)
{
	const one = { __proto__: null, name, isOpen: false, decoder: new TextDecoder('utf-8', { ignoreBOM: true }) };
	handle.setBlocking(true);
	push(pipes, handle);
	push(decoders, one);
	const { writeBuffer, writeUtf8String } = handle;
	stream.write = function write(chunk, encoding, callback) {
		const request = new WriteWrap();
		request.oncomplete = () => {};
		request.handle = handle;
		const then = typeof encoding === 'function' ? encoding : callback;
		const isText = typeof chunk === 'string' && (typeof encoding !== 'string' || encoding === 'utf8');
		if (!isText && typeof chunk === 'string')
			chunk = bufferOf(chunk, encoding);
		else if (!isText && !isView(chunk))
			throw new TypeError('write() takes a string, a Buffer or a Uint8Array, not ' + cut(shown(chunk), 100));
		if (isReported(name))
			reportOutput(state.current, name, isText ? rest(one) + chunk : decoded(one, chunk));
		else
			apply(isText ? writeUtf8String : writeBuffer, handle, [request, chunk]);
		if (typeof then === 'function')
			nextTick(then);
		return true;
	};
}

// Halves are of the call that wrote them.
function reportHalves(call)
{
	for (let i = 0; i < decoders.length; i++)
		reportOutput(call, decoders[i].name, rest(decoders[i]));
}

function makeAllDirect()
{
	for (const stream of [stdout, stderr])
		if (stream._handle && stream._handle.setBlocking)
			makeDirect(stream, stream._handle, stream === stdout ? 'stdout' : 'stderr');
}

// Only a signal can have left something behind in a pipe that blocks.
function hasUnwritten()
{
	for (let i = 0; i < pipes.length; i++)
		if (pipes[i].writeQueueSize > 0)
			return true;
	return false;
}

function writeAll(fd, message)
{
	for (let left = message; left.length;) {
		try {
			writeSync(fd, left);
			return;
		} catch (error) {
			if (own(error, 'code') !== 'EAGAIN')
				return;
		}
	}
}

module.exports = { reportHalves, makeAllDirect, hasUnwritten, writeAll };
