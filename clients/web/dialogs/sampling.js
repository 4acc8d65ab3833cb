// The settings of an answer: their fields in the dialog, and the fields of a request that they become.
import { el } from "../dom.js";
import { t } from "../strings.js";

const MOST_STOPS = 16;

const NUMBERS = () => ({
  temperature: { label: t("Temperature"), min: 0, max: 2, step: 0.05, hint: t("Higher is more varied") },
  top_p: { label: "Top-p", min: 0.05, max: 1, step: 0.05, hint: t("Share of likely words considered") },
  max_output_tokens: { label: t("Longest answer"), min: 1, max: 1_000_000, step: 1, hint: t("Tokens") },
  top_k: { label: "Top-k", min: 0, max: 1_000_000, step: 1, hint: t("Number of likely tokens considered; 0: all"), more: true },
  min_p: { label: "Min-p", min: 0, max: 1, step: 0.01, hint: t("Least share of the likeliest token"), more: true },
  repetition_penalty: { label: t("Repetition penalty"), min: 0.1, max: 10, step: 0.05, hint: t("1: none"), more: true },
  presence_penalty: { label: t("Presence penalty"), min: -2, max: 2, step: 0.1, hint: t("0: none"), more: true },
  frequency_penalty: { label: t("Frequency penalty"), min: -2, max: 2, step: 0.1, hint: t("0: none"), more: true },
  seed: { label: t("Seed"), min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, hint: t("The same seed gives the same answer"), more: true },
});
const EFFORTS = () => [["", t("As the model does")], ["none", t("Off")], ["low", t("Little")], ["medium", t("Medium")], ["high", t("Much")]];

// Fields of response.create for the stored settings.
export function samplingFields(stored) {
  const fields = {};
  for (const name of Object.keys(NUMBERS())) if (Number.isFinite(stored[name])) fields[name] = stored[name];
  if (stored.stop?.length) fields.stop = stored.stop;
  if (stored.effort) fields.reasoning = { effort: stored.effort };
  return fields;
}

function numberField(name, { label, hint, more, ...limits }, stored, defaults) {
  const input = el("input", {
    type: "number", id: `set-${name}`, ...limits, inputmode: "decimal", "aria-describedby": `hint-${name}`,
    placeholder: defaults?.[name] !== undefined ? String(Math.round(defaults[name] * 1000) / 1000) : "",
  });
  input.value = stored[name] ?? "";
  return { name, input, more, row: el("div", { class: "field" }, el("label", { for: `set-${name}` }, label), input, el("p", { class: "hint", id: `hint-${name}` }, hint)) };
}

// `rows`: elements of the form; `read()`: the settings that it holds now.
export function samplingForm(stored, defaults) {
  const numbers = Object.entries(NUMBERS()).map(([name, entry]) => numberField(name, entry, stored, defaults));
  const stop = el("textarea", { id: "set-stop", rows: "2", "aria-describedby": "hint-stop", spellcheck: "false" });
  stop.value = (stored.stop ?? []).join("\n");
  const effort = el("select", { id: "set-effort" }, ...EFFORTS().map(([value, label]) => el("option", { value }, label)));
  effort.value = stored.effort ?? "";
  const more = el("details", { class: "more-settings", open: numbers.some(({ more: other, input }) => other && input.value) || Boolean(stored.stop?.length || stored.effort) },
    el("summary", {}, t("More settings")),
    el("div", { class: "columns" }, ...numbers.filter((field) => field.more).map(({ row }) => row)),
    el("div", { class: "columns two" },
      el("div", { class: "field" }, el("label", { for: "set-effort" }, t("Reasoning")), effort),
      el("div", { class: "field" }, el("label", { for: "set-stop" }, t("Stop at")), stop, el("p", { class: "hint", id: "hint-stop" }, t("One text per line ends the answer")))));
  return {
    rows: [el("div", { class: "columns" }, ...numbers.filter((field) => !field.more).map(({ row }) => row)), more],
    read() {
      const next = {};
      for (const { name, input } of numbers) if (input.value !== "" && input.validity.valid) next[name] = Number(input.value);
      const stops = stop.value.split("\n").filter(Boolean).slice(0, MOST_STOPS);
      if (stops.length) next.stop = stops;
      if (effort.value) next.effort = effort.value;
      return next;
    },
  };
}
