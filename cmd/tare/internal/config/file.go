package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/spelling"
)

// loadFile validates the whole file and sets this section's options from it.
func (s *Set) loadFile(path string) []error {
	text, err := ReadConfig(path)
	if err != nil {
		return []error{err}
	}
	return s.parseFile(path, text)
}

// ReadConfig returns the content of a configuration file for Input, which several commands can load: a pipe is read once.
func ReadConfig(path string) ([]byte, error) {
	text, err := localstate.ReadInput(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return text, nil
}

// parseFile is loadFile for the content of a file.
func (s *Set) parseFile(path string, text []byte) []error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // an empty file
		}
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return []error{fmt.Errorf("%s: %w", path, err)}
		}
		return []error{fmt.Errorf("%s:%d: a second document; the file holds one", path, second.Line)}
	}
	root := document.Content[0]
	if isNull(root) {
		return nil // comments only
	}

	sections := make(map[string]*Set)
	var names []string
	for _, other := range Sections() {
		if other.Name == s.Name {
			other = s
		}
		sections[other.Name] = other
		names = append(names, other.Name)
	}
	pairs, errs := walk(path, root)
	for _, p := range pairs {
		section, ok := sections[p.key]
		if !ok {
			errs = append(errs, p.errorf("unknown section %q%s", p.key, spelling.Suggest(p.key, names)))
			continue
		}
		errs = append(errs, section.applyFile(path, p)...)
	}
	return errs
}

// applyFile sets the section's options from its mapping in the file.
func (s *Set) applyFile(path string, section pair) []error {
	if isNull(section.value) {
		return nil // a section whose options are all commented out
	}
	pairs, errs := walk(path, section.value)
	for _, p := range pairs {
		if b := s.block(p.key); b != nil {
			errs = append(errs, b.decode(path, p.value)...)
			continue
		}
		o := s.Lookup(p.key)
		switch {
		case o == nil:
			errs = append(errs, p.errorf("unknown key %q in section %s%s", p.key, s.Name, spelling.Suggest(p.key, s.keys())))
		case o.notFile:
			errs = append(errs, p.errorf("%s cannot be set in the file", p.key))
		case p.value.Kind != yaml.ScalarNode:
			errs = append(errs, p.errorf("%s: want a single value (%s)", p.key, o.Kind))
		case isNull(p.value):
			errs = append(errs, p.errorf("%s has no value", p.key))
		default:
			if err := o.set(p.value.Value, Origin{FromFile, p.place}); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// keys returns the valid keys of the section's mapping.
func (s *Set) keys() []string {
	var keys []string
	for _, o := range s.options {
		if o.InFile() {
			keys = append(keys, o.Name)
		}
	}
	for _, b := range s.blocks {
		keys = append(keys, b.name)
	}
	return keys
}

func (s *Set) block(name string) *block {
	for _, b := range s.blocks {
		if b.name == name {
			return b
		}
	}
	return nil
}

// A pair is a key of a mapping and its value, with the position for errors.
type pair struct {
	key   string
	value *yaml.Node
	place string // file:line
}

func (p pair) errorf(format string, args ...any) error {
	return fmt.Errorf(p.place+": "+format, args...)
}

// walk returns the pairs of a mapping and refuses duplicate keys.
func walk(path string, node *yaml.Node) (pairs []pair, errs []error) {
	node = resolve(node)
	if node.Kind != yaml.MappingNode {
		return nil, []error{fmt.Errorf("%s:%d: want a mapping (key: value)", path, node.Line)}
	}
	seen := make(map[string]int)
	for i := 0; i < len(node.Content); i += 2 {
		key := node.Content[i]
		p := pair{key: key.Value, value: resolve(node.Content[i+1]), place: fmt.Sprintf("%s:%d", path, key.Line)}
		if key.Kind != yaml.ScalarNode {
			errs = append(errs, p.errorf("want a text as key"))
			continue
		}
		if line, twice := seen[p.key]; twice {
			errs = append(errs, p.errorf("%s is already set in line %d", p.key, line))
			continue
		}
		seen[p.key] = key.Line
		pairs = append(pairs, p)
	}
	return pairs, errs
}

// resolve follows an alias to its anchor.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }
