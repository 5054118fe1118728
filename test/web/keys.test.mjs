// A server that wants an API key: asked for once, kept, changed, forgotten.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answered, kept, openPage, openPages, say, wantAccessible } from './pages.mjs';

const rig = openPages();
const good = 'sk-parley-good-1234';

/** Answers like a server with keys: what does not show the good one is refused, all else goes on to the server. */
async function wantKey(context) {
  await context.route('**/v1/**', (route) => {
    const shown = route.request().headers().authorization ?? '';
    if (shown === `Bearer ${good}`) return route.continue({ headers: { ...route.request().headers(), authorization: '' } });
    const message = shown ? 'Incorrect API key provided.' : "You didn't provide an API key.";
    return route.fulfill({ status: 401, json: { error: { message, type: 'invalid_request_error', param: null, code: 'invalid_api_key' } } });
  });
}

test('the page asks for a key, and goes on where it was held up', async () => {
  const page = await openPage(rig);
  await wantKey(page.context());
  await say(page, 'Hello!'); // the key was taken away since the page was loaded
  const dialog = page.locator('dialog[open]', { hasText: 'API key' });
  await dialog.getByText("You didn't provide an API key.").waitFor();
  await wantAccessible(page, 'asks for a key');
  await dialog.locator('input').fill('sk-wrong');
  await dialog.getByRole('button', { name: 'Use this key' }).click();
  await dialog.getByText('Incorrect API key provided.').waitFor();
  await dialog.locator('input').fill(good);
  await page.keyboard.press('Enter');
  await answered(page); // what could not be sent was sent now
  assert.equal(await page.locator('dialog[open]').count(), 0);
  assert.equal((await kept(rig, page))[0].text, 'Hello!');

  await page.reload();
  await answered(page); // the key is kept
  await page.click('[aria-label="Settings"]');
  await page.locator('dialog[open] >> text=API key ending in 1234').waitFor();
  await page.getByRole('button', { name: 'Change or forget' }).click();
  await page.getByRole('button', { name: 'Forget the key' }).click();
  await dialog.getByText("You didn't provide an API key.").waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem('parley.key')), null);
  assert.equal(await page.locator('nav li').count(), 0); // nothing of the key's owner is left in the list
  await page.closeClean();
});
