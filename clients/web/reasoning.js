// The reasoning before an answer: a collapsible block, open while it streams. A reader's choice to fold or unfold it is
// kept.
import { el } from "./dom.js";
import { seconds } from "./format.js";
import { t } from "./strings.js";

export class Reasoning {
  #text = "";
  #touched = false;

  constructor() {
    this.summary = el("summary", {}, t("Thinking…"));
    this.body = el("div", { class: "thoughts" });
    this.element = el("details", { class: "reasoning" }, this.summary, this.body);
    this.summary.addEventListener("click", () => { this.#touched = true; });
  }

  // Sets the current text. `ms`: duration, null while streaming or if unknown; `open`: default state, unless the reader
  // has chosen.
  set(text, { live, ms, open }) {
    // Appends a new text node rather than extending the old one: the cost per piece does not grow with the text.
    if (!text.startsWith(this.#text)) this.body.replaceChildren();
    const shown = text.startsWith(this.#text) ? this.#text.length : 0;
    if (text.length > shown) this.body.append(text.slice(shown));
    this.#text = text;
    const label = live ? t("Thinking…") : ms ? t("Thought for {time}", { time: seconds(ms) }) : t("Thoughts");
    if (this.summary.textContent !== label) this.summary.textContent = label;
    if (!this.#touched && this.element.open !== open) this.element.open = open;
  }
}
