// A part of javascript.cjs: pieces of code, and where in the text that was given a place of what V8 has is.

'use strict';

const { min, push, sort, slice, indexOf, split } = require('./javascript_saved.cjs');

// Each piece of code has a name of its own for V8, so that one of the same file name does not lend it its positions.
const SCHEME = 'berth:';
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

function newEdit(start, end, made)
{
	return { __proto__: null, start, end, text: made, at: 0 };
}

function applyEdits(code, edits)
{
	sort(edits, (a, b) => a.start - b.start);
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
		const starts = lineStarts(edited);
		let at = (starts[min(line, starts.length) - 1] || 0) + column - 1;
		for (let i = edits.length - 1; i >= 0; i--) {
			const edit = edits[i];
			if (at < edit.at)
				continue;
			const length = edit.text.length;
			const past = at - edit.at;
			at = past < length ? min(edit.start + past, edit.end) : edit.end + past - length;
			break;
		}
		return lineColumn(code, at);
	};
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function decodeVlq(segment)
{
	const numbers = [];
	let value = 0, shift = 0;
	for (let i = 0; i < segment.length; i++) {
		const digit = indexOf(BASE64, segment[i]);
		value += (digit & 31) * 2 ** shift;
		shift += 5;
		if (!(digit & 32)) {
			push(numbers, value % 2 ? -(value - 1) / 2 : value / 2);
			value = shift = 0;
		}
	}
	return numbers;
}

// The mappings of a source map: the nearest one on the line that is not behind the column.
function throughMappings(mappings)
{
	return (line, column) => {
		const lines = split(mappings, ';');
		let source = 0, sourceColumn = 0, found = [line, column];
		for (let i = 0; i < min(line, lines.length); i++) {
			const segments = split(lines[i], ',');
			let made = 0;
			for (let s = 0; s < segments.length; s++) {
				const numbers = decodeVlq(segments[s]);
				made += numbers[0] || 0;
				if (numbers.length < 4)
					continue;
				source += numbers[2];
				sourceColumn += numbers[3];
				if (i < line - 1 || made <= column - 1)
					found = [source + 1, sourceColumn + 1];
			}
		}
		return found;
	};
}

function original(source, line, column)
{
	let place = [line, column];
	for (let i = source.maps.length - 1; i >= 0; i--)
		place = source.maps[i](place[0], place[1]);
	const lines = lineStarts(source.code).length;
	return source.code === '' || place[0] <= lines ? place : lineColumn(source.code, source.code.length);
}

module.exports = { SCHEME, sources, newSource, newEdit, applyEdits, throughEdits, throughMappings, original };
