// Turns: sending, stopping, branches, and streams that break off.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerAtLength, answered, asOwner, crash, eventually, inEveryLook, kept, lastAnswer, looks, openPage, openPages, say, shot, wantFit, writing } from './pages.mjs';

const rig = openPages();

/** A picture has a story; a test is over sooner with a sentence. */
const asked = process.env.PARLEY_SHOTS ? 'Tell me a short story about a brave cat.' : 'Why is the sky blue?';

inEveryLook('a question is answered, named, and its time told', async (options, name) => {
  const page = await openPage(rig, options);
  await say(page, asked);
  await writing(page, 1);
  await answered(page);
  await eventually(async () => assert.match(page.url(), /\/c\/conv_/));
  const [question, answer] = await kept(rig, page);
  assert.equal(question.text, asked);
  assert.equal(answer.status, 'completed');
  const words = (text) => text.replace(/\W+/g, ' ').trim();
  await eventually(async () => assert.equal(words(await lastAnswer(page)), words(answer.text)));
  const story = page.locator('article details').last();
  await eventually(async () => assert.match(await story.locator('summary').innerText(), /polly.*tok\/s.*first token/s));
  await page.mouse.move(0, 0);
  await page.waitForFunction((about) => document.title.startsWith(about), asked.slice(0, 15));
  await shot(page, `chat-answer-${name}`);
  await story.locator('summary').click();
  for (const part of ['Queue', 'Prefill', 'Decode', 'computed', 'Context', 'Worker']) await story.filter({ hasText: part }).waitFor();
  await page.locator('article details').last().evaluate((e) => e.scrollIntoView({ block: 'end' }));
  await shot(page, `chat-told-${name}`);
  if (options.isMobile) await page.getByLabel('Show the list of chats').click();
  await page.locator('nav li.current a', { hasText: asked.slice(0, 15) }).waitFor();
  await wantFit(page, 'an answer');
  await page.closeClean();
});

test('stopped in mid-stream, the text stays, the engine lets go, and the answer can go on', async () => {
  const page = await openPage(rig);
  await answerAtLength(page);
  await say(page, 'Tell me a long story.');
  await writing(page);
  await page.keyboard.press('Escape');
  await page.waitForSelector('text=Stopped.');
  const [, answer] = await kept(rig, page);
  assert.equal(answer.outcome, 'cancelled');
  assert.ok(answer.text.length >= 40);
  await page.locator('nav li.current a', { hasText: 'Tell me a long story' }).waitFor(); // it has a name although it has no whole answer
  await eventually(async () => assert.match(await (await fetch(`${rig.server.url}/metrics`, { headers: asOwner(rig.server) })).text(), /^parley_requests_in_flight 0$/m));
  await page.click('text=Continue');
  await page.waitForSelector('text=Stopped.', { state: 'detached' });
  await answered(page);
  const [, whole] = await kept(rig, page);
  assert.equal(whole.id, answer.id);
  assert.ok(whole.text.startsWith(answer.text) && whole.text.length > answer.text.length, `${answer.text} … ${whole.text}`);
  await page.closeClean();
});

test('an edited question makes a branch, another answer a version, and arrows go between them', async () => {
  const page = await openPage(rig);
  await say(page, 'Say hello.');
  await answered(page);
  const first = await lastAnswer(page);
  await page.press('#prompt', 'ArrowUp');
  await page.waitForSelector('[aria-label="Edit your message"]');
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Edit your message');
  await page.keyboard.type(' And tell me your name.');
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=Say hello. And tell me your name.');
  await answered(page);
  const mine = page.locator('article.mine');
  await mine.locator('text=2/2').waitFor();
  await mine.locator('[aria-label="Previous version"]').click();
  await mine.locator('text=1/2').waitFor();
  await eventually(async () => assert.equal(await mine.locator('.said').innerText(), 'Say hello.'));
  await eventually(async () => assert.equal(await lastAnswer(page), first));
  await page.locator('[aria-label="Answer again"]').last().click();
  await page.locator('article:not(.mine) >> text=2/2').waitFor();
  const [question, answer] = await kept(rig, page);
  assert.equal(question.text, 'Say hello.');
  assert.equal(answer.status, 'completed');
  await page.reload();
  await page.locator('article:not(.mine) >> text=2/2').waitFor();
  await page.locator('button[aria-label="Answer again with another model"]').last().click();
  await page.locator('[role=menu]:popover-open button', { hasText: 'polly-mini' }).click();
  await page.locator('article:not(.mine) >> text=3/3').waitFor();
  await answered(page);
  assert.equal((await kept(rig, page))[1].model, 'polly-mini');
  await page.closeClean();
});

