// Writes the map of the world for the console: for each country, by ISO 3166-1 alpha-2
// code, the path of its outline in whole units of a picture of 480 × 233, in the Natural
// Earth projection. Its source is Natural Earth 1:110m (public domain), by world-atlas.
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

/** outline collects a path as steps between whole units, and leaves out steps of no length. */
function outline(f) {
  let d = "";
  let ring = [];
  const close = () => {
    const points = ring.filter((p, i) => i === 0 || p[0] !== ring[i - 1][0] || p[1] !== ring[i - 1][1]);
    ring = [];
    if (points.length < 3) return;
    d += `M${points[0].join(" ")}l`;
    d += points.slice(1).map((p, i) => `${p[0] - points[i][0]} ${p[1] - points[i][1]}`).join(" ").replaceAll(" -", "-");
    d += "z";
  };
  geoPath(projection, {
    moveTo: (x, y) => ring.push([Math.round(x), Math.round(y)]),
    lineTo: (x, y) => ring.push([Math.round(x), Math.round(y)]),
    closePath: close,
    arc() {},
  })(f);
  return d;
}

const paths = {};
for (const f of countries) {
  const c = code(f);
  const d = outline(f);
  if (!c || !/^[A-Z]{2}$/.test(c)) throw new Error(`no code: ${f.id} ${f.properties.name}`);
  if (d) paths[c] = (paths[c] ?? "") + d;
}
const sorted = Object.fromEntries(Object.entries(paths).sort(([a], [b]) => (a < b ? -1 : 1)));
process.stdout.write(JSON.stringify({ width, height, paths: sorted }) + "\n");
