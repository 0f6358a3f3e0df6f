// A part of javascript.cjs: the JSON of values, in the form that berthd takes.

'use strict';

const util = require('util');
const {
	ownKeys, getPrototypeOf, getOwnPropertyDescriptor, freeze, isArray, isFinite, floor, text, stringify, slice,
	indexOf, codeAt, exec, keys, toNumber, arrayPrototype, objectPrototype, isProxy, unproxied, quietly,
} = require('./javascript_saved.cjs');
const { cut } = require('./javascript_texts.cjs');

const DEPTH_MAX = 28; // of values: berthd reads 32 levels, some of which are the report's own
const FORMLESS = ['Map', 'Set', 'WeakMap', 'WeakSet', 'RegExp', 'Promise', 'DataView', 'TypedArray', 'AnyArrayBuffer',
	'NativeError', 'GeneratorObject', 'MapIterator', 'SetIterator', 'SymbolObject', 'BigIntObject'].map((name) => freeze({
	__proto__: null, test: util.types['is' + name], name: 'a value of type ' + name.replace(/^Any|^Native|Object$/, '') }));
const { isNumberObject, isStringObject } = util.types;
const { iterator: ITERATOR, toStringTag: TAG } = Symbol;

// JSON of strings that are not well-formed has halves of pairs in it, as \ud83d: berthd takes no such text.
function mended(json)
{
	let made = '', done = 0;
	if (indexOf(json, '\\ud') < 0)
		return json;
	for (let at = indexOf(json, '\\'); at >= 0; at = indexOf(json, '\\', at)) {
		const isHalf = codeAt(json, at + 1) === 0x75 && codeAt(json, at + 2) === 0x64 && codeAt(json, at + 3) >= 0x38;
		if (isHalf) {
			made += slice(json, done, at) + '\\ufffd';
			done = at + 6;
		}
		at += isHalf ? 6 : 2;
	}
	return made + slice(json, done);
}

// How deep it is nested, in JSON.
function depthOf(json)
{
	let depth = 0, most = 0, isString = false;
	for (let i = 0; i < json.length; i++) {
		const code = codeAt(json, i);
		if (isString && code === 0x5c)
			i++;
		else if (code === 0x22)
			isString = !isString;
		else if (!isString && (code === 0x7b || code === 0x5b))
			most = ++depth > most ? depth : most;
		else if (!isString && (code === 0x7d || code === 0x5d))
			depth--;
	}
	return most;
}

// The JSON of what is nothing but JSON, or undefined: no class, no accessor, nothing left out. Null if it is too large.
function jsonIfPlain(value)
{
	let left = 100000;
	const isPlain = (item, depth) => {
		if (item === null || typeof item === 'boolean' || typeof item === 'string')
			return (left -= 1 + (typeof item === 'string' ? floor(item.length / 16) : 0)) > 0;
		if (typeof item === 'number')
			return isFinite(item) && left-- > 0;
		if (typeof item !== 'object' || depth >= DEPTH_MAX || isProxy(item) || left-- <= 0)
			return false;
		const proto = getPrototypeOf(item), isList = isArray(item);
		if (proto !== (isList ? arrayPrototype : objectPrototype) && (proto !== null || isList))
			return false;
		if (isList && item.length > left) {
			left = 0;
			return false;
		}
		const names = ownKeys(item);
		if (isList && names.length !== item.length + 1)
			return false;
		for (let i = 0; i < names.length; i++) {
			const field = getOwnPropertyDescriptor(item, names[i]);
			if (typeof names[i] === 'symbol' || names[i] === 'toJSON' || !('value' in field))
				return false;
			if (field.enumerable && !isPlain(field.value, depth + 1))
				return false;
		}
		return true;
	};
	return quietly(() => (isPlain(value, 0) ? stringify(value) : left <= 0 ? null : undefined));
}

// What stringify() would turn into something else without a word, or null.
function formless(item)
{
	if (typeof item === 'number')
		return isFinite(item) ? null : text(item);
	if (typeof item === 'bigint')
		return 'a BigInt';
	if (typeof item === 'function' || typeof item === 'symbol')
		return 'a ' + typeof item;
	if (item === null || typeof item !== 'object')
		return null;
	const seen = unproxied(item);
	if (seen === null || isArray(seen) || isStringObject(seen))
		return null;
	if (getPrototypeOf(seen) !== objectPrototype)
		for (let i = 0; i < FORMLESS.length; i++)
			if (FORMLESS[i].test(seen))
				return FORMLESS[i].name;
	return hiding(seen);
}

// What keeps its parts where stringify() does not look: it is there to be iterated over, or its class gives it a name of its
// own, as all of node's do, and it shows nothing. What all objects have does not count. Nothing of it is called.
function hiding(item)
{
	let isIterable = false, tag, one = item;
	// By way of a proxy, something may come from itself.
	for (let left = 1000; left && one !== null && one !== objectPrototype; left--) {
		const found = getOwnPropertyDescriptor(one, ITERATOR), named = getOwnPropertyDescriptor(one, TAG);
		isIterable = isIterable || found !== undefined && (!('value' in found) || typeof found.value === 'function');
		tag = tag || one !== item && named;
		one = unproxied(getPrototypeOf(one));
	}
	if (!isIterable && (!tag || keys(item).length))
		return null;
	return tag && typeof tag.value === 'string' ? 'a value of type ' + cut(tag.value, 100) : 'something to iterate over';
}

function isHalved(value)
{
	const json = stringify(value);
	return mended(json) !== json;
}

// Of the names on the way to a value: ".a[0]".
function pathOf(names, holders, depth)
{
	let path = '';
	for (let i = 1; i <= depth; i++)
		path += isArray(holders[i]) ? '[' + names[i] + ']' : exec(/^[A-Za-z_$][\w$]*$/, names[i])
			? '.' + names[i] : '[' + mended(stringify(names[i])) + ']';
	return cut(path, 200);
}

// JSON of a value in which nothing was lost, or an error that says what and where. isByText: halves of characters are
// looked for, which takes its time.
function jsonOf(value, isByText = false)
{
	// Those that hold the item which is looked at, and the names by which they do.
	const holders = { __proto__: null }, names = { __proto__: null };
	let depth = -1;
	const json = stringify(value, function (name, item) {
		while (depth >= 0 && holders[depth] !== this)
			depth--;
		if (depth < 0)
			holders[depth = 0] = this;
		names[depth] = name;
		if (isNumberObject(item))
			item = toNumber(item);
		const isText = isByText && (isHalved(name) || typeof item === 'string' && isHalved(item));
		const what = isText ? 'half of a character (a lone surrogate)' : formless(item);
		if (what) {
			const path = pathOf(names, holders, depth);
			throw new TypeError(`The value ${path ? 'holds, at ' + path + ',' : 'is'} ${what}, which JSON cannot hold.`);
		}
		if (item === null || typeof item !== 'object')
			return item;
		for (let i = 1; i <= depth; i++)
			if (holders[i] === item)
				throw new TypeError(`The value contains itself, at ${pathOf(names, holders, depth)}, which JSON cannot hold.`);
		holders[++depth] = item;
		return item;
	});
	if (json !== undefined && !isByText && mended(json) !== json)
		return jsonOf(value, true);
	return json;
}

module.exports = { DEPTH_MAX, mended, depthOf, jsonIfPlain, jsonOf };
