// Mathematics between $...$, \(...\), $$...$$, \[...\] and \begin{...}...\end{...}, as MathML. A source outside the subset of
// tex_parser.js remains visible text, unchanged. What is copied from the page is the source.
import { el } from "../dom.js";
import { node, Tex } from "./tex_parser.js";
import { t } from "../strings.js";

const LONG = 60; // characters of an inline formula that may exceed the width of a phone

// The element for a formula; `source` includes its delimiters.
export function formula(source, tex, display) {
  let content = null;
  try {
    content = new Tex(tex).whole();
  } catch {
    return el(display ? "div" : "span", { class: "math raw" }, source);
  }
  const math = node("math", display ? { display: "block" } : {}, ...content);
  if (display) return el("div", { class: "math display", "data-tex": source, tabindex: "0", role: "group", "aria-label": t("Formula") }, math);
  return el("span", { class: tex.length > LONG ? "math long" : "math", "data-tex": source }, math);
}

// ---- inline ----

const LONGEST = 2000;
// Prices: "$5 or 6 euros$".
const PROSE = /^\d[^\\]*\s\p{L}{2,}/u;
const DOLLAR = /\$((?:[^$\\\s]|\\[^])(?:(?:[^$\\]|\\[^]){0,2000}?(?:[^$\\\s]|\\[^]))?)\$(?:(?![\p{L}\p{N}])|(?=(?:th|st|nd|rd|s)\b))/uy;

// $...$ at the writer's position, and $$...$$ inside a paragraph.
export function dollar(writer) {
  const { text, at } = writer;
  if (text[at + 1] === "$") return delimited(writer, "$$", "$$", true);
  if (/[\p{L}\p{N}$]/u.test(text[at - 1] ?? " ")) return false;
  // The next dollar sign closes, or none does: the work is linear in the text.
  DOLLAR.lastIndex = at;
  const found = DOLLAR.exec(text);
  if (!found || PROSE.test(found[1])) return false;
  writer.push(formula(found[0], found[1], false));
  writer.at += found[0].length;
  return true;
}

// \(...\) and \[...\].
export function bracketed(writer) {
  const mark = writer.text[writer.at + 1];
  if (mark === "(") return delimited(writer, "\\(", "\\)", false);
  return mark === "[" && delimited(writer, "\\[", "\\]", true);
}

function delimited(writer, open, close, display) {
  const { text, at } = writer;
  const end = text.slice(at + 2, at + LONGEST).indexOf(close);
  if (end < 1) return false;
  const tex = text.slice(at + 2, at + 2 + end);
  if (!tex.trim()) return false;
  writer.push(formula(open + tex + close, tex, display));
  writer.at += end + 4;
  return true;
}

// ---- blocks ----

const BEGIN = /^ {0,3}(?:(\$\$|\\\[)|\\begin\{((?:equation|align|alignat|gather|multline|eqnarray|flalign|aligned|gathered|cases|matrix|[pbvBV]matrix)\*?)\})/;
const closer = ([, mark, name]) => (mark ? (mark === "$$" ? "$$" : "\\]") : `\\end{${name}}`);

export const beginsFormula = (line) => BEGIN.test(line);

// The first line after the formula that begins at line i. A blank line ends an unclosed one, wherever the text stops.
export function endOfFormula(lines, i) {
  const begin = BEGIN.exec(lines[i]);
  const close = closer(begin);
  for (let end = i; end < lines.length; ++end) {
    if (lines[end].trim() === "") return end;
    if (lines[end].includes(close, end === i ? begin[0].length : 0)) return end + 1;
  }
  return lines.length;
}

// The element of a block that is a formula, else null: it is unclosed, or has text after it.
export function formulaBlock(lines) {
  const begin = BEGIN.exec(lines[0]);
  if (!begin) return null;
  const close = closer(begin);
  const source = lines.join("\n").trim();
  const body = source.replace(/[.,;:]$/, "");
  const open = begin[1] ?? "";
  if (!body.endsWith(close) || body.indexOf(close, open.length || begin[0].trim().length) !== body.length - close.length) return null;
  const tex = begin[1] ? body.slice(open.length, -close.length) : body;
  if (!tex.trim()) return null;
  // A full stop after the formula belongs to the sentence.
  return formula(source, tex + (source.length > body.length ? `\\text{${source.at(-1)}}` : ""), true);
}
