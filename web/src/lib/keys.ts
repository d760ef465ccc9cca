// Keys: one table, shown by `?`. A view takes what is its own; the page takes the rest.

/** True where the key is meant for a field. */
export function typing(event: KeyboardEvent): boolean {
  const target = event.target;
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(?:INPUT|SELECT|TEXTAREA)$/.test(target.tagName))
  );
}

/** True where another key is held with it: that is the browser's. */
export function held(event: KeyboardEvent): boolean {
  return event.ctrlKey || event.metaKey || event.altKey;
}

type Taker = (key: string, event: KeyboardEvent) => boolean;

const takers: Taker[] = [];

/** Offers keys to a view, the newest first, until the returned function is called. */
export function take(taker: Taker): () => void {
  takers.unshift(taker);
  return () => {
    const at = takers.indexOf(taker);
    if (at >= 0) takers.splice(at, 1);
  };
}

/** Hands a key around; true where somebody took it. */
export function offer(event: KeyboardEvent): boolean {
  return takers.some((taker) => taker(event.key, event));
}
