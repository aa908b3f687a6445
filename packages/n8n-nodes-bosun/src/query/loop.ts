/**
 * The loop of one query: run what the agent asks for, deliver it, until the query ends.
 *
 * All calls of a turn run at once and are delivered together. Calls for n8n's engine end the loop: the node returns
 * them, and is entered again with their results.
 */
import type { ArkClient } from '../ark/client';
import { hasEnded } from '../ark/wire';
import type { ArkQuery, ArkToolCall, ArkToolResult, QueryStatus } from '../ark/wire';
import { actionFor } from '../engine/actions';
import type { Action, Answered } from '../engine/actions';
import { pause } from '../time';
import type { Toolbox } from '../tools/toolbox';
import type { TimedOutcome } from '../tools/invoke';
import { deliver } from './deliver';

/** Shorter than the 30 seconds after which many proxies give up. */
export const WAIT_SECONDS = 25;

/** States in which the server answers a read at once, although only a worker or a person can change them. */
const WAITS_FOR_OTHERS: QueryStatus[] = ['tool_call_required', 'approval_required', 'parameters_required', 'paused'];

/** The poll interval of a query in one of these states. */
const OTHERS_PAUSE_MS = 500;

export type LoopEnd = { query: ArkQuery } | { actions: Action[] };

export interface LoopOptions {
	client: ArkClient;
	toolbox: Toolbox;
	itemIndex: number;
	/** How long each call took here, by its id; the server sees only when their batch arrives. */
	durations: Map<string, string>;
}

export async function runToEnd(created: ArkQuery, { client, toolbox, itemIndex, durations }: LoopOptions): Promise<LoopEnd> {
	let query = created;
	while (!hasEnded(query.status)) {
		const { direct, actions } = await routed(query.toolCalls ?? [], toolbox, itemIndex);
		if (direct.length === 0 && actions.length === 0) {
			if (WAITS_FOR_OTHERS.includes(query.status)) await pause(OTHERS_PAUSE_MS);
			query = (await client.get<ArkQuery>(client.path(`/queries/${query.name}`), { query: { wait: `${WAIT_SECONDS}s`, view: 'rfc' } })).body;
			continue;
		}
		if (direct.length > 0) {
			const results = await Promise.all(direct.map(async (call) => await resultOf(call, toolbox, durations)));
			query = await deliver(client, query.name, results, actions.length > 0 ? 0 : WAIT_SECONDS);
		}
		if (actions.length > 0) return { actions };
	}
	return { query };
}

/** Delivers what the engine has done. The query may then wait for a gated tool that is still to run. */
export async function deliverAnswers(query: ArkQuery, answered: Answered, client: ArkClient, durations: Map<string, string>): Promise<ArkQuery> {
	const waiting = new Set(query.toolCalls?.map((call) => call.id));
	const results = [...answered.outcomes].filter(([callId]) => waiting.has(callId)).map(([callId, timed]) => toResult(callId, timed, durations));
	return results.length === 0 ? query : await deliver(client, query.name, results, answered.next.length > 0 ? 0 : WAIT_SECONDS);
}

async function routed(calls: ArkToolCall[], toolbox: Toolbox, itemIndex: number): Promise<{ direct: ArkToolCall[]; actions: Action[] }> {
	const direct: ArkToolCall[] = [];
	const actions: Action[] = [];
	for (const call of calls) {
		const tool = await toolbox.find(call.name);
		const isForWorkers = tool === undefined && call.workers === true;
		if (isForWorkers) continue;
		if (tool === undefined || tool.route.by === 'direct') direct.push(call);
		else actions.push(actionFor(call, tool, itemIndex));
	}
	return { direct, actions };
}

async function resultOf(call: ArkToolCall, toolbox: Toolbox, durations: Map<string, string>): Promise<ArkToolResult> {
	const tool = await toolbox.find(call.name);
	if (tool === undefined) {
		return { toolCallId: call.id, success: false, error: `No tool called "${call.name}" is connected to the node` };
	}
	return toResult(call.id, await toolbox.run(tool, call.arguments), durations);
}

function toResult(toolCallId: string, { outcome, durationMs }: TimedOutcome, durations: Map<string, string>): ArkToolResult {
	const duration = `${Math.round(durationMs)}ms`;
	durations.set(toolCallId, duration);
	return { toolCallId, duration, ...outcome };
}
