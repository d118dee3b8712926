package config

import (
	"fmt"
	"strings"
)

// KindSecret is the Kind of options whose value is a secret as a whole.
const KindSecret = "secret"

// An Option is one setting of a section, declared once.
type Option struct {
	Name    string // kebab-case, as in --name and as the YAML key
	Kind    string // what a value looks like, for help: "bytes", "json|text", …
	Default string // in the same text form as a flag's value
	Help    string

	origin  Origin
	value   value
	notFile bool // cannot be set in the file
	repeats bool // a line of its value for each flag
}

// Env returns the name of the option's environment variable.
func (o *Option) Env() string { return envName(o.Name) }

// Text returns the value as a flag would give it, secrets masked.
func (o *Option) Text() string { return o.value.text() }

// Origin says where the value came from.
func (o *Option) Origin() Origin { return o.origin }

// InFile reports whether the option has a key in the YAML file.
func (o *Option) InFile() bool { return !o.notFile }

// Repeats reports whether the flag may be given several times: each is a line of the value.
func (o *Option) Repeats() bool { return o.repeats }

// set parses a value into the option's field and notes where it came from.
func (o *Option) set(text string, from Origin) error {
	if err := o.value.parse(text); err != nil {
		return fmt.Errorf("%s: %w", from.label(o.Name), err)
	}
	o.origin = from
	return nil
}

// An Origin says where a value came from.
type Origin struct {
	Kind  OriginKind
	Place string // "tare.yaml:12", "TARE_LISTEN", "--listen"; empty for a default
}

// An OriginKind names the four places of a value; later ones win.
type OriginKind string

// The origins, in rising precedence.
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

// label begins an error about an option's value from here.
func (o Origin) label(name string) string {
	if o.Kind == FromFile {
		return o.Place + ": " + name
	}
	return o.Place
}

// A value is a typed field that text can be parsed into.
type value interface {
	parse(text string) error
	text() string
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

func (f field[T]) text() string { return f.format(*f.p) }

// declare adds an option to a section and gives its field the default.
func declare[T any](s *Set, p *T, o Option, parser func(string) (T, error), format func(T) string) {
	o.value = field[T]{p: p, parser: parser, format: format}
	o.origin = Origin{Kind: FromDefault}
	if err := o.value.parse(o.Default); err != nil {
		panic(fmt.Sprintf("BUG: default of --%s: %v", o.Name, err))
	}
	if s.Lookup(o.Name) != nil {
		panic("BUG: option declared twice: " + o.Name)
	}
	s.options = append(s.options, &o)
}

// envName turns an option's name into its environment variable's.
func envName(option string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}
