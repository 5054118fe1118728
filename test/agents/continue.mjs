// Continue's own completion provider, as its editors run it. Its package is published for bundlers and does not load in Node, so it is
// bundled here from its sources. Only what the provider never calls is left out: databases that are compiled programs, and clients of clouds.
import { execFile } from 'node:child_process';
import { copyFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const core = '@continuedev/core@1.1.0';
const absent = /^(sqlite3?|posthog-node|socket\.io-client|replicate|google-auth-library|@aws-sdk\/.*)$/;
// The provider keeps completions in a database; this one is empty.
const database = 'export const open = async () => ({ exec: async () => {}, run: async () => {}, get: async () => undefined, all: async () => [] });';
const entry = `export { CompletionProvider } from './package/autocomplete/CompletionProvider';
export { llmFromDescription } from './package/llm/llms/index';`;
const commonjs = `import { createRequire } from 'node:module';
import { fileURLToPath as pathOf } from 'node:url';
const require = createRequire(import.meta.url), __filename = pathOf(import.meta.url), __dirname = pathOf(new URL('.', import.meta.url));`;

const leaveOut = {
  name: 'leave-out',
  setup(bundle) {
    bundle.onResolve({ filter: absent }, ({ path }) => ({ path, namespace: 'absent' }));
    bundle.onLoad({ filter: /.*/, namespace: 'absent' }, ({ path }) => ({ contents: path === 'sqlite' ? database : 'module.exports = {};' }));
  },
};

/** Bundles the provider in a folder, which it may write to, and loads it. */
export async function loadContinue(folder) {
  const run = promisify(execFile);
  await run('npm', ['pack', '--silent', core], { cwd: folder });
  await run('tar', ['-xzf', `${core.replace('@', '').replace('/', '-').replace('@', '-')}.tgz`], { cwd: folder });
  await writeFile(join(folder, 'entry.ts'), entry);
  const outfile = join(folder, 'continue.mjs');
  await build({
    entryPoints: [join(folder, 'entry.ts')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile,
    plugins: [leaveOut],
    nodePaths: [join(here, 'node_modules')],
    banner: { js: commonjs },
    logLevel: 'error',
  });
  const parser = createRequire(import.meta.url).resolve('web-tree-sitter');
  await copyFile(join(dirname(parser), 'tree-sitter.wasm'), join(folder, 'tree-sitter.wasm'));
  process.env.CONTINUE_GLOBAL_DIR = join(folder, 'home');
  return import(pathToFileURL(outfile));
}
