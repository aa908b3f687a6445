// The services of the sample workflows, and what the scenarios need besides: a tool that ends when the test says so, a
// counter, and a list of tickets.
import { startServices as startSampleServices } from '../../../examples/n8n/services.mjs';

/** Answers `hold` only when the test releases it, so that a test knows that a tool is running. */
export async function startServices() {
	const held = [];
	const tickets = [];
	let onHold = () => {};
	let count = 0;
	const server = await startSampleServices(0, (path, body, send) => {
		if (path === '/count') send({ count: ++count });
		else if (path === '/large') send({ text: 'x'.repeat(2_000_000) });
		else if (path === '/tickets') {
			tickets.push(body);
			send({ taken: true });
		} else if (path === '/hold') {
			held.push(() => send({ held: 'and released' }));
			onHold();
		} else return false;
		return true;
	});
	const { port } = server.address();
	return {
		url: `http://localhost:${port}`,
		port,
		/** Resolves when a tool asks for /hold. */
		holding: () => new Promise((resolve) => (held.length > 0 ? resolve() : (onHold = resolve))),
		tickets,
		release: () => held.splice(0).forEach((send) => send()),
		stop: () => server.close(),
	};
}
