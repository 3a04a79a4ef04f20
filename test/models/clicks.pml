/* Click batches: an edge ships the batches of one boot to two control planes, which
   count them in one PostgreSQL. Requests and answers are lost or come late, the edge is
   killed, and PostgreSQL fails over to an older copy of itself.

   I6: what is counted is the sum of the batches up to the watermark, and a resend
   changes nothing. In the end each click is counted once, unless its batch was forgotten
   by a failover after the edge had kept it for as long as it had to. */

#define CLICKS    3 /* that visitors make */
#define FAILOVERS 2
#define KILLS     2 /* of the edge */

/* The edge's disk. Batches have the sequences 1 to made; size is their content. */
byte recorded;            /* clicks in the journal */
byte batched;             /* clicks that are in batches */
byte made, acked;         /* newest batch on the disk, newest acknowledged one */
byte size[CLICKS + 1];
bit retained[CLICKS + 1]; /* acknowledged, and still on the disk */
bit expired[CLICKS + 1];  /* acknowledged, and removed because it was kept long enough */

/* PostgreSQL, and the copy to which it fails over. Taken is click_batch: the content
   that was counted under a sequence. */
typedef database {
	byte watermark;
	byte counted;
	byte taken[CLICKS + 1];
};
database primary, standby;
byte lock = 0;  /* the control plane that holds the row of the watermark */
byte failovers, kills;

#ifdef NO_LOCK
#define UNLOCKED true
#else
#define UNLOCKED (lock == 0)
#endif

#ifdef COUNTS_RESENDS
#define NEXT(c) true
#elif defined(TAKES_GAPS)
#define NEXT(c) (seq[c] > primary.watermark)
#else
#define NEXT(c) (seq[c] == primary.watermark + 1)
#endif

#ifdef NEVER_CONFIRMS
#define ASKED true
#else
#define ASKED (confirmed || !retained[acked] || failovers == 0)
#endif

/* A request to each control plane. */
mtype = { idle, sent, locked, between };
mtype phase[2] = idle;
byte seq[2], content[2];
bit next[2];    /* the batch was the next one when the transaction looked */
bit wanted[2];  /* the edge waits for the answer */

/* The answer that the edge waits for. */
mtype = { none, failed, answered };
mtype answer = none;
byte watermark; /* in the answer */
bit confirmed;  /* the edge has asked about its newest batch since the last failover */

inline consistent() {
	d_step {
		i = 1; sum = 0;
		do
		:: i <= primary.watermark -> sum = sum + primary.taken[i]; i++
		:: else -> break
		od;
		assert(primary.counted == sum); /* I6 */
		i = 0; sum = 0
	}
}

inline copy(from, to) {
	to.watermark = from.watermark;
	to.counted = from.counted;
	to.taken[1] = from.taken[1];
	to.taken[2] = from.taken[2];
	to.taken[3] = from.taken[3]
}

/* The control plane c answers, if the edge still waits. */
inline reply(c, what) {
	if
	:: wanted[c] -> answer = what; watermark = primary.watermark
	:: else -> skip
	fi;
	wanted[c] = 0; phase[c] = idle; seq[c] = 0; content[c] = 0; next[c] = 0
}

inline release(c) {
	if
	:: lock == c + 1 -> lock = 0
	:: else -> skip
	fi
}

inline judge(c) {
	if
	:: !next[c] && seq[c] <= primary.watermark && primary.taken[seq[c]] != content[c] ->
		/* A dead letter. Only an empty batch that takes the place of an expired one,
		   or the expired one itself, may differ from what was taken. */
		assert(expired[seq[c]])
	:: else -> skip
	fi
}

proctype control(byte c) {
	byte i, sum;
end:
	do
	:: d_step { phase[c] == sent -> reply(c, failed) } /* the request is lost */
	:: d_step { phase[c] == sent && UNLOCKED -> lock = c + 1; phase[c] = locked; next[c] = NEXT(c) }
	:: d_step { phase[c] == locked -> release(c); reply(c, failed) } /* the connection breaks */
	:: atomic {
		phase[c] == locked ->
		if
		:: next[c] -> primary.counted = primary.counted + content[c]
#ifndef TWO_TRANSACTIONS
			; if
			:: seq[c] > primary.watermark -> primary.watermark = seq[c]; primary.taken[seq[c]] = content[c]
			:: else -> skip
			fi
#endif
		:: else -> skip
		fi;
#ifdef TWO_TRANSACTIONS
		if
		:: next[c] -> release(c); phase[c] = between
		:: else -> judge(c); release(c); if :: true -> reply(c, answered) :: true -> reply(c, failed) fi
		fi
#else
		judge(c); release(c);
		consistent();
		if
		:: true -> reply(c, answered)
		:: true -> reply(c, failed) /* the answer is lost */
		fi
#endif
	}
#ifdef TWO_TRANSACTIONS
	:: d_step { phase[c] == between -> primary.watermark = seq[c]; primary.taken[seq[c]] = content[c]; reply(c, answered) }
	:: atomic { phase[c] == between -> reply(c, failed); consistent() } /* the connection breaks */
#endif
	od
}

