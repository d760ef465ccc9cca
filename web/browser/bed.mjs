// Chromium, the page, and what every check of it watches.
import { readFile } from 'node:fs/promises';
import { chromium } from 'playwright-core';

export const SIZES = { wide: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

/** Words of the command line: `--name value`. */
export function words(list) {
  const found = {};
  for (let at = 0; at < list.length; at += 2) found[list[at].replace(/^--/, '')] = list[at + 1];
  return found;
}

/** A browser with one context that was let in. Anything the page complains about is kept. */
export async function open({ chromium: path, url, dist }) {
  const browser = await chromium.launch({ executablePath: path, args: ['--disable-gpu', '--disable-dev-shm-usage'] });
  const context = await browser.newContext({ viewport: SIZES.wide, locale: 'en-GB', reducedMotion: 'reduce' });
  const complaints = [];
  const base = new URL(url).origin;
  if (dist !== undefined) await context.route(`${base}/**`, (route) => fromDisk(route, dist));
  const page = await context.newPage();
  watch(page, complaints, base);
  await page.goto(url);
  await page.waitForURL(`${base}/`);
  await page.getByRole('grid', { name: 'Queue' }).waitFor();
  return { browser, context, page, base, complaints };
}

/** Errors, refused resources and requests to anywhere else are faults of the page. */
export function watch(page, complaints, base) {
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(`${message.type()}: ${message.text()} ${new URL(message.location().url || base).pathname}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${base}/`) && !request.url().startsWith('data:')) complaints.push(`asks ${request.url()}`);
  });
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
}

/** While the page is worked on: its files from the disk, with the headers of the server. */
async function fromDisk(route, dist) {
  const path = new URL(route.request().url()).pathname;
  if (path !== '/' && !path.startsWith('/assets/')) return route.continue();
  if (new URL(route.request().url()).search !== '') return route.continue();
  const file = `${dist}${path === '/' ? '/index.html' : path}`;
  const kinds = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };
  const answer = await route.fetch();
  const headers = { ...answer.headers(), 'content-type': kinds[file.split('.').pop()] ?? 'text/plain' };
  delete headers['content-length'];
  return route.fulfill({ status: 200, headers, body: await readFile(file) });
}

/** Goes to a place of the page and waits until it has drawn what it was told. */
export async function visit(page, place) {
  await page.evaluate((to) => (location.hash = to), place);
  await page.locator('main section:visible').first().waitFor();
  await page.waitForLoadState('domcontentloaded');
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}
