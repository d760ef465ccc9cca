// The plan as a Gantt: nodes from top to bottom, time from left to right. Places are pure and tested.
import type { PlanBar, PlanPage } from '../api/client';
import { fit } from './cluster';
import { type Colours, hatch } from './colours';

export type Lane = PlanPage['lanes'][number];

/** What is seen of time. */
export interface Span {
  from: number;
  to: number;
}

/** A bar on a lane. */
export interface Box {
  bar: PlanBar;
  /** Which of the lane's lines; reservations lie below all of them. */
  line: number;
  cpus: number;
  gpus: number;
}

/** A lane with its height. */
export interface Row {
  lane: Lane;
  y: number;
  height: number;
  lines: number;
  /** How high each of them is. */
  line: number;
  boxes: Box[];
}

export const AXIS = 26;
const LINE = 17;
const THIN = 11;
const PAD = 3;
/** As many lines as a lane may have; what more lies on it shares the last. */
const LINES_MAX = 8;
const STRETCH_MAX = 1.6;

/** When a bar is over for drawing: one without an end goes on. */
export function endOf(bar: PlanBar): number {
  return bar.end_ms ?? Number.MAX_SAFE_INTEGER;
}

/** Puts bars that overlap on lines of their own, the first free one each. */
export function rows(page: Pick<PlanPage, 'lanes' | 'bars'>, tall = 0): { rows: Row[]; height: number } {
  const all = page.lanes.map((lane) => ({ lane, ...lines(lane, page.bars) }));
  const usual = all.reduce((sum, lane) => sum + lane.lines * usualOf(lane.lines) + 2 * PAD, 0);
  // Where there is room, lines are higher: few nodes are no reason for small print.
  const stretch = Math.min(STRETCH_MAX, Math.max(1, tall / Math.max(1, usual)));
  const list: Row[] = [];
  let y = 0;
  for (const { lane, lines: count, boxes } of all) {
    const line = Math.floor(usualOf(count) * stretch);
    const height = count * line + 2 * PAD;
    list.push({ lane, y, height, lines: count, line, boxes });
    y += height;
  }
  return { rows: list, height: y };
}

/** Puts a lane's bars on lines. */
function lines(lane: Lane, bars: readonly PlanBar[]): { lines: number; boxes: Box[] } {
  const ends: number[] = [];
  const boxes: Box[] = [];
  for (const part of lane.parts ?? []) {
    const bar = bars[part.bar];
    if (bar === undefined) continue;
    let line = 0;
    if (bar.kind !== 'reserved') {
      line = ends.findIndex((end) => end <= bar.start_ms);
      if (line < 0) line = ends.length < LINES_MAX ? ends.length : LINES_MAX - 1;
      ends[line] = Math.max(ends[line] ?? 0, endOf(bar));
    }
    boxes.push({ bar, line, cpus: part.cpus, gpus: part.gpus ?? 0 });
  }
  return { lines: Math.max(1, ends.length), boxes };
}

function usualOf(lines: number): number {
  return lines <= 3 ? LINE : THIN;
}

