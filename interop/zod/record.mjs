// Records what the real packages give for every schema of fixtures/zod/corpus.json.
//
//   node record.mjs           writes fixtures/zod/recorded.json
//   node record.mjs --check   fails if the packages give anything else than what is recorded
//
// A schema that a package refuses is recorded with the message that it throws. Results are compared
// as text: the order of keys is part of them.

import { readFileSync, writeFileSync } from 'node:fs';
import ts from 'typescript';
import { z as zod3 } from 'zod/v3';
import { zodToJsonSchema } from 'zod-to-json-schema';
import { z as zod4 } from 'zod4';

const fixtures = new URL('../../fixtures/zod/', import.meta.url);
const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

/** The value of the last expression, with `z` in scope. TypeScript is reduced to JavaScript first. */
function evaluate(source, z) {
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.None },
  });
  const javascript = outputText.replace(/^"use strict";\n/, '');
  return new Function('z', 'code', 'return eval(code)')(z, javascript);
}

function version3(source) {
  const schema = zodToJsonSchema(evaluate(source, zod3), {
    $refStrategy: 'none',
    removeAdditionalStrategy: 'strict',
    allowedAdditionalProperties: undefined,
  });
  delete schema.$schema;
  return schema;
}

function version4(source) {
  zod4.globalRegistry.clear();
  return zod4.toJSONSchema(evaluate(source, zod4));
}

function attempt(convert, source) {
  try {
    return { schema: JSON.parse(JSON.stringify(convert(source))) };
  } catch (error) {
    return { throws: String(error.message).split('\n')[0] };
  }
}

console.warn = () => {}; // zod-to-json-schema reports every recursion there

const corpus = JSON.parse(readFileSync(new URL('corpus.json', fixtures)));
const results = {};
for (const { id, source } of corpus) {
  results[id] = { v3: attempt(version3, source), v4: attempt(version4, source) };
}
const recorded = {
  packages: { zod: version('zod'), 'zod-to-json-schema': version('zod-to-json-schema'), zod4: version('zod4') },
  results,
};
const text = `${JSON.stringify(recorded, null, 1)}\n`;
const file = new URL('recorded.json', fixtures);

if (process.argv.includes('--check')) {
  if (readFileSync(file, 'utf8') !== text) {
    const before = JSON.parse(readFileSync(file)).results;
    for (const id of new Set([...Object.keys(before), ...Object.keys(results)])) {
      if (JSON.stringify(before[id]) !== JSON.stringify(results[id])) {
        console.error(`${id}\n  recorded ${JSON.stringify(before[id])}\n  now      ${JSON.stringify(results[id])}`);
      }
    }
    console.error('fixtures/zod/recorded.json is not what the packages give');
    process.exit(1);
  }
  console.log(`${corpus.length} schemas: the packages give what is recorded`);
} else {
  writeFileSync(file, text);
  console.log(`${corpus.length} schemas recorded`);
}