/** What an answer to an example must say, whatever its words. */
const meant = {
  'Tell me a story': [/\bcat\b/i, /\b(once|one day|there was|lived)\b/i],
  'Explain something': [/scatter/i, /light/i, /blue/i],
  'Small talk': [/\bPolly\b/],
  'Ask a question': [/\bgreen\b/i],
};

inEveryLook('the built-in model answers each example of the empty page', async (options, look) => {
  const names = Object.keys(meant);
  const every = Object.keys(looks);
  for (const name of names.filter((_, i) => i % every.length === every.indexOf(look))) {
    const page = await openPage(rig, options);
    await eventually(async () => assert.deepEqual(await page.locator('[aria-label="Examples"] button b').allInnerTexts(), names));
    await answerAtLength(page, { temperature: 0, max_tokens: 120 });
    const example = page.locator('[aria-label="Examples"] button', { hasText: name });
    const text = await example.locator('span').innerText();
    await example.click();
    await eventually(async () => assert.equal(await page.inputValue('#prompt'), text));
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await answered(page);
    for (const words of meant[name]) await eventually(async () => assert.match(await lastAnswer(page), words, text));
    await page.waitForFunction((asked) => document.title.startsWith(asked), text.slice(0, 12)); // the chat has the name of its question
    await wantFit(page, `an example, ${look}`);
    await page.closeClean();
  }
});

inEveryLook('the versions of a question stand under it, not beside what is hidden or at the answer', async (options) => {
  const page = await openPage(rig, options);
  await answerAtLength(page, { max_tokens: 8 });
  await say(page, 'Say hello.');
  await answered(page);
  await page.locator('article.mine').hover();
  await page.locator('article.mine [aria-label="Edit"]').click();
  await page.fill('[aria-label="Edit your message"]', 'Say hello, and tell me your name.');
  await page.locator('.editor').getByRole('button', { name: 'Send' }).click();
  const versions = page.locator('article.mine [aria-label="Versions"]');
  await versions.getByText('2/2').waitFor();
  await answered(page);
  await page.locator('#prompt').focus();
  await eventually(async () => {
    const [arrows, bubble, answer] = await Promise.all([versions, page.locator('article.mine .said'), page.locator('article:not(.mine)')].map((e) => e.boundingBox()));
    assert.ok(Math.abs(arrows.x + arrows.width - bubble.x - bubble.width) <= 2, `the arrows end at ${arrows.x + arrows.width}, the question at ${bubble.x + bubble.width}`);
    const [above, below] = [arrows.y - bubble.y - bubble.height, answer.y - arrows.y - arrows.height];
    assert.ok(above >= 0 && below > above, `${above} pixels from the question, ${below} from the answer`);
  });
  await wantFit(page, 'an edited question');
  await page.closeClean();
});

