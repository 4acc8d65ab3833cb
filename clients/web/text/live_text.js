// Renders a streaming answer. Only its last block is rebuilt, at most once per frame and less often the longer that
// takes; a code block only gets text appended. The cost per token does not grow with the answer.
import { growingCode } from "./code.js";
import { announce } from "../dom.js";
import { openFence, render, scan } from "./markdown.js";

const SMOOTH_MS = 34; // a change painted within this time is considered cheap
const PAUSES = 3; // after a slow update, wait this multiple of its duration

export class LiveText {
  #next = "";
  #text = ""; // the text rendered so far
  #settled = 0; // offset of the last block that may still change
  #open = []; // the elements after it, one or two
  #fence = null; // {code, have} if the last block is growing code
  #frame = 0;
  #notBefore = 0;
  #begun = 0; // start time of the change that the next frame paints

  // `container`: element of the answer; `told` is called after each change.
  constructor(container, told = () => {}) {
    this.container = container;
    this.told = told;
  }

  // Sets the current text. Cheap: it is rendered in the next frame.
  set(text) {
    this.#next = text;
    if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#onFrame(now));
  }

  // Renders the whole text at once; no more text may follow.
  finish() {
    cancelAnimationFrame(this.#frame);
    this.#frame = this.#begun = 0;
    this.#fence = null;
    this.#write(true);
  }

  stop() {
    cancelAnimationFrame(this.#frame);
  }

  #onFrame(now) {
    if (this.#begun) {
      // Runs in the frame after a change: layout and paint of the change are included.
      const spent = now - this.#begun;
      this.#begun = 0;
      if (spent > SMOOTH_MS) this.#notBefore = now + spent * PAUSES;
    }
    this.#frame = 0;
    if (this.#next === this.#text) return;
    if (now >= this.#notBefore) {
      this.#begun = now;
      this.#write(false);
      this.told();
    }
    this.#frame = requestAnimationFrame((next) => this.#onFrame(next));
  }

  #write(whole) {
    if (!this.#next.startsWith(this.#text)) {
      this.container.replaceChildren();
      this.#settled = 0;
      this.#open = [];
      this.#fence = null;
    }
    this.#text = this.#next;
    if (this.#fence && this.#growFence()) return;
    const offset = this.#settled;
    const blocks = scan(this.#text.slice(offset));
    for (const element of this.#open) element.remove();
    this.#open = [];
    this.#fence = null;
    for (const [i, block] of blocks.entries()) {
      const element = render(block.lines);
      this.container.append(element);
      const next = blocks[i + 1];
      // A block is final once the next block's first line is complete: "3" may become an item of a list that seemed to
      // end.
      const over = whole || (next && this.#text.includes("\n", offset + next.start));
      if (over && !this.#open.length) {
        announce(element.textContent.slice(0, 1000));
        this.#settled = offset + (next ? next.start : block.end);
      } else {
        this.#open.push(element);
        if (this.#open.length === 1) this.#watchFence(block);
      }
    }
  }

  #watchFence(block) {
    if (!openFence(block.lines) || block.lines.length < 2) return;
    const code = growingCode(this.#open[0]);
    if (code) this.#fence = { code, have: this.#settled + block.lines[0].length + 1 + code.textContent.length };
  }

  // Returns true if only lines of the same code block were added.
  #growFence() {
    const { code, have } = this.#fence;
    const more = this.#text.slice(have);
    // A possible closing fence needs the block scanner.
    if (/^[ \t]*[`~]/m.test(this.#text.slice(this.#text.lastIndexOf("\n", have - 1) + 1))) {
      this.#fence = null;
      return false;
    }
    // Appends a new text node rather than extending the old one, so that existing layout is kept.
    if (more) code.append(more);
    this.#fence.have += more.length;
    return true;
  }
}
