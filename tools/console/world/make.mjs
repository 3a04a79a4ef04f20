// Writes the map of the world for the console: for each country, by ISO 3166-1 alpha-2
// code, its rings in a picture of 480 × 233, in the Natural Earth projection. A ring is
// where it begins, in whole units, and a character for each step to its next point: short
// steps in few characters are compressed better than a path of SVG, which web/src/ui/world.ts
// makes of them. The source is Natural Earth 1:110m (public domain), by world-atlas.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { geoNaturalEarth1, geoPath } from "d3-geo";
import { feature } from "topojson-client";

const width = 480;
const height = 233;
const topology = JSON.parse(readFileSync(createRequire(import.meta.url).resolve("world-atlas/countries-110m.json"), "utf8"));
const countries = feature(topology, topology.objects.countries).features.filter((f) => f.id !== "010"); // without Antarctica
const projection = geoNaturalEarth1().fitSize([width, height], { type: "FeatureCollection", features: countries });

// Territories without a code, by the code that databases of addresses have for them.
const uncoded = { Kosovo: "XK", "N. Cyprus": "CY", Somaliland: "SO" };

/** code returns the alpha-2 code of a country, which has a numeric one. */
function code(f) {
  return f.id ? Intl.getCanonicalLocales(`und-${f.id}`)[0].slice(4) : uncoded[f.properties.name];
}

const longest = 3; // units of a step in one direction; a longer one becomes several
const first = 35; // the character of the step (-3, -3)

/** steps writes the way to a point that is x and y away. */
function steps(x, y) {
  const n = Math.ceil(Math.max(Math.abs(x), Math.abs(y)) / longest);
  let text = "";
  let [px, py] = [0, 0];
  for (let i = 1; i <= n; i++) {
    const [nx, ny] = [Math.round((x * i) / n), Math.round((y * i) / n)];
    text += String.fromCharCode(first + (ny - py + longest) * (2 * longest + 1) + nx - px + longest);
    [px, py] = [nx, ny];
  }
  return text;
}

/** outline collects the rings of a country, and leaves out steps of no length. */
function outline(f) {
  const rings = [];
  let ring = [];
  const close = () => {
    const points = ring.filter((p, i) => i === 0 || p[0] !== ring[i - 1][0] || p[1] !== ring[i - 1][1]);
    ring = [];
    if (points.length < 3) return;
    rings.push(`${points[0].join(" ")} ${points.slice(1).map((p, i) => steps(p[0] - points[i][0], p[1] - points[i][1])).join("")}`);
  };
  geoPath(projection, {
    moveTo: (x, y) => ring.push([Math.round(x), Math.round(y)]),
    lineTo: (x, y) => ring.push([Math.round(x), Math.round(y)]),
    closePath: close,
    arc() {},
  })(f);
  return rings.join(" ");
}

const paths = {};
for (const f of countries) {
  const c = code(f);
  const d = outline(f);
  if (!c || !/^[A-Z]{2}$/.test(c)) throw new Error(`no code: ${f.id} ${f.properties.name}`);
  if (d) paths[c] = paths[c] ? `${paths[c]} ${d}` : d;
}
const sorted = Object.fromEntries(Object.entries(paths).sort(([a], [b]) => (a < b ? -1 : 1)));
process.stdout.write(JSON.stringify({ width, height, paths: sorted }) + "\n");
