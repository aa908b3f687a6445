/**
 * The node's execution: one query for each item.
 *
 * It is entered again, from the first item, whenever n8n's engine has run something for it. It then creates the same
 * queries again, which is idempotent, and continues from what the server answers. Nothing is remembered in between but the
 * names of the queries and which items are finished.
 */
import { randomUUID } from 'crypto';
import { NodeOperationError } from 'n8n-workflow';
import type { EngineRequest, EngineResponse, IDataObject, IExecuteFunctions, INodeExecutionData } from 'n8n-workflow';

import { ArkClient } from '../ark/client';
import type { ArkAnswer } from '../ark/client';
import { ArkError } from '../ark/error';
import { hasEnded } from '../ark/wire';
import type { ArkQuery, CreateQuery } from '../ark/wire';
import { readResponse } from '../engine/actions';
import type { Action, ActionMetadata } from '../engine/actions';
import { collectTools } from '../tools/collect';
import { Toolbox } from '../tools/toolbox';
import { UserFault } from './fault';
import { handOver, takeBack } from './handedOver';
import { deliverAnswers, runToEnd, WAIT_SECONDS } from './loop';
import { ConnectedMemory } from './memory';
import { queryName } from './name';
import type { RunIdentity } from './name';
import { outputOf } from './output';
import { createBody, filledIn, isToolVariant, readParameters } from './request';
import type { ItemParameters } from './request';
import { TextStream } from './streamText';
import { findWaiting } from './waiting';

/** Seconds that a tool may take, unless the node says otherwise. */
const TOOL_TIMEOUT = 30;
/** How often a failed execution may be repeated under new names. */
const MOST_ATTEMPTS = 100;

/** What is kept between entries of the node. */
interface Reentry {
	/** The names of queries by item. */
	queries: Record<number, string>;
	/** Items whose answer was streamed and saved to the memory. */
	finished: number[];
	/** Items whose query an earlier execution had left waiting. */
	resumed: number[];
}

type Metadata = ActionMetadata | Reentry;

type QueryBody = Omit<CreateQuery, 'name'>;

export async function executeItems(context: IExecuteFunctions, response?: EngineResponse<unknown>): Promise<INodeExecutionData[][] | EngineRequest> {
	const run = await ItemRun.open(context, response as EngineResponse<Metadata> | undefined);
	const outputs: INodeExecutionData[] = [];
	for (let itemIndex = 0; itemIndex < context.getInputData().length; itemIndex++) {
		try {
			const end = await run.item(itemIndex);
			if ('actions' in end) return { actions: end.actions, metadata: run.reentry } as EngineRequest;
			outputs.push({ json: end.json, pairedItem: { item: itemIndex } });
		} catch (error) {
			const fault = explained(context, error, itemIndex);
			if (!context.continueOnFail()) throw fault;
			outputs.push({ json: { error: fault.message, description: fault.description ?? undefined }, error: fault, pairedItem: { item: itemIndex } });
		}
	}
	return [outputs];
}

class ItemRun {
	readonly reentry: Reentry;

	/** The name of the query that a stopped execution must cancel. It is known before the query exists. */
	private asked: string | undefined;

	private constructor(
		private readonly context: IExecuteFunctions,
		private readonly client: ArkClient,
		private readonly signal: AbortSignal | undefined,
		private readonly response: EngineResponse<ActionMetadata> | undefined,
	) {
		const metadata = response?.metadata as Partial<Reentry> | undefined;
		this.reentry = { queries: { ...metadata?.queries }, finished: [...(metadata?.finished ?? [])], resumed: [...(metadata?.resumed ?? [])] };
	}

	static async open(context: IExecuteFunctions, response?: EngineResponse<Metadata>): Promise<ItemRun> {
		const signal = context.getExecutionCancelSignal();
		const answered = response?.actionResponses?.length ? (response as EngineResponse<ActionMetadata>) : undefined;
		return new ItemRun(context, await ArkClient.open(context, signal), signal, answered);
	}

