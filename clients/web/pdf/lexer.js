// PDF objects (ISO 32000-1, 7.2 and 7.3) from bytes. Names are `Name`, references `Ref`, dictionaries Map, strings
// Uint8Array, operators `Operator`; null, true, false and numbers are themselves.
export class Name {
  constructor(text) { this.text = text; }
}
export class Ref {
  constructor(number) { this.number = number; }
}
export class Operator {
  constructor(text) { this.text = text; }
}
export const END = new Operator("");
export const nameOf = (value) => value instanceof Name ? value.text : "";

const DEEPEST = 60;
const SPACE = new Set([0, 9, 10, 12, 13, 32]);
const DELIMITERS = new Set([..."()<>[]{}/%"].map((c) => c.charCodeAt(0)));
const ESCAPES = { n: 10, r: 13, t: 9, b: 8, f: 12 };
const WORDS = new Map([["true", true], ["false", false], ["null", null]]);
const NUMBER = /^[+-]*(\d+\.?\d*|\.\d+)/;
const hex = (c) => c >= 48 && c <= 57 ? c - 48 : c >= 65 && c <= 70 ? c - 55 : c >= 97 && c <= 102 ? c - 87 : -1;
const CLOSE_DICT = new Operator(">>"), CLOSE_ARRAY = new Operator("]");

export class Lexer {
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  // The next object, or an operator; END at the end. `refs`: "1 0 R" is a reference.
  next(refs = true, depth = 0) {
    const value = this.#token(refs, depth);
    if (!refs || !Number.isInteger(value) || value < 0) return value;
    const match = /^[\0\t\n\f\r ]+\d{1,5}[\0\t\n\f\r ]+R(?![^\0\t\n\f\r ()<>[\]{}/%])/.exec(this.text(this.at, 24));
    if (!match) return value;
    this.at += match[0].length;
    return new Ref(value);
  }

  text(at, size) {
    return String.fromCharCode(...this.bytes.subarray(at, at + size));
  }

  skipSpace() {
    for (;; ++this.at) {
      const c = this.bytes[this.at];
      if (c === 37) { // %: a comment
        while (this.at < this.bytes.length && this.bytes[this.at] !== 10 && this.bytes[this.at] !== 13) ++this.at;
      } else if (!SPACE.has(c)) {
        return;
      }
    }
  }

  #token(refs, depth) {
    this.skipSpace();
    if (this.at >= this.bytes.length || depth > DEEPEST) return END;
    const c = this.bytes[this.at], after = this.bytes[this.at + 1];
    if (c === 47) return this.#name();
    if (c === 40) return this.#string();
    if (c === 60) return after === 60 ? this.#dictionary(refs, depth) : this.#hexString();
    if (c === 91) return this.#array(refs, depth);
    if (c === 62 && after === 62) { this.at += 2; return CLOSE_DICT; }
    if (c === 93) { ++this.at; return CLOSE_ARRAY; }
    return this.#word();
  }

  #word() {
    const begin = this.at++;
    if (!DELIMITERS.has(this.bytes[begin])) {
      while (this.at < this.bytes.length && !SPACE.has(this.bytes[this.at]) && !DELIMITERS.has(this.bytes[this.at])) ++this.at;
    }
    const word = this.text(begin, Math.min(this.at - begin, 100));
    const number = NUMBER.exec(word);
    if (number) return (word.startsWith("-") ? -1 : 1) * Number(number[1]);
    return WORDS.has(word) ? WORDS.get(word) : new Operator(word);
  }

  #name() {
    const begin = ++this.at;
    while (this.at < this.bytes.length && !SPACE.has(this.bytes[this.at]) && !DELIMITERS.has(this.bytes[this.at])) ++this.at;
    const raw = this.text(begin, Math.min(this.at - begin, 200));
    return new Name(raw.replace(/#([0-9a-fA-F]{2})/g, (_, code) => String.fromCharCode(parseInt(code, 16))));
  }

  #string() {
    const out = [];
    let open = 1;
    for (++this.at; this.at < this.bytes.length; ++this.at) {
      let c = this.bytes[this.at];
      if (c === 40) ++open;
      if (c === 41 && --open === 0) break;
      if (c === 92) {
        c = this.#escaped();
        if (c < 0) continue;
      }
      out.push(c);
    }
    ++this.at;
    return Uint8Array.from(out);
  }

  // The byte of an escape sequence, or -1 for none; stops at its last byte.
  #escaped() {
    const c = this.bytes[++this.at];
    if (c === 13 && this.bytes[this.at + 1] === 10) ++this.at;
    if (c === 13 || c === 10) return -1;
    if (c < 48 || c > 55) return ESCAPES[String.fromCharCode(c)] ?? c ?? -1;
    let code = 0;
    for (let i = 0; i < 3 && this.bytes[this.at] >= 48 && this.bytes[this.at] <= 55; ++i) code = code * 8 + this.bytes[this.at++] - 48;
    --this.at;
    return code & 255;
  }

  #hexString() {
    const digits = [];
    for (++this.at; this.at < this.bytes.length && this.bytes[this.at] !== 62; ++this.at) {
      const digit = hex(this.bytes[this.at]);
      if (digit >= 0) digits.push(digit);
    }
    ++this.at;
    if (digits.length % 2) digits.push(0);
    return Uint8Array.from({ length: digits.length / 2 }, (_, i) => digits[2 * i] * 16 + digits[2 * i + 1]);
  }

  #array(refs, depth) {
    const items = [];
    ++this.at;
    for (let item = this.next(refs, depth + 1); item !== CLOSE_ARRAY && item !== END; item = this.next(refs, depth + 1)) items.push(item);
    return items;
  }

  #dictionary(refs, depth) {
    const entries = new Map();
    this.at += 2;
    for (;;) {
      const key = this.next(refs, depth + 1);
      if (key === CLOSE_DICT || key === END) return entries;
      if (!(key instanceof Name)) continue;
      const value = this.next(refs, depth + 1);
      if (value === CLOSE_DICT || value === END) return entries;
      entries.set(key.text, value);
    }
  }
}
