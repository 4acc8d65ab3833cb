// Reads one kind of file from a ZIP archive, the form of ChatGPT's export.
import { inflate } from "../inflate.js";

const END = 0x06054b50, ENTRY = 0x02014b50;
const LONGEST_COMMENT = 65_557;
const MOST_BYTES = 512 * 1024 * 1024;

async function unpack(bytes) {
  const parts = [];
  let size = 0;
  for await (const part of inflate(bytes, "deflate-raw")) {
    size += part.length;
    if (size > MOST_BYTES) throw new Error("The archive is too large.");
    parts.push(part);
  }
  return new Blob(parts);
}

// Texts of the entries whose name matches. Throws for anything that is not a readable archive.
export async function readZip(buffer, name) {
  const view = new DataView(buffer);
  let end = view.byteLength - 22;
  while (end >= 0 && end > view.byteLength - LONGEST_COMMENT && view.getUint32(end, true) !== END) --end;
  if (end < 0 || view.getUint32(end, true) !== END) throw new Error("Not a ZIP archive.");
  const texts = [];
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0 && view.getUint32(at, true) === ENTRY; --left) {
    const [method, size, local] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true), view.getUint32(at + 42, true)];
    const nameSize = view.getUint16(at + 28, true);
    if (name.test(new TextDecoder().decode(new Uint8Array(buffer, at + 46, nameSize)))) {
      const begin = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
      const bytes = new Uint8Array(buffer, begin, size);
      texts.push(await (method === 0 ? new Blob([bytes]) : await unpack(bytes)).text());
    }
    at += 46 + nameSize + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return texts;
}
