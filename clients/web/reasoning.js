// The reasoning in front of an answer: a block that can be folded, open while it streams. What its reader has folded or
// unfolded stays so.
import { el } from "./dom.js";
import { seconds } from "./format.js";

export class Reasoning {
  #text = "";
  #touched = false;

  constructor() {
    this.summary = el("summary", {}, "Thinking…");
    this.body = el("div", { class: "thoughts" });
    this.element = el("details", { class: "reasoning" }, this.summary, this.body);
    this.summary.addEventListener("click", () => { this.#touched = true; });
  }

  // The text so far. `ms`: how long it took, null while it streams or where that is not known; `open`: unless its reader
  // has chosen.
  set(text, { live, ms, open }) {
    // A text node more, not a longer one: a long text costs no more per piece than a short one.
    if (!text.startsWith(this.#text)) this.body.replaceChildren();
    const shown = text.startsWith(this.#text) ? this.#text.length : 0;
    if (text.length > shown) this.body.append(text.slice(shown));
    this.#text = text;
    const label = live ? "Thinking…" : ms ? `Thought for ${seconds(ms)}` : "Thoughts";
    if (this.summary.textContent !== label) this.summary.textContent = label;
    if (!this.#touched && this.element.open !== open) this.element.open = open;
  }
}
