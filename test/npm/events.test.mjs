// What a worker publishes of its cache, read by the real libzmq and by a decoder
// of MessagePack that is not ours.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { decode } from '@msgpack/msgpack';
import { Dealer, Subscriber } from 'zeromq';

const worker = { topic: 'kv@127.0.0.1@polly-mini' };

before(async () => {
  worker.data = await mkdtemp(join(tmpdir(), 'parley-test-'));
  worker.child = spawn(process.env.PARLEY_BIN, ['worker', '--model', 'polly-mini', '--addr', '127.0.0.1:0', '--kv-tokens', '1024', '--context', '512',
    '--events', '127.0.0.1:0', '--events-topic', worker.topic, '--events-tokens', 'on', '--data', worker.data], { stdio: ['ignore', 'ignore', 'pipe'] });
  worker.ended = once(worker.child, 'exit');
  await new Promise((resolve, reject) => {
    worker.ended.then(([code]) => reject(new Error(`the worker ended with ${code}`)));
    createInterface({ input: worker.child.stderr }).on('line', (line) => {
      worker.url ??= / on (http:\S+)$/.exec(line)?.[1];
      const ports = /^Cache events over ZMQ on port (\d+), replay on port (\d+)$/.exec(line);
      if (ports) {
        [worker.events, worker.replay] = ports.slice(1).map((port) => `tcp://127.0.0.1:${port}`);
        resolve();
      }
    });
  });
});

after(async () => {
  worker.child.kill('SIGTERM');
  const [code] = await worker.ended;
  await rm(worker.data, { recursive: true });
  assert.equal(code, 0);
});

async function complete(prompt) {
  const response = await fetch(`${worker.url}/v1/completions`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ prompt, max_tokens: 8, temperature: 0, return_token_ids: true }),
  });
  assert.equal(response.status, 200);
  return (await response.json()).choices[0].token_ids;
}

/** Batches from a number on, as the router socket repeats them. */
async function replay(from) {
  const dealer = new Dealer({ receiveTimeout: 20_000 });
  dealer.connect(worker.replay);
  const start = Buffer.alloc(8);
  start.writeBigUInt64BE(BigInt(from));
  await dealer.send(['', start]);
  const batches = [];
  for (;;) {
    const [empty, topic, seq, payload] = await dealer.receive();
    assert.equal(empty.length, 0);
    if (payload.length === 0) {
      assert.equal(seq.readBigUInt64BE(), 0xffffffffffffffffn);
      dealer.close();
      return batches;
    }
    assert.equal(topic.toString(), worker.topic);
    batches.push({ seq: Number(seq.readBigUInt64BE()), payload: decode(payload) });
  }
}

test('libzmq follows the events of a worker, and has them repeated', async () => {
  const subscriber = new Subscriber({ receiveTimeout: 20_000 });
  subscriber.connect(worker.events);
  subscriber.subscribe('kv@');
  const prompt = Array.from({ length: 70 }, (_, i) => 100 + i);
  const seen = [];
  for (let i = 0; seen.length === 0; i++) { // a subscription takes a moment to arrive
    await complete(prompt.map((id) => id + i));
    subscriber.receiveTimeout = 500;
    try {
      for (;;) {
        const [topic, seq, payload] = await subscriber.receive();
        assert.equal(topic.toString(), worker.topic);
        seen.push({ seq: Number(seq.readBigUInt64BE()), payload: decode(payload) });
      }
    } catch (e) {
      if (e.code !== 'EAGAIN') throw e;
    }
    assert.ok(i < 20, 'no event came');
  }
  subscriber.close();
  const stored = seen.flatMap(({ payload: [at, events, rank] }) => {
    assert.ok(Math.abs(at - Date.now() / 1000) < 60);
    assert.equal(rank, 0);
    return events;
  }).filter((event) => event.type === 'BlockStored');
  assert.ok(stored.length > 0);
  const [first] = stored;
  assert.equal(first.parent_block_hash, null);
  assert.equal(first.block_size, 16);
  assert.equal(first.medium, 'GPU');
  assert.equal(first.lora_name, null);
  assert.equal(first.token_ids.length, 16 * first.block_hashes.length);
  assert.deepEqual(first.token_ids.slice(1, 16).map((id, i) => id - first.token_ids[i]), Array(15).fill(1));
  assert.ok(first.block_hashes.every((hash) => hash instanceof Uint8Array && hash.length === 32));

  const all = await replay(0);
  assert.deepEqual(all.map(({ seq }) => seq), all.map((_, i) => i));
  assert.equal(all[0].payload[1][0].type, 'AllBlocksCleared');
  for (const batch of seen) assert.deepEqual(all[batch.seq].payload, batch.payload);
  assert.deepEqual(await replay(all.length), []);
});
