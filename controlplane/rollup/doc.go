// Package rollup adds up the clicks of a link's day, and packs the sums for storage. It
// is arithmetic alone; package controlplane/postgres stores the packed bytes and decides
// when to merge them.
//
// A [Delta] holds the clicks of one link and day from one batch of an edge, and a [Day]
// the sum of all batches: clicks by quarter of an hour, a [Breakdown] and [Visitors].
// Merging loses no click: in every dimension of a breakdown the clicks add up to the
// clicks of the day.
//
// # Packed forms
//
// Numbers are unsigned varints, as encoding/binary writes them, unless noted; a text is
// its length and its bytes. A form that does not fill its bytes exactly is refused.
//
// A delta (click_part.detail, an element of click_pack.details):
//
//	version 1, one byte
//	number of profiles; for each: flags, one byte: 1 a bot, 2 it has a rule or a
//	    variant, 4 it has utm parameters; rule and variant, one byte each, if it has any;
//	    country, city, device, browser, OS, referrer;
//	    the five utm parameters, if it has any
//	number of rows, at least one; for each, in strict order of quarter and profile:
//	    quarter of the day, one byte, 0 to 95; profile, counted from 0; clicks, at least 1
//	number of visitors; for each, strictly ascending:
//	    hash and bot, (hash << 1 | bot), 6 bytes, big-endian
//
// Quarters of an hour (click_day.quarters, click_workspace_day.quarters):
//
//	version 1, one byte
//	number of quarters with clicks, one byte; for each, in strict order:
//	    quarter of the day, one byte, 0 to 95; clicks (at least 1), bots
//
// A breakdown (click_day.breakdown, click_workspace_day.breakdown):
//
//	version 1, one byte
//	for country, city, device, browser, OS, referrer:
//	    number of names, at most 1,000;
//	        for each, in strict order: name, clicks (at least 1), bots
//	    clicks of all other names, bots of these
//	one byte, the sum of 1 for rules, 2 for variants, and 4, 8, 16, 32 and 64 for
//	    utm_source, utm_medium, utm_campaign, utm_term and utm_content;
//	    the same for each of these
//
// The name "" means unknown, or none. A city's name is COUNTRY/CITY, "DE/Berlin", because
// cities share names. A rule's name is its id, and a variant's RULE/VARIANT, "1/3",
// because a share refers to the clicks of one rule. A day leaves out the dimensions of
// rules, of variants and of each parameter when no click has a name there, as on most
// days. Clicks beyond 1,000 names are in "other", which is a field and not a name, so
// that a referrer may be called "other".
//
// Visitors (click_day.visitors, click_workspace_day.visitors):
//
//	version 1, one byte
//	for people, then bots:
//	    0, one byte; number of hashes, at most 2,048;
//	        each in 5 bytes, big-endian, strictly ascending
//	    or 1, one byte; 16,384 registers of 6 bits, the first in the upper bits
//
// The links with the most clicks (click_workspace_day.top):
//
//	version 1, one byte
//	number of links, at most 1,000; for each, in strict order:
//	    its id, less the id before; clicks (at least 1), bots
//	upper bound of the clicks of any other link
//
// Up to 2,048 visitors are counted exactly. More are a HyperLogLog sketch of precision
// 14, with a standard error of 0.8 %. The bytes depend on the set of visitors alone, not
// on the order of their clicks.
package rollup
