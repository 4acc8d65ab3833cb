// Tables of pipes. A column of short texts does not wrap, one of long texts keeps a readable width, and a table wider than
// its message scrolls: nothing is broken inside a word or a number.
import { el } from "../dom.js";
import { inline } from "./inline.js";
import { t } from "../strings.js";

const SHORT = 14; // characters of the longest cell in a column that does not wrap
const LONG = 36;

const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

export function isTable(lines, i) {
  return i + 1 < lines.length && lines[i].includes("|") && lines[i + 1].includes("-") && DELIMITERS.test(lines[i + 1]) &&
    cells(lines[i]).length === cells(lines[i + 1]).length;
}

function cells(line) {
  const row = line.trim().replace(/^\|/, "");
  const out = [];
  let cell = "";
  for (let i = 0; i < row.length; ++i) {
    if (row[i] === "\\" && row[i + 1] === "|") {
      cell += "|";
      ++i;
    } else if (row[i] === "|") {
      out.push(cell.trim());
      cell = "";
    } else {
      cell += row[i];
    }
  }
  if (cell.trim()) out.push(cell.trim());
  return out;
}

export function table(lines) {
  const aligns = cells(lines[1]).map((cell) =>
    cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : cell.startsWith(":") ? "left" : null,
  );
  const rows = [lines[0], ...lines.slice(2)].map(cells);
  const kinds = aligns.map((align, i) => {
    const longest = Math.max(...rows.map((texts) => (texts[i] ?? "").length));
    return [longest > LONG ? "long" : longest > SHORT ? "middle" : "short", align && `align-${align}`].filter(Boolean).join(" ");
  });
  const row = (texts, name) =>
    el("tr", {}, ...kinds.map((kind, i) => el(name, { class: kind, scope: name === "th" && "col" }, inline(texts[i] ?? ""))));
  return el("div", { class: "table", tabindex: "0", role: "group", "aria-label": t("Table") },
    el("table", {}, el("thead", {}, row(rows[0], "th")), el("tbody", {}, ...rows.slice(1).map((texts) => row(texts, "td")))));
}
