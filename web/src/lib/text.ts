// Text that others wrote: names, comments, output. Svelte shows it as text and never as markup; what
// is left is what would change how the text around it looks.

// Control characters, and marks that turn the direction of what follows.
// eslint-disable-next-line no-control-regex
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

/** A name as it may stand in a line. */
export function clean(text: string): string {
  return text.replace(UNSEEN, '\ufffd');
}

// What terminals read as orders: CSI, OSC and the short ones.
// eslint-disable-next-line no-control-regex
const ORDERS = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** The most lines of output that are kept. */
export const LINES_MAX = 5000;
/** The longest line that is shown whole. */
const LINE_MAX = 4000;

/** Output as it comes: lines, with a progress bar that writes over itself shown as its last state. */
export class Output {
  lines: string[] = [];
  #open = '';
  #decoder = new TextDecoder();
  /** Lines that were dropped at the front. */
  dropped = 0;

  /** Takes bytes in any pieces. */
  push(bytes: Uint8Array): void {
    const text = this.#open + this.#decoder.decode(bytes, { stream: true });
    const parts = text.split('\n');
    this.#open = (parts.pop() ?? '').slice(-2 * LINE_MAX);
    for (const part of parts) this.lines.push(visible(part));
    const extra = this.lines.length - LINES_MAX;
    if (extra > 0) {
      this.lines.splice(0, extra);
      this.dropped += extra;
    }
  }

  /** All lines, the unfinished one too. */
  shown(): string[] {
    return this.#open === '' ? this.lines : [...this.lines, visible(this.#open)];
  }
}

/** A line as a terminal would leave it. */
export function visible(line: string): string {
  const bare = line.replace(ORDERS, '').replace(/\r+$/, '');
  const last = bare.slice(bare.lastIndexOf('\r') + 1);
  const spaced = last.replace(/\t/g, '    ');
  const whole = spaced.length > LINE_MAX ? `${spaced.slice(0, LINE_MAX)} …` : spaced;
  return clean(whole);
}
