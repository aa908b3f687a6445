/** The item that the node puts out. */
import type { IDataObject } from 'n8n-workflow';

import type { ArkQuery } from '../ark/wire';
import { jsonOrNothing, UserFault } from './fault';
import type { ItemParameters } from './request';

export interface Observed {
	connectedTools: number;
	warnings: string[];
	/** How long calls took in this process, by their ids. */
	durations: Map<string, string>;
	/** Whether an earlier execution had left the query waiting. */
	isResumed?: boolean;
}

export function outputOf(query: ArkQuery, parameters: ItemParameters, { connectedTools, warnings, durations, isResumed }: Observed): IDataObject {
	const { options } = parameters;
	if (options.resultFormat === 'response') return { response: query.response ?? '' };
	if (options.resultFormat === 'json') return dataOf(query);
	return {
		response: query.response ?? '',
		...(query.output === undefined ? {} : { output: query.output as IDataObject }),
		status: query.status,
		queryName: query.name,
		agentName: parameters.agent,
		input: parameters.input,
		sessionId: parameters.sessionId || undefined,
		toolSource: parameters.toolSource,
		connectedTools,
		toolExecutionHistory: (query.toolExecutionHistory ?? []).map((call) => ({ ...call, duration: durations.get(call.toolCallId) ?? call.duration })) as unknown as IDataObject[],
		usage: query.usage as IDataObject | undefined,
		duration: query.duration,
		...(isResumed ? { resumed: true } : {}),
		...(warnings.length > 0 ? { warnings } : {}),
	};
}

/** The answer as fields of the item: `output` of a query with a schema, else the JSON that the agent wrote. */
function dataOf(query: ArkQuery): IDataObject {
	const data = query.output ?? parse(query.response ?? '');
	return typeof data === 'object' && data !== null && !Array.isArray(data) ? (data as IDataObject) : { data: data as IDataObject };
}

/** Models often wrap JSON in a Markdown block. */
function parse(response: string): unknown {
	const fenced = /^\s*```(?:json)?\s*\n([\s\S]*?)\n\s*```\s*$/.exec(response);
	const text = fenced ? fenced[1] : response;
	const parsed = jsonOrNothing(text);
	if (parsed === undefined) throw new UserFault(`The answer is not JSON: ${excerpt(text)}`, 'Give the query an output schema, or choose another result format.');
	return parsed;
}

function excerpt(text: string): string {
	return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
