// Native dialogs, which trap the focus and restore it.
import { el } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../strings.js";

export const dialogOpen = () => document.querySelector("dialog[open]") !== null;

// Shows a dialog and removes it when closed; resolves to its return value. `actions`: [{label, value, kind}]; `buttons`:
// elements before the one that closes it.
export function show(title, content, { className = "", actions = [], buttons = [] } = {}) {
  const close = el("button", { type: "button", class: "icon", "aria-label": t("Close"), onclick: () => dialog.close("") }, icon("close"));
  const dialog = el("dialog", { class: `dialog ${className}`, "aria-labelledby": "dialog-title" },
    el("header", {}, el("h2", { id: "dialog-title" }, title), el("div", { class: "buttons" }, ...buttons, close)), content,
    actions.length ? el("footer", {}, ...actions.map(({ label, value, kind, run }) =>
      el("button", { type: "button", class: `button ${kind ?? ""}`, onclick: run ?? (() => dialog.close(value)) }, label))) : null);
  document.body.append(dialog);
  // A click outside the dialog closes it.
  dialog.addEventListener("mousedown", (event) => event.target === dialog && dialog.close(""));
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    dialog.showModal();
    dialog.querySelector("[data-first]")?.focus();
  });
}

// Resolves to the text, or null. `known`: texts to choose from.
export async function askText(title, label, value, known = []) {
  const input = el("input", { type: "text", id: "ask", maxlength: "120", autocomplete: "off", autofocus: true, list: known.length ? "ask-known" : null });
  input.value = value;
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      input.closest("dialog").close("yes");
    }
  });
  const done = show(title, el("div", { class: "field" }, el("label", { for: "ask" }, label), input, known.length ? el("datalist", { id: "ask-known" }, ...known.map((text) => el("option", { value: text }))) : null), {
    className: "small", actions: [{ label: t("Cancel"), value: "" }, { label: t("Save"), value: "yes", kind: "primary" }],
  });
  input.select();
  return (await done) === "yes" ? input.value.trim() : null;
}
