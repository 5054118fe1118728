// A slow phone: what must come over the line before one can type, in how many round trips, and how long that takes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPages } from './pages.mjs';

const rig = openPages();

// A phone on a slow 4G line: what Lighthouse calls slow, with a processor a quarter as fast as this one.
const line = { latencyMs: 150, bytesPerSecond: (1.6 * 1024 * 1024) / 8 };
const slowdown = 4;
const bytesMax = 90_000;
const usableMsMax = 1000;

/** Loads the page as on a slow phone, and says what came before one could type, and when that was. */
async function load() {
  const context = await rig.browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  const files = new Map();
  await session.send('Network.enable');
  session.on('Network.responseReceived', ({ requestId, response }) => files.set(requestId, { path: new URL(response.url).pathname, encoding: response.headers['Content-Encoding'] ?? '', bytes: 0 }));
  session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => files.has(requestId) && (files.get(requestId).bytes = encodedDataLength));
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: line.latencyMs, downloadThroughput: line.bytesPerSecond, uploadThroughput: line.bytesPerSecond });
  await session.send('Emulation.setCPUThrottlingRate', { rate: slowdown });
  await page.addInitScript(() => {
    const look = () => {
      if (!document.querySelector('#prompt')) return requestAnimationFrame(look);
      window.usableMs = performance.now();
    };
    requestAnimationFrame(look);
  });
  await page.goto(rig.url, { waitUntil: 'commit' });
  const usableMs = await (await page.waitForFunction(() => window.usableMs)).jsonValue();
  const initiators = await page.evaluate((before) => performance.getEntriesByType('resource').filter((e) => e.responseEnd <= before).map((e) => ({ path: new URL(e.name).pathname, start: e.startTime })), usableMs);
  await context.close();
  return { usableMs, needed: [...files.values()].filter((f) => f.path === '/' || initiators.some((i) => i.path === f.path)) };
}

test('before a slow phone can type, little has to come over the line', async (t) => {
  const loads = [];
  for (let n = 0; n < 5; n++) loads.push(await load());
  const times = loads.map((l) => Math.round(l.usableMs)).sort((a, b) => a - b);
  const { needed } = loads[0];
  const bytes = needed.reduce((sum, f) => sum + f.bytes, 0);
  t.diagnostic(`usable after ${times.join(', ')} ms; before that ${bytes} bytes in ${needed.map((f) => `${f.path} (${f.bytes} ${f.encoding})`).join(', ')}`);

  // What does not depend on how busy this machine is: the bytes, how they are packed, and that nothing has to be
  // known before it can be asked for but the page itself, so that there are two round trips and no more.
  assert.ok(bytes > 0 && bytes <= bytesMax, `${bytes} bytes`);
  for (const f of needed.filter((f) => /\.(js|css)$/.test(f.path) && f.bytes > 1000)) assert.equal(f.encoding, 'br', f.path);
  const html = await (await fetch(rig.server.url, { headers: { accept: 'text/html' } })).text();
  for (const f of needed.filter((f) => f.path.startsWith('/assets/') && !/woff2$|\/markdown-/.test(f.path))) assert.ok(html.includes(f.path), `${f.path} is asked for late`);
  const lineMs = 3 * line.latencyMs + (bytes * 1000) / line.bytesPerSecond;
  assert.ok(lineMs < usableMsMax * 0.85, `the line alone takes ${Math.round(lineMs)} ms`);
});
