package tabledef

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"vitess.io/vitess/go/vt/sqlparser"

	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

// The source evaluates a condition of --where when rows are read. Rows in events are not evaluated by a
// server, so the condition is compiled to an equivalent rowstream.Predicate: comparisons of a column with
// constants, IN, BETWEEN, IS NULL, AND, OR, NOT, as far as equality and order can be decided exactly in Go.
// Anything else is refused before any row is copied.

// predicate compiles the condition over rows of t; nil if there is none.
func predicate(t *rowstream.Table, where string) (*rowstream.Predicate, error) {
	if where == "" {
		return nil, nil
	}
	p, err := sqlparser.New(sqlparser.Options{})
	if err != nil {
		return nil, fmt.Errorf("start the parser: %w", err)
	}
	expr, err := parseExpr(p, where)
	if err != nil {
		return nil, fmt.Errorf("the condition %q of %s cannot be followed: %w", where, t.FullName(), err)
	}
	c := &conditions{table: t}
	m, err := c.compile(expr, 0)
	if err != nil {
		return nil, fmt.Errorf("the condition %q of %s cannot be followed: %w", where, t.FullName(), err)
	}
	return m, nil
}

func parseExpr(p *sqlparser.Parser, text string) (e sqlparser.Expr, err error) {
	defer func() {
		if v := recover(); v != nil { // a bug of the parser on unusual input
			err = fmt.Errorf("it cannot be parsed: %v", v)
		}
	}()
	var l sqldigest.Lexer
	l.Reset([]byte(text), 0)
	for t := l.Next(); t.Kind != sqldigest.KindEOF; t = l.Next() {
		if t.Kind == sqldigest.KindExecOpen {
			return nil, errors.New("some servers execute its comments /*! and /*M!, and others do not: leave them out")
		}
	}
	if e, err = p.ParseExpr(text); err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	return e, nil
}

// conditions compiles conditions over the rows of one table.
type conditions struct{ table *rowstream.Table }

// maxConditionDepth bounds the nesting of a condition.
const maxConditionDepth = 100

// whatCan ends each error for an unsupported form.
const whatCan = "what can: a column compared with constants by =, <>, <, <=, >, >=, <=>, IN, BETWEEN and IS NULL, combined by AND, OR, NOT and parentheses; and option only-shard"

func (c *conditions) compile(e sqlparser.Expr, depth int) (*rowstream.Predicate, error) {
	if depth > maxConditionDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxConditionDepth)
	}
	switch e := e.(type) {
	case *sqlparser.AndExpr:
		return c.join(rowstream.And, depth, e.Left, e.Right)
	case *sqlparser.OrExpr:
		return c.join(rowstream.Or, depth, e.Left, e.Right)
	case *sqlparser.NotExpr:
		return c.not(c.compile(e.Expr, depth+1))
	case *sqlparser.IsExpr:
		return c.is(e)
	case *sqlparser.BetweenExpr:
		p, err := c.compare(rowstream.Between, e.Left, e.From, e.To)
		if !e.IsBetween {
			return c.not(p, err)
		}
		return p, err
	case *sqlparser.ComparisonExpr:
		return c.comparison(e)
	}
	return nil, fmt.Errorf("%q cannot be evaluated for a row in the binary log; %s", sqlparser.String(e), whatCan)
}

func (c *conditions) join(op rowstream.Operator, depth int, sides ...sqlparser.Expr) (*rowstream.Predicate, error) {
	joined := &rowstream.Predicate{Op: op}
	for _, e := range sides {
		p, err := c.compile(e, depth+1)
		if err != nil {
			return nil, err
		}
		if p.Op == op { // a AND b AND c is parsed as (a AND b) AND c
			joined.Args = append(joined.Args, p.Args...)
		} else {
			joined.Args = append(joined.Args, *p)
		}
	}
	return joined, nil
}

func (*conditions) not(p *rowstream.Predicate, err error) (*rowstream.Predicate, error) {
	if err != nil {
		return nil, err
	}
	return &rowstream.Predicate{Op: rowstream.Not, Args: []rowstream.Predicate{*p}}, nil
}

