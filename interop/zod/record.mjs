// Records what the real packages give for every schema of fixtures/zod/corpus.json.
//
//   node record.mjs           writes fixtures/zod/recorded.json
//   node record.mjs --check   fails if the packages give anything else than what is recorded
//
// A schema that a package refuses is recorded with the message that it throws. Results are compared
// as text: the order of keys is part of them.

import { readFileSync, writeFileSync } from 'node:fs';
import { version3, version4, versions } from './packages.mjs';

const fixtures = new URL('../../fixtures/zod/', import.meta.url);
const corpus = JSON.parse(readFileSync(new URL('corpus.json', fixtures)));
const results = {};
for (const { id, source } of corpus) {
  results[id] = { v3: version3(source), v4: version4(source), v4_input: version4(source, 'input') };
}
const text = `${JSON.stringify({ packages: versions, results }, null, 1)}\n`;
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
