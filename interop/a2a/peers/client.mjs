// Conversations with client tools through the official JS SDK: `client.mjs <base URL of the server>`.
import assert from "node:assert";

import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";
import { Role, TaskState } from "@a2a-js/sdk";

const URI = "https://bosun.dev/a2a/extensions/client-tools/v1";
const calculator = {
  name: "calculator",
  description: "Evaluates an arithmetic expression",
  parameters: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"] },
};

const message = (messageId, parts, more = {}) => ({
  messageId, role: Role.ROLE_USER, parts, extensions: [URI], contextId: "", taskId: "", metadata: undefined,
  referenceTaskIds: [], ...more,
});
const part = (content) => ({ content, filename: "", mediaType: "", metadata: undefined });

// Sends a message and returns the task as it is afterwards.
async function send(client, streaming, request) {
  if (!streaming) return client.sendMessage(request);
  let task;
  for await (const event of client.sendMessageStream(request)) {
    const { $case, value } = event.payload ?? {};
    task ??= $case === "task" ? value.id : value?.taskId;
  }
  return client.getTask({ tenant: "", id: task, historyLength: undefined });
}

async function converse(client, name, streaming) {
  const sent = await send(client, streaming, {
    tenant: "", configuration: undefined,
    message: message(`js-${name}-1`, [part({ $case: "text", value: "What is 25% of 8,432?" })]),
    metadata: { [URI]: { tools: [calculator] } },
  });
  assert.equal(sent.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
  const data = sent.status.message.parts.find((part) => part.content.$case === "data").content.value;
  const [call] = data.toolCalls;
  assert.deepEqual(call.function, { name: "calculator", arguments: { expression: "0.25 * 8432" } });
  const result = { toolCallId: call.id, toolName: "calculator", success: true, result: "2108" };
  const done = await send(client, streaming, {
    tenant: "", configuration: undefined, metadata: undefined,
    message: message(`js-${name}-2`, [part({ $case: "data", value: { toolResults: [result] } })], {
      taskId: sent.id, contextId: sent.contextId,
    }),
  });
  assert.equal(done.status.state, TaskState.TASK_STATE_COMPLETED);
  return done.artifacts[0].parts[0].content.value;
}

for (const binding of ["JSONRPC", "HTTP+JSON"]) {
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [binding] });
  const client = await new ClientFactory(options).createFromUrl(process.argv[2]);
  for (const streaming of [false, true]) console.log(await converse(client, `${binding}-${streaming}`, streaming));
}
