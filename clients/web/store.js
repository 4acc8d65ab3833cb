// What this browser keeps: drafts, requests that may not have arrived, preferences. The conversations are the server's.
// The API key is kept for the tab only.
const PREFIX = "ringside.";

export function load(name, otherwise = null) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

export function save(name, value) {
  try {
    if (value === null || value === undefined || value === "") localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Full or forbidden: the page works without.
  }
}

// What belongs to one conversation, "new" for the one that has no id yet.
export const draft = {
  load: (id) => load(`draft.${id}`, ""),
  save: (id, text) => save(`draft.${id}`, text),
};
export const pending = {
  load: (id) => load(`pending.${id}`),
  save: (id, request) => save(`pending.${id}`, request),
};

export const apiKey = {
  load() {
    try {
      return sessionStorage.getItem(PREFIX + "key") || "";
    } catch {
      return "";
    }
  },
  save(key) {
    try {
      if (key) sessionStorage.setItem(PREFIX + "key", key);
      else sessionStorage.removeItem(PREFIX + "key");
    } catch {
      // As above.
    }
  },
};

// The theme is stored as it is, for theme.js to read at once.
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
      // As above.
    }
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
  },
};

export const randomId = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("");
