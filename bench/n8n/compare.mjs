// ARK Agent Advanced against n8n's own AI Agent, in the real n8n, with the same scripted model and the same tools.
//
// Measured at the model: from the end of its answer to the arrival of the next request. That is all that lies between two
// turns: the answer is read, the tool runs, its result is sent. Both are measured in one run, alternately.
import { createServer, request } from 'node:http';
import { once } from 'node:events';
import { join } from 'node:path';

import { Bosun, copyWith, freePort, N8n, startModelApi, workFolder } from '../../packages/n8n-nodes-bosun/e2e/lib.mjs';

const ROUNDS = Number(process.env.ROUNDS ?? 15);
const WARM_UP = 3;
const here = new URL('.', import.meta.url).pathname;

/** Passes everything on to the model API and notes when requests arrive and answers end. */
async function startTimingProxy(target) {
	let lastEnd;
	const gaps = [];
	const server = createServer((incoming, outgoing) => {
		if (lastEnd !== undefined) gaps.push(performance.now() - lastEnd);
		const forwarded = request(new URL(incoming.url, target), { method: incoming.method, headers: incoming.headers }, (answer) => {
			outgoing.writeHead(answer.statusCode, answer.headers);
			answer.pipe(outgoing);
			answer.on('end', () => (lastEnd = performance.now()));
		});
		incoming.pipe(forwarded);
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return {
		port: server.address().port,
		/** The gaps since the last time, without the one before the first request. */
		take() {
			lastEnd = undefined;
			return gaps.splice(0);
		},
		stop: () => server.close(),
	};
}

const quantile = (values, part) => values.slice().sort((a, b) => a - b)[Math.floor(values.length * part)];
const shown = (ms) => `${ms.toFixed(1)} ms`;

const folder = workFolder();
const models = await startModelApi({ folder, script: join(here, 'model.script.yaml') });
const proxy = await startTimingProxy(models.url);
const bosun = await Bosun.start({ folder, manifests: copyWith(join(here, 'agents'), join(folder, 'agents'), { 'localhost:8092': `127.0.0.1:${proxy.port}` }) });
const n8n = await N8n.start({
	folder,
	port: await freePort(),
	workflows: copyWith(join(here, 'workflows'), join(folder, 'workflows'), {}),
	credentials: [
		{ id: 'bosunark00000001', name: 'ARK API', type: 'bosunArkApi', data: { baseUrl: bosun.url, namespace: 'default', authScheme: 'none' } },
		{ id: 'openaistand00001', name: 'OpenAI (scripted)', type: 'openAiApi', data: { apiKey: 'none', url: `http://127.0.0.1:${proxy.port}/v1` } },
	],
});
await n8n.publish();

async function measure(path, input, gaps, times) {
	proxy.take();
	const started = performance.now();
	const { status, body } = await n8n.webhook(path, { input });
	if (status !== 200 || !['response', 'output'].some((field) => body[field] === 'done')) throw new Error(`${path} answered ${status}: ${JSON.stringify(body)}`);
	times.push(performance.now() - started);
	gaps.push(...proxy.take());
}

const subjects = ['speed-ark', 'speed-n8n'].map((path) => ({ path, gaps: [], slow: [] }));
for (let round = -WARM_UP; round < ROUNDS; round++) {
	for (const { path, gaps, slow } of subjects) {
		const isCounted = round >= 0;
		await measure(path, 'eight calls', isCounted ? gaps : [], []);
		await measure(path, 'three slow calls', [], isCounted ? slow : []);
	}
}
await n8n.stop();
await bosun.stop();
await models.stop();
proxy.stop();

const [ark, own] = subjects;
console.log(`n8n ${process.env.N8N_VERSION}, ${ark.gaps.length} calls each`);
for (const [name, { gaps, slow }] of [['ARK Agent Advanced', ark], ['AI Agent of n8n, version 3', own]]) {
	console.log(`${name}: between two turns min ${shown(Math.min(...gaps))}, p50 ${shown(quantile(gaps, 0.5))}, p95 ${shown(quantile(gaps, 0.95))}; three tools of 500 ms p50 ${shown(quantile(slow, 0.5))}`);
}
console.log(`ratio: between two turns ${(quantile(ark.gaps, 0.5) / quantile(own.gaps, 0.5)).toFixed(2)}, three tools ${(quantile(ark.slow, 0.5) / quantile(own.slow, 0.5)).toFixed(2)}`);
process.exit(0);
