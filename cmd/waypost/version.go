package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker when make builds from a git repository: the version only
// where there is a tag.
var version, revision string

// baseVersion is the release that this source leads to.
const baseVersion = "0.1.0-dev"

// productVersion is never empty: what the linker was told, or else the release
// with the commit that the linker or the Go tool knows.
func productVersion() string {
	if version != "" {
		return version
	}
	commit := revision
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	if commit == "" {
		return baseVersion
	}
	return baseVersion + "+" + commit
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			return p.print(
				fmt.Sprintf("waypost %s (%s, %s)", productVersion(), runtime.Version(), platform),
				map[string]string{"version": productVersion(), "go": runtime.Version(), "platform": platform},
			)
		},
	}
}
