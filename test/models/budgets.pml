/* Click budgets: two edges take clicks of one link's budget from PostgreSQL, and redirect
   visitors alone with what they have. Requests and answers are lost, edges are killed or
   lose their disks, and PostgreSQL is restored from a backup, so that it forgets grants.

   Visitors are never redirected more often than the limit says, and an edge takes the
   budget for exhausted only when no edge can redirect another visitor. A visitor gets the
   clicks that another edge holds once this edge has answered their recall. Kills, lost disks
   and returned clicks are those of one of the edges: the two are alike. */

#define LIMIT  2
#define FAULTS 2 /* kills of edges, lost disks and restores, together */

/* The accounts of an edge's two boots are in places 2 * edge and 2 * edge + 1. */
typedef accounts {
	byte granted[4];
	byte returned[4]
};

typedef database {
	accounts book;
	byte spent[4]; /* as far as the edges have reported */
	bit known[2]; /* the edge has reported all its accounts once */
	bit disk[2]   /* with this disk */
};
database db, backup;
bit saved;
byte epoch = 1;
bit awaited[2];  /* nothing is granted before the edge has reported in this epoch */
bit young;       /* nor in the first seconds of an epoch */
bit burned;      /* nor if grants are lost on both sides */
byte former[4];  /* granted in the history that was lost: an answer may be under way */

typedef edge {
	byte boot;
	byte total;     /* granted to this boot, as it is in memory */
	byte left;      /* of these, clicks that may be spent */
	byte epoch;     /* the newest that was seen */
	byte reported;  /* all accounts were reported in this epoch */
	bit last;       /* by the last answer all clicks are spent, except the clicks that are left here */
	bit disk
};
edge e[2];
accounts file;      /* on the disks of the edges */
byte spent;         /* redirects, ever */
byte faults;
bit recalled;       /* a visitor was refused because edges hold the clicks that are left */
bit heard;          /* edge 0 has heard of it, and was granted nothing since */
bit waits;          /* a visitor waits for the answer to a question */

#define MINE(n) (2 * (n) + e[n].boot)
#define USED(a) (a.granted[0] + a.granted[1] + a.granted[2] + a.granted[3] - a.returned[0] - a.returned[1] - a.returned[2] - a.returned[3])

#ifdef TAKES_FORMER_ANSWERS
#define TAKES_FORMER true
#else
#define TAKES_FORMER false
#endif

#define SPENT(d) (d.spent[0] + d.spent[1] + d.spent[2] + d.spent[3])

#ifdef NEVER_BELIEVES
#define BELIEVES false
#else
#define BELIEVES FROZEN
#endif

#define HELD(n) (db.book.granted[MINE(n)] - db.book.returned[MINE(n)] - db.spent[MINE(n)])

/* All clicks are spent, except the clicks that the edge that asks holds. */
#ifdef EXHAUSTED_WHEN_GRANTED
#define EXHAUSTED(n) (USED(db.book) >= LIMIT)
#else
#define EXHAUSTED(n) (USED(db.book) >= LIMIT && SPENT(db) + HELD(n) >= LIMIT)
#endif

#ifdef TAKES_RETURNED_FOR_SPENT
#define GIVEN_BACK(n) skip
#else
#define GIVEN_BACK(n) e[n].last = 0
#endif

#ifdef IGNORES_LOST_DISKS
#define BURNS 0
#else
#define BURNS 1
#endif

/* Before a visitor comes, clicks are granted only while most of them are left. */
#define AHEAD (USED(db.book) == 0)

/* PostgreSQL knows everything of the account of edge 0. */
#define SETTLED (db.book.granted[0] - db.book.returned[0] == e[0].total - file.returned[0] && \
	db.spent[0] == e[0].total - file.returned[0] - e[0].left)

#ifdef FORGETS_SPENT
#define FORGETS_ENDED(a) (a == 0 && e[0].boot == 1)
#else
#define FORGETS_ENDED(a) false
#endif

#ifdef KEEPS_RECALLED
#define RECALL(n) skip
#else
#define RECALL(n) file.returned[MINE(n)] = e[n].left; e[n].left = KEPT(n); GIVEN_BACK(n)
#endif

#ifdef KEEPS_RETURNED
#define KEPT(n) e[n].left
#else
#define KEPT(n) 0
#endif

#ifdef RETURNS_OF_THE_DEAD
#define RETURNED_BY_THE_DEAD(n) file.returned[2 * n] = file.granted[2 * n]
#else
#define RETURNED_BY_THE_DEAD(n) skip
#endif

#ifdef NEVER_AWAITS
#define FROZEN young
#elif defined(NEVER_YOUNG)
#define FROZEN (awaited[0] || awaited[1])
#else
#define FROZEN (awaited[0] || awaited[1] || young)
#endif

