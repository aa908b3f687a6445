// The peers of our validation of arguments: ajv, which compiles a schema to JavaScript, and Zod.
//
//   node validate.mjs <folder of fixtures/validation>
//
// A line on standard input names a case, and the answer is the CPU time of one run of it, so that
// the caller can take turns with something else. The first answer of a case follows a warm-up that
// lets the engine compile and settle. CPU time is that of the whole process, threads of the engine
// included: the machine has other work.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import Ajv from 'ajv';
import * as z3 from 'zod3/v3';
import * as z4 from 'zod';
import { zodToJsonSchema } from 'zod-to-json-schema';

const folder = process.argv[2];
const read = (file) => readFileSync(`${folder}/${file}`, 'utf8');
const schemas = JSON.parse(read('tools.json'));
const texts = JSON.parse(read('args.json'));

/** Runs the definitions with one version of Zod, which makes its schemas anew. */
const source = read('tools.ts').replace(/^import .*$/m, '').replaceAll('export const ', 'const ');
const define = new Function('z', `${source}; return [calculator, httpRequest, createOrder];`);
const zodSchemas = (z) => Object.fromEntries(define(z).map((tool) => [tool.name, tool.schema]));
const zod = { zod3: zodSchemas(z3.z ?? z3), zod4: zodSchemas(z4.z ?? z4) };

const cases = {};
for (const [tool, schema] of Object.entries(schemas)) {
  const ajv = new Ajv({ strict: false, allErrors: true }).compile(schema);
  for (const [verdict, text] of Object.entries(texts[tool])) {
    const peers = {
      ajv: () => ajv(JSON.parse(text)),
      zod3: () => zod.zod3[tool].safeParse(JSON.parse(text)).success,
      zod4: () => zod.zod4[tool].safeParse(JSON.parse(text)).success,
    };
    for (const [peer, check] of Object.entries(peers)) {
      if (check() !== (verdict === 'valid')) throw new Error(`${peer} does not find the arguments of ${tool} ${verdict}`);
      cases[`${tool} ${verdict} ${peer}`] = check;
    }
    cases[`${tool} ${verdict} parse`] = () => JSON.parse(text);
  }
}
// From the definition to JSON Schema, since that is what our converter does.
cases['tools convert zod3'] = () => Object.values(zodSchemas(z3.z ?? z3)).map((schema) => zodToJsonSchema(schema));
cases['tools convert zod4'] = () => Object.values(zodSchemas(z4.z ?? z4)).map((schema) => z4.toJSONSchema(schema));

const cpuMicros = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

let kept; // Keeps the engine from optimising unused results away.
function spend(run, times) {
  const before = cpuMicros();
  for (let i = 0; i < times; i++) kept = run();
  return cpuMicros() - before;
}

const batches = new Map();
for await (const line of createInterface({ input: process.stdin })) {
  const { name, millis } = JSON.parse(line);
  const run = cases[name];
  if (!run) throw new Error(`there is no case ${name}`);
  if (!batches.has(name)) {
    let times = 1;
    while (spend(run, times) < millis * 1e3) times *= 2;
    spend(run, 3 * times);
    batches.set(name, times);
  }
  const times = batches.get(name);
  console.log(JSON.stringify({ nanos: (spend(run, times) * 1e3) / times }));
}
process.exitCode = kept === undefined ? 1 : 0;
