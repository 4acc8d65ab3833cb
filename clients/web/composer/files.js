// Files that a reader drops, pastes or chooses, as text. A file that is not text is refused with the reason.
import { size } from "../format.js";
import { t } from "../strings.js";

const MOST_BYTES = 1_000_000;

// Resolves to {name, text}, or {name, refused}.
export async function readTextFile(file) {
  const name = file.name.replace(/[\s\p{Cc}\p{Cf}]+/gu, " ").trim().slice(0, 120) || t("file");
  if (file.size > MOST_BYTES) return { name, refused: t("{name} has {size}; the limit is {limit}.", { name, size: size(file.size), limit: size(MOST_BYTES) }) };
  let text = "";
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return { name, refused: t("{name} is not a text file. This server reads text only.", { name }) };
  }
  if (/[\0\x01-\x08\x0e-\x1a]/.test(text)) return { name, refused: t("{name} is not a text file. This server reads text only.", { name }) };
  return text.trim() ? { name, text: text.replace(/\r\n?/g, "\n") } : { name, refused: t("{name} is empty.", { name }) };
}
