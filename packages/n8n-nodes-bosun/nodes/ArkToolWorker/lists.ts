/** The tools that workers may serve. */
import type { ILoadOptionsFunctions, INodePropertyOptions } from 'n8n-workflow';

import { ArkClient } from '../../src/ark/client';

interface ListedTools {
	items: Array<{ name: string; description?: string | null; binding?: string }>;
}

export async function getExternalTools(this: ILoadOptionsFunctions): Promise<INodePropertyOptions[]> {
	const client = await ArkClient.open(this);
	// Without a limit, the server lists everything.
	const { body } = await client.get<ListedTools>(client.path('/tools'));
	return body.items.filter(({ binding }) => binding === 'external').map(({ name, description }) => ({ name, value: name, description: description ?? undefined }));
}
