/** A workflow that serves a tool. */
import type { ILoadOptionsFunctions, INodeExecutionData, IRun, ITriggerFunctions } from 'n8n-workflow';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { ArkToolWorker } from '../nodes/ArkToolWorker/ArkToolWorker.node';
import { answerOf } from '../src/worker/answer';
import { context, FakeArk } from './support';
import type { Answer, Received } from './support';

let ark: FakeArk;
afterEach(() => ark?.stop());

const call = (id: string, args: object = {}) => ({ id, name: 'weather', arguments: args, queryName: 'q', deadline: 'later', lease: `lease-${id}`, leasedUntil: 'soon', attempt: 1 });
const ended = (json: object) => ({ data: { resultData: { lastNodeExecuted: 'End', runData: { End: [{ data: { main: [[{ json: { first: true } }, { json }]] } }] } } } }) as unknown as IRun;
/** A claim that finds nothing is held by the server. */
const held = async () => await new Promise<Answer>(() => {});

interface Options {
	answer: (request: Received, number: number) => Answer | Promise<Answer>;
	run?: (item: INodeExecutionData) => Promise<IRun>;
	parameters?: object;
	mode?: string;
}

async function start({ answer, run = async () => ended({ response: 'sunny' }), parameters = {}, mode = 'trigger' }: Options) {
	ark = await FakeArk.start(answer);
	const emitted: INodeExecutionData[] = [];
	const emitError = vi.fn();
	const base = context({ url: ark.url, parameters: { tools: ['weather', 'tides'], concurrency: 2, leaseSeconds: 60, ...parameters } }) as unknown as ITriggerFunctions;
	const given = {
		...base,
		getNodeParameter: (name: string, fallback: unknown) => ({ tools: ['weather', 'tides'], concurrency: 2, leaseSeconds: 60, ...parameters })[name as 'tools'] ?? fallback,
		getMode: () => mode,
		emitError,
		emit: ([[item]]: INodeExecutionData[][], _: unknown, done: { resolve: (run: IRun) => void }) => {
			emitted.push(item);
			void run(item).then(done.resolve);
		},
		helpers: {
			...base.helpers,
			createDeferredPromise: () => {
				let resolve: (run: IRun) => void = () => {};
				const promise = new Promise<IRun>((settle) => (resolve = settle));
				return { promise, resolve, reject: () => {} };
			},
		},
	} as unknown as ITriggerFunctions;
	const trigger = await new ArkToolWorker().trigger.call(given);
	return { emitted, emitError, given, trigger };
}

const claims = () => ark.received.filter(({ path }) => path.endsWith('/tool-calls'));
const posts = (kind: string) => ark.received.filter(({ path }) => path.endsWith(`/${kind}`));

