// Loaded before anything is painted, so that a chosen theme does not flash. "auto" follows the system.
try {
  const theme = localStorage.getItem("ringside.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden: the system's theme it is.
}
