package rowstream

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A Conversion is how the values of a column become those of a column of another definition, as an ALTER TABLE converts them. Only
// conversions without loss are known. Where a value does not fit, the server that writes it raises a warning or an error.
type Conversion struct {
	Write Wrap // SQL around a value of ReadExpr that is written; zero: that of the new column's type

	// From and To are expressions over the two columns with the same text if, and only if, the values are the same. Empty: those
	// by which rows of one definition are summed up.
	From, To string

	Zero bool // see Column.Zero

	// UTC says that the conversion depends on the time zone of the session, and is the same only in a server whose zone is UTC.
	UTC bool
}

// ConvertColumn returns how values of a column are converted to those of another, or an error if that is not known to be exact.
func ConvertColumn(from, to *Column) (c Conversion, err error) {
	switch {
	case sameValues(from, to):
	case from.kind() == kindOrdinal:
		c, err = convertOrdinal(from, to)
	case from.kind() == kindText || from.kind() == kindBinary || from.kind() == kindJSON:
		c, err = convertText(from, to)
	case from.kind() == kindTemporal:
		c, err = convertTemporal(from, to)
	default:
		c, err = convertNumber(from, to)
	}
	if err != nil {
		return c, fmt.Errorf("column %s: from %s to %s: %w", from.Name, from.FullType, to.FullType, err)
	}
	if c.From == "" && from.Nullable != to.Nullable { // which of the columns are NULL is summed up for those that may be
		c.From, c.To = from.ReadExpr(), to.ReadExpr()
	}
	return c, nil
}

// sameValues reports whether the values of both columns have the same form.
func sameValues(from, to *Column) bool {
	width := func(c *Column) string {
		if c.kind() == kindInteger && !strings.Contains(c.FullType, "zerofill") {
			before, after, _ := strings.Cut(c.FullType, "(")
			_, after, _ = strings.Cut(after, ")")
			return before + after
		}
		return c.FullType
	}
	return from.Type == to.Type && width(from) == width(to) && from.Charset == to.Charset
}

var (
	errUnknownConversion = errors.New("this conversion is not known to be exact")
	errLossy             = errors.New("values could lose a part without a warning")
)

// decimalOf returns the precision and scale of a DECIMAL.
func decimalOf(c *Column) (precision, scale int) {
	_, list, _ := strings.Cut(c.FullType, "(")
	list, _, _ = strings.Cut(list, ")")
	p, s, _ := strings.Cut(list, ",")
	precision, _ = strconv.Atoi(p)
	scale, _ = strconv.Atoi(s)
	return precision, scale
}

// utf8Text is the text of an expression in one character set.
func utf8Text(expr string) string { return "CONVERT(CAST(" + expr + " AS CHAR) USING utf8mb4)" }

// asText is a conversion to a text column of values whose text is that of expr.
func asText(from, to *Column) Conversion {
	return Conversion{
		Write: Wrap{Before: "CONVERT(", After: " USING utf8mb4)"},
		From:  utf8Text(session.Ident(from.Name)), To: "CONVERT(" + session.Ident(to.Name) + " USING utf8mb4)",
	}
}

// textual reports whether a column takes text as it is: CHAR drops spaces at its end.
func textual(c *Column) bool { return c.kind() == kindText && c.Type != "char" }

