/** The test file of the conversion task, case by case, and what it does not say. */
import { DynamicStructuredTool, DynamicTool, tool as langChainTool } from '@langchain/core/tools';
import { describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { z as zod4 } from 'zod4';

import { convertN8nToolsToArk, convertN8nToolToArk, filterToolsBySource, mergeArkAndN8nTools } from '../index';
import type { ArkToolSpec, LangChainTool, ToolSourceMode } from '../index';

const named = (name: string, rest: Partial<LangChainTool> = {}): LangChainTool => ({ name, description: name, call: vi.fn(), ...rest });

describe('Tool Converter', () => {
	describe('convertN8nToolToArk', () => {
		it('should convert simple calculator tool', () => {
			const arkTool = convertN8nToolToArk({
				name: 'calculator',
				description: 'Perform mathematical calculations',
				schema: z.object({ expression: z.string().describe('Mathematical expression to evaluate') }),
				call: vi.fn(),
			});

			expect(arkTool).toMatchObject({ type: 'custom', name: 'calculator', description: 'Perform mathematical calculations', executionMode: 'external' });
			expect(arkTool.parameters).toEqual({
				type: 'object',
				properties: { expression: { type: 'string', description: 'Mathematical expression to evaluate' } },
				required: ['expression'],
			});
			expect(arkTool._n8nCallback).toBeDefined();
		});

		it('should convert HTTP request tool with complex schema', () => {
			const arkTool = convertN8nToolToArk({
				name: 'http_request',
				description: 'Make HTTP requests',
				schema: z.object({
					url: z.string().url().describe('URL to request'),
					method: z.enum(['GET', 'POST', 'PUT', 'DELETE']).describe('HTTP method'),
					body: z.record(z.any()).optional().describe('Request body'),
				}),
				call: vi.fn(),
			});

			expect(arkTool.parameters!.properties).toHaveProperty('url');
			expect(arkTool.parameters!.properties).toHaveProperty('method');
			expect(arkTool.parameters!.properties).toHaveProperty('body');
			expect(arkTool.parameters!.required).toContain('url');
			expect(arkTool.parameters!.required).toContain('method');
			expect(arkTool.parameters!.required).not.toContain('body'); // Optional
		});

		it('should handle tool without schema', () => {
			const arkTool = convertN8nToolToArk({ name: 'simple_tool', description: 'A simple tool', schema: undefined, call: vi.fn() });

			expect(arkTool.parameters).toEqual({ type: 'object', properties: {} });
		});

		it('should preserve tool callback function', async () => {
			const mockCallback = vi.fn().mockResolvedValue('42');
			const arkTool = convertN8nToolToArk({ name: 'test_tool', description: 'Test', schema: z.object({}), call: mockCallback });

			expect(arkTool._n8nCallback).toBeDefined();
			expect(await arkTool._n8nCallback!('test input')).toBe('42');
			expect(mockCallback).toHaveBeenCalledWith('test input');
		});

		it('keeps the instance that a callback belongs to', async () => {
			class Counter {
				name = 'counter';
				description = 'counts';
				count = 41;
				async call(): Promise<string> {
					return String(++this.count);
				}
			}
			expect(await convertN8nToolToArk(new Counter())._n8nCallback!('')).toBe('42');
		});

		it('never serialises the callback', () => {
			const arkTool = convertN8nToolToArk(named('secret'));
			expect(JSON.parse(JSON.stringify(arkTool))).not.toHaveProperty('_n8nCallback');
			expect(Object.keys({ ...arkTool })).not.toContain('_n8nCallback');
		});
	});

	describe('convertN8nToolsToArk', () => {
		it('should convert multiple tools', () => {
			const arkTools = convertN8nToolsToArk([
				named('tool1', { schema: z.object({ param1: z.string() }) }),
				named('tool2', { schema: z.object({ param2: z.number() }) }),
			]);

			expect(arkTools).toHaveLength(2);
			expect(arkTools[0].name).toBe('tool1');
			expect(arkTools[1].name).toBe('tool2');
		});

		it('should handle empty array', () => {
			expect(convertN8nToolsToArk([])).toEqual([]);
		});
	});

	describe('mergeArkAndN8nTools', () => {
		it('should merge ARK and n8n tools', () => {
			const merged = mergeArkAndN8nTools(
				[{ type: 'custom', name: 'ark_tool', description: 'ARK', parameters: {} }],
				[{ type: 'custom', name: 'n8n_tool', description: 'n8n', parameters: {}, executionMode: 'external' }],
			);

			expect(merged).toHaveLength(2);
			expect(merged.map((t) => t.name)).toContain('ark_tool');
			expect(merged.map((t) => t.name)).toContain('n8n_tool');
		});

		it('should deduplicate by name (ARK takes precedence)', () => {
			const merged = mergeArkAndN8nTools(
				[{ type: 'custom', name: 'shared_tool', description: 'ARK version', parameters: {} }],
				[{ type: 'custom', name: 'shared_tool', description: 'n8n version', parameters: {}, executionMode: 'external' }],
			);

			expect(merged).toHaveLength(1);
			expect(merged[0].description).toBe('ARK version');
			expect(merged[0].executionMode).toBeUndefined(); // ARK version doesn't have executionMode
		});
	});

	describe('filterToolsBySource', () => {
		const arkTools: ArkToolSpec[] = [
			{ type: 'custom', name: 'ark1', description: 'ARK 1', parameters: {} },
			{ type: 'custom', name: 'ark2', description: 'ARK 2', parameters: {} },
		];
		const n8nTools: ArkToolSpec[] = [
			{ type: 'custom', name: 'n8n1', description: 'n8n 1', parameters: {}, executionMode: 'external' },
			{ type: 'custom', name: 'n8n2', description: 'n8n 2', parameters: {}, executionMode: 'external' },
		];

		it('should return only ARK tools in ark mode', () => {
			const filtered = filterToolsBySource(arkTools, n8nTools, 'ark');
			expect(filtered).toHaveLength(2);
			expect(filtered).toEqual(arkTools);
		});

		it('should return only n8n tools in n8n mode', () => {
			const filtered = filterToolsBySource(arkTools, n8nTools, 'n8n');
			expect(filtered).toHaveLength(2);
			expect(filtered).toEqual(n8nTools);
		});

		it('should return merged tools in hybrid mode', () => {
			const filtered = filterToolsBySource(arkTools, n8nTools, 'hybrid');
			expect(filtered).toHaveLength(4);
			expect(filtered.map((t) => t.name)).toContain('ark1');
			expect(filtered.map((t) => t.name)).toContain('n8n2');
		});

		it('should fallback to ARK-only for invalid mode', () => {
			const filtered = filterToolsBySource(arkTools, n8nTools, 'invalid' as ToolSourceMode);
			expect(filtered).toEqual(arkTools);
		});
	});
});

describe('schemas of tools', () => {
	const parameters = (schema: unknown) => convertN8nToolToArk(named('tool', { schema })).parameters;

	it('a tool that takes one text asks for it', () => {
		const calculator = new DynamicTool({ name: 'Calculator', description: '', func: async () => '' });
		expect(parameters(calculator.schema)).toEqual({ type: 'object', properties: { input: { type: 'string' } }, required: ['input'] });
	});

	it.each([
		['of Zod 3', z.object({})],
		['of Zod 4', zod4.object({})],
		['of JSON Schema', { type: 'object' }],
		['without anything', {}],
	])('an empty schema %s is one of a tool that takes nothing', (_, schema) => {
		const { type, properties, required } = parameters(schema)!;
		expect({ type, properties, required }).toEqual({ type: 'object', properties: {}, required: undefined });
	});

	it('optional parameters of other tools stay optional', () => {
		expect(parameters(z.object({ input: z.string().optional() }))).not.toHaveProperty('required');
	});

	it.each([
		['Zod 3', z.object({ n: z.number().int().describe('how many').default(3) })],
		['Zod 4', zod4.object({ n: zod4.int().describe('how many').default(3) })],
	])('%s keeps descriptions, integers and defaults, and asks for nothing that has a default', (_, schema) => {
		const given = parameters(schema) as { properties: { n: object } };
		expect(given.properties.n).toMatchObject({ type: 'integer', description: 'how many', default: 3 });
		expect(given).not.toHaveProperty('required');
		expect(given).not.toHaveProperty('$schema');
	});

	it('JSON Schema is passed on', () => {
		const schema = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'] };
		expect(parameters(schema)).toEqual({ type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'] });
	});

	it('LangChain tools of every making are converted', () => {
		// The types of LangChain are too deep for the compiler.
		const Structured = DynamicStructuredTool as unknown as new (fields: object) => LangChainTool;
		const structured = new Structured({ name: 's', description: '', schema: z.object({ q: z.string() }), func: async () => '' });
		const byFunction = langChainTool as unknown as (run: () => Promise<string>, fields: object) => LangChainTool;
		const helper = byFunction(async () => '', { name: 'h', description: '', schema: zod4.object({ q: zod4.string() }) });
		for (const { schema } of [structured, helper] as LangChainTool[]) expect(parameters(schema)).toMatchObject({ properties: { q: { type: 'string' } }, required: ['q'] });
	});

	it.each([
		['a string', z.string(), 'must describe an object, not "string"'],
		['an array', { type: 'array', items: {} }, 'must describe an object, not "array"'],
		['no type', { anyOf: [{ type: 'object' }] }, 'has no type'],
		['a broken conversion', { default: { _def: {} } }, 'could not be converted'],
		['text', 'nothing', 'neither Zod nor JSON Schema'],
	])('a schema of %s is refused', (_, schema, message) => {
		expect(() => parameters(schema)).toThrow(message);
	});
});
