package rowstream

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Predicate is a condition over a row with SQL's three truth values: a comparison with NULL is unknown, and
// a row for which the predicate is unknown does not pass. It is a tree of plain values; NewFilter validates
// it.
type Predicate struct {
	Op Operator

	Args []Predicate // of And and Or, any number; of Not, one

	// Column and Compare apply to the other operators: the column, from 0, and the order in which its values
	// are compared.
	Column  int
	Compare Comparison

	// Values are the operands for the column: one value; two for Between, low and high; any number for In;
	// none for IsNull. A nil entry is NULL.
	Values [][]byte
}

// An Operator is the operator of a Predicate.
type Operator uint8

// The operators. IS NOT NULL, NOT BETWEEN and NOT IN are Not around the positive form.
const (
	And Operator = iota + 1
	Or
	Not
	Equal
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	Between
	In
	IsNull
	NullSafeEqual // <=>
)

// MaxPredicateDepth bounds the nesting of a predicate, because a plan may come from another process.
const MaxPredicateDepth = 200

// check returns an error if a predicate over rows with this number of columns is invalid.
func (p *Predicate) check(columns, depth int) error {
	if depth > MaxPredicateDepth {
		return fmt.Errorf("the condition is nested deeper than %d", MaxPredicateDepth)
	}
	switch p.Op {
	case And, Or, Not:
		if p.Op == Not && len(p.Args) != 1 {
			return fmt.Errorf("a NOT of %d conditions", len(p.Args))
		}
		for i := range p.Args {
			if err := p.Args[i].check(columns, depth+1); err != nil {
				return err
			}
		}
		return nil
	case IsNull, In:
	case Between:
		if len(p.Values) != 2 {
			return fmt.Errorf("a BETWEEN of %d values", len(p.Values))
		}
	case Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual, NullSafeEqual:
		if len(p.Values) != 1 {
			return fmt.Errorf("a comparison with %d values", len(p.Values))
		}
	default:
		return fmt.Errorf("there is no operator %d", p.Op)
	}
	if err := inRange("condition", depth, p.Column, columns); err != nil {
		return err
	}
	for _, v := range p.Values {
		if err := p.Compare.checkValue(v); err != nil {
			return err
		}
	}
	return nil
}

// A truth is a truth value of SQL.
type truth uint8

const (
	no truth = iota
	unknown
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// eval returns the truth value of the predicate for a row. It does not allocate.
func (p *Predicate) eval(row mysqlwire.TextRow) truth {
	switch p.Op {
	case And:
		t := yes
		for i := range p.Args {
			if t = min(t, p.Args[i].eval(row)); t == no {
				break
			}
		}
		return t
	case Or:
		t := no
		for i := range p.Args {
			if t = max(t, p.Args[i].eval(row)); t == yes {
				break
			}
		}
		return t
	case Not:
		return yes - p.Args[0].eval(row)
	}
	v := row[p.Column]
	switch p.Op {
	case IsNull:
		return truthOf(v == nil)
	case NullSafeEqual:
		if v == nil || p.Values[0] == nil {
			return truthOf(v == nil && p.Values[0] == nil)
		}
		return p.relate(Equal, v, p.Values[0])
	case Between:
		return min(p.relate(GreaterOrEqual, v, p.Values[0]), p.relate(LessOrEqual, v, p.Values[1]))
	case In:
		t := no
		for _, w := range p.Values {
			if t = max(t, p.relate(Equal, v, w)); t == yes {
				break
			}
		}
		return t
	}
	return p.relate(p.Op, v, p.Values[0])
}

// relate returns the truth value of a comparison of two values.
func (p *Predicate) relate(op Operator, v, w []byte) truth {
	if v == nil || w == nil {
		return unknown
	}
	c, ok := p.Compare.order(v, w)
	if !ok {
		return unknown
	}
	switch op {
	case Equal:
		return truthOf(c == 0)
	case NotEqual:
		return truthOf(c != 0)
	case Less:
		return truthOf(c < 0)
	case LessOrEqual:
		return truthOf(c <= 0)
	case Greater:
		return truthOf(c > 0)
	}
	return truthOf(c >= 0)
}

var errNotTemporal = errors.New("is no date or time of the form 2006-01-02, 2006-01-02 15:04:05 or 15:04:05, with up to six digits of fractions")

// checkValue returns an error if a constant of a predicate is invalid.
func (c Comparison) checkValue(v []byte) error {
	if v == nil {
		return nil
	}
	ok, err := true, errors.New("is not a number")
	switch c {
	case Number:
		_, ok = parseDecimal(v)
	case Double:
		_, ok = parseDouble(v)
	case Temporal:
		_, ok = parseTemporal(v)
		err = errNotTemporal
	}
	if !ok {
		return fmt.Errorf("the value %q of a condition %w", v, err)
	}
	return nil
}

// order compares two values; ok is false if one of them is invalid for the comparison.
func (c Comparison) order(a, b []byte) (order int, ok bool) {
	switch c {
	case Number:
		x, okX := parseDecimal(a)
		y, okY := parseDecimal(b)
		if okX && okY {
			return x.compare(y), true
		}
		return orderDoubles(a, b)
	case Double:
		return orderDoubles(a, b)
	case Temporal:
		x, okX := parseTemporal(a)
		y, okY := parseTemporal(b)
		return cmp.Compare(x, y), okX && okY
	case Padded:
		return comparePadded(a, b), true
	}
	return bytes.Compare(a, b), true
}
