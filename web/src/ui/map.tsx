import { text } from "../messages/chart";
import { height, useWorld, width } from "./world";

/** WorldMap colours countries by counts, which are keyed by ISO 3166-1 alpha-2 codes. */
export function WorldMap({ counts, label }: { counts: ReadonlyMap<string, number>; label: (code: string, count: number) => string }) {
  const { countries, fails } = useWorld();
  if (fails) return <p class="notice">{text("mapFails")}</p>;
  const most = Math.max(1, ...counts.values());
  return (
    <figure class="map">
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={text("mapOf")}>
        {countries.map(([code, d]) => {
          const n = counts.get(code) ?? 0;
          // Roots let a country be seen that has a hundredth of the most.
          return <path key={code} d={d} class={n ? "some" : ""} fill-opacity={n ? 0.2 + 0.8 * Math.sqrt(n / most) : 1}><title>{label(code, n)}</title></path>;
        })}
      </svg>
      <figcaption class="hint">{text("mapSmall")}</figcaption>
    </figure>
  );
}
