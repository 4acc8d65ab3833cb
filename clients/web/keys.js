// The keys of the page. Each entry names the condition and the action; the first entry that fits is run.
const inField = () => /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);

// `act`: dialogOpen(), search(), toggleList(), toggleMemory(), create(), help(), escape(): true if there was something to
// leave or stop, emptyBox(): the message box has the focus and is empty.
export function takeKeys(act) {
  let offered = false; // whether "?" in the empty box has opened the list once; then it is a character
  const keys = [
    [({ mod, shift, key }) => mod && !shift && key === "k", act.search],
    [({ mod, shift, key }) => mod && !shift && key === "b", act.toggleList],
    [({ mod, key }) => mod && key === ".", act.toggleMemory],
    [({ mod, key }) => mod && key === "/", act.help],
    [({ mod, shift, key }) => mod && shift && key === "o", act.create],
    [({ key }) => key === "escape", act.escape],
    [({ key, mod }) => key === "?" && !mod && !inField(), act.help],
    [({ key, mod }) => key === "?" && !mod && !offered && act.emptyBox(), () => {
      offered = true;
      act.help();
    }],
  ];
  addEventListener("keydown", (event) => {
    if (act.dialogOpen() || event.isComposing) return;
    const pressed = { mod: event.ctrlKey || event.metaKey, shift: event.shiftKey, key: event.key.toLowerCase() };
    const found = keys.find(([fits]) => fits(pressed));
    if (found && found[1]() !== false) event.preventDefault();
  });
}
