"use strict";

// Draws the description of the API, and sends requests to try it. Every text is set as text: nothing that
// a document or an answer says becomes part of the page's own code.

const METHODS = ["get", "post", "put", "patch", "delete"];

/** An element with a class, texts and other elements in it. */
function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== undefined && child !== null));
  return made;
}

/** The operations of a document; those in a namespace are listed once, with both of their paths. */
function operationsOf(api) {
  const found = [];
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS) {
      if (item[method]) found.push({ method, path, ...item[method] });
    }
  }
  const twins = new Map(found.map((operation) => [operation.operationId, operation]));
  const shown = found.filter((operation) => {
    const short = operation.operationId.replace(/InNamespace$/, "");
    if (short === operation.operationId || !twins.has(short)) return true;
    twins.get(short).twin = operation.path;
    return false;
  });
  return { all: found, shown };
}

/** A schema in one line, as far as one line goes. */
function brief(schema, api, depth = 0) {
  if (schema === true || !schema || Object.keys(schema).length === 0) return "anything";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = schema.anyOf || schema.oneOf;
  if (choices && !schema.properties) return choices.map((choice) => brief(choice, api, depth + 1)).join(" | ");
  const type = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type;
  if (type === "array") return `list of ${brief(schema.items, api, depth + 1)}`;
  if (schema.pattern) return `${type} ${schema.pattern}`;
  return schema.format ? `${type} (${schema.format})` : type || "anything";
}

/** The fields of a schema as a table. */
function fieldTable(schema, api) {
  let read = schema;
  while (read && read.$ref) read = api.components.schemas[read.$ref.split("/").pop()];
  if (!read) return element("p", {}, "anything");
  const parts = [read, ...(read.allOf || []), ...(read.anyOf || []), ...(read.oneOf || [])];
  const rows = new Map();
  for (const part of parts) {
    for (const [name, field] of Object.entries(part.properties || {})) {
      const needed = (part.required || []).includes(name);
      if (!rows.has(name)) rows.set(name, { field, needed });
    }
  }
  if (rows.size === 0) return element("p", {}, element("code", {}, brief(schema, api)));
  const head = element("tr", {}, ...["field", "type", ""].map((text) => element("th", { scope: "col" }, text)));
  const body = [...rows].map(([name, { field, needed }]) =>
    element(
      "tr",
      {},
      element("td", {}, element("code", {}, name)),
      element("td", {}, element("code", {}, brief(field, api))),
      element("td", {}, [needed ? "required" : "", field.description || ""].filter(Boolean).join(" · ")),
    ),
  );
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

/** A body to begin with: the example, or the required fields. */
function exampleOf(content, api) {
  if (!content) return undefined;
  if (content.example) return JSON.stringify(content.example, null, 2);
  let schema = content.schema;
  while (schema && schema.$ref) schema = api.components.schemas[schema.$ref.split("/").pop()];
  const fields = (schema && schema.required) || [];
  return JSON.stringify(Object.fromEntries(fields.map((name) => [name, ""])), null, 2);
}

/** The form that sends an operation's request and shows the answer. */
function tryForm(operation, api) {
  const inputs = [];
  const form = element("form", { class: "try" });
  for (const parameter of operation.parameters || []) {
    if (parameter.in === "header" || parameter.name === "namespace") continue;
    const input = element("input", { autocomplete: "off", required: parameter.required });
    inputs.push([parameter, input]);
    form.append(element("label", {}, parameter.name, input));
  }
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  const text = content ? element("textarea", { spellcheck: "false" }) : undefined;
  if (text) text.value = exampleOf(content, api);
  const answer = element("pre", { hidden: true, tabindex: "0", role: "status" });
  const send = element("button", { type: "submit" }, "Send");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    answer.hidden = false;
    answer.textContent = "…";
    try {
      answer.textContent = await request(operation, inputs, text);
    } catch (error) {
      answer.textContent = String(error);
    } finally {
      send.disabled = false;
    }
  });
  if (text) form.append(element("label", {}, "body", text));
  form.append(send);
  return element("div", {}, element("h4", {}, "Try it"), form, answer);
}

