/**
 * The connected tools of a run: collected when they are first needed, run with their timeout, and cached if wanted.
 *
 * Collecting may cost a second (an MCP Client connects), and a node that is entered again may not need them at all.
 */
import type { ConnectedTool } from './collect';
import { invokeTool } from './invoke';
import type { TimedOutcome } from './invoke';

export interface ToolboxOptions {
	timeoutMs: number;
	/** How long a result may be used again for the same arguments within this run; 0 is never. */
	cacheMs: number;
	signal?: AbortSignal;
}

export class Toolbox {
	private collected: Promise<ConnectedTool[]> | undefined;

	private readonly cached = new Map<string, { result: Promise<TimedOutcome>; until: number }>();

	constructor(
		private readonly collect: () => Promise<ConnectedTool[]>,
		private readonly options: ToolboxOptions,
	) {}

	async tools(): Promise<ConnectedTool[]> {
		return await (this.collected ??= this.collect());
	}

	async find(name: string): Promise<ConnectedTool | undefined> {
		return (await this.tools()).find((tool) => tool.name === name);
	}

	async run({ name, tool }: ConnectedTool, args: Record<string, unknown>): Promise<TimedOutcome> {
		const { cacheMs, timeoutMs, signal } = this.options;
		if (cacheMs === 0) return await invokeTool(tool, args, timeoutMs, signal);
		const key = JSON.stringify([name, sorted(args)]);
		const known = this.cached.get(key);
		if (known && known.until > Date.now()) return { ...(await known.result), durationMs: 0 };
		const result = invokeTool(tool, args, timeoutMs, signal);
		this.cached.set(key, { result, until: Date.now() + cacheMs });
		// A failure may be gone the next time.
		if (!(await result).outcome.success) this.cached.delete(key);
		return await result;
	}
}

/** The same value with its keys in order, so that equal arguments have one key. */
function sorted(value: unknown): unknown {
	if (Array.isArray(value)) return value.map(sorted);
	if (typeof value !== 'object' || value === null) return value;
	return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, inner]) => [key, sorted(inner)]));
}
