// Signing in: with the link of a server without keys, then with an API key, which no script keeps; and signing out.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { answered, eventually, openPage, openPages, say, shot, wantAccessible, withToken } from './pages.mjs';

/** All that scripts of a page could read: what it stores, and its cookies. */
const readable = (page) => page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href);

/** The dialog in which one signs in. */
const signInOf = (page) => page.locator('dialog[open]', { hasText: 'Sign in' });

const rig = openPages();

/** Makes a key. From the first one on, the server wants one with every call. */
async function makeKey() {
  const { stdout } = await promisify(execFile)(process.env.PARLEY_BIN, ['keys', 'create', '--name', 'me', '--data', rig.server.data]);
  await eventually(async () => assert.equal((await fetch(`${rig.server.url}/v1/models`)).status, 401));
  return stdout.trim();
}

test('a server without keys wants its link for what is stored', async () => {
  const stranger = await openPage({ ...rig, server: {} });
  const dialog = signInOf(stranger);
  await dialog.getByText(/no API keys/).waitFor();
  assert.equal(await dialog.getByRole('alert').count(), 0); // the label has said it
  await wantAccessible(stranger, 'wants the token');
  await shot(stranger, 'chat-token-light');
  await dialog.locator('input').fill('local-wrong');
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await dialog.getByText(/not the token/).waitFor();
  await dialog.locator('input').fill(rig.server.token);
  await stranger.keyboard.press('Enter');
  await dialog.waitFor({ state: 'hidden' });
  await stranger.closeClean();

  const page = await openPage(rig); // by the link
  await page.waitForFunction(() => !location.search); // the token does not stay in the address
  await say(page, 'Hello!');
  await answered(page);
  assert.ok(!(await readable(page)).includes(rig.server.token));
  await page.reload();
  await answered(page); // the session holds
  await page.goto(`${rig.url}/admin`); // which is not one for the admin page
  await page.locator('dialog[open]', { hasText: 'Sign in to the admin page' }).getByText(/a sign-in of its own, .* parley link --admin/).waitFor();
  await page.closeClean();
});

test('a message sent while the page still signs in waits for the session', async () => {
  const context = await rig.browser.newContext();
  await context.route('**/session', async (route) => {
    await pause(1500);
    return route.continue();
  });
  const page = await context.newPage();
  await page.goto(withToken(rig, '/'));
  await page.waitForSelector('#app[data-alive] #prompt');
  await say(page, 'Hello!');
  await answered(page);
  assert.equal(await signInOf(page).count(), 0);
  await context.close();
});

test('the page asks for a key, and goes on where it was held up', async () => {
  const page = await openPage(rig);
  await page.waitForLoadState('networkidle'); // what it asks by itself has been answered
  const good = await makeKey();
  await say(page, 'Hello!');
  const dialog = signInOf(page);
  await dialog.getByLabel('API key').waitFor();
  assert.equal(await dialog.getByRole('alert').count(), 0); // nothing was tried yet
  await wantAccessible(page, 'asks for a key');
  await shot(page, 'chat-key-light');
  await dialog.locator('input').fill('sk-wrong');
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await dialog.getByText(/Incorrect API key/).waitFor();
  await dialog.locator('input').fill(good);
  await page.keyboard.press('Enter');
  await answered(page); // what could not be sent was sent now
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  assert.ok(!(await readable(page)).includes(good));
  const id = new URL(page.url()).pathname.split('/').pop();
  const items = await (await fetch(`${rig.server.url}/v1/conversations/${id}/items?order=asc`, { headers: { authorization: `Bearer ${good}` } })).json();
  assert.deepEqual(items.data.map((i) => i.role), ['user', 'assistant']);

  await page.reload();
  await answered(page); // the session holds
  await page.fill('#prompt', 'A secret draft');
  await page.click('[aria-label="Settings"]');
  await page.locator('dialog[open] >> text=Signed in with the key me').waitFor();
  await shot(page, 'chat-session-light');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await dialog.getByLabel('API key').waitFor();
  await eventually(async () => assert.equal(new URL(page.url()).pathname, '/'));
  await eventually(async () => assert.equal(await page.locator('nav li').count(), 0)); // nothing of the key's owner is left in the list
  await eventually(async () => assert.ok(!(await readable(page)).includes('secret draft')));
  await page.closeClean();
});

test('the admin page has a session of its own, and a button that ends it', async () => {
  const { stdout } = await promisify(execFile)(process.env.PARLEY_BIN, ['keys', 'create', '--admin', '--name', 'boss', '--data', rig.server.data]);
  const page = await openPage(rig, {}, '/admin', 'dialog[open]');
  const dialog = signInOf(page);
  await dialog.locator('input').fill(stdout.trim());
  await page.keyboard.press('Enter');
  await page.getByText('live', { exact: true }).waitFor();
  await wantAccessible(page, 'the admin page, signed in');
  await shot(page, 'admin-session');
  await page.getByRole('link', { name: 'Audit' }).click();
  await page.locator('tr[data-action="api_key.created"]', { hasText: 'command' }).first().waitFor(); // the keys made above
  await wantAccessible(page, 'the audit log');
  await shot(page, 'admin-audit');
  const status = await page.evaluate(async () => (await fetch('/v1/conversations')).status);
  assert.equal(status, 401); // it is no session of the chat
  await page.getByRole('button', { name: 'Sign out' }).click();
  await dialog.getByLabel('API key').waitFor();
  assert.equal(await page.evaluate(async () => (await fetch('/admin/api/now')).status), 401);
  await page.closeClean();
});
