// A part of javascript.cjs: V8's REPL mode, which the inspector of this very thread offers.

'use strict';

const {
	uncurry, apply, defineProperty, getOwnPropertyDescriptor, parse, stringify, hasOwn, define, push, exec,
	objectPrototype, isPromise, inspector, own, quietly, settled,
} = require('./javascript_saved.cjs');
const { textOf } = require('./javascript_texts.cjs');
const { describe, syntaxError, plainError } = require('./javascript_errors.cjs');
const { mistakeOf, prepared } = require('./javascript_prepare.cjs');
const { fail } = require('./javascript_calls.cjs');

// V8 puts the value of code in an object, with which it resolves a promise: if code has given all objects a `then`, that is
// called, and the value is gone. So that object does not have it. It is too late for the call that does so itself.
const BOX = '.repl_result';
let shield = null;

// Before V8 11 the promise of the code itself is what another is resolved with, so its `then` is asked for as well.
const ASKS_PROMISE = parseInt(process.versions.v8, 10) < 11;
const promisePrototype = Promise.prototype, firstThen = promisePrototype.then;

function isThenReplaced()
{
	return ASKS_PROMISE && own(getOwnPropertyDescriptor(promisePrototype, 'then'), 'value') !== firstThen;
}

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
let connection = null, dispatch = null;

function connect()
{
	connection = new inspector.Connection((message) => {
		const answer = parse(message), id = own(answer, 'id');
		const f = id === undefined ? null : waiting[id];
		if (f) {
			delete waiting[id];
			f(own(answer, 'result'));
		}
	});
	dispatch = uncurry(connection.dispatch);
}

function ask(method, params, f)
{
	messages++;
	if (f)
		waiting[messages] = f;
	dispatch(connection, '{"id":' + messages + ',"method":"Runtime.' + method + '","params":{' + params + '}}');
}

// Gives the value itself to f: what V8 tells of it is a name for it.
let taken = null;

// What V8 calls with it.
function giveTaken(value)
{
	const f = taken;
	taken = null;
	if (f)
		f(value);
}

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

// Evaluates, and tells onValue(value) once it has come to its end. Conflicts are of prepared().
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
			call.isLost = own(remote, 'type') === 'undefined' && (hasForeignThen() || isThenReplaced());
			take(remote, (value) => onResult(call, value, onValue));
			return;
		}
		const thrown = own(details, 'exception') || remote;
		// Of code that was compiled, the position is where it is thrown; else it is that of the mistake.
		const isCompiled = !hasOwn(details, 'scriptId') || hasOwn(details, 'stackTrace');
		take(thrown, (error) => {
			if (isCompiled || own(thrown, 'className') !== 'SyntaxError') {
				fail(call, describe(error));
				return;
			}
			const message = textOf(quietly(() => error.message, 'It cannot be read'));
			if (!addConflict(call, message, details, conflicts)) {
				const isOfModules = exec(/import statement outside|^Unexpected token 'export'$/, message);
				const mistake = isOfModules ? mistakeOf(made) : null;
				const at = mistake ? mistake.place : [details.lineNumber + 1, details.columnNumber + 1];
				fail(call, syntaxError(call, mistake ? mistake.message : message, source, at));
				return;
			}
			source.maps.length = maps;
			evaluate(call, source, code, onValue, conflicts);
		});
	});
}

// Whether the mistake is a name that was of another kind before, and it is worth another try.
function addConflict(call, message, details, conflicts)
{
	const match = exec(/^Identifier '(.+)' has already been declared$/, message);
	const isOfBefore = match && details.lineNumber === 0 && details.columnNumber === 0;
	if (!isOfBefore || conflicts.length >= 50 || call.conflicts[match[1]])
		return false;
	call.conflicts[match[1]] = true;
	push(conflicts, match[1]);
	return true;
}

// A signal may have ended the code where nobody sees that: then that is what came of it.
function failUnseen(call, why)
{
	const told = plainError('Error', 'The code has run, but what came of it cannot be seen: ' + why + '.');
	told.isBySignal = true;
	fail(call, told);
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

module.exports = { shieldThen, connect, giveTaken, evaluate, failUnseen, finishWith };
