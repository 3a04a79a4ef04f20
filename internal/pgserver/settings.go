package pgserver

import (
	"maps"
	"slices"
	"strings"
)

// arguments of the postgres binary. Settings go there rather than into postgresql.conf,
// so that a cluster on disk never depends on the program that wrote it last. They keep a
// private server apart from others; all else is PostgreSQL's default, as an operator has
// it.
func arguments(data, sockets string, extra map[string]string) []string {
	settings := map[string]string{
		"listen_addresses":        "", // unix socket only
		"unix_socket_directories": quoteList(sockets),
		"port":                    socketPort, // names the socket file; no TCP port is opened
		"cluster_name":            "waypost",
		"max_connections":         "200", // tests run many systems
	}
	maps.Copy(settings, extra)
	args := []string{"-D", data}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// quoteList writes one element of a list setting, in which a bare comma or space
// would separate elements.
func quoteList(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
