import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

// The folder dist holds a file that git knows, so that it is always there; scripts/clean.mjs leaves it.
export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    emptyOutDir: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  test: { include: ['test/**/*.test.ts'], environment: 'node' },
});