func (c *conditions) is(e *sqlparser.IsExpr) (*rowstream.Predicate, error) {
	if e.Right != sqlparser.IsNullOp && e.Right != sqlparser.IsNotNullOp {
		return nil, fmt.Errorf("%q: of IS only IS NULL and IS NOT NULL can be told of a row in the binary log; write column <> 0", sqlparser.String(e))
	}
	col, _, err := c.column(e.Left)
	if err != nil {
		return nil, err
	}
	p := &rowstream.Predicate{Op: rowstream.IsNull, Column: col}
	if e.Right == sqlparser.IsNotNullOp {
		return c.not(p, nil)
	}
	return p, nil
}

// operators are comparisons, with their equivalents for exchanged operands.
var operators = map[sqlparser.ComparisonExprOperator]struct{ op, turned rowstream.Operator }{
	sqlparser.EqualOp:         {rowstream.Equal, rowstream.Equal},
	sqlparser.NotEqualOp:      {rowstream.NotEqual, rowstream.NotEqual},
	sqlparser.LessThanOp:      {rowstream.Less, rowstream.Greater},
	sqlparser.LessEqualOp:     {rowstream.LessOrEqual, rowstream.GreaterOrEqual},
	sqlparser.GreaterThanOp:   {rowstream.Greater, rowstream.Less},
	sqlparser.GreaterEqualOp:  {rowstream.GreaterOrEqual, rowstream.LessOrEqual},
	sqlparser.NullSafeEqualOp: {rowstream.NullSafeEqual, rowstream.NullSafeEqual},
}

func (c *conditions) comparison(e *sqlparser.ComparisonExpr) (*rowstream.Predicate, error) {
	if e.Operator == sqlparser.InOp || e.Operator == sqlparser.NotInOp {
		list, ok := e.Right.(sqlparser.ValTuple)
		if !ok {
			return nil, fmt.Errorf("%q: IN can have a list of constants only; %s", sqlparser.String(e), whatCan)
		}
		p, err := c.compare(rowstream.In, e.Left, list...)
		if e.Operator == sqlparser.NotInOp {
			return c.not(p, err)
		}
		return p, err
	}
	op, ok := operators[e.Operator]
	if !ok || e.Modifier != 0 {
		return nil, fmt.Errorf("%q: the operator %s cannot be evaluated for a row in the binary log; %s", sqlparser.String(e), e.Operator.ToString(), whatCan)
	}
	if constant(e.Left) && !constant(e.Right) {
		return c.compare(op.turned, e.Right, e.Left)
	}
	return c.compare(op.op, e.Left, e.Right)
}

// constant reports whether an expression is a constant that value supports.
func constant(e sqlparser.Expr) bool {
	switch e := e.(type) {
	case *sqlparser.Literal, sqlparser.BoolVal, *sqlparser.NullVal:
		return true
	case *sqlparser.UnaryExpr:
		return constant(e.Expr)
	}
	return false
}

// column returns the number of the column that an expression denotes. binary reports that its bytes are
// compared: BINARY name, or CAST(name AS BINARY).
func (c *conditions) column(e sqlparser.Expr) (number int, binary bool, err error) {
	var name *sqlparser.ColName
	switch e := e.(type) {
	case *sqlparser.ColName:
		name = e
	case *sqlparser.ConvertExpr:
		name, binary = castColumn(e.Expr, e.Type)
	case *sqlparser.CastExpr:
		name, binary = castColumn(e.Expr, e.Type)
	}
	if name == nil {
		return 0, false, fmt.Errorf("%q is not a column, and cannot be evaluated for a row in the binary log; %s", sqlparser.String(e), whatCan)
	}
	for i := range c.table.Columns {
		if name.Name.EqualString(c.table.Columns[i].Name) {
			return i, binary, nil
		}
	}
	return 0, false, fmt.Errorf("the table has no stored column %s; generated columns are not always in the binary log: compare the columns they are computed from", name.Name.String())
}

func castColumn(e sqlparser.Expr, t *sqlparser.ConvertType) (*sqlparser.ColName, bool) {
	name, ok := e.(*sqlparser.ColName)
	if !ok || !strings.EqualFold(t.Type, "binary") || t.Length != nil {
		return nil, false
	}
	return name, true
}

