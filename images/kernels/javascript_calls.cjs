// A part of javascript.cjs: the course of a call, from its start to its one end.

'use strict';

const vm = require('vm');
const { apply, freeze, setTimeout, join, tick, listenerCount, own } = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');
const { report } = require('./javascript_channel.cjs');
const { reportHalves, hasUnwritten, writeAll } = require('./javascript_streams.cjs');
const { isError, describe, plainError, reportError } = require('./javascript_errors.cjs');
const { ownerNow, ownerOf, isOfBefore } = require('./javascript_owners.cjs');
const { hasSignal, isSignalled, watch, unwatch, beginRunning, endRunning } = require('./javascript_signals.cjs');

let step = null;

const runner = new vm.Script('$berth.step()', { filename: __filename });
const runHere = vm.Script.prototype.runInThisContext;

// The kernel's work that runner does: a script is what a signal ends.
function takeStep()
{
	if (step)
		step();
}

// Runs the function where a signal ends it. True if one did.
function phase(f)
{
	step = f;
	state.isOnStack = true;
	beginRunning();
	try {
		apply(runHere, runner, [{ __proto__: null, breakOnSigint: true }]);
		return false;
	} catch (error) {
		if (own(error, 'code') === 'ERR_SCRIPT_EXECUTION_INTERRUPTED')
			return true;
		onUncaught(error);
		return false;
	} finally {
		endRunning();
		state.isOnStack = false;
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
		state.isOnStack = true;
		interrupt(call);
		drain();
		state.isOnStack = false;
	}
	if (call.outcome)
		complete(call);
	else
		watch(call, onSignal);
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
	if (!state.isOnStack)
		complete(call);
}

function fail(call, told)
{
	if (call.outcome)
		return;
	if (told.isEnded || told.isBySignal && isSignalled(call)) {
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

function onSignal(number, isEnded)
{
	const call = state.current;
	if (!call || call.number !== number)
		return;
	if (call.outcome && isEnded)
		complete(call);
	else
		interrupt(call);
}

function complete(call)
{
	unwatch();
	reportHalves(call);
	if (call.told)
		reportError(call, call.told);
	flush(call);
}

function flush(call)
{
	if (hasUnwritten()) {
		setTimeout(flush, 1, call);
		return;
	}
	report(call, '"done":"' + call.outcome + '"');
	state.current = null;
	call.onDone();
}

// What ends code that has called process.exit().
const exitSign = freeze({ __proto__: null, name: 'Exit' });

function onUncaught(error, number = ownerNow())
{
	if (error !== null && typeof error === 'object' && error === exitSign)
		return;
	const told = describe(error);
	if (state.current && !state.current.outcome && !isOfBefore(state.current, number)) {
		fail(state.current, told);
		return;
	}
	writeAll(2, (isError(error) ? 'Uncaught ' : '') + join(told.traceback, '\n') + '\n');
}

// Of node's own: who else listens, that is code, has dealt with it.
function onRejected(error, promise)
{
	if (listenerCount('unhandledRejection') <= 1)
		onUncaught(error, ownerOf(promise));
}

module.exports = { takeStep, start, fail, succeed, endByExit, interrupt, exitSign, onUncaught, onRejected };