/** The first row that reaches below `y`. */
export function rowAt(all: readonly Row[], y: number): number {
  let low = 0;
  let high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = all[middle];
    if (row !== undefined && row.y + row.height <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What lies at a point: the topmost bar; reservations only where no job is. */
export function hit(all: readonly Row[], span: Span, width: number, x: number, y: number): { row: Row; box: Box | null } | null {
  const row = all[rowAt(all, y)];
  if (row === undefined || y < row.y) return null;
  const time = span.from + (x / width) * (span.to - span.from);
  const high = row.line;
  const line = Math.floor((y - row.y - PAD) / high);
  const over = row.boxes.filter((box) => box.bar.start_ms <= time && endOf(box.bar) >= time);
  const job = over.find((box) => box.bar.kind !== 'reserved' && box.line === line);
  return { row, box: job ?? over.find((box) => box.bar.kind === 'reserved') ?? null };
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const SPANS = { '1h': HOUR, '6h': 6 * HOUR, '1d': 24 * HOUR, '3d': 72 * HOUR, '7d': 168 * HOUR } as const;
export type SpanName = keyof typeof SPANS;

/** The shortest span that shows all ends and starts of jobs. */
export function fitting(bars: readonly PlanBar[], now: number): SpanName {
  const jobs = bars.filter((bar) => bar.kind !== 'reserved');
  const last = jobs.reduce((most, bar) => Math.max(most, bar.end_ms ?? bar.start_ms), now);
  const names = Object.keys(SPANS) as SpanName[];
  return names.find((name) => last - now <= SPANS[name] * 0.9) ?? '7d';
}

/** Steps of the axis that a clock has. */
const STEPS = [5, 15, 30, 60, 180, 360, 720, 1440].map((minutes) => minutes * MINUTE);

/** Where the axis has marks: at round local times, at least `apart` pixels from each other. */
export function ticks(span: Span, width: number, apart = 74): { at: number; day: boolean }[] {
  const least = ((span.to - span.from) * apart) / Math.max(1, width);
  const step = STEPS.find((one) => one >= least) ?? 1440 * MINUTE;
  const start = new Date(span.from);
  start.setHours(0, 0, 0, 0);
  const list: { at: number; day: boolean }[] = [];
  let day = start.getTime();
  while (day < span.to && list.length < 200) {
    const next = new Date(day);
    next.setDate(next.getDate() + 1);
    // From each midnight anew, so that a change of the clock moves one day only.
    for (let at = day; at < next.getTime() && at < span.to; at += step) if (at >= span.from) list.push({ at, day: at === day });
    day = next.getTime();
  }
  return list;
}

export interface View {
  top: number;
  tall: number;
  width: number;
  /** Where the lanes begin: names stand before. */
  left: number;
  span: Span;
  now: number;
  /** The title of the job under the pointer, or of the chosen one. */
  near: string;
  label: (tick: { at: number; day: boolean }) => string;
}

export function draw(g: CanvasRenderingContext2D, all: readonly Row[], view: View, c: Colours): void {
  const { left, width, tall, span } = view;
  const wide = width - left;
  const xOf = (ms: number): number => left + ((ms - span.from) / (span.to - span.from)) * wide;
  g.clearRect(0, 0, width, tall);
  const marks = ticks(span, wide);
  g.save();
  g.beginPath();
  g.rect(0, AXIS, width, tall - AXIS);
  g.clip();
  g.textBaseline = 'middle';
  for (let at = rowAt(all, view.top); at < all.length; at += 1) {
    const row = all[at];
    if (row === undefined) break;
    const y = AXIS + row.y - view.top;
    if (y > tall) break;
    g.fillStyle = at % 2 === 0 ? c.face : c.back;
    g.fillRect(0, y, width, row.height);
    g.strokeStyle = c.line;
    g.lineWidth = 1;
    g.beginPath();
    for (const mark of marks) {
      const x = Math.round(xOf(mark.at)) + 0.5;
      if (x > left) {
        g.moveTo(x, y);
        g.lineTo(x, y + row.height);
      }
    }
    g.stroke();
    g.save();
    g.beginPath();
    g.rect(left, y, wide, row.height);
    g.clip();
    for (const box of row.boxes) if (box.bar.kind === 'reserved') drawReserved(g, box, y, row, view, xOf, c);
    for (const box of row.boxes) if (box.bar.kind !== 'reserved') drawJob(g, box, y, row, view, xOf, c);
    g.restore();
    g.font = '12px system-ui, sans-serif';
    g.fillStyle = row.lane.away ? c.soft : c.text;
    g.fillText(fit(g, row.lane.name, left - 14), 10, y + Math.min(row.height / 2, 12));
    if (row.lane.away) hatch(g, left, y, Math.max(0, xOf(view.now) - left), row.height, c.line, 6, 1);
  }
  const x = Math.round(xOf(view.now)) + 0.5;
  if (x >= left && x <= width) {
    g.strokeStyle = c.fail;
    g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(x, AXIS);
    g.lineTo(x, tall);
    g.stroke();
  }
  g.restore();
  g.fillStyle = c.back;
  g.fillRect(0, 0, width, AXIS);
  g.strokeStyle = c.line;
  g.lineWidth = 1;
  g.beginPath();
  g.moveTo(0, AXIS - 0.5);
  g.lineTo(width, AXIS - 0.5);
  g.moveTo(left + 0.5, 0);
  g.lineTo(left + 0.5, tall);
  g.stroke();
  g.textBaseline = 'middle';
  let free = left;
  for (const mark of marks) {
    const at = xOf(mark.at);
    if (at < free) continue;
    g.font = `${mark.day ? '600 ' : ''}11px system-ui, sans-serif`;
    g.fillStyle = mark.day ? c.text : c.soft;
    const text = view.label(mark);
    const end = at + g.measureText(text).width + 10;
    if (end > width) continue;
    g.fillText(text, at + 4, AXIS / 2);
    free = end;
  }
}

type X = (ms: number) => number;

function drawReserved(g: CanvasRenderingContext2D, box: Box, y: number, row: Row, view: View, xOf: X, c: Colours): void {
  const from = Math.max(view.left, xOf(box.bar.start_ms));
  const to = Math.min(view.width, xOf(Math.min(endOf(box.bar), view.span.to)));
  if (to <= from) return;
  hatch(g, from, y + 1, to - from, row.height - 2, c.reserve, 7, 1.3);
  g.strokeStyle = c.reserve;
  g.lineWidth = box.bar.title === view.near ? 2 : 1;
  g.strokeRect(from + 0.5, y + 1.5, to - from - 1, row.height - 3);
  if (to - from < 40 || row.boxes.some((other) => other !== box && other.bar.kind !== 'reserved' && endOf(other.bar) > box.bar.start_ms)) return;
  g.font = '11px system-ui, sans-serif';
  const text = fit(g, box.bar.title, to - from - 14);
  g.fillStyle = row.y % 2 === 0 ? c.face : c.back;
  g.fillRect(from + 4, y + 4, g.measureText(text).width + 6, 14);
  g.fillStyle = c.text;
  g.fillText(text, from + 7, y + 11);
}

function drawJob(g: CanvasRenderingContext2D, box: Box, y: number, row: Row, view: View, xOf: X, c: Colours): void {
  const from = Math.max(view.left - 4, xOf(box.bar.start_ms));
  const to = Math.min(view.width + 4, xOf(Math.min(endOf(box.bar), view.span.to)));
  if (to < view.left || from > view.width) return;
  const high = row.line;
  const top = y + PAD + box.line * high;
  const wide = Math.max(2, to - from - 1);
  const near = box.bar.title === view.near;
  const running = box.bar.kind === 'running';
  g.beginPath();
  g.roundRect(from + 0.5, top + 0.5, wide, high - 2, 3);
  g.fillStyle = running ? c.run : c.face;
  g.fill();
  if (!running) {
    g.save();
    g.clip();
    hatch(g, from, top, wide + 1, high, c.promise, 5, 1);
    g.restore();
    g.strokeStyle = c.promise;
    g.lineWidth = 1.3;
    g.setLineDash([4, 2]);
    g.beginPath();
    g.roundRect(from + 0.5, top + 0.5, wide, high - 2, 3);
    g.stroke();
    g.setLineDash([]);
  }
  if (near) {
    g.strokeStyle = c.text;
    g.lineWidth = 2;
    g.beginPath();
    g.roundRect(from + 0.5, top + 0.5, wide, high - 2, 3);
    g.stroke();
  }
  const begin = Math.max(from, view.left);
  const room = Math.min(to, view.width) - begin - 10;
  if (room < 22) return;
  g.font = `${high > 14 ? 11 : 9.5}px system-ui, sans-serif`;
  const text = fit(g, `${box.bar.title} ${box.bar.name ?? ''}`, room);
  if (!running) {
    g.fillStyle = c.face;
    g.fillRect(begin + 3, top + 2, g.measureText(text).width + 5, high - 5);
  }
  g.fillStyle = running ? c.face : c.text;
  g.fillText(text, begin + 6, top + high / 2 - 0.5);
}
