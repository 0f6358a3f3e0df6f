// A part of javascript.cjs: code as V8 is to be given it. The parser is only asked when it must be.

'use strict';

const vm = require('vm');
const {
	apply, getOwnPropertyDescriptor, keys, isArray, text, stringify, root, push, slice, indexOf, lastIndexOf, startsWith, exec, own,
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

function importCall(node, names)
{
	const attributes = attributesText(node), wanted = names ? ', [' + names + ']' : '';
	return 'await $berth(' + node.source.raw + (attributes || wanted ? ', ' + (attributes || 'undefined') + wanted : '') + ')';
}

// A declaration of those of its names that are to be of the kind, or none.
function importPart(node, how, kind)
{
	let whole = '', fields = '', names = '';
	for (let i = 0; i < node.specifiers.length; i++) {
		const one = node.specifiers[i];
		if ((how.kinds[one.local.name] || 'let') !== kind)
			continue;
		if (one.type === 'ImportNamespaceSpecifier') {
			whole = one.local.name;
			continue;
		}
		const isDefault = one.type === 'ImportDefaultSpecifier';
		const name = stringify(isDefault ? 'default' : one.imported.name || one.imported.value);
		fields += (fields && ', ') + name + ': ' + one.local.name;
		names += (names && ', ') + name;
	}
	const made = importCall(node, how.isChecked ? names : '');
	if (whole)
		return kind + ' ' + whole + ' = ' + made + (fields ? ', {' + fields + '} = ' + whole : '') + ';';
	return fields ? kind + ' {' + fields + '} = ' + made + ';' : '';
}

function importText(node, how)
{
	return importPart(node, how, 'let') + importPart(node, how, 'var') || 'void ' + importCall(node, '') + ';';
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

function eachChild(node, f)
{
	const names = keys(node);
	for (let i = 0; i < names.length; i++) {
		const value = node[names[i]];
		if (isArray(value)) {
			for (let k = 0; k < value.length; k++)
				if (value[k] && typeof value[k].type === 'string')
					f(value[k]);
		} else if (value && typeof value === 'object' && typeof value.type === 'string') {
			f(value);
		}
	}
}

// What stands in the middle of a cell that is a module, for one that is none. "import" and "$berth" are of one length.
function importEdits(code, tree, edits, how)
{
	const visit = (node) => {
		if (node.type === 'ImportDeclaration') {
			push(edits, newEdit(node.start, node.end, importText(node, how)));
			return;
		}
		if (node.type === 'ImportExpression' || node.type === 'MetaProperty' && node.meta.name === 'import')
			push(edits, newEdit(node.start, node.start + 6, '$berth'));
		if (node.type === 'ExportNamedDeclaration' || node.type === 'ExportDefaultDeclaration')
			exportEdits(code, node, edits);
		eachChild(node, visit);
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

// Under which a module exports the value of its last expression, besides what it exports itself.
const LAST = '$berth_last';
const VALUELESS = /^(Empty|Import|Export|Variable|Function|Class)/; // statements that leave the value of those before

// A module with that; of one that ends with another statement no value is known.
function withLast(source, code, tree)
{
	let i = tree.body.length - 1;
	while (i >= 0 && exec(VALUELESS, tree.body[i].type))
		i--;
	if (i < 0 || tree.body[i].type !== 'ExpressionStatement' || indexOf(code, LAST) >= 0)
		return code;
	const { start } = tree.body[i], { end } = tree.body[i].expression;
	const edits = [newEdit(start, start, 'export const ' + LAST + ' = ('), newEdit(end, end, ')')];
	const made = applyEdits(code, edits);
	push(source.maps, throughEdits(code, made, edits));
	return made;
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

// V8 lets no name become a var or a function that was a let, const or class before, or the other way round. So each stays
// what it was: one that was a var is declared as one, and one that was none is only assigned to, as it is there already.
// The kinds, by the names; what is there and neither of both is left to V8.
function kindsOf(conflicts)
{
	const kinds = { __proto__: null };
	for (let i = 0; i < conflicts.length; i++) {
		const found = getOwnPropertyDescriptor(root, conflicts[i]);
		if (own(found, 'configurable') !== false)
			kinds[conflicts[i]] = 'let';
		else if (own(found, 'writable'))
			kinds[conflicts[i]] = 'var';
	}
	return kinds;
}

const runHere = vm.Script.prototype.runInThisContext;

// Whether its declaration has failed: then nothing can be assigned to it before it is declared once more.
function isUnset(name)
{
	return quietly(() => apply(runHere, new vm.Script('typeof ' + name), []), '') === '';
}

// Where the first statement is, behind what must be the first of all.
function frontOf(tree)
{
	let i = 0;
	while (i < tree.body.length - 1 && tree.body[i].directive)
		i++;
	return tree.body[i].start;
}

// A function is there before the code begins, so it is moved to the front, without its name: within, that is to be the name
// of the variable. In its place nothing is left that the line before could go on with.
function moveFunction(code, node, front, edits, how)
{
	const inner = [blank(code, node.id.start, node.id.end)], name = node.id.name;
	importEdits(code, node, inner, how);
	const edited = applyEdits(code, inner), grown = edited.length - code.length;
	push(edits, newEdit(front, front, 'var {} = (' + name + ' = '));
	push(edits, newEdit(front, front, slice(edited, node.start, node.end + grown), node.start, node.end));
	push(edits, newEdit(front, front, ', 0); '));
	const left = blank(code, node.start, node.end);
	left.text = ';' + slice(left.text, 1);
	push(edits, left);
}

function functionEdits(code, tree, edits, how)
{
	const names = keys(how.kinds), front = frontOf(tree);
	for (let i = 0; i < names.length; i++)
		if (how.kinds[names[i]] === 'let' && isUnset(names[i]))
			push(edits, newEdit(front, front, 'let ' + names[i] + '; '));
	for (let i = 0; i < tree.body.length; i++) {
		const node = declaredBy(tree.body[i]);
		if (!node || node.type !== 'FunctionDeclaration' || !node.id || how.kinds[node.id.name] !== 'let')
			continue;
		moveFunction(code, node, front, edits, how);
		// All is done for what is in it.
		node.type = 'EmptyStatement';
		node.id = node.params = node.body = null;
	}
}

function declaredBy(node)
{
	return exec(/^Export(Named|Default)Declaration$/, node.type) ? node.declaration : node;
}

function classEdits(tree, edits, kinds)
{
	for (let i = 0; i < tree.body.length; i++) {
		const node = declaredBy(tree.body[i]);
		if (!node || node.type !== 'ClassDeclaration' || !node.id || kinds[node.id.name] !== 'var')
			continue;
		push(edits, newEdit(node.start, node.start, 'var ' + node.id.name + ' = '));
		push(edits, newEdit(node.end, node.end, ';'));
	}
}

// Those of variables that are of the whole cell: they may stand in blocks and loops.
function eachDeclaration(tree, f)
{
	const visit = (node, parent) => {
		const isTop = parent === tree || parent && parent.type === 'ExportNamedDeclaration';
		if (node.type === 'VariableDeclaration' && (isTop || node.kind === 'var'))
			f(node, parent);
		if (!exec(/Function|Class/, node.type))
			eachChild(node, (child) => visit(child, node));
	};
	visit(tree, null);
}

// A pattern without names keeps a list of assignments a declaration, which may stand in its place and is no value.
// Others are the names that are no longer declared thereby, and are not there already.
function variableEdits(node, parent, kinds, edits, others)
{
	const found = { __proto__: null }, parts = node.declarations, isOver = parent.left === node;
	for (let i = 0; i < parts.length; i++)
		addNames(parts[i].id, found);
	const names = keys(found);
	let isVar = node.kind === 'var', isAssigned = false;
	for (let i = 0; i < names.length; i++)
		isVar = isVar || kinds[names[i]] === 'var';
	for (let i = 0; i < names.length; i++)
		isAssigned = isAssigned || isVar && kinds[names[i]] === 'let';
	// What is as it was; and `for (var a = 1 in b)`, which has no other form.
	if (isVar === (node.kind === 'var') && !isAssigned || isOver && parts[0].init)
		return;
	const word = !isAssigned ? 'var' : isOver ? '' : 'var {} = (', end = node.start + node.kind.length;
	push(edits, newEdit(node.start, end, word));
	for (let i = 0; i < parts.length && !isOver; i++)
		if (!parts[i].init && node.kind === 'var')
			push(edits, newEdit(parts[i].start, parts[i].end, '0'));
		else if (!parts[i].init)
			push(edits, newEdit(parts[i].end, parts[i].end, ' = void 0'));
	if (isAssigned && !isOver)
		push(edits, newEdit(parts[parts.length - 1].end, parts[parts.length - 1].end, ', 0)'));
	for (let i = 0; i < names.length && isAssigned; i++)
		others[names[i]] = kinds[names[i]] !== 'let';
}

function kindEdits(code, tree, edits, how)
{
	const others = { __proto__: null };
	functionEdits(code, tree, edits, how);
	classEdits(tree, edits, how.kinds);
	eachDeclaration(tree, (node, parent) => variableEdits(node, parent, how.kinds, edits, others));
	const names = keys(others);
	for (let i = 0; i < names.length; i++)
		if (others[names[i]])
			push(edits, newEdit(code.length, code.length, '\nvar ' + names[i] + ';'));
}

// A const stays one in V8, whatever is declared later. So those at the top are let: the price of declaring them again as
// something that changes.
function constEdits(tree, edits)
{
	const taken = { __proto__: null };
	for (let i = 0; i < edits.length; i++)
		if (edits[i].end > edits[i].start)
			taken[edits[i].start] = true;
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
	const how = { __proto__: null, isChecked: call.language !== 'typescript', kinds: kindsOf(conflicts) };
	if (conflicts.length)
		kindEdits(code, tree, edits, how);
	importEdits(code, tree, edits, how);
	constEdits(tree, edits);
	if (!edits.length)
		return code;
	const made = applyEdits(code, edits);
	push(source.maps, throughEdits(code, made, edits));
	return made;
}

module.exports = { LAST, treeOf, mistakeOf, hasExports, withLast, prepared };
