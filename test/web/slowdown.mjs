// How much slower the browser really makes a page when it is asked to: it stops the page for a moment again and again, which a
// busy machine may be late with. Measured with a loop that has nothing to do with any page.
import { execFileSync } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';

/** Runs in the page: so many milliseconds for always the same work. */
const loop = `(() => {
  const began = performance.now();
  let x = 1;
  for (let i = 0; i < 2e7; i++) x = (x * 1103515245 + 12345) & 0x7fffffff;
  window.kept = x; // or the loop would be left out
  return performance.now() - began;
})()`;

const turns = 7;

/** The factors that a tab slows down by, in order, if asked for one: a slow and a quick loop in turn. */
export async function slowdownFactors(tab, asked) {
  const factors = [];
  await tab.evaluate(loop);
  for (let n = 0; n < turns; n++) {
    const [quick, slow] = [await timed(tab, 1), await timed(tab, asked)];
    factors.push(slow / quick);
  }
  await tab.send('Emulation.setCPUThrottlingRate', { rate: 1 });
  return factors.sort((a, b) => a - b);
}

async function timed(tab, rate) {
  await tab.send('Emulation.setCPUThrottlingRate', { rate });
  return tab.evaluate(loop);
}

const lookMs = 250;
const busyMsMax = 10;

/** Waits until the browser itself has nothing to do: a new window loads much that no phone has, and a visit begins after that. */
export async function untilSettled(browser) {
  let before = await cpuMs(browser);
  for (let n = 0; n < 80; n++) {
    await pause(lookMs);
    const now = await cpuMs(browser);
    if (now - before < busyMsMax) return;
    before = now;
  }
  throw new Error('the browser is busy with itself: is the machine idle?');
}

async function cpuMs(browser) {
  const { processInfo } = await browser.send('SystemInfo.getProcessInfo');
  return processInfo.reduce((sum, p) => sum + p.cpuTime * 1000, 0);
}

/** Gives processes, and those they will start, real-time priority. Reports whether that is allowed. */
export function takeRealTime(...pids) {
  try {
    for (const pid of pids) execFileSync('chrt', ['--all-tasks', '--rr', '--pid', '1', String(pid)], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
