// Imports files: sealed conversations of a Ringside server, the page's JSON, and the exports of ChatGPT (JSON or ZIP) and
// Open WebUI (JSON).
import * as api from "../api.js";
import { count, titleOf } from "../format.js";
import { counted, t } from "../strings.js";
import { toast } from "../toast.js";
import { readChats } from "./foreign_chats.js";
import { readZip } from "./zip.js";

const MOST_ITEMS = 20; // of a request
const MOST_CHARACTERS = 500_000;

// Groups of items that one request may have.
function* chunks(items) {
  let chunk = [], characters = 0;
  for (const item of items) {
    const size = JSON.stringify(item).length;
    if (chunk.length && (chunk.length === MOST_ITEMS || characters + size > MOST_CHARACTERS)) {
      yield chunk;
      [chunk, characters] = [[], 0];
    }
    chunk.push(item);
    characters += size;
  }
  if (chunk.length) yield chunk;
}

async function create({ title, items, pinned, archived, instructions }) {
  const metadata = { title: titleOf(title || items.find(({ role }) => role === "user")?.content || t("Untitled")), ...(pinned && { pinned: "1" }), ...(archived && { archived: "1" }) };
  const all = instructions ? [{ role: "system", content: instructions }, ...items] : items;
  const [first, ...more] = chunks(all);
  const made = await api.createConversation(metadata, first);
  for (const chunk of more) await api.addItems(made.id, chunk);
  return made;
}

async function chatsOf(bytes) {
  const zipped = new Uint8Array(bytes, 0, Math.min(2, bytes.byteLength)).join() === "80,75";
  const texts = zipped ? await readZip(bytes, /(?:^|\/)conversations(?:-\d+)?\.json$/) : [new TextDecoder().decode(bytes)];
  const read = texts.map((text) => readChats(JSON.parse(text)));
  return { chats: read.flatMap(({ chats }) => chats), skipped: read.reduce((sum, { skipped }) => sum + skipped, 0) };
}

export async function importFile(file, { sidebar, go }) {
  const bytes = await file.arrayBuffer();
  const begin = new TextDecoder().decode(new Uint8Array(bytes, 0, Math.min(64, bytes.byteLength))).trimStart();
  if (!/^(?:PK|[[{])/.test(begin)) {
    const made = await api.importConversation(bytes);
    // An import is independent here, even if it was a version of another conversation.
    const title = made.metadata.title || titleOf(file.name.replace(/\.ringside$/, ""));
    sidebar.put(await api.setMetadata(made.id, { title }));
    return go(made.id);
  }
  let read = { chats: [], skipped: 0 };
  try {
    read = await chatsOf(bytes);
  } catch {
    // Reported below.
  }
  const { chats, skipped } = read;
  if (!chats.length) throw new Error(t("{name} has no conversations that this page can read.", { name: file.name }));
  // The newest comes first in these files, and last here, so that it is on top of the list.
  let made = null;
  for (const [i, chat] of chats.reverse().entries()) {
    if (chats.length > 1) toast(t("Importing {n} of {all} …", { n: count(i + 1), all: count(chats.length) }), { stays: true });
    made = await create(chat);
    sidebar.put(made);
  }
  const report = counted(chats.length, "Imported one conversation.", "Imported {n} conversations.", { n: count(chats.length) });
  toast(skipped ? `${report} ${counted(skipped, "One entry was skipped.", "{n} entries were skipped.", { n: count(skipped) })}` : report);
  if (chats.length === 1) go(made.id);
}