func convertNumber(from, to *Column) (c Conversion, err error) {
	s, t := session.Ident(from.Name), session.Ident(to.Name)
	integer := from.kind() == kindInteger || from.Type == "year"
	switch {
	case from.kind() == kindBit || from.kind() == kindName || to.Type == "year":
		return c, errUnknownConversion
	case textual(to) && (integer || from.Type == "decimal"):
		return asText(from, to), nil
	case integer && to.kind() == kindInteger:
		return Conversion{From: s + "+0", To: t + "+0"}, nil
	case integer && to.Type == "decimal":
		p, scale := decimalOf(to)
		return castBoth(s, t, fmt.Sprintf("DECIMAL(%d,%d)", max(p, 20+scale), scale)), nil
	case from.Type == "decimal" && to.Type == "decimal":
		p, scale := decimalOf(from)
		q, other := decimalOf(to)
		if other < scale {
			return c, errLossy
		}
		return castBoth(s, t, fmt.Sprintf("DECIMAL(%d,%d)", min(65, max(p, q)+other), other)), nil
	case from.Type == "decimal" && to.kind() == kindInteger:
		if _, scale := decimalOf(from); scale > 0 {
			return c, errLossy
		}
		return castBoth(s, t, "DECIMAL(65,0)"), nil
	case integer && from.Type != "bigint" && to.Type == "double", from.Type == "float" && to.Type == "double":
		return Conversion{From: s + "*1e0", To: t + "*1e0"}, nil
	}
	return c, errUnknownConversion
}

// castBoth is a conversion whose values are the same as those of one type.
func castBoth(s, t, as string) Conversion {
	return Conversion{From: "CAST(" + s + " AS " + as + ")", To: "CAST(" + t + " AS " + as + ")"}
}

func convertText(from, to *Column) (c Conversion, err error) {
	s, t := session.Ident(from.Name), session.Ident(to.Name)
	var wrap Wrap
	switch {
	case from.kind() == kindText:
		wrap = Wrap{Before: "CONVERT(", After: " USING " + from.Charset + ")"}
	case from.kind() == kindJSON:
		wrap = Wrap{Before: "CONVERT(", After: " USING utf8mb4)"}
	}
	switch {
	case from.kind() == kindText && to.kind() == kindText && (textual(to) || from.Type == "char"):
		if from.Charset == to.Charset {
			return Conversion{From: s, To: t}, nil
		}
		return Conversion{Write: wrap, From: "CONVERT(" + s + " USING " + to.Charset + ")", To: t}, nil
	case from.kind() == kindText && to.kind() == kindText:
		return c, fmt.Errorf("%w: CHAR keeps no spaces at the end", errLossy)
	case from.kind() == kindJSON && textual(to):
		return asText(from, to), nil
	case from.kind() == kindText && to.kind() == kindJSON:
		return Conversion{Write: wrap, From: "CAST(CAST(" + s + " AS JSON) AS CHAR)", To: "CAST(" + t + " AS CHAR)"}, nil
	case from.kind() == kindJSON:
		return c, errUnknownConversion
	case geometric(from) || geometric(to):
		return c, errUnknownConversion
	case to.kind() == kindBinary && to.Type != "binary", from.kind() == kindBinary && textual(to):
		return Conversion{From: s, To: t}, nil
	case from.kind() == kindText && (to.kind() == kindInteger || to.Type == "decimal"):
		if _, scale := decimalOf(to); to.Type == "decimal" && scale > 20 {
			return c, errUnknownConversion
		}
		c = castBoth(s, t, "DECIMAL(65,20)")
		c.Write = wrap
		return c, nil
	case from.kind() == kindText && (to.Type == "date" || to.Type == "datetime"):
		c = castBoth(s, t, "DATETIME(6)")
		c.From = "IF(" + s + " IS NULL, NULL, COALESCE(DATE_ADD(" + c.From + ", INTERVAL 0 MICROSECOND), ''))" // no day that the calendar lacks
		c.Write = wrap
		return c, nil
	case from.kind() == kindText && to.kind() == kindOrdinal:
		return Conversion{Write: wrap, From: utf8Text(s), To: utf8Text(t)}, nil
	}
	return c, errUnknownConversion
}

// geometric reports whether the values of a column have a form of their own, among those that are read as bytes.
func geometric(c *Column) bool {
	return c.kind() == kindBinary && !strings.Contains(c.Type, "blob") && !strings.Contains(c.Type, "binary")
}

