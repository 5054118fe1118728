// A real server for tests: started before a file's first test, ended after its
// last. PARLEY_BIN names the program.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

const readyMsMax = 60_000;
const stopMsMax = 20_000;

/**
 * Gives the calling test file a server with further flags: started before its
 * first test, ended with SIGINT after its last one. It must end with exit code 0.
 */
export function serveParley(...flags) {
  const server = { url: '', token: '', log: [], flags };
  before(() => start(server));
  after(() => stop(server));
  return server;
}

/** Kills a server as a power cut would, and starts it again with what it has stored. */
export async function crash(server) {
  server.child.kill('SIGKILL');
  await server.ended;
  await start(server, server.data);
}

/** Starts a server that has flags, with the data of an earlier one or with none. */
export async function start(server, data) {
  server.token = '';
  server.waiting = null;
  const program = process.env.PARLEY_BIN;
  assert.ok(program, 'PARLEY_BIN must name the parley program');
  server.data = data ?? (await mkdtemp(join(tmpdir(), 'parley-test-')));
  server.child = spawn(program, ['serve', '--addr', '127.0.0.1:0', '--data', server.data, ...server.flags], { stdio: ['ignore', 'ignore', 'pipe'] });
  server.ended = once(server.child, 'exit');
  server.url = await inTime(readyMsMax, server, 'was not ready', Promise.race([readyLine(server), endedEarly(server)]));
}

function readyLine(server) {
  return new Promise((resolve) => {
    createInterface({ input: server.child.stderr }).on('line', (line) => {
      server.log.push(line);
      if (server.log.length > 200) server.log.shift();
      server.token ||= /\?token=(\S+)$/.exec(line)?.[1] ?? '';
      if (server.waiting && line.startsWith('Ctrl-C stops')) server.waiting();
      const ready = /^Parley \S+ is ready on (http:\S+)$/.exec(line);
      if (ready) server.waiting = () => resolve(ready[1]); // the token follows
    });
  });
}

/** What shows a server without keys that one runs it, as headers. */
export const asOwner = (server) => (server.token ? { authorization: `Bearer ${server.token}` } : {});

async function endedEarly(server) {
  const [code, signal] = await server.ended;
  throw new Error(`the server ended before it was ready (exit code ${code}, signal ${signal}):\n${server.log.join('\n')}`);
}

/** What a promise gives. After ms it is given up, and the server killed. */
async function inTime(ms, server, what, promise) {
  const timer = new AbortController();
  const late = pause(ms, undefined, { ref: false, signal: timer.signal }).then(() => {
    server.child.kill('SIGKILL');
    throw new Error(`the server ${what} within ${ms} ms:\n${server.log.join('\n')}`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer.abort();
  }
}

export async function stop(server) {
  if (!server.child) return;
  server.child.kill('SIGINT');
  try {
    const [code, signal] = await inTime(stopMsMax, server, 'did not end on SIGINT', server.ended);
    assert.deepEqual({ code, signal }, { code: 0, signal: null }, server.log.join('\n'));
  } finally {
    await rm(server.data, { recursive: true, force: true });
  }
}
