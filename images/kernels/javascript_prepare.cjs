// A part of javascript.cjs: code as V8 is to be given it. The parser is only asked when it must be.

'use strict';

const {
	getOwnPropertyDescriptor, keys, isArray, text, stringify, root, push, slice, lastIndexOf, startsWith, exec, own,
	quietly,
} = require('./javascript_saved.cjs');
const { lineColumn, newEdit, applyEdits, throughEdits } = require('./javascript_positions.cjs');

let acorn;

function parseOrThrow(code)
{
	acorn = acorn || require('internal/deps/acorn/acorn/dist/acorn');
	return acorn.parse(code, {
		ecmaVersion: 'latest', sourceType: 'script', allowHashBang: true,
		allowAwaitOutsideFunction: true, allowImportExportEverywhere: true,
	});
}

function parsed(code)
{
	return quietly(() => parseOrThrow(code), null);
}

// Attributes of imports by their older name, which V8 knows up to node 21, and the parser never did.
const ASSERTS = /\b(?:from|import)\s*(?:'[^'\n]*'|"[^"\n]*")\s*assert\s*\{/g;
const KNOWS_ASSERT = parseInt(process.versions.node, 10) < 22;

// The same in the newer one, with all places where they were.
function withoutAsserts(code)
{
	const edits = [];
	ASSERTS.lastIndex = 0;
	for (let found = exec(ASSERTS, code); found; found = exec(ASSERTS, code)) {
		const at = lastIndexOf(code, 'assert', ASSERTS.lastIndex);
		push(edits, newEdit(at, at + 6, 'with  '));
	}
	return applyEdits(code, edits);
}

