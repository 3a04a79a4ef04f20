package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// languages are the languages of a text in the catalogue, in order.
var languages = []string{"en", "de"}

// catalogue returns a plugin that replaces the texts of messages/*.json by those of one
// language.
func catalogue(language string) api.Plugin {
	return api.Plugin{Name: "catalogue", Setup: func(b api.PluginBuild) {
		b.OnLoad(api.OnLoadOptions{Filter: `messages/\w+\.json$`}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			content, err := os.ReadFile(args.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}
			texts, err := inLanguage(content, slices.Index(languages, language))
			if err != nil {
				return api.OnLoadResult{}, fmt.Errorf("%s: %w", args.Path, err)
			}
			return api.OnLoadResult{Contents: &texts, Loader: api.LoaderJSON}, nil
		})
	}}
}

// inLanguage returns the texts of one language out of a file of the catalogue. It refuses
// a text without a translation, or whose translation has other placeholders.
func inLanguage(content []byte, language int) (string, error) {
	var entries map[string][]json.RawMessage
	if err := json.Unmarshal(content, &entries); err != nil {
		return "", err
	}
	chosen := make(map[string]json.RawMessage, len(entries))
	for key, texts := range entries {
		if len(texts) != len(languages) {
			return "", fmt.Errorf("%s has %d languages", key, len(texts))
		}
		var first []string
		for i, text := range texts {
			names, err := placeholders(text)
			if err != nil {
				return "", fmt.Errorf("%s: %w", key, err)
			}
			if i == 0 {
				first = names
			} else if !slices.Equal(first, names) {
				return "", fmt.Errorf("%s has the placeholders %q in one language and %q in another", key, first, names)
			}
		}
		chosen[key] = texts[language]
	}
	text, err := json.Marshal(chosen) // in the order of keys
	return string(text), err
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// placeholders returns the names in a text, which is a string or a pair of one and other
// forms. A form for one may leave {n} out.
func placeholders(text json.RawMessage) ([]string, error) {
	var forms []string
	if json.Unmarshal(text, &forms) != nil {
		forms = make([]string, 1)
		if err := json.Unmarshal(text, &forms[0]); err != nil {
			return nil, fmt.Errorf("neither a text nor a pair of forms: %s", text)
		}
	} else if len(forms) != 2 {
		return nil, fmt.Errorf("%d forms, where one and other are needed", len(forms))
	}
	var names []string
	for _, m := range placeholder.FindAllStringSubmatch(strings.Join(forms, " "), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
