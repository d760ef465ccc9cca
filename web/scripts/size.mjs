// The first load, compressed as a server would: a bound that fails the build.
import { readFileSync, readdirSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const MAX_KB = 300;
const dist = new URL('../dist/', import.meta.url);
const files = ['index.html', ...readdirSync(new URL('assets/', dist)).map((name) => `assets/${name}`)];
let whole = 0;
for (const file of files) {
  const bytes = gzipSync(readFileSync(new URL(file, dist))).length;
  whole += bytes;
  console.log(`${(bytes / 1000).toFixed(1).padStart(8)} kB  ${file}`);
}
console.log(`${(whole / 1000).toFixed(1).padStart(8)} kB  in all, compressed; at most ${MAX_KB}`);
if (whole > MAX_KB * 1000) process.exit(1);
