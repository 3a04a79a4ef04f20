/** Sparkline draws a small line of daily counts; the label says them in words. */
export function Sparkline({ counts, label }: { counts: readonly number[]; label: string }) {
  const most = Math.max(1, ...counts);
  const step = 80 / Math.max(1, counts.length - 1);
  const points = counts.map((n, i) => `${(i * step).toFixed(1)},${(22 - (n / most) * 20).toFixed(1)}`).join(" ");
  return (
    <svg class="sparkline" width="80" height="24" viewBox="0 0 80 24" role="img" aria-label={label}>
      <polyline points={points} fill="none" stroke="var(--chart-1)" stroke-width="1.5" stroke-linejoin="round" />
    </svg>
  );
}
