// Compares the tools that the converter reads in the TypeScript files of a folder with those that the files make when
// they run.
//
//   node folder.mjs <program> <folder> [3|4]
//
// <program> is the example `zod_tools` of bosun-convert; what `zod` alone means is said by the nearest package.json, else
// by the last argument. The files are run, with stand-ins for every package but Zod that keep the tools that are given to
// them, and every function that a file exports is called with a stand-in of an MCP server: use it on files that you
// trust. A file that cannot be run this way is printed and not compared. Every difference is printed and fails the run.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';
import ts from 'typescript';
import * as zod3 from 'zod/v3';
import { zodToJsonSchema } from 'zod-to-json-schema';
import * as zod4 from 'zod4';

console.warn = () => {};
// What a file begins and does not wait for may fail later; the tools that it made are compared nevertheless.
process.on('unhandledRejection', () => {});
const [program, folder, assumed = '3'] = process.argv.slice(2);

/** Something that can be called, made and asked for members, without end. */
function nothing() {
  const target = function () {};
  return new Proxy(target, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => '' : key === 'then' ? undefined : nothing()),
    apply: () => nothing(),
    construct: () => nothing(),
  });
}

/** A workflow of Mastra, whose steps are added by `then`, among others. As a promise it has no value. */
function workflow() {
  const chain = new Proxy(function () {}, {
    get: (_, key) => (key === 'then' ? (first, second) => (typeof second === 'function' ? first() : chain) : () => chain),
  });
  return chain;
}

function isZod(value) {
  return value && typeof value === 'object' && ('_def' in value || '_zod' in value);
}

function jsonSchema(schema, shape) {
  if (schema === undefined || schema === null) return null;
  if (!isZod(schema)) {
    if (!shape || Object.values(schema).some((member) => !isZod(member))) return schema;
    const is4 = Object.values(schema).some((member) => '_zod' in member);
    return jsonSchema(Object.keys(schema).length ? (is4 ? zod4.z : zod3.z).object(schema) : undefined);
  }
  if ('_zod' in schema) return zod4.z.toJSONSchema(schema, { io: 'input' });
  const { $schema, ...written } = zodToJsonSchema(schema, { $refStrategy: 'none', removeAdditionalStrategy: 'strict', allowedAdditionalProperties: undefined });
  return written;
}

/**
 * Wraps every call in `madeAt(line, call)`, with the line of the source where the call begins: the Vercel AI SDK gives a
 * tool no name, so its tools are recognised by their places.
 */
function withLines(context) {
  return (source) => {
    const visit = (node) => {
      const visited = ts.visitEachChild(node, visit, context);
      if (!ts.isCallExpression(node) || node.pos < 0 || ![ts.SyntaxKind.Identifier, ts.SyntaxKind.PropertyAccessExpression].includes(node.expression.kind)) return visited;
      if (!/(^|\.)tool$/.test(node.expression.getText(source))) return visited;
      const line = source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
      return ts.factory.createCallExpression(ts.factory.createIdentifier('madeAt'), undefined, [ts.factory.createNumericLiteral(line), visited]);
    };
    return ts.visitNode(source, visit);
  };
}

/**
 * Runs a file, for which `zod` alone is the version `bare`, and returns the tools that it made, by name; those of the
 * Vercel AI SDK by their lines. `places` has the lines of those with a name that this file itself made, as it was run.
 */
