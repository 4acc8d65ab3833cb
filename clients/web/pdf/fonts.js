// Fonts of a PDF: the codes of a string, with their texts and widths (ISO 32000-1, 9.6 to 9.10).
import { encodedText, glyphText } from "./glyph_names.js";
import { END, Lexer, Name, nameOf, Operator } from "./lexer.js";

const MOST_CODES = 200_000; // of a font's tables, repeated ones counted
const numberOf = (bytes) => bytes.reduce((sum, byte) => sum * 256 + byte, 0);
const utf16 = (bytes) => {
  let text = "";
  for (let i = 0; i + 1 < bytes.length; i += 2) text += String.fromCharCode(bytes[i] << 8 | bytes[i + 1]);
  return text;
};
const advanced = (text, by) => text ? text.slice(0, -1) + String.fromCharCode(text.charCodeAt(text.length - 1) + by) : "";

// Reads a ToUnicode table: {texts: code -> text, sizes: set of the bytes of a code}.
function readTexts(bytes) {
  const texts = new Map(), sizes = new Set(), lexer = new Lexer(bytes);
  let held = [], left = MOST_CODES;
  const put = (code, text) => { if (--left > 0) texts.set(code, text); };
  for (let value = lexer.next(false); value !== END; value = lexer.next(false)) {
    if (!(value instanceof Operator)) {
      held.push(value);
      continue;
    }
    const isBytes = (item) => item instanceof Uint8Array;
    if (value.text === "endcodespacerange") for (const item of held.filter(isBytes)) sizes.add(item.length);
    if (value.text === "endbfchar") {
      for (let i = 0; i + 1 < held.length; i += 2) if (isBytes(held[i]) && isBytes(held[i + 1])) put(numberOf(held[i]), utf16(held[i + 1]));
    }
    if (value.text === "endbfrange") {
      for (let i = 0; i + 2 < held.length; i += 3) {
        if (!isBytes(held[i]) || !isBytes(held[i + 1])) continue;
        const first = numberOf(held[i]), last = Math.min(numberOf(held[i + 1]), first + 0xffff), to = held[i + 2];
        for (let code = first; code <= last && left > 0; ++code) {
          put(code, Array.isArray(to) ? isBytes(to[code - first]) ? utf16(to[code - first]) : "" : isBytes(to) ? advanced(utf16(to), code - first) : "");
        }
      }
    }
    held = [];
  }
  return { texts, sizes };
}

// The widths of a composite font: code -> thousandths of an em.
function readWideWidths(document, list) {
  const widths = new Map();
  let left = MOST_CODES;
  for (let i = 0; Array.isArray(list) && i + 1 < list.length && left > 0; ) {
    const first = document.get(list[i]), next = document.get(list[i + 1]);
    if (Array.isArray(next)) {
      for (const [k, width] of next.entries()) widths.set(first + k, Number(document.get(width)));
      left -= next.length + 1;
      i += 2;
    } else {
      for (let code = first; code <= Math.min(next, first + 0xffff) && --left > 0; ++code) widths.set(code, Number(document.get(list[i + 2])));
      --left;
      i += 3;
    }
  }
  return widths;
}

export class Font {
  static async open(document, reference) {
    const font = new Font(), dictionary = document.dictionary(reference);
    font.wide = nameOf(document.get(dictionary.get("Subtype"))) === "Type0";
    const table = await document.bytesOf(dictionary.get("ToUnicode"));
    const { texts, sizes } = table ? readTexts(table) : { texts: new Map(), sizes: new Set() };
    font.texts = texts;
    font.size = font.wide ? sizes.has(2) || !sizes.has(1) ? 2 : 1 : 1;
    if (font.wide) font.#openWide(document, dictionary);
    else font.#openSimple(document, dictionary);
    return font;
  }

  // {text, width} of each code of a string. A text is "" for a code without a known text.
  *codes(bytes) {
    for (let i = 0; i + this.size <= bytes.length; i += this.size) {
      const code = this.size === 2 ? bytes[i] << 8 | bytes[i + 1] : bytes[i];
      yield { code, text: this.texts.get(code) ?? this.#named(code), width: this.widths.get(code) ?? this.usual };
    }
  }

  #named(code) {
    return this.wide ? this.unicode ? String.fromCharCode(code) : "" : this.names.get(code) ?? encodedText(this.encoding, code);
  }

  #openWide(document, dictionary) {
    const [descendant] = document.get(dictionary.get("DescendantFonts")) ?? [], inner = document.dictionary(descendant);
    this.unicode = /^Uni.*(UCS2|UTF16)/.test(nameOf(document.get(dictionary.get("Encoding"))));
    this.widths = readWideWidths(document, document.get(inner.get("W")));
    this.usual = Number(document.get(inner.get("DW")) ?? 1000);
  }

  #openSimple(document, dictionary) {
    const encoding = document.get(dictionary.get("Encoding")), differences = document.dictionary(encoding);
    this.encoding = encoding instanceof Name ? encoding.text : nameOf(document.get(differences.get("BaseEncoding"))) || "";
    this.names = new Map();
    let code = 0;
    for (const item of (document.get(differences.get("Differences")) ?? []).slice?.(0, MOST_CODES) ?? []) {
      if (typeof item === "number") code = item;
      else if (item instanceof Name) this.names.set(code++, glyphText(item.text));
    }
    const first = Number(document.get(dictionary.get("FirstChar"))) || 0, widths = document.get(dictionary.get("Widths"));
    // The widths of a Type 3 font are in its own space.
    const matrix = document.get(dictionary.get("FontMatrix")), scale = Array.isArray(matrix) ? Math.abs(Number(document.get(matrix[0]))) * 1000 || 1 : 1;
    this.widths = new Map((Array.isArray(widths) ? widths : []).map((width, i) => [first + i, Number(document.get(width)) * scale]));
    this.usual = Array.isArray(widths) ? 0 : 500;
  }
}
