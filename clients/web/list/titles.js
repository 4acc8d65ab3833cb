// Titles by the model: after the first answer of a new conversation, the model names it in the background. Small models name
// badly, so for them the first words of the question remain.
import * as api from "../api.js";
import { titleOf } from "../format.js";
import { load } from "../store.js";
import { isSmall } from "../welcome.js";

const EXCERPT = 600; // characters of question and answer
const PROMPT = "Write a title of two to six words for this conversation, in its language. Reply with the title only.";

export const titlesByModel = (model) => load("titles", !isSmall(model?.id ?? ""));

// The first line without quotes and marks; "" if that is no title.
export function cleanTitle(text) {
  const bare = (line) => line.replace(/^[\s#*"'“”„«»`:-]+|[\s*"'“”«»`.:-]+$/g, "");
  const line = text.split("\n").map((one) => bare(bare(one).replace(/^title:/i, ""))).find(Boolean) ?? "";
  return line.length >= 3 && line.length <= 80 ? titleOf(line) : "";
}

// Resolves to the title, or "".
export async function titleByModel(items) {
  const said = items.slice(0, 2).map(({ role, text }) => `${role}: ${text.slice(0, EXCERPT)}`).join("\n\n");
  const response = await api.ask(`${said}\n\n${PROMPT}`, { max_output_tokens: 24, temperature: 0.2, reasoning: { effort: "none" } });
  const text = api.wholeItems(response.output ?? []).map((item) => item.text).join("\n");
  return cleanTitle(text);
}
