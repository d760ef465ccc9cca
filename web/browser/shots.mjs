// Pictures of every view, wide and on a phone, light and dark: to be looked at.
// node browser/shots.mjs --url URL --chromium PATH --out FOLDER [--job N] [--dist FOLDER]
import { mkdir } from 'node:fs/promises';
import { SIZES, open, visit, words } from './bed.mjs';

const asked = words(process.argv.slice(2));
await mkdir(asked.out, { recursive: true });
const { browser, page, complaints } = await open(asked);
const job = asked.job ?? '1';
const VIEWS = {
  queue: '/queue', job: `/queue/${job}`, why: `/queue/${asked.why ?? job}`, cluster: '/cluster', node: '/cluster/node1', health: '/cluster?by=health', plan: '/plan',
  shares: '/shares', reservations: '/reservations', history: '/history?days=1', machine: '/machine',
};
for (const look of ['light', 'dark']) {
  await page.emulateMedia({ colorScheme: look });
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    for (const [name, place] of Object.entries(VIEWS)) {
      if (asked.only !== undefined && !asked.only.split(',').includes(name)) continue;
      await visit(page, place);
      await page.waitForTimeout(900);
      await page.screenshot({ path: `${asked.out}/${name}-${size}-${look}.png` });
    }
  }
}
for (const complaint of complaints) console.error(complaint);
await browser.close();
console.log(asked.out);
