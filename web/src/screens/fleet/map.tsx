import { text } from "../../messages/fleet";
import { height, onMap, useWorld, width } from "../../ui/world";
import { placeOf } from "./places";

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

/** RegionMap shows where regions are. Below it each is a link to its part of the list. */
export function RegionMap({ spots }: { spots: readonly Spot[] }) {
  const { countries } = useWorld();
  const placed: { spot: Spot; x: number; y: number; named: boolean; left: boolean }[] = [];
  for (const spot of spots) {
    const at = placeOf(spot.region);
    if (!at) continue;
    const [x, y] = onMap(at);
    const left = x > 360;
    // Of close regions one has its name on the map.
    const named = !placed.some((p) => p.named && Math.abs(p.x - x) < 90 && Math.abs(p.y - y) < 14);
    placed.push({ spot, x, y, named, left });
  }
  const rest = spots.filter((spot) => !placeOf(spot.region));
  const links = (of: readonly Spot[]) => <ul class="row">{of.map((spot) => <li key={spot.region}><Region spot={spot} /></li>)}</ul>;
  return (
    <section class="card" aria-labelledby="fleet-map">
      <h2 id="fleet-map">{text("map")}</h2>
      {placed.length > 0 && (
        <svg class="world map" viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
          {countries.map(([code, d]) => <path key={code} d={d} />)}
          {placed.map(({ spot, x, y, named, left }) => (
            <g key={spot.region} class={spot.kind}>
              <circle cx={x} cy={y} r="4.5" />
              {named && <text x={left ? x - 8 : x + 8} y={y + 4} text-anchor={left ? "end" : "start"}>{spot.region}</text>}
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
