// What n8n gives to the model for each tool of a workflow, asked of n8n's own code.
//
// Names, `$fromAI` calls, schemas, descriptions and hidden parameters are those of n8n-workflow and of the node types;
// the parameters of the older HTTP Request tool are read by the code of that node. The rules that say which node
// becomes which kind of tool are written down here from n8n's sources.

'use strict';
const fs = require('node:fs');
const path = require('node:path');
const Module = require('node:module');
const {
  NodeHelpers, traverseNodeParameters, generateZodSchema, nodeNameToToolName,
} = require('n8n-workflow');
const { json: schemaOfExample } = require('generate-schema');
const { z } = require('zod');
const { zodToJsonSchema } = require('zod-to-json-schema');

const cache = path.join(__dirname, 'node_modules/.cache/n8n');
const read = (file) => JSON.parse(fs.readFileSync(path.join(cache, file)));
const BASE = 'n8n-nodes-base';
const LANGCHAIN = '@n8n/n8n-nodes-langchain';
const types = new Map();
for (const [name, list] of [[BASE, read(`${BASE}/dist/types/nodes.json`)], [LANGCHAIN, read(`${LANGCHAIN}/dist/types/nodes.json`)]]) {
  for (const type of list) {
    const key = `${name}.${type.name}`;
    types.set(key, [...(types.get(key) ?? []), type]);
  }
}

// The node's module needs packages for reading web pages, which play no part here.
const absent = new Proxy(function () {}, { get: (_, key) => (key === '__esModule' ? true : absent), apply: () => absent, construct: () => absent });
const load = Module._load;
Module._load = function (request, ...rest) {
  try {
    return load.call(this, request, ...rest);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    if (request.startsWith('lodash/')) return { default: (object, keys) => [].concat(keys).reduce((value, key) => value?.[key], object) };
    return absent;
  }
};
const http = require(path.join(cache, LANGCHAIN, 'dist/nodes/tools/ToolHttpRequest/utils.js'));
Module._load = load;

/** A schema without what every converter of Zod adds, and with what n8n declares for JSON. */
function schemaOf(shape) {
  const { $schema, additionalProperties, ...schema } = zodToJsonSchema(z.object(shape), { $refStrategy: 'none' });
  for (const [key, field] of Object.entries(shape)) {
    let inner = field;
    while (inner._def.innerType) inner = inner._def.innerType;
    if (inner._def.jsonSchema) {
      const { anyOf } = inner._def.jsonSchema;
      schema.properties[key] = { anyOf: anyOf.map(({ additionalProperties: _, ...option }) => option), ...schema.properties[key] };
    }
  }
  return schema;
}

/** DynamicTool: one text. n8n leaves it optional; without it there is nothing to do. */
const oneText = () => ({ type: 'object', properties: { input: { type: 'string' } }, required: ['input'] });

/** The schema that a user gave, or that n8n infers from an example; a list without items takes any. */
function writtenSchema(parameters, allRequired) {
  if ((parameters.schemaType ?? 'fromJson') !== 'fromJson') return JSON.parse(parameters.inputSchema);
  const inferred = ({ $schema, items, ...schema }) => {
    const properties = schema.properties && Object.fromEntries(Object.entries(schema.properties).map(([key, property]) => [key, inferred(property)]));
    const required = properties && allRequired ? { required: Object.keys(properties) } : {};
    return { ...schema, ...(properties && { properties }), ...required, ...(items && Object.keys(items).length && { items: inferred(items) }) };
  };
  return inferred(schemaOfExample(JSON.parse(parameters.jsonSchemaExample)));
}

function typeOf(node) {
  const found = types.get(node.type) ?? types.get(node.type.replace(/Tool$/, ''));
  const version = node.typeVersion ?? 1;
  return found?.find((type) => [].concat(type.version).includes(version)) ?? found?.[0];
}

