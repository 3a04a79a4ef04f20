// Package rules decides where a link leads each of its visitors: by rules that its owner
// wrote, which are compiled once and evaluated for every request, on an edge as on a
// control plane. DESIGN.md has the reasons.
//
// Rules look at facts of a request, such as its user agent and its languages. To find
// facts and to evaluate rules neither allocates nor waits, and no input of a visitor can
// make it fail. The package reads no files and makes no requests: countries and cities
// come from its caller.
package rules
