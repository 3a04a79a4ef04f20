import { catalogue } from "../app/i18n";

/** Texts of charts, breakdowns and the map, which several screens show. */
export const text = catalogue({
  keys: ["{title}. Move through it with the arrow keys.", "{title}. Mit den Pfeiltasten bewegen."],
  keysHint: ["Move through the chart with the pointer or the arrow keys.", "Mit dem Zeiger oder den Pfeiltasten durch das Diagramm gehen."],
  time: ["Time", "Zeit"],
  timeUTC: ["Day (UTC)", "Tag (UTC)"],
  moment: ["{time}: {values}", "{time}: {values}"],
  value: ["{label} {n}", "{label} {n}"],
  open: ["may still grow", "kann noch wachsen"],
  fails: ["The chart cannot be loaded. The table has the same numbers.", "Das Diagramm kann nicht geladen werden. Die Tabelle zeigt dieselben Zahlen."],
  nothing: ["Nothing in this time", "Nichts in diesem Zeitraum"],
  name: ["Name", "Name"],
  clicks: ["Clicks", "Klicks"],
  share: ["Share", "Anteil"],
  clicksOf: [["{n} click", "{n} clicks"], ["{n} Klick", "{n} Klicks"]],
  other: ["others, which are too many to list", "weitere, zu viele für diese Liste"],
  moreNames: [["Show {n} more", "Show {n} more"], ["{n} weiteren zeigen", "{n} weitere zeigen"]],
  csvOf: ["Download CSV: {title}", "CSV herunterladen: {title}"],
  csv: ["CSV", "CSV"],
  map: ["Map", "Karte"],
  mapOf: ["Map of the world: the more clicks, the stronger the colour. The table has the numbers.", "Weltkarte: je mehr Klicks, desto kräftiger die Farbe. Die Tabelle zeigt die Zahlen."],
  mapSmall: ["Countries that are too small for the map are in the table.", "Länder, die für die Karte zu klein sind, stehen in der Tabelle."],
  mapFails: ["The map cannot be loaded. The table has the same numbers.", "Die Karte kann nicht geladen werden. Die Tabelle zeigt dieselben Zahlen."],
});
