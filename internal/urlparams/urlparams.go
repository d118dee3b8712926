// Package urlparams checks and parses the parameters of pages and APIs.
package urlparams

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Check returns an error for a parameter that is not one of the names, as a misspelled name would change the result, and for one with
// several values.
func Check(q url.Values, names ...string) error {
	for name, values := range q {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown parameter %.40q: want %s", name, list(names))
		}
		if len(values) > 1 {
			return fmt.Errorf("%s is given %d times: want it once", name, len(values))
		}
	}
	return nil
}

// list returns names as "a, b or c".
func list(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
