// An engine of another maker that streams rich Markdown at a rate that the prompt chooses: the page follows it, on a
// desktop and on a phone, until the reader scrolls; and draws what is in it as one reads it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { answered, asOwner, eventually, inEveryLook, makeConversation, openPage, openPages, say, shot, wantAccessible, wantFit } from './pages.mjs';

const rich = `## Prices

| Item | Quantity | Price | Shelf | Supplier | Remark |
|---|---:|---:|---|---|---|
| Bananas | 12 | $10.00 | North | Company | Refrigerated |

- [ ] todo
- [x] done

\`\`\`js
${Array.from({ length: 12 }, (_, i) => `const line${i} = compute(${i});`).join('\n')}
\`\`\`

مرحبا بالعالم.

1. one
2. two

`;

let released = () => undefined;
let cuts = 0;
const engine = createServer(async (request, response) => {
  if (request.url.endsWith('/models')) return response.end(JSON.stringify({ object: 'list', data: [{ id: 'polly', object: 'model', owned_by: 'test' }] }));
  if (!request.url.endsWith('/chat/completions')) return response.writeHead(404).end();
  const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
  const asked = JSON.stringify(body.messages.at(-1));
  const send = (delta, finish = null) => response.write(`data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'polly', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
  if (/explode/.test(asked)) return response.writeHead(500, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { message: 'the tensor broke', type: 'server_error' } }));
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const cut = /cut/.test(asked) && cuts-- > 0;
  const held = cut || /hold/.test(asked);
  const words = /short|hold|cut/.test(asked) ? ['Well, ', 'yes.'] : rich.repeat(12).match(/\s*\S+\s*/g);
  const perTick = /fast/.test(asked) ? 20 : 4;
  for (const [i, word] of words.entries()) {
    send({ content: word });
    if (held && i === 0) await new Promise((resolve) => (released = resolve));
    if (cut) return void response.destroy();
    if (i % perTick === perTick - 1) await pause(10);
  }
  send({}, 'stop');
  response.end('data: [DONE]\n\n');
});
engine.listen(0, '127.0.0.1');
await once(engine, 'listening');
after(() => engine.close());
const rig = openPages('--worker', `openai-chat=http://127.0.0.1:${engine.address().port}`);

const behind = (page) => page.locator('.scroller').evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight);

inEveryLook('an answer that streams is followed until one scrolls', async (options) => {
  const page = await openPage(rig, options);
  for (const [n, rate] of ['fast', 'steady'].entries()) {
    await say(page, `Write, ${rate}`);
    await answered(page, n + 1);
    await page.waitForFunction(() => {
      const e = document.querySelector('.scroller');
      return e.scrollHeight > 3 * e.clientHeight && e.scrollHeight - e.scrollTop - e.clientHeight < 60;
    });
    await page.getByRole('button', { name: 'Go to the end' }).waitFor({ state: 'detached' });
    await page.locator('.scroller').evaluate((e) => (e.scrollTop -= 2000));
    await page.getByRole('button', { name: 'Go to the end' }).waitFor();
    assert.ok((await behind(page)) > 1000);
  }
  await page.closeClean();
});

inEveryLook('tables keep words whole, task lists have boxes alone, Arabic runs from the right', async (options, name) => {
  const page = await openPage(rig, options);
  await say(page, 'Write, fast');
  await answered(page);
  const cells = page.locator('.table').first().locator('th, td');
  const broken = (all) => all.filter((c) => c.getClientRects().length && c.scrollHeight > 2.2 * parseFloat(getComputedStyle(c).lineHeight)).map((c) => c.textContent);
  await eventually(async () => assert.deepEqual(await cells.evaluateAll(broken), [], 'cells of one word have one line'));
  await eventually(async () => assert.deepEqual(await page.locator('.task').evaluateAll((all) => all.slice(0, 2).map((t) => [t.querySelectorAll('input').length, t.textContent.trim()])), [[1, 'todo'], [1, 'done']]));
  await eventually(async () => assert.equal(await page.locator('.markdown p', { hasText: 'مرحبا' }).first().evaluate((p) => getComputedStyle(p).direction), 'rtl'));
  await page.fill('#prompt', 'مرحبا');
  await eventually(async () => assert.equal(await page.locator('#prompt').evaluate((p) => getComputedStyle(p).direction), 'rtl'));
  await wantFit(page, `rich Markdown, ${name}`);
  await shot(page, `chat-rich-${name}`);
  await page.closeClean();
});

inEveryLook('a message is queued while an answer is being written, can be taken back, and is sent after it', async (options, name) => {
  const page = await openPage(rig, options);
  await say(page, 'Hello, hold');
  await page.locator('.live .markdown', { hasText: 'Well' }).waitFor();
  await say(page, 'And short');
  const queued = page.getByRole('article', { name: 'Queued message' });
  await queued.waitFor();
  await wantFit(page, `a queued message, ${name}`);
  await shot(page, `chat-queued-message-${name}`);
  await queued.getByRole('button', { name: 'Edit' }).click();
  await queued.waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await page.inputValue('#prompt'), 'And short'));
  await say(page, 'And short');
  await queued.waitFor();
  await page.fill('#prompt', 'A draft');
  released();
  await answered(page, 2);
  await queued.waitFor({ state: 'detached' });
  await eventually(async () => assert.deepEqual(await page.locator('article.mine .said').allInnerTexts(), ['Hello, hold', 'And short']));
  await eventually(async () => assert.equal(await page.inputValue('#prompt'), 'A draft'));
  await page.closeClean();
});

