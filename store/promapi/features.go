package promapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/features"
)

// Features are the parts of PromQL that Prometheus enables by --enable-feature. The zero value enables none,
// like a Prometheus without the flag.
type Features struct {
	names []string

	experimentalFunctions bool
	extendedRanges        bool
	fillModifiers         bool
	delayedNameRemoval    bool
	perStepStats          bool
}

// FeatureNames returns the names of all features.
func FeatureNames() []string {
	return []string{
		"promql-binop-fill-modifiers", "promql-delayed-name-removal", "promql-experimental-functions",
		"promql-extended-range-selectors", "promql-per-step-stats",
	}
}

// ParseFeatures returns the features with the given names.
func ParseFeatures(names []string) (Features, error) {
	f := Features{names: slices.Clone(names)}
	for _, name := range names {
		switch name {
		case "promql-binop-fill-modifiers":
			f.fillModifiers = true
		case "promql-delayed-name-removal":
			f.delayedNameRemoval = true
		case "promql-experimental-functions":
			f.experimentalFunctions = true
		case "promql-extended-range-selectors":
			f.extendedRanges = true
		case "promql-per-step-stats":
			f.perStepStats = true
		default:
			return Features{}, fmt.Errorf("feature %q is unknown: want %s", name, strings.Join(FeatureNames(), ", "))
		}
	}
	return f, nil
}

// String returns the names, separated by commas.
func (f Features) String() string { return strings.Join(f.names, ",") }

// parser returns the options of a parser for the enabled syntax. Duration expressions are always enabled, as
// in Prometheus v3.15.
func (f Features) parser() parser.Options {
	return parser.Options{
		ExperimentalDurationExpr:     true,
		EnableExperimentalFunctions:  f.experimentalFunctions,
		EnableExtendedRangeSelectors: f.extendedRanges,
		EnableBinopFillModifiers:     f.fillModifiers,
	}
}

// features responds with the features of the parser and of the built-in engine, by category.
func (c *call) features() *Error {
	r := features.NewRegistry()
	c.api.o.Parser.RegisterFeatures(r)
	f := &c.api.o.Features
	r.Set(features.PromQL, "delayed_name_removal", f.delayedNameRemoval)
	r.Set(features.PromQL, "per_step_stats", f.perStepStats)
	for _, name := range [...]string{"at_modifier", "negative_offset", "per_query_lookback_delta", "subqueries"} {
		r.Enable(features.PromQL, name)
	}
	r.Disable(features.PromQL, "type_and_unit_labels")
	return c.respond(r.Get())
}