async function request(operation, inputs, text) {
  let path = operation.path;
  const query = new URLSearchParams();
  const namespace = document.getElementById("namespace").value.trim();
  if (namespace && (operation.parameters || []).some((parameter) => parameter.name === "namespace")) {
    query.set("namespace", namespace);
  }
  for (const [parameter, input] of inputs) {
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.set(parameter.name, input.value);
  }
  const address = query.size ? `${path}?${query}` : path;
  const headers = { accept: "application/json" };
  const token = document.getElementById("token").value.trim();
  if (token) headers.authorization = `Bearer ${token}`;
  const options = { method: operation.method.toUpperCase(), headers };
  if (text && text.value.trim()) {
    options.body = text.value;
    headers["content-type"] = "application/json";
  }
  const response = await fetch(address, options);
  const body = await response.text();
  let shown = body;
  try {
    shown = JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    // It is text, and is shown as it is.
  }
  const notable = [...response.headers].filter(([name]) => ["warning", "idempotent-replayed"].includes(name));
  const lines = [`${options.method} ${address}`, `${response.status} ${response.statusText}`];
  return [...lines, ...notable.map(([name, value]) => `${name}: ${value}`), "", shown].join("\n");
}

function draw(operation, api) {
  const summary = element(
    "summary",
    {},
    element("span", { class: `method ${operation.method}` }, operation.method),
    element("span", { class: "path" }, operation.path),
    element("span", { class: "operation-summary" }, operation.summary || ""),
  );
  const inner = element("div", {});
  if (operation.twin) inner.append(element("p", {}, "also ", element("code", {}, operation.twin)));
  const parameters = (operation.parameters || []).map((parameter) =>
    element(
      "tr",
      {},
      element("td", {}, element("code", {}, parameter.name)),
      element("td", {}, parameter.in),
      element("td", {}, element("code", {}, brief(parameter.schema, api))),
      element("td", {}, parameter.description || ""),
    ),
  );
  if (parameters.length) inner.append(element("h4", {}, "Parameters"), element("table", {}, element("tbody", {}, ...parameters)));
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  if (content) inner.append(element("h4", {}, "Body"), fieldTable(content.schema, api));
  const answers = Object.entries(operation.responses || {}).map(([status, answer]) =>
    element("tr", {}, element("td", {}, element("code", {}, status)), element("td", {}, answer.description || "")),
  );
  inner.append(element("h4", {}, "Answers"), element("table", {}, element("tbody", {}, ...answers)));
  const done = operation.responses && operation.responses["200"];
  const json = done && done.content && done.content["application/json"];
  if (json) inner.append(fieldTable(json.schema, api));
  inner.append(tryForm(operation, api));
  const words = [operation.method, operation.path, operation.operationId, operation.summary].join(" ").toLowerCase();
  return element("details", { id: operation.operationId, "data-words": words }, summary, inner);
}

function filter() {
  const wanted = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const details of document.querySelectorAll("details[data-words]")) {
    details.hidden = !wanted.every((word) => details.dataset.words.includes(word));
    if (!details.hidden) count += 1;
  }
  for (const group of document.querySelectorAll("section")) {
    group.hidden = !group.querySelector("details:not([hidden])");
  }
  document.getElementById("count").textContent = `${count} operations`;
}

function render(api) {
  const main = document.getElementById("operations");
  const groups = document.getElementById("groups");
  document.getElementById("version").textContent = api.info.version;
  document.getElementById("about").textContent = api.info.description || "";
  const { shown } = operationsOf(api);
  const byTag = new Map();
  for (const operation of shown) {
    const tag = (operation.tags || ["server"])[0];
    byTag.set(tag, [...(byTag.get(tag) || []), operation]);
  }
  main.replaceChildren();
  for (const [tag, operations] of byTag) {
    groups.append(element("li", {}, element("a", { href: `#group-${tag}` }, tag)));
    const title = element("h2", { id: `group-${tag}` }, tag);
    main.append(element("section", {}, title, ...operations.map((operation) => draw(operation, api))));
  }
  const schemas = Object.entries(api.components.schemas).map(([name, schema]) =>
    element("details", { id: `schema-${name}`, "data-words": `schema ${name.toLowerCase()}` },
      element("summary", {}, element("code", {}, name)),
      element("div", {}, schema.description ? element("p", {}, schema.description) : undefined, fieldTable(schema, api))),
  );
  groups.append(element("li", {}, element("a", { href: "#group-schemas" }, "schemas")));
  main.append(element("section", {}, element("h2", { id: "group-schemas" }, "schemas"), ...schemas));
  filter();
  const opened = location.hash && document.getElementById(location.hash.slice(1));
  if (opened && opened.tagName === "DETAILS") opened.open = true;
}

async function begin() {
  document.getElementById("filter").addEventListener("input", filter);
  document.getElementById("search").addEventListener("submit", (event) => event.preventDefault());
  try {
    const response = await fetch("/openapi.json");
    render(await response.json());
  } catch (error) {
    document.getElementById("operations").textContent = `The description cannot be read: ${error}`;
  }
}

begin();
