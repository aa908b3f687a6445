/** The tools that are connected to the node, as the sub-nodes supply them. */
import { NodeConnectionTypes, NodeOperationError } from 'n8n-workflow';
import type { IExecuteFunctions, NodeTypeAndVersion } from 'n8n-workflow';

import { isObject, toParameters } from './schema';
import type { LangChainTool, LangChainToolkit, ParameterSchema } from './types';

/**
 * How a tool is run.
 *
 * `direct` calls run in this process, all calls of a turn at once. Two kinds of tool cannot be called so: an AI Agent
 * Tool from version 3 on answers with a request to n8n's engine, and a human-in-the-loop gate answers nothing at all.
 * Those are handed to the engine, which runs one after the other.
 */
export type ToolRoute = { by: 'direct' } | { by: 'engine'; nodeName: string } | { by: 'gate'; nodeName: string; gatedNodeName: string };

export interface ConnectedTool {
	name: string;
	description: string;
	parameters: ParameterSchema;
	/** The sub-node that supplies it. */
	nodeName: string;
	isFromToolkit: boolean;
	route: ToolRoute;
	tool: LangChainTool;
}

const AGENT_TOOL = '@n8n/n8n-nodes-langchain.agentTool';

/** All connected tools, in the order of their connections; toolkits are flattened. */
export async function collectTools(context: IExecuteFunctions, itemIndex: number): Promise<ConnectedTool[]> {
	const supplied = (await context.getInputConnectionData(NodeConnectionTypes.AiTool, itemIndex)) as unknown;
	const supplies = Array.isArray(supplied) ? supplied : supplied ? [supplied] : [];
	// Both lists have the same order, the reverse of that of the connections.
	const nodes = context
		.getParentNodes(context.getNode().name, { connectionType: NodeConnectionTypes.AiTool, depth: 1 })
		.filter((node) => !node.disabled);
	const tools = supplies.flatMap((supply, index) => fromSubNode(context, supply, nodes[index])).reverse();
	refuseEqualNames(context, tools);
	return tools;
}

function fromSubNode(context: IExecuteFunctions, supply: unknown, node: NodeTypeAndVersion | undefined): ConnectedTool[] {
	const members = membersOf(supply);
	const source = node?.name ?? 'a connected tool';
	const refuse = (why: string) => new NodeOperationError(context.getNode(), `The tool of "${source}" cannot be used: ${why}`);
	if (members === undefined && !isTool(supply)) throw refuse('it has no name, or nothing that runs it');
	const tools = (members ?? [supply]).map((member) => {
		if (!isTool(member)) throw refuse('one of its tools has no name, or nothing that runs it');
		try {
			return connected(member, node, source, members !== undefined);
		} catch (error) {
			throw refuse((error as Error).message);
		}
	});
	return tools.reverse();
}

function connected(tool: LangChainTool, node: NodeTypeAndVersion | undefined, nodeName: string, isFromToolkit: boolean): ConnectedTool {
	const route = routeOf(tool, node, nodeName);
	// A gate shows the model its own parameters around those of the tool. What the model should fill in are the tool's.
	const schema = route.by === 'gate' ? (tool.metadata?.originalSchema ?? tool.schema) : tool.schema;
	return { name: tool.name, description: tool.description ?? '', parameters: toParameters(schema), nodeName, isFromToolkit, route, tool };
}

function routeOf({ name, metadata }: LangChainTool, node: NodeTypeAndVersion | undefined, nodeName: string): ToolRoute {
	const isGate = /HitlTool$/.test(node?.type ?? '') || metadata?.originalSchema !== undefined;
	if (isGate) {
		const gatedNodeName = metadata?.gatedToolNodeName;
		if (typeof gatedNodeName !== 'string') {
			throw new Error(
				`this version of n8n does not tell which node runs "${name}" after it was approved. Connect the tool of a node (such as HTTP Request) to the gate, or use a newer n8n`,
			);
		}
		return { by: 'gate', nodeName, gatedNodeName };
	}
	if (node?.type === AGENT_TOOL && node.typeVersion >= 3) return { by: 'engine', nodeName };
	return { by: 'direct' };
}

function membersOf(supply: unknown): unknown[] | undefined {
	if (!isObject(supply)) return undefined;
	const toolkit = supply as LangChainToolkit;
	if (typeof toolkit.getTools === 'function') return toolkit.getTools();
	return Array.isArray(toolkit.tools) ? toolkit.tools : undefined;
}

function isTool(value: unknown): value is LangChainTool {
	// A tool may be a class instance behind a Proxy: only its members count.
	const tool = value as Partial<LangChainTool> | null | undefined;
	return typeof tool?.name === 'string' && (typeof tool.invoke === 'function' || typeof tool.call === 'function');
}

function refuseEqualNames(context: IExecuteFunctions, tools: ConnectedTool[]): void {
	const seen = new Map<string, ConnectedTool>();
	for (const tool of tools) {
		const other = seen.get(tool.name);
		if (other) {
			throw new NodeOperationError(context.getNode(), `Two connected tools are called "${tool.name}": one of "${other.nodeName}", one of "${tool.nodeName}"`, {
				description: 'An agent calls tools by their names. Rename one of the two nodes.',
			});
		}
		seen.set(tool.name, tool);
	}
}