inline higher(to, than) {
	if
	:: (to) < (than) -> to = than
	:: else -> skip
	fi
}

/* PostgreSQL takes the newer value of each total. It believes that more was granted than
   it knows only while it may have forgotten grants, or if all of it was given back. */
inline merge(a, all, rest) {
	if
	:: BELIEVES || (all) == file.returned[a] -> higher(db.book.granted[a], all)
	:: else -> skip
	fi;
	if
	:: file.returned[a] <= db.book.granted[a] -> higher(db.book.returned[a], file.returned[a])
	:: else -> skip
	fi;
	if
	:: (all) <= db.book.granted[a] && (all) >= file.returned[a] + (rest) ->
		higher(db.spent[a], (all) - file.returned[a] - (rest))
	:: else -> skip /* only in a flaw */
	fi
}

/* PostgreSQL forgets an account once all its clicks were given back. */
inline forget(a) {
	if
	:: db.book.granted[a] == db.book.returned[a] || FORGETS_ENDED(a) ->
		db.book.granted[a] = 0; db.book.returned[a] = 0; db.spent[a] = 0
	:: else -> skip
	fi
}

/* The present account of an edge. */
inline mergeMine(n) { merge(MINE(n), e[n].total, e[n].left) }

/* All accounts of an edge. Clicks of a boot that has died count as spent. */
inline mergeAll(n) {
	if
	:: e[n].boot == 1 -> merge(2 * n, file.granted[2 * n], 0)
	:: else -> skip
	fi;
	mergeMine(n);
	forget(2 * n);
	forget(2 * n + 1)
}

inline spendAll(a) { db.spent[a] = db.book.granted[a] - db.book.returned[a] }

/* An edge keeps a grant on its disk, and then lets it be spent. */
inline take(n, all) {
	if
	:: (all) > e[n].total ->
		e[n].left = e[n].left + all - e[n].total;
		heard = (n == 0 -> 0 : heard);
		e[n].total = all
#ifndef SPENDS_FIRST
		; file.granted[MINE(n)] = all
#endif
	:: else -> skip
	fi
}

inline learn(n) { higher(e[n].epoch, epoch) }

inline copyAccounts(from, to) {
	i = 0;
	do
	:: i < 4 -> to.granted[i] = from.granted[i]; to.returned[i] = from.returned[i]; i++
	:: else -> break
	od;
	i = 0
}

inline copyDatabase(from, to) {
	copyAccounts(from.book, to.book);
	to.spent[0] = from.spent[0]; to.spent[1] = from.spent[1]; to.spent[2] = from.spent[2]; to.spent[3] = from.spent[3];
	to.known[0] = from.known[0]; to.known[1] = from.known[1];
	to.disk[0] = from.disk[0]; to.disk[1] = from.disk[1]
}

inline clear() {
	i = 0;
	do
	:: i < 4 -> backup.book.granted[i] = 0; backup.book.returned[i] = 0; backup.spent[i] = 0; i++
	:: else -> break
	od;
	i = 0;
	backup.known[0] = 0; backup.known[1] = 0; backup.disk[0] = 0; backup.disk[1] = 0
}

