// The cluster as tiles: where each node is, what each tile shows. Positions are pure and tested.
import type { DeviceView, NodeView, SwitchView } from '../api/client';
import { memory } from '../lib/format';
import { type Colours, hatch, step } from './colours';

export type By = 'use' | 'memory' | 'health';

/** How large tiles are: with jobs, with names and GPUs, with GPUs, or a dot. */
export interface Size {
  name: 'huge' | 'large' | 'middle' | 'small';
  width: number;
  height: number;
  gap: number;
}

export const SIZES: Record<Size['name'], Size> = {
  huge: { name: 'huge', width: 292, height: 128, gap: 12 },
  large: { name: 'large', width: 172, height: 66, gap: 10 },
  middle: { name: 'middle', width: 58, height: 24, gap: 5 },
  small: { name: 'small', width: 11, height: 11, gap: 3 },
};

/** Nodes that lie together: below one leaf switch, or in one partition. */
export interface Block {
  title: string;
  nodes: NodeView[];
}

/** A node's place. */
export interface Tile {
  x: number;
  y: number;
  node: NodeView;
}

/** Where everything is. */
export interface Layout {
  size: Size;
  tiles: Tile[];
  titles: { x: number; y: number; text: string; count: number }[];
  height: number;
}

const TITLE = 26;
const AROUND = 14;

/** Nodes below their leaf switches where there are any, else by partition, else as they come. */
export function blocks(nodes: readonly NodeView[], switches: readonly SwitchView[], unfold: (list: string) => string[]): Block[] {
  const leaves = switches.filter((one) => one.level === 0);
  const place = new Map<string, string>();
  for (const leaf of leaves) for (const name of unfold(leaf.node_list)) place.set(name, leaf.name);
  const groups = new Map<string, NodeView[]>();
  for (const node of nodes) {
    const title = leaves.length > 0 ? (place.get(node.name) ?? '–') : (node.partitions[0] ?? '–');
    const group = groups.get(title);
    if (group === undefined) groups.set(title, [node]);
    else group.push(node);
  }
  return [...groups].map(([title, members]) => ({ title, nodes: members }));
}

/** `node[1-3,7],login` as names. Bounded: a list that says more is cut. */
export function unfold(list: string, most = 20_000): string[] {
  const names: string[] = [];
  for (const item of list.match(/[^,[\]]+(?:\[[^\]]*\])?[^,[\]]*/g) ?? []) {
    const parts = /^([^[]*)\[([^\]]*)\](.*)$/.exec(item);
    if (parts === null) {
      names.push(item);
      continue;
    }
    const [, before = '', ranges = '', after = ''] = parts;
    for (const range of ranges.split(',')) {
      const [low = '', high = low] = range.split('-');
      for (let n = Number(low); n <= Number(high) && names.length < most; n += 1) {
        names.push(before + String(n).padStart(low.length, '0') + after);
      }
    }
  }
  return names.slice(0, most);
}

/** The largest size at which all nodes fit: the first two into one screen, then into two. */
export function fitting(count: number, width: number, height: number): Size['name'] {
  for (const name of ['huge', 'large', 'middle'] as const) {
    const size = SIZES[name];
    const columns = Math.max(1, Math.floor((width - 2 * AROUND + size.gap) / (size.width + size.gap)));
    if (Math.ceil(count / columns) * (size.height + size.gap) <= (name === 'huge' ? 0.85 : name === 'large' ? 1.5 : 2.5) * height) return name;
  }
  return 'small';
}

/** How wide a tile has to be for the GPUs of its node. */
function widthOf(size: Size, gpus: number): number {
  if (size.name === 'small') return size.width;
  const cell = size.name === 'huge' ? 33 : size.name === 'large' ? 17 : 6;
  return Math.max(size.width, gpus * cell + 16);
}

/** Lays blocks below each other, tiles from left to right. */
export function layout(groups: readonly Block[], width: number, size: Size): Layout {
  const tiles: Tile[] = [];
  const titles: Layout['titles'] = [];
  const gpus = Math.max(0, ...groups.map((group) => group.nodes.reduce((most, node) => Math.max(most, node.devices?.length ?? 0), 0)));
  const wide = { ...size, width: Math.min(Math.max(40, width - 2 * AROUND), widthOf(size, gpus)) };
  const columns = Math.max(1, Math.floor((width - 2 * AROUND + wide.gap) / (wide.width + wide.gap)));
  let y = AROUND;
  for (const group of groups) {
    if (groups.length > 1 || group.title !== '–') {
      titles.push({ x: AROUND, y, text: group.title, count: group.nodes.length });
      y += TITLE;
    }
    group.nodes.forEach((node, at) => {
      const row = Math.floor(at / columns);
      tiles.push({ x: AROUND + (at % columns) * (wide.width + wide.gap), y: y + row * (wide.height + wide.gap), node });
    });
    y += Math.ceil(group.nodes.length / columns) * (wide.height + wide.gap) + AROUND;
  }
  return { size: wide, tiles, titles, height: y };
}

