/** The loop of the node, against a server that answers as each test says. */
import type { EngineRequest, EngineResponse, INodeExecutionData } from 'n8n-workflow';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { ArkAgentAdvanced } from '../nodes/ArkAgentAdvanced/ArkAgentAdvanced.node';
import { ArkClient } from '../src/ark/client';
import { context, FakeArk, tool } from './support';
import type { Answer, ContextOptions, Received } from './support';

let ark: FakeArk;
afterEach(() => ark?.stop());

const query = (status: string, rest: object = {}) => ({ name: 'q', uid: 'u', status, ...rest });
const call = (id: string, name: string, args: object = {}) => ({ id, name, arguments: args });
const done = query('completed', { response: 'Here you are', toolExecutionHistory: [], usage: { totalTokens: 3 }, duration: '1s' });

/** Answers creates, deliveries and everything else in turn. */
function server(answers: { create?: Answer[]; deliver?: Answer[]; other?: Answer[] }): (request: Received) => Answer {
	return ({ method, path }) => {
		const kind = method === 'POST' && path.endsWith('/queries') ? 'create' : path.endsWith('/tool-result') ? 'deliver' : 'other';
		return answers[kind]?.shift() ?? { status: 404, body: { error: { code: 'query_not_found', message: `no answer for ${method} ${path}` } } };
	};
}

async function start(answers: Parameters<typeof server>[0]): Promise<void> {
	ark = await FakeArk.start(server(answers));
}

async function execute(options: Omit<ContextOptions, 'url'> = {}, response?: EngineResponse) {
	const given = context({ url: ark.url, ...options });
	const result = await new ArkAgentAdvanced().execute.call(given, response);
	return { given, result, items: Array.isArray(result) ? (result as INodeExecutionData[][])[0] : [] };
}

const calculator = tool('Calculator', async ({ input }: any) => `${input} is 42`); // eslint-disable-line @typescript-eslint/no-explicit-any
const connected = [{ supply: calculator, node: 'Calculator' }];

