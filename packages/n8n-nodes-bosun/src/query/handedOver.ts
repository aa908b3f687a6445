/**
 * Cancellation of queries whose calls n8n's engine runs.
 *
 * The node has returned by then, but n8n's signal is that of the whole execution, so a listener still hears that it is
 * stopped. An execution that n8n has put aside, such as one that waits at a gate, continues with another signal.
 */
const listeners = new WeakMap<AbortSignal, Map<string, () => void>>();

/** Calls `cancel` when the execution is stopped, until the node is back. */
export function handOver(signal: AbortSignal | undefined, queryName: string, cancel: () => void): void {
	if (signal === undefined) return;
	takeBack(signal, queryName);
	const ofExecution = listeners.get(signal) ?? new Map<string, () => void>();
	listeners.set(signal, ofExecution.set(queryName, cancel));
	signal.addEventListener('abort', cancel, { once: true });
}

/** The node has been entered again, and listens itself. */
export function takeBack(signal: AbortSignal | undefined, queryName: string): void {
	const ofExecution = signal && listeners.get(signal);
	const cancel = ofExecution?.get(queryName);
	if (cancel === undefined) return;
	signal!.removeEventListener('abort', cancel);
	ofExecution!.delete(queryName);
}
