/** What the user of the node has to change, with how. */
export class UserFault extends Error {
	constructor(
		message: string,
		readonly description: string,
	) {
		super(message);
		this.name = 'UserFault';
	}
}

/** The value of a JSON text; nothing if it is not one. */
export function jsonOrNothing(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}