describe('a query', () => {
	it('is created with everything that the node says', async () => {
		await start({ create: [{ body: done }] });
		const { items } = await execute({
			credential: { authScheme: 'bearer', bearerToken: 'sk-ark-1', namespace: 'team a' },
			parameters: {
				sessionId: 's1',
				options: { timeout: 60, maxToolCalls: 3, temperature: 0, maxTokens: 9, model: 'big', memory: 'notes', parameters: { parameter: [{ name: 'tone', value: 'dry' }] }, outputSchema: '{"type":"object"}' },
			},
			tools: connected,
		});
		const [create] = ark.received;
		expect(create.path).toBe('/v1/namespaces/team%20a/queries');
		expect(create.headers.authorization).toBe('Bearer sk-ark-1');
		expect(create.query).toEqual({ wait: '25s', view: 'rfc' });
		expect(create.body).toMatchObject({
			input: 'Help me',
			target: { type: 'agent', name: 'helper' },
			toolSource: 'hybrid',
			externalTools: [{ name: 'Calculator', description: 'the Calculator', parameters: { type: 'object' } }],
			sessionId: 's1',
			memory: { name: 'notes' },
			modelRef: { name: 'big' },
			modelOptions: { temperature: 0, maxTokens: 9 },
			parameters: [{ name: 'tone', value: 'dry' }],
			outputSchema: { type: 'object' },
			timeout: '60s',
			maxToolCalls: 3,
			metadata: { labels: { n8n_workflow_id: 'workflow', n8n_execution_id: '7', n8n_session_id: 's1', n8n_node: 'ARK Agent' } },
		});
		expect(create.body.name).toMatch(/^n8n-7-[0-9a-f]{12}-0-0$/);
		expect(JSON.stringify(create.body)).not.toContain('_n8nCallback');
		expect(items).toEqual([{ pairedItem: { item: 0 }, json: expect.objectContaining({ response: 'Here you are', status: 'completed', connectedTools: 1, usage: { totalTokens: 3 } }) }]);
	});

	it('has the same name when it is created again, and another one for another item', async () => {
		await start({ create: [{ body: done }, { body: done }, { body: done }] });
		await execute({ items: 2 });
		await execute();
		const names = ark.received.map(({ body }) => body.name);
		expect(names[0]).toBe(names[2]);
		expect(names[0]).not.toBe(names[1]);
	});

	it('that failed in an earlier attempt gets a successor, and so does one that asks something else', async () => {
		const replayed = { headers: { 'idempotent-replayed': 'true' }, body: query('failed', { error: { code: 'x', message: 'no' } }) };
		await start({ create: [replayed, { status: 409, body: { error: { code: 'query_exists', message: 'exists' } } }, { body: done }] });
		const { items } = await execute();
		expect(items[0].json.response).toBe('Here you are');
		expect(ark.received.map(({ body }) => body.name.replace(/^.*-0-0/, ''))).toEqual(['', '-retry1', '-retry2']);
	});

	it('that is not waited for is created and no more', async () => {
		await start({ create: [{ body: query('running') }] });
		const { items } = await execute({ parameters: { toolSource: 'ark', options: { waitForAnswer: false } } });
		expect(items[0].json).toMatchObject({ queryName: 'q', status: 'running' });
		expect(ark.received[0].query.wait).toBe('0s');
	});

	it('with connected tools must be waited for', async () => {
		await start({});
		await expect(execute({ tools: connected, parameters: { options: { waitForAnswer: false } } })).rejects.toThrow('must wait');
	});

	it('that runs is read until it ends', async () => {
		await start({ create: [{ body: query('running') }], other: [{ body: query('running') }, { body: done }] });
		await execute();
		expect(ark.received.slice(1).map(({ method, path, query: { wait } }) => `${method} ${path} ${wait}`)).toEqual(['GET /v1/namespaces/default/queries/q 25s', 'GET /v1/namespaces/default/queries/q 25s']);
	});

	it.each(['approval_required', 'parameters_required', 'paused'])('that is %s waits for a person, and is read twice a second', async (status) => {
		await start({ create: [{ body: query(status) }], other: [{ body: query(status) }, { body: done }] });
		const started = performance.now();
		const { items } = await execute();
		expect(items[0].json.response).toBe('Here you are');
		expect(performance.now() - started).toBeGreaterThan(900);
	});

	it.each([
		['failed', { error: { code: 'tool_loop', message: 'the agent repeats itself' } }, 'The query failed: the agent repeats itself'],
		['cancelled', {}, 'The query was cancelled'],
	])('that %s is an error of the node', async (status, rest, message) => {
		await start({ create: [{ body: query(status, rest) }] });
		await expect(execute()).rejects.toThrow(message);
	});

	it.each([
		['response', { response: 'Here you are' }],
		['json', { a: 1 }],
	])('may put out only its %s', async (resultFormat, expected) => {
		await start({ create: [{ body: resultFormat === 'json' ? { ...done, response: '```json\n{"a": 1}\n```' } : done }] });
		expect((await execute({ parameters: { options: { resultFormat } } })).items[0].json).toEqual(expected);
	});

	it('whose answer is not the JSON that was wanted is an error', async () => {
		await start({ create: [{ body: done }] });
		await expect(execute({ parameters: { options: { resultFormat: 'json' } } })).rejects.toThrow('The answer is not JSON: Here you are');
	});

	it.each(['agent', 'input'])('without an %s is refused before anything is sent', async (field) => {
		await start({});
		await expect(execute({ parameters: { [field]: ' ' } })).rejects.toThrow(`The ${field} is empty`);
		expect(ark.received).toEqual([]);
	});

	it.each([
		[{ order: 42 }, '{"order":42}'],
		[42, '42'],
	])('whose input is %o asks %s', async (input, expected) => {
		await start({ create: [{ body: done }] });
		await execute({ parameters: { input } });
		expect(ark.received[0].body.input).toBe(expected);
	});

	it('shows the warnings of the server once, such as that the agent has a tool of the same name', async () => {
		const warning = 'tool `Calculator` of the client is not used: the agent has a tool of that name';
		await start({ create: [{ body: { ...done, warnings: [warning] } }] });
		const { given, items } = await execute({ tools: connected });
		const hints = vi.mocked(given.addExecutionHints).mock.calls.flat().filter(({ type }) => type === 'warning');
		expect(hints).toEqual([{ message: warning, location: 'outputPane', type: 'warning' }]);
		expect(items[0].json.warnings).toEqual([warning]);
		expect(ark.received).toHaveLength(1);
	});
});

