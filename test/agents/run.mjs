// Runs real agents against the real server, without a terminal: a prompt, a tool, a conversation that is continued, an answer
// held to a schema. The worker behind the server is ../scripted: the product's engine with a script in the place of the
// network, which wants to call the agent's own shell. Each agent has a key of an organisation of its own, with the limits of the
// free tier, and the server the policy of docs/safety.md: neither may reject anything of this. Where PARLEY_LLAMA_SERVER names a llama-server, all is done a second time with that behind the server. Nothing here
// depends on how fast the machine is. To record requests, --record runs without the policy.
//
//   PARLEY_BIN=… SCRIPTED_BIN=… [PARLEY_LLAMA_SERVER=…] node run.mjs [--table FILE] [--record FOLDER] [--engine NAME] [NAME...]
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { start, stop } from '../server.mjs';
import { agents, called } from './agents.mjs';
import { startLlama } from './llama.mjs';
import { startRecorder } from './recorder.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const runMsMax = 600_000;
const proof = 'PROOF-7391';
const greeting = 'A greeting from the script, number 5512.';
const schema = { type: 'object', properties: { city: { type: 'string' }, number: { type: 'integer' } }, required: ['city', 'number'], additionalProperties: false };
const held = { city: 'Ulm', number: 9031 };

const tasks = {
  greet: 'This is task T5512: greet me.',
  compute: 'This is task T6104: compute the proof.',
  recall: 'This is task T8820: which proof was it?',
  shape: 'This is task T9031: name a city and a number.',
  patch: 'This is task T4410: write a note.',
  survey: 'This is task T7300: look around in this repository, run the tests, and tell me why one of them fails. Do not change any file yet.',
};

// What a survey runs in the agent's shell, one after the other: what agents read of real work.
const surveys = [
  'ls -la && git status && git log --stat -3',
  'cat README.md AGENTS.md package.json',
  'cat -n src/total.mjs && grep -rn "currency" src test',
  'node --test 2>&1 | grep -v duration_ms',
  'git --no-pager diff HEAD~1 && git push 2>&1',
];

// A patch as a custom tool takes it, and what the agent says when it has applied one.
const patch = '*** Begin Patch\n*** Add File: NOTE.txt\n+Patched, "as told": 4410\n*** End Patch\n';
const patched = 'Updated the following files';

/** Step n of a survey: its last line says that it ran, and stands in no command. */
const step = (n) => `echo STEP-$((7300 + ${n}))`;
const stepped = (n) => `STEP-${7300 + n}`;

/** What the model of one agent says. Prompts for titles name no tool, and get the last line. */
function rulesFor(agent) {
  const call = agent.shell('echo PROOF-$((7000 + 391))');
  const rules = [
    { has: ['T8820', proof], say: `It was ${proof}, as computed before.` },
    { has: ['T6104', proof], say: `The command printed ${proof}.` },
    { has: ['T6104', `"${call.name}"`], say: called(call) },
    { has: ['T5512', 'T5512: greet me'], say: greeting },
    { has: ['T4410', patched], say: 'The note is written.' },
    { has: ['T4410', '"apply_patch"'], say: called({ name: 'apply_patch', arguments: { input: patch } }) },
    { has: ['T7300', stepped(surveys.length)], say: 'One test wants unknown currencies to be rejected.' },
    ...surveys.map((command, n) => ({ has: ['T7300', ...(n ? [stepped(n)] : [`"${call.name}"`])], say: called(agent.shell(`${command}; ${step(n + 1)}`)) })).reverse(),
  ];
  if (agent.schemaSays) rules.unshift({ has: ['T9031', 'Structured output provided'], say: 'Done.' }, { has: ['T9031'], say: agent.schemaSays(held) });
  return [...rules, { has: [], say: 'A short title' }];
}

