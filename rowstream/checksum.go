package rowstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// A Checksum sums up rows in any order. Equal rows have equal sums; different ones have equal
// sums once in 2^64.
//
// A row's sum is the first 8 bytes of the SHA-256 of its values' text, with lengths and a list of the
// NULLs, so that no two rows have the same text. Sums are joined by XOR. A CRC-32 would not do:
// XOR over a linear code does not see that two rows have exchanged their values.
type Checksum struct {
	Rows int64
	Sum  uint64
}

func (c Checksum) String() string { return fmt.Sprintf("%d rows, %016x", c.Rows, c.Sum) }

// A RowSum is the sum of one row.
type RowSum struct {
	Key mysqlwire.TextRow
	Sum uint64
}

// SumOptions say which rows of a chunk are summed up, and which of their values.
type SumOptions struct {
	Where   string // SQL over the table's columns; empty: all rows
	Plan    *Plan  // whose conditions must hold; its output does not matter; nil: all rows
	Columns []int  // of the table, in the order in which they are summed up: those behind its Columns are of Generated
}

// SumChunk sums up the rows of a chunk by r: in the server where SQL can say the conditions, otherwise by
// reading the rows.
func SumChunk(ctx context.Context, r ViewReader, t *Table, c Chunk, o SumOptions) (Checksum, error) {
	if o.inSQL() {
		return r.SumChunk(ctx, t, c, o)
	}
	var sum Checksum
	for row, err := range SumRead(ctx, r, t, c, o) {
		if err != nil {
			return sum, err
		}
		sum.Rows++
		sum.Sum ^= row.Sum
	}
	return sum, nil
}

// SumRows returns the keys and sums of a chunk's rows, like a ViewReader's.
func SumRows(ctx context.Context, r ViewReader, t *Table, c Chunk, o SumOptions) iter.Seq2[RowSum, error] {
	if o.inSQL() {
		return r.SumRows(ctx, t, c, o)
	}
	return SumRead(ctx, r, t, c, o)
}

// inSQL reports whether SQL can say all of the conditions.
func (o *SumOptions) inSQL() bool {
	if o.Plan == nil {
		return true
	}
	for i := range o.Plan.Where {
		if o.Plan.Where[i].Shard.Count == 0 {
			return false
		}
	}
	return o.Plan.Match == nil
}

// where is the condition on a table's rows, in SQL. The caller has asked inSQL.
func (o *SumOptions) where(t *Table) string {
	var all []string
	if o.Where != "" {
		all = append(all, "("+o.Where+")")
	}
	if o.Plan != nil {
		for _, c := range o.Plan.Where {
			all = append(all, fmt.Sprintf("COALESCE(CRC32(%s), 0) %% %d = %d", t.Columns[c.Column].ReadExpr(), c.Shard.Count, c.Shard.Index-1))
		}
	}
	return strings.Join(all, " AND ")
}

// SumChunk implements ViewReader over the reader's connection, within its view.
func (r *reader) SumChunk(ctx context.Context, t *Table, c Chunk, o SumOptions) (Checksum, error) {
	return SumChunkOf(ctx, r.s.clients[r.worker], t, c, o)
}

// SumRows implements ViewReader over the reader's connection, within its view.
func (r *reader) SumRows(ctx context.Context, t *Table, c Chunk, o SumOptions) iter.Seq2[RowSum, error] {
	return SumRowsOf(ctx, r.s.clients[r.worker], t, c, o)
}

// SumChunkOf is a ViewReader's SumChunk over a connection with the Session settings.
func SumChunkOf(ctx context.Context, c *mysqlconn.Client, t *Table, chunk Chunk, o SumOptions) (sum Checksum, err error) {
	conditions, err := t.conditions(chunk, o.where(t))
	if err != nil {
		return Checksum{}, err
	}
	sql := "SELECT COUNT(*), COALESCE(BIT_XOR(CAST(" + t.sumExpr(o.Columns) + " AS UNSIGNED)), 0) FROM " + t.SQLName() + t.forceIndex() + conditions
	_, err = c.Query(ctx, sql, func(row mysqlwire.TextRow) (err error) {
		if sum.Rows, err = strconv.ParseInt(string(row[0]), 10, 64); err == nil {
			sum.Sum, err = strconv.ParseUint(string(row[1]), 10, 64)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("sum up chunk %d of %s: %w", chunk.Number, t.FullName(), err)
	}
	return sum, err
}

// SumRowsOf is a ViewReader's SumRows over a connection with the Session settings.
func SumRowsOf(ctx context.Context, c *mysqlconn.Client, t *Table, chunk Chunk, o SumOptions) iter.Seq2[RowSum, error] {
	return func(yield func(RowSum, error) bool) {
		conditions, err := t.conditions(chunk, o.where(t))
		if err == nil {
			sql := "SELECT " + t.sumExpr(o.Columns) + ", " + t.keyExprs() + " FROM " + t.SQLName() + t.forceIndex() + conditions + " ORDER BY " + t.keyOrder()
			_, err = c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
				sum, err := strconv.ParseUint(string(row[0]), 10, 64)
				if err == nil && !yield(RowSum{row[1:], sum}, nil) {
					err = errLoopLeft
				}
				return err
			})
		}
		if err != nil && !errors.Is(err, errLoopLeft) {
			yield(RowSum{}, fmt.Errorf("sum up the rows of chunk %d of %s: %w", chunk.Number, t.FullName(), err))
		}
	}
}

