import { NodeConnectionTypes } from 'n8n-workflow';
import type { EngineResponse, IExecuteFunctions, INodeType, INodeTypeDescription, NodeOutput } from 'n8n-workflow';

import { executeItems } from '../../src/query/execute';
import { getAgents, getModels } from './lists';
import { properties } from './properties';

export class ArkAgentAdvanced implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'ARK Agent Advanced',
		name: 'arkAgentAdvanced',
		icon: { light: 'file:../../icons/ark.svg', dark: 'file:../../icons/ark.dark.svg' },
		group: ['transform'],
		version: 1,
		subtitle: '={{ $parameter["toolSource"] + " · " + $parameter["agent"] }}',
		description: 'Ask an ARK agent, and let it use the tools that are connected to this node',
		defaults: { name: 'ARK Agent' },
		// Without maxConnections, any number of tools can be connected; n8n takes the -1 of the RFC literally.
		inputs: [
			NodeConnectionTypes.Main,
			{ displayName: 'Memory', type: NodeConnectionTypes.AiMemory, maxConnections: 1, required: false },
			{ displayName: 'Tools', type: NodeConnectionTypes.AiTool, required: false },
		],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'bosunArkApi', required: true }],
		usableAsTool: true,
		properties,
	};

	methods = { loadOptions: { getAgents, getModels } };

	async execute(this: IExecuteFunctions, response?: EngineResponse): Promise<NodeOutput> {
		return await executeItems(this, response);
	}
}
