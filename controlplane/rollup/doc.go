// Package rollup adds clicks up: it packs what the control plane keeps of a link's
// day, and merges it. It is arithmetic alone; where packed bytes lie and who folds
// them is up to package controlplane/postgres.
//
// A [Part] is what one batch of an edge says of one link and day, and a [Day] what
// all of them say together: clicks by quarter of an hour, a [Breakdown] and
// [Visitors]. Nothing is lost by merging: in every dimension of a breakdown the clicks
// add up to those of the day.
//
// # Packed forms
//
// Numbers are unsigned varints, as encoding/binary has them, unless something else
// is said; a text is its length and its bytes. A form fills its bytes exactly, and
// is refused otherwise.
//
// A part (click_part.detail, an element of click_pack.details):
//
//	version 1, one byte
//	number of profiles; for each: bot (0 or 1), country, city, device, browser, OS, referrer
//	number of rows, at least one; for each, in strict order of quarter and profile:
//	    quarter of the day, one byte, 0 to 95; profile, counted from 0; clicks, at least 1
//	number of visitors; for each: hash and bot, (hash << 1 | bot), 6 bytes, big-endian; strictly ascending
//
// A breakdown (click_day.breakdown, click_workspace_day.breakdown):
//
//	version 1, one byte
//	for country, city, device, browser, OS, referrer:
//	    number of names, at most 1,000; for each, in strict order: name, clicks (at least 1), bots
//	    clicks of all other names, bots of these
//
// The name "" is what nobody knows. A city's name is COUNTRY/CITY, "DE/Berlin", because there
// are cities of the same name. What lies beyond 1,000 names is in "other", which is no name
// but a place of its own, so that a referrer may be called so.
//
// Visitors (click_day.visitors, click_workspace_day.visitors):
//
//	version 1, one byte
//	for people, then bots:
//	    0, one byte; number of hashes, at most 2,048; each in 5 bytes, big-endian, strictly ascending
//	    or 1, one byte; 16,384 registers of 6 bits, the first in the upper bits
//
// The links with the most clicks (click_workspace_day.top):
//
//	version 1, one byte
//	number of links, at most 1,000; for each, in strict order: its id, less that of the one before; clicks (at least 1), bots
//	clicks that no other link has more than
//
// Up to 2,048 visitors are told exactly. More are a HyperLogLog sketch of precision
// 14, whose standard error is 0.8 %. The same visitors give the same bytes, in
// whatever order and however often they come.
package rollup
