package dialect

import (
	"slices"
	"strings"
)

// Outside applies change to the parts of a text that are in no quotes and no comment. The comments that servers execute, /*! … */ and
// /*M! … */, are part of the text.
func Outside(text string, change func(string) string) string {
	var b strings.Builder
	start := 0
	for i := 0; i < len(text); {
		n := quotedLength(text[i:])
		if n == 0 {
			i++
			continue
		}
		b.WriteString(change(text[start:i]))
		b.WriteString(text[i : i+n])
		i += n
		start = i
	}
	b.WriteString(change(text[start:]))
	return b.String()
}

// quotedLength returns the length of the quoted name, text or comment that s starts with, 0 if it starts with none.
func quotedLength(s string) int {
	switch {
	case s[0] == '\'' || s[0] == '"' || s[0] == '`':
		for i := 1; i < len(s); i++ {
			switch {
			case s[i] == '\\' && s[0] != '`':
				i++
			case s[i] == s[0]:
				return i + 1 // a doubled quote starts the next text at once
			}
		}
		return len(s)
	case strings.HasPrefix(s, "/*!") || strings.HasPrefix(s, "/*M!"):
		return 0
	case strings.HasPrefix(s, "/*"):
		if end := strings.Index(s[2:], "*/"); end >= 0 {
			return end + 4
		}
		return len(s)
	case s[0] == '#', strings.HasPrefix(s, "-- "), strings.HasPrefix(s, "--\n"), strings.HasPrefix(s, "--\t"):
		if end := strings.IndexByte(s, '\n'); end >= 0 {
			return end
		}
		return len(s)
	}
	return 0
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

// Body translates the definition of a view or a stored program: the collations that it names outside of quotes and comments.
func (t *Translator) Body(text string) (string, error) {
	if !t.Across() {
		return text, nil
	}
	var refused reasons
	text = Outside(text, func(part string) string { return t.replaceCollations(part, &refused) })
	return text, refused.err()
}
