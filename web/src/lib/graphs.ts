// What a job did over time, as panels of lines; and amounts as people read them.
import { memory, percent, short } from './format';

export interface Line { name: string; unit: string; values: (number | null)[] }
export interface Panel { key: string; unit: string; lines: Line[] }

/** Which lines stand in which panel, in the order of the page. */
export const PANELS = {
  gpu: ['gpu', 'gpu_memory'],
  waiting: ['io_waiting', 'cpu_waiting'],
  cpu: ['cpu'],
  memory: ['memory'],
  io: ['read', 'written'],
  operations: ['reads', 'metadata'],
  network: ['network'],
  power: ['gpu_power'],
} as const;

/** The same of a machine or a node. */
export const PAST = {
  busy: ['cpu', 'disk_busy'],
  waiting: ['io_waiting', 'cpu_waiting'],
  gpu: ['gpu', 'gpu_memory'],
  free: ['memory_free'],
  load: ['load'],
  io: ['read', 'written'],
  network: ['received', 'sent'],
  power: ['gpu_power'],
  held: ['cpus_held'],
  heldgpus: ['gpus_held'],
  heldmemory: ['memory_held'],
} as const;

/** The panels of what is known; a panel without a line is left out. */
export function panels(lines: readonly Line[], of: Record<string, readonly string[]> = PANELS): Panel[] {
  const list: Panel[] = [];
  for (const [key, names] of Object.entries(of)) {
    const found = names.map((name) => lines.find((line) => line.name === name)).filter((line) => line !== undefined);
    const unit = found[0]?.unit;
    if (unit !== undefined) list.push({ key, unit, lines: found });
  }
  return list;
}

/** Seconds since 1970 in the middle of each stretch. */
export function times(from_ms: number, step_ms: number, count: number): number[] {
  return Array.from({ length: count }, (_, n) => (from_ms + (n + 0.5) * step_ms) / 1000);
}

/** The last, the mean and the largest of what is known. */
export function sums(values: readonly (number | null)[]): { last: number; mean: number; most: number } | null {
  const known = values.filter((value) => value !== null);
  const last = known.at(-1);
  if (last === undefined) return null;
  return { last, mean: known.reduce((sum, value) => sum + value, 0) / known.length, most: Math.max(...known) };
}

/** An amount with its unit. */
export function amount(value: number, unit: string): string {
  switch (unit) {
    case 'share': return percent(value, 1);
    case 'bytes': return bytes(value);
    case 'bytes_per_s': return `${bytes(value)}/s`;
    case 'per_s': return `${short(Math.round(value * 10) / 10)}/s`;
    case 'watts': return `${short(Math.round(value))} W`;
    default: return short(Math.round(value * 100) / 100);
  }
}

/** Bytes: `512 B`, `8 KiB`, `96 GiB`. */
export function bytes(value: number): string {
  if (value < 1024) return `${Math.round(value)} B`;
  if (value < 1024 * 1024) return `${short(value / 1024)} KiB`;
  return value < 1024 ** 3 ? `${short(value / 1024 ** 2)} MiB` : memory(value / 1024 ** 2);
}
