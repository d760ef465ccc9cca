// Amounts and times for people. Everything takes the language, so that it can be tested.

export type Lang = 'en' | 'ko';

const UNITS: Record<Lang, { d: string; h: string; m: string; s: string }> = {
  en: { d: 'd', h: 'h', m: 'min', s: 's' },
  ko: { d: '일', h: '시간', m: '분', s: '초' },
};

/** A length of time by its two largest units: `2 d 3 h`, `4 min`, `12 s`. */
export function duration(seconds: number, lang: Lang): string {
  const unit = UNITS[lang];
  const gap = lang === 'ko' ? '' : ' ';
  const s = Math.max(0, Math.round(seconds));
  const part = (n: number, name: string): string => `${n}${gap}${name}`;
  const two = (a: number, an: string, b: number, bn: string): string => (b === 0 ? part(a, an) : `${part(a, an)} ${part(b, bn)}`);
  if (s < 60) return part(s, unit.s);
  if (s < 3570) return s < 600 ? two(Math.floor(s / 60), unit.m, s % 60, unit.s) : part(Math.round(s / 60), unit.m);
  const m = Math.max(60, Math.floor(s / 60));
  if (s < 86_400) return two(Math.floor(m / 60), unit.h, m % 60, unit.m);
  return two(Math.floor(s / 86_400), unit.d, Math.floor((s % 86_400) / 3600), unit.h);
}

/** The same by its largest unit alone: what does not change at each look. */
export function rough(seconds: number, lang: Lang): string {
  const s = Math.max(0, seconds);
  const unit = s < 60 ? 1 : s < 3600 ? 60 : s < 86_400 ? 3600 : 86_400;
  return s < 60 && lang === 'en' ? '< 1 min' : s < 60 ? '1분 미만' : duration(Math.floor(s / unit) * unit, lang);
}

/** How far an instant is: `in 2 h 3 min`, `4 min ago`, `now`. */
export function distance(at: number, now: number, lang: Lang): string {
  const away = Math.round((at - now) / 1000);
  if (Math.abs(away) < 1) return lang === 'ko' ? '지금' : 'now';
  const text = duration(Math.abs(away), lang);
  if (lang === 'ko') return away > 0 ? `${text} 뒤` : `${text} 전`;
  return away > 0 ? `in ${text}` : `${text} ago`;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(lang: Lang, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = lang + JSON.stringify(options);
  let found = formats.get(key);
  if (found === undefined) {
    found = new Intl.DateTimeFormat(lang === 'ko' ? 'ko-KR' : 'en-GB', options);
    formats.set(key, found);
  }
  return found;
}

const SAME_DAY: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', hour12: false };
const OTHER_DAY: Intl.DateTimeFormatOptions = { weekday: 'short', day: 'numeric', month: 'short', ...SAME_DAY };
const WHOLE: Intl.DateTimeFormatOptions = { dateStyle: 'full', timeStyle: 'long' };

/** An instant by the clock; with its day where that is not today's. */
export function clock(at: number, now: number, lang: Lang): string {
  const same = new Date(at).toDateString() === new Date(now).toDateString();
  return formatOf(lang, same ? SAME_DAY : OTHER_DAY).format(at);
}

/** An instant in full, for a hint. */
export function whole(at: number, lang: Lang): string {
  return formatOf(lang, WHOLE).format(at);
}

/** A day. */
export function day(at: number, lang: Lang): string {
  return formatOf(lang, { weekday: 'short', day: 'numeric', month: 'short' }).format(at);
}

/** Memory: `512 MiB`, `96 GiB`, `1.5 TiB`. */
export function memory(mib: number): string {
  if (mib < 1024) return `${Math.round(mib)} MiB`;
  if (mib < 1024 * 1024) return `${short(mib / 1024)} GiB`;
  return `${short(mib / 1024 / 1024)} TiB`;
}

/** A number with at most three digits that count. */
export function short(value: number): string {
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toString();
  return value.toFixed(value >= 10 ? 1 : 2).replace(/\.?0+$/, '');
}

/** A count with separators. */
export function count(value: number, lang: Lang): string {
  return new Intl.NumberFormat(lang === 'ko' ? 'ko-KR' : 'en-GB').format(value);
}

/** A part of a whole in hundredths. */
export function percent(part: number, of: number): string {
  if (of <= 0) return '–';
  const value = (100 * part) / of;
  return `${value > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
}
