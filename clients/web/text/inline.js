// Inline Markdown as nodes: emphasis, code, links, line breaks. The text comes from a model and is treated as hostile:
// it becomes text nodes in a few kinds of elements, links may use http, https and mailto only, and images are not
// loaded (a URL could leak data). Every step looks back or ahead a bounded distance, so the work is linear in the text.
import { el } from "../dom.js";
import { reference } from "./footnotes.js";
import { bracketed, dollar } from "./math.js";

const MOST_OPEN = 16; // limit of open marks examined
const LONGEST_ADDRESS = 2000;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", "#39": "'" };
const WORD = /[\p{L}\p{N}_]/u;
const TAGS = { "*": "em", _: "em", "**": "strong", __: "strong", "~~": "del" };
// Any character that may start a construct ends the plain run.
const PLAIN = /[^\\`*_~[\]!<&\nhH$]+/y;

// The link's address if it is safe, else null.
export function safeAddress(text) {
  if (text.length > LONGEST_ADDRESS || !/^(https?:\/\/|mailto:)[^\s<>]+$/i.test(text)) return null;
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(address, children) {
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children);
}

class Writer {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.frames = [{ mark: null, nodes: [] }]; // open marks, outermost first
    this.buffer = "";
    this.noTicks = new Map(); // backtick run length -> no such run after this position
  }

  get top() {
    return this.frames[this.frames.length - 1];
  }

  flush() {
    if (this.buffer) this.top.nodes.push(document.createTextNode(this.buffer));
    this.buffer = "";
  }

  push(node) {
    this.flush();
    this.top.nodes.push(node);
  }

  open(mark) {
    if (this.frames.length > MOST_OPEN) {
      this.buffer += mark;
      return;
    }
    this.flush();
    this.frames.push({ mark, nodes: [] });
  }

  // Closes the innermost open mark of this kind; unclosed marks inside it become text.
  close(mark) {
    const index = this.frames.findLastIndex((frame) => frame.mark === mark);
    if (index < 1) return null;
    this.flush();
    while (this.frames.length > index + 1) this.flatten();
    return this.frames.pop().nodes;
  }

  flatten() {
    const { mark, nodes } = this.frames.pop();
    this.top.nodes.push(document.createTextNode(mark), ...nodes);
  }

  finish() {
    this.flush();
    while (this.frames.length > 1) this.flatten();
    const fragment = document.createDocumentFragment();
    for (const node of this.frames[0].nodes) fragment.appendChild(node);
    fragment.normalize();
    return fragment;
  }

  run() {
    const { text } = this;
    while (this.at < text.length) {
      PLAIN.lastIndex = this.at;
      const plain = PLAIN.exec(text);
      if (plain) {
        this.buffer += plain[0];
        this.at += plain[0].length;
        continue;
      }
      const c = text[this.at];
      const step = STEPS[c];
      if (!step || !step(this)) {
        this.buffer += c;
        ++this.at;
      }
    }
    return this.finish();
  }
}

function escape(writer) {
  if (bracketed(writer)) return true;
  const next = writer.text[writer.at + 1];
  if (next === "\n") {
    writer.push(el("br"));
  } else if (next !== undefined && /[!-/:-@[-`{-~]/.test(next)) {
    writer.buffer += next;
  } else {
    return false;
  }
  writer.at += 2;
  return true;
}

function code(writer) {
  const { text, at } = writer;
  let size = 1;
  while (text[at + size] === "`") ++size;
  const missing = writer.noTicks.get(size);
  let end = missing !== undefined && at >= missing ? -1 : at + size;
  while (end >= 0) {
    end = text.indexOf("`".repeat(size), end);
    if (end < 0) break;
    let run = size;
    while (text[end + run] === "`") ++run;
    if (run === size) break;
    end += run;
  }
  if (end < 0) {
    if (missing === undefined) writer.noTicks.set(size, at);
    writer.buffer += "`".repeat(size);
    writer.at += size;
    return true;
  }
  let inside = text.slice(at + size, end).replace(/\n/g, " ");
  if (inside.length > 2 && inside.startsWith(" ") && inside.endsWith(" ") && inside.trim()) inside = inside.slice(1, -1);
  writer.push(el("code", {}, inside));
  writer.at = end + size;
  return true;
}

