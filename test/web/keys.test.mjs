// A server that wants an API key: asked for once, kept, changed, forgotten.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { answered, openPage, openPages, say, shot, wantAccessible } from './pages.mjs';

const rig = openPages();

/** Makes a key. From the first one on, the server wants one with every call. */
async function makeKey() {
  const { stdout } = await promisify(execFile)(process.env.PARLEY_BIN, ['keys', 'create', '--name', 'me', '--data', rig.server.data]);
  for (let n = 0; n < 100 && (await fetch(`${rig.server.url}/v1/models`)).status !== 401; n++) await pause(100);
  return stdout.trim();
}

test('the page asks for a key, and goes on where it was held up', async () => {
  const page = await openPage(rig);
  await page.waitForLoadState('networkidle'); // what it asks by itself has been answered
  const good = await makeKey();
  await say(page, 'Hello!');
  const dialog = page.locator('dialog[open]', { hasText: 'API key' });
  await dialog.getByText(/API key/).first().waitFor();
  await dialog.getByRole('alert').waitFor(); // what the server said
  await wantAccessible(page, 'asks for a key');
  await shot(page, 'chat-key-light');
  await dialog.locator('input').fill('sk-wrong');
  await dialog.getByRole('button', { name: 'Use this key' }).click();
  await dialog.getByText(/ends in rong/).waitFor();
  await dialog.getByRole('alert').waitFor();
  await dialog.locator('input').fill(good);
  await page.keyboard.press('Enter');
  await answered(page); // what could not be sent was sent now
  assert.equal(await page.locator('dialog[open]').count(), 0);
  const id = new URL(page.url()).pathname.split('/').pop();
  const items = await (await fetch(`${rig.server.url}/v1/conversations/${id}/items?order=asc`, { headers: { authorization: `Bearer ${good}` } })).json();
  assert.deepEqual(items.data.map((i) => i.role), ['user', 'assistant']);

  await page.reload();
  await answered(page); // the key is kept
  await page.click('[aria-label="Settings"]');
  await page.locator(`dialog[open] >> text=API key ending in ${good.slice(-4)}`).waitFor();
  await page.getByRole('button', { name: 'Change or forget' }).click();
  await page.getByRole('button', { name: 'Forget the key' }).click();
  await dialog.getByRole('alert').waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem('parley.key')), null);
  assert.equal(await page.locator('nav li').count(), 0); // nothing of the key's owner is left in the list
  await page.closeClean();
});
