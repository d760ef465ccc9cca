// Asking again without asking too often: one request at a time, and those who ask cost the daemon a
// bounded part of its time however many events there are.

/** What a refresher is given of the world. */
export interface World {
  now(): number;
  later(ms: number, run: () => void): unknown;
  cancel(timer: unknown): void;
  /** Nobody looks: nothing is asked. */
  hidden(): boolean;
}

export const browser: World = {
  now: () => performance.now(),
  later: (ms, run) => setTimeout(run, ms),
  cancel: (timer) => clearTimeout(timer as number),
  hidden: () => document.hidden,
};

export interface Pace {
  /** The shortest time between two beginnings. */
  least_ms: number;
  /** So many times as long as the last took is waited. */
  times: number;
  /** Asked again after so long even where nothing happened; 0 is never. */
  idle_ms: number;
}

/** Runs `work` soon after `poke`, at a bounded pace. */
export class Refresher {
  #timer: unknown = null;
  #running = false;
  #wanted = false;
  #began = -Infinity;
  #took = 0;
  #stopped = false;

  constructor(
    readonly work: () => Promise<void>,
    readonly pace: Pace,
    readonly world: World = browser,
  ) {}

  /** Something changed. */
  poke(): void {
    this.#wanted = true;
    this.#plan();
  }

  /** The page is looked at again: what was left out is made up for. */
  wake(): void {
    if (this.#wanted || this.pace.idle_ms > 0) this.poke();
  }

  stop(): void {
    this.#stopped = true;
    this.#clear();
  }

  #clear(): void {
    if (this.#timer !== null) this.world.cancel(this.#timer);
    this.#timer = null;
  }

  #plan(): void {
    if (this.#running || this.#stopped) return;
    const idle = !this.#wanted;
    if (idle && this.pace.idle_ms === 0) return;
    const gap = Math.max(this.pace.least_ms, this.pace.times * this.#took);
    const due = this.#began + (idle ? Math.max(gap, this.pace.idle_ms) : gap);
    this.#clear();
    this.#timer = this.world.later(Math.max(0, due - this.world.now()), () => void this.#run());
  }

  async #run(): Promise<void> {
    this.#timer = null;
    if (this.world.hidden()) {
      // `wake` comes when somebody looks.
      this.#wanted = true;
      return;
    }
    this.#running = true;
    this.#wanted = false;
    this.#began = this.world.now();
    try {
      await this.work();
    } catch {
      // What `work` could not do it has said itself.
    }
    this.#took = this.world.now() - this.#began;
    this.#running = false;
    this.#plan();
  }
}
