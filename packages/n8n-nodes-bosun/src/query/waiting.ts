/**
 * The query that an earlier execution has left waiting.
 *
 * If n8n dies while it runs a tool, the server keeps the query, and the calls that wait. A run of the same session finds
 * it by session, agent, workflow, node and item, and continues from there instead of asking the agent again.
 */
import type { ArkClient } from '../ark/client';
import type { ArkQuery } from '../ark/wire';

export interface WaitingSearch {
	sessionId: string;
	agent: string;
	/** Labels that it must have. */
	labels: Record<string, string>;
	/** The running execution, whose own queries are not left behind. */
	executionId: string | undefined;
}

/** The newest one, or none. */
export async function findWaiting(client: ArkClient, { sessionId, agent, labels, executionId }: WaitingSearch): Promise<ArkQuery | undefined> {
	const requirements = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
	if (executionId !== undefined) requirements.push(`n8n_execution_id!=${executionId}`);
	const query = { state: 'waiting', sessionId, target: `agent/${agent}`, labelSelector: requirements.join(','), limit: 1 };
	const { body } = await client.get<{ items: Array<{ name: string }> }>(client.path('/queries'), { query });
	const [found] = body.items;
	if (found === undefined) return undefined;
	return (await client.get<ArkQuery>(client.path(`/queries/${found.name}`), { query: { view: 'rfc' } })).body;
}
