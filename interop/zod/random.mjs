// Makes random schemas and compares what the converter gives with what the real packages give.
//
//   node random.mjs <program> [count] [seed]
//
// <program> is the example `zod_to_json` of bosun-convert. Every difference is printed with its
// source; the same seed makes the same schemas.

import { spawnSync } from 'node:child_process';
import { version3, version4 } from './packages.mjs';

const [program, count = '2000', seed = '1'] = process.argv.slice(2);

/** A small generator of random numbers (mulberry32), so that a run can be repeated. */
function generator(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
const random = generator(Number(seed));
const below = (limit) => Math.floor(random() * limit);
const pick = (list) => list[below(list.length)];
const many = (most, make) => Array.from({ length: below(most + 1) }, make);

const keys = ['a', 'b', 'c', 'name', 'type', '1', '10', "'x-y'", 'description', 'required'];
const words = ["'a'", "'b c'", "'w.W/'", "'é'", "''", "'x'.concat('y')"];

const stringChecks = [
  () => `.min(${below(5)})`, () => `.max(${below(9)})`, () => `.length(${below(5)})`, () => '.nonempty()', () => '.email()',
  () => '.url()', () => '.uuid()', () => '.cuid()', () => '.cuid2()', () => '.ulid()', () => '.emoji()', () => '.nanoid()',
  () => '.base64()', () => '.base64url()', () => '.jwt()', () => '.datetime()', () => '.datetime({ offset: true })', () => '.date()',
  () => '.time()', () => '.duration()', () => pick(['.regex(/^a/)', '.regex(/b$/i)', '.regex(/[/]\\//)']), () => `.startsWith(${pick(words)})`,
  () => `.endsWith(${pick(words)})`, () => `.includes(${pick(words)})`, () => '.trim()', () => '.toLowerCase()', () => '.toUpperCase()',
];
const numberChecks = [
  () => `.min(${below(9) - 4})`, () => `.max(${below(9) / 2})`, () => `.gt(${below(5)})`, () => `.lt(${below(5)})`, () => '.int()',
  () => '.positive()', () => '.negative()', () => '.nonnegative()', () => '.nonpositive()', () => `.multipleOf(${pick([1, 2, 0.5])})`,
  () => '.finite()', () => '.safe()', () => `.step(${1 + below(3)})`,
];
const wrappers = [
  () => '.optional()', () => '.optional()', () => '.nullable()', () => '.nullish()', () => `.describe(${pick(words)})`, () => `.describe(${pick(words)})`,
  () => '.array()', () => `.default(${value()})`, () => `.catch(${value()})`, () => '.brand()', () => '.readonly()', () => '.refine(() => true)',
  () => ".refine((v) => typeof v === 'string')", () => '.refine((v) => v !== undefined)', () => '.refine((v) => v.length > 1)',
];
const wrappers3 = [...wrappers, () => '.transform((v) => v)', () => '.superRefine(() => { throw new Error(); })', () => '.promise()'];
const wrappers4 = [
  ...wrappers, () => `.meta({ title: ${pick(words)}, examples: [${value()}] })`, () => `.meta({ id: 'id${below(1e9)}' })`, () => '.nonoptional()',
  () => `.prefault(${value()})`, () => '.exactOptional()', () => '.overwrite((v) => v)', () => '.check(() => {})',
];

function value() {
  return pick([() => `${below(9)}`, () => pick(words), () => 'true', () => 'null', () => `[${many(2, value).join(', ')}]`,
    () => `{ ${many(2, () => `${pick(keys)}: ${value()}`).join(', ')} }`, () => `() => ${pick(words)}`, () => '-0.5'])();
}

function shape(version, depth) {
  const fields = new Map(many(4, () => [pick(keys), schema(version, depth - 1)]));
  return `{ ${[...fields].map(([key, field]) => `${key}: ${field}`).join(', ')} }`;
}

function mask(keysOfShape) {
  return `{ ${many(2, () => `${pick(keysOfShape)}: ${pick(['true', 'true', 'false'])}`).join(', ')} }`;
}

function objectSchema(version, depth) {
  const changes = [
    () => '.strict()', () => '.passthrough()', () => '.strip()', () => `.catchall(${schema(version, depth - 1)})`, () => '.partial()',
    () => '.required()', () => `.extend(${shape(version, depth)})`, () => `.partial(${mask(keys)})`, () => `.required(${mask(keys)})`,
    () => `.merge(z.object(${shape(version, depth)}))`, () => `.omit(${mask(keys)})`, () => `.pick(${mask(keys)})`,
    () => `.describe(${pick(words)})`, ...(version === 3 ? [() => '.deepPartial()'] : [() => '.loose()', () => `.safeExtend(${shape(version, depth)})`]),
  ];
  const start = version === 3 ? ['object', 'object', 'strictObject'] : ['object', 'object', 'strictObject', 'looseObject'];
  return `z.${pick(start)}(${shape(version, depth)})${many(2, () => pick(changes)()).join('')}`;
}

function leaf(version) {
  const both = [
    () => `z.string()${many(3, () => pick(stringChecks)()).join('')}`, () => `z.string()${many(1, () => pick(stringChecks)()).join('')}`,
    () => `z.number()${many(3, () => pick(numberChecks)()).join('')}`, () => 'z.boolean()', () => 'z.null()', () => 'z.any()', () => 'z.unknown()',
    () => 'z.never()', () => `z.literal(${pick([...words, '1', 'true', 'null'])})`, () => `z.enum([${pick(words)}, 'z', '3'])`,
    () => pick(['z.coerce.string()', 'z.coerce.number()', 'z.coerce.boolean()']), () => "z.nativeEnum({ A: 'a', B: 2 })", () => 'reused', () => 'reused',
  ];
  const three = [() => 'z.date()', () => 'z.bigint()', () => 'z.undefined()', () => 'z.void()', () => 'z.nan()', () => 'z.symbol()',
    () => 'z.string().ip()', () => 'z.custom((v) => !!v)', () => 'z.function()'];
  const four = [() => 'z.int()', () => 'z.int32()', () => 'z.email()', () => 'z.uuidv4()', () => 'z.iso.date()', () => 'z.iso.datetime({ local: true })',
    () => 'z.ipv6()', () => `z.literal([${pick(words)}, 1])`, () => 'z.stringbool()', () => 'z.string().lowercase()', () => 'z.base64()'];
  return pick([...both, ...both, ...(version === 3 ? three : four)])();
}

function schema(version, depth) {
  let made;
  if (depth <= 0 || random() < 0.3) {
    made = leaf(version);
  } else {
    const inner = () => schema(version, depth - 1);
    const both = [
      () => objectSchema(version, depth), () => objectSchema(version, depth), () => objectSchema(version, depth),
      () => `z.array(${inner()})${pick(['', '.min(1)', '.max(3)', '.length(2)', '.nonempty()'])}`,
      () => `z.union([${inner()}, ${inner()}${random() < 0.3 ? `, ${inner()}` : ''}])`, () => `z.union([${leaf(version)}, ${leaf(version)}])`,
      () => `z.intersection(${inner()}, ${inner()})`, () => `${objectSchema(version, depth)}.and(${objectSchema(version, depth)})`,
      () => `z.tuple([${many(3, inner).join(', ')}])${random() < 0.3 ? `.rest(${inner()})` : ''}`,
      () => `z.record(${pick(['z.string()', 'z.string().min(2)', "z.enum(['a', 'b'])", 'z.string().email()', 'z.number()'])}, ${inner()})`,
      () => `z.record(${inner()})`, () => `z.lazy(() => ${inner()})`, () => 'z.lazy(() => root)', () => `${inner()}.or(${inner()})`, () => `${inner()}.pipe(${inner()})`,
      () => `z.discriminatedUnion('k', [z.object({ k: z.literal('a'), v: ${inner()} }), z.object({ k: z.enum(['b', 'c']) })])`,
      () => `z.preprocess(${pick(['(v) => v', '(v) => String(v)', 'Number', '(v) => v ?? 1'])}, ${inner()})`,
    ];
    const three = [() => `z.set(${inner()})`, () => `z.map(${inner()}, ${inner()})`, () => `z.pipeline(${inner()}, ${inner()})`];
    const four = [() => `z.partialRecord(z.enum(['a', 'b']), ${inner()})`, () => `z.looseRecord(z.string().regex(/^a/), ${inner()})`, () => `z.xor([${inner()}, ${inner()}])`,
      () => `z.templateLiteral(['a', ${pick(['z.number()', 'z.string().max(3)', "z.enum(['x', 'y'])", 'z.boolean().optional()'])}])`];
    made = pick([...both, ...(version === 3 ? three : four)])();
  }
  const list = version === 3 ? wrappers3 : wrappers4;
  return made + many(2, () => pick(list)()).join('');
}

const questions = [];
for (let index = 0; index < Number(count); index += 1) {
  const version = 3 + (index % 2);
  const reused = schema(version, 1).replaceAll('reused', 'z.string()').replaceAll('z.lazy(() => root)', 'z.number()');
  const root = schema(version, 3);
  // A constant that nothing uses is run by JavaScript but not read by the converter.
  const first = root.includes('reused') ? `const reused = ${reused}; ` : '';
  questions.push({ version, source: `${first}const root = ${root}; root`, io: index % 4 === 3 ? 'input' : 'output' });
}
const { stdout, status, signal } = spawnSync(program, { input: questions.map((question) => `${JSON.stringify(question)}\n`).join(''), maxBuffer: 1 << 30 });
if (status !== 0) {
  console.error(`${program} ended with ${status ?? signal}`);
  process.exit(1);
}
const answers = stdout.toString().trim().split('\n').map((line) => JSON.parse(line));

/** A schema without the names in `required` whose property has a default. */
function withoutDefaults(schema) {
  if (Array.isArray(schema)) return schema.map(withoutDefaults);
  if (schema === null || typeof schema !== 'object') return schema;
  const { required, ...rest } = schema;
  const names = Array.isArray(required) ? required.filter((name) => schema.properties?.[name]?.default === undefined) : [];
  return Object.fromEntries([...Object.entries(rest).map(([key, value]) => [key, withoutDefaults(value)]), ...(names.length ? [['required', names]] : [])]);
}

let both = 0;
let refused = 0;
let assumed = 0;
let trusted = 0;
const different = [];
questions.forEach(({ version, source, io }, index) => {
  const theirs = version === 3 ? version3(source) : version4(source, io);
  const ours = answers[index];
  if (theirs.throws !== undefined && ours.faults) refused += 1;
  else if (JSON.stringify(theirs.schema) === JSON.stringify(ours.schema) && ours.schema !== undefined) both += 1;
  else if (ours.warnings?.some((warning) => warning.code === 'optional_assumed')) assumed += 1;
  // Zod 3 takes a default that breaks its own format for no default; the converter trusts its author.
  else if (version === 3 && ours.schema && JSON.stringify(withoutDefaults(theirs.schema ?? null)) === JSON.stringify(withoutDefaults(ours.schema))) trusted += 1;
  else different.push({ version, source, ours: ours.schema ?? ours.faults[0], theirs: theirs.schema ?? theirs.throws });
});
for (const { version, source, ours, theirs } of different) {
  console.log(`\nZod ${version}: ${source}\n  ours   ${JSON.stringify(ours)}\n  theirs ${JSON.stringify(theirs)}`);
}
console.log(`${both} the same, ${refused} refused by both, ${assumed} assumed with a warning, ${trusted} with a bad default, ${different.length} different`);
process.exit(different.length === 0 ? 0 : 1);
