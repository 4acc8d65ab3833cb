// A block of code: its language, a button that copies it, its text in colours once it is whole.
import { copyText, el } from "./dom.js";
import { highlight } from "./highlight.js";
import { icon } from "./icons.js";

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

// The element whose text grows, or null for another block.
export const growingCode = (block) => block.querySelector?.("pre > code") ?? null;
