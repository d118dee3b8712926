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

// Options configures a Planner. The zero value of a field means its default.
type Options struct {
	// CacheBytes bounds the heap bytes of the cached plans, including all overhead.
	CacheBytes int64

	// MaxCachedStatement is the length in bytes of normalized text above which a statement's plan is created
	// for one execution and not cached. Lists of literals are collapsed there: the amount of data in a
	// statement does not count.
	MaxCachedStatement int

	// MaxListItems is the number of items above which a statement with such a list is not cached either: long
	// lists that could not be collapsed are rarely seen twice.
	MaxListItems int

	// MaxParse is the length in bytes of normalized text above which a statement is not parsed but classified
	// by the lexer only.
	MaxParse int

	// Rules are the initial rules; SetRules replaces them.
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

// Validate returns an error that names every option out of range and every invalid rule.
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

// maxText bounds the analyzed text: offsets are 32 bits wide.
const maxText = 1 << 30