describe('calls of a turn', () => {
	const containsItself: { self?: unknown } = {};
	containsItself.self = containsItself;

	const waiting = (...toolCalls: object[]) => ({ body: query('tool_call_required', { toolCalls }) });

	it('run at once and are delivered together, each with its own time', async () => {
		await start({ create: [waiting(call('c1', 'slow'), call('c2', 'Calculator', { input: '6*7' }))], deliver: [{ body: { ...done, toolExecutionHistory: [{ toolCallId: 'c1', duration: '9s' }, { toolCallId: 'c2', duration: '9s' }] } }] });
		let release = () => {};
		const slow = tool('slow', async () => await new Promise<string>((resolve) => (release = () => resolve('at last'))));
		const quick = tool('Calculator', async () => {
			setTimeout(() => release(), 30); // eslint-disable-line @n8n/community-nodes/no-restricted-globals
			return '42';
		});
		const { items } = await execute({ tools: [{ supply: slow, node: 'slow' }, { supply: quick, node: 'Calculator' }] });
		const { path, body, query: parameters } = ark.received[1];
		expect(path).toBe('/v1/namespaces/default/queries/q/tool-result');
		expect(parameters.wait).toBe('25s');
		expect(body.toolResults).toMatchObject([
			{ toolCallId: 'c1', success: true, result: 'at last', duration: expect.stringMatching(/^\d+ms$/) },
			{ toolCallId: 'c2', success: true, result: '42', duration: expect.stringMatching(/^\d+ms$/) },
		]);
		const [slowly, quickly] = (items[0].json.toolExecutionHistory as Array<{ duration: string }>).map(({ duration }) => parseInt(duration, 10));
		expect(slowly).toBeGreaterThan(quickly);
	});

	it.each([
		['throws', async () => Promise.reject(new Error('no such table')), 'no such table'],
		['returns an error as text', async () => 'There was an error: "no such table"', 'There was an error: "no such table"'],
		['does not understand', async () => "I don't know how to do that.", "I don't know how to do that."],
		['returns an object that contains itself', async () => containsItself, expect.stringMatching(/^The tool returned what JSON cannot hold: Converting circular structure/)],
		['returns an object that refuses to be JSON', async () => ({ toJSON: () => BigInt('none') }), expect.stringMatching(/^The tool returned what JSON cannot hold: Cannot convert none/)],
		['returns a function', async () => () => 42, 'The tool returned what JSON cannot hold: a function'],
		['takes too long', async () => await new Promise<string>(() => {}), 'Tool execution timeout: "Calculator" took longer than 0.05 s'],
	])('a tool that %s gives an error for the agent to read', async (_, invoke, error) => {
		await start({ create: [waiting(call('c1', 'Calculator'))], deliver: [{ body: done }] });
		const { items } = await execute({ tools: [{ supply: tool('Calculator', invoke), node: 'Calculator' }], parameters: { options: { toolTimeout: 0.05 } } });
		expect(ark.received[1].body.toolResults).toMatchObject([{ toolCallId: 'c1', success: false, error }]);
		expect(items[0].json.response).toBe('Here you are');
	});

	it('of tools that are not connected are answered, too', async () => {
		await start({ create: [waiting(call('c1', 'ghost'))], deliver: [{ body: done }] });
		await execute({ tools: connected });
		expect(ark.received[1].body.toolResults[0]).toMatchObject({ success: false, error: 'No tool called "ghost" is connected to the node' });
	});

	it('that workers run are left to them', async () => {
		await start({ create: [waiting({ ...call('c1', 'resize'), workers: true })], other: [{ body: done }] });
		const { items } = await execute({ tools: connected });
		expect(items[0].json.response).toBe('Here you are');
		expect(ark.received.map(({ method }) => method)).toEqual(['POST', 'GET']);
	});

	it('that look like a call of LangChain are refused', async () => {
		const invoke = vi.fn();
		await start({ create: [waiting(call('c1', 'Calculator', { type: 'tool_call', args: {} }))], deliver: [{ body: done }] });
		await execute({ tools: [{ supply: tool('Calculator', invoke), node: 'Calculator' }] });
		expect(invoke).not.toHaveBeenCalled();
		expect(ark.received[1].body.toolResults[0].success).toBe(false);
	});

	it('are cached within a query if the node says so, unless they failed', async () => {
		const results = ['one', new Error('down'), 'three'];
		const invoke = vi.fn(async () => {
			const next = results.shift()!;
			if (next instanceof Error) throw next;
			return next;
		});
		const same = () => waiting(call(`c${Math.random()}`, 'Calculator', { a: 1, b: 2 }));
		const other = () => waiting(call(`c${Math.random()}`, 'Calculator', { b: 3 }));
		await start({ create: [same()], deliver: [waiting(call('again', 'Calculator', { b: 2, a: 1 })), other(), other(), { body: done }] });
		await execute({ tools: [{ supply: tool('Calculator', invoke), node: 'Calculator' }], parameters: { options: { cacheSeconds: 60 } } });
		expect(ark.received.slice(1).map(({ body }) => body.toolResults[0].result ?? body.toolResults[0].error)).toEqual(['one', 'one', 'down', 'three']);
	});

	it('with large results have requests of their own, and batches stay below the limit', async () => {
		const big = 'x'.repeat(300 * 1024);
		const half = 'y'.repeat(200 * 1024);
		const sizes: Record<string, string> = { big, half, json: JSON.stringify({ rows: Array(60_000).fill('row') }) };
		const supply = tool('read', async ({ input }: any) => sizes[input]); // eslint-disable-line @typescript-eslint/no-explicit-any
		const names = ['big', 'half', 'half', 'half', 'half', 'half', 'json'];
		const toolCalls = names.map((input, index) => call(`c${index}`, 'read', { input }));
		ark = await FakeArk.start(({ path }) => (path.endsWith('/queries') ? waiting(...toolCalls) : path.endsWith('/tool-result') && ark.received.length === 5 ? { body: done } : { body: query('running') }));
		await execute({ tools: [{ supply, node: 'read' }] });
		const sent = ark.received.slice(1).map(({ method, path, query: { wait }, body, headers }) => ({ method, path: path.split('/queries/q/')[1], wait, type: headers['content-type'], results: body.toolResults?.length }));
		expect(sent).toEqual([
			{ method: 'PUT', path: 'tool-calls/c0/result', wait: '0', type: 'text/plain; charset=utf-8', results: undefined },
			{ method: 'PUT', path: 'tool-calls/c6/result', wait: '0', type: 'application/json', results: undefined },
			{ method: 'POST', path: 'tool-result', wait: '0', type: 'application/json', results: 4 },
			{ method: 'POST', path: 'tool-result', wait: '25s', type: 'application/json', results: 1 },
		]);
		expect(ark.received[1].body).toBe(big);
	});
});