func convertTemporal(from, to *Column) (c Conversion, err error) {
	s, t := session.Ident(from.Name), session.Ident(to.Name)
	if textual(to) {
		c = asText(from, to)
		c.UTC = from.Type == "timestamp"
		return c, nil
	}
	if to.kind() != kindTemporal {
		return c, errUnknownConversion
	}
	if fraction(to) < fraction(from) {
		return c, fmt.Errorf("%w: fractions of seconds are rounded", errLossy)
	}
	switch {
	case from.Type == to.Type && from.Type == "time":
		return castBoth(s, t, "TIME(6)"), nil
	case from.Type == to.Type, from.Type == "date" && to.Type == "datetime":
		return castBoth(s, t, "DATETIME(6)"), nil
	case from.Type == "timestamp" && to.Type == "datetime", from.Type == "datetime" && to.Type == "timestamp":
		c = castBoth(s, t, "DATETIME(6)")
		c.UTC = true
		return c, nil
	case to.Type == "date" || to.Type == "time":
		return c, errLossy
	}
	return c, errUnknownConversion
}

// fraction returns how many digits of a second's fraction a column has.
func fraction(c *Column) int {
	if i := strings.IndexByte(c.FullType, '('); i >= 0 && i+1 < len(c.FullType) {
		return int(c.FullType[i+1] - '0')
	}
	return 0
}

func convertOrdinal(from, to *Column) (c Conversion, err error) {
	s, t := session.Ident(from.Name), session.Ident(to.Name)
	members, err := membersOf(from.FullType)
	if err != nil {
		return c, err
	}
	if to.Type == from.Type {
		others, err := membersOf(to.FullType)
		if err == nil && len(others) >= len(members) && slices.Equal(members, others[:len(members)]) && from.Charset == to.Charset {
			return Conversion{From: from.ReadExpr(), To: to.ReadExpr()}, nil // members were added at the end
		}
		if err != nil {
			return c, err
		}
	}
	quoted := make([]string, len(members))
	for i, m := range members {
		quoted[i] = fmt.Sprintf("_utf8mb4 x'%x'", m)
	}
	wrap := Wrap{Before: "ELT(1+", After: ", '', " + strings.Join(quoted, ", ") + ")"}
	if from.Type == "set" {
		wrap = Wrap{Before: "MAKE_SET(", After: ", " + strings.Join(quoted, ", ") + ")"}
	}
	if !textual(to) && to.kind() != kindOrdinal {
		return c, errUnknownConversion
	}
	c = Conversion{Write: wrap, From: utf8Text(s), To: utf8Text(t)}
	if from.Type == "enum" && to.Type == "enum" {
		others, err := membersOf(to.FullType)
		if err != nil {
			return c, err
		}
		c.Zero = !slices.ContainsFunc(members, func(m string) bool { return !slices.Contains(others, m) })
	}
	if from.Type == "set" && to.Type == "set" {
		others, err := membersOf(to.FullType)
		if err != nil {
			return c, err
		}
		c.From = setText(s, append(others, members...))
	}
	return c, nil
}

// setText returns an expression of the text of a SET with its members in another order.
func setText(set string, members []string) string {
	var parts []string
	seen := make(map[string]bool)
	for _, m := range members {
		if seen[m] {
			continue
		}
		seen[m] = true
		quoted := fmt.Sprintf("_utf8mb4 x'%x'", m)
		parts = append(parts, "IF(FIND_IN_SET("+quoted+", "+set+") > 0, "+quoted+", NULL)")
	}
	return "IF(" + set + " IS NULL, NULL, CONCAT_WS(',', " + strings.Join(parts, ", ") + "))"
}

// membersOf returns the members of an ENUM or SET, as its type lists them.
func membersOf(fullType string) (members []string, err error) {
	_, list, _ := strings.Cut(fullType, "(")
	parts, rest := sqldigest.List(list, 0)
	closed := strings.HasSuffix(list, ")") && rest == "" || strings.HasPrefix(rest, " ")
	for _, part := range parts {
		if n := len(part); n < 2 || part[0] != '\'' || part[n-1] != '\'' || strings.Contains(part, `\`) {
			closed = false
			break
		}
		members = append(members, sqldigest.Unquote(part))
	}
	if closed {
		return members, nil
	}
	return nil, fmt.Errorf("the members of %s cannot be parsed", fullType)
}
