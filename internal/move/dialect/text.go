package dialect

import (
	"slices"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// Outside applies change to the parts of a text that are in no quotes and no comment, as a server reads it in a mode. The comments
// that servers execute, /*! … */ and /*M! … */, are part of the text.
func Outside(text string, mode sqldigest.Mode, change func(string) string) string {
	var b strings.Builder
	end := 0
	for from, to := range sqldigest.Plain(text, mode) {
		b.WriteString(text[end:from])
		b.WriteString(change(text[from:to]))
		end = to
	}
	return b.String() + text[end:]
}

// SQLMode translates the sql_mode that a stored object was created with. MySQL rounds fractions of seconds unless
// TIME_TRUNCATE_FRACTIONAL is set, and MariaDB truncates them unless TIME_ROUND_FRACTIONAL is.
func (t *Translator) SQLMode(mode string) (string, error) {
	if !t.Across() {
		return mode, nil
	}
	var refused reasons
	const truncate, round = "TIME_TRUNCATE_FRACTIONAL", "TIME_ROUND_FRACTIONAL"
	modes := slices.DeleteFunc(strings.Split(mode, ","), func(m string) bool { return m == "" })
	if t.To == MariaDB {
		if i := slices.Index(modes, truncate); i >= 0 {
			modes = slices.Delete(modes, i, i+1)
		} else {
			modes = append(modes, round)
		}
		return strings.Join(modes, ","), nil
	}
	if i := slices.Index(modes, round); i >= 0 {
		modes = slices.Delete(modes, i, i+1)
	} else {
		modes = append(modes, truncate)
	}
	kept := modes[:0]
	for _, m := range modes {
		switch m {
		case "NO_AUTO_CREATE_USER": // for GRANT, which creates no accounts in MySQL
		case "ORACLE", "MSSQL", "DB2", "POSTGRESQL", "MAXDB", "MYSQL323", "MYSQL40", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS", "NO_FIELD_OPTIONS",
			"EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT":
			refused.add("its sql_mode has %s, which MySQL has not", m)
		default:
			kept = append(kept, m)
		}
	}
	return strings.Join(kept, ","), refused.err()
}

// Body translates the definition of a view or a stored program, which servers read in a mode: the collations that it names outside
// of quotes and comments.
func (t *Translator) Body(text string, mode sqldigest.Mode) (string, error) {
	if !t.Across() {
		return text, nil
	}
	var refused reasons
	text = Outside(text, mode, func(part string) string { return t.replaceCollations(part, &refused) })
	return text, refused.err()
}
