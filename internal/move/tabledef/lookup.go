package tabledef

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Lookup selects the rows of one shard by a lookup table of the source, which has two columns: a value, and the number of its shard, from
// 0. It is read at the start of a run. Values may be added to it while rows are copied: a run that finds a row with a new value reads it
// again. No value may be removed or assigned to another shard, since its rows may be copied already.
//
// Values are compared byte by byte: the columns are integers, or have the same type and character set.
type Lookup struct {
	Column        string // of the copied table
	Schema, Table string // the lookup table
	Number, Count int    // the shard, from 0, and the number of shards

	values *rowstream.Lookup // nil until it is loaded
	column rowstream.Column  // of the values
}

// MaxLookupBytes bounds the values of a lookup table, with a few bytes for each: they are in memory, and recorded in each target.
const MaxLookupBytes = 4 << 20

// lookupOverhead is charged for each value.
const lookupOverhead = 4

// splitByLookup adds the conditions of a lookup table.
func splitByLookup(specs []*Spec, column, clause, name string) error {
	schema, table, err := rowstream.ParseTable(strings.TrimSpace(name))
	if err != nil {
		return fmt.Errorf("%q: lookup(column, schema.table) names the table that assigns values to targets: %w", clause, err)
	}
	for i, s := range specs {
		s.Lookup = &Lookup{Column: column, Schema: schema, Table: table, Number: i, Count: len(specs)}
	}
	return nil
}

// Source returns the name of the lookup table for messages.
func (l *Lookup) Source() string { return l.Schema + "." + l.Table }

// Values returns what Load has read.
func (l *Lookup) Values() *rowstream.Lookup { return l.values }

// Load reads the lookup table for the following run. c has the settings of session.Connect.
func (l *Lookup) Load(ctx context.Context, c *mysqlconn.Client) (err error) {
	l.values, l.column, err = l.read(ctx, c)
	return err
}

func (l *Lookup) read(ctx context.Context, c *mysqlconn.Client) (values *rowstream.Lookup, column rowstream.Column, err error) {
	t, err := rowstream.ReadTable(ctx, c, l.Schema, l.Table)
	if err == nil && (len(t.Columns) != 2 || !integer(&t.Columns[1])) {
		err = fmt.Errorf("it has the columns %s: a lookup table has two, a value and the number of its shard (an integer, from 0)", strings.Join(columnNames(t), ", "))
	}
	if err != nil {
		return nil, column, fmt.Errorf("read the lookup table %s: %w", l.Source(), err)
	}
	values = &rowstream.Lookup{Name: l.Source()}
	_, err = c.Query(ctx, "SELECT "+t.Columns[0].ReadExpr()+", "+t.Columns[1].ReadExpr()+" FROM "+t.SQLName(), func(row mysqlwire.TextRow) error {
		shard, err := strconv.Atoi(string(row[1]))
		if row[1] == nil || err != nil || shard < 0 || shard >= l.Count {
			return fmt.Errorf("it assigns %.100q to the shard %s: there are the shards 0 to %d, in the order of option to-shard", row[0], orNull(row[1]), l.Count-1)
		}
		if values.Bytes()+lookupOverhead*values.Len()+len(row[0]) > MaxLookupBytes {
			return fmt.Errorf("its values have more than the %d bytes that are supported: %d values were read; use hash or range", MaxLookupBytes, values.Len())
		}
		return values.Add(row[0], shard)
	})
	if err == nil && values.Len() == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, column, fmt.Errorf("read the lookup table %s: %w", l.Source(), err)
	}
	return values, t.Columns[0], nil
}

// Check reads the lookup table again. It returns an error if a value that was loaded is missing there, or is assigned to another shard.
func (l *Lookup) Check(ctx context.Context, c *mysqlconn.Client) error {
	now, _, err := l.read(ctx, c)
	if err != nil {
		return err
	}
	return l.contains(now, l.values)
}