	async item(itemIndex: number): Promise<{ json: IDataObject } | { actions: Action[] }> {
		const parameters = readParameters(this.context, itemIndex);
		const { options, toolSource } = parameters;
		const toolbox = new Toolbox(async () => (toolSource === 'ark' ? [] : await collectTools(this.context, itemIndex)), {
			timeoutMs: (options.toolTimeout ?? TOOL_TIMEOUT) * 1000,
			cacheMs: (options.cacheSeconds ?? 0) * 1000,
			signal: this.signal,
		});
		const memory = isToolVariant(this.context) ? undefined : await ConnectedMemory.open(this.context, itemIndex);
		if (memory !== undefined && options.memory) {
			throw new UserFault('The node has two memories', 'Disconnect the memory node, or remove the option Memory, which names one of the server.');
		}
		if (options.waitForAnswer === false) return { json: await this.createOnly(parameters, toolbox, memory, itemIndex) };

		const isFinished = this.reentry.finished.includes(itemIndex);
		const isStreaming = !isFinished && this.isStreaming(parameters);
		const durations = new Map<string, string>();
		const stopped = () => void this.cancel(this.asked);
		this.signal?.addEventListener('abort', stopped, { once: true });
		let text: TextStream | undefined;
		try {
			let query = await this.find(parameters, toolbox, memory, itemIndex, isStreaming ? 0 : WAIT_SECONDS);
			const warnings = query.warnings ?? [];
			text = isStreaming ? this.streamText(query.name, itemIndex) : undefined;
			if (this.response !== undefined && !hasEnded(query.status)) {
				const answered = readResponse(this.response, itemIndex);
				query = await deliverAnswers(query, answered, this.client, durations);
				if (answered.next.length > 0) return this.handOver(query.name, answered.next);
			}
			const end = await runToEnd(query, { client: this.client, toolbox, itemIndex, durations });
			if ('actions' in end) return this.handOver(query.name, end.actions);
			text?.finish(end.query.response);
			if (text) this.context.sendChunk('end', itemIndex);
			if (end.query.status !== 'completed') throw queryFailed(this.context, end.query, itemIndex);
			if (!isFinished) {
				await memory?.save(filledIn(parameters), end.query.response ?? '');
				this.reentry.finished.push(itemIndex);
			}
			const tools = await toolbox.tools();
			this.hint(warnings, tools.map(({ name }) => name));
			return { json: outputOf(end.query, parameters, { connectedTools: tools.length, warnings, durations, isResumed: this.reentry.resumed.includes(itemIndex) }) };
		} finally {
			text?.finish(undefined);
			this.signal?.removeEventListener('abort', stopped);
			this.asked = undefined;
		}
	}

	private handOver(queryName: string, actions: Action[]): { actions: Action[] } {
		handOver(this.signal, queryName, () => void this.cancel(queryName));
		return { actions };
	}

	/** The query of an item: that of the entry before, left waiting by an earlier execution, or created now. */
	private async find(parameters: ItemParameters, toolbox: Toolbox, memory: ConnectedMemory | undefined, itemIndex: number, waitSeconds: number): Promise<ArkQuery> {
		const known = this.reentry.queries[itemIndex];
		if (known !== undefined) return await this.createAgain(known, parameters, toolbox, memory, itemIndex);
		const left = parameters.options.resumeWaiting ? await this.leftWaiting(parameters, itemIndex) : undefined;
		if (left !== undefined) this.reentry.resumed.push(itemIndex);
		const query = left ?? (await this.create(parameters, toolbox, memory, itemIndex, waitSeconds));
		this.reentry.queries[itemIndex] = query.name;
		this.asked = query.name;
		return query;
	}

	/**
	 * Posts the same create under the same name.
	 *
	 * The query is read instead if this execution did not create it, or if its create can no longer be repeated: a memory
	 * has more messages by now, an expression such as `$now` has another value, or the agent is gone.
	 */
	private async createAgain(name: string, parameters: ItemParameters, toolbox: Toolbox, memory: ConnectedMemory | undefined, itemIndex: number): Promise<ArkQuery> {
		this.asked = name;
		takeBack(this.signal, name);
		if (!this.reentry.resumed.includes(itemIndex)) {
			const body = await this.body(parameters, toolbox, memory, itemIndex);
			const answer = await this.post(name, body, 0).catch(ifRefused);
			if (answer !== REFUSED) return answer.body;
		}
		return (await this.client.get<ArkQuery>(this.client.path(`/queries/${name}`), { query: { view: 'rfc' } })).body;
	}

	private async leftWaiting(parameters: ItemParameters, itemIndex: number): Promise<ArkQuery | undefined> {
		const { sessionId, agent } = parameters;
		if (sessionId === '') throw new UserFault('A waiting query is found by its session, and the Session ID is empty', 'Fill in the Session ID, or turn "Resume Waiting Query" off.');
		const { n8n_execution_id: executionId, n8n_workflow_id, n8n_node_id, n8n_item } = this.labels(parameters, itemIndex);
		const labels = Object.fromEntries(Object.entries({ n8n_workflow_id, n8n_node_id, n8n_item }).filter(([, value]) => value !== undefined));
		return await findWaiting(this.client, { sessionId, agent, labels, executionId });
	}

	/**
	 * Creates the query, or finds the one that this very run has created.
	 *
	 * A query that had already ended badly belongs to an earlier attempt ("Retry On Fail"), and one that asks something
	 * else to another n8n with the same numbers; both get a successor.
	 */
	private async create(parameters: ItemParameters, toolbox: Toolbox, memory: ConnectedMemory | undefined, itemIndex: number, waitSeconds: number): Promise<ArkQuery> {
		const body = await this.body(parameters, toolbox, memory, itemIndex);
		for (let attempt = 1; ; attempt++) {
			const name = queryName(this.identity(itemIndex), itemIndex, attempt);
			this.asked = name;
			const answer = await this.post(name, body, waitSeconds).catch(ifTaken);
			const isOver = answer === TAKEN || (answer.replayed && hasEnded(answer.body.status) && answer.body.status !== 'completed');
			if (answer !== TAKEN && (!isOver || attempt === MOST_ATTEMPTS)) return answer.body;
			if (attempt === MOST_ATTEMPTS) throw new UserFault(`The server has ${attempt} other queries of this execution`, 'Delete them, or run the workflow again.');
		}
	}

