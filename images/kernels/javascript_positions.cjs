// A part of javascript.cjs: pieces of code, and where in the text that was given a place of what V8 has is.

'use strict';

const { min, push, sort, slice, indexOf, codeAt, SavedBytes } = require('./javascript_saved.cjs');

// Each piece of code has a name of its own for V8, so that one of the same file name does not lend it its positions.
const SCHEME = 'berth:';
const PLACE = '[berth].cjs'; // in any directory, what asks for modules there
const KEPT_MAX = 64 * 1024 * 1024;
const sources = { __proto__: null };
const kept = [];
let firstKept = 0, keptLength = 0;

function newSource(call, code)
{
	const source = { __proto__: null, url: SCHEME + call.number, file: call.file, code, maps: [] };
	sources[source.url] = source;
	push(kept, source);
	keptLength += code.length;
	// Of the oldest ones only the names are known then, and lines as V8 has them.
	while (keptLength > KEPT_MAX && firstKept < kept.length - 1) {
		const oldest = kept[firstKept];
		kept[firstKept++] = undefined;
		keptLength -= oldest.code.length;
		oldest.code = '';
		oldest.maps = [];
	}
	return source;
}

function lineStarts(code)
{
	const starts = [0];
	for (let at = indexOf(code, '\n'); at >= 0; at = indexOf(code, '\n', at + 1))
		push(starts, at + 1);
	return starts;
}

function lineColumn(code, at)
{
	const starts = lineStarts(code);
	let line = starts.length;
	while (line > 1 && starts[line - 1] > at)
		line--;
	return [line, at - starts[line - 1] + 1];
}

function offsetOf(code, place)
{
	const starts = lineStarts(code);
	return (starts[min(place[0], starts.length) - 1] || 0) + place[1] - 1;
}

// The text is one of its own, or it comes from another place, which is told then.
function newEdit(start, end, made, from = start, to = end)
{
	return { __proto__: null, start, end, text: made, from, to, at: 0 };
}

function applyEdits(code, edits)
{
	// What only adds something stands in front of what is there.
	sort(edits, (a, b) => a.start - b.start || a.end - b.end);
	let made = '', from = 0;
	for (let i = 0; i < edits.length; i++) {
		const edit = edits[i];
		made += slice(code, from, edit.start);
		edit.at = made.length;
		made += edit.text;
		from = edit.end;
	}
	return made + slice(code, from);
}

// Of a position in the text that edits, in their order, have made: that in the text before.
function throughEdits(code, edited, edits)
{
	return (line, column) => {
		let at = offsetOf(edited, [line, column]);
		for (let i = edits.length - 1; i >= 0; i--) {
			const edit = edits[i];
			if (at < edit.at)
				continue;
			const length = edit.text.length;
			const past = at - edit.at;
			at = past < length ? min(edit.from + past, edit.to) : edit.end + past - length;
			break;
		}
		return lineColumn(code, at);
	};
}

// Of base64, by the codes of its characters.
const DIGITS = new SavedBytes(128);
const COMMA = 0x2c, SEMICOLON = 0x3b;
for (let i = 0; i < 64; i++)
	DIGITS[codeAt('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', i)] = i;

// Tells f() of the mappings of a source map in these many lines: line and column, and those they come from, all from 1 on.
function eachMapping(mappings, most, f)
{
	let line = 1, column = 1, sourceLine = 1, sourceColumn = 1, field = 0, value = 0, unit = 1;
	for (let i = 0; i <= mappings.length && line <= most; i++) {
		const code = i < mappings.length ? codeAt(mappings, i) : COMMA;
		if (code === COMMA || code === SEMICOLON) {
			if (field >= 4)
				f(line, column, sourceLine, sourceColumn);
			line += code === SEMICOLON ? 1 : 0;
			column = code === SEMICOLON ? 1 : column;
			field = 0;
			continue;
		}
		value += (DIGITS[code] & 31) * unit;
		unit *= 32;
		if (DIGITS[code] & 32)
			continue;
		const number = value % 2 ? -(value - 1) / 2 : value / 2;
		if (field === 0)
			column += number;
		else if (field === 2)
			sourceLine += number;
		else if (field === 3)
			sourceColumn += number;
		field++;
		value = 0;
		unit = 1;
	}
}

// The nearest one on the line that is not behind the column.
function throughMappings(mappings)
{
	return (line, column) => {
		let found = [line, column];
		eachMapping(mappings, line, (madeLine, madeColumn, sourceLine, sourceColumn) => {
			if (madeLine < line || madeColumn <= column)
				found = [sourceLine, sourceColumn];
		});
		return found;
	};
}

// The last place of which there is anything, or null.
function lastMapped(mappings)
{
	let lastLine = 0, lastColumn = 0;
	eachMapping(mappings, Infinity, (_, __, line, column) => {
		if (line < lastLine || line === lastLine && column < lastColumn)
			return;
		lastLine = line;
		lastColumn = column;
	});
	return lastLine ? [lastLine, lastColumn] : null;
}

function original(source, line, column)
{
	let place = [line, column];
	for (let i = source.maps.length - 1; i >= 0; i--)
		place = source.maps[i](place[0], place[1]);
	const lines = lineStarts(source.code).length;
	return source.code === '' || place[0] <= lines ? place : lineColumn(source.code, source.code.length);
}

module.exports = {
	SCHEME, PLACE, sources, newSource, lineColumn, offsetOf, newEdit, applyEdits, throughEdits, throughMappings, lastMapped, original,
};
