// A part of javascript.cjs: what code cannot take away. All that is used after the first call was taken here, before it.

'use strict';

const fs = require('fs');
const util = require('util');

const { bind, call: callOf } = Function.prototype;
const uncurry = bind.bind(callOf);
const { apply, ownKeys, getPrototypeOf, deleteProperty } = Reflect;
const { defineProperty, getOwnPropertyDescriptor, freeze, keys } = Object;
const { isArray } = Array;
const { isFinite } = Number;
const toNumber = Number;
const { min, floor, random } = Math;
const now = Date.now;
const text = String;
const parse = JSON.parse;
const stringify = JSON.stringify;
const root = globalThis;
const { setTimeout, setImmediate } = root;
const hasOwn = uncurry(Object.prototype.hasOwnProperty);
const define = (object, name, value) => defineProperty(object, name,
	{ __proto__: null, value, writable: true, enumerable: true, configurable: true });
const push = (list, item) => define(list, list.length, item);
const join = uncurry(Array.prototype.join);
const sort = uncurry(Array.prototype.sort);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const codeAt = uncurry(String.prototype.charCodeAt);
const lastIndexOf = uncurry(String.prototype.lastIndexOf);
const startsWith = uncurry(String.prototype.startsWith);
const endsWith = uncurry(String.prototype.endsWith);
const exec = uncurry(RegExp.prototype.exec);
const bytesSet = uncurry(Uint8Array.prototype.set);
const bytesIndexOf = uncurry(Uint8Array.prototype.indexOf);
const bytesSlice = uncurry(Uint8Array.prototype.subarray);
const utf8 = uncurry(Buffer.prototype.utf8Slice);
const base64 = uncurry(Buffer.prototype.base64Slice);
const byteLength = Buffer.byteLength;
const decodeText = uncurry(TextDecoder.prototype.decode);
const weakGet = uncurry(WeakMap.prototype.get);
const weakSet = uncurry(WeakMap.prototype.set);
const then = uncurry(Promise.prototype.then);
const SavedPromise = Promise;
const SavedError = Error;
const SavedBytes = Uint8Array;
const arrayPrototype = Array.prototype;
const objectPrototype = Object.prototype;
const { isView } = ArrayBuffer;
const bufferOf = Buffer.from;
const errorText = uncurry(Error.prototype.toString);
const { compareExchange, store, load, notify, wait } = Atomics;
const { inspect } = util;
const { isPromise, isNativeError, isProxy } = util.types;
const { writeSync } = fs;
// The streams as well, which makes them: what is printed is to leave by them at once.
const { chdir, cwd, env: variables, nextTick, pid, reallyExit, stdout, stderr } = process;
const tick = process._tickCallback;
const listenerCount = process.listenerCount.bind(process);
const { spawnSync } = require('child_process');
const { executionAsyncId } = require('async_hooks');
const { newAsyncId } = require('internal/async_hooks');
const hookPromises = require('internal/promise_hooks').createHook;
const binding = process.binding;
const inspector = binding('inspector');
const contextify = binding('contextify');
const { Pipe, constants: { SOCKET } } = binding('pipe_wrap');
const { WriteWrap, streamBaseState, kReadBytesOrError } = binding('stream_wrap');

// node's own way to its parts. It warns of those who ask.
function ownBinding()
{
	const { emitWarning } = process;
	process.emitWarning = () => {};
	const { internalBinding } = require('internal/test/binding');
	process.emitWarning = emitWarning;
	return internalBinding;
}

const internalBinding = ownBinding();
const { Signal } = internalBinding('signal_wrap');
const { getProxyDetails } = internalBinding('util');
// A name for properties that code does not see, and cannot forbid: one that node has for errors. node 18 has no list of them.
const hiddenMark = (internalBinding('util').privateSymbols || internalBinding('util')).decorated_private_symbol;

function own(object, name)
{
	return object !== null && typeof object === 'object' && hasOwn(object, name) ? object[name] : undefined;
}

// What a proxy stands for, without asking it; all else is itself. Null if it was revoked.
function unproxied(value)
{
	while (isProxy(value))
		value = getProxyDetails(value, false);
	return value;
}

function quietly(f, otherwise)
{
	try {
		return f();
	} catch {
		return otherwise;
	}
}

// A variable of all code, which it may change.
function global(name, value)
{
	defineProperty(root, name, { __proto__: null, value, writable: true, configurable: true });
}

// Whether it can be waited for like a promise. What all objects have, as code has given it to them, does not count.
function hasOwnThen(value)
{
	if (value === null || typeof value !== 'object' && typeof value !== 'function')
		return false;
	let one = value;
	// By way of a proxy, something may come from itself.
	for (let left = 1000; left && one !== null && one !== objectPrototype; left--) {
		if (hasOwn(one, 'then'))
			return true;
		one = getPrototypeOf(one);
	}
	return false;
}

// A promise that is resolved with an object asks for its `then`.
function boxed(f, value)
{
	return () => { f(value); };
}

// A settled promise tells these two, whatever has become of Promise.prototype.
function settled(promise, onValue, onError)
{
	if (!isPromise(promise)) {
		const value = promise, isThen = quietly(() => hasOwnThen(value), false);
		promise = new SavedPromise((resolve) => resolve(isThen ? value : undefined));
		if (!isThen)
			onValue = boxed(onValue, value);
	}
	const descriptor = getOwnPropertyDescriptor(promise, 'constructor');
	try {
		// then() asks for it, and takes its own if there is none.
		if (!descriptor)
			defineProperty(promise, 'constructor', { __proto__: null, value: undefined, configurable: true });
	} catch {
		// Frozen: it is asked all the same.
	}
	then(promise, onValue, onError);
	if (!descriptor)
		deleteProperty(promise, 'constructor');
}

module.exports = {
	uncurry, apply, ownKeys, getPrototypeOf, defineProperty, getOwnPropertyDescriptor, freeze, keys, isArray,
	isFinite, toNumber, min, floor, random, now, text, parse, stringify, root, setTimeout, setImmediate, hasOwn,
	define, push, join, sort, slice, indexOf, codeAt, lastIndexOf, startsWith, endsWith, exec, bytesSet, bytesIndexOf,
	bytesSlice, utf8, base64, byteLength, decodeText, weakGet, weakSet, SavedPromise, SavedError, SavedBytes,
	arrayPrototype, objectPrototype, isView, bufferOf, errorText, compareExchange, store, load, notify, wait,
	inspect, isPromise, isNativeError, isProxy, writeSync, chdir, cwd, variables, nextTick, pid, reallyExit,
	stdout, stderr, tick, listenerCount, spawnSync, executionAsyncId, newAsyncId, hookPromises, hiddenMark, inspector,
	contextify, Signal, Pipe, SOCKET, WriteWrap, streamBaseState, kReadBytesOrError, own, unproxied, quietly, global,
	settled,
};
