package rollup

// Quarters is the number of quarters of an hour in a day.
const Quarters = 96

// QuarterCounts holds the clicks of a day (UTC) by quarter of an hour, so that the days
// of every time zone are exact. The zero value has none.
type QuarterCounts [Quarters]Count

// Merge adds all clicks of o.
func (q *QuarterCounts) Merge(o *QuarterCounts) {
	for i := range q {
		q[i].Add(o[i])
	}
}

// Subtract removes the clicks of o, in each quarter at most to zero.
func (q *QuarterCounts) Subtract(o *QuarterCounts) {
	for i := range q {
		q[i] = q[i].minus(o[i])
	}
}

// Total is the clicks of all quarters.
func (q *QuarterCounts) Total() Count {
	var sum Count
	for _, c := range q {
		sum.Add(c)
	}
	return sum
}

// Append appends the packed form.
func (q *QuarterCounts) Append(dst []byte) []byte {
	dst = append(dst, version, 0)
	at := len(dst) - 1
	for i, c := range q {
		if c.Clicks > 0 {
			dst[at]++
			dst = appendCount(append(dst, byte(i)), c)
		}
	}
	return dst
}

// Unpack reads the packed form; no bytes are no clicks. It returns EInvalid for other
// bytes, and q has no clicks then.
func (q *QuarterCounts) Unpack(p []byte) error {
	*q = QuarterCounts{}
	if len(p) == 0 {
		return nil
	}
	r := newReader(p)
	r.readVersion()
	next := byte(0)
	for range r.byte() {
		i, c := r.byte(), Count{r.number(), r.number()}
		if i < next || i >= Quarters || !c.sound() {
			r.fail("a quarter is out of order or has no clicks")
			break
		}
		q[i], next = c, i+1
	}
	if err := r.checkEnd("a day's quarters of an hour"); err != nil {
		*q = QuarterCounts{}
		return err
	}
	return nil
}
