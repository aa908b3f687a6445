// The sample workflows of examples/n8n and what can happen to them, in the real n8n: run by `make e2e-n8n`.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';

import { ARK_NODES, CASES, HAS_QUALITY_GATE } from './ark-nodes.mjs';
import { openEditor } from './browser/editor.mjs';
import { ReaderShell } from './reader.mjs';
import { REPOSITORY, until } from './lib.mjs';
import { startEverything } from './world.mjs';

let world, n8n, bosun, busy, services, mail, locked;

before(async () => {
	world = await startEverything();
	({ n8n, bosun, busy, services, mail, locked } = world);
});

after(async () => await world?.stop());

/** Runs a workflow and returns its item. */
async function run(path, body) {
	const { status, body: item } = await n8n.webhook(path, body);
	assert.equal(status, 200, JSON.stringify(item));
	return item;
}

/** The calls of a query; what failed unexpectedly says why. */
function history(item) {
	return item.toolExecutionHistory.map(({ toolName, executionMode, success }) => `${toolName} ${executionMode ?? 'unknown'} ${success ? 'ok' : 'failed'}`);
}

describe('sample workflows', () => {
	it('1: the Calculator answers what 25% of 8,432 is', async () => {
		const item = await run('bosun-calculator');
		assert.equal(item.response, '25% of 8,432 is 2108');
		assert.deepEqual(history(item), ['Calculator external ok']);
		assert.equal(item.connectedTools, 1);
		assert.equal(item.toolSource, 'n8n');
	});

	it('2: web search and HTTP Request in n8n, then the database of the agent', async () => {
		const item = await run('bosun-research');
		assert.deepEqual(history(item), ['searxng-search external ok', 'http_request external ok', 'database-query internal ok']);
		assert.match(item.response, /Rival CRM, about CRM competitors/);
		assert.match(item.response, /Their prices: {"price":"49 EUR a seat"}/);
		assert.match(item.response, /Too slow/);
	});

	it('2: a calculation in n8n and a fact of the agent in one turn', async () => {
		const item = await run('bosun-facts');
		assert.equal(item.response, '25 * 42 is 1050, and the capital of France is Paris.');
		assert.deepEqual(history(item).sort(), ['Calculator external ok', 'country-facts internal ok']);
	});

	it('3: a manager with two AI Agent Tools that have tools of their own', async () => {
		const item = await run('bosun-manager');
		assert.deepEqual(history(item), ['researcher external ok', 'writer external ok']);
		assert.match(item.response, /Notes: I found .*Rival CRM, about solar boats.* Article: Solar boats are quiet .*4 words/s);
	});

	it('3: an ARK agent asks an agent of n8n, which asks another ARK agent', async () => {
		const item = await run('bosun-chain');
		assert.match(item.response, /The expert says: .*It is 2108/);
		assert.deepEqual(history(item), ['expert external ok']);
		const { items } = await bosun.get('/queries?limit=10');
		const inner = items.find((query) => query.target?.name === 'calculating-agent');
		const shown = await bosun.get(`/queries/${inner.name}?view=rfc`);
		assert.deepEqual(history(shown), ['calculator internal ok']);
	});

	it('4: the agent reports a tool that fails, and the workflow continues', async () => {
		const item = await run('bosun-failing');
		assert.equal(item.wentOn, true);
		assert.deepEqual(history(item), ['order_status external failed']);
		assert.match(item.response, /I could not look it up: .*the order system is down/);
	});

	for (const [mode, expected] of [
		['ark', ['calculator internal ok', 'n8n_calculator unknown failed']],
		['n8n', ['calculator unknown failed', 'n8n_calculator external ok']],
		['hybrid', ['calculator internal ok', 'n8n_calculator external ok']],
	]) {
		it(`5: mode ${mode} shows its tools and no others`, async () => {
			const item = await run('bosun-modes', { mode });
			assert.deepEqual(history(item).sort(), expected);
			assert.equal(item.connectedTools, mode === 'ark' ? 0 : 1);
		});
	}

	it('6: five calls one after the other', async () => {
		const item = await run('bosun-many', { input: 'Add one five times' });
		assert.equal(item.response, 'That makes 5');
		assert.equal(item.toolExecutionHistory.length, 5);
	});

	it('6: five calls of one turn run at once', async () => {
		const started = Date.now();
		const item = await run('bosun-many', { input: 'Add one to five numbers' });
		assert.equal(item.response, '11 21 31 41 51');
		const elapsed = Date.now() - started;
		// One after the other, they would take no longer than the whole run, however slow the machine is.
		const together = item.toolExecutionHistory.reduce((sum, { duration }) => sum + parseInt(duration, 10), 0);
		assert(together > elapsed, `the times of five tools are ${together} ms together, in a run of ${elapsed} ms`);
	});

	it('7: Workflow Tool, Code Tool with a schema, MCP Client, Think, a node as a tool', async () => {
		const item = await run('bosun-kinds');
		assert.deepEqual(history(item).filter((line) => !line.endsWith('ok')), []);
		assert.match(item.response, /weather: .*sunny in Lisbon.*; repeat: ahoy ahoy; mcp: 42; think: All of them; date: .*2031/);
	});
});

