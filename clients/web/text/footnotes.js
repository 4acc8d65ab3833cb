// Footnotes: [^1] refers to the note that a line "[^1]: text" defines. A note stays where it was written.
import { el } from "../dom.js";
import { t } from "../strings.js";
import { inline } from "./inline.js";

const NOTE = /^ {0,3}\[\^([A-Za-z0-9][\w-]{0,19})\]:[ \t]+/;
const REFERENCE = /\[\^([A-Za-z0-9][\w-]{0,19})\](?![(:])/y;

export const isNote = (line) => NOTE.test(line);

export function noteBlock(lines) {
  const [mark, label] = NOTE.exec(lines[0]);
  const text = [lines[0].slice(mark.length), ...lines.slice(1).map((line) => line.trimStart())].join("\n").trimEnd();
  return el("div", { class: "footnote", "data-note": label, tabindex: "-1" }, el("span", { class: "label" }, label), el("div", {}, inline(text)));
}

function showNote(event) {
  const button = event.currentTarget;
  const note = button.closest(".body")?.querySelector(`.footnote[data-note="${CSS.escape(button.textContent)}"]`);
  note?.scrollIntoView({ block: "nearest" });
  note?.focus({ preventScroll: true });
}

// A reference at the writer's position.
export function reference(writer) {
  REFERENCE.lastIndex = writer.at;
  const found = REFERENCE.exec(writer.text);
  if (!found) return false;
  writer.push(el("sup", {}, el("button", { type: "button", class: "reference", "aria-label": t("Footnote {name}", { name: found[1] }), onclick: showNote }, found[1])));
  writer.at += found[0].length;
  return true;
}
