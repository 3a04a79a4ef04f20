package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// languages are the languages of a text in the catalogue, in order.
var languages = []string{"en", "de"}

// catalogue returns a plugin that reduces the texts of messages/ to one language. Texts
// that the source names are written in the place of the call, so that neither their keys
// nor a table of them are loaded. The texts of messages/of/, which are looked up by a
// value, remain a table.
func catalogue(source, language string) api.Plugin {
	chosen := slices.Index(languages, language)
	load := func(path string) (map[string]json.RawMessage, error) {
		content, err := os.ReadFile(path) //nolint:gosec // a file of the source
		if err != nil {
			return nil, err
		}
		texts, err := inLanguage(content, chosen)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return texts, nil
	}
	messages := filepath.Join(source, "messages")
	areas := make(map[string]map[string]json.RawMessage)
	area := func(name string) (map[string]json.RawMessage, error) {
		var err error
		if areas[name] == nil {
			areas[name], err = load(filepath.Join(messages, name+".json"))
		}
		return areas[name], err
	}
	return api.Plugin{Name: "catalogue", Setup: func(b api.PluginBuild) {
		b.OnLoad(api.OnLoadOptions{Filter: `messages/(of/)?\w+\.json$`}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			texts, err := load(args.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}
			content, err := json.Marshal(texts) // in the order of keys
			contents := string(content)
			return api.OnLoadResult{Contents: &contents, Loader: api.LoaderJSON}, err
		})
		b.OnLoad(api.OnLoadOptions{Filter: "^" + regexp.QuoteMeta(source) + `/.*\.tsx?$`}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
			content, err := os.ReadFile(args.Path)
			if err != nil {
				return api.OnLoadResult{}, err
			}
			code, err := inPlace(string(content), area)
			if err != nil {
				return api.OnLoadResult{}, fmt.Errorf("%s: %w", args.Path, err)
			}
			if strings.Contains(code, filling+"(") {
				code = fmt.Sprintf("import { fill as %s } from %q;", filling, filepath.Join(source, "app/i18n")) + code
			}
			loader := api.LoaderTS
			if strings.HasSuffix(args.Path, "x") {
				loader = api.LoaderTSX
			}
			return api.OnLoadResult{Contents: &code, Loader: loader, ResolveDir: filepath.Dir(args.Path)}, nil
		})
	}}
}

var (
	imports = regexp.MustCompile(`import \{([^}]*)\} from "[^"]*/messages/(\w+)"`)
	named   = regexp.MustCompile(`\btext\b(?: as (\w+))?`)
	call    = regexp.MustCompile(`(^|[^\w.])(\w+)\("(\w+)"([,)])`)
	keyless = regexp.MustCompile(`(?:^|[^\w.])(\w+)\([^")]`)
)

// filling is the name of the function that puts values into a text, in built code.
const filling = "fillText"

// inPlace replaces the calls by which code asks for texts of areas. A call with values,
// or for a text with a pair of forms, becomes a call of filling. A call with another
// argument than a key is refused, because it would load the texts of the whole area.
func inPlace(code string, area func(name string) (map[string]json.RawMessage, error)) (string, error) {
	functions := make(map[string]map[string]json.RawMessage) // texts, by the name of the function
	for _, m := range imports.FindAllStringSubmatch(code, -1) {
		function := named.FindStringSubmatch(m[1])
		if function == nil {
			continue
		}
		texts, err := area(m[2])
		if err != nil {
			return "", err
		}
		functions[cmp.Or(function[1], "text")] = texts
	}
	var err error
	for _, m := range keyless.FindAllStringSubmatch(code, -1) {
		if functions[m[1]] != nil {
			err = errors.Join(err, fmt.Errorf("%s is called without a key, where textOf looks texts up: %s", m[1], m[0]))
		}
	}
	code = call.ReplaceAllStringFunc(code, func(whole string) string {
		m := call.FindStringSubmatch(whole)
		texts, ok := functions[m[2]]
		if !ok {
			return whole
		}
		text, ok := texts[m[3]]
		if !ok {
			err = errors.Join(err, fmt.Errorf("no text %s", m[3]))
		}
		function := filling
		if m[4] == ")" && bytes.HasPrefix(text, []byte(`"`)) {
			function = ""
		}
		return m[1] + function + "(" + string(text) + m[4]
	})
	return code, err
}

// inLanguage returns the texts of one language out of a file of the catalogue. It refuses
// a text without a translation, or with other placeholders in the translation.
func inLanguage(content []byte, language int) (map[string]json.RawMessage, error) {
	var entries map[string][]json.RawMessage
	if err := json.Unmarshal(content, &entries); err != nil {
		return nil, err
	}
	chosen := make(map[string]json.RawMessage, len(entries))
	for key, texts := range entries {
		if len(texts) != len(languages) {
			return nil, fmt.Errorf("%s has %d languages", key, len(texts))
		}
		var first []string
		for i, text := range texts {
			names, err := placeholders(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			// The detail of an answer of the API is English, so other languages may leave it out.
			names = slices.DeleteFunc(names, func(name string) bool { return name == "detail" })
			if i == 0 {
				first = names
			} else if !slices.Equal(first, names) {
				return nil, fmt.Errorf("%s has the placeholders %q in one language and %q in another", key, first, names)
			}
		}
		chosen[key] = texts[language]
	}
	return chosen, nil
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
