package postgres

// Sealed is what is kept of a document in a Memory.
var Sealed = sealed
