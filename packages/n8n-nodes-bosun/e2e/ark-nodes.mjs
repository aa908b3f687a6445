// The existing ARK nodes, from the folder that ARK_NODES names: the package `n8n-nodes-ark`, built from a checkout. It is not
// part of this repository. Without it, `tests/it/nodes.rs` replays what they send.
import { randomUUID } from 'node:crypto';
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const ARK_NODES = process.env.ARK_NODES;

export const CREDENTIAL = { id: 'arknodes00000001', name: 'ARK', type: 'arkApi' };

/** Each node with its parameters, and what its item must have. */
export const CASES = [
	{ node: 'arkAgent', parameters: { agent: 'ark-helper', input: 'Greet me', wait: true }, expect: { response: 'Hello from ARK', status: 'done' } },
	{ node: 'arkAgentAdvanced', parameters: { configMode: 'static', agent: 'ark-helper', input: 'Greet me', wait: true, timeout: '30s' }, expect: { response: 'Hello from ARK', agentName: 'ark-helper' } },
	{ node: 'arkAgentTool', parameters: { configMode: 'static', agentName: 'ark-helper', namespace: 'default', timeout: '30s' }, expect: { response: 'Hello from ARK' } },
	{ node: 'arkTeam', target: 'team', parameters: { team: 'pair', input: 'Greet me', wait: true }, expect: { response: 'Hello from ARK' } },
	{ node: 'arkModel', parameters: { model: 'e2e', prompt: 'Greet me', temperature: 0.3 }, expect: { response: 'Hello from ARK', status: 'completed' } },
	// These three answer with assumptions of their own if the server tells them nothing, so other values are expected.
	{ node: 'arkModelSelector', parameters: { model: 'e2e' }, expect: { name: 'e2e', namespace: 'default', provider: 'scripted' } },
	{ node: 'arkMemory', parameters: { memory: 'e2e-notes' }, expect: { name: 'e2e-notes', namespace: 'default', type: 'buffer', maxMessages: 7 } },
	{ node: 'arkTool', parameters: { selectionMode: 'select', tool: 'calculator' }, expect: { name: 'calculator', type: 'builtin' } },
	{ node: 'arkEvaluation', parameters: { evaluationType: 'direct', evaluator: 'quality', input: 'Greet me', output: 'Hello', wait: true, timeout: 30, scope: ['relevance'], minScore: 0.8, temperature: 0.1, maxTokens: {} }, expect: { status: { phase: 'done', score: '0.9', passed: true } } },
];

/** Writes a workflow for each node into `folder`: a webhook, and the node. */
export function writeWorkflows(folder) {
	for (const [index, { node, parameters }] of CASES.entries()) {
		const type = `n8n-nodes-ark.${node}`;
		const credentials = { arkApi: { id: CREDENTIAL.id, name: CREDENTIAL.name } };
		const workflow = {
			id: `arknodes${String(index).padStart(8, '0')}`,
			name: `ARK nodes: ${node}`,
			nodes: [
				{ id: randomUUID(), name: 'Webhook', type: 'n8n-nodes-base.webhook', typeVersion: 2, position: [0, 0], parameters: { httpMethod: 'POST', path: `ark-${node}`, responseMode: 'lastNode', options: {} }, webhookId: randomUUID() },
				{ id: randomUUID(), name: 'Input', type: 'n8n-nodes-base.set', typeVersion: 3.4, position: [150, 0], parameters: { mode: 'raw', jsonOutput: '{"input": "Greet me"}', options: {} } },
				{ id: randomUUID(), name: 'ARK', type, typeVersion: 1, position: [300, 0], parameters, credentials },
			],
			connections: { Webhook: { main: [[{ node: 'Input', type: 'main', index: 0 }]] }, Input: { main: [[{ node: 'ARK', type: 'main', index: 0 }]] } },
			settings: { executionOrder: 'v1' },
			active: false,
		};
		writeFileSync(join(folder, `ark-${node}.json`), JSON.stringify(workflow));
	}
}

/** The samples of the checkout that ARK_NODES was built in. */
const SAMPLES = ARK_NODES && join(ARK_NODES, '../samples');

/** Whether the checkout has the sample of a quality gate: an agent answers, an evaluator judges, and the score decides. */
export const HAS_QUALITY_GATE = Boolean(ARK_NODES) && existsSync(join(SAMPLES, 'n8n-workflows/n8n-workflow.json'));

/** Writes that sample into `folder` as a user would fill it in: with credentials, an address, and without Slack. Its agent and evaluator are served as they are. */
export function writeQualityGate(folder, ticketsUrl, scenes) {
	const workflow = JSON.parse(readFileSync(join(SAMPLES, 'n8n-workflows/n8n-workflow.json'), 'utf8'));
	for (const node of workflow.nodes) {
		if (node.type.startsWith('CUSTOM.')) {
			node.type = node.type.replace('CUSTOM', 'n8n-nodes-ark');
			node.credentials = { arkApi: { id: CREDENTIAL.id, name: CREDENTIAL.name } };
		} else if (node.type === 'n8n-nodes-base.httpRequest') {
			Object.assign(node.parameters, { url: ticketsUrl, authentication: 'none' });
			delete node.credentials;
		} else if (node.type === 'n8n-nodes-base.slack') {
			Object.assign(node, { disabled: true });
			delete node.credentials;
		} else if (node.type === 'n8n-nodes-base.webhook') {
			node.webhookId = randomUUID();
		}
	}
	Object.assign(workflow, { id: 'arkqualitygate01', active: false });
	writeFileSync(join(folder, 'ark-quality-gate.json'), JSON.stringify(workflow));
	const templates = join(SAMPLES, 'ark-templates');
	for (const file of readdirSync(templates)) copyFileSync(join(templates, file), join(folder, 'agents', file));
	const script = join(folder, 'agents/model.script.yaml');
	writeFileSync(script, readFileSync(script, 'utf8').replace(/^otherwise:/m, `${scenes}$&`));
}
