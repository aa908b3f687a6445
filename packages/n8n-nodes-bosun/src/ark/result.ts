/** One result of a tool on its way to the server: how long an error may be, and what has a request of its own. */
import type { IDataObject } from 'n8n-workflow';

import type { Outcome } from '../tools/outcome';
import type { ArkAnswer, ArkClient } from './client';
import { ArkError } from './error';
import type { ArkQuery } from './wire';

/** From here on a result has a request of its own, which the server streams to its disk. */
const LARGE_BYTES = 256 * 1024;

/** Characters of an error: the agent needs the beginning, and the server accepts no error by upload. */
const LONGEST_ERROR = 64 * 1024;

/** The same outcome, with an error that fits into a request. */
export function clipped<T extends Outcome>(outcome: T): T {
	if (outcome.success || outcome.error.length <= LONGEST_ERROR) return outcome;
	return { ...outcome, error: `${outcome.error.slice(0, LONGEST_ERROR)}… (${outcome.error.length - LONGEST_ERROR} characters left out)` };
}

/** The bytes that an outcome has in a request. */
export function sizeOf(outcome: Outcome): number {
	return Buffer.byteLength(JSON.stringify(outcome));
}

/** Whether a result is too large to be sent together with others. */
export function isLarge<T extends Outcome>(outcome: T): outcome is T & { success: true } {
	return outcome.success && sizeOf(outcome) > LARGE_BYTES;
}

/** Sends one result as the body of a request: text as text, everything else as JSON. */
export async function upload(client: ArkClient, queryName: string, callId: string, result: unknown, query: IDataObject): Promise<ArkAnswer<ArkQuery>> {
	const isText = typeof result === 'string';
	return await client.put<ArkQuery>(client.path(`/queries/${queryName}/tool-calls/${callId}/result`), {
		query,
		headers: { 'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json' },
		body: Buffer.from(isText ? result : JSON.stringify(result)),
	});
}

/** The failure that the agent reads in place of a result that the server refused for its size; other refusals are thrown. */
export function tooLarge(refused: unknown): Outcome {
	if (!(refused instanceof ArkError) || refused.status !== 413) throw refused;
	return { success: false, error: `The result of the tool is too large: ${refused.message}` };
}
