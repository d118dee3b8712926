package querylog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/taredb/tare/internal/spelling"
)

// A Filter is a list of conditions on fields, all of which must be met. The zero Filter passes everything.
//
//	user=app total_ns>10ms orders -"for update"
//
// A condition is a field's name, an operator and a value. = and != compare the whole value (for digest, a
// prefix), ~ and !~ search in it, < and > compare numbers. A value with spaces is enclosed in double quotes,
// with backslashes as in Go. A number may be a duration (10ms) if the field is in nanoseconds. A field that a
// line does not have is empty, and zero as a number.
//
// A word alone, or a quoted text, is searched in the field normalized, ignoring case. A leading - negates a
// word or condition.
type Filter struct{ conditions []condition }

type condition struct {
	name   string
	op     operator
	value  []byte
	number float64 // value as a number, for < and >
}

type operator uint8

const (
	opEqual operator = iota
	opNotEqual
	opContains
	opLacks
	opLess
	opMore
	opWord // contains, ignoring case
	opNoWord
)

var operators = [...]string{opEqual: "=", opNotEqual: "!=", opContains: "~", opLacks: "!~", opLess: "<", opMore: ">"}

// Fields with special treatment by a Filter.
const (
	wordField   = "normalized"
	digestField = "digest"
)

// ParseFilter parses a filter in the form that String returns.
func ParseFilter(s string) (Filter, error) {
	var f Filter
	for {
		if s = strings.TrimLeft(s, " "); s == "" {
			return f, nil
		}
		c, rest, err := parseTerm(s)
		if err != nil {
			return Filter{}, fmt.Errorf("filter: %w", err)
		}
		f.conditions = append(f.conditions, c)
		s = rest
	}
}

// parseTerm parses a word or a condition, with an optional leading -.
func parseTerm(s string) (c condition, rest string, err error) {
	term, not := strings.CutPrefix(s, "-")
	if term == "" || term[0] == ' ' {
		return parseWord(s)
	}
	n := strings.IndexFunc(term, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
	if n > 0 && strings.IndexByte("=!~<>", term[n]) >= 0 {
		c, rest, err = parseCondition(term, n)
	} else {
		c, rest, err = parseWord(term)
	}
	if err == nil && not {
		err = c.negate()
	}
	return c, rest, err
}

// negate inverts c.
func (c *condition) negate() error {
	switch c.op {
	case opLess, opMore:
		return fmt.Errorf("field %s: want no - before a condition with < or >", c.name)
	}
	c.op ^= 1 // operators and their opposites are neighbors
	return nil
}

func parseWord(s string) (c condition, rest string, err error) {
	word, rest, err := parseFilterValue(s)
	switch {
	case err != nil:
	case word == "":
		err = errors.New("want a text between the quotes")
	case s[0] != '"' && strings.ContainsAny(word, "=~<>"):
		err = fmt.Errorf("%q: want a field's name and an operator, or a text in double quotes", word)
	}
	return condition{name: wordField, op: opWord, value: []byte(strings.ToLower(word))}, rest, err
}

// parseCondition parses a condition on a field whose name has n bytes.
func parseCondition(s string, n int) (c condition, rest string, err error) {
	c.name, s = s[:n], s[n:]
	switch {
	case strings.HasPrefix(s, "!="), strings.HasPrefix(s, "!~"):
		n = 2
	default:
		n = 1
	}
	found := false
	for op, text := range operators {
		if s[:min(n, len(s))] == text {
			c.op, found = operator(op), true
		}
	}
	if !found {
		return c, "", fmt.Errorf("field %s: want one of = != ~ !~ < > behind it", c.name)
	}
	value, rest, err := parseFilterValue(s[n:])
	if err != nil {
		return c, "", fmt.Errorf("field %s: %w", c.name, err)
	}
	c.value = []byte(value)
	if c.name == digestField {
		c.value = bytes.ToLower(c.value)
	}
	if c.op == opLess || c.op == opMore {
		if c.number, err = parseQuantity(value); err != nil {
			return c, "", fmt.Errorf("field %s: %w", c.name, err)
		}
	}
	return c, rest, nil
}

// parseFilterValue parses a value up to the next space, or a quoted one.
func parseFilterValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, " ")
		return value, rest, nil
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", fmt.Errorf("value %s: no closing quote", s)
	}
	rest = s[len(quoted):]
	if rest != "" && rest[0] != ' ' {
		return "", "", fmt.Errorf("value %s: want a space after it", quoted)
	}
	value, err = strconv.Unquote(quoted)
	return value, rest, err
}

// parseQuantity parses a number, or a duration as nanoseconds.
func parseQuantity(s string) (float64, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return v, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a number nor a duration", s)
	}
	return float64(d), nil
}

// String returns f in the form that ParseFilter accepts.
func (f Filter) String() string {
	var b []byte
	for i, c := range f.conditions {
		if i > 0 {
			b = append(b, ' ')
		}
		if c.op == opWord || c.op == opNoWord {
			b = c.appendWord(b)
			continue
		}
		b = append(b, c.name...)
		b = append(b, operators[c.op]...)
		if n := plainLen(c.value); n == len(c.value) && !bytes.ContainsRune(c.value, ' ') {
			b = append(b, c.value...)
		} else {
			b = strconv.AppendQuote(b, string(c.value))
		}
	}
	return string(b)
}

