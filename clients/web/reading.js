// Loads a consistent snapshot of a conversation, so that every event is ordered before or after it. An answer is either
// complete in the snapshot, and all its events are ignored, or follows entirely as events, except for its question,
// which is part of the snapshot. It therefore does not matter whether an event or the snapshot arrives first.
import * as api from "./api.js";

// Changes whenever an answer ends.
const moment = ({ turns, position }) => `${turns.at(-1)?.response_id} ${position}`;

// Input items of an answer; null if unavailable: the answer belongs to another connection or has been deleted.
async function inputOf(response) {
  try {
    return await api.getInputItems(response);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// `running()` returns the id of the running answer according to the events so far, or "". Resolves to
//   {items, info, memory}: the completed part; `ended`: its responses; `running`: the response still running, or "";
//   `asked`: the items before that response's answer.
export async function readConversation(id, running) {
  for (let before = await api.getMemory(id); ; ) {
    const answering = running();
    const [items, input] = await Promise.all([api.getItems(id), answering ? inputOf(answering) : null]);
    const [memory, info] = await Promise.all([api.getMemory(id), api.getConversation(id)]);
    if (moment(memory) === moment(before)) {
      const ended = new Set(memory.turns.map((turn) => turn.response_id));
      const open = input && !ended.has(answering);
      // An answer being continued is among the items, marked incomplete, and not in its own input.
      return { items, info, memory, ended, running: open ? answering : "", asked: open && input.length > items.length ? input : items };
    }
    before = memory;
  }
}

// Whether one of these responses answers the request with this client_request_id.
export async function answersRequest(request, responses) {
  const found = await Promise.all(responses.map((id) => api.getResponse(id).catch(() => null)));
  return found.some((response) => response?.metadata?.client_request_id === request);
}
