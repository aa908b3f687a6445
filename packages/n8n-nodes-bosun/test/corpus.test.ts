/* eslint-disable @n8n/community-nodes/no-restricted-imports, @n8n/community-nodes/no-restricted-globals, @n8n/community-nodes/no-dangerous-functions -- it reads and evaluates the corpus; nothing of it is published */
/** The converters give what the real packages gave when fixtures/zod was recorded: the corpus of the Rust converter. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it, vi } from 'vitest';
import { z as zod3 } from 'zod/v3';
import { z as zod4 } from 'zod4';

import { fromZod3, fromZod4 } from '../src/tools/schema';

type Recorded = { schema?: unknown; throws?: string };
const read = (file: string) => JSON.parse(readFileSync(join(__dirname, '../../../fixtures/zod', file), 'utf8'));
const corpus = read('corpus.json') as Array<{ id: string; source: string }>;
const results = read('recorded.json').results as Record<string, { v3: Recorded; v4: Recorded }>;

/** The value of the last expression, with `z` in scope. */
function evaluate(source: string, z: unknown): unknown {
	const { outputText } = ts.transpileModule(source, { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.None } });
	return new Function('z', 'code', 'return eval(code)')(z, outputText.replace(/^"use strict";\n/, ''));
}

function attempt(convert: () => unknown): Recorded {
	try {
		return { schema: JSON.parse(JSON.stringify(convert())) };
	} catch (error) {
		return { throws: String((error as Error).message).split('\n')[0] };
	}
}

describe('the Zod corpus', () => {
	vi.spyOn(console, 'warn').mockImplementation(() => {}); // zod-to-json-schema reports every recursion there

	it.each(corpus)('Zod 3: $id', ({ id, source }) => {
		const given = attempt(() => {
			const { ...schema } = fromZod3(evaluate(source, zod3));
			delete schema.$schema;
			return schema;
		});
		expect(given).toEqual(results[id].v3);
	});

	it.each(corpus)('Zod 4: $id', ({ id, source }) => {
		zod4.globalRegistry.clear();
		expect(attempt(() => fromZod4(evaluate(source, zod4), 'output'))).toEqual(results[id].v4);
	});

	/** Parameters are what goes into a tool: here a schema has another form for its input than for its output. */
	const OWN_INPUT = new Set([
		...['stringbool', 'default_object', 'default_in_object', 'default_invalid', 'default_number_boolean', 'default_optional', 'default_url'],
		...['prefault', 'prefault_in_object', 'transform', 'transform_described', 'transform_in_object', 'transform_optional'],
		...['pipe', 'pipe_transform', 'codec', 'tool_search', 'tool_calendar', 'default_breaks_its_length', 'default_record'],
		...['default_tuple_rest', 'default_discriminated_union', 'preprocess_of_default'],
	]);
	const withoutClosing = (recorded: Recorded) => JSON.parse(JSON.stringify(recorded, (key, value) => (key === 'additionalProperties' && value === false ? undefined : value)));

	it('the input of Zod 4 differs from the output where it must, and nowhere else', () => {
		const differs = corpus.filter(({ id, source }) => {
			zod4.globalRegistry.clear();
			const given = attempt(() => fromZod4(evaluate(source, zod4)));
			return JSON.stringify(withoutClosing(given)) !== JSON.stringify(withoutClosing(results[id].v4));
		});
		expect(new Set(differs.map(({ id }) => id))).toEqual(OWN_INPUT);
	}, 60_000);
});
