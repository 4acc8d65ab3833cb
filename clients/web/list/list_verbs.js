// Actions on an entry of the list: rename, pin, move, share, archive, delete, export and import.
import * as api from "../api.js";
import { titleOf } from "../format.js";
import { askText } from "../dialogs/dialog.js";
import { openShare } from "../dialogs/share.js";
import { t } from "../strings.js";
import { saveJson, saveMarkdown, saveSealed } from "./export.js";
import { importFile } from "./import.js";
import { removal } from "./removal.js";
import { titleByModel } from "./titles.js";

const LONGEST_FOLDER = 60;

// `onFailure(error)`, `go(id)`, `onRenamed(conversation)`, `isOpen(id)`.
export function listVerbs(sidebar, act) {
  const { onFailure, go, onRenamed } = act;
  const guarded = (work) => async (...arguments_) => {
    try {
      await work(...arguments_);
    } catch (error) {
      onFailure(error);
    }
  };

  // The metadata of an entry are those of its first version.
  async function change(entry, metadata) {
    const first = sidebar.conversations.get(entry.root) ?? sidebar.conversations.get(entry.id);
    const next = Object.fromEntries(Object.entries({ ...first.metadata, ...metadata }).filter(([, value]) => value));
    const changed = await api.setMetadata(first.id, next);
    sidebar.put(changed);
    return changed;
  }

  async function rename(entry) {
    const title = await askText(t("Rename"), t("Title"), entry.title);
    if (title) onRenamed(await change(entry, { title: titleOf(title) }));
  }

  // Names a new conversation in the background, unless it was renamed meanwhile.
  async function nameByModel(id, items) {
    const known = sidebar.conversations.get(id);
    const before = known?.metadata.title;
    try {
      const title = await titleByModel(items);
      const now = sidebar.conversations.get(id);
      if (!title || !now || now.metadata.title !== before) return;
      const named = await api.setMetadata(id, { ...now.metadata, title });
      sidebar.put(named);
      onRenamed(named);
    } catch {
      // The first words of the question remain the title.
    }
  }

  async function move(entry) {
    const folder = await askText(t("Move to a folder"), t("Folder; empty: none"), entry.folder, sidebar.folders());
    if (folder !== null) await change(entry, { folder: folder.slice(0, LONGEST_FOLDER) });
  }

  // The mark in the list follows the number of links.
  function share(entry) {
    return openShare(entry, (links) => {
      const marked = links > 0;
      if (marked === entry.shared) return;
      entry.shared = marked;
      change(entry, { shared: marked ? "1" : "" }).catch(onFailure);
    });
  }

  const removed = removal(sidebar, act);
  return {
    rename: guarded(rename), nameByModel, remove: removed.remove, finishRemovals: removed.finishOld,
    pin: guarded((entry) => change(entry, { pinned: entry.pinned ? "" : "1" })),
    move: guarded(move), share: guarded(share),
    archive: guarded((entry) => change(entry, { archived: entry.archived ? "" : "1" })),
    saveSealed: guarded(saveSealed), saveMarkdown: guarded(saveMarkdown), saveJson: guarded(saveJson),
    importFile: guarded((file) => importFile(file, { sidebar, go })),
  };
}
