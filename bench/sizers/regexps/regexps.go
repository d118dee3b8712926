package regexps

import "regexp"

//go:generate go run github.com/taredb/tare/sizegen .

// A Pattern is a compiled regular expression.
//
//sizegen:field regexp/syntax.Inst.Rune inside regexp/syntax.Regexp.Rune0 short literals stay in the parse tree
//sizegen:root
type Pattern struct{ Regexp *regexp.Regexp }
