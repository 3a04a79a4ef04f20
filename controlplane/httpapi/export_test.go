package httpapi

import "fmt"

// Kinds returns all kinds of problems as "CODE STATUS".
func Kinds() (all []string) {
	for code, k := range kinds {
		all = append(all, fmt.Sprintf("%s %d", code, k.status))
	}
	return all
}

// ReadTags reads a list of entity tags.
func ReadTags(header string) ([]string, bool, error) { return readTags(header) }

// Versions counts the versions that an If-Match names, -1 for any.
func Versions(header string) (int, error) {
	v, err := versionsOf(header)
	if v == nil {
		return -1, err
	}
	return len(v), err
}