/** The parameters with their defaults, without those that the node type hides. */
function resolved(node, type) {
  if (!type) return node.parameters ?? {};
  // What n8n adds to a node that is used as a tool.
  const own = [{ name: 'toolDescription', type: 'string', default: '' }];
  if (type.properties.some(({ name }) => name === 'resource' || name === 'operation')) own.push({ name: 'descriptionType', type: 'string', default: 'auto' });
  const properties = [...type.properties, ...own.filter((property) => !type.properties.some(({ name }) => name === property.name))];
  return NodeHelpers.getNodeParameters(properties, node.parameters ?? {}, true, false, { ...node, parameters: node.parameters ?? {} }, type) ?? {};
}

function fromAi(parameters, more = []) {
  const calls = [];
  traverseNodeParameters(parameters, calls);
  const byKey = new Map();
  for (const call of [...calls, ...more]) {
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(call.key)) throw new Error(`invalid key ${call.key}`);
    const known = byKey.get(call.key);
    if (known && (known.description !== call.description || known.type !== call.type)) throw new Error(`two meanings of ${call.key}`);
    byKey.set(call.key, call);
  }
  return byKey;
}
const fromAiSchema = (calls) => schemaOf(Object.fromEntries([...calls].map(([key, call]) => [key, generateZodSchema(call)])));

const CONSTANT = {
  toolCalculator: [null, 'Useful for getting the result of a math expression. The input to this tool should be a valid mathematical expression that could be executed by a simple calculator.'],
  toolWikipedia: [null, 'A tool for interacting with and fetching data from the Wikipedia API. The input should always be a string query.'],
  toolSerpApi: ['search', 'a search engine. useful for when you need to answer questions about current events. input should be a search query.'],
  toolWolframAlpha: ['wolfram_alpha', 'A wrapper around Wolfram Alpha. Useful for when you need to answer questions about Math, Science, Technology, Culture, Society and Everyday Life. Input should be a search query.'],
  toolSearXng: ['searxng-search', 'A meta search engine. Useful for when you need to answer questions about current events. Input should be a search query. Output is a JSON array of the query results'],
};

function httpTool(node, parameters) {
  const context = { getNodeParameter: (name, _, fallback) => name.split('.').reduce((value, key) => value?.[key], parameters) ?? fallback, getNode: () => node };
  const text = (value) => (typeof value === 'string' && value.startsWith('=') ? value.slice(1) : value);
  const definitions = (parameters.placeholderDefinitions?.values ?? []).map((written) => {
    const definition = Object.fromEntries(Object.entries(written).map(([key, value]) => [key, text(value)]));
    if (definition.name.startsWith('{') && definition.name.endsWith('}')) definition.name = definition.name.slice(1, -1);
    return definition;
  });
  const toolParameters = [...http.extractParametersFromText(definitions, text(parameters.url ?? ''), 'path')];
  const raw = { qs: '', headers: '', body: '' };
  const requestOptions = { qs: {}, headers: {}, body: {} };
  for (const [send, property, specify, json, list] of [
    ['sendQuery', 'qs', 'specifyQuery', 'jsonQuery', 'parametersQuery.values'],
    ['sendHeaders', 'headers', 'specifyHeaders', 'jsonHeaders', 'parametersHeaders.values'],
    ['sendBody', 'body', 'specifyBody', 'jsonBody', 'parametersBody.values'],
  ]) {
    if (!parameters[send]) continue;
    http.updateParametersAndOptions({
      ctx: context, itemIndex: 0, toolParameters, placeholdersDefinitions: definitions, requestOptions, rawRequestOptions: raw,
      requestOptionsProperty: property, inputTypePropertyName: specify, jsonPropertyName: json, parametersPropertyName: list,
    });
  }
  for (const { name } of definitions) {
    if (!toolParameters.some((parameter) => parameter.name === name)) throw new Error(`misconfigured placeholder ${name}`);
  }
  const description = text(parameters.toolDescription ?? '');
  if ((node.typeVersion ?? 1) >= 1.1) {
    const { $schema, additionalProperties, ...schema } = zodToJsonSchema(http.makeToolInputSchema(toolParameters), { $refStrategy: 'none' });
    for (const property of Object.values(schema.properties)) delete property.additionalProperties;
    return { description, schema };
  }
  return { description: http.prepareToolDescription(description, toolParameters), schema: oneText() };
}

