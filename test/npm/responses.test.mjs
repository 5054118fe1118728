import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { clients, connect, failureOf, metricBecomes, mini, polly, serveParley } from './parley.mjs';

const server = serveParley();
const input = 'Tell me a story about a fox.';
const steady = { model: mini, input, temperature: 0, max_output_tokens: 40 };

function checkUsage(usage) {
  assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0, JSON.stringify(usage));
  assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
  for (const n of [usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens, usage.output_tokens_details.reasoning_tokens]) {
    assert.ok(Number.isInteger(n), JSON.stringify(usage));
  }
}

for (const [name, Client] of clients) {
  describe(name, () => {
    test('create, retrieve, input items, delete', async () => {
      const client = connect(Client, server);
      const made = await client.responses.create(steady);
      assert.match(made.id, /^resp_/);
      assert.ok(made.output_text.length > 0);
      assert.ok(['completed', 'incomplete'].includes(made.status));
      checkUsage(made.usage);
      const found = await client.responses.retrieve(made.id);
      assert.equal(found.output_text, made.output_text);
      const items = await client.responses.inputItems.list(made.id);
      assert.equal(items.data[0].content[0].text, input);
      await client.responses.delete(made.id);
      assert.equal((await failureOf(client.responses.retrieve(made.id))).status, 404);
    });

    test('stream, by events and by the helper', async () => {
      const client = connect(Client, server);
      const whole = await client.responses.create(steady);
      const types = [];
      let text = '';
      for await (const event of await client.responses.create({ ...steady, stream: true })) {
        assert.equal(event.sequence_number, types.length);
        types.push(event.type);
        if (event.type === 'response.output_text.delta') text += event.delta;
      }
      assert.equal(types[0], 'response.created');
      assert.ok(['response.completed', 'response.incomplete'].includes(types.at(-1)));
      assert.equal(text, whole.output_text);
      const helper = client.responses.stream(steady);
      const final = await helper.finalResponse();
      assert.equal(final.output_text, whole.output_text);
    });

    test('a stream is taken up again where it broke off', async () => {
      const client = connect(Client, server);
      let id;
      const all = [];
      for await (const event of await client.responses.create({ ...steady, stream: true })) {
        id ??= event.response?.id;
        all.push(event);
      }
      const rest = [];
      for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: 5 })) rest.push(event);
      assert.deepEqual(rest, all.slice(6));
    });

    test('a conversation is compacted, and goes on from that', async () => {
      const client = connect(Client, server);
      const first = await client.responses.create({ ...steady, input: 'My name is Ada.' });
      const compacted = await client.responses.compact({ model: mini, previous_response_id: first.id, input: [{ role: 'user', content: 'What is my name?' }] });
      assert.equal(compacted.object, 'response.compaction');
      assert.deepEqual(compacted.output.map((item) => item.type), ['compaction', 'message']);
      checkUsage(compacted.usage);
      const next = await client.responses.create({ ...steady, input: compacted.output });
      assert.ok(next.output_text.length > 0);
    });

    test('previous_response_id carries what was said', async () => {
      const client = connect(Client, server);
      const first = await client.responses.create({ ...steady, input: 'My name is Ada.' });
      const second = await client.responses.create({ ...steady, input: 'What is my name?', previous_response_id: first.id });
      const replay = await client.responses.create({
        ...steady, store: false, input: [{ role: 'user', content: 'My name is Ada.' }, ...first.output, { role: 'user', content: 'What is my name?' }],
      });
      assert.equal(second.output_text, replay.output_text);
      assert.equal(second.usage.input_tokens, replay.usage.input_tokens);
      const err = await failureOf(client.responses.create({ ...steady, previous_response_id: 'resp_nobody' }));
      assert.equal(err.code, 'previous_response_not_found');
    });

    test('parse, with a schema', async () => {
      const client = connect(Client, server);
      const Fox = z.object({ name: z.enum(['Rex', 'Mia']), age: z.number().int() });
      const parsed = await client.responses.parse({ ...steady, text: { format: zodTextFormat(Fox, 'fox') } });
      Fox.parse(parsed.output_parsed);
    });

    test('a tool is called, and answered', async () => {
      const client = connect(Client, server);
      const tools = [{ type: 'function', name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Rome', 'Oslo'] } }, required: ['city'], additionalProperties: false }, strict: true }];
      const asked = await client.responses.stream({ ...steady, max_output_tokens: 300, input: 'How is the weather in Rome?', tools, tool_choice: 'required', parallel_tool_calls: false }).finalResponse();
      const call = asked.output.find((item) => item.type === 'function_call');
      assert.equal(call.name, 'weather');
      assert.ok(['Rome', 'Oslo'].includes(JSON.parse(call.arguments).city), call.arguments);
      const told = await client.responses.create({
        ...steady, input: [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }], previous_response_id: asked.id, tools, tool_choice: 'none',
      });
      assert.ok(told.output_text.length > 0);
    });

    test('in the background: poll, follow, cancel', async () => {
      const client = connect(Client, server);
      const made = await client.responses.create({ ...steady, background: true });
      assert.equal(made.status, 'queued');
      const events = [];
      for await (const event of await client.responses.retrieve(made.id, { stream: true })) events.push(event.type);
      assert.deepEqual(events.slice(0, 3), ['response.created', 'response.queued', 'response.in_progress']);
      assert.ok(['completed', 'incomplete'].includes((await client.responses.retrieve(made.id)).status));
      const long = await client.responses.create({ model: polly, input, background: true, max_output_tokens: 1900, ignore_eos: true });
      assert.equal((await client.responses.cancel(long.id)).status, 'cancelled');
      await metricBecomes(server, 'parley_requests_in_flight', 0);
    });

    test('conversations', async () => {
      const client = connect(Client, server);
      const made = await client.conversations.create({ metadata: { a: 'b' }, items: [{ type: 'message', role: 'user', content: 'My name is Ada.' }] });
      assert.match(made.id, /^conv_/);
      const response = await client.responses.create({ ...steady, input: 'What is my name?', conversation: made.id });
      assert.equal(response.conversation.id, made.id);
      const items = await client.conversations.items.list(made.id, { order: 'asc' });
      assert.deepEqual(items.data.map((item) => item.role), ['user', 'user', 'assistant']);
      assert.equal((await client.conversations.items.retrieve(items.data[2].id, { conversation_id: made.id })).content[0].text, response.output_text);
      await client.conversations.items.delete(items.data[0].id, { conversation_id: made.id });
      assert.deepEqual((await client.conversations.update(made.id, { metadata: { c: 'd' } })).metadata, { c: 'd' });
      assert.equal((await client.conversations.delete(made.id)).deleted, true);
      assert.equal((await failureOf(client.conversations.retrieve(made.id))).status, 404);
    });
  });
}

