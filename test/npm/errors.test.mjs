import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ask, clients, connect, failureOf, mini, post, serveParley } from './parley.mjs';

const server = serveParley();
const chat = '/v1/chat/completions';

for (const [name, Client] of clients) {
  describe(`errors, ${name}`, () => {
    const refused = (body) => failureOf(connect(Client, server).chat.completions.create(body));

    test('a model that is not served', async () => {
      for (const body of [ask('Hi', { model: 'nobody' }), ask('Hi', { model: 'nobody', stream: true })]) {
        const err = await refused(body);
        assert.ok(err instanceof Client.NotFoundError);
        assert.ok(err instanceof Client.APIError);
        assert.deepEqual([err.status, err.code, err.param, err.type], [404, 'model_not_found', 'model', 'invalid_request_error']);
        assert.match(err.requestID, /^req_/);
        assert.equal(err.requestID, err.headers.get('x-request-id'));
        assert.match(err.message, /nobody/);
      }
    });

    test('a path that is not there', async () => {
      const err = await failureOf(connect(Client, server).post('/nowhere', { body: {} }));
      assert.ok(err instanceof Client.NotFoundError);
      assert.deepEqual([err.code, err.type], ['unknown_url', 'invalid_request_error']);
    });

    for (const [field, value, code, param = field] of [
      ['temperature', 2.1, 'decimal_above_max_value'],
      ['temperature', -0.1, 'decimal_below_min_value'],
      ['temperature', 'hot', 'invalid_type'],
      ['top_p', 1.5, 'decimal_above_max_value'],
      ['n', 0, 'integer_below_min_value'],
      ['n', 129, 'integer_above_max_value'],
      ['n', 1.5, 'invalid_type'],
      ['max_tokens', 0, 'integer_below_min_value'],
      ['max_completion_tokens', -1, 'integer_below_min_value'],
      ['presence_penalty', 3, 'decimal_above_max_value'],
      ['frequency_penalty', -3, 'decimal_below_min_value'],
      ['stop', Array.from({ length: 65 }, (_, i) => `s${i}`), 'array_above_max_length'],
      ['stop', [1], 'invalid_type', 'stop[0]'],
      ['seed', 'x', 'invalid_type'],
      ['top_logprobs', 21, 'integer_above_max_value'],
      ['top_logprobs', 2, 'invalid_value'],
      ['logit_bias', { word: 1 }, 'invalid_value', 'logit_bias.word'],
      ['logit_bias', { 999999: 1 }, 'invalid_value', 'logit_bias.999999'],
      ['stream_options', { include_usage: true }, 'invalid_value'],
      ['messages', undefined, 'missing_required_parameter'],
      ['messages', [], 'empty_array'],
      ['messages', 'Hi', 'invalid_type'],
      ['messages', [{ role: 'pilot', content: 'Hi' }], 'invalid_value', 'messages[0].role'],
      ['messages', [{ role: 'user', content: 7 }], 'invalid_type', 'messages[0].content'],
      ['messages', [{ role: 'user' }], 'missing_required_parameter', 'messages[0].content'],
    ]) {
      test(`${field} ${JSON.stringify(value)}`, async () => {
        const err = await refused(ask('Hi', { [field]: value }));
        assert.ok(err instanceof Client.BadRequestError, String(err));
        assert.deepEqual([err.status, err.code, err.param, err.type], [400, code, param, 'invalid_request_error'], err.message);
        assert.match(err.requestID, /^req_/);
      });
    }

    test('an image is refused by a model of text', async () => {
      const err = await refused(ask([{ type: 'text', text: 'What is this?' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }]));
      assert.ok(err instanceof Client.BadRequestError);
      assert.match(err.param, /^messages\[0\]\.content/);
    });

    test('more than the context holds', async () => {
      const { max_model_len: contextTokens } = await connect(Client, server).models.retrieve(mini);
      for (const body of [
        ask('fox '.repeat(contextTokens * 2)),
        ask('Hi', { max_tokens: contextTokens }),
        ask('fox '.repeat(contextTokens * 2), { stream: true, max_tokens: undefined }),
      ]) {
        const err = await refused(body);
        assert.ok(err instanceof Client.BadRequestError);
        assert.deepEqual([err.code, err.param, err.type], ['context_length_exceeded', 'messages', 'invalid_request_error']);
        assert.ok(err.message.includes(`maximum context length is ${contextTokens} tokens`), err.message);
      }
    });

    test('a body larger than the server reads', async () => {
      const err = await refused(ask('x'.repeat(17 << 20)));
      assert.ok(err instanceof Client.APIError, String(err));
      assert.deepEqual([err.status, err.type], [413, 'invalid_request_error'], String(err));
      assert.match(err.requestID, /^req_/);
    });
  });
}

describe('errors on the wire', () => {
  async function refusal(response, status) {
    assert.equal(response.status, status);
    assert.match(response.headers.get('content-type'), /^application\/json/);
    assert.match(response.headers.get('x-request-id'), /^req_/);
    const { error } = await response.json();
    assert.deepEqual(Object.keys(error).sort(), ['code', 'message', 'param', 'type']);
    assert.ok(error.message.length > 0);
    for (const key of ['code', 'param']) assert.ok(error[key] === null || typeof error[key] === 'string');
    return error;
  }

  for (const body of ['', '{', '{"model":"polly-mini",}', '[]', 'null', '"text"', '{"model":"polly-mini"} {}', '{"messages":[{"role":"user","content":"\\ud800\\x"}]}',
    '['.repeat(100_000)]) {
    test(`not a JSON object: ${body.slice(0, 30) || '(nothing)'}`, async () => {
      const error = await refusal(await post(server, chat, body), 400);
      assert.equal(error.type, 'invalid_request_error');
    });
  }

  test('another content type', async () => {
    const body = JSON.stringify(ask('Hi'));
    await refusal(await post(server, chat, body, { 'content-type': 'text/plain' }), 400);
    await refusal(await post(server, chat, body, { 'content-type': 'application/x-www-form-urlencoded' }), 400);
  });

  test('another method', async () => {
    const response = await fetch(server.url + chat);
    assert.match(response.headers.get('allow'), /POST/);
    await refusal(response, 405);
  });

  test('a huge body is refused, whether or not its size is announced', async () => {
    const half = new Uint8Array(1 << 20).fill(0x20);
    await refusal(await post(server, chat, new Uint8Array(17 << 20).fill(0x20)), 413);
    let sent = 0;
    const unannounced = new ReadableStream({
      pull(controller) {
        if (sent++ === 40) controller.close();
        else controller.enqueue(half);
      },
    });
    const response = await fetch(server.url + chat, { method: 'POST', headers: { 'content-type': 'application/json' }, body: unannounced, duplex: 'half' });
    await refusal(response, 413);
  });

  test('the server answers as before after all of this', async () => {
    const response = await post(server, chat, JSON.stringify(ask('Hi', { max_tokens: 4 })));
    assert.equal(response.status, 200);
    const health = await fetch(`${server.url}/readyz`);
    assert.equal(health.status, 200);
  });
});
