package sqlplan

import (
	"errors"
	"fmt"
)

// Defaults of Options.
const (
	DefaultCacheBytes         = 32 << 20
	DefaultMaxCachedStatement = 64 << 10
	DefaultMaxListItems       = 1000
	DefaultMaxParse           = 64 << 10
)

// Options configure a Planner. The zero value of a field means its default.
type Options struct {
	// CacheBytes is the most heap bytes that the cached plans take, everything counted.
	CacheBytes int64

	// MaxCachedStatement is the length in bytes of normalized text past which a statement's plan is
	// made for one execution and not kept. Lists of literals are collapsed there: the length of
	// data in a statement does not count.
	MaxCachedStatement int

	// MaxListItems is the number of items past which a statement with such a list is not kept
	// either: long lists that could not be collapsed are rarely seen twice.
	MaxListItems int

	// MaxParse is the length in bytes of normalized text past which a statement is not given
	// to the parser but classified by the lexer alone.
	MaxParse int

	// Rules are the rules in force from the start; SetRules changes them.
	Rules []Rule
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	def(&o.MaxCachedStatement, DefaultMaxCachedStatement)
	def(&o.MaxListItems, DefaultMaxListItems)
	def(&o.MaxParse, DefaultMaxParse)
	return o
}

// Validate returns an error that names every option out of its range and every faulty rule.
func (o Options) Validate() error {
	var errs []error
	for _, f := range [...]struct {
		name string
		v    int64
	}{
		{"CacheBytes", o.CacheBytes},
		{"MaxCachedStatement", int64(o.MaxCachedStatement)},
		{"MaxListItems", int64(o.MaxListItems)},
		{"MaxParse", int64(o.MaxParse)},
	} {
		if f.v < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", f.name, f.v))
		}
	}
	if o.MaxParse > maxText {
		errs = append(errs, fmt.Errorf("MaxParse is %d, more than %d", o.MaxParse, maxText))
	}
	if _, err := compileRules(o.Rules); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxText is the most text that is looked at: offsets in it are 32 bits wide.
const maxText = 1 << 30
