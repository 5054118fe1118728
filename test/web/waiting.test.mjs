// What people see while they wait: the line, the prompt, the first token, and refusals.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerAtLength, answered, asOwner, endless, eventually, inEveryLook, kept, openPage, openPages, say, shot, wantAccessible, wantFit, writing } from './pages.mjs';

const rig = openPages('--seqs', '1', '--step-tokens', '64', '--share', 'off', '--queue-depth', '3', '--prices', 'polly=2/1/8');

/** Has the server write for somebody else until it is told to stop. */
async function occupy() {
  const others = new AbortController();
  const body = { model: 'polly', messages: [{ role: 'user', content: 'Tell me a story.' }], ...endless, stream: true };
  const response = await fetch(`${rig.server.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal: others.signal });
  assert.equal(response.status, 200);
  const reading = response.body.pipeTo(new WritableStream()).catch(() => undefined);
  return async () => {
    others.abort();
    await reading;
  };
}

const waits = (page) => page.locator('.live .vitals');

test('a queued chat shows its position and the estimated wait', async () => {
  const release = await occupy();
  const first = await openPage(rig);
  await say(first, 'Hello!');
  await waits(first).getByText('Queued: next').waitFor();
  const second = await openPage(rig, { colorScheme: 'dark' });
  await say(second, 'Hello to you, too!');
  await waits(second).getByText(/\d+ ahead/).waitFor();
  await waits(second).getByText(/about \d/).waitFor();
  await wantAccessible(second, 'waiting');
  await shot(second, 'chat-waiting-dark');

  // Escape leaves the queue.
  await second.keyboard.press('Escape');
  await second.waitForSelector('text=Stopped.');
  await release();
  await answered(first);
  await eventually(async () => assert.equal((await (await fetch(`${rig.server.url}/v1/queue`, { headers: asOwner(rig.server) })).json()).data[0].waiting, 0));
  await first.closeClean();
  await second.closeClean();
});

inEveryLook('a person waits beside a queue full of programs and sees the position', async (options, name) => {
  const release = await occupy();
  const page = await openPage(rig, options);
  const others = new AbortController();
  const body = { model: 'polly', messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 20 };
  const asked = Array.from({ length: 40 }, () =>
    fetch(`${rig.server.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', ...asOwner(rig.server) }, body: JSON.stringify(body), signal: others.signal })
      .then((r) => r.status)
      .catch(() => 0),
  );
  // The queue is full: of the programs, some are refused.
  assert.ok([429, 503].includes(await Promise.race(asked)));
  await say(page, 'Is there room for one more?');
  await waits(page).getByText(/Queued: (next|\d+ ahead)/).waitFor();
  await wantAccessible(page, 'waiting beside programs');
  await shot(page, `chat-queued-${name}`);
  others.abort();
  await Promise.all([release(), ...asked]);
  await answered(page);
  assert.equal((await kept(rig, page)).map((m) => m.text)[0], 'Is there room for one more?');
  await page.closeClean();
});

test('while a long prompt is read, the page tells how far that is', async () => {
  const page = await openPage(rig);
  // Recorded by the page itself: a fast machine shows each state for milliseconds.
  await page.evaluate(() => {
    window.told = [];
    new MutationObserver(() => {
      const bar = document.querySelector('.live progress[aria-label="Prompt processed"]');
      if (bar) window.told.push({ text: bar.closest('.vitals').textContent, value: bar.value, max: bar.max });
    }).observe(document.body, { attributes: true, childList: true, characterData: true, subtree: true });
  });
  await say(page, `${'The brave cat walks along the sea and looks at the ships. '.repeat(90)}\n\nWhat does the cat look at?`);
  await answered(page);
  const told = await page.evaluate(() => window.told);
  assert.ok(told.some((t) => /Processing prompt: [\d,]+ of [\d,]+ tokens/.test(t.text)), JSON.stringify(told));
  assert.ok(told.some((t) => t.value > 0 && t.max > 500), JSON.stringify(told));
  await page.closeClean();
});

inEveryLook('while an answer comes, tokens, speed and first token are told, and what was cached after it', async (options, name) => {
  const page = await openPage(rig, options);
  await answerAtLength(page);
  await say(page, 'Tell me a long story about a lighthouse, a storm, and the people who were saved that night.');
  await writing(page);
  await page.waitForFunction(() => /\d+ tokens.*tok\/s.*first token/s.test(document.querySelector('.live .vitals')?.textContent ?? ''));
  await page.getByRole('meter', { name: 'Context used' }).waitFor();
  await page.keyboard.press('Escape');
  await page.waitForSelector('text=Stopped.');
  await page.locator('[aria-label="Answer again"]').click();
  await writing(page);
  await page.keyboard.press('Escape');
  await page.locator('article:not(.mine) >> text=2/2').waitFor();
  const story = page.locator('article details').last();
  await story.locator('summary').click();
  await wantFit(page, `what is told of an answer, ${name}`);
  for (const told of [/Prompt\s+\d+ tokens: (?!0 )\d+ cached, \d+ computed/, /Worker\s+\S+ \(.+\)/, /Cost\s+0\.0\d+/]) await eventually(async () => assert.match(await story.innerText(), told)); // costs are in the unit of --prices
  await page.closeClean();
});

test('the first token is painted when it comes, not when a timer rings', async () => {
  const page = await openPage(rig);
  await answerAtLength(page);
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 1000); // from here on no timer rings
  await say(page, 'Tell me a long story.');
  await writing(page, 1);
  const shown = await page.locator('.live .markdown').innerText();
  assert.ok(shown.trim().length > 0);
  await page.clock.resume();
  await writing(page, shown.length + 40);
  await page.keyboard.press('Escape');
  await answered(page);
  await page.closeClean();
});

test('screen readers hear whole sentences', async () => {
  const page = await openPage(rig);
  await page.evaluate(() => {
    window.heard = [];
    const region = document.querySelector('.thread [aria-live=polite]');
    new MutationObserver(() => region.textContent && window.heard.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });
  });
  await say(page, 'Tell me a short story about a brave cat.');
  await answered(page);
  const [, answer] = await kept(rig, page);
  const words = (text) => text.replace(/[*_#`]+/g, '').replace(/\s+/g, ' ').trim();
  const paragraphs = answer.text.split(/\n\n+/).map(words);
  const heard = await eventually(async () => {
    const all = await page.evaluate(() => window.heard);
    assert.equal(words(all.join(' ')), words(answer.text)); // all of it, once, and without marks
    return all;
  });
  for (const text of heard) assert.ok(/[.!?…:]["”]?$/.test(text) || paragraphs.some((p) => p.endsWith(words(text))), `heard ${JSON.stringify(heard)}`);
  await page.closeClean();
});

test('the last answer is copied with keys, and the list goes and comes', async () => {
  const page = await openPage(rig);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await say(page, 'Hello!');
  await answered(page);
  await page.keyboard.press('Control+Shift+C');
  await page.waitForSelector('text=The last answer was copied.');
  const [, answer] = await kept(rig, page);
  await eventually(async () => assert.equal(await page.evaluate(() => navigator.clipboard.readText()), answer.text));
  await page.keyboard.press('Control+Shift+S');
  await page.waitForSelector('nav', { state: 'detached' });
  await page.keyboard.press('Control+Shift+S');
  await page.waitForSelector('nav');
  await page.closeClean();
});
