// Compares the tools that the converter reads in the TypeScript files of a folder with those that the files make when
// they run.
//
//   node folder.mjs <program> <folder> [3|4] [pattern]
//
// <program> is the example `zod_tools` of bosun-convert; what `zod` alone means is said by the nearest package.json, else
// by the version. Only files whose text the pattern matches are taken, all without one. The files are run, with stand-ins
// for every package but Zod (runner.mjs), and every function that a file exports is called with a stand-in of an MCP
// server: use it on files that you trust. A file that cannot be run this way is printed and not compared. Every
// difference is printed and fails the run.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { Worker } from 'node:worker_threads';

const [program, folder, assumed = '3', pattern = ''] = process.argv.slice(2);
/** How long a file may run: some never end. */
const LONGEST = 40_000;

let worker;
/** What the worker answers about a file; it is replaced if it does not. */
function run(file, bare) {
  worker ??= new Worker(new URL('runner.mjs', import.meta.url), { resourceLimits: { maxOldGenerationSizeMb: 1024 } });
  return new Promise((resolve) => {
    const onMessage = (answer) => end(answer);
    const onError = (error) => end({ error: error.message }, true);
    const timer = setTimeout(() => end({ error: `no end within ${LONGEST / 1000} s` }, true), LONGEST);
    const end = (answer, isLost = false) => {
      clearTimeout(timer);
      worker.off('message', onMessage);
      if (isLost) {
        worker.terminate();
        worker = undefined;
      } else {
        worker.off('error', onError);
      }
      resolve(answer);
    };
    worker.on('message', onMessage);
    worker.on('error', onError);
    worker.postMessage({ file, bare });
  });
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
const counts = { files: 0, 'not run': 0, equal: 0, refused: 0, 'not reached': 0, 'not found': 0, different: 0, crashed: 0 };
for (const name of readdirSync(folder, { recursive: true }).sort()) {
  if (!/\.[cm]?[jt]s$/.test(name) || name.endsWith('.d.ts') || name.includes('node_modules')) continue;
  const file = path.join(folder, name);
  if (!statSync(file).isFile() || !new RegExp(pattern).test(readFileSync(file, 'utf8'))) continue;
  counts.files += 1;
  const bare = installed(file) ?? assumed;
  const { stdout, status, signal } = spawnSync(program, [file, bare], { encoding: 'utf8', maxBuffer: 1 << 28, timeout: LONGEST });
  if (status !== 0) {
    counts.crashed += 1;
    console.log(`${name}: the converter ended with ${status ?? signal}`);
    continue;
  }
  const { tools, faults } = JSON.parse(stdout);
  const answer = await run(path.resolve(file), bare);
  if (answer.error !== undefined) {
    counts['not run'] += 1;
    console.log(`${name}: not run: ${answer.error}`);
    continue;
  }
  const made = new Map(JSON.parse(answer.made));
  const places = new Map(answer.places);
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
process.exit(counts.different || counts['not found'] || counts.crashed || !counts.equal ? 1 : 0);
