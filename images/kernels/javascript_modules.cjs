// A part of javascript.cjs: import and require() of cells and runs, as those of a file in their directory would be.

'use strict';

const Module = require('module');
const url = require('url');
const vm = require('vm');
const {
	defineProperty, isArray, keys, hasOwn, slice, indexOf, startsWith, define, SavedPromise, SavedError, cwd, own,
	quietly, global, settled,
} = require('./javascript_saved.cjs');
const { SCHEME, PLACE } = require('./javascript_positions.cjs');
const { stackOf, fileOf, placed } = require('./javascript_errors.cjs');

function inDirectory(directory, file)
{
	return startsWith(file, '/') ? file : directory + (directory === '/' ? '' : '/') + file;
}

// import() and require() of a file in the directory, which need not be there.
const places = { __proto__: null };

function placeOf(directory)
{
	if (!places[directory]) {
		const file = inDirectory(directory, PLACE);
		const module = new Module(file);
		module.filename = file;
		module.paths = Module._nodeModulePaths(directory);
		module._compile('exports.require = require; exports.import = (what, how) => import(what, how);', file);
		places[directory] = module.exports;
	}
	return places[directory];
}

function renamedIn(value, from, to)
{
	let made = '', done = 0;
	for (let at = indexOf(value, from); at >= 0; at = indexOf(value, from, done)) {
		made += slice(value, done, at) + to;
		done = at + from.length;
	}
	return made + slice(value, done);
}

// Who asked for a module that is not there, by node's word, is the place in whose name that was done: it is the code.
function named(error, directory)
{
	const from = inDirectory(directory, PLACE), message = own(error, 'message'), files = own(error, 'requireStack');
	if (typeof message !== 'string' || indexOf(message, from) < 0)
		return error;
	const stack = stackOf(error), to = inDirectory(directory, fileOf(error) || cellFile);
	defineProperty(error, 'message', { __proto__: null, value: renamedIn(message, from, to) });
	if (stack)
		defineProperty(error, 'stack', { __proto__: null, value: renamedIn(stack, from, to) });
	for (let i = 0; isArray(files) && i < files.length; i++)
		if (files[i] === from)
			define(files, i, to);
	return error;
}

function importHere(what, how, names)
{
	const here = new SavedError('import'), directory = cwd();
	return new SavedPromise((resolve, reject) => settled(placeOf(directory).import(what, how), (namespace) => {
		for (let i = 0; names && i < names.length; i++)
			if (!hasOwn(namespace, names[i]))
				reject(placed(new SyntaxError(
					`The requested module '${what}' does not provide an export named '${names[i]}'`), here));
		resolve(namespace);
	}, (error) => reject(quietly(() => named(placed(error, here), directory), error))));
}

// As import() is told attributes of imports; its older name for them is there for the nodes that know no other.
function importBy(what, attributes)
{
	const isAny = attributes && keys(attributes).length;
	return importHere(what, isAny ? { __proto__: null, assert: attributes, with: attributes } : undefined);
}

function linkTo(what, _, more)
{
	const attributes = own(more, 'attributes') || own(more, 'assert');
	return new SavedPromise((resolve, reject) => settled(importBy(what, attributes), (namespace) => {
		const names = keys(namespace);
		resolve(new vm.SyntheticModule(names, function () {
			for (let i = 0; i < names.length; i++)
				this.setExport(names[i], namespace[names[i]]);
		}, { identifier: SCHEME + what }));
	}, reject));
}

// Asks for a module by f(place).
function requireHere(f)
{
	const directory = cwd();
	try {
		return f(placeOf(directory));
	} catch (error) {
		throw quietly(() => named(error, directory), error);
	}
}

function makeRequire()
{
	const made = function require(what) { return requireHere((place) => place.require(what)); };
	made.resolve = (what, how) => requireHere((place) => place.require.resolve(what, how));
	made.resolve.paths = (what) => placeOf(cwd()).require.resolve.paths(what);
	made.cache = Module._cache;
	made.extensions = Module._extensions;
	made.main = undefined;
	return made;
}

function placeModule(module, file)
{
	module.filename = inDirectory(cwd(), file);
	module.paths = Module._nodeModulePaths(cwd());
}

function newModule(file)
{
	const module = new Module(inDirectory(cwd(), file));
	placeModule(module, file);
	global('module', module);
	global('exports', module.exports);
	return module;
}

function addMeta(meta, file)
{
	meta.filename = inDirectory(cwd(), file);
	meta.dirname = cwd();
	meta.url = url.pathToFileURL(meta.filename).href;
	meta.resolve = (what) => url.pathToFileURL(requireHere((place) => place.require.resolve(what))).href;
	return meta;
}

// What require() and import.meta of a cell are of, as its directory is.
const meta = { __proto__: null };
let cellModule = null, cellFile = '';

function makeCellModule()
{
	cellModule = newModule('[berth]');
}

function placeCell(file)
{
	cellFile = file;
	quietly(() => placeModule(cellModule, file));
	quietly(() => addMeta(meta, file));
}

module.exports = { inDirectory, importHere, importBy, linkTo, makeRequire, newModule, addMeta, meta, makeCellModule, placeCell };