async function run(file, bare) {
  const made = new Map();
  // By tool with a name: where in this file it was made. Others come out of the files that it imports.
  const places = new Map();
  const add = (name, schema, shape) => {
    if (typeof name !== 'string') return;
    made.set(name, jsonSchema(schema, shape));
    // The first caller outside of this script.
    const caller = new Error().stack.split('\n').slice(1).find((line) => !line.includes(import.meta.url) && /:\d+:\d+\)?$/.test(line));
    const place = caller?.split(`${file}:`)[1];
    if (place) places.set(name, parseInt(place, 10));
  };
  const server = () => new Proxy(function () {}, {
    get: (_, key) => {
      if (key === 'registerTool') return (name, config) => { add(name, config?.inputSchema, true); return nothing(); };
      if (key === 'tool') {
        return (name, ...rest) => {
          const shape = rest.find((value) => value && typeof value === 'object' && (isZod(value) || Object.values(value).every(isZod)));
          add(name, shape, true);
          return nothing();
        };
      }
      return key === 'then' ? undefined : nothing();
    },
  });
  class Kept {
    constructor(options) {
      if (options?.name) add(options.name, options.schema);
    }
  }
  // LangChain gives a tool without a schema one optional text.
  const oneText = { type: 'object', properties: { input: { type: 'string' } } };
  class KeptText {
    constructor(options) {
      if (options?.name) add(options.name, oneText);
    }
  }
  const packages = {
    tool: (first, second) => {
      if (second) add(second.name, second.schema ?? oneText);
      return { ...first, isTool: !second, schema: first?.inputSchema ?? first?.parameters };
    },
    createTool: (options) => { add(options.id, options.inputSchema); return options; },
    DynamicStructuredTool: Kept, DynamicTool: KeptText, StructuredTool: class {}, Tool: class {},
    McpServer: function () { return server(); },
    createWorkflow: workflow, jsonSchema: (schema) => schema, zodSchema: (schema) => schema,
  };
  const modules = new Map();
  const load = (name, from) => {
    if (name === 'zod/v4') return zod4;
    if (name === 'zod/v3') return zod3;
    if (name === 'zod') return bare === '4' ? zod4 : zod3;
    if (name.startsWith('.')) {
      const base = path.resolve(path.dirname(from), name);
      const found = [base.replace(/\.js$/, '.ts'), base, `${base}.ts`, `${base}.js`, path.join(base, 'index.ts')].find((one) => existsSync(one) && statSync(one).isFile());
      if (found) return evaluate(found);
    }
    return new Proxy({ __esModule: true }, { get: (_, key) => (key in packages ? packages[key] : key === '__esModule' ? true : nothing()) });
  };
  const started = [];
  function evaluate(source) {
    if (modules.has(source)) return modules.get(source).exports;
    const module = { exports: {} };
    modules.set(source, module);
    const { outputText } = ts.transpileModule(readFileSync(source, 'utf8').replace(/^#!.*/, ''), {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.CommonJS, esModuleInterop: false },
      transformers: { before: [withLines] },
    });
    const code = outputText.replaceAll('import.meta', 'importMeta');
    const madeAt = (line, value) => {
      if (source === file && value?.isTool === true) made.set(line, jsonSchema(value.schema));
      return value;
    };
    const context = { ...scope(source), module, madeAt, exports: module.exports, require: (name) => load(name, source) };
    const execute = (kind) => vm.runInNewContext(`(${kind} () { ${code}\n})()`, context, { filename: source, timeout: 30_000 });
    try {
      execute('function');
    } catch (error) {
      // `await` at the top level of a module; before parentheses it would be a function.
      if (error?.name !== 'SyntaxError' && error?.message !== 'await is not defined') throw error;
      started.push(execute('async function'));
    }
    return module.exports;
  }
  const exported = evaluate(file);
  await Promise.race([Promise.all(started), new Promise((resolve) => { setTimeout(resolve, 500).unref(); })]);
  // A server may be put together from functions that each add a tool to it. Others are not called: with stand-ins, a loop
  // may have no end.
  for (const value of Object.values(exported)) {
    if (typeof value === 'function' && !/tool|server/i.test(Function.prototype.toString.call(value))) continue;
    if (typeof value !== 'function' || value.prototype?.constructor === value && Object.getOwnPropertyNames(value.prototype).length > 1) continue;
    try {
      const result = value(server(), server(), server());
      if (result instanceof Promise || typeof result?.catch === 'function') result.catch(() => {});
    } catch {
      // It wanted something else than a server.
    }
  }
  return { made, places };
}

