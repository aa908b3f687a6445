/**
 * Passes the text of an answer on while the model writes it.
 *
 * The loop does not depend on this: a stream that breaks costs pieces, not the answer, since `finish` sends whatever
 * has not been sent when the answer is there as a whole.
 */
import type { ArkClient } from '../ark/client';
import { readEvents } from './sse';

/** The consumer of the text. */
export interface TextReader {
	text(text: string): void;
	/** What follows does not continue the text before it: it is that of another turn. */
	separate(): void;
}

/** Text of a turn; `offset` counts bytes of UTF-8 from the turn's beginning. */
interface Delta {
	turn: number;
	attempt: number;
	offset: number;
	delta: string;
}

export class TextStream {
	private turn = '';

	/** What has been sent of the turn. */
	private sent = Buffer.alloc(0);

	private readonly closed = new AbortController();

	private constructor(private readonly reader: TextReader) {}

	/** Follows a query until `finish`. */
	static open(client: ArkClient, queryName: string, reader: TextReader): TextStream {
		const text = new TextStream(reader);
		// A failure here is not one of the query: `finish` makes up for what was not read.
		text.follow(client, queryName).catch(() => undefined);
		return text;
	}

	/** Sends the rest of the answer and closes the stream. */
	finish(response: string | undefined): void {
		this.closed.abort();
		if (response === undefined) return;
		const answer = Buffer.from(response);
		// The text of an earlier turn, after which no piece of the last one was read, is no part of the answer.
		const isOfAnswer = answer.subarray(0, this.sent.length).equals(this.sent);
		if (!isOfAnswer) this.begin();
		this.send(answer, 0);
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
			this.begin();
		}
		this.send(Buffer.from(delta), offset);
	}

	private begin(): void {
		if (this.sent.length > 0) this.reader.separate();
		this.sent = Buffer.alloc(0);
	}

	/** Sends what is new of `bytes`, which begin at `offset` of the turn's text. */
	private send(bytes: Buffer, offset: number): void {
		const known = this.sent.length - offset;
		const isGap = known < 0;
		if (isGap || known >= bytes.length) return;
		const fresh = bytes.subarray(known);
		this.sent = Buffer.concat([this.sent, fresh]);
		this.reader.text(fresh.toString('utf8'));
	}
}
