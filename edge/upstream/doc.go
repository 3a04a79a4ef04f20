// Package upstream answers for links that were created a moment ago and are not in the
// replica yet: on a miss it asks the control plane once, if the code can have been
// issued by a key range: its counter is told from it where the prefix's key is known, and compared with what is leased. It never slows the answers that the replica can give, and
// costs misses nothing once the control plane is away, or the questions are too many.
//
// It is no cache: what the control plane has answered is kept only until the stream has
// brought as much, and for some seconds at most.
package upstream