/** Starts the scripted worker with a script that is written for each agent. */
async function startWorker(folder) {
  const files = { model: join(folder, 'scripted.gguf'), script: join(folder, 'script.json') };
  const source = join(here, '../../internal/builtin/polly-mini.gguf');
  const child = spawn(process.env.SCRIPTED_BIN, ['-source', source, '-model', files.model, '-script', files.script], { stdio: ['pipe', 'pipe', 'pipe'] });
  const worker = { ...files, child, log: [] };
  createInterface({ input: child.stderr }).on('line', (line) => worker.log.push(line));
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), once(child, 'exit').then(() => assert.fail(worker.log.join('\n')))]);
  return { ...worker, url: JSON.parse(line).url };
}

/** Runs a program to its end. */
async function runProgram(program, args, { cwd, env }) {
  const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const out = { text: '', errors: '' };
  child.stdout.on('data', (part) => (out.text += part));
  child.stderr.on('data', (part) => (out.errors += part));
  const late = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), runMsMax);
  const [code, signal] = await once(child, 'close');
  clearTimeout(late);
  assert.equal(code, 0, `${program} ${args.join(' ')} ended with ${code ?? signal}:\n${out.text.slice(-2000)}\n${out.errors.slice(-2000)}`);
  return out;
}

/** One agent: its own home, a proxy that records, and the four tasks. */
class Trial {
  constructor(agent, key, server, worker, folder, columns) {
    Object.assign(this, { agent, key, server, worker, folder, columns, results: {} });
  }

  async prepare() {
    const { agent, folder } = this;
    this.recorder = await startRecorder(this.server.url);
    this.home = join(folder, 'home');
    this.work = join(folder, 'work');
    await mkdir(this.home, { recursive: true });
    await this.prepareWork();
    await writeFile(this.worker.script, JSON.stringify(rulesFor(agent)));
    this.schemaFile = join(folder, 'schema.json');
    await writeFile(this.schemaFile, JSON.stringify(schema));
    const { PATH, LANG, NODE_EXTRA_CA_CERTS } = process.env;
    const own = { PATH, LANG, NODE_EXTRA_CA_CERTS, HOME: this.home, XDG_CONFIG_HOME: join(this.home, '.config'), NO_PROXY: '127.0.0.1,localhost', PARLEY_URL: this.recorder.url, PARLEY_API_KEY: this.key, SHELL: '/bin/bash' };
    this.env = Object.fromEntries(Object.entries({ ...own, ...agent.env(this.home, this.recorder.url, this.key) }).filter(([, v]) => v !== undefined));
    const first = await agent.prepare?.(this.home, this.recorder.url, this.key);
    if (first) await runProgram(first.program, first.args, { cwd: this.work, env: this.env });
  }

