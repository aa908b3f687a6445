/** The tools that workers may serve. */
import type { ILoadOptionsFunctions, INodePropertyOptions } from 'n8n-workflow';

import { ArkClient } from '../../src/ark/client';

interface ListedTools {
	items: Array<{ name: string; description?: string | null; binding?: string }>;
}

export async function getExternalTools(this: ILoadOptionsFunctions): Promise<INodePropertyOptions[]> {
	const client = await ArkClient.open(this);
	const { body } = await client.get<ListedTools>(client.path('/tools'), { query: { limit: 1000 } });
	return body.items.filter(({ binding }) => binding === 'external').map(({ name, description }) => ({ name, value: name, description: description ?? undefined }));
}
