// Block-level Markdown as elements, for the subset that models write: headings, paragraphs, fenced code, lists, quotes,
// tables, rules, formulas, footnotes. Raw HTML is text. inline.js handles the content of a line.
//
// A growing text is parsed again from its last block only: `scan` returns where each block begins.
import { codeBlock } from "./code.js";
import { el } from "../dom.js";
import { icon } from "../icons.js";
import { isNote, noteBlock } from "./footnotes.js";
import { inline } from "./inline.js";
import { beginsFormula, endOfFormula, formulaBlock } from "./math.js";
import { isTable, table } from "./tables.js";
import { t } from "../strings.js";

const DEEPEST = 8; // nested quotes and lists; deeper ones become paragraphs

export const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)|$)/;
const blank = (line) => line.trim() === "";

function beginsBlock(lines, i) {
  const line = lines[i];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line) || isTable(lines, i) || beginsFormula(line) ||
    isNote(line);
}

// The first line after the block that begins at line i.
function endOf(lines, i, depth) {
  const line = lines[i];
  const fence = FENCE.exec(line);
  if (fence) {
    let end = i + 1;
    while (end < lines.length && !closes(lines[end], fence[2])) ++end;
    return Math.min(end + 1, lines.length);
  }
  if (HEADING.test(line) || RULE.test(line)) return i + 1;
  if (beginsFormula(line)) return endOfFormula(lines, i);
  let end = i + 1;
  if (QUOTE.test(line) && depth < DEEPEST) {
    while (end < lines.length && (QUOTE.test(lines[end]) || (!blank(lines[end]) && !beginsBlock(lines, end)))) ++end;
    return end;
  }
  const item = ITEM.exec(line);
  if (item && depth < DEEPEST) return endOfList(lines, i, item);
  if (isTable(lines, i)) {
    end = i + 2;
    while (end < lines.length && !blank(lines[end]) && lines[end].includes("|")) ++end;
    return end;
  }
  while (end < lines.length && !blank(lines[end]) && !(depth < DEEPEST && beginsBlock(lines, end))) ++end;
  return end;
}

// Whether the line closes a fence that was opened by `mark`.
export const closes = (line, mark) => {
  const found = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line);
  return found !== null && found[1][0] === mark[0] && found[1].length >= mark.length;
};

const indent = (line) => /^[ \t]*/.exec(line)[0].replace(/\t/g, "    ").length;
const kind = (marker) => (/\d/.test(marker) ? marker.at(-1) : marker);
// Column where an item's text begins.
const inset = (item) => item[1].length + item[2].length + (item[3] && item[3].length < 5 ? item[3].length : 1);

function endOfList(lines, i, first) {
  let end = i;
  let inside = inset(first);
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    const rule = RULE.test(lines[end]);
    if (item && !rule && kind(item[2]) === kind(first[2])) {
      inside = inset(item);
      const fence = FENCE.exec(lines[end].slice(inside));
      ++end;
      if (fence) end = skipFence(lines, end, fence[2], inside);
      continue;
    }
    if (blank(lines[end])) {
      let next = end + 1;
      while (next < lines.length && blank(lines[next])) ++next;
      const more = next < lines.length && (indent(lines[next]) >= Math.min(inside, 2) || ITEM.test(lines[next]));
      if (!more || (ITEM.test(lines[next]) && indent(lines[next]) < 2 && kind(ITEM.exec(lines[next])[2]) !== kind(first[2]))) return end;
      end = next;
      continue;
    }
    if (indent(lines[end]) >= Math.min(inside, 2)) {
      const fence = FENCE.exec(lines[end].trimStart());
      ++end;
      if (fence) end = skipFence(lines, end, fence[2], inside);
      continue;
    }
    // Lazy continuation: an unindented line continues the paragraph unless it begins another block.
    if (blank(lines[end - 1]) || beginsBlock(lines, end)) return end;
    ++end;
  }
  return end;
}

