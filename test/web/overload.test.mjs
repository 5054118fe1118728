// After an overload the headline says what happened, as long as the panels below it show it: in the minute after it, and
// for some minutes more. Waits are told as long as they were.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { asOwner, endless, eventually, inEveryLook, openPage, openPages, shot, wantFit } from './pages.mjs';

const rig = openPages('--seqs', '1', '--queue-depth', '1', '--share', 'off', '--shed-start', 'off', '--queue-wait', '5m');
const waitedMs = 2700; // more than the bucket before has, so that it is not taken for less

const ask = (members, signal) =>
  fetch(`${rig.server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...asOwner(rig.server) },
    body: JSON.stringify({ model: 'polly', messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 4, ...members }),
    signal,
  });

/** More requests than there is room for: some wait until the engine is free, the last ones are rejected. */
async function overload() {
  const others = new AbortController();
  const busy = await ask({ ...endless, stream: true }, others.signal);
  assert.equal(busy.status, 200);
  const reading = busy.body.pipeTo(new WritableStream()).catch(() => undefined);
  const asked = [];
  let rejected = 0;
  const more = () => asked.push(ask({}).then(async (r) => (await r.text(), (rejected += r.status !== 200), r.status)));
  for (; rejected === 0; await pause(5)) { // how many a worker holds that it has not begun is learned
    assert.ok(asked.length < 4096, 'none is rejected');
    more();
  }
  for (let n = 0; n < 8; n++) more();
  await pause(waitedMs);
  others.abort();
  await reading;
  const statuses = await Promise.all(asked);
  assert.ok(statuses.includes(200), `of those that waited none was answered: ${statuses}`);
  assert.ok(rejected > 4, `too few were rejected: ${statuses}`);
}

test('a wait is told as long as it was', async () => {
  await overload();
  await eventually(async () => {
    const { p99, count } = (await (await fetch(`${rig.server.url}/admin/api/now`, { headers: asOwner(rig.server) })).json()).times.queue;
    assert.ok(count > 1, 'waits are not told');
    assert.ok(p99 > 2, `the longest wait was ${waitedMs} ms and is told as ${p99} s`);
  });
});

const openNow = (options) => openPage(rig, options, '/admin#now', '[data-number="running"]');
const falseCauses = /single requests are large|the machine is slow|No requests in the last minute|served as they arrive/;

/** A headline that is green stands above no panel that is not. */
async function wantAgreement(page) {
  const [burning, calm] = await page.evaluate(() => ['.promise .pill:is(.bad, .warn)', '.verdict:not(.unhappy):not(.past)'].map((s) => document.querySelectorAll(s).length));
  assert.ok(burning === 0 || calm === 0, `the headline is calm above ${burning} panels that are not`);
}

inEveryLook('after an overload the headline says that requests were rejected', async (options, name) => {
  const page = await openNow(options);
  const headline = page.locator('.verdict h1');
  await headline.filter({ hasText: /\d+ of \d+ requests were rejected/ }).waitFor();
  await eventually(async () => assert.doesNotMatch(await headline.innerText(), falseCauses));
  await wantAgreement(page);
  await wantFit(page, `after an overload, ${name}`);
  await shot(page, `admin-overload-${name}`);
  await page.closeClean();
});

inEveryLook('a wait beyond the last bucket is told as such', async (options, name) => {
  const page = await openNow(options);
  // What the server says of waits in its queue is replaced by longer ones: no test waits for two minutes.
  await page.addInitScript(() => {
    const real = window.fetch;
    window.fetch = async (...asked) => {
      const response = await real(...asked);
      if (!String(asked[0]?.url ?? asked[0]).includes('/admin/api/live')) return response;
      let held = '';
      const longer = new TransformStream({
        transform(text, to) {
          held += text;
          const whole = held.lastIndexOf('\n') + 1;
          to.enqueue(held.slice(0, whole).replace(/"queue":\{[^{}]*\}/g, '"queue":{"p50":1.2,"p95":104.86,"p99":104.86,"count":9,"top":104.86}'));
          held = held.slice(whole);
        },
      });
      const body = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(longer).pipeThrough(new TextEncoderStream());
      return new Response(body, { headers: response.headers, status: response.status });
    };
  });
  await page.reload();
  await page.locator('[data-wait="Queue wait"]', { hasText: /1\.20 s\s*over 1 min 45 s\s*over 1 min 45 s/ }).waitFor();
  await wantFit(page, `waits, ${name}`);
  await page.closeClean();
});

inEveryLook('some minutes after an overload the headline still says what happened', async (options, name) => {
  const page = await openNow(options);
  await page.locator('.verdict.past h1', { hasText: /All clear now\. Until (a minute|\d+ minutes) ago, \d+ of \d+ requests were rejected/ }).waitFor({ timeout: 240_000 });
  await wantAgreement(page);
  await wantFit(page, `some minutes after an overload, ${name}`);
  await shot(page, `admin-overload-past-${name}`);
  await page.closeClean();
});
