// The page's colours for a canvas. Read anew when the look changes.

export interface Colours {
  back: string; face: string; sunk: string; line: string; text: string; soft: string; accent: string; run: string; run2: string;
  wait: string; fail: string; promise: string; reserve: string; use: string[];
}

export function colours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    back: of('back'), face: of('face'), sunk: of('sunk'), line: of('line'), text: of('text'), soft: of('soft'), accent: of('accent'),
    run: of('run'), run2: of('run-2'), wait: of('wait'), fail: of('fail'), promise: of('promise'), reserve: of('reserve'),
    use: [0, 1, 2, 3, 4].map((step) => of(`use-${step}`)),
  };
}

/** The step of the scale for a part between 0 and 1: nothing and all have steps of their own. */
export function step(part: number): number {
  if (part <= 0) return 0;
  if (part >= 1) return 4;
  return part < 0.34 ? 1 : part < 0.67 ? 2 : 3;
}

/** Makes a canvas sharp for its size on the page, and gives its context. */
export function sharp(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const scale = window.devicePixelRatio || 1;
  const w = Math.round(width * scale);
  const h = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext('2d');
  context?.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

/** A pattern of slanted lines, drawn into a box that was filled before. */
export function hatch(g: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, colour: string, gap = 5, wide = 1.4): void {
  g.save();
  g.beginPath();
  g.rect(x, y, w, h);
  g.clip();
  g.strokeStyle = colour;
  g.lineWidth = wide;
  g.beginPath();
  // One grid for the whole canvas, so that boxes beside each other meet.
  const first = Math.floor((x - h) / gap) * gap;
  for (let at = first - ((y % gap) + gap); at < x + w + h; at += gap) {
    g.moveTo(at, y + h);
    g.lineTo(at + h, y);
  }
  g.stroke();
  g.restore();
}
