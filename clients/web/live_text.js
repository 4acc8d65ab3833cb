// An answer while it is written. Only its last block is made again, at most once a frame and less often the longer that
// takes, and a block of code just gets more text: a long answer costs no more per token than a short one.
import { growingText } from "./code.js";
import { announce } from "./dom.js";
import { openFence, render, scan } from "./markdown.js";

const SHARE = 5; // of the time, one part at most is spent here

export class LiveText {
  #text = "";
  #settled = 0; // offset of the last block: what stands before it will not change
  #last = null; // its element
  #fence = null; // {node, length} where the last block is code that grows
  #frame = 0;
  #notBefore = 0;

  // `container` is the element of the answer; `told` is called after each change of it.
  constructor(container, told = () => {}) {
    this.container = container;
    this.told = told;
  }

  set(text) {
    if (!text.startsWith(this.#text)) {
      this.container.replaceChildren();
      this.#settled = 0;
      this.#last = this.#fence = null;
    }
    this.#text = text;
    if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#onFrame(now));
  }

  // All of it, at once; nothing comes behind.
  finish() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#fence = null;
    this.#write(true);
  }

  stop() {
    cancelAnimationFrame(this.#frame);
  }

  #onFrame(now) {
    if (now < this.#notBefore) {
      this.#frame = requestAnimationFrame((next) => this.#onFrame(next));
      return;
    }
    this.#frame = 0;
    const begun = performance.now();
    this.#write(false);
    this.told();
    this.#notBefore = now + (performance.now() - begun) * SHARE;
  }

  #write(whole) {
    if (this.#fence && this.#growFence()) return;
    const tail = this.#text.slice(this.#settled);
    const blocks = scan(tail);
    const offset = this.#settled;
    for (const [i, block] of blocks.entries()) {
      const element = render(block.lines);
      if (this.#last) this.#last.replaceWith(element);
      else this.container.append(element);
      this.#last = element;
      this.#fence = null;
      if (i + 1 < blocks.length) {
        this.#settle(element);
        this.#settled = offset + blocks[i + 1].start;
      } else if (whole) {
        this.#settle(element);
      } else {
        this.#settled = offset + block.start;
        this.#watchFence(block);
      }
    }
  }

  #settle(element) {
    announce(element.textContent.slice(0, 1000));
    this.#last = null;
  }

  #watchFence(block) {
    if (!openFence(block.lines) || block.lines.length < 2) return;
    const node = growingText(this.#last);
    if (node) this.#fence = { node, from: this.#settled + block.lines[0].length + 1 };
  }

  // True if nothing but more lines of the same code came.
  #growFence() {
    const { node, from } = this.#fence;
    const have = from + node.length;
    const more = this.#text.slice(have);
    // A line that might become the fence's end is looked at by the scanner.
    if (/^[ \t]*[`~]{1,}/m.test(this.#text.slice(this.#text.lastIndexOf("\n", have) + 1))) {
      this.#fence = null;
      return false;
    }
    node.appendData(more);
    return true;
  }
}
