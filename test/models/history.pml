/* Histories: two databases, each with a control plane, and one edge that moves between
   them. The second database begins as a standby of the first. It is promoted while the
   first one, forgotten, stays reachable; databases go back to earlier states; and an
   operator may prefer one of the two.

   I1, I3: the edge has the links as its source had them at the edge's position, and
   within an epoch the position never goes back.
   I4: the edge goes over to an epoch only if that was opened later than its own, and for
   a reason. A forgotten database has none. */

#define WRITES  2
#define ACTS    2 /* promotions, restores and an operator's words */
#define FAULTS  1 /* files that are replaced by an older copy */
#define MINUTES 4
#define LENGTH  8 /* of a changelog */

/* An entry of a changelog is a write of link x or y, or the start of an epoch. Each
   write has a number, which stands for its stamp and for the version of the link. The
   ordinal of an epoch is the minute in which it was opened, and its id is the database
   that did so. */
#define X(n) ((n) * 4)
#define Y(n) ((n) * 4 + 1)
#define EPOCH(ordinal, id) ((ordinal) * 4 + 2 + (id))
#define KIND(entry) ((entry) & 3)
#define ORDINAL(epoch) ((epoch) >> 2)

typedef database {
	/* Its files. */
	byte log[LENGTH];
	byte length;
	byte epoch;     /* the last one in the log */
	bit same;       /* the identity of PostgreSQL is the one of the epoch */
	bit serves;     /* it is no standby */

	/* The data directory of its control plane: the newest position that it has seen,
	   and the newest epoch that a follower has seen elsewhere. */
	byte seenEpoch, seenSeq, seenStamp;
	byte superseding;

	/* Whether there is a reason for a new epoch: a promotion, a restore, an operator's
	   word, or lost commits while no edge has told of a newer epoch. The protocol does
	   not know that. */
	bit reason;
	bit informed
};
database db[2];

typedef place {
	byte epoch, seq, stamp
};
place at;   /* of the edge's replica */
place word; /* the newest position that the edge has seen signed */
byte x, y;  /* the links in the edge's replica */

/* The number of an epoch among all that were opened for a reason, by time. One that was
   opened without has the number of the epoch before it. */
byte rank[40];

byte minute = 1;
byte writes, acts, faults, ranks;

#define HEAD(d) (db[d].length - 1)
#define NEWER(e1, s1, e2, s2) (ORDINAL(e1) > ORDINAL(e2) || (ORDINAL(e1) == ORDINAL(e2) && (s1) > (s2)))

#ifdef ORDINALS_ALONE
#define BEYOND(seen, own) (ORDINAL(seen) > ORDINAL(own))
#else
#define BEYOND(seen, own) (ORDINAL(seen) > ORDINAL(own) || (ORDINAL(seen) == ORDINAL(own) && (seen) != (own)))
#endif

#ifdef TAKES_DIVIDED
#define DIVIDED(its, own) false
#else
#define DIVIDED(its, own) (ORDINAL(its) == ORDINAL(own) && (its) != (own))
#endif

#ifdef IGNORES_STAMPS
#define OTHER(d, e, s, t) false
#else
#define OTHER(d, e, s, t) ((s) < db[d].length && db[d].log[s] != (t))
#endif
#define FORKED(d, e, s, t) (ORDINAL(e) == ORDINAL(db[d].epoch) && ((e) != db[d].epoch || OTHER(d, e, s, t)))

#ifdef LONGER_WINS
#define SUPERSEDES(d) false
#else
#define SUPERSEDES(d) BEYOND(word.epoch, db[d].epoch)
#endif

#ifdef TAKES_OLDER
#define OLDER(its, own) false
#else
#define OLDER(its, own) (ORDINAL(its) < ORDINAL(own))
#endif

#ifdef TAKES_EARLIER
#define EARLIER(d) false
#else
#define EARLIER(d) (db[d].epoch == word.epoch && HEAD(d) < word.seq)
#endif

/* Opens an epoch, above one that was seen. */
inline open(d, above) {
	if
	:: db[d].length < LENGTH ->
		n = minute;
		if
		:: n <= ORDINAL(db[d].epoch) -> n = ORDINAL(db[d].epoch) + 1
		:: else -> skip
		fi;
		if
		:: n <= ORDINAL(above) -> n = ORDINAL(above) + 1
		:: else -> skip
		fi;
		if
		:: db[d].reason -> ranks++; rank[EPOCH(n, d)] = ranks; db[d].reason = 0
		:: else -> rank[EPOCH(n, d)] = rank[db[d].epoch] /* only in a flaw */
		fi;
		db[d].epoch = EPOCH(n, d);
		db[d].log[db[d].length] = db[d].epoch;
		db[d].length++;
		db[d].same = 1;
		remember(d);
		n = 0
	:: else -> skip /* only in a flaw */
	fi
}

