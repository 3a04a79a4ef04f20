/* Leases of keys: two control planes lease blocks of the counters of one prefix from one
   PostgreSQL, and turn them into codes of links. They crash, stop, or stand still for any
   time; custom codes are counters as well; and PostgreSQL is restored from a
   backup, so that it forgets leases and links.

   I8: no counter is in two leases that are alive.
   I9: a code that was published never names another link, also if PostgreSQL has
   forgotten it. */

#define COUNTERS 6
#define BLOCK    2 /* counters in a lease */
#define GAP      3 /* counters that a new epoch skips: a lease, and one that it steps over */
#define LEASES   3
#define FAULTS   1 /* crashes and custom codes, together, besides a restore */

mtype = { held, closed, free, burned };

typedef database {
	byte epoch;
	byte next;            /* counters below it are leased */
	byte rows;            /* leases that were ever made */
	mtype state[LEASES];
	byte lo[LEASES], hi[LEASES];
	bit taken[COUNTERS];  /* key_burn: counters of custom codes */
};
database db, backup;
bit restored;             /* no control plane has noticed yet */
bit withheld;             /* no key is issued before an operator says so */

typedef control {
	/* Its memory. */
	bit leasing;
	byte lease, epoch, lo, hi;  /* counters that it may issue */
	bit minted;
	byte key, ofLease, ofEpoch; /* a key on its way to PostgreSQL */

	/* Its data directory. */
	bit remembers;  /* it has looked at all ranges */
	byte seen;      /* counters below it are leased */
	byte seenEpoch; /* 0: none */

	/* Leases of the other one that it has not seen. The gap has room for one. */
	byte unseen
};
control c[2];

bit published[COUNTERS]; /* as a generated code, in whatever history */
bit saved;               /* there is a backup */
byte faults;
bit gone;                /* PostgreSQL was restored */

#ifdef NO_GAP
#define SKIPPED 0
#else
#define SKIPPED GAP
#endif

#ifdef NEVER_WITHHOLDS
#define WITHHOLDS false
#else
#define WITHHOLDS true
#endif

#ifdef NO_EPOCHS
#define OF_EPOCH(p) true
#else
#define OF_EPOCH(p) (c[p].ofEpoch == db.epoch)
#endif

#ifdef NO_FENCE
#define ALIVE(l) true
#else
#define ALIVE(l) (db.state[l] == held || db.state[l] == closed)
#endif

inline higher(to, than) {
	if
	:: (to) < (than) -> to = than
	:: else -> skip
	fi
}

inline burn(x) { db.state[x] = burned; db.lo[x] = 0; db.hi[x] = 0 }

/* A control plane looks at the ranges, and keeps what it sees on its disk. */
inline look(p) {
	c[p].unseen = 0; c[p].remembers = !withheld; c[p].seenEpoch = db.epoch; c[p].seen = db.next
}

/* A control plane that finds PostgreSQL restored opens an epoch. */
inline notice(p) {
	if
	:: restored ->
		restored = 0;
		db.epoch = 2;
		i = 0;
		do
		:: i < LEASES ->
			if
			:: db.state[i] == held || db.state[i] == free -> burn(i)
			:: else -> skip
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		higher(db.next, c[p].seen);
		if
		:: c[p].remembers || !WITHHOLDS -> db.next = db.next + SKIPPED
		:: else -> withheld = 1
		fi;
		look(p)
	:: else -> skip
	fi
}

/* It informs an epoch that the other one has opened of what it knows itself. */
inline tell(p) {
	if
	:: c[p].seenEpoch != 0 && c[p].seenEpoch != db.epoch ->
		higher(db.next, c[p].seen);
		i = 0;
		do
		:: i < LEASES ->
			if
			:: (db.state[i] == held || db.state[i] == free) && db.lo[i] < c[p].seen -> burn(i)
			:: else -> skip
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		look(p)
	:: else -> skip
	fi
}

inline forgetLease(p) {
	c[p].leasing = 0; c[p].lease = 0; c[p].epoch = 0; c[p].lo = 0; c[p].hi = 0
}

inline drop(p) {
	c[p].minted = 0; c[p].key = 0; c[p].ofLease = 0; c[p].ofEpoch = 0
}

/* Makes the next block, which steps over counters of custom codes. */
inline block() {
	do
	:: db.next < COUNTERS && db.taken[db.next] -> db.next++
	:: else -> break
	od;
	db.lo[db.rows] = db.next;
	do
	:: db.next < COUNTERS && db.next < db.lo[db.rows] + BLOCK && !db.taken[db.next] -> db.next++
	:: else -> break
	od;
	db.hi[db.rows] = db.next;
	if
	:: db.lo[db.rows] < db.next -> l = db.rows; db.rows++
	:: else -> db.lo[db.rows] = 0; db.hi[db.rows] = 0; l = LEASES /* none is left */
	fi
}

inline takeLease(p) {
	notice(p);
	if
	:: withheld -> skip
	:: else ->
		tell(p);
		l = 0;
		do
		:: l < db.rows && db.state[l] != free -> l++
		:: else -> break
		od;
		if
		:: l < db.rows -> skip
		:: l == db.rows && db.rows < LEASES && db.next < COUNTERS -> block()
		:: else -> l = LEASES
		fi;
		if
		:: l < LEASES ->
			db.state[l] = held;
			/* I8 */
			i = 0;
			do
			:: i < db.rows ->
				assert(i == l || db.state[i] == burned || db.hi[i] <= db.lo[l] || db.hi[l] <= db.lo[i]);
				i++
			:: else -> break
			od;
			i = 0;
			c[p].leasing = 1; c[p].lease = l; c[p].epoch = db.epoch; c[p].lo = db.lo[l]; c[p].hi = db.hi[l];
#ifndef FORGETS_LEASES
			c[p].seenEpoch = db.epoch;
			higher(c[p].seen, db.hi[l]);
#endif
			c[1 - p].unseen++
		:: else -> skip
		fi;
		l = 0
	fi
}

