/**
 * What a tool returned, as a result for the agent.
 *
 * One tool answers in several shapes: a node-as-tool gives `[{…}]` when it is invoked and `{…}` when the engine runs
 * it, an agent tool wraps its text in `output`, MCP sends content blocks. The agent reads the value alone.
 */
import { isObject } from './schema';

export type Outcome = { success: true; result: unknown } | { success: false; error: string };

/** Texts that tools return, as if it were a result, when they have failed. */
const FAILURES: RegExp[] = [
	/^There was an error: "/, // Code Tool, Workflow Tool
	/^Error: /, // AI Agent Tool, MCP Client
	/^I don't know how to do that\.$/, // Calculator
];

/** The outcome of a tool that returned. */
export function toOutcome(returned: unknown): Outcome {
	const result = unwrapped(typeof returned === 'string' ? parsedIfJson(returned) : returned);
	if (typeof result === 'string') return FAILURES.some((failure) => failure.test(result)) ? { success: false, error: result } : { success: true, result };
	// JSON has no `undefined`, and a result must be something.
	if (result === undefined || result === null) return { success: true, result: '' };
	const fault = notJson(result);
	return fault === undefined ? { success: true, result } : { success: false, error: `The tool returned what JSON cannot hold: ${fault}` };
}

/** Why a value cannot be sent: an object that contains itself, a function. (n8n lets JSON write a BigInt as text.) */
function notJson(value: unknown): string | undefined {
	try {
		return JSON.stringify(value) === undefined ? `a ${typeof value}` : undefined;
	} catch (error) {
		return (error as Error).message;
	}
}

/** The outcome of a tool that threw. */
export function toFailure(thrown: unknown): Outcome {
	// The engine hands errors over as plain objects.
	const { message, name, description } = isObject(thrown) ? thrown : { message: String(thrown) };
	const details = typeof description === 'string' && description !== '' && description !== message ? ` (${description})` : '';
	return { success: false, error: `${message || name || 'the tool failed without a reason'}${details}` };
}

function parsedIfJson(text: string): unknown {
	if (!/^\s*[[{]/.test(text)) return text;
	try {
		const value: unknown = JSON.parse(text);
		return isExact(text, value) ? value : text;
	} catch {
		return text;
	}
}

/** Digits of which a number of JavaScript may lose some. */
const LONG_NUMBER = /\d{16,}/g;

/** Whether a value is what its text says: a long id, written as a number, is rounded when it is parsed. */
function isExact(text: string, value: unknown): boolean {
	const digits = text.match(LONG_NUMBER);
	return digits === null || String(digits) === String(JSON.stringify(value).match(LONG_NUMBER));
}

function unwrapped(value: unknown): unknown {
	if (Array.isArray(value)) {
		if (value.length > 0 && value.every(isTextBlock)) return unwrapped(parsedIfJson(value.map((block) => block.text).join('\n')));
		return value.length === 1 ? unwrapped(value[0]) : value;
	}
	if (isObject(value)) {
		const keys = Object.keys(value);
		if (keys.length === 1 && (keys[0] === 'output' || keys[0] === 'response')) return unwrapped(value[keys[0]]);
	}
	return value;
}

/** A text of MCP. */
function isTextBlock(value: unknown): value is { type: 'text'; text: string } {
	return isObject(value) && value.type === 'text' && typeof value.text === 'string';
}
