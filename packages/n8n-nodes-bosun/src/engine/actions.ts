/** Calls that n8n's engine runs: what is asked of it, and what comes back. */
import { NodeConnectionTypes } from 'n8n-workflow';
import type { EngineRequest, EngineResponse, IDataObject } from 'n8n-workflow';

import type { ArkToolCall } from '../ark/wire';
import type { ConnectedTool } from '../tools/collect';
import { toFailure, toOutcome } from '../tools/outcome';
import type { Outcome } from '../tools/outcome';

/** Travels with an action and comes back with its result. */
export interface ActionMetadata {
	itemIndex: number;
	callId: string;
	startedAt: number;
	/** Of a gate: what runs once it is approved. */
	gate?: { nodeName: string; toolName: string; arguments: IDataObject };
	/** n8n lists the run of a gated tool below its gate. */
	parentNodeName?: string;
}

export type Action = EngineRequest<ActionMetadata>['actions'][number];

/** What the engine answered: calls that have their outcome, and actions that approved gates lead to. */
export interface Answered {
	outcomes: Map<string, { outcome: Outcome; durationMs: number }>;
	next: Action[];
}

/** What the engine should do for a call. */
export function actionFor(call: ArkToolCall, tool: ConnectedTool, itemIndex: number): Action {
	const metadata: ActionMetadata = { itemIndex, callId: call.id, startedAt: Date.now() };
	const args = call.arguments as IDataObject;
	if (tool.route.by === 'gate') {
		metadata.gate = { nodeName: tool.route.gatedNodeName, toolName: call.name, arguments: args };
		return action(call.id, tool.route.nodeName, { toolParameters: JSON.stringify(args), tool: call.name }, metadata);
	}
	return action(call.id, tool.nodeName, tool.isFromToolkit ? { ...args, tool: call.name } : args, metadata);
}

/** Reads the engine's answer for one item. */
export function readResponse(response: EngineResponse<ActionMetadata>, itemIndex: number): Answered {
	const answered: Answered = { outcomes: new Map(), next: [] };
	for (const { action: asked, data } of response.actionResponses) {
		const { metadata } = asked;
		if (metadata.itemIndex !== itemIndex) continue;
		const outcome = data.error ? toFailure(data.error) : toOutcome(data.data?.ai_tool?.[0]?.map((item) => item.json));
		if (metadata.gate === undefined || data.error) {
			answered.outcomes.set(metadata.callId, { outcome, durationMs: Date.now() - metadata.startedAt });
		} else if (isApproved(data.data?.ai_tool?.[0]?.[0]?.json)) {
			const { gate, ...rest } = metadata;
			answered.next.push(action(`hitl_approved_${asked.id}`, gate.nodeName, { ...gate.arguments, tool: gate.toolName }, { ...rest, parentNodeName: asked.nodeName }));
		} else {
			const error = `A person rejected the call of ${metadata.gate.toolName}${reason(data.data?.ai_tool?.[0]?.[0]?.json)}. Do not call it again unless you are asked to.`;
			answered.outcomes.set(metadata.callId, { outcome: { success: false, error }, durationMs: Date.now() - metadata.startedAt });
		}
	}
	return answered;
}

function action(id: string, nodeName: string, input: IDataObject, metadata: ActionMetadata): Action {
	return { actionType: 'ExecutionNodeAction', nodeName, input, type: NodeConnectionTypes.AiTool, id, metadata };
}

/** A form answers with `approved` itself, a webhook with `data.approved`. Anything but a clear yes is a no. */
function isApproved(json: IDataObject | undefined): boolean {
	return json?.approved === true || (json?.data as IDataObject | undefined)?.approved === true;
}

function reason(json: IDataObject | undefined): string {
	const text = json?.chatInput ?? (json?.data as IDataObject | undefined)?.chatInput;
	return typeof text === 'string' && text !== '' ? `, with the words "${text}"` : '';
}
