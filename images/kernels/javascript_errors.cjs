// A part of javascript.cjs: what is told of an error, and where it was.

'use strict';

const {
	apply, defineProperty, getOwnPropertyDescriptor, isArray, min, text, stringify, push, startsWith, endsWith, exec,
	weakGet, weakSet, SavedError, errorText, isNativeError, quietly,
} = require('./javascript_saved.cjs');
const { cut, textOf, shown } = require('./javascript_texts.cjs');
const { report } = require('./javascript_channel.cjs');
const { PLACE, sources, original } = require('./javascript_positions.cjs');

const MESSAGE_MAX = 64 * 1024;
const FRAMES_MAX = 100;
const CAUSES_MAX = 10; // of one error, in all
const CAUSE_DEPTH_MAX = 5, CAUSE_FRAMES_MAX = 20, CAUSE_MAX = 4096;
const STACK_LIMIT = 25; // node's own is 10, of which the kernel, below all code, would leave little to what is behind an await
const NETWORK = { __proto__: null, ENETUNREACH: 1, EHOSTUNREACH: 1, EAI_AGAIN: 1, ENOTFOUND: 1 };
const HOME = __dirname + '/'; // where the kernel's own files are

// What the frames of an error were, kept when its stack was made.
const framesByError = new WeakMap();
const tooLongErrors = new WeakMap(); // of a value that no line can hold

function framesOf(error)
{
	return weakGet(framesByError, error) || [];
}

function readFrame(site)
{
	const name = site.getFileName() || site.getScriptNameOrSourceURL() || '';
	const source = sources[name];
	const frame = { __proto__: null, name, source, isOwn: startsWith(name, HOME) || endsWith(name, '/' + PLACE),
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
		if (frame.isOwn || !frame.name)
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
		weakSet(framesByError, error, frames);
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

function keepStacks()
{
	SavedError.stackTraceLimit = STACK_LIMIT;
	defineProperty(SavedError, 'prepareStackTrace', {
		__proto__: null, configurable: true, enumerable: true, get: () => prepareAnyway,
		set(value) { ownPrepare = typeof value === 'function' && value !== prepareAnyway ? value : null; },
	});
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

// Of the innermost frame of code that was given, or undefined.
function fileOf(error)
{
	const frames = framesOf(error);
	for (let i = 0; i < frames.length; i++)
		if (frames[i].source)
			return frames[i].source.file;
	return undefined;
}

// An error of node's own that has no frame of the code is one of where it was asked for.
function placed(error, here)
{
	if (!isError(error))
		return error;
	stackOf(error);
	stackOf(here);
	const frames = framesOf(error);
	for (let i = 0; i < frames.length; i++)
		if (!isNode(frames[i]))
			return error;
	weakSet(framesByError, error, framesOf(here));
	return error;
}

function blockedBy(error, depth = 0)
{
	if (depth >= 10 || error === null || typeof error !== 'object')
		return false;
	const code = quietly(() => error.code, '');
	if (typeof code === 'string' && NETWORK[code])
		return true;
	return blockedBy(quietly(() => (isArray(error.errors) ? error.errors[0] : null)), depth + 1) ||
		blockedBy(quietly(() => error.cause), depth + 1);
}

function headOf(name, message)
{
	return message ? name + ': ' + message : name;
}

// Adds the frames of an error to a traceback. The place is the innermost one in code that was given, else in any file, or null.
function addFrames(traceback, error, most, indent)
{
	const frames = framesOf(error);
	let at = null;
	for (let i = 0; i < min(frames.length, most); i++) {
		const frame = frames[i];
		if (isNode(frame))
			continue;
		push(traceback, indent + cut(frame.text, 1000));
		if (!at || (!at.source && frame.source))
			at = frame;
	}
	return at;
}

function placeAt(told, frame)
{
	told.file = frame.source ? frame.source.file : frame.name;
	told.line = frame.line;
	told.column = frame.column;
}

// What is told of a value that was thrown.
function describe(value)
{
	const told = { __proto__: null, name: 'Error', message: '', traceback: [] };
	if (!isError(value)) {
		// V8's own mark of code that it has ended: old ones reject promises with it. A comparison with what
		// typeof says, at once, is done by another rule.
		const kind = typeof value;
		told.isEnded = kind === 'undefined' && value !== undefined;
		told.message = told.isEnded ? 'The code was ended' : cut(shown(value), MESSAGE_MAX);
		push(told.traceback, 'Uncaught ' + told.message);
		return told;
	}
	const stack = stackOf(value);
	told.name = cut(textOf(quietly(() => value.name, 'Error')) || 'Error', 200);
	told.message = cut(textOf(quietly(() => value.message, '')), MESSAGE_MAX);
	push(told.traceback, headOf(told.name, told.message));
	const at = addFrames(told.traceback, value, FRAMES_MAX, '');
	if (at)
		placeAt(told, at);
	else
		placeByText(told, stack);
	addCauses(told, value, '  ', [value]);
	told.isBlocked = blockedBy(value);
	told.isTooLong = weakGet(tooLongErrors, value);
	told.isBySignal = quietly(() => value.signal) === 'SIGINT';
	return told;
}

// What an error is of, its cause or the many that it stands for, as node shows them. None is told twice.
function addCauses(told, error, indent, seen)
{
	const cause = quietly(() => error.cause), parts = quietly(() => error.errors);
	if (cause !== undefined && cause !== null)
		addCause(told, cause, indent, '[cause]: ', seen);
	const count = quietly(() => (isArray(parts) ? parts.length : 0), 0);
	for (let i = 0; i < min(count, CAUSES_MAX); i++) {
		const part = quietly(() => parts[i]);
		if (isError(part))
			addCause(told, part, indent, '[errors[' + i + ']]: ', seen);
	}
	if (count > CAUSES_MAX)
		push(told.traceback, indent + '[errors]: ' + count + ' in all');
}

// One that has a place lends it to an error that has none.
function addCause(told, cause, indent, mark, seen)
{
	for (let i = 0; i < seen.length; i++)
		if (seen[i] === cause)
			return;
	if (seen.length > CAUSES_MAX || indent.length > 2 * CAUSE_DEPTH_MAX) {
		push(told.traceback, indent + mark + '…');
		return;
	}
	push(seen, cause);
	if (!isError(cause)) {
		push(told.traceback, indent + mark + cut(shown(cause), CAUSE_MAX));
		return;
	}
	stackOf(cause);
	const name = cut(textOf(quietly(() => cause.name, 'Error')) || 'Error', 200);
	push(told.traceback, indent + mark + headOf(name, cut(textOf(quietly(() => cause.message, '')), CAUSE_MAX)));
	const at = addFrames(told.traceback, cause, CAUSE_FRAMES_MAX, indent);
	if (at && !told.line)
		placeAt(told, at);
	addCauses(told, cause, indent + '  ', seen);
}

// A stack that code wrote, or that was made before: what names one of its files is worth a look.
function placeByText(told, stack)
{
	const match = exec(/(berth:\d+|[^\s()]+):(\d+):(\d+)\)?$/m, stack);
	if (!match || startsWith(match[1], 'node:') || startsWith(match[1], HOME))
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

function tooLong(message)
{
	const error = new RangeError(message);
	weakSet(tooLongErrors, error, true);
	return error;
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

module.exports = {
	keepStacks, stackOf, isError, fileOf, placed, describe, syntaxError, plainError, tooLong, reportError,
};
