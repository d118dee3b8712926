package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/spelling"
)

const (
	envPrefix = "TARE_"

	// configOption names the file; every section has it, no file may set it.
	configOption = "config"
)

// A Set is a section: the options of one subcommand, in the order of their declaration.
type Set struct {
	Name string

	options []*Option
	blocks  []*block
}

// A block is a key whose value is structured and which only the file can give.
type block struct {
	name   string
	help   string
	decode func(file string, node *yaml.Node) []error
	value  func() any // for printing
}

// newSet starts a section with what every section has.
func newSet(name string, configFile *string) *Set {
	s := &Set{Name: name}
	declare(s, configFile, Option{
		Name: configOption, Kind: "file", notFile: true,
		Help: "YAML file with these options under " + name + ":",
	}, parseString, formatString)
	return s
}

// Options returns the section's options in the order of their declaration.
func (s *Set) Options() []*Option { return s.options }

// Lookup returns an option by its name, nil when there is none.
func (s *Set) Lookup(name string) *Option {
	for _, o := range s.options {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// Input is where values come from, besides the defaults.
type Input struct {
	Flags   map[string]string // by option name: the flags that were given
	Environ []string          // as os.Environ returns it
}

// load gives every option its value from file, environment and flags, the later ones
// winning. All that is wrong is in the error; what is only doubtful is in the warnings.
func (s *Set) load(in Input) (warnings []string, err error) {
	env, warnings := readEnv(in.Environ)
	var errs []error
	path := env[configOption]
	if p, ok := in.Flags[configOption]; ok {
		path = p
	}
	if path != "" {
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

// readEnv returns the values of the environment by option name, of whichever section, and
// a warning for each TARE_ variable that names no option.
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
		case !kubernetesVariable(name):
			known := make([]string, 0, len(byEnv))
			for e := range byEnv {
				known = append(known, e)
			}
			slices.Sort(known)
			warnings = append(warnings, fmt.Sprintf("environment variable %s names no option%s", name, spelling.Suggest(name, known)))
		}
	}
	return values, warnings
}

// kubernetesVariable reports whether Kubernetes sets this variable in every pod for a
// service whose name begins with "tare".
func kubernetesVariable(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_TCP")
}
