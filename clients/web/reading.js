// Reads a conversation so that all parts of it are of one moment, and so that what is told of it has a place before or behind.
// An answer is either over in what was read, and then nothing told of it counts any more, or it comes behind as a whole: but
// for its question, which is read with it. So it does not matter whether an event or the reading is here first.
import * as api from "./api.js";

// It changes whenever an answer ends.
const moment = ({ turns, position }) => `${turns.at(-1)?.response_id} ${position}`;

// What an answer had before it; null if that is not to be known: it is another connection's own, or has been forgotten.
async function inputOf(response) {
  try {
    return await api.getInputItems(response);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// `running()` tells the answer that is being written as far as was told by now, or "". Resolves to
//   {items, info, memory}: what is over; `ended`: the responses that are in it, `running`: the one that is not, or "";
//   `asked`: the items before that one's answer.
export async function readConversation(id, running) {
  for (let before = await api.getMemory(id); ; ) {
    const answering = running();
    const [items, input] = await Promise.all([api.getItems(id), answering ? inputOf(answering) : null]);
    const [memory, info] = await Promise.all([api.getMemory(id), api.getConversation(id)]);
    if (moment(memory) === moment(before)) {
      const ended = new Set(memory.turns.map((turn) => turn.response_id));
      const open = input && !ended.has(answering);
      // An answer that goes on is among the items, cut, and not in its own input.
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
