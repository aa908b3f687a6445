/**
 * Requests to the server, with the credential on every one of them.
 *
 * A request is repeated while the server cannot be reached: every one that is sent here is idempotent, since queries
 * are created under a name of our own and a result counts once. What the server refuses is not repeated.
 */
import type { IDataObject, IExecuteFunctions, IHttpRequestMethods, IHttpRequestOptions, ILoadOptionsFunctions, IN8nHttpFullResponse, ITriggerFunctions } from 'n8n-workflow';

import { pause as wait } from '../time';
import { ArkError, refusal } from './error';

export const CREDENTIAL = 'bosunArkApi';

/** How long an unreachable server is tried: enough for a restart. */
const RETRY_FOR_MS = 60_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 3_000;
/** Too many requests at this time, and what a proxy answers for a server that is down. */
const RETRIED = [429, 502, 503, 504];
/** Longer than the longest `wait` of the server, which is a minute. */
const REQUEST_TIMEOUT_MS = 90_000;

export interface ArkCredential {
	baseUrl: string;
	namespace?: string;
	authScheme?: 'none' | 'bearer' | 'basic';
	bearerToken?: string;
	apiKey?: string;
}

export interface ArkRequest {
	query?: IDataObject;
	body?: unknown;
	headers?: IDataObject;
	/** Ends the request; the execution's own signal ends it as well. */
	signal?: AbortSignal;
}

export interface ArkAnswer<T> {
	body: T;
	/** Whether the server had already done what was asked, and answered with that. */
	replayed: boolean;
	/** When the server sent it, by the server's clock, which need not agree with ours; `NaN` if a proxy has left it out. */
	sentAt: number;
}

type Context = IExecuteFunctions | ILoadOptionsFunctions | ITriggerFunctions;

export class ArkClient {
	private constructor(
		private readonly context: Context,
		private readonly credential: ArkCredential,
		private readonly signal: AbortSignal | undefined,
	) {}

	static async open(context: Context, signal?: AbortSignal): Promise<ArkClient> {
		return new ArkClient(context, await context.getCredentials<ArkCredential & IDataObject>(CREDENTIAL), signal);
	}

	/** The path of something in the credential's namespace. */
	path(rest: string): string {
		const namespace = this.credential.namespace?.trim();
		return namespace ? `/v1/namespaces/${encodeURIComponent(namespace)}${rest}` : `/v1${rest}`;
	}

	async get<T>(path: string, request: ArkRequest = {}): Promise<ArkAnswer<T>> {
		return await this.send<T>('GET', path, request);
	}

	async post<T>(path: string, request: ArkRequest = {}): Promise<ArkAnswer<T>> {
		return await this.send<T>('POST', path, request);
	}

	async put<T>(path: string, request: ArkRequest = {}): Promise<ArkAnswer<T>> {
		return await this.send<T>('PUT', path, request);
	}

	/** An answer that is read as it arrives. */
	async stream(method: IHttpRequestMethods, path: string, request: ArkRequest = {}): Promise<AsyncIterable<Uint8Array>> {
		const answer = await this.sendUntilAnswered({
			...this.options(method, path, request),
			headers: { ...request.headers, accept: 'text/event-stream' },
			encoding: 'stream',
			// A stream is open as long as its query runs; the server sends a heartbeat when nothing else happens.
			timeout: 0,
		});
		const body = answer.body as unknown as AsyncIterable<Uint8Array>;
		if (answer.statusCode < 300) return body;
		throw refusal(answer.statusCode, parsed(await text(body)));
	}

	/**
	 * Sends a request that the end of the execution does not end.
	 *
	 * `httpRequestWithAuthentication` attaches the execution's cancel signal to each request, so a cancellation that is
	 * sent when the execution is stopped would itself be cancelled at once.
	 */
	async postAfterStop(path: string): Promise<void> {
		const options = { ...this.options('POST', path, {}), headers: authorization(this.credential), timeout: 10_000 };
		const answer = (await this.context.helpers.httpRequest(options)) as IN8nHttpFullResponse;
		if (answer.statusCode >= 300) throw refusal(answer.statusCode, answer.body);
	}

	private async send<T>(method: IHttpRequestMethods, path: string, request: ArkRequest): Promise<ArkAnswer<T>> {
		const answer = await this.sendUntilAnswered(this.options(method, path, request));
		if (answer.statusCode >= 300) throw refusal(answer.statusCode, answer.body);
		return { body: answer.body as T, replayed: answer.headers['idempotent-replayed'] === 'true', sentAt: Date.parse(String(answer.headers.date)) };
	}

	private options(method: IHttpRequestMethods, path: string, { query, body, headers, signal }: ArkRequest): IHttpRequestOptions {
		return {
			method,
			url: `${this.credential.baseUrl.replace(/\/+$/, '')}${path}`,
			qs: query,
			body: body as IHttpRequestOptions['body'],
			headers,
			json: headers === undefined,
			abortSignal: signal,
			timeout: REQUEST_TIMEOUT_MS,
			returnFullResponse: true,
			ignoreHttpStatusErrors: true,
		};
	}

	/** Backs off exponentially while there is no answer, or one that asks to come again. */
	private async sendUntilAnswered(options: IHttpRequestOptions): Promise<IN8nHttpFullResponse> {
		const until = Date.now() + RETRY_FOR_MS;
		for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
			let fault: Error;
			try {
				const answer = (await this.context.helpers.httpRequestWithAuthentication.call(this.context, CREDENTIAL, options)) as IN8nHttpFullResponse;
				if (!RETRIED.includes(answer.statusCode) || Date.now() + pause > until) return answer;
				fault = refusal(answer.statusCode, answer.body);
			} catch (error) {
				fault = error as Error;
			}
			if (this.signal?.aborted || options.abortSignal?.aborted) throw fault;
			if (Date.now() + pause > until) throw unreachable(this.credential.baseUrl, fault);
			await wait(pause, this.signal);
		}
	}
}

function unreachable(baseUrl: string, cause: Error): ArkError {
	// The address may hold a key.
	const shown = baseUrl.replace(/\/\/[^/@]*@/, '//');
	return new ArkError(0, 'server_unreachable', `${shown} did not answer for a minute: ${cause.message}. Is the server running, and can n8n reach it at this address?`);
}

/** The header of a credential. */
export function authorization({ authScheme, bearerToken, apiKey }: ArkCredential): Record<string, string> {
	if (authScheme === 'bearer' && bearerToken) return { authorization: `Bearer ${bearerToken}` };
	if (authScheme === 'basic' && apiKey) return { authorization: `Basic ${Buffer.from(apiKey).toString('base64')}` };
	return {};
}

async function text(stream: AsyncIterable<Uint8Array>): Promise<string> {
	const chunks: Buffer[] = [];
	for await (const chunk of stream) chunks.push(Buffer.from(chunk));
	return Buffer.concat(chunks).toString('utf8');
}

function parsed(body: string): unknown {
	try {
		return JSON.parse(body);
	} catch {
		return undefined;
	}
}
