// An answer while it is written. Only its last block is made again, at most once a frame and less often the longer that
// takes, and a block of code just gets more text: a long answer costs no more per token than a short one.
import { growingCode } from "./code.js";
import { announce } from "./dom.js";
import { openFence, render, scan } from "./markdown.js";

const SMOOTH_MS = 34; // a change that is on the screen within this is no burden
const PAUSES = 3; // after another one, so many times its time is left to everything else

export class LiveText {
  #next = "";
  #text = ""; // as far as it is shown
  #settled = 0; // offset of the last block that may still change
  #open = []; // the elements behind it, one or two
  #fence = null; // {code, have} where the last block is code that grows
  #frame = 0;
  #notBefore = 0;
  #begun = 0; // of the change that the next frame will show

  // `container` is the element of the answer; `told` is called after each change of it.
  constructor(container, told = () => {}) {
    this.container = container;
    this.told = told;
  }

  // The text as it is now. Cheap: it is looked at in the next frame.
  set(text) {
    this.#next = text;
    if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#onFrame(now));
  }

  // All of it, at once; nothing comes behind.
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
      // The frame behind a change: by now the browser has laid it out and painted it, too.
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
      // A block is over once the next one's first line is whole: "3" may become an item of a list that seemed to end.
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

  // True if nothing but more lines of the same code came.
  #growFence() {
    const { code, have } = this.#fence;
    const more = this.#text.slice(have);
    // A line that might become the fence's end is looked at by the scanner.
    if (/^[ \t]*[`~]/m.test(this.#text.slice(this.#text.lastIndexOf("\n", have - 1) + 1))) {
      this.#fence = null;
      return false;
    }
    // A text node more, not a longer one: what is there keeps its shape.
    if (more) code.append(more);
    this.#fence.have += more.length;
    return true;
  }
}