describe('ARK Tool Worker', () => {
	it('claims calls, starts the workflow with each, and delivers its last item', async () => {
		const { emitted, trigger } = await start({
			answer: async ({ path }) => (path.endsWith('/result') ? { body: { status: 'accepted' } } : claims().length === 1 ? { body: { items: [call('c1', { city: 'Lisbon' })] } } : await held()),
		});
		await vi.waitFor(() => expect(posts('result')).toHaveLength(1));
		expect(claims()[0].query).toEqual({ tools: 'weather,tides', limit: '2', lease: '60s', wait: '25s' });
		expect(emitted[0].json).toEqual({ toolCallId: 'c1', toolName: 'weather', args: { city: 'Lisbon' }, queryName: 'q', attempt: 1, deadline: 'later' });
		expect(posts('result')[0]).toMatchObject({ path: '/v1/namespaces/default/tool-calls/c1/result', body: { lease: 'lease-c1', success: true, result: 'sunny' } });
		await trigger.closeFunction!();
	});

	it('uploads a large result under its lease, and shortens a long error', async () => {
		const answers = [ended({ response: 'x'.repeat(300 * 1024) }), ended({ rows: Array(60_000).fill('row') }), { data: { resultData: { error: { message: 'y'.repeat(100 * 1024) }, runData: {} } } } as unknown as IRun];
		const { trigger } = await start({
			parameters: { concurrency: 1 },
			answer: async ({ path }) => (path.endsWith('/result') ? { body: {} } : claims().length <= 3 ? { body: { items: [call(`c${claims().length}`)] } } : await held()),
			run: async () => answers.shift()!,
		});
		await vi.waitFor(() => expect(posts('result')).toHaveLength(3));
		const [text, json, error] = posts('result');
		expect(text).toMatchObject({ method: 'PUT', path: '/v1/namespaces/default/queries/q/tool-calls/c1/result', query: { lease: 'lease-c1', wait: '0' }, body: 'x'.repeat(300 * 1024) });
		expect(text.headers['content-type']).toBe('text/plain; charset=utf-8');
		expect(json).toMatchObject({ method: 'PUT', path: '/v1/namespaces/default/queries/q/tool-calls/c2/result', query: { lease: 'lease-c2' } });
		expect(json.body.rows).toHaveLength(60_000);
		expect(error).toMatchObject({ method: 'POST', body: { lease: 'lease-c3', success: false, error: expect.stringMatching(/characters left out\)$/) } });
		await trigger.closeFunction!();
	});

	it('answers with an error if the server refuses the result for its size', async () => {
		const { trigger } = await start({
			answer: async ({ method, path }) => {
				if (method === 'PUT') return { status: 413, body: { error: { code: 'payload_too_large', message: 'too many bytes' } } };
				return path.endsWith('/result') ? { body: {} } : claims().length === 1 ? { body: { items: [call('c1')] } } : await held();
			},
			run: async () => ended({ response: 'x'.repeat(300 * 1024) }),
		});
		await vi.waitFor(() => expect(posts('result')).toHaveLength(2));
		expect(posts('result')[1]).toMatchObject({ method: 'POST', body: { lease: 'lease-c1', success: false, error: 'The result of the tool is too large: too many bytes' } });
		await trigger.closeFunction!();
	});

	it('runs no more calls at once than it may', async () => {
		let finish = () => {};
		const { emitted, trigger } = await start({
			answer: async ({ path }) => (path.endsWith('/result') ? { body: {} } : claims().length <= 2 ? { body: { items: [call(`c${claims().length}`)] } } : await held()),
			run: async () => await new Promise<IRun>((resolve) => (finish = () => resolve(ended({ done: true })))),
		});
		await vi.waitFor(() => expect(emitted).toHaveLength(2));
		expect(claims().map(({ query }) => query.limit)).toEqual(['2', '1']);
		finish();
		await vi.waitFor(() => expect(claims()).toHaveLength(3));
		expect(claims()[2].query.limit).toBe('1');
		void trigger.closeFunction!();
	});

	it('keeps its lease while the workflow runs, and no longer', async () => {
		let finish = () => {};
		const { trigger } = await start({
			// A third of it is not a whole number of milliseconds.
			parameters: { leaseSeconds: 0.16 },
			answer: async ({ path }) => (/result$|heartbeat$/.test(path) ? { body: {} } : claims().length === 1 ? { body: { items: [call('c1')] } } : await held()),
			run: async () => await new Promise<IRun>((resolve) => (finish = () => resolve(ended({ done: true })))),
		});
		await vi.waitFor(() => expect(posts('heartbeat').length).toBeGreaterThanOrEqual(2));
		expect(posts('heartbeat')[0]).toMatchObject({ path: '/v1/namespaces/default/tool-calls/c1/heartbeat', body: { lease: 'lease-c1', for: '0.16s' } });
		finish();
		await vi.waitFor(() => expect(posts('result')).toHaveLength(1));
		const before = posts('heartbeat').length;
		await trigger.closeFunction!();
		expect(posts('heartbeat').length - before).toBeLessThanOrEqual(1);
	});

	it('asks for no more than a server grants, and keeps the lease that it has granted', async () => {
		const claimed = { ...call('c1'), leasedUntil: '2026-11-18T12:00:00.200Z' };
		const { trigger } = await start({
			parameters: { concurrency: 100, leaseSeconds: 3600 },
			answer: async ({ path }) => {
				if (!path.endsWith('/tool-calls')) return { body: {} };
				return claims().length === 1 ? { headers: { date: 'Wed, 18 Nov 2026 12:00:00 GMT' }, body: { items: [claimed] } } : await held();
			},
			run: async () => await new Promise<IRun>(() => {}),
		});
		await vi.waitFor(() => expect(posts('heartbeat')).not.toEqual([]));
		expect(claims()[0].query).toMatchObject({ limit: '32', lease: '600s' });
		expect(posts('heartbeat')[0].body).toEqual({ lease: 'lease-c1', for: '600s' });
		void trigger.closeFunction!();
	});

	it.each([0, -1])('runs one call at a time if its concurrency is %s', async (concurrency) => {
		const { trigger } = await start({ answer: held, parameters: { concurrency } });
		await vi.waitFor(() => expect(claims()).toHaveLength(1));
		expect(claims()[0].query.limit).toBe('1');
		await trigger.closeFunction!();
	});

	it('reports a refusal to n8n and stops', async () => {
		const { emitError } = await start({ answer: () => ({ status: 404, body: { error: { code: 'route_not_found', message: 'there is no such path' } } }) });
		await vi.waitFor(() => expect(emitError).toHaveBeenCalled());
		expect(emitError.mock.calls[0][0]).toMatchObject({ message: 'there is no such path', description: 'The server answered with the code route_not_found' });
		expect(claims()).toHaveLength(1);
	});

	it('says in the log what could not be delivered', async () => {
		const { given, trigger } = await start({
			answer: async ({ path }) => (path.endsWith('/result') ? { status: 410, body: { error: { code: 'call_expired', message: 'too late' } } } : claims().length === 1 ? { body: { items: [call('c1')] } } : await held()),
		});
		await vi.waitFor(() => expect(given.logger.warn).toHaveBeenCalledWith('The result of weather (c1) could not be delivered: too late'));
		await trigger.closeFunction!();
	});

	it('waits for the button in the editor, runs one call, and is closed before its execution ends', async () => {
		let end = () => {};
		const { emitted, trigger } = await start({
			mode: 'manual',
			answer: async ({ path }) => (path.endsWith('/result') ? { body: {} } : claims().length === 1 ? { body: { items: [call('c1')] } } : await held()),
			run: async () => await new Promise<IRun>((resolve) => (end = () => resolve(ended({ response: 'sunny' })))),
		});
		expect(ark.received).toEqual([]);
		await trigger.manualTriggerFunction!();
		await vi.waitFor(() => expect(emitted).toHaveLength(1));
		expect(claims()[0].query.limit).toBe('1');
		// n8n ends the execution after the trigger is closed.
		await trigger.closeFunction!();
		end();
		await vi.waitFor(() => expect(posts('result')).toHaveLength(1));
		expect(posts('result')[0].body).toMatchObject({ success: true, result: 'sunny' });
		expect(claims()).toHaveLength(1);
	});

	it('claims nothing in the editor after it is closed without a call', async () => {
		const { trigger } = await start({ mode: 'manual', answer: held });
		await trigger.manualTriggerFunction!();
		await vi.waitFor(() => expect(claims()).toHaveLength(1));
		await trigger.closeFunction!();
	});

	it('needs a tool', async () => {
		await expect(start({ answer: held, parameters: { tools: [] } })).rejects.toThrow('No tool is chosen');
	});

	it('lists the tools that workers serve, and no others', async () => {
		ark = await FakeArk.start(() => ({ body: { items: [{ name: 'weather', description: 'Tells it', binding: 'external' }, { name: 'calculator', binding: 'builtin' }] } }));
		const given = context({ url: ark.url }) as unknown as ILoadOptionsFunctions;
		expect(await new ArkToolWorker().methods.loadOptions.getExternalTools.call(given)).toEqual([{ name: 'weather', value: 'weather', description: 'Tells it' }]);
		expect(ark.received[0].query).toEqual({});
	});
});

describe('the answer of a workflow', () => {
	it.each([
		['its last item', ended({ a: 1 }), { success: true, result: { a: 1 } }],
		['the field response alone', ended({ response: 'sunny' }), { success: true, result: 'sunny' }],
		['its error', { data: { resultData: { error: { message: 'no such city' }, runData: {} } } }, { success: false, error: 'no such city' }],
		['no item', { data: { resultData: { lastNodeExecuted: 'End', runData: { End: [{ data: { main: [[]] } }] } } } }, { success: false, error: 'The workflow ended without an item' }],
		['nothing', undefined, { success: false, error: 'The workflow gave no answer' }],
	])('is %s', (_, run, outcome) => {
		expect(answerOf(run as IRun | undefined)).toEqual(outcome);
	});
});
