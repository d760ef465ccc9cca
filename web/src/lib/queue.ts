// The queue as a list: what is looked for, in which order, how much of it there is. No I/O.
import type { QueueRow } from '../api/client';
import { clean } from './text';

/** Where a job stands, in the four ways that matter for a list. */
export type Phase = 'running' | 'starting' | 'waiting' | 'held' | 'stopped' | 'over';

export function phase(row: QueueRow): Phase {
  switch (row.state) {
    case 'pending':
      return row.reason?.code === 'HELD_BY_USER' || row.reason?.code === 'HELD_BY_ADMIN' ? 'held' : 'waiting';
    case 'running':
      return 'running';
    case 'starting':
    case 'completing':
      return 'starting';
    case 'suspended':
      return 'stopped';
    default:
      return 'over';
  }
}

/** A row with nothing in it that would turn the line around it. */
export function safe(row: QueueRow): QueueRow {
  const clear = {
    ...row,
    name: clean(row.name),
    user: clean(row.user),
    account: clean(row.account),
    ...(row.reason ? { reason: { ...row.reason, text: clean(row.reason.text) } } : {}),
  };
  // Made here, a page of rows at a time, so that the first letter that is looked for need not wait.
  textOf(clear);
  return clear;
}

/** One thing that is looked for. */
interface Term {
  field: string;
  word: string;
  not: boolean;
}

const FIELDS: Record<string, (row: QueueRow) => string> = {
  user: (row) => row.user,
  account: (row) => row.account,
  partition: (row) => row.partition,
  qos: (row) => row.qos,
  state: (row) => row.state,
  name: (row) => row.name,
  node: (row) => row.node_list ?? '',
  why: (row) => `${row.reason?.code ?? ''} ${row.reason?.word ?? ''} ${row.reason?.text ?? ''}`,
};

/** Reads `mara -debug user:oleg why:licences gpus:4`. */
export function terms(text: string): Term[] {
  return text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '' && word !== '-')
    .map((word) => {
      const not = word.startsWith('-');
      const bare = not ? word.slice(1) : word;
      const at = bare.indexOf(':');
      const field = at > 0 ? bare.slice(0, at) : '';
      const known = field in FIELDS || field === 'gpus' || field === 'nodes';
      return known ? { field, word: bare.slice(at + 1), not } : { field: '', word: bare, not };
    });
}

// Kept beside the rows: a row never changes, it is replaced.
const texts = new WeakMap<QueueRow, string>();

function textOf(row: QueueRow): string {
  let text = texts.get(row);
  if (text === undefined) {
    const parts = [row.job, row.name, row.user, row.account, row.partition, row.qos, row.state, row.node_list ?? ''];
    text = [...parts, row.reason?.text ?? '', row.reason?.code ?? ''].join('\n').toLowerCase();
    texts.set(row, text);
  }
  return text;
}

function holds(row: QueueRow, term: Term): boolean {
  if (term.word === '') return true;
  if (term.field === 'gpus') return (row.gpus ?? 0) === Number(term.word);
  if (term.field === 'nodes') return row.nodes === Number(term.word);
  const read = FIELDS[term.field];
  const text = read === undefined ? textOf(row) : read(row).toLowerCase();
  return text.includes(term.word);
}

/** Which rows: what is written, and which of the five groups. */
export interface Wanted {
  text: string;
  group: Group;
  user: string;
}

export type Group = 'all' | 'waiting' | 'running' | 'mine';

export function wanted(rows: readonly QueueRow[], want: Wanted): QueueRow[] {
  const all = terms(want.text);
  return rows.filter((row) => inGroup(row, want) && all.every((term) => holds(row, term) !== term.not));
}

function inGroup(row: QueueRow, want: Wanted): boolean {
  switch (want.group) {
    case 'all':
      return true;
    case 'mine':
      return row.user === want.user;
    case 'waiting':
      return row.state === 'pending';
    case 'running':
      return row.state !== 'pending';
  }
}

/** What rows are ordered by. */
export type Column = 'turn' | 'job' | 'name' | 'user' | 'state' | 'when' | 'gpus' | 'cpus' | 'nodes' | 'age' | 'limit';

export interface Order {
  by: Column;
  down: boolean;
}

const RANK: Record<Phase, number> = { running: 0, starting: 0, stopped: 0, waiting: 1, held: 2, over: 3 };

/** When something happens next to a job: its end, or its start. */
export function next(row: QueueRow): number {
  if (row.state === 'pending') return row.expected_ms ?? Number.MAX_SAFE_INTEGER;
  return row.ended_ms ?? Number.MAX_SAFE_INTEGER;
}

const KEYS: Record<Column, (row: QueueRow) => number | string> = {
  turn: (row) => RANK[phase(row)],
  job: (row) => row.id,
  name: (row) => row.name,
  user: (row) => row.user,
  state: (row) => row.state,
  when: next,
  gpus: (row) => row.gpus ?? 0,
  cpus: (row) => row.cpus,
  nodes: (row) => row.nodes,
  age: (row) => row.submitted_ms,
  limit: (row) => row.time_limit_s ?? Number.MAX_SAFE_INTEGER,
};

/** In order; ties end with the number. The order `turn` is that of the scheduler's own list. */
export function ordered(rows: readonly QueueRow[], order: Order): QueueRow[] {
  const key = KEYS[order.by];
  const sign = order.down ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: key(row) }));
  keyed.sort((a, b) => {
    if (a.key < b.key) return -sign;
    if (a.key > b.key) return sign;
    if (order.by === 'turn' && a.row.state === 'pending' && a.row.priority !== b.row.priority) {
      return (b.row.priority - a.row.priority) * sign;
    }
    return (a.row.id - b.row.id) * (order.by === 'turn' ? sign : 1);
  });
  return keyed.map(({ row }) => row);
}

/** Takes in rows that were asked for anew: `asked` are gone where no row says otherwise. */
export function merged(rows: readonly QueueRow[], asked: ReadonlySet<number>, fresh: readonly QueueRow[]): QueueRow[] {
  const newer = new Map(fresh.map((row) => [row.id, row]));
  const kept = rows.filter((row) => !newer.has(row.id) && !asked.has(row.id) && !asked.has(row.array?.id ?? -1));
  const live = fresh.filter((row) => phase(row) !== 'over');
  return [...kept, ...live].sort((a, b) => a.id - b.id);
}

/** How many jobs there are; folded array tasks count each. */
export function tally(rows: readonly QueueRow[]): { running: number; waiting: number; held: number; gpusWanted: number } {
  const sum = { running: 0, waiting: 0, held: 0, gpusWanted: 0 };
  for (const row of rows) {
    const many = row.array?.count ?? 1;
    const at = phase(row);
    if (at === 'waiting') {
      sum.waiting += many;
      sum.gpusWanted += many * (row.gpus ?? 0);
    } else if (at === 'held') sum.held += many;
    else if (at !== 'over') sum.running += many;
  }
  return sum;
}
