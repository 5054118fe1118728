import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, clients, connect, polly, serveParley } from './parley.mjs';

const server = serveParley();

test('SIGINT lets a running answer finish, then the server ends with exit code 0', async () => {
  const [, Client] = clients[0];
  const { chat } = connect(Client, server);
  const body = ask('Tell me a story about a fox.', { model: polly, max_tokens: 200, ignore_eos: true });
  const whole = await chat.completions.create(body);
  let text = '';
  let finish = null;
  for await (const chunk of await chat.completions.create({ ...body, stream: true })) {
    if (text === '' && chunk.choices[0].delta.content) server.child.kill('SIGINT');
    text += chunk.choices[0].delta.content ?? '';
    finish ??= chunk.choices[0].finish_reason;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, 'length');
  assert.deepEqual(await server.ended, [0, null]);
});
