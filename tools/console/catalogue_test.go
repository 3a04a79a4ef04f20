package main

import "testing"

func TestInLanguage_ChoosesAndChecks(t *testing.T) {
	content := []byte(`{"b": ["As of {time}", "Stand {time}"], "a": [["one link", "{n} links"], ["ein Link", "{n} Links"]]}`)
	for i, want := range []string{`{"a":["one link","{n} links"],"b":"As of {time}"}`, `{"a":["ein Link","{n} Links"],"b":"Stand {time}"}`} {
		if got, err := inLanguage(content, i); err != nil || got != want {
			t.Errorf("%s: %s, %v", languages[i], got, err)
		}
	}
	for name, bad := range map[string]string{
		"no translation":      `{"a": ["one"]}`,
		"another placeholder": `{"a": ["{n} links", "{m} Links"]}`,
		"three forms":         `{"a": [["a", "b", "c"], ["a", "b", "c"]]}`,
		"a number":            `{"a": [1, 2]}`,
	} {
		if got, err := inLanguage([]byte(bad), 0); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}
