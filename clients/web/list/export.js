// A conversation as a file: sealed (the server can import it exactly), Markdown to read, or JSON for programs.
import * as api from "../api.js";
import { el } from "../dom.js";
import { t } from "../strings.js";

function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
const fileName = (title) => title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation";

export async function saveSealed({ id, title }) {
  download(await api.exportConversation(id), `${fileName(title)}.ringside`);
}

export async function saveMarkdown({ id, title }) {
  const names = { user: t("You"), assistant: t("Answer"), tool: t("Tool") };
  const items = await api.getItems(id);
  const pictures = (images) => images.map((url, index) => `![${t("Image {n}", { n: index + 1 })}](${url})`);
  const text = items.map(({ role, text: said, images }) => `## ${names[role] ?? t("System")}\n\n${[...pictures(images), said].filter(Boolean).join("\n\n")}\n`).join("\n");
  download(new Blob([`# ${title}\n\n${text}`], { type: "text/markdown" }), `${fileName(title)}.md`);
}

export async function saveJson({ id, title }) {
  const [info, items] = await Promise.all([api.getConversation(id), api.getRawItems(id)]);
  const { created_at, metadata, ringside } = info;
  const whole = { format: "ringside.conversation", version: 1, title, created_at, metadata, instructions: ringside.instructions ?? "", items };
  download(new Blob([JSON.stringify(whole, null, 2)], { type: "application/json" }), `${fileName(title)}.json`);
}