/** The tile at a point. Tiles lie in order of `y`, then `x`. */
export function hit(found: Layout, x: number, y: number): Tile | null {
  const { width, height } = found.size;
  let low = 0;
  let high = found.tiles.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((found.tiles[middle]?.y ?? 0) + height < y) low = middle + 1;
    else high = middle;
  }
  for (let at = low; at < found.tiles.length; at += 1) {
    const tile = found.tiles[at];
    if (tile === undefined || tile.y > y) return null;
    if (x >= tile.x && x <= tile.x + width && y <= tile.y + height) return tile;
  }
  return null;
}

/** How much of a GPU is used, between 0 and 1. */
export function usedOf(device: DeviceView, by: By): number {
  if (by === 'memory') return device.memory_mib > 0 ? (device.memory_used_mib ?? 0) / device.memory_mib : 0;
  if ((device.share_used ?? 0) > 0) return Math.min(1, (device.share_used ?? 0) / 1000);
  return (device.jobs?.length ?? 0) > 0 ? 1 : 0;
}

/** How much of a node is used: its GPUs where it has any, else its CPUs; or its memory. */
export function usedOfNode(node: NodeView, by: By): number {
  if (by === 'memory') return node.memory_mib > 0 ? node.memory_used_mib / node.memory_mib : 0;
  const gpus = node.devices ?? [];
  if (gpus.length > 0) return gpus.reduce((sum, device) => sum + usedOf(device, 'use'), 0) / gpus.length;
  return node.cpus > 0 ? node.cpus_used / node.cpus : 0;
}

export type Health = 'well' | 'drained' | 'down' | 'ill' | 'foreign' | 'reserved';

export function health(node: NodeView): Health {
  if (node.state === 'down') return 'down';
  if (node.drain) return 'drained';
  if ((node.devices ?? []).some((device) => (device.unhealthy ?? '') !== '')) return 'ill';
  if ((node.foreign ?? []).length > 0) return 'foreign';
  if (node.reservation != null) return 'reserved';
  return 'well';
}

/** Draws what of the layout lies between `top` and `top + tall`. */
export function draw(
  g: CanvasRenderingContext2D,
  found: Layout,
  view: { top: number; tall: number; width: number; by: By; chosen: string; under: string },
  c: Colours,
): void {
  g.clearRect(0, 0, view.width, view.tall);
  g.save();
  g.translate(0, -view.top);
  g.textBaseline = 'middle';
  for (const title of found.titles) {
    if (title.y + TITLE < view.top || title.y > view.top + view.tall) continue;
    g.font = '600 12px system-ui, sans-serif';
    g.fillStyle = c.text;
    g.fillText(title.text, title.x, title.y + 10);
    const wide = g.measureText(title.text).width;
    g.font = '12px system-ui, sans-serif';
    g.fillStyle = c.soft;
    g.fillText(String(title.count), title.x + wide + 8, title.y + 10);
  }
  const { height } = found.size;
  for (const tile of found.tiles) {
    if (tile.y + height < view.top || tile.y > view.top + view.tall) continue;
    drawTile(g, tile, found.size, view, c);
  }
  g.restore();
}

