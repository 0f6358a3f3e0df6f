// A part of javascript.cjs: what several of them look at.

'use strict';

const state = Object.seal({
	__proto__: null,
	current: null, // the call that runs
	isRun: false, // it is load or invoke
	isOnStack: false, // it runs within phase()
	lastLoad: null, // what invoke is of
});

module.exports = { state };
