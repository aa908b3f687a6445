// Reads /docs as a person would: in a browser, with nothing but the server within reach.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const url = process.argv[2];
assert(url, "usage: check.mjs <url of a server>");

const METHODS = ["get", "post", "put", "patch", "delete"];
const foreign = [];
const errors = [];
let browser, page, api;

before(async () => {
  api = await (await fetch(`${url}/openapi.json`)).json();
  browser = await puppeteer.launch({
    args: chromium.args,
    executablePath: await chromium.executablePath(),
    headless: "shell",
  });
  page = await browser.newPage();
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (request.url().startsWith(`${url}/`)) return request.continue();
    foreign.push(request.url());
    return request.abort();
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // The browser says this of every answer that is an error, and asks for an icon by itself.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) errors.push(message.text());
  });
  await page.goto(`${url}/docs`);
  await page.waitForSelector("details[data-words]");
});

after(async () => {
  await browser.close();
});

// What is drawn of every operation: the paths, and the texts in the cells of its tables.
function drawn() {
  return page.$$eval("section details:not([id^=schema-])", (all) =>
    all.map((details) => {
      const text = (selector) => details.querySelector(selector)?.textContent ?? "";
      const cells = [...details.querySelectorAll("td:first-child code")].map((cell) => cell.textContent);
      const twin = [...details.querySelectorAll("p")].find((line) => line.textContent.startsWith("also "));
      const hidden = details.closest("section").hidden || details.hidden;
      const form = details.querySelector("form.try") !== null;
      return { id: details.id, method: text(".method"), path: text(".path"), summary: text(".operation-summary"), twin: twin?.querySelector("code").textContent, cells, hidden, form };
    }),
  );
}

test("every operation is drawn, with its parameters and answers", async () => {
  const shown = await drawn();
  const places = new Map(shown.flatMap((it) => [[`${it.method} ${it.path}`, it], [`${it.method} ${it.twin}`, it]]));
  let operations = 0;
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((method) => item[method])) {
      operations += 1;
      const place = `${method} ${path}`;
      const found = places.get(place);
      assert(found, `${place} is not on the page`);
      assert(!found.hidden && found.form, `${place} cannot be seen or tried`);
      assert.equal(found.id.replace(/InNamespace$/, ""), item[method].operationId.replace(/InNamespace$/, ""), place);
      assert(found.summary.length > 0, `${place} has no summary`);
      const names = (item[method].parameters ?? []).map((parameter) => parameter.name);
      for (const name of [...names.filter((name) => name !== "namespace"), ...Object.keys(item[method].responses)]) {
        assert(found.cells.includes(name), `${place} does not show ${name}`);
      }
    }
  }
  assert(operations > 100, `only ${operations} operations`);
  console.log(`${operations} operations in ${shown.length} places`);
});

test("every schema is drawn", async () => {
  const shown = new Set(await page.$$eval("details[id^=schema-]", (all) => all.map((details) => details.id)));
  for (const name of Object.keys(api.components.schemas)) assert(shown.has(`schema-${name}`), name);
});

test("the search finds what has all words, and nothing else", async () => {
  await page.type("#filter", "post queries");
  const left = (await drawn()).filter((it) => !it.hidden);
  assert(left.length > 0 && left.every((it) => it.method === "post"), JSON.stringify(left));
  assert(left.some((it) => it.path === "/v1/queries"));
  await page.$eval("#filter", (input) => {
    input.value = "";
    input.dispatchEvent(new Event("input"));
  });
  assert((await drawn()).every((it) => !it.hidden));
});

// Fills the form of an operation, sends it, and gives what the page shows of the answer.
async function send(id, body) {
  const details = await page.$(`details[id="${id}"]`);
  await details.evaluate((element) => (element.open = true));
  if (body) await details.$eval("textarea", (text, value) => (text.value = value), JSON.stringify(body));
  await (await details.$("button[type=submit]")).click();
  await page.waitForFunction((id) => !["", "…"].includes(document.getElementById(id).querySelector("pre").textContent), {}, id);
  return details.$eval("pre", (answer) => answer.textContent);
}

test("a request that is sent from the page is answered on it", async () => {
  assert.match(await send("listAgents"), /^GET \/v1\/agents\n200 OK\n[^]*"math-assistant"/);
  const query = { name: "from-the-page", input: "<b>bold</b>", target: { type: "agent", name: "absent" } };
  assert.match(await send("createQuery", query), /^POST \/v1\/queries\n422 Unprocessable Entity\n[^]*"agent_not_found"/);
});

test("a key in the page is sent with the request, and the answer is shown as text", async () => {
  await page.type("#token", "<img src=x onerror=alert(1)>");
  await page.type("#namespace", "elsewhere");
  assert.match(await send("listQueries"), /^GET \/v1\/queries\?namespace=elsewhere\n404 Not Found\n[^]*Kubernetes API error: Not Found/);
  assert.equal(await page.$("main img, main b"), null);
});

test("nothing was fetched from anywhere else, and nothing went wrong", () => {
  assert.deepEqual(foreign.filter((address) => !address.startsWith("data:")), []);
  assert.deepEqual(errors, []);
});
