package controlplane

// CheckMetadata judges metadata that are not empty.
func CheckMetadata(text []byte) error { return checkMetadata(text) }
