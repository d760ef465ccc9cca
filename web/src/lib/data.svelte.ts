// The queue and the nodes as the page has them, kept new at a bounded pace.
import { ApiFailure, type Got, type NodeView, type QueueRow, type SwitchView, get, pages } from '../api/client';
import { live } from './live.svelte';
import { merged, safe, tally } from './queue';
import { Refresher } from './refresh';
import { clock } from './state.svelte';
import { clean } from './text';

/** Rows a request; reading so many takes a few hundredths of a second. */
const PAGE = 4000;
/** Up to so many rows the whole list is asked for again, beyond it what changed. */
const SMALL = 3000;
/** As many jobs as are asked for by number. */
const NAMED_MAX = 300;

class Queue {
  rows = $state.raw<QueueRow[]>([]);
  /** The first load is over. */
  loaded = $state(false);
  failure = $state<ApiFailure | null>(null);
  tally = $derived(tally(this.rows));
  #touched = new Set<number>();
  #all = new Refresher(() => this.#load(), { least_ms: 1000, times: 10, idle_ms: 30_000 });
  #some = new Refresher(() => this.#look(), { least_ms: 1000, times: 10, idle_ms: 0 });

  start(): void {
    live.listen((change) => {
      if (change.all || this.rows.length <= SMALL || change.jobs.size > NAMED_MAX) this.#all.poke();
      else if (change.jobs.size > 0) {
        for (const job of change.jobs) this.#touched.add(job);
        this.#some.poke();
      }
    });
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.#all.wake();
    });
    this.#all.poke();
  }

  /** Something was done from here: look at once. */
  poke(): void {
    this.#all.poke();
  }

  async #load(): Promise<void> {
    try {
      const rows: QueueRow[] = [];
      for await (const page of pages({ starts: true }, PAGE)) {
        clock.learn(page.now_ms);
        for (const row of page.rows) rows.push(safe(row));
        // The first page is shown while the rest comes.
        if (!this.loaded) this.rows = [...rows];
      }
      this.rows = rows;
      this.#touched.clear();
      this.loaded = true;
      this.failure = null;
    } catch (error) {
      this.failure = known(error);
    }
  }

  /** Asks for what changed; where that cannot be told apart, for all. */
  async #look(): Promise<void> {
    const touched = this.#touched;
    this.#touched = new Set();
    if (touched.size > NAMED_MAX) return this.#all.poke();
    const arrays = new Map<number, number>();
    for (const row of this.rows) if (row.array) arrays.set(row.id, row.array.id);
    const names = new Set([...touched].map((id) => arrays.get(id) ?? id));
    try {
      const ask = (jobs: Iterable<number>): Promise<Got<'/v1/queue'>> =>
        get('/v1/queue', { query: { jobs: [...jobs].join(','), states: 'all', limit: PAGE } });
      const page = await ask(names);
      clock.learn(page.now_ms);
      let fresh = page.rows;
      // A task that left its folded row changes that row too.
      const folded = new Set(fresh.map((row) => row.array?.id ?? 0).filter((id) => id > 0 && !names.has(id)));
      if (folded.size > 0) {
        fresh = [...fresh.filter((row) => !folded.has(row.array?.id ?? 0)), ...(await ask(folded)).rows];
        for (const id of folded) names.add(id);
      }
      this.rows = merged(this.rows, names, fresh.map(safe));
      this.failure = null;
    } catch {
      // A single job that is gone is an error; the whole list tells.
      this.#all.poke();
    }
  }
}

/** The error as the daemon says it; one of the network has no code. */
export function known(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  return new ApiFailure(0, '', error instanceof Error ? error.message : String(error), '');
}

export const queue = new Queue();

class Nodes {
  list = $state.raw<NodeView[]>([]);
  switches = $state.raw<SwitchView[]>([]);
  loaded = $state(false);
  failure = $state<ApiFailure | null>(null);
  totals = $derived(totals(this.list));
  #refresher = new Refresher(() => this.#load(), { least_ms: 1500, times: 10, idle_ms: 30_000 });

  start(): void {
    live.listen((change) => {
      if (change.all || change.nodes || change.jobs.size > 0) this.#refresher.poke();
    });
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.#refresher.wake();
    });
    this.#refresher.poke();
  }

  async #load(): Promise<void> {
    try {
      const list: NodeView[] = [];
      let after: number | null | undefined;
      do {
        const page = await get('/v1/nodes', { query: { limit: 1000, after } });
        for (const node of page.nodes) list.push({ ...node, name: clean(node.name), reason: clean(node.reason ?? '') });
        after = page.next;
      } while (after !== null && after !== undefined);
      if (!this.loaded) this.switches = await get('/v1/topology');
      this.list = list;
      this.loaded = true;
      this.failure = null;
    } catch (error) {
      this.failure = known(error);
    }
  }
}

export interface Totals {
  nodes: number;
  away: number;
  gpus: number;
  gpusUsed: number;
  cpus: number;
  cpusUsed: number;
}

/** What there is and what is used; nodes that are away count as away only. */
export function totals(nodes: readonly NodeView[]): Totals {
  const sum = { nodes: nodes.length, away: 0, gpus: 0, gpusUsed: 0, cpus: 0, cpusUsed: 0 };
  for (const node of nodes) {
    if (node.state === 'down' || node.drain) sum.away += 1;
    sum.gpus += node.devices?.length ?? 0;
    sum.gpusUsed += node.gpus_used ?? 0;
    sum.cpus += node.cpus;
    sum.cpusUsed += node.cpus_used;
  }
  return sum;
}

export const nodes = new Nodes();
