// What the page is built from and what it is tested with: licences that are not on the list fail.
// Only Svelte and uPlot get into the page; the rest are tools.
import { readFileSync } from 'node:fs';

const ALLOWED = new Set([
  'MIT', 'MIT-0', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'BlueOak-1.0.0', 'Python-2.0',
  'CC0-1.0', 'CC-BY-4.0', '(MIT OR CC0-1.0)', '(MIT AND CC-BY-3.0)',
  // axe-core, a tool: nothing of it is in the page.
  'MPL-2.0',
]);
const lock = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8'));
const found = new Map();
let bad = 0;
for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === '') continue;
  const licence = entry.license ?? 'none named';
  found.set(licence, (found.get(licence) ?? 0) + 1);
  if (!ALLOWED.has(licence)) {
    console.error(`${path}: ${licence} is not on the list`);
    bad += 1;
  }
}
console.log([...found].map(([licence, count]) => `${count} ${licence}`).join(', '));
process.exit(bad === 0 ? 0 : 1);
