// A worker that runs a TypeScript file and answers with the tools that the file made.
//
// Every package but Zod is a stand-in that keeps the tools that are given to it. A message is `{ file, bare }`, with the
// version that `zod` alone means; the answer is `{ made, places }` or `{ error }`. A file may have no end: the sender
// terminates a worker that does not answer.

import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';
import { parentPort } from 'node:worker_threads';
import ts from 'typescript';
import * as zod3 from 'zod/v3';
import { zodToJsonSchema } from 'zod-to-json-schema';
import * as zod4 from 'zod4';

console.warn = () => {};
// What a file begins and does not wait for may fail later; the tools that it made are compared nevertheless.
process.on('unhandledRejection', () => {});

/** The uses of stand-ins that a file has left. A loop that waits for one of them to end is ended by this error. */
const MOST_USES = 100_000;
const endless = new Error('stand-ins are used without end');
let uses = 0;
function use() {
  uses -= 1;
  if (uses < 0) throw endless;
}

/** Something that can be called, made and asked for members, without end. */
function nothing() {
  const target = function () {};
  return new Proxy(target, {
    get: (_, key) => {
      use();
      return key === Symbol.toPrimitive ? () => '' : key === 'then' ? undefined : nothing();
    },
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

const scripts = new Map();
function compiled(text, filename) {
  if (!scripts.has(text)) scripts.set(text, new vm.Script(text, { filename }));
  return scripts.get(text);
}

/** The files as they are run; many files import the same ones. */
const transpiled = new Map();
function javaScript(file) {
  if (!transpiled.has(file)) {
    const { outputText } = ts.transpileModule(readFileSync(file, 'utf8').replace(/^#!.*/, ''), {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.CommonJS, esModuleInterop: false },
      transformers: { before: [withLines] },
    });
    transpiled.set(file, outputText.replaceAll('import.meta', 'importMeta'));
  }
  return transpiled.get(file);
}

/**
 * Runs a file, for which `zod` alone is the version `bare`, and returns the tools that it made, by name; those of the
 * Vercel AI SDK by their lines. `places` has the lines of those with a name that this file itself made, as it was run.
 */
async function run(file, bare) {
  uses = MOST_USES;
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
  const context = vm.createContext(scope());
  const load = (name, from) => {
    if (name === 'zod/v4') return zod4;
    if (name === 'zod/v3') return zod3;
    if (name === 'zod') return bare === '4' ? zod4 : zod3;
    if (name.startsWith('.')) {
      const base = path.resolve(path.dirname(from), name);
      const found = [base.replace(/\.js$/, '.ts'), base, `${base}.ts`, `${base}.js`, path.join(base, 'index.ts')].find((one) => existsSync(one) && statSync(one).isFile());
      if (found) return imported(found);
    }
    return new Proxy({ __esModule: true }, { get: (_, key) => (key in packages ? packages[key] : key === '__esModule' ? true : nothing()) });
  };
  const started = [];
  function evaluate(source) {
    if (modules.has(source)) return modules.get(source).exports;
    const module = { exports: {} };
    modules.set(source, module);
    if (source.endsWith('.json')) {
      const value = JSON.parse(readFileSync(source, 'utf8'));
      module.exports = { ...value, default: value, __esModule: true };
      return module.exports;
    }
    const code = javaScript(source);
    const madeAt = (line, value) => {
      if (source === file && value?.isTool === true) made.set(line, jsonSchema(value.schema));
      return value;
    };
    const own = { module, exports: module.exports, require: (name) => load(name, source), madeAt, importMeta: about(source), __dirname: path.dirname(source), __filename: source };
    const execute = (kind) => {
      context.own = Object.values(own);
      const text = `(function (${Object.keys(own).join(', ')}) { return (${kind} () { ${code}\n})(); })(...own)`;
      return compiled(text, source).runInContext(context, { timeout: 30_000 });
    };
    try {
      execute('function');
    } catch (error) {
      // `await` at the top level of a module; before parentheses it would be a function.
      if (error?.name !== 'SyntaxError' && error?.message !== 'await is not defined') throw error;
      started.push(execute('async function'));
    }
    return module.exports;
  }
  /** What a file that is imported exports, as far as it runs: it may need more of its packages than stand-ins give. */
  function imported(source) {
    try {
      return evaluate(source);
    } catch (error) {
      if (error === endless) throw error;
      return new Proxy(modules.get(source).exports, { get: (known, key) => (key in known ? known[key] : nothing()) });
    }
  }
  const exported = evaluate(file);
  // The tools that were made before a loop without end are compared.
  const ended = Promise.all(started).catch((error) => {
    if (error !== endless) throw error;
  });
  await Promise.race([ended, new Promise((resolve) => { setTimeout(resolve, 500).unref(); })]);
  // A server may be put together from functions that each add a tool to it. Others are not called: with stand-ins, a loop
  // may have no end.
  for (const value of Object.values(exported)) {
    if (typeof value === 'function' && !/tool|server/i.test(Function.prototype.toString.call(value))) continue;
    if (typeof value !== 'function' || value.prototype?.constructor === value && Object.getOwnPropertyNames(value.prototype).length > 1) continue;
    try {
      uses = MOST_USES;
      const result = value(server(), server(), server());
      if (result instanceof Promise || typeof result?.catch === 'function') result.catch(() => {});
    } catch {
      // It wanted something else than a server.
    }
  }
  return { made, places };
}

/** What a program finds around it; whatever it begins there has no effect. */
function scope() {
  const console = new Proxy({}, { get: () => () => {} });
  const process = new Proxy({ env: {}, argv: [], cwd: () => '/', exit() {}, on() {}, platform: 'linux' }, { get: (known, key) => (key in known ? known[key] : nothing()) });
  const later = { setTimeout() {}, setInterval() {}, clearTimeout() {}, clearInterval() {}, setImmediate() {}, queueMicrotask() {} };
  const web = { URL, URLSearchParams, TextEncoder, TextDecoder, AbortController, AbortSignal, structuredClone, crypto: nothing(), performance: { now: () => 0 }, fetch: nothing(), Buffer };
  return { ...later, ...web, console, process };
}

function about(source) {
  return { url: pathToFileURL(source).href, dirname: path.dirname(source), filename: source, env: {} };
}

parentPort.on('message', async ({ file, bare }) => {
  try {
    const { made, places } = await run(file, bare);
    parentPort.postMessage({ made: JSON.stringify([...made]), places: [...places] });
  } catch (error) {
    parentPort.postMessage({ error: String(error?.message ?? error) });
  }
});