describe('a result that the server refuses for its size', () => {
	it.each([
		[413, 'payload_too_large', 'The result of the tool is too large: a result may have at most 67108864 bytes'],
		[409, 'already_resolved', undefined],
	])('(%s) is an error for the agent, and other refusals are errors of the node', async (status, code, error) => {
		const refused = { status, body: { error: { code, message: 'a result may have at most 67108864 bytes' } } };
		await start({ create: [{ body: query('tool_call_required', { toolCalls: [call('c1', 'read')] }) }], other: [refused], deliver: [{ body: done }] });
		const run = execute({ tools: [{ supply: tool('read', async () => 'x'.repeat(300 * 1024)), node: 'read' }] });
		if (error === undefined) return await expect(run).rejects.toThrow('a result may have');
		expect((await run).items[0].json.response).toBe('Here you are');
		expect(ark.received.at(-1)).toMatchObject({ query: { wait: '25s' }, body: { toolResults: [{ toolCallId: 'c1', success: false, error, duration: expect.stringMatching(/ms$/) }] } });
	});
});

describe('a server', () => {
	it('that is away for a moment is tried again, and gets the same delivery twice', async () => {
		await start({
			create: [{ drop: true }, { status: 503, body: {} }, { body: query('tool_call_required', { toolCalls: [call('c1', 'Calculator', { input: '6*7' })] }) }],
			deliver: [{ drop: true }, { body: done }],
		});
		const { items } = await execute({ tools: connected });
		expect(items[0].json.response).toBe('Here you are');
		const bodies = ark.received.map(({ body }) => JSON.stringify(body));
		expect(bodies[0]).toBe(bodies[1]);
		expect(bodies[3]).toBe(bodies[4]);
	});

	it('that has too many requests is asked again with the same request', async () => {
		await start({ create: [{ status: 429, body: { error: { code: 'rate_limited', message: 'too many requests' } } }, { body: done }] });
		const { items } = await execute();
		expect(items[0].json.response).toBe('Here you are');
		expect(ark.received.map(({ method, path }) => `${method} ${path}`)).toEqual(Array(2).fill('POST /v1/namespaces/default/queries'));
		expect(ark.received[0].body).toEqual(ark.received[1].body);
	});

	it('that refuses is not asked again, and the error says why', async () => {
		await start({ create: [{ status: 422, body: { error: { code: 'agent_not_found', message: 'there is no agent helper' } } }] });
		await expect(execute()).rejects.toMatchObject({ message: 'there is no agent helper', description: 'The server answered with the code agent_not_found' });
		expect(ark.received).toHaveLength(1);
	});

	it('that is not a Bosun is reported as such', async () => {
		await start({ create: [{ status: 404, body: '<html>nothing here</html>' }] });
		await expect(execute()).rejects.toThrow('the server answered 404. Check the Base URL');
	});

	it('error of one item leaves the others alone if the node continues on errors', async () => {
		await start({ create: [{ status: 422, body: { error: { code: 'agent_not_found', message: 'there is no agent helper' } } }, { body: done }] });
		const { items } = await execute({ items: 2, continueOnFail: true });
		expect(items.map(({ json, pairedItem }) => [json.error ?? json.response, pairedItem])).toEqual([
			['there is no agent helper', { item: 0 }],
			['Here you are', { item: 1 }],
		]);
	});
});

describe('the time of a connected tool', () => {
	it.each([
		[undefined, undefined],
		[540, undefined],
		[1200, '1260s'],
	])('of %s seconds makes the server wait %s', async (toolTimeout, timeout) => {
		await start({ create: [{ body: done }] });
		await execute({ tools: connected, parameters: { options: { toolTimeout } } });
		expect(ark.received[0].body.externalTools[0]).toMatchObject({ onExpired: 'fail' });
		expect(ark.received[0].body.externalTools[0].timeout).toBe(timeout);
	});
});

describe('an error that is too long for a request', () => {
	it('is delivered from its beginning', async () => {
		await start({ create: [{ body: query('tool_call_required', { toolCalls: [call('c1', 'Calculator')] }) }], deliver: [{ body: done }] });
		const supply = tool('Calculator', async () => {
			throw new Error('x'.repeat(2_000_000));
		});
		await execute({ tools: [{ supply, node: 'Calculator' }] });
		const [{ error }] = ark.received.at(-1)!.body.toolResults;
		expect(error).toMatch(/^x{1000}/);
		expect(error).toMatch(/characters left out\)$/);
		expect(error.length).toBeLessThan(70_000);
	});
});

describe('stopping the execution', () => {
	it('cancels the query, with the key', async () => {
		const stop = new AbortController();
		await start({ create: [{ body: query('tool_call_required', { toolCalls: [call('c1', 'Calculator')] }) }], other: [{ body: query('cancelled') }], deliver: [{ body: query('cancelled') }] });
		const supply = tool('Calculator', async () => {
			stop.abort();
			return 'too late';
		});
		await expect(execute({ tools: [{ supply, node: 'Calculator' }], signal: stop.signal, credential: { authScheme: 'basic', apiKey: 'pk:sk' } })).rejects.toThrow('The query was cancelled');
		await vi.waitFor(() => expect(ark.received.map(({ method, path }) => `${method} ${path}`)).toContain('POST /v1/namespaces/default/queries/q/cancel'));
		const cancel = ark.received.find(({ path }) => path.endsWith('/cancel'))!;
		expect(cancel.headers.authorization).toBe(`Basic ${Buffer.from('pk:sk').toString('base64')}`);
	});

	it('cancels a query whose first turn is not over', async () => {
		const stop = new AbortController();
		let name = '';
		ark = await FakeArk.start(async ({ path, body }) => {
			if (!path.endsWith('/queries')) return { body: query('cancelled') };
			name = body.name;
			stop.abort();
			return { body: query('cancelled') };
		});
		await expect(execute({ signal: stop.signal })).rejects.toThrow();
		await vi.waitFor(() => expect(ark.received.map(({ method, path }) => `${method} ${path}`)).toContain(`POST /v1/namespaces/default/queries/${name}/cancel`));
	});
});

