// Numbers and times for display.
import { counted, language, t } from "./strings.js";

const WHOLE = new Intl.NumberFormat(language);
const DAY = new Intl.DateTimeFormat(language, { dateStyle: "medium" });
const TENTHS = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (number) => WHOLE.format(Math.round(number));
export const tokens = (number) => counted(number, "{n} token", "{n} tokens", { n: count(number) });
// A day; `time` in seconds since 1970.
export const dateOf = (time) => DAY.format(new Date(time * 1000));
// Tokens per second.
export const pace = (rate) => (rate < 100 ? TENTHS.format(rate) : count(rate));

export function short(number) {
  if (number < 10_000) return count(number);
  if (number < 1_000_000) return `${(number / 1000).toFixed(number < 100_000 ? 1 : 0)}k`;
  return `${(number / 1_000_000).toFixed(1)}M`;
}

// A text's size, estimated from its characters.
export const size = (characters) => (characters < 1000 ? `${count(characters)} B` : characters < 1_000_000 ? `${count(characters / 1000)} kB` : `${(characters / 1_000_000).toFixed(1)} MB`);

export const seconds = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`);

// List heading for a time; `seconds` since 1970.
export function period(time, now = Date.now()) {
  const midnight = new Date(now);
  midnight.setHours(0, 0, 0, 0);
  const age = midnight.getTime() - time * 1000;
  const day = 86_400_000;
  if (age <= 0) return t("Today");
  if (age <= day) return t("Yesterday");
  if (age <= 7 * day) return t("Last 7 days");
  if (age <= 30 * day) return t("Last 30 days");
  return t("Older");
}

// A conversation's title: the first words of the question, at most 60 characters and 200 bytes.
export function titleOf(text) {
  const words = text.replace(/[\s\p{Cc}\p{Cf}]+/gu, " ").trim();
  const letters = Array.from(words);
  if (letters.length <= 60) return words.slice(0, 200);
  const cut = letters.slice(0, 58).join("");
  const space = cut.lastIndexOf(" ");
  return (space > 30 ? cut.slice(0, space) : cut) + "…";
}
