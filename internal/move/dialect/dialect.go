package dialect

import (
	"fmt"
	"slices"
	"strings"
)

// A Vendor is a family of servers with the same SQL.
type Vendor uint8

// The vendors.
const (
	Unknown Vendor = iota // nothing is translated from or to it
	MySQL
	MariaDB
)

// String implements fmt.Stringer.
func (v Vendor) String() string { return [...]string{"an unknown server", "MySQL", "MariaDB"}[v] }

// A Translator translates definitions of one server for another. The zero value leaves all of them alone.
type Translator struct {
	From, To Vendor

	// Known has the collations of the target; nil: not known, and all are assumed to be there.
	Known map[string]bool

	// Collations has the counterparts that the operator has chosen, which come before those of this package.
	Collations map[string]string
}

// Across reports whether the vendors differ.
func (t *Translator) Across() bool {
	return t != nil && t.From != Unknown && t.To != Unknown && t.From != t.To
}

// A RefusedError lists why a definition has no translation.
type RefusedError struct{ Reasons []string }

// Error implements error.
func (e *RefusedError) Error() string { return strings.Join(e.Reasons, "; ") }

// reasons collects why a definition is refused, each reason once.
type reasons []string

func (r *reasons) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*r, text) {
		*r = append(*r, text)
	}
}

func (r reasons) err() error {
	if len(r) == 0 {
		return nil
	}
	return &RefusedError{r}
}

// TrimName returns the user or the host of an account as MySQL stores it: without white space of ASCII at the start and the end.
func TrimName(name string) string { return strings.Trim(name, " \t\n\v\f\r") }
