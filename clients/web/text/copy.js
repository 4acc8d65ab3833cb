// Copying a selection: formulas become their TeX source, whole even if only a part is selected. Everything else is copied
// by the browser's rules.
import { el } from "../dom.js";

const formulaOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement)?.closest(".math[data-tex]");

// The selected text with sources for formulas; null if no formula is selected.
function selectedSource(selection) {
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0).cloneRange();
  const first = formulaOf(range.startContainer);
  const last = formulaOf(range.endContainer);
  if (first) range.setStartBefore(first);
  if (last) range.setEndAfter(last);
  const fragment = range.cloneContents();
  const formulas = fragment.querySelectorAll(".math[data-tex]");
  if (!formulas.length) return null;
  for (const formula of formulas) {
    const source = el("span", { class: "source" }, formula.dataset.tex);
    formula.replaceWith(...(formula.classList.contains("display") ? [el("div", {}, source)] : [source]));
  }
  // Layout yields the line ends.
  const box = el("div", { class: "copying" }, fragment);
  document.body.append(box);
  const text = box.innerText;
  box.remove();
  return text;
}

export function copySources(event) {
  const text = event.target.closest?.("input, textarea") ? null : selectedSource(getSelection());
  if (text === null) return;
  event.clipboardData.setData("text/plain", text);
  event.preventDefault();
}