describe('@ai-sdk/openai, its default model', () => {
  const model = (id) => createOpenAI({ baseURL: `${server.url}/v1`, apiKey: server.token })(id);
  const plain = { prompt: input, temperature: 0, maxOutputTokens: 40, maxRetries: 0 };

  test('generateText and streamText say the same', async () => {
    const whole = await generateText({ model: model(mini), ...plain });
    assert.match(whole.response.id, /^resp_/);
    const result = streamText({ model: model(mini), ...plain, onError: ({ error }) => assert.fail(error) });
    let text = '';
    for await (const piece of result.textStream) text += piece;
    assert.equal(text, whole.text);
    assert.equal((await result.usage).outputTokens, whole.usage.outputTokens);
  });

  test('tools over several steps', async () => {
    const weather = tool({ inputSchema: z.object({ city: z.enum(['Rome', 'Oslo']) }), execute: async ({ city }) => `sunny in ${city}` });
    const result = await generateText({
      model: model(mini), ...plain, maxOutputTokens: 300, prompt: 'How is the weather in Rome?', tools: { weather }, stopWhen: stepCountIs(2),
      providerOptions: { openai: { parallelToolCalls: false } },
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }),
    });
    assert.equal(result.steps.length, 2);
    assert.match(JSON.stringify(result.steps[0].toolResults), /sunny in (Rome|Oslo)/);
  });
});
