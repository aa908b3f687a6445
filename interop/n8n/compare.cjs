// Compares the tools that the converter finds in n8n exports with those that n8n would give to the model.
//
//   node compare.cjs <program> <file or folder> …
//
// <program> is the example `n8n_tools` of bosun-convert. Every difference is counted by its cause; the run fails if less
// than 98 % of the tools are equal but for the order of their properties, or if one differs without a known cause.

'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const { toolsOf } = require('./oracle.cjs');

const [program, ...inputs] = process.argv.slice(2);
const nodes = ['n8n-nodes-base', '@n8n/n8n-nodes-langchain'].map((name) =>
  JSON.parse(fs.readFileSync(path.join(__dirname, 'node_modules/.cache/n8n', name, 'dist/types/nodes.json'))));
const nodesFile = path.join(__dirname, 'node_modules/.cache/n8n/nodes.json');
fs.writeFileSync(nodesFile, JSON.stringify(nodes.flat()));

function files(input) {
  if (!fs.statSync(input).isDirectory()) return [input];
  return fs.readdirSync(input, { recursive: true }).filter((name) => name.endsWith('.json')).map((name) => path.join(input, name)).sort();
}

const sorted = (value) => {
  if (Array.isArray(value)) return value.map(sorted);
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, member]) => [key, sorted(member)]));
  return value;
};
const same = (a, b) => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
const requiredAsSet = (schema) => (schema ? { ...schema, required: [...(schema.required ?? [])].sort() } : schema);

/** Why a schema differs. Each cause but the last is described in docs/formats.md. */
function causeOf(theirs, mine, fault, type) {
  if (fault) return `another schema, with the error ${fault}`;
  let written;
  try {
    written = theirs.written();
  } catch {
    return SILENT;
  }
  if (!same(requiredAsSet(mine.parameters), requiredAsSet(written))) return SILENT;
  return type.endsWith('.toolHttpRequest') ? "n8n does not read $fromAI in the older HTTP tool" : 'n8n hides parameters until another one is chosen';
}
const SILENT = 'another schema, in silence';
const nodeType = (workflow, name) => workflow.nodes.find((node) => node.name === name)?.type ?? '';

const causes = new Map();
const note = (cause, where) => causes.set(cause, [...(causes.get(cause) ?? []), where]);
let equal = 0;
let total = 0;
const workflows = [];
for (const file of inputs.flatMap(files)) {
  let workflow;
  try {
    workflow = JSON.parse(fs.readFileSync(file, 'utf8').replace(/^\uFEFF/, ''));
  } catch {
    continue;
  }
  workflow = workflow.nodes ? workflow : workflow.data ?? workflow;
  if (Array.isArray(workflow.nodes) && typeof workflow.connections === 'object') workflows.push({ file, workflow });
}
const { stdout } = spawnSync(program, [nodesFile], {
  input: workflows.map(({ file }) => `${file}\n`).join(''), encoding: 'utf8', maxBuffer: 1 << 30, stdio: ['pipe', 'pipe', 'inherit'],
});
const answers = stdout.split('\n');
for (const [index, { file, workflow }] of workflows.entries()) {
  if (!answers[index]) {
    note('the converter crashed', file);
    break;
  }
  const { tools, faults } = JSON.parse(answers[index]);
  const ours = new Map(tools.map((tool) => [tool.node, tool]));
  for (const [node, theirs] of toolsOf(workflow)) {
    const where = `${path.basename(file)}: ${node}`;
    const mine = ours.get(node);
    ours.delete(node);
    if (theirs.error) {
      total += 1;
      if (mine) note('n8n refuses the tool', `${where}: ${theirs.error}`);
      else equal += 1;
      continue;
    }
    if (!theirs.name) {
      if (mine && theirs.schema !== undefined) note('n8n gives no name', where);
      else if (mine) note('n8n gives no tool', where);
      continue;
    }
    total += 1;
    if (!mine) {
      note(`left out: ${faults[node] ?? 'without a reason'}`, where);
    } else if (mine.name !== theirs.name && mine.name !== mine.qualified) {
      note('another name', `${where}: ${mine.name} for ${theirs.name}`);
    } else if (theirs.schema && !same(requiredAsSet(mine.parameters), requiredAsSet(theirs.schema))) {
      note(causeOf(theirs, mine, faults[node], nodeType(workflow, node)), `${where}: ${JSON.stringify(sorted(mine.parameters))} for ${JSON.stringify(sorted(theirs.schema))}`);
    } else if (theirs.description === '' && mine.description) {
      note('n8n gives no description, and one is assumed', where);
    } else if (theirs.description != null && mine.description !== theirs.description) {
      note('another description', `${where}: ${JSON.stringify(mine.description)} for ${JSON.stringify(theirs.description)}`);
    } else {
      equal += 1;
    }
  }
  for (const node of ours.keys()) note('n8n gives no tool', `${path.basename(file)}: ${node}`);
}
for (const [cause, places] of [...causes].sort((a, b) => b[1].length - a[1].length)) {
  console.log(`${places.length} × ${cause}`);
  for (const place of places.slice(0, Number(process.env.SHOWN ?? 5))) console.log(`    ${place.slice(0, Number(process.env.WIDTH ?? 400))}`);
}
const share = total ? (100 * equal) / total : 0;
console.log(`${workflows.length} exports, ${total} tools: ${equal} equal but for order (${share.toFixed(2)} %)`);
const unexplained = [SILENT, 'another name', 'another description', 'left out: without a reason', 'the converter crashed'];
if (share < 98 || unexplained.some((cause) => causes.has(cause))) process.exit(1);
