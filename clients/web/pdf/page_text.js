// The text of a page: interprets the operators that show text and place it (ISO 32000-1, 9.4), in their order. A new
// place below or above begins a line, a gap is a space.
import { Font } from "./fonts.js";
import { END, Lexer, Name, nameOf, Operator } from "./lexer.js";

const DEEPEST_FORM = 8;
const MOST_OPERATORS = 2_000_000; // of a file
const SPACE_EM = 0.18, LINE_EM = 0.45, PARAGRAPH_EM = 1.6; // gaps, in units of the font's size
const SPACES = " \n\t\u00a0";
const UNIT = [1, 0, 0, 1, 0, 0];
const multiply = ([a, b, c, d, e, f], [A, B, C, D, E, F]) => [a * A + b * C, a * B + b * D, c * A + d * C, c * B + d * D, e * A + f * C + E, e * B + f * D + F];

export class TextReader {
  unreadable = 0; // codes without a known text
  #parts = [];
  #length = 0; // characters of the parts
  #end = "\n\n"; // the last part
  #fonts = new Map();
  #forms = new Set(); // that are being read: one cannot show itself
  #operators = 0;
  #last = null; // where the last text ended: {x, y, size}

  constructor(document, most) {
    this.document = document;
    this.most = most; // characters
  }

  get text() {
    return this.#parts.join("").replace(/[ \t]+\n/g, "\n").replace(/\n{3,}/g, "\n\n").trim();
  }

  get full() {
    return this.#length > this.most || this.#operators > MOST_OPERATORS;
  }

  async addPage({ contents, resources }) {
    const parts = this.document.get(contents);
    const all = [];
    for (const part of Array.isArray(parts) ? parts : [contents]) all.push(await this.document.bytesOf(part), Uint8Array.of(10));
    const bytes = new Uint8Array(await new Blob(all.filter(Boolean)).arrayBuffer());
    this.#last = null;
    this.#add("\n\n");
    await this.#run(bytes, this.document.dictionary(resources), UNIT, 0);
  }

  async #run(bytes, resources, matrix, depth) {
    const lexer = new Lexer(bytes), saved = [];
    let state = { matrix, font: null, size: 1, spacing: 0, wordSpacing: 0, scale: 1, leading: 0, rise: 0 };
    let line = UNIT, at = UNIT, held = [];
    const move = (x, y) => { at = line = multiply([1, 0, 0, 1, x, y], line); };
    const show = (string) => { at = this.#show(string, state, at); };
    const operators = {
      q: () => { if (saved.length < 200) saved.push({ ...state }); },
      Q: () => { state = saved.pop() ?? state; },
      cm: (...m) => { state.matrix = multiply(m, state.matrix); },
      BT: () => { at = line = UNIT; },
      Tc: (value) => { state.spacing = value; },
      Tw: (value) => { state.wordSpacing = value; },
      Tz: (value) => { state.scale = value / 100; },
      TL: (value) => { state.leading = value; },
      Td: move,
      TD: (x, y) => { state.leading = -y; move(x, y); },
      Tm: (...m) => { at = line = m; },
      "T*": () => move(0, -state.leading),
      Tj: show,
      "'": (string) => { move(0, -state.leading); show(string); },
      '"': (words, letters, string) => { state.wordSpacing = words; state.spacing = letters; move(0, -state.leading); show(string); },
      TJ: (items) => {
        for (const item of Array.isArray(items) ? items : []) {
          if (typeof item === "number") at = multiply([1, 0, 0, 1, -item / 1000 * state.size * state.scale, 0], at);
          else show(item);
        }
      },
    };
    const wanted = { cm: 6, Tm: 6, Td: 2, TD: 2, Tc: 1, Tw: 1, Tz: 1, TL: 1 };
    for (let value = lexer.next(false); value !== END && !this.full; value = lexer.next(false)) {
      if (!(value instanceof Operator)) {
        if (held.length < 100) held.push(value);
        continue;
      }
      ++this.#operators;
      const run = operators[value.text], numbers = wanted[value.text];
      if (value.text === "Tf" && held[0] instanceof Name) {
        state.font = await this.#font(resources, held[0].text);
        state.size = Number(held[1]) || 1;
      } else if (value.text === "Do" && depth < DEEPEST_FORM) {
        await this.#form(resources, nameOf(held[0]), state.matrix, depth);
      } else if (value.text === "ID") {
        skipImage(lexer);
      } else if (run && (!numbers || held.length >= numbers && held.slice(-numbers).every(Number.isFinite))) {
        run(...(numbers ? held.slice(-numbers) : held));
      }
      held = [];
    }
  }

