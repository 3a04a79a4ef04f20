package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes the bill of materials of a program in the CycloneDX format: the modules
// that are linked into it, as the Go command has noted them there.
func (r *release) writeBill(program, out string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	sum, err := sumOf(program)
	if err != nil {
		return err
	}
	main := component(cyclonedx.ComponentTypeApplication, "waypost", r.version, "pkg:generic/waypost@"+r.version)
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}
	main.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", info.GoVersion, "pkg:golang/std@"+info.GoVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
		c.Properties = &[]cyclonedx.Property{{Name: "waypost:go.sum", Value: m.Sum}}
		parts = append(parts, c)
	}
	refs := make([]string, len(parts))
	for i := range parts {
		refs[i] = parts[i].BOMRef
	}
	bill := cyclonedx.NewBOM()
	bill.Metadata = &cyclonedx.Metadata{Component: &main, Timestamp: r.modified.Format(time.RFC3339)}
	bill.Components = &parts
	bill.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	return write(out, text.Bytes(), 0o644)
}

func component(kind cyclonedx.ComponentType, name, version, url string) cyclonedx.Component {
	return cyclonedx.Component{Type: kind, Name: name, Version: version, PackageURL: url, BOMRef: url}
}
