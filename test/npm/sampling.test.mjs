import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { ask, chunksOf, clients, connect, serveParley, textOf, vocabularyOf } from './parley.mjs';

const server = serveParley();
const [, Client] = clients[0];
const create = (body) => connect(Client, server).chat.completions.create(body);
const story = (more) => ask('Tell me a story about a fox.', { max_tokens: 60, ...more });
const sampled = (more) => story({ temperature: 1.2, ignore_eos: true, ...more });
const contentOf = (answer) => answer.choices[0].message.content;

describe('stop strings', () => {
  let full, tokens;
  before(async () => {
    const answer = await create(story({ logprobs: true }));
    full = contentOf(answer);
    tokens = answer.choices[0].logprobs.content.map((t) => t.token);
  });

  async function stopsAt(stop, end) {
    const whole = await create(story({ stop }));
    const chunks = await chunksOf(await create(story({ stop, stream: true })));
    for (const [text, reason] of [[contentOf(whole), whole.choices[0].finish_reason], [textOf(chunks), chunks.at(-1).choices[0].finish_reason]]) {
      assert.equal(text, full.slice(0, end), `stop ${JSON.stringify(stop)}`);
      assert.equal(reason, 'stop');
    }
  }

  test('a word ends the answer and is not returned', async () => {
    const word = full.split(' ')[8];
    await stopsAt(word, full.indexOf(word));
  });

  test('strings that straddle tokens', async () => {
    const junctions = straddling(tokens, full).slice(0, 5);
    assert.equal(junctions.length, 5, 'the answer has enough tokens to straddle');
    for (const { stop, at } of junctions) await stopsAt(stop, at);
  });

  test('the first of several to be complete', async () => {
    const words = full.split(' ');
    const stops = [words[12], words[5], 'never said', words[9]].map((w) => ` ${w}`);
    const at = Math.min(...stops.map((s) => full.indexOf(s)).filter((i) => i >= 0));
    await stopsAt(stops, at);
  });

  test('the very first characters', () => stopsAt(full.slice(0, 2), 0));

  test('text that only begins like a stop string is returned to its end', async () => {
    const stop = `${full.slice(-4)}\u0001 and then`;
    const whole = await create(story({ stop }));
    const chunks = await chunksOf(await create(story({ stop, stream: true })));
    assert.equal(contentOf(whole), full);
    assert.equal(textOf(chunks), full);
  });
});

/** Strings that begin in one token and end in the next, and where they are first found. */
function straddling(tokens, text) {
  const found = [];
  let end = 0;
  for (let i = 0; i + 1 < tokens.length; i++) {
    end += tokens[i].length;
    const stop = tokens[i].slice(-2) + tokens[i + 1].slice(0, 2);
    const at = end - Math.min(2, tokens[i].length);
    if (tokens[i + 1].length > 2 && text.indexOf(stop) === at) found.push({ stop, at });
  }
  return found;
}

describe('repeatable answers', () => {
  test('the same seed gives the same text, another seed another', async () => {
    const [a, b, c] = [await create(sampled({ seed: 11 })), await create(sampled({ seed: 11 })), await create(sampled({ seed: 12 }))];
    assert.equal(contentOf(a), contentOf(b));
    assert.notEqual(contentOf(a), contentOf(c));
  });

  test('without a seed answers differ', async () => {
    assert.notEqual(contentOf(await create(sampled())), contentOf(await create(sampled())));
  });

  test('temperature 0 is the same alone and under load', async () => {
    const alone = contentOf(await create(story()));
    const crowd = Array.from({ length: 8 }, (_, i) => create(i % 2 === 0 ? story() : sampled({ seed: i, max_tokens: 40 + 5 * i })));
    const answers = await Promise.all(crowd);
    for (const answer of answers.filter((_, i) => i % 2 === 0)) assert.equal(contentOf(answer), alone);
  });

  test('a seed is the same alone and under load', async () => {
    const alone = contentOf(await create(sampled({ seed: 3 })));
    const answers = await Promise.all(Array.from({ length: 6 }, (_, i) => create(sampled({ seed: i }))));
    assert.equal(contentOf(answers[3]), alone);
  });

  test('top_p 0 and top_k 1 leave only the most probable token', async () => {
    const greedy = contentOf(await create(story()));
    assert.equal(contentOf(await create(story({ temperature: 1.5, top_p: 0, seed: 1 }))), greedy);
    assert.equal(contentOf(await create(story({ temperature: 1.5, top_k: 1, seed: 2 }))), greedy);
  });

  test('8 streams at once are each what they are alone', async () => {
    const bodies = ['a fox', 'the moon', 'a boat', 'two friends', 'a king', 'the rain', 'an old tree', 'a lost shoe']
      .map((thing, i) => ask(`Tell me a story about ${thing}.`, { max_tokens: 30 + 6 * i, stream: true }));
    const alone = [];
    for (const body of bodies) alone.push(textOf(await chunksOf(await create(body))));
    const together = await Promise.all(bodies.map(async (body) => chunksOf(await create(body))));
    for (const [i, chunks] of together.entries()) {
      assert.equal(textOf(chunks), alone[i], bodies[i].messages[0].content);
      assert.ok(chunks.at(-1).choices[0].finish_reason);
    }
  });
});

