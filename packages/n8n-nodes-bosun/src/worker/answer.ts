/** What a workflow answered: the last item of its last node, or why it failed. */
import type { IRun } from 'n8n-workflow';

import { toFailure, toOutcome } from '../tools/outcome';
import type { Outcome } from '../tools/outcome';

export function answerOf(run: IRun | undefined): Outcome {
	const result = run?.data?.resultData;
	if (result === undefined) return { success: false, error: 'The workflow gave no answer' };
	if (result.error) return toFailure(result.error);
	const last = result.lastNodeExecuted === undefined ? undefined : result.runData[result.lastNodeExecuted]?.at(-1);
	const items = last?.data?.main?.find((output) => output && output.length > 0);
	if (!items) return { success: false, error: 'The workflow ended without an item' };
	return toOutcome(items.at(-1)!.json);
}