test('after a crash an answer is said to be cut off, the ring counts what was said, and the chat has a name', async () => {
  const page = await openPage(rig);
  await answerAtLength(page);
  await say(page, 'Tell me a story of a lighthouse.');
  await writing(page, 600);
  await eventually(async () => assert.ok((await kept(rig, page))[1].text, 'nothing of the answer is stored')); // the store is half a second behind
  const path = new URL(page.url()).pathname;
  await crash(rig.server);
  await page.closeClean();
  const stored = `${rig.server.url}/v1${path.replace('/c/', '/conversations/')}`;
  await eventually(async () => assert.ok((await (await fetch(stored, { headers: asOwner(rig.server) })).json()).title, 'it has no name'));
  for (const [name, options] of Object.entries(looks)) {
    const again = await openPage(rig, options, path);
    await again.locator('article').getByText('The server stopped while this was being generated.').waitFor();
    await again.getByRole('button', { name: 'Continue' }).waitFor();
    await eventually(async () => {
      const characters = await again.locator('article .said, article .markdown').evaluateAll((all) => all.reduce((sum, e) => sum + e.textContent.length, 0));
      const used = Number(await again.getByRole('meter', { name: 'Context used' }).getAttribute('aria-valuenow'));
      assert.ok(used >= characters / 5, `${used} tokens for ${characters} characters`);
    });
    await wantFit(again, `after a crash, ${name}`);
    await shot(again, `chat-crash-${name}`);
    if (options.isMobile) await again.getByLabel('Show the list of chats').click();
    await again.locator('nav li.current a', { hasText: 'Tell me a story of a lighthouse' }).waitFor();
    await again.closeClean();
  }
});

test('a page that is loaded anew in mid-stream goes on where the answer is', async () => {
  const page = await openPage(rig);
  await answerAtLength(page);
  await say(page, 'Tell me a long story about the sea.');
  await writing(page);
  await page.reload();
  await writing(page, 80);
  await page.keyboard.press('Escape');
  await answered(page);
  const messages = await kept(rig, page);
  assert.equal(messages.length, 2);
  await page.closeClean();
});

test('two tabs show the same answer as it is written', async () => {
  const page = await openPage(rig);
  await say(page, 'Hello!');
  await answered(page);
  const other = await page.context().newPage();
  await other.goto(page.url());
  await answered(other);
  await answerAtLength(page);
  await say(page, 'Tell me a long story.');
  await writing(other);
  await other.keyboard.press('Escape');
  await answered(page, 2);
  await answered(other, 2);
  await eventually(async () => assert.equal(await lastAnswer(page), await lastAnswer(other)));
  await page.closeClean();
});

test('a connection that is lost in mid-stream is taken up again', async () => {
  const page = await openPage(rig);
  await answerAtLength(page);
  await say(page, 'Tell me a long story about a garden.');
  await writing(page);
  rig.line.down();
  await page.waitForSelector('text=Connection lost');
  const before = await page.locator('.live .markdown').innerText();
  rig.line.up();
  await page.waitForSelector('text=Connection lost', { state: 'detached' });
  await writing(page, before.length + 40);
  await eventually(async () => assert.ok((await page.locator('.live .markdown').innerText()).startsWith(before.slice(0, 30))));
  await page.keyboard.press('Escape');
  await answered(page);
  assert.equal((await kept(rig, page)).length, 2);
  await page.closeClean();
});

test('what could not be sent is kept, also over a reload, and said once', async () => {
  const page = await openPage(rig);
  await say(page, 'Hello!');
  await answered(page);
  rig.line.down();
  await say(page, 'Where do birds live?');
  await page.waitForSelector('text=Your text is kept');
  rig.line.up();
  await page.reload();
  await page.waitForSelector('text=Your text is kept');
  await page.click('text=Try again');
  await answered(page, 2);
  const texts = (await kept(rig, page)).map((m) => m.text);
  assert.equal(texts.filter((t) => t === 'Where do birds live?').length, 1);
  assert.equal(texts.length, 4);
  await page.fill('#prompt', 'a draft that is not sent');
  await page.reload();
  await page.waitForFunction(() => document.querySelector('#prompt')?.value === 'a draft that is not sent');
  await page.closeClean();
});
