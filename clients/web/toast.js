// A short report at the top of the messages, with at most one action; it disappears by itself.
import { byId, el } from "./dom.js";
import { icon } from "./icons.js";
import { t } from "./strings.js";

const SHOWN_MS = 8_000;
let current = null;

// `action`: {label, run}. `gone()` is called when the report disappears without its action. `stays`: until it is replaced.
export function toast(text, { action = null, gone = () => {}, stays = false } = {}) {
  current?.close();
  const close = (acted = false) => {
    if (current !== shown) return;
    current = null;
    clearTimeout(timer);
    element.remove();
    if (!acted) gone();
  };
  const element = el("div", { class: "toast" }, el("span", {}, text),
    action ? el("button", { type: "button", class: "button small", onclick: () => { close(true); action.run(); } }, action.label) : null,
    el("button", { type: "button", class: "icon quiet", "aria-label": t("Dismiss"), onclick: () => close() }, icon("close", 15)));
  const shown = (current = { close });
  const timer = stays ? 0 : setTimeout(close, SHOWN_MS);
  byId("toasts").append(element);
}
