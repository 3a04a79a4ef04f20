// Package audience tells who clicked, from what the click journal holds: the kind of
// device, browser and system and whether it is a bot by the user agent, the referrer's host, country and city
// by a MaxMind database, and a number by which visitors of a day are told apart. It
// also seals the addresses that the journal holds.
//
// It keeps nothing on disk and asks nobody.
package audience

import "waypost"

// Salts are the secrets of the days, as the replica has them.
type Salts interface {
	// Salt gives the salt of a day, in days since 1970, UTC; nil when there is none.
	// It may be called by many goroutines at once, and neither allocates nor waits.
	Salt(day int32) *waypost.Salt
}

// MaxName bounds every name in a profile, in bytes.
const MaxName = 128