  async #form(resources, name, matrix, depth) {
    const reference = this.document.dictionary(resources.get("XObject")).get(name), form = this.document.dictionary(reference);
    if (nameOf(this.document.get(form.get("Subtype"))) !== "Form" || this.#forms.has(form)) return;
    this.#forms.add(form);
    const own = this.document.get(form.get("Matrix")), bytes = await this.document.bytesOf(reference);
    const placed = Array.isArray(own) && own.length === 6 && own.every(Number.isFinite) ? multiply(own, matrix) : matrix;
    if (bytes) await this.#run(bytes, form.has("Resources") ? this.document.dictionary(form.get("Resources")) : resources, placed, depth + 1);
    this.#forms.delete(form);
  }

  async #font(resources, name) {
    const reference = this.document.dictionary(resources.get("Font")).get(name), key = this.document.dictionary(reference);
    if (!this.#fonts.has(key)) this.#fonts.set(key, await Font.open(this.document, reference));
    return this.#fonts.get(key);
  }

  // Appends a string; returns the text matrix after it.
  #show(string, state, at) {
    if (!(string instanceof Uint8Array) || !state.font) return at;
    const place = multiply(at, state.matrix), size = Math.hypot(place[2], place[3]) * state.size || 1;
    let width = 0;
    for (const { code, text, width: own } of state.font.codes(string)) {
      const begin = multiply([1, 0, 0, 1, width, 0], place);
      const gap = state.font.size === 1 && code === 32 ? state.wordSpacing : 0, advance = (own / 1000 * state.size + state.spacing + gap) * state.scale;
      width += advance;
      const end = multiply([1, 0, 0, 1, width, 0], place);
      if (text) this.#append(text, begin, end, size);
      else ++this.unreadable;
      if (this.full) break;
    }
    return multiply([1, 0, 0, 1, width, 0], at);
  }

  #append(text, begin, end, size) {
    const last = this.#last;
    if (last) {
      // Along and across the direction of the last line, so that turned text reads as well.
      const [dx, dy] = [begin[4] - last.x, begin[5] - last.y];
      const along = dx * last.cos + dy * last.sin, across = Math.abs(dy * last.cos - dx * last.sin), em = Math.max(size, last.size);
      // A word that a hyphen divides at the end of a line stays divided: the hyphen may be its own.
      if (across > LINE_EM * em || along < -em) this.#add(across > PARAGRAPH_EM * em ? "\n\n" : "\n");
      else if (along > SPACE_EM * em && !SPACES.includes(this.#end.at(-1)) && !SPACES.includes(text[0])) this.#add(" ");
    }
    const length = Math.hypot(begin[0], begin[1]) || 1;
    this.#last = { x: end[4], y: end[5], size, cos: begin[0] / length, sin: begin[1] / length };
    this.#add(text);
  }

  #add(text) {
    this.#parts.push(text);
    this.#length += text.length;
    this.#end = text;
  }
}

// An image inside the operators ends with EI between white space.
function skipImage(lexer) {
  const { bytes } = lexer, space = (c) => c === 10 || c === 13 || c === 32 || c === 9 || c === undefined;
  for (let at = lexer.at; (at = bytes.indexOf(69, at)) >= 0; ++at) {
    if (bytes[at + 1] !== 73 || !space(bytes[at - 1]) || !space(bytes[at + 2])) continue;
    lexer.at = at + 2;
    return;
  }
  lexer.at = bytes.length;
}
