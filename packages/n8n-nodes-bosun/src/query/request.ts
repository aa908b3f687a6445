/** What is asked of the server, from the parameters of the node. */
import type { IDataObject, IExecuteFunctions } from 'n8n-workflow';

import type { ArkMessage, CreateQuery } from '../ark/wire';
import type { ConnectedTool } from '../tools/collect';
import { isObject } from '../tools/schema';
import type { ToolSourceMode } from '../tools/types';
import { jsonOrNothing, UserFault } from './fault';

/** A person may take a day to look at a gate; an agent of n8n takes as long as its own tools. */
const GATE_TIMEOUT = '24h';
const ENGINE_TIMEOUT = '1h';
/** How long a call waits for n8n by the server's default, in seconds, and how much longer than the tool itself it must. */
const SERVER_WAITS = 600;
const MARGIN = 60;

export interface ItemParameters {
	agent: string;
	input: string;
	toolSource: ToolSourceMode;
	sessionId: string;
	options: ItemOptions;
}

export interface ItemOptions {
	cacheSeconds?: number;
	maxToolCalls?: number;
	maxTokens?: number;
	memory?: string;
	model?: string;
	outputSchema?: string | IDataObject;
	parameters?: { parameter?: Array<{ name: string; value: string }> };
	resultFormat?: 'full' | 'response' | 'json';
	resumeWaiting?: boolean;
	streamText?: boolean;
	temperature?: number;
	timeout?: number;
	toolTimeout?: number;
	waitForAnswer?: boolean;
}

export function readParameters(context: IExecuteFunctions, itemIndex: number): ItemParameters {
	const text = (name: string) => textOf(context.getNodeParameter(name, itemIndex, '')).trim();
	const parameters: ItemParameters = {
		agent: text('agent'),
		input: text('input'),
		// The variant of the node that is a tool of another agent has no input for tools.
		toolSource: isToolVariant(context) ? 'ark' : (text('toolSource') as ToolSourceMode),
		sessionId: text('sessionId'),
		options: context.getNodeParameter('options', itemIndex, {}) as ItemOptions,
	};
	for (const required of ['agent', 'input'] as const) {
		if (parameters[required] === '') {
			throw new UserFault(`The ${required} is empty`, EMPTY[required]);
		}
	}
	return parameters;
}

/** An expression may give any value; an agent reads an object as JSON. */
function textOf(value: unknown): string {
	return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '');
}

const EMPTY = {
	agent: 'Choose an agent from the list, or write its name. The list shows the agents of the namespace in the credential.',
	input: 'Write what the agent should do. An expression such as {{ $json.chatInput }} is empty if the item has no such field.',
};

/** n8n makes a second node type of every node that is usable as a tool, without its inputs. */
export function isToolVariant(context: IExecuteFunctions): boolean {
	return context.getNode().type.endsWith('Tool');
}

/** `history` has the earlier messages, if a memory is connected. */
export function createBody(parameters: ItemParameters, tools: ConnectedTool[], labels: Record<string, string>, history: ArkMessage[] = []): Omit<CreateQuery, 'name'> {
	const { agent, toolSource, sessionId, options } = parameters;
	const input = history.length > 0 ? filledIn(parameters) : parameters.input;
	const seconds = (time?: number) => (time ? `${time}s` : undefined);
	return {
		...(history.length > 0 ? { type: 'messages' as const, input: [...history, { role: 'user' as const, content: input }] } : { input }),
		target: { type: 'agent', name: agent },
		toolSource,
		externalTools: tools.map((tool) => definition(tool, options.toolTimeout ?? 0)),
		sessionId: sessionId || undefined,
		memory: options.memory ? { name: options.memory } : undefined,
		modelRef: options.model ? { name: options.model } : undefined,
		modelOptions: modelOptions(options),
		parameters: options.parameters?.parameter,
		outputSchema: outputSchema(options.outputSchema),
		timeout: seconds(options.timeout),
		maxToolCalls: options.maxToolCalls,
		metadata: { labels },
	};
}

/** The input with the values of its `{{.name}}`. The server inserts them into a text, but takes messages as they are. */
export function filledIn({ input, options }: ItemParameters): string {
	const given = options.parameters?.parameter ?? [];
	if (given.length === 0) return input;
	return input.replace(/\{\{(.*?)\}\}/gs, (placeholder, inside: string) => {
		const found = given.find(({ name }) => inside.trim() === `.${name}`);
		if (found === undefined) throw new UserFault(`The input has ${placeholder}, which is none of the agent parameters`, 'Add the parameter in the options, or remove the braces. Without any parameter, braces are text.');
		return found.value;
	});
}

function definition({ name, description, parameters, route }: ConnectedTool, toolTimeout: number): CreateQuery['externalTools'][number] {
	const direct = toolTimeout + MARGIN > SERVER_WAITS ? `${toolTimeout + MARGIN}s` : undefined;
	const timeout = { direct, engine: ENGINE_TIMEOUT, gate: GATE_TIMEOUT }[route.by];
	// Only an n8n that is gone lets a call expire, and then no client is left that reads the answer. Tools that workers
	// serve are not declared here.
	return { name, description, parameters, timeout, onExpired: 'fail' };
}

function modelOptions({ temperature, maxTokens }: ItemOptions): CreateQuery['modelOptions'] {
	return temperature === undefined && maxTokens === undefined ? undefined : { temperature, maxTokens };
}

function outputSchema(written: ItemOptions['outputSchema']): unknown {
	if (written === undefined || written === '') return undefined;
	const schema = isObject(written) ? written : jsonOrNothing(written as string);
	if (!isObject(schema)) throw new UserFault('The output schema is not a JSON object', 'Write a JSON Schema with "type": "object".');
	return schema;
}
