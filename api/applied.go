package api

// Applied is the outcome of waiting for edges, in the answer to a change. The header
// Waypost-Applied has it as text.
type Applied struct {
	Outcome string   `json:"outcome" enum:"all,region,reachable,none,timeout" doc:"all, region: every edge that may be serving, everywhere or in the region, has the change on its disk. reachable: all have it except silent ones. none: there is no edge. timeout: some did not have it in time, or it is unknown which edges there are."`
	Edges   int      `json:"edges" doc:"Number of edges that have the change on their disks."`
	Behind  []string `json:"behind" doc:"Edges that did not have it in time; at most ten are named."`
	Silent  []string `json:"silent" doc:"Edges that may be serving, are not heard of, and are not known to have it; at most ten are named."`
}
