/** Runs one call of a connected tool in this process. */
import { after } from '../time';
import { toFailure, toOutcome } from './outcome';
import type { Outcome } from './outcome';
import type { LangChainTool } from './types';

export interface TimedOutcome {
	outcome: Outcome;
	durationMs: number;
}

/** Never throws: a tool that fails is something for the agent to read. */
export async function invokeTool(tool: LangChainTool, args: Record<string, unknown>, timeoutMs: number, signal?: AbortSignal): Promise<TimedOutcome> {
	const started = performance.now();
	const outcome = await attempt(tool, args, timeoutMs, signal);
	return { outcome, durationMs: performance.now() - started };
}

async function attempt(tool: LangChainTool, args: Record<string, unknown>, timeoutMs: number, signal?: AbortSignal): Promise<Outcome> {
	// LangChain runs a tool although its signal has been aborted.
	if (signal?.aborted) return { success: false, error: 'The execution was stopped' };
	// LangChain would treat these as a call of its own, and run the tool with what is inside.
	if (args.type === 'tool_call') return { success: false, error: 'An argument "type" with the value "tool_call" cannot be passed to a LangChain tool' };

	let timer: ReturnType<typeof after> | undefined;
	const timeUp = new Promise<never>((_, reject) => {
		timer = after(timeoutMs, () => reject(new Error(`Tool execution timeout: "${tool.name}" took longer than ${timeoutMs / 1000} s`)));
	});
	try {
		const run = tool.invoke ? tool.invoke(args, { signal }) : tool.call!(args);
		return toOutcome(await Promise.race([run, timeUp]));
	} catch (error) {
		return toFailure(error);
	} finally {
		timer?.cancel();
	}
}
