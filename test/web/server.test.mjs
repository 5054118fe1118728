// The operator's page about the server itself, and the words that explain themselves.
import assert from 'node:assert/strict';
import { eventually, inEveryLook, openPage, openPages, shot, wantFit } from './pages.mjs';

const rig = openPages('--queue-depth', '77', '--fleet-operate-token', 'a-token-that-nobody-may-read-here');


inEveryLook('models, settings, version, memory and uptime are on a page', async (options, name) => {
  const page = await openPage(rig, options, '/admin#server', '[data-server="version"]');
  await eventually(async () => assert.match(await page.locator('[data-server="version"]').innerText(), /^\d+\.\d+/));
  await eventually(async () => assert.match(await page.locator('[data-server="memory"]').innerText(), /\d (MB|GB)$/));
  await eventually(async () => assert.match(await page.locator('[data-server="uptime"]').innerText(), /minute|min|h/));
  await eventually(async () => assert.match(await page.locator('[data-model="polly"]').innerText(), /ready[\s\S]*M/));
  await page.locator('[data-setting="queue-depth"]', { hasText: /77[\s\S]*--queue-depth[\s\S]*queue at most N requests/ }).waitFor();
  await eventually(async () => assert.match(await page.locator('[data-setting="fleet-operate-token"]').innerText(), /\(secret\)/));
  assert.ok(!(await page.content()).includes('a-token-that-nobody'));
  await page.locator('summary').click();
  await page.locator('[data-setting="shed-start"]').waitFor();
  await wantFit(page, `server ${name}`);
  await shot(page, `admin-server-${name}`);
  await page.closeClean();
});

inEveryLook('a term explains itself and leads to the runbook', async (options, name) => {
  const page = await openPage(rig, options, '/admin#now', '[data-number="running"]');
  const word = page.getByRole('button', { name: 'Rejected' });
  if (options.hasTouch) await word.tap();
  else {
    await word.focus();
    await page.keyboard.press('Enter');
  }
  const note = page.locator('[popover]:popover-open');
  await note.waitFor();
  await eventually(async () => assert.match(await note.innerText(), /refused for now/));
  await wantFit(page, `a term ${name}`);
  await shot(page, `admin-term-${name}`);
  await note.getByRole('link', { name: 'What to do' }).click();
  const chosen = page.locator('h4.chosen');
  await chosen.waitFor();
  await eventually(async () => assert.equal(await chosen.innerText(), 'ParleyShedding'));
  await eventually(async () => assert.match(await page.locator('.runbook').innerText(), /Requests are rejected so that admitted ones are served in time/));
  await wantFit(page, `help ${name}`);
  await page.closeClean();
});
