// A workflow for each option of the nodes, written by a table: a webhook, the node with its parameters, and tools.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const OPEN = { id: 'bosunark00000001', name: 'ARK API' };

const httpTool = (name, url) => ({ name, type: 'n8n-nodes-base.httpRequestTool', typeVersion: 4.2, parameters: { toolDescription: `Reads ${name}`, url, options: {} } });
const calculator = { name: 'calculator', type: '@n8n/n8n-nodes-langchain.toolCalculator', typeVersion: 1, parameters: {} };
const model = { name: 'model', type: '@n8n/n8n-nodes-langchain.lmChatOpenAi', typeVersion: 1.2, parameters: { model: { __rl: true, mode: 'id', value: 'scripted' }, options: {} }, credentials: { openAiApi: { id: 'openaistand00001', name: 'OpenAI (scripted)' } } };
/** An agent of n8n with a tool of its own, of the version that runs its tools by itself. */
const agentTool = {
	...{ name: 'researcher', type: '@n8n/n8n-nodes-langchain.agentTool', typeVersion: 2.2 },
	parameters: { toolDescription: 'Researches a topic', text: "={{ $fromAI('task', 'What to do', 'string') }}", options: {} },
	subNodes: [
		{ ...model, connection: 'ai_languageModel' },
		{ name: 'louder', type: '@n8n/n8n-nodes-langchain.toolCode', typeVersion: 1.3, parameters: { description: 'Says it louder', language: 'javaScript', jsCode: 'return query.toUpperCase();' } },
	],
};

/** `path` is that of the webhook. The input comes with the request. */
const WORKFLOWS = [
	{ path: 'format-response', options: { resultFormat: 'response' } },
	{ path: 'format-json', options: { resultFormat: 'json' } },
	{ path: 'schema', options: { outputSchema: '{"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}' } },
	{ path: 'no-wait', options: { waitForAnswer: false } },
	{ path: 'timeout', options: { timeout: 1 }, node: { onError: 'continueRegularOutput' } },
	{ path: 'missing-agent', parameters: { agent: 'missing-agent' }, node: { onError: 'continueRegularOutput' } },
	{ path: 'tool-timeout', options: { toolTimeout: 1 }, tools: [httpTool('slow', 'http://localhost:8091/hold')] },
	{ path: 'cached', options: { cacheSeconds: 60 }, tools: [httpTool('counter', 'http://localhost:8091/count')] },
	{ path: 'uncached', tools: [httpTool('counter', 'http://localhost:8091/count')] },
	{ path: 'max-calls', options: { maxToolCalls: 1 }, tools: [httpTool('counter', 'http://localhost:8091/count')] },
	{ path: 'dynamic', options: { model: 'e2e-other', temperature: 0.2, maxTokens: 77, parameters: { parameter: [{ name: 'who', value: 'Ada' }] } } },
	{ path: 'session', parameters: { sessionId: 'one-session' }, options: { memory: 'default' } },
	{ path: 'shadowed', parameters: { agent: 'calculating-agent' }, tools: [calculator] },
	{ path: 'approval', parameters: { agent: 'careful-assistant' } },
	{ path: 'agent-tool-2', tools: [agentTool] },
	{ path: 'large-result', tools: [httpTool('large', 'http://localhost:8091/large')] },
	{ path: 'bearer', credential: 'bosunarkbearer01' },
	{ path: 'key-pair', credential: 'bosunarkkeypair1' },
	{ path: 'no-key', credential: 'bosunarknokey001', node: { onError: 'continueRegularOutput' } },
	{ path: 'busy', credential: 'bosunarkbusy0001', tools: [calculator] },
	{ path: 'first-turn', responseMode: 'streaming' },
];

/** Writes the workflows into `folder`. Their webhooks are `e2e-<path>`. */
export function writeOptionWorkflows(folder) {
	for (const workflow of [...WORKFLOWS.map(built), largeWorker()]) writeFileSync(join(folder, `option-${workflow.id}.json`), JSON.stringify(workflow));
}

/** A workflow that serves a tool with a result that is too large for a post. */
function largeWorker() {
	const nodes = [
		{ id: uuid('worker'), name: 'ARK Tool Worker', type: 'n8n-nodes-bosun.arkToolWorker', typeVersion: 1, position: [0, 0], parameters: { tools: ['archive'] }, credentials: { bosunArkApi: OPEN } },
		{ id: uuid('archive'), name: 'Archive', type: 'n8n-nodes-base.set', typeVersion: 3.4, position: [200, 0], parameters: { assignments: { assignments: [{ id: uuid('response'), name: 'response', type: 'string', value: "={{ 'x'.repeat(2000000) }}" }] }, options: {} } },
	];
	const connections = { 'ARK Tool Worker': { main: [[{ node: 'Archive', type: 'main', index: 0 }]] } };
	return { id: hash('worker').slice(0, 16), name: 'E2E: a worker with a large result', nodes, connections, settings: { executionOrder: 'v1' }, active: false };
}

function built({ path, parameters = {}, options = {}, tools = [], node = {}, credential = OPEN.id, responseMode = 'lastNode' }) {
	const nodes = [];
	const connections = {};
	const add = ({ subNodes = [], connection, ...rest }, target, type) => {
		nodes.push({ id: uuid(`${path} ${rest.name}`), position: [150 * nodes.length, 0], ...rest });
		if (target) connections[rest.name] = { [type]: [[{ node: target, type, index: 0 }]] };
		for (const subNode of subNodes) add(subNode, rest.name, subNode.connection ?? 'ai_tool');
	};
	add({ name: 'Webhook', type: 'n8n-nodes-base.webhook', typeVersion: 2.1, parameters: { httpMethod: 'POST', path: `e2e-${path}`, responseMode, options: {} }, webhookId: uuid(path) }, 'ARK Agent', 'main');
	add({
		...{ name: 'ARK Agent', type: 'n8n-nodes-bosun.arkAgentAdvanced', typeVersion: 1, ...node },
		parameters: { agent: 'ark-helper', input: '={{ $json.body.input }}', toolSource: 'hybrid', sessionId: '', ...parameters, options },
		credentials: { bosunArkApi: { id: credential, name: 'ARK API' } },
	});
	for (const tool of tools) add(tool, 'ARK Agent', 'ai_tool');
	return { id: hash(`option ${path}`).slice(0, 16), name: `E2E option: ${path}`, nodes, connections, settings: { executionOrder: 'v1' }, active: false };
}

const hash = (text) => createHash('sha256').update(text).digest('hex');
const uuid = (text) => hash(text).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5');
