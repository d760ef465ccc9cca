import { readFileSync, readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { type Key, en } from '../src/i18n/en';
import { ko } from '../src/i18n/ko';

const keys = Object.keys(en) as Key[];
const blanks = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1] ?? '').sort();

it('has every sentence in both languages, with the same blanks', () => {
  expect(Object.keys(ko).sort()).toEqual([...keys].sort());
  for (const key of keys) {
    expect(en[key].trim(), key).not.toBe('');
    expect(ko[key].trim(), key).not.toBe('');
    expect(blanks(ko[key]), key).toEqual(blanks(en[key]));
  }
});

it('has Korean in the Korean one', () => {
  const same = keys.filter((key) => !/[가-힣]/.test(ko[key]));
  expect(same).toEqual(['col.gpus', 'col.cpus', 'res.gpus']);
});

it('names every reason there is', () => {
  const folder = new URL('../../docs/reasons/', import.meta.url);
  const codes = readdirSync(folder).filter((file) => file !== 'index.md').map((file) => file.replace('.md', ''));
  expect(codes.length).toBeGreaterThan(30);
  expect(keys.filter((key) => key.startsWith('reason.')).sort()).toEqual(codes.map((code) => `reason.${code}`).sort());
});

it('names every state that the interface has', () => {
  const model = readFileSync(new URL('../../crates/api/src/job.rs', import.meta.url), 'utf8');
  const words = [...model.matchAll(/JobState::\w+ => "(\w+)"/g)].map((found) => found[1] ?? '');
  expect(words.length).toBe(13);
  for (const word of words) expect(keys).toContain(`state.${word}`);
});

it('says nothing that nobody shows', () => {
  const sources = (folder: URL): string => readdirSync(folder, { withFileTypes: true }).map((entry) => {
    const url = new URL(entry.isDirectory() ? `${entry.name}/` : entry.name, folder);
    if (entry.isDirectory()) return entry.name === 'i18n' ? '' : sources(url);
    return /\.(?:ts|svelte)$/.test(entry.name) ? readFileSync(url, 'utf8') : '';
  }).join('\n');
  const text = sources(new URL('../src/', import.meta.url));
  // Keys that are put together: `state.${…}` and the like.
  const made = [...text.matchAll(/`([a-z]+)\.?\$\{/g)].map((found) => found[1] ?? '');
  const waste = /^waste\.days/;
  const unused = keys.filter((key) => {
    const [group = ''] = key.split('.');
    return !text.includes(`'${key}'`) && !made.includes(group) && !waste.test(key) && !/\.(?:one|other)$/.test(key);
  });
  expect(unused).toEqual([]);
});
