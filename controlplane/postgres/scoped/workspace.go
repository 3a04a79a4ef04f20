//go:build !rlsonly

package scoped

// OfWorkspace returns the condition by which a query on tenants' rows filters by the
// workspace in a parameter. Every such query has it, in addition to row-level security,
// which would be enough: the build tag rlsonly lets every row pass, to show that.
func OfWorkspace(column, param string) string { return column + " = " + param }
