// A part of javascript.cjs: TypeScript, from which esbuild takes the types away.

'use strict';

const {
	parse, push, slice, indexOf, lastIndexOf, startsWith, exec, utf8, bufferOf, spawnSync, own,
} = require('./javascript_saved.cjs');
const { cut, textOf } = require('./javascript_texts.cjs');
const { LINE_MAX } = require('./javascript_channel.cjs');
const {
	newEdit, applyEdits, throughEdits, throughMappings, lastMapped, offsetOf,
} = require('./javascript_positions.cjs');
const { syntaxError, plainError } = require('./javascript_errors.cjs');
const { treeOf } = require('./javascript_prepare.cjs');
const { hasSignal } = require('./javascript_signals.cjs');
const { fail, interrupt } = require('./javascript_calls.cjs');

const OPTIONS = ['--loader=ts', '--sourcemap=inline', '--target=es2022', '--charset=utf8',
	'--supported:import-assertions=true', '--log-level=error', '--color=false'];
// What a cell imports is for later ones, too; they would go as unused.
const KEPT = '--tsconfig-raw={"compilerOptions":{"preserveValueImports":true,"verbatimModuleSyntax":true}}';
const CELL_OPTIONS = [...OPTIONS, KEPT];
// Attributes of imports, which esbuild knows since 0.19.7, and would drop for its target.
const ATTRIBUTES = '--supported:import-attributes=true';
const ATTRIBUTE_OPTIONS = [...OPTIONS, ATTRIBUTES], ATTRIBUTE_CELL_OPTIONS = [...CELL_OPTIONS, ATTRIBUTES];
const JSX_OPTIONS = ['--loader=tsx', '--log-level=error', '--color=false'];

// What esbuild makes of it, in the words of spawnSync().
function runEsbuild(code, options)
{
	return spawnSync('esbuild', options, { __proto__: null, input: code, encoding: 'utf8', maxBuffer: 64 * LINE_MAX });
}

