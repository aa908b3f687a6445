/**
 * The memory that is connected to the node: what was said before goes into the query, and the answer goes back.
 *
 * It is read as messages, in the window that its node has, and they are sent as the conversation before the input. So
 * an ARK agent and an agent of n8n that share a memory know the same conversation, and the server keeps no second one.
 */
import { NodeConnectionTypes } from 'n8n-workflow';
import type { IExecuteFunctions } from 'n8n-workflow';

import type { ArkMessage } from '../ark/wire';
import { UserFault } from './fault';

/** A memory of LangChain, as far as it is used here. */
interface ChatMemory {
	loadMemoryVariables(values: object): Promise<Record<string, unknown>>;
	saveContext(input: { input: string }, output: { output: string }): Promise<void>;
}

/** A message of LangChain; copies of the library differ in how they name its kind. */
interface ChatMessage {
	content: unknown;
	type?: string;
	getType?(): string;
	_getType?(): string;
}

const ROLES: Record<string, ArkMessage['role'] | undefined> = { human: 'user', ai: 'assistant', system: 'system' };

export class ConnectedMemory {
	private constructor(private readonly memory: ChatMemory) {}

	/** The memory of an item, if one is connected. */
	static async open(context: IExecuteFunctions, itemIndex: number): Promise<ConnectedMemory | undefined> {
		const supplied = await context.getInputConnectionData(NodeConnectionTypes.AiMemory, itemIndex);
		const memory = (Array.isArray(supplied) ? supplied[0] : supplied) as Partial<ChatMemory> | undefined;
		if (memory === undefined || memory === null) return undefined;
		if (typeof memory.loadMemoryVariables !== 'function' || typeof memory.saveContext !== 'function') {
			throw new UserFault('The connected memory cannot be read', 'Connect a memory node of n8n, such as Simple Memory. A memory of the ARK server is named in the option Memory.');
		}
		return new ConnectedMemory(memory as ChatMemory);
	}

	/** The earlier messages, oldest first. Calls of tools are left out: they belong to answers that are in it. */
	async messages(): Promise<ArkMessage[]> {
		const variables = await this.memory.loadMemoryVariables({});
		const history = Object.values(variables).find(Array.isArray) as ChatMessage[] | undefined;
		return (history ?? []).flatMap((message) => {
			const role = ROLES[message.getType?.() ?? message._getType?.() ?? message.type ?? ''];
			const content = textOf(message.content);
			return role === undefined || content === '' ? [] : [{ role, content }];
		});
	}

	async save(input: string, response: string): Promise<void> {
		await this.memory.saveContext({ input }, { output: response });
	}
}

/** The text of a message, which may consist of parts. */
function textOf(content: unknown): string {
	if (typeof content === 'string') return content;
	if (!Array.isArray(content)) return '';
	return content.map((part: { type?: string; text?: string }) => (part?.type === 'text' ? (part.text ?? '') : '')).join('');
}
