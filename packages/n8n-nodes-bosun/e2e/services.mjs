// What the sample workflows find on the web, on loopback: a search engine, a page, a database and facts about countries.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

/** SearXNG's answer to a search, as far as n8n's tool reads it. */
const found = (query) => ({
	query,
	number_of_results: 1,
	results: [{ url: 'http://localhost/rival', title: 'Rival CRM', content: `Rival CRM, about ${query}`, engine: 'stand-in', score: 1, category: 'general', parsed_url: [], template: 'default.html', engines: ['stand-in'], positions: [1] }],
	answers: [],
	corrections: [],
	infoboxes: [],
	suggestions: [],
	unresponsive_engines: [],
});

/** Answers `hold` only when the test releases it, so that a test knows that a tool is running. */
export async function startServices() {
	const held = [];
	const tickets = [];
	let onHold = () => {};
	const server = createServer(async (request, answer) => {
		const url = new URL(request.url, 'http://localhost');
		const send = (value) => answer.setHeader('content-type', 'application/json').end(JSON.stringify(value));
		if (url.pathname === '/search') return send(found(url.searchParams.get('q')));
		if (url.pathname === '/prices/rival') return send({ price: '49 EUR a seat' });
		if (url.pathname === '/capital') return send({ France: 'Paris' }[url.searchParams.get('country')]);
		if (url.pathname === '/query') return send([{ comment: 'The price went up' }, { comment: 'Too slow' }]);
		if (url.pathname === '/tickets') {
			tickets.push(await json(request));
			return send({ taken: true });
		}
		if (url.pathname === '/hold') {
			held.push(() => send({ held: 'and released' }));
			return onHold();
		}
		answer.writeHead(404).end();
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return {
		url: `http://localhost:${server.address().port}`,
		port: server.address().port,
		/** Resolves when a tool asks for /hold. */
		holding: () => new Promise((resolve) => (held.length > 0 ? resolve() : (onHold = resolve))),
		tickets,
		release: () => held.splice(0).forEach((send) => send()),
		stop: () => server.close(),
	};
}
