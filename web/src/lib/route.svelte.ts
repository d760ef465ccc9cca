// Where the page is: `#/queue/12?q=user:mara`. Everything that can be looked at has an address.

export const VIEWS = ['queue', 'cluster', 'plan', 'shares', 'reservations', 'history', 'machine'] as const;
export type View = (typeof VIEWS)[number];

export interface Place {
  view: View;
  /** A job in the queue, a node in the cluster. */
  item: string;
  query: URLSearchParams;
}

/** Reads an address; what is not known leads to the queue. */
export function parse(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [view = '', item = ''] = path.split('/');
  const known = VIEWS.find((name) => name === view);
  let name = '';
  try {
    name = decodeURIComponent(item);
  } catch {
    // An address that was cut short.
  }
  return { view: known ?? 'queue', item: known === undefined ? '' : name, query: new URLSearchParams(query) };
}

/** The address of a place. */
export function address(view: View, item = '', query: URLSearchParams = new URLSearchParams()): string {
  const words = query.toString();
  return `#/${view}${item === '' ? '' : `/${encodeURIComponent(item)}`}${words === '' ? '' : `?${words}`}`;
}

class Route {
  place = $state.raw<Place>(parse(location.hash));

  constructor() {
    addEventListener('hashchange', () => (this.place = parse(location.hash)));
  }

  /** Goes there; back leads here again. */
  go(view: View, item = '', query?: URLSearchParams): void {
    location.hash = address(view, item, query);
  }

  /** Changes what is looked for without a step in the history. */
  ask(name: string, value: string): void {
    const query = new URLSearchParams(this.place.query);
    if (value === '') query.delete(name);
    else query.set(name, value);
    history.replaceState(null, '', address(this.place.view, this.place.item, query));
    this.place = parse(location.hash);
  }
}

export const route = new Route();
