// Package fronts_test holds the tests of the configurations of nginx, HAProxy and Caddy
// in deploy/, each run by the real server in front of edges and control planes.
package fronts_test
