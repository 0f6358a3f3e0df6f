// A part of javascript.cjs: TypeScript, from which esbuild takes the types away.

'use strict';

const { parse, push, slice, indexOf, lastIndexOf, exec, bufferOf, spawnSync, own } = require('./javascript_saved.cjs');
const { cut, textOf } = require('./javascript_texts.cjs');
const { LINE_MAX } = require('./javascript_channel.cjs');
const { throughMappings } = require('./javascript_positions.cjs');
const { syntaxError, plainError } = require('./javascript_errors.cjs');
const { hasSignal } = require('./javascript_signals.cjs');
const { fail, interrupt } = require('./javascript_calls.cjs');

const OPTIONS = ['--loader=ts', '--sourcemap=inline', '--target=es2022', '--charset=utf8',
	'--log-level=error', '--color=false'];
// What a cell imports is for later ones, too; they would go as unused.
const KEPT = '--tsconfig-raw={"compilerOptions":{"preserveValueImports":true,"verbatimModuleSyntax":true}}';
const KEEPING_OPTIONS = [...OPTIONS, KEPT];
const JSX_OPTIONS = ['--loader=tsx', '--log-level=error', '--color=false'];

// What esbuild makes of it, in the words of spawnSync().
function runEsbuild(code, options)
{
	return spawnSync('esbuild', options, { __proto__: null, input: code, encoding: 'utf8', maxBuffer: 64 * LINE_MAX });
}

// Why it is no TypeScript. With JSX the reasons are odd ones; what is right with it tells that it was meant.
function failTranspiled(call, source, code, made)
{
	const match = exec(/\[ERROR\] ([^\n]*)[\s\S]*?<stdin>:(\d+):(\d+):/, made.stderr);
	if (!match) {
		fail(call, plainError('Error', 'esbuild failed: ' + cut(made.stderr, 2000)));
		return;
	}
	const isJsx = exec(/<[A-Za-z>]/, code) && own(runEsbuild(code, JSX_OPTIONS), 'status') === 0;
	const why = isJsx ? 'JSX is not supported here: write calls, such as createElement(), in its place' : match[1];
	fail(call, syntaxError(call, why, source, [+match[2], +match[3] + 1]));
}

// The JavaScript of it, or null when the call has failed.
function transpiled(call, source, code)
{
	const made = runEsbuild(code, call.kind === 'code' ? KEEPING_OPTIONS : OPTIONS);
	if (hasSignal() || own(made, 'signal') === 'SIGINT') {
		interrupt(call);
		return null;
	}
	if (own(made, 'error')) {
		const isMissing = own(made.error, 'code') === 'ENOENT';
		fail(call, plainError('Error', isMissing
			? 'There is no esbuild in this sandbox, which TypeScript needs: install it, or write JavaScript.'
			: 'esbuild cannot be run: ' + textOf(made.error)));
		return null;
	}
	if (made.status !== 0) {
		failTranspiled(call, source, code, made);
		return null;
	}
	const at = lastIndexOf(made.stdout, '//# sourceMappingURL=');
	if (at < 0)
		return made.stdout;
	const comma = indexOf(made.stdout, ',', at);
	const map = parse(bufferOf(slice(made.stdout, comma + 1), 'base64').toString());
	push(source.maps, throughMappings(own(map, 'mappings')));
	return slice(made.stdout, 0, at);
}

module.exports = { transpiled };