inline copyAll(from, to) {
	to.next = from.next; to.rows = from.rows;
	i = 0;
	do
	:: i < LEASES -> to.state[i] = from.state[i]; to.lo[i] = from.lo[i]; to.hi[i] = from.hi[i]; i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < COUNTERS -> to.taken[i] = from.taken[i]; i++
	:: else -> break
	od;
	i = 0
}

inline clear() {
	i = 0;
	do
	:: i < LEASES -> backup.state[i] = 0; backup.lo[i] = 0; backup.hi[i] = 0; i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < COUNTERS -> backup.taken[i] = 0; i++
	:: else -> break
	od;
	i = 0; backup.next = 0; backup.rows = 0
}

/* The second control plane has no faults of its own, except that it waits as long as it
   likes: the two are alike. */
proctype works(byte p) {
	byte i, l, k;
end:
	do
	:: d_step { !c[p].leasing && c[1 - p].unseen == 0 -> takeLease(p) }

	/* It looks at the ranges, every few seconds. */
	:: d_step {
		(c[p].unseen > 0 || !c[p].remembers) && !restored && !withheld ->
		tell(p);
		look(p)
	}

	/* It mints the next key of its lease. */
	:: d_step {
		c[p].leasing && !c[p].minted ->
		c[p].minted = 1; c[p].key = c[p].lo; c[p].ofLease = c[p].lease; c[p].ofEpoch = c[p].epoch;
		c[p].lo++;
		if
		:: c[p].lo == c[p].hi -> forgetLease(p)
		:: else -> skip
		fi
	}

	/* The key becomes the code of a link, or is refused with its lease. */
	:: d_step {
		c[p].minted ->
		notice(p);
		if
		:: OF_EPOCH(p) && ALIVE(c[p].ofLease) ->
			assert(!published[c[p].key] && !db.taken[c[p].key]); /* I9 */
			assert(c[p].key >= db.lo[c[p].ofLease] && c[p].key < db.hi[c[p].ofLease] && db.state[c[p].ofLease] != burned); /* I8 */
#ifdef REACH_EPOCH
			assert(!(db.epoch == 2 && p == 1 && published[0] && published[1]));
#endif
#ifdef REACH_RETURNED
			assert(!(db.epoch == 1 && p == 1 && c[p].key == 1 && c[p].ofLease == 1));
#endif
			published[c[p].key] = 1
		:: else -> forgetLease(p)
		fi;
		drop(p)
	}

	/* It stops, and returns the rest of its lease. */
	:: d_step {
		p == 0 && c[p].leasing && !c[p].minted && db.rows < LEASES ->
		notice(p);
		if
		:: c[p].epoch == db.epoch && db.state[c[p].lease] == held ->
			if
			:: c[p].lo == db.lo[c[p].lease] -> db.state[c[p].lease] = free
			:: else ->
				db.lo[db.rows] = c[p].lo; db.hi[db.rows] = db.hi[c[p].lease]; db.state[db.rows] = free;
				db.hi[c[p].lease] = c[p].lo; db.state[c[p].lease] = closed;
				db.rows++
			fi
		:: else -> skip
		fi;
#ifndef KEEPS_RETURNED
		forgetLease(p);
#endif
	}

	/* It is silent for so long that the other one burns its leases. */
	:: d_step {
		p == 0 && c[p].leasing && !restored && c[p].epoch == db.epoch && db.state[c[p].lease] == held ->
		burn(c[p].lease)
	}

	/* It crashes, and may lose its data directory. */
	:: atomic {
		faults < FAULTS && p == 0 && (c[p].leasing || c[p].minted || c[p].seen > 0) ->
		faults++;
		drop(p);
#ifdef RESUMES_LEASES
		if
		:: c[p].leasing -> c[p].lo = db.lo[c[p].lease]
		:: else -> skip
		fi;
#else
		forgetLease(p);
#endif
		if
		:: c[p].remembers = 0; c[p].seen = 0; c[p].seenEpoch = 0
		:: skip
		fi
	}

	/* A link gets a custom code that is a counter ahead. */
	:: atomic {
		faults < FAULTS && p == 0 && !restored && !withheld ->
		k = 0;
		do
		:: k < COUNTERS - 1 -> k++
		:: break
		od;
		if
#ifdef CLAIMS_LEASED
		:: !db.taken[k] ->
#else
		:: k >= db.next && !db.taken[k] ->
#endif
			assert(!published[k]); /* I9 */
			db.taken[k] = 1;
			faults++
		:: else -> skip
		fi;
		k = 0
	}

	/* A backup is made, and restored. */
	:: d_step { !saved && p == 0 && !gone -> saved = 1; copyAll(db, backup) }
	:: d_step {
		saved && p == 0 && (backup.next != db.next || backup.rows != db.rows) ->
		saved = 0; gone = 1; restored = 1;
		copyAll(backup, db);
		clear()
	}

	/* An operator lets every prefix skip what can have been issued. */
	:: d_step {
		withheld && p == 0 ->
		withheld = 0;
		i = 0;
		do
		:: i < COUNTERS ->
			if
			:: published[i] && db.next <= i -> db.next = i + 1
			:: else -> skip
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
	od
}

init {
	d_step { db.epoch = 1; c[0].remembers = 1; c[1].remembers = 1; c[0].seenEpoch = 1; c[1].seenEpoch = 1 }
	atomic { run works(0); run works(1) }
}