	private async body(parameters: ItemParameters, toolbox: Toolbox, memory: ConnectedMemory | undefined, itemIndex: number): Promise<QueryBody> {
		return createBody(parameters, await toolbox.tools(), this.labels(parameters, itemIndex), await memory?.messages());
	}

	private async post(name: string, body: QueryBody, waitSeconds: number): Promise<ArkAnswer<ArkQuery>> {
		const request = { query: { wait: `${waitSeconds}s`, view: 'rfc' }, body: { name, ...body } };
		return await this.client.post<ArkQuery>(this.client.path('/queries'), request);
	}

	private async createOnly(parameters: ItemParameters, toolbox: Toolbox, memory: ConnectedMemory | undefined, itemIndex: number): Promise<IDataObject> {
		if ((await toolbox.tools()).length > 0) {
			throw new UserFault('The tools that are connected to this node run in it, so it must wait for the answer', 'Turn "Wait for Answer" on, or set Tool Source to "ARK Tools Only".');
		}
		const query = await this.create(parameters, toolbox, memory, itemIndex, 0);
		return { queryName: query.name, status: query.status, agentName: parameters.agent, input: parameters.input };
	}

	/** n8n evaluates the subtitle of a node without its connections, so the number of tools is shown here. */
	private hint(warnings: string[], tools: string[]): void {
		if (tools.length > 0) {
			const message = `${tools.length} connected ${tools.length === 1 ? 'tool' : 'tools'}: ${tools.join(', ')}`;
			this.context.addExecutionHints({ message, location: 'outputPane', type: 'info' });
		}
		for (const message of warnings) this.context.addExecutionHints({ message, location: 'outputPane', type: 'warning' });
	}

	private identity(itemIndex: number): RunIdentity {
		return {
			instanceId: this.context.getInstanceId(),
			workflowId: this.context.getWorkflow().id ?? '',
			// An execution that is not saved has no number; then nothing can be repeated either.
			executionId: this.context.getExecutionId() ?? `unsaved-${randomUUID()}`,
			nodeId: this.context.getNode().id,
			runIndex: Number(this.context.evaluateExpression('{{ $runIndex }}', itemIndex) ?? 0),
		};
	}

	private labels({ sessionId }: ItemParameters, itemIndex: number): Record<string, string> {
		const workflow = this.context.getWorkflow();
		const labels: Record<string, string | undefined> = {
			n8n_workflow_id: workflow.id,
			n8n_workflow_name: workflow.name,
			n8n_execution_id: this.context.getExecutionId(),
			n8n_node: this.context.getNode().name,
			n8n_node_id: this.context.getNode().id,
			n8n_item: String(itemIndex),
			n8n_session_id: sessionId || undefined,
		};
		return Object.fromEntries(Object.entries(labels).filter((entry): entry is [string, string] => Boolean(entry[1])));
	}

	private isStreaming({ options }: ItemParameters): boolean {
		return options.streamText !== false && this.context.isStreaming?.() === true;
	}

	private streamText(queryName: string, itemIndex: number): TextStream {
		const begin = () => this.context.sendChunk('begin', itemIndex);
		const text = (chunk: string) => this.context.sendChunk('item', itemIndex, chunk);
		// The agent of n8n begins and ends each turn likewise.
		const separate = () => {
			this.context.sendChunk('end', itemIndex);
			begin();
		};
		begin();
		return TextStream.open(this.client, queryName, { text, separate });
	}

	/** A stopped execution reads no answer, so none should be paid for. */
	private async cancel(name: string | undefined): Promise<void> {
		if (name === undefined) return;
		try {
			await this.client.postAfterStop(this.client.path(`/queries/${name}/cancel`));
		} catch (error) {
			this.context.logger.warn(`The query ${name} could not be cancelled: ${(error as Error).message}`);
		}
	}
}

const TAKEN = Symbol('the name belongs to another query');

function ifTaken(error: unknown): typeof TAKEN {
	if (error instanceof ArkError && error.code === 'query_exists') return TAKEN;
	throw error;
}

const REFUSED = Symbol('the server does not create the query');

function ifRefused(error: unknown): typeof REFUSED {
	if (error instanceof ArkError && error.status >= 400) return REFUSED;
	throw error;
}

function queryFailed(context: IExecuteFunctions, { status, error, name }: ArkQuery, itemIndex: number): NodeOperationError {
	const message = status === 'cancelled' ? 'The query was cancelled' : `The query failed: ${error?.message ?? 'the server gives no reason'}`;
	return new NodeOperationError(context.getNode(), message, { itemIndex, description: `Query ${name}${error ? `, code ${error.code}` : ''}` });
}

function explained(context: IExecuteFunctions, error: unknown, itemIndex: number): NodeOperationError {
	if (error instanceof NodeOperationError) return error;
	const description = error instanceof ArkError ? `The server answered with the code ${error.code}` : (error as Partial<UserFault>).description;
	return new NodeOperationError(context.getNode(), error as Error, { itemIndex, message: (error as Error).message, description });
}
