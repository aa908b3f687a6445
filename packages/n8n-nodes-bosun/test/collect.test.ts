/** Which connected tools are used, and how each is run. */
import { describe, expect, it, vi } from 'vitest';

import { collectTools } from '../src/tools/collect';
import { toOutcome } from '../src/tools/outcome';
import { context, tool } from './support';
import type { ContextOptions } from './support';

const collect = async (tools: ContextOptions['tools']) => await collectTools(context({ url: 'http://localhost', tools }), 0);
const some = (name: string) => tool(name, vi.fn());

describe('connected tools', () => {
	it('have the order of their connections, and those of a toolkit that of the toolkit', async () => {
		const tools = await collect([
			{ supply: some('a'), node: 'A' },
			{ supply: { getTools: () => [some('b1'), some('b2')] }, node: 'B' },
			{ supply: some('off'), node: 'Off', disabled: true },
			{ supply: some('c'), node: 'C' },
		]);
		expect(tools.map(({ name, nodeName, isFromToolkit }) => [name, nodeName, isFromToolkit])).toEqual([
			['a', 'A', false],
			['b1', 'B', true],
			['b2', 'B', true],
			['c', 'C', false],
		]);
	});

	it('none is fine', async () => {
		expect(await collect([])).toEqual([]);
	});

	it('of the same name are refused by the names of their nodes', async () => {
		await expect(collect([{ supply: some('mul'), node: 'Multiply' }, { supply: { tools: [some('mul')] }, node: 'MCP Client' }])).rejects.toThrow(
			'Two connected tools are called "mul": one of "Multiply", one of "MCP Client"',
		);
	});

	it.each([
		['is no tool', { name: 'x' }, 'it has no name, or nothing that runs it'],
		['has a member that is none', { tools: [{}] }, 'one of its tools has no name'],
		['takes no object', tool('x', vi.fn(), { schema: { type: 'string' } }), 'must describe an object'],
		['is a gate that does not say what it guards', tool('x', vi.fn(), { metadata: { originalSchema: {} } }), 'does not tell which node runs "x"'],
	])('one that %s is refused by the name of its node', async (_, supply, message) => {
		await expect(collect([{ supply, node: 'Broken' }])).rejects.toThrow(new RegExp(`The tool of "Broken" cannot be used: .*${message}`));
	});

	it.each([
		['agent tools from version 3 on by the engine', '@n8n/n8n-nodes-langchain.agentTool', 3, {}, { by: 'engine', nodeName: 'Node' }],
		['older agent tools directly', '@n8n/n8n-nodes-langchain.agentTool', 2.2, {}, { by: 'direct' }],
		['gates by the engine, in two steps', 'n8n-nodes-base.emailSendHitlTool', 1, { gatedToolNodeName: 'HTTP' }, { by: 'gate', nodeName: 'Node', gatedNodeName: 'HTTP' }],
	])('%s', async (_, type, typeVersion, metadata, route) => {
		const [only] = await collect([{ supply: tool('x', vi.fn(), { metadata }), node: 'Node', type, typeVersion }]);
		expect(only.route).toEqual(route);
	});
});

describe('what tools return', () => {
	it.each([
		['text', 'sunny', 'sunny'],
		['a number as text', '42', '42'],
		['an item of a node', '[{"city":"Lisbon"}]', { city: 'Lisbon' }],
		['the output of an agent', '[{"output":"done"}]', 'done'],
		['the response of a tool', { response: 'done' }, 'done'],
		['several items', '[{"a":1},{"a":2}]', [{ a: 1 }, { a: 2 }]],
		['content blocks of MCP', [{ type: 'text', text: '20' }, { type: 'text', text: '22' }], '20\n22'],
		['JSON in a content block', '[{"type":"text","text":"{\\"sum\\":42}"}]', { sum: 42 }],
		['a number that would be rounded', '[{"id":1234567890123456789}]', '[{"id":1234567890123456789}]'],
		['a number in a content block that would be rounded', '[{"type":"text","text":"{\\"id\\": 1234567890123456789}"}]', '{"id": 1234567890123456789}'],
		['a number that a text repeats', '{"id":1234567890123456789,"text":"1234567890123456789"}', '{"id":1234567890123456789,"text":"1234567890123456789"}'],
		['long numbers that stay as they are', '{"id":9007199254740991,"text":"1234567890123456789","share":0.30000000000000004}', { id: 9007199254740991, text: '1234567890123456789', share: 0.30000000000000004 }],
		['what only looks like JSON', '[sic] fine', '[sic] fine'],
		['nothing', undefined, ''],
	])('%s', (_, returned, result) => {
		expect(toOutcome(returned)).toEqual({ success: true, result });
	});

	it('an error in a content block is an error', () => {
		expect(toOutcome([{ type: 'text', text: 'Error: no such city' }])).toEqual({ success: false, error: 'Error: no such city' });
	});
});
