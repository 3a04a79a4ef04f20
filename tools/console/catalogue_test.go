package main

import (
	"encoding/json"
	"testing"
)

func TestInLanguage_ChoosesAndChecks(t *testing.T) {
	content := []byte(`{"b": ["As of {time}", "Stand {time}"], "a": [["one link", "{n} links"], ["ein Link", "{n} Links"]]}`)
	for i, want := range []string{`{"a":["one link","{n} links"],"b":"As of {time}"}`, `{"a":["ein Link","{n} Links"],"b":"Stand {time}"}`} {
		texts, err := inLanguage(content, i)
		if got, _ := json.Marshal(texts); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", languages[i], got, err)
		}
	}
	if _, err := inLanguage([]byte(`{"a": ["Not found: {detail}", "Nicht gefunden"]}`), 1); err != nil {
		t.Error(err)
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

func TestInPlace_WritesTextsAndLeavesOtherCalls(t *testing.T) {
	texts := map[string]json.RawMessage{
		"a": json.RawMessage(`"As of {time}"`), "b": json.RawMessage(`["one", "{n}"]`), "c": json.RawMessage(`"Save"`),
	}
	area := func(string) (map[string]json.RawMessage, error) { return texts, nil }
	first := `import { textOf, text as shared } from "../messages/app"; `
	code := `x(shared("c"), shared("a", { time }), shared("b"), other.shared("c"), textOf("c"), text("c"))`
	want := `x(("Save"), fillText("As of {time}", { time }), fillText(["one", "{n}"]), other.shared("c"), textOf("c"), text("c"))`
	if got, err := inPlace(first+code, area); err != nil || got != first+want {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := inPlace(`import { text } from "./messages/app"; text("d")`, area); err == nil {
		t.Errorf("a text that is not there: %s", got)
	}
	if got, err := inPlace(`import { text } from "./messages/app"; text(on ? "a" : "c")`, area); err == nil {
		t.Errorf("a text that is looked up: %s", got)
	}
}
