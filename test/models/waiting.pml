/* Waiting for edges: a client deletes a link and waits for all edges. Two edges report to
   a control plane, which may lose its memory, and to another one. The second edge may be a
   copy of the disk of the first one, with its name. Disks are slow, edges are cut off,
   crash, stop in order, restart and start again.

   A client that is told "all" finds the change on the disk of every edge that serves. An edge
   that serves later, and reached a control plane at its start, has the change before. An
   edge that reports is never taken for silent. */

#define FAULTS 1

/* The first edge has the boots 0 and 1, the second one has boot 2. */
#define EDGE(k)    ((k) == 2)
#define SAME(k, j) ((k) != (j) && (copied || EDGE(k) == EDGE(j)))

mtype = { none, starting, serving, ended };
mtype boot[3] = none;
bit copied;           /* the second edge has the name of the first one */
bit has[2], disk[2];  /* the change, as the edge serves it, and on its disk */
bit slow[2];          /* its disk does not answer */
bit cut[2];           /* it does not reach the control plane, but the other one */
bit off[2];           /* it reaches neither */
bit crashed[2];       /* its last boot has not said that it stopped */
bit bye[3];           /* a farewell is under way */
bit announced[3];     /* the first report was answered */
bit wanted[3];        /* by an answer that asks for the change before it serves */
bit unknown[3];       /* it serves, and no control plane knew when the rows were read */
bit continues;        /* boot 1 goes on in the process of boot 0 */
bit committed;        /* the change */
bit said;             /* the client was told that all edges have it */
byte faults;

/* PostgreSQL: edge_boot. */
bit row[3];           /* the boot may be serving */
bit stopped[3];       /* it has stopped */
bit reported[3];      /* it was there */
bit later[9];         /* boot k has reported after the first report of boot j: 3k + j */
bit fresh[3];         /* it has reported within seconds */

/* The memory of the control plane. */
bit up = 1;
bit young;            /* started less than five seconds ago */
bit heard[3];         /* the boot has reported here within seconds */
bit synced[3];        /* its last report here says that the change is on its disk */

/* The client. */
bit asks;
bit found[3], recent[3]; /* rows that were read */

#define ALIVE(k)   (boot[k] == starting || boot[k] == serving)
#define HERE(k)    (up && !cut[EDGE(k)] && !off[EDGE(k)])
#define REPORTS(k) (ALIVE(k) && HERE(k))
#define THERE(k)   (ALIVE(k) && !off[EDGE(k)])

#ifdef READS_EARLY
#define MAY_READ true
#else
#define MAY_READ committed
#endif

#ifdef SERVES_AT_ONCE
#define CAUGHT_UP(k) true
#else
#define CAUGHT_UP(k) (!wanted[k] || disk[EDGE(k)])
#endif

/* Boot 1, which goes on in the process of boot 0, reports before that is silent. */
#define SOON(k) ((k) == 0 && continues && (REPORTS(1) && !heard[1] || THERE(1) && !reported[1]))
#ifdef SYNCS_FIRST
#define QUIET(k) (!SOON(k) && (!REPORTS(k) || slow[EDGE(k)]))
#else
#define QUIET(k) (!SOON(k) && !REPORTS(k))
#endif

#ifdef TELLS_APPLIED
#define TOLD(k) has[EDGE(k)]
#else
#define TOLD(k) disk[EDGE(k)]
#endif

#define PAIRED(k) (PAIR(k, 0) || PAIR(k, 1) || PAIR(k, 2))
#define PAIR(k, j) (SAME(k, j) && !stopped[j] && later[3 * (k) + (j)] && later[3 * (j) + (k)])

#ifdef BY_NAME
#define FOLLOWED(k, j) (SAME(k, j) && heard[j] && !later[3 * (k) + (j)])
#else
#define FOLLOWED(k, j) (SAME(k, j) && heard[j] && !later[3 * (k) + (j)] && !heard[k] && !recent[k] && !PAIRED(k))
#endif
#define PRESENT(k) ((found[k] || heard[k]) && !FOLLOWED(k, 0) && !FOLLOWED(k, 1) && !FOLLOWED(k, 2))
#define TWIN(k)    (heard[0] && PAIR(k, 0) || heard[1] && PAIR(k, 1) || heard[2] && PAIR(k, 2))
#define LACKS(k)   (PRESENT(k) && (!synced[k] || TWIN(k)))
#define BEHIND(k)  (LACKS(k) && (heard[k] || recent[k] || young))
#define MISSED(k)  (LACKS(k) && !(heard[k] || recent[k] || young))

