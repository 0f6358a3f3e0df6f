// A part of javascript.cjs: code of a run, which is loaded once and invoked as often as is asked for.

'use strict';

const vm = require('vm');
const { Server } = require('net');
const {
	apply, getPrototypeOf, freeze, isArray, text, stringify, setTimeout, setImmediate, hasOwn, push, join, indexOf, startsWith,
	exec, utf8, base64, byteLength, SavedBytes, isView, bufferOf, isProxy, own, quietly, global, settled,
} = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');
const { cut, textOf, shown } = require('./javascript_texts.cjs');
const { DEPTH_MAX, depthOf, jsonOf } = require('./javascript_json.cjs');
const { LINE_MAX, report } = require('./javascript_channel.cjs');
const { reportLog } = require('./javascript_logs.cjs');
const { stackOf, describe, syntaxError, plainError, tooLong } = require('./javascript_errors.cjs');
const { importBy, linkTo, newModule, addMeta } = require('./javascript_modules.cjs');
const { LAST, treeOf, hasExports, withLast, prepared } = require('./javascript_prepare.cjs');
const { fail, succeed, endByExit } = require('./javascript_calls.cjs');
const { evaluate, failUnseen, finishWith } = require('./javascript_evaluate.cjs');

// Of timers and servers, which are the value of code that ends by starting one, and mean nothing to whoever asked.
const GOING_ON = freeze([prototypeOf(setTimeout, clearTimeout), prototypeOf(setImmediate, clearImmediate), Server.prototype]);

function prototypeOf(begin, stop)
{
	const made = begin(() => {}, 0);
	stop(made);
	return getPrototypeOf(made);
}

function isGoingOn(value)
{
	for (let one = value; one !== null && typeof one === 'object' && !isProxy(one); one = getPrototypeOf(one))
		for (let i = 0; i < GOING_ON.length; i++)
			if (one === GOING_ON[i])
				return true;
	return false;
}

function onLoad(call, source, code)
{
	state.isRun = true;
	state.lastLoad = {
		__proto__: null, call, number: call.number, isWhole: false, target: null, value: undefined, env: call.env,
		hasEnv: call.hasEnv, firstInvoke: 0,
	};
	global('env', call.env);
	const tree = exec(/\bexport\b/, code) ? treeOf(code) : null;
	const isModule = tree ? hasExports(tree) : exec(/^[ \t]*export[ \t{*]/m, code) !== null;
	if (isModule)
		loadModule(call, source, tree ? withLast(source, code, tree) : code);
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
	// Compiled for a look first: what is no code at all is not begun with. V8 will be given it in neither form, so that only
	// what it takes in none is known to be wrong: of all else it must be told that it may have run.
	const made = prepared(call, { maps: [] }, code, []);
	// The line that names an interpreter may only be the first of all, and a comment that begins with --> the first of a line.
	const looked = '(async () => {\n' + (startsWith(made, '#!') ? '//' : '') + made + '\n})';
	const canRead = (what) => quietly(() => Boolean(new vm.Script(what, { filename: source.url })), false);
	if (canRead(looked) || canRead(made))
		report(call, '"checked":true');
	evaluate(call, source, code, (value) => {
		if (!call.exit) {
			state.lastLoad.isWhole = true;
			state.lastLoad.value = value;
			state.lastLoad.target = targetOf(module.exports);
			if (call.isLost && !state.lastLoad.target)
				failUnseen(call, 'it gave all objects, or all promises, another `then`');
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
			importModuleDynamically: (what, _, attributes) => importBy(what, attributes),
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
		const target = targetOf(made.namespace);
		onResultOf(call, target ? undefined : valueOf(made.namespace), (value) => {
			if (!call.exit) {
				state.lastLoad.isWhole = true;
				state.lastLoad.value = value;
				state.lastLoad.target = target;
			}
			succeed(call);
		});
	}, onError), onError);
}

// Of a module without a function: what it means to give comes before what it says at last.
function valueOf(namespace)
{
	return hasOwn(namespace, 'default') ? namespace.default : own(namespace, LAST);
}

// Where a module cannot be read is only told in what node puts before the stack, if it is asked to.
function decorated(error)
{
	quietly(() => require('internal/util').decorateErrorStack(error));
	return stackOf(error);
}

function onInvoke(call, what)
{
	state.isRun = true;
	// Of a load that failed, or was ended, nothing is known to be whole. An exit with status 0 is no failure.
	if (!state.lastLoad || state.lastLoad.call.outcome !== 'ok') {
		fail(call, plainError('Error', 'Nothing was loaded that could be invoked.'));
		return;
	}
	state.lastLoad.firstInvoke = state.lastLoad.firstInvoke || call.firstId;
	const { target, env, hasEnv } = state.lastLoad, request = own(what, 'request');
	if (target && typeof target !== 'function' || target && request && typeof target.fetch === 'function') {
		fetchBy(call, target, request, env);
		return;
	}
	const unheard = state.lastLoad.isWhole ? unheardOf(target, what) : '';
	if (unheard) {
		fail(call, plainError('Error', unheard));
		return;
	}
	if (!target) {
		reportValue(call, isGoingOn(state.lastLoad.value) ? undefined : state.lastLoad.value);
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

// What is given and nobody would get, as a sentence, or none. What has ended by itself is asked for nothing.
function unheardOf(target, what)
{
	const request = own(what, 'request');
	if (request !== undefined && request !== null)
		return 'The request was given to nothing: export a handler, as by `export default { fetch(request, env, ctx) { … } }`.';
	if (!target && hasOwn(what, 'input'))
		return 'The input was given to nothing: export a function, as by `module.exports = f` or `export default f`.';
	return '';
}

function onResultOf(call, made, onValue)
{
	settled(made, (value) => finishWith(call, value, onValue), (error) => fail(call, describe(error)));
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

function sendValue(call, json)
{
	const length = byteLength(json);
	if (length > LINE_MAX - 200)
		throw tooLong(`The value is ${length} bytes of JSON, and may have ${LINE_MAX - 200}.`);
	if (depthOf(json) > DEPTH_MAX)
		throw new RangeError(`The value is nested deeper than ${DEPTH_MAX}.`);
	report(call, '"value":' + json);
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
	if (call.outcome)
		return;
	if (i >= later.length) {
		succeed(call);
		return;
	}
	settled(later[i], () => waitFor(call, later, i + 1), (error) => {
		if (call.outcome)
			return;
		reportLog(call, 'error', 'waitUntil: ' + join(describe(error).traceback, '\n'));
		waitFor(call, later, i + 1);
	});
}

module.exports = { onLoad, onInvoke };
