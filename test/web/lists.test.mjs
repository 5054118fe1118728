// Conversations on the server: the list, search, files, settings, models.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { answered, asOwner, eventually, inEveryLook, kept, makeConversation, openPage, openPages, say, wantFit } from './pages.mjs';

const rig = openPages();

const said = (title, question, answer) => ({ title, items: [{ role: 'user', content: question }, { role: 'assistant', content: [{ type: 'output_text', text: answer }] }] });
const menuOf = (page, title) => page.locator('nav li', { hasText: title }).locator('[aria-haspopup=menu]');

async function choose(page, title, choice) {
  await page.locator('nav li', { hasText: title }).hover();
  await menuOf(page, title).click();
  await page.locator('[role=menu]:popover-open', { hasText: choice }).locator('button', { hasText: choice }).click();
}

test('chats are pinned, renamed, deleted and brought back', async () => {
  await makeConversation(rig, said('About rivers', 'Where do rivers go?', 'To the sea.'));
  await makeConversation(rig, said('About hills', 'How high?', 'Not very.'));
  const page = await openPage(rig);
  await choose(page, 'About rivers', 'Pin');
  await page.waitForSelector('nav h2:has-text("Pinned")');
  await choose(page, 'About rivers', 'Rename');
  await page.fill('[aria-label="Title"]', 'Rivers and seas');
  await page.keyboard.press('Enter');
  await page.waitForSelector('nav a:has-text("Rivers and seas")');
  await choose(page, 'Rivers and seas', 'Delete');
  await page.waitForSelector('nav a:has-text("Rivers and seas")', { state: 'detached' });
  await page.click('text=Undo');
  await page.waitForSelector('nav li.current a:has-text("Rivers and seas")');
  await page.waitForSelector('text=To the sea.');
  await page.closeClean();
});

test('search finds titles and texts, and opens the message', async () => {
  const made = await makeConversation(rig, said('A quiet evening', 'What sings at night?', 'The nightingale does, mostly in May.'));
  const page = await openPage(rig);
  await page.fill('input[type=search]', 'nightingale');
  const hit = page.locator('.hit', { hasText: 'A quiet evening' });
  await eventually(async () => assert.equal(await hit.locator('mark').first().innerText(), 'nightingale'));
  await hit.click();
  await page.waitForSelector('article >> text=mostly in May');
  await eventually(async () => assert.ok(page.url().endsWith(made.id)));
  await page.closeClean();
});

inEveryLook('an export can be imported again', async (options, name) => {
  const title = `To take along, ${name}`;
  const made = await makeConversation(rig, said(title, 'Is this kept?', 'All of it.'));
  const page = await openPage(rig, { ...options, acceptDownloads: true }, `/c/${made.id}`);
  await page.waitForSelector('text=All of it.');
  const list = async () => options.isMobile && (await page.getByLabel('Show the list of chats').click());
  await list();
  const saved = page.waitForEvent('download');
  await choose(page, title, 'Export as JSON');
  const path = await (await saved).path();
  assert.equal(JSON.parse(await readFile(path, 'utf8')).format, 'parley.conversation');
  await page.setInputFiles('nav input[type=file]', { name: 'chat.json', mimeType: 'application/json', buffer: await readFile(path) });
  await page.waitForFunction((id) => !location.pathname.endsWith(id), made.id);
  await page.waitForSelector('text=All of it.');
  await list();
  await page.setInputFiles('nav input[type=file]', { name: 'other.json', mimeType: 'application/json', buffer: Buffer.from('not it') });
  await page.waitForSelector('text=other.json is not an export');
  await page.closeClean();
});

inEveryLook('what cannot be imported is said in plain words, in the middle of the column that is read', async (options) => {
  const page = await openPage(rig, options);
  if (options.isMobile) await page.getByLabel('Show the list of chats').click();
  await page.setInputFiles('nav input[type=file]', { name: 'list.json', mimeType: 'application/json', buffer: Buffer.from('[1, 2]') });
  const toast = page.locator('.toast');
  await toast.waitFor();
  await eventually(async () => assert.equal(await toast.innerText(), 'list.json is not an export of a conversation. Choose a file that “Export as JSON” has saved.'));
  const middle = async (of) => {
    const box = await of.boundingBox();
    return box.x + box.width / 2;
  };
  await eventually(async () => assert.ok(Math.abs((await middle(toast)) - (await middle(page.locator('main')))) <= 1));
  await wantFit(page, 'a message that passes');
  await page.closeClean();
});

