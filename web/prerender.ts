import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { build, type IndexHtmlTransformContext, type InlineConfig, type Plugin, type Rolldown } from 'vite';

/** Compiles one file and what it imports into one text. */
async function compile(options: InlineConfig['build']): Promise<string> {
  const result = await build({ configFile: false, logLevel: 'warn', plugins: [svelte()], build: { ...options, write: false, target: 'es2022' } });
  const [{ output }] = [result].flat() as Rolldown.RolldownOutput[];
  return output[0].code.trim();
}

/** The markup of the chat before anything is known. */
async function firstSight(): Promise<string> {
  const code = await compile({ ssr: 'src/chat/first.ts', rolldownOptions: { output: { codeSplitting: false } } });
  const file = resolve('node_modules/.parley/first.mjs');
  mkdirSync(resolve(file, '..'), { recursive: true });
  writeFileSync(file, code);
  const { html } = (await import(`${pathToFileURL(file)}?${Date.now()}`)) as { html: string };
  return html;
}

const early = (): Promise<string> => compile({ lib: { entry: 'src/chat/early.ts', formats: ['iife'], name: 'early' } });

/** Puts the styles into the page. The links stay, disabled and so never asked for: they tell the loader of later parts that it has them. */
function inlineStyles(html: string, bundle: NonNullable<IndexHtmlTransformContext['bundle']>): string {
  return html.replace(/<link rel="stylesheet"[^>]* href="\/([^"]+)">/g, (_, name: string) => {
    const asset = bundle[name];
    if (asset?.type !== 'asset') throw new Error(`${name} is not a style sheet of this build`);
    return `<style>${String(asset.source).trim()}</style><link rel="stylesheet" href="/${name}" disabled>`;
  });
}

/**
 * Makes the chat usable with its first packet: styles and the few lines of early.ts stand in the page itself, and so does
 * what they act on. web.go allows just these lines by their hash.
 */
export function prerender(): Plugin {
  return {
    name: 'prerender',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      async handler(html, { bundle, filename }) {
        if (!bundle || !filename.endsWith('/index.html')) return html;
        const [sight, script] = await Promise.all([firstSight(), early()]);
        return inlineStyles(html, bundle)
          .replace('<script src="/theme.js"></script>', () => `<script>${readFileSync('public/theme.js', 'utf8').trim()}</script>`)
          .replace(/<script type="module"([^>]*) src="([^"]+)"><\/script>/, '<link rel="modulepreload"$1 href="$2">')
          .replaceAll('<link rel="modulepreload"', '<link data-part as="script"') // early.ts asks for them when it is time
          .replace('</head>', '  <link rel="expect" href="#seen" blocking="render" />\n  </head>') // one picture, not one of every piece
          .replace('<div id="app"></div>', () => `<div id="app">${sight}</div><i id="seen" hidden></i>\n    <script>${script}</script>`);
      },
    },
  };
}
