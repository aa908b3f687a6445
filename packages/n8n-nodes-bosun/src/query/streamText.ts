/**
 * Passes the text of an answer on while the model writes it.
 *
 * The loop does not depend on this: a stream that breaks costs pieces, not the answer, since `finish` sends whatever
 * has not been sent when the answer is there as a whole.
 */
import type { ArkClient } from '../ark/client';
import { readEvents } from './sse';

/** Text of a turn; `offset` counts bytes of UTF-8 from the turn's beginning. */
interface Delta {
	turn: number;
	attempt: number;
	offset: number;
	delta: string;
}

export class TextStream {
	private turn = '';

	private sent = Buffer.alloc(0);

	private readonly closed = new AbortController();

	private constructor(private readonly onText: (text: string) => void) {}

	/** Follows a query until `finish`. */
	static open(client: ArkClient, queryName: string, onText: (text: string) => void): TextStream {
		const text = new TextStream(onText);
		// A failure here is not one of the query: `finish` makes up for what was not read.
		text.follow(client, queryName).catch(() => undefined);
		return text;
	}

	/** Sends the rest of the answer and closes the stream. */
	finish(response: string | undefined): void {
		this.closed.abort();
		if (response !== undefined) this.send(Buffer.from(response), 0);
	}

	private async follow(client: ArkClient, queryName: string): Promise<void> {
		const stream = await client.stream('GET', client.path(`/queries/${queryName}/events`), { signal: this.closed.signal });
		for await (const { event, data } of readEvents(stream)) {
			if (event === 'agent_response_delta' && !this.closed.signal.aborted) this.add(JSON.parse(data) as Delta);
		}
	}

	private add({ turn, attempt, offset, delta }: Delta): void {
		if (this.turn !== `${turn}.${attempt}`) {
			this.turn = `${turn}.${attempt}`;
			this.sent = Buffer.alloc(0);
		}
		this.send(Buffer.from(delta), offset);
	}

	/** Sends what is new of `bytes`, which begin at `offset` of the turn's text. */
	private send(bytes: Buffer, offset: number): void {
		const known = this.sent.length - offset;
		const isGap = known < 0;
		if (isGap || known >= bytes.length) return;
		const fresh = bytes.subarray(known);
		this.sent = Buffer.concat([this.sent, fresh]);
		this.onText(fresh.toString('utf8'));
	}
}
