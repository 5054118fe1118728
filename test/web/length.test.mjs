// Chats that outgrow the context, and texts that go along as files.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerAtLength, answered, endless, eventually, inEveryLook, kept, openPage, openPages, say, shot, wantFit, writing } from './pages.mjs';

const rig = openPages('--context', '256');

async function choosePolicy(page, policy) {
  await page.click('[aria-label="Settings"]');
  await page.check(`dialog input[value=${policy}]`);
  await page.click('dialog >> text=Done');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
}

test('an answer that fills the context says so, and goes on', async () => {
  const page = await openPage(rig);
  await answerAtLength(page, { ignore_eos: true });
  await say(page, 'Tell me a long story.');
  await page.waitForSelector('text=The context of 256 tokens is full.');
  await page.waitForSelector('.composer >> text=Full: the oldest messages will be dropped.');
  const [, answer] = await kept(rig, page);
  assert.equal(answer.finish_reason, 'length');
  await page.unroute('**/messages');
  await page.route('**/resume', (route) => route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ...endless }) }));
  await page.getByRole('button', { name: 'Continue', exact: true }).click();
  await writing(page, answer.text.length + 200);
  await page.keyboard.press('Escape');
  await answered(page);
  const [, whole] = await kept(rig, page);
  assert.ok(whole.text.startsWith(answer.text) && whole.text.length > answer.text.length + 100);
  await page.closeClean();
});

test('where the middle may fade, an answer is longer than the context', async () => {
  const page = await openPage(rig);
  await choosePolicy(page, 'slide');
  await answerAtLength(page, { ignore_eos: true, max_tokens: 1_000_000 });
  const sent = page.waitForRequest((r) => r.method() === 'POST' && r.url().endsWith('/messages'));
  await say(page, 'Tell me a long story.');
  assert.equal((await sent).postDataJSON().attention_sink_tokens, 64);
  await page.waitForFunction(() => Number(/^(\d+) tokens/.exec(document.querySelector('.live .vitals')?.textContent.trim() ?? '')?.[1]) > 240);
  await page.keyboard.press('Escape');
  await page.waitForSelector('text=Stopped.');
  await page.reload();
  await answered(page);
  await page.click('[aria-label="Settings"]');
  await eventually(async () => assert.ok(await page.isChecked('dialog input[value=slide]')));
  await page.closeClean();
});

test('what is refused for its length can be sent after all', async () => {
  const page = await openPage(rig);
  await choosePolicy(page, 'refuse');
  const long = 'The brave cat walks along the sea. '.repeat(60).trim();
  await say(page, long);
  const refused = page.locator('.broken.error', { hasText: 'context' });
  await refused.locator('text=Settings').click();
  await page.check('dialog input[value=slide]');
  await page.click('dialog >> text=Done');
  await refused.getByRole('button', { name: 'Try again' }).click();
  await answered(page);
  const messages = await kept(rig, page);
  assert.deepEqual([messages.length, messages[0].text, messages[1].status], [2, long, 'completed']);
  await page.closeClean();
});

inEveryLook('a message that can never fit is said to be too long, and leads back to itself', async (options, name) => {
  const page = await openPage(rig, options);
  const hopeless = 'The brave cat walks along the sea. '.repeat(200).trim();
  await page.fill('#prompt', hopeless);
  await page.getByText('This message is longer than the context of 256 tokens: shorten it.').waitFor();
  await say(page, hopeless);
  const refused = page.locator('.broken.error', { hasText: 'fit' });
  await refused.getByRole('button', { name: 'Edit' }).waitFor();
  assert.equal(await refused.getByRole('button', { name: 'Try again' }).count(), 0, 'which could only fail');
  await wantFit(page, `a message that can never fit, ${name}`);
  await shot(page, `chat-too-long-${name}`);
  await refused.getByRole('button', { name: 'Edit' }).click();
  const box = page.locator('article.mine textarea');
  await eventually(async () => assert.equal(await box.inputValue(), hopeless));
  await box.fill('Hello!');
  await page.locator('.editor').getByRole('button', { name: 'Send' }).click();
  await answered(page);
  const messages = await kept(rig, page);
  assert.equal(messages.at(-1).status, 'completed');
  await page.closeClean();
});

test('text files go along, pictures are refused, long pastes become files', async () => {
  const page = await openPage(rig);
  const file = { name: 'main.go', mimeType: 'text/plain', buffer: Buffer.from('package main\n\nconst fence = "```"\n') };
  await page.setInputFiles('.chooser', [file, { name: 'cat.png', mimeType: 'image/png', buffer: Buffer.from([137, 80, 78, 71, 0]) }]);
  await page.waitForSelector('text=cat.png cannot be read: the models here accept only text.');
  await page.waitForSelector('.composer li:has-text("main.go")');
  await page.setInputFiles('.chooser', { name: 'data.bin', mimeType: '', buffer: Buffer.from([0, 1, 2, 255]) });
  await page.waitForSelector('text=data.bin is not a text file');
  await page.reload();
  await page.waitForSelector('.composer li:has-text("main.go")'); // kept like the draft
  await say(page, 'What does it declare?');
  await answered(page);
  const [question] = await kept(rig, page);
  assert.equal(question.text, 'What does it declare?\n\n````go file=main.go\npackage main\n\nconst fence = "```"\n````');
  const mine = page.locator('article.mine').first();
  await eventually(async () => assert.equal(await mine.locator('.said').innerText(), 'What does it declare?'));
  await mine.locator('summary', { hasText: 'main.go' }).click();
  await eventually(async () => assert.match(await mine.locator('pre').innerText(), /^package main/));

  await page.press('#prompt', 'ArrowUp');
  await page.waitForFunction(() => document.activeElement?.value === 'What does it declare?');
  await page.keyboard.type(' Say it in one word.');
  await page.keyboard.press('Enter');
  await mine.locator('text=2/2').waitFor();
  assert.match((await kept(rig, page))[0].text, /in one word\.\n\n````go file=main\.go/);
  await answered(page);

  await page.focus('#prompt');
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.setData('text/plain', 'a long line of text\n'.repeat(300));
    document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await page.click('.composer li button.name:has-text("pasted-1.txt")');
  await page.waitForFunction(() => document.querySelector('#prompt').value.startsWith('a long line'));
  await page.closeClean();
});

test('Enter can be set to make a new line', async () => {
  const page = await openPage(rig);
  await page.click('[aria-label="Settings"]');
  await page.uncheck('dialog >> text=Enter sends the message');
  await page.click('dialog >> text=Done');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  await page.focus('#prompt');
  await page.keyboard.type('one');
  await page.keyboard.press('Enter');
  await page.keyboard.type('two');
  await page.keyboard.press('Control+Enter');
  await answered(page);
  assert.equal((await kept(rig, page))[0].text, 'one\ntwo');
  await page.closeClean();
});
