// Runs in a page before its own scripts: `window.wire` delays, releases, cuts and changes the traffic between page and
// server for page_wire.py. State that must survive a reload is kept in sessionStorage.
{
  const wire = (window.wire = {
    told: [], // types of the events delivered to the page
    text: "", // concatenated deltas delivered
    asked: [], // events sent by the page
    held: null, // delayed [socket, event] pairs, in order
    from: JSON.parse(sessionStorage.getItem("wire.from")), // {begin, text}: the first event to delay
    sockets: 0,
    down: false, // every connection fails at once
    change: null, // "failed": report a cancelled answer as failed
    path: null, // suffix of the paths whose reads are delayed
    atOnce: false, // delayed reads: ask the server at once and delay its answers
    reads: [],
  });
  let current = null;

  wire.hold = (begin, text, nextDocument) => {
    wire.from = { begin, text };
    if (nextDocument) sessionStorage.setItem("wire.from", JSON.stringify(wire.from));
  };
  wire.release = () => {
    const held = wire.held ?? [];
    wire.from = wire.held = null;
    sessionStorage.removeItem("wire.from");
    for (const [socket, event] of held) socket.deliver(event);
  };
  wire.cut = () => {
    const socket = current;
    current = wire.from = wire.held = null;
    socket.close();
  };
  // Simulates server events: repeats of a delta, and the end of the answer.
  wire.write = (delta, times) => {
    for (let i = 0; i < times; ++i) current.deliver({ ...wire.delta, delta, ringside: { seq: ++wire.delta.ringside.seq } });
  };
  wire.end = () => {
    const item = { type: "message", id: wire.delta.item_id, role: "assistant", status: "completed", content: [{ type: "output_text", text: wire.text }] };
    current.deliver({ type: "response.completed", response: { ...wire.response, status: "completed", output: [item], ringside: { source: "new", ttft_ms: 1, tokens_reused: 0, tokens_computed: 1 } } });
  };
  wire.releaseReads = () => {
    wire.path = null;
    for (const go of wire.reads.splice(0)) go();
  };

  const begins = ({ type }) => type.startsWith(wire.from.begin) && type !== "ringside:session.resumed" && wire.text.length >= wire.from.text;

  window.WebSocket = class extends WebSocket {
    #hear = null;

    constructor(...args) {
      super(...args);
      current = this;
      wire.sockets += 1;
      if (wire.down) this.addEventListener("open", () => this.close());
      this.addEventListener("message", ({ data }) => this.#arrive(JSON.parse(data)));
    }

    set onmessage(hear) {
      this.#hear = hear;
    }

    send(message) {
      wire.asked.push(JSON.parse(message));
      if (!wire.down) super.send(message);
    }

    #arrive(event) {
      if (this !== current) return;
      if (wire.change === "failed" && event.type === "response.incomplete") {
        event.type = "response.failed";
        Object.assign(event.response, { status: "failed", error: { code: "server_error", message: "Out of luck." }, output: [] });
      }
      if (wire.from && !wire.held && begins(event)) wire.held = [];
      if (wire.held) wire.held.push([this, event]);
      else this.deliver(event);
    }

    deliver(event) {
      wire.told.push(event.type);
      if (event.type === "response.created") wire.response = event.response;
      if (event.type === "response.output_text.delta") {
        wire.delta = event;
        wire.text += event.delta;
      }
      this.#hear?.({ data: JSON.stringify(event) });
    }
  };

  const read = window.fetch;
  window.fetch = async (path, options) => {
    if (!wire.path || options.method !== "GET" || !path.split("?")[0].endsWith(wire.path)) return read(path, options);
    const answer = wire.atOnce ? await read(path, options) : null;
    const kept = answer && new Response(await answer.text(), { status: answer.status, headers: answer.headers });
    await new Promise((go) => wire.reads.push(go));
    return kept ?? read(path, options);
  };
}
