// When a reservation lies on a stretch of days.
export interface Occurrence {
  /** When it begins, also where that is before the stretch. */
  start: number;
  from: number;
  to: number;
}

export function occurrences(one: { start_ms: number; end_ms?: number | null; later_ms?: number[] }, from: number, to: number): Occurrence[] {
  const length = one.end_ms == null ? Number.MAX_SAFE_INTEGER : one.end_ms - one.start_ms;
  return [one.start_ms, ...(one.later_ms ?? [])]
    .map((start) => ({ start, from: Math.max(from, start), to: Math.min(to, start + length) }))
    .filter((box) => box.to > box.from);
}