proctype works(byte n) {
	byte i, more;
end:
	do
	/* A visitor is redirected. */
	:: d_step {
		e[n].left > 0 ->
		e[n].left--;
		spent++;
		assert(spent <= LIMIT);
#ifdef REACH_RETURNED
		assert(!(spent == LIMIT && epoch == 1 && db.book.returned[0] > 0 && file.granted[2] > 0));
#endif
#ifdef REACH_RECALLED
		assert(!(spent == LIMIT && heard && file.returned[0] > 0 && file.granted[2] == 2));
#endif
#ifdef REACH_LIMIT
		assert(!(spent == LIMIT && epoch == 2 && e[0].left == 0 && e[1].left == 0 && file.granted[0] > 0 && file.granted[2] > 0));
#endif
		skip
	}

	/* A visitor is told that all clicks are spent. */
	:: d_step { e[n].last && e[n].left == 0 -> assert(e[0].left + e[1].left == 0) }

	/* The edge reports all accounts of all its boots, once in every epoch. */
	:: atomic {
		e[n].reported != e[n].epoch ->
		d_step {
			mergeAll(n);
			if
			:: e[n].epoch == epoch ->
				if
				:: db.known[n] && db.disk[n] != e[n].disk ->
					spendAll(2 * n);
					spendAll(2 * n + 1);
					if
					:: awaited[n] -> burned = BURNS
					:: else -> skip
					fi
				:: else -> skip
				fi;
				awaited[n] = 0; db.known[n] = 1; db.disk[n] = e[n].disk
			:: else -> skip
			fi
		};
		if
		:: e[n].epoch == epoch -> e[n].reported = epoch
		:: e[n].epoch != epoch -> e[n].epoch = epoch
		:: skip /* the answer is lost */
		fi
	}

	/* It reports its present account, and asks for clicks. */
	:: atomic {
		e[n].reported == e[n].epoch && e[n].left == 0 ->
		mergeMine(n);
		/* All clicks are spent, or some can be granted. */
		assert(!(n == 1 && heard && faults == 0 && SETTLED && db.book.granted[MINE(n)] == e[n].total) ||
			USED(db.book) < LIMIT || EXHAUSTED(n));
		if
		:: waits = 1
		:: skip
		fi;
		if
		:: e[n].epoch == epoch && !FROZEN && !burned && db.book.granted[MINE(n)] == e[n].total && USED(db.book) < LIMIT && (waits || AHEAD) ->
			more = 1;
			if
			:: waits && USED(db.book) + 1 < LIMIT -> more = 2 /* two visitors wait */
			:: skip
			fi;
			db.book.granted[MINE(n)] = db.book.granted[MINE(n)] + more;
			more = 0
		:: e[n].epoch == epoch && !FROZEN && !burned && USED(db.book) >= LIMIT && !EXHAUSTED(n) && waits -> recalled = 1
		:: else -> skip
		fi;
		waits = 0;
		if
		:: d_step {
			true ->
			e[n].last = (e[n].epoch == epoch && !FROZEN && !burned && EXHAUSTED(n));
			take(n, db.book.granted[MINE(n)]);
			learn(n)
		}
		:: skip /* the answer is lost */
		fi;
		d_step { forget(MINE(n)) }
	}

	/* An answer of the lost history arrives. An edge that has seen the new one ignores
	   it. */
	:: d_step {
		former[MINE(n)] > e[n].total && (e[n].epoch < epoch || TAKES_FORMER) ->
		take(n, former[MINE(n)]);
		former[MINE(n)] = 0
	}

	/* Clicks that are recalled are taken back, and returned with the next report. */
	:: d_step {
		n == 0 && recalled && !heard && file.returned[MINE(n)] == 0 ->
		heard = 1;
		RECALL(n)
	}

	/* And so are clicks that were idle. */
	:: d_step {
		n == 0 && e[n].left > 0 && file.returned[MINE(n)] == 0 ->
		file.returned[MINE(n)] = e[n].left;
		e[n].left = KEPT(n);
		GIVEN_BACK(n)
	}
	:: d_step { n == 0 && file.returned[MINE(n)] > db.book.returned[MINE(n)] && e[n].reported == e[n].epoch -> mergeMine(n); forget(MINE(n)) }

	/* The edge is killed, and starts with another boot. */
	:: d_step {
		n == 0 && faults < FAULTS && e[n].boot == 0 && e[n].total > 0 ->
		faults++;
		RETURNED_BY_THE_DEAD(n);
		e[n].boot = 1; e[n].left = 0; e[n].reported = 0; e[n].total = 0; e[n].last = 0; heard = 0
	}

	/* Its disk is replaced by an empty one. PostgreSQL knows the edge. */
	:: d_step {
		n == 0 && faults < FAULTS && e[n].boot == 0 && e[n].total > 0 && db.known[n] && (!saved || backup.known[n]) ->
		faults++;
		file.granted[2 * n] = 0; file.returned[2 * n] = 0;
		e[n].boot = 1; e[n].left = 0; e[n].epoch = 1; e[n].reported = 0; e[n].disk = 1; e[n].total = 0; e[n].last = 0; heard = 0
	}
	od
}

proctype postgresql() {
	byte i;
end:
	do
	:: d_step { !saved && epoch == 1 && faults < FAULTS -> saved = 1; copyDatabase(db, backup) }
	:: d_step {
		saved && epoch == 1 && faults < FAULTS ->
		faults++; saved = 0; epoch = 2;
		i = 0;
		do
		:: i < 4 && db.book.granted[i] > backup.book.granted[i] -> former[i] = db.book.granted[i]; i++
		:: i < 4 && db.book.granted[i] <= backup.book.granted[i] -> i++
		:: else -> break
		od;
		i = 0;
		copyDatabase(backup, db);
		clear();
		awaited[0] = db.known[0]; awaited[1] = db.known[1]; young = 1
	}
	/* Edges that PostgreSQL has forgotten report within seconds. */
	:: d_step { young && db.known[0] && db.known[1] -> young = 0 }
	od
}

init {
	d_step { e[0].epoch = 1; e[1].epoch = 1 }
	atomic { run works(0); run works(1); run postgresql() }
}