function drawTile(g: CanvasRenderingContext2D, tile: Tile, size: Size, view: { by: By; chosen: string; under: string }, c: Colours): void {
  const { x, y, node } = tile;
  const { width: w, height: h } = size;
  const well = health(node);
  const used = usedOfNode(node, view.by === 'memory' ? 'memory' : 'use');
  const small = size.name === 'small';
  g.fillStyle = small && view.by !== 'health' ? (c.use[step(used)] ?? c.sunk) : small ? c.sunk : c.face;
  box(g, x, y, w, h, small ? 2 : 5);
  g.fill();
  if (!small) {
    g.strokeStyle = c.line;
    g.lineWidth = 1;
    g.stroke();
  }
  if (size.name === 'huge') drawHuge(g, tile, size, view.by, well, c);
  else if (size.name === 'large') {
    g.font = '12px system-ui, sans-serif';
    g.fillStyle = well === 'down' || well === 'drained' ? c.soft : c.text;
    g.fillText(fit(g, node.name, w - 66), x + 8, y + 12);
    g.fillStyle = c.soft;
    g.textAlign = 'right';
    g.font = '11px system-ui, sans-serif';
    g.fillText(`${node.cpus_used}/${node.cpus}`, x + w - 8, y + 12);
    g.textAlign = 'left';
    gpus(g, node, { x: x + 8, y: y + 23, width: w - 16, height: 17 }, view.by, c);
    meter(g, x + 8, y + h - 17, w - 16, node.cpus > 0 ? node.cpus_used / node.cpus : 0, c);
    meter(g, x + 8, y + h - 10, w - 16, node.memory_mib > 0 ? node.memory_used_mib / node.memory_mib : 0, c);
  } else if (size.name === 'middle') {
    gpus(g, node, { x: x + 5, y: y + 5, width: w - 10, height: 8 }, view.by, c);
    meter(g, x + 5, y + h - 7, w - 10, node.cpus > 0 ? node.cpus_used / node.cpus : 0, c);
  }
  sign(g, x, y, w, h, well, small, c);
  if (node.name === view.chosen || node.name === view.under) {
    g.strokeStyle = node.name === view.chosen ? c.accent : c.soft;
    g.lineWidth = 2;
    box(g, x - 1, y - 1, w + 2, h + 2, small ? 3 : 6);
    g.stroke();
  }
}

/** A tile with room for words: which job has which GPU, and how much of the rest is used. */
function drawHuge(g: CanvasRenderingContext2D, tile: Tile, size: Size, by: By, well: Health, c: Colours): void {
  const { x, y, node } = tile;
  const { width: w, height: h } = size;
  const away = well === 'down' || well === 'drained';
  g.font = '600 13px system-ui, sans-serif';
  g.fillStyle = away ? c.soft : c.text;
  const name = fit(g, node.name, w / 2);
  g.fillText(name, x + 12, y + 17);
  const after = x + 12 + g.measureText(name).width + 8;
  g.font = '11px system-ui, sans-serif';
  g.fillStyle = c.soft;
  const model = node.devices?.[0];
  g.textAlign = 'right';
  const right = model === undefined ? '' : `${node.devices?.length ?? 0} × ${model.model}`;
  g.fillText(right, x + w - 12, y + 17);
  g.textAlign = 'left';
  const jobs = (node.jobs ?? []).map((job) => job.job).join(' ');
  g.fillText(fit(g, jobs, w - 24 - g.measureText(right).width - (after - x)), after, y + 17);
  gpus(g, node, { x: x + 12, y: y + 33, width: w - 24, height: 34 }, by, c);
  const rows: [string, number, string][] = [
    ['CPU', node.cpus > 0 ? node.cpus_used / node.cpus : 0, `${node.cpus_used}/${node.cpus}`],
    ['RAM', node.memory_mib > 0 ? node.memory_used_mib / node.memory_mib : 0, memory(node.memory_mib)],
  ];
  rows.forEach(([label, part, text], n) => {
    const middle = y + h - 32 + n * 18;
    g.fillStyle = c.soft;
    g.fillText(label, x + 12, middle);
    g.textAlign = 'right';
    g.fillText(text, x + w - 12, middle);
    g.textAlign = 'left';
    meter(g, x + 46, middle - 3, w - 46 - 78, part, c);
  });
}

/** A node that is not well has a shape over it, not only a colour. */
function sign(g: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, well: Health, small: boolean, c: Colours): void {
  if (well === 'well') return;
  if (well === 'reserved') {
    g.fillStyle = c.reserve;
    g.fillRect(x, y + 2, small ? 2 : 3, h - 4);
    return;
  }
  if (well === 'drained') {
    g.save();
    box(g, x, y, w, h, 5);
    g.clip();
    hatch(g, x, y, w, h, c.wait, small ? 4 : 7, small ? 1.3 : 1.2);
    g.restore();
    return;
  }
  g.strokeStyle = c.fail;
  g.lineWidth = small ? 1.6 : 2;
  if (well === 'down') {
    const inset = small ? 1.5 : 0;
    const side = small ? w - 2 * inset : Math.min(h - 8, 14);
    const left = small ? x + inset : x + w - side - 6;
    const top = small ? y + inset : y + h - side - 5;
    if (!small) {
      g.fillStyle = c.face;
      g.fillRect(left - 4, top - 4, side + 8, side + 8);
    }
    g.beginPath();
    g.moveTo(left, top);
    g.lineTo(left + side, top + side);
    g.moveTo(left + side, top);
    g.lineTo(left, top + side);
    g.stroke();
    return;
  }
  box(g, x + 0.5, y + 0.5, w - 1, h - 1, small ? 2 : 5);
  if (well === 'foreign') g.strokeStyle = c.wait;
  g.stroke();
}

