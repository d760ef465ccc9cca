// What jobs of the past had, and how much of it came to nothing. No I/O.
import type { HistoryRow } from '../api/client';

/** What became of the time that a job had. */
export type Outcome = 'done' | 'timeout' | 'failed' | 'cancelled' | 'machine';
export const OUTCOMES: Outcome[] = ['done', 'timeout', 'failed', 'cancelled', 'machine'];

export function outcome(state: string): Outcome {
  switch (state) {
    case 'completed':
      return 'done';
    case 'timeout':
    case 'deadline':
      return 'timeout';
    case 'cancelled':
      return 'cancelled';
    case 'node_fail':
    case 'preempted':
      return 'machine';
    default:
      return 'failed';
  }
}

export interface Sum {
  name: string;
  jobs: number;
  gpu_h: number;
  cpu_h: number;
  /** CPU hours that processes really used. */
  cpu_used_h: number;
  /** By outcome, hours of the unit that is looked at. */
  hours: Record<Outcome, number>;
  waited_s: number;
}

function none(name: string): Sum {
  return { name, jobs: 0, gpu_h: 0, cpu_h: 0, cpu_used_h: 0, hours: { done: 0, timeout: 0, failed: 0, cancelled: 0, machine: 0 }, waited_s: 0 };
}

/** How long it held its nodes, hours; pauses do not count. */
export function held(row: HistoryRow): number {
  if (row.started_ms == null || row.ended_ms == null) return 0;
  const paused = row.pause?.before_ms ?? 0;
  return Math.max(0, row.ended_ms - row.started_ms - paused) / 3_600_000;
}

/** Adds rows up by a name; the largest first. */
export function sums(rows: readonly HistoryRow[], by: (row: HistoryRow) => string, gpu: boolean): Sum[] {
  const found = new Map<string, Sum>();
  for (const row of rows) {
    const name = by(row);
    let sum = found.get(name);
    if (sum === undefined) {
      sum = none(name);
      found.set(name, sum);
    }
    const hours = held(row);
    sum.jobs += 1;
    sum.gpu_h += hours * (row.gpus ?? 0);
    sum.cpu_h += hours * row.cpus;
    sum.cpu_used_h += ((row.usage?.cpu_user_ms ?? 0) + (row.usage?.cpu_system_ms ?? 0)) / 3_600_000;
    sum.hours[outcome(row.state)] += hours * (gpu ? (row.gpus ?? 0) : row.cpus);
    if (row.started_ms != null) sum.waited_s += Math.max(0, row.started_ms - (row.eligible_ms ?? row.submitted_ms)) / 1000;
  }
  const size = (sum: Sum): number => OUTCOMES.reduce((all, one) => all + sum.hours[one], 0);
  return [...found.values()].sort((a, b) => size(b) - size(a) || b.jobs - a.jobs || (a.name < b.name ? -1 : 1));
}

/** Hours by outcome in equal pieces of time; a job counts in the piece in which it ended. */
export function overTime(rows: readonly HistoryRow[], from: number, to: number, pieces: number, gpu: boolean): { at: number[]; hours: Record<Outcome, number[]> } {
  const length = Math.max(1, (to - from) / pieces);
  const at = Array.from({ length: pieces }, (_, n) => (from + (n + 0.5) * length) / 1000);
  const zero = (): number[] => new Array<number>(pieces).fill(0);
  const hours: Record<Outcome, number[]> = { done: zero(), timeout: zero(), failed: zero(), cancelled: zero(), machine: zero() };
  for (const row of rows) {
    if (row.ended_ms == null || row.ended_ms < from) continue;
    const piece = Math.min(pieces - 1, Math.floor((row.ended_ms - from) / length));
    const list = hours[outcome(row.state)];
    list[piece] = (list[piece] ?? 0) + held(row) * (gpu ? (row.gpus ?? 0) : row.cpus);
  }
  return { at, hours };
}
