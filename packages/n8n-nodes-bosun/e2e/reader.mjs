// The shell of a reader who follows a page of the docs: in a checkout, with a home of their own.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { freePort, Program, REPOSITORY, until } from './lib.mjs';

export class ReaderShell {
	/** `server` is where `bosun query` asks. */
	constructor(folder, server) {
		this.home = mkdtempSync(join(folder, 'reader-'));
		const bin = join(this.home, 'bin');
		mkdirSync(bin);
		// Program and package are built already; the reader finds the program where `make install` puts it.
		for (const [name, script] of Object.entries({ make: ':', cargo: ':', bosun: `exec '${process.env.BOSUN}' "$@"` })) {
			writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
		}
		this.env = { ...process.env, BOSUN_SERVER: server, HOME: this.home, PATH: `${bin}:${process.env.PATH}` };
	}

	/** Runs a command to its end, with the addresses of this run, some of which this process serves, and returns what it prints. */
	async run(command, addresses) {
		let here = command.replaceAll('curl ', 'curl --fail-with-body --silent ');
		for (const [printed, real] of Object.entries(addresses)) here = here.replaceAll(printed, real);
		return (await promisify(execFile)('sh', ['-ec', here], { cwd: REPOSITORY, env: this.env, timeout: 120_000 })).stdout;
	}

	/** Starts what runs in a terminal of its own, on a free port, and stops it as soon as it answers. */
	async startAndStop(command) {
		const port = await freePort();
		const listen = command.startsWith('bosun') ? ` --listen 127.0.0.1:${port}` : '';
		const data = command.startsWith('bosun serve') ? ` --data '${this.home}/data'` : '';
		const program = new Program('reader', 'sh', ['-ec', `cd '${REPOSITORY}' && exec ${command}${listen}${data}`], { folder: this.home, env: { ...this.env, PORT: String(port) } });
		await until(command, async () => await fetch(`http://127.0.0.1:${port}/`).then(() => true, () => false));
		await program.stop();
	}
}
