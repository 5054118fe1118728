// How soon the chat can be used on a slow phone: make bench-page. Prints the times, keeps them where KEEP says, and exits
// with 1 if the bar is missed.
//
// A slow phone is what Lighthouse takes for one: a processor a quarter as fast as this one (how fast that is, is measured),
// and a slow 4G line, 1.6 Mbit/s and a round trip of 150 ms, here with handshakes and TCP's slow start. Usable: a finger goes to the message box as soon as
// something is painted, and what is then typed is on the screen. Send is pressed at once, too, and must lead to an answer.
// Cold: nothing of the page in the browser, and no connection. Warm: visited before, and no connection.
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { start, stop } from '../server.mjs';
import { openBrowser } from './devtools.mjs';
import { benchmarkIndex } from './phonespeed.mjs';
import { openSlowLine } from './slowline.mjs';

const screen = { width: 390, height: 844, deviceScaleFactor: 1, mobile: true };
const line = { rttMs: 150, downBytesPerSecond: 1.6e6 / 8, upBytesPerSecond: 0.75e6 / 8 };
const slowdown = 4;
const rounds = Number(process.env.ROUNDS || 7);
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

/** A new tab that is a slow phone. */
async function openTab(browser, rate, browserContextId) {
  const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank', browserContextId });
  const { sessionId } = await browser.send('Target.attachToTarget', { targetId, flatten: true });
  const send = (method, params) => browser.send(method, params, sessionId);
  await send('Page.enable');
  await send('Page.setLifecycleEventsEnabled', { enabled: true });
  await send('Emulation.setDeviceMetricsOverride', screen);
  await send('Emulation.setTouchEmulationEnabled', { enabled: true });
  await send('Emulation.setCPUThrottlingRate', { rate });
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

async function findIndex(browser) {
  const tab = await openTab(browser, 1);
  const found = await benchmarkIndex(tab);
  await tab.close();
  return found;
}

/** Where a finger has to go. It is found out before anything is measured: to ask would cost the page time. */
async function findPlaces(browser, url) {
  const tab = await openTab(browser, 1);
  const painted = tab.painted();
  await tab.send('Page.navigate', { url });
  await painted;
  await pause(3000);
  const middle = (selector) => `(() => { const r = document.querySelector('${selector}').getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 }; })()`;
  const places = JSON.parse(await tab.evaluate(`JSON.stringify({ box: ${middle('#prompt')}, send: ${middle('[type=submit]')} })`));
  await tab.close();
  return places;
}

/** Visits the page, types, sends, and waits for the whole answer. */
async function visit(browser, { context, url, places }) {
  const tab = await openTab(browser, slowdown, context);
  const painted = tab.painted();
  await tab.send('Page.navigate', { url });
  await painted;
  await tab.tap(places.box);
  while (!(await tab.evaluate(`document.activeElement.id === 'prompt'`))) await pause(5);
  await tab.send('Input.insertText', { text });
  await tab.tap(places.send);
  for (let n = 0; !(await tab.evaluate(`document.querySelector('article.mine')?.innerText === ${JSON.stringify(text)} && !document.querySelector('.live') && !!document.querySelector('article:not(.mine) .markdown')`)); n++) {
    if (n > 100) throw new Error(`the message was not answered: ${await tab.evaluate('document.body.innerText')}`);
    await pause(200);
  }
  const times = JSON.parse(await tab.evaluate(noted));
  await tab.close();
  return times;
}

const sorted = (loads, name) => loads.map((l) => Math.round(l[name])).sort((a, b) => a - b);
const median = (numbers) => numbers[Math.floor(numbers.length / 2)];

function report(cold, warm) {
  const commit = execFileSync('git', ['describe', '--always', '--dirty', '--abbrev=7'], { encoding: 'utf8' }).trim();
  const rows = Object.keys(columns).flatMap((name) =>
    [['cold', cold], ['warm', warm]].map(([kind, loads]) => `${name.padEnd(8)} ${kind}  ${String(median(sorted(loads, name))).padStart(6)}   ${sorted(loads, name).join(' ')}`),
  );
  return [
    `The chat page on a slow phone: medians of ${rounds} visits, in milliseconds since the visit began (bytes: bytes).`,
    `commit ${commit}, ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC, ${cpus().length} x ${cpus()[0].model.trim()}, benchmark index ${index}, slowed down ${slowdown} times: ${Math.round(index / slowdown)}`,
    `line: ${(line.downBytesPerSecond * 8) / 1e6} Mbit/s down, ${(line.upBytesPerSecond * 8) / 1e6} up, round trip ${line.rttMs} ms`,
    '',
    ...Object.entries(columns).map(([name, what]) => `${name}: ${what}`),
    '',
    ...rows,
    '',
  ].join('\n');
}

const server = { url: '', log: [], flags: ['--threads', '1'] };
await start(server);
const slow = await openSlowLine(new URL(server.url).port, line);
const browser = await openBrowser();
let index;
const cold = [];
const warm = [];
try {
  index = await findIndex(browser);
  const places = await findPlaces(browser, slow.url);
  for (let n = 0; n < rounds; n++) {
    const { browserContextId } = await browser.send('Target.createBrowserContext');
    for (const loads of [cold, warm]) {
      slow.cut();
      loads.push(await visit(browser, { context: browserContextId, url: slow.url, places }));
    }
    await browser.send('Target.disposeBrowserContext', { browserContextId });
  }
} finally {
  await browser.close();
  await slow.close();
  await stop(server);
}
const told = report(cold, warm);
process.stdout.write(told);
if (process.env.KEEP) await writeFile(join(process.env.KEEP, `${new Date().toISOString().slice(0, 10)}-page.txt`), told);
for (const [kind, loads] of [['cold', cold], ['warm', warm]]) {
  const ms = median(sorted(loads, 'usable'));
  if (ms < usableMsMax) continue;
  console.log(`MISSED: usable ${kind} after ${ms} ms, not within ${usableMsMax}`);
  process.exitCode = 1;
}
