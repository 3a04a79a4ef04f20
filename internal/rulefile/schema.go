package rulefile

import _ "embed"

// Schema is the JSON Schema of a file, for editors. A test of the API's declarations
// keeps it up to date.
//
//go:embed schema.json
var Schema []byte
