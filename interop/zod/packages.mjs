// What the real packages give for the source of a schema.

import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { z as zod3 } from 'zod/v3';
import { zodToJsonSchema } from 'zod-to-json-schema';
import { z as zod4 } from 'zod4';

console.warn = () => {}; // zod-to-json-schema reports every recursion there

const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

export const versions = {
  zod: version('zod'),
  'zod-to-json-schema': version('zod-to-json-schema'),
  zod4: version('zod4'),
};

/** The value of the last expression, with `z` in scope. TypeScript is reduced to JavaScript first. */
function evaluate(source, z) {
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.None },
  });
  const javascript = outputText.replace(/^"use strict";\n/, '');
  return new Function('z', 'code', 'return eval(code)')(z, javascript);
}

function attempt(convert) {
  try {
    return { schema: JSON.parse(JSON.stringify(convert())) };
  } catch (error) {
    return { throws: String(error.message).split('\n')[0] };
  }
}

export function version3(source) {
  return attempt(() => {
    const schema = zodToJsonSchema(evaluate(source, zod3), {
      $refStrategy: 'none',
      removeAdditionalStrategy: 'strict',
      allowedAdditionalProperties: undefined,
    });
    delete schema.$schema;
    return schema;
  });
}

export function version4(source, io = 'output') {
  return attempt(() => {
    zod4.globalRegistry.clear();
    return zod4.toJSONSchema(evaluate(source, zod4), { io });
  });
}