describe('what can go wrong', () => {
	it('8: Bosun is killed while n8n runs the tool, and the workflow still ends right', async () => {
		const running = run('e2e-hold');
		await services.holding();
		await bosun.kill();
		// The result meets a server that is away.
		services.release();
		await bosun.start();
		const item = await running;
		assert.match(item.response, /It said: .*and released/);
		assert.deepEqual(history(item), ['wait_for_release external ok']);
	});

	it('n8n is killed while it runs the tool, and a run of the same session continues', async () => {
		const session = 'left-behind';
		const lost = n8n.webhook('e2e-hold', { session }).catch((error) => error);
		await services.holding();
		await n8n.kill();
		assert(((await lost)) instanceof Error);
		services.release();
		const [waiting] = (await bosun.get(`/queries?state=waiting&sessionId=${session}`)).items;
		await n8n.start();
		const running = run('e2e-hold', { session });
		await services.holding();
		services.release();
		const item = await running;
		assert.equal(item.queryName, waiting.name);
		assert.equal(item.resumed, true);
		assert.match(item.response, /It said: .*and released/);
		assert.equal((await bosun.get(`/queries?sessionId=${session}`)).total, 1);
	});

	it('a stopped execution cancels its query', async () => {
		const running = n8n.webhook('e2e-hold');
		await services.holding();
		const execution = await until('the execution', async () => (await n8n.executions('bosune2ehold0001')).find(({ status }) => status === 'running'));
		await n8n.rest('POST', `/executions/${execution.id}/stop`, {});
		const query = await until('the cancelled query', async () => (await bosun.get('/queries?state=cancelled')).items[0]);
		assert.equal(query.target.name, 'patient-assistant');
		services.release();
		await running;
	});

	it('two tools of one name are refused with the names of both nodes', async () => {
		const item = await run('e2e-clash');
		assert.match(item.error, /Two connected tools are called "(mcp_)?adder": one of "(adder|mcp)", one of "(mcp|mcp_adder)"/);
	});

	it('several items, each with calls of both kinds in one turn', async () => {
		const items = await run('e2e-items', { questions: ['Research and shout about tides', 'Research and shout about winds'] });
		assert.deepEqual(items.map(({ response }) => response), ['researcher: I know tides; shout: TIDES', 'researcher: I know winds; shout: WINDS']);
		assert.equal(new Set(items.map(({ queryName }) => queryName)).size, 2);
	});

	it('an answer is streamed to a trigger that streams', async () => {
		const { status, body } = await n8n.webhook('e2e-stream');
		assert.equal(status, 200);
		const chunks = body.trim().split('\n').map((line) => JSON.parse(line)).filter(({ metadata }) => metadata.nodeName === 'ARK Agent');
		assert.deepEqual([chunks[0].type, chunks.at(-1).type], ['begin', 'end']);
		const text = chunks.filter(({ type }) => type === 'item').map(({ content }) => content);
		assert.equal(text.join(''), '25% of 8,432 is 2108');
	});

	it('the first turn is streamed, too: text arrives while the query runs', async () => {
		const texts = [];
		for await (const { type, content, metadata } of n8n.stream('e2e-first-turn', { input: 'Speak slowly' })) {
			if (type !== 'item' || metadata.nodeName !== 'ARK Agent') continue;
			if (texts.length === 0) assert.equal((await bosun.get('/queries?state=running')).items[0]?.input, 'Speak slowly');
			texts.push(content);
		}
		assert(texts.length > 1, JSON.stringify(texts));
		assert.equal(texts.join(''), 'one two three four five six seven eight nine ten');
	});

	it('a server that has too many requests is asked again, and everything is done once', async () => {
		const item = await run('e2e-busy', { input: 'Calculate in n8n' });
		assert.equal(item.response, 'It is 2108');
		assert.deepEqual(history(item), ['calculator external ok']);
		assert.deepEqual(busy.refused, ['POST /v1/namespaces/default/queries', `POST /v1/namespaces/default/queries/${item.queryName}/tool-result`]);
	});
});

