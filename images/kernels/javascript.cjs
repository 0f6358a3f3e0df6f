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
// before it, in javascript_saved.cjs; arrays are walked by index, a missing field is asked for by own(), and reports
// are put together as text. What remains in its power are its own calls.
//
// This file reads the parts beside it, and starts them. Reading one does nothing: code may do it, too, and has a copy then
// that is not connected to anything. The parts stand in the order of who needs whom:
//
//   saved                       what code cannot take away
//   state                       what several parts look at
//   texts, json, positions      values as text and as JSON; places in code
//   channel                     lines from berthd, and to it
//   logs, streams, console      what code prints and says
//   errors, results             what is told of what is thrown, and of values
//   modules, prepare            import and require(); code as V8 takes it
//   owners                      whose the code is that runs
//   signals, calls              SIGINT; the course of a call
//   typescript, evaluate, runs  the ways of code: without its types, as a cell, as a run
//   orders, exit                what berthd asks for; the end that code asks for

'use strict';

const fs = require('fs');
const vm = require('vm');

// Code that reads this file again is told so, and nothing is moved under the feet of the one that runs.
if (typeof $berth !== 'undefined')
	throw new Error('The kernel runs already.');

const parts = { __proto__: null };

// require() of the parts: node itself would keep what it has loaded where code finds it.
function requirePart(name)
{
	// Also asked later, by those who need one of node's own modules seldom.
	if (name[0] !== '.')
		return require(name);
	if (!parts[name]) {
		const file = __dirname + name.slice(1), module = { exports: {} };
		const made = vm.compileFunction(fs.readFileSync(file, 'utf8'),
			['exports', 'require', 'module', '__filename', '__dirname'], { filename: file });
		made(module.exports, requirePart, module, file, __dirname);
		parts[name] = module.exports;
	}
	return parts[name];
}

const { defineProperty, freeze, stringify, root, global } = requirePart('./javascript_saved.cjs');
const { openChannel, send, listen } = requirePart('./javascript_channel.cjs');
const { makeAllDirect } = requirePart('./javascript_streams.cjs');
const { makeConsole } = requirePart('./javascript_console.cjs');
const { keepStacks } = requirePart('./javascript_errors.cjs');
const { display } = requirePart('./javascript_results.cjs');
const { importHere, makeRequire, meta, makeCellModule } = requirePart('./javascript_modules.cjs');
const { markPromises } = requirePart('./javascript_owners.cjs');
const { arm, keepSignal, spendFarewell, keepDebuggerClosed, haltAtOwnSignal } = requirePart('./javascript_signals.cjs');
const { takeStep } = requirePart('./javascript_calls.cjs');
const { connect, giveTaken } = requirePart('./javascript_evaluate.cjs');
const { next } = requirePart('./javascript_orders.cjs');
const { keepAlive } = requirePart('./javascript_exit.cjs');

function makeGlobals()
{
	const berth = (what, how, names) => importHere(what, how, names);
	berth.meta = meta;
	berth.step = takeStep;
	berth.take = giveTaken;
	// Code can call it, but not change it.
	defineProperty(root, '$berth', { __proto__: null, value: freeze(berth) });
	global('require', makeRequire());
	global('display', display);
	makeCellModule();
}

openChannel();
keepStacks();
spendFarewell();
connect();
arm();
keepSignal();
keepDebuggerClosed();
haltAtOwnSignal();
makeAllDirect();
makeGlobals();
makeConsole();
keepAlive();
markPromises();
send('{"ready":true,"language":"javascript","version":' + stringify(process.versions.node) + ',"pid":' + process.pid + '}');
listen(next);
