// The objects of a PDF file. The whole file is scanned for objects, whatever its cross-reference tables say: damaged
// ones are common. The last object of a number counts, as in a file with later changes.
import { Budget, decodeStream } from "./filters.js";
import { Lexer, nameOf, Ref } from "./lexer.js";

const MOST_DECODED = 128 * 1024 * 1024;
const MOST_PAGES = 5000;
const LONGEST_CHAIN = 20; // of references

export class Encrypted extends Error {}

export class Document {
  #bytes;
  #places = new Map(); // number of an object -> {at} in the file, or {value}
  #trailers = [];
  #budget = new Budget(MOST_DECODED);

  static async open(bytes) {
    const document = new Document();
    document.#bytes = bytes;
    document.#scan();
    const streams = document.#typedStreams();
    if (document.#trailers.some((trailer) => trailer.has("Encrypt"))) throw new Encrypted();
    for (const [number, head] of streams) await document.#unpack(number, head);
    return document;
  }

  // Follows references.
  get(value) {
    for (let i = 0; value instanceof Ref; ++i) {
      const place = this.#places.get(value.number);
      if (!place || i > LONGEST_CHAIN) return null;
      value = place.value ??= this.#read(place.at);
    }
    return value ?? null;
  }

  // A dictionary, also of a stream; empty if there is none.
  dictionary(value) {
    const found = this.get(value);
    return found instanceof Stream ? found.dictionary : found instanceof Map ? found : new Map();
  }

  async bytesOf(value) {
    const stream = this.get(value);
    return stream instanceof Stream ? decodeStream(stream.bytes, stream.dictionary, this.#budget, (inner) => this.get(inner)) : null;
  }

  // The pages in order, with the resources that they inherit.
  pages() {
    const root = this.#trailers.map((trailer) => this.dictionary(trailer.get("Root"))).reverse().find((catalog) => catalog.has("Pages"));
    const found = [], seen = new Set();
    const visit = (reference, inherited) => {
      const node = this.dictionary(reference);
      if (seen.has(node) || found.length >= MOST_PAGES) return;
      seen.add(node);
      const resources = node.get("Resources") ?? inherited, kids = this.get(node.get("Kids"));
      if (Array.isArray(kids)) for (const kid of kids) visit(kid, resources);
      else if (node.size) found.push({ contents: node.get("Contents"), resources });
    };
    if (root) visit(root.get("Pages"), null);
    return found;
  }

  #scan() {
    const text = new TextDecoder("latin1").decode(this.#bytes);
    const object = /(?:^|[\0\t\n\f\r ])(\d{1,9})[\0\t\n\f\r ]+\d{1,5}[\0\t\n\f\r ]+obj\b|\btrailer\b|\bstream\r?\n/g;
    let end = 0; // of the last stream; -1: there are no further ones
    for (let match; (match = object.exec(text)); ) {
      if (match[1]) {
        this.#places.set(Number(match[1]), { at: object.lastIndex });
      } else if (match[0] === "trailer") {
        const trailer = this.#parse(object.lastIndex).value;
        if (trailer instanceof Map) this.#trailers.push(trailer);
      } else if (end >= 0) {
        end = text.indexOf("endstream", object.lastIndex);
        if (end >= 0) object.lastIndex = end;
      }
    }
  }

  // The object at a place, and the lexer after it. The bytes read count as decoded bytes, which bounds the work.
  #parse(at) {
    const lexer = new Lexer(this.#bytes, at), value = lexer.next();
    this.#budget.take(lexer.at - at);
    return { value, lexer };
  }

  #read(at) {
    const { value, lexer } = this.#parse(at);
    if (!(value instanceof Map)) return value;
    lexer.skipSpace();
    if (lexer.text(lexer.at, 6) !== "stream") return value;
    const begin = lexer.at + (this.#bytes[lexer.at + 6] === 13 && this.#bytes[lexer.at + 7] === 10 ? 8 : 7);
    return new Stream(value, this.#bytes.subarray(begin, this.#endOfStream(value, begin)));
  }

  #endOfStream(dictionary, begin) {
    const length = this.get(dictionary.get("Length")), end = begin + length;
    const after = Number.isInteger(length) && length >= 0 ? new Lexer(this.#bytes, end) : null;
    after?.skipSpace();
    if (after && after.text(after.at, 9) === "endstream") return end;
    const word = [..."endstream"].map((c) => c.charCodeAt(0));
    let at = this.#bytes.indexOf(word[0], begin);
    while (at >= 0 && !word.every((c, i) => this.#bytes[at + i] === c)) at = this.#bytes.indexOf(word[0], at + 1);
    if (at < 0) at = this.#bytes.length;
    this.#budget.take(at - begin);
    return at;
  }

  // Streams of objects (7.5.7) with their numbers; cross-reference streams are trailers, too (7.5.8).
  #typedStreams() {
    const found = [];
    for (const [number, place] of this.#places) {
      const head = this.#parse(place.at).value, type = head instanceof Map ? nameOf(head.get("Type")) : "";
      if (type === "XRef") this.#trailers.push(head);
      if (type === "ObjStm") found.push([number, head]);
    }
    return found;
  }

  async #unpack(number, head) {
    const bytes = await this.bytesOf(new Ref(number));
    if (!bytes) return;
    const lexer = new Lexer(bytes), first = Number(this.get(head.get("First"))) || 0;
    for (let left = Number(this.get(head.get("N"))) || 0; left > 0; --left) {
      const [id, offset] = [lexer.next(false), lexer.next(false)];
      if (!Number.isInteger(id) || !Number.isInteger(offset)) return;
      const object = new Lexer(bytes, first + offset), value = object.next();
      this.#budget.take(Math.max(0, object.at - first - offset));
      if (!this.#places.has(id)) this.#places.set(id, { value });
    }
  }
}

class Stream {
  constructor(dictionary, bytes) {
    this.dictionary = dictionary;
    this.bytes = bytes;
  }
}