describe('a memory node of n8n', () => {
	it('is the conversation before the input, and gets the answer', async () => {
		const ask = async (input) => (await run('e2e-memory', { input, session: 'talk' })).queryName;
		const [first, second] = [await ask('Greet me'), await ask('Greet me again')];
		assert.equal((await bosun.get(`/queries/${first}?view=ark`)).input, 'Greet me');
		assert.deepEqual((await bosun.get(`/queries/${second}?view=ark`)).input, [
			{ role: 'user', content: 'Greet me' },
			{ role: 'assistant', content: 'Hello from ARK' },
			{ role: 'user', content: 'Greet me again' },
		]);
	});
});

describe('options', () => {
	const option = async (path, input) => await run(`e2e-${path}`, { input });

	it('Result Format: the response alone', async () => {
		assert.deepEqual(await option('format-response', 'Greet me'), { response: 'Hello from ARK' });
	});

	it('Result Format: the fields of the JSON that the agent wrote', async () => {
		assert.deepEqual(await option('format-json', 'Answer in JSON'), { answer: 42 });
	});

	it('Output Schema', async () => {
		assert.deepEqual((await option('schema', 'Answer in JSON')).output, { answer: 42 });
	});

	it('Wait for Answer off: the item names the query, which continues', async () => {
		const { queryName, status, response } = await option('no-wait', 'Take your time');
		assert.notEqual(status, 'completed');
		assert.equal(response, undefined);
		const ended = await until('the answer', async () => {
			const query = await bosun.get(`/queries/${queryName}?view=rfc&wait=5s`);
			return query.status === 'completed' && query;
		});
		assert.equal(ended.response, 'Here I am');
	});

	it('Timeout ends the query, and the workflow continues if the node says so', async () => {
		const { error } = await option('timeout', 'Take your time');
		assert.match(error, /^The query failed: the query ran longer than 1s/);
	});

	it('an agent that does not exist is the error of its item', async () => {
		assert.match((await option('missing-agent', 'Greet me')).error, /missing-agent/);
	});

	it('Tool Timeout: the agent reads that the tool was too slow', async () => {
		const item = await option('tool-timeout', 'Ask the slow tool');
		services.release();
		assert.match(item.response, /Tool execution timeout: "slow" took longer than 1 s/);
		assert.deepEqual(history(item), ['slow external failed']);
	});

	it('Cache Results: the same call of a query runs once', async () => {
		const counted = async (path) => (await option(path, 'Count twice')).response.match(/\d+/)[0];
		const before = Number(await counted('uncached'));
		assert.equal(Number(await counted('cached')), before + 1);
		assert.equal(Number(await counted('uncached')), before + 3);
	});

	it('Max Tool Calls: the call too many fails, and the agent still answers', async () => {
		const item = await option('max-calls', 'Count in one turn');
		assert.deepEqual(history(item).map((line) => line.split(' ').at(-1)), ['ok', 'failed']);
	});

	it('Model, Temperature, Max Tokens and Agent Parameters count for the query, and leave the agent as it is', async () => {
		const before = await bosun.get('/agents/ark-helper');
		const item = await option('dynamic', 'Greet {{.who}}');
		assert.equal(item.response, 'Hello Ada, from the other model');
		assert.deepEqual(await bosun.get('/agents/ark-helper'), before);
	});

	it('Session ID and Memory of the server: the second query continues the conversation', async () => {
		await option('session', 'Greet me');
		await option('session', 'Greet me again');
		const { messages } = await bosun.get('/conversations/one-session');
		assert.deepEqual(messages.map(({ message }) => message.content), ['Greet me', 'Hello from ARK', 'Greet me again', 'Hello from ARK']);
	});

	it('a connected tool that the agent has, too, is not used, and the output says so once', async () => {
		const item = await option('shadowed', 'Calculate 8432 / 4');
		assert.deepEqual(history(item), ['calculator internal ok']);
		assert.deepEqual(item.warnings, ['tool `calculator` of the client is not used: the agent has a tool of that name']);
	});

	it('a tool of the agent that a person must approve: the node waits for the decision', async () => {
		const running = option('approval', 'Calculate 6 * 7, with permission');
		const approval = await until('the approval', async () => (await bosun.get('/approvals')).items[0]);
		assert.equal(approval.name, 'calculator');
		await bosun.post(`/queries/${approval.query}/approval`, { decision: 'approved' });
		const item = await running;
		assert.equal(item.response, 'It is 42');
		assert.deepEqual(history(item), ['calculator internal ok']);
	});

	it('an AI Agent Tool of version 2.2 runs with a tool of its own', async () => {
		const item = await option('agent-tool-2', 'Ask the old researcher');
		assert.equal(item.response, 'It said: AHOY');
		assert.deepEqual(history(item), ['researcher external ok']);
	});

	it('a large result of a connected tool is streamed to the server', async () => {
		const item = await option('large-result', 'Read everything');
		assert.equal(item.response, 'I have read it');
		assert(item.toolExecutionHistory[0].largeResult?.size > 2_000_000, JSON.stringify(item));
	});

	it('a large result of a worker, too', async () => {
		const { name } = await bosun.post('/queries', { input: 'Read the archive', target: { type: 'agent', name: 'archivist' } });
		const ended = await until('the answer', async () => {
			const query = await bosun.get(`/queries/${name}?view=rfc`);
			return query.status === 'completed' && query;
		});
		assert.equal(ended.toolExecutionHistory[0].largeResult.size, 2_000_000);
	});
});

