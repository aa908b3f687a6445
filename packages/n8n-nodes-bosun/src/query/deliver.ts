/** Delivers the results of a turn: one request for all of them, and one more for each that is too large for it. */
import type { ArkClient } from '../ark/client';
import { clipped, isLarge, sizeOf, tooLarge, upload } from '../ark/result';
import type { ArkQuery, ArkToolResult } from '../ark/wire';

/** A post has at most 1 MiB and 128 results; this leaves room for what surrounds the results. */
const BATCH_BYTES = 900 * 1024;
const BATCH_RESULTS = 128;

/** Returns the query as it is after the last result, which waits `waitSeconds` for the agent's next action. */
export async function deliver(client: ArkClient, queryName: string, given: ArkToolResult[], waitSeconds: number): Promise<ArkQuery> {
	const results = given.map(clipped);
	const large = results.filter((result) => isLarge(result));
	const alone = new Set<ArkToolResult>(large);
	const batches = packed(results.filter((result) => !alone.has(result)));

	const requests = [
		...large.map((result) => async (wait: string) => await uploaded(client, queryName, result, wait)),
		...batches.map((batch) => async (wait: string) => await posted(client, queryName, batch, wait)),
	];
	let query: ArkQuery | undefined;
	for (const [index, send] of requests.entries()) {
		query = await send(index === requests.length - 1 ? `${waitSeconds}s` : '0');
	}
	return query!;
}

async function posted(client: ArkClient, queryName: string, toolResults: ArkToolResult[], wait: string): Promise<ArkQuery> {
	return (await client.post<ArkQuery>(client.path(`/queries/${queryName}/tool-result`), { query: { wait }, body: { toolResults } })).body;
}

async function uploaded(client: ArkClient, queryName: string, { toolCallId, result, duration }: ArkToolResult & { success: true }, wait: string): Promise<ArkQuery> {
	const query = { wait, view: 'rfc', ...(duration === undefined ? {} : { duration }) };
	try {
		return (await upload(client, queryName, toolCallId, result, query)).body;
	} catch (error) {
		return await posted(client, queryName, [{ toolCallId, duration, ...tooLarge(error) }], wait);
	}
}

function packed(results: ArkToolResult[]): ArkToolResult[][] {
	const batches: ArkToolResult[][] = [];
	let bytes = 0;
	for (const result of results) {
		const last = batches.at(-1);
		const size = sizeOf(result);
		if (last === undefined || last.length === BATCH_RESULTS || bytes + size > BATCH_BYTES) {
			batches.push([result]);
			bytes = size;
		} else {
			last.push(result);
			bytes += size;
		}
	}
	return batches;
}
