// Everything that the sample workflows need, started and stopped together.
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { ARK_NODES, CREDENTIAL, HAS_QUALITY_GATE, writeQualityGate, writeWorkflows } from './ark-nodes.mjs';
import { startBusyProxy } from './busy.mjs';
import { Bosun, copyWith, freePort, N8n, PACKAGE, REPOSITORY, startLocked, startModelApi, workFolder } from './lib.mjs';
import { startMailServer } from './mail.mjs';
import { writeOptionWorkflows } from './options.mjs';
import { startServices } from './services.mjs';

/** 2.8.4 does not put the name of the node before those of an MCP server's tools. */
const isOld = process.env.N8N_VERSION === '2.8.4';

export async function startEverything() {
	const folder = workFolder();
	const services = await startServices();
	const mail = await startMailServer();
	const port = await freePort();
	const addresses = { 'localhost:8091': `localhost:${services.port}`, 'localhost:5678': `127.0.0.1:${port}`, ...(isOld ? { mcp_adder: 'adder' } : {}) };
	const samples = copyWith(join(REPOSITORY, 'examples/n8n'), join(folder, 'samples'), addresses);
	writeOptionWorkflows(samples);
	copyWith(join(PACKAGE, 'e2e/workflows'), samples, addresses);
	copyWith(join(PACKAGE, 'e2e/agents'), join(samples, 'agents'), addresses);
	// The scenes of the scenarios follow those of the samples.
	appendFileSync(join(samples, 'models.script.yaml'), readFileSync(join(PACKAGE, 'e2e/models.script.yaml')));

	if (ARK_NODES) writeWorkflows(samples);
	if (HAS_QUALITY_GATE) writeQualityGate(samples, `${services.url}/tickets`, readFileSync(join(PACKAGE, 'e2e/quality-gate.script.yaml'), 'utf8'));

	const models = await startModelApi({ folder, script: join(samples, 'models.script.yaml') });
	const bosun = await Bosun.start({ folder, manifests: join(samples, 'agents') });
	const busy = await startBusyProxy(bosun.url);
	const locked = await startLocked({ folder, manifests: join(samples, 'agents') });
	const lockedCredential = (id, authentication) => ({ id, name: 'ARK API', type: 'bosunArkApi', data: { baseUrl: locked.server.url, namespace: '', ...authentication } });
	const n8n = await N8n.start({
		folder,
		port,
		workflows: samples,
		extraPackages: ARK_NODES ? [ARK_NODES] : [],
		credentials: [
			{ id: 'bosunark00000001', name: 'ARK API', type: 'bosunArkApi', data: { baseUrl: bosun.url, namespace: 'default', authScheme: 'none' } },
			{ id: 'bosunarkbusy0001', name: 'ARK API', type: 'bosunArkApi', data: { baseUrl: busy.url, namespace: 'default', authScheme: 'none' } },
			lockedCredential('bosunarkbearer01', { authScheme: 'bearer', bearerToken: locked.secretKey }),
			lockedCredential('bosunarkkeypair1', { authScheme: 'basic', apiKey: `${locked.publicKey}:${locked.secretKey}` }),
			lockedCredential('bosunarknokey001', { authScheme: 'none' }),
			...(ARK_NODES ? [{ ...CREDENTIAL, data: { baseUrl: bosun.url, namespace: 'default', authScheme: 'none' } }] : []),
			{ id: 'openaistand00001', name: 'OpenAI (scripted)', type: 'openAiApi', data: { apiKey: 'none', url: `${models.url}/v1` } },
			{ id: 'smtpstandin00001', name: 'SMTP', type: 'smtp', data: { user: 'u', password: 'p', host: '127.0.0.1', port: mail.port, secure: false, disableStartTls: true } },
			{ id: 'searxngstand0001', name: 'SearXNG', type: 'searXngApi', data: { apiUrl: services.url } },
		],
	});
	await n8n.publish();
	return {
		...{ folder, bosun, busy, n8n, models, services, mail, locked },
		async stop() {
			await n8n.stop();
			await bosun.stop();
			busy.stop();
			await locked.server.stop();
			await models.stop();
			services.stop();
			mail.stop();
		},
	};
}
