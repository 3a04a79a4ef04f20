const firsts = new Map<string, string>();

/** firstMoment returns when a day, such as 2030-12-31, begins in a time zone: not always at
 * midnight, which may be skipped where clocks change. */
export function firstMoment(day: string, zone: string): string {
  const key = zone + day;
  let first = firsts.get(key);
  if (!first) {
    const date = new Intl.DateTimeFormat("sv", { timeZone: zone });
    let at = Date.parse(day) - 15 * 3_600_000;
    while (date.format(at) < day) at += 900_000;
    firsts.set(key, (first = new Date(at).toISOString()));
  }
  return first;
}
