/** The name of a query: the same for every attempt to create it, and for no other query. */
import { createHash } from 'crypto';

export interface RunIdentity {
	instanceId: string;
	workflowId: string;
	executionId: string;
	nodeId: string;
	runIndex: number;
}

/**
 * Creating a query is idempotent by its name. Since the name follows from the run alone, a node that is entered again,
 * or a request that is repeated, finds the query that exists, and n8n keeps no state.
 */
export function queryName(run: RunIdentity, itemIndex: number, attempt: number): string {
	const place = createHash('sha256').update(JSON.stringify([run.instanceId, run.workflowId, run.nodeId])).digest('hex').slice(0, 12);
	const execution = run.executionId.toLowerCase().replace(/[^a-z0-9]+/g, '-').slice(0, 64);
	const name = `n8n-${execution}-${place}-${run.runIndex}-${itemIndex}`;
	return attempt === 1 ? name : `${name}-retry${attempt - 1}`;
}
