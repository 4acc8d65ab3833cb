// Loaded before the first paint, so that a chosen theme does not flash. "auto" follows the system.
try {
  const theme = localStorage.getItem("ringside.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden: use the system's theme.
}
