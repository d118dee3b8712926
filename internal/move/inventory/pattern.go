package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Pattern matches objects by the names of their schema and themselves: * stands for any characters, ? for one. Letters match in
// their case.
type Pattern struct{ Schema, Name string }

// ParsePattern parses "schema.name", either of which may have wildcards.
func ParsePattern(text string) (Pattern, error) {
	schema, name, ok := strings.Cut(text, ".")
	if !ok || schema == "" || name == "" {
		return Pattern{}, fmt.Errorf("pattern %q is not of the form schema.name, such as shop.* or sm.ord_*", text)
	}
	return Pattern{schema, name}, nil
}

// IsPattern reports whether a text has wildcards.
func IsPattern(text string) bool { return strings.ContainsAny(text, "*?") }

// String returns the pattern as it is parsed.
func (p Pattern) String() string { return p.Schema + "." + p.Name }

// Match reports whether an object of the name in the schema is meant.
func (p Pattern) Match(schema, name string) bool {
	return wildcard(p.Schema, schema) && wildcard(p.Name, name)
}

// wildcard matches a text with a pattern in a time that is at most the product of their lengths.
func wildcard(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, after := -1, 0 // the last star, and the part of the text behind what it matches so far
	i := 0
	for j := 0; j < len(t); {
		switch {
		case i < len(p) && p[i] == '*':
			star, after = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			after++
			i, j = star+1, after
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// A Selection says which objects are asked for.
type Selection struct {
	Schemas []string  // with all of their objects
	Tables  []Pattern // tables
	Exclude []Pattern // objects of any kind that are left out
	Kinds   []Kind    // kinds of objects that are carried from Schemas, besides tables; nil: all

	// Users says that the accounts with privileges on Schemas are copied, by package accounts, except those that a pattern of
	// ExcludeUsers matches: the name of a user, or user@host. Those that a pattern of GrantExisting matches get privileges also if the target has
	// an account of that name with another definition.
	Users         bool
	ExcludeUsers  []string
	GrantExisting []string
}

// Empty reports whether nothing is asked for.
func (s *Selection) Empty() bool { return len(s.Schemas) == 0 && len(s.Tables) == 0 }

// Carried are the kinds that Selection.Kinds may name.
func Carried() []Kind { return []Kind{View, Procedure, Function, Trigger, Event, Sequence} }

// carries reports whether objects of a kind are copied from the schemas that are asked for as a whole.
func (s *Selection) carries(k Kind) bool {
	return s.Kinds == nil || slices.Contains(s.Kinds, k)
}

// errNothing says that a part of a selection is without effect.
var errNothing = errors.New("matches nothing on the source")
