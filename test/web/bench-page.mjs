// How soon the chat can be used on a slow phone: make bench-page. Prints the times, keeps them where KEEP says, and exits
// with 1 if the bar is missed.
//
// A slow phone is what Lighthouse takes for one: a processor a quarter as fast as this one (how fast that is, is measured),
// and a slow 4G line, 1.6 Mbit/s and a round trip of 150 ms, here with handshakes and TCP's slow start. Usable: a finger goes to the message box as soon as
// something is painted, and what is then typed is on the screen. Send is pressed at once, too, and must lead to an answer.
// Cold: nothing of the page in the browser, and no connection. Warm: visited before, and no connection.
//
// The bar is held at the priority every program has. What the browser's slowdown really is, is measured, too, and where
// real-time priority is allowed, some visits are made with it: where they are much sooner, the machine was not idle. A bare
// page, nothing but a box, tells what no page can go below here.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { start, stop } from '../server.mjs';
import { openBrowser } from './devtools.mjs';
import { benchmarkIndex } from './phonespeed.mjs';
import { slowdownFactors, takeRealTime, untilSettled } from './slowdown.mjs';
import { openSlowLine } from './slowline.mjs';

const screen = { width: 390, height: 844, deviceScaleFactor: 1, mobile: true };
const line = { rttMs: 150, downBytesPerSecond: 1.6e6 / 8, upBytesPerSecond: 0.75e6 / 8 };
const slowdown = 4;
const rounds = Number(process.env.ROUNDS || 7);
const realTimeRounds = Math.ceil(rounds / 2);
const usableMsMax = 1000;
const text = 'Hello from a slow phone';

/** Notes when the first thing that was typed has been painted. */
const noteTyped = `addEventListener('input', () => requestAnimationFrame(() => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => (window.typedMs = performance.now());
  port2.postMessage(0);
}), { capture: true, once: true })`;

/** What the page has noted, in milliseconds since the visit began. */
const noted = `JSON.stringify({
  painted: performance.getEntriesByName('first-contentful-paint')[0].startTime,
  usable: window.typedMs,
  alive: performance.getEntriesByName('parley:alive')[0].startTime,
  sent: performance.getEntriesByType('resource').find((e) => /conversations$/.test(e.name)).startTime,
  bytes: [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].filter((e) => e.responseEnd < window.typedMs).reduce((sum, e) => sum + e.transferSize, 0),
})`;

const columns = {
  painted: 'something is on the screen',
  usable: 'what was typed is on the screen: the bar',
  alive: 'the rest works, too',
  sent: 'the message goes to the server, Send having been pressed after the typing',
  bytes: 'that came before one could type',
};

/** A new tab with the screen of a phone, not slowed down yet: that costs the machine something by itself. */
async function openTab(browser, browserContextId) {
  const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank', browserContextId });
  const { sessionId } = await browser.send('Target.attachToTarget', { targetId, flatten: true });
  const send = (method, params) => browser.send(method, params, sessionId);
  await send('Page.enable');
  await send('Page.setLifecycleEventsEnabled', { enabled: true });
  await send('Emulation.setDeviceMetricsOverride', screen);
  await send('Emulation.setTouchEmulationEnabled', { enabled: true });
  await send('Page.addScriptToEvaluateOnNewDocument', { source: noteTyped });
  return {
    send,
    evaluate: async (expression) => (await send('Runtime.evaluate', { expression })).result.value,
    painted: () => browser.event(sessionId, 'Page.lifecycleEvent', (e) => e.name === 'firstContentfulPaint'),
    async tap(point) {
      await send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: [point] });
      await send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
    },
    close: () => browser.send('Target.closeTarget', { targetId }),
  };
}

/** Where a finger has to go. It is found out before anything is measured: to ask would cost the page time. */
async function findPlaces(browser, url) {
  const tab = await openTab(browser);
  const painted = tab.painted();
  await tab.send('Page.navigate', { url });
  await painted;
  await pause(3000);
  const middle = (selector) => `(() => { const r = document.querySelector('${selector}').getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 }; })()`;
  const places = JSON.parse(await tab.evaluate(`JSON.stringify({ box: ${middle('#prompt')}, send: ${middle('[type=submit]')} })`));
  await tab.close();
  return places;
}

/** Visits a page and types. */
async function type(browser, { context, url, places }) {
  const tab = await openTab(browser, context);
  await untilSettled(browser);
  await tab.send('Emulation.setCPUThrottlingRate', { rate: slowdown });
  const painted = tab.painted();
  await tab.send('Page.navigate', { url });
  await painted;
  await tab.tap(places.box);
  while (!(await tab.evaluate(`document.activeElement.id === 'prompt'`))) await pause(5);
  await tab.send('Input.insertText', { text });
  return tab;
}

/** Visits the page, types, sends, and waits for the whole answer. */
async function visit(browser, where) {
  const tab = await type(browser, where);
  await tab.tap(where.places.send);
  await until(tab, `document.querySelector('article.mine')?.innerText === ${JSON.stringify(text)} && !document.querySelector('.live') && !!document.querySelector('article:not(.mine) .markdown')`);
  await until(tab, `!!performance.getEntriesByName('parley:alive')[0]`);
  const times = JSON.parse(await tab.evaluate(noted));
  await tab.close();
  return times;
}

