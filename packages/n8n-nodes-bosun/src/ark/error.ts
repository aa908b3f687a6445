/** A refusal by the server, with its stable code (docs/errors.md). */
export class ArkError extends Error {
	constructor(
		readonly status: number,
		readonly code: string,
		message: string,
	) {
		super(message);
		this.name = 'ArkError';
	}
}

/** Reads the body of a refusal. A proxy may answer with anything, so nothing is assumed of it. */
export function refusal(status: number, body: unknown): ArkError {
	const error = (body as { error?: { code?: unknown; message?: unknown } } | undefined)?.error;
	if (typeof error?.code === 'string' && typeof error.message === 'string') {
		return new ArkError(status, error.code, error.message);
	}
	return new ArkError(status, 'http_status', `the server answered ${status}. Check the Base URL of the credential: it must be that of a Bosun or ARK server`);
}
