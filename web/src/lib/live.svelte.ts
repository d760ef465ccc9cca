// The daemon's changes as they come. A stream that breaks is opened again, later each time.
import type { Schemas } from '../api/client';

/** The longest wait before the next try. */
const WAIT_MAX_MS = 20_000;
/** Events are told in groups: a burst of a thousand is one change. */
const GROUP_MS = 150;

export type Standing = 'live' | 'connecting' | 'lost';

/** What changed since the last time; `all` where that is not known. */
export interface Change {
  all: boolean;
  nodes: boolean;
  jobs: Set<number>;
}

type Listener = (change: Change) => void;

class Live {
  standing = $state<Standing>('connecting');
  #listeners = new Set<Listener>();
  #source: EventSource | null = null;
  #wait = 500;
  #change: Change = { all: false, nodes: false, jobs: new Set() };
  #timer: ReturnType<typeof setTimeout> | null = null;

  start(): void {
    if (this.#source !== null) return;
    const source = new EventSource('/v1/events');
    this.#source = source;
    source.onopen = () => {
      this.standing = 'live';
      this.#wait = 500;
      // What happened between two streams is not known.
      this.#change.all = true;
      this.#tell();
    };
    source.onmessage = (message) => this.#take(message.data as string);
    source.addEventListener('lagged', () => {
      this.#change.all = true;
      this.#tell();
    });
    source.onerror = () => {
      this.standing = this.standing === 'live' ? 'connecting' : this.standing;
      if (source.readyState !== EventSource.CLOSED) return;
      // The browser gives up on an answer that is no stream; we do not.
      this.standing = 'lost';
      this.#source = null;
      setTimeout(() => this.start(), this.#wait);
      this.#wait = Math.min(WAIT_MAX_MS, this.#wait * 2);
    };
  }

  /** Calls back at changes until the returned function is called. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #take(text: string): void {
    let event: Schemas['EventView'];
    try {
      event = JSON.parse(text) as Schemas['EventView'];
    } catch {
      this.#change.all = true;
      this.#tell();
      return;
    }
    const change = this.#change;
    const kind = String((event.data as { event?: unknown }).event ?? '');
    if (kind.startsWith('node') || kind.startsWith('reservation')) change.nodes = true;
    if (kind.startsWith('policy') || kind.startsWith('partition')) change.all = true;
    if (change.jobs.size < 1000) for (const job of event.jobs ?? []) change.jobs.add(job);
    else change.all = true;
    this.#tell();
  }

  #tell(): void {
    this.#timer ??= setTimeout(() => {
      const change = this.#change;
      this.#timer = null;
      this.#change = { all: false, nodes: false, jobs: new Set() };
      for (const listener of this.#listeners) listener(change);
    }, GROUP_MS);
  }
}

export const live = new Live();