// compare compiles a comparison of a column with constants.
func (c *conditions) compare(op rowstream.Operator, left sqlparser.Expr, values ...sqlparser.Expr) (*rowstream.Predicate, error) {
	n, binary, err := c.column(left)
	if err != nil {
		return nil, err
	}
	col := &c.table.Columns[n]
	k, err := comparesAs(col, binary, op)
	if err != nil {
		return nil, fmt.Errorf("column %s is %s: %w", col.Name, col.FullType, err)
	}
	k.list = op == rowstream.In
	p := &rowstream.Predicate{Op: op, Column: n, Compare: k.how}
	for _, e := range values {
		v, err := k.value(e)
		if err != nil {
			return nil, fmt.Errorf("column %s is %s: %q %w", col.Name, col.FullType, sqlparser.String(e), err)
		}
		p.Values = append(p.Values, v)
	}
	return p, nil
}

// A constantKind specifies the constants that a column can be compared with, and how they are compared.
type constantKind struct {
	how      rowstream.Comparison
	year     bool
	time     *temporalForm // nil unless it is a date or time
	fraction int           // number of fractional digits of a second
	text     string        // the character set; empty unless it is text
	integer  bool          // of 64 bits at most
	unsigned bool          // likewise
	epoch    bool          // it is a TIMESTAMP
	list     bool          // the constants are those of IN
}

// A temporalForm is the notation of dates or times of a type.
type temporalForm struct {
	example string
	match   *regexp.Regexp
	literal sqlparser.ValType // a literal with the name of the type
}

var temporalForms = [...]*temporalForm{
	{"'2006-01-02'", regexp.MustCompile(`^\d{4}-\d\d-\d\d$`), sqlparser.DateVal},
	{"'2006-01-02' or '2006-01-02 15:04:05'", regexp.MustCompile(`^\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.(\d+))?)?$`), sqlparser.TimestampVal},
	{"'15:04:05'", regexp.MustCompile(`^-?\d\d\d?:\d\d:\d\d(?:\.(\d+))?$`), sqlparser.TimeVal},
}

// firstTimestamp is the earliest TIMESTAMP. MySQL compares with an earlier constant as with '0000-00-00 00:00:00'.
const firstTimestamp = "1970-01-01 00:00:01"

// fractionDigits returns the fractional digits of a type such as "datetime(3)".
func fractionDigits(fullType string) int {
	if i := strings.IndexByte(fullType, '('); i >= 0 && i+1 < len(fullType) {
		return int(fullType[i+1] - '0')
	}
	return 0
}

// comparesAs returns how values of the column are compared, or an error if they cannot be.
func comparesAs(col *rowstream.Column, binary bool, op rowstream.Operator) (k constantKind, err error) {
	if binary && col.Charset == "" && !strings.Contains(col.Type, "binary") && !strings.Contains(col.Type, "blob") {
		return k, errors.New("its BINARY cannot be evaluated for a row in the binary log; compare the column itself")
	}
	switch col.Type {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return constantKind{how: rowstream.Number, integer: true, unsigned: col.Unsigned}, nil
	case "decimal":
		return constantKind{how: rowstream.Number}, nil
	case "year":
		return constantKind{how: rowstream.Number, year: true}, nil
	case "float", "double":
		if strings.Contains(col.FullType, ",") {
			return k, errors.New("the server rounds constants to its decimals; use IS NULL or another column")
		}
		return constantKind{how: rowstream.Double}, nil
	case "enum", "set":
		return k, errors.New("its values are numbers in the binary log; use IS NULL or another column")
	case "date":
		return constantKind{how: rowstream.Temporal, time: temporalForms[0]}, nil
	case "datetime", "timestamp":
		return constantKind{how: rowstream.Temporal, time: temporalForms[1], fraction: fractionDigits(col.FullType), epoch: col.Type == "timestamp"}, nil
	case "time":
		return constantKind{how: rowstream.Temporal, time: temporalForms[2], fraction: fractionDigits(col.FullType)}, nil
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return constantKind{how: rowstream.Bytes, text: "binary"}, nil
	}
	if col.Charset == "" {
		return k, errors.New("only the server can compare values of this type; use IS NULL or another column")
	}
	if op != rowstream.Equal && op != rowstream.NotEqual && op != rowstream.In && op != rowstream.NullSafeEqual {
		return k, errors.New("which text is less than which is the server's to say; =, <>, <=> and IN can be told of a row in the binary log")
	}
	k = constantKind{how: rowstream.Padded, text: col.Charset}
	switch {
	case binary, strings.HasSuffix(col.Collation, "_nopad_bin"), col.Collation == "utf8mb4_0900_bin":
		k.how = rowstream.Bytes
	case !strings.HasSuffix(col.Collation, "_bin"):
		return k, fmt.Errorf("only the server can compare text under %s; use BINARY %s = '…', which compares bytes",
			col.Collation, col.Name)
	}
	return k, nil
}

