// What the scenarios run against: the real n8n, a real Bosun, and stand-ins for what costs money or is on the web.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';

export const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), '..');
export const REPOSITORY = join(PACKAGE, '../..');

const env = (name) => {
	if (!process.env[name]) throw new Error(`${name} is not set: run this by make e2e-n8n`);
	return process.env[name];
};

export async function freePort() {
	const server = createServer().listen(0, '127.0.0.1');
	await once(server, 'listening');
	const { port } = server.address();
	server.close();
	await once(server, 'close');
	return port;
}

/** A folder that is gone after the run, unless E2E_KEEP is set. */
export function workFolder() {
	const folder = mkdtempSync(join(tmpdir(), 'bosun-e2e-'));
	process.on('exit', () => (process.env.E2E_KEEP ? console.error(`kept ${folder}`) : rmSync(folder, { recursive: true, force: true })));
	return folder;
}

/** Waits until `check` gives something, for what announces itself nowhere. */
export async function until(what, check, seconds = 60) {
	const end = Date.now() + seconds * 1000;
	for (;;) {
		const found = await check();
		if (found) return found;
		if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
		await sleep(50);
	}
}

/** A process that is ended with the run. */
export class Program {
	constructor(name, file, args, { folder, env: variables = {} }) {
		this.log = join(folder, `${name}.log`);
		const log = openSync(this.log, 'a');
		this.process = spawn(file, args, { stdio: ['ignore', log, log], env: { ...process.env, ...variables } });
		this.exited = once(this.process, 'exit');
		this.kill = () => this.process.kill('SIGKILL');
		process.on('exit', this.kill);
	}

	get text() {
		return readFileSync(this.log, 'utf8');
	}

	/** Waits for a line of the log. */
	async says(pattern, seconds) {
		return await until(`${pattern} in ${this.log}`, () => {
			if (this.process.exitCode !== null) throw new Error(`it has ended:\n${this.text}`);
			return pattern.exec(this.text);
		}, seconds);
	}

	async stop(signal = 'SIGTERM') {
		this.process.kill(signal);
		await this.exited;
		process.off('exit', this.kill);
	}
}

/** A server of agents on a port that stays the same over restarts. */
export class Bosun {
	static async start({ folder, manifests, args = [] }) {
		const bosun = new Bosun();
		Object.assign(bosun, { folder, manifests, args, port: await freePort() });
		bosun.url = `http://127.0.0.1:${bosun.port}`;
		await bosun.start();
		return bosun;
	}

	async start() {
		const args = ['serve', '--listen', `127.0.0.1:${this.port}`, '--data', join(this.folder, 'bosun-data'), '--manifests', this.manifests, ...this.args];
		this.program = new Program('bosun', env('BOSUN'), args, { folder: this.folder });
		await until('bosun', async () => await fetch(`${this.url}/ready`).then((answer) => answer.ok, () => false));
	}

	/** Without a chance to clean up: SIGKILL. */
	async kill() {
		await this.program.stop('SIGKILL');
	}

	async stop() {
		await this.program.stop();
	}

	async get(path) {
		return await (await fetch(`${this.url}/v1${path}`)).json();
	}

