import { describe, expect, it } from 'vitest';
import { target } from '../src/api/client';
import { clock, distance, duration, memory, percent, rough, short } from '../src/lib/format';
import { amount, bytes, panels, sums as lineSums, times } from '../src/lib/graphs';
import { occurrences } from '../src/lib/occurrences';
import { Refresher, type World } from '../src/lib/refresh';
import { LINES_MAX, Output, visible } from '../src/lib/text';
import { held, outcome, overTime, sums } from '../src/lib/waste';
import { window } from '../src/lib/window';
import type { HistoryRow } from '../src/api/client';

describe('times', () => {
  it('have two units at most', () => {
    expect([0, 59, 61, 600, 3569, 3599, 3600, 3661, 90_061, 200_000].map((s) => duration(s, 'en'))).toEqual([
      '0 s', '59 s', '1 min 1 s', '10 min', '59 min', '1 h', '1 h', '1 h 1 min', '1 d 1 h', '2 d 7 h',
    ]);
    expect(duration(3661, 'ko')).toBe('1시간 1분');
    expect(duration(-5, 'en')).toBe('0 s');
  });
  it('are rough where they are looked at often', () => {
    expect([5, 61, 3700, 90_000].map((s) => rough(s, 'en'))).toEqual(['< 1 min', '1 min', '1 h', '1 d']);
  });
  it('lie before or behind', () => {
    expect(distance(61_000, 0, 'en')).toBe('in 1 min 1 s');
    expect(distance(0, 61_000, 'en')).toBe('1 min 1 s ago');
    expect(distance(100, 0, 'en')).toBe('now');
    expect(distance(61_000, 0, 'ko')).toBe('1분 1초 뒤');
  });
  it('have their day where it is another', () => {
    const noon = new Date(2026, 11, 2, 12, 0).getTime();
    expect(clock(noon, noon, 'en')).toBe('12:00');
    expect(clock(noon + 86_400_000, noon, 'en')).toContain('3 Dec');
  });
});

it('amounts are short', () => {
  expect([512, 1024, 98_304, 1_572_864].map(memory)).toEqual(['512 MiB', '1 GiB', '96 GiB', '1.5 TiB']);
  expect([0, 0.05, 1.26, 12.34, 123.4].map(short)).toEqual(['0', '0.05', '1.26', '12.3', '123']);
  expect([percent(1, 3), percent(0, 3), percent(1, 0), percent(1, 100)]).toEqual(['33 %', '0 %', '–', '1.0 %']);
});

it('a path takes names and words whole', () => {
  expect(target('/v1/jobs/{job}/why', { job: '12/../x' }, { a: 'b c', none: '', nil: null })).toBe('/v1/jobs/12%2F..%2Fx/why?a=b%20c');
});

describe('output', () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  it('comes whole however it is cut', () => {
    const output = new Output();
    for (const byte of bytes('erste Zeile\n한국어\nrest')) output.push(new Uint8Array([byte]));
    expect(output.shown()).toEqual(['erste Zeile', '한국어', 'rest']);
  });
  it('shows a progress bar as it stands', () => {
    const output = new Output();
    output.push(bytes('  0%\r 50%\r100%\ndone 1\rdone 2'));
    expect(output.shown()).toEqual(['100%', 'done 2']);
  });
  it('takes no orders', () => {
    expect(visible('\u001b[31mred\u001b[0m \u001b]0;title\u0007x\u001b[2Jy\u202e')).toBe('red xy\ufffd');
    expect(visible('a\r')).toBe('a');
  });
  it('is bounded', () => {
    const output = new Output();
    output.push(bytes('x\n'.repeat(LINES_MAX + 10)));
    expect(output.lines.length).toBe(LINES_MAX);
    expect(output.dropped).toBe(10);
    expect(visible('y'.repeat(10_000)).length).toBeLessThan(4100);
  });
});

it('of a long list a window is there', () => {
  expect(window(100_000, 30, 0, 600)).toEqual({ from: 0, to: 28 });
  const middle = window(100_000, 30, 1_500_000, 600);
  expect(middle).toEqual({ from: 49_992, to: 50_028 });
  expect(window(5, 30, 9000, 600)).toEqual({ from: 5, to: 5 });
  expect(window(0, 30, 0, 600)).toEqual({ from: 0, to: 0 });
});

/** A clock that is moved by hand. */
class Bench implements World {
  time = 0;
  seen = true;
  due: { at: number; run: () => void }[] = [];
  now = (): number => this.time;
  hidden = (): boolean => !this.seen;
  later(ms: number, run: () => void): unknown {
    const entry = { at: this.time + ms, run };
    this.due.push(entry);
    return entry;
  }
  cancel(timer: unknown): void {
    this.due = this.due.filter((entry) => entry !== timer);
  }
  async until(time: number): Promise<void> {
    for (;;) {
      const next = this.due.filter((entry) => entry.at <= time).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.cancel(next);
      this.time = Math.max(this.time, next.at);
      next.run();
      for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
    }
    this.time = time;
  }
}

