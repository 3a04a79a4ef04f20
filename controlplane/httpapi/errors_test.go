package httpapi_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

// TestEveryKindOfProblemIsDocumented holds docs/errors.md against the code: a section per
// kind, with the status that it comes with.
func TestEveryKindOfProblemIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^### `urn:waypost:problem:([a-z-]+)` · ([0-9]{3})$").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1]+" "+m[2])
	}
	require.True(t, slices.IsSortedFunc(documented, func(a, b string) int { return strings.Compare(a[len(a)-3:], b[len(b)-3:]) }), "by status")
	require.ElementsMatch(t, httpapi.Kinds(), documented)
}

func TestErrors_TheExampleOfThePageIsAnAnswer(t *testing.T) {
	text, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	a := start(t)
	body := `{"original_url": "https://example.com/", "custom_code": "sale"}`
	a.create(body)
	require.JSONEq(t, example, a.post("/api/v1/urls", body).text)
}