	async post(path, body) {
		const answer = await fetch(`${this.url}/v1${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		return await answer.json();
	}
}

/** A server that answers only those who have its key, and both halves of the key. */
export async function startLocked({ folder, manifests }) {
	const keys = join(folder, 'keys.toml');
	const key = JSON.parse(execFileSync(env('BOSUN'), ['keys', 'create', 'n8n', '--json', '--auth', keys], { encoding: 'utf8' }));
	const locked = join(folder, 'locked');
	mkdirSync(locked);
	return { server: await Bosun.start({ folder: locked, manifests, args: ['--auth', keys] }), publicKey: key.public_key, secretKey: key.secret_key };
}

/** OpenAI's API, played from a script. */
export async function startModelApi({ folder, script }) {
	const port = await freePort();
	const program = new Program('models', env('BOSUN'), ['models', 'serve', '--script', script, '--listen', `127.0.0.1:${port}`], { folder });
	await program.says(/^listening on/m);
	return { url: `http://127.0.0.1:${port}`, stop: async () => await program.stop() };
}

/** A headless n8n with this package as a community package. */
export class N8n {
	static async start({ folder, port, workflows, credentials, extraPackages = [] }) {
		const n8n = new N8n();
		const broker = await freePort();
		n8n.folder = folder;
		n8n.url = `http://127.0.0.1:${port}`;
		n8n.env = {
			N8N_USER_FOLDER: join(folder, 'n8n'),
			N8N_PORT: String(port),
			N8N_LISTEN_ADDRESS: '127.0.0.1',
			N8N_HOST: '127.0.0.1',
			WEBHOOK_URL: `${n8n.url}/`,
			N8N_RUNNERS_BROKER_LISTEN_ADDRESS: '127.0.0.1',
			N8N_RUNNERS_BROKER_PORT: String(broker),
			N8N_SECURE_COOKIE: 'false',
			N8N_DIAGNOSTICS_ENABLED: 'false',
			N8N_VERSION_NOTIFICATIONS_ENABLED: 'false',
			N8N_TEMPLATES_ENABLED: 'false',
			N8N_PERSONALIZATION_ENABLED: 'false',
			N8N_HIRING_BANNER_ENABLED: 'false',
			N8N_DYNAMIC_BANNERS_ENABLED: 'false',
			N8N_VERIFIED_PACKAGES_ENABLED: 'false',
			EXTERNAL_FRONTEND_HOOKS_URLS: '',
			// Tests call services on loopback.
			N8N_SSRF_PROTECTION_ENABLED: 'false',
			NODE_OPTIONS: '--max-old-space-size=2048',
		};
		for (const source of [PACKAGE, ...extraPackages]) installPackage(source, join(folder, 'n8n/.n8n/nodes'));
		n8n.workflows = readdirSync(workflows).filter((file) => file.endsWith('.json')).map((file) => JSON.parse(readFileSync(join(workflows, file), 'utf8')));
		await n8n.run('import:credentials', [`--input=${writeJson(folder, 'credentials.json', credentials)}`]);
		await n8n.run('import:workflow', ['--separate', `--input=${workflows}`]);
		await n8n.start();
		await n8n.logIn();
		return n8n;
	}

	/** A command of n8n's own command line. */
	async run(command, args) {
		const program = new Program('n8n-cli', env('NODE'), [env('N8N'), command, ...args], { folder: this.folder, env: this.env });
		const [code] = await program.exited;
		if (code !== 0) throw new Error(`n8n ${command} ended with ${code}:\n${program.text}`);
	}

	async start() {
		// A log of its own: what an earlier process has logged is not counted for this one.
		this.starts = (this.starts ?? 0) + 1;
		this.program = new Program(`n8n-${this.starts}`, env('NODE'), [env('N8N'), 'start'], { folder: this.folder, env: this.env });
		await this.program.says(/Editor is now accessible/, 600);
	}

	/** Without a chance to clean up: SIGKILL. */
	async kill() {
		await this.program.stop('SIGKILL');
	}

	async stop() {
		await this.program.stop();
	}

	async logIn() {
		const owner = { email: 'owner@example.com', firstName: 'Test', lastName: 'Owner', password: 'Passw0rd-of-a-test' };
		this.owner = owner;
		await this.rest('POST', '/owner/setup', owner);
		const login = await this.rest('POST', '/login', { emailOrLdapLoginId: owner.email, password: owner.password });
		this.cookie = login.cookie;
	}

	async rest(method, path, body) {
		const answer = await fetch(`${this.url}/rest${path}`, {
			method,
			headers: { 'content-type': 'application/json', 'browser-id': 'e2e', ...(this.cookie ? { cookie: this.cookie } : {}) },
			body: body && JSON.stringify(body),
		});
		const text = await answer.text();
		if (!answer.ok) throw new Error(`${method} /rest${path} answered ${answer.status}: ${text}`);
		return { data: JSON.parse(text).data, cookie: answer.headers.get('set-cookie')?.split(';')[0] };
	}

	/** Makes the webhooks of all workflows callable. */
	async publish() {
		for (const { id, name } of this.workflows) {
			const { data } = await this.rest('GET', `/workflows/${id}`);
			if (!data.nodes.some((node) => /[tT]rigger$|webhook$|arkToolWorker$/.test(node.type) && !node.type.endsWith('manualTrigger'))) continue;
			await this.rest('POST', `/workflows/${id}/activate`, { versionId: data.versionId }).catch((error) => {
				throw new Error(`"${name}" cannot be published: ${error.message}`);
			});
		}
	}

	/** Runs a workflow by its webhook. */
	async webhook(path, body = {}) {
		const answer = await this.callWebhook(path, body);
		return { status: answer.status, body: parsed(await answer.text()) };
	}

	/** Runs a workflow whose webhook streams its response, and yields the chunks as they arrive. */
	async *stream(path, body = {}) {
		const answer = await this.callWebhook(path, body);
		for await (const line of createInterface({ input: Readable.fromWeb(answer.body) })) if (line !== '') yield JSON.parse(line);
	}

	async callWebhook(path, body) {
		const send = () => fetch(`${this.url}/webhook/${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
		// n8n answers that a workflow is published before its webhook exists.
		return await until(`webhook ${path}`, async () => {
			const sent = await send();
			return sent.status === 404 && /not registered/.test(await sent.clone().text()) ? undefined : sent;
		}, 5);
	}

	async executions(workflowId) {
		const filter = encodeURIComponent(JSON.stringify({ workflowId }));
		return (await this.rest('GET', `/executions?filter=${filter}`)).data.results;
	}
}

/** As the tutorial installs it. */
function installPackage(source, folder) {
	mkdirSync(folder, { recursive: true });
	execFileSync('npm', ['install', '--prefix', folder, '--install-links', '--legacy-peer-deps', '--no-audit', '--no-fund', '--silent', source], { stdio: 'inherit' });
}

/** A copy of a folder with texts replaced: examples name the ports that they use by default. */
export function copyWith(source, target, replacements) {
	cpSync(source, target, { recursive: true });
	for (const file of readdirSync(target, { recursive: true }).map((name) => join(target, name)).filter((name) => statSync(name).isFile())) {
		let text = readFileSync(file, 'utf8');
		for (const [from, to] of Object.entries(replacements)) text = text.replaceAll(from, to);
		writeFileSync(file, text);
	}
	return target;
}

function writeJson(folder, name, value) {
	const file = join(folder, name);
	writeFileSync(file, JSON.stringify(value));
	return file;
}

function parsed(text) {
	try {
		return JSON.parse(text);
	} catch {
		return text;
	}
}
