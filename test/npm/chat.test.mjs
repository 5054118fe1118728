import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ask, checkUsage, clients, connect, mini, polly, post, serveParley } from './parley.mjs';

const server = serveParley();
const question = 'What is the capital of France?';

for (const [name, Client] of clients) {
  describe(`chat, ${name}`, () => {
    const create = (body) => connect(Client, server).chat.completions.create(body);

    test('an answer has every member that clients read', async () => {
      const asked = Math.floor(Date.now() / 1000);
      const answer = await create(ask(question));
      assert.match(answer.id, /^chatcmpl-/);
      assert.equal(answer.object, 'chat.completion');
      assert.equal(answer.model, mini);
      assert.ok(Number.isInteger(answer.created) && answer.created >= asked && answer.created <= asked + 60);
      assert.equal(answer.choices.length, 1);
      const [choice] = answer.choices;
      assert.equal(choice.index, 0);
      assert.equal(choice.message.role, 'assistant');
      assert.ok(choice.message.content.length > 0);
      assert.equal(choice.message.refusal, null);
      assert.equal(choice.logprobs, null);
      assert.equal(choice.finish_reason, 'stop');
      assert.ok(!choice.message.content.includes('<|'), 'the end of the turn is not text');
      checkUsage(answer.usage);
    });

    test('the request id is in the answer and in the header', async () => {
      const { data, response, request_id } = await connect(Client, server).chat.completions.create(ask(question)).withResponse();
      assert.match(data._request_id, /^req_/);
      assert.equal(data._request_id, response.headers.get('x-request-id'));
      assert.equal(data._request_id, request_id);
      const again = await create(ask(question));
      assert.notEqual(again._request_id, data._request_id);
    });

    test('max_tokens and max_completion_tokens end an answer', async () => {
      for (const limit of [{ max_tokens: 3 }, { max_tokens: undefined, max_completion_tokens: 3 }, { max_tokens: 9, max_completion_tokens: 3 }]) {
        const answer = await create(ask('Tell me a story.', { ...limit, ignore_eos: true }));
        assert.equal(answer.choices[0].finish_reason, 'length');
        assert.equal(answer.usage.completion_tokens, 3);
      }
    });

    test('without a limit the answer ends by itself or with the context', async () => {
      const answer = await create(ask(question, { max_tokens: undefined }));
      assert.equal(answer.choices[0].finish_reason, 'stop');
      const { max_model_len: contextTokens } = await connect(Client, server).models.retrieve(mini);
      const endless = await create(ask(question, { max_tokens: undefined, ignore_eos: true }));
      assert.equal(endless.choices[0].finish_reason, 'length');
      assert.equal(endless.usage.total_tokens, contextTokens);
    });

    test('n answers are counted together, the prompt once', async () => {
      const one = await create(ask(question, { max_tokens: 12, ignore_eos: true, temperature: 1, seed: 7 }));
      const two = await create(ask(question, { max_tokens: 12, ignore_eos: true, temperature: 1, seed: 7, n: 2 }));
      assert.deepEqual(two.choices.map((c) => c.index), [0, 1]);
      assert.notEqual(two.choices[0].message.content, two.choices[1].message.content);
      assert.equal(two.usage.prompt_tokens, one.usage.prompt_tokens);
      assert.equal(two.usage.completion_tokens, 24);
      checkUsage(two.usage);
    });

    test('developer is another word for system', async () => {
      const instructed = (role) => create({ ...ask(''), messages: [{ role, content: 'Be short.' }, { role: 'user', content: question }] });
      const [system, developer, neither] = [await instructed('system'), await instructed('developer'), await create(ask(question))];
      assert.equal(developer.usage.prompt_tokens, system.usage.prompt_tokens);
      assert.equal(developer.choices[0].message.content, system.choices[0].message.content);
      assert.ok(system.usage.prompt_tokens > neither.usage.prompt_tokens, 'the instruction is part of the prompt');
    });

    test('content in parts is the same as in one string', async () => {
      const parts = await create(ask([{ type: 'text', text: 'Hello!' }, { type: 'text', text: question }]));
      const whole = await create(ask(`Hello!\n${question}`));
      assert.equal(parts.usage.prompt_tokens, whole.usage.prompt_tokens);
      assert.equal(parts.choices[0].message.content, whole.choices[0].message.content);
    });

    test('a conversation of several turns, also with a tool call in it', async () => {
      const answer = await create({
        ...ask(''),
        messages: [
          { role: 'user', content: 'My name is Ada.' },
          { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'greet', arguments: '{"name":"Ada"}' } }] },
          { role: 'tool', tool_call_id: 'call_1', content: 'Hello Ada!' },
          { role: 'assistant', content: 'Hello Ada!' },
          { role: 'user', content: 'Who are you?' },
        ],
      });
      assert.ok(answer.choices[0].message.content.length > 0);
    });

    test('unknown members and nulls are ignored', async () => {
      const plain = await create(ask(question));
      const answer = await create(ask(question, {
        some_extra: { of: 'another server' }, stop: null, n: null, logit_bias: null, tools: null, user: 'u', store: false, metadata: { a: 'b' },
      }));
      assert.equal(answer.choices[0].message.content, plain.choices[0].message.content);
    });
  });
}

test('a request that names no model gets the default one', async () => {
  const { model: _, ...unnamed } = ask(question, { max_tokens: 4 });
  const response = await post(server, '/v1/chat/completions', JSON.stringify(unnamed));
  assert.equal(response.status, 200);
  assert.equal((await response.json()).model, polly);
});

test('both models answer', async () => {
  const [, Client] = clients[0];
  for (const model of [polly, mini]) {
    const answer = await connect(Client, server).chat.completions.create(ask('Hello! Who are you?', { model }));
    assert.equal(answer.model, model);
    assert.match(answer.choices[0].message.content, /\w+ \w+/);
  }
});
