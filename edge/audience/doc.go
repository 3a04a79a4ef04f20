// Package audience describes visitors from the records of the click journal: kind of
// device, browser, system and bots by the user agent, the referrer's host, country and
// city by a MaxMind database, and a number that identifies a visitor within a day. It
// also seals the addresses in the journal.
//
// It stores nothing on disk and makes no requests.
package audience

import "waypost"

// Salts are the secrets of the days, from the replica.
type Salts interface {
	// Salt returns the salt of a day, in days since 1970, UTC; nil if there is none. Many
	// goroutines may call it at once. It neither allocates nor waits.
	Salt(day int32) *waypost.Salt
}

// MaxName bounds every name in a profile, in bytes.
const MaxName = 128