describe('a connected memory', () => {
	const remembered = (messages: unknown[]) => ({ loadMemoryVariables: vi.fn(async () => ({ chat_history: messages })), saveContext: vi.fn(async () => {}) });

	it('is the conversation before the input, and gets the answer', async () => {
		await start({ create: [{ body: done }] });
		const memory = remembered([
			{ getType: () => 'system', content: 'Be brief.' },
			{ _getType: () => 'human', content: 'Hello' },
			{ type: 'ai', content: [{ type: 'text', text: 'Good ' }, { type: 'text', text: 'day' }] },
			{ type: 'tool', content: 'left out' },
			{ type: 'ai', content: [{ type: 'image_url' }] },
		]);
		await execute({ memory });
		expect(ark.received[0].body).toMatchObject({
			type: 'messages',
			input: [
				{ role: 'system', content: 'Be brief.' },
				{ role: 'user', content: 'Hello' },
				{ role: 'assistant', content: 'Good day' },
				{ role: 'user', content: 'Help me' },
			],
		});
		expect(memory.saveContext).toHaveBeenCalledExactlyOnceWith({ input: 'Help me' }, { output: 'Here you are' });
	});

	it('that is empty leaves the input as it is', async () => {
		await start({ create: [{ body: done }] });
		await execute({ memory: [remembered([])] });
		expect(ark.received[0].body).toMatchObject({ input: 'Help me' });
		expect(ark.received[0].body).not.toHaveProperty('type');
	});

	it.each([
		['is empty', [], { input: 'Greet {{.name}}' }],
		['has messages', [{ type: 'human', content: 'Hi {{.name}}' }], { input: [{ role: 'user', content: 'Hi {{.name}}' }, { role: 'user', content: 'Greet Ada $& Co' }] }],
	])('that %s changes nothing about the agent parameters in the input', async (_, messages, body) => {
		await start({ create: [{ body: done }] });
		const memory = remembered(messages);
		const parameters = { input: 'Greet {{.name}}', options: { parameters: { parameter: [{ name: 'name', value: 'Ada $& Co' }] } } };
		await execute({ memory, parameters });
		expect(ark.received[0].body).toMatchObject(body);
		expect(memory.saveContext).toHaveBeenCalledExactlyOnceWith({ input: 'Greet Ada $& Co' }, { output: 'Here you are' });
	});

	it('with messages makes a parameter without a value an error, as the server does without them', async () => {
		await start({});
		const parameters = { input: 'Greet {{ .title }}', options: { parameters: { parameter: [{ name: 'name', value: 'Ada' }] } } };
		await expect(execute({ memory: remembered([{ type: 'human', content: 'Hi' }]), parameters })).rejects.toThrow('The input has {{ .title }}, which is none of the agent parameters');
	});

	it('gets nothing from a query that failed', async () => {
		await start({ create: [{ body: query('failed', { error: { code: 'x', message: 'no' } }) }] });
		const memory = remembered([]);
		await expect(execute({ memory })).rejects.toThrow('no');
		expect(memory.saveContext).not.toHaveBeenCalled();
	});

	it('excludes a memory of the server, and what is none is refused', async () => {
		await start({});
		await expect(execute({ memory: remembered([]), parameters: { options: { memory: 'notes' } } })).rejects.toThrow('two memories');
		await expect(execute({ memory: { name: 'ark' } })).rejects.toThrow('cannot be read');
		await expect(execute({ memory: remembered([]), type: 'n8n-nodes-bosun.arkAgentAdvancedTool', parameters: { options: { memory: 'notes' } } })).rejects.not.toThrow('two memories');
	});
});

