package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Set by the linker when make builds from a git repository: the version only where there
// is a tag, and the revision as the commit's time and hash, so that versions without a
// tag are in order.
var version, revision string

// baseVersion is the release that this source leads to.
const baseVersion = "0.1.0-dev"

// productVersion is never empty: the version given to the linker, or else the release
// with the commit that the linker or the Go tool knows.
func productVersion() string {
	if version != "" {
		return version
	}
	commit := revision
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		vcs := make(map[string]string)
		for _, s := range info.Settings {
			vcs[s.Key] = s.Value
		}
		if hash := vcs["vcs.revision"]; hash != "" {
			// 2026-11-28T03:15:47Z, always in UTC
			commit = strings.NewReplacer("-", "", ":", "", "T", "", "Z", "").Replace(vcs["vcs.time"]) + "." + hash[:min(len(hash), 12)]
		}
	}
	if commit == "" {
		return baseVersion
	}
	return baseVersion + "+" + commit
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version",
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			return p.print(
				fmt.Sprintf("waypost %s (%s, %s)", productVersion(), runtime.Version(), platform),
				map[string]string{"version": productVersion(), "go": runtime.Version(), "platform": platform},
			)
		},
	}
}
