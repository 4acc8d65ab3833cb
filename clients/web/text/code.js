// A code block: language, copy button, and syntax colours once it is complete. A block whose info string is "call NAME" is
// the card of a tool call (api.js), with its arguments.
import { copyText, el } from "../dom.js";
import { highlight } from "./highlight.js";
import { icon } from "../icons.js";
import { t } from "../strings.js";

const LONGEST_CALL = 100_000;

// The arguments on several lines; as they are while they are incomplete.
function layOut(json) {
  try {
    return json.length > LONGEST_CALL ? json : JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

export function codeBlock(info, text, whole) {
  const call = /^call ([\w.-]{1,140})$/.exec(info)?.[1];
  const language = /^[\w+#.-]{1,20}/.exec(info)?.[0] ?? "";
  const about = call ? el("span", { class: "called" }, icon("tool", 15), call) : el("span", {}, language || "code");
  const idle = () => [icon("copy", 15), t("Copy")];
  const code = el("code", {});
  const copy = el("button", {
    type: "button", class: "copy", "aria-label": call ? t("Copy the arguments of {name}", { name: call }) : language ? t("Copy this {name} code", { name: language }) : t("Copy this code"),
    onclick: () => copyText(code.textContent, copy, { idle, done: () => [icon("check", 15), t("Copied")] }),
  }, ...idle());
  if (call && whole) highlight(code, layOut(text), "json");
  else if (whole) highlight(code, text, language.toLowerCase());
  else code.append(text);
  return el("figure", { class: call ? "code call" : "code", "data-language": call ? "json" : language },
    el("figcaption", {}, about, copy),
    el("pre", { tabindex: "0", role: "group", "aria-label": call ? t("Arguments of {name}", { name: call }) : language ? t("{name} code", { name: language }) : t("Code") }, code));
}

// The element that receives streamed code; null for other blocks.
export const growingCode = (block) => block.querySelector?.("pre > code") ?? null;
