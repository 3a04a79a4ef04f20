package replica

// sizeCache gives Pebble's cache of blocks the memory that suits the live store's table.
// One that holds all links leaves little to be read from blocks: half of the cache is
// for the changes of links and the indexes of tables. It is the filling goroutine's.
func (db *DB) sizeCache() {
	db.mu.Lock()
	st := db.live.Load()
	var table bool
	if st != nil {
		t := st.table.Load()
		table = t != nil && !t.Bounded()
	}
	db.mu.Unlock()
	switch {
	case table && db.enlargeCache == nil:
		db.enlargeCache = db.cache.Reserve(int(db.cfg.CacheBytes / 2))
	case !table && db.enlargeCache != nil:
		db.enlargeCache()
		db.enlargeCache = nil
	}
}
