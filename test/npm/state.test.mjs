// What a server remembers, asked for in the ways that the openai libraries have:
// responses and their items, conversations, files.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { toFile } from 'openai';
import { clients, connect, failureOf, metricBecomes, mini, polly, serveParley } from './parley.mjs';

const server = serveParley();
const steady = { model: mini, input: 'Tell me a story about a fox.', temperature: 0, max_output_tokens: 40 };

for (const [name, Client] of clients) {
  describe(`responses, ${name}`, () => {
    const responses = () => connect(Client, server).responses;

    test('input is counted without an answer', async () => {
      const { object, input_tokens } = await responses().inputTokens.count({ model: mini, input: steady.input, instructions: 'Be brief.' });
      const answer = await responses().create({ ...steady, instructions: 'Be brief.' });
      assert.deepEqual([object, input_tokens], ['response.input_tokens', answer.usage.input_tokens]);
      assert.equal(answer.instructions, 'Be brief.');
    });

    test('what is not stored is gone; what is stored is there', async () => {
      const kept = await responses().create({ ...steady, metadata: { a: 'b' } });
      assert.deepEqual((await responses().retrieve(kept.id)).metadata, { a: 'b' });
      const gone = await responses().create({ ...steady, store: false });
      assert.equal((await failureOf(responses().retrieve(gone.id))).status, 404);
      assert.equal((await failureOf(responses().create({ ...steady, previous_response_id: gone.id }))).code, 'previous_response_not_found');
    });

    test('a limit makes it incomplete, whole and streamed', async () => {
      const short = { ...steady, max_output_tokens: 3 };
      const whole = await responses().create(short);
      assert.deepEqual([whole.status, whole.incomplete_details.reason, whole.usage.output_tokens], ['incomplete', 'max_output_tokens', 3]);
      const events = [];
      for await (const event of await responses().create({ ...short, stream: true })) events.push(event);
      assert.equal(events.at(-1).type, 'response.incomplete');
      assert.equal(events.at(-1).response.incomplete_details.reason, 'max_output_tokens');
    });

    test('log-probabilities, when they are asked for', async () => {
      const answer = await responses().create({ ...steady, top_logprobs: 2, include: ['message.output_text.logprobs'] });
      const [{ text, logprobs }] = answer.output.find((item) => item.type === 'message').content;
      assert.equal(logprobs.map((l) => l.token).join(''), text);
      for (const l of logprobs) assert.ok(l.logprob <= 0 && l.top_logprobs.length === 2, JSON.stringify(l));
      const without = await responses().create(steady);
      assert.deepEqual(without.output.find((item) => item.type === 'message').content[0].logprobs, []);
    });

    test('items of the input, page by page, the newest first', async () => {
      const said = ['one', 'two', 'three', 'four', 'five'];
      const made = await responses().create({ ...steady, input: said.map((content) => ({ role: 'user', content })) });
      const texts = (items) => items.map((item) => item.content[0].text);
      const newest = [];
      for await (const item of responses().inputItems.list(made.id, { limit: 2 })) newest.push(item);
      assert.deepEqual(texts(newest), said.toReversed());
      const page = await responses().inputItems.list(made.id, { limit: 2, order: 'asc', after: newest.at(-1).id });
      assert.deepEqual(texts(page.data), ['two', 'three']);
      assert.equal(page.has_more, true);
    });

    test('an item that is referred to is what it was', async () => {
      const first = await responses().create({ ...steady, input: 'My name is Ada.' });
      const spoken = first.output.find((item) => item.type === 'message');
      const question = [{ role: 'user', content: 'My name is Ada.' }, { type: 'item_reference', id: spoken.id }, { role: 'user', content: 'What is my name?' }];
      const referred = await responses().create({ ...steady, input: question });
      const replayed = await responses().create({ ...steady, input: [question[0], spoken, question[2]] });
      assert.equal(referred.output_text, replayed.output_text);
    });

    test('a stream in the background is left, and taken up where it was left', async () => {
      const seen = [];
      const stream = await responses().create({ ...steady, model: polly, max_output_tokens: 120, ignore_eos: true, background: true, stream: true });
      for await (const event of stream) {
        seen.push(event);
        if (event.type === 'response.output_text.delta') break;
      }
      const { id } = seen[0].response;
      const rest = [];
      for await (const event of await responses().retrieve(id, { stream: true, starting_after: seen.at(-1).sequence_number })) rest.push(event);
      const all = [...seen, ...rest];
      assert.deepEqual(all.map((e) => e.sequence_number), all.map((_, i) => i));
      const text = all.filter((e) => e.type === 'response.output_text.delta').map((e) => e.delta).join('');
      assert.equal(text, (await responses().retrieve(id)).output_text);
    });

    test('JSON, and schemas that cannot be held', async () => {
      const answer = await responses().create({ ...steady, max_output_tokens: 400, temperature: 1, text: { format: { type: 'json_object' } } });
      if (answer.status === 'completed') JSON.parse(answer.output_text);
      const schema = { type: 'object', properties: { a: { $ref: '#/nowhere' } }, required: ['a'], additionalProperties: false };
      const err = await failureOf(responses().create({ ...steady, text: { format: { type: 'json_schema', name: 'x', strict: true, schema } } }));
      assert.deepEqual([err.status, err.type], [400, 'invalid_request_error']);
    });

    test('tools: a named one, none, and one of several', async () => {
      const parameters = { type: 'object', properties: { city: { type: 'string', enum: ['Rome', 'Oslo'] } }, required: ['city'], additionalProperties: false };
      const tools = ['weather', 'time'].map((of) => ({ type: 'function', name: of, parameters, strict: true }));
      const asking = { ...steady, max_output_tokens: 300, input: 'How is Rome?', tools };
      const named = await responses().create({ ...asking, tool_choice: { type: 'function', name: 'time' } });
      assert.deepEqual(named.output.filter((i) => i.type === 'function_call').map((i) => i.name), ['time']);
      const none = await responses().create({ ...asking, tool_choice: 'none' });
      assert.ok(none.output.every((i) => i.type !== 'function_call'));
      const any = await responses().create({ ...asking, tool_choice: 'required', parallel_tool_calls: false });
      assert.equal(any.output.filter((i) => i.type === 'function_call').length, 1);
      const types = [];
      for await (const event of await responses().create({ ...asking, tool_choice: 'required', parallel_tool_calls: false, stream: true })) types.push(event.type);
      assert.ok(types.includes('response.function_call_arguments.delta'));
      assert.equal(types.filter((type) => type === 'response.function_call_arguments.done').length, 1);
    });

    test('what contradicts itself is refused', async () => {
      const { id } = await responses().create(steady);
      const conversation = (await connect(Client, server).conversations.create({})).id;
      for (const [body, param] of [
        [{ previous_response_id: id, conversation }, /conversation|previous_response_id/],
        [{ conversation: 'conv_nobody' }, /conv_nobody/],
        [{ max_output_tokens: 0 }, /max_output_tokens/],
        [{ tools: [{ type: 'function' }] }, /tools/],
        [{ background: true, store: false }, /store|background/],
      ]) {
        const err = await failureOf(responses().create({ ...steady, ...body }));
        assert.ok(err.status === 400 || err.status === 404, JSON.stringify([body, err.status]));
        assert.equal(err.type, 'invalid_request_error');
        assert.match(`${err.param} ${err.message}`, param);
      }
      assert.equal((await failureOf(responses().cancel(id))).status, 400, 'only what runs in the background can be cancelled');
      for (const act of [responses().retrieve, responses().delete, responses().cancel]) assert.equal((await failureOf(act.call(responses(), 'resp_nobody'))).status, 404);
      assert.equal((await failureOf(responses().inputItems.list('resp_nobody'))).status, 404);
    });

    test('a cancelled one says so from then on', async () => {
      const long = await responses().create({ ...steady, model: polly, background: true, max_output_tokens: 1900, ignore_eos: true });
      assert.equal((await responses().cancel(long.id)).status, 'cancelled');
      assert.equal((await responses().cancel(long.id)).status, 'cancelled', 'again changes nothing');
      assert.equal((await responses().retrieve(long.id)).status, 'cancelled');
      await metricBecomes(server, 'parley_requests_in_flight', 0);
    });
  });

  describe(`conversations, ${name}`, () => {
    const client = () => connect(Client, server);
    const user = (content) => ({ type: 'message', role: 'user', content });

    test('items are added and listed, page by page', async () => {
      const { id } = await client().conversations.create({ items: [user('one')] });
      const added = await client().conversations.items.create(id, { items: [user('two'), user('three')] });
      assert.deepEqual([added.object, added.data.length, added.has_more], ['list', 2, false]);
      assert.deepEqual([added.first_id, added.last_id], [added.data[0].id, added.data[1].id]);
      const texts = [];
      for await (const item of client().conversations.items.list(id, { limit: 1 })) texts.push(item.content[0].text);
      assert.deepEqual(texts, ['three', 'two', 'one']);
      const rest = await client().conversations.items.list(id, { order: 'asc', after: added.first_id });
      assert.deepEqual(rest.data.map((item) => item.content[0].text), ['three']);
    });

    test('a streamed response is appended when it is complete', async () => {
      const { id } = await client().conversations.create({});
      let text = '';
      for await (const event of await client().responses.create({ ...steady, conversation: { id }, stream: true })) {
        if (event.type === 'response.output_text.delta') text += event.delta;
      }
      const items = await client().conversations.items.list(id, { order: 'asc' });
      assert.deepEqual(items.data.map((item) => item.content[0].text), [steady.input, text]);
    });

    test('bounds are told', async () => {
      const { id } = await client().conversations.create({});
      const many = Array.from({ length: 21 }, () => user('x'));
      for (const [failing, param] of [
        [() => client().conversations.create({ items: many }), 'items'],
        [() => client().conversations.items.create(id, { items: many }), 'items'],
        [() => client().conversations.create({ metadata: Object.fromEntries(many.map((_, i) => [`k${i}`, 'v'])) }), 'metadata'],
        [() => client().conversations.update(id, { metadata: { k: 'v'.repeat(513) } }), 'metadata'],
        [() => client().conversations.items.list(id, { limit: 101 }), 'limit'],
      ]) {
        const err = await failureOf(failing());
        assert.deepEqual([err.status, err.type], [400, 'invalid_request_error']);
        assert.match(err.param, new RegExp(param));
      }
      assert.equal((await failureOf(client().conversations.retrieve('conv_nobody'))).status, 404);
      assert.equal((await failureOf(client().conversations.items.list('conv_nobody'))).status, 404);
      assert.equal((await failureOf(client().conversations.items.retrieve('msg_nobody', { conversation_id: id }))).status, 404);
    });
  });

  describe(`files, ${name}`, () => {
    const files = () => connect(Client, server).files;
    const upload = async (text, purpose = 'user_data') => files().create({ file: await toFile(Buffer.from(text), 'notes.txt'), purpose });

    test('upload, look, list, read, delete', async () => {
      const text = 'Zwölf Füchse 🦊\n';
      const made = await upload(text);
      assert.deepEqual([made.object, made.bytes, made.filename, made.purpose], ['file', Buffer.byteLength(text), 'notes.txt', 'user_data']);
      assert.deepEqual(await files().retrieve(made.id), made);
      const listed = [];
      for await (const file of files().list({ purpose: 'user_data', limit: 1 })) listed.push(file.id);
      assert.ok(listed.includes(made.id));
      assert.equal(await (await files().content(made.id)).text(), text);
      assert.deepEqual(await files().delete(made.id), { id: made.id, object: 'file', deleted: true });
      assert.equal((await failureOf(files().content(made.id))).status, 404);
    });

    test('what is wrong is told', async () => {
      assert.match((await failureOf(upload('x', 'nonsense'))).param, /purpose/);
      assert.equal((await failureOf(files().delete('file-nobody'))).status, 404);
      const batches = connect(Client, server).batches;
      const missing = await failureOf(batches.create({ input_file_id: 'file-nobody', endpoint: '/v1/chat/completions', completion_window: '24h' }));
      assert.ok([400, 404].includes(missing.status));
      const wrong = await failureOf(batches.create({ input_file_id: (await upload('x', 'batch')).id, endpoint: '/v1/nowhere', completion_window: '24h' }));
      assert.deepEqual([wrong.status, wrong.param], [400, 'endpoint']);
      assert.equal((await failureOf(batches.retrieve('batch_nobody'))).status, 404);
    });
  });
}
