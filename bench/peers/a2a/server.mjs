// An agent of `@a2a-js/sdk` on its store in memory: a task that is working, has an artifact, and is completed.
import { TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { UserBuilder, jsonRpcHandler } from "@a2a-js/sdk/server/express";
import express from "express";

const card = {
  name: "bench", description: "Answers", version: "1", capabilities: { streaming: true, extensions: [] },
  supportedInterfaces: [{ url: "http://localhost/a2a", protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" }],
  defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
  skills: [], securitySchemes: {}, securityRequirements: [], signatures: [],
};

const status = (state) => ({ state, message: undefined, timestamp: new Date().toISOString() });

const executor = {
  async execute({ taskId, contextId, userMessage }, bus) {
    const of = { taskId, contextId, metadata: {} };
    bus.publish(AgentEvent.task({
      id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [], history: [userMessage], metadata: {},
    }));
    bus.publish(AgentEvent.statusUpdate({ ...of, status: status(TaskState.TASK_STATE_WORKING) }));
    const part = { content: { $case: "text", value: "Hello!" }, metadata: {}, filename: "", mediaType: "text/plain" };
    const artifact = { artifactId: crypto.randomUUID(), name: "answer", description: "", parts: [part], metadata: {}, extensions: [] };
    bus.publish(AgentEvent.artifactUpdate({ ...of, artifact, append: false, lastChunk: true }));
    bus.publish(AgentEvent.statusUpdate({ ...of, status: status(TaskState.TASK_STATE_COMPLETED) }));
    bus.finished();
  },
  async cancelTask() {},
};

const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
const app = express();
app.use("/a2a", jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
const server = app.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
process.stdin.on("end", () => process.exit(0)).resume();