proctype faults() {
	byte i;
end:
	do
	:: d_step { primary.watermark != standby.watermark -> copy(primary, standby) }
	:: d_step {
		failovers < FAILOVERS && primary.watermark != standby.watermark ->
		failovers++; copy(standby, primary); confirmed = 0; lock = 0;
		i = 0;
		do
		:: i < 2 && phase[i] == locked -> reply(i, failed); i++
		:: i < 2 && phase[i] != locked -> i++
		:: else -> break
		od;
		i = 0
	}
	od
}

/* Sends a batch to a control plane that has no other request of this edge. */
inline send(s, n) {
	if
	:: phase[0] == idle -> seq[0] = s; content[0] = n; wanted[0] = 1; phase[0] = sent
	:: phase[1] == idle -> seq[1] = s; content[1] = n; wanted[1] = 1; phase[1] = sent
	fi
}

inline giveUp() { wanted[0] = 0; wanted[1] = 0; answer = none; watermark = 0 }

proctype edge() {
	byte filling; /* the batch that the control plane lacks and gets again; 0: none */
	byte end;     /* filling ends before it */
	bit asking;   /* confirm, and not ship */
	byte i;
ready:
	do
	:: atomic { recorded < CLICKS -> recorded++ }
	:: atomic { /* one batch waits at most */
		batched < recorded && made == acked ->
		made++; size[made] = recorded - batched; batched = recorded
	}
	:: atomic { acked < made -> send(acked + 1, size[acked + 1]); asking = 0; goto waiting }
#ifndef NEVER_CONFIRMS
	:: atomic {
		acked == made && retained[acked] && !confirmed ->
		send(acked, size[acked]); asking = 1; confirmed = 1; goto waiting
	}
#endif
	:: d_step { acked > 0 && retained[1] -> retained[1] = 0; expired[1] = 1 }
	:: atomic { /* the end: nothing waits, and nothing is on its way */
		recorded == CLICKS && batched == CLICKS && acked == made && phase[0] == idle && phase[1] == idle &&
		ASKED ->
		i = 1;
		do
		:: i <= made ->
			assert(i <= primary.watermark || !retained[made]);
			assert(i > primary.watermark || primary.taken[i] == size[i] || expired[i]);
#ifdef REACH_RESENT
			assert(!(failovers == FAILOVERS && kills == KILLS && made == CLICKS && i == CLICKS &&
				primary.counted == CLICKS));
#endif
#ifdef REACH_VOID
			assert(!(expired[i] && i <= primary.watermark && primary.taken[i] == 0));
#endif
			i++
		:: else -> break
		od;
		i = 0;
		goto done
	}
	od;
waiting:
	if
	:: atomic { answer == failed -> giveUp(); filling = 0; end = 0; asking = 0; goto lost }
	:: atomic { answer == none -> giveUp(); filling = 0; end = 0; asking = 0; goto lost } /* too late */
	:: atomic {
		answer == answered && filling == 0 && !asking ->
		if
		:: watermark > acked ->
			acked++;
#ifdef NO_RETENTION
			skip
#else
			retained[acked] = 1
#endif
			; giveUp(); goto ready
		:: watermark < acked -> filling = watermark + 1; end = acked + 1; giveUp(); goto fill
		fi
	}
	:: atomic {
		answer == answered && filling == 0 && asking ->
		if
		:: watermark < acked -> filling = watermark + 1; end = acked + 1
		:: else -> skip
		fi;
		asking = 0; giveUp();
		if
		:: filling > 0 -> goto fill
		:: else -> goto ready
		fi
	}
	:: atomic {
		answer == answered && filling > 0 ->
		if
		:: watermark >= filling -> giveUp(); filling++
		:: else -> giveUp(); filling = 0; end = 0; goto lost /* another failover: from the start */
		fi;
		goto fill
	}
	fi;
fill:
	if
	:: atomic { filling == end -> filling = 0; end = 0; goto ready }
	:: atomic {
		filling < end ->
		if
		:: retained[filling] -> send(filling, size[filling])
		:: else -> send(filling, 0)
		fi;
		goto waiting
	}
	fi;
lost:
	atomic {
		if
		:: confirmed = 0; goto ready
		:: kills < KILLS -> /* killed, at any of these places, and started again */
			kills++; confirmed = 0;
#ifdef REMAKES
			if
			:: made > acked -> batched = batched - size[made]; size[made] = 0; made-- /* the batch was not synced */
			:: else -> skip
			fi;
#endif
			goto ready
		fi
	}
done:
	skip
}

init {
	atomic { run edge(); run control(0); run control(1); run faults() }
}
