package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Setting is one field of [Config] as users meet it, or the file that holds a [Secret].
type Setting struct {
	Path string // "control.admin_addr", as in the file
	Env  string // "WAYPOST_CONTROL_ADMIN_ADDR"
	Flag string // "admin-addr", or "" when there is none
	Help string

	index  []int
	kind   reflect.Type
	secret string // path of the secret that the file of this name holds, or ""
}

// Section is the part of the path before the dot.
func (s Setting) Section() string {
	section, _, _ := strings.Cut(s.Path, ".")
	return section
}

// settings returns all settings, in the order of the fields. They are read from the tags
// of the fields once, because every command asks for them, and must not be changed.
var settings = sync.OnceValue(readSettings)

func readSettings() []Setting {
	var all []Setting
	root := reflect.TypeFor[Config]()
	for i := range root.NumField() {
		section := root.Field(i)
		for j := range section.Type.NumField() {
			field := section.Type.Field(j)
			key := field.Tag.Get("yaml")
			s := Setting{
				Path:  section.Tag.Get("yaml") + "." + key,
				Env:   field.Tag.Get("env"),
				Flag:  field.Tag.Get("flag"),
				Help:  field.Tag.Get("help"),
				index: []int{i, j},
				kind:  field.Type,
			}
			if s.Env == "" {
				s.Env = "WAYPOST_" + strings.ToUpper(strings.ReplaceAll(s.Path, ".", "_"))
			}
			flag, hidden := strings.CutPrefix(s.Flag, "-")
			if flag == "" {
				flag = strings.ReplaceAll(key, "_", "-")
			}
			if s.Flag = flag; hidden {
				s.Flag = ""
			}
			all = append(all, s)
			if field.Type == reflect.TypeFor[Secret]() {
				s.secret, s.Path, s.Env, s.Flag = s.Path, s.Path+"_file", s.Env+"_FILE", flag+"-file"
				subject, _, _ := strings.Cut(s.Help, ",")
				s.Help = "file that holds the " + subject
				all = append(all, s)
			}
		}
	}
	return all
}

func (s Setting) field(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(s.index)
}

// get writes the setting's value as set reads it.
func (s Setting) get(c *Config) string {
	switch v := s.field(c).Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

// set reads text into the setting's field. Lists are separated by commas.
func (s Setting) set(c *Config, text string) error {
	field := s.field(c)
	switch field.Interface().(type) {
	case string, Secret:
		field.SetString(text)
	case []string:
		list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		field.Set(reflect.ValueOf(list))
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		field.SetBool(b)
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is no whole number", text)
		}
		field.SetInt(int64(n))
	case time.Duration:
		d, err := ParseDuration(text)
		if err != nil {
			return err
		}
		field.SetInt(int64(d))
	default:
		return fmt.Errorf("a setting cannot be a %s", field.Type())
	}
	return nil
}

// typeName returns the text that help shows behind a flag.
func (s Setting) typeName() string {
	switch s.kind {
	case reflect.TypeFor[bool]():
		return "bool"
	case reflect.TypeFor[int]():
		return "int"
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[[]string]():
		return "list"
	}
	if strings.HasSuffix(s.Path, "_file") {
		return "file"
	}
	return "string"
}