describe('a server with keys', () => {
	for (const path of ['bearer', 'key-pair']) {
		it(`answers a credential with a ${path}`, async () => {
			assert.equal((await run(`e2e-${path}`, { input: 'Greet me' })).response, 'Hello from ARK');
		});
	}

	it('refuses one without', async () => {
		assert.match((await run('e2e-no-key', { input: 'Greet me' })).error, /authorization/);
	});

	it('lists its agents, and tests the credential, with the key', async () => {
		const listed = await n8n.rest('POST', '/dynamic-node-parameters/options', {
			path: 'parameters.agent',
			methodName: 'getAgents',
			nodeTypeAndVersion: { name: 'n8n-nodes-bosun.arkAgentAdvanced', version: 1 },
			currentNodeParameters: {},
			credentials: { bosunArkApi: { id: 'bosunarkbearer01', name: 'ARK API' } },
		});
		assert(listed.data.some(({ value }) => value === 'ark-helper'), JSON.stringify(listed.data));
		const test = async (bearerToken) =>
			(await n8n.rest('POST', '/credentials/test', { credentials: { id: 'bosunarkbearer01', name: 'ARK API', type: 'bosunArkApi', data: { baseUrl: locked.server.url, namespace: '', authScheme: 'bearer', bearerToken } } })).data.status;
		assert.equal(await test(locked.secretKey), 'OK');
		assert.equal(await test('sk-ark-wrong'), 'Error');
	});
});

