// Package createtable reads the text of SHOW CREATE TABLE, and that of columns in information_schema, in the form that sessions of Tare's have servers print.
package createtable

import (
	"strconv"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// AutoIncrement returns the next AUTO_INCREMENT value in the text of SHOW CREATE TABLE, 0 if there is none:
// the table has no such column, or no value was used.
func AutoIncrement(create string) uint64 {
	for _, line := range sqldigest.Lines(create, 0) {
		if !strings.HasPrefix(line, ") ") {
			continue
		}
		for option := range strings.FieldsSeq(line) { // names and strings come after it
			if value, ok := strings.CutPrefix(option, "AUTO_INCREMENT="); ok {
				n, _ := strconv.ParseUint(value, 10, 64)
				return n
			}
			if strings.HasPrefix(option, "COMMENT=") {
				break
			}
		}
		return 0
	}
	return 0
}

// A Key is an index in the text of SHOW CREATE TABLE.
type Key struct {
	Kind    string   // PRIMARY KEY, UNIQUE KEY, KEY, FULLTEXT KEY, SPATIAL KEY
	Name    string   // PRIMARY for the primary key
	Parts   []string // columns or expressions as printed, with lengths and directions
	Options string   // text after the list
}

// Hidden reports whether the server's optimizer ignores the index, so that statements cannot name it:
// INVISIBLE in MySQL, IGNORED in MariaDB.
func (k *Key) Hidden() bool {
	return strings.HasSuffix(k.Options, "/*!80000 INVISIBLE */") || strings.HasSuffix(k.Options, "IGNORED")
}

// WithoutOverlaps reports whether the key is a MariaDB key over periods.
func (k *Key) WithoutOverlaps() bool {
	return len(k.Parts) > 0 && strings.HasSuffix(k.Parts[len(k.Parts)-1], "` WITHOUT OVERLAPS")
}

// Keys returns the indexes in the text of SHOW CREATE TABLE.
func Keys(create string) (keys []Key) {
	for _, line := range sqldigest.Lines(create, 0) {
		line, ok := strings.CutPrefix(line, "  ")
		if !ok {
			continue
		}
		line = strings.TrimSuffix(line, ",")
		for _, kind := range []string{"PRIMARY KEY", "UNIQUE KEY", "KEY", "FULLTEXT KEY", "SPATIAL KEY"} {
			rest, ok := strings.CutPrefix(line, kind+" ")
			if !ok {
				continue
			}
			k := Key{Kind: kind, Name: "PRIMARY"}
			if kind != "PRIMARY KEY" {
				n := sqldigest.Quoted(rest, 0)
				k.Name, rest = sqldigest.Unquote(rest[:n]), strings.TrimPrefix(rest[n:], " ")
			}
			k.Parts, k.Options = sqldigest.List(strings.TrimPrefix(rest, "("), 0)
			k.Options = strings.TrimSpace(k.Options)
			keys = append(keys, k)
		}
	}
	return keys
}

// OldTemporal is what MariaDB appends to the type of a temporal column that it keeps in the format of its version 5.3: of a table from
// before an upgrade, or created under mysql56_temporal_format=0. Statements read and write the same values.
const OldTemporal = " /* mariadb-5.3 */"

// IsGenerated reports whether the EXTRA of a column marks it as generated.
func IsGenerated(extra string) bool {
	extra = strings.ToUpper(extra)
	return strings.Contains(extra, "VIRTUAL GENERATED") || strings.Contains(extra, "STORED GENERATED") || strings.Contains(extra, "PERSISTENT")
}
