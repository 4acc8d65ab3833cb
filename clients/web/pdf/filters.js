// Decodes the streams of a PDF (ISO 32000-1, 7.4): Flate by the browser, LZW, ASCII85 and ASCIIHex here. The decoded
// bytes of a file are bounded in total.
import { inflate } from "../inflate.js";
import { nameOf } from "./lexer.js";

export class TooLarge extends Error {}

// Bytes that may still be decoded.
export class Budget {
  constructor(bytes) { this.left = bytes; }
  take(bytes) {
    this.left -= bytes;
    if (this.left < 0) throw new TooLarge();
  }
}

async function unpackFlate(bytes, budget) {
  const parts = [];
  try {
    for await (const part of inflate(bytes, "deflate")) {
      budget.take(part.length);
      parts.push(part);
    }
  } catch (error) {
    if (error instanceof TooLarge) throw error; // the beginning of a damaged stream is kept
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function unpackLzw(bytes, budget, early) {
  const out = [];
  let table, width, previous, bits = 0, held = 0;
  const clear = () => {
    table = Array.from({ length: 258 }, (_, i) => i < 256 ? [i] : null);
    width = 9;
    previous = null;
  };
  clear();
  for (const byte of bytes) {
    held = held << 8 | byte;
    bits += 8;
    if (bits < width) continue;
    const code = held >> bits - width & (1 << width) - 1;
    bits -= width;
    held &= (1 << bits) - 1;
    if (code === 257) break;
    if (code === 256) {
      clear();
      continue;
    }
    const entry = code < table.length ? table[code] : previous && [...previous, previous[0]];
    if (!entry) break;
    budget.take(entry.length);
    for (const value of entry) out.push(value);
    if (previous && table.length < 4096) table.push([...previous, entry[0]]);
    previous = entry;
    if (table.length + early >= 1 << width && width < 12) ++width;
  }
  return Uint8Array.from(out);
}

function fromAscii85(bytes, budget) {
  const out = [];
  let group = [];
  const flush = (digits) => {
    const value = digits.reduce((sum, digit) => sum * 85 + digit, 0);
    for (let i = 3; i >= 0; --i) out.push(Math.floor(value / 256 ** i) & 255);
  };
  for (const c of bytes) {
    if (c === 126) break;
    if (c === 122 && !group.length) out.push(0, 0, 0, 0);
    if (c < 33 || c > 117) continue;
    group.push(c - 33);
    if (group.length === 5) {
      flush(group);
      group = [];
    }
  }
  const rest = group.length;
  if (rest > 1) {
    flush([...group, 84, 84, 84, 84].slice(0, 5));
    out.length -= 5 - rest;
  }
  budget.take(out.length);
  return Uint8Array.from(out);
}

function fromAsciiHex(bytes) {
  const text = String.fromCharCode(...bytes.subarray(0, 100_000)).split(">")[0].replace(/[^0-9a-f]/gi, "");
  return Uint8Array.from({ length: Math.ceil(text.length / 2) }, (_, i) => parseInt(text.slice(2 * i, 2 * i + 2).padEnd(2, "0"), 16));
}

// Undoes a PNG predictor, the only one in use.
function unpredict(bytes, columns, colors, depth) {
  const step = Math.max(1, colors * depth >> 3), row = Math.ceil(columns * colors * depth / 8);
  const rows = Math.floor(bytes.length / (row + 1)), out = new Uint8Array(rows * row);
  for (let r = 0; r < rows; ++r) {
    const kind = bytes[r * (row + 1)], to = r * row;
    for (let i = 0; i < row; ++i) {
      const left = i >= step ? out[to + i - step] : 0, up = r ? out[to + i - row] : 0, corner = r && i >= step ? out[to + i - row - step] : 0;
      const guess = left + up - corner, [a, b, c] = [left, up, corner].map((value) => Math.abs(guess - value));
      const paeth = a <= b && a <= c ? left : b <= c ? up : corner;
      out[to + i] = bytes[r * (row + 1) + 1 + i] + [0, left, up, left + up >> 1, paeth][kind < 5 ? kind : 0];
    }
  }
  return out;
}

const DECODERS = {
  FlateDecode: (bytes, budget) => unpackFlate(bytes, budget),
  LZWDecode: (bytes, budget, params) => unpackLzw(bytes, budget, params.get("EarlyChange") ?? 1),
  ASCII85Decode: (bytes, budget) => fromAscii85(bytes, budget),
  ASCIIHexDecode: (bytes) => fromAsciiHex(bytes),
};
const SHORT_NAMES = { Fl: "FlateDecode", LZW: "LZWDecode", A85: "ASCII85Decode", AHx: "ASCIIHexDecode" };

// The decoded bytes; null if a filter is unknown, such as that of an image. `resolve` follows references.
export async function decodeStream(bytes, dictionary, budget, resolve) {
  const list = (value) => value === null || value === undefined ? [] : Array.isArray(value) ? value : [value];
  const filters = list(resolve(dictionary.get("Filter"))), params = list(resolve(dictionary.get("DecodeParms")));
  for (const [i, filter] of filters.slice(0, 8).entries()) {
    const name = nameOf(resolve(filter)), own = resolve(params[i]);
    const decoder = DECODERS[SHORT_NAMES[name] ?? name];
    if (!decoder) return null;
    const settings = own instanceof Map ? own : new Map();
    bytes = await decoder(bytes, budget, settings);
    const number = (key, fallback) => Number(resolve(settings.get(key)) ?? fallback);
    if (number("Predictor", 1) >= 10) bytes = unpredict(bytes, number("Columns", 1), number("Colors", 1), number("BitsPerComponent", 8));
  }
  return bytes;
}