// ErrLookupChanged is the cause of the error for a lookup table that no longer assigns a value to the same shard.
var ErrLookupChanged = errors.New("rows may be in another shard")

// contains returns an error unless now has all values of before, assigned to the same shards.
func (l *Lookup) contains(now, before *rowstream.Lookup) (err error) {
	before.Each(func(value []byte, shard int) bool {
		other, known := now.Shard(value)
		switch {
		case !known:
			err = fmt.Errorf("the lookup table %s no longer has the value %s, whose rows were copied to shard %d: add it again, or copy the tables again with option restart: %w", l.Source(), orNull(value), shard, ErrLookupChanged)
		case other != shard:
			err = fmt.Errorf("the lookup table %s assigns the value %s to shard %d, and rows were copied when it was shard %d: change it back, or copy the tables again with option restart: %w",
				l.Source(), orNull(value), other, shard, ErrLookupChanged)
		}
		return err == nil
	})
	return err
}

// Extends returns an error unless the loaded values contain those of an earlier run, in the form of Record.
func (l *Lookup) Extends(recorded []byte) error {
	before := &rowstream.Lookup{Name: l.Source()}
	for len(recorded) > 0 {
		head, n := binary.Uvarint(recorded)
		shard, m := binary.Uvarint(recorded[max(n, 0):])
		if n <= 0 || m <= 0 || head > uint64(len(recorded)) || shard >= uint64(l.Count) || head > 0 && uint64(len(recorded)-n-m) < head-1 {
			return fmt.Errorf("the recorded values of the lookup table %s are damaged", l.Source())
		}
		recorded = recorded[n+m:]
		var value []byte // NULL if head is 0
		if head > 0 {
			value = recorded[: head-1 : head-1]
			recorded = recorded[head-1:]
		}
		if err := before.Add(value, int(shard)); err != nil {
			return err
		}
	}
	return l.contains(l.values, before)
}

// Record returns the loaded values, sorted: for each its length plus 1, or 0 for NULL, the shard and the value.
func (l *Lookup) Record() []byte {
	var all []string
	l.values.Each(func(value []byte, shard int) bool {
		var b []byte
		if value == nil {
			b = binary.AppendUvarint(b, 0)
		} else {
			b = binary.AppendUvarint(b, uint64(len(value))+1)
		}
		all = append(all, string(append(binary.AppendUvarint(b, uint64(shard)), value...)))
		return true
	})
	slices.Sort(all)
	return []byte(strings.Join(all, ""))
}

// matches returns an error unless the values can be compared with those of a column.
func (l *Lookup) matches(c *rowstream.Column) error {
	switch {
	case l.values == nil:
		return fmt.Errorf("the lookup table %s is not loaded", l.Source())
	case integer(c) && integer(&l.column):
		return nil
	case exact(c) && c.Type == l.column.Type && c.Charset == l.column.Charset && (c.Type != "binary" || c.FullType == l.column.FullType):
		return nil
	}
	return fmt.Errorf("column %s is %s, and the values of the lookup table %s are %s: both are to be integers without ZEROFILL, or CHAR, VARCHAR, BINARY, VARBINARY or DATE of the same type and character set",
		c.Name, typeText(c), l.Source(), typeText(&l.column))
}

func typeText(c *rowstream.Column) string {
	if c.Charset == "" {
		return c.FullType
	}
	return c.FullType + " CHARACTER SET " + c.Charset
}

func integer(c *rowstream.Column) bool {
	return slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "bigint"}, c.Type) && !strings.Contains(c.FullType, "zerofill")
}

func exact(c *rowstream.Column) bool {
	return slices.Contains([]string{"char", "varchar", "binary", "varbinary", "date"}, c.Type)
}

func columnNames(t *rowstream.Table) (names []string) {
	for i := range t.Columns {
		names = append(names, t.Columns[i].Name)
	}
	return names
}

func orNull(v []byte) string {
	if v == nil {
		return "NULL"
	}
	return fmt.Sprintf("%.100q", v)
}
