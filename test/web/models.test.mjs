// Models come, are loaded, answer and go, all on the operator's page, without a restart.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { inEveryLook, openPage, openPages, shot, wantFit } from './pages.mjs';

const rig = openPages();

/** A server of model files. It sends half of a file, and the rest when it is told to. */
const files = { url: '', released: new Map() };
const http = createServer(async (request, response) => {
  const { released } = files.released.get(request.url) ?? {};
  if (!released) {
    response.writeHead(404).end();
    return;
  }
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  const begin = Number(range?.[1] ?? 0);
  const end = range?.[2] ? Number(range[2]) + 1 : files.body.length;
  const headers = { 'content-length': end - begin, 'accept-ranges': 'bytes', etag: '"tiny"' };
  if (range) headers['content-range'] = `bytes ${begin}-${end - 1}/${files.body.length}`;
  response.writeHead(range ? 206 : 200, headers);
  if (request.method === 'HEAD') {
    response.end();
    return;
  }
  const part = files.body.subarray(begin, end);
  const half = part.length > 1 << 20 ? part.length >> 1 : part.length; // the file's head is asked for first
  response.write(part.subarray(0, half));
  await released;
  response.end(part.subarray(half));
});

before(async () => {
  files.body = await readFile(new URL('../../internal/builtin/polly-mini.gguf', import.meta.url));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  files.url = `http://127.0.0.1:${http.address().port}`;
});
after(() => http.close());

const openModels = (options) => openPage(rig, options, '/admin#models', 'section[aria-label="Models"] [data-model=polly]');

async function pull(page, source) {
  await page.fill('#source', source);
  await page.getByRole('button', { name: 'Pull', exact: true }).first().click();
}

async function ask(model) {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 8 });
  return (await fetch(`${rig.server.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).status;
}

/** Offers a file, and returns what sends the rest of it. */
function offer(path) {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  files.released.set(path, { released });
  return release;
}

inEveryLook('a model is pulled with its progress, loaded, asked, unloaded and removed', async (options, name) => {
  const tiny = `tiny-${name}`;
  const release = offer(`/${tiny}.gguf`);
  const page = await openModels(options);
  await pull(page, `${files.url}/${tiny}.gguf`);
  const download = page.locator(`[data-pull$="/${tiny}.gguf"]`);
  await download.getByText(/[1-9][\d.]* [kM]B of 6\.2 MB/).waitFor();
  await wantFit(page, `a download, ${name}`);
  await shot(page, `admin-models-pull-${name}`);
  release();
  const row = page.locator(`[data-model=${tiny}]`);
  await row.getByText('unloaded', { exact: true }).waitFor();
  await download.waitFor({ state: 'detached' });

  await row.getByRole('button', { name: `Load ${tiny}`, exact: true }).click();
  await row.getByText('loaded', { exact: true }).waitFor();
  assert.equal(await ask(tiny), 200);
  await row.getByRole('button', { name: `Unload ${tiny}`, exact: true }).click();
  await row.getByText('unloaded', { exact: true }).waitFor();
  assert.equal(await ask(tiny), 200); // loaded by its request
  await row.getByText('loaded', { exact: true }).waitFor();

  await row.getByRole('button', { name: `Remove ${tiny}`, exact: true }).click();
  await page.getByRole('button', { name: 'Keep it' }).click();
  await row.waitFor();
  await row.getByRole('button', { name: `Remove ${tiny}`, exact: true }).click();
  await page.locator('dialog').getByText('frees 6.2 MB').waitFor();
  await page.getByRole('button', { name: 'Remove it' }).click();
  await row.waitFor({ state: 'detached' });
  assert.equal(await ask(tiny), 404);
  await page.closeClean();
});

test('what cannot be pulled says why', async () => {
  const page = await openModels();
  await pull(page, 'ftp://example.com/model');
  await page.getByRole('status').getByText(/ftp/).waitFor();
  await pull(page, `${files.url}/missing.gguf`);
  const failed = page.locator('[data-pull$="missing.gguf"]');
  await failed.getByRole('alert').getByText('404').waitFor();
  await failed.getByRole('button', { name: /^Try again/ }).waitFor();
  await page.closeClean();
});

inEveryLook('models can be read', async (options, name) => {
  const page = await openModels(options);
  await page.locator('[data-offer="qwen3:0.6b"]').getByText(/fits/).waitFor();
  await wantFit(page, `models, ${name}`);
  await shot(page, `admin-models-${name}`);
  await page.closeClean();
});
