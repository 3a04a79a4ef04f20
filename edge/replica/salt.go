package replica

import (
	"strconv"

	"waypost"
)

// saltTable is what readers see of the salts. It never changes. There are a handful,
// so that looking through is the fastest.
type saltTable []daySalt

type daySalt struct {
	day  int32
	salt *waypost.Salt
}

// noteSalt takes the record of a day's salt into the writer's map. What cannot be
// read as one is as good as none, and a line in the log that does not repeat it.
func (st *store) noteSalt(r *waypost.Record) {
	day, salt, err := waypost.DecodeSalt(r.Name, r.Payload)
	if err != nil {
		st.health.log.Error("the record of a visitor salt cannot be understood", "name", strconv.QuoteToASCII(string(r.Name)), "error", err)
	}
	delete(st.byDays, day)
	if r.State == waypost.Live && salt != nil {
		st.byDays[day] = salt
	}
}

// publishSalts lets readers see the writer's map.
func (st *store) publishSalts() {
	t := make(saltTable, 0, len(st.byDays))
	for day, salt := range st.byDays {
		t = append(t, daySalt{day, salt})
	}
	st.salts.Store(&t)
}

// Salt gives the salt of a day, in days since 1970, UTC; nil when there is none, or
// none any more. It must not be changed. It does not allocate and does not wait.
func (db *DB) Salt(day int32) *waypost.Salt {
	st := db.live.Load()
	if st == nil {
		return nil
	}
	for _, s := range *st.salts.Load() {
		if s.day == day {
			return s.salt
		}
	}
	return nil
}