// errLoopLeft ends a query whose rows are no longer wanted.
var errLoopLeft = errors.New("the loop over the rows has ended")

// CheckSums finds out whether a server can sum up rows: where one has no SHA-256, its sums are
// NULL, which all rows would have in common. (MySQL's MD5 and SHA1 are gone since 9.6.)
func CheckSums(ctx context.Context, c *mysqlconn.Client) error {
	got, err := QueryValue(ctx, c, "SELECT SHA2('', 256)")
	if err == nil && got != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		err = fmt.Errorf("it says that the SHA-256 of nothing is %q", got)
	}
	if err != nil {
		return fmt.Errorf("find out whether the server can sum up rows: %w", err)
	}
	return nil
}

// sumExpr is a row's sum as decimal text.
func (t *Table) sumExpr(columns []int) string {
	var nulls, parts []string
	for _, i := range columns {
		c := t.columnOf(i)
		if c.Nullable {
			nulls = append(nulls, "ISNULL("+Ident(c.Name)+")")
		}
		switch c.sumForm() {
		case sumDigest:
			parts = append(parts, "SHA2("+Ident(c.Name)+", 256)")
		case sumMeasured:
			parts = append(parts, "LENGTH("+Ident(c.Name)+")", "CAST("+Ident(c.Name)+" AS BINARY)")
		case sumDouble:
			parts = append(parts, doubleParts(Ident(c.Name))...)
		default:
			parts = append(parts, c.keyExpr())
		}
	}
	if len(nulls) > 0 {
		parts = append([]string{"CONCAT(" + strings.Join(nulls, ", ") + ")"}, parts...)
	}
	return "CONV(LEFT(SHA2(CONCAT_WS(',', " + strings.Join(parts, ", ") + "), 256), 16), 16, 10)"
}

// Numbers below 1 are multiplied by a power of two for their sum, which changes none of their
// bits: those down to sumTiny by 2^64, others by 2^1000 and 2^74.
const (
	sumTiny                               = 1e-17
	sumScale, sumTinyScale, sumTinyScale2 = 0x1p64, 0x1p1000, 0x1p74
)

// doubleParts are what of a double or float comes into the text of a row's sum: its sign, also of
// 0, which MariaDB writes into no text; whether it was multiplied; and its text as a number of 1
// or more. Of others servers write other texts, and MySQL rounds those in CONCAT that pass 22
// bytes.
func doubleParts(name string) []string {
	sized := "ABS(" + name + "*1e0)"
	return []string{
		name + " < 0 OR " + name + " = 0 AND ATAN2(0e0, " + name + ") > 1",
		"(" + sized + " < 1) + (" + sized + " <= 1e-17)",
		"IF(" + sized + " < 1, IF(" + sized + " <= 1e-17, " + sized + "*1.0715086071862673e301*1.888946593147858e22, " + sized + "*18446744073709551616e0), " + sized + ")",
	}
}

// A sumForm is how a value comes into the text that a row's sum is made of. NULL does not: the
// list of the NULLs tells.
type sumForm uint8

const (
	sumText     sumForm = iota // its text, which never holds a comma
	sumDouble                  // see doubleParts
	sumMeasured                // its length and its bytes
	sumDigest                  // the SHA-256 of its bytes: with them, the row's text could pass max_allowed_packet
)

func (c *Column) sumForm() sumForm {
	switch c.kind() {
	case kindText, kindBinary:
		switch c.Type {
		case "char", "varchar", "binary", "varbinary":
			return sumMeasured
		}
		return sumDigest
	case kindJSON:
		return sumDigest
	case kindFloat:
		return sumDouble
	case kindNumber:
		if c.Type == "double" {
			return sumDouble
		}
	}
	return sumText
}