inline remember(d) {
	db[d].seenEpoch = db[d].epoch; db[d].seenSeq = HEAD(d); db[d].seenStamp = db[d].log[HEAD(d)]
}

/* Compares a database with itself and with what its control plane remembers, on every
   new connection. */
inline check(d) {
	if
	:: db[d].same && BEYOND(db[d].superseding, db[d].epoch) -> skip /* keys are held */
	:: else ->
		if
		:: !db[d].same || NEWER(db[d].seenEpoch, db[d].seenSeq, db[d].epoch, HEAD(d)) ||
			FORKED(d, db[d].seenEpoch, db[d].seenSeq, db[d].seenStamp) -> open(d, db[d].seenEpoch)
		:: else -> skip
		fi
	fi
}

/* Compares a database with the position that the edge brings. */
inline hear(d) {
	refused = 0;
	if
	:: SUPERSEDES(d) ->
		/* A database is called in question by a later epoch, or one of the same minute. */
		assert(ORDINAL(word.epoch) == ORDINAL(db[d].epoch) || rank[word.epoch] > rank[db[d].epoch]);
		if
		:: BEYOND(word.epoch, db[d].superseding) -> db[d].superseding = word.epoch
		:: else -> skip
		fi;
		db[d].informed = 1;
		refused = 1
	:: else ->
		if
		:: NEWER(word.epoch, word.seq, db[d].epoch, HEAD(d)) || FORKED(d, word.epoch, word.seq, word.stamp) ->
			if
			:: BEYOND(db[d].superseding, db[d].epoch) -> refused = 1
			:: else -> open(d, word.epoch)
			fi
		:: else -> skip
		fi
	fi
}

/* The edge takes the entry after its position. */
inline apply(d) {
	at.seq++;
	at.stamp = db[d].log[at.seq];
	if
	:: KIND(at.stamp) == 0 -> x = at.stamp
	:: KIND(at.stamp) == 1 -> y = at.stamp
	:: else -> skip
	fi
}

/* The edge has the links that the source had at this position. */
inline equal(d) {
	n = 0; m = 0; i = 0;
	do
	:: i <= at.seq ->
		if
		:: KIND(db[d].log[i]) == 0 -> n = db[d].log[i]
		:: KIND(db[d].log[i]) == 1 -> m = db[d].log[i]
		:: else -> skip
		fi;
		i++
	:: else -> break
	od;
	assert(x == n && y == m); /* I1, I3 */
	n = 0; m = 0; i = 0
}

/* The edge compares slots, and replaces those that differ. */
inline repair(d) {
	assert(at.epoch == 0 || at.epoch == db[d].epoch || rank[db[d].epoch] > rank[at.epoch]); /* I4 */
	assert(at.epoch != db[d].epoch || HEAD(d) >= at.seq); /* I1 */
	at.seq = 0; at.stamp = db[d].log[0]; x = 0; y = 0;
	at.epoch = db[d].epoch;
	do
	:: at.seq < HEAD(d) -> apply(d)
	:: else -> break
	od
}

inline visit(d) {
	d_step { check(d) };
	if
	:: d_step { hear(d) }
	:: refused = 0 /* PostgreSQL does not answer in time: the edge is served */
	fi;
	if
	:: refused || OLDER(db[d].epoch, at.epoch) || DIVIDED(db[d].epoch, at.epoch) -> skip
	:: else ->
		/* The head is signed. */
		if
		:: ORDINAL(db[d].epoch) > ORDINAL(word.epoch) || (db[d].epoch == word.epoch && HEAD(d) > word.seq) ->
			word.epoch = db[d].epoch; word.seq = HEAD(d); word.stamp = db[d].log[HEAD(d)]
		:: else -> skip
		fi;
		if
		:: ORDINAL(at.epoch) == ORDINAL(db[d].epoch) && !FORKED(d, at.epoch, at.seq, at.stamp) && at.seq <= HEAD(d) ->
			/* The stream goes on from the edge's position. */
			if
			:: at.seq < HEAD(d) -> apply(d)
			:: else -> skip
			fi;
			d_step { equal(d) }
		:: else ->
			if
			:: EARLIER(d) -> skip
			:: else -> d_step { repair(d); equal(d) }
			fi
		fi
	fi;
	refused = 0
}

/* Cuts a changelog after its first n entries. */
inline cut(d, n) {
	do
	:: db[d].length > n -> db[d].length--; db[d].log[db[d].length] = 0
	:: else -> break
	od;
	i = n - 1;
	do
	:: KIND(db[d].log[i]) < 2 -> i--
	:: else -> break
	od;
	db[d].epoch = db[d].log[i];
	i = 0
}

