package rowstream

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Plan selects rows of a stream and transforms their columns. It applies to rows that are read and to rows
// of events: conditions that only SQL can evaluate are pushed down into the statement that reads, and are not
// part of it.
//
// The zero value passes every row unchanged.
type Plan struct {
	Where  []Condition // all must be true
	Match  *Predicate  // must be true too; nil: always
	Output []Output    // nil keeps all columns in order
}

// A Condition is a test on one column.
type Condition struct {
	Column int // of the input, from 0

	// Shard, unless its Count is 0, selects the rows of one shard. Otherwise the column must be equal to
	// Equal by Compare.
	Shard Shard

	// Lookup, unless nil, selects the rows whose value it assigns to the shard Number, from 0, instead. A value that it does not
	// have is an error.
	Lookup *Lookup
	Number int

	Equal   []byte // nil is NULL, which only equals NULL
	Compare Comparison
}

// An Output is one column of the resulting rows.
type Output struct {
	From   Origin
	Column int    // of the input, from 0, unless From is FixedValue
	Value  []byte // for FixedValue; nil is NULL
}

// An Origin is the source of an output column's value.
type Origin uint8

// The origins of output columns.
const (
	ColumnValue Origin = iota // a column's value, unchanged
	FixedValue                // the same value in each row
	ShardValue                // the shard key of a column, as a decimal number; see ShardKey
)

// A Filter applies a plan to rows and reuses its memory. It must not be used concurrently.
type Filter struct {
	plan    *Plan
	columns int
	err     error             // the first value without a shard
	input   mysqlwire.TextRow // the current row of AppendBatch
	row     mysqlwire.TextRow
	keys    []byte // text of the shard keys of the current row
}

// NewFilter returns a filter for rows of the given number of columns. A column number out of range is an
// error.
func NewFilter(p *Plan, columns int) (*Filter, error) {
	for i, c := range p.Where {
		if err := inRange("condition", i, c.Column, columns); err != nil {
			return nil, err
		}
		if c.Shard.Count != 0 && (c.Shard.Index < 1 || c.Shard.Index > c.Shard.Count) {
			return nil, fmt.Errorf("condition %d: there is no shard %v", i, c.Shard)
		}
	}
	if p.Match != nil {
		if err := p.Match.check(columns, 0); err != nil {
			return nil, err
		}
	}
	if p.Output != nil && len(p.Output) == 0 {
		return nil, errors.New("an output of no columns: leave it out to keep all")
	}
	keys := 0
	for i, o := range p.Output {
		if o.From == FixedValue {
			continue
		}
		if err := inRange("output", i, o.Column, columns); err != nil {
			return nil, err
		}
		if o.From == ShardValue {
			keys++
		}
	}
	return &Filter{plan: p, columns: columns, keys: make([]byte, 0, keys*len("4294967295"))}, nil
}

func inRange(what string, i, column, columns int) error {
	if column < 0 || column >= columns {
		return fmt.Errorf("%s %d: column number %d is out of range: the rows have %d columns, from 0", what, i, column, columns)
	}
	return nil
}

// Columns returns the number of columns of the resulting rows.
func (f *Filter) Columns() int {
	if f.plan.Output == nil {
		return f.columns
	}
	return len(f.plan.Output)
}

// Apply reports whether a row passes, and returns its resulting values: views of the row, the plan and the
// filter, valid until the next call. The row must have the number of columns passed to NewFilter. It does not
// allocate.
func (f *Filter) Apply(row mysqlwire.TextRow) (mysqlwire.TextRow, bool) {
	for i := range f.plan.Where {
		c := &f.plan.Where[i]
		if c.Lookup != nil {
			if !f.looksUp(c, row[c.Column]) {
				return nil, false
			}
			continue
		}
		if !c.matches(row[c.Column]) {
			return nil, false
		}
	}
	if f.plan.Match != nil && f.plan.Match.eval(row) != yes {
		return nil, false
	}
	if f.plan.Output == nil {
		return row, true
	}
	out, keys := slices.Grow(f.row[:0], len(f.plan.Output)), f.keys[:0]
	for i := range f.plan.Output {
		o := &f.plan.Output[i]
		switch o.From {
		case FixedValue:
			out = append(out, o.Value)
		case ShardValue:
			from := len(keys)
			keys = strconv.AppendUint(keys, uint64(ShardKey(row[o.Column])), 10)
			out = append(out, keys[from:len(keys):len(keys)])
		default:
			out = append(out, row[o.Column])
		}
	}
	f.row = out
	return out, true
}

// AppendBatch appends the results for the rows of in that pass to out. Its error is Err or a batchError. It does not allocate if out has
// enough capacity.
func (f *Filter) AppendBatch(out, in *Batch) (err error) {
	for at := 0; at < len(in.Bytes); {
		if at, err = in.Row(at, &f.input); err != nil {
			return err
		}
		if row, ok := f.Apply(f.input); ok {
			out.AppendRow(row)
		} else if err := f.Err(); err != nil {
			return err
		}
	}
	return nil
}

// looksUp reports whether the lookup assigns a value to the condition's shard, and records an error if it does not have the value.
func (f *Filter) looksUp(c *Condition, v []byte) bool {
	shard, known := c.Lookup.Shard(v)
	if !known && f.err == nil {
		f.err = &LookupError{Table: c.Lookup.Name, Value: shown(v)}
	}
	return known && shard == c.Number
}

// Err returns a LookupError if a row had a value without a shard. It is to be checked for rows that did not pass.
func (f *Filter) Err() error { return f.err }

// LooksUp reports whether a condition has a Lookup, which another process does not have.
func (p *Plan) LooksUp() bool {
	return p != nil && slices.ContainsFunc(p.Where, func(c Condition) bool { return c.Lookup != nil })
}

func (c *Condition) matches(v []byte) bool {
	if c.Shard.Count != 0 {
		return c.Shard.Has(v)
	}
	if v == nil || c.Equal == nil {
		return v == nil && c.Equal == nil
	}
	return c.Compare.Equal(v, c.Equal)
}