/** What a program finds around it; whatever it begins there has no effect. */
function scope(source) {
  const console = new Proxy({}, { get: () => () => {} });
  const process = new Proxy({ env: {}, argv: [], cwd: () => '/', exit() {}, on() {}, platform: 'linux' }, { get: (known, key) => (key in known ? known[key] : nothing()) });
  const importMeta = { url: pathToFileURL(source).href, dirname: path.dirname(source), filename: source, env: {} };
  const later = { setTimeout() {}, setInterval() {}, clearTimeout() {}, clearInterval() {}, setImmediate() {}, queueMicrotask() {} };
  const web = { URL, URLSearchParams, TextEncoder, TextDecoder, AbortController, AbortSignal, structuredClone, crypto: nothing(), performance: { now: () => 0 }, fetch: nothing(), Buffer };
  return { ...later, ...web, console, process, importMeta, __dirname: path.dirname(source), __filename: source };
}

/** The version of Zod that the nearest package.json depends on. */
function installed(file) {
  for (let folder = path.dirname(path.resolve(file)); ; folder = path.dirname(folder)) {
    const described = path.join(folder, 'package.json');
    if (existsSync(described)) {
      const { dependencies, devDependencies, peerDependencies } = JSON.parse(readFileSync(described, 'utf8'));
      const range = { ...peerDependencies, ...devDependencies, ...dependencies }.zod ?? '';
      const major = /(\d+)(?:\.|$)/.exec(range.split('||').pop())?.[1];
      return major === '3' || major === '4' ? major : undefined;
    }
    if (folder === path.dirname(folder)) return undefined;
  }
}

const sorted = (value) => JSON.stringify(value, (_, member) => (member && typeof member === 'object' && !Array.isArray(member) ? Object.fromEntries(Object.entries(member).sort()) : member));
const counts = { files: 0, 'not run': 0, equal: 0, refused: 0, 'not reached': 0, 'not found': 0, different: 0 };
for (const name of readdirSync(folder, { recursive: true }).sort()) {
  if (!/\.[cm]?[jt]s$/.test(name) || name.endsWith('.d.ts') || name.includes('node_modules')) continue;
  const file = path.join(folder, name);
  counts.files += 1;
  const bare = installed(file) ?? assumed;
  const { tools, faults } = JSON.parse(spawnSync(program, [file, bare], { encoding: 'utf8', maxBuffer: 1 << 28 }).stdout || '{"tools":[],"faults":[]}');
  let made;
  let places;
  try {
    ({ made, places } = await run(path.resolve(file), bare));
  } catch (error) {
    counts['not run'] += 1;
    console.log(`${name}: not run: ${error.message}`);
    continue;
  }
  counts.refused += faults.length;
  for (const { line, message } of faults) if (process.env.REFUSED) console.log(`${name}:${line}: refused: ${message}`);
  for (const { name: tool, form, line, parameters } of tools) {
    const key = form === 'tool_object' ? line : tool;
    if (!made.has(key)) {
      // The program would have to take another way to make this one.
      counts['not reached'] += 1;
      continue;
    }
    const theirs = made.get(key);
    made.delete(key);
    const isEqual = theirs === null ? !Object.keys(parameters.properties ?? {}).length : sorted(theirs) === sorted(parameters);
    if (isEqual) {
      counts.equal += 1;
    } else {
      counts.different += 1;
      console.log(`${name}: ${tool}\n  ours   ${sorted(parameters)}\n  theirs ${sorted(theirs)}`);
    }
  }
  // Every tool of this file that has a place was found, or refused with a reason.
  // A loop makes many at one place.
  const sites = [...made.keys()].map((key) => (typeof key === 'number' ? key : places.has(key) ? `run:${places.get(key)}` : undefined));
  const missed = [...new Set(sites)].filter((site) => site !== undefined);
  if (missed.length > faults.length) {
    counts['not found'] += missed.length - faults.length;
    console.log(`${name}: of the tools at the lines ${missed.join(', ')}, ${missed.length - faults.length} were neither found nor refused`);
  }
}
console.log(Object.entries(counts).map(([what, count]) => `${what} ${count}`).join(', '));
// Work that a file started may still be running.
process.exit(counts.different || counts['not found'] || !counts.equal ? 1 : 0);
