// Chromium by its own protocol over a pipe, with nothing of a driver in the page: what is measured is the page alone.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Starts a browser. Its send takes a method, parameters and, for a page, its session. */
export async function openBrowser() {
  const profile = await mkdtemp(join(tmpdir(), 'parley-browser-'));
  const flags = ['--headless=new', '--no-sandbox', '--remote-debugging-pipe', `--user-data-dir=${profile}`, '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-extensions', '--disable-renderer-backgrounding', '--disable-backgrounding-occluded-windows'];
  const child = spawn(process.env.CHROMIUM || '/usr/bin/chromium', [...flags, 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
  const [, , , to, from] = child.stdio;
  const answers = new Map();
  const listeners = new Set();
  let last = 0;
  let rest = '';
  from.setEncoding('utf8').on('data', (text) => {
    const messages = (rest + text).split('\0');
    rest = messages.pop();
    for (const message of messages.map((m) => JSON.parse(m))) {
      if (message.id === undefined) listeners.forEach((f) => f(message));
      else answers.get(message.id)(message);
    }
  });
  const send = (method, params = {}, sessionId = undefined) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      answers.set(id, ({ result, error }) => {
        answers.delete(id);
        if (error) reject(new Error(`${method}: ${error.message}`));
        else resolve(result);
      });
      to.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  /** Waits for an event of a page that is as wanted. */
  const event = (sessionId, method, wanted = () => true) =>
    new Promise((resolve) => {
      const listener = (m) => {
        if (m.sessionId !== sessionId || m.method !== method || !wanted(m.params)) return;
        listeners.delete(listener);
        resolve(m.params);
      };
      listeners.add(listener);
    });
  return {
    send,
    event,
    async close() {
      const ended = once(child, 'exit');
      await send('Browser.close');
      await ended;
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
