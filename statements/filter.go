package statements

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/taredb/tare/stmtseries"
	"github.com/taredb/tare/stmtstats"
)

// maxFilter bounds the words of a filter, as each of them is looked for in each text.
const maxFilter = 1024

// A filter says which Keys are asked for.
type filter struct {
	terms    []filterTerm
	wantText bool // some of them look into the text
}

// A filterTerm is one condition of a filter.
type filterTerm struct {
	label string // "": a word of the text
	value string // of a word in lower case
	not   bool
}

// parseFilter reads a filter as TopQuery has it.
func parseFilter(text string) (filter, error) {
	var f filter
	if len(text) > maxFilter {
		return f, fmt.Errorf("a filter of %d bytes: want at most %d", len(text), maxFilter)
	}
	for word := range strings.FieldsSeq(text) {
		var t filterTerm
		if rest, ok := strings.CutPrefix(word, "-"); ok && rest != "" {
			t.not, word = true, rest
		}
		name, value, pair := strings.Cut(word, "=")
		switch name {
		case stmtseries.LabelDigest:
			value = strings.ToLower(value)
			fallthrough
		case stmtseries.LabelSchema, stmtseries.LabelUser, stmtseries.LabelBackend:
			if pair {
				t.label, t.value = name, value
				f.terms = append(f.terms, t)
				continue
			}
		}
		t.value = strings.ToLower(word)
		f.wantText = true
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// matches says whether a Key with that text is asked for. The text may be left out unless wantText.
func (f *filter) matches(k *stmtstats.Key, text string) bool {
	if f.wantText {
		text = strings.ToLower(text)
	}
	for _, t := range f.terms {
		var is bool
		switch t.label {
		case "":
			is = strings.Contains(text, t.value)
		case stmtseries.LabelDigest:
			is = strings.HasPrefix(hex.EncodeToString(k.Digest[:]), t.value)
		case stmtseries.LabelSchema:
			is = k.Schema == t.value
		case stmtseries.LabelUser:
			is = k.User == t.value
		case stmtseries.LabelBackend:
			is = k.Backend == t.value
		}
		if is == t.not {
			return false
		}
	}
	return true
}
