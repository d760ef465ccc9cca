import { expect, it, vi } from 'vitest';

// The page's address is read when the module is loaded.
vi.stubGlobal('location', { hash: '' });
vi.stubGlobal('addEventListener', () => undefined);

it('reads its own addresses, and leads to the queue from all others', async () => {
  const { address, parse } = await import('../src/lib/route.svelte');
  const place = parse(address('queue', '900_[1-3]', new URLSearchParams({ q: 'user:mara' })));
  expect([place.view, place.item, place.query.get('q')]).toEqual(['queue', '900_[1-3]', 'user:mara']);
  for (const hash of ['', '#', '#/nothing/12', '#/queue/%E0%A4%A', '#/<script>']) {
    expect(parse(hash).view).toBe('queue');
    expect(parse(hash).item).toBe('');
  }
  expect(parse('#/plan?span=1d').query.get('span')).toBe('1d');
});
