// DOM helpers. This page never parses a string as markup: text always becomes a text node.
import { t } from "./strings.js";

// el("button", {class: "icon", type: "button", onclick: f, "aria-label": "Copy"}, "text", node, ...). Omits a property
// that is null, undefined or false; true becomes an empty attribute.
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) {
      element.addEventListener(key.slice(2), value);
    } else {
      element.setAttribute(key === "class" ? "class" : key, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

// Announces a text to screen readers (polite). Removes old lines to keep the region small.
export function announce(text) {
  const region = byId("live");
  region.append(el("p", {}, text));
  while (region.childElementCount > 12) region.firstElementChild.remove();
}

// Copies a text; the button briefly shows a check mark.
export async function copyText(text, button, icons) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The clipboard API needs a secure context; execCommand works without one.
    const area = el("textarea", { class: "unseen", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.classList.add("done");
  button.replaceChildren(...icons.done());
  announce(t("Copied"));
  setTimeout(() => {
    button.classList.remove("done");
    button.replaceChildren(...icons.idle());
  }, 1600);
}
