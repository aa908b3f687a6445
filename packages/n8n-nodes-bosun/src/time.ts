/** Timers without `setTimeout`, which n8n forbids to community nodes; versions of n8n differ in what they offer instead. */

/** Node.js takes a longer timeout for one millisecond. */
const LONGEST_MS = 2 ** 31 - 1;

/** Calls `then` after a time, unless it is cancelled before. */
export function after(ms: number, then: () => void): { cancel: () => void } {
	// A fraction is refused with an exception.
	const signal = AbortSignal.timeout(Math.min(Math.ceil(ms), LONGEST_MS));
	signal.addEventListener('abort', then, { once: true });
	return { cancel: () => signal.removeEventListener('abort', then) };
}

/** Waits, and not longer than until `signal` is aborted. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
	await new Promise<void>((resolve) => {
		const timer = after(ms, done);
		signal?.addEventListener('abort', done, { once: true });
		function done() {
			timer.cancel();
			signal?.removeEventListener('abort', done);
			resolve();
		}
	});
}
