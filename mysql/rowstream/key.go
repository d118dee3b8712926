package rowstream

import (
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// ErrNullKey is the error of a key with a NULL value, which identifies no row.
var ErrNullKey = errors.New("a key column is NULL")

// EncodeKey returns a key tuple as bytes: length-encoded values, as in a row. A nil tuple, a table's start or
// end, is nil.
func EncodeKey(key mysqlwire.TextRow) []byte {
	if key == nil {
		return nil
	}
	return key.AppendTo([]byte{})
}

// DecodeKey decodes a tuple of EncodeKey, for a key of the given number of columns. It does not retain b. An
// invalid tuple is an error.
func DecodeKey(b []byte, columns int) (mysqlwire.TextRow, error) {
	if b == nil {
		return nil, nil
	}
	var view mysqlwire.TextRow
	if err := view.Decode(b, columns); err != nil {
		return nil, fmt.Errorf("decode a key of %d columns: %w", columns, err)
	}
	return cloneKey(view)
}

// cloneKey returns a copy of a tuple and its values.
func cloneKey(view mysqlwire.TextRow) (mysqlwire.TextRow, error) {
	key := make(mysqlwire.TextRow, len(view))
	for i, v := range view {
		if v == nil {
			return nil, ErrNullKey
		}
		key[i] = append([]byte{}, v...)
	}
	return key, nil
}
