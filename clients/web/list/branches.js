// Versions of one conversation. Editing a message, or regenerating an answer, forks the conversation on the server. The
// fork's metadata name its source (`parent`), the number of shared items (`fork_at`) and the first version (`root`).
// Every browser derives the same siblings from them. Pure functions.

export const rootOf = (conversation) => conversation.metadata.root || conversation.id;

// Times have a resolution of a second: ties go to the one created later.
export function laterUsed(a, b) {
  return (b.ringside.updated_at - a.ringside.updated_at || b.order - a.order) > 0 ? b : a;
}

export function forkMetadata(parent, at, title) {
  return { title, root: rootOf(parent), parent: parent.id, fork_at: String(at) };
}

// Path from the first version to this one: [{id, at}], where `at` is the number of items shared with the previous one.
// Null if a link is missing, malformed or cyclic.
function pathOf(conversation, byId) {
  const path = [];
  for (let here = conversation; ; ) {
    const parent = here.metadata.parent;
    const at = Number(here.metadata.fork_at);
    if (!parent) {
      path.unshift({ id: here.id, at: 0 });
      return path;
    }
    path.unshift({ id: here.id, at });
    here = byId.get(parent);
    if (!here || !Number.isInteger(at) || at < 0 || path.length > 10_000) return null;
  }
}

// Number of leading items that two paths of one family share; Infinity for identical paths.
function shared(a, b) {
  let i = 0;
  while (i < a.length && i < b.length && a[i].id === b[i].id) ++i;
  const left = a.slice(i).map((step) => step.at);
  const right = b.slice(i).map((step) => step.at);
  // A later fork may branch off before an earlier one on the path: take the minimum along the path.
  return Math.min(...left, ...right, Infinity);
}

// Versions that diverge from `current`: Map item index -> {index, versions: [conversation]}. Versions are in order of
// creation (`order`), and each is the most recently used branch with that beginning; `index` is the position of
// `current`.
export function siblingsOf(current, family) {
  const byId = new Map(family.map((conversation) => [conversation.id, conversation]));
  byId.set(current.id, current);
  const paths = new Map();
  for (const conversation of byId.values()) {
    const path = pathOf(conversation, byId);
    if (path) paths.set(conversation.id, path);
  }
  const mine = paths.get(current.id);
  const result = new Map();
  if (!mine) return result;
  const points = new Map(); // item index where paths diverge -> the paths that diverge there
  for (const [id, path] of paths) {
    if (id === current.id || path[0].id !== mine[0].id) continue;
    const at = shared(mine, path);
    if (!points.has(at)) points.set(at, []);
    points.get(at).push(byId.get(id));
  }
  for (const [at, others] of points) {
    const groups = [];
    const members = [...byId.values()].filter(
      (conversation) => paths.has(conversation.id) && paths.get(conversation.id)[0].id === mine[0].id &&
        shared(mine, paths.get(conversation.id)) > at,
    );
    groups.push({ members, mine: true });
    for (const other of others) {
      const group = groups.find((known) => !known.mine && shared(paths.get(known.members[0].id), paths.get(other.id)) > at);
      if (group) group.members.push(other);
      else groups.push({ members: [other], mine: false });
    }
    const born = (group) => Math.min(...group.members.map((member) => bornAt(member, paths, byId, at)));
    const order = groups.map((group) => ({ group, born: born(group) }));
    order.sort((a, b) => a.born - b.born || (a.group.members[0].id < b.group.members[0].id ? -1 : 1));
    const latest = (group) =>
      group.mine ? current : group.members.reduce(laterUsed);
    result.set(at, {
      index: order.findIndex(({ group }) => group.mine),
      versions: order.map(({ group }) => latest(group)),
    });
  }
  return result;
}

// Creation order of the version shown after item `at`: the first conversation on the path that has the item.
function bornAt(conversation, paths, byId, at) {
  const path = paths.get(conversation.id);
  let step = path.length - 1;
  while (step > 0 && path[step].at > at) --step;
  return byId.get(path[step].id).order;
}