function skipFence(lines, i, mark, inside) {
  while (i < lines.length && !closes(lines[i].slice(Math.min(inside, indent(lines[i]))), mark)) {
    if (!blank(lines[i]) && indent(lines[i]) < 2) return i;
    ++i;
  }
  return Math.min(i + 1, lines.length);
}

// The blocks of a text: [{start, end, lines}], as offsets.
export function scan(text, depth = 0) {
  const lines = text.split("\n");
  const offsets = [0];
  for (const line of lines) offsets.push(offsets.at(-1) + line.length + 1);
  const blocks = [];
  for (let i = 0; i < lines.length; ) {
    if (blank(lines[i])) {
      ++i;
      continue;
    }
    const end = endOf(lines, i, depth);
    blocks.push({ start: offsets[i], end: Math.min(offsets[end], text.length), lines: lines.slice(i, end) });
    i = end;
  }
  return blocks;
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const ordered = /\d/.test(first[2]);
  const groups = []; // lines of each item, unindented
  let inside = 0;
  let loose = false;
  for (const [i, line] of lines.entries()) {
    const item = ITEM.exec(line);
    if (item && (i === 0 || indent(line) < Math.max(2, inside)) && kind(item[2]) === kind(first[2])) {
      inside = inset(item);
      groups.push([line.slice(inside)]);
      if (i > 0 && blank(lines[i - 1])) loose = true;
    } else {
      groups.at(-1).push(line.replace(/\t/g, "    ").slice(Math.min(inside, indent(line))));
    }
  }
  const items = groups.map((group) => {
    const task = /^\[([ xX])\][ \t]+/.exec(group[0]);
    if (task) group[0] = group[0].slice(task[0].length);
    const item = el("li", { class: task && "task" });
    if (task) item.append(el("span", { class: task[1] === " " ? "tick" : "tick ticked", role: "img", "aria-label": task[1] === " " ? t("to do") : t("done") },
      task[1] === " " ? null : icon("check", 11)));
    for (const block of scan(group.join("\n"), depth + 1)) item.append(render(block.lines, depth + 1, !loose));
    return item;
  });
  const start = ordered ? Number.parseInt(first[2], 10) : 1;
  return el(ordered ? "ol" : "ul", { start: ordered && start !== 1 && start }, ...items);
}

// Renders one block. `tight`: paragraphs of a tight list.
export function render(lines, depth = 0, tight = false) {
  const line = lines[0];
  const fence = FENCE.exec(line);
  if (fence) {
    const closed = lines.length > 1 && closes(lines.at(-1), fence[2]);
    const body = lines.slice(1, closed ? -1 : undefined).map((text) => text.slice(Math.min(fence[1].length, indent(text))));
    return codeBlock(fence[3].trim(), body.join("\n"), closed);
  }
  const heading = HEADING.exec(line);
  // Models start at level 1 or 2; those levels belong to the page.
  if (heading) return el(`h${Math.max(3, Math.min(6, heading[1].length + 1))}`, {}, inline(heading[2] ?? ""));
  if (RULE.test(line)) return el("hr");
  if (depth < DEEPEST && QUOTE.test(line)) {
    const inner = lines.map((text) => text.replace(QUOTE, "")).join("\n");
    return el("blockquote", {}, ...scan(inner, depth + 1).map((block) => render(block.lines, depth + 1)));
  }
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, depth);
  if (isTable(lines, 0)) return table(lines);
  if (isNote(line)) return noteBlock(lines);
  const math = formulaBlock(lines);
  if (math) return math;
  const text = inline(lines.map((part) => part.trimStart()).join("\n").trimEnd());
  if (!tight) return el("p", {}, text);
  return el("span", { class: "tight" }, text);
}

// Renders a complete text.
export function markdown(text) {
  const fragment = document.createDocumentFragment();
  for (const block of scan(text)) fragment.append(render(block.lines));
  return fragment;
}

// Whether the block is an unclosed code fence.
export function openFence(lines) {
  const fence = FENCE.exec(lines[0]);
  return fence !== null && !(lines.length > 1 && closes(lines.at(-1), fence[2]));
}
