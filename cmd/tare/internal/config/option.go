package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
)

// KindSecret is the Kind of options whose whole value is a secret.
const KindSecret = "secret"

// An Option is one setting of a section, declared once.
type Option struct {
	Name    string // kebab-case, as in --name and as the YAML key
	Kind    string // form of a value, for help: "bytes", "json|text", …
	Default string // in the text form of a flag's value
	Help    string
	Group   string // heading of help; "": the main options

	origin  Origin
	value   value
	notFile bool // cannot be set in the file
	repeats bool // may be repeated: one line of the value per flag
	needs   []need
}

// A need is a condition without which an option has no effect.
type need struct {
	met     func() bool
	without string // completes "has no effect …": "without --bucket", "with --http off"
}

// unused reports whether the option has no effect with the other values, and all needs that are not met.
func (o *Option) unused() (without string, unused bool) {
	var all []string
	for _, n := range o.needs {
		if !n.met() {
			all = append(all, n.without)
		}
	}
	return strings.Join(all, ", and "), len(all) > 0
}

// Env returns the name of the option's environment variable.
func (o *Option) Env() string { return envName(o.Name) }

// Text returns the value in the form of a flag, secrets masked.
func (o *Option) Text() string { return o.value.text() }

// Origin returns the source of the value.
func (o *Option) Origin() Origin { return o.origin }

// InFile reports whether the option has a key in the YAML file.
func (o *Option) InFile() bool { return !o.notFile }

// Repeats reports whether the flag may be repeated: each occurrence is a line of the value.
func (o *Option) Repeats() bool { return o.repeats }

// set parses a value into the option's field and records its origin.
func (o *Option) set(text string, from Origin) error {
	if err := o.value.parse(text); err != nil {
		return fmt.Errorf("%s: %w", from.label(o.Name), err)
	}
	o.origin = from
	return nil
}

// An Origin is the source of a value.
type Origin struct {
	Kind  OriginKind
	Place string // "tare.yaml:12", "TARE_LISTEN", "--listen"; empty for a default
}

// An OriginKind is one of the four sources of a value; later ones take precedence.
type OriginKind string

// The origins, in ascending precedence.
const (
	FromDefault OriginKind = "default"
	FromFile    OriginKind = "file"
	FromEnv     OriginKind = "env"
	FromFlag    OriginKind = "flag"
)

func (o Origin) String() string {
	if o.Kind == FromDefault {
		return string(FromDefault)
	}
	return string(o.Kind) + " " + o.Place
}

// label returns the prefix of an error about an option's value of this origin.
func (o Origin) label(name string) string {
	if o.Kind == FromFile {
		return o.Place + ": " + name
	}
	return o.Place
}

// changed returns the names of the options whose values differ, in the order of their declaration.
func (s *Set) changed(fresh *Set) (names []string) {
	for i, o := range s.options {
		if !o.value.equal(fresh.options[i].value) {
			names = append(names, o.Name)
		}
	}
	return names
}

// A value is a typed field that text can be parsed into.
type value interface {
	parse(text string) error
	text() string
	equal(value) bool // of the same option in another Set
}

// field is the value of a field of type T.
type field[T any] struct {
	p      *T
	parser func(string) (T, error)
	format func(T) string
}

func (f field[T]) parse(text string) error {
	v, err := f.parser(text)
	if err != nil {
		return err
	}
	*f.p = v
	return nil
}

func (f field[T]) equal(other value) bool { return reflect.DeepEqual(*f.p, *other.(field[T]).p) }

func (f field[T]) text() string { return f.format(*f.p) }

// declare adds an option to a section and sets its field to the default.
func declare[T any](s *Set, p *T, o Option, parser func(string) (T, error), format func(T) string) {
	o.value = field[T]{p: p, parser: parser, format: format}
	o.origin = Origin{Kind: FromDefault}
	o.Group = cmp.Or(o.Group, s.group)
	if err := o.value.parse(o.Default); err != nil {
		panic(fmt.Sprintf("BUG: default of --%s: %v", o.Name, err))
	}
	if s.Lookup(o.Name) != nil {
		panic("BUG: option declared twice: " + o.Name)
	}
	s.options = append(s.options, &o)
}

// envName returns the environment variable of an option.
func envName(option string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}
