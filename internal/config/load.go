package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Sources lists the sources of settings; later fields override earlier ones.
type Sources struct {
	File    string   // path of the YAML file, "" for none
	Environ []string // in the form of os.Environ
	Flags   *Flags   // may be nil
}

// fileVariable names the configuration file where --config does not.
const fileVariable = "WAYPOST_CONFIG"

// Bounds of the files that are read from disk.
const (
	maxFile   = 1 << 20
	maxSecret = 4 << 10
)

// Load puts the settings together and reads the files that hold secrets. It does not
// judge the settings: [Control.Check] and its siblings do, because a command needs only
// its own settings. Errors are for the user to mend, and their first line names the
// place.
func Load(src Sources) (Config, error) {
	env := environment(src.Environ)
	cfg := defaults(func(name string) string { return env[name] })
	if src.File == "" {
		src.File = env[fileVariable]
	}
	if src.File != "" {
		layer, err := readFile(src.File, cfg)
		if err != nil {
			return Config{}, err
		}
		cfg = layer
	}
	if err := applyEnvironment(&cfg, env); err != nil {
		return Config{}, err
	}
	if src.Flags != nil {
		if err := apply(&cfg, src.Flags.given, func(s Setting) string { return "--" + s.Flag }); err != nil {
			return Config{}, err
		}
	}
	return cfg, readSecrets(&cfg)
}

// readFile decodes over the settings that there are, so that a key left out keeps
// its value.
func readFile(name string, lower Config) (Config, error) {
	text, err := readBounded(name, maxFile)
	if err != nil {
		return Config{}, fmt.Errorf("configuration file: %w", err)
	}
	cfg := lower
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return Config{}, explain(name, err)
	}
	if len(file.Docs) > 1 {
		return Config{}, fmt.Errorf("%s: a configuration is one YAML document, not several", name)
	}
	if len(file.Docs) == 1 && file.Docs[0].Body != nil {
		body := file.Docs[0].Body
		if err := spellOutDays(body); err != nil {
			return Config{}, explain(name, err)
		}
		if err := yaml.NodeToValue(body, &cfg, yaml.Strict()); err != nil {
			return Config{}, explain(name, err)
		}
	}
	keepEmptySections(&cfg, &lower)
	if err := onlyOneOfEach(func(s Setting) bool { return s.get(&cfg) != "" }, func(s Setting) string { return s.Path }); err != nil {
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	return cfg, nil
}

// spellOutDays writes durations that only [ParseDuration] reads as the decoder can.
func spellOutDays(document ast.Node) error {
	for section, body := range pairs(document) {
		for key, value := range pairs(body) {
			text, ok := value.(*ast.StringNode)
			if !ok || !slices.ContainsFunc(settings(), func(s Setting) bool { return s.Path == section+"."+key && s.typeName() == "duration" }) {
				continue
			}
			d, err := ParseDuration(text.Value)
			if err != nil {
				return &yaml.TypeError{DstType: reflect.TypeFor[time.Duration](), SrcType: reflect.TypeFor[string](), Token: text.Token}
			}
			text.Value = d.String()
		}
	}
	return nil
}

// pairs returns the keys and values of a mapping.
func pairs(node ast.Node) map[string]ast.Node {
	all := map[string]ast.Node{}
	if m, ok := node.(ast.MapNode); ok {
		for each := m.MapRange(); each.Next(); {
			if token := each.Key().GetToken(); token != nil {
				all[token.Value] = each.Value()
			}
		}
	}
	return all
}

// keepEmptySections restores settings that the decoder has cleared: a section, if nothing
// stands below its key, or all settings, if the file is empty.
func keepEmptySections(cfg, lower *Config) {
	decoded, before := reflect.ValueOf(cfg).Elem(), reflect.ValueOf(lower).Elem()
	for i := range decoded.NumField() {
		if decoded.Field(i).IsZero() {
			decoded.Field(i).Set(before.Field(i))
		}
	}
}

