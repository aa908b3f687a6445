// Reads the stand-in with the official SDKs, as a program that knows nothing of Bosun would.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const url = process.argv[2] ?? process.env.STAND_IN;
assert(url, "usage: check.mjs <url of the stand-in>");

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 3 });
const anthropic = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 3 });
const question = "What is 25% of 8,432?";

// One run of the OpenAI SDK: the message, how it ended, and the usage.
async function chat(messages, stream, client = openai) {
  const request = { model: "gpt", messages };
  if (!stream) {
    const completion = await client.chat.completions.create(request);
    return { ...completion.choices[0], usage: completion.usage };
  }
  const runner = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
  const completion = await runner.finalChatCompletion();
  return { ...completion.choices[0], usage: completion.usage };
}

// One run of Anthropic's.
async function message(messages, stream, client = anthropic) {
  const request = { model: "claude", max_tokens: 1000, messages };
  return stream ? await client.messages.stream(request).finalMessage() : await client.messages.create(request);
}

const user = (content) => ({ role: "user", content });

for (const stream of [false, true]) {
  const how = stream ? "streamed" : "plain";

  test(`openai, ${how}: text and usage`, async () => {
    const { message, finish_reason, usage } = await chat([user("hello")], stream);
    assert.equal(message.content, "Hello! How can I help?");
    assert.equal(finish_reason, "stop");
    assert.deepEqual([usage.prompt_tokens, usage.completion_tokens, usage.total_tokens], [12, 7, 19]);
    assert.equal(usage.prompt_tokens_details.cached_tokens, 4);
  });

  test(`openai, ${how}: parallel calls, and their results`, async () => {
    const first = await chat([user(question)], stream);
    assert.equal(first.finish_reason, "tool_calls");
    assert.equal(first.message.content, "Let me see.");
    const calls = first.message.tool_calls;
    assert.deepEqual(calls.map((call) => [call.type, call.function.name, JSON.parse(call.function.arguments)]), [
      ["function", "calculator", { expression: "0.25 * 8432" }],
      ["function", "current_time", {}],
    ]);
    assert.equal(new Set(calls.map((call) => call.id)).size, 2);
    const results = calls.map((call, index) => ({ role: "tool", tool_call_id: call.id, content: ["2108", "noon"][index] }));
    const last = await chat([user(question), first.message, ...results], stream);
    assert.equal(last.message.content, "25% of 8,432 is 2108");
  });

  test(`anthropic, ${how}: text and usage`, async () => {
    const { content, stop_reason, usage } = await message([user("hello")], stream);
    assert.deepEqual(content.map(({ type, text }) => [type, text]), [["text", "Hello! How can I help?"]]);
    assert.equal(stop_reason, "end_turn");
    assert.deepEqual(
      [usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens, usage.output_tokens],
      [5, 3, 4, 7],
    );
  });

  test(`anthropic, ${how}: a signed thought, parallel calls, and their results`, async () => {
    const first = await message([user(question)], stream);
    assert.equal(first.stop_reason, "tool_use");
    assert.deepEqual(first.content.map(({ type }) => type), ["thinking", "text", "tool_use", "tool_use"]);
    const [thought, , ...calls] = first.content;
    assert.equal(thought.thinking, "A quarter of it. The calculator knows.");
    assert.match(thought.signature, /^[0-9a-f]{64}$/);
    assert.deepEqual(calls.map(({ name, input }) => [name, input]), [
      ["calculator", { expression: "0.25 * 8432" }],
      ["current_time", {}],
    ]);
    const results = calls.map((call, index) => ({ type: "tool_result", tool_use_id: call.id, content: ["2108", "noon"][index] }));
    const last = await message([user(question), { role: "assistant", content: first.content }, user(results)], stream);
    assert.equal(last.content[0].text, "25% of 8,432 is 2108");

    // As the real API does, it looks at what comes back.
    const forged = first.content.map((block) => (block.type === "thinking" ? { ...block, thinking: "Something else." } : block));
    await assert.rejects(message([user(question), { role: "assistant", content: forged }, user(results)], stream), {
      status: 400,
      message: /Invalid `signature` in `thinking` block/,
    });
    await assert.rejects(message([user(question), { role: "assistant", content: calls }, user(results)], stream), {
      status: 400,
      message: /must start with a thinking block/,
    });
    await assert.rejects(message([user(question), { role: "assistant", content: first.content }, user(results.slice(1))], stream), {
      status: 400,
      message: /without `tool_result` blocks/,
    });
  });

  test(`both, ${how}: errors have their types`, async () => {
    await assert.rejects(chat([user("forbidden")], stream), (error) => {
      assert(error instanceof OpenAI.AuthenticationError);
      assert.equal(error.code, "invalid_api_key");
      return error.message.includes("invalid key");
    });
    await assert.rejects(message([user("forbidden")], stream), (error) => {
      assert(error instanceof Anthropic.AuthenticationError);
      assert.equal(error.error.error.type, "authentication_error");
      return error.message.includes("invalid key");
    });
    await assert.rejects(chat([user("not in the script")], stream), OpenAI.BadRequestError);
    await assert.rejects(message([user("not in the script")], stream), Anthropic.BadRequestError);
  });

  test(`both, ${how}: a stream that drips is whole`, async () => {
    assert.equal((await chat([user("slow")], stream)).message.content, "Byte by byte.");
    assert.equal((await message([user("slow")], stream)).content[0].text, "Byte by byte.");
  });

  test(`both, ${how}: a truncated answer says so`, async () => {
    assert.equal((await message([user("too long for Anthropic")], stream)).stop_reason, "max_tokens");
    if (!stream) assert.equal((await chat([user("too long")], stream)).finish_reason, "length");
  });
}

// Each SDK retries by itself; their bodies differ, so each gets its own failure first.
test("429 with Retry-After, 529 and 500 are retried by the SDKs", async () => {
  for (const [input, expect] of [["busy", "Thank you for waiting."], ["overloaded", "Here I am again."], ["broken", "Repaired."]]) {
    assert.equal((await chat([user(input)], false)).message.content, expect);
    assert.equal((await message([user(input)], false)).content[0].text, expect);
  }
});

test("what is not retried is a rate limit in the SDKs' own words", async () => {
  const once = { maxRetries: 0 };
  await assert.rejects(chat([user("busy")], true, openai.withOptions(once)), (error) => {
    assert(error instanceof OpenAI.RateLimitError);
    return error.headers.get("retry-after-ms") === "20";
  });
  await assert.rejects(message([user("busy")], true, anthropic.withOptions(once)), (error) => {
    assert(error instanceof Anthropic.RateLimitError);
    return error.error.error.type === "rate_limit_error";
  });
});

test("a connection that is cut, and an event that is not JSON, are errors", async () => {
  await assert.rejects(chat([user("cut")], true, openai.withOptions({ maxRetries: 0 })));
  await assert.rejects(message([user("cut")], true, anthropic.withOptions({ maxRetries: 0 })));
  await assert.rejects(chat([user("garbage")], true, openai.withOptions({ maxRetries: 0 })));
  await assert.rejects(message([user("garbage")], true, anthropic.withOptions({ maxRetries: 0 })));
});