function optionsFor(call, code)
{
	const isCell = call.kind === 'code';
	if (exec(/\bimport\b|\bexport\b/, code) && exec(/\bwith\s*[:{]/, code) && own(runEsbuild('', [ATTRIBUTES]), 'status') === 0)
		return isCell ? ATTRIBUTE_CELL_OPTIONS : ATTRIBUTE_OPTIONS;
	return isCell ? CELL_OPTIONS : OPTIONS;
}

// Where esbuild says that something is: it counts the bytes of a line.
function placeOfBytes(code, line, bytes)
{
	const at = offsetOf(code, [line, 1]);
	return [line, utf8(bufferOf(slice(code, at, at + bytes), 'utf8'), 0, bytes).length + 1];
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
	const isAttribute = match[1] === 'Expected ";" but found "with"' && exec(/\bimport\b|\bexport\b/, code);
	const why = isJsx ? 'JSX is not supported here: write calls, such as createElement(), in its place'
		: isAttribute ? 'esbuild knows no attributes of imports (with) before 0.19.7: import() takes them here' : match[1];
	fail(call, syntaxError(call, why, source, placeOfBytes(code, +match[2], +match[3])));
}

// The JavaScript that it has printed, and where it comes from.
function outputOf(printed)
{
	const at = lastIndexOf(printed, '//# sourceMappingURL=');
	if (at < 0)
		return { __proto__: null, code: printed, mappings: '' };
	const comma = indexOf(printed, ',', at);
	const map = parse(bufferOf(slice(printed, comma + 1), 'base64').toString());
	return { __proto__: null, code: slice(printed, 0, at), mappings: own(map, 'mappings') };
}

// Null if it is no TypeScript.
function tried(code, options)
{
	const made = runEsbuild(code, options);
	return own(made, 'status') === 0 ? outputOf(made.stdout) : null;
}

// --- the last statement ---

// esbuild drops a statement that it has folded to a constant, such as 'a' + 'b' or -1: nobody would miss it. But here the last
// one is the value. With "0," before it, it is an expression of two, and stays. Only esbuild can tell where it begins, as it
// knows types: so places are tried where a statement may begin of which nothing came out.
const KEEPING = ';0,';
const SEARCHED_MAX = 4096;
const TRIES_MAX = 8;
const SPACE = /^(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/;
const FOLDABLE = new RegExp('^(?!(?:abstract|class|const|declare|enum|export|function|import|interface|let|module|' +
	'namespace|type|var)\\b)["\'`\\w$(+\\-!~<]');
const BRACKETS = { __proto__: null, '(': 1, '[': 1, '{': 1, ')': -1, ']': -1, '}': -1 };

// Whether all brackets have their partners there. If not, it is the rest of something.
function isBalanced(code)
{
	const token = /\/\/[^\n]*|\/\*[\s\S]*?\*\/|(["'`])(?:(?!\1)[^\\]|\\[\s\S])*\1|[()[\]{}]/g;
	let depth = 0;
	for (let found = exec(token, code); found && depth >= 0; found = exec(token, code))
		depth += BRACKETS[found[0]] || 0;
	return depth === 0;
}

function droppedStarts(code, output)
{
	const starts = [], last = lastMapped(output.mappings);
	const from = last ? offsetOf(code, last) : 0;
	if (code.length - from > SEARCHED_MAX)
		return starts;
	for (let i = from; i < code.length; i++) {
		const isEnd = code[i] === '\n' || code[i] === ';' || code[i] === '}';
		if (!isEnd && (last || i > 0))
			continue;
		let start = isEnd ? i + 1 : 0;
		start += exec(SPACE, slice(code, start))[0].length;
		const rest = slice(code, start);
		if (starts[starts.length - 1] !== start && exec(FOLDABLE, rest) && isBalanced(rest))
			push(starts, start);
	}
	return starts;
}

// As esbuild prints one.
function isConstant(node)
{
	if (node.type === 'UnaryExpression')
		return (node.operator === '-' || node.operator === 'void') && isConstant(node.argument);
	if (node.type === 'Identifier')
		return node.name === 'NaN' || node.name === 'Infinity';
	return node.type === 'Literal' ? !node.regex : node.type === 'TemplateLiteral' && !node.expressions.length;
}

// Whether the second is the first and a constant behind it.
function isKept(before, after)
{
	const tree = startsWith(after, before) ? treeOf(slice(after, before.length)) : null;
	if (!tree || !tree.body.length)
		return false;
	for (let i = 0; i < tree.body.length - 1; i++)
		if (tree.body[i].type !== 'EmptyStatement')
			return false;
	const last = tree.body[tree.body.length - 1].expression;
	if (!last || last.type !== 'SequenceExpression' || last.expressions.length !== 2)
		return false;
	return last.expressions[0].raw === '0' && isConstant(last.expressions[1]);
}

// What comes out with the edit, if a statement begins there: it adds a constant and nothing else, and what is before it is
// whole, and does not go on.
function outputIfStatement(kept, edited, edit, options)
{
	const again = tried(edited, options), head = slice(edited, 0, edit.at);
	if (!again || !isKept(kept.output.code, again.code) || own(tried(head, options), 'code') !== kept.output.code)
		return null;
	const mayGoOn = exec(/[-+(<`]/, edited[edit.at + KEEPING.length]);
	return mayGoOn && tried(head + '*1', options) ? null : again;
}

// What esbuild makes of the code when its last statement stays, and by which edits.
function keepLast(code, output, options)
{
	const kept = { __proto__: null, output, edited: code, edits: [] };
	const starts = droppedStarts(code, output);
	for (let i = starts.length > TRIES_MAX ? starts.length - TRIES_MAX : 0; i < starts.length && !hasSignal(); i++) {
		const edit = newEdit(starts[i], starts[i], KEEPING);
		push(kept.edits, edit);
		const edited = applyEdits(code, kept.edits), again = outputIfStatement(kept, edited, edit, options);
		if (again) {
			kept.output = again;
			kept.edited = edited;
		} else {
			kept.edits.length--;
		}
	}
	return kept;
}

// --- all of it ---

// The JavaScript of it, or null when the call has failed.
function transpiled(call, source, code)
{
	const options = optionsFor(call, code);
	const made = runEsbuild(code, options);
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
	const kept = keepLast(code, outputOf(made.stdout), options);
	if (hasSignal()) {
		interrupt(call);
		return null;
	}
	if (kept.edits.length)
		push(source.maps, throughEdits(code, kept.edited, kept.edits));
	push(source.maps, throughMappings(kept.output.mappings));
	return kept.output.code;
}

module.exports = { transpiled };
