/** What the node reads and writes of the server's API, in the RFC's view of a query. docs/api.md describes all of it. */
import type { ArkToolSpec } from '../tools/types';

export type QueryStatus = 'pending' | 'running' | 'tool_call_required' | 'approval_required' | 'parameters_required' | 'paused' | 'completed' | 'failed' | 'cancelled';

/** A call that waits for this client. */
export interface ArkToolCall {
	id: string;
	name: string;
	arguments: Record<string, unknown>;
	deadline?: string;
	/** Whether the tool is declared on the server, and workers may run the call. */
	workers?: boolean;
}

export interface ArkToolExecution {
	toolCallId: string;
	toolName: string;
	executionMode: 'internal' | 'external';
	success: boolean;
	duration?: string;
	error?: unknown;
}

export interface ArkQuery {
	name: string;
	uid: string;
	status: QueryStatus;
	toolCalls?: ArkToolCall[];
	response?: string;
	output?: unknown;
	error?: { code: string; message: string };
	toolExecutionHistory?: ArkToolExecution[];
	usage?: Record<string, unknown>;
	duration?: string;
	warnings?: string[];
}

/** The outcome of one call, as `tool-result` takes it. */
export type ArkToolResult = { toolCallId: string; duration?: string } & (
	| { success: true; result: unknown }
	| { success: false; error: string }
);

/** One message of a conversation, as OpenAI has it. */
export interface ArkMessage {
	role: 'system' | 'user' | 'assistant';
	content: string;
}

export interface CreateQuery {
	name: string;
	type?: 'messages';
	input: string | ArkMessage[];
	target: { type: 'agent'; name: string };
	toolSource: string;
	externalTools: Array<
		Pick<ArkToolSpec, 'name' | 'description' | 'parameters'> & {
			timeout?: string;
			/** What happens to the query if a call expires. */
			onExpired: 'tell' | 'fail';
		}
	>;
	sessionId?: string;
	memory?: { name: string };
	modelRef?: { name: string };
	modelOptions?: { temperature?: number; maxTokens?: number };
	parameters?: Array<{ name: string; value: string }>;
	outputSchema?: unknown;
	timeout?: string;
	maxToolCalls?: number;
	metadata: { labels: Record<string, string> };
}

/** The end of a query, after which nothing changes. */
export function hasEnded(status: QueryStatus): boolean {
	return status === 'completed' || status === 'failed' || status === 'cancelled';
}
