/**
 * The loop of a worker: claim calls, run a workflow for each, deliver what it answers.
 *
 * A claimed call is leased. While the workflow runs, heartbeats extend the lease; if n8n dies, the lease runs out and
 * the server decides whether another worker may run the call.
 */
import type { ArkClient } from '../ark/client';
import { ArkError } from '../ark/error';
import { clipped, isLarge, tooLarge, upload } from '../ark/result';
import { after, pause } from '../time';
import type { Outcome } from '../tools/outcome';
import type { ClaimedCall, ClaimedCalls } from './wire';

/** Ceilings of the server. It refuses to hand out more calls at once, and shortens a longer lease. */
export const MOST_CALLS = 32;
export const MOST_LEASE_SECONDS = 600;

const CLAIM_WAIT_SECONDS = 25;
/** After a failed claim that may be over soon. */
const PAUSE_MS = 5_000;

export interface WorkerOptions {
	tools: string[];
	/** How many calls run at the same time. */
	concurrency: number;
	leaseSeconds: number;
}

export interface WorkerEvents {
	/** Runs the workflow. Does not throw. */
	run(call: ClaimedCall): Promise<Outcome>;
	/** The server refuses this worker: nothing will change by trying again. */
	refused(error: ArkError): void;
	warn(message: string): void;
}

export class Worker {
	private readonly stopped = new AbortController();

	private readonly running = new Set<Promise<void>>();

	private readonly options: WorkerOptions;

	/** An expression may give any number, so the bounds of the fields do not hold here. */
	constructor(
		private readonly client: ArkClient,
		{ tools, concurrency, leaseSeconds }: WorkerOptions,
		private readonly events: WorkerEvents,
	) {
		this.options = { tools, concurrency: Math.min(Math.max(concurrency, 1), MOST_CALLS), leaseSeconds: Math.min(leaseSeconds, MOST_LEASE_SECONDS) };
	}

	/** Serves until `stop`. */
	async serve(): Promise<void> {
		while (!this.stopped.signal.aborted) {
			if (this.running.size >= this.options.concurrency) await Promise.race(this.running);
			else await this.claim(this.options.concurrency - this.running.size);
		}
	}

	/** Claims nothing more. Calls that run are finished. */
	async stop(): Promise<void> {
		this.stopped.abort();
		await Promise.all(this.running);
	}

	private async claim(limit: number): Promise<void> {
		const { tools, leaseSeconds } = this.options;
		try {
			const { body, sentAt } = await this.client.get<ClaimedCalls>(this.client.path('/tool-calls'), {
				query: { tools: tools.join(','), limit, lease: `${leaseSeconds}s`, wait: `${CLAIM_WAIT_SECONDS}s` },
				signal: this.stopped.signal,
			});
			for (const call of body.items) this.begin(call, sentAt);
		} catch (error) {
			if (this.stopped.signal.aborted) return;
			if (error instanceof ArkError && error.status >= 400 && error.status < 500 && error.status !== 429) {
				this.stopped.abort();
				return this.events.refused(error);
			}
			this.events.warn(`Calls could not be claimed: ${(error as Error).message}`);
			await pause(PAUSE_MS, this.stopped.signal);
		}
	}

	private begin(call: ClaimedCall, claimedAt: number): void {
		const handled = this.handle(call, claimedAt).finally(() => this.running.delete(handled));
		this.running.add(handled);
	}

	private async handle(call: ClaimedCall, claimedAt: number): Promise<void> {
		const heartbeat = this.keep(call, claimedAt);
		try {
			const startedAt = Date.now();
			const outcome = clipped(await this.events.run(call));
			await this.deliver(call, outcome, `${Date.now() - startedAt}ms`);
		} catch (error) {
			this.events.warn(`The result of ${call.name} (${call.id}) could not be delivered: ${(error as Error).message}`);
		} finally {
			heartbeat.stop();
		}
	}

	private async deliver({ id, lease, queryName }: ClaimedCall, outcome: Outcome, duration: string): Promise<void> {
		let posted = outcome;
		if (isLarge(outcome)) {
			const refused = await upload(this.client, queryName, id, outcome.result, { wait: '0', lease, duration }).then(() => undefined, tooLarge);
			if (refused === undefined) return;
			posted = refused;
		}
		await this.client.post(this.client.path(`/tool-calls/${id}/result`), { body: { lease, duration, ...posted } });
	}

	/** Extends the lease at a third of the time that the server has granted, so that one heartbeat may be lost. */
	private keep(call: ClaimedCall, claimedAt: number): { stop: () => void } {
		const { leaseSeconds } = this.options;
		const grantedMs = Date.parse(call.leasedUntil) - claimedAt;
		const restMs = (grantedMs > 0 ? Math.min(grantedMs, leaseSeconds * 1000) : leaseSeconds * 1000) / 3;
		let timer = after(restMs, () => void beat());
		let isStopped = false;
		const beat = async () => {
			try {
				await this.client.post(this.client.path(`/tool-calls/${call.id}/heartbeat`), { body: { lease: call.lease, for: `${leaseSeconds}s` } });
			} catch (error) {
				this.events.warn(`The lease of ${call.name} (${call.id}) could not be extended: ${(error as Error).message}`);
			}
			if (!isStopped) timer = after(restMs, () => void beat());
		};
		return {
			stop: () => {
				isStopped = true;
				timer.cancel();
			},
		};
	}
}
