// A strict subset of TeX's mathematics as MathML nodes. Anything outside the subset throws a TexError, and the caller shows
// the source. No macros, no commands with effects beyond their place. Linear in the source; depth and length are bounded.
import { environment, lines } from "./tex_tables.js";
import {
  ACCENTS, ACCENTS_BELOW, BIG, DELIMITERS, FUNCTIONS, inAlphabet, INTEGRALS, isAlphabet, LETTERS, LIMIT_FUNCTIONS, OPERATORS, SIGNS, SIZES, SPACES, WIDE,
} from "./tex_symbols.js";

const LONGEST = 10_000;
const DEEPEST = 40;
const NAMESPACE = "http://www.w3.org/1998/Math/MathML";

export class TexError extends Error {}

export function node(name, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export const row = (nodes) => (nodes.length === 1 ? nodes[0] : node("mrow", {}, ...nodes));
export const fence = (mark) => node("mo", { fence: "true", stretchy: "true", symmetric: "true" }, mark);
const space = (em) => node("mspace", { width: `${em}em` });
const plain = (mark) => node("mo", { stretchy: "false", lspace: "0", rspace: "0" }, mark);

export class Tex {
  #at = 0;
  #depth = 0;
  #alphabet = "";
  #stacked = new WeakSet(); // nodes whose scripts are placed above and below

  constructor(source) {
    if (source.length > LONGEST) throw new TexError("too long");
    this.source = source;
  }

  // ---- tokens: "\name", or one character; "" at the end ----

  peek() {
    const skipped = /(?:\s+|%[^\n]*(?:\n|$))*/y;
    skipped.lastIndex = this.#at;
    this.#at += skipped.exec(this.source)[0].length;
    const token = /\\(?:[A-Za-z]+|[^])|[^]/uy;
    token.lastIndex = this.#at;
    return token.exec(this.source)?.[0] ?? "";
  }

  next() {
    const token = this.peek();
    this.#at += token.length;
    return token;
  }

  accept(token) {
    if (this.peek() !== token) return false;
    this.next();
    return true;
  }

  expect(token) {
    if (!this.accept(token)) throw new TexError(`${token} is missing`);
  }

  // The text of a group in braces, unread.
  raw() {
    this.expect("{");
    const begin = this.#at;
    for (let depth = 1; depth > 0; ++this.#at) {
      const mark = this.source[this.#at];
      if (mark === undefined) throw new TexError("} is missing");
      if (mark === "\\") ++this.#at;
      else if (mark === "{") ++depth;
      else if (mark === "}") --depth;
    }
    return this.source.slice(begin, this.#at - 1);
  }

  // ---- structure ----

  whole() {
    const nodes = lines(this);
    if (this.peek()) throw new TexError("unexpected end of a group");
    return nodes;
  }

  // Nodes up to one of these tokens, which is not consumed.
  list(ends) {
    if (++this.#depth > DEEPEST) throw new TexError("too deep");
    const nodes = [];
    for (let token = this.peek(); !ends.includes(token); token = this.peek()) {
      if (!token) throw new TexError(`${ends[0]} is missing`);
      const style = STYLES[token];
      if (style) {
        this.next();
        nodes.push(node("mstyle", style, ...this.list(ends)));
      } else {
        nodes.push(this.#scripted());
      }
    }
    --this.#depth;
    return nodes;
  }

  // A group, or a single token with its own arguments.
  argument() {
    if (this.accept("{")) {
      const nodes = this.list(["}"]);
      this.next();
      return row(nodes);
    }
    return this.#atom(true);
  }

  option() {
    if (!this.accept("[")) return null;
    const nodes = this.list(["]"]);
    this.next();
    return row(nodes);
  }

  delimiter() {
    const mark = DELIMITERS.get(this.next());
    if (mark === undefined) throw new TexError("not a delimiter");
    return mark;
  }

  stack(element) {
    this.#stacked.add(element);
    return element;
  }

  withAlphabet(alphabet) {
    const outer = this.#alphabet;
    this.#alphabet = alphabet;
    const content = this.argument();
    this.#alphabet = outer;
    return content;
  }

  #scripted() {
    const token = this.peek();
    const base = token === "^" || token === "_" || token === "'" ? node("mrow") : this.#atom(false);
    let stacked = this.#stacked.has(base);
    let under = null, over = null;
    const primes = [];
    for (;;) {
      if (this.accept("\\limits")) stacked = true;
      else if (this.accept("\\nolimits")) stacked = false;
      else if (!over && this.accept("'")) primes.push("′");
      else if (!under && this.accept("_")) under = this.argument();
      else if (!over && this.accept("^")) over = this.argument();
      else break;
    }
    if (/^[_^']$/.test(this.peek())) throw new TexError("two scripts in one place");
    if (primes.length) over = row([node("mo", { lspace: "0", rspace: "0" }, primes.join("")), ...(over ? [over] : [])]);
    if (under && over) return node(stacked ? "munderover" : "msubsup", {}, base, under, over);
    if (under) return node(stacked ? "munder" : "msub", {}, base, under);
    if (over) return node(stacked ? "mover" : "msup", {}, base, over);
    return base;
  }

  // `single`: digits and letters one by one, as an argument without braces.
  #atom(single) {
    const token = this.next();
    if (token.length > 1 && token[0] === "\\") return this.#command(token.slice(1));
    if (token === "{") {
      const nodes = this.list(["}"]);
      this.next();
      return node("mrow", {}, ...nodes);
    }
    if (/[0-9]/.test(token)) return this.#number(token, single);
    if (/[A-Za-z]/.test(token)) return this.#letter(token, single);
    if (token in MARKS) return MARKS[token]();
    if (/\p{L}/u.test(token)) return node(token < "\u2e80" ? "mi" : "mtext", {}, token);
    if (/[\p{S}\p{P}]/u.test(token) && !/[#$&^_{}\\]/.test(token)) return node("mo", {}, token);
    throw new TexError(`unexpected ${token || "end"}`);
  }

  #number(digit, single) {
    const more = /[0-9]*(?:,[0-9]{3}(?![0-9]))*(?:\.[0-9]+)?/y;
    more.lastIndex = this.#at;
    const rest = single ? "" : more.exec(this.source)[0];
    this.#at += rest.length;
    const digits = digit + rest;
    return node("mn", {}, isAlphabet(this.#alphabet) ? [...digits].map((one) => inAlphabet(this.#alphabet, one)).join("") : digits);
  }

  #letter(letter, single) {
    if (isAlphabet(this.#alphabet)) return node("mi", { mathvariant: "normal" }, inAlphabet(this.#alphabet, letter));
    if (!this.#alphabet) return node("mi", {}, letter);
    const more = /[A-Za-z]*/y;
    more.lastIndex = this.#at;
    const rest = single ? "" : more.exec(this.source)[0];
    this.#at += rest.length;
    return node("mi", this.#alphabet === "mathit" ? { class: "italic" } : { mathvariant: "normal" }, letter + rest);
  }

  #command(name) {
    if (LETTERS.has(name)) {
      const letter = LETTERS.get(name);
      return isAlphabet(this.#alphabet) ? node("mi", { mathvariant: "normal" }, inAlphabet(this.#alphabet, letter)) : node("mi", {}, letter);
    }
    if (SIGNS.has(name)) return node("mi", { mathvariant: "normal" }, SIGNS.get(name));
    if (OPERATORS.has(name)) return node("mo", { stretchy: "false" }, OPERATORS.get(name));
    if (BIG.has(name)) return this.stack(node("mo", { movablelimits: "true" }, BIG.get(name)));
    if (INTEGRALS.has(name)) return node("mo", {}, INTEGRALS.get(name));
    if (FUNCTIONS.has(name)) return this.namedFunction(name, false);
    if (LIMIT_FUNCTIONS.has(name)) return this.namedFunction(LIMIT_FUNCTIONS.get(name), true);
    if (SPACES.has(name)) return space(SPACES.get(name));
    if (SIZES.has(name)) return node("mo", { fence: "true", stretchy: "true", symmetric: "true", minsize: SIZES.get(name), maxsize: SIZES.get(name) }, this.delimiter());
    if (DELIMITERS.has(`\\${name}`)) return plain(DELIMITERS.get(`\\${name}`));
    if (ACCENTS.has(name)) return this.#accent("mover", name, ACCENTS.get(name));
    if (ACCENTS_BELOW.has(name)) return this.#accent("munder", name, ACCENTS_BELOW.get(name));
    if (isAlphabet(name) && !name.startsWith("text")) return this.withAlphabet(name);
    const run = Object.hasOwn(COMMANDS, name) && COMMANDS[name];
    if (!run) throw new TexError(`unknown command \\${name}`);
    return run(this, name);
  }

  namedFunction(name, limits) {
    const close = /^[([]$|^\\left$/.test(this.peek());
    const element = node("mo", { form: "prefix", stretchy: "false", movablelimits: String(limits), lspace: "0.1667em", rspace: close ? "0" : "0.1667em" }, name.replace(/ /g, "\u00a0"));
    return limits ? this.stack(element) : element;
  }

  #accent(place, name, mark) {
    const wide = WIDE.has(name);
    const accented = node(place, { [place === "mover" ? "accent" : "accentunder"]: "true" }, this.argument(), node("mo", { stretchy: String(wide) }, mark));
    return name.endsWith("brace") ? this.stack(accented) : accented;
  }
}

const STYLES = {
  "\\displaystyle": { displaystyle: "true", scriptlevel: "0" }, "\\textstyle": { displaystyle: "false", scriptlevel: "0" },
  "\\scriptstyle": { displaystyle: "false", scriptlevel: "1" }, "\\scriptscriptstyle": { displaystyle: "false", scriptlevel: "2" },
};

const MARKS = {
  "-": () => node("mo", {}, "−"), "*": () => node("mo", {}, "∗"), "/": () => plain("/"), ":": () => node("mo", {}, ":"), "~": () => space(0.3333),
  "(": () => plain("("), ")": () => plain(")"), "[": () => plain("["), "]": () => plain("]"), "|": () => plain("|"),
  ",": () => node("mo", { separator: "true" }, ","), ";": () => node("mo", { separator: "true" }, ";"), ".": () => node("mi", { mathvariant: "normal" }, "."),
  "!": () => node("mo", { form: "postfix", lspace: "0", rspace: "0" }, "!"),
};

const fraction = (style, attributes = {}) => (tex) => {
  const content = node("mfrac", attributes, tex.argument(), tex.argument());
  return style === null ? content : node("mstyle", { displaystyle: String(style), scriptlevel: "0" }, content);
};
const binomial = (style) => (tex) => node("mrow", {}, fence("("), fraction(style, { linethickness: "0" })(tex), fence(")"));
const over = (place) => (tex) => {
  const script = tex.argument();
  return node(place, {}, tex.argument(), script);
};

// The text of \text{...}; $...$ in it is mathematics again.
function text(tex, name) {
  const nodes = [];
  for (const [i, part] of tex.raw().split("$").entries()) {
    if (i % 2) nodes.push(...new Tex(part).whole());
    else if (part) nodes.push(node("mtext", TEXT_STYLES[name] ?? {}, part.replace(/\\([%$_{}&# ])/g, "$1").replace(/\s+|~/g, "\u00a0")));
    if (i % 2 === 0 && /\\(?![%$_{}&# ])/.test(part)) throw new TexError("a command in a text");
  }
  return node("mrow", {}, ...nodes);
}
const TEXT_STYLES = { textbf: { class: "bold" }, textit: { class: "italic" }, emph: { class: "italic" }, texttt: { class: "mono" } };

function leftRight(tex) {
  const nodes = [fence(tex.delimiter())];
  for (;;) {
    nodes.push(...tex.list(["\\right", "\\middle"]));
    const middle = tex.next() === "\\middle";
    nodes.push(fence(tex.delimiter()));
    if (!middle) return node("mrow", {}, ...nodes);
  }
}

function width(text) {
  const found = /^\s*(-?\d{1,2}(?:\.\d{1,4})?)\s*(em|ex|mu|pt|mm|cm)\s*$/.exec(text);
  if (!found) throw new TexError("not a width");
  return Number(found[1]) * { em: 1, ex: 0.43, mu: 1 / 18, pt: 0.1, mm: 0.28, cm: 2.8 }[found[2]];
}

function negated(tex) {
  const element = tex.argument();
  if (element.children.length) throw new TexError("\\not needs a symbol");
  element.textContent += "\u0338";
  return element;
}

function arrow(mark) {
  return (tex) => {
    const below = tex.option();
    const above = tex.argument();
    const base = node("mo", { stretchy: "true", minsize: "2em" }, mark);
    return below ? node("munderover", {}, base, below, above) : node("mover", {}, base, above);
  };
}

const mod = (tex) => [node("mo", { form: "prefix", lspace: "0", rspace: "0.3em" }, "mod"), tex.argument()];

const COMMANDS = {
  frac: fraction(null), dfrac: fraction(true), cfrac: fraction(true), tfrac: fraction(false), binom: binomial(null), dbinom: binomial(true), tbinom: binomial(false),
  sqrt: (tex) => {
    const degree = tex.option();
    return degree ? node("mroot", {}, tex.argument(), degree) : node("msqrt", {}, tex.argument());
  },
  left: leftRight, begin: environment, text, textrm: text, textbf: text, textit: text, texttt: text, textsf: text, textnormal: text, mbox: text, emph: text,
  mathrm: (tex) => tex.withAlphabet("mathrm"), mathit: (tex) => tex.withAlphabet("mathit"), mathnormal: (tex) => tex.withAlphabet(""),
  operatorname: (tex) => {
    const limits = tex.accept("*");
    const name = tex.raw();
    if (!/^[\p{L}\p{N} .-]+$/u.test(name)) throw new TexError("not a name");
    return tex.namedFunction(name, limits);
  },
  overset: over("mover"), stackrel: over("mover"), underset: over("munder"), xrightarrow: arrow("→"), xleftarrow: arrow("←"),
  boxed: (tex) => node("mrow", { class: "boxed" }, tex.argument()), phantom: (tex) => node("mphantom", {}, tex.argument()),
  mathop: (tex) => tex.stack(tex.argument()), mathbin: (tex) => tex.argument(), mathrel: (tex) => tex.argument(), mathord: (tex) => tex.argument(),
  hspace: (tex) => space(width(tex.raw())), mspace: (tex) => space(width(tex.raw())), not: negated,
  bmod: () => node("mo", { lspace: "0.25em", rspace: "0.25em" }, "mod"), mod: (tex) => node("mrow", {}, space(1), ...mod(tex)),
  pmod: (tex) => node("mrow", {}, space(1), plain("("), ...mod(tex), plain(")")),
  tag: (tex) => node("mtext", { class: "tag" }, `(${tex.raw()})`), label: (tex) => (tex.raw(), node("mrow")), nonumber: () => node("mrow"), notag: () => node("mrow"),
};
