package rollup

// Floor returns an upper bound of the clicks of any other link.
func (t *Top) Floor() uint64 { return t.floor }
