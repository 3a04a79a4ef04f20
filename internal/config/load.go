package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"waypost/internal/atomicfile"

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
	cfg, files := defaults(func(name string) string { return env[name] }), map[string]string{}
	if src.File == "" {
		src.File = env[fileVariable]
	}
	if src.File != "" {
		layer, err := readFile(src.File, cfg, files)
		if err != nil {
			return Config{}, err
		}
		cfg = layer
	}
	if err := applyEnvironment(&cfg, files, env); err != nil {
		return Config{}, err
	}
	if src.Flags != nil {
		if err := apply(&cfg, files, src.Flags.given, func(s Setting) string { return "--" + s.Flag }); err != nil {
			return Config{}, err
		}
	}
	addSecretsBeside(&cfg, files, src.File)
	return cfg, readSecrets(&cfg, files, env[credentialsVariable])
}

// credentialsVariable names the directory with copies of secrets that systemd makes for a
// service (systemd.exec(5)). A copy that holds nothing stands for a secret that is not
// there.
const credentialsVariable = "CREDENTIALS_DIRECTORY"

// besideFile are the files in the directory `secrets` next to a configuration file, by
// the secrets that they hold.
var besideFile = map[string]string{
	"control.database_url": "database-url", "control.cluster_secret": "cluster-secret", "control.edge_token": "edge-token",
	"edge.token": "edge-token", "gossip.key": "gossip-key",
}

// addSecretsBeside adds the files next to the configuration file that this user may read,
// for secrets that are given nowhere.
func addSecretsBeside(cfg *Config, files map[string]string, configuration string) {
	for _, s := range settings() {
		name := besideFile[s.Path]
		if name == "" || configuration == "" || files[s.Path] != "" || s.get(cfg) != "" {
			continue
		}
		name = filepath.Join(filepath.Dir(configuration), "secrets", name)
		if f, err := os.Open(name); err == nil {
			files[s.Path] = name
			_ = f.Close()
		}
	}
}

// readFile decodes over the settings that there are, so that a key left out keeps
// its value. It adds the names of files that hold secrets to files.
func readFile(name string, lower Config, files map[string]string) (Config, error) {
	text, err := atomicfile.Read(name, maxFile)
	if err != nil {
		return Config{}, fmt.Errorf("configuration file: %w", err)
	}
	cfg, given := lower, map[string]string{}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return Config{}, explain(name, err)
	}
	if len(file.Docs) > 1 {
		return Config{}, fmt.Errorf("%s: a configuration is one YAML document, not several", name)
	}
	if len(file.Docs) == 1 && file.Docs[0].Body != nil {
		body := file.Docs[0].Body
		if err := prepare(body, given); err != nil {
			return Config{}, explain(name, err)
		}
		if err := yaml.NodeToValue(body, &cfg, yaml.Strict()); err != nil {
			return Config{}, explain(name, err)
		}
	}
	keepEmptySections(&cfg, &lower)
	for _, s := range settings() {
		if text, ok := s.field(&cfg).Interface().(Secret); ok && s.secret == "" && text != "" {
			given[s.Path] = text.Reveal()
		}
	}
	if err := apply(&cfg, files, given, func(s Setting) string { return s.Path }); err != nil {
		return Config{}, fmt.Errorf("%s: %w", name, err)
	}
	return cfg, nil
}

// prepare writes durations that only [ParseDuration] reads as the decoder can, and moves
// the files of secrets, which the decoder does not know, from a document to given.
func prepare(document ast.Node, given map[string]string) (err error) {
	sections, _ := document.(*ast.MappingNode)
	for i := 0; sections != nil && i < len(sections.Values); i++ {
		section, _ := sections.Values[i].Value.(*ast.MappingNode)
		if section == nil {
			continue
		}
		section.Values = slices.DeleteFunc(section.Values, func(pair *ast.MappingValueNode) bool {
			path := nameOf(sections.Values[i]) + "." + nameOf(pair)
			known := slices.IndexFunc(settings(), func(s Setting) bool { return s.Path == path })
			switch {
			case known < 0:
			case settings()[known].secret != "":
				var file string
				err = errors.Join(err, yaml.NodeToValue(pair.Value, &file))
				if file != "" {
					given[path] = file
				}
				return true
			case settings()[known].typeName() == "duration":
				err = errors.Join(err, spellOutDays(pair.Value))
			}
			return false
		})
	}
	return err
}

// nameOf returns the key of a pair, "" if it is no text.
func nameOf(pair *ast.MappingValueNode) string {
	if token := pair.Key.GetToken(); token != nil {
		return token.Value
	}
	return ""
}

func spellOutDays(value ast.Node) error {
	text, ok := value.(*ast.StringNode)
	if !ok {
		return nil
	}
	d, err := ParseDuration(text.Value)
	if err != nil {
		return &yaml.TypeError{DstType: reflect.TypeFor[time.Duration](), SrcType: reflect.TypeFor[string](), Token: text.Token}
	}
	text.Value = d.String()
	return nil
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

func applyEnvironment(cfg *Config, files, env map[string]string) error {
	given := map[string]string{}
	for name, s := range variables() {
		if value, ok := env[name]; ok {
			given[s.Path] = value
		}
	}
	return apply(cfg, files, given, func(s Setting) string { return s.Env })
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

// apply sets one layer of settings, by path. Within a layer a secret comes from a value
// or from a file, which files gets; either takes the place of both of a lower layer.
func apply(cfg *Config, files, given map[string]string, name func(Setting) string) error {
	for _, s := range settings() {
		text, ok := given[s.Path]
		if !ok {
			continue
		}
		if s.secret == "" {
			delete(files, s.Path)
			if err := s.set(cfg, text); err != nil {
				return fmt.Errorf("%s: %w", name(s), err)
			}
			continue
		}
		if _, both := given[s.secret]; both {
			file := name(s)
			return fmt.Errorf("both %s and %s are given: leave one out", file[:len(file)-len("_file")], file)
		}
		files[s.secret] = text
		s.field(cfg).SetString("")
	}
	return nil
}

// readSecrets reads the files. An empty one is a mistake, unless it is a copy of systemd.
func readSecrets(cfg *Config, files map[string]string, copies string) error {
	for _, s := range settings() {
		name := files[s.secret]
		if name == "" {
			continue
		}
		content, err := atomicfile.Read(name, maxSecret)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		text := strings.TrimSpace(string(content))
		if text == "" && copies != "" && filepath.Dir(name) == filepath.Clean(copies) {
			continue
		}
		if text == "" {
			return fmt.Errorf("%s: %s is empty", s.Path, name)
		}
		s.field(cfg).SetString(text)
	}
	return nil
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
		if s.secret == "" && slices.Contains(sections, s.Section()) && value != s.get(&start) {
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