describe('log-probabilities', () => {
  function check(list, text, alternatives) {
    assert.ok(list.length > 5);
    assert.equal(Buffer.from(list.flatMap((t) => t.bytes)).toString(), text);
    for (const entry of list) {
      assert.ok(entry.logprob <= 0, entry.logprob);
      assert.equal(Buffer.from(entry.bytes).toString(), entry.token);
      assert.equal(entry.top_logprobs.length, alternatives);
      const values = entry.top_logprobs.map((t) => t.logprob);
      assert.deepEqual(values, values.toSorted((a, b) => b - a), 'the most probable first');
      assert.ok(values.reduce((sum, v) => sum + Math.exp(v), 0) <= 1.001);
    }
  }

  test('chosen tokens with alternatives', async () => {
    const answer = await create(story({ logprobs: true, top_logprobs: 5 }));
    const { content, refusal } = answer.choices[0].logprobs;
    check(content, contentOf(answer), 5);
    assert.equal(refusal, null);
    for (const entry of content) {
      assert.equal(entry.token, entry.top_logprobs[0].token, 'temperature 0 chooses the most probable');
      assert.equal(entry.logprob, entry.top_logprobs[0].logprob);
    }
  });

  test('without alternatives the list of them is empty', async () => {
    const answer = await create(story({ logprobs: true }));
    check(answer.choices[0].logprobs.content, contentOf(answer), 0);
  });

  test('streamed ones are the same', async () => {
    const body = story({ logprobs: true, top_logprobs: 20 });
    const whole = await create(body);
    const chunks = await chunksOf(await create({ ...body, stream: true }));
    const streamed = chunks.flatMap((c) => c.choices[0].logprobs?.content ?? []);
    assert.deepEqual(streamed, whole.choices[0].logprobs.content);
    const helped = await connect(Client, server).chat.completions.stream(body).finalChatCompletion();
    assert.deepEqual(helped.choices[0].logprobs.content, whole.choices[0].logprobs.content);
  });

  test('temperature does not change them: they are the model\'s own', async () => {
    const [cold, warm] = [await create(story({ logprobs: true, max_tokens: 1 })), await create(story({ logprobs: true, max_tokens: 1, temperature: 1.7, top_k: 1 }))];
    assert.deepEqual(warm.choices[0].logprobs.content, cold.choices[0].logprobs.content);
  });
});

describe('logit bias', () => {
  let vocabulary;
  before(async () => { vocabulary = await vocabularyOf(server); });

  test('+100 forces a token', async () => {
    const id = vocabulary.findIndex((t) => /^ [a-z]{3,}$/.test(t));
    const forced = await create(story({ logit_bias: { [id]: 100 }, max_tokens: 4 }));
    assert.equal(contentOf(forced), vocabulary[id].repeat(4));
  });

  test('-100 forbids one', async () => {
    const first = async (more) => (await create(story({ logprobs: true, max_tokens: 1, ...more }))).choices[0].logprobs.content[0].token;
    const usual = await first();
    assert.notEqual(await first({ logit_bias: { [vocabulary.indexOf(usual)]: -100 } }), usual);
  });
});
