// A part of javascript.cjs: import and require() of cells and runs, as those of a file in their directory would be.

'use strict';

const Module = require('module');
const url = require('url');
const vm = require('vm');
const {
	keys, hasOwn, startsWith, SavedPromise, SavedError, cwd, own, quietly, global, settled,
} = require('./javascript_saved.cjs');
const { SCHEME } = require('./javascript_positions.cjs');
const { placed } = require('./javascript_errors.cjs');

function inDirectory(directory, file)
{
	return startsWith(file, '/') ? file : directory + (directory === '/' ? '' : '/') + file;
}

// import() and require() of a file in the directory, which need not be there.
const places = { __proto__: null };

function placeOf(directory)
{
	if (!places[directory]) {
		const file = inDirectory(directory, '[berth].cjs');
		const module = new Module(file);
		module.filename = file;
		module.paths = Module._nodeModulePaths(directory);
		module._compile('exports.require = require; exports.import = (what, how) => import(what, how);', file);
		places[directory] = module.exports;
	}
	return places[directory];
}

function importHere(what, how, names)
{
	const here = new SavedError('import');
	return new SavedPromise((resolve, reject) => settled(placeOf(cwd()).import(what, how), (namespace) => {
		for (let i = 0; names && i < names.length; i++)
			if (!hasOwn(namespace, names[i]))
				reject(placed(new SyntaxError(
					`The requested module '${what}' does not provide an export named '${names[i]}'`), here));
		resolve(namespace);
	}, (error) => reject(placed(error, here))));
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

function makeRequire()
{
	const made = function require(what) { return placeOf(cwd()).require(what); };
	made.resolve = (what, how) => placeOf(cwd()).require.resolve(what, how);
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
	meta.resolve = (what) => url.pathToFileURL(placeOf(cwd()).require.resolve(what)).href;
	return meta;
}

// What require() and import.meta of a cell are of, as its directory is.
const meta = { __proto__: null };
let cellModule = null;

function makeCellModule()
{
	cellModule = newModule('[berth]');
}

function placeCell(file)
{
	quietly(() => placeModule(cellModule, file));
	quietly(() => addMeta(meta, file));
}

module.exports = { inDirectory, importHere, importBy, linkTo, makeRequire, newModule, addMeta, meta, makeCellModule, placeCell };
