// The kernel of JavaScript and TypeScript: see README.md for what it is told and what it says.
//
//   node --expose-internals --experimental-vm-modules --no-force-async-hooks-checks javascript.cjs
//
// Code runs in V8's own REPL mode, which the inspector of this very thread offers: what was declared may be
// declared again, await stands anywhere, and positions are those of the text as it was given. Nothing is parsed
// here unless "import", "export" or "const" is in it, or a name changes its kind; then the parser that node itself
// carries is asked (--expose-internals), and what it says becomes edits whose positions can be turned back.
//
// What runs here may have replaced anything that it can reach. So whatever is used after the first call was taken
// before it, in the section below; arrays are walked by index, a missing field is asked for by own(), and reports
// are put together as text. What remains in its power are its own calls.
//
// SIGINT: node's own thread for it is armed from the start, so the signal never ends the process. While a call
// runs for the first time, on this stack, that thread ends it (breakOnSigint). A call that waits is watched by a
// worker, started by the first such call, which ends the wait, or whatever this thread is busy with.

'use strict';

const fs = require('fs');
const vm = require('vm');
const util = require('util');
const url = require('url');
const Module = require('module');

// --- what code cannot take away ---

const { bind, call: callOf } = Function.prototype;
const uncurry = bind.bind(callOf);
const { apply, ownKeys, getPrototypeOf, deleteProperty } = Reflect;
const { defineProperty, getOwnPropertyDescriptor, freeze, keys } = Object;
const { isArray } = Array;
const { isFinite } = Number;
const toNumber = Number;
const { min, floor, random } = Math;
const now = Date.now;
const text = String;
const parse = JSON.parse;
const stringify = JSON.stringify;
const root = globalThis;
const { setTimeout, setImmediate } = root;
const hasOwn = uncurry(Object.prototype.hasOwnProperty);
const define = (object, name, value) => defineProperty(object, name,
	{ __proto__: null, value, writable: true, enumerable: true, configurable: true });
const push = (list, item) => define(list, list.length, item);
const join = uncurry(Array.prototype.join);
const sort = uncurry(Array.prototype.sort);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const codeAt = uncurry(String.prototype.charCodeAt);
const lastIndexOf = uncurry(String.prototype.lastIndexOf);
const startsWith = uncurry(String.prototype.startsWith);
const split = uncurry(String.prototype.split);
const exec = uncurry(RegExp.prototype.exec);
const bytesSet = uncurry(Uint8Array.prototype.set);
const bytesIndexOf = uncurry(Uint8Array.prototype.indexOf);
const bytesSlice = uncurry(Uint8Array.prototype.subarray);
const utf8 = uncurry(Buffer.prototype.utf8Slice);
const base64 = uncurry(Buffer.prototype.base64Slice);
const byteLength = Buffer.byteLength;
const decodeText = uncurry(TextDecoder.prototype.decode);
const weakGet = uncurry(WeakMap.prototype.get);
const weakSet = uncurry(WeakMap.prototype.set);
const then = uncurry(Promise.prototype.then);
const SavedPromise = Promise;
const SavedError = Error;
const SavedBytes = Uint8Array;
const arrayPrototype = Array.prototype;
const objectPrototype = Object.prototype;
const { isView } = ArrayBuffer;
const bufferOf = Buffer.from;
const errorText = uncurry(Error.prototype.toString);
const { compareExchange, store, load, notify, wait } = Atomics;
const { inspect } = util;
const { isPromise, isNativeError, isProxy } = util.types;
const FORMLESS = ['Map', 'Set', 'WeakMap', 'WeakSet', 'RegExp', 'Promise', 'DataView', 'AnyArrayBuffer', 'NativeError',
	'GeneratorObject', 'MapIterator', 'SetIterator', 'SymbolObject'].map((name) => freeze({ __proto__: null,
	test: util.types['is' + name], name: 'a value of type ' + name.replace(/^Any|^Native|Object$/, '') }));
const { writeSync } = fs;
// The streams as well, which makes them: what is printed is to leave by them at once, below.
const { chdir, cwd, env: variables, nextTick, reallyExit, stdout, stderr } = process;
const tick = process._tickCallback;
const { spawnSync } = require('child_process');
const { executionAsyncId } = require('async_hooks');
const { newAsyncId } = require('internal/async_hooks');
const binding = process.binding;
const inspector = binding('inspector');
const contextify = binding('contextify');
const { Pipe, constants: { SOCKET } } = binding('pipe_wrap');
const { WriteWrap, streamBaseState, kReadBytesOrError } = binding('stream_wrap');
const requireHere = require;

const LINE_MAX = 16 * 1024 * 1024;
const CANCELLED = 0x18; // at the end of an order that its sender could not complete
const TEXT_MAX = 1024 * 1024;
const DEPTH_MAX = 28; // of values: berthd reads 32 levels, some of which are the report's own
const MESSAGE_MAX = 64 * 1024;
const FRAMES_MAX = 100;
const NETWORK = { __proto__: null, ENETUNREACH: 1, EHOSTUNREACH: 1, EAI_AGAIN: 1, ENOTFOUND: 1 };
const MIMES = {
	__proto__: null, 'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'application/json': 'json',
	'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpeg', 'text/latex': 'latex',
};
const FIELDS = freeze(['text', 'html', 'markdown', 'json', 'svg', 'png', 'jpeg', 'latex']);
const DISPLAY = Symbol.for('berth.display');

function own(object, name)
{
	return object !== null && typeof object === 'object' && hasOwn(object, name) ? object[name] : undefined;
}

// Whether it can be waited for like a promise. What all objects have, as code has given it to them, does not count.
function hasOwnThen(value)
{
	if (value === null || typeof value !== 'object' && typeof value !== 'function')
		return false;
	for (let one = value; one !== null && one !== objectPrototype; one = getPrototypeOf(one))
		if (hasOwn(one, 'then'))
			return true;
	return false;
}

// A promise that is resolved with an object asks for its `then`.
function boxed(f, value)
{
	return () => { f(value); };
}

// A settled promise tells these two, whatever has become of Promise.prototype.
function settled(promise, onValue, onError)
{
	if (!isPromise(promise)) {
		const value = promise, isThen = quietly(() => hasOwnThen(value), false);
		promise = new SavedPromise((resolve) => resolve(isThen ? value : undefined));
		if (!isThen)
			onValue = boxed(onValue, value);
	}
	const descriptor = getOwnPropertyDescriptor(promise, 'constructor');
	try {
		// then() asks for it, and takes its own if there is none.
		if (!descriptor)
			defineProperty(promise, 'constructor', { __proto__: null, value: undefined, configurable: true });
	} catch {
		// Frozen: it is asked all the same.
	}
	then(promise, onValue, onError);
	if (!descriptor)
		deleteProperty(promise, 'constructor');
}

// A function of a kernel that code can call, but not change.
function hidden(name, value)
{
	defineProperty(root, name, { __proto__: null, value });
}

// --- streams ---

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

const ordersFd = moved(0, fs.constants.O_RDONLY);
if (ordersFd !== 0)
	fs.openSync('/dev/null', 'r');
else
	defineProperty(process, 'stdin',
		{ __proto__: null, configurable: true, value: require('stream').Readable.from([]) });
const orders = handleOf(ordersFd);
const reports = handleOf(moved(3, fs.constants.O_WRONLY));
reports.setBlocking(true);
hide();
const writeString = uncurry(reports.writeUtf8String);

// JSON of strings that are not well-formed has halves of pairs in it, as \ud83d: berthd takes no such text.
function mended(json)
{
	let made = '', done = 0;
	if (indexOf(json, '\\ud') < 0)
		return json;
	for (let at = indexOf(json, '\\'); at >= 0; at = indexOf(json, '\\', at)) {
		const isHalf = codeAt(json, at + 1) === 0x75 && codeAt(json, at + 2) === 0x64 && codeAt(json, at + 3) >= 0x38;
		if (isHalf) {
			made += slice(json, done, at) + '\\ufffd';
			done = at + 6;
		}
		at += isHalf ? 6 : 2;
	}
	return made + slice(json, done);
}