function emphasis(writer) {
  const { text, at } = writer;
  const c = text[at];
  let size = 1;
  while (text[at + size] === c) ++size;
  const before = text[at - 1] ?? " ";
  const after = text[at + size] ?? " ";
  let opens = !/\s/.test(after);
  let closes = !/\s/.test(before);
  // snake_case is one word.
  if (c === "_" && WORD.test(before) && WORD.test(after)) opens = closes = false;
  writer.at += size;
  if ((c === "~" && size !== 2) || size > 3) {
    writer.buffer += c.repeat(size);
    return true;
  }
  let left = size;
  while (closes && left > 0) {
    // The innermost matching mark first, so that ***a*** nests.
    const fits = [c.repeat(2), c].filter((mark) => mark.length <= left && TAGS[mark]);
    const depth = (mark) => writer.frames.findLastIndex((frame) => frame.mark === mark);
    const mark = fits.sort((a, b) => depth(b) - depth(a))[0];
    if (!mark || depth(mark) < 1) break;
    if (writer.top.mark === mark && !writer.top.nodes.length && !writer.buffer) break; // empty content
    writer.push(el(TAGS[mark], {}, ...writer.close(mark)));
    left -= mark.length;
  }
  if (left === 0) return true;
  if (!opens) {
    writer.buffer += c.repeat(left);
    return true;
  }
  if (left >= 2) writer.open(c.repeat(2));
  if (left % 2) writer.open(c);
  return true;
}

function bracket(writer) {
  if (reference(writer)) return true;
  writer.open("[");
  ++writer.at;
  return true;
}

function picture(writer) {
  if (writer.text[writer.at + 1] !== "[") return false;
  writer.open("![");
  writer.at += 2;
  return true;
}

// `(address "title")` after a closing bracket.
const TARGET = /\(\s*(?:<([^<>\n]{0,2000})>|([^\s()<>]{0,2000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,2000}){0,4}))(?:\s+(?:"[^"\n]{0,500}"|'[^'\n]{0,500}'))?\s*\)/y;

function closeBracket(writer) {
  const index = writer.frames.findLastIndex((frame) => frame.mark === "[" || frame.mark === "![");
  if (index < 1) return false;
  TARGET.lastIndex = writer.at + 1;
  const target = TARGET.exec(writer.text);
  if (!target) {
    if (writer.frames.length === index + 1) {
      writer.flush();
      writer.flatten();
    }
    return false;
  }
  const { mark } = writer.frames[index];
  const nodes = writer.close(mark);
  const address = safeAddress(target[1] ?? target[2]);
  writer.at += 1 + target[0].length;
  if (!address) {
    // Unsafe address: the link text without a link.
    for (const node of nodes) writer.push(node);
  } else {
    // Nested links would be misleading.
    const flat = nodes.flatMap((node) => (node.nodeName === "A" ? [...node.childNodes] : [node]));
    writer.push(link(address, flat.length ? flat : [address]));
  }
  return true;
}

const ANGLE = /<(https?:\/\/[^\s<>]{1,2000}|mailto:[^\s<>]{1,300}|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8})>|<br\s?\/?>/iy;

function angle(writer) {
  ANGLE.lastIndex = writer.at;
  const found = ANGLE.exec(writer.text);
  if (!found) return false;
  writer.at += found[0].length;
  if (!found[1]) {
    writer.push(el("br"));
    return true;
  }
  const address = safeAddress(found[1].includes(":") ? found[1] : `mailto:${found[1]}`);
  if (address) writer.push(link(address, [found[1]]));
  else writer.buffer += found[0];
  return true;
}

const BARE = /https?:\/\/[^\s<>`*\\]{1,2000}/iy;

function bare(writer) {
  BARE.lastIndex = writer.at;
  const found = BARE.exec(writer.text);
  if (!found || WORD.test(writer.text[writer.at - 1] ?? " ")) return false;
  if (writer.frames.some((frame) => frame.mark === "[")) return false;
  let address = found[0].replace(/[.,;:!?'")\]}]+$/, (tail) => {
    // A closing bracket belongs to the one opened inside the address.
    return tail.startsWith(")") && found[0].includes("(") ? ")" : "";
  });
  const safe = safeAddress(address);
  if (!safe) return false;
  writer.push(link(safe, [address]));
  writer.at += address.length;
  return true;
}

function entity(writer) {
  const found = /^&(#39|[a-z]{2,4});/.exec(writer.text.slice(writer.at, writer.at + 8));
  if (!found || !(found[1] in ENTITIES)) return false;
  writer.buffer += ENTITIES[found[1]];
  writer.at += found[0].length;
  return true;
}

function lineEnd(writer) {
  if (writer.buffer.endsWith("  ")) {
    writer.buffer = writer.buffer.trimEnd();
    writer.push(el("br"));
  } else {
    writer.buffer += "\n";
  }
  ++writer.at;
  return true;
}

const STEPS = {
  "\\": escape, "`": code, "*": emphasis, _: emphasis, "~": emphasis, "[": bracket, "]": closeBracket, "!": picture,
  "<": angle, "&": entity, h: bare, H: bare, "\n": lineEnd, $: dollar,
};

export const inline = (text) => new Writer(text).run();
