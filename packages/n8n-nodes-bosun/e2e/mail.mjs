// A mail server that accepts everything: just enough SMTP for n8n to send a mail, and a way to read it.
import { once } from 'node:events';
import { createServer } from 'node:net';

export async function startMailServer() {
	const mails = [];
	let waiting = () => {};
	const server = createServer((socket) => {
		let buffer = '';
		let isData = false;
		const say = (line) => socket.write(`${line}\r\n`);
		say('220 stand-in');
		socket.on('error', () => {});
		socket.on('data', (chunk) => {
			buffer += chunk;
			for (;;) {
				const end = isData ? buffer.indexOf('\r\n.\r\n') : buffer.indexOf('\r\n');
				if (end < 0) return;
				const line = buffer.slice(0, end);
				buffer = buffer.slice(end + (isData ? 5 : 2));
				if (isData) {
					isData = false;
					mails.push(decoded(line));
					waiting();
					say('250 kept');
				} else if (/^DATA/i.test(line)) {
					isData = true;
					say('354 go on');
				} else if (/^EHLO/i.test(line)) say('250-stand-in\r\n250 AUTH PLAIN LOGIN');
				else if (/^AUTH/i.test(line)) say('235 welcome');
				else if (/^QUIT/i.test(line)) socket.end('221 bye\r\n');
				else say('250 fine');
			}
		});
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return {
		port: server.address().port,
		async next() {
			while (mails.length === 0) await new Promise((resolve) => (waiting = resolve));
			return mails.shift();
		},
		stop: () => server.close(),
	};
}

/** The text of a mail, whose lines may be folded by quoted-printable. */
function decoded(mail) {
	return mail.replace(/=\r\n/g, '').replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))).replaceAll('&amp;', '&');
}
