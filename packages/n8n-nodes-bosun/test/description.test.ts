/** What n8n reads of the package. */
import type { ILoadOptionsFunctions } from 'n8n-workflow';
import { afterEach, describe, expect, it } from 'vitest';

import { BosunArkApi } from '../credentials/BosunArkApi.credentials';
import { ArkAgentAdvanced } from '../nodes/ArkAgentAdvanced/ArkAgentAdvanced.node';
import { context, FakeArk } from './support';

let ark: FakeArk;
afterEach(() => ark?.stop());

describe('ARK Agent Advanced', () => {
	const { description, methods } = new ArkAgentAdvanced();

	it('takes items, one memory or none, and any number of tools', () => {
		expect(description.inputs).toEqual([
			'main',
			{ displayName: 'Memory', type: 'ai_memory', maxConnections: 1, required: false },
			{ displayName: 'Tools', type: 'ai_tool', required: false },
		]);
	});

	it('offers the three tool sources with the texts of the RFC, hybrid by default', () => {
		const source = description.properties.find(({ name }) => name === 'toolSource')!;
		expect(source.default).toBe('hybrid');
		expect(source.options).toEqual(
			expect.arrayContaining([
				{ name: 'ARK Tools Only', value: 'ark', description: 'Use tools configured in ARK agent CRD' },
				{ name: 'n8n Tools Only', value: 'n8n', description: 'Use tools connected as sub-nodes' },
				{ name: 'Hybrid (ARK + n8n)', value: 'hybrid', description: 'Merge ARK and n8n tools (recommended)' },
			]),
		);
	});

	it('lists all agents and models, with the key', async () => {
		ark = await FakeArk.start(() => ({ body: { items: [{ name: 'helper', description: 'Helps' }, { name: 'poet', description: null }] } }));
		const given = context({ url: `${ark.url}//`, credential: { authScheme: 'bearer', bearerToken: 'sk-ark-1' } }) as unknown as ILoadOptionsFunctions;
		const expected = [{ name: 'helper', value: 'helper', description: 'Helps' }, { name: 'poet', value: 'poet', description: undefined }];
		expect(await methods.loadOptions.getAgents.call(given)).toEqual(expected);
		expect(await methods.loadOptions.getModels.call(given)).toEqual(expected);
		expect(ark.received.map(({ path, query, headers }) => [path, query, headers.authorization])).toEqual([
			['/v1/namespaces/default/agents', {}, 'Bearer sk-ark-1'],
			['/v1/namespaces/default/models', {}, 'Bearer sk-ark-1'],
		]);
	});
});

describe('ARK API', () => {
	it.each([
		[{ authScheme: 'none', bearerToken: 'unused' }, undefined],
		[{ authScheme: 'bearer', bearerToken: 'sk-ark-1' }, 'Bearer sk-ark-1'],
		[{ authScheme: 'basic', apiKey: 'pk:sk' }, 'Basic cGs6c2s='],
	])('%o', async (credential, header) => {
		const authenticate = new BosunArkApi().authenticate as (credential: object, request: object) => Promise<{ headers: Record<string, string> }>;
		expect((await authenticate(credential, { headers: { a: 'b' } })).headers).toEqual(header ? { a: 'b', authorization: header } : { a: 'b' });
	});

	it('hides its secrets, and is tested by asking the server who we are', () => {
		const { properties, test } = new BosunArkApi();
		expect(properties.filter(({ typeOptions }) => typeOptions?.password).map(({ name }) => name)).toEqual(['bearerToken', 'apiKey']);
		expect(test.request.url).toBe('/v1/whoami');
	});
});
