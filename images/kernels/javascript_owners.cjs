// A part of javascript.cjs: which call the code that runs belongs to.
//
// Timers and their like have numbers, which rise: what has one from before a call was begun before it. Promises have none, so
// each is marked with the call that made it, and whatever goes on once it is settled belongs to that one. The mark is a
// property that only node itself sees: a WeakMap would make each await many times as long.

'use strict';

const { isPromise, executionAsyncId, hookPromises, hiddenMark } = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');

const NONE = -2; // no promise goes on: the numbers tell
const EARLIER = -1; // one of the calls before
let owner = NONE;

// Nobody tells when code is ended while it goes on, nor when a call begins within the end of another.
function forgetOwner()
{
	owner = NONE;
}

// The number of the call, or EARLIER.
function ownerNow()
{
	const call = state.current;
	if (owner !== NONE)
		return owner;
	if (!call)
		return EARLIER;
	const id = state.isOnStack ? 0 : executionAsyncId();
	if (id <= 1 || id > call.firstId)
		return call.number;
	return call.kind === 'invoke' && state.lastLoad && id <= state.lastLoad.firstInvoke ? state.lastLoad.number : EARLIER;
}

function ownerOf(promise)
{
	const marked = isPromise(promise) ? promise[hiddenMark] : NONE;
	return typeof marked === 'number' ? marked : NONE;
}

// Whether it is of another call, and none of this one's business. What a run begins while it is loaded is its own all the time.
function isOfBefore(call, number)
{
	if (call.kind === 'invoke' && state.lastLoad && number === state.lastLoad.number)
		return false;
	return number !== call.number;
}

function markPromises()
{
	hookPromises({
		__proto__: null,
		init(promise) { promise[hiddenMark] = ownerNow(); },
		before(promise) { owner = ownerOf(promise); },
		after: forgetOwner,
	});
}

module.exports = { forgetOwner, ownerNow, ownerOf, isOfBefore, markPromises };
