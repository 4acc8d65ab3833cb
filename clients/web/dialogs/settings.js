// The settings: preferences of this browser, the system prompt of the open conversation, and the key.
import { el } from "../dom.js";
import { apiKey, load, save } from "../store.js";
import { titlesByModel } from "../list/titles.js";
import { LANGUAGES, language, t } from "../strings.js";
import { show } from "./dialog.js";
import { presetRow } from "./presets.js";
import { samplingFields, samplingForm } from "./sampling.js";
import { keyFields } from "./sign_in.js";

export const preferences = () => load("preferences", {});

// Fields of response.create. `first`: the conversation has no system prompt yet.
export function requestFields(first) {
  const stored = preferences();
  const fields = samplingFields(stored);
  if (first && stored.instructions) fields.instructions = stored.instructions;
  return fields;
}

// The settings, with the defaults of the served model as placeholders. `current`: {instructions, apply(text)} of the open
// conversation, or null. Resolves to true if the key has changed.
export async function openSettings(model, current) {
  const stored = preferences();
  const prompt = el("textarea", { id: "set-instructions", rows: "5", placeholder: t("You are a helpful assistant."), "data-first": true });
  prompt.value = current ? current.instructions : stored.instructions || "";
  const sampling = samplingForm(stored, model?.defaults);
  const { key, remember, row: keyRow } = keyFields();
  key.value = apiKey.load();
  key.removeAttribute("data-first");
  const titles = el("input", { type: "checkbox", id: "set-titles" });
  titles.checked = titlesByModel(model);
  const tongue = el("select", { id: "set-language" }, ...Object.entries(LANGUAGES).map(([value, name]) => el("option", { value, lang: value }, name)));
  tongue.value = language;
  const content = el("form", { class: "form", onsubmit: (event) => { event.preventDefault(); event.target.closest("dialog").close("yes"); } },
    el("div", { class: "field" }, el("label", { for: "set-instructions" }, t("System prompt")), presetRow(prompt), prompt,
      el("p", { class: "hint" }, current
        ? t("Takes effect with the next message. A change makes the model read the conversation again.")
        : t("For new conversations. It always stays in the model's memory."))),
    ...sampling.rows, keyRow,
    el("label", { class: "choice", for: "set-titles" }, titles, t("The model names new conversations")),
    el("div", { class: "field narrow" }, el("label", { for: "set-language" }, t("Language")), tongue));
  const answer = await show(t("Settings"), content, { className: "settings", actions: [{ label: t("Cancel"), value: "" }, { label: t("Save"), value: "yes", kind: "primary" }] });
  if (answer !== "yes") return false;
  const next = sampling.read();
  const text = prompt.value.trim();
  const instructions = current ? stored.instructions : text;
  if (instructions) next.instructions = instructions;
  save("preferences", Object.keys(next).length ? next : null);
  if (current && text !== current.instructions) current.apply(text);
  const changed = key.value.trim() !== apiKey.load();
  if (changed || remember.checked !== apiKey.remembered()) apiKey.save(key.value.trim(), remember.checked);
  if (titles.checked !== titlesByModel(model)) save("titles", titles.checked);
  if (tongue.value !== language) {
    save("language", tongue.value);
    location.reload();
  }
  return changed;
}
