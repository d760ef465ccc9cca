import { describe, expect, it } from 'vitest';
import type { QueueRow } from '../src/api/client';
import { merged, ordered, phase, safe, tally, terms, wanted } from '../src/lib/queue';

function row(id: number, more: Partial<QueueRow> = {}): QueueRow {
  return {
    id, job: String(id), name: `job${id}`, user: 'mara', uid: 1, account: 'physics', partition: 'main', qos: 'normal', state: 'pending',
    submitted_ms: id, nodes: 1, tasks: 1, cpus: 1, tres: '', priority: 100, ...more,
  };
}
const reason = (code: string, text = ''): QueueRow['reason'] => ({ code, word: code, text });
const ids = (rows: QueueRow[]): number[] => rows.map((one) => one.id);

describe('what is looked for', () => {
  const rows = [
    row(1, { state: 'running', user: 'oleg', node_list: 'node[1-4]' }),
    row(2, { reason: reason('LICENCES', 'needs 2 of sim') }),
    row(3, { name: 'debug', gpus: 4 }),
  ];
  const find = (text: string, group: 'all' | 'waiting' | 'running' | 'mine' = 'all'): number[] => ids(wanted(rows, { text, group, user: 'oleg' }));

  it('is any word of a row', () => {
    expect(find('oleg')).toEqual([1]);
    expect(find('NODE[1')).toEqual([1]);
    expect(find('sim')).toEqual([2]);
    expect(find('')).toEqual([1, 2, 3]);
  });
  it('is a word of one field', () => {
    expect(find('user:mara')).toEqual([2, 3]);
    expect(find('why:licences')).toEqual([2]);
    expect(find('gpus:4')).toEqual([3]);
    expect(find('name:sim')).toEqual([]);
  });
  it('is what a word does not say', () => {
    expect(find('-user:mara')).toEqual([1]);
    expect(find('mara -debug')).toEqual([2]);
  });
  it('is a group', () => {
    expect(find('', 'waiting')).toEqual([2, 3]);
    expect(find('', 'running')).toEqual([1]);
    expect(find('', 'mine')).toEqual([1]);
  });
  it('takes a colon of no field as text', () => {
    expect(terms('a:b -: :')).toEqual([
      { field: '', word: 'a:b', not: false }, { field: '', word: ':', not: true }, { field: '', word: ':', not: false },
    ]);
  });
});

describe('the order', () => {
  it('has running jobs, then waiting ones by priority, then held ones; ties by number', () => {
    const rows = [
      row(1, { reason: reason('HELD_BY_USER') }), row(2, { priority: 5 }), row(3, { priority: 9 }), row(5, { state: 'running' }), row(4, { priority: 9 }),
    ];
    expect(ids(ordered(rows, { by: 'turn', down: false }))).toEqual([5, 3, 4, 2, 1]);
  });
  it('of starts has unknown ones last', () => {
    const rows = [row(1), row(2, { expected_ms: 50 }), row(3, { expected_ms: 20 })];
    expect(ids(ordered(rows, { by: 'when', down: false }))).toEqual([3, 2, 1]);
  });
  it('leaves the list that it was given', () => {
    const rows = [row(2), row(1)];
    ordered(rows, { by: 'job', down: false });
    expect(ids(rows)).toEqual([2, 1]);
  });
});

describe('what is asked for anew', () => {
  it('takes the place of what was there, and what is gone goes', () => {
    const rows = [row(1), row(2), row(3)];
    const fresh = [row(2, { state: 'running' }), row(4)];
    expect(merged(rows, new Set([2, 3, 4]), fresh).map((one) => [one.id, one.state])).toEqual([[1, 'pending'], [2, 'running'], [4, 'pending']]);
  });
  it('takes a whole array in the place of its rows', () => {
    const array = { id: 10, tasks: '0-9', count: 10 };
    const rows = [row(10, { array }), row(20)];
    const fresh = [row(10, { state: 'running', array: { ...array, count: 1 } }), row(11, { array: { ...array, count: 9 } })];
    expect(ids(merged(rows, new Set([10]), fresh))).toEqual([10, 11, 20]);
  });
  it('drops what ended', () => {
    expect(merged([row(1)], new Set([1]), [row(1, { state: 'completed' })])).toEqual([]);
  });
});

it('counts folded tasks each', () => {
  const rows = [row(1, { array: { id: 1, tasks: '0-9', count: 10 }, gpus: 2 }), row(2, { state: 'running' }), row(3, { reason: reason('HELD_BY_ADMIN') })];
  expect(tally(rows)).toEqual({ running: 1, waiting: 10, held: 1, gpusWanted: 20 });
  expect(phase(row(1, { state: 'timeout' }))).toBe('over');
});

it('makes hostile names harmless', () => {
  const bad = safe(row(1, { name: 'a\u202eb\u001b[2J\n', reason: reason('X', 'y\u2066') }));
  expect(bad.name).toBe('a\ufffdb\ufffd[2J\ufffd');
  expect(bad.reason?.text).toBe('y\ufffd');
});
