// The page in a real Chromium against a real daemon with practice nodes.
// node browser/test.mjs --url URL --act-url URL --muster PROGRAM --chromium PATH [--dist FOLDER]
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import http from 'node:http';
import { SIZES, open, visit, words } from './bed.mjs';
import { manyJobs, manyNodes } from './many.mjs';

const asked = words(process.argv.slice(2));
const muster = (...args) => execFileSync(asked.muster, args, { encoding: 'utf8' });
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const HOSTILE = '<img src=x onerror=alert(1)>';
const VIEWS = ['/queue', '/cluster', '/cluster/node1', '/cluster?as=table', '/plan', '/shares', '/reservations', '/history?days=1', '/machine', '/machine?days=1'];
const checks = [];
const check = (name, body) => checks.push({ name, body });

/** A request of somebody who is no browser. */
function raw(path, headers = {}, method = 'GET') {
  const { hostname, port } = new URL(asked.url);
  return new Promise((done, fail) => {
    const request = http.request({ hostname, port, path, method, headers }, (answer) => {
      let body = '';
      answer.on('data', (part) => (body += part));
      answer.on('end', () => done({ status: answer.statusCode, headers: answer.headers, body }));
    });
    request.on('error', fail);
    request.end();
  });
}

/** The number of a job by its name. */
function jobOf(name) {
  const found = JSON.parse(muster('queue', '--json')).jobs.find((row) => row.name === name);
  assert.ok(found, `no job ${name}`);
  return found.job;
}

const bed = await open(asked);
const { page, base } = bed;

check('nobody comes in without the token, and a token opens once', async () => {
  for (const path of ['/', '/v1/queue', '/web/session', '/web/logs/1']) assert.equal((await raw(path)).status, 401, path);
  const token = new URL(asked.url).search;
  assert.equal((await raw(`/${token}`)).status, 401, 'a used token');
  assert.equal((await raw('/?token=')).status, 401);
});

check('a foreign name and a foreign page are refused', async () => {
  assert.equal((await raw('/', { host: 'evil.example' })).status, 403);
  assert.equal((await raw('/v1/queue', { origin: 'http://evil.example' })).status, 403);
  assert.equal((await raw('/v1/queue', { 'sec-fetch-site': 'cross-site' })).status, 403);
});

