// The text of a PDF file. Loaded when a reader attaches one.
import { Document, Encrypted } from "./document.js";
import { TooLarge } from "./filters.js";
import { TextReader } from "./page_text.js";

const MOST_CHARACTERS = 1_000_000;
const LONGEST_MS = 15_000;

// Resolves to {text, pages}, or {refused}: "encrypted", "no_text" (scanned pages), "too_large" or "damaged".
export async function readPdf(bytes) {
  try {
    const document = await Document.open(bytes), pages = document.pages();
    if (!pages.length) return { refused: "damaged" };
    const reader = new TextReader(document, MOST_CHARACTERS), begin = performance.now();
    for (const page of pages) {
      await reader.addPage(page);
      if (reader.full || performance.now() - begin > LONGEST_MS) return { refused: "too_large" };
      await new Promise((resume) => { setTimeout(resume); }); // lets the page react
    }
    const text = reader.text.replace(/[\0-\x08\x0b\x0e-\x1f]/g, "");
    const letters = text.replace(/\s/g, "").length;
    return letters > reader.unreadable ? { text, pages: pages.length } : { refused: "no_text" };
  } catch (error) {
    return { refused: error instanceof Encrypted ? "encrypted" : error instanceof TooLarge ? "too_large" : "damaged" };
  }
}
