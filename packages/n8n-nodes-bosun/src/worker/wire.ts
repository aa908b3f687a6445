/** What a worker reads and writes of the server's API. docs/workers.md describes all of it. */

/** A call that this worker has claimed. */
export interface ClaimedCall {
	id: string;
	name: string;
	arguments: Record<string, unknown>;
	queryName: string;
	deadline: string;
	/** Sent with heartbeats and with the result; a worker that has lost it is refused. */
	lease: string;
	leasedUntil: string;
	/** 1, or more if earlier workers were lost. */
	attempt: number;
}

export interface ClaimedCalls {
	items: ClaimedCall[];
}
