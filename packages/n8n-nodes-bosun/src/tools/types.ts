/** A JSON Schema of an object: what a tool takes. */
export interface ParameterSchema extends Record<string, unknown> {
	type: 'object';
	properties: Record<string, unknown>;
}

/**
 * A tool in ARK's format.
 *
 * `executionMode: 'external'` marks a tool that the client runs: the query waits for its result.
 */
export interface ArkToolSpec {
	type: 'custom' | 'builtin';
	name: string;
	description: string;
	parameters?: Record<string, unknown>;
	executionMode?: 'internal' | 'external';
	/** Runs the tool in this process. It is not enumerable, so no serialiser ever sees it. */
	_n8nCallback?: (input: string) => Promise<string>;
}

/** Which tools an agent may use: its own, those connected in n8n, or both. */
export type ToolSourceMode = 'ark' | 'n8n' | 'hybrid';

/**
 * A LangChain tool as a sub-node hands it over.
 *
 * Several copies of LangChain and Zod live in one n8n process, so `instanceof` is unreliable: this is the shape that
 * is looked for.
 */
export interface LangChainTool {
	name: string;
	description: string;
	schema?: unknown;
	metadata?: Record<string, unknown>;
	call?(input: unknown): Promise<unknown>;
	invoke?(input: unknown, options?: { signal?: AbortSignal }): Promise<unknown>;
}

/** A sub-node that holds several tools, such as the MCP Client. */
export interface LangChainToolkit {
	tools?: unknown[];
	getTools?(): unknown[];
}