// How deep it is nested, in JSON.
function depthOf(json)
{
	let depth = 0, most = 0, isString = false;
	for (let i = 0; i < json.length; i++) {
		const code = codeAt(json, i);
		if (isString && code === 0x5c)
			i++;
		else if (code === 0x22)
			isString = !isString;
		else if (!isString && (code === 0x7b || code === 0x5b))
			most = ++depth > most ? depth : most;
		else if (!isString && (code === 0x7d || code === 0x5d))
			depth--;
	}
	return most;
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

// What is printed goes to the pipe at once, and the pipe blocks: it has left before the call is done. A stream of node
// would remember that it is writing, for ever, when code is ended while it does.
const pipes = [];

function makeDirect(stream, handle, name)
{
	const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
	handle.setBlocking(true);
	push(pipes, handle);
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
			reportOutput(current, name, isText ? chunk : decodeText(decoder, chunk, { __proto__: null, stream: true }));
		else
			apply(isText ? writeUtf8String : writeBuffer, handle, [request, chunk]);
		if (typeof then === 'function')
			nextTick(then);
		return true;
	};
}

function cut(value, most)
{
	return value.length > most ? slice(value, 0, most) + '\n… cut: it had ' + value.length + ' characters' : value;
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

// --- positions ---

// Each piece of code has a name of its own for V8, so that one of the same file name does not lend it its positions.
const SCHEME = 'berth:';
const KEPT_MAX = 64 * 1024 * 1024;
const sources = { __proto__: null };
const kept = [];
let firstKept = 0, keptLength = 0;

function newSource(call, code)
{
	const source = { __proto__: null, url: SCHEME + call.number, file: call.file, code, maps: [] };
	sources[source.url] = source;
	push(kept, source);
	keptLength += code.length;
	// Of the oldest ones only the names are known then, and lines as V8 has them.
	while (keptLength > KEPT_MAX && firstKept < kept.length - 1) {
		const oldest = kept[firstKept];
		kept[firstKept++] = undefined;
		keptLength -= oldest.code.length;
		oldest.code = '';
		oldest.maps = [];
	}
	return source;
}

function lineStarts(code)
{
	const starts = [0];
	for (let at = indexOf(code, '\n'); at >= 0; at = indexOf(code, '\n', at + 1))
		push(starts, at + 1);
	return starts;
}

// Of a position in the text that edits, in their order, have made: that in the text before.
function throughEdits(code, edited, edits)
{
	return (line, column) => {
		const starts = lineStarts(edited);
		let at = (starts[min(line, starts.length) - 1] || 0) + column - 1;
		for (let i = edits.length - 1; i >= 0; i--) {
			const edit = edits[i];
			if (at < edit.at)
				continue;
			const length = edit.text.length;
			const past = at - edit.at;
			at = past < length ? min(edit.start + past, edit.end) : edit.end + past - length;
			break;
		}
		return lineColumn(code, at);
	};
}

function newEdit(start, end, made)
{
	return { __proto__: null, start, end, text: made, at: 0 };
}

function lineColumn(code, at)
{
	const starts = lineStarts(code);
	let line = starts.length;
	while (line > 1 && starts[line - 1] > at)
		line--;
	return [line, at - starts[line - 1] + 1];
}

function applyEdits(code, edits)
{
	sort(edits, (a, b) => a.start - b.start);
	let made = '', from = 0;
	for (let i = 0; i < edits.length; i++) {
		const edit = edits[i];
		made += slice(code, from, edit.start);
		edit.at = made.length;
		made += edit.text;
		from = edit.end;
	}
	return made + slice(code, from);
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

// The mappings of a source map: the nearest one on the line that is not behind the column.
function throughMappings(mappings)
{
	return (line, column) => {
		const lines = split(mappings, ';');
		let source = 0, sourceColumn = 0, found = [line, column];
		for (let i = 0; i < min(line, lines.length); i++) {
			const segments = split(lines[i], ',');
			let made = 0;
			for (let s = 0; s < segments.length; s++) {
				const numbers = decodeVlq(segments[s]);
				made += numbers[0] || 0;
				if (numbers.length < 4)
					continue;
				source += numbers[2];
				sourceColumn += numbers[3];
				if (i < line - 1 || made <= column - 1)
					found = [source + 1, sourceColumn + 1];
			}
		}
		return found;
	};
}

function decodeVlq(segment)
{
	const numbers = [];
	let value = 0, shift = 0;
	for (let i = 0; i < segment.length; i++) {
		const digit = indexOf(BASE64, segment[i]);
		value += (digit & 31) * 2 ** shift;
		shift += 5;
		if (!(digit & 32)) {
			push(numbers, value % 2 ? -(value - 1) / 2 : value / 2);
			value = shift = 0;
		}
	}
	return numbers;
}

function original(source, line, column)
{
	let place = [line, column];
	for (let i = source.maps.length - 1; i >= 0; i--)
		place = source.maps[i](place[0], place[1]);
	const lines = lineStarts(source.code).length;
	return source.code === '' || place[0] <= lines ? place : lineColumn(source.code, source.code.length);
}

// --- errors ---

// What the frames of an error were, kept when its stack was made.
const framesOf = new WeakMap();
const tooLongErrors = new WeakMap(); // of a value that no line can hold

function readFrame(site)
{
	const name = site.getFileName() || site.getScriptNameOrSourceURL() || '';
	const source = sources[name];
	const frame = { __proto__: null, name, source,
		line: site.getLineNumber() || 0, column: site.getColumnNumber() || 0 };
	if (source) {
		const place = original(source, frame.line, frame.column);
		frame.name = source.file;
		frame.line = place[0];
		frame.column = place[1];
	}
	const where = name ? frame.name + ':' + frame.line + ':' + frame.column : '<anonymous>';
	let what = site.getFunctionName() || '';
	if (what && site.isAsync && site.isAsync())
		what = 'async ' + what;
	if (what && site.isConstructor())
		what = 'new ' + what;
	frame.text = what ? '    at ' + what + ' (' + where + ')' : '    at ' + where;
	return frame;
}

function isNode(frame)
{
	return startsWith(frame.name, 'node:');
}

// V8 asks this for the text of a stack. The kernel's own frames are nobody's business.
function prepareStackTrace(error, sites)
{
	let lines = '', inner = '';
	const frames = [];
	for (let i = 0; i < sites.length; i++) {
		const frame = readFrame(sites[i]);
		if (frame.name === __filename || !frame.name)
			continue;
		push(frames, frame);
		// Those of node are told when something of the code called them.
		inner += '\n' + frame.text;
		if (!isNode(frame)) {
			lines += inner;
			inner = '';
		}
	}
	if (error !== null && typeof error === 'object')
		weakSet(framesOf, error, frames);
	let head;
	try {
		head = errorText(error);
	} catch {
		head = 'Error';
	}
	return head + lines;
}

// Code may have one of its own, by whose text it goes; what the frames were is kept all the same.
let ownPrepare = null;

function prepareAnyway(error, sites)
{
	const made = prepareStackTrace(error, sites);
	return ownPrepare ? apply(ownPrepare, SavedError, [error, sites]) : made;
}

defineProperty(Error, 'prepareStackTrace', {
	__proto__: null, configurable: true, enumerable: true, get: () => prepareAnyway,
	set(value) { ownPrepare = typeof value === 'function' && value !== prepareAnyway ? value : null; },
});

function quietly(f, otherwise)
{
	try {
		return f();
	} catch {
		return otherwise;
	}
}

// The stack by this kernel's own hand, whatever else code has put there.
function stackOf(error)
{
	const was = getOwnPropertyDescriptor(SavedError, 'prepareStackTrace');
	const isSet = quietly(() => defineProperty(SavedError, 'prepareStackTrace',
		{ __proto__: null, value: prepareStackTrace, writable: true, configurable: true }), null);
	const stack = quietly(() => error.stack, '');
	if (isSet && was)
		quietly(() => defineProperty(SavedError, 'prepareStackTrace', was));
	return typeof stack === 'string' ? stack : '';
}

function isError(value)
{
	return quietly(() => isNativeError(value) || value instanceof SavedError, false);
}

function textOf(value)
{
	return quietly(() => (typeof value === 'symbol' ? 'Symbol' : text(value)), '');
}

function blockedBy(error)
{
	for (let depth = 0; depth < 10 && error !== null && typeof error === 'object'; depth++) {
		const current = error;
		const code = quietly(() => current.code, '');
		if (typeof code === 'string' && NETWORK[code])
			return true;
		const parts = quietly(() => current.errors);
		if (isArray(parts) && parts.length && depth < 9 && parts[0] !== current && blockedBy(parts[0]))
			return true;
		error = quietly(() => current.cause);
	}
	return false;
}

// What is told of a value that was thrown. The place is the innermost one in code that was given, else in any file.
function describe(value)
{
	const told = { __proto__: null, name: 'Error', message: '', traceback: [] };
	if (!isError(value)) {
		told.message = cut(shown(value), MESSAGE_MAX);
		push(told.traceback, 'Uncaught ' + told.message);
		return told;
	}
	const stack = stackOf(value);
	told.name = cut(textOf(quietly(() => value.name, 'Error')) || 'Error', 200);
	told.message = cut(textOf(quietly(() => value.message, '')), MESSAGE_MAX);
	const frames = weakGet(framesOf, value) || [];
	let at = null;
	push(told.traceback, told.message ? told.name + ': ' + told.message : told.name);
	for (let i = 0; i < min(frames.length, FRAMES_MAX); i++) {
		const frame = frames[i];
		if (isNode(frame))
			continue;
		push(told.traceback, cut(frame.text, 1000));
		if (!at || (!at.source && frame.source))
			at = frame;
	}
	if (at) {
		told.file = at.source ? at.source.file : at.name;
		told.line = at.line;
		told.column = at.column;
	} else {
		placeByText(told, stack);
	}
	told.isBlocked = blockedBy(value);
	told.isTooLong = weakGet(tooLongErrors, value);
	told.isBySignal = quietly(() => value.signal) === 'SIGINT';
	return told;
}

// A stack that code wrote, or that was made before: what names one of its files is worth a look.
function placeByText(told, stack)
{
	const match = exec(/(berth:\d+|[^\s()]+):(\d+):(\d+)\)?$/m, stack);
	if (!match || startsWith(match[1], 'node:') || match[1] === __filename)
		return;
	const source = sources[match[1]];
	const place = source ? original(source, +match[2], +match[3]) : [+match[2], +match[3]];
	told.file = source ? source.file : match[1];
	told.line = place[0];
	told.column = place[1];
}

function syntaxError(call, message, source, place)
{
	const at = original(source, place[0], place[1]);
	const told = plainError('SyntaxError', cut(message, MESSAGE_MAX));
	told.file = call.file;
	told.line = at[0];
	told.column = at[1];
	told.isSyntax = true;
	push(told.traceback, '    at ' + call.file + ':' + at[0] + ':' + at[1]);
	return told;
}

function plainError(name, message)
{
	return { __proto__: null, name, message, traceback: [name + ': ' + message] };
}

function reportError(call, told)
{
	let lines = '';
	for (let i = 0; i < told.traceback.length; i++)
		lines += (i ? ',' : '') + stringify(told.traceback[i]);
	let fields = '"name":' + stringify(told.name) + ',"message":' + stringify(told.message);
	fields += ',"traceback":[' + lines + ']';
	if (told.line > 0)
		fields += ',"file":' + stringify(text(told.file)) + ',"line":' + told.line + ',"column":' + told.column;
	if (told.exitCode)
		fields += ',"exit_code":' + told.exitCode;
	if (told.isSyntax)
		fields += ',"is_syntax":true';
	if (told.isBlocked)
		fields += ',"blocked":"network"';
	if (told.isTooLong)
		fields += ',"too_long":true';
	report(call, '"error":{' + fields + '}');
}

// --- what is shown ---

function shown(value)
{
	let made;
	try {
		made = inspect(value, { __proto__: null, maxStringLength: TEXT_MAX, depth: 4 });
	} catch (error) {
		made = '[' + typeof value + ' that cannot be shown: ' + textOf(error) + ']';
	}
	return typeof made === 'string' ? made : textOf(value);
}

// The JSON of what is nothing but JSON, or undefined: no class, no accessor, nothing left out.
function jsonIfPlain(value)
{
	let left = 100000;
	const isPlain = (item, depth) => {
		if (item === null || typeof item === 'boolean' || typeof item === 'string')
			return (left -= 1 + (typeof item === 'string' ? floor(item.length / 16) : 0)) > 0;
		if (typeof item === 'number')
			return isFinite(item) && left-- > 0;
		if (typeof item !== 'object' || depth >= DEPTH_MAX || isProxy(item) || left-- <= 0)
			return false;
		const proto = getPrototypeOf(item), isList = isArray(item);
		if (proto !== (isList ? arrayPrototype : objectPrototype) && (proto !== null || isList))
			return false;
		if (isList && item.length > left)
			return false;
		const names = ownKeys(item);
		if (isList && names.length !== item.length + 1)
			return false;
		for (let i = 0; i < names.length; i++) {
			const field = getOwnPropertyDescriptor(item, names[i]);
			if (typeof names[i] === 'symbol' || names[i] === 'toJSON' || !('value' in field))
				return false;
			if (field.enumerable && !isPlain(field.value, depth + 1))
				return false;
		}
		return true;
	};
	return quietly(() => (isPlain(value, 0) ? stringify(value) : undefined));
}
function base64Of(value)
{
	if (typeof value === 'string')
		return value;
	if (isView(value))
		return base64(new SavedBytes(value.buffer, value.byteOffset, value.byteLength), 0, value.byteLength);
	return base64(new SavedBytes(value), 0, value.byteLength);
}

// A bundle has fields of a result; json is JSON already.
function reportResult(call, bundle, isValue)
{
	for (;;) {
		let fields = '', largest = '', length = 0;
		for (let i = 0; i < FIELDS.length; i++) {
			const name = FIELDS[i], value = bundle[name];
			if (value === undefined)
				continue;
			const made = name === 'json' ? value : stringify(value);
			fields += (fields ? ',' : '') + '"' + name + '":' + made;
			if (name !== 'text' && made.length > length) {
				largest = name;
				length = made.length;
			}
		}
		if (byteLength(fields) < LINE_MAX - 200) {
			report(call, '"result":{' + fields + (isValue ? ',"is_value":true' : '') + '}');
			return;
		}
		bundle[largest] = undefined;
		bundle.text += '\n[' + largest + ' of ' + length + ' bytes is too large to be shown]';
	}
}

// What an object has to say of itself by [Symbol.for('berth.display')](), by our names or by MIME types.
function addRich(bundle, rich)
{
	const names = ownKeys(rich);
	for (let i = 0; i < names.length; i++) {
		if (typeof names[i] !== 'string')
			continue;
		const name = MIMES[names[i]] || names[i], value = rich[names[i]];
		if (value === undefined)
			continue;
		for (let k = 0; k < FIELDS.length; k++)
			if (FIELDS[k] === name)
				bundle[name] = name === 'json' ? stringify(value)
					: name === 'png' || name === 'jpeg' ? base64Of(value) : text(value);
	}
}

function bundleOf(value)
{
	const bundle = { __proto__: null };
	const isObject = value !== null && (typeof value === 'object' || typeof value === 'function');
	if (isObject && typeof value[DISPLAY] === 'function') {
		const rich = value[DISPLAY]();
		if (rich !== null && typeof rich === 'object')
			addRich(bundle, rich);
	}
	if (bundle.json === undefined)
		bundle.json = jsonIfPlain(value);
	if (bundle.json !== undefined && (bundle.json.length > TEXT_MAX || depthOf(bundle.json) > DEPTH_MAX))
		bundle.json = undefined;
	bundle.text = cut(bundle.text === undefined ? shown(value) : bundle.text, TEXT_MAX);
	return bundle;
}

// Between calls there is nobody to show it to: then it is printed.
function show(bundle)
{
	if (current && !current.outcome)
		reportResult(current, bundle, false);
	else
		writeAll(1, bundle.text + '\n');
}

function display(value, mime)
{
	if (mime === undefined)
		return show(bundleOf(value));
	const name = MIMES[mime];
	if (!name)
		throw new TypeError(`display() knows no ${textOf(mime)}; it knows ${join(keys(MIMES), ', ')}`);
	return displayAs(name, value);
}

function displayAs(name, value)
{
	const bundle = { __proto__: null };
	addRich(bundle, { __proto__: null, [name]: value });
	if (bundle[name] === undefined)
		throw new TypeError(`display.${name}() needs something to show`);
	if (bundle.text === undefined) {
		const isImage = name === 'png' || name === 'jpeg';
		bundle.text = isImage ? '[' + name + ' image]' : name === 'json' ? shown(value) : bundle[name];
	}
	bundle.text = cut(bundle.text, TEXT_MAX);
	show(bundle);
}

for (let i = 1; i < FIELDS.length; i++)
	display[FIELDS[i]] = (value) => displayAs(FIELDS[i], value);

// --- console of a run: what is said there is a report with a level ---

let isRun = false;

function makeConsole()
{
	const kept = globalThis.console;
	let level = 'info';
	const sink = (otherwise) => ({
		write(message) {
			if (current)
				reportLog(current, level || otherwise, message);
			else
				writeAll(otherwise === 'error' ? 2 : 1, message);
			return true;
		},
		on() {}, once() {}, removeListener() {}, listenerCount: () => 0,
	});
	const logging = new kept.Console({ stdout: sink('info'), stderr: sink('error'), ignoreErrors: false });
	// The one that was there also tells the inspector, which keeps messages, with stacks.
	const printing = new kept.Console({ stdout, stderr });
	const levels = { __proto__: null,
		log: 'info', info: 'info', debug: 'debug', trace: 'debug', warn: 'warn', error: 'error',
	};
	const names = keys(logging);
	for (let i = 0; i < names.length; i++) {
		const name = names[i], inRun = logging[name], inCell = printing[name];
		if (typeof inRun !== 'function' || typeof inCell !== 'function' || name === 'Console')
			continue;
		kept[name] = function (...words) {
			if (!isRun)
				return apply(inCell, printing, words);
			const was = level;
			level = levels[name] || '';
			try {
				return apply(inRun, logging, words);
			} finally {
				level = was;
			}
		};
		defineProperty(kept[name], 'name', { __proto__: null, value: name });
	}
}

// As long as all that a run says is said by one of its streams, it goes to the pipe, where also children print. Once there
// is something on the other one, or a message, all is reported: nobody could tell in which order it was said.
let way = '';

function isReported(name)
{
	if (!isRun || !current)
		return false;
	way = way === '' || way === name ? name : 'reports';
	return way === 'reports';
}

function reportOutput(call, name, message)
{
	for (let at = 0; at < message.length;) {
		let end = min(at + TEXT_MAX, message.length);
		const last = codeAt(message, end - 1);
		if (end < message.length && last >= 0xd800 && last < 0xdc00)
			end--; // the first half of a character
		reportMessage(call, name, slice(message, at, end));
		at = end;
	}
}

function reportMessage(call, level, message)
{
	report(call, '"log":{"level":"' + level + '","message":' + stringify(message) + ',"time":' + now() / 1000 + '}');
}

function reportLog(call, level, message)
{
	way = 'reports';
	const line = message.length && message[message.length - 1] === '\n' ? slice(message, 0, -1) : message;
	reportMessage(call, level, cut(line, TEXT_MAX));
}

// --- modules ---

function inDirectory(directory, file)
{
	return startsWith(file, '/') ? file : directory + (directory === '/' ? '' : '/') + file;
}

// import() and require() of a file in the directory, which need not be there.
const places = { __proto__: null };

function placeOf(directory)
{
	if (!places[directory]) {
		const file = inDirectory(directory, '[berth].cjs');
		const module = new Module(file);
		module.filename = file;
		module.paths = Module._nodeModulePaths(directory);
		module._compile('exports.require = require; exports.import = (what, how) => import(what, how);', file);
		places[directory] = module.exports;
	}
	return places[directory];
}

function importHere(what, how, names)
{
	const here = new SavedError('import');
	return new SavedPromise((resolve, reject) => settled(placeOf(cwd()).import(what, how), (namespace) => {
		for (let i = 0; names && i < names.length; i++)
			if (!hasOwn(namespace, names[i]))
				reject(placed(new SyntaxError(
					`The requested module '${what}' does not provide an export named '${names[i]}'`), here));
		resolve(namespace);
	}, (error) => reject(placed(error, here))));
}

// An error of node's own that has no frame of the code is one of where it was asked for.
function placed(error, here)
{
	if (!isError(error))
		return error;
	stackOf(error);
	stackOf(here);
	const frames = weakGet(framesOf, error) || [];
	for (let i = 0; i < frames.length; i++)
		if (!isNode(frames[i]))
			return error;
	weakSet(framesOf, error, weakGet(framesOf, here) || []);
	return error;
}

// What require() of a cell is of, as its directory is.
let cellModule = null;

function makeRequire()
{
	const made = function require(what) { return placeOf(cwd()).require(what); };
	made.resolve = (what, how) => placeOf(cwd()).require.resolve(what, how);
	made.resolve.paths = (what) => placeOf(cwd()).require.resolve.paths(what);
	made.cache = Module._cache;
	made.extensions = Module._extensions;
	made.main = undefined;
	return made;
}

function global(name, value)
{
	defineProperty(root, name, { __proto__: null, value, writable: true, configurable: true });
}

function placeModule(module, file)
{
	module.filename = inDirectory(cwd(), file);
	module.paths = Module._nodeModulePaths(cwd());
}

function newModule(file)
{
	const module = new Module(inDirectory(cwd(), file));
	placeModule(module, file);
	global('module', module);
	global('exports', module.exports);
	return module;
}

// --- preparing code: the parser is only asked when it must be ---

let acorn;

// The tree, or null where the parser does not know the language that V8 knows, or it is no code at all.
function treeOf(code)
{
	try {
		acorn = acorn || requireHere('internal/deps/acorn/acorn/dist/acorn');
		return acorn.parse(code, {
			ecmaVersion: 'latest', sourceType: 'script', allowHashBang: true,
			allowAwaitOutsideFunction: true, allowImportExportEverywhere: true,
		});
	} catch {
		return null;
	}
}

function importText(node, isChecked)
{
	let whole = '', fields = '', names = '';
	for (let i = 0; i < node.specifiers.length; i++) {
		const one = node.specifiers[i];
		if (one.type === 'ImportNamespaceSpecifier') {
			whole = one.local.name;
			continue;
		}
		const isDefault = one.type === 'ImportDefaultSpecifier';
		const name = stringify(isDefault ? 'default' : one.imported.name || one.imported.value);
		fields += (fields && ', ') + name + ': ' + one.local.name;
		names += (names && ', ') + name;
	}
	const made = '$berth(' + node.source.raw + (isChecked && names ? ', undefined, [' + names + ']' : '') + ')';
	if (whole)
		return 'let ' + whole + ' = await ' + made + (fields ? ', {' + fields + '} = ' + whole : '') + ';';
	return fields ? 'let {' + fields + '} = await ' + made + ';' : 'void await ' + made + ';';
}

function blank(code, start, end)
{
	let made = '';
	for (let i = start; i < end; i++)
		made += code[i] === '\n' ? '\n' : ' ';
	return newEdit(start, end, made);
}

// What is exported without a name is an expression, and not what the line before goes on with.
function exportEdits(code, node, edits)
{
	const declared = node.declaration, edit = blank(code, node.start, declared ? declared.start : node.end);
	push(edits, edit);
	if (!declared || !exec(/^(Function|Class)Declaration$/, declared.type) || declared.id)
		return;
	edit.text = ';(' + slice(edit.text, 2);
	push(edits, newEdit(declared.end, declared.end, ');'));
}

// What stands in the middle of a cell that is a module, for one that is none. "import" and "$berth" are of one length.
function importEdits(code, tree, edits, isChecked)
{
	const visit = (node) => {
		if (node.type === 'ImportDeclaration') {
			push(edits, newEdit(node.start, node.end, importText(node, isChecked)));
			return;
		}
		if (node.type === 'ImportExpression' || node.type === 'MetaProperty' && node.meta.name === 'import')
			push(edits, newEdit(node.start, node.start + 6, '$berth'));
		if (node.type === 'ExportNamedDeclaration' || node.type === 'ExportDefaultDeclaration')
			exportEdits(code, node, edits);
		const names = keys(node);
		for (let i = 0; i < names.length; i++) {
			const value = node[names[i]];
			if (isArray(value)) {
				for (let k = 0; k < value.length; k++)
					if (value[k] && typeof value[k].type === 'string')
						visit(value[k]);
			} else if (value && typeof value === 'object' && typeof value.type === 'string') {
				visit(value);
			}
		}
	};
	visit(tree);
}

function hasExports(tree)
{
	for (let i = 0; i < tree.body.length; i++)
		if (startsWith(tree.body[i].type, 'Export'))
			return true;
	return false;
}

function addNames(pattern, names)
{
	if (!pattern)
		return;
	if (pattern.type === 'Identifier')
		names[pattern.name] = true;
	const parts = pattern.properties || pattern.elements || [];
	for (let i = 0; i < parts.length; i++)
		addNames(parts[i], names);
	if (pattern.type === 'Property')
		addNames(pattern.value, names);
	else if (pattern.type === 'AssignmentPattern')
		addNames(pattern.left, names);
	else
		addNames(pattern.argument, names);
}

// V8 lets no name become a var or a function that was a let, const or class before, or the other way round. So it is
// declared here as what it was. False if the name is not declared at the top.
function kindEdits(code, tree, name, edits)
{
	let isFound = false;
	const wasVar = own(getOwnPropertyDescriptor(root, name), 'configurable') === false;
	for (let i = 0; i < tree.body.length; i++) {
		let node = tree.body[i];
		if (node.type === 'ForStatement' && node.init)
			node = node.init;
		else if (node.type === 'ForInStatement' || node.type === 'ForOfStatement')
			node = node.left;
		const names = { __proto__: null };
		if (node.type === 'VariableDeclaration')
			for (let k = 0; k < node.declarations.length; k++)
				addNames(node.declarations[k].id, names);
		else if (node.type === 'ClassDeclaration' || node.type === 'FunctionDeclaration')
			names[node.id.name] = true;
		if (!names[name] || (node.type === 'VariableDeclaration') && (node.kind === 'var') !== !wasVar)
			continue;
		const edit = newEdit(node.start, node.start, '');
		if (node.type === 'VariableDeclaration') {
			edit.end += node.kind.length;
			edit.text = (wasVar ? 'var' : isFound ? '' : 'let') + (node.kind === 'const' ? '  ' : '');
		} else if (node.type === (wasVar ? 'ClassDeclaration' : 'FunctionDeclaration')) {
			edit.text = (wasVar ? 'var ' : isFound ? '' : 'let ') + name + ' = ';
			push(edits, newEdit(node.end, node.end, ';'));
		} else {
			continue;
		}
		isFound = true;
		push(edits, edit);
	}
	return isFound;
}

// A const stays one in V8, whatever is declared later. So those at the top are let: the price of declaring them again as
// something that changes.
function constEdits(tree, edits)
{
	const taken = { __proto__: null };
	for (let i = 0; i < edits.length; i++)
		taken[edits[i].start] = edits[i].end > edits[i].start;
	for (let i = 0; i < tree.body.length; i++) {
		const node = tree.body[i].type === 'ExportNamedDeclaration' ? tree.body[i].declaration : tree.body[i];
		if (node && node.type === 'VariableDeclaration' && node.kind === 'const' && !taken[node.start])
			push(edits, newEdit(node.start, node.start + 5, 'let  '));
	}
}

// What V8 is to be given for a piece of code. Conflicts are names that it would not take in their kind.
function prepared(call, source, code, conflicts)
{
	if (!conflicts.length && !exec(/\b(import|export|const)\b/, code))
		return code;
	const tree = treeOf(code), edits = [];
	if (!tree)
		return code;
	importEdits(code, tree, edits, call.language !== 'typescript');
	for (let i = 0; i < conflicts.length; i++)
		if (!kindEdits(code, tree, conflicts[i], edits))
			return code;
	constEdits(tree, edits);
	if (!edits.length)
		return code;
	const made = applyEdits(code, edits);
	push(source.maps, throughEdits(code, made, edits));
	return made;
}

// --- TypeScript ---

const OPTIONS = ['--loader=ts', '--sourcemap=inline', '--target=es2022', '--charset=utf8',
	'--log-level=error', '--color=false'];
// What a cell imports is for later ones, too; they would go as unused.
const KEPT = '--tsconfig-raw={"compilerOptions":{"preserveValueImports":true,"verbatimModuleSyntax":true}}';
const KEEPING_OPTIONS = [...OPTIONS, KEPT];
const JSX_OPTIONS = ['--loader=tsx', '--log-level=error', '--color=false'];

// What esbuild makes of it, in the words of spawnSync().
function runEsbuild(code, options)
{
	return spawnSync('esbuild', options, { __proto__: null, input: code, encoding: 'utf8', maxBuffer: 64 * LINE_MAX });
}

// Why it is no TypeScript. With JSX the reasons are odd ones; what is right with it tells that it was meant.
function failTranspiled(call, source, code, made)
{
	const match = exec(/\[ERROR\] ([^\n]*)[\s\S]*?<stdin>:(\d+):(\d+):/, made.stderr);
	if (!match) {
		fail(call, plainError('Error', 'esbuild failed: ' + cut(made.stderr, 2000)));
		return;
	}
	const isJsx = exec(/<[A-Za-z>]/, code) && own(runEsbuild(code, JSX_OPTIONS), 'status') === 0;
	const why = isJsx ? 'JSX is not supported here: write calls, such as createElement(), in its place' : match[1];
	fail(call, syntaxError(call, why, source, [+match[2], +match[3] + 1]));
}

// The JavaScript of it, or null when the call has failed.
function transpiled(call, source, code)
{
	const made = runEsbuild(code, call.kind === 'code' ? KEEPING_OPTIONS : OPTIONS);
	if (hasSignal() || own(made, 'signal') === 'SIGINT') {
		interrupt(call);
		return null;
	}
	if (own(made, 'error')) {
		const isMissing = own(made.error, 'code') === 'ENOENT';
		fail(call, plainError('Error', isMissing
			? 'There is no esbuild in this sandbox, which TypeScript needs: install it, or write JavaScript.'
			: 'esbuild cannot be run: ' + textOf(made.error)));
		return null;
	}
	if (made.status !== 0) {
		failTranspiled(call, source, code, made);
		return null;
	}
	const at = lastIndexOf(made.stdout, '//# sourceMappingURL=');
	if (at < 0)
		return made.stdout;
	const comma = indexOf(made.stdout, ',', at);
	const map = parse(bufferOf(slice(made.stdout, comma + 1), 'base64').toString());
	push(source.maps, throughMappings(own(map, 'mappings')));
	return slice(made.stdout, 0, at);
}

// --- the course of a call ---

let current = null;
let isOnStack = false; // a call runs within phase()
let step = null;
let lastLoad = null;

const runner = new vm.Script('$berth.step()', { filename: __filename });
const runHere = vm.Script.prototype.runInThisContext;

// Runs the function where a signal ends it. True if one did.
function phase(f)
{
	step = f;
	isOnStack = true;
	try {
		apply(runHere, runner, [{ __proto__: null, breakOnSigint: true }]);
		return false;
	} catch (error) {
		if (own(error, 'code') === 'ERR_SCRIPT_EXECUTION_INTERRUPTED')
			return true;
		onUncaught(error);
		return false;
	} finally {
		isOnStack = false;
		step = null;
	}
}

// What is to happen next has happened, unless it waits for something outside.
function settle()
{
	for (let i = 0; i < 1000; i++) {
		try {
			tick();
			return;
		} catch (error) {
			onUncaught(error);
		}
	}
}

function start(call, f)
{
	let isInterrupted = phase(() => {
		try {
			f();
		} catch (error) {
			fail(call, describe(error));
		}
		settle();
	});
	isInterrupted = isInterrupted || hasSignal();
	if (isInterrupted && !call.outcome) {
		isOnStack = true;
		interrupt(call);
		drain();
		isOnStack = false;
	}
	if (call.outcome)
		complete(call);
	else
		watch(call);
}

// What a call that was ended had still to do at once is not done behind its back, where no signal ends it.
function drain()
{
	step = settle;
	try {
		apply(runHere, runner, [{ __proto__: null, timeout: 100 }]);
	} catch {
		// It was more than that: V8 has dropped the rest.
	}
	step = null;
}

// Everything that ends a call goes through here, once; what code still does afterwards is nobody's.
function end(call, outcome)
{
	if (call.outcome)
		return;
	call.outcome = outcome;
	if (!isOnStack)
		complete(call);
}

function fail(call, told)
{
	if (call.outcome)
		return;
	if (told.isBySignal && isSignalled(call)) {
		interrupt(call);
		return;
	}
	if (call.exit) {
		endByExit(call);
		return;
	}
	call.told = told;
	end(call, 'error');
}

function succeed(call)
{
	if (call.exit)
		endByExit(call);
	else
		end(call, 'ok');
}

function endByExit(call)
{
	if (call.outcome)
		return;
	if (call.exit.exitCode)
		call.told = call.exit;
	end(call, call.told ? 'error' : 'ok');
}

function interrupt(call)
{
	if (call.outcome)
		return;
	call.told = plainError('Interrupted', 'The call was interrupted.');
	end(call, 'interrupted');
}

function complete(call)
{
	unwatch();
	if (call.told)
		reportError(call, call.told);
	flush(call);
}

// Only a signal can have left something behind in a pipe that blocks.
function flush(call)
{
	for (let i = 0; i < pipes.length; i++)
		if (pipes[i].writeQueueSize > 0) {
			setTimeout(flush, 1, call);
			return;
		}
	report(call, '"done":"' + call.outcome + '"');
	current = null;
	next();
}

// Whether what has thrown it was begun by an earlier call, and is none of this one's business. Timers and their like have
// numbers, which rise. A promise that nobody waits for has none: it counts by the code that has made the error.
function isOfBefore(call, error)
{
	const id = isOnStack ? 0 : executionAsyncId();
	// What a run begins while it is loaded is its own all the time.
	const isLoads = call.kind === 'invoke' && id <= lastLoad.firstInvoke;
	if (isOnStack || id > 1)
		return id > 1 && id <= call.firstId && !isLoads;
	const frames = weakGet(framesOf, error) || [];
	let isFound = false;
	for (let i = 0; i < frames.length; i++)
		if (frames[i].source) {
			isFound = true;
			if (frames[i].source.url === SCHEME + call.number)
				return false;
		}
	return isFound && call.kind === 'code';
}

function onUncaught(error)
{
	if (error !== null && typeof error === 'object' && error === exitSign)
		return;
	const told = describe(error);
	if (current && !current.outcome && !isOfBefore(current, error)) {
		fail(current, told);
		return;
	}
	writeAll(2, (isError(error) ? 'Uncaught ' : '') + join(told.traceback, '\n') + '\n');
}

// --- V8's REPL mode ---

// V8 puts the value of code in an object, with which it resolves a promise: if code has given all objects a `then`, that is
// called, and the value is gone. So that object does not have it. It is too late for the call that does so itself.
const BOX = '.repl_result';
let shield = null;

function hasForeignThen()
{
	const found = getOwnPropertyDescriptor(objectPrototype, 'then');
	return found !== undefined && (own(found, 'get') !== shield || !shield);
}

function shieldThen()
{
	if (!hasForeignThen())
		return;
	const found = getOwnPropertyDescriptor(objectPrototype, 'then'), getter = own(found, 'get'), setter = own(found, 'set');
	let value = own(found, 'value');
	shield = function () {
		return hasOwn(this, BOX) ? undefined : getter ? apply(getter, this, []) : value;
	};
	quietly(() => defineProperty(objectPrototype, 'then', {
		__proto__: null, configurable: true, enumerable: found.enumerable, get: shield,
		set(given) {
			if (setter)
				apply(setter, this, [given]);
			else if (this === objectPrototype)
				value = given;
			else
				define(this, 'then', given);
		},
	}));
}

const waiting = { __proto__: null };
let messages = 0;

const connection = new inspector.Connection((message) => {
	const answer = parse(message), id = own(answer, 'id');
	const f = id === undefined ? null : waiting[id];
	if (f) {
		delete waiting[id];
		f(own(answer, 'result'));
	}
});
const dispatch = uncurry(connection.dispatch);

function ask(method, params, f)
{
	messages++;
	if (f)
		waiting[messages] = f;
	dispatch(connection, '{"id":' + messages + ',"method":"Runtime.' + method + '","params":{' + params + '}}');
}

// Gives the value itself to f: what V8 tells of it is a name for it.
let taken = null;

function take(remote, f)
{
	let argument = '{}';
	// A string has come as it is; to send it back takes seconds, if it is a large one.
	if (typeof own(remote, 'value') === 'string') {
		f(remote.value);
		return;
	}
	if (hasOwn(remote, 'objectId'))
		argument = '{"objectId":' + stringify(remote.objectId) + '}';
	else if (hasOwn(remote, 'unserializableValue'))
		argument = '{"unserializableValue":' + stringify(remote.unserializableValue) + '}';
	else if (hasOwn(remote, 'value'))
		argument = '{"value":' + stringify(remote.value) + '}';
	taken = f;
	ask('callFunctionOn', '"functionDeclaration":"function(v){$berth.take(v)}",' +
		'"executionContextId":1,"silent":true,"arguments":[' + argument + ']', null);
	if (hasOwn(remote, 'objectId'))
		ask('releaseObjectGroup', '"objectGroup":"berth"', null);
}

// Evaluates, and tells onValue(value) once it has come to its end.
function evaluate(call, source, code, onValue, conflicts = [])
{
	const maps = source.maps.length;
	const made = prepared(call, source, code, conflicts);
	ask('evaluate', '"replMode":true,"awaitPromise":true,"silent":true,"objectGroup":"berth","expression":' +
		stringify(made + '\n//# sourceURL=' + source.url), (answer) => {
		if (call.outcome)
			return;
		const details = own(answer, 'exceptionDetails'), remote = own(answer, 'result');
		if (!remote) {
			failUnseen(call, 'it broke promises');
			return;
		}
		if (!details) {
			call.isLost = own(remote, 'type') === 'undefined' && hasForeignThen();
			take(remote, (value) => onResult(call, value, onValue));
			return;
		}
		const thrown = own(details, 'exception') || remote;
		take(thrown, (error) => {
			// Of code that was compiled, the position is where it is thrown; else it is that of the mistake.
			const isSyntax = hasOwn(details, 'scriptId') && !hasOwn(details, 'stackTrace');
			if (!isSyntax || own(thrown, 'className') !== 'SyntaxError') {
				fail(call, describe(error));
				return;
			}
			const message = textOf(quietly(() => error.message, 'It cannot be read'));
			const match = exec(/^Identifier '(.+)' has already been declared$/, message);
			const isOfBefore = match && details.lineNumber === 0 && details.columnNumber === 0;
			if (isOfBefore && conflicts.length < 50 && !call.conflicts[match[1]]) {
				call.conflicts[match[1]] = true;
				source.maps.length = maps;
				push(conflicts, match[1]);
				evaluate(call, source, code, onValue, conflicts);
				return;
			}
			fail(call, syntaxError(call, message, source, [details.lineNumber + 1, details.columnNumber + 1]));
		});
	});
}

function failUnseen(call, why)
{
	fail(call, plainError('Error', 'The code has run, but what came of it cannot be seen: ' + why + '.'));
}

// A promise that is the last expression is waited for: nobody could do anything with it.
function onResult(call, value, onValue)
{
	if (!isPromise(value)) {
		finishWith(call, value, onValue);
		return;
	}
	settled(value, (final) => finishWith(call, final, onValue), (error) => fail(call, describe(error)));
}

function finishWith(call, value, onValue)
{
	if (call.outcome)
		return;
	try {
		onValue(value);
	} catch (error) {
		fail(call, describe(error));
	}
}

// --- orders ---

function onCode(call, source, code)
{
	isRun = false;
	evaluate(call, source, code, (value) => {
		if (call.isLost)
			failUnseen(call, 'it gave all objects a `then`');
		if (value !== undefined && !call.exit)
			reportResult(call, bundleOf(value), true);
		succeed(call);
	});
}

function onLoad(call, source, code)
{
	isRun = true;
	lastLoad = { __proto__: null, target: null, value: undefined, env: call.env, hasEnv: call.hasEnv, firstInvoke: 0 };
	global('env', call.env);
	const tree = exec(/\bexport\b/, code) ? treeOf(code) : null;
	const isModule = tree ? hasExports(tree) : exec(/^[ \t]*export[ \t{*]/m, code) !== null;
	if (isModule)
		loadModule(call, source, code);
	else
		loadScript(call, source, code);
}

// What it exports as a function, or as an object with a function fetch.
function targetOf(exported)
{
	const candidates = [exported, quietly(() => exported.default), quietly(() => exported.main)];
	for (let i = 0; i < candidates.length; i++) {
		const candidate = candidates[i];
		if (typeof candidate === 'function')
			return candidate;
		if (candidate && typeof candidate === 'object' && typeof quietly(() => candidate.fetch) === 'function')
			return candidate;
	}
	return null;
}

function loadScript(call, source, code)
{
	const module = newModule(call.file);
	// Compiled for a look first: what is no code at all is not begun with.
	const looked = '(async () => {' + prepared(call, { maps: [] }, code, []) + '\n})';
	const isFine = quietly(() => Boolean(new vm.Script(looked, { filename: source.url })), false);
	if (isFine)
		report(call, '"checked":true');
	evaluate(call, source, code, (value) => {
		if (!call.exit) {
			lastLoad.value = value;
			lastLoad.target = targetOf(module.exports);
			if (call.isLost && !lastLoad.target)
				failUnseen(call, 'it gave all objects a `then`');
		}
		succeed(call);
	});
}

function loadModule(call, source, code)
{
	let made;
	try {
		made = new vm.SourceTextModule(code, {
			identifier: source.url,
			importModuleDynamically: (what, _, how) =>
				importHere(what, how && keys(how).length ? { assert: how, with: how } : undefined),
			initializeImportMeta: (meta) => addMeta(meta, call.file),
		});
	} catch (error) {
		const match = exec(/^[^\n]*:(\d+)\n[^\n]*\n(\s*)\^/, decorated(error));
		const at = match ? [+match[1], match[2].length + 1] : [1, 1];
		fail(call, syntaxError(call, textOf(quietly(() => error.message)), source, at));
		return;
	}
	report(call, '"checked":true');
	const onError = (error) => fail(call, describe(error));
	settled(made.link(linkTo), () => settled(made.evaluate(), () => {
		if (!call.exit)
			lastLoad.target = targetOf(made.namespace);
		succeed(call);
	}, onError), onError);
}

// Where a module cannot be read is only told in what node puts before the stack, if it is asked to.
function decorated(error)
{
	quietly(() => requireHere('internal/util').decorateErrorStack(error));
	return stackOf(error);
}

function linkTo(what)
{
	return new SavedPromise((resolve, reject) => settled(importHere(what), (namespace) => {
		const names = keys(namespace);
		resolve(new vm.SyntheticModule(names, function () {
			for (let i = 0; i < names.length; i++)
				this.setExport(names[i], namespace[names[i]]);
		}, { identifier: SCHEME + what }));
	}, reject));
}

function addMeta(meta, file)
{
	meta.filename = inDirectory(cwd(), file);
	meta.dirname = cwd();
	meta.url = url.pathToFileURL(meta.filename).href;
	meta.resolve = (what) => url.pathToFileURL(placeOf(cwd()).require.resolve(what)).href;
	return meta;
}

function onInvoke(call, what)
{
	isRun = true;
	if (!lastLoad) {
		fail(call, plainError('Error', 'Nothing was loaded that could be invoked.'));
		return;
	}
	lastLoad.firstInvoke = lastLoad.firstInvoke || call.firstId;
	const { target, env, hasEnv } = lastLoad, request = own(what, 'request');
	if (target && typeof target !== 'function' || target && request && typeof target.fetch === 'function') {
		fetchBy(call, target, request, env);
		return;
	}
	if (!target) {
		reportValue(call, lastLoad.value);
		return;
	}
	const args = [], input = own(what, 'input');
	if (isArray(input))
		for (let i = 0; i < input.length; i++)
			push(args, input[i]);
	else if (hasOwn(what, 'input'))
		push(args, input);
	// Behind what is given, if there is one to give, or if an argument is missing.
	if (hasEnv || quietly(() => target.length, 0) > args.length)
		push(args, env);
	onResultOf(call, apply(target, undefined, args), (value) => reportValue(call, value));
}

function onResultOf(call, made, onValue)
{
	settled(made, (value) => finishWith(call, value, onValue), (error) => fail(call, describe(error)));
}

function fetchBy(call, handler, asked, env)
{
	if (!asked || typeof asked !== 'object') {
		fail(call, plainError('TypeError', 'What the code exports is a handler of requests: give it a request.'));
		return;
	}
	const body = hasOwn(asked, 'body_base64') ? bufferOf(text(asked.body_base64), 'base64') : own(asked, 'body');
	const request = new Request(new URL(text(own(asked, 'url') || '/'), 'http://localhost'), {
		__proto__: null, method: own(asked, 'method') || 'GET', headers: own(asked, 'headers') || {},
		body: body === null ? undefined : typeof body === 'object' && !isView(body) ? stringify(body) : body,
	});
	const later = [];
	const ctx = { waitUntil(promise) { push(later, promise); }, passThroughOnException() {}, props: {} };
	onResultOf(call, apply(handler.fetch, handler, [request, env, ctx]), (response) => {
		if (response === null || typeof response !== 'object' || typeof response.arrayBuffer !== 'function')
			throw new TypeError('fetch() gave no Response, but ' + cut(shown(response), 200));
		onResultOf(call, response.arrayBuffer(), (bytes) => {
			reportResponse(call, response, new SavedBytes(bytes));
			waitFor(call, later, 0);
		});
	});
}

function reportResponse(call, response, bytes)
{
	const headers = { __proto__: null };
	response.headers.forEach((value, name) => { headers[name] = value; });
	const body = utf8(bytes, 0, bytes.length);
	// Bytes that are no text have become others.
	const isText = byteLength(body) === bytes.length && indexOf(body, '\ufffd') < 0;
	sendValue(call, '{"status":' + +response.status + ',"headers":' + stringify(headers) +
		(isText ? ',"body":' + stringify(body) : ',"body_base64":"' + base64(bytes, 0, bytes.length) + '"') + '}');
}

// What is to be done behind the response, one by one; more may be added meanwhile.
function waitFor(call, later, i)
{
	if (i >= later.length) {
		succeed(call);
		return;
	}
	settled(later[i], () => waitFor(call, later, i + 1), (error) => {
		reportLog(call, 'error', 'waitUntil: ' + join(describe(error).traceback, '\n'));
		waitFor(call, later, i + 1);
	});
}

// What stringify() would turn into something else without a word, or null.
function formless(item)
{
	if (typeof item === 'number')
		return isFinite(item) ? null : text(item);
	if (typeof item === 'bigint')
		return 'a BigInt';
	if (typeof item === 'function' || typeof item === 'symbol')
		return 'a ' + typeof item;
	if (item === null || typeof item !== 'object')
		return null;
	const proto = getPrototypeOf(item);
	if (proto === objectPrototype || proto === arrayPrototype)
		return null;
	for (let i = 0; i < FORMLESS.length; i++)
		if (FORMLESS[i].test(item))
			return FORMLESS[i].name;
	return null;
}

function isHalved(value)
{
	const json = stringify(value);
	return mended(json) !== json;
}

// Of the names on the way to a value: ".a[0]".
function pathOf(names, holders, depth)
{
	let path = '';
	for (let i = 1; i <= depth; i++)
		path += isArray(holders[i]) ? '[' + names[i] + ']' : exec(/^[A-Za-z_$][\w$]*$/, names[i])
			? '.' + names[i] : '[' + mended(stringify(names[i])) + ']';
	return cut(path, 200);
}

// JSON of a value in which nothing was lost, or an error that says what and where. isByText: halves of characters are
// looked for, which takes its time.
function jsonOf(value, isByText = false)
{
	// Those that hold the item which is looked at, and the names by which they do.
	const holders = { __proto__: null }, names = { __proto__: null };
	let depth = -1;
	const json = stringify(value, function (name, item) {
		while (depth >= 0 && holders[depth] !== this)
			depth--;
		if (depth < 0)
			holders[depth = 0] = this;
		names[depth] = name;
		const isText = isByText && (isHalved(name) || typeof item === 'string' && isHalved(item));
		const what = isText ? 'half of a character (a lone surrogate)' : formless(item);
		if (what) {
			const path = pathOf(names, holders, depth);
			throw new TypeError(`The value ${path ? 'holds, at ' + path + ',' : 'is'} ${what}, which JSON cannot hold.`);
		}
		if (item !== null && typeof item === 'object')
			holders[++depth] = item;
		return item;
	});
	if (json !== undefined && !isByText && mended(json) !== json)
		return jsonOf(value, true);
	return json;
}

function reportValue(call, value)
{
	if (call.exit) {
		endByExit(call);
		return;
	}
	const json = jsonOf(value);
	if (json === undefined)
		report(call, '"value":null,"nothing":true');
	else
		sendValue(call, json);
	succeed(call);
}

function tooLong(message)
{
	const error = new RangeError(message);
	weakSet(tooLongErrors, error, true);
	return error;
}

function sendValue(call, json)
{
	const length = byteLength(json);
	if (length > LINE_MAX - 200)
		throw tooLong(`The value is ${length} bytes of JSON, and may have ${LINE_MAX - 200}.`);
	if (depthOf(json) > DEPTH_MAX)
		throw new RangeError(`The value is nested deeper than ${DEPTH_MAX}.`);
	report(call, '"value":' + json);
}

// What is true of a call before its code begins.
function prepareCall(call, order)
{
	const directory = own(order, 'cwd'), env = own(order, 'env');
	call.hasEnv = env !== undefined;
	if (directory !== undefined)
		chdir(directory);
	if (env) {
		const names = keys(env);
		for (let i = 0; i < names.length; i++) {
			variables[names[i]] = env[names[i]];
			define(call.env, names[i], env[names[i]]);
		}
	}
	// The global object may be frozen, and all of node that these use broken; code that does not ask for them can do without.
	quietly(() => global('__dirname', cwd()));
	quietly(() => global('__filename', inDirectory(cwd(), call.file)));
	quietly(() => placeModule(cellModule, call.file));
	quietly(() => addMeta(meta, call.file));
}

function takeOrder(order)
{
	const kind = hasOwn(order, 'code') ? 'code' : hasOwn(order, 'load') ? 'load' : 'invoke';
	const language = own(order, 'language') || 'javascript', number = own(order, 'call');
	const ending = language === 'typescript' ? '.ts' : '.js';
	const call = {
		__proto__: null, number: +number, kind, language, outcome: '', told: null, exit: null, env: {}, hasEnv: false,
		file: own(order, 'file') || (kind === 'load' ? 'main' : 'cell-' + number) + ending,
		isLost: false, firstId: newAsyncId(), conflicts: { __proto__: null }, signals: load(shared, SIGNALS),
	};
	current = call;
	forgetSignal();
	shieldThen();
	try {
		prepareCall(call, order);
	} catch (error) {
		fail(call, describe(error));
		return;
	}
	if (kind === 'invoke') {
		start(call, () => onInvoke(call, order.invoke));
		return;
	}
	const given = order[kind], source = newSource(call, given);
	const code = language === 'typescript' ? transpiled(call, source, given) : given;
	if (code !== null)
		start(call, () => (kind === 'load' ? onLoad : onCode)(call, source, code));
}

const queue = [];
let first = 0;

let isTaking = false;

// One order after the other; those that come to their end at once do not pile up on the stack.
function next()
{
	if (isTaking)
		return;
	isTaking = true;
	while (!current && first < queue.length) {
		const line = queue[first];
		queue[first++] = undefined;
		if (codeAt(line, line.length - 1) !== CANCELLED)
			takeOrder(parse(line));
	}
	isTaking = false;
	if (first === queue.length)
		queue.length = first = 0;
}

let parts = [], partsLength = 0;

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
	next();
};

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

// --- signals ---

const { startSigintWatchdog: arm, stopSigintWatchdog: disarm, watchdogHasPendingSigint: hasSignal } = contextify;

function forgetSignal()
{
	arm();
	disarm();
}

// A child that was ended by it may be seen before it is: then it comes in a moment.
function isSignalled(call)
{
	for (let i = 0; i < 20; i++) {
		if (hasSignal() || load(shared, SIGNALS) !== call.signals)
			return true;
		wait(shared, HEARD, load(shared, HEARD), 5);
	}
	return false;
}

// Shared with the watcher: what this thread is at, how often it has heard of it, the call, and how many signals it saw.
const AT = 0, HEARD = 1, CALL = 2, SIGNALS = 3;
const KERNEL = 0, WAITS = 1, IS_ENDED = 2;
const shared = new Int32Array(new SharedArrayBuffer(16));
let watcher = null;

// Runs in a thread of its own. Who is told of a signal, and does not hear of it for a while, is busy: it is ended where
// it is, unless it has just come back to the kernel.
const WATCHER = `
const { parentPort, workerData: shared } = require('worker_threads');
const { Session } = require('inspector');
const vm = require('vm');
const { startSigintWatchdog, stopSigintWatchdog, watchdogHasPendingSigint } = process.binding('contextify');
globalThis.nothing = new Int32Array(new SharedArrayBuffer(4));
const script = new vm.Script('Atomics.wait(nothing, 0, 0)');
function listen() {
	try {
		if (!watchdogHasPendingSigint())
			script.runInThisContext({ breakOnSigint: true });
	} catch {}
	startSigintWatchdog();
	stopSigintWatchdog();
	Atomics.add(shared, ${SIGNALS}, 1);
	const call = Atomics.load(shared, ${CALL});
	if (Atomics.load(shared, ${AT}) !== ${WAITS})
		return setImmediate(listen);
	const heard = Atomics.load(shared, ${HEARD});
	parentPort.postMessage({ call, isEnded: false });
	Atomics.wait(shared, ${HEARD}, heard, 100);
	if (Atomics.load(shared, ${HEARD}) !== heard || Atomics.load(shared, ${CALL}) !== call ||
	    Atomics.compareExchange(shared, ${AT}, ${WAITS}, ${IS_ENDED}) !== ${WAITS})
		return setImmediate(listen);
	const session = new Session();
	session.connectToMainThread();
	session.post('Runtime.terminateExecution', () => {
		session.disconnect();
		Atomics.store(shared, ${AT}, ${KERNEL});
		parentPort.postMessage({ call, isEnded: true });
		setImmediate(listen);
	});
}
parentPort.on('message', () => {});
listen();
`;

function watch(call)
{
	store(shared, CALL, call.number);
	store(shared, AT, WAITS);
	if (!watcher)
		quietly(startWatcher);
}

function startWatcher()
{
	const { Worker } = requireHere('worker_threads');
	watcher = new Worker(WATCHER, {
		eval: true, workerData: shared, execArgv: [], env: {}, name: 'berth',
		resourceLimits: { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 16 },
	});
	watcher.on('message', onSignal);
	watcher.on('error', () => { watcher = null; });
	watcher.unref();
}

// Back in the kernel; whoever was to be ended is ended here, where nothing is half done.
function unwatch()
{
	if (compareExchange(shared, AT, WAITS, KERNEL) === IS_ENDED)
		while (load(shared, AT) === IS_ENDED);
	store(shared, AT, KERNEL);
}

function onSignal(told)
{
	store(shared, HEARD, load(shared, HEARD) + 1);
	notify(shared, HEARD);
	if (!current || current.number !== told.call)
		return;
	if (current.outcome && told.isEnded)
		complete(current);
	else
		interrupt(current);
}

// Listeners of code would take the signal away from node's thread.
function keepSignal()
{
	for (const listening of process.listeners('newListener')) {
		process.removeListener('newListener', listening);
		process.on('newListener', function (name, listener) {
			if (name !== 'SIGINT')
				apply(listening, this, [name, listener]);
		});
	}
}

// --- the end that code asks for ---

const exitSign = freeze({ __proto__: null, name: 'Exit' });

// As node itself would end.
function statusOf(code)
{
	const given = code === undefined || code === null ? quietly(() => process.exitCode) : code;
	const number = given === undefined || given === null ? 0 : toNumber(given);
	return isFinite(number) ? number & 0xff : 1;
}

// Ends the call, not the kernel: what was declared stays. Without a failure that is no error.
function exit(code)
{
	const call = current, status = quietly(() => statusOf(code), 1);
	const message = `process.exit(${code === undefined ? '' : textOf(code)}) was called: exit status ${status}`;
	if (call && !call.outcome) {
		// The first one counts; this one may have caught its sign.
		if (!call.exit) {
			call.exit = plainError('ProcessExit', message);
			call.exit.exitCode = status;
		}
		setImmediate(() => endByExit(call));
	} else if (status) {
		writeAll(2, message + '\n');
	}
	throw exitSign;
}

// --- the beginning ---

const meta = { __proto__: null };

function makeGlobals()
{
	const berth = (what, how, names) => importHere(what, how, names);
	berth.meta = meta;
	berth.step = () => { if (step) step(); };
	berth.take = (value) => {
		const f = taken;
		taken = null;
		if (f)
			f(value);
	};
	hidden('$berth', freeze(berth));
	global('require', makeRequire());
	global('display', display);
	cellModule = newModule('[berth]');
}

function keepAlive()
{
	process.exit = exit;
	process.reallyExit = exit;
	process.setUncaughtExceptionCaptureCallback(onUncaught);
	const { emitWarning } = process;
	process.emitWarning = function (...words) {
		// Of what this kernel uses itself.
		if (words[1] !== 'ExperimentalWarning' || !/^VM Modules /.test(words[0]))
			return apply(emitWarning, process, words);
	};
	process.execArgv = [];
	process.argv = [process.argv[0], ''];
}

arm();
keepSignal();
for (const stream of [stdout, stderr])
	if (stream._handle && stream._handle.setBlocking)
		makeDirect(stream, stream._handle, stream === stdout ? 'stdout' : 'stderr');
makeGlobals();
makeConsole();
keepAlive();
send('{"ready":true,"language":"javascript","version":' + stringify(process.versions.node) + ',"pid":' + process.pid + '}');
orders.readStart();
