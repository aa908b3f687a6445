import type { IAuthenticate, ICredentialDataDecryptedObject, ICredentialTestRequest, ICredentialType, IHttpRequestOptions, INodeProperties, Icon } from 'n8n-workflow';

import { authorization } from '../src/ark/client';
import type { ArkCredential } from '../src/ark/client';

/**
 * The address of a server, and the key to it.
 *
 * The name differs from that of n8n-nodes-ark on purpose: credential types of all packages share one list in n8n, and
 * one without authentication would replace this one where both packages are installed. The fields are the same.
 */
export class BosunArkApi implements ICredentialType {
	name = 'bosunArkApi';

	displayName = 'ARK API';

	icon: Icon = { light: 'file:../icons/ark.svg', dark: 'file:../icons/ark.dark.svg' };

	documentationUrl = 'https://github.com/mckinsey/agents-at-scale-ark';

	properties: INodeProperties[] = [
		{
			displayName: 'Base URL',
			name: 'baseUrl',
			type: 'string',
			default: 'http://localhost:8080',
			required: true,
			description: 'The address of the server. From n8n in a container, localhost is the container itself.',
		},
		{
			displayName: 'Namespace',
			name: 'namespace',
			type: 'string',
			default: '',
			placeholder: 'default',
			description: 'Where agents and queries are. Empty: that of the key, or default.',
		},
		{
			displayName: 'Authentication',
			name: 'authScheme',
			type: 'options',
			options: [
				{ name: 'None', value: 'none', description: 'For a server without keys, on the same machine' },
				{ name: 'Bearer Token', value: 'bearer', description: 'The secret half of a key, or a token of your identity provider' },
				{ name: 'Key Pair', value: 'basic', description: 'Both halves of a key' },
			],
			default: 'none',
		},
		{
			displayName: 'Bearer Token',
			name: 'bearerToken',
			type: 'string',
			typeOptions: { password: true },
			default: '',
			placeholder: 'sk-ark-…',
			displayOptions: { show: { authScheme: ['bearer'] } },
		},
		{
			displayName: 'Key Pair',
			name: 'apiKey',
			type: 'string',
			typeOptions: { password: true },
			default: '',
			placeholder: 'pk-ark-…:sk-ark-…',
			description: 'Both halves with a colon between them, as "bosun keys create" prints them',
			displayOptions: { show: { authScheme: ['basic'] } },
		},
	];

	authenticate: IAuthenticate = async (credentials: ICredentialDataDecryptedObject, options: IHttpRequestOptions) => ({
		...options,
		headers: { ...options.headers, ...authorization(credentials as unknown as ArkCredential) },
	});

	test: ICredentialTestRequest = {
		request: { baseURL: '={{$credentials.baseUrl.replace(/\\/+$/, "")}}', url: '/v1/whoami' },
	};
}
