package client

import (
	"waypost/api"
)

// Stats are the statistics of a link or of a workspace.
type Stats struct {
	ShortCode   string `json:"short_code"`   // of a link
	OriginalURL string `json:"original_url"` // of a link
	Links       *int64 `json:"links"`        // of a group: the number of its links
	api.ClickStats
	Rules    []api.Named         `json:"rules"`    // of a link
	Variants []api.VariantClicks `json:"variants"` // of a link
	Codes    []api.CodeClicks    `json:"codes"`    // of a link
	Top      []api.TopLink       `json:"top"`      // of a workspace

	Annotations     []api.Annotation `json:"annotations"` // of a link
	AnnotationsMore bool             `json:"annotations_more"`
	TopExact        *bool            `json:"top_exact"` // nil for a link
}