describe('a query that an earlier execution has left waiting', () => {
	const left = query('tool_call_required', { name: 'left', toolCalls: [call('c1', 'Calculator', { input: '6*7' })] });
	const resuming = { parameters: { sessionId: 's1', options: { resumeWaiting: true } }, tools: connected };

	it('is found by its session and place, and is continued', async () => {
		await start({ other: [{ body: { items: [{ name: 'left' }] } }, { body: left }], deliver: [{ body: { ...done, name: 'left' } }] });
		const { items } = await execute(resuming);
		const [search, read] = ark.received;
		expect(`${search.method} ${search.path}`).toBe('GET /v1/namespaces/default/queries');
		expect(search.query).toEqual({
			state: 'waiting',
			sessionId: 's1',
			target: 'agent/helper',
			labelSelector: 'n8n_workflow_id=workflow,n8n_node_id=node-1,n8n_item=0,n8n_execution_id!=7',
			limit: '1',
		});
		expect(`${read.method} ${read.path}`).toBe('GET /v1/namespaces/default/queries/left');
		expect(ark.received.find(({ path }) => path.endsWith('/left/tool-result'))!.body.toolResults).toMatchObject([{ toolCallId: 'c1', success: true }]);
		expect(items[0].json).toMatchObject({ response: 'Here you are', queryName: 'left', resumed: true });
	});

	it('is not there, so a new one is created', async () => {
		await start({ other: [{ body: { items: [] } }], create: [{ body: done }] });
		const { items } = await execute(resuming);
		expect(items[0].json.response).toBe('Here you are');
		expect(items[0].json).not.toHaveProperty('resumed');
	});

	it('cannot be found without a session', async () => {
		await start({});
		await expect(execute({ parameters: { options: { resumeWaiting: true } } })).rejects.toThrow('the Session ID is empty');
	});
});

describe('the number of connected tools', () => {
	it('is a hint of the execution, since a subtitle cannot know it', async () => {
		await start({ create: [{ body: done }, { body: done }] });
		const { given } = await execute({ tools: connected });
		expect(given.addExecutionHints).toHaveBeenCalledWith({ message: '1 connected tool: Calculator', location: 'outputPane', type: 'info' });
		const alone = await execute();
		expect(alone.given.addExecutionHints).not.toHaveBeenCalled();
	});
});

describe('as a tool of another agent', () => {
	it('it has no tools of its own and uses those of the ARK agent', async () => {
		await start({ create: [{ body: done }] });
		await execute({ type: 'n8n-nodes-bosun.arkAgentAdvancedTool', tools: connected });
		expect(ark.received[0].body).toMatchObject({ toolSource: 'ark', externalTools: [] });
	});
});

