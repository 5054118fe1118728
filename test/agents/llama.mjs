// A real llama-server that says what a script wants: a proxy before it adds a grammar that allows one text, to requests that
// have no grammar. Prompts, tokens, streams and their ends are llama-server's own. PARLEY_LLAMA_SERVER names the program.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { assemble, parse, text, u32 } from '../gguf.mjs';

const contextTokens = 65536;
const readyMsMax = 120_000;

/** Starts llama-server with a model, and the proxy, which reads the script for each answer. */
export async function startLlama({ model, script }) {
  const port = await freePort();
  const small = `${model}.small`;
  await writeFile(small, oneLayer(await readFile(model)));
  const args = ['-m', small, '-c', String(contextTokens), '-np', '1', '--host', '127.0.0.1', '--port', String(port), '--alias', 'scripted', '--no-warmup', '--metrics'];
  const child = spawn(process.env.PARLEY_LLAMA_SERVER, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const llama = { child, log: [], grammars: 0, url: '' };
  child.stderr.on('data', (part) => {
    llama.log.push(...String(part).split('\n'));
    llama.log.splice(0, llama.log.length - 50);
  });
  const at = `http://127.0.0.1:${port}`;
  for (const until = Date.now() + readyMsMax; !(await healthy(at)); await pause(100)) {
    assert.ok(child.exitCode === null && Date.now() < until, `llama-server is not ready:\n${llama.log.join('\n')}`);
  }
  const proxy = createServer((req, res) => pass(at, script, llama, req, res));
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  llama.url = `http://127.0.0.1:${proxy.address().port}`;
  llama.close = async () => {
    proxy.closeAllConnections();
    proxy.close();
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  };
  return llama;
}

/** A model with the first of its layers: what it would say does not matter, and prompts of agents are long. */
function oneLayer(bytes) {
  const { metadata, tensors } = parse(bytes);
  const name = 'llama.block_count';
  return assemble(bytes, {
    metadata: metadata.map((m) => (m.name === name ? { ...m, raw: Buffer.concat([text(name), u32(4), u32(1)]) } : m)),
    tensors: tensors.filter((t) => !/^blk\.[1-9]/.test(t.name)),
  });
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const healthy = (at) => fetch(`${at}/health`).then((r) => r.ok, () => false);

function pass(at, script, llama, req, res) {
  const parts = [];
  req.on('data', (part) => parts.push(part));
  req.on('end', async () => {
    let body = Buffer.concat(parts);
    try {
      if (req.url === '/completion') body = Buffer.from(JSON.stringify(await prompted(at, script, llama, JSON.parse(body))));
    } catch (err) {
      llama.log.push(String(err));
      return res.destroy();
    }
    const { 'content-length': _, ...headers } = req.headers;
    const onward = request(`${at}${req.url}`, { method: req.method, headers: { ...headers, ...(body.length ? { 'content-length': body.length } : {}) } }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    onward.on('error', () => res.destroy());
    res.on('close', () => onward.destroy());
    onward.end(body);
  });
}

/** A request with a grammar that allows what the script says to its prompt, unless it has one. */
async function prompted(at, script, llama, body) {
  if (body.grammar || body.json_schema) {
    llama.grammars++;
    return body;
  }
  const answer = await fetch(`${at}/detokenize`, { method: 'POST', body: JSON.stringify({ tokens: body.prompt }) });
  const { content } = await answer.json();
  const rules = JSON.parse(await readFile(script));
  const rule = rules.find((r) => r.has.every((text) => content.includes(text)));
  return { ...body, grammar: `root ::= ${JSON.stringify(rule.say)}` };
}
