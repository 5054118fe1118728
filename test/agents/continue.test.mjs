// Keystrokes in an editor with Continue: its own completion provider against the real server, with the configuration that
// `parley connect continue` writes. What the small built-in model proposes is not judged.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { serveParley } from '../server.mjs';
import { loadContinue } from './continue.mjs';
import { startRecorder } from './recorder.mjs';

const server = serveParley('--model', 'polly');
const prefix = 'def fibonacci(n):\n    if n < 2:\n        return n\n    return ';
const behind = '\n\nprint(fibonacci(10))\n';
let folder, core, recorder, models;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-continue-'));
  core = await loadContinue(folder);
  recorder = await startRecorder(server.url);
  const file = join(folder, 'config.yaml');
  await promisify(execFile)(process.env.PARLEY_BIN, ['connect', 'continue', '--write', '--file', file], { env: { ...process.env, PARLEY_URL: recorder.url } });
  ({ models } = parse(await readFile(file, 'utf8')));
});
after(async () => {
  recorder?.close();
  await rm(folder, { recursive: true, force: true });
});

/** An editor with one file. Continue asks it for more than it has. */
class Editor {
  text = '';

  constructor(description) {
    this.errors = [];
    const answers = {
      readFile: () => this.text,
      getWorkspaceDirs: () => ['file:///project'],
      getIdeInfo: () => ({ ideType: 'vscode' }),
      getClipboardContent: () => ({ text: '', copiedAt: '' }),
      getDiff: () => [],
      getUniqueId: () => 'editor',
      fileExists: () => false,
    };
    const ide = new Proxy({ getLastFileSaveTimestamp: () => 1, onDidChangeActiveTextEditor() {} }, {
      get: (own, name) => own[name] ?? (async () => answers[name]?.()),
    });
    const config = { loadConfig: async () => ({ config: { tabAutocompleteOptions: { useCache: false, debounceDelay: 1 } } }) };
    const llm = core.llmFromDescription(description, async () => '', 'editor', {}, async () => {});
    this.provider = new core.CompletionProvider(config, ide, () => llm, (err) => this.errors.push(String(err)), async () => []);
  }

  /** Types up to the given length of the text, and returns what Continue would show. */
  async type(length, signal) {
    const typed = prefix.slice(0, length).split('\n');
    this.text = prefix.slice(0, length) + behind;
    const at = { line: typed.length - 1, character: typed.at(-1).length };
    const asked = { isUntitledFile: false, completionId: `${length}`, filepath: 'file:///project/a.nim', pos: at, recentlyVisitedRanges: [], recentlyEditedRanges: [] };
    return (await this.provider.provideInlineCompletionItems(asked, signal))?.completion;
  }
}

/** A model of the written configuration, as Continue reads it. */
function described({ name, model, provider, apiBase, apiKey, defaultCompletionOptions: { contextLength, maxTokens } }) {
  return { title: name, model, provider, apiBase: `${apiBase}/`, apiKey, contextLength, completionOptions: { maxTokens } };
}

for (const [role, path] of [['autocomplete', '/v1/fim/completions'], ['chat', '/v1/completions']]) {
  test(`keystrokes with the model that has the role ${role}`, async () => {
    const editor = new Editor(described(models.find((m) => m.roles.includes(role))));
    const from = recorder.seen.length;
    const shown = [];
    for (let length = prefix.length - 12; length <= prefix.length; length++) shown.push(await editor.type(length));
    const seen = recorder.seen.slice(from);
    assert.deepEqual(editor.errors, []);
    assert.ok(seen.length >= 10, `${seen.length} requests`);
    for (const r of seen) {
      assert.equal(`${r.path} ${r.status}`, `${path} 200`, r.answer.slice(0, 500));
      assert.ok(r.body.stop.length > 4 && r.body.stream === true && r.body.max_tokens <= 512, JSON.stringify(r.body));
    }
    assert.ok(shown.some((text) => text), 'nothing is ever shown');
  });
}
