import { NodeConnectionTypes, NodeOperationError } from 'n8n-workflow';
import type { IDataObject, INodeType, INodeTypeDescription, IRun, ITriggerFunctions, ITriggerResponse } from 'n8n-workflow';

import { ArkClient } from '../../src/ark/client';
import type { ArkError } from '../../src/ark/error';
import type { Outcome } from '../../src/tools/outcome';
import { answerOf } from '../../src/worker/answer';
import { Worker } from '../../src/worker/serve';
import type { ClaimedCall } from '../../src/worker/wire';
import { getExternalTools } from './lists';
import { properties } from './properties';

export class ArkToolWorker implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'ARK Tool Worker',
		name: 'arkToolWorker',
		icon: { light: 'file:../../icons/ark.svg', dark: 'file:../../icons/ark.dark.svg' },
		group: ['trigger'],
		version: 1,
		subtitle: '={{ [].concat($parameter["tools"]).join(", ") }}',
		description: 'Serve a tool of ARK agents with this workflow: it starts with each call, and answers with its last item',
		defaults: { name: 'ARK Tool Worker' },
		inputs: [],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'bosunArkApi', required: true }],
		properties,
	};

	methods = { loadOptions: { getExternalTools } };

	async trigger(this: ITriggerFunctions): Promise<ITriggerResponse> {
		const tools = [this.getNodeParameter('tools') as string[] | string].flat().filter(Boolean);
		if (tools.length === 0) throw new NodeOperationError(this.getNode(), 'No tool is chosen', { description: 'Choose the tools that this workflow serves. They are declared with type: external on the server.' });
		const isManual = this.getMode() === 'manual';
		const options = {
			tools,
			// In the editor, an execution has one call: n8n would give its answer to every other one that waits for it.
			concurrency: isManual ? 1 : (this.getNodeParameter('concurrency', 5) as number),
			leaseSeconds: this.getNodeParameter('leaseSeconds', 60) as number,
		};
		// Not awaited: n8n ends an execution of the editor only after the trigger is closed, and the call waits for that end.
		const close = async () => void worker.stop().catch((error: Error) => this.logger.warn(`The worker has not stopped cleanly: ${error.message}`));
		const worker: Worker = new Worker(await ArkClient.open(this), options, {
			run: async (call) => {
				if (isManual) await close();
				return await runWorkflow(this, call);
			},
			refused: (error: ArkError) => this.emitError(new NodeOperationError(this.getNode(), error, { message: error.message, description: `The server answered with the code ${error.code}` })),
			warn: (message) => this.logger.warn(message),
		});
		if (isManual) return { closeFunction: close, manualTriggerFunction: async () => void worker.serve() };
		void worker.serve();
		return { closeFunction: async () => await worker.stop() };
	}
}

/** Starts an execution with the call, and waits for its end. */
async function runWorkflow(context: ITriggerFunctions, call: ClaimedCall): Promise<Outcome> {
	const { id, name, arguments: args, queryName, attempt, deadline } = call;
	// Not `arguments`: n8n refuses expressions that read a field of that name.
	const done = context.helpers.createDeferredPromise<IRun>();
	context.emit([[{ json: { toolCallId: id, toolName: name, args: args as IDataObject, queryName, attempt, deadline } }]], undefined, done);
	return answerOf(await done.promise);
}
