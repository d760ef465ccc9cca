// What all views share: the language, the look, the clock, who this is, and what the daemon says.
import { type Session, session } from '../api/client';
import { en, type Key } from '../i18n/en';
import { ko } from '../i18n/ko';
import type { Lang } from './format';
import * as format from './format';

export type Look = 'system' | 'light' | 'dark';

function kept(name: string): string {
  try {
    return localStorage.getItem(name) ?? '';
  } catch {
    return '';
  }
}

function keep(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A browser that keeps nothing shows the same page.
  }
}

class Settings {
  lang = $state<Lang>(kept('lang') === 'ko' || (kept('lang') === '' && navigator.language.startsWith('ko')) ? 'ko' : 'en');
  look = $state<Look>(kept('look') === 'light' || kept('look') === 'dark' ? (kept('look') as Look) : 'system');
  /** Counts changes of the look, for what draws by itself. */
  looks = $state(0);

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => (this.looks += 1));
    this.#show();
  }

  setLang(lang: Lang): void {
    this.lang = lang;
    keep('lang', lang);
    document.documentElement.lang = lang;
  }

  nextLook(): void {
    this.look = this.look === 'system' ? 'light' : this.look === 'light' ? 'dark' : 'system';
    keep('look', this.look);
    this.#show();
    this.looks += 1;
  }

  #show(): void {
    document.documentElement.lang = this.lang;
    if (this.look === 'system') delete document.documentElement.dataset.look;
    else document.documentElement.dataset.look = this.look;
  }
}

export const settings = new Settings();

/** A sentence of the catalogue with its blanks filled in. */
export function t(key: Key, blanks: Record<string, string | number> = {}): string {
  const text = (settings.lang === 'ko' ? ko : en)[key];
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(blanks[name] ?? whole));
}

/** The same by number: `key.one` or `key.other`. */
export function tn(key: 'jobs' | 'nodes' | 'gpus' | 'later', n: number): string {
  const form = settings.lang === 'en' && n === 1 ? 'one' : 'other';
  return t(`${key}.${form}`, { n: format.count(n, settings.lang) });
}

/** What a reason is called, in a few words; the daemon's sentence stands beside it. */
export function reasonWord(code: string): string {
  const key = `reason.${code}`;
  const catalogue = settings.lang === 'ko' ? ko : en;
  return key in catalogue ? catalogue[key as Key] : code;
}

/** The daemon's clock, as far as this one can tell: both may be set differently. */
class Clock {
  #ahead = 0;
  now = $state(Date.now());

  constructor() {
    setInterval(() => this.tick(), 1000);
  }

  tick(): void {
    if (!document.hidden) this.now = Date.now() + this.#ahead;
  }

  learn(daemon_ms: number): void {
    this.#ahead = daemon_ms - Date.now();
    this.tick();
  }
}

export const clock = new Clock();

export const at = {
  distance: (ms: number) => format.distance(ms, clock.now, settings.lang),
  clock: (ms: number) => format.clock(ms, clock.now, settings.lang),
  whole: (ms: number) => format.whole(ms, settings.lang),
  duration: (s: number) => format.duration(s, settings.lang),
  rough: (s: number) => format.rough(s, settings.lang),
  count: (n: number) => format.count(n, settings.lang),
};

class Me {
  who = $state<Session>({ user: '', act: false, version: '' });

  async load(): Promise<void> {
    this.who = await session();
  }
}

export const me = new Me();
