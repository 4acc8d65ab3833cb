// Preferences of this browser, and the dialogs: settings, help, prompts. All are native dialogs, which trap the focus
// and restore it.
import { el } from "../dom.js";
import { icon } from "../icons.js";
import { apiKey, load, save } from "../store.js";
import { t } from "../strings.js";

const NUMBERS = {
  temperature: { label: t("Temperature"), min: 0, max: 2, step: 0.05, hint: t("Higher is more varied") },
  top_p: { label: t("Top-p"), min: 0.05, max: 1, step: 0.05, hint: t("Share of likely words considered") },
  max_output_tokens: { label: t("Longest answer"), min: 1, max: 1_000_000, step: 1, hint: t("Tokens") },
};

export const preferences = () => load("preferences", {});

// Fields of response.create. `first`: the conversation has no system prompt yet.
export function requestFields(first) {
  const { instructions, ...numbers } = preferences();
  const fields = {};
  for (const name of Object.keys(NUMBERS)) if (Number.isFinite(numbers[name])) fields[name] = numbers[name];
  if (first && instructions) fields.instructions = instructions;
  return fields;
}

// Shows a dialog and removes it when closed; resolves to its return value.
function show(title, content, { className = "", actions = [] } = {}) {
  const close = el("button", { type: "button", class: "icon", "aria-label": t("Close"), onclick: () => dialog.close("") }, icon("close"));
  const dialog = el("dialog", { class: `dialog ${className}`, "aria-labelledby": "dialog-title" },
    el("header", {}, el("h2", { id: "dialog-title" }, title), close), content,
    actions.length ? el("footer", {}, ...actions.map(({ label, value, kind }) =>
      el("button", { type: "button", class: `button ${kind ?? ""}`, onclick: () => dialog.close(value) }, label))) : null);
  document.body.append(dialog);
  // A click outside the dialog closes it.
  dialog.addEventListener("mousedown", (event) => event.target === dialog && dialog.close(""));
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    dialog.showModal();
  });
}

// Resolves to the text, or null.
export async function askText(title, label, value) {
  const input = el("input", { type: "text", id: "ask", maxlength: "120", autocomplete: "off", autofocus: true });
  input.value = value;
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      input.closest("dialog").close("yes");
    }
  });
  const done = show(title, el("div", { class: "field" }, el("label", { for: "ask" }, label), input), {
    className: "small", actions: [{ label: t("Cancel"), value: "" }, { label: t("Save"), value: "yes", kind: "primary" }],
  });
  input.select();
  return (await done) === "yes" ? input.value.trim() : null;
}

// The settings, with the server's defaults as placeholders. `current`: {instructions, apply(text)} of the open
// conversation, or null. Resolves to true if the key has changed.
export async function openSettings(defaults, current) {
  const stored = preferences();
  const prompt = el("textarea", { id: "set-instructions", rows: "5", placeholder: t("You are a helpful assistant.") });
  prompt.value = current ? current.instructions : stored.instructions || "";
  const fields = Object.entries(NUMBERS).map(([name, { label, hint, ...limits }]) => {
    const input = el("input", {
      type: "number", id: `set-${name}`, ...limits, inputmode: "decimal", "aria-describedby": `hint-${name}`,
      placeholder: defaults?.[name] !== undefined ? String(Math.round(defaults[name] * 1000) / 1000) : "",
    });
    input.value = stored[name] ?? "";
    return { name, input, row: el("div", { class: "field" }, el("label", { for: `set-${name}` }, label), input, el("p", { class: "hint", id: `hint-${name}` }, hint)) };
  });
  const key = el("input", { type: "password", id: "set-key", autocomplete: "off", spellcheck: "false", "aria-describedby": "hint-key" });
  key.value = apiKey.load();
  const content = el("form", { class: "form", onsubmit: (event) => { event.preventDefault(); event.target.closest("dialog").close("yes"); } },
    el("div", { class: "field" }, el("label", { for: "set-instructions" }, t("System prompt")), prompt,
      el("p", { class: "hint" }, current
        ? t("Takes effect with the next message. A change makes the model read the conversation again.")
        : t("For new conversations. It always stays in the model's memory."))),
    el("div", { class: "columns" }, ...fields.map(({ row }) => row)),
    el("div", { class: "field" }, el("label", { for: "set-key" }, t("API key")), key,
      el("p", { class: "hint", id: "hint-key" }, t("Kept until this tab is closed."))));
  const answer = await show(t("Settings"), content, { className: "settings", actions: [{ label: t("Cancel"), value: "" }, { label: t("Save"), value: "yes", kind: "primary" }] });
  if (answer !== "yes") return false;
  const next = {};
  for (const { name, input } of fields) if (input.value !== "" && input.validity.valid) next[name] = Number(input.value);
  const text = prompt.value.trim();
  const instructions = current ? stored.instructions : text;
  if (instructions) next.instructions = instructions;
  save("preferences", Object.keys(next).length ? next : null);
  if (current && text !== current.instructions) current.apply(text);
  const changed = key.value.trim() !== apiKey.load();
  if (changed) apiKey.save(key.value.trim());
  return changed;
}

const MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const KEYS = [
  [t("Send"), ["Enter"]],
  [t("New line"), ["Shift", "Enter"]],
  [t("Stop the answer"), ["Esc"]],
  [t("Edit your last message"), ["↑"]],
  [t("Search conversations"), ["Mod", "K"]],
  [t("Show or hide conversations"), ["Mod", "B"]],
  [t("Show or hide the memory"), ["Mod", "."]],
  [t("New conversation"), ["Mod", "Shift", "O"]],
  [t("This list"), ["?"]],
];

export function openHelp() {
  if (document.querySelector("dialog")) return;
  const rows = KEYS.map(([what, keys]) =>
    el("div", { class: "key-row" }, el("dt", {}, what),
      el("dd", {}, ...keys.map((key) => el("kbd", {}, key === "Mod" ? (MAC ? "⌘" : "Ctrl") : key)))));
  return show(t("Keyboard"), el("dl", { class: "keys" }, ...rows), { className: "small" });
}

export const dialogOpen = () => document.querySelector("dialog[open]") !== null;
