// Package console_test shows the console in a real browser, against a real system:
// PostgreSQL, a control plane and two edges. Each file in flows holds the flows of one
// area, which use the page as a person does.
package console_test
