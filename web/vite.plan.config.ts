import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';
import { compressTexts } from './vite.config';

/** The page of `parley plan --html` is one file, and uses the fonts of its reader's system. */
function withoutFonts(): Plugin {
  return {
    name: 'without-fonts',
    enforce: 'pre',
    transform(code, id) {
      return id.includes('base.css') ? code.replace(/@font-face\s*\{[^}]*\}/g, '') : undefined;
    },
  };
}

/** Builds dist/plan.js.gz: all code and styles of that page in one script. */
export default defineConfig({
  plugins: [withoutFonts(), svelte({ emitCss: false }), compressTexts()],
  publicDir: false,
  build: {
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    emptyOutDir: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: 'src/plan/page.ts',
      output: { format: 'iife', entryFileNames: 'plan.js' },
    },
  },
});
