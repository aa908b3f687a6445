/** Delivers the results of a turn: one request for all of them, and one more for each that is too large for it. */
import type { ArkClient } from '../ark/client';
import type { ArkQuery, ArkToolResult } from '../ark/wire';

/** A post has at most 1 MiB and 128 results; this leaves room for what surrounds the results. */
const BATCH_BYTES = 900 * 1024;
const BATCH_RESULTS = 128;
/** From here on a result has a request of its own, which the server streams to its disk. */
const LARGE_BYTES = 256 * 1024;

/** Characters of an error: the agent needs the beginning, and the server accepts no error by upload. */
const LONGEST_ERROR = 64 * 1024;

/** Returns the query as it is after the last result, which waits `waitSeconds` for the agent's next action. */
export async function deliver(client: ArkClient, queryName: string, given: ArkToolResult[], waitSeconds: number): Promise<ArkQuery> {
	const results = given.map(clipped);
	const path = client.path(`/queries/${queryName}`);
	const sizes = new Map(results.map((result) => [result, Buffer.byteLength(JSON.stringify(result))]));
	const large = results.filter((result) => result.success && sizes.get(result)! > LARGE_BYTES);
	const batches = packed(results.filter((result) => !large.includes(result)), (result) => sizes.get(result)!);

	const requests = [
		...large.map((result) => async (wait: string) => await upload(client, path, result, wait)),
		...batches.map((batch) => async (wait: string) => (await client.post<ArkQuery>(`${path}/tool-result`, { query: { wait }, body: { toolResults: batch } })).body),
	];
	let query: ArkQuery | undefined;
	for (const [index, send] of requests.entries()) {
		query = await send(index === requests.length - 1 ? `${waitSeconds}s` : '0');
	}
	return query!;
}

function clipped(result: ArkToolResult): ArkToolResult {
	if (result.success || result.error.length <= LONGEST_ERROR) return result;
	return { ...result, error: `${result.error.slice(0, LONGEST_ERROR)}… (${result.error.length - LONGEST_ERROR} characters left out)` };
}

async function upload(client: ArkClient, path: string, result: ArkToolResult, wait: string): Promise<ArkQuery> {
	const value = result.success ? result.result : result.error;
	const isText = typeof value === 'string';
	const answer = await client.put<ArkQuery>(`${path}/tool-calls/${result.toolCallId}/result`, {
		query: { wait, view: 'rfc', ...(result.duration === undefined ? {} : { duration: result.duration }) },
		headers: { 'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json' },
		body: Buffer.from(isText ? value : JSON.stringify(value)),
	});
	return answer.body;
}

function packed(results: ArkToolResult[], size: (result: ArkToolResult) => number): ArkToolResult[][] {
	const batches: ArkToolResult[][] = [];
	let bytes = 0;
	for (const result of results) {
		const last = batches.at(-1);
		if (last === undefined || last.length === BATCH_RESULTS || bytes + size(result) > BATCH_BYTES) {
			batches.push([result]);
			bytes = size(result);
		} else {
			last.push(result);
			bytes += size(result);
		}
	}
	return batches;
}
