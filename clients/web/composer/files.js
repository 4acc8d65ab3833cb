// Attached files as text or image. Others are refused with the reason.
import { size } from "../format.js";
import { t } from "../strings.js";
import { isImage, readImage } from "./image_file.js";

const MOST_BYTES = 1_000_000;
const MOST_PDF_BYTES = 16_000_000;

function refusePdf(name, reason) {
  return {
    encrypted: t("{name} is encrypted. Save it without a password and attach that.", { name }),
    no_text: t("{name} has no readable text; its pages may be scans.", { name }),
    too_large: t("{name} has too much text.", { name }),
  }[reason] ?? t("{name} cannot be read as a PDF file; it may be damaged.", { name });
}

async function readPdfFile(name, bytes) {
  const { readPdf } = await import("../pdf/pdf.js");
  const { text, refused } = await readPdf(bytes);
  return refused ? { name, refused: refusePdf(name, refused) } : { name, text };
}

const nameOf = (file) => file.name.replace(/[\s\p{Cc}\p{Cf}]+/gu, " ").trim().slice(0, 120) || t("file");

// Resolves to {name, text}, {name, image}, or {name, refused}. `readsImages`: whether the model does; null if unknown.
// `most`: bytes of a message's images.
export async function readFile(file, readsImages, most) {
  if (!isImage(file)) return readTextFile(file);
  const name = nameOf(file);
  return readsImages ?? true ? readImage(file, name, most) : { name, refused: t("{name} was not attached: this model reads no images.", { name }) };
}

async function readTextFile(file) {
  const name = nameOf(file);
  const pdf = (await file.slice(0, 1024).text().catch(() => "")).includes("%PDF-"), limit = pdf ? MOST_PDF_BYTES : MOST_BYTES;
  if (file.size > limit) return { name, refused: t("{name} has {size}; the limit is {limit}.", { name, size: size(file.size), limit: size(limit) }) };
  let text = "";
  try {
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (pdf) return await readPdfFile(name, bytes);
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { name, refused: t("{name} is neither a text nor a PDF file.", { name }) };
  }
  if (/[\0\x01-\x08\x0e-\x1a]/.test(text)) return { name, refused: t("{name} is neither a text nor a PDF file.", { name }) };
  return text.trim() ? { name, text: text.replace(/\r\n?/g, "\n") } : { name, refused: t("{name} is empty.", { name }) };
}