// value returns a constant in the form of the column's values.
func (k *constantKind) value(e sqlparser.Expr) ([]byte, error) {
	if _, ok := e.(*sqlparser.NullVal); ok {
		return nil, errors.New("compares to nothing; write IS NULL")
	}
	switch {
	case k.text != "":
		return k.textValue(e)
	case k.time != nil:
		return k.temporalValue(e)
	}
	return k.number(e, "")
}

func (k *constantKind) number(e sqlparser.Expr, sign string) ([]byte, error) {
	switch e := e.(type) {
	case sqlparser.BoolVal:
		switch {
		case k.year:
			return nil, errors.New("is no year of four digits")
		case bool(e):
			return []byte("1"), nil
		}
		return []byte("0"), nil
	case *sqlparser.UnaryExpr:
		switch {
		case e.Operator == sqlparser.UMinusOp && sign == "":
			return k.number(e.Expr, "-")
		case e.Operator == sqlparser.UPlusOp:
			return k.number(e.Expr, sign)
		}
	case *sqlparser.Literal:
		exact := e.Type == sqlparser.IntVal || e.Type == sqlparser.DecimalVal
		switch {
		case k.year && (len(e.Val) != 4 || e.Type != sqlparser.IntVal || sign != ""):
			return nil, errors.New("is no year of four digits")
		case k.list && e.Type == sqlparser.IntVal && !k.holds(sign+e.Val):
			return nil, errors.New("is no number of the column's type, and servers compare a list with such numbers in several ways; leave it out")
		case exact, e.Type == sqlparser.FloatVal && k.how == rowstream.Double:
			return []byte(sign + e.Val), nil
		case e.Type == sqlparser.FloatVal:
			return nil, errors.New("is a float, with which the server compares less than exactly; write it without an exponent")
		}
	}
	return nil, errors.New("is no number; write one, without quotes")
}

// holds reports whether an integer is one of 64 bits with the sign that the column's have.
func (k *constantKind) holds(number string) bool {
	var err error
	switch {
	case !k.integer:
	case k.unsigned:
		_, err = strconv.ParseUint(strings.TrimPrefix(number, "-"), 10, 64)
		if err == nil && number[0] == '-' && strings.Trim(number, "-0") != "" {
			return false
		}
	default:
		_, err = strconv.ParseInt(number, 10, 64)
	}
	return err == nil
}

func (k *constantKind) temporalValue(e sqlparser.Expr) ([]byte, error) {
	if l, ok := e.(*sqlparser.Literal); ok && (l.Type == sqlparser.StrVal || l.Type == k.time.literal || l.Type == sqlparser.DateVal && k.time == temporalForms[1]) {
		if m := k.time.match.FindStringSubmatch(l.Val); m != nil {
			switch {
			case len(m) > 1 && len(m[1]) > k.fraction:
				return nil, errors.New("has more digits of fractions than the column")
			case k.epoch && l.Val < firstTimestamp && strings.Trim(l.Val, "0-: .") != "":
				return nil, fmt.Errorf("is before '%s', the first TIMESTAMP, and servers compare such constants in several ways", firstTimestamp)
			}
			return []byte(l.Val), nil
		}
	}
	return nil, fmt.Errorf("is not of the form %s", k.time.example)
}

func (k *constantKind) textValue(e sqlparser.Expr) ([]byte, error) {
	l, ok := e.(*sqlparser.Literal)
	if !ok || l.Type != sqlparser.StrVal {
		return nil, errors.New("is no text in quotes")
	}
	switch k.text {
	case "binary":
		return []byte(l.Val), nil
	case "utf8mb4", "utf8mb3", "utf8":
		if utf8.ValidString(l.Val) && (k.text == "utf8mb4" || !strings.ContainsFunc(l.Val, func(r rune) bool { return r > 0xffff })) {
			return []byte(l.Val), nil
		}
	case "ucs2", "utf16", "utf16le", "utf32":
	default:
		if !strings.ContainsFunc(l.Val, func(r rune) bool { return r > '~' }) {
			return []byte(l.Val), nil
		}
	}
	return nil, fmt.Errorf("would have to be brought into the character set %s", k.text)
}
