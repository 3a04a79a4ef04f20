package controlplane

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// VariantClicks are the clicks that a rule's split has sent to one of its variants.
type VariantClicks struct {
	Rule, Variant string // ids
	Clicks        int64

	// Share is the variant's part of the rule's clicks with a variant, and Low to High
	// its 95 % interval by Wilson's score. They describe the split, not the later actions
	// of visitors.
	Share, Low, High float64
}

// VariantsOf returns the variants of a breakdown with names RULE/VARIANT, by their ids.
// It leaves out clicks without a variant.
func VariantsOf(b *Breakdown) []VariantClicks {
	all := make([]VariantClicks, 0, len(b.Named))
	ofRule := make(map[string]int64)
	for _, n := range b.Named {
		if rule, variant, ok := strings.Cut(n.Name, "/"); ok {
			all = append(all, VariantClicks{Rule: rule, Variant: variant, Clicks: n.Clicks})
			ofRule[rule] += n.Clicks
		}
	}
	for i := range all {
		v := &all[i]
		v.Share, v.Low, v.High = wilson(v.Clicks, ofRule[v.Rule])
	}
	slices.SortFunc(all, func(x, y VariantClicks) int {
		return cmp.Or(cmp.Compare(idOf(x.Rule), idOf(y.Rule)), cmp.Compare(idOf(x.Variant), idOf(y.Variant)))
	})
	return all
}

// idOf returns the number of an id, 0 for other text.
func idOf(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// wilson returns the share of k in n, and its 95 % interval by Wilson ("Probable
// inference, the law of succession, and statistical inference", 1927), which is good for
// few clicks and shares near 0 or 1, too. All are rounded to six digits.
func wilson(k, n int64) (share, low, high float64) {
	const z = 1.959964 // the 97.5 % quantile of the normal distribution
	if n <= 0 {
		return 0, 0, 1
	}
	all := float64(n)
	share = float64(k) / all
	width := 1 + z*z/all
	middle := (share + z*z/(2*all)) / width
	half := z / width * math.Sqrt(share*(1-share)/all+z*z/(4*all*all))
	return sixDigits(share), sixDigits(max(middle-half, 0)), sixDigits(min(middle+half, 1))
}

func sixDigits(x float64) float64 {
	const digits = 1e6
	return math.Round(x*digits) / digits
}
