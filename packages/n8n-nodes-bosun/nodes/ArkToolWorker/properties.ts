import type { INodeProperties } from 'n8n-workflow';

import { MOST_CALLS, MOST_LEASE_SECONDS } from '../../src/worker/serve';

export const properties: INodeProperties[] = [
	{
		displayName: 'Tool Names or IDs',
		name: 'tools',
		type: 'multiOptions',
		typeOptions: { loadOptionsMethod: 'getExternalTools' },
		default: [],
		required: true,
		description: 'Choose from the list, or specify IDs using an <a href="https://docs.n8n.io/code/expressions/">expression</a>',
	},
	{
		displayName: 'Concurrency',
		name: 'concurrency',
		type: 'number',
		typeOptions: { minValue: 1, maxValue: MOST_CALLS },
		default: 5,
		description: 'How many calls run at the same time',
	},
	{
		displayName: 'Lease (Seconds)',
		name: 'leaseSeconds',
		type: 'number',
		typeOptions: { minValue: 5, maxValue: MOST_LEASE_SECONDS },
		default: 60,
		description: 'How long a call is reserved for this workflow without a heartbeat from n8n. It is extended while the workflow runs.',
	},
];
