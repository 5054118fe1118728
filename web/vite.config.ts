import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';
import { prerender } from './prerender';

/** What the built files are made from: web_test.go lists the same. */
const sources = ['../docs/runbook.md', 'admin.html', 'index.html', 'package-lock.json', 'package.json', 'prerender.ts', 'public', 'src', 'svelte.config.js', 'tsconfig.json', 'vite.config.ts', 'vite.plan.config.ts'];

function filesIn(path: string): string[] {
  const entries = (() => {
    try {
      return readdirSync(path);
    } catch {
      return null;
    }
  })();
  return entries === null ? [path] : entries.sort().flatMap((name) => filesIn(`${path}/${name}`));
}

/** Writes a hash of the sources beside what was built, so that a test can see when that is stale. */
function recordSources(): Plugin {
  return {
    name: 'record-sources',
    apply: 'build',
    writeBundle(options) {
      const hash = createHash('sha256');
      for (const file of sources.flatMap(filesIn)) {
        const content = readFileSync(file);
        hash.update(`${file}\n${content.length}\n`).update(content);
      }
      writeFileSync(join(options.dir ?? 'dist', 'sources.sha256'), `${hash.digest('hex')}\n`);
    },
  };
}

/** Replaces each text by its compressed forms, as small as gzip and Brotli can make them: the program embeds no others. */
export function compressTexts(): Plugin {
  return {
    name: 'compress-texts',
    apply: 'build',
    writeBundle(options, bundle) {
      const dir = options.dir ?? 'dist';
      for (const name of Object.keys(bundle).filter((n) => /\.(html|js|css|txt)$/.test(n))) {
        const file = join(dir, name);
        const text = readFileSync(file);
        writeFileSync(`${file}.gz`, gzipSync(text, { level: 9 }));
        if (!/^(licenses\.txt|plan\.js)$/.test(name)) {
          writeFileSync(`${file}.br`, brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
        }
        rmSync(file);
      }
    },
  };
}

/** What of others is in the pages, with its licence. */
const foreign = ['svelte', 'marked', 'temml', '@fontsource-variable/geist', '@fontsource/instrument-serif', '@fontsource/stix-two-math'];

function collectLicences(): Plugin {
  return {
    name: 'collect-licences',
    apply: 'build',
    generateBundle() {
      const texts = foreign.map((name) => {
        const folder = `node_modules/${name}`;
        const file = readdirSync(folder).find((f) => /^licen[cs]e/i.test(f));
        if (!file) throw new Error(`${name} has no licence file`);
        const { version } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')) as { version: string };
        return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, 'utf8').trim()}\n`;
      });
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: texts.join(`\n${'-'.repeat(79)}\n\n`) });
    },
  };
}

export default defineConfig({
  plugins: [svelte(), prerender(), collectLicences(), compressTexts(), recordSources()],
  build: {
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'], // they know light-dark()
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    reportCompressedSize: false,
    rolldownOptions: { input: { chat: 'index.html', admin: 'admin.html' } },
  },
  // `npm run dev` serves the sources against a parley on its usual address.
  server: { proxy: { '/v1': 'http://127.0.0.1:8080', '/admin/api': 'http://127.0.0.1:8080' } },
});
