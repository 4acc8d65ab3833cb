// Actions on an entry of the list: rename, delete, export and import.
import * as api from "../api.js";
import { el } from "../dom.js";
import { count, titleOf } from "../format.js";
import { askText, confirmDialog } from "../dialogs/settings.js";
import { save } from "../store.js";
import { t } from "../strings.js";

function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
const fileName = (title) => title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation";

export function listVerbs(sidebar, { onFailure, go, onRenamed, isOpen }) {
  async function rename(entry) {
    const title = await askText("Rename", t("Title"), entry.title);
    if (!title) return;
    try {
      const first = sidebar.conversations.get(entry.root) ?? sidebar.conversations.get(entry.id);
      const renamed = await api.setMetadata(first.id, { ...first.metadata, title: titleOf(title) });
      sidebar.put(renamed);
      onRenamed(renamed);
    } catch (error) {
      onFailure(error);
    }
  }

  async function remove(entry) {
    const versions = entry.members.length;
    const what = versions > 1 ? `“${entry.title}” and its ${count(versions)} versions will be deleted permanently.` : `“${entry.title}” will be deleted permanently.`;
    if (!(await confirmDialog(t("Delete this conversation?"), what, t("Delete")))) return;
    try {
      const open = entry.members.some(({ id }) => isOpen(id));
      for (const { id } of entry.members) {
        await api.deleteConversation(id);
        sidebar.remove(id);
        for (const name of ["draft", "pending", "instructions.next"]) save(`${name}.${id}`, null);
      }
      sidebar.render();
      if (open) go("");
    } catch (error) {
      onFailure(error);
      sidebar.refresh().catch(() => {});
    }
  }

  async function exportOne(entry) {
    try {
      download(await api.exportConversation(entry.id), `${fileName(entry.title)}.ringside`);
    } catch (error) {
      onFailure(error);
    }
  }

  async function exportText(entry) {
    try {
      const items = await api.getItems(entry.id);
      const names = { user: t("You"), assistant: t("Answer"), system: t("System"), developer: t("System") };
      const text = items.map(({ role, text: said }) => `## ${names[role]}\n\n${said}\n`).join("\n");
      download(new Blob([`# ${entry.title}\n\n${text}`], { type: "text/markdown" }), `${fileName(entry.title)}.md`);
    } catch (error) {
      onFailure(error);
    }
  }

  async function importFile(file) {
    try {
      const made = await api.importConversation(await file.arrayBuffer());
      // An import is independent here, even if it was a version of another conversation.
      const title = made.metadata.title || titleOf(file.name.replace(/\.ringside$/, ""));
      sidebar.put(await api.setMetadata(made.id, { title }));
      go(made.id);
    } catch (error) {
      onFailure(error);
    }
  }

  return { rename, remove, exportOne, exportText, importFile };
}
