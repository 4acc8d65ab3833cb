// Elements made by hand. Nothing on this page becomes markup from a string: text is always a text node.

// el("button", {class: "icon", type: "button", onclick: f, "aria-label": "Copy"}, "text", node, ...). A property that is
// null, undefined or false is left out; true is an empty attribute.
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

// Tells a screen reader, politely. Old lines are taken away so that the region stays small.
export function announce(text) {
  const region = byId("live");
  region.append(el("p", {}, text));
  while (region.childElementCount > 12) region.firstElementChild.remove();
}

// A button that shows for a moment that it has done its work.
export async function copyText(text, button, icons) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure context there is no clipboard: the old way still works.
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
  announce("Copied");
  setTimeout(() => {
    button.classList.remove("done");
    button.replaceChildren(...icons.idle());
  }, 1600);
}