describe('calls for the engine of n8n', () => {
	const agentTool = { supply: tool('researcher', async () => 'never called'), node: 'Researcher', type: '@n8n/n8n-nodes-langchain.agentTool', typeVersion: 3 };
	const gated = tool('send', async () => '', { schema: { type: 'object' }, metadata: { originalSchema: { type: 'object', properties: { to: { type: 'string' } } }, gatedToolNodeName: 'Mail' } });
	const gate = { supply: { tools: [gated] }, node: 'Ask me', type: 'n8n-nodes-base.slackHitlTool' };
	const pausedOn = (...toolCalls: object[]) => query('tool_call_required', { toolCalls });

	const answered = (request: EngineRequest, json: object): EngineResponse =>
		({ metadata: request.metadata, actionResponses: request.actions.map((action) => ({ action, data: { data: { ai_tool: [[{ json }]] } } })) }) as unknown as EngineResponse;

	/** A create that was answered before, with what has become of the query. */
	const again = (body: object): Answer => ({ headers: { 'idempotent-replayed': 'true' }, body });
	const creates = () => ark.received.filter(({ method, path }) => method === 'POST' && path.endsWith('/queries'));
	const cancels = () => ark.received.filter(({ path }) => path.endsWith('/cancel'));

	it('are returned, and their results delivered when the node is entered again', async () => {
		await start({
			create: [{ body: pausedOn(call('c1', 'Calculator', { input: '1' }), call('c2', 'researcher', { task: 'boats' })) }, again(pausedOn(call('c2', 'researcher', { task: 'boats' })))],
			deliver: [{ body: pausedOn(call('c2', 'researcher')) }, { body: done }],
		});
		const first = (await execute({ tools: [agentTool, ...connected] })).result as EngineRequest;
		expect(ark.received[1].body.toolResults.map(({ toolCallId }: { toolCallId: string }) => toolCallId)).toEqual(['c1']);
		expect(ark.received[1].query.wait).toBe('0s');
		expect(first).toMatchObject({ actions: [{ actionType: 'ExecutionNodeAction', nodeName: 'Researcher', input: { task: 'boats' }, id: 'c2', type: 'ai_tool' }], metadata: { queries: { 0: 'q' } } });

		const { items } = await execute({ tools: [agentTool, ...connected] }, answered(first, { output: 'boats float' }));
		expect(creates()).toHaveLength(2);
		expect({ ...creates()[1].body, name: '' }).toEqual({ ...creates()[0].body, name: '' });
		expect(creates()[1].query).toEqual({ wait: '0s', view: 'rfc' });
		expect(ark.received.filter(({ method }) => method === 'GET')).toEqual([]);
		expect(ark.received.at(-1)!.body.toolResults).toMatchObject([{ toolCallId: 'c2', success: true, result: 'boats float' }]);
		expect(items[0].json.response).toBe('Here you are');
	});

	it('are cancelled with their query, once, when the execution is stopped while the engine runs them', async () => {
		const paused = pausedOn(call('c2', 'researcher', {}));
		const stop = new AbortController();
		await start({ create: [{ body: paused }, again(paused)], other: [{ body: query('cancelled') }] });
		const setup = { tools: [agentTool], signal: stop.signal, credential: { authScheme: 'basic', apiKey: 'pk:sk' } };
		const first = (await execute(setup)).result as EngineRequest;
		const unanswered = { metadata: first.metadata, actionResponses: [] } as unknown as EngineResponse;
		expect(((await execute(setup, unanswered)).result as EngineRequest).actions).toHaveLength(1);
		const cancelled = vi.spyOn(ArkClient.prototype, 'postAfterStop');
		stop.abort();
		expect(cancelled).toHaveBeenCalledExactlyOnceWith('/v1/namespaces/default/queries/q/cancel');
		cancelled.mockRestore();
		await vi.waitFor(() => expect(cancels()).toHaveLength(1));
		expect(cancels()[0]).toMatchObject({ method: 'POST', path: '/v1/namespaces/default/queries/q/cancel', headers: { authorization: `Basic ${Buffer.from('pk:sk').toString('base64')}` } });
	});

	it('are not cancelled after their query has ended', async () => {
		const paused = pausedOn(call('c2', 'researcher', {}));
		const stop = new AbortController();
		await start({ create: [{ body: paused }, again(paused)], deliver: [{ body: done }] });
		const setup = { tools: [agentTool], signal: stop.signal };
		const cancelled = vi.spyOn(ArkClient.prototype, 'postAfterStop');
		await execute(setup, answered((await execute(setup)).result as EngineRequest, { output: 'boats float' }));
		stop.abort();
		expect(cancelled).not.toHaveBeenCalled();
		cancelled.mockRestore();
	});

	it.each([
		[409, 'query_exists'],
		[422, 'agent_not_found'],
	])('of a query whose create is answered with %s %s continue from what the server has', async (status, code) => {
		const paused = pausedOn(call('c2', 'researcher', {}));
		await start({ create: [{ body: paused }, { status, body: { error: { code, message: 'no' } } }], other: [{ body: paused }], deliver: [{ body: done }] });
		const first = (await execute({ tools: [agentTool] })).result as EngineRequest;
		const { items } = await execute({ tools: [agentTool], parameters: { input: 'It is noon by now' } }, answered(first, { output: 'boats float' }));
		expect(ark.received.map(({ method, path }) => `${method} ${path.split('/default')[1]}`)).toEqual(['POST /queries', 'POST /queries', 'GET /queries/q', 'POST /queries/q/tool-result']);
		expect(items[0].json.response).toBe('Here you are');
	});

	it('of a query that an earlier execution had left waiting read it again', async () => {
		const paused = { ...pausedOn(call('c2', 'researcher', {})), name: 'left' };
		await start({ other: [{ body: { items: [{ name: 'left' }] } }, { body: paused }, { body: paused }], deliver: [{ body: done }] });
		const setup = { tools: [agentTool], parameters: { sessionId: 's1', options: { resumeWaiting: true } } };
		const first = (await execute(setup)).result as EngineRequest;
		const { items } = await execute(setup, answered(first, { output: 'boats float' }));
		expect(creates()).toEqual([]);
		expect(items[0].json).toMatchObject({ response: 'Here you are', resumed: true });
	});

	it('do not ask again what has failed for another item', async () => {
		const failed = query('failed', { error: { code: 'x', message: 'no' } });
		const paused = pausedOn(call('c2', 'researcher', {}));
		await start({ create: [{ body: failed }, { body: paused }, again(failed), again(paused)], deliver: [{ body: done }] });
		const setup = { items: 2, tools: [agentTool], continueOnFail: true };
		const first = (await execute(setup)).result as EngineRequest;
		const { items } = await execute(setup, answered(first, { output: 'boats float' }));
		expect(items.map(({ json }) => json.error ?? json.response)).toEqual(['The query failed: no', 'Here you are']);
		expect(creates()).toHaveLength(4);
	});

	it('of a later item do not save the answer of a finished one again', async () => {
		const paused = pausedOn(call('c2', 'researcher', { task: 'boats' }));
		await start({ create: [{ body: done }, { body: paused }, again(done), again(paused)], deliver: [{ body: done }] });
		const memory = { loadMemoryVariables: async () => ({ chat_history: [] }), saveContext: vi.fn(async () => {}) };
		const setup = { items: 2, tools: [agentTool], memory };
		const first = (await execute(setup)).result as EngineRequest;
		expect(memory.saveContext).toHaveBeenCalledTimes(1);
		const { items } = await execute(setup, answered(first, { output: 'boats float' }));
		expect(items.map(({ json }) => json.response)).toEqual(['Here you are', 'Here you are']);
		expect(memory.saveContext).toHaveBeenCalledTimes(2);
	});

	it('through a gate ask a person first, then run the tool', async () => {
		const paused = pausedOn(call('c1', 'send', { to: 'ann' }));
		await start({ create: [{ body: paused }, again(paused), again(paused)], deliver: [{ body: done }] });
		const first = (await execute({ tools: [gate] })).result as EngineRequest;
		expect(ark.received[0].body.externalTools).toEqual([{ name: 'send', description: 'the send', parameters: { type: 'object', properties: { to: { type: 'string' } } }, timeout: '24h', onExpired: 'fail' }]);
		expect(first.actions).toMatchObject([{ nodeName: 'Ask me', input: { toolParameters: '{"to":"ann"}', tool: 'send' } }]);

		const second = (await execute({ tools: [gate] }, answered(first, { data: { approved: true } }))).result as EngineRequest;
		expect(second.actions).toMatchObject([{ nodeName: 'Mail', input: { to: 'ann', tool: 'send' }, metadata: { parentNodeName: 'Ask me' } }]);

		await execute({ tools: [gate] }, answered(second, { sent: true }));
		expect(ark.received.at(-1)!.body.toolResults).toMatchObject([{ toolCallId: 'c1', success: true, result: { sent: true } }]);
	});

	it.each([
		['a no', { approved: false, chatInput: 'not to Ann' }, 'A person rejected the call of send, with the words "not to Ann". Do not call it again unless you are asked to.'],
		['silence', {}, 'A person rejected the call of send. Do not call it again unless you are asked to.'],
	])('%s at a gate is an error for the agent, and nothing runs', async (_, json, error) => {
		const paused = pausedOn(call('c1', 'send', { to: 'ann' }));
		await start({ create: [{ body: paused }, again(paused)], deliver: [{ body: done }] });
		const first = (await execute({ tools: [gate] })).result as EngineRequest;
		await execute({ tools: [gate] }, answered(first, json));
		expect(ark.received.at(-1)!.body.toolResults).toMatchObject([{ toolCallId: 'c1', success: false, error }]);
	});

	it.each([
		['an error', new Error('no model'), 'no model'],
		['an object', { message: 'no model', description: 'Connect one' }, 'no model (Connect one)'],
	])('that failed in the engine with %s are errors for the agent', async (_, thrown, error) => {
		const paused = pausedOn(call('c2', 'researcher', {}));
		await start({ create: [{ body: paused }, again(paused)], deliver: [{ body: done }] });
		const first = (await execute({ tools: [agentTool] })).result as EngineRequest;
		const response = answered(first, {});
		response.actionResponses[0].data = { error: thrown } as never;
		await execute({ tools: [agentTool] }, response);
		expect(ark.received.at(-1)!.body.toolResults).toMatchObject([{ success: false, error }]);
	});
});

