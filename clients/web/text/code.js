// A code block: language, copy button, and syntax colours once it is complete.
import { copyText, el } from "../dom.js";
import { highlight } from "./highlight.js";
import { icon } from "../icons.js";

export function codeBlock(info, text, whole) {
  const language = /^[\w+#.-]{1,20}/.exec(info)?.[0] ?? "";
  const idle = () => [icon("copy", 15), "Copy"];
  const code = el("code", {});
  const copy = el("button", {
    type: "button", class: "copy", "aria-label": language ? `Copy this ${language} code` : "Copy this code",
    onclick: () => copyText(code.textContent, copy, { idle, done: () => [icon("check", 15), "Copied"] }),
  }, ...idle());
  if (whole) highlight(code, text, language.toLowerCase());
  else code.append(text);
  return el("figure", { class: "code", "data-language": language },
    el("figcaption", {}, el("span", {}, language || "code"), copy),
    el("pre", { tabindex: "0", role: "group", "aria-label": language ? `${language} code` : "Code" }, code));
}

// The element that receives streamed code; null for other blocks.
export const growingCode = (block) => block.querySelector?.("pre > code") ?? null;
