// A conversation with client tools through the official JS SDK: `client.mjs <base URL of the server>`.
import assert from "node:assert";

import { ClientFactory } from "@a2a-js/sdk/client";
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

const client = await new ClientFactory().createFromUrl(process.argv[2]);
const sent = await client.sendMessage({
  tenant: "", configuration: undefined,
  message: message("js-1", [part({ $case: "text", value: "What is 25% of 8,432?" })]),
  metadata: { [URI]: { tools: [calculator] } },
});
assert.equal(sent.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
const data = sent.status.message.parts.find((part) => part.content.$case === "data").content.value;
const [call] = data.toolCalls;
assert.deepEqual(call.function, { name: "calculator", arguments: { expression: "0.25 * 8432" } });
const result = { toolCallId: call.id, toolName: "calculator", success: true, result: "2108" };
const done = await client.sendMessage({
  tenant: "", configuration: undefined, metadata: undefined,
  message: message("js-2", [part({ $case: "data", value: { toolResults: [result] } })], {
    taskId: sent.id, contextId: sent.contextId,
  }),
});
assert.equal(done.status.state, TaskState.TASK_STATE_COMPLETED);
console.log(done.artifacts[0].parts[0].content.value);