describe('9: a workflow that serves a tool', () => {
	it('answers an agent that `bosun query` asks', async () => {
		const { stdout } = await promisify(execFile)(process.env.BOSUN, ['query', '--agent', 'harbour-master', 'How is the weather in the harbour of Lisbon?'], { env: { ...process.env, BOSUN_SERVER: bosun.url }, timeout: 60_000 });
		assert.match(stdout, /It is sunny in Lisbon/);
	});

	it('answers two agents at once, also after a restart of Bosun', async () => {
		await bosun.kill();
		await bosun.start();
		const ask = async () => {
			const { name } = await bosun.post('/queries', { input: 'How is the weather in the harbour of Lisbon?', target: { type: 'agent', name: 'harbour-master' } });
			return await until('the answer', async () => {
				const { status } = await bosun.get(`/queries/${name}?wait=5s`);
				return status.phase === 'done' && status.response.content;
			});
		};
		assert.deepEqual(await Promise.all([ask(), ask()]), ['It is sunny in Lisbon', 'It is sunny in Lisbon']);
	});
});

describe('10: a person at a gate, after a restart of Bosun', () => {
	/** Follows the link of the mail as a browser would: n8n ignores what look like programs. */
	async function decide(approved) {
		const { body } = await n8n.webhook('e2e-gate');
		assert.deepEqual(body, { message: 'Workflow was started' });
		const text = await mail.next();
		await bosun.stop();
		await bosun.start();
		const link = text.match(/http:\/\/127[^"\s]*/g).find((url) => url.includes(`approved=${approved}`));
		assert(link, text);
		// The mail is sent before the execution is saved as waiting.
		await until('the waiting execution', async () => (await n8n.executions('bosune2egate0001'))[0].status === 'waiting');
		const answer = await fetch(link, { headers: { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36' } });
		assert.equal(answer.status, 200);
		const ended = await until('the end of the query', async () => (await bosun.get('/queries?limit=5')).items.find(({ target, status }) => target.name === 'gatekeeper' && status.phase === 'done' && !seen.has(status.response.content)));
		seen.add(ended.status.response.content);
		return ended.status.response.content;
	}
	const seen = new Set();

	it('approved: the tool runs', async () => {
		assert.match(await decide(true), /I learned: .*49 EUR a seat/);
	});

	it('rejected: it does not, and the agent knows', async () => {
		assert.match(await decide(false), /A person rejected the call of prices/);
	});
});

/** The values of an object and of the objects in it, by their paths. */
function flat(value, path = '') {
	if (typeof value !== 'object' || value === null) return { [path]: value };
	return Object.assign({}, ...Object.entries(value).map(([name, inner]) => flat(inner, `${path}/${name}`)));
}

describe('11: the existing ARK nodes', { skip: ARK_NODES ? false : 'ARK_NODES names no package' }, () => {
	for (const { node, parameters, target, expect } of CASES) {
		it(`${node} works`, async (test) => {
			const { targets } = await bosun.get('/capabilities');
			if (target !== undefined && !targets.includes(target)) return test.skip(`this server has no targets of type ${target}`);
			const item = await run(`ark-${node}`);
			const found = Array.isArray(item) ? item[0] : item;
			for (const [name, value] of Object.entries(flat(expect))) assert.equal(flat(found)[name], value, JSON.stringify({ found, parameters }));
		});
	}
});

describe('11: the sample of a quality gate', { skip: HAS_QUALITY_GATE ? false : 'ARK_NODES names no checkout with samples' }, () => {
	it('sends an answer that the evaluator finds good enough', async () => {
		const ticket = { issue: 'I cannot log in', customer_name: 'Ada', customer_email: 'ada@example.org', account_type: 'pro', priority: 'high' };
		const answer = await run('customer-support', ticket);
		assert.deepEqual(answer, { status: 'success', message: 'Response sent to customer', quality_score: '0.85' });
		const [{ to, body }] = services.tickets;
		assert.equal(to, 'ada@example.org');
		assert.match(body, /Please reset your password\./);
	});
});

describe('the docs', () => {
	for (const [page, answers] of [
		['n8n-tutorial.md', ['25% of 8,432 is 2108', '25 * 42 is 1050, and the capital of France is Paris.', 'It is sunny in Lisbon']],
		['testing-n8n-tools.md', ['true']],
	]) {
		it(`the commands of ${page} run as they are printed, and print the answers that it promises`, async () => {
			const text = readFileSync(join(REPOSITORY, 'docs', page), 'utf8');
			const blocks = [...text.matchAll(/^```sh( server)?\n(.*?)^```$/gms)].map(([, isServer, command]) => ({ isServer, command: command.trim() }));
			assert(blocks.length > 0);
			const shell = new ReaderShell(world.folder, bosun.url);
			let printed = '';
			for (const { isServer, command } of blocks) {
				if (isServer) await shell.startAndStop(command);
				else printed += await shell.run(command, { 'localhost:8080': new URL(bosun.url).host, 'localhost:5678': new URL(n8n.url).host, 'localhost:8091': `localhost:${services.port}` });
			}
			assert.deepEqual(answers.filter((answer) => !printed.includes(answer)), [], printed);
		});
	}

	it('the credential for the stand-in of a chat model passes the test of n8n', async () => {
		const data = { apiKey: 'none', url: `${world.models.url}/v1`, header: false };
		const tested = await n8n.rest('POST', '/credentials/test', { credentials: { id: 'openaistand00001', name: 'OpenAI', type: 'openAiApi', data } });
		assert.equal(tested.data.status, 'OK', tested.data.message);
	});

	it('every sample is in the tutorial', () => {
		const text = readFileSync(join(REPOSITORY, 'docs/n8n-tutorial.md'), 'utf8');
		const samples = readdirSync(join(REPOSITORY, 'examples/n8n')).filter((file) => /^[1-68].*json$|7-tool-kinds.json/.test(file));
		assert.deepEqual(samples.filter((file) => !text.includes(file)), []);
	});
});

describe('the editor', () => {
	let editor;

	before(async () => {
		editor = await openEditor(n8n);
	});

	after(async () => await editor?.close());

	it('draws the node with its Tools input and its tools', async () => {
		await editor.open('bosuncalculator1');
		const handles = await editor.handles('ARK Agent');
		assert.deepEqual(handles.inputs, ['ai_memory', 'ai_tool', 'main']);
		assert.deepEqual(handles.outputs, ['main']);
		assert(await editor.isConnected('Calculator', 'ARK Agent'));
		assert.match(await editor.textOf('ARK Agent'), /n8n · math-assistant/);
		await editor.screenshot('n8n-calculator');
	});

	it('shows the parameters, and the agents of the server', async () => {
		await editor.openNode('ARK Agent');
		const panel = await editor.panelText();
		for (const label of ['Agent Name or ID', 'Input', 'Tool Source', 'Session ID', 'Options']) assert(panel.includes(label), `there is no ${label} in ${panel}`);
		await editor.screenshot('n8n-agent-parameters');
		const { data } = await n8n.rest('POST', '/dynamic-node-parameters/options', {
			path: 'parameters.agent',
			methodName: 'getAgents',
			nodeTypeAndVersion: { name: 'n8n-nodes-bosun.arkAgentAdvanced', version: 1 },
			currentNodeParameters: {},
			credentials: { bosunArkApi: { id: 'bosunark00000001', name: 'ARK API' } },
		});
		assert(data.some(({ value }) => value === 'math-assistant'), JSON.stringify(data));
	});

	it('draws a hybrid workflow', async () => {
		await editor.open('bosunresearch001');
		assert(await editor.isConnected('http_request', 'ARK Agent'));
		await editor.screenshot('n8n-hybrid');
	});

	it('tests the credential by asking the server', async () => {
		const test = async (baseUrl) =>
			(await n8n.rest('POST', '/credentials/test', { credentials: { id: 'bosunark00000001', name: 'ARK API', type: 'bosunArkApi', data: { baseUrl, namespace: 'default', authScheme: 'none' } } })).data.status;
		assert.equal(await test(bosun.url), 'OK');
		assert.equal(await test(`${services.url}`), 'Error');
	});
});
