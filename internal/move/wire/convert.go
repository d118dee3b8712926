package wire

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/rowstream"
)

// Conversions between tables, chunks, plans and messages. A received message is untrusted: one that these
// functions could not have produced is an error.

// tableMessage returns the complete description of a table.
func tableMessage(t *rowstream.Table) *rowpb.Table {
	m := &rowpb.Table{
		Schema: t.Schema, Name: t.Name, KeyName: t.KeyName, Create: t.Create, Engine: t.Engine,
		Triggers: t.Triggers, RowsEstimate: t.RowsEstimate, BytesEstimate: t.BytesEstimate, Descending: t.Descending,
	}
	m.Columns, m.Generated = columnMessages(t.Columns), columnMessages(t.Generated)
	for _, k := range t.Key {
		m.Key = append(m.Key, int32(k))
	}
	return m
}

func columnMessages(columns []rowstream.Column) (all []*rowpb.Column) {
	for i := range columns {
		c := &columns[i]
		all = append(all, &rowpb.Column{
			Name: c.Name, Type: c.Type, FullType: c.FullType, Charset: c.Charset, Collation: c.Collation,
			Nullable: c.Nullable, IsUnsigned: c.Unsigned, Invisible: c.Invisible, AutoIncrement: c.Auto,
			Expression: c.Expression, Stored: c.Stored,
		})
	}
	return all
}

func describedColumns(messages []*rowpb.Column, generated bool) (all []rowstream.Column) {
	for _, c := range messages {
		all = append(all, rowstream.Column{
			Name: c.GetName(), Type: c.GetType(), FullType: c.GetFullType(), Charset: c.GetCharset(), Collation: c.GetCollation(),
			Nullable: c.GetNullable(), Unsigned: c.GetIsUnsigned(), Invisible: c.GetInvisible(), Auto: c.GetAutoIncrement(),
			Generated: generated, Expression: c.GetExpression(), Stored: c.GetStored(),
		})
	}
	return all
}

// tableName returns a table with only its name.
func tableName(t *rowstream.Table) *rowpb.Table { return &rowpb.Table{Schema: t.Schema, Name: t.Name} }

// tableOf returns the table of a message.
func tableOf(m *rowpb.Table) (*rowstream.Table, error) {
	t := &rowstream.Table{
		Schema: m.GetSchema(), Name: m.GetName(), KeyName: m.GetKeyName(), Create: m.GetCreate(), Engine: m.GetEngine(),
		Triggers: m.GetTriggers(), RowsEstimate: m.GetRowsEstimate(), BytesEstimate: m.GetBytesEstimate(),
	}
	t.Columns, t.Generated = describedColumns(m.GetColumns(), false), describedColumns(m.GetGenerated(), true)
	for i := range t.Columns {
		if err := t.Columns[i].Known(); err != nil {
			return nil, err
		}
	}
	for _, k := range m.GetKey() {
		if k < 0 || int(k) >= len(t.Columns) {
			return nil, fmt.Errorf("column number %d of the key is out of range: the table has %d columns, from 0", k, len(t.Columns))
		}
		t.Key = append(t.Key, int(k))
	}
	if t.Descending = m.GetDescending(); len(t.Descending) != 0 && len(t.Descending) != len(t.Key) {
		return nil, fmt.Errorf("directions of %d columns for the %d columns of the key", len(t.Descending), len(t.Key))
	}
	return t, nil
}

func chunkMessage(c rowstream.Chunk) *rowpb.Chunk {
	return &rowpb.Chunk{Number: int64(c.Number), After: rowstream.EncodeKey(c.After), Upto: rowstream.EncodeKey(c.Upto)}
}

// chunkOf returns the chunk of a message, for a key with this number of columns.
func chunkOf(m *rowpb.Chunk, keyColumns int) (c rowstream.Chunk, err error) {
	c.Number = int(m.GetNumber())
	if c.Number < 0 {
		return rowstream.Chunk{}, fmt.Errorf("there is no chunk %d", c.Number)
	}
	if c.After, err = rowstream.DecodeKey(m.GetAfter(), keyColumns); err != nil {
		return rowstream.Chunk{}, fmt.Errorf("start of chunk %d: %w", c.Number, err)
	}
	if c.Upto, err = rowstream.DecodeKey(m.GetUpto(), keyColumns); err != nil {
		return rowstream.Chunk{}, fmt.Errorf("end of chunk %d: %w", c.Number, err)
	}
	return c, nil
}

