// A server that has too many requests: it answers the first of each kind with 429, and passes the others on to Bosun.
import { once } from 'node:events';
import { createServer, request } from 'node:http';

export async function startBusyProxy(target) {
	const refused = [];
	const server = createServer((incoming, outgoing) => {
		const { pathname } = new URL(incoming.url, target);
		const kind = `${incoming.method} ${pathname}`;
		if (!refused.includes(kind)) {
			refused.push(kind);
			incoming.resume();
			return outgoing.writeHead(429, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { code: 'rate_limited', message: 'too many requests' } }));
		}
		const forwarded = request(new URL(incoming.url, target), { method: incoming.method, headers: { ...incoming.headers, host: new URL(target).host } }, (answer) => {
			outgoing.writeHead(answer.statusCode, answer.headers);
			answer.pipe(outgoing);
		});
		incoming.pipe(forwarded);
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return { url: `http://127.0.0.1:${server.address().port}`, refused, stop: () => server.close() };
}