/** The tool of a node; `null` if n8n gives none or only the running n8n knows it. */
function tool(node) {
  const [, pack, kind] = /^(.*)\.([^.]*)$/.exec(node.type) ?? [null, '', node.type];
  const type = typeOf(node);
  const parameters = resolved(node, type);
  const version = node.typeVersion ?? 1;
  const toolName = nodeNameToToolName(node.name);
  const text = (value) => (typeof value === 'string' && value.startsWith('=') ? value.slice(1) : value);
  if (/HitlTool$/.test(kind)) return null;
  if (pack === LANGCHAIN) {
    if (CONSTANT[kind]) return { name: CONSTANT[kind][0] ?? toolName, description: CONSTANT[kind][1], schema: oneText() };
    if (['mcpClientTool', 'mcpRegistryClientTool', 'code'].includes(kind)) return null;
    if (kind === 'toolThink') return { name: version === 1 ? 'thinking_tool' : toolName, description: text(parameters.description), schema: oneText() };
    if (kind === 'toolHttpRequest') return { name: toolName, ...httpTool(node, parameters) };
    if (kind === 'toolCode') {
      const name = version <= 1.1 ? parameters.name : toolName;
      if (!parameters.specifyInputSchema) return { name, description: text(parameters.description ?? ''), schema: oneText() };
      return { name, description: text(parameters.description ?? ''), schema: writtenSchema(parameters, version >= 1.3) };
    }
    if (kind === 'toolWorkflow') {
      const name = version <= 2.1 ? parameters.name : toolName;
      const description = text(parameters.description ?? '');
      if (version < 2) return { name, description, schema: parameters.specifyInputSchema ? writtenSchema(parameters, false) : oneText() };
      const calls = fromAi(parameters);
      const hasInputs = (parameters.workflowInputs?.schema ?? []).length > 0;
      return { name, description, schema: hasInputs && calls.size ? fromAiSchema(calls) : oneText() };
    }
    if (kind === 'toolVectorStore') {
      const name = version <= 1 ? parameters.name : toolName;
      return {
        name, schema: oneText(),
        description: `Useful for when you need to answer questions about ${name}. Whenever you need information about ${text(parameters.description ?? '')} you should ALWAYS use this. Input should be a fully formed question.`,
      };
    }
    if (/^vectorStore/.test(kind)) {
      if (parameters.mode !== 'retrieve-as-tool') return null;
      const calls = fromAi(parameters, [{ key: 'input', description: 'Query to search for. Required', type: 'string' }]);
      return { name: version < 1.3 ? parameters.toolName : toolName, description: text(parameters.toolDescription), schema: fromAiSchema(calls) };
    }
  }
  const description = type
    ? text(NodeHelpers.getToolDescriptionForNode({ ...node, parameters }, { description: type }))
    : text(node.parameters?.toolDescription ?? null);
  return { name: toolName, description, schema: fromAiSchema(fromAi(parameters)) };
}

/** The tools of a workflow, by the node that is one. An error is what n8n would throw. */
function toolsOf(workflow) {
  const nodes = new Map((workflow.nodes ?? []).map((node) => [node.name, node]));
  const found = new Map();
  for (const [source, outputs] of Object.entries(workflow.connections ?? {})) {
    const targets = (Array.isArray(outputs?.ai_tool) ? outputs.ai_tool : []).flat().map((wire) => wire?.node).filter((name) => typeof name === 'string');
    const node = nodes.get(source);
    if (!targets.length || !node || node.disabled) continue;
    if (targets.some((target) => /HitlTool$/.test(nodes.get(target)?.type ?? ''))) continue;
    try {
      found.set(source, { ...tool(node), targets, written: () => fromAiSchema(fromAi(node.parameters ?? {})) });
    } catch (error) {
      found.set(source, { error: String(error.message), targets });
    }
  }
  return found;
}

module.exports = { toolsOf };
