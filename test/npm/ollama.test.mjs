// The official client of Ollama against the real server.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ollama } from 'ollama';
import { serveParley as serve, asOwner } from '../server.mjs';
import { failureOf, mini, polly } from './parley.mjs';

const server = serve();
const client = () => new Ollama({ host: server.url, headers: asOwner(server) });
const hello = [{ role: 'user', content: 'Hello!' }];
const options = { temperature: 0, num_predict: 20, seed: 1 };

function checkCounts(last) {
  assert.equal(last.done, true);
  assert.ok(last.prompt_eval_count > 0 && last.eval_count > 0, JSON.stringify(last));
  assert.ok(last.total_duration > 0 && last.eval_duration >= 0);
  assert.ok(!Number.isNaN(Date.parse(last.created_at)));
}

describe('ollama', () => {
  test('a chat, whole and streamed, says the same', async () => {
    const whole = await client().chat({ model: mini, messages: hello, options });
    assert.equal(whole.message.role, 'assistant');
    assert.ok(whole.message.content.length > 0);
    checkCounts(whole);
    let text = '';
    let last;
    for await (const part of await client().chat({ model: mini, messages: hello, options, stream: true })) {
      text += part.message.content;
      last = part;
    }
    assert.equal(text, whole.message.content);
    checkCounts(last);
    assert.equal(last.eval_count, whole.eval_count);
  });

  test('generate: with a system prompt, raw, and continued from its context', async () => {
    const first = await client().generate({ model: `${mini}:latest`, prompt: 'Hi', system: 'Be short.', options });
    checkCounts(first);
    assert.ok(first.context.length > first.eval_count);
    const next = await client().generate({ model: mini, prompt: 'And?', context: first.context, options });
    assert.ok(next.prompt_eval_count > first.prompt_eval_count + first.eval_count);
    const raw = await client().generate({ model: mini, prompt: 'The capital of France is', raw: true, options: { ...options, num_predict: 3 } });
    assert.ok(raw.eval_count <= 3);
    assert.equal(raw.context, undefined);
  });

  test('JSON, and JSON held to a schema', async () => {
    const schema = { type: 'object', properties: { city: { enum: ['Rome', 'Paris'] } }, required: ['city'], additionalProperties: false };
    const answer = await client().chat({ model: mini, messages: hello, format: schema, options: { ...options, num_predict: 100 } });
    assert.ok(['Rome', 'Paris'].includes(JSON.parse(answer.message.content).city));
  });

  test('tools are accepted, and results of calls', async () => {
    const tools = [{ type: 'function', function: { name: 'weather', description: 'How it is.', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
    const answer = await client().chat({
      model: mini, tools, options,
      messages: [...hello, { role: 'assistant', content: '', tool_calls: [{ function: { name: 'weather', arguments: { city: 'Rome' } } }] },
        { role: 'tool', tool_name: 'weather', content: 'sunny' }],
    });
    checkCounts(answer);
  });

  test('embeddings, one and several', async () => {
    const { embeddings, prompt_eval_count } = await client().embed({ model: mini, input: ['a', 'b'] });
    assert.equal(embeddings.length, 2);
    assert.ok(Math.abs(Math.hypot(...embeddings[0]) - 1) < 1e-3);
    assert.ok(prompt_eval_count > 0);
    const one = await client().embeddings({ model: mini, prompt: 'a' });
    assert.deepEqual(one.embedding, embeddings[0]);
  });

  test('models: the list, one of them, what is loaded', async () => {
    const { models } = await client().list();
    assert.deepEqual(models.map((m) => m.name), [`${polly}:latest`, `${mini}:latest`]);
    assert.ok(models[0].size > 1_000_000 && models[0].details.parameter_size.endsWith('M'));
    const shown = await client().show({ model: models[0].name });
    assert.ok(shown.capabilities.includes('tools') && shown.template.length > 0);
    assert.ok(shown.model_info[`${shown.details.family}.context_length`] >= 1024);
    const loaded = await client().ps();
    assert.deepEqual(loaded.models.map((m) => m.name).sort(), [`${mini}:latest`, `${polly}:latest`].sort());
    const { version } = await client().version();
    assert.match(version, /^\d+\.\d+\.\d+$/);
  });

  test('errors are text', async () => {
    const missing = await failureOf(client().chat({ model: 'nobody', messages: hello }));
    assert.equal(missing.status_code, 404);
    assert.match(missing.message, /^The model `nobody` does not exist/);
    const option = await failureOf(client().chat({ model: mini, messages: hello, options: { mirostat: 2 } }));
    assert.match(option.message, /^Unsupported 'options.mirostat'/);
    const image = await failureOf(client().chat({ model: mini, messages: [{ ...hello[0], images: ['aGk='] }] }));
    assert.match(image.message, /^Unsupported 'messages\[0\].images'/);
    const pull = await failureOf(client().pull({ model: 'no-such-model' }));
    assert.match(pull.message, /^the catalogue has no model/);
    const gone = await failureOf(client().delete({ model: 'no-such-model' }));
    assert.match(gone.message, /no such model/);
    const copy = await failureOf(client().copy({ source: 'no-such-model', destination: 'x' }));
    assert.match(copy.message, /no such model/);
  });
});
