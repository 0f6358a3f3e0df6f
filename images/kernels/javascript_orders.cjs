// A part of javascript.cjs: orders, which are done one after the other.

'use strict';

const {
	keys, parse, hasOwn, define, codeAt, chdir, cwd, variables, newAsyncId, own, quietly, global,
} = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');
const { nextLine } = require('./javascript_channel.cjs');
const { newSource } = require('./javascript_positions.cjs');
const { describe } = require('./javascript_errors.cjs');
const { reportResult, bundleOf } = require('./javascript_results.cjs');
const { inDirectory, placeCell } = require('./javascript_modules.cjs');
const { forgetOwner } = require('./javascript_owners.cjs');
const { forgetSignal, signalCount } = require('./javascript_signals.cjs');
const { start, fail, succeed } = require('./javascript_calls.cjs');
const { transpiled } = require('./javascript_typescript.cjs');
const { shieldThen, evaluate, failUnseen } = require('./javascript_evaluate.cjs');
const { onLoad, onInvoke } = require('./javascript_runs.cjs');

const CANCELLED = 0x18; // at the end of an order that its sender could not complete

function onCode(call, source, code)
{
	state.isRun = false;
	evaluate(call, source, code, (value) => {
		if (call.isLost)
			failUnseen(call, 'it gave all objects, or all promises, another `then`');
		if (value !== undefined && !call.exit)
			reportResult(call, bundleOf(value), true);
		succeed(call);
	});
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
	placeCell(call.file);
}

function takeOrder(order)
{
	const kind = hasOwn(order, 'code') ? 'code' : hasOwn(order, 'load') ? 'load' : 'invoke';
	const language = own(order, 'language') || 'javascript', number = own(order, 'call');
	const ending = language === 'typescript' ? '.ts' : '.js';
	const call = {
		__proto__: null, number: +number, kind, language, outcome: '', told: null, exit: null, env: {}, hasEnv: false,
		file: own(order, 'file') || (kind === 'load' ? 'main' : 'cell-' + number) + ending,
		isLost: false, firstId: newAsyncId(), conflicts: { __proto__: null }, signals: signalCount(), onDone: next,
	};
	state.current = call;
	forgetOwner();
	forgetSignal();
	shieldThen();
	if (kind === 'load')
		state.lastLoad = null;
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

let isTaking = false;

// Those that come to their end at once do not pile up on the stack.
function next()
{
	if (isTaking)
		return;
	isTaking = true;
	while (!state.current) {
		const line = nextLine();
		if (line === null)
			break;
		if (codeAt(line, line.length - 1) !== CANCELLED)
			takeOrder(parse(line));
	}
	isTaking = false;
}

module.exports = { next };
