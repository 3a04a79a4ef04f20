//go:build !rlsonly

package postgres

// ofWorkspace is the condition by which a query on tenants' rows filters by the
// workspace in a parameter. It stands in every such query, beside row-level security, which
// would do alone: the build tag rlsonly makes it let every row pass, to show that.
func ofWorkspace(column, param string) string { return column + " = " + param }