/** Visits the bare page, and types. */
async function visitBare(browser, where) {
  const tab = await type(browser, where);
  await until(tab, '!!window.typedMs');
  const usable = await tab.evaluate('window.typedMs');
  await tab.close();
  return { usable };
}

async function until(tab, condition) {
  for (let n = 0; !(await tab.evaluate(condition)); n++) {
    if (n > 100) throw new Error(`the page did not come so far: ${await tab.evaluate('document.body.innerText')}`);
    await pause(200);
  }
}

/** The least that one can type into. */
async function serveBarePage() {
  const page = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<!doctype html><meta name="viewport" content="width=device-width"><title>Bare</title><textarea id="prompt" placeholder="Type"></textarea>'));
  page.listen(0, '127.0.0.1');
  await once(page, 'listening');
  return page;
}

/** Signs a browser window in, as the user of a visit did before. */
async function signIn(browser, browserContextId) {
  const response = await fetch(`${server.url}/session`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ key: server.token }) });
  const [, name, value] = /^([^=]+)=([^;]+)/.exec(response.headers.get('set-cookie'));
  const cookie = { name, value, domain: '127.0.0.1', path: '/', httpOnly: true, sameSite: 'Strict' };
  await browser.send('Storage.setCookies', { cookies: [cookie], browserContextId });
}

/** A number of visits, each by a browser window of its own, with what the browser makes of a slow phone here. */
async function series(count) {
  const browser = await openBrowser();
  try {
    const tab = await openTab(browser);
    await untilSettled(browser);
    const measured = { index: await benchmarkIndex(tab), factors: await slowdownFactors(tab, slowdown), cold: [], warm: [], bare: [] };
    await tab.close();
    const places = await findPlaces(browser, slow.url);
    for (let n = 0; n < count; n++) {
      const { browserContextId: context } = await browser.send('Target.createBrowserContext');
      await signIn(browser, context);
      for (const loads of [measured.cold, measured.warm]) {
        slow.cut();
        loads.push(await visit(browser, { context, url: slow.url, places }));
      }
      slowBare.cut();
      measured.bare.push(await visitBare(browser, { context, url: slowBare.url, places: { box: { x: 40, y: 20 } } }));
      await browser.send('Target.disposeBrowserContext', { browserContextId: context });
    }
    return measured;
  } finally {
    await browser.close();
  }
}

const sorted = (loads, name) => loads.map((l) => Math.round(l[name])).sort((a, b) => a - b);
const median = (numbers) => numbers[Math.floor(numbers.length / 2)];
const row = (name, kind, numbers) => `${name.padEnd(8)} ${kind}  ${String(median(numbers)).padStart(6)}   ${numbers.join(' ')}`;
const factors = (numbers) => `${median(numbers).toFixed(2)} (${numbers.map((n) => n.toFixed(1)).join(' ')})`;

function report(ordinary, realTime) {
  const commit = execFileSync('git', ['describe', '--always', '--dirty', '--abbrev=7'], { encoding: 'utf8' }).trim();
  return [
    `The chat page on a slow phone: medians of ${rounds} visits, in milliseconds since the visit began (bytes: bytes).`,
    `commit ${commit}, ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC, ${cpus().length} x ${cpus()[0].model.trim()}, benchmark index ${ordinary.index}, slowed down ${slowdown} times: ${Math.round(ordinary.index / slowdown)}`,
    `line: ${(line.downBytesPerSecond * 8) / 1e6} Mbit/s down, ${(line.upBytesPerSecond * 8) / 1e6} up, round trip ${line.rttMs} ms`,
    `asked to slow a page down ${slowdown} times, the browser slows a loop down ${factors(ordinary.factors)} times at ordinary priority${realTime ? `, ${factors(realTime.factors)} times at real-time priority` : ''}`,
    '',
    ...Object.entries(columns).map(([name, what]) => `${name}: ${what}`),
    'bare: a page that is nothing but a box, usable: no page can be sooner here',
    '',
    'at ordinary priority, where the bar is held:',
    ...Object.keys(columns).flatMap((name) => ['cold', 'warm'].map((kind) => row(name, kind, sorted(ordinary[kind], name)))),
    row('bare', 'cold', sorted(ordinary.bare, 'usable')),
    '',
    ...(realTime ? ['at real-time priority, to compare:', ...['cold', 'warm'].map((kind) => row('usable', kind, sorted(realTime[kind], 'usable'))), row('bare', 'cold', sorted(realTime.bare, 'usable')), ''] : []),
  ].join('\n');
}

const server = { url: '', token: '', log: [], flags: ['--threads', '1'] };
await start(server);
const bare = await serveBarePage();
const slow = await openSlowLine(new URL(server.url).port, line);
const slowBare = await openSlowLine(bare.address().port, line);
let ordinary;
let realTime;
try {
  ordinary = await series(rounds);
  if (takeRealTime(process.pid, server.child.pid)) realTime = await series(realTimeRounds);
} finally {
  await slow.close();
  await slowBare.close();
  bare.close();
  await stop(server);
}
const told = report(ordinary, realTime);
process.stdout.write(told);
if (process.env.KEEP) await writeFile(join(process.env.KEEP, `${new Date().toISOString().slice(0, 10)}-page.txt`), told);
for (const kind of ['cold', 'warm']) {
  const ms = median(sorted(ordinary[kind], 'usable'));
  if (ms < usableMsMax) continue;
  console.log(`MISSED: usable ${kind} after ${ms} ms, not within ${usableMsMax}`);
  process.exitCode = 1;
}