// appendWord appends a word in the form that parseTerm accepts.
func (c *condition) appendWord(b []byte) []byte {
	if c.op == opNoWord {
		b = append(b, '-')
	}
	if c.value[0] != '-' && plainLen(c.value) == len(c.value) && !bytes.ContainsAny(c.value, " =!~<>") {
		return append(b, c.value...)
	}
	return strconv.AppendQuote(b, string(c.value))
}

// Empty reports whether f passes everything.
func (f Filter) Empty() bool { return len(f.conditions) == 0 }

// Names reports whether f has a condition on a field.
func (f Filter) Names(field string) bool {
	return slices.ContainsFunc(f.conditions, func(c condition) bool { return c.name == field })
}

// Select returns the conditions of f on the fields that keep accepts.
func (f Filter) Select(keep func(field string) bool) Filter {
	var some Filter
	for _, c := range f.conditions {
		if keep(c.name) {
			some.conditions = append(some.conditions, c)
		}
	}
	return some
}

// CheckRecord returns an error that names a field of f that a Record does not offer to filters: a condition
// on it would compare nothing.
func (f Filter) CheckRecord() error { return f.CheckFields(kindStatement, RecordFields()) }

// CheckFields is CheckRecord for entries of another kind with these fields.
func (f Filter) CheckFields(kind string, fields []string) error {
	for _, c := range f.conditions {
		switch {
		case slices.Contains(fields, c.name):
		case c.op == opWord || c.op == opNoWord:
			return fmt.Errorf("filter: %ss have no text to look for %q in: want a field, an operator and a value; the fields are %s", kind, c.value, strings.Join(fields, ", "))
		default:
			return fmt.Errorf("filter: unknown field %s%s: the fields of %ss are %s; a text with %s in it is put in double quotes",
				c.name, spelling.Suggest(c.name, fields), kind, strings.Join(fields, ", "), operators[c.op])
		}
	}
	return nil
}

// A Value is a field's value in a filter.
type Value struct {
	Text   []byte
	Number float64
	IsText bool // Text is valid, otherwise Number
}

// BytesValue returns a text as a Value, which is a view of b.
func BytesValue(b []byte) Value { return Value{Text: b, IsText: true} }

// StringValue returns a text as a Value.
func StringValue(s string) Value { return BytesValue(view(s)) }

// Filterable is implemented by an Entry that filters can test before it is formatted. Other entries have no
// fields for a filter.
type Filterable interface {
	// FieldValue returns the value of the named field, and the zero Value if the entry has no such field.
	FieldValue(name string) Value
}

// passEntry reports whether e meets all conditions. It does not allocate.
func (f *Filter) passEntry(e Entry) bool {
	fields, _ := e.(Filterable)
	return f.Match(fields)
}

// Match reports whether of meets all conditions; nil has no fields. It does not allocate.
func (f *Filter) Match(of Filterable) bool {
	for i := range f.conditions {
		c := &f.conditions[i]
		var v Value
		if of != nil {
			v = of.FieldValue(c.name)
		}
		if !c.matches(v) {
			return false
		}
	}
	return true
}

// matches reports whether v meets c.
func (c *condition) matches(v Value) bool {
	switch c.op {
	case opLess:
		return v.number() < c.number
	case opMore:
		return v.number() > c.number
	}
	var digits [24]byte
	text := v.Text
	if !v.IsText && v.Number != 0 {
		text = strconv.AppendFloat(digits[:0], v.Number, 'f', -1, 64)
	}
	switch c.op {
	case opWord, opNoWord:
		return containsFold(text, c.value) == (c.op == opWord)
	case opEqual, opNotEqual:
		if c.name == digestField {
			return (len(c.value) > 0 && bytes.HasPrefix(text, c.value) || len(text)+len(c.value) == 0) == (c.op == opEqual)
		}
		absent := len(text) == 0 && string(c.value) == "0"
		return (absent || bytes.Equal(text, c.value)) == (c.op == opEqual)
	case opContains:
		return bytes.Contains(text, c.value)
	}
	return !bytes.Contains(text, c.value)
}

// containsFold reports whether text contains word, which is in lower case, ignoring case.
func containsFold(text, word []byte) bool {
	for i := 0; i < len(text); {
		if hasPrefixFold(text[i:], word) {
			return true
		}
		_, n := utf8.DecodeRune(text[i:])
		i += n
	}
	return false
}

func hasPrefixFold(text, word []byte) bool {
	for len(word) > 0 {
		if len(text) == 0 {
			return false
		}
		r, n := utf8.DecodeRune(text)
		w, m := utf8.DecodeRune(word)
		if r != w && unicode.ToLower(r) != w {
			return false
		}
		text, word = text[n:], word[m:]
	}
	return true
}

// number returns v as a number; 0 if it is not one.
func (v Value) number() float64 {
	if !v.IsText {
		return v.Number
	}
	n, err := strconv.ParseFloat(string(v.Text), 64)
	if err != nil {
		return 0
	}
	return n
}
