// The editor of n8n in a real browser, as a user sees it.
import { join } from 'node:path';
import chromium from '@sparticuz/chromium';
import puppeteer from 'puppeteer-core';

import { REPOSITORY } from '../lib.mjs';

/** Only the newest version is shown in the docs, and only when new pictures are wanted. */
const isPhotographed = Boolean(process.env.E2E_SCREENSHOTS);

const PATIENCE_MS = 180_000;

export async function openEditor(n8n) {
	const browser = await puppeteer.launch({ args: chromium.args, executablePath: await chromium.executablePath(), headless: 'shell', defaultViewport: { width: 1280, height: 800 } });
	const page = await browser.newPage();
	// The editor is many files, and machines that test are busy.
	page.setDefaultTimeout(PATIENCE_MS);
	const [name, value] = n8n.cookie.split('=');
	await browser.setCookie({ name, value, domain: '127.0.0.1', path: '/', httpOnly: true });
	// n8n binds a session to the browser that logged in.
	await page.evaluateOnNewDocument(() => localStorage.setItem('n8n-browserId', 'e2e'));
	const node = (title) => `[data-test-id="canvas-node"][data-node-name="${title}"]`;

	return {
		async open(workflowId) {
			await page.goto(`${n8n.url}/workflow/${workflowId}`, { waitUntil: 'domcontentloaded' });
			await page.waitForSelector(node('ARK Agent'));
			await page.waitForSelector('[data-test-id="edge"]');
			// A list of advice that newer versions lay over the canvas.
			await (await page.$('[data-test-id="suggested-actions-close"]'))?.click();
		},

		/** The connection points of a node, as the canvas calls them. */
		async handles(title) {
			return await page.$eval(node(title), (element) => {
				const types = (mode) => [...element.querySelectorAll(`[data-test-id="canvas-node-${mode}-handle"]`)].map((handle) => handle.dataset.connectionType).sort();
				return { inputs: types('input'), outputs: types('output') };
			});
		},

		async isConnected(source, target) {
			return (await page.$(`[data-source-node-name="${source}"][data-target-node-name="${target}"]`)) !== null;
		},

		async textOf(title) {
			return await page.$eval(node(title), (element) => element.textContent);
		},

		async openNode(title) {
			const box = await (await page.$(node(title))).boundingBox();
			await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2, { count: 2 });
			await page.waitForSelector('[data-test-id="parameter-input"]');
		},

		async panelText() {
			return await page.$eval('[data-test-id="ndv"], [data-test-id="node-parameters"]', (panel) => panel.textContent);
		},

		async screenshot(name) {
			if (isPhotographed) await page.screenshot({ path: join(REPOSITORY, 'docs/images', `${name}.png`) });
		},
		close: async () => await browser.close(),
	};
}
