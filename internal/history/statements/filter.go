package statements

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/querylog"
)

// maxFilter bounds the length of a filter: each word of it is searched in each text.
const maxFilter = 1024

// textField is a statement's normalized text.
const textField = "normalized"

// FilterFields returns the fields that a filter of statements may name.
func FilterFields() []string {
	return []string{stmtseries.LabelDigest, stmtseries.LabelSchema, stmtseries.LabelUser, stmtseries.LabelBackend, textField}
}

// A filter selects Keys.
type filter struct {
	conditions querylog.Filter
	wantText   bool // some conditions require the text
}

// parseFilter parses a filter of TopQuery.
func parseFilter(text string) (filter, error) {
	if len(text) > maxFilter {
		return filter{}, fmt.Errorf("a filter of %d bytes: want at most %d", len(text), maxFilter)
	}
	conditions, err := querylog.ParseFilter(text)
	if err != nil {
		return filter{}, err
	}
	if err := conditions.CheckFields("statement", FilterFields()); err != nil {
		for _, field := range querylog.RecordFields() {
			if conditions.Names(field) && !slices.Contains(FilterFields(), field) {
				return filter{}, fmt.Errorf("filter: %s is a field of single calls, not of statements: filter the live log by it; the fields of statements are %v", field, FilterFields())
			}
		}
		return filter{}, err
	}
	return filter{conditions, conditions.Names(textField)}, nil
}

// matches reports whether a Key with a text is selected. The text may be omitted unless wantText.
func (f *filter) matches(k *stmtstats.Key, text string) bool {
	return f.conditions.Empty() || f.conditions.Match(&keyFields{key: k, text: text})
}

// keyFields are the fields of a Key for a filter.
type keyFields struct {
	key    *stmtstats.Key
	text   string
	digest [32]byte
}

// FieldValue implements querylog.Filterable.
func (k *keyFields) FieldValue(name string) querylog.Value {
	switch name {
	case stmtseries.LabelDigest:
		return querylog.BytesValue(hex.AppendEncode(k.digest[:0], k.key.Digest[:]))
	case stmtseries.LabelSchema:
		return querylog.StringValue(k.key.Schema)
	case stmtseries.LabelUser:
		return querylog.StringValue(k.key.User)
	case stmtseries.LabelBackend:
		return querylog.StringValue(k.key.Backend)
	case textField:
		return querylog.StringValue(k.text)
	}
	return querylog.Value{}
}