/** GPUs in a row: those of one NUMA domain together, a line under those that NVLink joins. */
function gpus(g: CanvasRenderingContext2D, node: NodeView, at: { x: number; y: number; width: number; height: number }, by: By, c: Colours): void {
  const devices = node.devices ?? [];
  if (devices.length === 0) {
    g.fillStyle = c.sunk;
    g.fillRect(at.x, at.y + at.height / 2 - 1, at.width, 2);
    return;
  }
  const breaks = devices.filter((device, n) => n > 0 && device.numa !== devices[n - 1]?.numa).length;
  const apart = at.height > 10 ? 5 : 2;
  const gap = at.height > 10 ? 3 : 1;
  const cell = Math.max(1.5, Math.min(at.height, (at.width - breaks * apart - (devices.length - 1) * gap) / devices.length));
  const places: number[] = [];
  let x = at.x;
  devices.forEach((device, n) => {
    if (n > 0) x += gap + (device.numa !== devices[n - 1]?.numa ? apart : 0);
    places.push(x);
    const bad = (device.unhealthy ?? '') !== '';
    g.fillStyle = bad || by === 'health' ? c.sunk : (c.use[step(usedOf(device, by))] ?? c.sunk);
    g.fillRect(x, at.y, cell, at.height);
    if (bad) {
      g.strokeStyle = c.fail;
      g.lineWidth = 1.6;
      g.beginPath();
      g.moveTo(x + 1.5, at.y + 1.5);
      g.lineTo(x + cell - 1.5, at.y + at.height - 1.5);
      g.moveTo(x + cell - 1.5, at.y + 1.5);
      g.lineTo(x + 1.5, at.y + at.height - 1.5);
      g.stroke();
    } else if ((node.foreign ?? []).some((use) => use.device === device.index)) {
      hatch(g, x, at.y, cell, at.height, c.wait, 4, 1.3);
    }
    if (at.height > 20 && !bad) jobOn(g, node, device, x + cell / 2, at.y + at.height / 2, cell, by, c);
    x += cell;
  });
  if (at.height <= 10) return;
  // A run of GPUs that are each joined to the one before.
  g.strokeStyle = c.soft;
  g.lineWidth = 1;
  g.beginPath();
  devices.forEach((device, n) => {
    const before = devices[n - 1];
    if (before === undefined || !(device.joined ?? []).includes(before.index)) return;
    const from = (places[n - 1] ?? 0) + cell / 2;
    const to = (places[n] ?? 0) + cell / 2;
    g.moveTo(from, at.y + at.height + 2.5);
    g.lineTo(to, at.y + at.height + 2.5);
  });
  g.stroke();
}

/** The number of the job that has a GPU, on it. */
function jobOn(g: CanvasRenderingContext2D, node: NodeView, device: DeviceView, x: number, y: number, width: number, by: By, c: Colours): void {
  const id = device.jobs?.[0];
  if (id === undefined) return;
  const job = (node.jobs ?? []).find((one) => one.id === id)?.job ?? String(id);
  const dark = by !== 'health' && step(usedOf(device, by)) >= 3;
  g.font = '10px system-ui, sans-serif';
  g.fillStyle = dark ? c.face : c.text;
  g.textAlign = 'center';
  const text = (device.jobs?.length ?? 0) > 1 ? `${device.jobs?.length ?? 0} ×` : job;
  if (g.measureText(text).width < width - 2) g.fillText(text, x, y);
  g.textAlign = 'left';
}

function meter(g: CanvasRenderingContext2D, x: number, y: number, w: number, part: number, c: Colours): void {
  g.fillStyle = c.sunk;
  g.fillRect(x, y, w, 4);
  g.fillStyle = c.run2;
  g.fillRect(x, y, w * Math.min(1, part), 4);
}

function box(g: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, r: number): void {
  g.beginPath();
  g.roundRect(x, y, w, h, r);
}

/** Text cut to a width. */
export function fit(g: CanvasRenderingContext2D, text: string, width: number): string {
  if (g.measureText(text).width <= width) return text;
  let short = text;
  while (short.length > 1 && g.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return `${short}…`;
}
