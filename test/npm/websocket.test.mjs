// The Responses API over a WebSocket, by the official library.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { connect, metricBecomes, mini, polly, serveParley } from './parley.mjs';

const server = serveParley();
const steady = { model: mini, input: 'Tell me a story about a fox.', temperature: 0, max_output_tokens: 40 };
const over = ['response.completed', 'response.incomplete', 'response.failed', 'error'];

/** Sends one request and collects its events. */
async function exchange(socket, request) {
  const events = [];
  const ended = new Promise((resolve, reject) => {
    const listen = (event) => {
      events.push(event);
      if (!over.includes(event.type)) return;
      socket.off('event', listen);
      resolve(events);
    };
    socket.on('event', listen);
    socket.on('error', reject);
  });
  socket.send({ type: 'response.create', ...request });
  return ended;
}

function withSocket(work) {
  return async () => {
    const socket = new ResponsesWS(connect(OpenAI, server));
    socket.on('error', () => {});
    try {
      await work(socket);
    } finally {
      socket.close();
    }
  };
}

describe('responses over a WebSocket', () => {
  test('the events are those of a stream, and say the same', withSocket(async (socket) => {
    const whole = await connect(OpenAI, server).responses.create(steady);
    const events = await exchange(socket, steady);
    assert.equal(events[0].type, 'response.created');
    assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
    assert.equal(events.filter((e) => e.type === 'response.output_text.delta').map((e) => e.delta).join(''), whole.output_text);
    assert.ok(events.at(-1).response.usage.output_tokens > 0);
  }));

  test('several turns on one connection', withSocket(async (socket) => {
    const first = (await exchange(socket, { ...steady, input: 'My name is Ada.' })).at(-1).response;
    const second = (await exchange(socket, { ...steady, input: 'What is my name?', previous_response_id: first.id })).at(-1).response;
    assert.equal(second.previous_response_id, first.id);
    assert.ok(second.usage.input_tokens > first.usage.input_tokens);
  }));

  test('a tool is called, and answered', withSocket(async (socket) => {
    const tools = [{ type: 'function', name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string', enum: ['Rome', 'Oslo'] } }, required: ['city'], additionalProperties: false }, strict: true }];
    const asked = (await exchange(socket, { ...steady, max_output_tokens: 300, input: 'How is the weather in Rome?', tools, tool_choice: 'required', parallel_tool_calls: false })).at(-1).response;
    const call = asked.output.find((item) => item.type === 'function_call');
    const told = (await exchange(socket, { ...steady, previous_response_id: asked.id, input: [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }] })).at(-1).response;
    assert.ok(['completed', 'incomplete'].includes(told.status));
  }));

  test('a mistake is told, and the connection goes on', async () => {
    const socket = new ResponsesWS(connect(OpenAI, server));
    const failed = new Promise((resolve) => { socket.on('error', resolve); });
    socket.send({ type: 'response.create', ...steady, model: 'nobody' });
    assert.match((await failed).message, /nobody/);
    const events = await new Promise((resolve) => {
      const seen = [];
      socket.on('event', (event) => {
        seen.push(event);
        if (over.includes(event.type)) resolve(seen);
      });
      socket.send({ type: 'response.create', ...steady });
    });
    assert.ok(['response.completed', 'response.incomplete'].includes(events.at(-1).type));
    socket.close();
  });

  test('who leaves is not answered any more', async () => {
    const socket = new ResponsesWS(connect(OpenAI, server));
    socket.on('error', () => {});
    await new Promise((resolve) => {
      socket.on('event', (event) => event.type === 'response.output_text.delta' && resolve());
      socket.send({ type: 'response.create', ...steady, model: polly, store: false, max_output_tokens: 1900, ignore_eos: true });
    });
    socket.close();
    await metricBecomes(server, 'parley_requests_in_flight', 0);
  });
});
