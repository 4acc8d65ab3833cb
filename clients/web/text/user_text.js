// A user's message: text as it was written, with code blocks, and attached files as cards. A file is written into the
// message as a line "File: NAME" and a fenced block, which every client and model can read.
import { el } from "../dom.js";
import { size } from "../format.js";
import { icon } from "../icons.js";
import { codeBlock } from "./code.js";
import { closes, FENCE } from "./markdown.js";

const FILE = /^File: (\S.{0,199})$/;

// A fence that the text does not contain.
function fenceFor(text) {
  const longest = Math.max(3, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  return "`".repeat(longest + 1);
}

// The message of a text and its files [{name, text}].
export function withFiles(text, files) {
  const parts = files.map(({ name, text: content }) => {
    const fence = fenceFor(content);
    return `File: ${name}\n${fence}\n${content.replace(/\n$/, "")}\n${fence}`;
  });
  return [text.trim() ? text : "", ...parts].filter(Boolean).join("\n\n");
}

// The inverse of withFiles: {text, files}.
export function takeFiles(message) {
  const files = [];
  let text = message;
  for (;;) {
    const fence = /\n(`{4,})$/.exec(text)?.[1];
    const begin = fence ? text.lastIndexOf(`\n${fence}\n`, text.length - fence.length - 2) : -1;
    const line = begin < 0 ? 0 : text.lastIndexOf("\n", begin - 1) + 1;
    const name = begin < 0 ? null : FILE.exec(text.slice(line, begin))?.[1];
    if (!name || (line > 0 && !text.slice(0, line).endsWith("\n\n"))) return { text, files };
    files.unshift({ name, text: text.slice(begin + fence.length + 2, -fence.length - 1) });
    text = text.slice(0, Math.max(0, line - 2));
  }
}

// Parts of a message: {text}, {code, info} or {file, text}.
export function partsOf(message) {
  const lines = message.split("\n");
  const parts = [];
  let plain = [];
  const flush = () => {
    const text = plain.join("\n").replace(/^\n+|\n+$/g, "");
    if (text) parts.push({ text });
    plain = [];
  };
  for (let i = 0; i < lines.length; ++i) {
    const fence = FENCE.exec(lines[i]);
    const end = fence ? lines.findIndex((line, at) => at > i && closes(line, fence[2])) : -1;
    if (end < 0) {
      plain.push(lines[i]);
      if (fence) {
        // Unclosed: the rest is text.
        plain.push(...lines.slice(i + 1));
        break;
      }
      continue;
    }
    const content = lines.slice(i + 1, end).join("\n");
    const file = fence[3] ? null : FILE.exec(plain.at(-1) ?? "")?.[1];
    if (file) plain.pop();
    flush();
    parts.push(file ? { file, text: content } : { code: content, info: fence[3].trim() });
    i = end;
  }
  flush();
  return parts;
}

function fileCard({ file, text }) {
  return el("details", { class: "file" }, el("summary", {}, icon("file", 16), el("bdi", {}, file), el("span", { class: "size" }, size(text.length))),
    el("pre", { tabindex: "0", role: "group", "aria-label": file }, text));
}

export function userText(message) {
  const parts = partsOf(message);
  if (parts.length === 1 && parts[0].text === message) return [message];
  return parts.map((part) => (part.file ? fileCard(part) : part.code !== undefined ? codeBlock(part.info, part.code, true) : el("div", { class: "said" }, part.text)));
}