#define QUIET(d) (db[d].serves && minute > ORDINAL(db[d].epoch) && minute > ORDINAL(db[d].seenEpoch))
#define COPIED(d) (QUIET(d) && db[d].length > 1)

active proctype everything() {
	byte i, n, m, d;
	bit refused;
	d_step {
		db[0].log[0] = EPOCH(1, 0); db[0].length = 1; db[0].epoch = EPOCH(1, 0);
		db[0].same = 1; db[0].serves = 1;
		db[1].log[0] = EPOCH(1, 0); db[1].length = 1; db[1].epoch = EPOCH(1, 0); db[1].same = 1
	}
end:
	do
	:: d_step { minute < MINUTES -> minute++ }

	/* A database serves a write, and its control plane remembers that, or dies first. */
	:: atomic {
		writes < WRITES && db[0].length < LENGTH && db[1].length < LENGTH ->
		if
		:: d = 0
		:: db[1].serves -> d = 1
		fi;
		d_step { check(d) };
		if
		:: db[d].length < LENGTH ->
			writes++;
			if
			:: db[d].log[db[d].length] = X(writes)
			:: db[d].log[db[d].length] = Y(writes)
			fi;
			db[d].length++;
			if
			:: remember(d)
			:: skip
			fi
		:: else -> skip /* only in a flaw */
		fi;
		d = 0
	}

	/* The standby receives what the primary has. */
	:: d_step {
		!db[1].serves && (db[1].length != db[0].length || db[1].log[HEAD(1)] != db[0].log[HEAD(0)]) ->
		i = 0;
		do
		:: i < LENGTH -> db[1].log[i] = db[0].log[i]; i++
		:: else -> break
		od;
		i = 0;
		db[1].length = db[0].length; db[1].epoch = db[0].epoch
	}

	/* It is promoted. */
	:: d_step {
		!db[1].serves && acts < ACTS && minute > ORDINAL(db[1].epoch) ->
		acts++;
		db[1].serves = 1; db[1].same = 0; db[1].reason = 1
	}

	/* A database is restored: it goes back, and has another identity. */
	:: atomic {
		acts < ACTS && (QUIET(0) || QUIET(1)) ->
		if
		:: QUIET(0) -> d = 0
		:: QUIET(1) -> d = 1
		fi;
		n = db[d].length;
		do
		:: n > 1 -> n--
		:: break
		od;
		skip;
		d_step { cut(d, n); n = 0 };
		acts++;
		db[d].same = 0; db[d].reason = 1; db[d].informed = 0;
		d = 0
	}

	/* The files of a database are replaced by an older copy, which has its identity. That
	   is a reason as well, unless an edge has told of a newer epoch. */
	:: atomic {
		faults < FAULTS && (COPIED(0) || COPIED(1)) ->
		if
		:: COPIED(0) -> d = 0
		:: COPIED(1) -> d = 1
		fi;
		n = db[d].length - 1;
		do
		:: n > 1 -> n--
		:: break
		od;
		skip;
		d_step { cut(d, n); n = 0 };
		faults++;
		if
		:: !db[d].informed -> db[d].reason = 1
		:: else -> skip
		fi;
#ifdef FORGETS_SUPERSEDED
		db[d].superseding = 0;
#endif
		d = 0
	}

	/* An operator prefers a database to the newer epoch that an edge has seen. */
	:: atomic {
		acts < ACTS && (db[0].informed || db[1].informed) ->
		if
		:: db[0].informed -> d = 0
		:: db[1].informed -> d = 1
		fi;
		if
		:: db[d].same && minute > ORDINAL(db[d].superseding) && BEYOND(db[d].superseding, db[d].epoch) ->
			acts++;
			db[d].reason = 1; db[d].informed = 0;
			open(d, db[d].superseding)
		:: else -> skip
		fi;
		d = 0
	}

	/* The edge connects to a database's control plane, and takes an entry or more. */
	:: atomic {
		if
		:: d = 0
		:: db[1].serves -> d = 1
		fi;
		visit(d);
		d = 0;
#ifdef REACH_PROMOTED
		assert(!(at.epoch == EPOCH(3, 1) && KIND(at.stamp) < 2 && db[0].informed));
#endif
#ifdef REACH_PREFERRED
		assert(!(at.epoch == EPOCH(4, 0) && db[1].serves && !db[0].informed && db[0].superseding == EPOCH(3, 1)));
#endif
#ifdef REACH_RESTORED
		assert(!(at.epoch == EPOCH(2, 0) && !db[1].serves && faults == 1 && x > 0 && y == 0));
#endif
	}
	od
}
