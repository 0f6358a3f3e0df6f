// A part of javascript.cjs: SIGINT, and what else node does of itself at a signal.
//
// node's own thread for it is armed from the start, so the signal never ends the process. While a call runs for the first
// time, on this stack, that thread ends it (breakOnSigint). A call that waits is watched by a worker, started by the first
// such call, which ends the wait, or whatever this thread is busy with.

'use strict';

const {
	apply, compareExchange, store, load, notify, wait, contextify, Signal, pid: ownPid, quietly,
} = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');

const { startSigintWatchdog: arm, stopSigintWatchdog: disarm, watchdogHasPendingSigint: hasSignal } = contextify;

function forgetSignal()
{
	arm();
	disarm();
}

// Shared with the watcher: what this thread is at, how often it has heard of it, the call, and how many signals it saw.
const AT = 0, HEARD = 1, CALL = 2, SIGNALS = 3;
const KERNEL = 0, WAITS = 1, IS_ENDED = 2, RUNS = 3;
const shared = new Int32Array(new SharedArrayBuffer(16));
let watcher = null;

function signalCount()
{
	return load(shared, SIGNALS);
}

// A child that was ended by it may be seen before it is: then it comes in a moment.
function isSignalled(call)
{
	for (let i = 0; i < 20; i++) {
		if (hasSignal() || signalCount() !== call.signals)
			return true;
		wait(shared, HEARD, load(shared, HEARD), 5);
	}
	return false;
}

// Runs in a thread of its own. Who is told of a signal, and does not hear of it for a while, is busy: it is ended where
// it is, unless it has just come back to the kernel.
//
// Of those that are to be ended by a signal node ends the one that began last, and no other. So this one does not begin
// while a call runs for the first time: that would never be ended. If it has just done so, it goes out of the way.
const WATCHER = `
const { parentPort, workerData: shared } = require('worker_threads');
const { Session } = require('inspector');
const vm = require('vm');
const { startSigintWatchdog, stopSigintWatchdog, watchdogHasPendingSigint } = process.binding('contextify');
globalThis.nothing = new Int32Array(new SharedArrayBuffer(4));
globalThis.hasSignal = watchdogHasPendingSigint;
globalThis.runs = () => Atomics.load(shared, ${AT}) === ${RUNS};
// One that comes before the script is listened for waits for whoever asks; one that comes later ends it.
const script = new vm.Script('hasSignal() || !runs() && Atomics.wait(nothing, 0, 0)');
function listen() {
	while (runs())
		Atomics.wait(shared, ${AT}, ${RUNS});
	try {
		if (!script.runInThisContext({ breakOnSigint: true }))
			return setImmediate(listen);
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

// Tells onSignal(number of the call, whether it was ended by force) of signals.
function watch(call, onSignal)
{
	store(shared, CALL, call.number);
	store(shared, AT, WAITS);
	if (!watcher)
		quietly(() => startWatcher(onSignal));
}

function startWatcher(onSignal)
{
	const { Worker } = require('worker_threads');
	watcher = new Worker(WATCHER, {
		eval: true, workerData: shared, execArgv: [], env: {}, name: 'berth',
		resourceLimits: { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 16 },
	});
	watcher.on('message', (told) => {
		store(shared, HEARD, load(shared, HEARD) + 1);
		notify(shared, HEARD);
		onSignal(told.call, told.isEnded);
	});
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

// Around what node ends at a signal by itself.
function beginRunning()
{
	store(shared, AT, RUNS);
}

function endRunning()
{
	store(shared, AT, KERNEL);
	notify(shared, AT);
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

const SIGINT = 2, SIGUSR1 = 10, NO_SIGNAL = 1000;

// Who signals its own process is taken by node for one that ends it: once, it takes V8's inspector its context away then, if
// anybody is connected. So it is told that there was one while nobody is; a signal of such a number is never sent.
function spendFarewell()
{
	quietly(() => process.kill(ownPid, NO_SIGNAL));
}

// node would open its debugger to all of the sandbox. Nor does it end the process when listeners of code go away.
let debugSignal = null;

function keepDebuggerClosed()
{
	debugSignal = new Signal();
	debugSignal.unref();
	debugSignal.start(SIGUSR1);
}

// Code that interrupts itself goes no further: the thread that ends it takes a moment, and the call might be over by then.
function haltAtOwnSignal()
{
	const nothing = new Int32Array(new SharedArrayBuffer(4)), kill = process._kill;
	process._kill = function _kill(pid, signal) {
		const error = apply(kill, process, [pid, signal]), to = pid | 0;
		const isOwn = error === 0 && signal === SIGINT && (to === 0 || to === ownPid || to === -ownPid);
		if (isOwn && state.current && !state.current.outcome)
			wait(nothing, 0, 0, 1000);
		return error;
	};
}

module.exports = {
	arm, hasSignal, forgetSignal, signalCount, isSignalled, watch, unwatch, beginRunning, endRunning, keepSignal, spendFarewell,
	keepDebuggerClosed, haltAtOwnSignal,
};
