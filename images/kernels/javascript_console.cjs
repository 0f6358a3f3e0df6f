// A part of javascript.cjs: the console, which prints in a cell and reports in a run.

'use strict';

const { apply, defineProperty, keys, stdout, stderr } = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');
const { reportLog } = require('./javascript_logs.cjs');
const { writeAll } = require('./javascript_streams.cjs');

function makeConsole()
{
	const kept = globalThis.console;
	let level = 'info';
	const sink = (otherwise) => ({
		write(message) {
			if (state.current)
				reportLog(state.current, level || otherwise, message);
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
			if (!state.isRun)
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

module.exports = { makeConsole };