/* An edge that stopped in order, and started while it reached no control plane, is unknown
   until it has reported. */
#define RIGHT(k) (boot[k] != serving || disk[EDGE(k)] || unknown[k])

/* Assumption: of two edges with one name, neither is cut off while a boot of the other one
   starts, until both have reported. It would look like the other one before a crash. */
#define LATER(k, j)   (!SAME(k, j) || !reported[j] || stopped[j] || later[3 * (k) + (j)])
#define MET(k)        (!ALIVE(k) || LATER(k, 0) && LATER(k, 1) && LATER(k, 2))
#define MAY_CUT       (!copied || boot[2] == none || MET(0) && MET(1) && MET(2))
#define SEEN(k)       (!ALIVE(k) || heard[k] || fresh[k])
#define MAY_START     (!copied || !cut[0] && !off[0] && !cut[1] && !off[1] && SEEN(0) && SEEN(1) && SEEN(2))

inline receive(k) {
	later[3 * k] = later[3 * k] || (SAME(k, 0) && reported[0]);
	later[3 * k + 1] = later[3 * k + 1] || (SAME(k, 1) && reported[1]);
	later[3 * k + 2] = later[3 * k + 2] || (SAME(k, 2) && reported[2])
}

/* The first report is in PostgreSQL before it is answered. */
inline answerFirst(k) {
	row[k] = 1; reported[k] = 1; announced[k] = 1; wanted[k] = committed;
	if
	:: k == 1 && continues ->
		row[0] = 0; stopped[0] = 1; heard[0] = 0; synced[0] = 0;
		later[7] = later[7] || later[6]; later[5] = later[5] || later[2]
	:: else -> skip
	fi
}

inline readRows() {
#ifdef FORGETS_ROWS
	skip; /* only in a flaw */
#else
	found[0] = row[0]; found[1] = row[1]; found[2] = row[2];
#endif
	unknown[0] = unknown[0] && !reported[0]; unknown[1] = unknown[1] && !reported[1]; unknown[2] = unknown[2] && !reported[2];
	recent[0] = row[0] && fresh[0]; recent[1] = row[1] && fresh[1]; recent[2] = row[2] && fresh[2]
}

inline hangUp() {
	asks = 0; found[0] = 0; found[1] = 0; found[2] = 0; recent[0] = 0; recent[1] = 0; recent[2] = 0
}

/* A boot, from its start to its farewell. */
proctype life(byte k) {
end:
	do
	:: d_step { /* it starts again; boot 2 is the copy */
		boot[k] == none && (k == 1 && boot[0] == ended || k == 2 && copied) && MAY_START -> boot[k] = starting;
		if
		:: asks -> readRows()
		:: else -> skip
		fi
	}
	:: d_step { boot[k] == starting && announced[k] && CAUGHT_UP(k) -> boot[k] = serving; assert(!said || RIGHT(k)) }
	:: d_step { boot[k] == starting && !announced[k] && off[EDGE(k)] -> boot[k] = serving; unknown[k] = !crashed[EDGE(k)] }
	:: d_step { faults < FAULTS && ALIVE(k) -> faults++; boot[k] = ended; has[EDGE(k)] = disk[EDGE(k)]; crashed[EDGE(k)] = 1 }
	:: d_step {
		boot[k] == serving && reported[k] && !bye[k] && !stopped[k] -> bye[k] = 1;
#ifndef FAREWELL_FIRST
		boot[k] = ended; crashed[EDGE(k)] = 0
#endif
	}
	:: d_step { /* it restarts in the same process, and is never off */
		k == 0 && boot[0] == serving && !bye[0] && boot[1] == none ->
		boot[0] = ended; boot[1] = serving; continues = 1; announced[1] = 1; has[0] = disk[0]; crashed[0] = 1
	}
	:: d_step { REPORTS(k) && !stopped[k] -> heard[k] = 1; synced[k] = TOLD(k); fresh[k] = 1; receive(k);
		if
		:: !reported[k] ->
#ifdef NOTES_LATER
			announced[k] = 1
#else
			answerFirst(k)
#endif
		:: else -> skip
		fi
	}
#ifdef NOTES_LATER
	:: d_step { REPORTS(k) && heard[k] && !reported[k] -> answerFirst(k) }
#endif
	:: d_step { THERE(k) && !stopped[k] && !REPORTS(k) -> fresh[k] = 1; receive(k);
		if
		:: !reported[k] -> answerFirst(k)
		:: else -> skip
		fi
	}
	:: d_step { bye[k] && !off[EDGE(k)] -> bye[k] = 0; row[k] = 0; stopped[k] = 1; fresh[k] = 0;
		if
		:: HERE(k) -> heard[k] = 0; synced[k] = 0
		:: else -> skip
		fi
	}
	:: d_step { /* seconds have passed, so that a client that asks has read the rows again */
		(heard[k] || fresh[k]) && QUIET(k) && (!heard[k] || !fresh[k] || !THERE(k) || cut[EDGE(k)] || !up || slow[EDGE(k)]) ->
		assert(!heard[k] || !REPORTS(k));
		heard[k] = 0;
		fresh[k] = THERE(k);
		if
		:: asks -> readRows()
		:: else -> skip
		fi
	}
	od
}

