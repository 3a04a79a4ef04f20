package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Flags are the settings that were given on the command line. Zero is ready to use.
type Flags struct {
	given map[string]string // by path
}

// Bind declares the flags of whole sections ("control") and of single settings
// ("control.database_url"), with the files of secrets, in set. A value is judged as it is
// parsed.
func (f *Flags) Bind(set *pflag.FlagSet, getenv func(string) string, names ...string) {
	if f.given == nil {
		f.given = make(map[string]string)
	}
	start := defaults(getenv)
	for _, s := range settings() {
		for _, name := range names {
			if s.Flag == "" || !slices.Contains([]string{s.Section(), s.Path, s.secret}, name) {
				continue
			}
			value := &flagValue{setting: s, given: f.given, text: s.get(&start)}
			flag := set.VarPF(value, s.Flag, "", s.Help+" ("+s.Env+")")
			if value.Type() == "bool" {
				flag.NoOptDefVal = "true"
			}
		}
	}
}

// Given reports whether a setting, or the file of a secret, was given on the command
// line.
func (f *Flags) Given(path string) bool {
	_, value := f.given[path]
	_, file := f.given[path+"_file"]
	return value || file
}

// flagValue notes the text given for a flag; [Load] applies it last, over file and
// variables.
type flagValue struct {
	setting Setting
	given   map[string]string
	text    string
}

func (v *flagValue) String() string { return v.text }
func (v *flagValue) Type() string   { return v.setting.typeName() }

func (v *flagValue) Set(text string) error {
	var scratch Config
	if err := v.setting.set(&scratch, text); err != nil {
		return err
	}
	if v.Type() == "list" && v.given[v.setting.Path] != "" {
		text = strings.Join([]string{v.given[v.setting.Path], text}, ",")
	}
	v.text, v.given[v.setting.Path] = text, text
	return nil
}
