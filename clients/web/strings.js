// The page's texts in the reader's language. The English text is the key: t("Remove {name}", { name }). A table of
// strings/ has a translation for each key; a counted text has a list [one, other], or one text where a language has one form.
import { load } from "./store.js";

export const LANGUAGES = { en: "English", de: "Deutsch", es: "Español", zh: "中文" };

const wanted = [load("language"), ...(navigator.languages ?? [])].map((name) => String(name ?? "").slice(0, 2).toLowerCase());
export const language = wanted.find((name) => Object.hasOwn(LANGUAGES, name)) ?? "en";
// Only the table in use is loaded.
const table = language === "en" ? {} : await import(`./strings/${language}.js`).then((module) => module.default, () => ({}));
const forms = new Intl.PluralRules(language);
document.documentElement.lang = language;

const fill = (text, values) => text.replace(/\{(\w+)\}/g, (mark, name) => String(values[name] ?? mark));

export const t = (text, values = {}) => fill(Object.hasOwn(table, text) ? table[text] : text, values);

// Texts that the document contains from the start: data-t is the element's, data-t-label that of its label.
export function translateStatic() {
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-t-label]")) element.setAttribute("aria-label", t(element.dataset.tLabel));
}

// The text for a number; `values.n` is how it is shown.
export function counted(number, one, other, values) {
  const own = Object.hasOwn(table, other) ? table[other] : [one, other];
  return fill(typeof own === "string" ? own : forms.select(number) === "one" ? own[0] : own[1], values);
}
