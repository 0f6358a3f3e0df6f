// A part of javascript.cjs: what a run says, as reports with a level.

'use strict';

const { min, now, stringify, slice, codeAt } = require('./javascript_saved.cjs');
const { state } = require('./javascript_state.cjs');
const { TEXT_MAX, cut } = require('./javascript_texts.cjs');
const { report } = require('./javascript_channel.cjs');

// As long as all that a run says is said by one of its streams, it goes to the pipe, where also children print. Once there
// is something on the other one, or a message, all is reported: nobody could tell in which order it was said.
let way = '';

function isReported(name)
{
	if (!state.isRun || !state.current)
		return false;
	way = way === '' || way === name ? name : 'reports';
	return way === 'reports';
}

function reportOutput(call, name, message)
{
	for (let at = 0; at < message.length;) {
		let end = min(at + TEXT_MAX, message.length);
		const last = codeAt(message, end - 1);
		if (end < message.length && last >= 0xd800 && last < 0xdc00)
			end--; // the first half of a character
		reportMessage(call, name, slice(message, at, end));
		at = end;
	}
}

function reportMessage(call, level, message)
{
	report(call, '"log":{"level":"' + level + '","message":' + stringify(message) + ',"time":' + now() / 1000 + '}');
}

function reportLog(call, level, message)
{
	way = 'reports';
	const line = message.length && message[message.length - 1] === '\n' ? slice(message, 0, -1) : message;
	reportMessage(call, level, cut(line, TEXT_MAX));
}

module.exports = { isReported, reportOutput, reportLog };