describe('streaming', () => {
	const deltaOf = (turn: number, offset: number, text: string) => `event: agent_response_delta\ndata: ${JSON.stringify({ turn, attempt: 1, offset, delta: text })}\n\n`;

	it.each([
		['whose last turn was not read', '', ['It is sunny']],
		['whose last turn was read in part', deltaOf(2, 0, 'It '), ['It ', 'is sunny']],
	])('sends the whole answer of a query with two turns, %s, after the text of the first', async (_, last, answer) => {
		let streamed = () => {};
		const wasRead = new Promise<void>((resolve) => (streamed = resolve));
		ark = await FakeArk.start(async ({ path }) => {
			if (path.endsWith('/events')) return { headers: { 'content-type': 'text/event-stream' }, body: `${deltaOf(1, 0, 'Let me look that up.')}${last}` };
			if (path.endsWith('/queries')) return { body: query('running') };
			await wasRead;
			return { body: { ...done, response: 'It is sunny' } };
		});
		const chunks: string[] = [];
		const given = context({ url: ark.url, streaming: true });
		given.sendChunk = ((type: string, _: number, text?: string) => {
			chunks.push(text ?? type);
			if (chunks.at(-1) === (last === '' ? 'Let me look that up.' : 'It ')) streamed();
		}) as typeof given.sendChunk;
		await new ArkAgentAdvanced().execute.call(given);
		expect(chunks).toEqual(['begin', 'Let me look that up.', 'end', 'begin', ...answer, 'end']);
	});

	it('passes text on as it comes, and the rest at the end', async () => {
		const delta = (offset: number, text: string) => deltaOf(1, offset, text);
		let streamed = () => {};
		const wasRead = new Promise<void>((resolve) => (streamed = resolve));
		ark = await FakeArk.start(async ({ path }) => {
			if (path.endsWith('/events')) return { headers: { 'content-type': 'text/event-stream' }, body: `:heartbeat\n\n${delta(0, 'Here ')}${delta(0, 'Here ')}${delta(5, 'yö')}${delta(20, 'lost')}` };
			if (path.endsWith('/queries')) return { body: query('running') };
			await wasRead;
			return { body: { ...done, response: 'Here yöu are' } };
		});
		const chunks: string[] = [];
		const given = context({ url: ark.url, streaming: true });
		given.sendChunk = ((type: string, _: number, text?: string) => {
			chunks.push(text ?? type);
			if (chunks.length === 3) streamed();
		}) as typeof given.sendChunk;
		await new ArkAgentAdvanced().execute.call(given);
		expect(chunks).toEqual(['begin', 'Here ', 'yö', 'u are', 'end']);
	});

	it('begins with the first turn: the query is created without waiting for it', async () => {
		await start({ create: [{ body: query('running') }, { body: done }], other: [{ status: 404, body: {} }, { body: done }] });
		await execute({ streaming: true });
		expect(ark.received[0].query.wait).toBe('0s');
		expect(ark.received.map(({ path }) => path)).toContain('/v1/namespaces/default/queries/q/events');
		await execute({ streaming: true, parameters: { options: { streamText: false } } });
		expect(ark.received.filter(({ method, path }) => method === 'POST' && path.endsWith('/queries'))[1].query.wait).toBe('25s');
	});
});