  /** A small repository with instructions, under the name that each agent reads. */
  async prepareWork() {
    await cp(join(here, 'workspace'), this.work, { recursive: true });
    for (const name of ['CLAUDE.md', 'QWEN.md']) await cp(join(this.work, 'AGENTS.md'), join(this.work, name));
    const git = (...args) => runProgram('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args], { cwd: this.work, env: process.env });
    await git('init', '-q', '-b', 'main');
    await git('add', 'README.md', 'package.json', 'src');
    await git('commit', '-q', '-m', 'Add the totals');
    await git('add', 'AGENTS.md', 'test');
    await git('commit', '-q', '-m', 'Test refunds and unknown currencies', '-m', 'The second test fails until totals() rejects what it does not know.');
  }

  async ask(prompt, how = {}) {
    const from = this.recorder.seen.length;
    const args = this.agent.ask(prompt, { ...how, home: this.home, schemaText: JSON.stringify(schema) });
    const out = await runProgram(join(here, 'node_modules/.bin', this.agent.program), args, { cwd: this.work, env: this.env });
    const seen = this.recorder.seen.slice(from);
    const refused = seen.filter((r) => r.status >= 400);
    assert.deepEqual(refused.map((r) => `${r.path} ${r.status} ${r.answer.slice(0, 500)}`), []);
    return { text: out.text, seen };
  }

  async check(name, task) {
    if (!task || !this.columns.includes(name)) return;
    try {
      await task();
      this.results[name] = 'yes';
    } catch (err) {
      this.results[name] = 'no';
      this.failed = true;
      console.error(`${this.agent.name}, ${this.agent.api}, ${name}: ${err.message}\n${this.worker.log.splice(0).slice(-3).join('\n').slice(0, 2000)}`);
    }
  }

  async run() {
    await this.prepare();
    await this.check('prompt', async () => {
      const { text } = await this.ask(tasks.greet);
      assert.ok(text.includes(greeting), text);
    });
    let turns = [];
    await this.check('tools', async () => {
      const { text, seen } = await this.ask(tasks.compute);
      assert.ok(text.includes(`The command printed ${proof}.`), text);
      turns = seen.filter((r) => JSON.stringify(r.body).includes('T6104'));
      assert.ok(turns.some((r) => JSON.stringify(r.body).includes(proof)), 'no request has what the tool printed');
    });
    await this.check('streams', async () => {
      assert.ok(turns.length > 1, 'there was no tool loop');
      for (const r of turns) assert.ok(r.body.stream !== true || (r.type.startsWith('text/event-stream') && r.events > 3), `${r.path}: ${r.type}, ${r.events} events`);
      assert.ok(turns.some((r) => r.body.stream === true), 'no request asks for a stream');
    });
    await this.check('resumes', async () => {
      const { text } = await this.ask(tasks.recall, { again: true });
      assert.ok(text.includes(`It was ${proof}, as computed before.`), text);
    });
    await this.check('survey', async () => {
      const { text, seen } = await this.ask(tasks.survey);
      assert.ok(text.includes('One test wants unknown currencies'), text);
      assert.ok(seen.some((r) => JSON.stringify(r.body).includes(stepped(surveys.length))), 'no request has what the last command printed');
    });
    await this.check('schema', this.agent.schemaSays && (async () => {
      const { text } = await this.ask(tasks.shape, { schema: this.schemaFile });
      const flat = text.replace(/\s/g, '');
      assert.ok(flat.includes('"city":"Ulm","number":9031'), text);
    }));
    await this.check('custom', this.agent.patches && (async () => {
      const { text, seen } = await this.ask(tasks.patch, { model: this.agent.patches });
      assert.ok(text.includes('The note is written.'), text);
      assert.equal(await readFile(join(this.work, 'NOTE.txt'), 'utf8'), 'Patched, "as told": 4410\n');
      const tool = seen.flatMap((r) => r.body?.tools ?? []).find((t) => t.type === 'custom');
      assert.equal(tool?.format?.type, 'grammar', 'no request has a custom tool with a grammar');
      assert.ok(seen.some((r) => r.body?.input?.some?.((item) => item.type === 'custom_tool_call_output')), 'no request has what the custom tool said');
    }));
    this.recorder.close();
  }
}

/** Writes the policy of docs/safety.md to a file, without the moderators, which are not here. */
async function documentedPolicy(file) {
  const [, policy] = /```yaml\n(safety:[^]*?)```/.exec(await readFile(join(here, '../../docs/safety.md'), 'utf8'));
  const lines = policy.split('\n').filter((line) => !/^ *moderators:|^ {4}(guard|theirs):/.test(line));
  assert.ok(lines.some((line) => /injection: *\{action: block/.test(line)), 'the documented policy blocks no injections');
  await writeFile(file, lines.join('\n'));
  return ['--safety-policy', file];
}

// A format and a custom tool are grammars of the server's own, and the script of llama-server another: make foreign has those.
const engines = {
  parley: { marks: 'agents', columns: ['prompt', 'tools', 'streams', 'resumes', 'survey', 'schema', 'custom'] },
  llamacpp: { marks: 'agents before llama-server', columns: ['prompt', 'tools', 'streams', 'resumes', 'survey'] },
};

async function versionOf(agent) {
  return JSON.parse(await readFile(join(here, 'node_modules', agent.package, 'package.json'))).version;
}

/** Puts the table of an engine in the place of the one that a document has. */
async function writeTable(file, { marks, columns }, rows) {
  const [from, to] = [`<!-- ${marks}: written by make agents -->`, `<!-- end of ${marks} -->`];
  const table = ['| agent | version | API | ' + columns.join(' | ') + ' |', '|---|---|---|' + '---|'.repeat(columns.length), ...rows].join('\n');
  const text = await readFile(file, 'utf8');
  const [before, rest] = text.split(from);
  assert.ok(rest?.includes(to), `${file} has no place for the table`);
  await writeFile(file, `${before}${from}\n${table}\n${to}${rest.split(to)[1]}`);
}

/** Makes a key on a server that another key, or the local token, is an admin of. */
async function makeKey(server, admin, ...flags) {
  const args = ['keys', 'create', ...flags, '--url', server.url, '--json'];
  const { text } = await runProgram(process.env.PARLEY_BIN, args, { cwd: here, env: { ...process.env, PARLEY_API_KEY: admin } });
  return JSON.parse(text).value;
}

/** Runs agents against a server before an engine, and returns the rows of a table. */
async function runAgents(chosen, { columns }, worker, server, folder) {
  const rows = [];
  let failed = false;
  const admin = await makeKey(server, server.token, '--admin', '--name', 'operator');
  for (const [i, agent] of chosen.entries()) {
    const key = await makeKey(server, admin, '--name', agent.program, '--org', `person-${i}`);
    const trial = new Trial(agent, key, server, worker, join(folder, String(i)), columns);
    await trial.run();
    failed ||= Boolean(trial.failed);
    rows.push(`| ${[agent.name, await versionOf(agent), agent.api, ...columns.map((c) => trial.results[c] ?? '–')].join(' | ')} |`);
    console.log(rows.at(-1));
    if (values.record) await writeFile(join(values.record, `${agent.program}-${agent.api.toLowerCase()}.json`), JSON.stringify(trial.recorder.seen.map(({ path, body }) => ({ path, body }))));
  }
  return { rows, failed };
}

const options = { table: { type: 'string' }, record: { type: 'string' }, engine: { type: 'string' } };
const { values, positionals } = parseArgs({ allowPositionals: true, options });
const chosen = agents.filter((a) => positionals.length === 0 || positionals.includes(a.program));
const kinds = Object.keys(engines).filter((k) => (values.engine ?? k) === k && (k === 'parley' || process.env.PARLEY_LLAMA_SERVER));
const folder = await mkdtemp(join(tmpdir(), 'parley-agents-'));
let failed = chosen.length === 0 || kinds.length === 0;
const worker = await startWorker(folder);
const aliases = chosen.filter((a) => a.patches).flatMap((a) => ['--aliases', `${a.patches}=scripted`]);
const policy = values.record ? [] : await documentedPolicy(join(folder, 'safety.yaml'));
try {
  for (const kind of kinds) {
    const llama = kind === 'llamacpp' ? await startLlama(worker) : undefined;
    const at = llama ? `llamacpp=${llama.url}` : worker.url;
    const server = { flags: ['--model', `scripted=${worker.model}`, '--worker', at, '--first-token-max', '1h', ...aliases, ...policy], log: [] };
    await start(server);
    try {
      const result = await runAgents(chosen, engines[kind], { ...worker, log: llama?.log ?? worker.log }, server, join(folder, kind));
      failed ||= result.failed;
      if (values.table && positionals.length === 0) await writeTable(values.table, engines[kind], result.rows);
    } finally {
      await stop(server);
      await llama?.close();
    }
  }
} finally {
  worker.child.stdin.end();
  await once(worker.child, 'exit');
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(failed ? 1 : 0);