// serviceVariable matches the variables that Kubernetes puts into the environment of
// every container for a service with a name that begins with waypost.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP)(_\w+)?)$`)

// variables are the settings by the names of their variables.
func variables() map[string]Setting {
	known := map[string]Setting{}
	for _, s := range settings() {
		known[s.Env] = s
	}
	return known
}

func applyEnvironment(cfg *Config, env map[string]string) error {
	given := map[string]string{}
	for name, s := range variables() {
		if value, ok := env[name]; ok {
			given[s.Path] = value
		}
	}
	return apply(cfg, given, func(s Setting) string { return s.Env })
}

// UnknownVariables describes the WAYPOST_* variables of an environment that are no
// settings, in the order of their names. They are no error, because users have variables
// of their own; one may be a slip of the keys.
func UnknownVariables(environ []string) (found []string) {
	known := variables()
	for _, name := range slices.Sorted(maps.Keys(environment(environ))) {
		_, ok := known[name]
		if ok || !strings.HasPrefix(name, "WAYPOST_") || name == fileVariable || serviceVariable.MatchString(name) {
			continue
		}
		found = append(found, name+didYouMean(name, slices.Collect(maps.Keys(known))))
	}
	return found
}

// apply sets one layer of settings, by path. Within a layer a secret comes from a
// value or from a file; either takes the place of both of a lower layer.
func apply(cfg *Config, given map[string]string, name func(Setting) string) error {
	isGiven := func(s Setting) bool { _, ok := given[s.Path]; return ok }
	if err := onlyOneOfEach(isGiven, name); err != nil {
		return err
	}
	for value, file := range secrets() {
		if isGiven(value) {
			file.field(cfg).SetString("")
		}
		if isGiven(file) {
			value.field(cfg).SetString("")
		}
	}
	for _, s := range settings() {
		if !isGiven(s) {
			continue
		}
		if err := s.set(cfg, given[s.Path]); err != nil {
			return fmt.Errorf("%s: %w", name(s), err)
		}
	}
	return nil
}

// secrets pairs each secret with the setting that names a file for it.
func secrets() func(yield func(value, file Setting) bool) {
	return func(yield func(value, file Setting) bool) {
		all := settings()
		for _, value := range all {
			at := slices.IndexFunc(all, func(s Setting) bool { return s.Path == value.Path+"_file" })
			if at >= 0 && !yield(value, all[at]) {
				return
			}
		}
	}
}

func onlyOneOfEach(given func(Setting) bool, name func(Setting) string) error {
	for value, file := range secrets() {
		if given(value) && given(file) {
			return fmt.Errorf("both %s and %s are given: leave one out", name(value), name(file))
		}
	}
	return nil
}

func readSecrets(cfg *Config) error {
	for value, file := range secrets() {
		name := file.field(cfg).String()
		if name == "" {
			continue
		}
		text, err := readBounded(name, maxSecret)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
		if text = strings.TrimSpace(text); text == "" {
			return fmt.Errorf("%s: %s is empty", file.Path, name)
		}
		value.field(cfg).SetString(text)
	}
	return nil
}

func readBounded(name string, limit int64) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if int64(len(text)) > limit {
		return "", &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d bytes", limit)}
	}
	return string(text), nil
}

// Environ returns the variables that make [Load] find c's settings of the named
// sections, secrets included: how a parent configures its children.
func (c Config) Environ(sections ...string) []string {
	start := defaults(func(string) string { return "" })
	var list []string
	for _, s := range settings() {
		value := s.get(&c)
		if secret, ok := s.field(&c).Interface().(Secret); ok {
			value = secret.Reveal()
		}
		if slices.Contains(sections, s.Section()) && value != s.get(&start) {
			list = append(list, s.Env+"="+value)
		}
	}
	return list
}

// WithoutSettings returns the variables of an environment that are not Waypost's.
func WithoutSettings(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return strings.HasPrefix(entry, "WAYPOST_")
	})
}

func environment(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}
