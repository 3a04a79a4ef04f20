package postgres

import "waypost/controlplane"

// Stores returns the stores of the control plane's services.
func (db *DB) Stores() controlplane.Stores {
	return controlplane.Stores{
		Links: db, Domains: db, Leases: db, Ranges: db, Reserved: db, Stats: db, Salts: db, Progress: db,
		APIKeys: db, Sessions: db, Members: db, Workspaces: db, Accounts: db, Audit: db,
	}
}
