//go:build linux

// Command keys measures what keys cost: how fast the key generation service issues
// codes over leases of a real PostgreSQL, beside random codes that nobody checks and
// a sequence of the database, and how many links a second are created with it and
// without it. It writes results/keys.json and RESULTS.md when all of it went well.
package main
