// The cycle of the bench, by LangGraph JS with its SQLite saver: start, pause in a tool, resume, finish.
//
// node cycle.mjs DATABASE SECONDS CONCURRENCY…   prints one line of JSON for each concurrency.
// In one process, without HTTP; the model is a function. The saver determines how durable a commit is, and
// reports it in `synchronous`; `rows` is what it stores of one cycle.
import { AIMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { Command, END, MessagesAnnotation, START, StateGraph, interrupt } from '@langchain/langgraph';
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { z } from 'zod';

const WARM_UP = 50;
const [database, seconds, ...concurrencies] = process.argv.slice(2);

const calculator = tool(async ({ expression }) => String(interrupt({ expression })), {
  name: 'calculator',
  description: 'Perform mathematical calculations',
  schema: z.object({ expression: z.string().describe('Mathematical expression to evaluate') }),
});

const model = (messages) => {
  const last = messages.at(-1);
  if (last.getType() === 'tool') return new AIMessage(`25% of 8,432 is ${last.content}`);
  const call = { id: 'call_1', name: 'calculator', args: { expression: '0.25 * 8432' }, type: 'tool_call' };
  return new AIMessage({ content: '', tool_calls: [call] });
};

const saver = SqliteSaver.fromConnString(database);
const graph = new StateGraph(MessagesAnnotation)
  .addNode('agent', async ({ messages }) => ({ messages: [model(messages)] }))
  .addNode('tools', new ToolNode([calculator], { handleToolErrors: false }))
  .addEdge(START, 'agent')
  .addConditionalEdges('agent', ({ messages }) => (messages.at(-1).tool_calls?.length ? 'tools' : END), ['tools', END])
  .addEdge('tools', 'agent')
  .compile({ checkpointer: saver });

let threads = 0;
const cycle = async () => {
  const thread = { configurable: { thread_id: `thread-${threads++}` } };
  const paused = await graph.invoke({ messages: [{ role: 'user', content: 'What is 25% of 8,432?' }] }, thread);
  if (!paused.__interrupt__) throw new Error('the graph did not pause');
  const finished = await graph.invoke(new Command({ resume: '2108' }), thread);
  if (finished.messages.at(-1).content !== '25% of 8,432 is 2108') throw new Error('the graph ended otherwise');
};

const processorMicros = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

const measure = async (concurrency) => {
  const times = [];
  const processor = processorMicros();
  const begun = performance.now();
  const client = async () => {
    while (performance.now() - begun < seconds * 1e3) {
      const start = performance.now();
      await cycle();
      times.push(performance.now() - start);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, client));
  const wall = performance.now() - begun;
  times.sort((left, right) => left - right);
  const quantile = (share) => times[Math.min(times.length - 1, Math.ceil(times.length * share) - 1)];
  return {
    concurrency,
    cycles: times.length,
    per_second: (times.length / wall) * 1e3,
    p50_us: quantile(0.5) * 1e3,
    p99_us: quantile(0.99) * 1e3,
    cpu_us: (processorMicros() - processor) / times.length,
  };
};

for (let round = 0; round < WARM_UP; round++) await cycle();
const count = (table) => saver.db.prepare(`SELECT count(*) AS rows FROM ${table}`).get().rows;
const rows = { checkpoints: count('checkpoints') / WARM_UP, writes: count('writes') / WARM_UP };
const synchronous = ['OFF', 'NORMAL', 'FULL', 'EXTRA'][saver.db.pragma('synchronous', { simple: true })];
for (const concurrency of concurrencies) {
  console.log(JSON.stringify({ ...(await measure(Number(concurrency))), synchronous, rows }));
}
