package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/spelling"
)

// Environment variables that are not of options: the account that tare top and tare ready log in with.
const (
	EnvTopPassword = "TARE_TOP_PASSWORD"
	EnvTopToken    = "TARE_TOP_TOKEN"
)

const (
	envPrefix = "TARE_"

	// configOption is the option with the file's path; every section has it, and it cannot be set in a file.
	configOption = "config"
)

// A Set is a section: the options of one subcommand, in the order of their declaration.
type Set struct {
	Name string

	options []*Option
	blocks  []*block
	group   string // of the options that are declared next
}

// A block is a key with a structured value, which only the file can set.
type block struct {
	name   string
	help   string
	decode func(file string, node *yaml.Node) []error
	value  func() any // for printing
}

// newSet returns a section with the options common to all sections.
func newSet(name string, configFile *string) *Set {
	s := &Set{Name: name}
	declare(s, configFile, Option{
		Name: configOption, Kind: "file", notFile: true,
		Help: "YAML file with options, under the name of the command",
	}, parseString, formatString)
	return s
}

// in sets the group of the options that are declared next; "" are the main options.
func (s *Set) in(group string) { s.group = group }

// Options returns the section's options in the order of their declaration.
func (s *Set) Options() []*Option { return s.options }

// Lookup returns the option with a name, nil if there is none.
func (s *Set) Lookup(name string) *Option {
	for _, o := range s.options {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// Input is the input of Load, in addition to the defaults.
type Input struct {
	Flags   map[string]string // by option name: the given flags
	Environ []string          // as os.Environ returns it
	File    []byte            // content of the configuration file; nil: Load reads it
}

// A section has the options of a subcommand.
type section struct{ set *Set }

// Set returns the declared options, for flags and printing.
func (s section) Set() *Set { return s.set }

// load sets every option and validates them together. The error has all errors, warnings the doubtful values.
func (s section) load(in Input, validate func() error) (warnings []string, err error) {
	if warnings, err = s.set.load(in); err != nil {
		return warnings, err
	}
	invalid := validate() // it also computes what needs depend on
	more, errs := s.set.unused()
	return append(warnings, more...), errors.Join(append(errs, invalid)...)
}

// need declares that options have no effect unless met reports true; without completes "has no effect …".
func (s *Set) need(without string, met func() bool, options ...string) {
	for _, name := range options {
		o := s.Lookup(name)
		if o == nil {
			panic("BUG: a need of an option that is not declared: " + name)
		}
		o.needs = append(o.needs, need{met, without})
	}
}

// unused returns an error for each option that was given and has no effect. The environment is shared by all subcommands:
// there it is a warning.
func (s *Set) unused() (warnings []string, errs []error) {
	for _, o := range s.options {
		without, unused := o.unused()
		switch {
		case !unused || o.origin.Kind == FromDefault || o.Text() == "":
		case o.origin.Kind == FromEnv:
			warnings = append(warnings, fmt.Sprintf("environment variable %s has no effect %s", o.origin.label(o.Name), without))
		default:
			errs = append(errs, fmt.Errorf("%s has no effect %s", o.origin.label(o.Name), without))
		}
	}
	return warnings, errs
}

// load sets every option from file, environment and flags; later ones take precedence. The error has all
// errors, warnings the doubtful values.
func (s *Set) load(in Input) (warnings []string, err error) {
	env, warnings := readEnv(in.Environ)
	var errs []error
	path := env[configOption]
	if p, ok := in.Flags[configOption]; ok {
		path = p
	}
	switch {
	case in.File != nil:
		errs = append(errs, s.parseFile(path, in.File)...)
	case path != "":
		errs = append(errs, s.loadFile(path)...)
	}
	for _, o := range s.options {
		if text, ok := env[o.Name]; ok {
			errs = append(errs, o.set(text, Origin{FromEnv, o.Env()}))
		}
		if text, ok := in.Flags[o.Name]; ok {
			errs = append(errs, o.set(text, Origin{FromFlag, "--" + o.Name}))
		}
	}
	return warnings, errors.Join(errs...)
}

// readEnv returns the values of the environment by option name, of any section, and a warning for each TARE_
// variable that names no option.
func readEnv(environ []string) (values map[string]string, warnings []string) {
	byEnv := make(map[string]string)
	for _, s := range Sections() {
		for _, o := range s.options {
			byEnv[o.Env()] = o.Name
		}
	}
	values = make(map[string]string)
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || text == "" {
			continue
		}
		option, ok := byEnv[name]
		switch {
		case ok:
			values[option] = text
		case name != EnvTopPassword && name != EnvTopToken && !kubernetesVariable(name):
			known := []string{EnvTopPassword, EnvTopToken}
			for e := range byEnv {
				known = append(known, e)
			}
			slices.Sort(known)
			warnings = append(warnings, fmt.Sprintf("environment variable %s names no option%s", name, spelling.Suggest(name, known)))
		}
	}
	return values, warnings
}

// kubernetesVariable reports whether Kubernetes sets this variable in every pod for a service whose name
// begins with "tare".
func kubernetesVariable(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_TCP")
}
