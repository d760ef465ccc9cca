import { describe, expect, it } from 'vitest';
import type { NodeView, PlanBar } from '../src/api/client';
import { SIZES, blocks, fitting as sizeFor, health, hit as tileAt, layout, unfold, usedOf, usedOfNode } from '../src/draw/cluster';
import { step } from '../src/draw/colours';
import { SPANS, fitting, hit, rowAt, rows, ticks } from '../src/draw/plan';

function node(name: string, more: Partial<NodeView> = {}): NodeView {
  return {
    id: 0, name, engine: 'local', state: 'idle', partitions: ['main'], cpus: 8, cpus_used: 0, sockets: 1, cores_per_socket: 8, threads_per_core: 1,
    memory_mib: 1000, memory_used_mib: 0, weight: 0, ...more,
  };
}

describe('the cluster', () => {
  it('unfolds host lists', () => {
    expect(unfold('node[1-3,7],login')).toEqual(['node1', 'node2', 'node3', 'node7', 'login']);
    expect(unfold('r[08-11]-a')).toEqual(['r08-a', 'r09-a', 'r10-a', 'r11-a']);
    expect(unfold('n[1-999999999]', 5)).toEqual(['n1', 'n2', 'n3', 'n4', 'n5']);
    expect(unfold('')).toEqual([]);
  });
  it('has nodes below their switches, or in their partitions', () => {
    const nodes = [node('a1'), node('a2'), node('b1', { partitions: ['gpu'] })];
    const leaf = (name: string, list: string): Parameters<typeof blocks>[1][number] => ({ name, level: 0, node_list: list });
    expect(blocks(nodes, [leaf('s1', 'a[1-2]')], unfold).map((one) => [one.title, one.nodes.length])).toEqual([['s1', 2], ['–', 1]]);
    expect(blocks(nodes, [], unfold).map((one) => [one.title, one.nodes.length])).toEqual([['main', 2], ['gpu', 1]]);
  });
  it('finds the tile at every point, and none between', () => {
    const many = Array.from({ length: 10_000 }, (_, n) => node(`n${n}`));
    const found = layout([{ title: 'all', nodes: many }], 1200, SIZES.small);
    expect(found.tiles.length).toBe(10_000);
    for (const tile of [found.tiles[0], found.tiles[4321], found.tiles[9999]]) {
      if (tile === undefined) throw new Error('a tile is missing');
      expect(tileAt(found, tile.x + 5, tile.y + 5)?.node.name).toBe(tile.node.name);
      expect(tileAt(found, tile.x - 2, tile.y + 5)?.node.name).not.toBe(tile.node.name);
    }
    expect(tileAt(found, 5, 100_000)).toBeNull();
    for (const tile of found.tiles) expect(tile.x + SIZES.small.width).toBeLessThanOrEqual(1200);
  });
  it('is large where there are few', () => {
    expect([8, 60, 400, 10_000].map((count) => sizeFor(count, 1200, 700))).toEqual(['huge', 'large', 'middle', 'small']);
  });
  it('tells what is used', () => {
    const device = { index: 0, model: 'h100', memory_mib: 100 };
    expect(usedOf({ ...device, jobs: [1], share_used: 500 }, 'use')).toBe(0.5);
    expect(usedOf({ ...device, jobs: [1] }, 'use')).toBe(1);
    expect(usedOf({ ...device, memory_used_mib: 25 }, 'memory')).toBe(0.25);
    expect(usedOfNode(node('a', { cpus_used: 2 }), 'use')).toBe(0.25);
    expect(usedOfNode(node('a', { devices: [device, { ...device, jobs: [1] }] }), 'use')).toBe(0.5);
    expect([0, 0.1, 0.5, 0.9, 1].map(step)).toEqual([0, 1, 2, 3, 4]);
  });
  it('tells who is not well, the worst first', () => {
    expect(health(node('a', { state: 'down', drain: true }))).toBe('down');
    expect(health(node('a', { drain: true }))).toBe('drained');
    expect(health(node('a', { devices: [{ index: 0, model: '', memory_mib: 1, unhealthy: 'Xid 79' }] }))).toBe('ill');
    expect(health(node('a'))).toBe('well');
  });
});

const bar = (title: string, start: number, end: number | null, kind: PlanBar['kind'] = 'running'): PlanBar => ({ kind, title, start_ms: start, end_ms: end, nodes: 1 });

describe('the plan', () => {
  const page = {
    bars: [bar('a', 0, 100), bar('b', 50, 150), bar('c', 100, null), bar('r', 0, 1000, 'reserved')],
    lanes: [
      { id: 0, name: 'n0', cpus: 4, parts: [{ bar: 0, cpus: 1 }, { bar: 3, cpus: 4 }, { bar: 1, cpus: 1 }, { bar: 2, cpus: 1 }] },
      { id: 1, name: 'n1', cpus: 4, parts: [] },
    ],
  };
  it('puts what overlaps on lines of its own, the first free one each', () => {
    const { rows: found } = rows(page);
    expect(found[0]?.lines).toBe(2);
    expect(found[0]?.boxes.map((box) => [box.bar.title, box.line])).toEqual([['a', 0], ['r', 0], ['b', 1], ['c', 0]]);
    expect(found[1]?.lines).toBe(1);
  });
  it('finds jobs above reservations', () => {
    const { rows: found, height } = rows(page);
    const span = { from: 0, to: 1000 };
    const at = (x: number, y: number): string | undefined => hit(found, span, 1000, x, y)?.box?.bar.title;
    expect(at(20, 5)).toBe('a');
    expect(at(120, 5 + (found[0]?.line ?? 0))).toBe('b');
    expect(at(500, 5)).toBe('c');
    expect(at(20, 5 + (found[0]?.line ?? 0))).toBe('r');
    expect(hit(found, span, 1000, 20, height + 5)).toBeNull();
    expect(rowAt(found, (found[1]?.y ?? 0) + 1)).toBe(1);
  });
  it('has room for all lanes of a large cluster', () => {
    const lanes = Array.from({ length: 10_000 }, (_, id) => ({ id, name: `n${id}`, cpus: 1, parts: [] }));
    const { rows: found, height } = rows({ bars: [], lanes }, 700);
    expect(found.length).toBe(10_000);
    expect(rowAt(found, height - 1)).toBe(9999);
  });
  it('shows as much time as there are jobs for', () => {
    expect(fitting([bar('a', 0, SPANS['1h'] / 2)], 0)).toBe('1h');
    expect(fitting([bar('a', 0, SPANS['1d'])], 0)).toBe('3d');
    expect(fitting([bar('a', 0, SPANS['7d'] * 9)], 0)).toBe('7d');
    expect(fitting([bar('r', 0, SPANS['7d'], 'reserved')], 0)).toBe('1h');
  });
  it('has marks at round times, never too many', () => {
    for (const length of Object.values(SPANS)) {
      const found = ticks({ from: 1_796_200_000_000, to: 1_796_200_000_000 + length }, 800);
      expect(found.length).toBeGreaterThan(1);
      expect(found.length).toBeLessThanOrEqual(12);
      for (const tick of found) expect(new Date(tick.at).getMinutes() % 5).toBe(0);
    }
  });
});
