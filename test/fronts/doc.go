// Package fronts holds the tests of the configurations of nginx, HAProxy and Caddy in
// deploy/, each run by the real server in front of edges and control planes. It has no
// code of its own.
package fronts
