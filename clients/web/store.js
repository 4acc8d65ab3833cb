// Browser storage: drafts, unacknowledged requests, preferences. Conversations are stored on the server.
const PREFIX = "ringside.";

export function load(name, otherwise = null) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

// Returns false if the storage is full or forbidden: the page works without it.
export function save(name, value) {
  try {
    if (value === null || value === undefined || value === "") localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

// Per conversation; "new" for the one without an id.
export const draft = {
  load: (id) => load(`draft.${id}`, ""),
  save: (id, text) => save(`draft.${id}`, text),
};
// Files of the draft: [{name, text, pasted}].
export const attached = {
  load: (id) => load(`attached.${id}`, []),
  save: (id, files) => save(`attached.${id}`, files.length ? files : null),
};
// The images are those of the event. A browser stores 5 MB: images beyond it are left out, and only `lost` is stored.
export const pending = {
  load(id) {
    const request = load(`pending.${id}`);
    return request && { ...request, images: imagesIn(request.event?.input) };
  },
  save(id, request) {
    const { images, ...rest } = request ?? {};
    if (!save(`pending.${id}`, request && rest)) save(`pending.${id}`, { ...rest, event: null, lost: true });
  },
};
const imagesIn = (input) => (Array.isArray(input) ? input : []).flatMap(({ content }) => (Array.isArray(content) ? content : []))
  .filter(({ type }) => type === "input_image").map((part) => part.image_url);

// For the tab, or for the device if the reader chose so.
export const apiKey = {
  load() {
    try {
      return sessionStorage.getItem(PREFIX + "key") || localStorage.getItem(PREFIX + "key") || "";
    } catch {
      return "";
    }
  },
  remembered() {
    try {
      return localStorage.getItem(PREFIX + "key") !== null;
    } catch {
      return false;
    }
  },
  save(key, remember) {
    try {
      for (const storage of [sessionStorage, localStorage]) storage.removeItem(PREFIX + "key");
      if (key) (remember ? localStorage : sessionStorage).setItem(PREFIX + "key", key);
    } catch {
      // Storage is unavailable.
    }
  },
};

// The theme is stored as plain text, for theme.js to read at startup.
export const theme = {
  load() {
    try {
      const name = localStorage.getItem(PREFIX + "theme");
      return name === "light" || name === "dark" ? name : "auto";
    } catch {
      return "auto";
    }
  },
  save(name) {
    try {
      if (name === "auto") localStorage.removeItem(PREFIX + "theme");
      else localStorage.setItem(PREFIX + "theme", name);
    } catch {
      // Storage is unavailable.
    }
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
  },
};

export const randomId = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("");
