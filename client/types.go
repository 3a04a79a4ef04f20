package client

import "waypost/api"

// Bodies of links, imports and edges, which package api declares and describes.
type (
	NewLink      = api.NewLink
	Link         = api.Link
	NewAlias     = api.NewAlias
	LinkChange   = api.LinkChange
	Import       = api.Import
	NewImport    = api.NewImport
	ImportChange = api.ImportChange
	ImportCounts = api.ImportCounts
	Edge         = api.Edge
)