// What the parser does not understand, and where, of code that V8 does not take for its imports or exports. Null if it does.
function mistakeOf(code)
{
	const read = KNOWS_ASSERT ? withoutAsserts(code) : code;
	try {
		parseOrThrow(read);
		return null;
	} catch (error) {
		const at = own(error, 'pos');
		if (typeof at !== 'number')
			return null;
		const isAttribute = exec(/^(?:with|assert)\s*\{/, slice(read, at, at + 100));
		return { __proto__: null, place: lineColumn(code, at), message: isAttribute
			? 'This node knows no attributes of imports here: require() reads JSON, too'
			: exec(/^[^]*?(?= \(\d+:\d+\)$|$)/, text(error.message))[0] };
	}
}

// The tree, or null where the parser does not know the language that V8 knows, or it is no code at all.
function treeOf(code)
{
	return parsed(code) || (KNOWS_ASSERT && exec(/\bassert\b/, code) ? parsed(withoutAsserts(code)) : null);
}

function attributesText(node)
{
	const given = node.attributes || [];
	let made = '';
	for (let i = 0; i < given.length; i++)
		made += (made && ', ') + (given[i].key.raw || given[i].key.name) + ': ' + given[i].value.raw;
	return made ? '{ with: { ' + made + ' } }' : '';
}

function importText(node, isChecked)
{
	let whole = '', fields = '', names = '';
	for (let i = 0; i < node.specifiers.length; i++) {
		const one = node.specifiers[i];
		if (one.type === 'ImportNamespaceSpecifier') {
			whole = one.local.name;
			continue;
		}
		const isDefault = one.type === 'ImportDefaultSpecifier';
		const name = stringify(isDefault ? 'default' : one.imported.name || one.imported.value);
		fields += (fields && ', ') + name + ': ' + one.local.name;
		names += (names && ', ') + name;
	}
	const attributes = attributesText(node), wanted = isChecked && names ? ', [' + names + ']' : '';
	const made = '$berth(' + node.source.raw + (attributes || wanted ? ', ' + (attributes || 'undefined') + wanted : '') + ')';
	if (whole)
		return 'let ' + whole + ' = await ' + made + (fields ? ', {' + fields + '} = ' + whole : '') + ';';
	return fields ? 'let {' + fields + '} = await ' + made + ';' : 'void await ' + made + ';';
}

function blank(code, start, end)
{
	let made = '';
	for (let i = start; i < end; i++)
		made += code[i] === '\n' ? '\n' : ' ';
	return newEdit(start, end, made);
}

// What is exported without a name is an expression, and not what the line before goes on with.
function exportEdits(code, node, edits)
{
	const declared = node.declaration, edit = blank(code, node.start, declared ? declared.start : node.end);
	push(edits, edit);
	if (!declared || !exec(/^(Function|Class)Declaration$/, declared.type) || declared.id)
		return;
	edit.text = ';(' + slice(edit.text, 2);
	push(edits, newEdit(declared.end, declared.end, ');'));
}

// What stands in the middle of a cell that is a module, for one that is none. "import" and "$berth" are of one length.
function importEdits(code, tree, edits, isChecked)
{
	const visit = (node) => {
		if (node.type === 'ImportDeclaration') {
			push(edits, newEdit(node.start, node.end, importText(node, isChecked)));
			return;
		}
		if (node.type === 'ImportExpression' || node.type === 'MetaProperty' && node.meta.name === 'import')
			push(edits, newEdit(node.start, node.start + 6, '$berth'));
		if (node.type === 'ExportNamedDeclaration' || node.type === 'ExportDefaultDeclaration')
			exportEdits(code, node, edits);
		const names = keys(node);
		for (let i = 0; i < names.length; i++) {
			const value = node[names[i]];
			if (isArray(value)) {
				for (let k = 0; k < value.length; k++)
					if (value[k] && typeof value[k].type === 'string')
						visit(value[k]);
			} else if (value && typeof value === 'object' && typeof value.type === 'string') {
				visit(value);
			}
		}
	};
	visit(tree);
}

function hasExports(tree)
{
	for (let i = 0; i < tree.body.length; i++)
		if (startsWith(tree.body[i].type, 'Export'))
			return true;
	return false;
}

function addNames(pattern, names)
{
	if (!pattern)
		return;
	if (pattern.type === 'Identifier')
		names[pattern.name] = true;
	const parts = pattern.properties || pattern.elements || [];
	for (let i = 0; i < parts.length; i++)
		addNames(parts[i], names);
	if (pattern.type === 'Property')
		addNames(pattern.value, names);
	else if (pattern.type === 'AssignmentPattern')
		addNames(pattern.left, names);
	else
		addNames(pattern.argument, names);
}

// V8 lets no name become a var or a function that was a let, const or class before, or the other way round. So it is
// declared here as what it was. False if the name is not declared at the top.
function kindEdits(code, tree, name, edits)
{
	let isFound = false;
	const wasVar = own(getOwnPropertyDescriptor(root, name), 'configurable') === false;
	for (let i = 0; i < tree.body.length; i++) {
		let node = tree.body[i];
		if (node.type === 'ForStatement' && node.init)
			node = node.init;
		else if (node.type === 'ForInStatement' || node.type === 'ForOfStatement')
			node = node.left;
		const names = { __proto__: null };
		if (node.type === 'VariableDeclaration')
			for (let k = 0; k < node.declarations.length; k++)
				addNames(node.declarations[k].id, names);
		else if (node.type === 'ClassDeclaration' || node.type === 'FunctionDeclaration')
			names[node.id.name] = true;
		if (!names[name] || (node.type === 'VariableDeclaration') && (node.kind === 'var') !== !wasVar)
			continue;
		const edit = newEdit(node.start, node.start, '');
		if (node.type === 'VariableDeclaration') {
			edit.end += node.kind.length;
			edit.text = (wasVar ? 'var' : isFound ? '' : 'let') + (node.kind === 'const' ? '  ' : '');
		} else if (node.type === (wasVar ? 'ClassDeclaration' : 'FunctionDeclaration')) {
			edit.text = (wasVar ? 'var ' : isFound ? '' : 'let ') + name + ' = ';
			push(edits, newEdit(node.end, node.end, ';'));
		} else {
			continue;
		}
		isFound = true;
		push(edits, edit);
	}
	return isFound;
}

// A const stays one in V8, whatever is declared later. So those at the top are let: the price of declaring them again as
// something that changes.
function constEdits(tree, edits)
{
	const taken = { __proto__: null };
	for (let i = 0; i < edits.length; i++)
		taken[edits[i].start] = edits[i].end > edits[i].start;
	for (let i = 0; i < tree.body.length; i++) {
		const node = tree.body[i].type === 'ExportNamedDeclaration' ? tree.body[i].declaration : tree.body[i];
		if (node && node.type === 'VariableDeclaration' && node.kind === 'const' && !taken[node.start])
			push(edits, newEdit(node.start, node.start + 5, 'let  '));
	}
}

// What V8 is to be given for a piece of code. Conflicts are names that it would not take in their kind.
function prepared(call, source, code, conflicts)
{
	if (!conflicts.length && !exec(/\b(import|export|const)\b/, code))
		return code;
	const tree = treeOf(code), edits = [];
	if (!tree)
		return code;
	importEdits(code, tree, edits, call.language !== 'typescript');
	for (let i = 0; i < conflicts.length; i++)
		if (!kindEdits(code, tree, conflicts[i], edits))
			return code;
	constEdits(tree, edits);
	if (!edits.length)
		return code;
	const made = applyEdits(code, edits);
	push(source.maps, throughEdits(code, made, edits));
	return made;
}

module.exports = { treeOf, mistakeOf, hasExports, prepared };
