// Presets of system prompts: a few of the page, and the reader's own in this browser.
import { el } from "../dom.js";
import { load, save } from "../store.js";
import { t } from "../strings.js";

const LONGEST_NAME = 40;

const OURS = () => [
  { name: t("Brief"), text: t("Answer as briefly as possible, without introduction or summary.") },
  { name: t("Tutor"), text: t("You are a patient tutor. Explain step by step, ask one question at a time, and let me find the answer.") },
  { name: t("Reviewer of code"), text: t("You review code. Name errors first, then unclear parts, each with its line and a correction. Do not praise.") },
  { name: t("Translator"), text: t("Translate every message into English, or into German if it is English. Answer with the translation only.") },
  { name: t("Editor"), text: t("Correct spelling, grammar and style of every text, keep its meaning, and list the changes below it.") },
];

// The row above the prompt's field: choosing fills the field, and a filled field can be saved under a name.
export function presetRow(prompt) {
  let own = load("presets", []);
  const choice = el("select", { id: "preset", "aria-label": t("Preset") });
  const name = el("input", { type: "text", maxlength: String(LONGEST_NAME), placeholder: t("Name"), "aria-label": t("Name of the preset"), hidden: true });
  const keep = el("button", { type: "button", class: "button small", onclick: () => store() }, t("Save as preset"));
  const remove = el("button", { type: "button", class: "button small plain", onclick: () => forget() }, t("Delete preset"));

  const chosen = () => [...OURS(), ...own].find((preset) => preset.name === choice.value);
  function fill(value) {
    const option = (preset) => el("option", { value: preset.name }, preset.name);
    choice.replaceChildren(el("option", { value: "" }, t("Choose a preset …")), ...OURS().map(option),
      ...(own.length ? [el("optgroup", { label: t("Your presets") }, ...own.map(option))] : []));
    choice.value = value;
    remove.hidden = !own.some((preset) => preset.name === value);
  }
  function store() {
    if (name.hidden) {
      name.hidden = false;
      return name.focus();
    }
    const label = name.value.trim();
    if (!label || !prompt.value.trim()) return;
    own = [...own.filter((preset) => preset.name !== label), { name: label, text: prompt.value.trim() }];
    save("presets", own);
    name.hidden = true;
    name.value = "";
    fill(label);
  }
  function forget() {
    own = own.filter((preset) => preset.name !== choice.value);
    save("presets", own.length ? own : null);
    fill("");
  }
  choice.addEventListener("change", () => {
    const preset = chosen();
    if (preset) prompt.value = preset.text;
    fill(choice.value);
  });
  name.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    store();
  });
  fill("");
  return el("div", { class: "presets" }, choice, name, keep, remove);
}
