// A part of javascript.cjs: the end that code asks for, which is that of its call.

'use strict';

const { apply, isFinite, toNumber, setImmediate, quietly } = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');
const { textOf } = require('./javascript_texts.cjs');
const { writeAll } = require('./javascript_streams.cjs');
const { plainError } = require('./javascript_errors.cjs');
const { ownerNow, isOfBefore } = require('./javascript_owners.cjs');
const { endByExit, exitSign, onUncaught, onRejected } = require('./javascript_calls.cjs');

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
	const call = state.current, status = quietly(() => statusOf(code), 1);
	const message = `process.exit(${code === undefined ? '' : textOf(code)}) was called: exit status ${status}`;
	if (call && !call.outcome && !isOfBefore(call, ownerNow())) {
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

function keepAlive()
{
	process.exit = exit;
	process.reallyExit = exit;
	process.setUncaughtExceptionCaptureCallback((error) => onUncaught(error));
	process.on('unhandledRejection', onRejected);
	const { emitWarning } = process;
	process.emitWarning = function (...words) {
		// Of what this kernel uses itself.
		if (words[1] !== 'ExperimentalWarning' || !/^VM Modules /.test(words[0]))
			return apply(emitWarning, process, words);
	};
	process.execArgv = [];
	process.argv = [process.argv[0], ''];
}

module.exports = { keepAlive };