check('the page may run and ask only what is here', async () => {
  const { headers } = await raw('/');
  assert.match(headers['content-security-policy'], /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.doesNotMatch(headers['content-security-policy'], /unsafe/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['x-frame-options'], 'DENY');
});

check('the cookie is hidden from scripts', async () => {
  assert.equal(await page.evaluate(() => document.cookie), '');
  const [cookie] = await bed.context.cookies();
  assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict');
});

check('the queue says why and when', async () => {
  await visit(page, '/queue');
  const row = page.getByRole('row').filter({ hasText: 'pretrain-70b' });
  await row.getByText('Resources').waitFor();
  await row.getByText(/^in \d/).waitFor();
  await page.getByRole('row').filter({ hasText: HOSTILE }).getByText(/^in \d/).waitFor();
  await page.getByRole('row').filter({ hasText: 'after-sweep' }).getByText('Dependency').waitFor();
});

check('a hostile name is text', async () => {
  await page.getByText(HOSTILE, { exact: true }).waitFor();
  assert.equal(await page.locator('img').count(), 0);
});

check('keys find, move, open and close', async () => {
  await visit(page, '/queue');
  await page.keyboard.press('/');
  await page.keyboard.type('name:finetune-b');
  await page.getByText('1 job', { exact: true }).waitFor();
  assert.match(page.url(), /q=name%3Afinetune-b/);
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('complementary').getByRole('heading', { name: 'finetune-b' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('complementary').waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('Next and previous row').waitFor();
  await page.keyboard.press('Escape');
});

check('a job that waits shows blockers that lead to their jobs', async () => {
  await visit(page, `/queue/${jobOf('pretrain-70b')}`);
  const side = page.getByRole('complementary');
  await side.getByText('Why it waits').waitFor();
  await side.getByText('What keeps it from each node').waitFor();
  await side.getByText(/^Starts .* at the latest/).waitFor();
  await side.locator('.why a').first().click();
  await page.waitForURL(/#\/queue\/\d/);
});

check('a job shows its graphs, and that it is too early for a diagnosis', async () => {
  await visit(page, `/queue/${jobOf('finetune')}`);
  const side = page.getByRole('complementary');
  const graphs = side.getByRole('region', { name: 'Over time' });
  await graphs.getByRole('img').first().waitFor();
  // Wherever it runs, some kind of reading says something of it.
  await graphs.getByRole('row').first().waitFor();
  await side.getByRole('region', { name: 'What holds it back' }).waitFor();
});

check('a finding says what, by which numbers, and what to do', async () => {
  const tab = await bed.context.newPage();
  const finding = { code: 'SMALL_FILES', text: HOSTILE, evidence: 'size of a read 8.0 KiB', sure: false, remedy: 'pack the files' };
  await tab.route('**/v1/jobs/*/report', async (route) => {
    const page = await (await route.fetch()).json();
    page.jobs[0].diagnosis = { id: page.jobs[0].id, state: 'running', verdict: 'found', window_s: 90, samples: 45, findings: [finding], missing: [] };
    await route.fulfill({ json: page });
  });
  await tab.goto(`${base}/#/queue/${jobOf('finetune')}`);
  const said = tab.getByRole('region', { name: 'What holds it back' });
  for (const text of [HOSTILE, '(likely)', 'SMALL_FILES', 'size of a read 8.0 KiB', 'pack the files']) await said.getByText(text).waitFor();
  await tab.close();
});

check('disks and networks have rates from the second look on', async () => {
  await visit(page, '/machine');
  await page.getByText(/^Rates of the last/).waitFor();
  await page.getByRole('img', { name: 'Network' }).locator('canvas').waitFor();
  assert.ok((await page.getByRole('row').count()) > 4);
});

check('filesystems say how full they are, and one that is nearly full is marked', async () => {
  const asked = '**/v1/machine';
  await page.route(asked, async (route) => {
    const answer = await route.fetch();
    const machine = await answer.json();
    assert.ok(machine.filesystems.some((one) => one.path === '/' && one.size > 0), 'a root');
    const full = { path: `/work ${HOSTILE}`, device: 'mgs@tcp:/work', kind: 'lustre', read_only: false, silent: false, nearly_full: true, size: 2 ** 40, used: 0.98 * 2 ** 40, free: 0.02 * 2 ** 40 };
    const gone = { path: '/home', device: 'server:/home', kind: 'nfs4', read_only: false, silent: true, nearly_full: false };
    await route.fulfill({ response: answer, json: { ...machine, filesystems: [...machine.filesystems, full, gone] } });
  });
  await visit(page, '/cluster');
  await visit(page, '/machine');
  const space = page.getByRole('region', { name: 'Filesystems' });
  const row = (name) => space.getByRole('row').filter({ has: page.getByText(name, { exact: true }) });
  await row('/').getByText('ext4').or(row('/').getByText('overlay')).or(row('/').getByText(/fs$/)).first().waitFor();
  await row(`/work ${HOSTILE}`).getByText('nearly full').waitFor();
  await row(`/work ${HOSTILE}`).getByText('98 %').waitFor();
  await row('/home').getByText('no answer').waitFor();
  assert.equal(await space.getByText('nearly full').count() >= 1, true);
  await page.unroute(asked);
});

check('what the machine did in the last day is drawn', async () => {
  // As old as a day is nothing here: what is shown is made up.
  const asked = '**/v1/machine/series?*';
  await page.route(asked, async (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get('from_ms'));
    const values = Array.from({ length: 144 }, (_, n) => (n < 100 ? n / 100 : null));
    await route.fulfill({ json: { from_ms: from, step_ms: 600_000, own_from_ms: from + 3_600_000, notes: [], lines: [{ name: 'cpu', unit: 'share', values }] } });
  });
  await visit(page, '/machine');
  await page.getByRole('button', { name: 'Day', exact: true }).click();
  await page.getByRole('img', { name: 'CPUs and disks at work' }).locator('canvas').waitFor();
  await page.getByText(/^What was before .* was noted down by sysstat/).waitFor();
  await page.unroute(asked);
  // And the real one is asked for a month.
  await page.getByRole('button', { name: 'Month', exact: true }).click();
  await page.waitForURL(/days=30/);
  await page.getByRole('group', { name: 'Over time' }).first().waitFor();
});

check('output comes as it is written', async () => {
  await visit(page, `/queue/${jobOf('finetune')}`);
  const log = page.getByRole('log');
  await log.getByText('batch 2').waitFor();
  const before = await log.textContent();
  await page.waitForFunction((text) => (document.querySelector('[role=log]')?.textContent ?? '').length > text.length, before);
});

check('what happens elsewhere is seen without a reload', async () => {
  await visit(page, '/queue?q=newcomer');
  await page.getByText('No job is like that.').waitFor();
  muster('submit', '--hold', '--job-name=newcomer', '--time=5', '--wrap', 'true');
  const row = page.getByRole('row').filter({ hasText: 'newcomer' });
  await row.getByText('Held by its owner', { exact: true }).waitFor();
  muster('cancel', jobOf('newcomer'));
  await row.waitFor({ state: 'detached' });
});

check('a node opens from its tile and from the keys', async () => {
  await visit(page, '/cluster');
  await page.locator('canvas').click({ position: { x: 60, y: 60 } });
  await page.getByRole('complementary').getByRole('heading', { name: 'node1' }).waitFor();
  await page.keyboard.press('j');
  await page.getByRole('complementary').getByRole('heading', { name: 'node2' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Table' }).click();
  await page.getByRole('row').filter({ hasText: 'node8' }).waitFor();
});

check('the plan says what lies where, and why', async () => {
  await visit(page, '/plan');
  await page.getByRole('listitem').filter({ hasText: 'pretrain-70b' }).waitFor();
  const edge = await page.locator('canvas').boundingBox();
  const tip = page.locator('.tip');
  let seen = '';
  for (let x = edge.x + 140; x < edge.x + edge.width && !seen.includes('promised'); x += 20) {
    await page.mouse.move(x, edge.y + 40);
    if (await tip.count()) seen = await tip.innerText();
  }
  assert.match(seen, /pretrain-70b/);
  assert.match(seen, /needs 48 gpus/i);
  await page.mouse.move(2, 2);
});

check('a reservation is tried, and whom it delays is said', async () => {
  await visit(page, '/reservations');
  await page.getByText('maintenance').first().waitFor();
  await page.getByLabel('Duration').fill('1:00:00');
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByText(/^Earliest:/).waitFor();
  assert.equal(JSON.parse(muster('reservation', 'list', '--json')).length, 1, 'nothing is stored');
});

check('history tells what came to nothing', async () => {
  await visit(page, '/history?days=1');
  await page.getByRole('heading', { name: 'Ended last' }).waitFor();
  await page.getByRole('row').filter({ hasText: 'broken' }).getByText('failed').waitFor();
  await page.locator('canvas').first().waitFor();
});

check('Korean, all of it, and again after a reload', async () => {
  await visit(page, '/queue');
  await page.getByRole('button', { name: /한국어/ }).click();
  await page.getByRole('link', { name: '대기열' }).waitFor();
  await page.reload();
  await page.getByRole('link', { name: '대기열' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'ko');
  await page.getByText('자원 대기').first().waitFor();
  await page.getByRole('button', { name: /English/ }).click();
});

check('every view is accessible in both looks, and fits a phone', async () => {
  const faults = [];
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    for (const look of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: look });
      for (const view of [...VIEWS, `/queue/${jobOf('pretrain-70b')}`, `/queue/${jobOf('finetune')}`]) {
        await visit(page, view);
        // Views fill when their first answer is here.
        await page.waitForFunction(() => document.querySelector('main section:not([hidden]) :is(canvas, [role=row], td, dd)') !== null);
        await page.evaluate(AXE);
        const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        const told = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(' | ')}`);
        faults.push(...told.map((text) => `${view} ${size} ${look}: ${text}`));
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) faults.push(`${view} ${size}: ${wide} px too wide`);
      }
    }
  }
  await page.setViewportSize(SIZES.wide);
  await page.emulateMedia({ colorScheme: 'light' });
  assert.deepEqual(faults, []);
});

check('a page that only shows has no buttons, and is refused', async () => {
  await visit(page, `/queue/${jobOf('finetune')}`);
  await page.getByRole('complementary').getByText('Output').first().waitFor();
  assert.equal(await page.getByRole('button', { name: 'Cancel' }).count(), 0);
  const post = (headers) => page.evaluate(async (more) => {
    const answer = await fetch('/v1/jobs/actions', { method: 'POST', headers: { 'content-type': 'application/json', ...more }, body: '{"action":"cancel","jobs":["1"]}' });
    return [answer.status, (await answer.json()).code];
  }, headers);
  assert.deepEqual(await post({ 'x-muster-web': '1' }), [403, 'E_WEB_READ_ONLY']);
  assert.deepEqual(await post({}), [403, 'E_WEB_FOREIGN']);
  assert.equal(await page.evaluate(async () => (await fetch('/v1/jobs/1/payload')).status), 404);
  bed.complaints.splice(0, bed.complaints.length, ...bed.complaints.filter((text) => !/status of (?:403|404)/.test(text)));
});

check('one that may act cancels, after it was asked twice', async () => {
  muster('submit', '--hold', '--job-name=doomed', '--time=5', '--wrap', 'true');
  const job = jobOf('doomed');
  const other = await open({ ...asked, url: asked['act-url'] });
  await visit(other.page, `/queue/${job}`);
  await other.page.getByRole('button', { name: 'Cancel' }).click();
  await other.page.getByRole('button', { name: 'Really: Cancel' }).click();
  await other.page.getByText('cancelled').first().waitFor();
  assert.deepEqual(other.complaints, []);
  await other.browser.close();
});

check('100,000 jobs are a list like any other', async () => {
  const tab = await bed.context.newPage();
  await tab.route('**/v1/queue**', (route) => route.fulfill({ json: manyJobs(new URL(route.request().url()), 100_000) }));
  await tab.goto(`${base}/#/queue`);
  await tab.getByText('100,000 jobs').waitFor();
  const grid = tab.getByRole('grid');
  assert.equal(await grid.getAttribute('aria-rowcount'), '100001');
  for (const part of [0.25, 0.5, 1]) {
    await grid.evaluate((box, at) => (box.scrollTop = box.scrollHeight * at), part);
    assert.ok((await tab.locator('.row').count()) < 80, 'only what is seen is there');
  }
  await tab.getByText('job99999', { exact: true }).waitFor();
  await tab.getByRole('searchbox').fill('user:mara gpus:8');
  await tab.waitForFunction(() => !document.body.textContent.includes('100,000 jobs'));
  await tab.close();
});

check('10,000 nodes are drawn', async () => {
  const tab = await bed.context.newPage();
  await tab.route('**/v1/nodes**', (route) => route.fulfill({ json: manyNodes(new URL(route.request().url()), 10_000) }));
  await tab.goto(`${base}/#/cluster`);
  await tab.getByText('10,000 nodes').waitFor();
  const drawn = await tab.locator('canvas').evaluate((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    for (let at = 0; at < data.length; at += 4) colours.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
    return colours.size;
  });
  assert.ok(drawn > 5, `${drawn} colours`);
  await tab.close();
});

let failed = 0;
for (const { name, body } of checks) {
  const begin = Date.now();
  try {
    await body();
    console.log(`ok      ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack ?? error}`);
  }
}
for (const complaint of bed.complaints) {
  failed += 1;
  console.log(`FAILED  the page complained: ${complaint}`);
}
await bed.browser.close();
console.log(`${checks.length} checks, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