// planMessage returns a plan without its Match, which the caller refuses.
func planMessage(p *rowstream.Plan) *rowpb.Plan {
	if p == nil {
		return nil
	}
	m := &rowpb.Plan{}
	for i := range p.Where {
		c := &p.Where[i]
		m.Where = append(m.Where, &rowpb.Condition{
			Column: int32(c.Column), ShardIndex: int32(c.Shard.Index), ShardCount: int32(c.Shard.Count),
			Equal: bytes.Clone(c.Equal), Compare: uint32(c.Compare),
		})
	}
	for i := range p.Output {
		o := &p.Output[i]
		m.Output = append(m.Output, &rowpb.Output{From: uint32(o.From), Column: int32(o.Column), Value: bytes.Clone(o.Value)})
	}
	return m
}

// termsOf returns the terms of a predicate, each before its arguments: nested messages could be deeper than a
// stack permits.
func termsOf(p *rowstream.Predicate, terms []*rowpb.Term) []*rowpb.Term {
	if p == nil {
		return terms
	}
	m := &rowpb.Term{Op: uint32(p.Op), Args: uint32(len(p.Args)), Column: int32(p.Column), Compare: uint32(p.Compare)}
	for _, v := range p.Values {
		m.Values = append(m.Values, &rowpb.Value{Bytes: bytes.Clone(v)})
	}
	terms = append(terms, m)
	for i := range p.Args {
		terms = termsOf(&p.Args[i], terms)
	}
	return terms
}

// predicateOf returns the predicate of terms, nil if there are none. NewFilter validates it.
func predicateOf(terms []*rowpb.Term) (*rowstream.Predicate, error) {
	if len(terms) == 0 {
		return nil, nil
	}
	p := &rowstream.Predicate{}
	rest, err := readPredicate(p, terms, 0)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("a condition with %d terms too many", len(rest))
	}
	return p, err
}

var errTermMissing = errors.New("a condition that lacks terms")

// readPredicate reads a predicate from the front of terms and returns the rest.
func readPredicate(p *rowstream.Predicate, terms []*rowpb.Term, depth int) (rest []*rowpb.Term, err error) {
	switch {
	case len(terms) == 0:
		return nil, errTermMissing
	case depth > rowstream.MaxPredicateDepth:
		return nil, fmt.Errorf("the condition is nested deeper than %d", rowstream.MaxPredicateDepth)
	}
	m := terms[0]
	terms = terms[1:]
	switch {
	case m.GetOp() == 0 || m.GetOp() > uint32(rowstream.NullSafeEqual):
		return nil, fmt.Errorf("there is no operator %d", m.GetOp())
	case m.GetCompare() > uint32(rowstream.Temporal):
		return nil, fmt.Errorf("there is no comparison %d", m.GetCompare())
	case int64(m.GetArgs()) > int64(len(terms)):
		return nil, errTermMissing
	}
	p.Op, p.Column, p.Compare = rowstream.Operator(m.GetOp()), int(m.GetColumn()), rowstream.Comparison(m.GetCompare())
	for _, v := range m.GetValues() {
		p.Values = append(p.Values, v.GetBytes())
	}
	for i := range m.GetArgs() {
		p.Args = append(p.Args, rowstream.Predicate{}) // append as they are read: the number claimed by a term is untrusted
		if terms, err = readPredicate(&p.Args[i], terms, depth+1); err != nil {
			return nil, err
		}
	}
	return terms, nil
}

// planOf returns the plan of a message. NewFilter validates column numbers.
func planOf(m *rowpb.Plan) (*rowstream.Plan, error) {
	if m == nil {
		return nil, nil
	}
	p := &rowstream.Plan{}
	for i, c := range m.GetWhere() {
		if c.GetCompare() > uint32(rowstream.Temporal) {
			return nil, fmt.Errorf("condition %d: there is no comparison %d", i, c.GetCompare())
		}
		p.Where = append(p.Where, rowstream.Condition{
			Column: int(c.GetColumn()), Shard: rowstream.Shard{Index: int(c.GetShardIndex()), Count: int(c.GetShardCount())},
			Equal: c.GetEqual(), Compare: rowstream.Comparison(c.GetCompare()),
		})
	}
	for i, o := range m.GetOutput() {
		if o.GetFrom() > uint32(rowstream.ShardValue) {
			return nil, fmt.Errorf("output %d: there is no origin %d", i, o.GetFrom())
		}
		p.Output = append(p.Output, rowstream.Output{From: rowstream.Origin(o.GetFrom()), Column: int(o.GetColumn()), Value: o.GetValue()})
	}
	return p, nil
}