inEveryLook('models are shown with size and purpose, and searched where there are many', async (options) => {
  const page = await openPage(rig, options);
  await page.route('**/v1/models', async (route) => {
    const list = await (await route.fetch()).json();
    const more = Array.from({ length: 9 }, (_, i) => ({ ...list.data[1], id: `model-${i}`, description: i === 7 ? 'code in an editor' : 'chat' }));
    return route.fulfill({ json: { ...list, data: [...list.data, ...more] } });
  });
  await page.reload();
  await page.click('button.picker');
  await eventually(async () => assert.match(await page.locator('[role=menuitemradio]').first().innerText(), /polly\s+small talk, stories, simple facts\s+31M parameters, 2k context, demo/));
  await wantFit(page, 'many models');
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Search models');
  await page.keyboard.type('editor');
  await page.waitForFunction(() => document.querySelectorAll('[role=menuitemradio]').length === 1);
  await page.keyboard.press('Enter');
  await page.waitForSelector('button.picker >> text=model-7');
  await page.closeClean();
});

test('a temporary chat is not listed', async () => {
  const page = await openPage(rig);
  await page.click('[aria-label="Temporary chat"]');
  await page.waitForSelector('text=This one stays between us.');
  await say(page, 'Hello!');
  await answered(page);
  assert.equal((await kept(rig, page)).length, 2);
  const id = new URL(page.url()).pathname.split('/').pop();
  assert.equal(await page.locator(`nav a[href="/c/${id}"]`).count(), 0);
  const list = await (await fetch(`${rig.server.url}/v1/conversations?limit=100`, { headers: asOwner(rig.server) })).json();
  assert.ok(!list.data.some((c) => c.id === id));
  await page.closeClean();
});

test('settings belong to a chat, are sent with every turn, and stay', async () => {
  const page = await openPage(rig);
  const prompt = `You are a sailor. ${'Say little. '.repeat(60)}`.trim();
  await page.click('[aria-label="Settings"]');
  await page.fill('dialog textarea', prompt);
  await page.fill('dialog input[type=number] >> nth=0', '0');
  await page.fill('dialog input[type=number] >> nth=2', '12');
  await page.check('dialog input[value=summarise]');
  await page.click('dialog >> text=Done');
  const sent = page.waitForRequest((r) => r.method() === 'POST' && r.url().endsWith('/messages'));
  await say(page, 'Who are you?');
  const { instructions, temperature, max_tokens } = (await sent).postDataJSON();
  assert.deepEqual({ instructions, temperature, max_tokens }, { instructions: prompt, temperature: 0, max_tokens: 12 });
  await answered(page);
  await page.waitForSelector('text=reached its length limit');
  await page.reload();
  await answered(page);
  await page.click('[aria-label="Settings"]');
  await eventually(async () => assert.equal(await page.inputValue('dialog textarea'), prompt));
  await eventually(async () => assert.ok(await page.isChecked('dialog input[value=summarise]')));
  await page.keyboard.press('Escape');
  const id = new URL(page.url()).pathname.split('/').pop();
  assert.equal((await (await fetch(`${rig.server.url}/v1/conversations/${id}`, { headers: asOwner(rig.server) })).json()).context_policy, 'summarise');
  await page.closeClean();
});

test('models can be chosen, and one that is not served is marked', async () => {
  const page = await openPage(rig);
  await page.click('button.picker');
  await eventually(async () => assert.match(await page.locator('[role=menuitemradio]').first().innerText(), /polly\s+small talk, stories, simple facts\s+31M parameters, 2k context, demo/));
  await page.locator('[role=menuitemradio]:focus').waitFor();
  await page.keyboard.type('polly-m'); // what is typed finds it
  await page.locator('[role=menuitemradio]:focus', { hasText: 'polly-mini' }).waitFor();
  await page.keyboard.press('Enter');
  await say(page, 'Hello!');
  await answered(page);
  assert.equal((await kept(rig, page))[1].model, 'polly-mini');
  await page.route('**/v1/models', async (route) => {
    const list = await (await route.fetch()).json();
    return route.fulfill({ json: { ...list, data: list.data.filter((m) => m.id !== 'polly-mini') } });
  });
  await page.reload();
  await page.waitForSelector('button.picker >> text=unavailable');
  await page.fill('#prompt', 'Hello again');
  await eventually(async () => assert.ok(await page.isDisabled('[aria-label="Send"]')));
  await page.click('button.picker');
  await page.locator('[role=menuitemradio]:not(:disabled)', { hasText: 'polly' }).click();
  await page.press('#prompt', 'Enter');
  await answered(page, 2);
  assert.equal((await kept(rig, page))[3].model, 'polly');
  await page.unroute('**/v1/models');
  await page.goto(`${rig.url}/`);
  await page.click('button.picker');
  await page.locator('[role=menuitemradio]', { hasText: 'polly-mini' }).click();
  await page.reload();
  await page.waitForSelector('button.picker >> text=polly-mini'); // the one that was used last
  await page.closeClean();
});
