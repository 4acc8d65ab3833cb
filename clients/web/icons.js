// The page's icons: strokes on a grid of 20, drawn for this page.
import { svg } from "./dom.js";

const PATHS = {
  menu: "M3.5 6h13M3.5 10h13M3.5 14h8",
  plus: "M10 4v12M4 10h12",
  search: "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM13 13l3.5 3.5",
  more: "M5 10h.01M10 10h.01M15 10h.01",
  send: "M10 16V4.5M5 9.5l5-5 5 5",
  stop: "M6 6h8v8H6z",
  copy: "M7.5 7.5h8v8h-8zM4.5 12.5v-8h8",
  check: "M4.5 10.5l3.8 3.8 7.2-8",
  again: "M15.5 10a5.5 5.5 0 1 1-1.8-4.1M15.5 3.5v3.2h-3.2",
  forward: "M5 5l5 5-5 5M11 5l5 5-5 5",
  edit: "M4 16l.8-3.4 8-8 2.6 2.6-8 8zM11.5 5.9l2.6 2.6",
  left: "M12 5l-5 5 5 5",
  right: "M8 5l5 5-5 5",
  down: "M10 4v12M5 11l5 5 5-5",
  trash: "M4 6h12M8 6V4h4v2M5.5 6l.7 10h7.6l.7-10",
  save: "M10 3.5v9M6.5 9l3.5 3.5L13.5 9M4 16.500h12",
  load: "M10 12.500v-9M6.5 7L10 3.5 13.5 7M4 16.500h12",
  settings: "M3.5 6h7M14.5 6h2M3.5 14h2M9.5 14h7M12.5 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM7.5 16a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z",
  help: "M7.5 7.600a2.6 2.6 0 1 1 3.7 2.400c-.8.4-1.2.9-1.2 1.700M10 14.600h.01M10 17.500a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15Z",
  sun: "M10 13.500a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM10 2v1.500M10 16.500V18M2 10h1.500M16.5 10H18M4.3 4.300l1.1 1.100M14.6 14.600l1.1 1.100M15.7 4.300l-1.1 1.100M5.4 14.600l-1.1 1.1",
  moon: "M16 11.800A6.5 6.5 0 0 1 8.2 4a6.5 6.5 0 1 0 7.8 7.800Z",
  auto: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM10 3v14M12.5 5.500v9M15 7.500v5",
  close: "M5 5l10 10M15 5L5 15",
  panel: "M3.5 4.500h13v11h-13zM12.5 4.500v11",
  warn: "M10 3.500l7 12.500H3zM10 8.500v3.500M10 14h.01",
};

export function icon(name, size = 18) {
  const picture = svg("svg", { viewBox: "0 0 20 20", width: size, height: size, "aria-hidden": "true", class: "icon-svg" });
  picture.append(svg("path", { d: PATHS[name] }));
  return picture;
}
