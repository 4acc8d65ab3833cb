// The question for a key. It stays open until the server accepts one.
import { getModel } from "../api.js";
import { el } from "../dom.js";
import { apiKey } from "../store.js";
import { t } from "../strings.js";
import { show } from "./dialog.js";

// The field of a key and the choice where it is kept.
export function keyFields() {
  const key = el("input", { type: "password", id: "set-key", autocomplete: "current-password", spellcheck: "false", "aria-describedby": "hint-key", "data-first": true });
  const remember = el("input", { type: "checkbox", id: "remember" });
  remember.checked = apiKey.remembered();
  return {
    key, remember,
    row: el("div", { class: "field" }, el("label", { for: "set-key" }, t("API key")), key,
      el("label", { class: "choice", for: "remember" }, remember, t("Remember it on this device")),
      el("p", { class: "hint", id: "hint-key" }, t("Otherwise it is kept until this tab is closed."))),
  };
}

// Resolves to true when the server has accepted a key.
export async function signIn() {
  const { key, remember, row } = keyFields();
  const problem = el("p", { class: "problem", role: "alert" }, apiKey.load() ? t("The server did not accept this key.") : "");
  let accepted = false;
  const submit = async () => {
    const text = key.value.trim();
    if (!text) return key.focus();
    apiKey.save(text, remember.checked);
    problem.textContent = "";
    try {
      await getModel();
      accepted = true;
      form.closest("dialog").close("yes");
    } catch (error) {
      problem.textContent = error.status === 401 ? t("The server did not accept this key.") : error.message;
      key.select();
    }
  };
  const form = el("form", { class: "form", onsubmit: (event) => { event.preventDefault(); submit(); } },
    el("p", { class: "explains" }, t("This server needs a key. Paste the one that its operator gave you.")), row, problem);
  await show(t("Sign in"), form, { className: "small", actions: [{ label: t("Sign in"), kind: "primary", run: submit }] });
  return accepted;
}
