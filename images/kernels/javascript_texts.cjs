// A part of javascript.cjs: values as text, whatever they do when they are asked.

'use strict';

const { text, slice, inspect, quietly } = require('./javascript_saved.cjs');

const TEXT_MAX = 1024 * 1024;

function cut(value, most)
{
	return value.length > most ? slice(value, 0, most) + '\n… cut: it had ' + value.length + ' characters' : value;
}

function textOf(value)
{
	return quietly(() => (typeof value === 'symbol' ? 'Symbol' : text(value)), '');
}

function shown(value)
{
	let made;
	try {
		made = inspect(value, { __proto__: null, maxStringLength: TEXT_MAX, depth: 4 });
	} catch (error) {
		made = '[' + typeof value + ' that cannot be shown: ' + textOf(error) + ']';
	}
	return typeof made === 'string' ? made : textOf(value);
}

module.exports = { TEXT_MAX, cut, textOf, shown };
