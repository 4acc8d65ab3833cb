// Deletion with a time to think: a conversation disappears from the list at once and from the server when its report does.
import * as api from "../api.js";
import { load, save } from "../store.js";
import { counted, t } from "../strings.js";
import { count } from "../format.js";
import { toast } from "../toast.js";

const UNDO_MS = 60_000;
const KEPT = ["draft", "attached", "pending", "instructions.next"];

// `isOpen(id)`, `go(id)`, `onFailure(error)`.
export function removal(sidebar, { onFailure, go, isOpen }) {
  const mine = new Set(); // removed by this page
  const waiting = () => load("deleting", []); // [{id, at}]
  const settle = (id) => {
    mine.delete(id);
    const left = waiting().filter((other) => other.id !== id);
    save("deleting", left.length ? left : null);
  };

  async function finish(ids) {
    for (const id of ids) {
      try {
        await api.deleteConversation(id);
      } catch (error) {
        if (error.status !== 404) return void onFailure(error);
      }
      settle(id);
      for (const name of KEPT) save(`${name}.${id}`, null);
    }
  }

  function undo(members, open) {
    for (const { id } of members) settle(id);
    sidebar.restore(members);
    if (open) go(open);
  }

  function remove(entry) {
    const { members } = entry;
    const ids = members.map(({ id }) => id);
    const open = ids.find(isOpen) ?? "";
    save("deleting", [...waiting(), ...ids.map((id) => ({ id, at: Date.now() }))]);
    for (const id of ids) {
      mine.add(id);
      sidebar.remove(id);
    }
    sidebar.render();
    if (open) go("");
    const text = counted(ids.length, "“{title}” was deleted.", "“{title}” was deleted with its {n} versions.", { title: entry.title, n: count(ids.length) });
    toast(text, { action: { label: t("Undo"), run: () => undo(members, open) }, gone: () => finish(ids) });
  }

  // A page that is closed deletes at once. What it could not delete follows later, when no page offers to undo it.
  addEventListener("pagehide", () => mine.forEach(api.deleteSoon));
  const finishOld = () => finish(waiting().filter(({ at }) => Date.now() - at > UNDO_MS).map(({ id }) => id));
  return { remove, finishOld };
}
