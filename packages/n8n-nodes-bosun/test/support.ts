/* eslint-disable @n8n/community-nodes/no-restricted-imports -- tests serve HTTP; nothing of this is published */
/** A server that answers as a test says, over real HTTP, and what n8n gives a node while it runs. */
import { createServer } from 'node:http';
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { IDataObject, IExecuteFunctions, IHttpRequestOptions } from 'n8n-workflow';
import { vi } from 'vitest';

import { BosunArkApi } from '../credentials/BosunArkApi.credentials';
import type { LangChainTool } from '../src/tools/types';

export interface Received {
	method: string;
	path: string;
	query: Record<string, string>;
	headers: IncomingMessage['headers'];
	body: any; // eslint-disable-line @typescript-eslint/no-explicit-any -- tests look into bodies of every shape
}

/** `drop` closes the connection without an answer. */
export interface Answer {
	status?: number;
	headers?: Record<string, string>;
	body?: unknown;
	drop?: boolean;
}

export class FakeArk {
	readonly received: Received[] = [];

	private constructor(
		private readonly server: Server,
		readonly url: string,
	) {}

	static async start(answer: (request: Received, number: number) => Answer | Promise<Answer>): Promise<FakeArk> {
		const server = createServer(async (request, response) => {
			const url = new URL(request.url!, 'http://localhost');
			const chunks: Buffer[] = [];
			for await (const chunk of request) chunks.push(chunk as Buffer);
			const text = Buffer.concat(chunks).toString();
			const isJson = request.headers['content-type']?.startsWith('application/json') && text !== '';
			const received = { method: request.method!, path: url.pathname, query: Object.fromEntries(url.searchParams), headers: request.headers, body: isJson ? JSON.parse(text) : text };
			ark.received.push(received);
			const { status = 200, headers = {}, body, drop } = await answer(received, ark.received.length);
			if (drop) return response.destroy();
			response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(typeof body === 'string' ? body : JSON.stringify(body));
		});
		await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
		const ark = new FakeArk(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
		return ark;
	}

	stop(): void {
		this.server.closeAllConnections();
		this.server.close();
	}
}

export interface ContextOptions {
	url: string;
	credential?: IDataObject;
	parameters?: IDataObject;
	/** What sub-nodes supply, in the order of their connections. */
	tools?: Array<{ supply: unknown; node: string; type?: string; typeVersion?: number; disabled?: boolean }>;
	/** What the connected memory node supplies. */
	memory?: unknown;
	items?: number;
	continueOnFail?: boolean;
	signal?: AbortSignal;
	type?: string;
	streaming?: boolean;
}

export const tool = (name: string, invoke: LangChainTool['invoke'], rest: Partial<LangChainTool> = {}): LangChainTool => ({ name, description: `the ${name}`, schema: { type: 'object', properties: { input: { type: 'string' } } }, invoke, ...rest });

export function context(options: ContextOptions): IExecuteFunctions {
	const credential = { baseUrl: options.url, namespace: 'default', authScheme: 'none', ...options.credential };
	const parameters: IDataObject = { agent: 'helper', input: 'Help me', toolSource: 'hybrid', sessionId: '', options: {}, ...options.parameters };
	// n8n supplies both lists in the reverse order of the connections.
	const connected = [...(options.tools ?? [])].reverse();
	const send = async (request: IHttpRequestOptions) => {
		const url = new URL(request.url);
		for (const [name, value] of Object.entries(request.qs ?? {})) url.searchParams.set(name, String(value));
		const isRaw = request.body instanceof Buffer;
		const answer = await fetch(url, {
			method: request.method,
			headers: { ...(request.body && !isRaw ? { 'content-type': 'application/json' } : {}), ...(request.headers as Record<string, string>) },
			body: isRaw ? new Uint8Array(request.body as Buffer) : request.body ? JSON.stringify(request.body) : undefined,
			signal: request.abortSignal as AbortSignal | undefined,
		});
		const body = request.encoding === 'stream' ? answer.body : await answer.text().then((text) => (text.startsWith('{') ? JSON.parse(text) : text));
		return { statusCode: answer.status, headers: Object.fromEntries(answer.headers), body };
	};
	const node = { id: 'node-1', name: 'ARK Agent', type: options.type ?? 'n8n-nodes-bosun.arkAgentAdvanced', typeVersion: 1, position: [0, 0], parameters: {} };
	return {
		getCredentials: async () => credential,
		getNodeParameter: (name: string, _: number, fallback: unknown) => parameters[name] ?? fallback,
		getNode: () => node,
		getInputData: () => Array.from({ length: options.items ?? 1 }, () => ({ json: {} })),
		getInputConnectionData: async (type: string) => (type === 'ai_memory' ? options.memory : connected.filter((entry) => !entry.disabled).map((entry) => entry.supply)),
		getParentNodes: () => connected.map(({ node: name, type = 'some.tool', typeVersion = 1, disabled = false }) => ({ name, type, typeVersion, disabled })),
		getExecutionCancelSignal: () => options.signal,
		getExecutionId: () => '7',
		getInstanceId: () => 'instance',
		getWorkflow: () => ({ id: 'workflow', name: 'My workflow', active: true }),
		evaluateExpression: () => 0,
		continueOnFail: () => options.continueOnFail ?? false,
		addExecutionHints: vi.fn(),
		isStreaming: () => options.streaming ?? false,
		sendChunk: vi.fn(),
		logger: { warn: vi.fn() },
		helpers: {
			httpRequest: send,
			async httpRequestWithAuthentication(_: string, request: IHttpRequestOptions) {
				const authenticate = new BosunArkApi().authenticate as (credential: unknown, request: IHttpRequestOptions) => Promise<IHttpRequestOptions>;
				return await send(await authenticate(credential, request));
			},
		},
	} as unknown as IExecuteFunctions;
}
