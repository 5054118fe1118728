// What a model thinks before it answers, from the engine to the page: folded, alive while it is thought, kept.
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { answered, eventually, focusOn, kept, lastAnswer, openPage, openPages, phone, say, shot, wantAccessible } from './pages.mjs';
import { writeThinker } from './thinker.mjs';

const file = join(tmpdir(), `parley-thinker-${process.pid}.gguf`);
const thoughts = await writeThinker(file, { thoughts: 800, answer: ['The', ' sea', ' is', ' blue', '.'] });
after(() => rm(file, { force: true }));
const rig = openPages('--model', `thinker=${file}`);

const words = (text) => text.trim().split(/\s+/);

/** Waits until so much has been thought, and nothing said. */
async function thinking(page) {
  await page.locator('.live .thoughts summary', { hasText: 'Thinking …' }).waitFor();
}

test('thoughts stream folded, can be looked at meanwhile, and the answer follows', async () => {
  const page = await openPage(rig);
  await say(page, 'Why is the sea blue?');
  await thinking(page);
  const latest = () => page.locator('.live .latest').innerText();
  const first = await latest();
  await page.waitForFunction((was) => (document.querySelector('.live .latest')?.textContent ?? was) !== was, first);
  rig.server.child.kill('SIGSTOP'); // so that the model thinks for as long as the page is looked at
  await eventually(async () => assert.equal(await page.locator('.live .thoughts').getAttribute('open'), null));
  assert.equal(await page.locator('.live .whole').count(), 0);
  await wantAccessible(page, 'while a model thinks');
  await shot(page, 'chat-thinking');
  await page.locator('.live .thoughts summary').click();
  const seen = words(await page.locator('.live .whole').innerText());
  assert.deepEqual(seen, words(thoughts).slice(0, seen.length));
  rig.server.child.kill('SIGCONT');
  await answered(page);
  await eventually(async () => assert.equal(await lastAnswer(page), 'The sea is blue.'));
  const unfolded = page.locator('article:not(.mine) .thoughts[open]');
  await eventually(async () => assert.equal(await unfolded.locator('summary').innerText(), 'Thoughts'));
  await eventually(async () => assert.deepEqual(words(await unfolded.locator('.whole').innerText()), words(thoughts)));
  await page.closeClean();
});

test('thoughts are kept with the answer, and folded when it is shown again', async () => {
  const page = await openPage(rig);
  await say(page, 'Why?');
  await thinking(page);
  await answered(page);
  const [, answer] = await kept(rig, page);
  assert.deepEqual(words(answer.reasoning_content), words(thoughts));
  assert.equal(answer.text, 'The sea is blue.');
  await page.reload();
  const block = page.locator('article:not(.mine) .thoughts');
  await block.waitFor();
  await eventually(async () => assert.equal(await block.getAttribute('open'), null));
  await block.locator('summary').focus();
  await page.keyboard.press('Enter');
  await eventually(async () => assert.deepEqual(words(await block.locator('.whole').innerText()), words(thoughts)));
  await page.closeClean();
});

test('loaded anew in mid-thought the page goes on, and stopped it keeps what was thought', async () => {
  const page = await openPage(rig, phone);
  await page.tap('#prompt');
  await focusOn(page, '#prompt');
  await page.keyboard.type('Why?');
  await page.tap('[type=submit]');
  await thinking(page);
  await page.reload();
  await thinking(page);
  await eventually(async () => assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, 'nothing is wider than the phone'));
  await page.tap('[aria-label="Stop"]');
  await page.waitForSelector('text=Stopped.');
  const [, answer] = await kept(rig, page);
  assert.equal(answer.outcome, 'cancelled');
  const said = words(answer.reasoning_content);
  assert.ok(said.length > 0 && said.length < 800, `${said.length} words`);
  await page.tap('article:not(.mine) .thoughts summary');
  await eventually(async () => assert.deepEqual(words(await page.locator('article:not(.mine) .whole').innerText()), said));
  await page.closeClean();
});
