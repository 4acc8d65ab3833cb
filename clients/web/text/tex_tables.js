// TeX's environments: matrices, cases and aligned equations, as MathML tables.
import { fence, node, TexError } from "./tex_parser.js";

const FENCES = { pmatrix: "()", bmatrix: "[]", Bmatrix: "{}", vmatrix: "||", Vmatrix: "‖‖", cases: ["{", ""], dcases: ["{", ""], rcases: ["", "}"] };
const PLAIN = new Set(["matrix", "smallmatrix", "gather", "gathered", "equation", "multline", "displaymath", "math"]);
const ALIGNED = new Set(["align", "aligned", "alignat", "alignedat", "split", "eqnarray", "flalign"]);
const DISPLAYED = /^(?:align|gather|equation|split|dcases|multline|eqnarray|flalign|displaymath)/;
const MOST_COLUMNS = 60;

// Rows of cells up to \end or the end of the source, which is not consumed.
function cells(tex, ends) {
  const rows = [[]];
  for (;;) {
    while (tex.accept("\\hline"));
    if (rows.at(-1).length >= MOST_COLUMNS) throw new TexError("too many columns");
    rows.at(-1).push(tex.list(["&", "\\\\", "\\cr", ...ends]));
    if (ends.includes(tex.peek())) break;
    if (tex.next() === "&") continue;
    tex.accept("*");
    if (tex.accept("[")) while (tex.peek() && tex.next() !== "]");
    rows.push([]);
  }
  // The last \\ may end the last row.
  if (rows.length > 1 && rows.at(-1).length === 1 && !rows.at(-1)[0].length) rows.pop();
  return rows;
}

function table(rows, { name, columns = () => "", display = false }) {
  return node("mtable", { class: name, displaystyle: String(display) }, ...rows.map((row) =>
    node("mtr", {}, ...row.map((nodes, i) => node("mtd", columns(i) ? { class: columns(i) } : {}, ...nodes)))));
}

// The whole source: several lines become rows.
export function lines(tex) {
  const rows = cells(tex, ["", "}", "\\end", "\\right"]);
  if (rows.some((row) => row.length > 1)) throw new TexError("& outside an environment");
  return rows.length === 1 ? rows[0][0] : [table(rows, { name: "gathered", display: true })];
}

function arrayColumns(specification) {
  if (!/^[lcr|\s]{1,60}$/.test(specification)) throw new TexError("unknown column specification");
  const columns = [];
  for (const letter of specification.replace(/\s/g, "")) {
    if (letter !== "|") columns.push({ l: "left", c: "", r: "right" }[letter]);
    else if (columns.length) columns.push(`${columns.pop()} ruled`.trim());
  }
  return (i) => columns[i] ?? "";
}

export function environment(tex) {
  const full = tex.raw();
  const name = full.replace(/\*$/, "");
  let columns = (i) => (ALIGNED.has(name) ? (i % 2 ? "left" : "right") : /cases$/.test(name) ? "left" : "");
  if (name === "array") columns = arrayColumns(tex.raw());
  else if (name.startsWith("alignat") || name === "alignedat") tex.raw();
  else if (!Object.hasOwn(FENCES, name) && !PLAIN.has(name) && !ALIGNED.has(name)) throw new TexError(`unknown environment ${full}`);
  const rows = cells(tex, ["\\end"]);
  tex.next();
  if (tex.raw() !== full) throw new TexError(`\\end{${full}} is missing`);
  // An operator that begins the right side of an equation is spaced as one between two terms.
  if (ALIGNED.has(name)) for (const row of rows) for (let i = 1; i < row.length; i += 2) row[i].unshift(node("mrow"));
  const content = table(rows, { name: ALIGNED.has(name) ? "aligned" : name, columns, display: DISPLAYED.test(name) });
  const marks = Object.hasOwn(FENCES, name) ? FENCES[name] : null;
  return marks ? node("mrow", {}, ...(marks[0] ? [fence(marks[0])] : []), content, ...(marks[1] ? [fence(marks[1])] : [])) : content;
}
