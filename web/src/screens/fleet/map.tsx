import { text } from "../../messages/fleet";
import { placeOf } from "./places";

/** Coarse outlines of the continents: longitude and latitude, in whole degrees. */
const land = [
  "-168 66 -156 71 -128 70 -95 72 -82 68 -94 59 -80 52 -78 62 -64 60 -56 52 -66 49 -60 46 -70 42 -76 35 -81 31 -80 25 -83 30 -90 29 -97 26 -97 21 -91 18 -87 21 -88 16 -83 15 -83 10 -78 8 -85 11 -95 16 -105 20 -110 24 -115 31 -121 35 -124 41 -124 48 -132 56 -146 60 -158 56 -166 61",
  "-78 8 -72 12 -62 10 -52 5 -35 -6 -39 -17 -48 -26 -58 -36 -65 -43 -68 -53 -74 -52 -73 -38 -70 -19 -81 -6 -80 1",
  "-55 60 -44 60 -22 70 -18 80 -35 83 -60 81 -73 78 -55 70",
  "-9 43 -9 37 -5 36 3 42 12 44 18 40 14 45 20 40 24 38 27 41 36 37 35 31 43 13 52 17 57 24 50 29 57 26 66 25 73 20 77 8 82 16 90 22 98 16 103 2 105 10 109 13 106 20 115 23 122 31 119 39 126 38 127 35 130 43 140 53 137 58 155 59 157 51 163 60 180 65 180 69 140 73 105 78 72 72 45 67 30 70 14 68 5 61 6 58 12 56 16 60 18 61 22 65 23 60 12 54 8 56 4 52 -4 48 -1 44",
  "-6 36 10 37 11 33 20 31 33 31 43 12 51 12 40 -4 40 -15 35 -24 28 -33 19 -35 12 -18 9 -1 9 4 -8 5 -17 15 -10 30",
  "114 -22 122 -18 130 -12 136 -12 137 -17 142 -11 153 -26 150 -37 139 -36 131 -32 115 -34",
  "-5 50 1 51 0 54 -3 58 -6 57 -3 54", "-10 52 -6 52 -6 55 -9 54", "-24 65 -14 65 -15 63 -22 64",
  "130 31 135 34 140 35 142 40 145 44 141 45 139 38 132 35", "44 -25 47 -25 50 -15 44 -17", "95 5 106 -6 115 -9 104 -4",
  "109 1 117 7 118 -3 111 -3", "131 -1 141 -3 150 -10 138 -8", "173 -35 178 -38 167 -46 172 -41", "120 18 122 17 126 6 121 13",
];
const outline = land.map((points) => `M${points.replace(/(\S+) (\S+)/g, (_, x: string, y: string) => `${x} ${-Number(y)}`)}z`).join("");

export interface Spot {
  region: string;
  count: number;
  /** How many edges have no finding. */
  well: number;
  kind: "good" | "warn" | "bad";
}

/** The id of a region's part of the list. */
export function regionId(region: string): string {
  return `region-${encodeURIComponent(region)}`;
}

const top = 78; // degrees of latitude
const bottom = -56;

/** WorldMap shows where regions are. Below it each is a link to its part of the list. */
export function WorldMap({ spots }: { spots: readonly Spot[] }) {
  const placed: { spot: Spot; x: number; y: number; named: boolean; left: boolean }[] = [];
  for (const spot of spots) {
    const at = placeOf(spot.region);
    if (!at) continue;
    const [y, x] = [-at[0], at[1]];
    const left = x > 90;
    // Of close regions one has its name on the map.
    const named = !placed.some((p) => p.named && Math.abs(p.x - x) < 75 && Math.abs(p.y - y) < 11);
    placed.push({ spot, x, y, named, left });
  }
  const rest = spots.filter((spot) => !placeOf(spot.region));
  const links = (of: readonly Spot[]) => <ul class="row">{of.map((spot) => <li key={spot.region}><Region spot={spot} /></li>)}</ul>;
  return (
    <section class="card" aria-labelledby="fleet-map">
      <h2 id="fleet-map">{text("map")}</h2>
      {placed.length > 0 && (
        <svg class="world" viewBox={`-180 ${-top} 360 ${top - bottom}`} aria-hidden="true">
          <path class="graticule" d={[-60, -30, 0, 30, 60].map((y) => `M-180 ${y}H180`).join("") + [-120, -60, 0, 60, 120].map((x) => `M${x} ${-top}V${-bottom}`).join("")} />
          <path class="land" d={outline} />
          {placed.map(({ spot, x, y, named, left }) => (
            <g key={spot.region} class={spot.kind}>
              <circle cx={x} cy={y} r="3.4" />
              {named && <text x={left ? x - 6 : x + 6} y={y + 3} text-anchor={left ? "end" : "start"}>{spot.region}</text>}
            </g>
          ))}
        </svg>
      )}
      {links(spots.filter((spot) => placeOf(spot.region)))}
      {rest.length > 0 && (
        <>
          <h3>{text("elsewhere")}</h3>
          {links(rest)}
        </>
      )}
    </section>
  );
}

function Region({ spot }: { spot: Spot }) {
  return (
    <a
      class={`tag ${spot.kind}`} href={`#${regionId(spot.region)}`}
      aria-label={text("ofRegion", { region: spot.region, n: spot.count, well: spot.well })}
      onClick={(e) => {
        // The browser scrolls, but keeps the focus, and the address keeps its query.
        e.preventDefault();
        const to = document.getElementById(regionId(spot.region));
        to?.scrollIntoView({ block: "center" });
        to?.focus({ preventScroll: true });
      }}
    >
      <bdi>{spot.region}</bdi> {spot.well}/{spot.count}
    </a>
  );
}