inEveryLook('where an engine takes whole conversations alone, an answer that broke off is asked for again, and not continued', async (options, name) => {
  cuts = 1;
  const page = await openPage(rig, options);
  const continues = page.getByRole('button', { name: 'Continue', exact: true });
  const again = page.getByRole('button', { name: 'Ask again', exact: true });
  await say(page, 'Hello, hold');
  await page.locator('.live .markdown', { hasText: 'Well' }).waitFor();
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await again.waitFor();
  assert.equal(await continues.count(), 0);
  released();

  await say(page, 'Hello, cut');
  await page.locator('.live .markdown', { hasText: 'Well' }).waitFor();
  released();
  await page.getByText('cannot be resumed').waitFor();
  await again.nth(1).waitFor();
  assert.equal(await continues.count(), 0);
  await wantFit(page, `an answer that broke off, ${name}`);
  await shot(page, `chat-broke-off-${name}`);
  await again.nth(1).click();
  await page.locator('article .markdown', { hasText: 'Well, yes.' }).waitFor();
  await page.closeClean();
});

test('an error of an engine is shown in its words, and others are answered meanwhile', async () => {
  const page = await openPage(rig);
  const other = await openPage(rig);
  await say(page, 'Please explode');
  await say(other, 'Be short');
  await answered(other);
  await page.locator('.broken', { hasText: 'the tensor broke' }).waitFor();
  await wantAccessible(page, 'an error of an engine');
  await say(other, 'Be short again');
  await answered(other, 2);
  await other.closeClean();
  await page.closeClean();
});

/** A chat of 1,000 messages, of which every answer is rich Markdown. */
async function makeLong() {
  const made = await makeConversation(rig, { title: 'Long', items: [] });
  for (let n = 0; n < 1000; n += 20) {
    const items = Array.from({ length: 20 }, (_, i) => {
      const answer = (n + i) % 2 === 1;
      return { type: 'message', role: answer ? 'assistant' : 'user', content: [{ type: answer ? 'output_text' : 'input_text', text: answer ? `message ${n + i}\n\n${rich}` : `message ${n + i}` }] };
    });
    const response = await fetch(`${rig.server.url}/v1/conversations/${made.id}/items`, { method: 'POST', headers: { 'content-type': 'application/json', ...asOwner(rig.server) }, body: JSON.stringify({ items }) });
    assert.equal(response.status, 200, await response.clone().text());
  }
  return made;
}

let long;
const openLong = async (options) => {
  const page = await openPage(rig, options, `/c/${(await (long ??= makeLong())).id}`);
  await page.getByText('message 999', { exact: true }).waitFor();
  return page;
};

test('a chat of 1,000 messages opens in under a second', async (t) => {
  const page = await openLong();
  // From the navigation to the frame that shows the last message, the best of five. What counts is the processor time of the
  // page, of which other programs take nothing; the time by the clock is printed beside it.
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
  const computed = async () => 1000 * (await devtools.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration').value;
  await page.addInitScript(() => {
    const seen = new MutationObserver(() => {
      if (![...document.querySelectorAll('article p')].some((p) => p.textContent === 'message 999')) return;
      seen.disconnect();
      requestAnimationFrame(() => setTimeout(() => performance.mark('shown')));
    });
    seen.observe(document, { childList: true, subtree: true });
  });
  const [times, costs] = [[], []];
  for (let n = 0; n < 5; n++) {
    await page.reload(); // which begins the count again
    times.push(await (await page.waitForFunction(() => performance.getEntriesByName('shown')[0]?.startTime)).jsonValue());
    costs.push(await computed());
  }
  const listed = (all) => all.map((ms) => ms.toFixed(0)).join(', ');
  const said = `opened in ${listed(times)} ms, of which the page computed ${listed(costs)} ms`;
  t.diagnostic(said);
  assert.ok(Math.min(...costs) > 20 && Math.min(...costs) < 1000, said);
  await page.closeClean();
});

inEveryLook('of a chat of 1,000 messages what is read is drawn, and the rest as one goes back', async (options, name) => {
  const page = await openLong(options);
  const drawn = () => page.locator('article').count();
  assert.ok((await drawn()) <= 16, `${await drawn()} messages are drawn`);
  await page.locator('.scroller').hover();
  for (let n = 0; n < 100 && (await drawn()) === 16; n++) {
    if (options.isMobile) await page.locator('.scroller').evaluate((e) => e.scrollBy(0, -2000));
    else await page.mouse.wheel(0, -2000);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))); // what it has done is drawn
  }
  await page.getByText('message 950', { exact: true }).waitFor({ state: 'attached' });
  await wantFit(page, `a long chat, ${name}`);
  assert.ok((await drawn()) <= 160, `${await drawn()} messages are drawn by the wheel`);
  const before = await drawn();
  await page.getByRole('button', { name: /^Show 40 earlier/ }).press('Enter');
  await page.waitForFunction((n) => document.querySelectorAll('article').length > n, before);
  await eventually(async () => assert.ok((await drawn()) <= before + 120, `${await drawn()} messages are drawn by a key`));
  await page.closeClean();
});
