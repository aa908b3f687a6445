/** The lists of the node's drop-down fields. */
import type { ILoadOptionsFunctions, INodePropertyOptions } from 'n8n-workflow';

import { ArkClient } from '../../src/ark/client';

interface Listed {
	items: Array<{ name: string; description?: string | null; model?: unknown }>;
}

export async function getAgents(this: ILoadOptionsFunctions): Promise<INodePropertyOptions[]> {
	return await listed(this, '/agents');
}

export async function getModels(this: ILoadOptionsFunctions): Promise<INodePropertyOptions[]> {
	return await listed(this, '/models');
}

async function listed(context: ILoadOptionsFunctions, path: string): Promise<INodePropertyOptions[]> {
	const client = await ArkClient.open(context);
	// Without a limit, the server lists everything.
	const { body } = await client.get<Listed>(client.path(path));
	return body.items.map(({ name, description }) => ({ name, value: name, description: description ?? undefined }));
}
