// Which rows of a long list are seen.

/** Rows above and below what is seen, so that a quick turn of the wheel shows no gap. */
const SPARE = 8;

/** The most rows that are there at once. */
export function most(height: number, tall: number): number {
  return Math.ceil(tall / height) + 2 * SPARE;
}

export function window(count: number, height: number, top: number, tall: number): { from: number; to: number } {
  const first = Math.floor(Math.max(0, top) / height);
  const from = Math.max(0, Math.min(count, first - SPARE));
  return { from, to: Math.min(count, first + Math.ceil(tall / height) + SPARE) };
}
