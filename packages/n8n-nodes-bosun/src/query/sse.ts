/** Server-sent events, read from a stream of bytes. */
export interface ServerSentEvent {
	event: string;
	data: string;
	id?: string;
}

export async function* readEvents(stream: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent> {
	let rest = '';
	const decoder = new TextDecoder();
	for await (const chunk of stream) {
		rest += decoder.decode(chunk, { stream: true });
		const blocks = rest.split(/\r?\n\r?\n/);
		rest = blocks.pop()!;
		for (const block of blocks) {
			const event = parse(block);
			if (event) yield event;
		}
	}
}

/** A block without data is a comment or a hint for reconnecting. */
function parse(block: string): ServerSentEvent | undefined {
	const fields: Record<string, string[]> = {};
	for (const line of block.split(/\r?\n/)) {
		const [, name, value] = /^([^:]+):? ?(.*)$/.exec(line) ?? [];
		if (name) (fields[name] ??= []).push(value);
	}
	if (!fields.data) return undefined;
	return { event: fields.event?.at(-1) ?? 'message', data: fields.data.join('\n'), id: fields.id?.at(-1) };
}
