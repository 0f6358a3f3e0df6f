// A part of javascript.cjs: what is shown of a value.

'use strict';

const {
	ownKeys, freeze, keys, text, stringify, join, base64, byteLength, SavedBytes, isView,
} = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');
const { TEXT_MAX, cut, textOf, shown } = require('./javascript_texts.cjs');
const { DEPTH_MAX, mended, depthOf, jsonIfPlain } = require('./javascript_json.cjs');
const { LINE_MAX, report } = require('./javascript_channel.cjs');
const { writeAll } = require('./javascript_streams.cjs');

const MIMES = {
	__proto__: null, 'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'application/json': 'json',
	'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpeg', 'text/latex': 'latex',
};
const FIELDS = freeze(['text', 'html', 'markdown', 'json', 'svg', 'png', 'jpeg', 'latex']);
const DISPLAY = Symbol.for('berth.display');

function base64Of(value)
{
	if (typeof value === 'string')
		return value;
	if (isView(value))
		return base64(new SavedBytes(value.buffer, value.byteOffset, value.byteLength), 0, value.byteLength);
	return base64(new SavedBytes(value), 0, value.byteLength);
}

// A bundle has fields of a result; json is JSON already. isCut: something of it was too large.
function reportResult(call, bundle, isValue)
{
	for (;;) {
		let fields = '', largest = '', length = 0;
		for (let i = 0; i < FIELDS.length; i++) {
			const name = FIELDS[i], value = bundle[name];
			// JSON with half of a character in it would become that of something else.
			if (value === undefined || name === 'json' && mended(value) !== value)
				continue;
			const made = name === 'json' ? value : stringify(value);
			fields += (fields ? ',' : '') + '"' + name + '":' + made;
			if (name !== 'text' && made.length > length) {
				largest = name;
				length = made.length;
			}
		}
		if (byteLength(fields) < LINE_MAX - 200) {
			fields += (isValue ? ',"is_value":true' : '') + (bundle.isCut ? ',"truncated":true' : '');
			report(call, '"result":{' + fields + '}');
			return;
		}
		bundle[largest] = undefined;
		bundle.isCut = true;
		bundle.text += '\n[' + largest + ' of ' + length + ' bytes is too large to be shown]';
	}
}

// What an object has to say of itself by [Symbol.for('berth.display')](), by our names or by MIME types.
function addRich(bundle, rich)
{
	const names = ownKeys(rich);
	for (let i = 0; i < names.length; i++) {
		if (typeof names[i] !== 'string')
			continue;
		const name = MIMES[names[i]] || names[i], value = rich[names[i]];
		if (value === undefined)
			continue;
		for (let k = 0; k < FIELDS.length; k++)
			if (FIELDS[k] === name)
				bundle[name] = name === 'json' ? stringify(value)
					: name === 'png' || name === 'jpeg' ? base64Of(value) : text(value);
	}
}

function bundleOf(value)
{
	const bundle = { __proto__: null };
	const isObject = value !== null && (typeof value === 'object' || typeof value === 'function');
	if (isObject && typeof value[DISPLAY] === 'function') {
		const rich = value[DISPLAY]();
		if (rich !== null && typeof rich === 'object')
			addRich(bundle, rich);
	}
	if (bundle.json === undefined)
		bundle.json = jsonIfPlain(value);
	bundle.isCut = bundle.json === null || bundle.json !== undefined && bundle.json.length > TEXT_MAX;
	if (bundle.isCut || bundle.json !== undefined && depthOf(bundle.json) > DEPTH_MAX)
		bundle.json = undefined;
	cutText(bundle, bundle.text === undefined ? shown(value) : bundle.text);
	return bundle;
}

function cutText(bundle, whole)
{
	bundle.text = cut(whole, TEXT_MAX);
	if (bundle.text !== whole)
		bundle.isCut = true;
}

// Between calls there is nobody to show it to: then it is printed.
function show(bundle)
{
	if (state.current && !state.current.outcome)
		reportResult(state.current, bundle, false);
	else
		writeAll(1, bundle.text + '\n');
}

function display(value, mime)
{
	if (mime === undefined)
		return show(bundleOf(value));
	const name = MIMES[mime];
	if (!name)
		throw new TypeError(`display() knows no ${textOf(mime)}; it knows ${join(keys(MIMES), ', ')}`);
	return displayAs(name, value);
}

function displayAs(name, value)
{
	const bundle = { __proto__: null };
	addRich(bundle, { __proto__: null, [name]: value });
	if (bundle[name] === undefined)
		throw new TypeError(`display.${name}() needs something to show`);
	if (bundle.text === undefined) {
		const isImage = name === 'png' || name === 'jpeg';
		bundle.text = isImage ? '[' + name + ' image]' : name === 'json' ? shown(value) : bundle[name];
	}
	cutText(bundle, bundle.text);
	show(bundle);
}

for (let i = 1; i < FIELDS.length; i++)
	display[FIELDS[i]] = (value) => displayAs(FIELDS[i], value);

module.exports = { reportResult, bundleOf, display };
