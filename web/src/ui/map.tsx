import { useEffect, useState } from "preact/hooks";
import { text } from "../messages/chart";

type World = typeof import("../world.json");

/** WorldMap colours countries by counts, which are keyed by ISO 3166-1 alpha-2 codes. The
 * outlines are loaded when it is first shown. */
export function WorldMap({ counts, label }: { counts: ReadonlyMap<string, number>; label: (code: string, count: number) => string }) {
  const [world, setWorld] = useState<World>();
  const [fails, setFails] = useState(false);
  useEffect(() => void import("../world.json").then(({ default: w }) => setWorld(w as World), () => setFails(true)), []);
  if (fails) return <p class="notice">{text("mapFails")}</p>;
  const most = Math.max(1, ...counts.values());
  return (
    <figure class="map">
      <svg viewBox={world ? `0 0 ${world.width} ${world.height}` : "0 0 480 233"} role="img" aria-label={text("mapOf")}>
        {world && Object.entries(world.paths).map(([code, d]) => {
          const n = counts.get(code) ?? 0;
          // Roots let a country be seen that has a hundredth of the most.
          return <path key={code} d={d} class={n ? "some" : ""} fill-opacity={n ? 0.2 + 0.8 * Math.sqrt(n / most) : 1}><title>{label(code, n)}</title></path>;
        })}
      </svg>
      <figcaption class="hint">{text("mapSmall")}</figcaption>
    </figure>
  );
}
