// Compares the tools that the converter reads in the TypeScript files of a folder with those that the files make when
// they run.
//
//   node folder.mjs <program> <folder> [3|4]
//
// <program> is the example `zod_tools` of bosun-convert; the last argument says what `zod` alone means. The files are
// run, with stand-ins for every package but Zod that keep the tools that are given to them: use it on files that you
// trust. A file that cannot be run this way is counted and not compared. Every difference is printed and fails the run.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import ts from 'typescript';
import * as zod3 from 'zod/v3';
import { zodToJsonSchema } from 'zod-to-json-schema';
import * as zod4 from 'zod4';

console.warn = () => {};
// What a file begins and does not wait for may fail later; the tools that it made are compared nevertheless.
process.on('unhandledRejection', () => {});
const [program, folder, bare = '3'] = process.argv.slice(2);

/** Something that can be called, made and asked for members, without end. */
function nothing() {
  const target = function () {};
  return new Proxy(target, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => '' : key === 'then' ? undefined : nothing()),
    apply: () => nothing(),
    construct: () => nothing(),
  });
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

/** Runs a file and returns the tools that it made, by name. */
function run(file) {
  const made = new Map();
  const add = (name, schema, shape) => {
    if (typeof name === 'string') made.set(name, jsonSchema(schema, shape));
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
  const packages = {
    tool: (first, second) => {
      if (second) add(second.name, second.schema);
      else if (first?.name) add(first.name, first.inputSchema ?? first.parameters);
      return { isTool: true, schema: first?.inputSchema ?? first?.parameters };
    },
    createTool: (options) => { add(options.id, options.inputSchema); return options; },
    DynamicStructuredTool: Kept, DynamicTool: Kept, StructuredTool: class {}, Tool: class {},
    McpServer: function () { return server(); },
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
  function evaluate(source) {
    if (modules.has(source)) return modules.get(source).exports;
    const module = { exports: {} };
    modules.set(source, module);
    const { outputText } = ts.transpileModule(readFileSync(source, 'utf8').replace(/^#!.*/, ''), { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.CommonJS, esModuleInterop: false } });
    const scope = { module, exports: module.exports, require: (name) => load(name, source), console: { log() {}, error() {}, warn() {} }, process: { env: {}, argv: [], exit() {}, on() {} }, setTimeout() {}, fetch: nothing(), Buffer };
    vm.runInNewContext(`(function () { ${outputText}\n})()`, scope, { filename: source, timeout: 2000 });
    return module.exports;
  }
  const exported = evaluate(file);
  // The Vercel AI SDK names a tool after the member that holds it.
  for (const [name, value] of Object.entries(exported)) if (value?.isTool && !made.has(name)) add(name, value.schema);
  return made;
}

const sorted = (value) => JSON.stringify(value, (_, member) => (member && typeof member === 'object' && !Array.isArray(member) ? Object.fromEntries(Object.entries(member).sort()) : member));
const counts = { files: 0, 'not run': 0, equal: 0, refused: 0, different: 0 };
for (const name of readdirSync(folder, { recursive: true }).sort()) {
  if (!/\.[cm]?[jt]s$/.test(name) || name.endsWith('.d.ts') || name.includes('node_modules')) continue;
  const file = path.join(folder, name);
  counts.files += 1;
  const { tools, faults } = JSON.parse(spawnSync(program, [file, bare], { encoding: 'utf8', maxBuffer: 1 << 28 }).stdout || '{"tools":[],"faults":[]}');
  let made;
  try {
    made = run(path.resolve(file));
  } catch (error) {
    counts['not run'] += 1;
    continue;
  }
  counts.refused += faults.length;
  for (const { name: tool, parameters } of tools) {
    if (!made.has(tool)) continue;
    const theirs = made.get(tool);
    if (theirs === null || sorted(theirs) === sorted(parameters)) {
      counts.equal += 1;
    } else {
      counts.different += 1;
      console.log(`${name}: ${tool}\n  ours   ${sorted(parameters)}\n  theirs ${sorted(theirs)}`);
    }
  }
}
console.log(Object.entries(counts).map(([what, count]) => `${what} ${count}`).join(', '));
if (counts.different || !counts.equal) process.exit(1);