describe('asking again', () => {
  function bed(pace: { least_ms: number; times: number; idle_ms: number }, took = 0): { world: Bench; asked: number[]; refresher: Refresher } {
    const world = new Bench();
    const asked: number[] = [];
    const refresher = new Refresher(() => {
      asked.push(world.time);
      world.time += took;
      return Promise.resolve();
    }, pace, world);
    return { world, asked, refresher };
  }
  it('is bounded however many events come', async () => {
    const { world, asked, refresher } = bed({ least_ms: 1000, times: 0, idle_ms: 0 });
    for (let n = 0; n < 500; n += 1) {
      refresher.poke();
      await world.until(n * 10);
    }
    await world.until(6000);
    expect(asked).toEqual([0, 1000, 2000, 3000, 4000, 5000]);
  });
  it('costs a bounded part of the time where answers are slow', async () => {
    const { world, asked, refresher } = bed({ least_ms: 1000, times: 10, idle_ms: 0 }, 500);
    refresher.poke();
    await world.until(100);
    refresher.poke();
    await world.until(20_000);
    expect(asked).toEqual([0, 5000]);
  });
  it('is left out while nobody looks, and made up for', async () => {
    const { world, asked, refresher } = bed({ least_ms: 1000, times: 0, idle_ms: 0 });
    world.seen = false;
    refresher.poke();
    await world.until(5000);
    expect(asked).toEqual([]);
    world.seen = true;
    refresher.wake();
    await world.until(5001);
    expect(asked).toEqual([5000]);
  });
  it('goes on after a failure', async () => {
    const world = new Bench();
    let count = 0;
    const refresher = new Refresher(() => {
      count += 1;
      return Promise.reject(new Error('no'));
    }, { least_ms: 10, times: 0, idle_ms: 100 }, world);
    refresher.poke();
    await world.until(350);
    expect(count).toBe(4);
    refresher.stop();
  });
});

it('a reservation comes again with its length', () => {
  const one = { start_ms: 100, end_ms: 150, later_ms: [300, 900] };
  expect(occurrences(one, 120, 400)).toEqual([{ start: 100, from: 120, to: 150 }, { start: 300, from: 300, to: 350 }]);
  expect(occurrences({ start_ms: 0, end_ms: null }, 10, 20)).toEqual([{ start: 0, from: 10, to: 20 }]);
});

describe('waste', () => {
  const HOUR = 3_600_000;
  const past = (more: Partial<HistoryRow>): HistoryRow => ({
    id: 1, job: '1', attempt: 1, name: 'a', user: 'mara', uid: 1, gid: 1, account: 'physics', partition: 'main', qos: '', state: 'completed',
    submitted_ms: 0, started_ms: HOUR, ended_ms: 3 * HOUR, exit: {}, nodes: 1, tasks: 1, cpus: 4, gpus: 2, tres: '', tres_wanted: '',
    usage: { cpu_user_ms: 4 * HOUR, cpu_system_ms: 0, memory_peak_kib: 0 }, ...more,
  } as unknown as HistoryRow);
  it('is what came to nothing, by account', () => {
    const rows = [past({}), past({ state: 'failed', gpus: 1 }), past({ account: 'art', started_ms: null, ended_ms: HOUR, state: 'cancelled' })];
    const [first, second] = sums(rows, (row) => row.account, true);
    expect(first).toMatchObject({ name: 'physics', jobs: 2, gpu_h: 6, cpu_h: 16, cpu_used_h: 8, hours: { done: 4, failed: 2 }, waited_s: 7200 });
    expect(second).toMatchObject({ name: 'art', jobs: 1, gpu_h: 0 });
  });
  it('counts where a job ended', () => {
    const { hours } = overTime([past({}), past({ ended_ms: 9 * HOUR, state: 'timeout' })], 0, 10 * HOUR, 10, true);
    expect(hours.done[3]).toBe(4);
    expect(hours.timeout[9]).toBe(16);
    expect(outcome('node_fail')).toBe('machine');
    expect(held(past({ started_ms: null }))).toBe(0);
  });
});

describe('graphs', () => {
  const line = (name: string, unit: string, values: (number | null)[]) => ({ name, unit, values });

  it('puts lines that are known into panels, in order', () => {
    const found = panels([line('written', 'bytes_per_s', [1]), line('read', 'bytes_per_s', [2]), line('gpu', 'share', [0.5]), line('new', 'x', [1])]);
    expect(found.map((panel) => panel.key)).toEqual(['gpu', 'io']);
    expect(found[1]?.lines.map((one) => one.name)).toEqual(['read', 'written']);
    expect(panels([])).toEqual([]);
  });

  it('sums what is known, which is not 0 where it is not', () => {
    expect(lineSums([null, 1, 3, null])).toEqual({ last: 3, mean: 2, most: 3 });
    expect(lineSums([null])).toBeNull();
    expect(times(10_000, 2000, 2)).toEqual([11, 13]);
  });

  it('says amounts in their unit', () => {
    expect([amount(0.314, 'share'), amount(8192, 'bytes'), amount(3 * 1024 ** 3, 'bytes_per_s'), amount(2950, 'per_s'), amount(142.4, 'watts'), amount(3.5, 'cpus')])
      .toEqual(['31 %', '8 KiB', '3 GiB/s', '2950/s', '142 W', '3.5']);
    expect(bytes(17)).toBe('17 B');
  });
});
