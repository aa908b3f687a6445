// What the sample workflows find on the web, on this machine: a search engine, a page, a database and facts about countries.
// `node examples/n8n/services.mjs` serves it on localhost:8091.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

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

const CAPITALS = { France: 'Paris', Portugal: 'Lisbon', Japan: 'Tokyo' };

/** Serves on a port, or on a free one. Tests add paths of their own with `others`, which says whether it has answered. */
export async function startServices(port = 0, others = () => false) {
	const server = createServer(async (request, answer) => {
		const url = new URL(request.url, 'http://localhost');
		const send = (value) => answer.setHeader('content-type', 'application/json').end(JSON.stringify(value));
		if (url.pathname === '/search') return send(found(url.searchParams.get('q')));
		if (url.pathname === '/prices/rival') return send({ price: '49 EUR a seat' });
		if (url.pathname === '/capital') return send(CAPITALS[url.searchParams.get('country')] ?? 'unknown');
		if (url.pathname === '/query') return send([{ comment: 'The price went up' }, { comment: 'Too slow' }]);
		const body = request.method === 'POST' ? await json(request) : undefined;
		if (!others(url.pathname, body, send)) answer.writeHead(404).end();
	});
	server.listen(port, '127.0.0.1');
	await once(server, 'listening');
	return server;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const server = await startServices(Number(process.env.PORT ?? 8091));
	console.log(`listening on http://localhost:${server.address().port}`);
}