/* The disk and the stream of an edge, and its way to the control planes. */
proctype machine(byte i) {
end:
	do
	:: d_step { committed && !has[i] && (i == 0 && (THERE(0) || THERE(1)) || i == 1 && THERE(2)) -> has[i] = 1 }
	:: d_step { has[i] && !disk[i] && !slow[i] -> disk[i] = 1 }
	:: d_step { faults < FAULTS && !slow[i] -> faults++; slow[i] = 1 }
	:: d_step { slow[i] -> slow[i] = 0 }
	:: d_step { faults < FAULTS && !cut[i] && !off[i] && MAY_CUT -> faults++; cut[i] = 1 }
	:: d_step { faults < FAULTS && !cut[i] && !off[i] && MAY_CUT -> faults++; off[i] = 1 }
	:: d_step { cut[i] || off[i] -> cut[i] = 0; off[i] = 0 }
	od
}

/* The control plane, and the client that asks it. */
proctype control() {
end:
	do
	:: d_step { faults < FAULTS && up ->
		faults++; up = 0; young = 0; hangUp();
		heard[0] = 0; heard[1] = 0; heard[2] = 0; synced[0] = 0; synced[1] = 0; synced[2] = 0
	}
	:: d_step { !up -> up = 1; young = 1 }
	:: d_step { young && (!REPORTS(0) || heard[0]) && (!REPORTS(1) || heard[1]) && (!REPORTS(2) || heard[2]) -> young = 0 }
	:: d_step { up && !asks && !said && MAY_READ -> asks = 1; readRows() }
	:: d_step { asks && committed && !BEHIND(0) && !BEHIND(1) && !BEHIND(2) &&
#ifdef LEAVES_OUT_SILENT
		true ->
#else
		!MISSED(0) && !MISSED(1) && !MISSED(2) ->
#endif
		assert(RIGHT(0)); assert(RIGHT(1)); assert(RIGHT(2));
#ifdef REACH_ALL
		assert(!(faults == FAULTS && boot[1] == serving && reported[1] && !copied));
#endif
#ifdef REACH_ALL_BUT_THE_COPY
		assert(!(copied && stopped[2]));
#endif
		said = 1; hangUp()
	}
	:: d_step { asks && committed && !BEHIND(0) && !BEHIND(1) && !BEHIND(2) && (MISSED(0) || MISSED(1) || MISSED(2)) ->
		hangUp();
#ifdef REACH_REACHABLE
		assert(false);
#endif
		skip
	}
	od
}

init {
	atomic {
		boot[0] = serving; row[0] = 1; reported[0] = 1; announced[0] = 1; crashed[0] = 1; heard[0] = 1; fresh[0] = 1;
		if
		:: copied = 1
		:: boot[2] = serving; row[2] = 1; reported[2] = 1; announced[2] = 1; crashed[1] = 1; heard[2] = 1; fresh[2] = 1
		fi;
		run life(0); run life(1); run life(2); run machine(0); run machine(1); run control()
	}
	committed = 1
}
