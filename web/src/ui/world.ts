import { useEffect, useState } from "preact/hooks";

type World = typeof import("../world.json");

/** The size of the map, as in world.json. */
export const width = 480;
export const height = 233;

/** useWorld loads the outlines of countries, keyed by ISO 3166-1 alpha-2 codes. */
export function useWorld(): { countries: readonly [code: string, path: string][]; fails: boolean } {
  const [world, setWorld] = useState<World>();
  const [fails, setFails] = useState(false);
  useEffect(() => void import("../world.json").then(({ default: w }) => setWorld(w as World), () => setFails(true)), []);
  return { countries: world ? Object.entries(world.paths).map(([code, rings]) => [code, path(rings)] as const) : [], fails };
}

/** path makes a path of SVG out of rings as tools/console/world writes them: the beginning
 * of each, and a character for each step. */
function path(rings: string): string {
  return rings.replace(/(\d+ \d+) (\S+)/g, (_, at: string, steps: string) => `M${at}l${[...steps].map((step) => {
    const n = step.charCodeAt(0) - 35;
    return `${(n % 7) - 3} ${Math.floor(n / 7) - 3}`;
  }).join(" ")}z`);
}

/** onMap returns where a place is on the map, by the polynomials of the Natural Earth
 * projection, with the size and the offset that tools/console/world gives the map. */
export function onMap([latitude, longitude]: readonly [number, number]): [x: number, y: number] {
  const [phi, lambda] = [latitude * Math.PI / 180, longitude * Math.PI / 180];
  const [p2, p4] = [phi ** 2, phi ** 4];
  const x = lambda * (0.8707 - 0.131979 * p2 + p4 * (-0.013791 + p4 * (0.003971 * p2 - 0.001529 * p4)));
  const y = phi * (1.007226 + p2 * (0.015085 + p4 * (-0.044475 + 0.028874 * p2 - 0.005916 * p4)));
  return [width / 2 + 88.87 * x, 134.5 - 88.87 * y];
}
