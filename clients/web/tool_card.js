// The result that a client sent for a tool call, as a card that is folded if it is long.
import { el } from "./dom.js";
import { size } from "./format.js";
import { icon } from "./icons.js";
import { t } from "./strings.js";

const SHORT = 300; // characters

export function toolResult({ text, tool }) {
  return el("details", { class: "result-card", open: text.length <= SHORT },
    el("summary", {}, icon("tool", 15), tool ? t("Result of {name}", { name: tool }) : t("Result of a tool"), el("span", { class: "size" }, size(text.length))),
    el("pre", { tabindex: "0", role: "group", "aria-label": t("Result") }, text));
}
