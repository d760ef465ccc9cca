// The REST interface, typed from docs/openapi.json.
import type { components, paths } from './schema';

export type Schemas = components['schemas'];
export type QueueRow = Schemas['QueueRow'];
export type NodeView = Schemas['NodeView'];
export type DeviceView = Schemas['DeviceView'];
export type JobView = Schemas['JobView'];
export type IdleView = Schemas['IdleView'];
export type WhyView = Schemas['WhyView'];
export type PlanPage = Schemas['PlanPage'];
export type PlanBar = Schemas['PlanBar'];
export type HistoryRow = Schemas['HistoryRow'];
export type ShareLine = Schemas['ShareLine'];
export type SwitchView = Schemas['SwitchView'];
export type ReservationView = Schemas['ReservationView'];
export type ReservationPlan = Schemas['ReservationPlan'];
export type SeriesView = Schemas['SeriesView'];
export type DiagnosisView = Schemas['DiagnosisView'];
export type FilesystemView = Schemas['FilesystemView'];
export type LinkView = Schemas['LinkView'];
export type MachineSeries = Schemas['MachineSeries'];
export type MachineView = Schemas['MachineView'];
export type Action = Schemas['Action'];

type GetPath = { [P in keyof paths]: paths[P] extends { get: unknown } ? P : never }[keyof paths];
type Json<T> = T extends { responses: { 200: { content: { 'application/json': infer B } } } } ? B : never;
export type Got<P extends GetPath> = paths[P] extends { get: infer G } ? Json<G> : never;

/** Why a request was not done: the daemon's code, sentence and hint. */
export class ApiFailure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

/** Fills `{name}` in a path and adds what is asked; what is null or empty is left out. */
export function target(path: string, names: Record<string, string> = {}, query: Query = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names[name] ?? ''));
  const asked = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const words = asked.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return words.length === 0 ? filled : `${filled}?${words.join('&')}`;
}

/** Asks for one of the daemon's views. */
export async function get<P extends GetPath>(
  path: P,
  options: { names?: Record<string, string>; query?: Query; signal?: AbortSignal } = {},
): Promise<Got<P>> {
  const response = await fetch(target(path, options.names, options.query), { signal: options.signal ?? null });
  return (await read(response)) as Got<P>;
}

/** Sends JSON. The header tells the server that the page itself sends it. */
export async function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { 'content-type': 'application/json', 'x-muster-web': '1' };
  return (await read(await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) }))) as T;
}

async function read(response: Response): Promise<unknown> {
  if (response.ok) return response.json();
  throw await failure(response);
}

/** The daemon's words about a refusal; where there are none, the status. */
export async function failure(response: Response): Promise<ApiFailure> {
  let said: Partial<Schemas['ApiError']> = {};
  try {
    said = (await response.json()) as Schemas['ApiError'];
  } catch {
    // No JSON: the status says it.
  }
  const message = said.message ?? `${response.status} ${response.statusText}`;
  return new ApiFailure(response.status, said.code ?? '', message, said.hint ?? '');
}

/** Who the page speaks for, and whether it may act. */
export interface Session {
  user: string;
  act: boolean;
  version: string;
}

export async function session(): Promise<Session> {
  return (await read(await fetch('/web/session'))) as Session;
}

/** Every row of a paged list, a page at a time; the page is free between two of them. */
export async function* pages(query: Query, limit: number, signal?: AbortSignal): AsyncGenerator<Got<'/v1/queue'>> {
  let after: number | null | undefined;
  do {
    const page = await get('/v1/queue', { query: { ...query, limit, after }, signal });
    yield page;
    after = page.next;
  } while (after !== null && after !== undefined);
}
