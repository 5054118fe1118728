// The agents: how each is told where the server is, and how it is asked without a terminal. A server knows its model as
// `scripted`; `at` is where it is, `key` a key for it, `home` a folder of the agent's own. What `parley connect` writes takes
// the key from PARLEY_API_KEY.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const contextTokens = 131072;
const answerTokens = 4096;

/** Has `parley connect` write an agent's configuration, as the documentation says. */
const connect = (app, file) => ({ program: process.env.PARLEY_BIN, args: ['connect', app, '--write', '--file', file] });

const codex = {
  name: 'Codex',
  package: '@openai/codex',
  program: 'codex',
  api: 'Responses',
  env: (home) => ({ CODEX_HOME: join(home, 'codex') }),
  prepare: (home) => connect('codex', join(home, 'codex', 'parley.config.toml')),
  ask: (prompt, { again, schema, model }) => [
    'exec', '--profile', 'parley', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox',
    ...(model ? ['-m', model] : []), ...(schema ? ['--output-schema', schema] : []), ...(again ? ['resume', '--last'] : []), prompt,
  ],
  shell: (command) => ({ name: 'exec_command', arguments: { cmd: command } }),
  schemaSays: (value) => JSON.stringify(value),
  // To models of this name it offers a custom tool, whose input is a text by a grammar.
  patches: 'gpt-5.5',
};

const claude = {
  name: 'Claude Code',
  package: '@anthropic-ai/claude-code',
  program: 'claude',
  api: 'Messages',
  env: (home) => ({ CLAUDE_CONFIG_DIR: join(home, 'claude'), DISABLE_AUTOUPDATER: '1' }),
  prepare: (home) => connect('claude-code', join(home, 'claude.json')),
  ask: (prompt, { again, schema, home, schemaText }) => [
    '--settings', join(home, 'claude.json'), ...(again ? ['--continue'] : []),
    ...(schema ? ['--json-schema', schemaText, '--output-format', 'json'] : []), '--allowedTools', 'Bash', '-p', prompt,
  ],
  shell: (command) => ({ name: 'Bash', arguments: { command, description: 'Compute the proof' } }),
  schemaSays: (value) => called({ name: 'StructuredOutput', arguments: value }),
};

const opencode = (api, npm) => ({
  name: 'opencode',
  package: 'opencode-ai',
  program: 'opencode',
  api,
  env: (home, at, key) => ({
    OPENCODE_CONFIG_CONTENT: JSON.stringify({
      model: 'parley/scripted',
      small_model: 'parley/scripted',
      autoupdate: false,
      permission: { bash: 'allow' },
      provider: {
        parley: {
          npm,
          options: { baseURL: `${at}/v1`, apiKey: key },
          models: { scripted: { limit: { context: contextTokens, output: answerTokens } } },
        },
      },
    }),
  }),
  ask: (prompt, { again }) => ['run', ...(again ? ['--continue'] : []), prompt],
  shell: (command) => ({ name: 'bash', arguments: { command } }),
});

const copilot = (api, type, wire) => ({
  name: 'GitHub Copilot CLI',
  package: '@github/copilot',
  program: 'copilot',
  api,
  env: (home, at, key) => ({
    COPILOT_OFFLINE: 'true',
    COPILOT_PROVIDER_TYPE: type,
    COPILOT_PROVIDER_BASE_URL: type === 'anthropic' ? at : `${at}/v1`,
    ...(wire ? { COPILOT_PROVIDER_WIRE_API: wire } : {}),
    COPILOT_PROVIDER_API_KEY: key,
    COPILOT_MODEL: 'scripted',
    COPILOT_PROVIDER_MAX_PROMPT_TOKENS: String(contextTokens - answerTokens),
    COPILOT_PROVIDER_MAX_OUTPUT_TOKENS: String(answerTokens),
  }),
  ask: (prompt, { again }) => [...(again ? ['--continue'] : []), '--allow-all-tools', '--no-color', '-p', prompt],
  shell: (command) => ({ name: 'bash', arguments: { command, description: 'Compute the proof', mode: 'sync', initial_wait: 120 } }),
});

const pi = (api, wire) => ({
  name: 'pi',
  package: '@mariozechner/pi-coding-agent',
  program: 'pi',
  api,
  env: (home) => ({ PI_CODING_AGENT_DIR: join(home, 'pi'), PI_OFFLINE: '1' }),
  async prepare(home, at, key) {
    await mkdir(join(home, 'pi'), { recursive: true });
    const model = { id: 'scripted', name: 'scripted', contextWindow: contextTokens, maxTokens: answerTokens };
    const provider = { baseUrl: wire === 'anthropic-messages' ? at : `${at}/v1`, api: wire, apiKey: key, models: [model] };
    await writeFile(join(home, 'pi', 'models.json'), JSON.stringify({ providers: { parley: provider } }));
  },
  ask: (prompt, { again }) => ['--provider', 'parley', '--model', 'scripted', ...(again ? ['--continue'] : []), '-p', prompt],
  shell: (command) => ({ name: 'bash', arguments: { command } }),
});

const cn = {
  name: 'Continue CLI',
  package: '@continuedev/cli',
  program: 'cn',
  api: 'Chat',
  env: () => ({ CONTINUE_TELEMETRY_ENABLED: '0' }),
  prepare: (home) => connect('continue', join(home, 'continue.yaml')),
  ask: (prompt, { again, home }) => ['-p', '--config', join(home, 'continue.yaml'), ...(again ? ['--resume'] : []), '--auto', prompt],
  shell: (command) => ({ name: 'Bash', arguments: { command } }),
};

const qwen = {
  name: 'Qwen Code',
  package: '@qwen-code/qwen-code',
  program: 'qwen',
  api: 'Chat',
  env: (home, at, key) => ({ OPENAI_API_KEY: key, OPENAI_BASE_URL: `${at}/v1`, OPENAI_MODEL: 'scripted', QWEN_TELEMETRY_ENABLED: 'false' }),
  ask: (prompt, { again }) => ['--auth-type', 'openai', '--approval-mode', 'yolo', ...(again ? ['--continue'] : []), '-p', prompt],
  shell: (command) => ({ name: 'run_shell_command', arguments: { command, is_background: false } }),
};

export const agents = [
  codex,
  claude,
  opencode('Chat', '@ai-sdk/openai-compatible'),
  opencode('Responses', '@ai-sdk/openai'),
  opencode('Messages', '@ai-sdk/anthropic'),
  copilot('Chat', 'openai', 'completions'),
  copilot('Responses', 'openai', 'responses'),
  copilot('Messages', 'anthropic'),
  pi('Chat', 'openai-completions'),
  pi('Responses', 'openai-responses'),
  pi('Messages', 'anthropic-messages'),
  cn,
  qwen,
];

/** A call as the model says it. */
export const called = (call) => `<tool_call>\n${spaced(call)}\n</tool_call>`;

/** JSON with a space after each comma and colon, as models write it. */
function spaced(value) {
  if (Array.isArray(value)) return `[${value.map(spaced).join(', ')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${spaced(v)}`).join(', ')}}`;
}
